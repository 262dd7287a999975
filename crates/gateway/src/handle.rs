//! One HTTP request, from its parts to its response.
//!
//! The order is fixed: name of the server (421), route (404), credentials (401, 403), headers (400), method (405), permission
//! (403), body (413, 408), then the service. What any wire does alike is in [`request`](crate::request);
//! here are the paths that only HTTP has, and the body.

mod addresses;
mod all_slices;
mod at_owner;
mod body;
mod by_slice;
mod gathered;
mod placed;
mod plain;
mod session;

pub(crate) use body::RequestBody;
pub(crate) use plain::{FieldSpan, PlainRequest};

use crate::account_document::{self, AccountSettings, Arrival};
use crate::activity::ActivityIds;
use crate::auth::{self, Access, Authenticator, Denied, Principal};
use crate::cluster::front::come_back;
use crate::cluster::{Front, SliceFronts};
use crate::cors::CorsPolicy;
use crate::direct::DirectMode;
use crate::explorer::ExplorerSettings;
use crate::headers::HttpContext;
use crate::limits::Limits;
use crate::locality::{HostNames, locality};
use crate::reply::{Fact, Reply};
use crate::request::{self, Request};
use crate::routes::{Operation, Route, Segments};
use crate::service::{Call, Service};
use armilla_model::clock::Clock;
use armilla_model::clock::monotonic;
use armilla_model::{Error, Result};
use bytes::Bytes;
use http::header::CACHE_CONTROL;
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode};
use http_body_util::Full;
use placed::{Arrived, Elsewhere};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, OnceLock};

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
    /// Where Direct mode is served.
    pub direct: DirectMode,
    /// Where this node is reached, `http://host:port`, if it is one of several.
    pub advertised: Option<String>,
    /// What passes requests on to the node that owns the account, if there are several.
    pub front: Option<Arc<Front>>,
    /// The same for the slices of the account, if it is cut.
    pub slices: Option<Arc<SliceFronts>>,
    /// A port of its own for [`Route::Alive`] and its like; nothing else is answered there.
    pub health_port: Option<u16>,
    /// The data explorer.
    pub explorer: ExplorerSettings,
    /// What the explorer tells of the server.
    pub facts: ServerFacts,
    /// Sizes and times.
    pub limits: Limits,
}

/// What the explorer tells of the server, beside what the gateway knows.
#[derive(Clone, Debug, Default)]
pub struct ServerFacts {
    /// Nothing is kept on disk.
    pub in_memory: bool,
    /// When a write counts as done.
    pub durability: &'static str,
    /// Where the data lies.
    pub data_folder: Option<String>,
    /// What stands in the place of the account key, if that is not the published one: where it is found.
    pub key_placeholder: Option<String>,
    /// The published key is accepted from other machines.
    pub open_to_everybody: bool,
    /// When the server started, in seconds since 1970.
    pub started: u64,
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
    /// Answers one HTTP request, whatever it is.
    pub(crate) async fn handle(
        &self,
        peer: Peer,
        request: http::Request<RequestBody>,
    ) -> Response<Full<Bytes>> {
        let started = monotonic();
        let (parts, body) = request.into_parts();
        let host_names = &self.settings.host_names;
        let foreign = host_names.foreign(&parts);
        let misdirected = host_names.misdirected(foreign.as_deref());
        if parts.method == Method::OPTIONS && misdirected.is_none() {
            return self.preflight(&parts);
        }
        let is_for_health = self.settings.health_port == Some(peer.local_address.port());
        if misdirected.is_none()
            && !is_for_health
            && self.settings.explorer.may_be_meant(&parts)
            && let Some(response) = Box::pin(self.settings.explorer.answer(&peer, &parts)).await
        {
            return response;
        }
        // What the port of health checks refuses is refused here and asked nowhere.
        let is_refused = is_for_health && at_owner::about_this_node(&parts).is_none();
        if misdirected.is_none() && !is_refused && self.is_node() {
            return Box::pin(self.handle_at_node(peer, &parts, body, started)).await;
        }
        let arrived = Arrived { started, foreign, misdirected, gathered: &[] };
        self.walk(peer, &parts, (body, 0), arrived).await
    }

    /// Answers a request that is answered here, for one slice of the account.
    async fn walk(
        &self,
        peer: Peer,
        parts: &Parts,
        (body, slice): (RequestBody, u32),
        arrived: Arrived<'_>,
    ) -> Response<Full<Bytes>> {
        let Arrived { started, foreign, misdirected, gathered } = arrived;
        let (http, mut context, readable) = HttpContext::read(&parts.headers);
        context.query_string = parts.uri.query();
        context.slice = slice;
        context.gathered = gathered;
        context.activity = http.activity_id.map(HeaderValue::as_bytes);
        let activity_id = http.activity_id.cloned().unwrap_or_else(|| self.activity_ids.next());
        let locality = locality(&peer, parts, &http, foreign.as_deref());
        let kept = OnceLock::new();
        let answer = pin!(async {
            let path = Segments::parse(path_of(&parts.uri));
            match (misdirected, path) {
                (Some(error), _) | (None, Err(error)) => {
                    self.without_body(&http, error.into(), body).await
                }
                (None, Ok(segments)) => {
                    let (method, segments) = (&parts.method, &segments);
                    let context = &context;
                    let now_seconds = self.clock.now_seconds();
                    let proved = None;
                    let request = Request {
                        method,
                        segments,
                        context,
                        readable,
                        locality,
                        now_seconds,
                        proved,
                    };
                    let (http, kept) = (&http, &kept);
                    let exchange = Exchange { gateway: self, peer, parts, http, kept };
                    exchange.answer(request, body).await
                }
            }
        });
        let reply = request::caught(answer, activity_id.as_bytes()).await;
        let is_elsewhere = reply.is_elsewhere();
        let mut response = reply.into_http(&parts.method, &activity_id, started.elapsed());
        if is_elsewhere {
            response.extensions_mut().insert(Elsewhere(kept.get().cloned().unwrap_or_default()));
        }
        self.settings.cors.decorate(parts, response.headers_mut());
        if parts.uri.path().starts_with(OWN_PATHS) {
            // Tokens, figures of this moment, texts of queries: nothing that a browser should keep.
            response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
        }
        response
    }

    fn preflight(&self, parts: &Parts) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::NO_CONTENT;
        self.settings.cors.preflight(parts, response.headers_mut());
        response
    }

    /// Lets a body pass by before an answer that does not need it: closing on a client that is
    /// still sending would lose the answer.
    async fn without_body(&self, http: &HttpContext<'_>, reply: Reply, body: RequestBody) -> Reply {
        body::discard(body, &self.settings.limits, http.expects_continue).await;
        reply
    }
}

/// A request with what HTTP knows of it.
struct Exchange<'a, S> {
    gateway: &'a Gateway<S>,
    peer: Peer,
    parts: &'a Parts,
    http: &'a HttpContext<'a>,
    /// Where the body is kept of a request that another node may have to answer after all.
    kept: &'a OnceLock<Bytes>,
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
    async fn answer(self, request: Request<'_>, body: RequestBody) -> Reply {
        if *request.method == Method::POST
            && matches!(request.route(), Ok(Route::Session))
            && !self.came_by_health_port()
        {
            return self.sign_in(&request, body).await;
        }
        if matches!(request.route(), Ok(Route::Addresses))
            && !self.gateway.service.settle(request.context.slice).await
        {
            return self.gateway.without_body(self.http, come_back().into(), body).await;
        }
        let (operation, principal) = match self.admit(&request) {
            Ok(admitted) => admitted,
            Err(reply) => return self.gateway.without_body(self.http, *reply, body).await,
        };
        let limits = &self.gateway.settings.limits;
        match body::read(body, limits, self.http.expects_continue).await {
            Ok(body) => {
                if self.gateway.is_node() {
                    self.kept.get_or_init(|| body.clone());
                }
                let call =
                    Call { operation, context: request.context, principal: &principal, body };
                self.gateway.service.call(call).await
            }
            Err(error) => error.into(),
        }
    }

    /// Everything that can be said before the body is read: an operation and who asks for it, or
    /// an answer right away.
    fn admit<'r>(&self, request: &Request<'r>) -> Result<(Operation<'r>, Principal), Box<Reply>> {
        let route = request.route()?;
        let asked_for_health = matches!(route, Route::Alive | Route::Ready | Route::Status);
        if self.came_by_health_port() && !asked_for_health {
            let message = "This port answers /alive, /ready and /status only.";
            return Err(Box::new(Error::NotFound(message.to_owned()).into()));
        }
        if let Some(reply) = self.answer_open(request, route) {
            return Err(Box::new(reply));
        }
        if route == Route::Session && *request.method == Method::DELETE {
            return Err(Box::new(self.sign_out(request)));
        }
        let principal = self.authenticate(request, route).map_err(Box::<Reply>::from)?;
        match route {
            Route::Account if request.is_reading() => return Err(Box::new(self.answer_account())),
            Route::Metrics if request.is_reading() => {
                return Err(Box::new(self.answer_metrics(&principal)));
            }
            Route::Session if request.is_reading() => {
                return Err(Box::new(self.answer_session(request, principal.account_access()?)));
            }
            _ => {}
        }
        let operation = self.gateway.authorize(request, route, &principal)?;
        Ok((operation, principal))
    }

    /// Whether the connection is one to the port of health checks.
    fn came_by_health_port(&self) -> bool {
        self.gateway.settings.health_port == Some(self.peer.local_address.port())
    }

    /// Paths that need no credentials, or that sign something else than themselves.
    fn answer_open(&self, request: &Request<'_>, route: Route<'_>) -> Option<Reply> {
        if !request.is_reading() {
            return None;
        }
        match route {
            Route::Alive | Route::Ready => Some(Reply::other(StatusCode::OK, "OK", TEXT_PLAIN)),
            Route::Status => Some(Reply::ok(STATUS)),
            Route::ClientConfigs => Some(Reply::ok(account_document::CLIENT_CONFIGS)),
            Route::Addresses => Some(self.answer_addresses(request).unwrap_or_else(|reply| *reply)),
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
        let metrics = self.gateway.service.metrics();
        let metrics = match &self.gateway.settings.front {
            Some(front) => Some(front.metrics(metrics)),
            None => metrics,
        };
        match metrics {
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

    /// How the request reached the server.
    fn arrival(&self) -> Arrival<'_> {
        Arrival {
            authority: self.parts.uri.authority().map(http::uri::Authority::as_str),
            is_secure: self.peer.is_secure,
            local_address: self.peer.local_address,
        }
    }

    fn answer_account(&self) -> Reply {
        let settings = &self.gateway.settings.account;
        // Java parses both without looking whether they are there.
        Reply::ok(account_document::write(settings, self.http, self.arrival()))
            .fact(Fact::MediaStorageMax, "0")
            .fact(Fact::MediaStorage, "0")
    }

    /// Who asks: by credentials, or on dials and metrics by sitting at this machine.
    fn authenticate(&self, request: &Request<'_>, route: Route<'_>) -> Result<Principal, Denied> {
        if let Route::Dials(_) | Route::Metrics = route
            && let Some(outcome) = self.without_signature(request, route)
        {
            return outcome;
        }
        if self.is_seen_by_others() && auth::is_session(request.context.authorization) {
            let message = "From another machine a session is good over https alone: over http its token can be read on its way.";
            return Err(Error::Unauthorized(message.to_owned()).into());
        }
        self.gateway.authenticate(request)
    }

    /// Whether others may read what comes by this connection.
    fn is_seen_by_others(&self) -> bool {
        !self.peer.is_secure && !self.peer.is_loopback()
    }

    /// Dials and metrics need no signature where the published key is good for everything; scrapers, which
    /// cannot sign, may show an account key for metrics. Nothing when credentials have to decide.
    fn without_signature(
        &self,
        request: &Request<'_>,
        route: Route<'_>,
    ) -> Option<Result<Principal, Denied>> {
        const READS: Principal = Principal::Account(Access::ReadOnly);
        let gateway = self.gateway;
        if route == Route::Metrics && gateway.settings.public_metrics {
            return Some(Ok(READS));
        }
        if let Some(header) = request.context.authorization {
            let key = std::str::from_utf8(header).ok()?.strip_prefix("Bearer ")?;
            // Whoever shows a key instead of signing with it must not show it to a network.
            let is_unseen = !self.is_seen_by_others();
            let known =
                route == Route::Metrics && is_unseen && gateway.authenticator.knows_key(key);
            return known.then_some(Ok(READS));
        }
        if !gateway.authenticator.trusts_loopback() {
            return None;
        }
        Some(match &request.locality {
            Ok(()) => Ok(Principal::Account(Access::ReadWrite)),
            Err(stranger) => Err(Error::Unauthorized(format!(
                "Without credentials this answers this machine's own user alone: {stranger}."
            ))
            .into()),
        })
    }
}

/// What `/status` says. A server that answers has opened its data and serves.
const STATUS: &str = concat!(
    r#"{"status":"ready","alive":true,"ready":true,"version":""#,
    env!("CARGO_PKG_VERSION"),
    r#""}"#
);

/// What only this server has.
const OWN_PATHS: &str = "/_armilla/";
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const TEXT_PLAIN: HeaderValue = HeaderValue::from_static("text/plain");
const OPEN_METRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
const PEM_FILE: HeaderValue = HeaderValue::from_static("application/x-pem-file");
