//! The plan of a page: how it will be answered, decided before anything is read.
//!
//! A plan is made in one place ([`choose`]) from the compiled query, from what the view knows of the data, and
//! from settings. It owns what was looked up for it: the view, the condition in the container's terms, and the
//! selectors of every part of every range, each made once and only when somebody asks. Nothing in it borrows,
//! so a plan that was made on one thread can be run on another.
//!
//! ```text
//! Operator   who answers: stream, ordered scan, top-k, min/max, index-only aggregate, group, whole
//! RangeAccess  how candidates of a range are found: scan all, list them from the index, or test one by one
//! WorkShare      what one of several threads goes through
//! Cost       what the page may take at most, for whoever decides where it runs
//! ```
//!
//! What can only be known on the way is an alternative that the plan names: an ordered scan that ranks a part's
//! candidates when walking finds none, MIN and MAX that need the items after all, threads that must be idle to
//! help. The operators count which of them were taken.

mod choose;
pub(in crate::query) mod costs;
mod order_index;
mod parallelism;
#[cfg(test)]
mod tests;

pub use choose::Cost;
pub(in crate::query) use choose::ScanPolicy;
pub(in crate::query) use order_index::OrderIndex;
pub(in crate::query) use parallelism::WorkShare;

use super::find::points::Point;
use super::find::{Condition, CoveringColumns, Runs, Selector};
use super::token::{Place, Position, Window};
use super::view::View;
use super::{Access, Threads};
use crate::record::Record;
use armilla_index::Part;
use armilla_model::clock::monotonic;
use costs::{LIST_MAX, LIST_SHARE, SCAN_MAX};
use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// How a page is answered.
pub struct Plan {
    /// What the page sees.
    pub(in crate::query) view: View,
    /// Who answers.
    pub(in crate::query) operator: Operator,
    /// Items that the condition names by id: they are read like point reads.
    pub(in crate::query) points: Option<Vec<Point>>,
    /// What the index can say about the condition. Charges follow it, however items are found.
    pub(in crate::query) condition: Condition,
    /// Items are found by the condition too.
    searches: bool,
    /// Searches of the index in each range.
    pub(in crate::query) seeks: u64,
    /// The selectors of each range.
    ranges: Vec<OnceLock<Vec<PartAccess>>>,
    /// Where the page begins, told by its continuation.
    pub(in crate::query) position: Option<Position>,
    /// What lies before this place was answered by earlier pages of a stream.
    pub(in crate::query) start: Option<Place>,
    /// Rows at most.
    pub(in crate::query) count_max: usize,
    /// The rows that are wanted of this part, where a page is put together of parts: whoever does that skips.
    pub(in crate::query) part: Option<Window>,
    /// The page holds rows of one range only.
    pub(in crate::query) range_by_range: bool,
    /// The rows handed out are charged, not the items gone through: the order is indexed.
    pub(in crate::query) pays_by_row: bool,
    /// What an open transaction has made of items: the index knows them as they were.
    pub(in crate::query) overlay: Option<Overlay>,
    access: Access,
    pub(in crate::query) threads: Threads,
    estimate: OnceLock<u64>,
    cost: Cost,
    /// How long choosing and looking up took, where that is measured.
    planned_in: Option<PlanningTime>,
}

/// Nanoseconds that planning took, and looking up behind it.
#[derive(Debug, Default)]
struct PlanningTime {
    chosen: u64,
    looked_up: AtomicU64,
}

/// Items that are different from what the index and the store say, by ordinal: their version, or
/// nothing if they are gone.
pub(crate) type Overlay = HashMap<u64, Option<Record>>;

/// Who answers a page.
pub(in crate::query) enum Operator {
    /// Rows as items go by, in the order of (effective key, ordinal).
    Stream,
    /// ORDER BY from an index that is read in order.
    OrderedScan(OrderIndex),
    /// ORDER BY from a bounded heap of all candidates.
    TopK,
    /// MIN and MAX from the ends of these indexes. Where only items know the value, what comes instead.
    MinMax { ends: Vec<OrderIndex>, fallback: Option<IndexAggregate> },
    /// Aggregates, GROUP BY and DISTINCT from the columns of the index alone.
    IndexAggregate(IndexAggregate),
    /// The same from items.
    Group,
    /// Everything at once: ORDER BY RANK, queries over ordered or grouped queries.
    Whole,
}

/// The columns that an index-only aggregate reads.
pub(in crate::query) struct IndexAggregate {
    /// With those of the condition.
    pub(in crate::query) filtered: CoveringColumns,
    /// Without: for documents that the index knows to match.
    pub(in crate::query) unfiltered: CoveringColumns,
}

/// How candidates of a range are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::query) enum RangeAccess {
    /// All documents are gone through.
    Scan,
    /// Candidates are listed from the index, then gone through.
    List,
    /// All documents are gone through, and tested in the index first. All that pass surely match?
    Test { exact: bool },
}

/// One part of a range: documents in scope and the condition on them.
struct PartAccess {
    number: usize,
    runs: Runs,
    selector: Selector,
}

/// The same, with the part.
#[derive(Clone, Copy)]
pub(in crate::query) struct PartPlan<'p> {
    pub(in crate::query) number: usize,
    pub(in crate::query) part: &'p Part,
    pub(in crate::query) runs: &'p Runs,
    pub(in crate::query) selector: &'p Selector,
}

impl<'p> PartPlan<'p> {
    pub(in crate::query) fn scope(&self) -> usize {
        self.runs.iter().map(|run| run.len()).sum()
    }

    /// Candidates at most.
    pub(in crate::query) fn size(&self) -> usize {
        self.selector.size(self.part).min(self.scope())
    }

    /// Candidates, the dead left out.
    pub(in crate::query) fn select(&self) -> super::find::Selection {
        self.selector.select(self.part, self.runs)
    }
}

impl Plan {
    /// True when the index may answer for items: it knows them as they are.
    pub(in crate::query) fn is_plain(&self) -> bool {
        self.view.is_indexed && self.overlay.is_none() && self.access != Access::Items
    }

    /// True when items are found by their ids.
    pub(in crate::query) fn has_points(&self) -> bool {
        self.points.is_some()
    }

    /// True when the index leaves items out.
    pub(in crate::query) fn is_selective(&self) -> bool {
        self.searches && self.condition.is_useful()
    }

    /// True when values must be tried one by one before items can be found.
    pub(in crate::query) fn tries_values(&self) -> bool {
        self.searches && self.condition.tries_values()
    }

    /// True when the selectors that find items are those of the condition that is charged.
    pub(in crate::query) fn finds_what_is_charged(&self) -> bool {
        self.searches
    }

    /// A number of items up to which the index is not asked.
    pub(in crate::query) fn threshold(&self, items: u64) -> u64 {
        if self.access == Access::Index { 0 } else { items }
    }

    /// The parts of a range that have documents in scope, with the condition on each.
    pub(in crate::query) fn parts(
        &self,
        range: usize,
    ) -> impl ExactSizeIterator<Item = PartPlan<'_>> + Clone {
        let made = self.ranges[range].get_or_init(|| self.look_up(range));
        let parts = self.view.ranges[range].parts();
        made.iter().map(move |access| {
            let PartAccess { number, runs, selector } = access;
            PartPlan { number: *number, part: &parts[*number], runs, selector }
        })
    }

    /// The same, measured where that is wanted.
    fn look_up(&self, range: usize) -> Vec<PartAccess> {
        let Some(planned_in) = &self.planned_in else { return self.make_parts(range) };
        let begun = monotonic();
        let parts = self.make_parts(range);
        planned_in.looked_up.fetch_add(nanoseconds(begun.elapsed()), Relaxed);
        parts
    }

    /// How long choosing took, and looking up since, if that was measured.
    pub(in crate::query) fn planned_in(&self) -> Option<Duration> {
        let PlanningTime { chosen, looked_up } = self.planned_in.as_ref()?;
        Some(Duration::from_nanos(chosen + looked_up.load(Relaxed)))
    }

    fn make_parts(&self, range: usize) -> Vec<PartAccess> {
        let condition = if self.searches { &self.condition } else { &Condition::Unknown };
        let with_selector = |(number, part, runs): (usize, &Part, Runs)| {
            let selector = Selector::new(condition, part, &runs, self.view.is_bare(part));
            PartAccess { number, runs, selector }
        };
        self.view.ranges[range].runs(self.start.as_ref()).map(with_selector).collect()
    }

    /// True when the selectors of a range are made.
    pub(in crate::query) fn has_looked_up(&self, range: usize) -> bool {
        self.ranges[range].get().is_some()
    }

    /// Items that may have to be looked at, at most.
    pub(in crate::query) fn estimate(&self) -> u64 {
        *self.estimate.get_or_init(|| match &self.points {
            Some(points) => points.len() as u64,
            None => (0..self.ranges.len()).map(|range| self.candidates_of(range)).sum(),
        })
    }

    /// Items of a range that may have to be looked at, at most.
    pub(in crate::query) fn candidates_of(&self, range: usize) -> u64 {
        let scope = self.view.ranges[range].scope();
        if scope <= self.threshold(SCAN_MAX) || !self.is_selective() {
            return scope;
        }
        let sizes = self.parts(range).map(|part| part.size()).sum::<usize>();
        (sizes as u64).min(scope)
    }

    /// How candidates of a range are found.
    pub(in crate::query) fn access_of(&self, range: usize) -> RangeAccess {
        if !self.is_selective() || self.view.ranges[range].scope() <= self.threshold(SCAN_MAX) {
            return RangeAccess::Scan;
        }
        let parts = self.parts(range);
        let (size, scope) = sizes(parts.clone());
        if self.is_plain() && (size <= LIST_MAX || size <= scope / LIST_SHARE) {
            return RangeAccess::List;
        }
        let exact = self.is_plain() && parts.clone().all(|part| part.selector.may_be_exact());
        RangeAccess::Test { exact }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Candidates of parts, and documents in scope.
pub(in crate::query) fn sizes<'p>(parts: impl Iterator<Item = PartPlan<'p>>) -> (usize, usize) {
    parts.fold((0, 0), |(size, scope), part| (size + part.size(), scope + part.scope()))
}
