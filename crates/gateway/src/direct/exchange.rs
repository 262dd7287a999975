//! One frame, from its tokens to its response.
//!
//! The order is fixed: name of the server (421), operation (400), credentials (401, 403), partition (410), key,
//! tokens (400), permission (403), size (413), then the service. The partition of the path is the limit of
//! what a request sees: a list or query for a key that lives elsewhere finds nothing, and a write or read of
//! such a key is sent on (410) before anything is done.

use super::frame::{Payload, RequestFrame, activity_text};
use super::ids::request as id;
use super::map::{self, Asked, DirectVerb};
use super::replica::ReplicaPath;
use super::response::{self, NAME_IS_STALE, PARTITION_MOVED, ReplicaPosition, Response, Shape};
use super::token::Tokens;
use crate::cluster::front::come_back;
use crate::handle::{Gateway, Peer};
use crate::headers::RequestContext;
use crate::locality::Stranger;
use crate::reply::{FeedBody, FeedKind, Reply};
use crate::request::{self, Request};
use crate::routes::Route;
use crate::service::{Call, KeyShare, RangeAddress, RangeState, Service};
use armilla_engine::Slice;
use armilla_model::Error;
use armilla_model::clock::monotonic;
use armilla_model::lsn::Lsn;
use armilla_model::session_token::SessionToken;
use bytes::Bytes;
use http::StatusCode;
use std::pin::pin;

/// A connection that has negotiated.
#[derive(Clone, Debug)]
pub(crate) struct Connected {
    pub(crate) peer: Peer,
    /// The name that the client gave in the TLS handshake; it gives none for `localhost` and addresses.
    pub(crate) server_name: Option<String>,
    /// The `x-ms-version` of the connection.
    pub(crate) version: String,
}

/// A response, and whether its request was let in.
pub(crate) struct Exchanged {
    pub(crate) frame: Vec<u8>,
    pub(crate) payload: Bytes,
    pub(crate) let_in: bool,
}

impl<S: Service> Gateway<S> {
    /// Answers one frame, whatever it asks for.
    pub(crate) async fn exchange(&self, connected: &Connected, frame: &RequestFrame) -> Exchanged {
        let started = monotonic();
        let activity = activity_text(&frame.ticket.activity);
        let (reply, place, shape) = match frame.tokens() {
            Ok(tokens) => {
                let exchange = DirectExchange { gateway: self, connected, frame, tokens };
                exchange.run(&activity).await
            }
            // It was checked when it was taken.
            Err(malformed) => {
                let error = Error::Internal(malformed.to_string());
                (Reply::error(error), ReplicaPosition::Master, Shape::default())
            }
        };
        let let_in = reply.status() != StatusCode::UNAUTHORIZED;
        let answer = reply.into_answer(activity.as_bytes());
        let Response { frame, payload } =
            response::write(frame.ticket, answer, place, shape, started.elapsed());
        Exchanged { frame, payload, let_in }
    }
}

/// A frame with what is known of it so far.
struct DirectExchange<'a, S> {
    gateway: &'a Gateway<S>,
    connected: &'a Connected,
    frame: &'a RequestFrame,
    tokens: Tokens<'a>,
}

/// The partition that a request speaks to.
#[derive(Clone, Copy)]
enum Target<'a> {
    Master,
    Range(RangeAddress<'a>, RangeState, bool),
}

impl<'a, S: Service> DirectExchange<'a, S> {
    async fn run(&self, activity: &str) -> (Reply, ReplicaPosition, Shape) {
        let path = self.tokens.text(id::REPLICA_PATH).and_then(ReplicaPath::parse);
        let place = |state| match path.and_then(|path| path.range()) {
            Some(range) => ReplicaPosition::Range(SessionToken { range, lsn: state }),
            None => ReplicaPosition::Master,
        };
        let asked = match map::asked(self.frame, &self.tokens) {
            Ok(asked) => asked,
            Err(error) => return (Reply::error(error), place(Lsn(1)), Shape::default()),
        };
        let shape = Shape {
            is_feed: asked.verb.is_feed(),
            is_bodyless: matches!(asked.verb, DirectVerb::Head | DirectVerb::HeadFeed),
            tells_usage: self.tokens.flag(id::POPULATE_QUOTA_INFO),
        };
        let slice = path.and_then(|path| path.range()).map_or(0, |range| self.slice_of(range));
        if !self.gateway.service.settle(slice).await {
            return (come_back().into(), place(Lsn(1)), shape);
        }
        let Some(target) = path.and_then(|path| self.target(path, &asked)) else {
            return (not_here(), place(Lsn(1)), shape);
        };
        let place = match target {
            Target::Range(_, RangeState::Serving(lsn), _) => place(lsn),
            _ => place(Lsn(1)),
        };
        let answer = pin!(self.answer(&asked, target));
        (request::caught(answer, activity.as_bytes()).await, place, shape)
    }

    /// The slice of the account that has a range.
    fn slice_of(&self, range: u32) -> u32 {
        let slices = self.gateway.settings.slices.as_ref();
        slices.map_or(0, |slices| Slice::of_range(range, slices.count()))
    }

    /// What the path leads to, as it is now.
    fn target<'r>(&self, path: ReplicaPath<'r>, asked: &'r Asked<'_>) -> Option<Target<'r>> {
        let ReplicaPath::Range { container, range: range_text, is_primary } = path else {
            return Some(Target::Master);
        };
        let named = match Route::find(&asked.segments) {
            Some(route) if self.tokens.text(id::DATABASE_NAME).is_some() => route.container(),
            _ => None,
        };
        let range = path.range()?;
        let address = RangeAddress { container_rid: container, range, range_text, named };
        let known = self.tokens.text(id::COLLECTION_RID);
        let is_other = known.is_some_and(|rid| rid.trim_end_matches('=') != container);
        let state = match is_other {
            true => RangeState::NoContainer,
            false => self.gateway.service.range_state(&address),
        };
        Some(Target::Range(address, state, is_primary))
    }

    async fn answer(&self, asked: &Asked<'_>, target: Target<'_>) -> Reply {
        if let Some(misdirected) = self.misdirected() {
            return misdirected.into();
        }
        let is_master = matches!(target, Target::Master);
        if asked.kind.is_in_container(asked.verb) == is_master {
            return Error::bad_request("The replica path leads to another kind of partition.")
                .into();
        }
        let (mut context, readable) = map::context(asked, &self.tokens, is_master);
        context.activity = Some(&self.frame.ticket.activity);
        if let Target::Range(address, ..) = target {
            context.slice = self.slice_of(address.range);
        }
        if context.api_version.is_none() {
            let _ = context.set("x-ms-version", self.connected.version.as_bytes());
        }
        let request = Request {
            method: &asked.method,
            segments: &asked.segments,
            context: &context,
            readable,
            locality: self.locality(),
            now_seconds: self.gateway.clock.now_seconds(),
            proved: None,
        };
        let admitted = request::route_of(&asked.segments).and_then(|route| {
            let principal = self.gateway.authenticate(&request)?;
            match target {
                Target::Range(_, state, is_primary) => check_state(asked, state, is_primary)?,
                // The catalog is where the account is: clients ask for its address again.
                Target::Master if !self.gateway.service.is_here() => {
                    return Err(Box::new(not_here()));
                }
                Target::Master => {}
            }
            Ok((self.gateway.authorize(&request, route, &principal)?, principal))
        });
        let (operation, principal) = match admitted {
            Ok(admitted) => admitted,
            Err(refusal) => return *refusal,
        };
        if let Target::Range(address, ..) = target
            && let Err(answer) = self.limit(&mut context, asked, &address)
        {
            return *answer;
        }
        let body = match &self.frame.payload {
            Payload::Whole(body) => body.clone(),
            Payload::TooLarge(size) => return too_large(*size).into(),
        };
        let call = Call { operation, context: &context, principal: &principal, body };
        let reply = self.gateway.service.call(call).await;
        // It was handed over in this very moment, and nothing was done.
        if reply.is_elsewhere() { not_here() } else { reply }
    }

    /// Limits a request to the range of its path, or answers it right away.
    fn limit<'r>(
        &self,
        context: &mut RequestContext<'r>,
        asked: &Asked<'_>,
        address: &RangeAddress<'r>,
    ) -> Result<(), Box<Reply>> {
        map::limit_to_range(context, asked, address.range_text);
        let Some(key) = context.key() else { return Ok(()) };
        match (self.gateway.service.key_share(address, &key), asked.verb.is_feed()) {
            (KeyShare::Whole, _) => Ok(()),
            (KeyShare::Outside, true) => {
                // A range that was split or handed over meanwhile has nothing of the key because others have it.
                check_state(asked, self.gateway.service.range_state(address), true)?;
                Err(Box::new(nothing_here(context, address)))
            }
            (KeyShare::Outside, false) | (KeyShare::Part { .. }, false) => Err(moved()),
            (KeyShare::Part { start, end }, true) => {
                // The part of a prefix that this range has: bounds say it, the key would say more.
                context.partition_key = None;
                context.start_epk = Some(start);
                context.end_epk = end;
                map::limit_to_range(context, asked, address.range_text);
                Ok(())
            }
        }
    }

    /// The refusal of a client that asked for a server of another name.
    fn misdirected(&self) -> Option<Error> {
        let name = self.connected.server_name.as_deref()?;
        self.gateway.settings.host_names.misdirected_name(name)
    }

    /// Whether this machine's own user asks. No browser can write these frames, so the name in the handshake
    /// is all that could tell a stranger on loopback.
    fn locality(&self) -> Result<(), Stranger> {
        if !self.connected.peer.is_loopback() {
            return Err(Stranger::OtherMachine);
        }
        match self.connected.server_name.as_deref() {
            Some(name) if !self.gateway.settings.host_names.knows(name) => {
                Err(Stranger::ForeignHost(name.to_owned()))
            }
            _ => Ok(()),
        }
    }
}

/// Refuses what the partition cannot serve any more. Nothing was done: clients repeat it elsewhere.
fn check_state(asked: &Asked<'_>, state: RangeState, is_primary: bool) -> Result<(), Box<Reply>> {
    match state {
        RangeState::Moved => Err(moved()),
        RangeState::Elsewhere => Err(Box::new(not_here())),
        RangeState::NoContainer => {
            Err(Box::new(Reply::error(Error::PartitionGone).substatus(NAME_IS_STALE)))
        }
        RangeState::Serving(_) if !is_primary && asked.verb.is_write() => Err(Box::new(not_here())),
        RangeState::Serving(_) => Ok(()),
    }
}

fn moved() -> Box<Reply> {
    Box::new(Reply::error(Error::PartitionGone).substatus(PARTITION_MOVED))
}

/// This server does not serve the path, or not for writes.
fn not_here() -> Reply {
    Reply::error(Error::PartitionGone).substatus(0)
}

/// An empty page, or nothing new.
fn nothing_here(context: &RequestContext<'_>, address: &RangeAddress<'_>) -> Reply {
    if context.intent.change_feed {
        let etag = context.if_none_match.unwrap_or("\"0\"").to_owned();
        return Reply::not_modified().item_count(0).etag(etag);
    }
    Reply::feed(FeedBody::new(FeedKind::Items, &format!("{}=", address.container_rid)))
}

fn too_large(size: usize) -> Error {
    Error::TooLarge(format!("Request size is too large: the payload has {size} bytes."))
}

#[cfg(test)]
mod tests;
