//! The part of a request's walk that only nodes have: which of them answers?

use super::at_owner::not_owner;
use super::{Gateway, Peer, RequestBody};
use crate::cluster::{FROM, Front};
use crate::headers::names;
use crate::request;
use crate::service::Service;
use armilla_model::Error;
use bytes::Bytes;
use http::Response;
use http::request::Parts;
use http_body_util::Full;
use std::borrow::Cow;
use std::pin::pin;
use std::time::Duration;
use tokio::time::Instant;

/// What is known of a request before its walk begins.
pub(super) struct Arrived<'a> {
    pub(super) started: std::time::Instant,
    /// The name it was sent to, where that is another's.
    pub(super) foreign: Option<Cow<'a, str>>,
    pub(super) misdirected: Option<Error>,
    /// The parts of all slices that a page is to be put together of.
    pub(super) gathered: &'a [Bytes],
}

/// Where a request is answered.
pub(super) enum Placed {
    /// By this node, which has this slice.
    Here(RequestBody, u32),
    /// It is answered.
    Answered(Response<Full<Bytes>>),
}

/// Goes with an answer that this node makes of a request which another one has to answer, because it has just given the account or the slice up. Nothing
/// was done; the body is here.
#[derive(Clone)]
pub(super) struct Elsewhere(pub(super) Bytes);

/// Whether another node has to be asked.
pub(super) fn is_elsewhere(response: &Response<Full<Bytes>>) -> bool {
    response.extensions().get::<Elsewhere>().is_some()
}

impl<S: Service> Gateway<S> {
    /// Answers a request that came to a node, here or elsewhere.
    pub(super) async fn handle_at_node(
        &self,
        peer: Peer,
        parts: &Parts,
        mut body: RequestBody,
        started: std::time::Instant,
    ) -> Response<Full<Bytes>> {
        let deadline = Front::deadline();
        loop {
            let (given, slice) = match self.placed(peer, parts, body).await {
                Placed::Here(body, slice) => (body, slice),
                Placed::Answered(response) => return response,
            };
            let foreign = self.settings.host_names.foreign(parts);
            let arrived = Arrived { started, foreign, misdirected: None, gathered: &[] };
            let mut response = Box::pin(self.walk(peer, parts, (given, slice), arrived)).await;
            let Some(Elsewhere(kept)) = response.extensions_mut().remove() else { return response };
            // The node that passed it on holds it, and knows then that it was not done.
            if parts.headers.contains_key(FROM) {
                return not_owner(self, parts);
            }
            if Instant::now() >= deadline {
                return response;
            }
            if let Some(front) = &self.settings.front {
                front.left().await;
            }
            body = RequestBody::Whole(kept);
        }
    }

    /// Whether this server is one of several.
    pub(super) fn is_node(&self) -> bool {
        self.settings.front.is_some() || self.settings.slices.is_some()
    }

    /// Finds who answers, and has another node do it if that is the one. A panic is answered too.
    async fn placed(&self, peer: Peer, parts: &Parts, body: RequestBody) -> Placed {
        let given = parts.headers.get(names::ACTIVITY_ID).cloned();
        let activity_id = given.unwrap_or_else(|| self.activity_ids.next());
        let placing = pin!(self.place(peer, parts, body));
        request::caught_as(placing, activity_id.as_bytes()).await.unwrap_or_else(|defect| {
            let mut response = defect.into_http(&parts.method, &activity_id, Duration::ZERO);
            self.settings.cors.decorate(parts, response.headers_mut());
            Placed::Answered(response)
        })
    }

    async fn place(&self, peer: Peer, parts: &Parts, body: RequestBody) -> Placed {
        match (&self.settings.slices, &self.settings.front) {
            (Some(slices), _) => self.by_slice(slices, peer, parts, body).await,
            (None, Some(front)) => self.at_owner(front, peer, parts, body).await,
            (None, None) => Placed::Here(body, 0),
        }
    }
}
