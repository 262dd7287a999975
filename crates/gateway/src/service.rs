//! The seam between protocol and work: what the gateway asks of whoever serves operations.

use crate::auth::{Principal, Standing};
use crate::headers::RequestContext;
use crate::reply::Reply;
use crate::routes::Operation;
use bytes::Bytes;
use std::future::Future;

/// One request, authenticated and typed. Everything but the body borrows from the request.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// What is asked for.
    pub operation: Operation<'a>,
    /// What the headers say.
    pub context: RequestContext<'a>,
    /// Who asks. The gateway has already refused what the credentials do not allow.
    pub principal: &'a Principal,
    /// The body, whole; empty when there is none.
    pub body: Bytes,
}

/// Serves operations.
///
/// An implementation writes `async fn call(&self, call: Call<'_>) -> Reply`. The future runs on
/// the connection's task and is dropped when the client goes away; a panic inside is answered with
/// 500. Whatever blocks must be handed to a pool by the implementation. Resource tokens are held against
/// what it says as [`Standing`].
pub trait Service: Standing + Send + Sync + 'static {
    /// Answers one request.
    fn call(&self, call: Call<'_>) -> impl Future<Output = Reply> + Send;

    /// The text of `/metrics`; nothing when nobody counts.
    fn metrics(&self) -> Option<String> {
        None
    }
}
