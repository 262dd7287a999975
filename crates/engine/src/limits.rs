//! The hard bounds of the engine: queues, caches, background work, scripts. The limits of the service itself (sizes of
//! items, ids, pages) are in `armilla_model::limits`, an item that is too large is refused in `items::body`, thresholds of queries in `query::plan::costs`.

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

/// How long a page may run before it ends where it is, unless whoever waits for it has less patience.
pub const PAGE_TIME_MAX: Duration = Duration::from_secs(5);
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
/// Bytes that one slice of an account hands to another for one page.
pub const QUERY_PART_MAX: usize = QUERY_MEMORY_MAX / 4;
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
/// Seconds for which no item must have had a path: queries that may still see one have ended by then.
pub const FORGOTTEN_AFTER: u32 = 120;
/// Seconds from one search for such paths to the next.
pub const FORGET_EVERY: u32 = 300;
/// Paths that are forgotten by one commit.
pub const FORGOTTEN_BATCH: usize = 10_000;
/// Paths that are looked at while their dictionary is locked: a tenth of a millisecond.
pub(crate) const FORGOTTEN_SLICE: usize = 4_096;

// Item cache and logical sizes.

/// Bytes of all items that are kept.
pub(crate) const ITEM_CACHE_BYTES_MAX: u64 = 32 << 20;
/// Larger items are read each time.
pub(crate) const ITEM_CACHE_ITEM_MAX: usize = 64 << 10;
/// Items kept, estimated for the cache's own tables.
pub(crate) const ITEM_CACHE_ITEMS_ESTIMATED: usize = 16 * 1024;
/// Items of which it is known that they were read lately; four bytes each.
pub(crate) const ITEM_CACHE_SIGHTINGS_MAX: usize = 64 * 1024;
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
/// Visits of the janitor from one to the next that looks how much memory index files have. Reading them in again takes some
/// ten milliseconds of processor time: a thousandth.
pub(crate) const TRIM_MEMORY_ROUNDS: u64 = 10;
/// Bytes of mapped files, the program's own among them, that may be in memory when the janitor looks; beyond them all are given back.
pub(crate) const INDEX_RESIDENT_MAX: u64 = 96 << 20;
/// Bytes of index segments without a file that a partition may keep in memory while nothing is written to it.
pub(crate) const INDEX_MEMORY_AT_REST_MAX: usize = 4 << 20;
/// Most keys removed in one batch.
pub(crate) const JANITOR_BATCH_KEYS: usize = 1000;
/// Most items one visit expires, so that a mass expiry does not crowd out clients.
pub(crate) const JANITOR_VISIT_ITEMS: usize = 2000;
/// Views of one container, as in the service.
pub const VIEWS_MAX: usize = 5;
/// Items that a capped view may keep of one key.
pub const VIEW_CAP_MAX: usize = 1_000;
/// Bytes of items that a transactional batch may answer with.
pub const BATCH_ANSWER_MAX: usize = 32 << 20;
/// Paths that the definition of a view may list.
pub(crate) const VIEW_COLUMNS_MAX: usize = 1_000;
/// Changes that a view takes up at a time; a transaction is never cut.
pub(crate) const VIEW_PAGE_ENTRIES_MAX: usize = 256;
/// Bytes of source items that a view takes up at a time.
pub(crate) const VIEW_PAGE_BYTES_MAX: usize = 4 << 20;
/// How long the thread of the views sleeps when nobody wakes it.
pub(crate) const VIEW_WAIT_MAX: Duration = Duration::from_secs(1);
/// The same where the account is cut into slices: what other slices have written is found by looking.
pub(crate) const VIEW_COPIES_LOOK: Duration = Duration::from_millis(100);
/// How long a view that could not follow waits, at first and at most.
pub(crate) const VIEW_RETRY_MIN: Duration = Duration::from_millis(50);
/// How long a view waits for the lock of a key in its turn; then the other views have theirs, and the wait
/// goes on beside them.
pub(crate) const VIEW_LOCK_WAIT: Duration = Duration::from_millis(20);
/// See [`VIEW_RETRY_MIN`].
pub(crate) const VIEW_RETRY_MAX: Duration = Duration::from_secs(10);

// Re-keys.

/// How long clients may be put off while a re-keyed container takes its source's place.
pub(crate) const REKEY_FENCE_MAX: Duration = Duration::from_secs(3);
/// How long a client is put off at a time.
pub(crate) const REKEY_RETRY: Duration = Duration::from_millis(20);
/// For how long those are put off who were on the way to a container when another one took its place; they find that one then.
pub(crate) const REKEY_GRACE: Duration = Duration::from_secs(1);
/// How often it is looked whether everything was followed meanwhile.
pub(crate) const REKEY_LOOK: Duration = Duration::from_millis(2);
/// Items that a page of the check compares.
pub(crate) const REKEY_CHECK_ITEMS_MAX: usize = 1_000;
/// Differences that a page of the check tells.
pub(crate) const REKEY_DIFFERENCES_MAX: usize = 10;

// Subscriptions.

/// Subscriptions of one container.
pub const SUBSCRIPTIONS_MAX: usize = 25;
/// Entries of a batch, unless its definition says otherwise.
pub(crate) const SUBSCRIPTION_BATCH_ITEMS_DEFAULT: u64 = 100;
/// Entries of a batch at most, but for a transaction of more.
pub(crate) const SUBSCRIPTION_BATCH_ITEMS_MAX: u64 = 1_000;
/// Bytes of a batch, unless its definition says otherwise.
pub(crate) const SUBSCRIPTION_BATCH_BYTES_DEFAULT: u64 = 1 << 20;
/// Bytes of a batch at most, but for a transaction of more.
pub(crate) const SUBSCRIPTION_BATCH_BYTES_MAX: u64 = 2 << 20;
/// Milliseconds that a batch may wait for more entries.
pub(crate) const SUBSCRIPTION_BATCH_WAIT_MAX: u64 = 60_000;
/// Batches under way per range, unless its definition says otherwise.
pub(crate) const SUBSCRIPTION_PARALLEL_DEFAULT: u64 = 4;
/// Batches under way per range at most.
pub(crate) const SUBSCRIPTION_PARALLEL_MAX: u64 = 16;
/// Attempts at a transaction, unless the definition says otherwise.
pub(crate) const SUBSCRIPTION_ATTEMPTS_DEFAULT: u64 = 12;
/// Attempts at a transaction at most, where they have an end.
pub(crate) const SUBSCRIPTION_ATTEMPTS_MAX: u64 = 10_000;
/// Seconds since its commit for which an entry is tried, unless the definition says otherwise.
pub(crate) const SUBSCRIPTION_AGE_DEFAULT: u64 = 86_400;
/// The first pause between attempts in milliseconds, unless the definition says otherwise.
pub(crate) const SUBSCRIPTION_DELAY_MIN_DEFAULT: u64 = 500;
/// The longest pause between attempts in milliseconds, unless the definition says otherwise.
pub(crate) const SUBSCRIPTION_DELAY_MAX_DEFAULT: u64 = 60_000;
/// No definition may ask for a longer pause, in milliseconds.
pub(crate) const SUBSCRIPTION_DELAY_LIMIT: u64 = 86_400_000;
/// Entries of a range that are delivered, or read and not delivered, behind the first one that is not.
pub(crate) const SUBSCRIPTION_WINDOW_MAX: usize = 10_000;
/// Bytes of items of a range that are read and not delivered.
pub(crate) const SUBSCRIPTION_WINDOW_BYTES_MAX: usize = 8 << 20;
/// Logical partitions of a range that may be held back by failures; then the range waits.
pub(crate) const SUBSCRIPTION_HELD_MAX: usize = 100;
/// How many subscriptions may cause one another, before what they write is taken for a loop.
pub const SUBSCRIPTION_DEPTH_MAX: u8 = 8;
/// How often positions are saved while entries are delivered.
pub(crate) const SUBSCRIPTION_SAVE_EVERY: Duration = Duration::from_secs(1);
/// How long the thread of the subscriptions sleeps when nobody wakes it.
pub(crate) const SUBSCRIPTION_WAIT_MAX: Duration = Duration::from_secs(1);
/// How long a subscription waits that cannot read, or cannot keep a dead letter.
pub(crate) const SUBSCRIPTION_RETRY: Duration = Duration::from_millis(250);
/// How long one subscription may read and judge entries in its turn; then the others have theirs.
pub(crate) const SUBSCRIPTION_TURN_MAX: Duration = Duration::from_millis(50);
/// Dead letters that are shown at once.
pub const DEAD_LETTERS_SHOWN_MAX: usize = 1_000;
/// Entries that a dry run looks at.
pub const SUBSCRIPTION_TRIAL_MAX: u64 = 100;
/// Bytes of a webhook's address.
pub(crate) const WEBHOOK_URL_MAX: usize = 2_048;
/// Headers that a webhook may ask for.
pub(crate) const WEBHOOK_HEADERS_MAX: usize = 32;
/// Bytes of a webhook's secret.
pub(crate) const WEBHOOK_SECRET_MAX: usize = 1_024;
/// Seconds that a webhook may take, unless its definition says otherwise.
pub(crate) const WEBHOOK_TIMEOUT_DEFAULT: u64 = 30;
/// Seconds that a webhook may take at most.
pub(crate) const WEBHOOK_TIMEOUT_MAX: u64 = 300;

/// Findings reported at most; more of the same help nobody.
pub(crate) const VERIFY_FINDINGS_MAX: usize = 100;

// Scripts in a transaction, and what is remembered of their charges.

/// Items whose places a transaction remembers between reading and writing them.
pub(crate) const TXN_FOUND_MAX: usize = 8;
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
/// Calls of a procedure one after the other that were quick, before it is run where it is asked for.
pub(crate) const SCRIPT_QUICK_CALLS_MIN: u32 = 8;
/// What such a call may take there; one that takes more is run again on a script's thread.
pub(crate) const SCRIPT_QUICK_TIME: Duration = Duration::from_millis(1);
/// Memory of such a call, in bytes: with so little no step of a script takes long.
pub(crate) const SCRIPT_QUICK_MEMORY: usize = 256 << 10;
/// Bytes of its arguments, of each item that it reads or writes, and of all stored versions that it replaces.
pub(crate) const SCRIPT_QUICK_BYTES: usize = 8 << 10;
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
const _: () = assert!(VIEW_RETRY_MIN.as_millis() < VIEW_RETRY_MAX.as_millis());
const _: () = assert!(JANITOR_BATCH_KEYS <= JANITOR_VISIT_ITEMS);

/// Slices that an account can be cut into: a node keeps a store and a journal for each.
pub const SLICES_MAX: u32 = 64;
