//! Queries over a whole container of an account in slices.
//!
//! Rows that come as items go by come from one slice after the other: a page says which one goes on. Whatever needs all rows (ORDER BY,
//! aggregates, DISTINCT, GROUP BY, queries over such queries) is put together by a node that has a slice: it asks every slice for its part, and its own engine
//! makes the page of them, with the rows, the order, the charge and the continuation that a server alone would answer with. A node without a
//! slice passes the whole query on to the owner of the first ([`GATHER`]).

use super::by_slice::{Routed, Turn, invalid_token};
use super::placed::is_elsewhere;
use super::{Arrived, Gateway, RequestBody};
use crate::cluster::front::come_back;
use crate::cluster::slices::SliceFronts;
use crate::headers::names;
use crate::service::Service;
use armilla_engine::limits::QUERY_MEMORY_MAX;
use armilla_model::{Error, Result};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Response};
use http_body_util::{BodyExt as _, Full};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

/// A query over the whole container that another node has passed on because it has no slice.
pub(super) const GATHER: HeaderName = HeaderName::from_static("x-armilla-gather");
pub(super) const YES: HeaderValue = HeaderValue::from_static("true");

/// Work under way.
pub(super) type Asking<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

impl<S: Service> Gateway<S> {
    /// A page of a query: of one slice, with a continuation that leads through all of them, or of all of them together.
    pub(super) async fn query_slices(
        &self,
        slices: &SliceFronts,
        routed: &Routed<'_>,
        slice: u32,
    ) -> Result<Response<Full<Bytes>>> {
        let Some(own) = (0..).zip(slices.fronts()).find(|(_, front)| front.is_here()) else {
            if routed.parts.headers.contains_key(GATHER) {
                return Err(come_back());
            }
            let mut parts = routed.parts.clone();
            parts.headers.insert(GATHER, YES);
            return self.ask(slices, routed, 0, parts).await;
        };
        let mut parts = routed.parts.clone();
        parts.headers.remove(GATHER);
        parts.headers.insert(names::PART, YES);
        let response = self.ask_in_turn(slices, routed, slice, parts.clone()).await?;
        if !response.headers().contains_key(names::PART) {
            return Ok(response);
        }
        if slice != 0 || given(&parts).is_some_and(|given| Turn::read(given).is_some()) {
            return Err(invalid_token());
        }
        let page = self.gather(slices, routed, (own.0, response), parts).await?;
        if is_elsewhere(&page) {
            // Whoever called asks again.
            own.1.left().await;
        }
        Ok(page)
    }

    /// Asks the other slices for their parts and makes the page of all of them.
    async fn gather(
        &self,
        slices: &SliceFronts,
        routed: &Routed<'_>,
        (own, first): (u32, Response<Full<Bytes>>),
        mut parts: Parts,
    ) -> Result<Response<Full<Bytes>>> {
        let (asked, collected) = (&parts, &AtomicUsize::new(0));
        let ask = |slice| -> Asking<'_, _> {
            Box::pin(async move {
                let response = self.ask(slices, routed, slice, asked.clone()).await?;
                whole(response, collected).await
            })
        };
        let first = whole(first, collected).await;
        let others = all((1..slices.count()).map(ask).collect()).await;
        let (mut gathered, mut sessions) = (Vec::new(), Vec::new());
        for response in std::iter::once(first).chain(others) {
            let (head, body) = response?.into_parts();
            if !head.headers.contains_key(names::PART) {
                // One is throttled, or has another catalog by now.
                return match head.status.is_success() {
                    true => Err(come_back()),
                    false => Ok(Response::from_parts(head, Full::new(body))),
                };
            }
            let session = head.headers.get(names::SESSION_TOKEN);
            sessions.extend(session.map(|session| session.as_bytes().to_vec()));
            gathered.push(body);
        }
        let bytes = collected.load(Ordering::Relaxed);
        let _held = slices.front(0).map(|first| first.hold(bytes)).transpose()?;
        parts.headers.remove(names::PART);
        let foreign = self.settings.host_names.foreign(&parts);
        let arrived =
            Arrived { started: routed.started, foreign, misdirected: None, gathered: &gathered };
        let body = RequestBody::Whole(routed.body.clone());
        let mut response = Box::pin(self.walk(routed.peer, &parts, (body, own), arrived)).await;
        if let Ok(session) = HeaderValue::from_bytes(&sessions.join(&b',')) {
            response.headers_mut().insert(names::SESSION_TOKEN, session);
        }
        Ok(response)
    }
}

/// An answer with its whole body. Parts count together with those that came before: what is too much is let go at once.
async fn whole(
    response: Response<Full<Bytes>>,
    collected: &AtomicUsize,
) -> Result<Response<Bytes>> {
    let (head, body) = response.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let before = match head.headers.contains_key(names::PART) {
        true => collected.fetch_add(body.len(), Ordering::Relaxed),
        false => 0,
    };
    if before + body.len() > QUERY_MEMORY_MAX {
        return Err(Error::bad_request(format!(
            "The query needs more than {QUERY_MEMORY_MAX} bytes of all slices of the account at once. Ask for fewer rows, or filter more."
        )));
    }
    Ok(Response::from_parts(head, body))
}

/// The continuation of a request.
pub(super) fn given(parts: &Parts) -> Option<&str> {
    parts.headers.get(names::CONTINUATION)?.to_str().ok()
}

/// Does several things side by side, and gives their outcomes in their order.
pub(super) async fn all<T: Send>(asking: Vec<Asking<'_, T>>) -> Vec<T> {
    let mut slots: Vec<_> = asking.into_iter().map(|asking| (Some(asking), None)).collect();
    poll_fn(|context| {
        let mut is_done = true;
        for (asking, outcome) in &mut slots {
            if let Some(work) = asking {
                match work.as_mut().poll(context) {
                    Poll::Ready(ready) => (*asking, *outcome) = (None, Some(ready)),
                    Poll::Pending => is_done = false,
                }
            }
        }
        if is_done { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    slots.into_iter().filter_map(|(_, outcome)| outcome).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::task::yield_now;

    #[tokio::test]
    async fn what_is_done_side_by_side_keeps_its_order() {
        let after = |turns: u64| -> Asking<'_, u64> {
            Box::pin(async move {
                for _ in 0..turns {
                    yield_now().await;
                }
                turns
            })
        };
        assert_eq!(all(vec![after(6), after(2), after(4)]).await, [6, 2, 4]);
        assert!(all(Vec::<Asking<'_, ()>>::new()).await.is_empty());
    }

    #[tokio::test]
    async fn parts_beyond_the_memory_of_queries_are_let_go_when_they_come() {
        let part = || {
            let mut response = Response::new(Full::new(Bytes::from_static(b"ab")));
            response.headers_mut().insert(names::PART, YES);
            response
        };
        let collected = AtomicUsize::new(QUERY_MEMORY_MAX - 3);
        let refused = whole(Response::new(Full::new(Bytes::from_static(b"no"))), &collected).await;
        assert_eq!(refused.unwrap().body(), "no", "what is no part is told");
        assert_eq!(whole(part(), &collected).await.unwrap().body(), "ab");
        assert!(whole(part(), &collected).await.is_err());
    }
}
