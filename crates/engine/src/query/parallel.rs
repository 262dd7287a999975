//! Ranges gone through side by side.
//!
//! A query over many items of several ranges is worked on by the thread that asks and by whichever
//! others are idle. Each takes the next range, as a query over that range alone with its own source,
//! runtime and books ([`by_range`]); what they made is merged in the order of the ranges. There are
//! never more such helpers in the process than cores: a page that finds none idle is made by its own
//! thread, as small ones are.
//!
//! The outcome is that of going through the ranges one after the other. What is merged does not depend
//! on how items were spread (sums are exact, groups and rows have an order), counts and charges add up
//! by target. And whatever cannot be merged so (an error in some range, more memory than is surely
//! allowed, the end of the time) is not the parallel way's to tell: it gives up, and the page is made
//! again on one thread, which meets the same limit or error where it would have met it.

use super::pure::is_pure;
use super::work::{Work, with_runtime};
use super::{QUERY_MEMORY_MAX, Run, Threads};
use armilla_model::error::Result;
use armilla_sql::eval::Runtime;
use parking_lot::Mutex;
use rayon_core::{ThreadPool, ThreadPoolBuilder};
use std::num::NonZero;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Items to be read from which on it is worth waking another thread.
pub(super) const ITEMS_MIN: u64 = 2048;
/// The same for documents that only the index is asked about.
pub(super) const DOCUMENTS_MIN: u64 = 1 << 17;
/// The same for values that a predicate is tried on.
const VALUES_MIN: u64 = 8192;
/// Helping threads at most, however many cores there are.
const HELPERS_MAX: usize = 32;
/// Bytes that all threads of a page may hold at their peaks. One thread would not hold more than
/// twice as much: a heap is emptied at other moments when it sees more rows.
const MEMORY_MAX: usize = QUERY_MEMORY_MAX / 2;

/// What the threads of a page know of each other.
#[derive(Debug, Default)]
pub(super) struct Together {
    /// The sum of their peaks.
    held: AtomicUsize,
    over: AtomicBool,
}

impl Together {
    /// Counts that a peak has grown; false when that is too much.
    pub(super) fn may_hold(&self, more: usize) -> bool {
        self.held.fetch_add(more, Ordering::Relaxed) + more <= MEMORY_MAX
    }

    /// True when one of them has given up, so that the others may.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// True when the ranges of a query should be gone through side by side: at least so many items may
/// have to be read.
pub(super) fn pays(run: &Run<'_>, work: &Work, items_min: u64) -> bool {
    let source = &run.source;
    may_share(run, work)
        && (source.threads == Threads::Many
            || (source.scope() >= items_min && has_help() && source.estimate() >= items_min))
}

/// The same where it is known how many there are.
pub(super) fn pays_for(run: &Run<'_>, work: &Work, items: u64, items_min: u64) -> bool {
    may_share(run, work)
        && (run.source.threads == Threads::Many || (items >= items_min && has_help()))
}

/// True when ranges can be shared at all.
fn may_share(run: &Run<'_>, work: &Work) -> bool {
    run.source.visited.len() > 1 && may_share_items(run, work)
}

/// True when items can be shared: they are as the store has them, and rows depend on nothing but them.
pub(super) fn may_share_items(run: &Run<'_>, work: &Work) -> bool {
    let source = &run.source;
    source.threads != Threads::One
        && !source.has_points()
        && !source.is_laid_over()
        && !work.is_of_script()
        && is_pure(run.plan())
}

/// Calls a function for each range, on several threads; gives what it made in the order of the ranges,
/// or nothing, as if it had not been called, when any of them failed.
pub(super) fn by_range<T: Send>(
    run: &Run<'_>,
    runtime: &mut Runtime<'_>,
    work: &mut Work,
    of_range: impl Fn(&Run<'_>, &mut Runtime<'_>, &mut Work) -> Result<T> + Sync,
) -> Option<Vec<T>> {
    let beginning = work.beginning();
    let together = &beginning.together;
    let made = map(run.source.visited.len(), |number| {
        if together.is_over() {
            return None;
        }
        let range = run.only(run.source.visited.start + number);
        let mut own = beginning.work();
        let made =
            with_runtime(&range.source, &mut own, |runtime, work| of_range(&range, runtime, work));
        if made.is_err() {
            together.over.store(true, Ordering::Relaxed);
        }
        made.ok().map(|made| (made, own.into_done()))
    });
    let made: Option<Vec<_>> = made.into_iter().collect();
    let absorb = |(made, done)| {
        work.absorb(&done, runtime);
        made
    };
    made.map(|made| made.into_iter().map(absorb).collect())
}

/// Tries predicates on the values of all dictionaries, side by side; what is found is kept with the
/// condition.
pub(super) fn try_values(run: &Run<'_>, work: &Work) {
    let source = &run.source;
    let values = source.values_to_try();
    let many = source.threads == Threads::Many;
    if values == 0 || !source.is_plain() || !may_share_items(run, work) {
        return;
    }
    if many || (values >= VALUES_MIN && has_help()) {
        map(source.targets.len(), |number| drop(source.parts(&source.targets[number], None)));
    }
}

/// The threads that help those that ask, begun when they are first of use.
struct Helpers {
    pool: Option<ThreadPool>,
    idle: AtomicUsize,
}

static HELPERS: LazyLock<Helpers> = LazyLock::new(|| {
    let helpers = cores().saturating_sub(1).clamp(1, HELPERS_MAX);
    let name = |number| format!("query-{number}");
    // Without threads (the system has no more) everybody works alone.
    let pool = ThreadPoolBuilder::new().num_threads(helpers).thread_name(name).build().ok();
    let idle = AtomicUsize::new(if pool.is_some() { helpers } else { 0 });
    Helpers { pool, idle }
});

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// True when another core may have nothing to do.
pub(super) fn has_help() -> bool {
    static ALONE: LazyLock<bool> = LazyLock::new(|| cores() < 2);
    !*ALONE && HELPERS.idle.load(Ordering::Relaxed) > 0
}

/// How many threads a page may have, its own included.
pub(super) fn threads() -> usize {
    HELPERS.pool.as_ref().map_or(0, ThreadPool::current_num_threads) + 1
}

/// Helpers taken by a page; each is given back when it is done.
struct Taken(usize);

impl Taken {
    fn take(most: usize) -> Self {
        let fewer = |idle: usize| Some(idle - idle.min(most));
        let idle = HELPERS.idle.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
        Self(idle.map_or(0, |idle| idle.min(most)))
    }

    fn split(&mut self) -> Option<Self> {
        self.0 = self.0.checked_sub(1)?;
        Some(Self(1))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        HELPERS.idle.fetch_add(self.0, Ordering::Relaxed);
    }
}

/// Calls a function with every number below a count, on this thread and on those that are idle.
pub(super) fn map<T: Send>(count: usize, of: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let slots: Vec<Mutex<Option<T>>> = (0..count).map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    let go = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(slot) = slots.get(number) else { break };
            let made = of(number);
            *slot.lock() = Some(made);
        }
    };
    let mut taken = Taken::take(count.saturating_sub(1));
    match HELPERS.pool.as_ref().filter(|_| taken.0 > 0) {
        None => go(),
        Some(pool) => pool.in_place_scope(|scope| {
            while let Some(helper) = taken.split() {
                scope.spawn(|_| {
                    let _given_back = helper;
                    go();
                });
            }
            go();
        }),
    }
    let made = slots.into_iter().map(Mutex::into_inner);
    made.map(|made| made.expect("every number was taken by a thread that ended")).collect()
}

#[cfg(test)]
mod tests;
