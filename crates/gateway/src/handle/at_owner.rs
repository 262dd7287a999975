//! The part of a request's walk that only a node of several has: is it answered here, or by the node that owns the account?

use super::placed::Placed;
use super::{Gateway, Peer, PlainRequest, RequestBody, body, path_of};
use crate::auth::{self, Presented};
use crate::cluster::front::{Forwarded, Front, OwnerPlace, Passed, come_back};
use crate::cluster::links::{Passage, PassedBytes};
use crate::cluster::{FROM, NOT_OWNER, unknown_outcome};
use crate::headers::{HttpContext, RequestContext};
use crate::locality::locality;
use crate::reply::{Http1Answer, Reply, SentHead};
use crate::routes::{Operation, Route, Segments};
use crate::service::Service;
use armilla_model::clock::monotonic;
use armilla_model::{Error, Result};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode};
use http_body_util::Full;
use tokio::time::Instant;

impl<S: Service> Gateway<S> {
    /// Has the owner answer, unless this node is the owner or the request is about this node itself.
    pub(super) async fn at_owner(
        &self,
        front: &Front,
        peer: Peer,
        parts: &Parts,
        body: RequestBody,
    ) -> Placed {
        let started = monotonic();
        let deadline = Front::deadline();
        let reply = match about_this_node(parts) {
            Some(Route::Ready | Route::Status) if !front.is_ready() => not_ready(),
            Some(_) => return Placed::Here(body, 0),
            // The node that passed it on holds it, and knows then that it was not done.
            None if parts.headers.contains_key(FROM) && front.place() != OwnerPlace::Here => {
                return Placed::Answered(not_owner(self, parts));
            }
            None => match front.find(deadline).await {
                OwnerPlace::Here => return Placed::Here(body, 0),
                OwnerPlace::Nobody | OwnerPlace::HereSoon => Reply::error(come_back()),
                OwnerPlace::Elsewhere(_) => {
                    match self.pass_on(front, (peer, parts), body, deadline).await {
                        Ok(answered) => return answered,
                        Err(error) => Reply::error(error),
                    }
                }
            },
        };
        let activity_id = self.activity_ids.next();
        let mut response = reply.into_http(&parts.method, &activity_id, started.elapsed());
        self.settings.cors.decorate(parts, response.headers_mut());
        Placed::Answered(response)
    }

    /// Has the owner answer a request in the common form, bytes for bytes where that is possible.
    pub(super) async fn pass_on_plain(
        &self,
        front: &Front,
        (peer, request): (Peer, PlainRequest<'_>),
        body: Bytes,
        sent: SentHead<'_>,
        out: &mut Http1Answer,
    ) -> StatusCode {
        let is_known = match self.judge_plain(peer, &request, &body) {
            // A request that was passed on to a node that does not own the account is not passed on again.
            Some(is_read) if !request.is_passed_on => Some(is_read),
            _ => None,
        };
        let Some(is_read) = is_known else {
            return self.handle_rare(peer, request, body, sent, out).await;
        };
        let passed = PassedBytes { head: request.head, body: &body, is_read };
        let error = match front.pass(&passed).await {
            Ok(Passage::Answered(answer)) => {
                out.write_passed(answer.head(), answer.body(), sent);
                return answer.status();
            }
            Ok(Passage::Unknown) if !is_read => unknown_outcome(),
            // It is held until somebody owns the account.
            Ok(Passage::Unknown | Passage::NotDone) => {
                return self.handle_rare(peer, request, body, sent, out).await;
            }
            Err(error) => error,
        };
        let reply = Reply::error(error);
        let status = reply.status();
        out.write(reply, &self.activity_ids.next_text(), std::time::Duration::ZERO, sent);
        status
    }

    /// Whether a request may be passed on as it came, and then, whether it changes nothing. Whatever has to be refused here is refused where all requests are.
    fn judge_plain(&self, peer: Peer, request: &PlainRequest<'_>, body: &Bytes) -> Option<bool> {
        let mut context = RequestContext::default();
        for (name, value) in request.headers() {
            // The owner says what it cannot read.
            let _unreadable = context.set(name, value);
        }
        if auth::is_session(context.authorization) {
            return None;
        }
        let segments = Segments::parse(request.path).ok()?;
        if !body.is_empty() {
            // The owner looks again; here it keeps bodies of strangers from being held.
            let presented = Presented {
                method: request.method,
                segments: &segments,
                context: &context,
                locality: &request.locality(&peer),
            };
            self.authenticator.authenticate(&presented, self.clock.now_seconds()).ok()?;
        }
        let operation = Route::find(&segments)
            .map(|route| Operation::find(route, request.method, context.intent));
        let is_reading = matches!(operation, Some(Ok(operation)) if operation.changes_nothing());
        Some(*request.method == Method::GET || is_reading)
    }

    /// Reads a request and has the owner answer it.
    async fn pass_on(
        &self,
        front: &Front,
        (peer, parts): (Peer, &Parts),
        body: RequestBody,
        deadline: Instant,
    ) -> Result<Placed> {
        let (http, context, _) = HttpContext::read(&parts.headers);
        let segments = Segments::parse(path_of(&parts.uri))?;
        let route = Route::find(&segments);
        if auth::is_session(context.authorization) || route == Some(Route::Session) {
            let OwnerPlace::Elsewhere(owner) = front.place() else { return Err(come_back()) };
            return Err(Error::Misdirected(format!(
                "This node does not own the account, and sessions are the owner's: sign in at {owner}/_explorer/."
            )));
        }
        if !body.is_end_stream() {
            // The owner looks again; here it keeps bodies of strangers from being held.
            let foreign = self.settings.host_names.foreign(parts);
            let locality = locality(&peer, parts, &http, foreign.as_deref());
            let presented = Presented {
                method: &parts.method,
                segments: &segments,
                context: &context,
                locality: &locality,
            };
            let known = self.authenticator.authenticate(&presented, self.clock.now_seconds());
            if let Err(denied) = known {
                body::discard(body, &self.settings.limits, http.expects_continue).await;
                return Err(denied.error);
            }
        }
        let operation = route.map(|route| Operation::find(route, &parts.method, context.intent));
        let is_read = matches!(parts.method, Method::GET | Method::HEAD)
            || matches!(operation, Some(Ok(operation)) if operation.changes_nothing());
        let body = body::read(body, &self.settings.limits, http.expects_continue).await?;
        let passed = Passed { parts, body, is_secure: peer.is_secure, is_read, deadline };
        Ok(match front.forward(&passed).await? {
            Forwarded::Answered(response) => Placed::Answered(response),
            Forwarded::Here => Placed::Here(RequestBody::Whole(passed.body), 0),
        })
    }
}

/// The route of a request that every node answers for itself.
pub(super) fn about_this_node(parts: &Parts) -> Option<Route<'static>> {
    match parts.uri.path() {
        "/alive" => Some(Route::Alive),
        "/ready" => Some(Route::Ready),
        "/status" => Some(Route::Status),
        "/metrics" => Some(Route::Metrics),
        _ => None,
    }
}

pub(super) fn not_ready() -> Reply {
    const TEXT_PLAIN: HeaderValue = HeaderValue::from_static("text/plain");
    Reply::other(StatusCode::SERVICE_UNAVAILABLE, "no node owns the account", TEXT_PLAIN)
}

/// What a node is told that passed a request on to one that does not own the account.
pub(super) fn not_owner<S: Service>(gateway: &Gateway<S>, parts: &Parts) -> Response<Full<Bytes>> {
    let message = "This node does not own the account; the request was passed on to it by another.";
    let reply = Reply::error(Error::Misdirected(message.to_owned()));
    let activity_id = gateway.activity_ids.next();
    let mut response = reply.into_http(&parts.method, &activity_id, std::time::Duration::ZERO);
    response.headers_mut().insert(NOT_OWNER, HeaderValue::from_static("1"));
    response
}
