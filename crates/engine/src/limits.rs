//! Bounds of the engine's queues, and what those are told who meet one.

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
