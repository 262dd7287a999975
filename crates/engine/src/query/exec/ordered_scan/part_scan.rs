//! Ordered scan of one part: its documents that may match, in the order of their values.
//!
//! A scan begins by walking: it goes through the part's values from one end and tests the documents
//! of each. Where matches are many that finds the first ones at once. Where they are few, or gather
//! at the other end, it would go through everything; so a scan that has tested many without end
//! *ranks* instead: it goes through all documents that the condition leaves, reads the ordinals of
//! their values from the column, and keeps the first few; when those are handed out, the next few.
//! Where the same documents are asked for again and again, their order is cached ([`Ranking`]) and
//! there is nothing to test.
//! Ordinals are compared, not values: the merge over parts looks at the values of matches only.

use super::cached_order::{CachedOrders, OrderCacheKey, Ranking};
use crate::query::counters::ScanModes;
use crate::query::find::Tester;
use crate::query::plan::costs::{
    RANK_BATCH_GROWTH, RANK_BATCH_MAX, RANK_BATCH_MIN, SCAN_PATIENCE_MIN, SCAN_PATIENCE_SHARE,
    SCAN_STRIDE,
};
use crate::query::plan::{PartPlan, Plan, ScanPolicy};
use crate::query::prepare::ExecutionFeedback;
use armilla_index::{Column, Direction, PathIndex, Value};
use std::ops::Range;

/// One part's way through its values.
pub(super) struct PartScan<'s> {
    pub(super) part: PartPlan<'s>,
    context: ScanContext<'s>,
    index: PathIndex<'s>,
    direction: Direction,
    /// Values behind the head.
    rest: Range<u32>,
    /// Documents ranked at a time to begin with.
    batch: usize,
    mode: ScanMode<'s>,
    /// What the order of all candidates is cached under, if it is.
    order: Option<OrderCacheKey>,
    /// Walking was given up.
    gave_up: bool,
}

/// What the scans of a page share.
#[derive(Clone, Copy)]
pub(super) struct ScanContext<'s> {
    pub(super) plan: &'s Plan,
    pub(super) feedback: &'s ExecutionFeedback,
    pub(super) orders: &'s CachedOrders,
}

enum ScanMode<'s> {
    Walk {
        tester: Tester<'s>,
        /// Documents that may still be tested before ranking begins.
        patience: usize,
        column: Option<Column<'s>>,
    },
    Ranked {
        column: Column<'s>,
        ranked: RankedBatch,
    },
    /// In an order that is cached.
    Cached(Ranking<'s>),
}

/// The first few documents of many, by place: the ordinal of the value, then the local number, turned
/// so that the first is the smallest.
struct RankedBatch {
    direction: Direction,
    /// The next one last.
    sorted: Vec<u64>,
    /// The last place that was ranked, when there are more behind it.
    more_behind: Option<u64>,
    batch: usize,
}

/// Where a scan stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScanPosition {
    pub(super) ordinal: u32,
    /// A document with this value is known to match as far as the index can tell; if not, it is
    /// only known that nothing comes before this value.
    pub(super) met: bool,
}

/// What all scans of a range are asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScanRequest {
    /// The path of the order.
    pub(super) path: u32,
    pub(super) direction: Direction,
    pub(super) policy: ScanPolicy,
    /// About so many documents.
    pub(super) wanted: u64,
}

impl<'s> PartScan<'s> {
    /// The scan of a part, and where it stands. `exact` is cleared when documents come out that must be
    /// looked at again.
    pub(super) fn begin(
        part: PartPlan<'s>,
        context: ScanContext<'s>,
        index: PathIndex<'s>,
        values: Range<u32>,
        request: ScanRequest,
        exact: &mut bool,
    ) -> Option<(Self, ScanPosition)> {
        let ScanRequest { path, direction, policy, wanted } = request;
        // Without a column documents are not found by value; where there is none, few have one.
        let column = index.column().filter(|_| policy != ScanPolicy::Walk);
        let order = column.and_then(|_| OrderCacheKey::of(&part, context.plan, path));
        let cached = order.as_ref().zip(column).and_then(|(order, column)| {
            Ranking::find(context.orders, order, column, direction, &values)
        });
        let batch = usize::try_from(wanted).unwrap_or(usize::MAX);
        let batch = batch.clamp(RANK_BATCH_MIN, RANK_BATCH_MAX);
        let mode = match (cached, column) {
            (Some(cached), _) => {
                *exact &= cached.is_exact();
                ScanMode::Cached(cached)
            }
            (None, Some(column)) if policy == ScanPolicy::Rank => {
                ScanMode::Ranked { column, ranked: RankedBatch::new(direction, batch) }
            }
            _ => ScanMode::Walk {
                tester: Tester::new(part.selector, part.part),
                patience: patience(&part, column.is_some()),
                column,
            },
        };
        let is_ranked = matches!(mode, ScanMode::Ranked { .. });
        let rest = values;
        let mut scan =
            Self { part, context, index, direction, rest, batch, mode, order, gave_up: false };
        if let Some(column) = column.filter(|_| is_ranked) {
            scan.rank(column, exact);
        }
        let head = scan.step(exact)?;
        Some((scan, head))
    }

    /// The value of an ordinal.
    pub(super) fn value(&self, ordinal: u32) -> Value<'s> {
        self.index.value(ordinal)
    }

    /// Counts the scan by its mode.
    pub(super) fn count_into(&self, modes: &mut ScanModes) {
        match &self.mode {
            ScanMode::Walk { .. } => modes.walked += 1,
            ScanMode::Ranked { .. } => modes.ranked += 1,
            ScanMode::Cached(_) => modes.cached += 1,
        }
        modes.gave_up += u32::from(self.gave_up);
    }

    /// Goes to the next value.
    pub(super) fn step(&mut self, exact: &mut bool) -> Option<ScanPosition> {
        let (part, context) = (&self.part, &self.context);
        match &mut self.mode {
            ScanMode::Walk { .. } => {
                let ordinal = next_of(&mut self.rest, self.direction)?;
                Some(ScanPosition { ordinal, met: false })
            }
            ScanMode::Ranked { column, ranked } => {
                if ranked.sorted.is_empty() && ranked.more_behind.is_some() {
                    let rest = &self.rest;
                    *exact &= ranked.fill(|visit| {
                        part.selector.visit(part.part, part.runs, &mut |local| {
                            let ordinal = column.ordinal(local).filter(|at| rest.contains(at));
                            if let Some(ordinal) = ordinal
                                && context.plan.view.is_alive_at(part.part, local)
                            {
                                visit(ordinal, local);
                            }
                        })
                    });
                }
                let ordinal = ranked.ordinal(*ranked.sorted.last()?);
                Some(ScanPosition { ordinal, met: true })
            }
            ScanMode::Cached(cached) => {
                let (ordinal, _) = cached.peek(|local| is_open(part, context.plan, local))?;
                Some(ScanPosition { ordinal, met: true })
            }
        }
    }

    /// Goes on from a value that is not known to be met until one is, for a while.
    pub(super) fn seek(&mut self, from: u32, exact: &mut bool) -> Option<ScanPosition> {
        let (part, plan) = (&self.part, self.context.plan);
        let ScanMode::Walk { tester, patience, column } = &mut self.mode else {
            return self.step(exact);
        };
        if let Some(column) = column.filter(|_| *patience == 0) {
            match self.direction {
                Direction::Ascending => self.rest.start = from,
                Direction::Descending => self.rest.end = from + 1,
            }
            self.gave_up = true;
            self.context.feedback.gave_up();
            self.rank(column, exact);
            return self.step(exact);
        }
        let (mut ordinal, mut tested) = (from, 0);
        while tested < SCAN_STRIDE {
            let list = self.index.list(ordinal);
            let matches = |local: u32| tester.may_match(local) && is_open(part, plan, local);
            if list.iter().any(|local| matches(local.get())) {
                *patience = patience.saturating_sub(tested);
                return Some(ScanPosition { ordinal, met: true });
            }
            tested += list.len().max(1);
            ordinal = next_of(&mut self.rest, self.direction)?;
        }
        *patience = patience.saturating_sub(tested);
        Some(ScanPosition { ordinal, met: false })
    }

    /// Hands out the documents of a value that is met.
    pub(super) fn take(&mut self, ordinal: u32, mut visit: impl FnMut(u32)) {
        let (part, plan) = (&self.part, self.context.plan);
        match &mut self.mode {
            ScanMode::Walk { tester, .. } => {
                let locals = self.index.list(ordinal).iter().map(|local| local.get());
                let matches = |local: &u32| tester.may_match(*local) && is_open(part, plan, *local);
                locals.filter(matches).for_each(visit);
            }
            ScanMode::Ranked { ranked, .. } => {
                while let Some(place) = ranked.sorted.last().copied()
                    && ranked.ordinal(place) == ordinal
                {
                    ranked.sorted.pop();
                    visit(ranked.local(place));
                }
            }
            ScanMode::Cached(cached) => {
                while let Some((at, local)) = cached.peek(|local| is_open(part, plan, local))
                    && at == ordinal
                {
                    cached.skip();
                    visit(local);
                }
            }
        }
    }

    /// Turns to ranking what is left, or to an order that was asked for before.
    fn rank(&mut self, column: Column<'s>, exact: &mut bool) {
        let (orders, part) = (self.context.orders, &self.part);
        let make = |key| Ranking::make(orders, key, part, column, self.direction, &self.rest);
        self.mode = match self.order.take().and_then(make) {
            Some(cached) => {
                *exact &= cached.is_exact();
                ScanMode::Cached(cached)
            }
            None => {
                ScanMode::Ranked { column, ranked: RankedBatch::new(self.direction, self.batch) }
            }
        };
    }
}

/// Documents that a walk may test in vain before the part's candidates are ranked.
fn patience(part: &PartPlan<'_>, may_rank: bool) -> usize {
    match may_rank {
        true => (part.size() / SCAN_PATIENCE_SHARE).max(SCAN_PATIENCE_MIN),
        false => usize::MAX,
    }
}

impl RankedBatch {
    fn new(direction: Direction, batch: usize) -> Self {
        // Nothing lies before the first place, and nothing is known of what lies behind it.
        Self { direction, sorted: Vec::new(), more_behind: Some(0), batch }
    }

    fn place(&self, ordinal: u32, local: u32) -> u64 {
        let place = u64::from(ordinal) << 32 | u64::from(local);
        match self.direction {
            // Zero is before everything and the largest number behind it; an ordinal is never the
            // largest of its kind, so there is room for both.
            Direction::Ascending => place + 1,
            Direction::Descending => u64::MAX - 1 - place,
        }
    }

    fn ordinal(&self, place: u64) -> u32 {
        (self.unturned(place) >> 32) as u32
    }

    fn local(&self, place: u64) -> u32 {
        self.unturned(place) as u32
    }

    fn unturned(&self, place: u64) -> u64 {
        match self.direction {
            Direction::Ascending => place - 1,
            Direction::Descending => u64::MAX - 1 - place,
        }
    }

    /// Ranks the next few of all documents that a function visits.
    fn fill<T>(&mut self, visit_all: impl FnOnce(&mut dyn FnMut(u32, u32)) -> T) -> T {
        let behind = self.more_behind.take().unwrap_or(u64::MAX);
        let batch = self.batch;
        self.batch = batch.saturating_mul(RANK_BATCH_GROWTH);
        let mut first: Vec<u64> = Vec::with_capacity((2 * batch).min(RANK_BATCH_MAX));
        // Places at or behind this one are not among the first.
        let mut end = u64::MAX;
        let visited = visit_all(&mut |ordinal, local| {
            let place = self.place(ordinal, local);
            if place < end && behind < place {
                first.push(place);
                if first.len() >= batch.saturating_mul(2) {
                    end = keep(&mut first, batch);
                }
            }
        });
        if first.len() > batch {
            end = keep(&mut first, batch);
        }
        self.more_behind = (end < u64::MAX).then_some(end);
        first.sort_unstable_by(|left, right| right.cmp(left));
        self.sorted = first;
        visited
    }
}

/// Keeps the smallest few; gives the largest of them.
fn keep(places: &mut Vec<u64>, count: usize) -> u64 {
    let (_, last, _) = places.select_nth_unstable(count - 1);
    let last = *last;
    places.truncate(count);
    last
}

fn next_of(rest: &mut Range<u32>, direction: Direction) -> Option<u32> {
    match direction {
        Direction::Ascending => rest.next(),
        Direction::Descending => rest.next_back(),
    }
}

/// True for a document that is in scope and lives.
#[inline]
fn is_open(part: &PartPlan<'_>, plan: &Plan, local: u32) -> bool {
    !part.part.is_dead(local)
        && part.runs.iter().any(|run| run.contains(&local))
        && plan.view.is_alive_at(part.part, local)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranks_come_in_order(
            mut places in proptest::collection::vec((0u32..20, 0u32..100), 0..500),
            descending: bool,
        ) {
            let direction =
                if descending { Direction::Descending } else { Direction::Ascending };
            places.sort_unstable();
            places.dedup();
            let mut ranked = RankedBatch::new(direction, 3);
            let mut seen = Vec::new();
            while ranked.more_behind.is_some() {
                ranked.fill(|visit| places.iter().for_each(|(value, local)| visit(*value, *local)));
                while let Some(place) = ranked.sorted.pop() {
                    seen.push((ranked.ordinal(place), ranked.local(place)));
                }
            }
            if descending {
                places.reverse();
            }
            prop_assert_eq!(seen, places);
        }
    }
}
