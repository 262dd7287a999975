//! The first exchange of a connection: versions, and who is who.

use super::frame::{ContextFrame, HEAD_LENGTH};
use super::ids::context;
use super::token::Writer;
use crate::limits::FIRST_REQUEST_TIMEOUT;

/// The version of the protocol that is spoken here.
const PROTOCOL_VERSION: u32 = 1;

/// Whether the client's version of the protocol is spoken here.
pub(crate) fn is_spoken(asked: &ContextFrame) -> bool {
    asked.protocol_version == PROTOCOL_VERSION
}

/// The answer: 200, or 400 to another version of the protocol.
pub(crate) fn answer(asked: &ContextFrame) -> Vec<u8> {
    let refused = !is_spoken(asked);
    let status: u32 = if refused { 400 } else { 200 };
    let mut out = vec![0; 4];
    out.extend_from_slice(&status.to_le_bytes());
    out.extend_from_slice(&asked.activity);
    let mut tokens = Writer(&mut out);
    tokens.ulong(context::PROTOCOL_VERSION, PROTOCOL_VERSION);
    tokens.small_string(context::CLIENT_VERSION, &asked.client_version);
    tokens.small_string(context::SERVER_AGENT, "Armilla");
    tokens.small_string(context::SERVER_VERSION, env!("CARGO_PKG_VERSION"));
    // Nobody is sent away for being idle.
    tokens.ulong(context::IDLE_TIMEOUT, 0);
    let seconds = u32::try_from(FIRST_REQUEST_TIMEOUT.as_secs()).unwrap_or(u32::MAX);
    tokens.ulong(context::UNAUTHENTICATED_TIMEOUT, seconds);
    finish_head(&mut out);
    if refused {
        let message = format!(
            r#"{{"code":"BadRequest","message":"Version {PROTOCOL_VERSION} of the protocol is spoken here, not {}."}}"#,
            asked.protocol_version
        );
        out.extend_from_slice(&(message.len() as u32).to_le_bytes());
        out.extend_from_slice(message.as_bytes());
    }
    out
}

/// Writes the length of a frame that ends here, behind its last token.
pub(super) fn finish_head(frame: &mut [u8]) {
    debug_assert!(frame.len() >= HEAD_LENGTH);
    let length = u32::try_from(frame.len()).expect("a frame's tokens are cut to fit");
    if let Some(place) = frame.first_chunk_mut::<4>() {
        *place = length.to_le_bytes();
    }
}
