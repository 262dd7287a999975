//! One request, whichever wire it came by: from what the wire has read to a [`Reply`].
//!
//! ```text
//! HTTP headers, RNTBD tokens ─► Request ─► route ─► authenticate ─► authorize ─► Call ─► Reply ─► Answer
//!        the wire                                  this file                    service         the wire
//! ```
//!
//! A wire translates, and does no more: it fills a [`RequestContext`], splits the path into
//! [`Segments`], says by which method the request was signed, hands in the body, and writes the
//! [`Answer`](crate::reply::Answer) in its own form. Which operation that is, who may do it and what
//! comes of it is the same for all of them: [`Gateway::answer`]. The order of refusals is fixed: route
//! (404), credentials (401, 403), headers (400), method (405), permission (403).

use crate::auth::{Access, Denied, Presented, Principal};
use crate::handle::Gateway;
use crate::headers::RequestContext;
use crate::locality::Stranger;
use crate::reply::Reply;
use crate::routes::{Operation, Route, Segments};
use crate::service::{Call, Service};
use armilla_model::{Error, Result};
use bytes::Bytes;
use http::Method;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::OnceLock;

/// A request as a wire has read it.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The method, which is part of what was signed. With the path and
    /// [`RequestContext::intent`] it gives the operation.
    pub method: &'a Method,
    /// The path, by names or `_rid`s.
    pub segments: &'a Segments<'a>,
    /// What the headers say.
    pub context: &'a RequestContext<'a>,
    /// The first header that could not be read. A stranger is not told.
    pub readable: Result<()>,
    /// Whether this machine's own user asks, or why not.
    pub locality: Result<(), Stranger>,
    /// When it came, in seconds since 1970.
    pub now_seconds: u64,
    /// Where it is written down what a request's credentials allow once they are found good, and found if that was done before.
    pub proved: Option<&'a OnceLock<Access>>,
}

impl<'a> Request<'a> {
    /// The resource that the path names, or the answer that there is none.
    pub fn route(&self) -> Result<Route<'a>, Box<Reply>> {
        route_of(self.segments)
    }

    /// `GET` or `HEAD`.
    pub fn is_reading(&self) -> bool {
        matches!(*self.method, Method::GET | Method::HEAD)
    }
}

impl<S: Service> Gateway<S> {
    /// Answers a request whose body is there: all that a wire has to call. A panic is answered too.
    pub async fn answer(&self, request: Request<'_>, body: Bytes, activity_id: &[u8]) -> Reply {
        let answer = pin!(async {
            let admitted = request.route().and_then(|route| {
                let principal = self.authenticate(&request)?;
                Ok((self.authorize(&request, route, &principal)?, principal))
            });
            match admitted {
                Ok((operation, principal)) => {
                    let context = request.context;
                    let call = Call { operation, context, principal: &principal, body };
                    self.service.call(call).await
                }
                Err(refusal) => *refusal,
            }
        });
        caught(answer, activity_id).await
    }

    /// Who asks: the credentials, and whether they still stand.
    pub fn authenticate(&self, request: &Request<'_>) -> Result<Principal, Denied> {
        if let Some(access) = request.proved.and_then(OnceLock::get) {
            return Ok(Principal::Account(*access));
        }
        let presented = Presented {
            method: request.method,
            segments: request.segments,
            context: request.context,
            locality: &request.locality,
        };
        let principal = self.authenticator.authenticate(&presented, request.now_seconds)?;
        principal.check_standing(&self.service)?;
        if let (Some(proved), Principal::Account(access)) = (request.proved, &principal) {
            proved.get_or_init(|| *access);
        }
        Ok(principal)
    }

    /// What is asked for, if it may be: headers (400), method (405) and permission (403), in this order.
    pub fn authorize<'r>(
        &self,
        request: &Request<'_>,
        route: Route<'r>,
        principal: &Principal,
    ) -> Result<Operation<'r>, Denied> {
        request.readable.clone()?;
        let operation = Operation::find(route, request.method, request.context.intent)?;
        principal.check(&operation, request.context, &self.service)?;
        Ok(operation)
    }
}

/// The resource that a path names, or the answer that there is none.
pub(crate) fn route_of<'a>(segments: &'a Segments<'a>) -> Result<Route<'a>, Box<Reply>> {
    Route::find(segments).ok_or_else(|| Box::new(Reply::error(no_resource(segments))))
}

/// Runs a request to its end; a panic, which is a defect of this server, is logged with the activity id
/// and becomes an answer. The request stays where it is pinned: it is larger than what it does.
pub(crate) async fn caught(
    answer: Pin<&mut impl Future<Output = Reply>>,
    activity_id: &[u8],
) -> Reply {
    caught_as(answer, activity_id).await.unwrap_or_else(|defect| defect)
}

/// The same for work whose outcome is no answer yet.
pub(crate) async fn caught_as<T>(
    mut work: Pin<&mut impl Future<Output = T>>,
    activity_id: &[u8],
) -> Result<T, Reply> {
    let outcome = poll_fn(|context| {
        // What a panic leaves half done is dropped with the future; shared state below the service
        // guards itself (a panic during commit ends the process).
        match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
            Ok(poll) => poll.map(Some),
            Err(_) => std::task::Poll::Ready(None),
        }
    })
    .await;
    outcome.ok_or_else(|| {
        let activity_id = String::from_utf8_lossy(activity_id);
        tracing::error!(activity_id = &*activity_id, "a request panicked");
        Reply::error(Error::Internal("The request ended in a defect of this server. Its log has the reason under this activity id; \
             reads may be repeated, writes should be read first.".to_owned()))
    })
}

impl From<Denied> for Box<Reply> {
    fn from(Denied { error, substatus }: Denied) -> Self {
        let reply = Reply::error(error);
        Self::new(match substatus {
            Some(substatus) => reply.substatus(substatus),
            None => reply,
        })
    }
}

/// A path below `offers` that is no offer's is a malformed request, as clients expect, and .NET sends transactions over
/// several partition keys (a preview) to one of their own; of any other it can only be said that nothing is there.
fn no_resource(segments: &Segments<'_>) -> Error {
    match segments.texts().get(..segments.len()) {
        Some(["offers", ..]) => Error::bad_request("The path names no offer: use /offers/{rid}."),
        Some(["operations", "dtc"]) => Error::bad_request(
            "Distributed transactions are not supported: a transaction stays inside one partition key. Use a transactional batch.",
        ),
        _ => Error::NotFound("No resource has this path.".to_owned()),
    }
}
