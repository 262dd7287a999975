//! Requests that every slice answers for its own part: how a subscription is doing, what lets it rest and go on, and the ranges of a container.
//!
//! Each slice delivers the changes that it has, and keeps how far it has come.

use super::{Gateway, Routed, come_back, invalid_token};
use crate::cluster::slices::SliceFronts;
use crate::headers::names;
use crate::service::Service;
use armilla_model::value::{Object, Value};
use armilla_model::{Error, Result, json};
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, ETAG, IF_NONE_MATCH};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};

/// The member that has the ranges.
const RANGES: &str = "PartitionKeyRanges";
/// States of a subscription, the one that tells most first.
const STATES: [&str; 4] = ["stopped", "retrying", "paused", "running"];

impl<S: Service> Gateway<S> {
    /// Asks one slice after the other. Statuses are put together; else the answer is that of all of them, or the first that is no success.
    pub(super) async fn ask_each(
        &self,
        slices: &SliceFronts,
        routed: &Routed<'_>,
    ) -> Result<Response<Full<Bytes>>> {
        let (mut parts, mut last) = (Vec::new(), None);
        for slice in 0..slices.count() {
            let answer = self.ask(slices, routed, slice, routed.parts.clone()).await;
            let response = match turned(routed, (slice, slices.count()), answer)? {
                response if response.status().is_success() => response,
                refusal => return Ok(refusal),
            };
            let (head, body) = response.into_parts();
            let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
            if head.status == StatusCode::OK {
                let part = json::parse(&body);
                parts.push(part.map_err(|error| Error::Internal(error.to_string()))?);
            }
            last = Some((head, body));
        }
        let Some((mut head, body)) = last else { return Err(come_back()) };
        if parts.is_empty() {
            return Ok(Response::from_parts(head, Full::new(body)));
        }
        head.headers.remove(CONTENT_LENGTH);
        let mut body = Vec::new();
        joined(&parts).write_json(&mut body);
        Ok(Response::from_parts(head, Full::new(body.into())))
    }

    /// The ranges of all slices, in the order of their keys, or 304 when there is no news.
    pub(super) async fn ask_for_ranges(
        &self,
        slices: &SliceFronts,
        routed: &Routed<'_>,
    ) -> Result<Response<Full<Bytes>>> {
        let mut parts = routed.parts.clone();
        let known = parts.headers.remove(IF_NONE_MATCH);
        let mut ranges = Vec::new();
        let mut etags = String::new();
        let mut last = None;
        for slice in 0..slices.count() {
            let response = self.ask(slices, routed, slice, parts.clone()).await?;
            if response.status() != StatusCode::OK {
                return Ok(response);
            }
            let (head, body) = response.into_parts();
            let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
            let feed = json::parse(&body).map_err(|error| Error::Internal(error.to_string()))?;
            let page = feed.get(RANGES).and_then(Value::as_array).unwrap_or_default();
            ranges.extend(page.iter().cloned());
            let etag = head.headers.get(ETAG).and_then(|etag| etag.to_str().ok());
            etags.push_str(etag.unwrap_or_default().trim_matches('"'));
            etags.push('.');
            last = Some((head, feed));
        }
        let Some((mut head, feed)) = last else { return Err(come_back()) };
        let etag = HeaderValue::from_str(&format!("\"{etags}\"")).map_err(|_| invalid_token())?;
        let is_known = known.is_some_and(|known| known == etag);
        head.headers.insert(ETAG, etag);
        head.headers.remove(CONTENT_LENGTH);
        if is_known {
            head.status = StatusCode::NOT_MODIFIED;
            return Ok(Response::from_parts(head, Full::default()));
        }
        let mut feed = feed.as_object().cloned().unwrap_or_default();
        feed.insert("_count", i64::try_from(ranges.len()).unwrap_or(i64::MAX).into());
        head.headers.insert(names::ITEM_COUNT, HeaderValue::from(ranges.len()));
        feed.insert(RANGES, Value::array(ranges));
        let mut body = Vec::new();
        feed.write_json(&mut body);
        Ok(Response::from_parts(head, Full::new(body.into())))
    }
}

/// What a slice has answered to a request that slices do one after the other. If it has not done what others before it have, or nobody knows, the client is
/// told that: a refusal would say that nothing was done.
pub(in crate::handle) fn turned(
    routed: &Routed<'_>,
    (slice, count): (u32, u32),
    answer: Result<Response<Full<Bytes>>>,
) -> Result<Response<Full<Bytes>>> {
    let is_done = answer.as_ref().is_ok_and(|response| response.status().is_success());
    if slice == 0 || routed.is_read || is_done {
        return answer;
    }
    let reason = match &answer {
        Ok(refusal) => format!("it answered {}", refusal.status().as_u16()),
        Err(error) => error.message().to_owned(),
    };
    Err(Error::Timeout(format!(
        "The first {slice} of the {count} slices of the account have done this. Slice {slice} has not, or nobody knows ({reason}). Repeat the request until it is answered."
    )))
}

/// The status of a subscription, of those that slices tell: ranges one after the other, counts added up, the last error of all, and the state that tells most.
fn joined(parts: &[Value]) -> Object {
    let rank = |part: &Value| {
        let state = part.get("state").and_then(Value::as_str).unwrap_or_default();
        STATES.iter().position(|known| *known == state).unwrap_or(STATES.len())
    };
    let telling = parts.iter().min_by_key(|part| rank(part));
    let mut status = telling.and_then(Value::as_object).cloned().unwrap_or_default();
    let names: Vec<_> = status.iter().map(|(name, _)| name.clone()).collect();
    for name in names.iter().filter(|name| !matches!(&***name, "state" | "since" | "reason")) {
        let found = || parts.iter().filter_map(|part| part.get(name));
        if found().all(|value| value.as_i64().is_some()) {
            status.insert(name.clone(), found().filter_map(Value::as_i64).sum::<i64>().into());
        } else if found().all(|value| value.as_array().is_some()) {
            let all = found().filter_map(Value::as_array).flatten().cloned();
            status.insert(name.clone(), Value::array(all.collect()));
        }
    }
    let time = |error: &&Value| error.get("time").and_then(Value::as_i64);
    let errors = parts.iter().filter_map(|part| part.get("lastError"));
    if let Some(error) = errors.max_by_key(time) {
        status.insert("lastError", error.clone());
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_of_slices_are_one_status() {
        let part = |text: &str| json::parse(text.as_bytes()).unwrap();
        let parts = [
            part(
                r#"{"state":"running","since":3,"ranges":[{"id":"0"}],"delivered":2,"skipped":0}"#,
            ),
            part(
                r#"{"state":"stopped","since":9,"reason":"exhausted","ranges":[{"id":"1"},{"id":"3"}],
                    "delivered":5,"skipped":1,"lastError":{"time":4,"message":"a"}}"#,
            ),
            part(
                r#"{"state":"retrying","since":3,"ranges":[],"delivered":1,"skipped":0,"lastError":{"time":7,"message":"b"}}"#,
            ),
        ];
        let expected = part(
            r#"{"state":"stopped","since":9,"reason":"exhausted","ranges":[{"id":"0"},{"id":"1"},{"id":"3"}],
                "delivered":8,"skipped":1,"lastError":{"time":7,"message":"b"}}"#,
        );
        assert_eq!(Value::object(joined(&parts)), expected);
    }
}
