//! The documents of one part that may match, in the order of their values.
//!
//! A lane begins by walking: it goes through the part's values from one end and tests the documents
//! of each. Where matches are many that finds the first ones at once. Where they are few, or gather
//! at the other end, it would go through everything; so a lane that has tested many without end
//! *ranks* instead: it takes all documents that the condition leaves, reads the ordinals of their
//! values from the column, and picks the first few of those again and again. Ordinals are compared,
//! not values: the merge over lanes looks at the values of matches only.

use crate::query::access::Selection;
use crate::query::source::{PartPlan, Source};
use armilla_index::{Column, Direction, PathIndex, Value};
use std::ops::Range;

/// Documents tested at a time: a lane that finds nothing lets others go first.
const STRIDE: usize = 256;
/// Documents that are walked through before ranking is thought of.
const WALK_MIN: usize = 1024;
/// One in so many candidates: when as many documents were walked through, ranking is not much more.
const PATIENCE: usize = 4;
/// Documents put in order at a time, to begin with.
const BATCH_MIN: usize = 128;

/// One part's way through its values.
pub(super) struct Lane<'s> {
    /// Which of the plans.
    pub(super) plan: usize,
    index: PathIndex<'s>,
    direction: Direction,
    /// Values behind the head.
    rest: Range<u32>,
    way: Way<'s>,
}

enum Way<'s> {
    Walk {
        /// Documents that may still be tested before ranking begins.
        patience: usize,
        column: Option<Column<'s>>,
    },
    Ranked(Ranked),
}

/// Documents by the ordinal of their value.
struct Ranked {
    /// In order, the next one last.
    sorted: Vec<(u32, u32)>,
    /// Those that come later, in no order.
    later: Vec<(u32, u32)>,
    batch: usize,
}

/// Where a lane stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) ordinal: u32,
    /// A document with this value is known to match as far as the index can tell; if not, it is
    /// only known that nothing comes before this value.
    pub(super) met: bool,
}

/// How a lane is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// Ranking is not allowed: there are too many candidates.
    Walk,
    /// By walking, as long as it is quick.
    WalkFirst,
    /// By ranking, where there is a column.
    Rank,
}

impl<'s> Lane<'s> {
    /// The lane of a plan's part, and where it stands. `exact` is cleared when documents come out
    /// that must be looked at again.
    pub(super) fn begin(
        number: usize,
        plan: &mut PartPlan<'s>,
        source: &Source<'_>,
        index: PathIndex<'s>,
        values: Range<u32>,
        (direction, choice): (Direction, Choice),
        exact: &mut bool,
    ) -> Option<(Self, Head)> {
        // Without a column documents are not found by value; where there is none, few have one.
        let column = index.column().filter(|_| choice != Choice::Walk);
        let patience = match column {
            Some(_) => (plan.size() / PATIENCE).max(WALK_MIN),
            None => usize::MAX,
        };
        let way = Way::Walk { patience, column };
        let mut lane = Self { plan: number, index, direction, rest: values, way };
        if let Some(column) = column.filter(|_| choice == Choice::Rank) {
            lane.rank(column, plan, source, exact);
        } else {
            plan.selector.list_members();
        }
        let head = lane.step()?;
        Some((lane, head))
    }

    /// The value of an ordinal.
    pub(super) fn value(&self, ordinal: u32) -> Value<'s> {
        self.index.value(ordinal)
    }

    /// Goes to the next value.
    pub(super) fn step(&mut self) -> Option<Head> {
        match &mut self.way {
            Way::Walk { .. } => {
                let ordinal = next_of(&mut self.rest, self.direction)?;
                Some(Head { ordinal, met: false })
            }
            Way::Ranked(ranked) => {
                let (ordinal, _) = *ranked.head(self.direction)?;
                Some(Head { ordinal, met: true })
            }
        }
    }

    /// Goes on from a value that is not known to be met until one is, for a while.
    pub(super) fn seek(
        &mut self,
        from: u32,
        plan: &PartPlan<'s>,
        source: &Source<'_>,
        exact: &mut bool,
    ) -> Option<Head> {
        let Way::Walk { patience, column } = &mut self.way else { return self.step() };
        if let Some(column) = column.filter(|_| *patience == 0) {
            match self.direction {
                Direction::Ascending => self.rest.start = from,
                Direction::Descending => self.rest.end = from + 1,
            }
            source.prepared.habit.gave_up();
            self.rank(column, plan, source, exact);
            return self.step();
        }
        let (mut ordinal, mut tested) = (from, 0);
        while tested < STRIDE {
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
    pub(super) fn take(
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
            Way::Ranked(ranked) => {
                while let Some((_, local)) = ranked.sorted.pop_if(|(value, _)| *value == ordinal) {
                    visit(local);
                }
            }
        }
    }

    /// Turns to ranking what is left.
    fn rank(
        &mut self,
        column: Column<'s>,
        plan: &PartPlan<'s>,
        source: &Source<'_>,
        exact: &mut bool,
    ) {
        let Selection { locals, exact: selected } = plan.selector.select(&plan.runs);
        *exact &= selected;
        let place = |local: u32| {
            let ordinal = column.ordinal(local).filter(|ordinal| self.rest.contains(ordinal))?;
            source.is_alive_at(plan.part, local).then_some((ordinal, local))
        };
        let later = locals.into_iter().filter_map(place).collect();
        self.way = Way::Ranked(Ranked { sorted: Vec::new(), later, batch: BATCH_MIN });
    }
}

impl Ranked {
    /// The next document.
    fn head(&mut self, direction: Direction) -> Option<&(u32, u32)> {
        if self.sorted.is_empty() {
            self.sort_some(direction);
        }
        self.sorted.last()
    }

    /// Puts the next few in order.
    fn sort_some(&mut self, direction: Direction) {
        let first = self.later.len().saturating_sub(self.batch);
        // The next ones to the end, where they are split off.
        if first > 0 {
            match direction {
                Direction::Ascending => {
                    self.later.select_nth_unstable_by(first, |left, right| right.cmp(left));
                }
                Direction::Descending => {
                    self.later.select_nth_unstable(first);
                }
            }
        }
        self.sorted = self.later.split_off(first);
        match direction {
            Direction::Ascending => self.sorted.sort_unstable_by(|left, right| right.cmp(left)),
            Direction::Descending => self.sorted.sort_unstable(),
        }
        self.batch = self.batch.saturating_mul(4);
    }
}

fn next_of(rest: &mut Range<u32>, direction: Direction) -> Option<u32> {
    match direction {
        Direction::Ascending => rest.next(),
        Direction::Descending => rest.next_back(),
    }
}

#[inline]
fn may_match(plan: &PartPlan<'_>, source: &Source<'_>, local: u32) -> bool {
    plan.selector.may_match(local)
        && !plan.part.is_dead(local)
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
            mut places in proptest::collection::vec((0u32..200, 0u32..10_000), 0..2000),
            descending: bool,
        ) {
            let direction =
                if descending { Direction::Descending } else { Direction::Ascending };
            let mut ranked = Ranked { sorted: Vec::new(), later: places.clone(), batch: 3 };
            let mut seen = Vec::new();
            while let Some(place) = ranked.head(direction).copied() {
                seen.push(place);
                ranked.sorted.pop();
            }
            places.sort_unstable();
            if descending {
                places.reverse();
            }
            prop_assert_eq!(seen, places);
        }
    }
}
