//! The part of a request's walk that only nodes have: which of them answers?

use super::{Gateway, Peer, RequestBody};
use crate::service::Service;
use bytes::Bytes;
use http::Response;
use http::request::Parts;
use http_body_util::Full;

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

    /// Finds who answers, and has another node do it if that is the one.
    pub(super) async fn placed(&self, peer: Peer, parts: &Parts, body: RequestBody) -> Placed {
        match (&self.settings.slices, &self.settings.front) {
            (Some(slices), _) => self.by_slice(slices, peer, parts, body).await,
            (None, Some(front)) => self.at_owner(front, peer, parts, body).await,
            (None, None) => Placed::Here(body, 0),
        }
    }
}
