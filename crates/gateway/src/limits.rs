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
/// Headers of a request on the fast path of HTTP/1.1; one with more goes to hyper, and so with the bounds below.
pub const PLAIN_HEADERS_MAX: usize = 48;
/// Bytes of a request's line and headers there.
pub const PLAIN_HEAD_MAX: usize = 16 * 1024;
/// Bytes of a body there.
pub const PLAIN_BODY_MAX: usize = 64 * 1024;
/// Reads until a head is whole there.
pub const PLAIN_READS_MAX: usize = 8;
/// Bytes that are read there while a request is being answered.
pub const PLAIN_AHEAD_MAX: usize = 64 * 1024;
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
/// How long a page of a query may run in Direct mode before it ends where it is: clients give a request five
/// seconds, over HTTP they wait for a minute.
pub const DIRECT_PAGE_TIME_MAX: Duration = Duration::from_secs(4);
/// Time that a connection in Direct mode may stay open without a request. Clients keep idle ones, and lose a
/// write that they send while one is being closed.
pub const DIRECT_IDLE_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// How long a network thread may wait for the disk before another one takes its place.
pub const LONE_COMMIT_LATE: Duration = Duration::from_millis(2);
/// Looks without a commit after which the one who looks for that goes to sleep.
pub const LONE_QUIET_LOOKS: u32 = 50;

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
/// The same for bulk in JSON, whose clients do not send them again by themselves.
pub const BULK_JSON_ANSWER_MAX: usize = 16 * 1024 * 1024;

/// How long a request waits for a node that owns the account; then it is told to come back.
pub const HELD_WAIT_MAX: Duration = Duration::from_secs(5);
/// Bytes of bodies that a node holds for others.
pub const HELD_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Requests that a node passes on at once.
pub const FORWARDED_MAX: usize = 4_096;
/// When a client may try again whose request was held in vain.
pub const HELD_RETRY_AFTER: Duration = Duration::from_secs(1);
/// Pause before the owner is looked for again.
pub const FORWARD_PAUSE: Duration = Duration::from_millis(50);
/// Time to connect to another node.
pub const FORWARD_CONNECT_WAIT_MAX: Duration = Duration::from_secs(2);
/// Connections to other nodes that are kept for the next request.
pub const LINKS_KEPT_MAX: usize = 256;
/// How long one is kept without a request: shorter than any node keeps it.
pub const LINK_IDLE_MAX: Duration = Duration::from_secs(10);
/// Time for the owner's answer, here or at another node. Longer than any request of a healthy server takes.
pub const FORWARD_ANSWER_WAIT_MAX: Duration = Duration::from_secs(60);
/// Time for the answer to a write when the account is somewhere else by now: it was made before, and may be on its way.
pub const FORWARD_LAST_ANSWER_WAIT_MAX: Duration = Duration::from_secs(1);
/// Bytes of an owner's answer.
pub const FORWARD_ANSWER_MAX: usize = 256 * 1024 * 1024;
/// How often a write that takes its time looks whether the node still holds its lease.
pub const LEASE_LOOK_EVERY: Duration = Duration::from_millis(250);
/// When a client may try again that met a node without its lease.
pub const LEASE_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Containers of an account in slices of which a node remembers how they hash keys.
pub const LEARNED_CONTAINERS_MAX: usize = 10_000;
/// How long a change of the catalog waits until all slices of the account have it.
pub const ADOPTION_WAIT_MAX: Duration = Duration::from_secs(8);
/// How long a request waits while its slice takes over a changed catalog; then it is told to come back.
pub const CATALOG_WAIT_MAX: Duration = Duration::from_millis(500);
/// How often it is looked whether they do.
pub const ADOPTION_LOOK_EVERY: Duration = Duration::from_millis(5);

/// Sessions of the explorer that are open at once; a further one ends the one unused for longest.
pub const SESSIONS_MAX: usize = 64;
/// Seconds without a request after which a session ends.
pub const SESSION_IDLE_SECONDS: u64 = 30 * 60;
/// Seconds after which a session ends in any case.
pub const SESSION_LIFE_SECONDS: u64 = 12 * 60 * 60;
/// Failed sign-ins of one address in a minute; then it has to wait for the next.
pub const SIGN_IN_FAILURES_MAX: u32 = 10;
/// Addresses whose failed sign-ins are counted.
pub const SIGN_IN_ADDRESSES_MAX: usize = 1_024;
/// Bytes of the body of a sign-in.
pub const SIGN_IN_BODY_MAX: usize = 8 * 1024;
/// Seconds in which a ticket of `armilla explorer` can be used.
pub const TICKET_LIFE_SECONDS: u64 = 60;
/// Tickets that wait to be used.
pub const TICKETS_MAX: usize = 16;
/// Bytes of a file that `--explorer-dir` serves.
pub const EXPLORER_FILE_MAX: u64 = 32 * 1024 * 1024;
/// Calls of webhooks under way at a time; others wait.
pub const WEBHOOK_CALLS_MAX: usize = 64;
/// Bytes of a value of a header that a webhook asks for.
pub const WEBHOOK_HEADER_MAX: usize = 4 * 1024;
/// Bytes of a webhook's answer that are read.
pub const WEBHOOK_ANSWER_MAX: usize = 64 * 1024;
/// Characters of a webhook's answer that a status or a dead letter tells.
pub const WEBHOOK_TOLD_MAX: usize = 500;
/// Bytes that index metrics or the log of a script take as a header. Node refuses more than 16 KB of headers.
pub const DIAGNOSTIC_HEADER_MAX: usize = 8 * 1024;
/// Requests that the log keeps, unless the operator says otherwise, and at most.
pub const REQUEST_LOG_ENTRIES: usize = 2_000;
/// See [`REQUEST_LOG_ENTRIES`].
pub const REQUEST_LOG_ENTRIES_MAX: usize = 20_000;
/// Entries of the log in one answer.
pub const REQUEST_LOG_PAGE: usize = 2_000;
/// Bytes of a query's text that the log keeps.
pub const LOGGED_QUERY_MAX: usize = 2 * 1024;
/// Bytes of a written item that the observer looks at; larger ones are counted without.
pub const OBSERVED_BODY_MAX: usize = 8 * 1024;
/// Bytes of any other text that the log keeps.
pub const LOGGED_TEXT_MAX: usize = 256;
/// Seconds of activity that are kept.
pub const ACTIVITY_SECONDS: usize = 900;
/// Series of one second; the smallest beyond are added up.
pub const ACTIVITY_SERIES_MAX: usize = 48;
/// Containers that requests are counted for by name; those beyond are counted together, as `other`.
pub const COUNTED_CONTAINERS_MAX: usize = 64;
/// Items that are looked at to tell the sizes of the hottest keys, over all of them.
pub const HOT_KEY_SIZE_ITEMS_MAX: usize = 50_000;
/// Logical partition keys that are shown as the hottest.
pub const HOT_KEYS: usize = 20;
/// Logical partition keys of a container that are counted.
pub const HOT_KEYS_KEPT: usize = 64;
/// Containers whose keys are counted.
pub const HOT_KEY_CONTAINERS_MAX: usize = 256;
/// Hot keys are those of this window and the one before.
pub const HOT_KEY_WINDOW_SECONDS: u64 = 300;
/// Items that the price of a write is predicted from.
pub const PREDICTION_SAMPLE: usize = 100;
/// Containers that the overview tells of.
pub const OVERVIEW_CONTAINERS_MAX: usize = 2_000;
/// Physical partitions that the view of a container's partitions tells of.
pub const PARTITIONS_SHOWN_MAX: usize = 1_000;
/// Items that the shape of a container is told from, unless fewer are asked for.
pub const SHAPE_SAMPLE_MAX: usize = 10_000;
/// The same when nothing is said.
pub const SHAPE_SAMPLE_DEFAULT: usize = 1_000;
/// Time for taking the sample.
pub const SHAPE_TIME: Duration = Duration::from_secs(2);
/// Paths that the shape tells of.
pub const SHAPE_PATHS_MAX: usize = 1_000;
/// Bytes of a path in that view; what lies below a longer one is left out.
pub const SHAPE_PATH_LENGTH_MAX: usize = 512;
/// Values that one path is told from.
pub const SHAPE_NUMBERS_MAX: usize = 20_000;
/// Properties and elements that are looked at in all.
pub const SHAPE_VISITS_MAX: usize = 2_000_000;
/// Different values that are counted for each path.
pub const SHAPE_VALUES_MAX: usize = 256;
/// Bytes of a query that is checked.
pub const CHECK_TEXT_MAX: usize = 512 * 1024;
/// Reports of labs that are kept, and bytes of each.
pub const LAB_REPORTS_MAX: usize = 32;
/// See [`LAB_REPORTS_MAX`].
pub const LAB_REPORT_SIZE_MAX: usize = 1024 * 1024;

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

// How limits depend on each other.
const _: () = assert!(NEWCOMERS_SHARE > 1 && REFUSALS_MAX < CONNECTIONS_MAX / NEWCOMERS_SHARE);
const _: () = assert!(POOL_THREADS_MIN <= POOL_THREADS_MAX && POOL_THREADS_MAX <= POOL_QUEUE_MAX);
const _: () = assert!(POOL_RETRY_AFTER.as_millis() < POOL_WAIT_MAX.as_millis());
const _: () = assert!(2 * POOL_THREADS_MAX + CATALOG_THREADS < BLOCKING_THREADS_MAX);
const _: () = assert!(HANDSHAKE_TIMEOUT.as_secs() <= FIRST_REQUEST_TIMEOUT.as_secs());
const _: () = assert!(HEADER_TIMEOUT.as_secs() < BODY_TIMEOUT.as_secs());
const _: () = assert!(BODY_TIMEOUT.as_secs() < IDLE_TIMEOUT.as_secs());
const _: () = assert!(IDLE_TIMEOUT.as_secs() < DIRECT_IDLE_TIMEOUT.as_secs());
const _: () = assert!(INLINE_STAGING_MAX < armilla_model::limits::ITEM_SIZE_MAX);
const _: () = assert!(BODY_DRAIN_MAX > armilla_model::limits::REQUEST_SIZE_MAX);
const _: () = assert!(SESSION_IDLE_SECONDS < SESSION_LIFE_SECONDS);
const _: () = assert!(TICKET_LIFE_SECONDS < SESSION_IDLE_SECONDS);
const _: () = assert!(REQUEST_LOG_ENTRIES <= REQUEST_LOG_ENTRIES_MAX);
const _: () = assert!(REQUEST_LOG_PAGE <= REQUEST_LOG_ENTRIES_MAX);
const _: () = assert!(LOGGED_TEXT_MAX < LOGGED_QUERY_MAX);
const _: () = assert!(SHAPE_SAMPLE_DEFAULT <= SHAPE_SAMPLE_MAX);
const _: () = assert!(CHECK_TEXT_MAX < LAB_REPORT_SIZE_MAX);
