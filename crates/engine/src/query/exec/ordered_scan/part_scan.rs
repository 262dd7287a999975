//! The documents of one part that may match, in the order of their values.
//!
//! A lane begins by walking: it goes through the part's values from one end and tests the documents
//! of each. Where matches are many that finds the first ones at once. Where they are few, or gather
//! at the other end, it would go through everything; so a lane that has tested many without end
//! *ranks* instead: it goes through all documents that the condition leaves, reads the ordinals of
//! their values from the column, and keeps the first few; when those are handed out, the next few.
//! Where the same documents are asked for again and again, their order is kept ([`Ranking`]) and
//! there is nothing to test.
//! Ordinals are compared, not values: the merge over lanes looks at the values of matches only.

use crate::query::exec::ordered_scan::cached_order::{Key, Ranking};
use crate::query::plan::costs::{
    RANK_BATCH_GROWTH, RANK_BATCH_MAX, RANK_BATCH_MIN, SCAN_PATIENCE_MIN, SCAN_PATIENCE_SHARE,
    SCAN_STRIDE,
};
use crate::query::read::items::{PartPlan, Source};
use armilla_index::{Column, Direction, PathIndex, Value};
use std::ops::Range;

/// One part's way through its values.
pub(in crate::query) struct Lane<'s> {
    /// Which of the plans.
    pub(in crate::query) plan: usize,
    index: PathIndex<'s>,
    direction: Direction,
    /// Values behind the head.
    rest: Range<u32>,
    /// Documents ranked at a time to begin with.
    batch: usize,
    way: Way<'s>,
    /// What the order of all candidates is kept under, if it is.
    order: Option<Key>,
}

enum Way<'s> {
    Walk {
        /// Documents that may still be tested before ranking begins.
        patience: usize,
        column: Option<Column<'s>>,
    },
    Ranked {
        column: Column<'s>,
        ranked: Ranked,
    },
    /// In an order that is kept.
    Kept(Ranking<'s>),
}

/// The first few documents of many, by place: the ordinal of the value, then the local number, turned
/// so that the first is the smallest.
struct Ranked {
    direction: Direction,
    /// The next one last.
    sorted: Vec<u64>,
    /// The last place that was ranked, when there are more behind it.
    more_behind: Option<u64>,
    batch: usize,
}

/// Where a lane stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::query) struct Head {
    pub(in crate::query) ordinal: u32,
    /// A document with this value is known to match as far as the index can tell; if not, it is
    /// only known that nothing comes before this value.
    pub(in crate::query) met: bool,
}

/// How a lane is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::query) enum Choice {
    /// Ranking is not allowed: there are too many candidates.
    Walk,
    /// By walking, as long as it is quick.
    WalkFirst,
    /// By ranking, where there is a column.
    Rank,
}

/// What all lanes of a walk are asked for.
#[derive(Clone, Copy, Debug)]
pub(in crate::query) struct Asked {
    /// The path of the order.
    pub(in crate::query) path: u32,
    pub(in crate::query) direction: Direction,
    pub(in crate::query) choice: Choice,
    /// About so many documents.
    pub(in crate::query) wanted: u64,
}

impl<'s> Lane<'s> {
    /// The lane of a plan's part, and where it stands. `exact` is cleared when documents come out
    /// that must be looked at again.
    pub(in crate::query) fn begin(
        number: usize,
        plan: &mut PartPlan<'s>,
        source: &Source<'_>,
        index: PathIndex<'s>,
        values: Range<u32>,
        asked: Asked,
        exact: &mut bool,
    ) -> Option<(Self, Head)> {
        let Asked { path, direction, choice, wanted } = asked;
        // Without a column documents are not found by value; where there is none, few have one.
        let column = index.column().filter(|_| choice != Choice::Walk);
        let patience = match column {
            Some(_) => (plan.size() / SCAN_PATIENCE_SHARE).max(SCAN_PATIENCE_MIN),
            None => usize::MAX,
        };
        let way = Way::Walk { patience, column };
        let batch = usize::try_from(wanted).unwrap_or(usize::MAX);
        let batch = batch.clamp(RANK_BATCH_MIN, RANK_BATCH_MAX);
        let order = column.and_then(|_| Key::of(plan, source, path));
        let kept = order
            .as_ref()
            .zip(column)
            .and_then(|(order, column)| Ranking::find(order, column, direction, &values));
        let mut lane = Self { plan: number, index, direction, rest: values, batch, way, order };
        match (kept, column) {
            (Some(kept), _) => lane.keep_to(kept, exact),
            (None, Some(column)) if choice == Choice::Rank => lane.rank(column, plan, exact),
            _ => plan.selector.list_members(),
        }
        let head = lane.step(plan, source, exact)?;
        Some((lane, head))
    }

    /// The value of an ordinal.
    pub(in crate::query) fn value(&self, ordinal: u32) -> Value<'s> {
        self.index.value(ordinal)
    }

    /// Goes to the next value.
    pub(in crate::query) fn step(
        &mut self,
        plan: &PartPlan<'s>,
        source: &Source<'_>,
        exact: &mut bool,
    ) -> Option<Head> {
        match &mut self.way {
            Way::Walk { .. } => {
                let ordinal = next_of(&mut self.rest, self.direction)?;
                Some(Head { ordinal, met: false })
            }
            Way::Ranked { column, ranked } => {
                if ranked.sorted.is_empty() && ranked.more_behind.is_some() {
                    let rest = &self.rest;
                    *exact &= ranked.fill(|visit| {
                        plan.selector.visit(&plan.runs, &mut |local| {
                            let ordinal = column.ordinal(local).filter(|at| rest.contains(at));
                            if let Some(ordinal) = ordinal
                                && source.is_alive_at(plan.part, local)
                            {
                                visit(ordinal, local);
                            }
                        })
                    });
                }
                let ordinal = ranked.ordinal(*ranked.sorted.last()?);
                Some(Head { ordinal, met: true })
            }
            Way::Kept(kept) => {
                let (ordinal, _) = kept.peek(|local| is_open(plan, source, local))?;
                Some(Head { ordinal, met: true })
            }
        }
    }

    /// Goes on from a value that is not known to be met until one is, for a while.
    pub(in crate::query) fn seek(
        &mut self,
        from: u32,
        plan: &PartPlan<'s>,
        source: &Source<'_>,
        exact: &mut bool,
    ) -> Option<Head> {
        let Way::Walk { patience, column } = &mut self.way else {
            return self.step(plan, source, exact);
        };
        if let Some(column) = column.filter(|_| *patience == 0) {
            match self.direction {
                Direction::Ascending => self.rest.start = from,
                Direction::Descending => self.rest.end = from + 1,
            }
            source.prepared.habit.gave_up();
            self.rank(column, plan, exact);
            return self.step(plan, source, exact);
        }
        let (mut ordinal, mut tested) = (from, 0);
        while tested < SCAN_STRIDE {
            let list = self.index.list(ordinal);
            if list.iter().any(|local| may_match(plan, source, local.get())) {
                *patience = patience.saturating_sub(tested);
                return Some(Head { ordinal, met: true });
            }
            tested += list.len().max(1);
            ordinal = next_of(&mut self.rest, self.direction)?;
        }
        *patience = patience.saturating_sub(tested);
        Some(Head { ordinal, met: false })
    }

    /// Hands out the documents of a value that is met.
    pub(in crate::query) fn take(
        &mut self,
        ordinal: u32,
        plan: &PartPlan<'s>,
        source: &Source<'_>,
        mut visit: impl FnMut(u32),
    ) {
        match &mut self.way {
            Way::Walk { .. } => {
                let locals = self.index.list(ordinal).iter().map(|local| local.get());
                locals.filter(|local| may_match(plan, source, *local)).for_each(visit);
            }
            Way::Ranked { ranked, .. } => {
                while let Some(place) = ranked.sorted.last().copied()
                    && ranked.ordinal(place) == ordinal
                {
                    ranked.sorted.pop();
                    visit(ranked.local(place));
                }
            }
            Way::Kept(kept) => {
                while let Some((at, local)) = kept.peek(|local| is_open(plan, source, local))
                    && at == ordinal
                {
                    kept.skip();
                    visit(local);
                }
            }
        }
    }

    /// Turns to ranking what is left.
    fn rank(&mut self, column: Column<'s>, plan: &PartPlan<'s>, exact: &mut bool) {
        let make = |order| Ranking::make(order, plan, column, self.direction, &self.rest);
        if let Some(kept) = self.order.take().and_then(make) {
            return self.keep_to(kept, exact);
        }
        let ranked = Ranked::new(self.direction, self.batch);
        self.way = Way::Ranked { column, ranked };
    }

    /// Turns to an order that is kept.
    fn keep_to(&mut self, kept: Ranking<'s>, exact: &mut bool) {
        *exact &= kept.is_exact();
        self.way = Way::Kept(kept);
    }
}

impl Ranked {
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

#[inline]
fn may_match(plan: &PartPlan<'_>, source: &Source<'_>, local: u32) -> bool {
    plan.selector.may_match(local) && is_open(plan, source, local)
}

/// True for a document that is in scope and lives.
#[inline]
fn is_open(plan: &PartPlan<'_>, source: &Source<'_>, local: u32) -> bool {
    !plan.part.is_dead(local)
        && plan.runs.iter().any(|run| run.contains(&local))
        && source.is_alive_at(plan.part, local)
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
            let mut ranked = Ranked::new(direction, 3);
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
