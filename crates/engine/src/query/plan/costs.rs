//! Thresholds of the query engine: every number that decides how a page is answered.
//!
//! Nothing here changes what a query answers or what it is charged; it decides by which way and on how many
//! threads rows are found. Hard bounds that refuse work are in [`crate::limits`]. Everything in `query` may
//! read this file, so that a threshold has one place; `xtask/tests/house_rules.rs` keeps it so.
//!
//! They stand for ratios more than for times: testing a document by a column is the cheapest thing there is, a
//! lookup in a dictionary costs as much as some hundred such tests, reading and parsing an item as some thousand,
//! and handing work to another thread as much as some twenty items. Whoever changes one measures before and after
//! with `cargo run --release -p armilla-engine --example queries` and says so in the commit.

use std::time::Duration;

// ---- Where a page is made ----

/// Items up to which a page is made on the network thread that took the request. They are
/// read and evaluated well within a millisecond, and a hop to the pool and back is a good part of that.
pub(crate) const SMALL_ITEMS_MAX: u64 = 64;
/// The same where rows are copies of stored texts: nothing is parsed or written, which takes about a quarter.
pub(crate) const SMALL_COPIES_MAX: u64 = 256;
/// Bytes of items read on a network thread before its page is given up and begun anew on the pool. It is
/// what can be parsed in about a millisecond.
pub(crate) const BRIEF_BYTES_MAX: u64 = 256 << 10;
/// How long expressions are evaluated there. Estimates are wrong by far where one expression is heavy
/// (regular expressions, distances); this bounds what others on the thread wait.
pub(crate) const BRIEF_TIME_MAX: Duration = Duration::from_millis(5);
/// Bytes of a request's text and parameters compiled there. Longer ones are generated, and
/// compiling can take more than linear time.
pub(crate) const BRIEF_TEXT_MAX: usize = 8 << 10;

/// A page that took no longer counts as quick: several of them fit between two polls of a network thread.
pub(crate) const QUICK_PAGE_TIME: Duration = Duration::from_micros(500);
/// A page that took longer was slow whatever the machine did; in between it may only have been busy.
pub(crate) const SLOW_PAGE_TIME: Duration = Duration::from_millis(10);
/// Quick pages in a row after which the next page of the same query is expected to be quick too.
pub(crate) const QUICK_PAGES_MIN: u32 = 8;
/// More quick pages are not remembered, so that a query that became slow is noticed within a few pages.
pub(crate) const QUICK_PAGES_MAX: u32 = 16;
/// Quick pages that one page between quick and slow takes back.
pub(crate) const QUICK_PAGES_LOST: u32 = 4;

// ---- Which items are looked at ----

/// Documents of a range up to which they are all gone through without asking the index: 16 tests of items
/// cost what preparing the selectors of a few parts does.
pub(crate) const SCAN_MAX: u64 = 16;
/// Candidates from which on documents are tested one by one as they are wanted instead of being listed first,
/// if they are also more than [`LIST_SHARE`] of the scope: a page that ends early need not pay for the list.
pub(crate) const LIST_MAX: usize = 4096;
/// One in so many documents must be a candidate for the same.
pub(crate) const LIST_SHARE: usize = 4;
/// Items that a condition may name by id and be answered by point reads. Clients read up
/// to 1,000 items at once this way; twice that is still read in some milliseconds.
pub(crate) const POINTS_MAX: usize = 2000;
/// A posting list so many times longer than the documents it would be intersected with is left out: the items
/// are tested instead.
pub(crate) const LIST_FACTOR: usize = 64;
/// Added to the documents for the same, so that short lists are always used.
pub(crate) const LIST_MIN: usize = 1024;
/// A predicate (CONTAINS, LIKE, …) is not tried on more values than so many times the documents in scope:
/// trying a value costs about a quarter of reading and testing an item.
pub(crate) const PREDICATE_FACTOR: usize = 4;
/// Runs up to this long are counted by cells of a column, which lie side by side; a search in a long posting
/// list touches a cache line per step.
pub(crate) const COLUMN_RUN_MAX: usize = 256;
/// From one in so many documents on, local numbers are sorted by a bit set instead of by comparing.
pub(crate) const BIT_SET_SHARE: usize = 32;
/// Ranges whose dictionaries are tried together once a page has come to its second range.
pub(crate) const RANGES_TRIED_TOGETHER: usize = 8;

// ---- How values and items are read ----

/// Paths that a query may refer to for its values to come from columns; with more, reading the item is
/// cheaper than putting it together.
pub(crate) const COVERED_PATHS_MAX: usize = 16;
/// Items that must be wanted for a prefetch, and that are searched for where it is not known how many will be.
pub(crate) const PREFETCH_READS_MIN: u64 = 6;
/// Items of the first prefetch pass, unless fewer lie ahead; each further pass has twice as many.
pub(crate) const PREFETCH_MIN: u64 = 128;
/// Items of one prefetch pass at most; larger logical partitions are not read together.
pub(crate) const PREFETCH_MAX: u64 = 1024;
/// Bytes of one prefetch pass at most.
pub(crate) const PREFETCH_BYTES_MAX: usize = 1 << 20;
/// One item in so many on the way must be wanted: passing over an item in a scan of the store costs about
/// a quarter of searching for one (decision 0017).
pub(crate) const PREFETCH_SHARE: u64 = 4;
/// What a pass costs before its first item, in items passed over: it begins in every run of sorted files, where a
/// search asks a filter first.
pub(crate) const PREFETCH_START: u64 = 32;
/// Items of one logical partition from which on they are looked for together (decision 0075).
pub(crate) const GATHER_MIN: u64 = 2;
/// Of these the item cache is asked for so many, before most of them must be there for it to be asked on.
pub(crate) const CACHE_ASKED_MIN: usize = 4;
/// Rows that a page has room for when its first one comes: what a small query of one logical partition finds, so that most grow nothing.
pub(crate) const PAGE_ROWS_EXPECTED: usize = 32;
/// Items tried behind a full page, in the hope of finding that there is nothing more: an empty last page
/// costs the client a round trip.
pub(crate) const LOOK_AHEAD_ITEMS: u32 = 64;

// ---- Orders ----

/// Candidates up to which rows are sorted without looking for an index in order.
pub(crate) const SORT_MAX: u64 = 64;
/// Candidates of a part above which they are not ranked: an order takes four bytes a candidate, and the
/// largest must fit into the cache of orders.
pub(crate) const RANK_MAX: u64 = 1 << 20;
/// Documents tested at a time by an ordered scan: a part that finds nothing lets the others go first.
pub(crate) const SCAN_STRIDE: usize = 256;
/// Documents that an ordered scan tests before ranking is thought of: ranking fewer saves nothing.
pub(crate) const SCAN_PATIENCE_MIN: usize = 1024;
/// One in so many candidates: when as many documents were tested in vain, ranking costs not much more.
pub(crate) const SCAN_PATIENCE_SHARE: usize = 4;
/// Documents ranked at a time to begin with, at least.
pub(crate) const RANK_BATCH_MIN: usize = 64;
/// The same at most.
pub(crate) const RANK_BATCH_MAX: usize = 4096;
/// How many times as many are ranked the next time: three passes reach any page that clients ask for.
pub(crate) const RANK_BATCH_GROWTH: usize = 8;
/// Runs of a query that rank at once after a walk was given up, before walking is tried again.
pub(crate) const RANKING_RUNS: u32 = 31;
/// Candidates below which an order is made each time: ranking so few costs hardly more than the
/// lookup in the cache.
pub(crate) const CACHED_ORDER_MIN: u64 = 256;
/// One in so many documents of a part must be in scope for its order to be kept: the others are passed over.
pub(crate) const CACHED_ORDER_SCOPE_SHARE: usize = 4;
/// Bytes of all cached orders.
pub(crate) const CACHED_ORDERS_BYTES: u64 = 32 << 20;
/// Cached orders, estimated for the cache's own tables.
pub(crate) const CACHED_ORDERS_ESTIMATED: usize = 1024;
/// Numbers of the longest condition that an order is cached for.
pub(crate) const FINGERPRINT_MAX: usize = 64;
/// Rows that a top-k heap holds beyond its limit, so that small limits are not pruned at every push.
pub(crate) const TOP_K_SLACK: usize = 64;

// ---- Groups ----

/// Combinations of values that an index-only aggregate holds before it evaluates them.
pub(crate) const COMBINATIONS_MAX: usize = 1 << 16;
/// Items whose sizes are added up for a mean; of more, the mean of the whole range is good enough.
pub(crate) const MEAN_SIZE_ITEMS_MAX: u64 = 512;

// ---- Threads (decision 0013) ----

/// Items to be read from which on it is worth waking another thread: they take some milliseconds, and
/// waking a helper some hundredths of one.
pub(crate) const PARALLEL_ITEMS_MIN: u64 = 2048;
/// Items of a share, at least; a smaller range is a share of its own.
pub(crate) const SHARE_ITEMS_MIN: u64 = 2048;
/// The same in tests that want many threads for few items.
pub(crate) const SHARE_ITEMS_TINY: u64 = 5;
/// Shares per thread, if ranges do not make more: the faster threads take more.
pub(crate) const SHARES_PER_THREAD: usize = 4;
/// Documents that only the index is asked about from which on another thread is woken: they are tested in
/// columns, some hundred times as fast as items.
pub(crate) const PARALLEL_DOCUMENTS_MIN: u64 = 1 << 17;
/// The same for values that a predicate is tried on, which take about a quarter of an item each.
pub(crate) const PARALLEL_VALUES_MIN: u64 = 8192;
/// Helping threads at most, however many cores there are: more compete for memory rather than help.
pub(crate) const HELPERS_MAX: usize = 32;

/// Items that a page takes by itself before a parallel filter runs ahead of it.
pub(crate) const FILTER_SCOUTED: u64 = 1024;
/// One row in so many items is too many for filtering ahead: items that match are looked at twice.
pub(crate) const FILTER_RARITY: u64 = 8;
/// Items of the first batch that is filtered ahead.
pub(crate) const FILTER_BATCH_MIN: usize = 1024;
/// Items of the largest batch.
pub(crate) const FILTER_BATCH_MAX: usize = 16 << 10;
/// A batch that took longer is not followed by a larger one, one that took twice as long by a smaller: what is
/// filtered behind the end of a page is lost.
pub(crate) const FILTER_BATCH_TIME: Duration = Duration::from_millis(20);
/// Items of a thread's stretch of a batch, at least.
pub(crate) const FILTER_STRETCH_MIN: usize = 256;
/// The same in tests that want many threads for few items.
pub(crate) const FILTER_STRETCH_TINY: usize = 3;
/// Stretches of a batch per thread: the faster take more.
pub(crate) const FILTER_STRETCHES_PER_THREAD: usize = 2;
/// Bytes of items that a batch keeps for the page, so that it need not read them again.
pub(crate) const FILTER_KEPT_BYTES_MAX: usize = 8 << 20;

// ---- Compiled queries ----

/// Queries kept compiled, estimated for the cache's own tables.
pub(crate) const CACHED_QUERIES_ESTIMATED: usize = 4096;
/// Weight of all queries kept compiled: about 4,000 of ordinary length.
pub(crate) const CACHED_QUERIES_WEIGHT: u64 = 16 << 20;
/// What a compiled query weighs per byte of its text, roughly.
pub(crate) const CACHED_QUERY_BYTE_WEIGHT: u64 = 16;
/// Longer texts are compiled each time: they are generated and hardly ever come twice.
pub(crate) const CACHED_TEXT_MAX: usize = 16 << 10;
/// Containers whose schema is kept.
pub(crate) const CACHED_SCHEMAS_MAX: usize = 256;

const _: () = assert!(RANK_MAX * 4 <= CACHED_ORDERS_BYTES, "the largest order must be kept");
const _: () = assert!(SCAN_MAX <= SMALL_ITEMS_MAX && SMALL_ITEMS_MAX <= SMALL_COPIES_MAX);
const _: () = assert!(QUICK_PAGES_MIN <= QUICK_PAGES_MAX);
