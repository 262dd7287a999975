//! One HTTP request, from its parts to its response.
//!
//! The order is fixed: name of the server (421), route (404), credentials (401, 403), headers (400), method (405), permission
//! (403), body (413, 408), then the service. A panic anywhere in it is a defect of this server; it
//! is caught here, logged with the activity id, and answered with 500.

mod body;

use crate::account_document::{self, AccountSettings, Arrival};
use crate::activity::ActivityIds;
use crate::auth::{Access, Authenticator, Denied, Presented, Principal};
use crate::cors::CorsPolicy;
use crate::headers::{RequestContext, names};
use crate::limits::Limits;
use crate::locality::{HostNames, Stranger, locality};
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
    /// The names under which the server may be asked.
    pub host_names: HostNames,
    /// The certificate that `/_explorer/emulator.pem` hands out.
    pub certificate_pem: Option<String>,
    /// `/metrics` answers everybody, without a key.
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
    /// Both ends are on this machine.
    pub(crate) fn is_loopback(&self) -> bool {
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
        let misdirected = self.settings.host_names.misdirected(&parts);
        if parts.method == Method::OPTIONS && misdirected.is_none() {
            return self.preflight(&parts);
        }
        let (context, headers_outcome) = RequestContext::read(&parts.headers);
        let activity_id = context.activity_id.cloned().unwrap_or_else(|| self.activity_ids.next());
        let locality = locality(&peer, &parts, &context, &self.settings.host_names);
        let exchange =
            Exchange { gateway: self, peer, parts: &parts, context, headers_outcome, locality };
        let answer = async {
            match misdirected {
                Some(error) => exchange.without_body(error.into(), body).await,
                None => exchange.answer(body).await,
            }
        };
        let reply = caught(answer, &activity_id).await;
        let mut response = reply.finish(&parts.method, activity_id, started.elapsed());
        self.settings.cors.decorate(&parts, response.headers_mut());
        response
    }

    fn preflight(&self, parts: &Parts) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::NO_CONTENT;
        self.settings.cors.preflight(parts, response.headers_mut());
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
    /// Whether this machine's own user asks, or why not.
    locality: Result<(), Stranger>,
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
        let principal = self.authenticate(route, segments).map_err(Box::<Reply>::from)?;
        match route {
            Route::Account if self.is_reading() => return Err(Box::new(self.answer_account())),
            Route::Metrics if self.is_reading() => {
                return Err(Box::new(self.answer_metrics(&principal)));
            }
            _ => {}
        }
        let operation = self.prepare(route, &principal).map_err(Box::<Reply>::from)?;
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
            _ => None,
        }
    }

    /// Names of containers are nobody else's business unless the operator says so.
    fn answer_metrics(&self, principal: &Principal) -> Reply {
        if !principal.reads_account() {
            let message = "A resource token does not allow reading the metrics of the account.";
            return Error::Forbidden(message.to_owned()).into();
        }
        match self.gateway.service.metrics() {
            Some(text) => Reply::other(StatusCode::OK, text, OPEN_METRICS),
            None => Error::NotFound("No resource has this path.".to_owned()).into(),
        }
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

    /// Who asks: by credentials, or on dials and metrics by sitting at this machine.
    fn authenticate(&self, route: Route<'_>, segments: &Segments<'_>) -> Result<Principal, Denied> {
        if let Route::Dials(_) | Route::Metrics = route
            && let Some(outcome) = self.without_signature(route)
        {
            return outcome;
        }
        let presented = Presented {
            method: &self.parts.method,
            segments,
            context: &self.context,
            locality: &self.locality,
        };
        let now = self.gateway.clock.now_seconds();
        let principal = self.gateway.authenticator.authenticate(&presented, now)?;
        principal.check_standing(&self.gateway.service)?;
        Ok(principal)
    }

    /// Dials and metrics need no signature where the published key is good for everything; scrapers, which
    /// cannot sign, may show an account key for metrics. Nothing when credentials have to decide.
    fn without_signature(&self, route: Route<'_>) -> Option<Result<Principal, Denied>> {
        const READS: Principal = Principal::Account(Access::ReadOnly);
        let (gateway, context) = (self.gateway, &self.context);
        if route == Route::Metrics && gateway.settings.public_metrics {
            return Some(Ok(READS));
        }
        if let Some(header) = context.authorization {
            let key = header.to_str().ok().and_then(|text| text.strip_prefix("Bearer "))?;
            // Whoever shows a key instead of signing with it must not show it to a network.
            let is_unseen = self.peer.is_secure || self.peer.is_loopback();
            let known =
                route == Route::Metrics && is_unseen && gateway.authenticator.knows_key(key);
            return known.then_some(Ok(READS));
        }
        if !gateway.authenticator.trusts_loopback() {
            return None;
        }
        Some(match &self.locality {
            Ok(()) => Ok(Principal::Account(Access::ReadWrite)),
            Err(stranger) => Err(Error::Unauthorized(format!(
                "Without credentials this answers this machine's own user alone: {stranger}."
            ))
            .into()),
        })
    }

    /// Headers (400), method (405) and permission (403), in this order.
    fn prepare<'a>(
        &self,
        route: Route<'a>,
        principal: &Principal,
    ) -> Result<Operation<'a>, Denied> {
        self.headers_outcome.clone()?;
        let operation = Operation::find(route, &self.parts.method, self.context.intent)?;
        principal.check(&operation, &self.context, &self.gateway.service)?;
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

impl From<Denied> for Box<Reply> {
    fn from(Denied { error, substatus }: Denied) -> Self {
        let reply = Reply::error(error);
        Self::new(match substatus {
            Some(substatus) => reply.substatus(substatus),
            None => reply,
        })
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
