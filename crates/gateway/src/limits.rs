//! Every bound of the network side, with its default.

use std::time::Duration;

/// Connections served at once; further ones are told to come back later.
pub const CONNECTIONS_MAX: usize = 20_000;
/// Connections told so at once; those beyond are closed without a word.
pub const REFUSALS_MAX: usize = 256;
/// Pending connections in the listening socket's queue.
pub const BACKLOG_MAX: u32 = 4_096;
/// Bytes of one request's line and headers. Session tokens and continuations make them long.
pub const HEADER_SIZE_MAX: usize = 64 * 1024;
/// Headers of one request.
pub const HEADER_COUNT_MAX: usize = 100;
/// Bytes of an over-long body that are read and thrown away before the refusal, because a client
/// that is still sending when the connection closes may never see the answer.
pub const BODY_DRAIN_MAX: usize = 16 * 1024 * 1024;
/// Requests in flight on one HTTP/2 connection.
pub const STREAMS_MAX: u32 = 256;
/// Time for request line and headers, counted from their first byte.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for the whole body, counted from the end of the headers.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// Time a connection may stay open without a request. Longer than the SDKs keep idle connections,
/// so that it is the client that closes and no request is lost on a closing connection.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// Time for a TLS handshake.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time that requests in flight get to finish when the server stops.
pub const SHUTDOWN_WAIT: Duration = Duration::from_secs(10);

/// The bounds of one server; tests shrink them.
#[derive(Clone, Debug)]
pub struct Limits {
    /// See [`CONNECTIONS_MAX`].
    pub connections_max: usize,
    /// See [`HEADER_SIZE_MAX`].
    pub header_size_max: usize,
    /// Bytes of a request body; see [`armilla_model::limits::REQUEST_SIZE_MAX`].
    pub body_size_max: usize,
    /// See [`BODY_DRAIN_MAX`].
    pub body_drain_max: usize,
    /// See [`STREAMS_MAX`].
    pub streams_max: u32,
    /// See [`HEADER_TIMEOUT`].
    pub header_timeout: Duration,
    /// See [`BODY_TIMEOUT`].
    pub body_timeout: Duration,
    /// See [`IDLE_TIMEOUT`].
    pub idle_timeout: Duration,
    /// See [`HANDSHAKE_TIMEOUT`].
    pub handshake_timeout: Duration,
    /// See [`SHUTDOWN_WAIT`].
    pub shutdown_wait: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: CONNECTIONS_MAX,
            header_size_max: HEADER_SIZE_MAX,
            body_size_max: armilla_model::limits::REQUEST_SIZE_MAX,
            body_drain_max: BODY_DRAIN_MAX,
            streams_max: STREAMS_MAX,
            header_timeout: HEADER_TIMEOUT,
            body_timeout: BODY_TIMEOUT,
            idle_timeout: IDLE_TIMEOUT,
            handshake_timeout: HANDSHAKE_TIMEOUT,
            shutdown_wait: SHUTDOWN_WAIT,
        }
    }
}
