//! Frames: `length u32 | resource u16 | operation u16 | activity 16 | tokens | [payload length u32 | payload]`.
//!
//! The length counts itself, the head and the tokens, not the payload. [`Decoder::next`] takes frames from a
//! buffer as they become whole; it keeps no more than one frame, and looks at a length before it waits for
//! what it announces. What cannot be read ends the connection: the ids that an answer needs are not known.

use super::ids::{context_types, is_operation, is_resource, request, request_types};
use super::token::Tokens;
use super::{Malformed, ids};
use bytes::{Buf as _, Bytes, BytesMut};

/// Length, resource, operation and activity id.
pub const HEAD_LENGTH: usize = 24;
/// Bytes of a frame's head and tokens. The longest that was seen has 1249.
pub const FRAME_SIZE_MAX: usize = 1024 * 1024;
/// Bytes of a payload that are read and thrown away before it is refused; beyond, the connection is closed.
pub const PAYLOAD_DRAIN_MAX: usize = 16 * 1024 * 1024;

/// Who answers which request: the ids that a response repeats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticket {
    /// The activity id, as its bytes stand on the wire.
    pub activity: [u8; 16],
    /// The number by which the client finds its request.
    pub transport_id: u32,
}

/// One whole request.
#[derive(Clone, Debug)]
pub struct RequestFrame {
    /// Where its answer goes.
    pub ticket: Ticket,
    /// The number of the resource type.
    pub resource: u16,
    /// The number of the operation.
    pub operation: u16,
    /// The tokens, checked.
    pub(crate) tokens: Bytes,
    /// The payload, or how long it would have been.
    pub payload: Payload,
}

/// What came behind the tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// All of it; empty when there is none.
    Whole(Bytes),
    /// More than the server takes; it was read and forgotten.
    TooLarge(usize),
}

impl RequestFrame {
    /// The tokens. They were checked when the frame was taken.
    pub(crate) fn tokens(&self) -> Result<Tokens<'_>, Malformed> {
        Tokens::read(&self.tokens, request_types)
    }
}

/// The first request of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextFrame {
    /// The activity id, as its bytes stand on the wire.
    pub activity: [u8; 16],
    /// The version of the protocol; 1 is spoken.
    pub protocol_version: u32,
    /// The `x-ms-version` of the whole connection.
    pub client_version: String,
    /// Who asks.
    pub user_agent: String,
}

/// Takes frames from a buffer.
#[derive(Debug)]
pub struct Decoder {
    payload_max: usize,
    state: State,
}

#[derive(Debug)]
enum State {
    /// At the beginning of a frame.
    Head,
    /// A frame whose payload is still awaited.
    Payload(RequestFrame),
    /// A frame whose payload is too long: so many bytes of it are still to come.
    Draining(RequestFrame, usize),
}

impl Decoder {
    /// A decoder that keeps payloads up to a size.
    pub fn new(payload_max: usize) -> Self {
        Self { payload_max, state: State::Head }
    }

    /// True between two frames.
    pub fn is_between_frames(&self) -> bool {
        matches!(self.state, State::Head)
    }

    /// The next frame if it is whole. Nothing when more bytes are needed; what is not needed yet stays in
    /// the buffer.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Result<Option<RequestFrame>, Malformed> {
        loop {
            match std::mem::replace(&mut self.state, State::Head) {
                State::Head => match take_head(buffer)? {
                    None => return Ok(None),
                    Some((frame, false)) => return Ok(Some(frame)),
                    Some((frame, true)) => self.state = State::Payload(frame),
                },
                State::Payload(frame) => match self.take_payload(frame, buffer)? {
                    None => return Ok(None),
                    Some(frame) => return Ok(Some(frame)),
                },
                State::Draining(frame, left) => {
                    let passed = left.min(buffer.len());
                    buffer.advance(passed);
                    if passed == left {
                        return Ok(Some(frame));
                    }
                    self.state = State::Draining(frame, left - passed);
                    return Ok(None);
                }
            }
        }
    }

    fn take_payload(
        &mut self,
        mut frame: RequestFrame,
        buffer: &mut BytesMut,
    ) -> Result<Option<RequestFrame>, Malformed> {
        let Some(&length) = buffer.first_chunk::<4>() else {
            self.state = State::Payload(frame);
            return Ok(None);
        };
        let length = u32::from_le_bytes(length) as usize;
        if length > PAYLOAD_DRAIN_MAX {
            return Err(Malformed("a payload is longer than anything that is read"));
        }
        if length > self.payload_max {
            buffer.advance(4);
            frame.payload = Payload::TooLarge(length);
            self.state = State::Draining(frame, length);
            return self.next(buffer);
        }
        if buffer.len() < 4 + length {
            self.state = State::Payload(frame);
            return Ok(None);
        }
        buffer.advance(4);
        frame.payload = Payload::Whole(buffer.split_to(length).freeze());
        Ok(Some(frame))
    }
}

/// Takes head and tokens, once they are there; and whether a payload follows.
fn take_head(buffer: &mut BytesMut) -> Result<Option<(RequestFrame, bool)>, Malformed> {
    let Some(head) = take_frame(buffer)? else { return Ok(None) };
    let (resource, operation) = numbers(&head);
    if (resource, operation) == (0, 0) || !is_resource(resource) || !is_operation(operation) {
        return Err(Malformed("a frame asks for something that is not known"));
    }
    let activity = activity(&head);
    let tokens = head.slice(HEAD_LENGTH..);
    let found = Tokens::read(&tokens, request_types)?;
    let missing = Malformed("a required token is missing");
    let has_payload = found.byte(request::PAYLOAD_PRESENT).ok_or(missing)? != 0;
    let transport_id = found.number(request::TRANSPORT_REQUEST_ID).ok_or(missing)?;
    found.text(request::REPLICA_PATH).ok_or(missing)?;
    let ticket = Ticket { activity, transport_id };
    let payload = Payload::Whole(Bytes::new());
    Ok(Some((RequestFrame { ticket, resource, operation, tokens, payload }, has_payload)))
}

/// Takes the first frame of a connection, once it is there.
pub fn take_context(buffer: &mut BytesMut) -> Result<Option<ContextFrame>, Malformed> {
    let Some(head) = take_frame(buffer)? else { return Ok(None) };
    if numbers(&head) != (0, 0) {
        return Err(Malformed("the first frame does not negotiate"));
    }
    let tokens = Tokens::read(&head[HEAD_LENGTH..], context_types)?;
    let missing = Malformed("a required token is missing");
    let text = |id| tokens.text(id).map(str::to_owned).ok_or(missing);
    Ok(Some(ContextFrame {
        activity: activity(&head),
        protocol_version: tokens.number(ids::context::PROTOCOL_VERSION).ok_or(missing)?,
        client_version: text(ids::context::CLIENT_VERSION)?,
        user_agent: text(ids::context::USER_AGENT)?,
    }))
}

/// Head and tokens of a frame, once they are there.
fn take_frame(buffer: &mut BytesMut) -> Result<Option<Bytes>, Malformed> {
    let Some(&length) = buffer.first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(length) as usize;
    if !(HEAD_LENGTH..=FRAME_SIZE_MAX).contains(&length) {
        return Err(Malformed("a frame has no valid length"));
    }
    Ok((buffer.len() >= length).then(|| buffer.split_to(length).freeze()))
}

fn numbers(head: &[u8]) -> (u16, u16) {
    let number = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
    (number(4), number(6))
}

fn activity(head: &[u8]) -> [u8; 16] {
    let mut activity = [0; 16];
    activity.copy_from_slice(&head[8..HEAD_LENGTH]);
    activity
}

/// The text of an activity id: the first three groups stand reversed on the wire.
pub fn activity_text(activity: &[u8; 16]) -> String {
    const ORDER: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(36);
    for (position, at) in ORDER.into_iter().enumerate() {
        if matches!(position, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let byte = activity[at];
        text.push(char::from(HEX[usize::from(byte >> 4)]));
        text.push(char::from(HEX[usize::from(byte & 15)]));
    }
    text
}
