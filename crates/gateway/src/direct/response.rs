//! From the facts of an answer to the tokens of a response.
//!
//! Clients in Direct mode follow a partition's log by these tokens: an answer without the LSNs or without the
//! session token, errors included, counts as a replica that is behind, and is asked again for many seconds.
//! So every response carries them, all with one number.

use super::context::finish_head;
use super::frame::Ticket;
use super::ids::response as id;
use super::token::Writer;
use crate::reply::{Answer, Fact, Facts, Session, Usage};
use armilla_model::session_token::SessionToken;
use bytes::Bytes;
use http::StatusCode;
use std::time::Duration;

/// Replicas of a partition, as answers tell it: this one.
const REPLICAS: u32 = 1;
/// Substatus of a range that was split or merged away, which makes clients look for its successors by
/// themselves. The one of HTTP (1002) would reach the user.
pub(super) const PARTITION_MOVED: u32 = 1007;
/// Substatus of a name that belongs to another container by now.
pub(super) const NAME_IS_STALE: u32 = 1000;
/// Substatus of a range that is gone, as HTTP says it.
const RANGE_GONE: u32 = 1002;

/// Where an answer comes from.
#[derive(Clone, Copy, Debug)]
pub(super) enum ReplicaPosition {
    /// The catalog.
    Master,
    /// A range, and how far its log is.
    Range(SessionToken),
}

/// What the request wants to see beside what every answer has.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shape {
    /// Pages tell how many rows they have, also when nothing is new.
    pub(super) is_feed: bool,
    /// Barriers have no body.
    pub(super) is_bodyless: bool,
    /// The client asked what the container holds.
    pub(super) tells_usage: bool,
}

/// A response as it goes out: the frame, and behind it a payload that was not copied into it.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) frame: Vec<u8>,
    pub(super) payload: Bytes,
}

/// Payloads up to this size are written with their frame, larger ones behind it without being copied.
const PAYLOAD_COPIED_MAX: usize = 8 * 1024;

/// Writes a response.
pub(super) fn write(
    ticket: Ticket,
    answer: Answer,
    place: ReplicaPosition,
    shape: Shape,
    took: Duration,
) -> Response {
    let Answer { status, facts, charge, body, .. } = answer;
    let bodyless = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
        || shape.is_bodyless
        || body.is_empty();
    let copied = if bodyless { 0 } else { body.len().min(PAYLOAD_COPIED_MAX) };
    let mut frame = Vec::with_capacity(512 + copied);
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(&u32::from(status.as_u16()).to_le_bytes());
    frame.extend_from_slice(&ticket.activity);
    let mut tokens = Writer(&mut frame);
    tokens.byte(id::PAYLOAD_PRESENT, u8::from(!bodyless));
    tokens.ulong(id::TRANSPORT_REQUEST_ID, ticket.transport_id);
    tokens.double(id::REQUEST_CHARGE, charge.hundredths() as f64 / 100.0);
    tokens.double(id::REQUEST_DURATION, took.as_secs_f64() * 1000.0);
    write_position(&mut tokens, &facts, place);
    write_facts(&mut tokens, status, &facts, shape);
    finish_head(&mut frame);
    if bodyless {
        return Response { frame, payload: Bytes::new() };
    }
    let length = u32::try_from(body.len()).expect("an answer is shorter than 4 GB");
    frame.extend_from_slice(&length.to_le_bytes());
    if body.len() > PAYLOAD_COPIED_MAX {
        return Response { frame, payload: body };
    }
    frame.extend_from_slice(&body);
    Response { frame, payload: Bytes::new() }
}

/// The LSNs, the range and the session token.
fn write_position(tokens: &mut Writer<'_>, facts: &Facts, place: ReplicaPosition) {
    let position = match (&facts.session, place) {
        (_, ReplicaPosition::Master) => None,
        (Session::One(token), ReplicaPosition::Range(_)) => Some(*token),
        (_, ReplicaPosition::Range(token)) => Some(token),
    };
    // With 0 every strong read of an empty partition would need a barrier.
    let lsn = position.map_or(1, |token| token.lsn.0.max(1));
    let signed = |lsn: u64| i64::try_from(lsn).unwrap_or(i64::MAX);
    for id in [
        id::LSN,
        id::LOCAL_LSN,
        id::QUORUM_ACKED_LSN,
        id::QUORUM_ACKED_LOCAL_LSN,
        id::GLOBAL_COMMITTED_LSN,
    ] {
        tokens.long_long(id, signed(lsn));
    }
    if let Some(item) = facts.item_lsn {
        let item = item.clamp(1, lsn);
        tokens.long_long(id::ITEM_LSN, signed(item));
        tokens.long_long(id::ITEM_LOCAL_LSN, signed(item));
    }
    tokens.ulong(id::REPLICA_SET_SIZE, REPLICAS);
    tokens.ulong(id::WRITE_QUORUM, REPLICAS);
    tokens.ulong(id::READ_REGIONS, 0);
    if let Some(SessionToken { range, lsn }) = position {
        let (mut range_digits, mut lsn_digits) = (itoa::Buffer::new(), itoa::Buffer::new());
        tokens.string(id::RANGE_ID, range_digits.format(range));
        // The client puts the range's id in front.
        tokens.string(id::SESSION_TOKEN, &["-1#", lsn_digits.format(lsn.0)].concat());
    }
}

fn write_facts(tokens: &mut Writer<'_>, status: StatusCode, facts: &Facts, shape: Shape) {
    if status.is_client_error() || status.is_server_error() {
        let substatus = match facts.substatus.unwrap_or(0) {
            RANGE_GONE if status == StatusCode::GONE => PARTITION_MOVED,
            substatus => substatus,
        };
        tokens.ulong(id::SUBSTATUS, substatus);
    }
    if let Some(wait) = facts.retry_after {
        let millis = wait.as_micros().div_ceil(1000);
        tokens.ulong(id::RETRY_AFTER, u32::try_from(millis).unwrap_or(u32::MAX));
    }
    if let Some(etag) = &facts.etag {
        tokens.string(id::ETAG, etag);
    }
    if let Some(owner) = &facts.owner {
        tokens.string(id::OWNER_NAME, &owner.path);
        tokens.string(id::OWNER_RID, &owner.rid);
    }
    if facts.item_count.is_some() || shape.is_feed {
        let count = u32::try_from(facts.item_count.unwrap_or(0)).unwrap_or(u32::MAX);
        tokens.ulong(id::ITEM_COUNT, count);
    }
    if let Some(token) = &facts.continuation {
        tokens.string(id::CONTINUATION, token);
    }
    if let Some(usage) = facts.usage.filter(|_| shape.tells_usage) {
        tokens.string(id::QUOTA, Usage::quota());
        tokens.string(id::USAGE, &usage.text());
    }
    for (fact, text) in &facts.more {
        write_rarer(tokens, *fact, text);
    }
}

/// Facts that few answers have; those without a token are HTTP's alone.
fn write_rarer(tokens: &mut Writer<'_>, fact: Fact, text: &str) {
    match fact {
        Fact::QueryMetrics => tokens.string(id::QUERY_METRICS, text),
        Fact::IndexUtilization => tokens.string(id::INDEX_UTILIZATION, text),
        Fact::QueryExecutionInfo => tokens.string(id::QUERY_EXECUTION_INFO, text),
        Fact::QueryAdvice => tokens.string(id::QUERY_ADVICE, text),
        Fact::ScriptLog => tokens.string(id::LOG_RESULTS, text),
        Fact::RequiresDistribution => {
            tokens.byte(id::REQUIRES_DISTRIBUTION, u8::from(text.eq_ignore_ascii_case("true")));
        }
        Fact::IndexProgress => {
            if let Ok(percent) = text.parse() {
                tokens.ulong(id::INDEX_PROGRESS, percent);
            }
        }
        Fact::Explain
        | Fact::MinThroughput
        | Fact::OfferReplacePending
        | Fact::ShareThroughput
        | Fact::WouldThrottle
        | Fact::OtherSlice
        | Fact::Part
        | Fact::Turn
        | Fact::MediaStorageMax
        | Fact::MediaStorage => {}
    }
}
