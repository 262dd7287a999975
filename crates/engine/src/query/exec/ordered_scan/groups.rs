//! Documents of a range in the order of an index: ORDER BY without sorting everything.
//!
//! A range's documents come in groups of equal value. Each part of the range has a [`PartScan`] that
//! gives its documents in order of value, those only that may match; the scans are merged by value.
//! Inside a group documents go by ordinal, unless the index holds the group's value only in part
//! (long strings, arrays, objects): then the items decide.

use super::part_scan::{PartScan, ScanContext, ScanPosition, ScanRequest};
use crate::query::counters::ScanModes;
use crate::query::find::{PathColumn, Selection, known_value};
use crate::query::plan::{OrderIndex, PartPlan, Plan};
use crate::query::read::Items;
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
    members: GroupMembers,
}

/// Documents by ordinal: part and local number.
type GroupMembers = BinaryHeap<(OrdinalKey, usize, u32)>;

/// An ordinal that pops in the order of the walk.
type OrdinalKey = Result<u64, Reverse<u64>>;

impl Group<'_> {
    /// Adds a document, unless it was handed out before.
    fn add(&mut self, part: &PartPlan<'_>, local: u32, descending: bool, passed: &Passed<'_>) {
        let docno = part.part.docno(local);
        let value = self.value.filter(|_| !self.ambiguous);
        let known = self.value.is_none() || value.is_some();
        if known && passed(value, part.part, local) {
            return;
        }
        let key = if descending { Ok(docno) } else { Err(Reverse(docno)) };
        self.members.push((key, part.number, local));
    }

    /// The next document: part and local number.
    pub(in crate::query) fn pop(&mut self) -> Option<(usize, u32)> {
        self.members.pop().map(|(_, part, local)| (part, local))
    }
}

/// Says of a document whether it was handed out before: by value, part and local number.
pub(in crate::query) type Passed<'p> = dyn Fn(Option<&[u8]>, &Part, u32) -> bool + Sync + 'p;

/// The groups of one range.
pub(in crate::query) struct Groups<'s> {
    index: &'s OrderIndex,
    plan: &'s Plan,
    range: usize,
    scans: Vec<PartScan<'s>>,
    /// Where the scans stand, the first one on top.
    heads: BinaryHeap<ScanHead<'s>>,
    undefined_done: bool,
    exact: bool,
    /// Room of a group that is done, for the next one.
    spare: GroupMembers,
}

/// Where a scan stands, by value.
struct ScanHead<'s> {
    value: armilla_index::Value<'s>,
    head: ScanPosition,
    scan: usize,
    direction: Direction,
}

impl<'s> Groups<'s> {
    /// The groups of a range with values in an interval. About so many documents are wanted.
    pub(in crate::query) fn new(
        items: &Items<'s>,
        index: &'s OrderIndex,
        range: usize,
        values: &ValueRange,
        wanted: u64,
    ) -> Self {
        let (plan, prepared) = (items.plan, &*items.query.prepared);
        let parts = plan.parts(range);
        let mut exact = parts.clone().all(|part| part.selector.may_be_exact());
        let (direction, feedback) = (index.direction, &*prepared.feedback);
        let documents = index.documents(&plan.view.ranges[range]);
        let policy = Plan::scan_policy(parts.clone(), documents, wanted, feedback);
        let orders = &items.query.container.core.orders;
        let context = ScanContext { plan, feedback, orders };
        let (mut scans, mut heads) = (Vec::new(), BinaryHeap::new());
        for part in parts {
            // A part that does not know the path has nothing in order.
            let of_path = index.path.and_then(|path| Some((path, part.part.path(path)?)));
            let Some((path, of_path)) = of_path else { continue };
            let ordinals = of_path.ordinals(values);
            let request = ScanRequest { path, direction, policy, wanted };
            let begun = PartScan::begin(part, context, of_path, ordinals, request, &mut exact);
            if let Some((scan, head)) = begun {
                let value = scan.value(head.ordinal);
                heads.push(ScanHead { value, head, scan: scans.len(), direction });
                scans.push(scan);
            }
        }
        let undefined_done = !index.keeps_undefined || begins_behind_undefined(index, values);
        let spare = GroupMembers::new();
        Self { index, plan, range, scans, heads, undefined_done, exact, spare }
    }

    /// Counts the scans by their modes.
    pub(in crate::query) fn count_into(&self, modes: &mut ScanModes) {
        self.scans.iter().for_each(|scan| scan.count_into(modes));
    }

    /// True when documents that come out surely match.
    pub(in crate::query) fn is_exact(&self) -> bool {
        self.exact
    }

    /// Takes back the room of a group that is done.
    pub(in crate::query) fn recycle(&mut self, group: Option<Group<'_>>) {
        if let Some(mut group) = group {
            group.members.clear();
            self.spare = group.members;
        }
    }

    fn group(&mut self, value: Option<&'s [u8]>, ambiguous: bool) -> Group<'s> {
        Group { value, ambiguous, members: std::mem::take(&mut self.spare) }
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
        let mut group = self.group(Some(first), ambiguous);
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
            let scan = &mut self.scans[top.scan];
            let head = scan.seek(top.head.ordinal, &mut self.exact);
            ScanHead::go_to(top, head, scan);
        }
    }

    /// Takes the documents of the first value.
    fn take(&mut self, group: &mut Group<'s>, passed: &Passed<'_>) {
        let Some(top) = self.heads.peek_mut() else { return };
        let scan = &mut self.scans[top.scan];
        let (part, descending) = (scan.part, self.index.descending);
        scan.take(top.head.ordinal, |local| group.add(&part, local, descending, passed));
        let head = scan.step(&mut self.exact);
        ScanHead::go_to(top, head, scan);
    }

    /// The documents that have no value at the path.
    fn undefined(&mut self, passed: &Passed<'_>) -> Group<'s> {
        let mut group = self.group(None, false);
        let mut all_exact = self.exact;
        for part in self.plan.parts(self.range) {
            let of_path = self.index.path.and_then(|path| part.part.path(path));
            if of_path.is_some_and(|of_path| of_path.documents_with() == part.part.len()) {
                continue;
            }
            let Some(column) = PathColumn::new(self.index.path, part.part) else { continue };
            let Selection { locals, exact } = part.select();
            all_exact &= exact;
            for local in locals {
                if column.ordinal(local).is_none() && self.plan.view.is_alive_at(part.part, local) {
                    group.add(&part, local, self.index.descending, passed);
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

impl<'s> ScanHead<'s> {
    /// Puts a scan where it stands now, or takes it out.
    fn go_to(mut this: PeekMut<'_, Self>, head: Option<ScanPosition>, scan: &PartScan<'s>) {
        match head {
            Some(head) => {
                this.value = scan.value(head.ordinal);
                this.head = head;
            }
            None => drop(PeekMut::pop(this)),
        }
    }
}

/// The heap gives the greatest first, so ascending order compares the other way round.
impl Ord for ScanHead<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_value = match self.direction {
            Direction::Ascending => other.value.cmp(&self.value),
            Direction::Descending => self.value.cmp(&other.value),
        };
        by_value.then_with(|| other.scan.cmp(&self.scan))
    }
}

impl PartialOrd for ScanHead<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ScanHead<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for ScanHead<'_> {}
