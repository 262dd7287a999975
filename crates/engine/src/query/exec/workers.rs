//! Workers: ranges gone through side by side, by the thread that asks and by idle helpers.
//!
//! A query over many items is worked on by the thread that asks and by whichever others are idle. Each
//! takes the next range, or a piece of a range that is large, as a query over that share alone with its
//! own items, runtime and books ([`by_items`]); what they made is merged in the order of the shares.
//! There are never more such helpers in the process than cores: a page that finds none idle is made by
//! its own thread, as small ones are. Whether a page is worth sharing, and into what shares, is decided in
//! `query::plan::parallelism`.
//!
//! The outcome is that of going through the items one after the other. What is merged does not depend
//! on how items were spread (sums are exact, groups and rows have an order), counts and charges add up
//! by range. And whatever cannot be merged so (an error in some range, more memory than is surely
//! allowed, the end of the time) is not the parallel way's to tell: it gives up, and the page is made
//! again on one thread, which meets the same limit or error where it would have met it.

use super::context::{Execution, PageRun, with_runtime};
use super::work::Work;
use crate::limits::PARALLEL_MEMORY_MAX;
use crate::query::Query;
use crate::query::plan::WorkShare;
use crate::query::plan::costs::HELPERS_MAX;
use crate::query::read::Items;
use armilla_model::error::Result;
use parking_lot::Mutex;
use rayon_core::{ThreadPool, ThreadPoolBuilder};
use std::num::NonZero;
use std::ops::Range;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What the threads of a page know of each other.
#[derive(Debug, Default)]
pub(in crate::query) struct SharedBudget {
    /// The sum of their peaks.
    held: AtomicUsize,
    over: AtomicBool,
}

impl SharedBudget {
    /// Counts that a peak has grown; false when that is too much.
    pub(in crate::query) fn may_hold(&self, more: usize) -> bool {
        self.held.fetch_add(more, Ordering::Relaxed) + more <= PARALLEL_MEMORY_MAX
    }

    /// True when one of them has given up, so that the others may.
    pub(in crate::query) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// Calls a function for shares of the items, on several threads, where that is worth it; gives what it
/// made in the order of the shares. Gives nothing, as if it had never been called, where it is not worth
/// it or where any of the calls failed.
pub(super) fn by_items<T: Send>(
    run: &PageRun<'_>,
    execution: &mut Execution<'_>,
    of_share: impl Fn(&PageRun<'_>, &mut Execution<'_>) -> Result<T> + Sync,
) -> Option<Vec<T>> {
    if !run.plan.shares_items(has_help) || !may_share(run, execution.work) {
        return None;
    }
    share_runs(run, &run.plan.item_shares(threads()), execution, of_share)
}

/// The same by whole ranges, where so many documents have to be looked at in the index alone.
pub(super) fn by_range<T: Send>(
    run: &PageRun<'_>,
    documents: u64,
    execution: &mut Execution<'_>,
    of_range: impl Fn(&PageRun<'_>, &mut Execution<'_>) -> Result<T> + Sync,
) -> Option<Vec<T>> {
    if !run.plan.shares_documents(documents, has_help) || !may_share(run, execution.work) {
        return None;
    }
    share_runs(run, &run.plan.range_shares(), execution, of_range)
}

/// True when the ranges of an ordered scan should begin side by side.
pub(super) fn is_long_scan(run: &PageRun<'_>, visited: u64, work: &Work) -> bool {
    run.plan.shares_scan(visited, &run.query.prepared, has_help) && may_share(run, work)
}

/// True when work can be shared. What a script asks for is made on the script's thread.
pub(super) fn may_share(run: &PageRun<'_>, work: &Work) -> bool {
    !work.is_of_script() && run.plan.may_share(&run.query.prepared)
}

fn share_runs<T: Send>(
    run: &PageRun<'_>,
    shares: &[WorkShare],
    execution: &mut Execution<'_>,
    of_share: impl Fn(&PageRun<'_>, &mut Execution<'_>) -> Result<T> + Sync,
) -> Option<Vec<T>> {
    let of_number = |number: usize, execution: &mut Execution<'_>| {
        of_share(&run.for_share(&shares[number]), execution)
    };
    (shares.len() > 1).then(|| share_out(run.query, shares.len(), execution, of_number))?
}

/// Calls a function with every number below a count, on several threads, each call with its own runtime
/// and books. Gives nothing, as if it had never been called, when any of the calls failed.
pub(super) fn share_out<T: Send>(
    query: &Query,
    count: usize,
    execution: &mut Execution<'_>,
    of_number: impl Fn(usize, &mut Execution<'_>) -> Result<T> + Sync,
) -> Option<Vec<T>> {
    let seed = execution.work.seed();
    let budget = &seed.budget;
    let made = map(count, |number| {
        if budget.is_over() {
            return None;
        }
        let mut own = seed.work();
        let made = with_runtime(query, &mut own, |execution| of_number(number, execution));
        if made.is_err() {
            budget.over.store(true, Ordering::Relaxed);
        }
        made.ok().map(|made| (made, own.into_result()))
    });
    let made: Option<Vec<_>> = made.into_iter().collect();
    let absorb = |(made, result)| {
        execution.work.absorb(&result, &mut execution.runtime);
        made
    };
    let made: Vec<T> = made?.into_iter().map(absorb).collect();
    execution.work.taken.shares += u32::try_from(count).unwrap_or(u32::MAX);
    Some(made)
}

/// Tries predicates on the values of some ranges, side by side; what is found is kept with the plan.
pub(in crate::query) fn try_values(items: &Items<'_>, ranges: Range<usize>) {
    let ranges = ranges.start..ranges.end.min(items.visited.end);
    if items.plan.shares_values(&ranges, has_help) {
        map(ranges.len(), |number| drop(items.plan.parts(ranges.start + number)));
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
pub(in crate::query) fn has_help() -> bool {
    static ALONE: LazyLock<bool> = LazyLock::new(|| cores() < 2);
    !*ALONE && HELPERS.idle.load(Ordering::Relaxed) > 0
}

/// How many threads a page may have, its own included.
pub(in crate::query) fn threads() -> usize {
    HELPERS.pool.as_ref().map_or(0, ThreadPool::current_num_threads) + 1
}

/// Helpers taken by a page; each is given back when it is done.
struct Permits(usize);

impl Permits {
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

impl Drop for Permits {
    fn drop(&mut self) {
        HELPERS.idle.fetch_add(self.0, Ordering::Relaxed);
    }
}

/// Calls a function with every number below a count, on this thread and on those that are idle.
pub(in crate::query) fn map<T: Send>(count: usize, of: impl Fn(usize) -> T + Sync) -> Vec<T> {
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
    let mut taken = Permits::take(count.saturating_sub(1));
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
