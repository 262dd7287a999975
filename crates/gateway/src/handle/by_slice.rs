//! The part of a request's walk that only a node of an account in slices has: which slice is meant, and who answers for it?
//!
//! Most requests name a partition key or a range, and so one slice. The catalog is the first slice's. Lists over the whole
//! container go through the slices in their order, which is that of the keys: a page comes from one of them, and the continuation says
//! from which. Queries do that too, or are [put together](super::gathered). The ranges of a container are put together from all of them.

mod addresses;
mod each;

pub(super) use each::turned;

use super::gathered::GATHER;
use super::placed::{Placed, is_elsewhere};
use super::{Arrived, Gateway, Peer, RequestBody, body, path_of};
use crate::auth::{self, Presented};
use crate::cluster::front::{Forwarded, Front, OwnerPlace, Passed, come_back};
use crate::cluster::slices::{SliceFronts, SliceHint};
use crate::cluster::{FROM, SLICE};
use crate::headers::{HttpContext, RequestContext, names};
use crate::locality::locality;
use crate::reply::Reply;
use crate::routes::{Operation, Route, Segments};
use crate::service::Service;
use armilla_engine::Slice;
use armilla_model::clock::monotonic;
use armilla_model::{Error, Result};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode};
use http_body_util::Full;
use std::time::Duration;
use tokio::time::Instant;

/// Which slices a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SliceReach {
    /// One of them.
    One(u32),
    /// A page of one, beginning with this one.
    InTurn(u32),
    /// The same for a query, or a page of all of them.
    Query(u32),
    /// All of them, for the ranges of a container.
    Ranges,
    /// All of them, each for its part.
    Each,
    /// Those that have the ranges which are asked for.
    Addresses,
    /// All of them, for changes behind places in each, the first time perhaps since a second.
    Changes(Option<u64>),
    /// All of them, for what a container holds.
    Usage,
    /// All of them, which do the same.
    Every,
}

/// A request that is read, on its way to slices.
pub(super) struct Routed<'a> {
    pub(super) peer: Peer,
    pub(super) parts: &'a Parts,
    pub(super) body: Bytes,
    route: Option<Route<'a>>,
    is_read: bool,
    pub(super) started: std::time::Instant,
    deadline: Instant,
}

impl<S: Service> Gateway<S> {
    /// Finds who answers.
    pub(super) async fn by_slice(
        &self,
        slices: &SliceFronts,
        peer: Peer,
        parts: &Parts,
        mut body: RequestBody,
    ) -> Placed {
        match super::at_owner::about_this_node(parts) {
            Some(Route::Ready | Route::Status) if !slices.is_ready() => {
                let activity_id = self.activity_ids.next();
                let reply = super::at_owner::not_ready();
                let response = reply.into_http(&parts.method, &activity_id, Duration::ZERO);
                return Placed::Answered(response);
            }
            Some(_) => return Placed::Here(body, 0),
            None => {}
        }
        if parts.headers.contains_key(FROM) {
            match self.passed_on(slices, parts, body) {
                Placed::Here(given, 0) if parts.headers.contains_key(GATHER) => body = given,
                done => return done,
            }
        }
        let reply = match self.routed(slices, peer, parts, body).await {
            Ok(response) => return Placed::Answered(response),
            Err(error) => Reply::error(error),
        };
        let activity_id = self.activity_ids.next();
        let mut response = reply.into_http(&parts.method, &activity_id, Duration::ZERO);
        self.settings.cors.decorate(parts, response.headers_mut());
        Placed::Answered(response)
    }

    /// A request that another node has sent for a slice of this one.
    fn passed_on(&self, slices: &SliceFronts, parts: &Parts, body: RequestBody) -> Placed {
        let named = parts.headers.get(SLICE).and_then(|slice| slice.to_str().ok()?.parse().ok());
        let slice: u32 = named.unwrap_or(0);
        match slices.front(slice) {
            Some(front) if front.place() == OwnerPlace::Here => Placed::Here(body, slice),
            _ => Placed::Answered(super::at_owner::not_owner(self, parts)),
        }
    }

    async fn routed(
        &self,
        slices: &SliceFronts,
        peer: Peer,
        parts: &Parts,
        body: RequestBody,
    ) -> Result<Response<Full<Bytes>>> {
        let (started, deadline) = (monotonic(), Front::deadline());
        let (http, context, _) = HttpContext::read(&parts.headers);
        let segments = Segments::parse(path_of(&parts.uri))?;
        let route = Route::find(&segments);
        self.check_session(slices, &context, route)?;
        if !body.is_end_stream() {
            let foreign = self.settings.host_names.foreign(parts);
            let locality = locality(&peer, parts, &http, foreign.as_deref());
            let (method, segments) = (&parts.method, &segments);
            let presented = Presented { method, segments, context: &context, locality: &locality };
            let known = self.authenticator.authenticate(&presented, self.clock.now_seconds());
            if let Err(denied) = known {
                body::discard(body, &self.settings.limits, http.expects_continue).await;
                return Err(denied.error);
            }
        }
        let operation = route.map(|route| Operation::find(route, &parts.method, context.intent));
        let operation = operation.and_then(Result::ok);
        let is_read = matches!(parts.method, Method::GET | Method::HEAD)
            || operation.is_some_and(|operation| operation.changes_nothing());
        let body = body::read(body, &self.settings.limits, http.expects_continue).await?;
        let reach = match route {
            Some(Route::Addresses) => SliceReach::Addresses,
            _ => reach(slices, operation.as_ref(), &context)?,
        };
        let routed = Routed { peer, parts, body, route, is_read, started, deadline };
        match reach {
            SliceReach::One(slice) => self.ask(slices, &routed, slice, parts.clone()).await,
            SliceReach::InTurn(slice) => {
                self.ask_in_turn(slices, &routed, slice, parts.clone()).await
            }
            SliceReach::Query(slice) => loop {
                let response = self.query_slices(slices, &routed, slice).await?;
                if !is_elsewhere(&response) || Instant::now() >= deadline {
                    return Ok(response);
                }
            },
            SliceReach::Ranges => self.ask_for_ranges(slices, &routed).await,
            SliceReach::Each => self.ask_each(slices, &routed).await,
            SliceReach::Addresses => self.ask_for_addresses(slices, &routed).await,
            SliceReach::Changes(since) => self.feed_slices(slices, &routed, since).await,
            SliceReach::Usage => self.read_in_slices(slices, &routed).await,
            SliceReach::Every => self.turn_in_slices(slices, &routed).await,
        }
    }

    /// Sessions of the explorer are those of the node that has the first slice.
    fn check_session(
        &self,
        slices: &SliceFronts,
        context: &RequestContext<'_>,
        route: Option<Route<'_>>,
    ) -> Result<()> {
        let is_session = auth::is_session(context.authorization) || route == Some(Route::Session);
        match slices.front(0).map(|front| front.place()) {
            Some(OwnerPlace::Elsewhere(owner)) if is_session => Err(Error::Misdirected(format!(
                "Sessions are those of the node that has the first slice: sign in at {owner}/_explorer/."
            ))),
            _ => Ok(()),
        }
    }

    /// Has a slice answer, or another one if that says so.
    pub(super) async fn ask(
        &self,
        slices: &SliceFronts,
        routed: &Routed<'_>,
        mut slice: u32,
        mut parts: Parts,
    ) -> Result<Response<Full<Bytes>>> {
        loop {
            let front = slices.front(slice).ok_or_else(come_back)?;
            parts.headers.insert(SLICE, HeaderValue::from(slice));
            // What waits for an owner is counted for the whole node.
            let held = match front.place() {
                OwnerPlace::Here => None,
                _ => slices.front(0).map(|first| first.hold(routed.body.len())).transpose()?,
            };
            let response = match front.find(routed.deadline).await {
                OwnerPlace::Here => {
                    let body = RequestBody::Whole(routed.body.clone());
                    let foreign = self.settings.host_names.foreign(&parts);
                    let arrived = Arrived {
                        started: routed.started,
                        foreign,
                        misdirected: None,
                        gathered: &[],
                    };
                    let walk = self.walk(routed.peer, &parts, (body, slice), arrived);
                    let response = Box::pin(walk).await;
                    if is_elsewhere(&response) && Instant::now() < routed.deadline {
                        front.left().await;
                        continue;
                    }
                    response
                }
                // It has just gone, and is counted first.
                OwnerPlace::Elsewhere(_) if held.is_none() => continue,
                OwnerPlace::Elsewhere(_) => {
                    let passed = Passed {
                        parts: &parts,
                        body: routed.body.clone(),
                        is_secure: routed.peer.is_secure,
                        is_read: routed.is_read,
                        deadline: routed.deadline,
                    };
                    match front.forward_held(&passed).await? {
                        Forwarded::Answered(response) => response,
                        // It has just come here.
                        Forwarded::Here => continue,
                    }
                }
                OwnerPlace::Nobody | OwnerPlace::HereSoon => return Err(come_back()),
            };
            let Some(hint) = hint_of(&response) else { return Ok(response) };
            if let Some(path) = routed.route.and_then(|route| route.container()) {
                slices.learn(path, hint);
            }
            if hint.slice == slice || Instant::now() >= routed.deadline {
                return Err(come_back());
            }
            slice = hint.slice;
        }
    }

    /// A page of one slice, with a continuation that leads through all of them.
    pub(super) async fn ask_in_turn(
        &self,
        slices: &SliceFronts,
        routed: &Routed<'_>,
        slice: u32,
        mut parts: Parts,
    ) -> Result<Response<Full<Bytes>>> {
        let given = parts.headers.remove(names::CONTINUATION);
        let given = given.as_ref().and_then(|given| given.to_str().ok());
        let inner = given.map(|given| Turn::read(given).map_or(given, |turn| turn.inner));
        if let Some(inner) = inner.filter(|inner| !inner.is_empty()) {
            let inner = HeaderValue::from_str(inner).map_err(|_| invalid_token())?;
            parts.headers.insert(names::CONTINUATION, inner);
        }
        let mut response = self.ask(slices, routed, slice, parts).await?;
        let headers = response.headers_mut();
        let turn = headers.remove(names::TURN);
        if !response.status().is_success() || response.headers().contains_key(names::PART) {
            return Ok(response);
        }
        let headers = response.headers_mut();
        let next = headers.remove(names::CONTINUATION);
        let next = next.as_ref().and_then(|next| next.to_str().ok());
        let turn = turn.as_ref().map_or(&b""[..], HeaderValue::as_bytes);
        let next = next_turn(slices.count(), slice, turn, next);
        if let Some(next) = next {
            let next = HeaderValue::from_str(&next.write()).map_err(|_| invalid_token())?;
            headers.insert(names::CONTINUATION, next);
        }
        Ok(response)
    }
}

/// Where the page behind one of a slice begins, as far as there is one: in the same slice, or in the next one, which may have to know how many rows there were.
fn next_turn<'a>(
    count: u32,
    slice: u32,
    turn: &[u8],
    continuation: Option<&'a str>,
) -> Option<Turn<'a>> {
    match (turn, continuation) {
        (b"end", _) => None,
        (b"next", inner) if slice + 1 < count => {
            Some(Turn { slice: slice + 1, inner: inner.unwrap_or_default() })
        }
        (b"next", _) => None,
        (_, Some(inner)) => Some(Turn { slice, inner }),
        (_, None) if slice + 1 < count => Some(Turn { slice: slice + 1, inner: "" }),
        (_, None) => None,
    }
}

pub(super) fn invalid_token() -> Error {
    Error::bad_request("The continuation token is not one of this container's.")
}

/// What an answer tells of a key that lies elsewhere.
fn hint_of(response: &Response<Full<Bytes>>) -> Option<SliceHint> {
    if response.status() != StatusCode::MISDIRECTED_REQUEST {
        return None;
    }
    let hint = response.headers().get(names::OTHER_SLICE)?;
    SliceHint::read(hint.to_str().ok()?)
}

/// A position in a list over all slices: the slice, and the position in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn<'a> {
    slice: u32,
    inner: &'a str,
}

impl<'a> Turn<'a> {
    pub(super) fn read(text: &'a str) -> Option<Self> {
        let (slice, inner) = text.strip_prefix("S")?.split_once('.')?;
        Some(Self { slice: slice.parse().ok()?, inner })
    }

    fn write(self) -> String {
        format!("S{}.{}", self.slice, self.inner)
    }
}

/// Which slices an operation is for.
fn reach(
    slices: &SliceFronts,
    operation: Option<&Operation<'_>>,
    context: &RequestContext<'_>,
) -> Result<SliceReach> {
    use Operation as O;
    let first = SliceReach::One(0);
    let Some(operation) = operation else { return Ok(first) };
    if matches!(operation, O::ReadPartitionKeyRanges(_)) {
        return Ok(SliceReach::Ranges);
    }
    let is_run = matches!(operation, O::PauseSubscription(_) | O::ResumeSubscription(_));
    if is_run || matches!(operation, O::RewindSubscription(_) | O::ReadSubscriptionStatus(_)) {
        return Ok(SliceReach::Each);
    }
    if matches!(operation, O::ReadContainer(_))
        && (context.populate_quota_info || context.populate_partition_statistics)
    {
        return Ok(SliceReach::Usage);
    }
    if matches!(operation, O::TurnDials(None)) {
        return Ok(SliceReach::Every);
    }
    let Some(path) = operation.items_of() else { return Ok(first) };
    if matches!(operation, O::PlanQuery(_)) {
        return Ok(first);
    }
    let is_feed = matches!(operation, O::ListItems(_) | O::QueryItems(_) | O::ReadChangeFeed(_))
        || (matches!(operation, O::ExecuteProcedure(_)) && context.for_each_partition);
    if let Some(key) = context.key().filter(|key| !is_feed || !key.0.is_empty()) {
        return Ok(SliceReach::One(slices.slice_of(path, &key).unwrap_or(0)));
    }
    if let Some(range) = &context.range_id {
        let range = range.id.parse().map_err(|_| Error::PartitionGone)?;
        return Ok(SliceReach::One(Slice::of_range(range, slices.count())));
    }
    if matches!(operation, O::ReadChangeFeed(_)) {
        return Ok(SliceReach::Changes(context.if_modified_since));
    }
    if !is_feed {
        return Ok(first);
    }
    let slice = context.continuation.and_then(Turn::read).map_or(0, |turn| turn.slice);
    if slice >= slices.count() {
        return Err(invalid_token());
    }
    Ok(match operation {
        O::QueryItems(_) => SliceReach::Query(slice),
        _ => SliceReach::InTurn(slice),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_continuation_says_in_which_slice_it_goes_on() {
        for turn in [Turn { slice: 3, inner: "a.b" }, Turn { slice: 0, inner: "" }] {
            assert_eq!(Turn::read(&turn.write()), Some(turn));
        }
        for foreign in ["", "S", "Sx.a", "abc", "1.2"] {
            assert_eq!(Turn::read(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn a_page_says_which_slice_goes_on() {
        let next = |slice, turn: &[u8], token| next_turn(3, slice, turn, token);
        assert_eq!(next(0, b"", Some("t")), Some(Turn { slice: 0, inner: "t" }));
        assert_eq!(next(0, b"", None), Some(Turn { slice: 1, inner: "" }));
        assert_eq!(next(2, b"", None), None);
        // What is left of TOP goes with it.
        assert_eq!(next(0, b"next", Some("t")), Some(Turn { slice: 1, inner: "t" }));
        assert_eq!(next(1, b"next", None), Some(Turn { slice: 2, inner: "" }));
        assert_eq!(next(2, b"next", Some("t")), None);
        assert_eq!(next(0, b"end", None), None);
    }
}
