//! The part of a request's walk that only nodes have: which of them answers?

use super::{Gateway, Peer, RequestBody};
use crate::headers::names;
use crate::request;
use crate::service::Service;
use bytes::Bytes;
use http::Response;
use http::request::Parts;
use http_body_util::Full;
use std::pin::pin;
use std::time::Duration;

/// Where a request is answered.
pub(super) enum Placed {
    /// By this node, which has this slice.
    Here(RequestBody, u32),
    /// It is answered.
    Answered(Response<Full<Bytes>>),
}

impl<S: Service> Gateway<S> {
    /// Whether this server is one of several.
    pub(super) fn is_node(&self) -> bool {
        self.settings.front.is_some() || self.settings.slices.is_some()
    }

    /// Finds who answers, and has another node do it if that is the one. A panic is answered too.
    pub(super) async fn placed(&self, peer: Peer, parts: &Parts, body: RequestBody) -> Placed {
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
