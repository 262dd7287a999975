//! Requests of HTTP/1.1 in the common form: as slices of the connection's buffer, answered into another one.
//!
//! Requests about data go straight to [`Gateway::answer`], without maps of headers on either side. Everything else, and
//! whatever this file would have to judge, becomes an [`http::Request`] and takes the way of all others.

use super::{Gateway, Peer, RequestBody};
use crate::auth::{self, ShownBefore};
use crate::cluster::Front;
use crate::headers::RequestContext;
use crate::locality::Stranger;
use crate::reply::{Http1Answer, SentHead};
use crate::request::Request;
use crate::routes::Segments;
use crate::service::Service;
use armilla_model::Error;
use armilla_model::clock::monotonic;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use http_body_util::BodyExt as _;
use std::ops::Range;
use std::sync::OnceLock;

/// Where a header lies in the buffer. Its name is in small letters.
#[derive(Clone, Debug)]
pub(crate) struct FieldSpan {
    pub(crate) name: Range<usize>,
    pub(crate) value: Range<usize>,
}

/// A request in the common form: a path without a query, one `host`, and no header that speaks of proxies, pages or the
/// connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlainRequest<'b> {
    pub(crate) method: &'b Method,
    pub(crate) path: &'b str,
    pub(crate) buffer: &'b [u8],
    /// The bytes of the head, the empty line included.
    pub(crate) head: &'b [u8],
    pub(crate) fields: &'b [FieldSpan],
    /// The host, where it is none of this server's names.
    pub(crate) foreign_host: Option<&'b [u8]>,
    /// Another node has passed it on, which takes the rights of this machine's user from it.
    pub(crate) is_passed_on: bool,
}

impl<'b> PlainRequest<'b> {
    /// Names in small letters, and values.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (&'b str, &'b [u8])> {
        let (buffer, fields) = (self.buffer, self.fields);
        // All of a head is text, but for what values may be: looked at once, not name by name.
        let text = std::str::from_utf8(self.head).unwrap_or_default();
        fields.iter().filter_map(move |field| {
            let name = match text.get(field.name.clone()) {
                Some(name) => name,
                None => std::str::from_utf8(buffer.get(field.name.clone())?).ok()?,
            };
            Some((name, buffer.get(field.value.clone())?))
        })
    }

    /// As [`crate::locality`] judges it: no proxy and no page speaks in this form.
    pub(super) fn locality(&self, peer: &Peer) -> Result<(), Stranger> {
        match self.foreign_host {
            _ if !peer.is_loopback() => Err(Stranger::OtherMachine),
            _ if self.is_passed_on => Err(Stranger::Forwarded),
            Some(host) => Err(Stranger::ForeignHost(String::from_utf8_lossy(host).into_owned())),
            None => Ok(()),
        }
    }

    /// The same as HTTP's own type.
    fn to_http(self, body: Bytes) -> Option<http::Request<RequestBody>> {
        let mut request = http::Request::new(RequestBody::Whole(body));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.path.parse().ok()?;
        for (name, value) in self.headers() {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            request.headers_mut().append(name, HeaderValue::from_bytes(value).ok()?);
        }
        Some(request)
    }
}

/// Requests that nothing but routes, credentials and the service have a say in.
const DATA_PATHS: &str = "/dbs/";

impl<S: Service> Gateway<S> {
    /// Answers a request in the common form; tells its status.
    pub(crate) async fn handle_plain(
        &self,
        (peer, request): (Peer, PlainRequest<'_>),
        body: Bytes,
        sent: SentHead<'_>,
        out: &mut Http1Answer,
        shown: &mut ShownBefore,
    ) -> StatusCode {
        let is_about_data = request.path.starts_with(DATA_PATHS)
            && self.settings.health_port != Some(peer.local_address.port());
        if !is_about_data || self.settings.slices.is_some() {
            return Box::pin(self.handle_rare(peer, request, body, sent, out)).await;
        }
        // A node of several asks first who owns the account.
        let front = self.settings.front.as_deref();
        let is_here = front.is_none_or(Front::is_here);
        if let Some(front) = front.filter(|_| !is_here) {
            return Box::pin(self.pass_on_plain(front, (peer, request), body, sent, out)).await;
        }
        // What is answered by another node after all is asked there.
        let kept = front.map(|_| body.clone());
        let started = monotonic();
        let (mut context, mut readable) = (RequestContext::default(), Ok(()));
        let mut given_id = None;
        for (name, value) in request.headers() {
            if name == "x-ms-activity-id" {
                given_id = Some(value);
            } else if let Err(error) = context.set(name, value)
                && readable.is_ok()
            {
                readable = Err(error);
            }
        }
        let is_seen_by_others = !peer.is_secure && !peer.is_loopback();
        if is_seen_by_others && auth::is_session(context.authorization) {
            return Box::pin(self.handle_rare(peer, request, body, sent, out)).await;
        }
        context.activity = given_id;
        let new_id = given_id.is_none().then(|| self.activity_ids.next_text());
        let activity_id = given_id.or(new_id.as_ref().map(|id| &id[..])).unwrap_or_default();
        let locality = request.locality(&peer);
        let (path, now_seconds) = ((request.method, request.path), sent.now_seconds);
        let is_local = locality.is_ok();
        let known = shown.find(path, &context, (now_seconds, is_local));
        let proved = known.map_or_else(OnceLock::new, OnceLock::from);
        let reply = match Segments::parse(request.path) {
            Ok(segments) => {
                let (method, segments, context) = (request.method, &segments, &context);
                let proved = Some(&proved);
                let request =
                    Request { method, segments, context, readable, locality, now_seconds, proved };
                self.answer(request, body, activity_id).await
            }
            Err(error) => error.into(),
        };
        if let Some(access) = proved.get().filter(|_| known.is_none()) {
            shown.keep(path, &context, (*access, is_local));
        }
        if let Some(body) = kept.filter(|_| reply.is_elsewhere()) {
            return Box::pin(self.handle_rare(peer, request, body, sent, out)).await;
        }
        let status = reply.status();
        out.write(reply, activity_id, started.elapsed(), sent);
        status
    }

    /// Answers as any HTTP request is answered.
    pub(super) async fn handle_rare(
        &self,
        peer: Peer,
        request: PlainRequest<'_>,
        body: Bytes,
        sent: SentHead<'_>,
        out: &mut Http1Answer,
    ) -> StatusCode {
        let Some(request) = request.to_http(body) else {
            let error = Error::bad_request("The path or a header of the request cannot be read.");
            out.write(error.into(), &self.activity_ids.next_text(), Default::default(), sent);
            return StatusCode::BAD_REQUEST;
        };
        let (head, body) = self.handle(peer, request).await.into_parts();
        let Ok(body) = body.collect().await;
        out.write_response(head.status, &head.headers, body.to_bytes(), sent);
        head.status
    }
}
