//! Every bound of the network side, with its default.

use std::time::Duration;

/// Connections served at once; further ones are told to come back later.
pub const CONNECTIONS_MAX: usize = 20_000;
/// Connections told so at once; those beyond are closed without a word.
pub const REFUSALS_MAX: usize = 256;
/// Of a server's connections, the share that those may have who never brought a request that was let
/// in; beyond it the oldest of them is closed for the newest. So silence cannot lock clients out.
pub const NEWCOMERS_SHARE: usize = 2;
/// Pending connections in the listening socket's queue.
pub const BACKLOG_MAX: u32 = 4_096;
/// Bytes of one request's line and headers. Session tokens and continuations make them long.
pub const HEADER_SIZE_MAX: usize = 64 * 1024;
/// Headers of one request.
pub const HEADER_COUNT_MAX: usize = 100;
/// Bytes of an over-long body that are read and thrown away before the refusal, because a client
/// that is still sending when the connection closes may never see the answer.
pub const BODY_DRAIN_MAX: usize = 64 * 1024 * 1024;
/// Requests in flight on one HTTP/2 connection.
pub const STREAMS_MAX: u32 = 256;
/// Time until the first request of a connection. Clients connect because they have one.
pub const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// Failed accepts are logged once in this time, with their number.
pub const ACCEPT_LOG_PERIOD: Duration = Duration::from_secs(10);
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
/// Requests in flight on one connection in Direct mode; clients send 30 and open another connection. Beyond,
/// nothing is read.
pub const DIRECT_REQUESTS_MAX: usize = 128;
/// Time that a connection in Direct mode may stay open without a request. Clients keep idle ones, and lose a
/// write that they send while one is being closed.
pub const DIRECT_IDLE_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// Pieces of work that a pool runs at once, per processor, and at least and at most.
pub const POOL_THREADS_PER_CORE: usize = 2;
/// See [`POOL_THREADS_PER_CORE`].
pub const POOL_THREADS_MIN: usize = 4;
/// See [`POOL_THREADS_PER_CORE`].
pub const POOL_THREADS_MAX: usize = 64;
/// Changes of the catalog under way at once: they wait for commits more than they compute.
pub const CATALOG_THREADS: usize = 32;
/// Pieces of work that wait for a place in one pool.
pub const POOL_QUEUE_MAX: usize = 1_024;
/// How long one waits for a place.
pub const POOL_WAIT_MAX: Duration = Duration::from_secs(30);
/// When a client may try again after a pool was full.
pub const POOL_RETRY_AFTER: Duration = Duration::from_millis(500);
/// Threads of the runtime beside those of the network: all places of all pools, and some.
pub const BLOCKING_THREADS_MAX: usize = 2 * POOL_THREADS_MAX + CATALOG_THREADS + 32;

/// Bytes up to which an item is staged on the thread that took the request. Staging costs up to a
/// microsecond per byte where every name is new to the container.
pub const INLINE_STAGING_MAX: usize = 8 * 1024;
/// Bytes that a list or a feed may read on the thread that took the request.
pub const INLINE_READING_MAX: u64 = 128 * 1024;
/// Items that a list or a feed may read there: each is a lookup of its own.
pub const INLINE_ITEMS_MAX: u64 = 128;
/// Operations of a batch that are staged there.
pub const INLINE_OPERATIONS_MAX: usize = 16;
/// Bytes of results after which an answer to bulk in HybridRow takes no more items: reads that do not fit
/// are sent again by the client.
pub const BULK_ANSWER_MAX: usize = 4 * 1024 * 1024;

/// The bounds of one server; tests shrink them.
#[derive(Clone, Debug)]
pub struct Limits {
    /// See [`CONNECTIONS_MAX`].
    pub connections_max: usize,
    /// See [`REFUSALS_MAX`].
    pub refusals_max: usize,
    /// See [`HEADER_SIZE_MAX`].
    pub header_size_max: usize,
    /// Bytes of a request body; see [`armilla_model::limits::REQUEST_SIZE_MAX`].
    pub body_size_max: usize,
    /// See [`BODY_DRAIN_MAX`].
    pub body_drain_max: usize,
    /// See [`STREAMS_MAX`].
    pub streams_max: u32,
    /// See [`FIRST_REQUEST_TIMEOUT`].
    pub first_request_timeout: Duration,
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

impl Limits {
    /// How long the first request of a connection is awaited.
    pub(crate) fn first_wait(&self) -> Duration {
        self.first_request_timeout.min(self.idle_timeout)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: CONNECTIONS_MAX,
            refusals_max: REFUSALS_MAX,
            header_size_max: HEADER_SIZE_MAX,
            body_size_max: armilla_model::limits::REQUEST_SIZE_MAX,
            body_drain_max: BODY_DRAIN_MAX,
            streams_max: STREAMS_MAX,
            first_request_timeout: FIRST_REQUEST_TIMEOUT,
            header_timeout: HEADER_TIMEOUT,
            body_timeout: BODY_TIMEOUT,
            idle_timeout: IDLE_TIMEOUT,
            handshake_timeout: HANDSHAKE_TIMEOUT,
            shutdown_wait: SHUTDOWN_WAIT,
        }
    }
}
