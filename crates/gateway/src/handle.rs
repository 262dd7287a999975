//! One HTTP request, from its parts to its response.
//!
//! The order is fixed: route (404), credentials (401, 403), headers (400), method (405), permission
//! (403), body (413, 408), then the service. A panic anywhere in it is a defect of this server; it
//! is caught here, logged with the activity id, and answered with 500.

mod body;

use crate::account_document::{self, AccountSettings, Arrival};
use crate::activity::ActivityIds;
use crate::auth::{Access, Authenticator, Denied, Presented, Principal};
use crate::cors::CorsPolicy;
use crate::headers::{RequestContext, names};
use crate::limits::Limits;
use crate::reply::Reply;
use crate::routes::{Operation, Route, Segments};
use crate::service::{Call, Service};
use armilla_model::clock::Clock;
use armilla_model::{Error, Result};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

/// What the gateway is told by configuration.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The account document.
    pub account: AccountSettings,
    /// Browsers.
    pub cors: CorsPolicy,
    /// The certificate that `/_explorer/emulator.pem` hands out.
    pub certificate_pem: Option<String>,
    /// `/metrics` answers other machines too.
    pub public_metrics: bool,
    /// Sizes and times.
    pub limits: Limits,
}

/// Everything that requests share.
pub struct Gateway<S> {
    /// Who does the work.
    pub service: S,
    /// Configuration.
    pub settings: Settings,
    /// Who may ask. Shared with a service that issues resource tokens.
    pub authenticator: Arc<Authenticator>,
    /// Time, handed in.
    pub clock: Arc<dyn Clock>,
    /// Ids for requests that bring none.
    pub activity_ids: ActivityIds,
}

/// The connection a request came by.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// The server's end.
    pub local_address: SocketAddr,
    /// The client's end.
    pub remote_address: SocketAddr,
    /// The connection is TLS.
    pub is_secure: bool,
}

impl Peer {
    fn is_loopback(&self) -> bool {
        // An IPv6 socket shows an IPv4 client in mapped form.
        self.remote_address.ip().to_canonical().is_loopback()
            && self.local_address.ip().to_canonical().is_loopback()
    }
}

impl<S: Service> Gateway<S> {
    /// Answers one request, whatever it is.
    pub async fn handle(&self, peer: Peer, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let started = Instant::now();
        let (parts, body) = request.into_parts();
        if parts.method == Method::OPTIONS {
            return self.preflight(&parts);
        }
        let (context, headers_outcome) = RequestContext::read(&parts.headers);
        let activity_id = context.activity_id.cloned().unwrap_or_else(|| self.activity_ids.next());
        let origin = context.origin;
        let exchange = Exchange { gateway: self, peer, parts: &parts, context, headers_outcome };
        let reply = caught(exchange.answer(body), &activity_id).await;
        let mut response = reply.finish(&parts.method, activity_id, started.elapsed());
        if let Some(origin) = origin {
            self.settings.cors.decorate(origin, response.headers_mut());
        }
        response
    }

    fn preflight(&self, parts: &Parts) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::NO_CONTENT;
        self.settings.cors.preflight(&parts.headers, response.headers_mut());
        response
    }
}

/// Runs a request to its end; a panic becomes an answer.
async fn caught(answer: impl Future<Output = Reply>, activity_id: &HeaderValue) -> Reply {
    let mut answer = pin!(answer);
    let outcome = poll_fn(|context| {
        // What a panic leaves half done is dropped with the future; shared state below the service
        // guards itself (a panic during commit ends the process).
        match catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(context))) {
            Ok(poll) => poll.map(Some),
            Err(_) => std::task::Poll::Ready(None),
        }
    })
    .await;
    outcome.unwrap_or_else(|| {
        tracing::error!(activity_id = ?activity_id, "a request panicked");
        Reply::error(Error::Internal("The server met a defect of its own.".to_owned()))
    })
}

/// A request with what is known of it so far.
struct Exchange<'a, S> {
    gateway: &'a Gateway<S>,
    peer: Peer,
    parts: &'a Parts,
    context: RequestContext<'a>,
    headers_outcome: Result<()>,
}

/// The path of a request. No resource takes a query string, and some clients send a question mark
/// inside an id as it is: it belongs to the id.
fn path_of(uri: &http::Uri) -> &str {
    match uri.path_and_query() {
        Some(whole) if uri.path().contains("/docs/") => whole.as_str(),
        _ => uri.path(),
    }
}

impl<S: Service> Exchange<'_, S> {
    async fn answer(self, body: Incoming) -> Reply {
        let segments = match Segments::parse(path_of(&self.parts.uri)) {
            Ok(segments) => segments,
            Err(error) => return self.without_body(error.into(), body).await,
        };
        match self.admit(&segments) {
            Ok((operation, principal)) => self.serve(operation, &principal, body).await,
            Err(reply) => self.without_body(*reply, body).await,
        }
    }

    /// Lets a body pass by before an answer that does not need it: closing on a client that is
    /// still sending would lose the answer.
    async fn without_body(&self, reply: Reply, body: Incoming) -> Reply {
        body::discard(body, &self.gateway.settings.limits, self.context.expects_continue).await;
        reply
    }

    /// Everything that can be said before the body is read: an operation and who asks for it, or
    /// an answer right away.
    fn admit<'a>(
        &self,
        segments: &'a Segments<'_>,
    ) -> Result<(Operation<'a>, Principal), Box<Reply>> {
        let refused = |error: Error| Box::new(Reply::error(error));
        let route = Route::find(segments).ok_or_else(|| refused(no_resource(segments)))?;
        if let Some(reply) = self.answer_open(route) {
            return Err(Box::new(reply));
        }
        let authenticated = match route {
            // Where the published key is good for everything, nobody needs to sign for a dial.
            Route::Dials(_) if self.is_local() && self.gateway.authenticator.trusts_loopback() => {
                Ok(Principal::Account(Access::ReadWrite))
            }
            _ => self.authenticate(segments),
        };
        let principal = authenticated.map_err(|Denied { error, substatus }| {
            let reply = Reply::error(error);
            Box::new(match substatus {
                Some(substatus) => reply.substatus(substatus),
                None => reply,
            })
        })?;
        if route == Route::Account && self.is_reading() {
            return Err(Box::new(self.answer_account()));
        }
        let operation = self.prepare(route, &principal).map_err(refused)?;
        Ok((operation, principal))
    }

    /// Paths that need no credentials.
    fn answer_open(&self, route: Route<'_>) -> Option<Reply> {
        if !self.is_reading() {
            return None;
        }
        match route {
            Route::Alive | Route::Ready => Some(Reply::other(StatusCode::OK, "OK", TEXT_PLAIN)),
            Route::ClientConfigs => Some(Reply::ok(account_document::CLIENT_CONFIGS)),
            // Clients replace the text of a 404 by their own; that of a 400 reaches their users.
            Route::Addresses => {
                Some(Error::bad_request(account_document::DIRECT_MODE_ADVICE).into())
            }
            Route::Certificate => Some(self.answer_certificate()),
            Route::Metrics => Some(self.answer_metrics()),
            _ => None,
        }
    }

    /// Names of containers are nobody else's business unless the operator says so.
    fn answer_metrics(&self) -> Reply {
        let allowed = self.gateway.settings.public_metrics || self.is_local();
        match self.gateway.service.metrics().filter(|_| allowed) {
            Some(text) => Reply::other(StatusCode::OK, text, OPEN_METRICS),
            None => Error::NotFound("No resource has this path.".to_owned()).into(),
        }
    }

    /// The request comes from this machine, with no proxy and no web page in between.
    fn is_local(&self) -> bool {
        self.peer.is_loopback() && !self.context.forwarded && self.context.origin.is_none()
    }

    fn answer_certificate(&self) -> Reply {
        match &self.gateway.settings.certificate_pem {
            Some(pem) => Reply::other(StatusCode::OK, pem.clone(), PEM_FILE),
            None => Error::NotFound("This server has no certificate of its own.".to_owned()).into(),
        }
    }

    fn answer_account(&self) -> Reply {
        let arrival = Arrival {
            authority: self.parts.uri.authority().map(http::uri::Authority::as_str),
            is_secure: self.peer.is_secure,
            local_address: self.peer.local_address,
        };
        let settings = &self.gateway.settings.account;
        // Java parses both without looking whether they are there.
        Reply::ok(account_document::write(settings, &self.context, arrival))
            .header(names::MEDIA_STORAGE_MAX, HeaderValue::from_static("0"))
            .header(names::MEDIA_STORAGE, HeaderValue::from_static("0"))
    }

    fn authenticate(&self, segments: &Segments<'_>) -> Result<Principal, Denied> {
        let presented = Presented {
            method: &self.parts.method,
            segments,
            context: &self.context,
            is_loopback: self.peer.is_loopback() && !self.context.forwarded,
        };
        self.gateway.authenticator.authenticate(&presented, self.gateway.clock.now_seconds())
    }

    /// Headers (400), method (405) and permission (403), in this order.
    fn prepare<'a>(&self, route: Route<'a>, principal: &Principal) -> Result<Operation<'a>> {
        self.headers_outcome.clone()?;
        let operation = Operation::find(route, &self.parts.method, self.context.intent)?;
        principal.check(&operation, &self.context)?;
        Ok(operation)
    }

    async fn serve(self, operation: Operation<'_>, principal: &Principal, body: Incoming) -> Reply {
        let limits = &self.gateway.settings.limits;
        let body = match body::read(body, limits, self.context.expects_continue).await {
            Ok(body) => body,
            Err(error) => return error.into(),
        };
        let call = Call { operation, context: self.context, principal, body };
        self.gateway.service.call(call).await
    }

    fn is_reading(&self) -> bool {
        matches!(self.parts.method, Method::GET | Method::HEAD)
    }
}

/// A path below `offers` that is no offer's is a malformed request, as clients expect; of any other
/// it can only be said that nothing is there.
fn no_resource(segments: &Segments<'_>) -> Error {
    match segments.texts().first() {
        Some(&"offers") => Error::bad_request("The path names no offer: use /offers/{rid}."),
        _ => Error::NotFound("No resource has this path.".to_owned()),
    }
}

const TEXT_PLAIN: HeaderValue = HeaderValue::from_static("text/plain");
const OPEN_METRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
const PEM_FILE: HeaderValue = HeaderValue::from_static("application/x-pem-file");
