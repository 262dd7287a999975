//! Documents in the order of an index: ORDER BY without sorting everything.
//!
//! A range's documents come in groups of equal value. Each part of the range is a [`Lane`] that
//! gives its documents in order of value, those only that may match; the lanes are merged by value.
//! Inside a group documents go by ordinal, unless the index holds the group's value only in part
//! (long strings, arrays, objects): then the items decide.

use crate::query::exec::ordered_scan::part_scan::{Asked, Choice, Head, Lane};
use crate::query::find::{Selection, known_value};
use crate::query::plan::costs::RANK_MAX;
use crate::query::plan::order_index::OrderIndex;
use crate::query::prepare::feedback::Habit;
use crate::query::read::columns::PathColumn;
use crate::query::read::items::{PartPlan, Source};
use crate::query::view::Target;
use armilla_index::{Direction, Part, ValueRange};
use armilla_model::ordered::tag;
use armilla_model::value::{Type, Value};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::Bound;

/// Documents with one value, in the order of their ordinals.
pub(in crate::query) struct Group<'s> {
    /// The value; nothing for undefined.
    pub(in crate::query) value: Option<&'s [u8]>,
    /// Only the items know the order inside.
    pub(in crate::query) ambiguous: bool,
    members: BinaryHeap<(OrdinalKey, usize, u32)>,
}

/// An ordinal that pops in the order of the walk.
type OrdinalKey = Result<u64, Reverse<u64>>;

impl Group<'_> {
    fn new(value: Option<&[u8]>, ambiguous: bool) -> Group<'_> {
        Group { value, ambiguous, members: BinaryHeap::new() }
    }

    /// Adds a document, unless it was handed out before.
    fn add(&mut self, plan: &PartPlan<'_>, local: u32, descending: bool, passed: &Passed<'_>) {
        let docno = plan.part.docno(local);
        let value = self.value.filter(|_| !self.ambiguous);
        let known = self.value.is_none() || value.is_some();
        if known && passed(value, plan.part, local) {
            return;
        }
        let key = if descending { Ok(docno) } else { Err(Reverse(docno)) };
        self.members.push((key, plan.number, local));
    }

    /// The next document: part and local number.
    pub(in crate::query) fn pop(&mut self) -> Option<(usize, u32)> {
        self.members.pop().map(|(_, part, local)| (part, local))
    }
}

/// Says of a document whether it was handed out before: by value, part and local number.
pub(in crate::query) type Passed<'p> = dyn Fn(Option<&[u8]>, &Part, u32) -> bool + Sync + 'p;

/// The groups of one target.
pub(in crate::query) struct Groups<'s> {
    index: &'s OrderIndex,
    source: &'s Source<'s>,
    plans: Vec<PartPlan<'s>>,
    lanes: Vec<Lane<'s>>,
    /// Where the lanes stand, the first one on top.
    heads: BinaryHeap<LaneHead<'s>>,
    undefined_done: bool,
    exact: bool,
}

/// Where a lane stands, by value.
struct LaneHead<'s> {
    value: armilla_index::Value<'s>,
    head: Head,
    lane: usize,
    direction: Direction,
}

impl<'s> Groups<'s> {
    /// The groups of a target with values in a range. About so many documents are wanted.
    pub(in crate::query) fn new(
        source: &'s Source<'s>,
        index: &'s OrderIndex,
        target: &'s Target,
        range: &ValueRange,
        wanted: u64,
    ) -> Self {
        let mut plans = source.parts(target, None);
        let mut exact = plans.iter().all(|plan| plan.selector.may_be_exact());
        let direction = index.direction;
        let choice = choose(&plans, index.documents(target), wanted, &source.prepared.habit);
        let (mut lanes, mut heads) = (Vec::new(), BinaryHeap::new());
        for (number, plan) in plans.iter_mut().enumerate() {
            // A part that does not know the path has nothing in order.
            let of_path = index.path.and_then(|path| Some((path, plan.part.path(path)?)));
            let Some((path, of_path)) = of_path else { continue };
            let values = of_path.ordinals(range);
            let asked = Asked { path, direction, choice, wanted };
            let begun = Lane::begin(number, plan, source, of_path, values, asked, &mut exact);
            if let Some((lane, head)) = begun {
                let value = lane.value(head.ordinal);
                heads.push(LaneHead { value, head, lane: lanes.len(), direction });
                lanes.push(lane);
            }
        }
        let undefined_done = !index.keeps_undefined || begins_behind_undefined(index, range);
        Self { index, source, plans, lanes, heads, undefined_done, exact }
    }

    /// True when documents that come out surely match.
    pub(in crate::query) fn is_exact(&self) -> bool {
        self.exact
    }

    /// The value of a group of a single path, if the index knows it.
    pub(in crate::query) fn known_value(&self, group: &Group<'_>) -> Option<Value> {
        match group.value {
            _ if self.index.members.is_some() => None,
            None => Some(Value::Undefined),
            Some(bytes) => known_value(armilla_index::Value { bytes, cut: false }),
        }
    }

    /// The next documents of one value that may match. `passed` leaves documents out before they
    /// are looked at.
    pub(in crate::query) fn next_group(&mut self, passed: &Passed<'_>) -> Option<Group<'s>> {
        let ascending = self.index.direction == Direction::Ascending;
        if ascending && !self.undefined_done {
            self.undefined_done = true;
            return Some(self.undefined(passed));
        }
        match self.defined(passed) {
            Some(group) => Some(group),
            None if !self.undefined_done => {
                self.undefined_done = true;
                Some(self.undefined(passed))
            }
            None => None,
        }
    }

    fn defined(&mut self, passed: &Passed<'_>) -> Option<Group<'s>> {
        let (first, cut) = self.peek()?;
        let (length, ambiguous) = self.index.group_of(armilla_index::Value { bytes: first, cut });
        let mut group = Group::new(Some(first), ambiguous);
        while let Some((bytes, _)) = self.peek()
            && bytes.get(..length) == first.get(..length)
            && (length < first.len() || bytes.len() == first.len())
        {
            self.take(&mut group, passed);
        }
        Some(group)
    }

    /// The first value that is met.
    fn peek(&mut self) -> Option<(&'s [u8], bool)> {
        loop {
            let top = self.heads.peek_mut()?;
            if top.head.met {
                return Some((top.value.bytes, top.value.cut));
            }
            let lane = &mut self.lanes[top.lane];
            let plan = &self.plans[lane.plan];
            let head = lane.seek(top.head.ordinal, plan, self.source, &mut self.exact);
            LaneHead::go_to(top, head, lane);
        }
    }

    /// Takes the documents of the first value.
    fn take(&mut self, group: &mut Group<'s>, passed: &Passed<'_>) {
        let Some(top) = self.heads.peek_mut() else { return };
        let lane = &mut self.lanes[top.lane];
        let plan = &self.plans[lane.plan];
        let descending = self.index.descending;
        lane.take(top.head.ordinal, plan, self.source, |local| {
            group.add(plan, local, descending, passed);
        });
        let head = lane.step(plan, self.source, &mut self.exact);
        LaneHead::go_to(top, head, lane);
    }

    /// The documents that have no value at the path.
    fn undefined(&mut self, passed: &Passed<'_>) -> Group<'s> {
        let mut group = Group::new(None, false);
        let mut all_exact = self.exact;
        for plan in &self.plans {
            let of_path = self.index.path.and_then(|path| plan.part.path(path));
            if of_path.is_some_and(|of_path| of_path.documents_with() == plan.part.len()) {
                continue;
            }
            let Some(column) = PathColumn::new(self.index.path, plan.part) else { continue };
            let Selection { locals, exact } = plan.selector.select(&plan.runs);
            all_exact &= exact;
            for local in locals {
                if column.ordinal(local).is_none() && self.source.is_alive_at(plan.part, local) {
                    group.add(plan, local, self.index.descending, passed);
                }
            }
        }
        self.exact = all_exact;
        group
    }
}

/// True when a page goes on behind documents without a value, which stand first in ascending order.
fn begins_behind_undefined(index: &OrderIndex, range: &ValueRange) -> bool {
    let behind = |start: &[u8]| start.first().is_some_and(|kind| *kind > tag(Type::Undefined));
    index.direction == Direction::Ascending
        && match &range.start {
            Bound::Included(start) | Bound::Excluded(start) => behind(start),
            Bound::Unbounded => false,
        }
}

/// Whether lanes should rank: when walking is expected to test more documents than there are
/// candidates, or did so the last time.
fn choose(plans: &[PartPlan<'_>], documents: u64, wanted: u64, habit: &Habit) -> Choice {
    let candidates: u64 = plans.iter().map(|plan| plan.size() as u64).sum();
    let tested = wanted.saturating_mul(documents) / candidates.max(1);
    match candidates {
        RANK_MAX.. => Choice::Walk,
        few if tested > few || habit.ranks() => Choice::Rank,
        _ => Choice::WalkFirst,
    }
}

impl<'s> LaneHead<'s> {
    /// Puts a lane where it stands now, or takes it out.
    fn go_to(mut this: PeekMut<'_, Self>, head: Option<Head>, lane: &Lane<'s>) {
        match head {
            Some(head) => {
                this.value = lane.value(head.ordinal);
                this.head = head;
            }
            None => drop(PeekMut::pop(this)),
        }
    }
}

/// The heap gives the greatest first, so ascending order compares the other way round.
impl Ord for LaneHead<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_value = match self.direction {
            Direction::Ascending => other.value.cmp(&self.value),
            Direction::Descending => self.value.cmp(&other.value),
        };
        by_value.then_with(|| other.lane.cmp(&self.lane))
    }
}

impl PartialOrd for LaneHead<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for LaneHead<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for LaneHead<'_> {}
