//! The hard bounds of the engine: queues, caches, background work, scripts. Thresholds of queries are in
//! `query::plan::costs`.

use std::time::Duration;

/// Writers that may wait for the lock of one logical partition. A lock is handed on about once per
/// sync, so the last of them waits for seconds; more would only time out.
pub const WAITERS_MAX: usize = 4_096;
/// When a writer may try again after the queue of its logical partition was full.
pub const LOCK_RETRY_AFTER: Duration = Duration::from_millis(500);

/// Transactions that may be queued for a commit. A group takes up to 4,096 of them with one sync.
pub const COMMIT_QUEUE_MAX: usize = 8_192;
/// The same while the store's background work falls behind.
pub const COMMIT_QUEUE_PRESSED_MAX: usize = 1_024;
/// The same while the store holds writers back. A few may wait: who writes one thing after the other
/// is slowed down and not refused.
pub const COMMIT_QUEUE_STALLED_MAX: usize = 128;
/// Bytes that may be queued for a commit.
pub const COMMIT_QUEUE_BYTES_MAX: usize = 256 << 20;
/// Bytes of writes that may be under way, from their admission to their answer.
pub const WRITES_BYTES_MAX: usize = 512 << 20;
/// What a write counts beside its body.
pub const WRITE_BYTES_MIN: usize = 1_024;
/// When a writer may try again after it was refused for the queue.
pub const WRITE_RETRY_AFTER: Duration = Duration::from_millis(200);

/// How long a page may run before it ends where it is. Clients in Direct mode give a request five seconds.
pub const PAGE_TIME_MAX: Duration = Duration::from_secs(4);
/// How long a query may run that cannot end in the middle: a sort, a group, an aggregate.
pub const QUERY_TIME_MAX: Duration = Duration::from_secs(60);
/// Bytes that one query may hold while it sorts, groups or gathers.
pub const QUERY_MEMORY_MAX: usize = QUERIES_MEMORY_MAX / 8;
/// Bytes that all threads of a page may hold at their peaks. One thread would not hold more than
/// twice as much: a heap is emptied at other moments when it sees more rows.
pub const PARALLEL_MEMORY_MAX: usize = QUERY_MEMORY_MAX / 2;
/// Bytes that all queries together may hold while they sort, group or gather. One may hold an eighth.
pub const QUERIES_MEMORY_MAX: usize = 1 << 30;
/// Bytes that a query may hold without being counted with the others.
pub const QUERY_MEMORY_FREE: usize = 1 << 20;
/// When a query may try again after the others held too much.
pub const QUERY_RETRY_AFTER: Duration = Duration::from_secs(1);

const _: () = assert!(COMMIT_QUEUE_STALLED_MAX < COMMIT_QUEUE_PRESSED_MAX);
const _: () = assert!(COMMIT_QUEUE_PRESSED_MAX < COMMIT_QUEUE_MAX);

/// Different indexed paths that the items of one container may have, as far as new ones are
/// concerned: a write that brings another is refused. Each takes about a hundred bytes of memory.
pub const NEW_PATHS_MAX: usize = 8_000_000;
/// The same for what is stored already, which must be indexed however many there are.
pub const PATHS_MAX: usize = usize::MAX;
/// Paths that no item has are forgotten once there are this many.
pub const FORGOTTEN_MIN: usize = 1_024;
/// Paths that are forgotten by one commit.
pub const FORGOTTEN_BATCH: usize = 10_000;

// Item cache and logical sizes.

/// Bytes of all items that are kept.
pub(crate) const ITEM_CACHE_BYTES_MAX: u64 = 16 << 20;
/// Larger items are read each time.
pub(crate) const ITEM_CACHE_ITEM_MAX: usize = 64 << 10;
/// Items kept, estimated for the cache's own tables.
pub(crate) const ITEM_CACHE_ITEMS_ESTIMATED: usize = 8192;
/// Logical partitions whose size is remembered; beyond that all are counted again when needed.
pub(crate) const LOGICAL_SIZES_KNOWN_MAX: usize = 64 * 1024;
/// Definitions whose compiled form is kept.
pub(crate) const COMPUTED_DEFINITIONS_MAX: usize = 1024;

// Items, partitions and their logs.

/// Most items with the same hash of their id.
pub(crate) const ITEM_PROBES_MAX: u8 = u8::MAX;
/// Ordinals are reserved in `meta` in blocks of this many.
pub(crate) const DOCNO_BLOCK: u64 = 4096;
/// Bytes of item texts beyond which a physical partition is split.
pub(crate) const PARTITION_SIZE_DEFAULT: u64 = 50 << 30;
/// Bytes of item texts that one logical partition may have.
pub(crate) const LOGICAL_PARTITION_SIZE_DEFAULT: u64 = 20 << 30;
/// Entries of a log that are fetched at once: few first, since most pages are short.
pub(crate) const FEED_FETCH_MIN: usize = 32;
/// Entries of a log that are fetched at once at most.
pub(crate) const FEED_FETCH_MAX: usize = 1024;
/// Bytes that are fetched at once from one log.
pub(crate) const FEED_FETCH_BYTES_MAX: usize = 1 << 20;
/// Pieces at most; more than a container can have ranges.
pub(crate) const FEED_PIECES_MAX: usize = 4096;
/// Most entries trimmed in one batch.
pub(crate) const VERSIONS_TRIM_BATCH: usize = 1000;

// Background work.

/// A round of catching up that found fewer entries than this was the last before the switch.
pub(crate) const BUILD_LAST_ROUND_ENTRIES: u64 = 256;
/// Rounds of catching up before the writers are made to wait, however much they write.
pub(crate) const BUILD_ROUNDS_MAX: usize = 64;
/// How often the one who wants an index is asked whether to go on.
pub(crate) const BUILD_PROGRESS_EVERY: u64 = 1024;
/// How often a failed build is tried again.
pub(crate) const REINDEX_ATTEMPTS_MAX: usize = 5;
/// How long a failed build waits before it is tried again.
pub(crate) const REINDEX_ATTEMPT_PAUSE: Duration = Duration::from_secs(1);
/// Merges of more documents than this go to the second thread.
pub(crate) const LARGE_JOB_DOCUMENTS: u64 = 64 * 1024;
/// How long a clean stop waits for jobs that are out. What they did is then done again.
pub(crate) const STOP_WAIT_MAX: Duration = Duration::from_secs(10);
/// How often somebody looks whether a container has outgrown its partitions.
pub(crate) const SPLIT_INTERVAL: Duration = Duration::from_millis(100);
/// How long a split that failed waits before it is tried again.
pub(crate) const SPLIT_RETRY_MILLIS: u64 = 5000;
/// How often the janitor comes.
pub(crate) const JANITOR_INTERVAL: Duration = Duration::from_secs(1);
/// Most keys removed in one batch.
pub(crate) const JANITOR_BATCH_KEYS: usize = 1000;
/// Most items one visit expires, so that a mass expiry does not crowd out clients.
pub(crate) const JANITOR_VISIT_ITEMS: usize = 2000;
/// Findings reported at most; more of the same help nobody.
pub(crate) const VERIFY_FINDINGS_MAX: usize = 100;

// Scripts in a transaction, and what is remembered of their charges.

/// Bytes of items that one script may write.
pub(crate) const SCRIPT_WRITTEN_SIZE_MAX: usize = 64 << 20;
/// Arguments that an object without brackets may stand for.
pub(crate) const PROCEDURE_ARGUMENTS_MAX: usize = 1024;
/// Calls whose average is reserved for the next one.
pub(crate) const SCRIPT_CALLS_REMEMBERED: usize = 16;
/// Scripts that are remembered; beyond, all are forgotten.
pub(crate) const SCRIPTS_REMEMBERED_MAX: usize = 1024;

/// Threads that run procedures and triggers, at least and at most.
pub(crate) const SCRIPT_THREADS_MIN: usize = 2;
/// See [`SCRIPT_THREADS_MIN`].
pub(crate) const SCRIPT_THREADS_MAX: usize = 16;
/// Scripts that may wait for a thread.
pub(crate) const SCRIPT_QUEUE_MAX: usize = 256;
/// Stack of a script's thread: the script's own and that of a query it asks for.
pub(crate) const SCRIPT_STACK_SIZE: usize = 8 << 20;
/// When a client may try again after the queue of scripts was full.
pub(crate) const SCRIPT_RETRY_AFTER: Duration = Duration::from_millis(250);
/// Script threads that may be late at a time and have others in their place.
pub(crate) const SCRIPT_THREADS_LATE_MAX: usize = 32;
/// How often the watchdog of script threads looks.
pub(crate) const SCRIPT_WATCHDOG_TICK: Duration = Duration::from_millis(250);
/// Compiled scripts kept, estimated for the cache's own tables.
pub(crate) const COMPILED_SCRIPTS_ESTIMATED: usize = 256;
/// Bytes of compiled scripts kept.
pub(crate) const COMPILED_SCRIPTS_SIZE_MAX: u64 = 64 << 20;
/// Threads that run user functions of queries, one for each function of a page that is being made.
pub(crate) const FUNCTION_THREADS_MAX: usize = 1_024;
/// Such threads that are kept when no query needs them.
pub(crate) const FUNCTION_THREADS_IDLE_MAX: usize = 16;
/// Such threads that may be late at a time; beyond that no further function is begun.
pub(crate) const FUNCTION_THREADS_LATE_MAX: usize = 32;
/// Looks for the other side before a query or a function goes to sleep: a few microseconds.
pub(crate) const FUNCTION_SPINS: u32 = 200;

const _: () = assert!(SCRIPT_THREADS_MIN <= SCRIPT_THREADS_MAX);
const _: () = assert!(SCRIPT_THREADS_MAX < SCRIPT_QUEUE_MAX);
const _: () = assert!(FUNCTION_THREADS_IDLE_MAX < FUNCTION_THREADS_MAX);
const _: () = assert!(FUNCTION_THREADS_LATE_MAX < FUNCTION_THREADS_MAX);
const _: () = assert!(WRITES_BYTES_MAX >= COMMIT_QUEUE_BYTES_MAX, "what is queued was admitted");
const _: () = assert!(QUERY_MEMORY_FREE < QUERIES_MEMORY_MAX);
const _: () = assert!(FORGOTTEN_MIN <= FORGOTTEN_BATCH && FORGOTTEN_BATCH < NEW_PATHS_MAX);
const _: () = assert!(COMMIT_QUEUE_BYTES_MAX > armilla_model::limits::ITEM_SIZE_MAX);
const _: () = assert!(ITEM_CACHE_ITEM_MAX as u64 * 16 <= ITEM_CACHE_BYTES_MAX);
const _: () = assert!(FEED_FETCH_MIN < FEED_FETCH_MAX);
const _: () = assert!(LOGICAL_PARTITION_SIZE_DEFAULT < PARTITION_SIZE_DEFAULT);
const _: () = assert!(JANITOR_BATCH_KEYS <= JANITOR_VISIT_ITEMS);
