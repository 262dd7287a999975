//! What a node of an account in slices asks all slices for, beside [queries](super::gathered): the change feed of a whole container, what a container
//! holds, and dials.

use super::Gateway;
use super::by_slice::{Routed, turned};
use super::gathered::{Asking, all};
use crate::cluster::front::come_back;
use crate::cluster::slices::SliceFronts;
use crate::headers::names;
use crate::service::Service;
use armilla_model::value::Value;
use armilla_model::{Error, Result, json};
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use std::time::{Duration, SystemTime};

/// The members of a container's usage that are sums over all slices.
const SUMMED: [&str; 3] = ["documentsSize", "documentsCount", "collectionSize"];
/// The member that has the statistics of partitions.
const STATISTICS: &str = "statistics";

/// The last second that a date in a header can say: the end of the year 9999.
const SECOND_MAX: u64 = 253_402_300_799;

impl<S: Service> Gateway<S> {
    /// A page of the change feed over all slices: of the first one that has changes. Those that were read go to the end, so that a busy one does not hold
    /// up the others.
    pub(super) async fn feed_slices(
        &self,
        slices: &SliceFronts,
        routed: &Routed<'_>,
        since: Option<u64>,
    ) -> Result<Response<Full<Bytes>>> {
        let known = text_of(&routed.parts.headers, &IF_NONE_MATCH);
        let known = known.map(|known| known.trim().trim_matches('"').to_owned());
        let begins_now = known.as_deref() == Some("*");
        let mut places = match known.as_deref() {
            Some("*") => FeedPlaces::all(slices.count(), &FeedPlace::Now),
            Some(text) => FeedPlaces::read(text, slices.count())?,
            None => FeedPlaces::all(
                slices.count(),
                &since.map_or(FeedPlace::Beginning, FeedPlace::Since),
            ),
        };
        let (mut charge, mut last) = (0.0, None);
        for _ in 0..slices.count() {
            let (slice, place) = places.0.remove(0);
            let mut parts = routed.parts.clone();
            place.write_into(&mut parts.headers)?;
            let response = self.ask(slices, routed, slice, parts).await?;
            if !matches!(response.status(), StatusCode::OK | StatusCode::NOT_MODIFIED) {
                return Ok(response);
            }
            charge += charge_of(&response);
            let etag = text_of(response.headers(), &ETAG).unwrap_or_default();
            places.0.push((slice, FeedPlace::After(etag.trim_matches('"').to_owned())));
            let is_page = response.status() == StatusCode::OK;
            last = Some(response);
            // Where the others begin must be known too, if that is now.
            if is_page && !begins_now {
                break;
            }
        }
        let mut response = last.ok_or_else(come_back)?;
        let headers = response.headers_mut();
        headers.insert(ETAG, value(&format!("\"{}\"", places.write()))?);
        headers.insert(names::REQUEST_CHARGE, value(&rounded(charge))?);
        Ok(response)
    }

    /// A container, with what it holds in all slices where that is asked for.
    pub(super) async fn read_in_slices(
        &self,
        slices: &SliceFronts,
        routed: &Routed<'_>,
    ) -> Result<Response<Full<Bytes>>> {
        let ask = |slice| -> Asking<'_, _> {
            Box::pin(self.ask(slices, routed, slice, routed.parts.clone()))
        };
        let mut answers = all((0..slices.count()).map(ask).collect()).await.into_iter();
        let (mut head, body) = answers.next().ok_or_else(come_back)??.into_parts();
        if head.status != StatusCode::OK {
            return Ok(Response::from_parts(head, body));
        }
        let mut usages = vec![text_of(&head.headers, &names::RESOURCE_USAGE)];
        let mut read = json_of(body).await?;
        let mut statistics = members_of(&read, STATISTICS);
        for answer in answers {
            let (other, body) = answer?.into_parts();
            // A slice that does not know the container yet has nothing of it.
            if other.status == StatusCode::OK {
                usages.push(text_of(&other.headers, &names::RESOURCE_USAGE));
                statistics.extend(members_of(&json_of(body).await?, STATISTICS));
            }
        }
        if let Some(usage) = summed(&usages) {
            head.headers.insert(names::RESOURCE_USAGE, value(&usage)?);
        }
        if let Some(object) = read.as_object().filter(|object| object.get(STATISTICS).is_some()) {
            let mut object = object.clone();
            object.insert(STATISTICS, Value::array(statistics));
            read = Value::object(object);
        }
        head.headers.remove(CONTENT_LENGTH);
        Ok(Response::from_parts(head, Full::new(read.to_json().into())))
    }

    /// Has every slice do the same, one after the other; the first that refuses it answers.
    pub(super) async fn turn_in_slices(
        &self,
        slices: &SliceFronts,
        routed: &Routed<'_>,
    ) -> Result<Response<Full<Bytes>>> {
        let mut last = None;
        for slice in 0..slices.count() {
            let answer = self.ask(slices, routed, slice, routed.parts.clone()).await;
            match turned(routed, (slice, slices.count()), answer)? {
                response if response.status().is_success() => last = Some(response),
                refusal => return Ok(refusal),
            }
        }
        last.ok_or_else(come_back)
    }
}

/// Where a reader of the change feed is in one slice.
#[derive(Clone, Debug, PartialEq, Eq)]
enum FeedPlace {
    Beginning,
    Now,
    /// Behind this second.
    Since(u64),
    /// Behind this position, which is the slice's own.
    After(String),
}

impl FeedPlace {
    /// Asks for what lies behind the place.
    fn write_into(&self, headers: &mut HeaderMap) -> Result<()> {
        headers.remove(IF_NONE_MATCH);
        headers.remove(IF_MODIFIED_SINCE);
        match self {
            Self::Beginning => {}
            Self::Now => drop(headers.insert(IF_NONE_MATCH, HeaderValue::from_static("*"))),
            Self::Since(second) => {
                let moment = SystemTime::UNIX_EPOCH + Duration::from_secs(*second);
                headers.insert(IF_MODIFIED_SINCE, value(&httpdate::fmt_http_date(moment))?);
            }
            Self::After(etag) => {
                drop(headers.insert(IF_NONE_MATCH, value(&format!("\"{etag}\""))?))
            }
        }
        Ok(())
    }
}

/// Where a reader is in all slices, in the order in which they are read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FeedPlaces(Vec<(u32, FeedPlace)>);

impl FeedPlaces {
    fn all(count: u32, place: &FeedPlace) -> Self {
        Self((0..count).map(|slice| (slice, place.clone())).collect())
    }

    /// `S` and the slices, each with its place: `S2=17|0|1~1700000000`.
    fn write(&self) -> String {
        let place = |(slice, place): &(u32, FeedPlace)| match place {
            FeedPlace::Beginning | FeedPlace::Now => slice.to_string(),
            FeedPlace::Since(second) => format!("{slice}~{second}"),
            FeedPlace::After(etag) => format!("{slice}={etag}"),
        };
        format!("S{}", self.0.iter().map(place).collect::<Vec<_>>().join("|"))
    }

    /// Reads the places of so many slices, each once.
    fn read(text: &str, count: u32) -> Result<Self> {
        let place = |part: &str| -> Option<(u32, FeedPlace)> {
            if let Some((slice, etag)) = part.split_once('=') {
                return Some((slice.parse().ok()?, FeedPlace::After(etag.to_owned())));
            }
            if let Some((slice, second)) = part.split_once('~') {
                let second = second.parse().ok().filter(|second| *second <= SECOND_MAX)?;
                return Some((slice.parse().ok()?, FeedPlace::Since(second)));
            }
            Some((part.parse().ok()?, FeedPlace::Beginning))
        };
        let places = text.strip_prefix('S').and_then(|list| list.split('|').map(place).collect());
        let places: Option<Vec<(u32, FeedPlace)>> = places;
        let is_whole = |places: &Vec<(u32, FeedPlace)>| {
            let mut named: Vec<u32> = places.iter().map(|(slice, _)| *slice).collect();
            named.sort_unstable();
            named.into_iter().eq(0..count)
        };
        places.filter(is_whole).map(Self).ok_or_else(|| {
            Error::bad_request(format!(
                "'{text}' is not a position in the change feed of a whole container of this account."
            ))
        })
    }
}

/// Usages put together: sizes and counts of items are added up, the rest is the same everywhere.
fn summed(usages: &[Option<String>]) -> Option<String> {
    let number = |usage: &Option<String>, name: &str| -> u64 {
        let parts = usage.as_deref().unwrap_or_default().split(';');
        let found = parts.filter_map(|part| part.split_once('=')).find(|(known, _)| *known == name);
        found.and_then(|(_, number)| number.parse().ok()).unwrap_or(0)
    };
    let first = usages.first()?.as_deref()?;
    let part = |part: &str| match part.split_once('=') {
        Some((name, _)) if SUMMED.contains(&name) => {
            let sum: u64 = usages.iter().map(|usage| number(usage, name)).sum();
            format!("{name}={sum}")
        }
        _ => part.to_owned(),
    };
    Some(first.split(';').map(part).collect::<Vec<_>>().join(";"))
}

fn text_of(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name).and_then(|text| text.to_str().ok()).map(str::to_owned)
}

fn value(text: &str) -> Result<HeaderValue> {
    HeaderValue::from_str(text).map_err(|error| Error::Internal(error.to_string()))
}

async fn json_of(body: Full<Bytes>) -> Result<Value> {
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    json::parse(&body).map_err(|error| Error::Internal(error.to_string()))
}

fn members_of(document: &Value, name: &str) -> Vec<Value> {
    document.get(name).and_then(Value::as_array).unwrap_or_default().to_vec()
}

fn charge_of(response: &Response<Full<Bytes>>) -> f64 {
    let charge = text_of(response.headers(), &names::REQUEST_CHARGE);
    charge.and_then(|charge| charge.parse().ok()).unwrap_or(0.0)
}

/// As charges are written: two decimals at most.
fn rounded(charge: f64) -> String {
    let text = format!("{charge:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_all_slices_read_back() {
        let after = FeedPlace::After("a:1,b=2".to_owned());
        let places = FeedPlaces(vec![
            (2, after),
            (0, FeedPlace::Beginning),
            (1, FeedPlace::Since(1_700_000_000)),
        ]);
        assert_eq!(places.write(), "S2=a:1,b=2|0|1~1700000000");
        assert_eq!(FeedPlaces::read(&places.write(), 3).unwrap(), places);
        let last = FeedPlaces(vec![(0, FeedPlace::Since(SECOND_MAX))]);
        assert_eq!(FeedPlaces::read(&last.write(), 1).unwrap(), last);
        last.0[0].1.write_into(&mut HeaderMap::new()).unwrap();
        for second in [SECOND_MAX + 1, u64::MAX] {
            assert!(FeedPlaces::read(&format!("S0~{second}"), 1).is_err(), "{second}");
        }
        for text in ["", "17", "S", "S0|1", "S0|0|1", "S0|1|3", "S0|1|2|2", "Sx|1|2", "S0|1~x|2"] {
            assert!(FeedPlaces::read(text, 3).is_err(), "{text}");
        }
    }

    #[test]
    fn what_lies_behind_a_place_is_asked_for() {
        let asked = |place: FeedPlace| {
            let mut headers = HeaderMap::new();
            headers.insert(IF_NONE_MATCH, HeaderValue::from_static("x"));
            headers.insert(IF_MODIFIED_SINCE, HeaderValue::from_static("x"));
            place.write_into(&mut headers).unwrap();
            [IF_NONE_MATCH, IF_MODIFIED_SINCE].map(|name| text_of(&headers, &name))
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(asked(FeedPlace::Beginning), [None, None]);
        assert_eq!(asked(FeedPlace::Now), [some("*"), None]);
        assert_eq!(asked(FeedPlace::After("7".to_owned())), [some("\"7\""), None]);
        let second = [None, some("Tue, 14 Nov 2023 22:13:20 GMT")];
        assert_eq!(asked(FeedPlace::Since(1_700_000_000)), second);
    }

    #[test]
    fn usages_are_added_up() {
        let usage = |size: u32, count: u32| {
            Some(format!("documentSize=0;documentsSize={size};documentsCount={count};functions=2;"))
        };
        let sum = "documentSize=0;documentsSize=12;documentsCount=7;functions=2;";
        assert_eq!(summed(&[usage(5, 3), None, usage(7, 4)]).as_deref(), Some(sum));
        assert_eq!(summed(&[None, usage(1, 1)]), None, "nobody asked for it");
        assert_eq!(rounded(3.0), "3");
        assert_eq!(rounded(2.5), "2.5");
        assert_eq!(rounded(1.239), "1.24");
    }
}
