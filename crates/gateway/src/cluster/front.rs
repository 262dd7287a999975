//! Where a request is answered: here, or by the node that owns the account.

use super::address::NodeAddress;
use super::gauges::{ForwardOutcome, NodeGauges};
use super::late::unknown_outcome;
use super::links::{Links, Passage, PassedBytes};
use super::{FROM, NOT_OWNER};
use crate::limits::{
    FORWARD_ANSWER_MAX, FORWARD_ANSWER_WAIT_MAX, FORWARD_CONNECT_WAIT_MAX,
    FORWARD_LAST_ANSWER_WAIT_MAX, FORWARD_PAUSE, FORWARDED_MAX, HELD_BYTES_MAX, HELD_RETRY_AFTER,
    HELD_WAIT_MAX,
};
use armilla_model::{Error, Result};
use bytes::Bytes;
use http::header::{CONNECTION, EXPECT, HOST, HeaderName, TE, TRAILER, TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::{ClientConfig, RootCertStore};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// Who serves the account, as this node knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnerPlace {
    /// Nobody, or nobody that is known.
    Nobody,
    /// This node, which is not ready yet.
    HereSoon,
    /// This node.
    Here,
    /// Another node.
    Elsewhere(NodeAddress),
}

/// How a node tells its front who serves the account.
pub type OwnerPlaces = watch::Sender<OwnerPlace>;

/// Passes requests on to the owner.
pub struct Front {
    name: HeaderValue,
    places: watch::Receiver<OwnerPlace>,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    under_way: AtomicUsize,
    held_bytes: AtomicUsize,
    links: Links,
    gauges: Arc<NodeGauges>,
}

impl fmt::Debug for Front {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Front").field("place", &*self.places.borrow()).finish()
    }
}

/// A request that may be passed on.
pub(crate) struct Passed<'a> {
    pub(crate) parts: &'a Parts,
    pub(crate) body: Bytes,
    /// It came by TLS.
    pub(crate) is_secure: bool,
    /// It changes nothing, so it can be asked again.
    pub(crate) is_read: bool,
    /// Until when it may be held.
    pub(crate) deadline: Instant,
}

/// What became of a request that was to be passed on.
pub(crate) enum Forwarded {
    Answered(Response<Full<Bytes>>),
    /// It is this node that has to answer.
    Here,
}

/// What became of one attempt.
enum ForwardAttempt {
    Answered(Response<Full<Bytes>>),
    /// It was surely not done.
    NotDone,
    /// Nobody knows.
    Unknown,
}

impl Front {
    /// The front of a node of this name. `trusted` says whose certificates other nodes may show, where their addresses are `https://`.
    ///
    /// # Errors
    ///
    /// When the name cannot be said in a header, or the authorities are unusable.
    pub fn new(name: &str, trusted: RootCertStore) -> Result<(Self, OwnerPlaces)> {
        let name = HeaderValue::from_str(name).map_err(|_| {
            Error::bad_request("A node's name consists of visible ASCII characters.")
        })?;
        let (sender, places) = watch::channel(OwnerPlace::Nobody);
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(FORWARD_CONNECT_WAIT_MAX));
        // What is no TLS is said by the scheme of an address.
        connector.enforce_http(false);
        let trusting = client_config(trusted)?;
        let links = Links::new(trusting.clone());
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(trusting)
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        let (under_way, held_bytes) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let gauges = Arc::default();
        Ok((Self { name, places, client, under_way, held_bytes, links, gauges }, sender))
    }

    /// The numbers of this node, for it to tell.
    #[must_use]
    pub fn gauges(&self) -> Arc<NodeGauges> {
        Arc::clone(&self.gauges)
    }

    /// The metrics of this node, with those of the account where it serves one.
    pub(crate) fn metrics(&self, account: Option<String>) -> String {
        self.gauges.text(account, self.under_way.load(Ordering::Relaxed))
    }

    /// Who serves the account now.
    pub(crate) fn place(&self) -> OwnerPlace {
        self.places.borrow().clone()
    }

    /// Whether requests can be answered, here or by another node: somebody serves the account, and this node has not lost sight of who.
    pub(crate) fn is_ready(&self) -> bool {
        self.gauges.holds_lease() && self.is_served()
    }

    /// Whether somebody serves the account, as far as this node knows.
    pub(crate) fn is_served(&self) -> bool {
        matches!(*self.places.borrow(), OwnerPlace::Here | OwnerPlace::Elsewhere(_))
    }

    /// Whether this node serves the account now.
    pub(crate) fn is_here(&self) -> bool {
        *self.places.borrow() == OwnerPlace::Here
    }

    /// Waits until somebody serves the account; what is known at the deadline if nobody does.
    pub(crate) async fn find(&self, deadline: Instant) -> OwnerPlace {
        let mut places = self.places.clone();
        let served =
            |place: &OwnerPlace| matches!(place, OwnerPlace::Here | OwnerPlace::Elsewhere(_));
        let found = timeout_at(deadline, places.wait_for(served)).await;
        match found {
            Ok(Ok(place)) => place.clone(),
            _ => self.place(),
        }
    }

    /// Until when a request that comes now may be held.
    pub(crate) fn deadline() -> Instant {
        Instant::now() + HELD_WAIT_MAX
    }

    /// A place for one more request with a body of so many bytes.
    pub(crate) fn hold(&self, bytes: usize) -> Result<Holding<'_>> {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        self.held_bytes.fetch_add(bytes, Ordering::Relaxed);
        let holding = Holding { front: self, bytes };
        let is_full = self.under_way.load(Ordering::Relaxed) > FORWARDED_MAX
            || self.held_bytes.load(Ordering::Relaxed) > HELD_BYTES_MAX;
        if is_full { Err(come_back()) } else { Ok(holding) }
    }

    /// Has the owner answer a request.
    ///
    /// # Errors
    ///
    /// `Overloaded` when it was surely not done, `Timeout` when nobody can tell.
    pub(crate) async fn forward(&self, passed: &Passed<'_>) -> Result<Forwarded> {
        let _holding = self.hold(passed.body.len())?;
        self.forward_held(passed).await
    }

    /// The same for a request that has its place among those that are passed on.
    pub(crate) async fn forward_held(&self, passed: &Passed<'_>) -> Result<Forwarded> {
        loop {
            match self.find(passed.deadline).await {
                OwnerPlace::Elsewhere(owner) => match self.counted(&owner, passed).await {
                    ForwardAttempt::Answered(response) => return Ok(Forwarded::Answered(response)),
                    ForwardAttempt::Unknown if !passed.is_read => return Err(unknown_outcome()),
                    ForwardAttempt::Unknown | ForwardAttempt::NotDone => self.pause(&owner).await,
                },
                // This node has taken over while the request was held.
                OwnerPlace::Here => return Ok(Forwarded::Here),
                OwnerPlace::Nobody | OwnerPlace::HereSoon => return Err(come_back()),
            }
            if Instant::now() >= passed.deadline {
                return Err(come_back());
            }
        }
    }

    /// Waits a moment, or until the account is known to be somewhere else.
    async fn pause(&self, owner: &NodeAddress) {
        let mut places = self.places.clone();
        // No news is no reason not to ask again.
        let _news = timeout(FORWARD_PAUSE, places.wait_for(|place| is_other(place, owner))).await;
    }

    /// Waits a moment, or until the account is not here.
    pub(crate) async fn left(&self) {
        let mut places = self.places.clone();
        let is_not_here = |place: &OwnerPlace| *place != OwnerPlace::Here;
        let _news = timeout(FORWARD_PAUSE, places.wait_for(is_not_here)).await;
    }

    /// Has the owner answer a request that is passed on as the bytes that came, once. What was not done, or was only to be read, can be
    /// asked again.
    pub(crate) async fn pass(&self, passed: &PassedBytes<'_>) -> Result<Passage> {
        let OwnerPlace::Elsewhere(owner) = self.place() else { return Ok(Passage::NotDone) };
        let _holding = self.hold(passed.body.len())?;
        let passage = tokio::select! {
            biased;
            passage = self.links.exchange(&owner, &self.name, passed) => passage,
            () = self.too_late(&owner, passed.is_read) => Passage::Unknown,
            () = sleep(FORWARD_ANSWER_WAIT_MAX) => Passage::Unknown,
        };
        self.gauges.count(match &passage {
            Passage::Answered(_) => ForwardOutcome::Answered,
            Passage::NotDone => ForwardOutcome::NotDone,
            Passage::Unknown => ForwardOutcome::Unknown,
        });
        Ok(passage)
    }

    /// Waits until an owner that was asked is not the owner any more. Nothing that it may still say counts for a read. A write may be done: an
    /// owner hands the account over when it has made its answers, which may still be on their way.
    async fn too_late(&self, owner: &NodeAddress, is_read: bool) {
        let mut places = self.places.clone();
        // Without news of owners there is none of this one either.
        drop(places.wait_for(|place| is_other(place, owner)).await);
        if !is_read {
            sleep(FORWARD_LAST_ANSWER_WAIT_MAX).await;
        }
    }

    async fn counted(&self, owner: &NodeAddress, passed: &Passed<'_>) -> ForwardAttempt {
        let attempt = self.attempt(owner, passed).await;
        self.gauges.count(match &attempt {
            ForwardAttempt::Answered(_) => ForwardOutcome::Answered,
            ForwardAttempt::NotDone => ForwardOutcome::NotDone,
            ForwardAttempt::Unknown => ForwardOutcome::Unknown,
        });
        attempt
    }

    async fn attempt(&self, owner: &NodeAddress, passed: &Passed<'_>) -> ForwardAttempt {
        let Some(request) = self.request(owner, passed) else { return ForwardAttempt::NotDone };
        tokio::select! {
            biased;
            attempt = self.exchange(request) => attempt,
            () = self.too_late(owner, passed.is_read) => ForwardAttempt::Unknown,
            () = sleep(FORWARD_ANSWER_WAIT_MAX) => ForwardAttempt::Unknown,
        }
    }

    /// Sends a request and reads the whole answer. A node that vanishes in the middle says no more: whoever waits for this has a limit.
    async fn exchange(&self, request: Request<Full<Bytes>>) -> ForwardAttempt {
        let response = match self.client.request(request).await {
            Ok(response) => response,
            Err(error) if error.is_connect() => return ForwardAttempt::NotDone,
            Err(_) => return ForwardAttempt::Unknown,
        };
        let (mut head, body) = response.into_parts();
        if head.status == StatusCode::MISDIRECTED_REQUEST && head.headers.contains_key(NOT_OWNER) {
            return ForwardAttempt::NotDone;
        }
        match Limited::new(body, FORWARD_ANSWER_MAX).collect().await {
            Ok(body) => {
                remove_hop_by_hop(&mut head.headers);
                head.version = Version::HTTP_11;
                ForwardAttempt::Answered(Response::from_parts(head, Full::new(body.to_bytes())))
            }
            Err(_) => ForwardAttempt::Unknown,
        }
    }

    /// The request as it came, to another address.
    fn request(&self, owner: &NodeAddress, passed: &Passed<'_>) -> Option<Request<Full<Bytes>>> {
        let parts = passed.parts;
        let path = parts.uri.path_and_query().cloned();
        let path = path.unwrap_or_else(|| PathAndQuery::from_static("/"));
        let mut request = Request::new(Full::new(passed.body.clone()));
        *request.uri_mut() = owner.uri(path)?;
        *request.method_mut() = parts.method.clone();
        let mut headers = parts.headers.clone();
        remove_hop_by_hop(&mut headers);
        headers.remove(EXPECT);
        // HTTP/2 says in its target whom it means.
        if let Some(authority) = parts.uri.authority() {
            headers.insert(HOST, HeaderValue::from_str(authority.as_str()).ok()?);
        }
        let scheme = if passed.is_secure { "https" } else { "http" };
        headers.insert(FORWARDED_PROTO, HeaderValue::from_static(scheme));
        headers.insert(FROM, self.name.clone());
        *request.headers_mut() = headers;
        Some(request)
    }
}

/// Whether the account is not where it was, as far as this node knows.
fn is_other(place: &OwnerPlace, owner: &NodeAddress) -> bool {
    !matches!(place, OwnerPlace::Elsewhere(other) if other == owner)
}

const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

fn client_config(trusted: RootCertStore) -> Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder =
        builder.map_err(|error| Error::Internal(format!("TLS between nodes: {error}")))?;
    Ok(builder.with_root_certificates(trusted).with_no_client_auth())
}

/// The place of a request that is being passed on, given back when dropped.
pub(crate) struct Holding<'a> {
    front: &'a Front,
    bytes: usize,
}

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        self.front.under_way.fetch_sub(1, Ordering::Relaxed);
        self.front.held_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Nothing was done; a client may try again in a moment.
pub(crate) fn come_back() -> Error {
    Error::Overloaded { retry_after: HELD_RETRY_AFTER }
}

/// What is said between two neighbours alone, and what they name beside it.
fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    named.iter().for_each(|name| drop(headers.remove(name)));
    for name in [CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE] {
        headers.remove(name);
    }
    headers.remove("keep-alive");
    headers.remove("proxy-connection");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_neighbours_say_to_each_other_is_not_passed_on() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "keep-alive, X-Own"),
            ("x-own", "1"),
            ("te", "trailers"),
            ("authorization", "a"),
            ("x-ms-date", "d"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        remove_hop_by_hop(&mut headers);
        let left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(left, ["authorization", "x-ms-date"]);
    }

    #[tokio::test]
    async fn a_request_is_held_until_somebody_owns_the_account_or_its_time_is_over() {
        let (front, places) = Front::new("a", RootCertStore::empty()).unwrap();
        let at_once = Instant::now();
        assert_eq!(front.find(at_once).await, OwnerPlace::Nobody);
        places.send_replace(OwnerPlace::HereSoon);
        assert_eq!(front.find(at_once).await, OwnerPlace::HereSoon);
        let deadline = Front::deadline();
        let (found, ()) = tokio::join!(front.find(deadline), async {
            tokio::task::yield_now().await;
            places.send_replace(OwnerPlace::Here);
        });
        assert_eq!(found, OwnerPlace::Here);
        assert!(Instant::now() < deadline);
    }

    #[test]
    fn no_more_is_held_than_there_is_room_for() {
        let (front, _places) = Front::new("a", RootCertStore::empty()).unwrap();
        let held = front.hold(HELD_BYTES_MAX).unwrap();
        assert!(front.hold(1).is_err());
        drop(held);
        assert!(front.hold(1).is_ok());
        assert!(Front::new("no\nname", RootCertStore::empty()).is_err());
    }
}
