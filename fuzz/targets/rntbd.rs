//! Any bytes are frames of Direct mode, or wait for more, or end the connection; and the same comes of them however
//! they are cut.
#![no_main]

use bytes::BytesMut;
use direct::frame::{Decoder, Payload, take_context};
use libfuzzer_sys::fuzz_target;

/// The decoder's own files. Their crate would bring the engine, whose build would be instrumented too.
#[allow(dead_code, reason = "the server uses what the fuzzer does not")]
#[path = "../../crates/gateway/src/direct"]
mod direct {
    pub mod frame;
    pub mod ids;
    pub mod token;

    /// What cannot be read.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Malformed(pub &'static str);
}

/// Small, so that inputs reach beyond it.
const PAYLOAD_MAX: usize = 64;

/// What frames came out, and whether the rest could not be read.
fn decode<'b>(pieces: impl Iterator<Item = &'b [u8]>) -> (Vec<(u32, usize)>, bool) {
    let (mut decoder, mut buffer) = (Decoder::new(PAYLOAD_MAX), BytesMut::new());
    let mut found = Vec::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match decoder.next(&mut buffer) {
                Ok(Some(frame)) => {
                    let size = match frame.payload {
                        Payload::Whole(payload) => payload.len(),
                        Payload::TooLarge(size) => size,
                    };
                    found.push((frame.ticket.transport_id, size));
                }
                Ok(None) => break,
                Err(_) => return (found, true),
            }
        }
    }
    (found, false)
}

fuzz_target!(|bytes: &[u8]| {
    let _ = take_context(&mut BytesMut::from(bytes));
    let whole = decode(std::iter::once(bytes));
    assert_eq!(whole, decode(bytes.chunks(1)));
    assert_eq!(whole, decode(bytes.chunks(7)));
});
