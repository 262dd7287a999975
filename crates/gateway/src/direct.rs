//! Direct mode: RNTBD, the binary protocol that the Java and .NET SDKs speak by default, over TLS.
//!
//! A client asks `/addresses` over HTTP ([`addresses`]) and is told where the partitions of a container
//! are: at this server, each under a path of its own (`replica`). It connects there, negotiates once
//! (`context`), and sends requests as frames ([`frame`]) of tokens (`token`, `ids`), many at a time;
//! answers go back as they are ready. `map` turns a frame into the same typed request that HTTP makes, so
//! no operation is written twice; `exchange` walks it through the gateway, and `response` turns the answer's
//! facts into tokens.
//!
//! The first bytes of a connection tell the protocols apart: a frame that negotiates has zeros where HTTP
//! has text ([`is_context`]).

pub mod addresses;
pub(crate) mod context;
pub(crate) mod exchange;
pub mod frame;
mod ids;
mod map;
mod replica;
mod response;
mod token;

#[cfg(test)]
mod tests;

use std::fmt;

/// Where Direct mode is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DirectMode {
    /// Nowhere: clients are told to use the gateway.
    #[default]
    Off,
    /// At the port of HTTPS.
    SamePort,
    /// At a port of its own.
    Port(u16),
}

/// How many bytes of a connection tell whether it speaks this protocol.
pub const SNIFFED: usize = 8;

/// Whether a connection begins with a frame that negotiates: resource and operation are zero, which is no
/// HTTP.
pub fn is_context(first: &[u8; SNIFFED]) -> bool {
    matches!(first, [.., 0, 0, 0, 0])
}

/// What cannot be read: the connection is closed, because the ids of an answer are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the frame cannot be read: {}", self.0)
    }
}

impl std::error::Error for Malformed {}
