//! Ranges gone through side by side.
//!
//! A query over many items is worked on by the thread that asks and by whichever others are idle. Each
//! takes the next range, or a piece of a range that is large, as a query over that share alone with its
//! own source, runtime and books ([`by_items`]); what they made is merged in the order of the shares.
//! There are never more such helpers in the process than cores: a page that finds none idle is made by
//! its own thread, as small ones are.
//!
//! The outcome is that of going through the items one after the other. What is merged does not depend
//! on how items were spread (sums are exact, groups and rows have an order), counts and charges add up
//! by target. And whatever cannot be merged so (an error in some range, more memory than is surely
//! allowed, the end of the time) is not the parallel way's to tell: it gives up, and the page is made
//! again on one thread, which meets the same limit or error where it would have met it.

use crate::query::exec::context::{Execution, Work, with_runtime};
use crate::query::plan::costs::{
    HELPERS_MAX, PARALLEL_DOCUMENTS_MIN, PARALLEL_ITEMS_MIN, PARALLEL_VALUES_MIN, SHARE_ITEMS_MIN,
    SHARE_ITEMS_TINY, SHARES_PER_THREAD,
};
use crate::query::prepare::pure::is_pure;
use crate::query::read::items::Source;
use crate::query::view::Target;
use crate::query::{QUERY_MEMORY_MAX, Run, Threads};
use crate::ranges::EpkSpan;
use armilla_model::error::Result;
use armilla_model::partition_key::Epk;
use parking_lot::Mutex;
use rayon_core::{ThreadPool, ThreadPoolBuilder};
use std::num::NonZero;
use std::ops::Range;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Bytes that all threads of a page may hold at their peaks. One thread would not hold more than
/// twice as much: a heap is emptied at other moments when it sees more rows.
const MEMORY_MAX: usize = QUERY_MEMORY_MAX / 2;

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
        self.held.fetch_add(more, Ordering::Relaxed) + more <= MEMORY_MAX
    }

    /// True when one of them has given up, so that the others may.
    pub(in crate::query) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// What one thread goes through: a range, or a piece of it where all documents are gone through.
#[derive(Clone, Debug)]
pub(in crate::query) struct Share {
    pub(in crate::query) target: usize,
    pub(in crate::query) piece: Option<EpkSpan>,
}

impl Share {
    fn of_range(target: usize) -> Self {
        Self { target, piece: None }
    }

    /// A range cut into about so many pieces, in the order of their keys.
    fn pieces(number: usize, target: &Target, pieces: u64) -> Vec<Self> {
        let cuts = target.cuts(usize::try_from(pieces).unwrap_or(1));
        let starts = std::iter::once(Epk::default()).chain(cuts.iter().cloned());
        let ends = cuts.iter().cloned().map(Some).chain([None]);
        let piece = |(min, max)| Some(EpkSpan { min, max });
        starts.zip(ends).map(|keys| Self { target: number, piece: piece(keys) }).collect()
    }
}

/// Calls a function for shares of the items, on several threads, where that is worth it; gives what it
/// made in the order of the shares. Gives nothing, as if it had never been called, where it is not worth
/// it or where any of the calls failed.
pub(in crate::query) fn by_items<T: Send>(
    run: &Run<'_>,
    execution: &mut Execution<'_>,
    of_share: impl Fn(&Run<'_>, &mut Execution<'_>) -> Result<T> + Sync,
) -> Option<Vec<T>> {
    let source = &run.source;
    let is_long = || {
        source.scope() >= PARALLEL_ITEMS_MIN
            && has_help()
            && source.estimate() >= PARALLEL_ITEMS_MIN
    };
    if !pays(source, is_long) || !may_share(run, execution.work) {
        return None;
    }
    let (items, scope) = (source.estimate(), source.scope().max(1));
    let many = match source.threads {
        // What the index finds depends a little on where it is asked: only whole ranges are the same.
        _ if source.condition.is_useful() => 0,
        Threads::Many => items / SHARE_ITEMS_TINY,
        _ => (items / SHARE_ITEMS_MIN).min((threads() * SHARES_PER_THREAD) as u64),
    };
    let of_target = |(number, target): (usize, &Target)| match target.scope() * many / scope {
        0 | 1 => vec![Share::of_range(number)],
        pieces => Share::pieces(number, target, pieces),
    };
    let shares: Vec<Share> = source.visited().flat_map(of_target).collect();
    together(run, &shares, execution, of_share)
}

/// The same by whole ranges, where so many documents have to be looked at in the index alone.
pub(in crate::query) fn by_range<T: Send>(
    run: &Run<'_>,
    documents: u64,
    execution: &mut Execution<'_>,
    of_range: impl Fn(&Run<'_>, &mut Execution<'_>) -> Result<T> + Sync,
) -> Option<Vec<T>> {
    let source = &run.source;
    if !pays(source, || documents >= PARALLEL_DOCUMENTS_MIN && has_help())
        || !may_share(run, execution.work)
    {
        return None;
    }
    let shares: Vec<Share> = source.visited.clone().map(Share::of_range).collect();
    together(run, &shares, execution, of_range)
}

/// True when the ranges of an ordered query should begin side by side: it will have to rank many
/// candidates, or has gone through many items for the first rows of some ranges.
pub(in crate::query) fn is_long_walk(run: &Run<'_>, visited: u64, work: &Work) -> bool {
    let source = &run.source;
    let ranks = || source.prepared.habit.will_rank() && source.estimate() >= PARALLEL_DOCUMENTS_MIN;
    let is_long = || visited >= PARALLEL_ITEMS_MIN || (source.condition.is_useful() && ranks());
    pays(source, || is_long() && has_help()) && may_share(run, work)
}

/// True when several threads are wanted: always or never, or by cost.
fn pays(source: &Source<'_>, by_cost: impl FnOnce() -> bool) -> bool {
    match source.threads {
        Threads::One => false,
        Threads::Many => true,
        Threads::ByCost => by_cost(),
    }
}

/// True when work can be shared: on items as the store has them, with rows that depend on nothing but
/// the items.
pub(in crate::query) fn may_share(run: &Run<'_>, work: &Work) -> bool {
    let source = &run.source;
    !source.has_points() && !source.is_laid_over() && !work.is_of_script() && is_pure(run.plan())
}

fn together<T: Send>(
    run: &Run<'_>,
    shares: &[Share],
    execution: &mut Execution<'_>,
    of_share: impl Fn(&Run<'_>, &mut Execution<'_>) -> Result<T> + Sync,
) -> Option<Vec<T>> {
    let of_number = |number: usize, execution: &mut Execution<'_>| {
        of_share(&run.only(&shares[number]), execution)
    };
    (shares.len() > 1).then(|| share_out(&run.source, shares.len(), execution, of_number))?
}

/// Calls a function with every number below a count, on several threads, each call with its own runtime
/// and books. Gives nothing, as if it had never been called, when any of the calls failed.
pub(in crate::query) fn share_out<T: Send>(
    source: &Source<'_>,
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
        let made = with_runtime(source, &mut own, |execution| of_number(number, execution));
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
    made.map(|made| made.into_iter().map(absorb).collect())
}

/// Tries predicates on the values of some ranges, side by side; what is found is kept with the condition.
pub(in crate::query) fn try_values(source: &Source<'_>, ranges: Range<usize>) {
    let ranges = ranges.start..ranges.end.min(source.visited.end);
    if !source.tries_values() || !source.is_plain() || ranges.len() < 2 {
        return;
    }
    let targets = &source.targets[ranges];
    let values = || targets.iter().map(Target::scope).sum::<u64>();
    if pays(source, || values() >= PARALLEL_VALUES_MIN && has_help()) {
        map(targets.len(), |number| drop(source.parts(&targets[number], None)));
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
