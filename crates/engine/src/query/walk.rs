//! Documents in the order of an index: ORDER BY without sorting everything.
//!
//! A range's documents come in groups of equal value. Two ways lead there: the *walk* goes through
//! the path's values from one end and tests each document against the condition; the *heap* takes
//! the documents that the condition leaves and brings them in order by their columns. Inside a
//! group documents go by ordinal, unless the index holds the group's value only in part (long
//! strings, arrays, objects): then the items decide.

use super::access::{Selection, computed_number, known_value, path_number};
use super::reader::PathColumn;
use super::source::{PartPlan, Source, Target};
use crate::indexing::write_joined;
use armilla_index::{ByteRange, Direction, ValueRange};
use armilla_model::ordered::{CUT, is_cut, tag, term};
use armilla_model::policy::CompositePath;
use armilla_model::value::{Type, Value};
use armilla_sql::access::{OrderPath, PathStep, order_paths};
use armilla_sql::compiled::{Compiled, Order};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::iter::Peekable;
use std::ops::Bound;

/// The index that has the order of a query.
pub(super) struct OrderIndex {
    path: Option<u32>,
    direction: Direction,
    /// Which members of a composite are encoded descending; nothing for a single path.
    members: Option<Vec<bool>>,
    /// Documents without a value come too, as undefined.
    keeps_undefined: bool,
    /// The first key descends, and with it the ordinals of equal documents.
    descending: bool,
}

impl OrderIndex {
    /// The index for the order of a query, if there is one.
    pub(super) fn find(source: &Source<'_>, plan: &Compiled) -> Option<Self> {
        let Order::Keys { drop_undefined, .. } = &plan.order else { return None };
        let keys = order_paths(plan)?;
        if keys.len() > 1 && keys.iter().any(|key| key.computed) {
            return None;
        }
        if source.is_any_bare() {
            return None;
        }
        let policy = &source.index.policy;
        if let [key] = keys.as_slice() {
            let steps: Vec<_> = key.path.iter().cloned().map(PathStep::Name).collect();
            let number = if key.computed { computed_number } else { path_number };
            return Some(Self {
                path: number(&steps, source.container, policy)?,
                direction: direction(key.descending),
                members: None,
                keeps_undefined: !drop_undefined,
                descending: key.descending,
            });
        }
        let composites = policy.indexing.composites.iter().enumerate();
        let (number, opposite) =
            composites.filter_map(|(n, composite)| Some((n, matches(composite, &keys)?))).next()?;
        let members = policy.indexing.composites[number].iter().map(|member| member.descending);
        Some(Self {
            path: source.container.paths.find_composite(number),
            direction: direction(opposite),
            members: Some(members.collect()),
            keeps_undefined: false,
            descending: keys.first().is_some_and(|key| key.descending),
        })
    }

    /// The index of a single path.
    pub(super) fn of_path(path: Option<u32>, descending: bool) -> Self {
        let direction = direction(descending);
        Self { path, direction, members: None, keeps_undefined: false, descending }
    }

    /// How many documents of a target have a place in the order.
    pub(super) fn documents(&self, target: &Target) -> u64 {
        let Some(path) = self.path else { return 0 };
        let parts = target.published.view.parts().iter();
        parts
            .filter_map(|part| part.path(path))
            .map(|index| u64::from(index.documents_with()))
            .sum()
    }

    /// The values from a position on. A value that is not wholly known stands for all of its kind.
    pub(super) fn range_from(&self, values: &[Option<Value>]) -> ValueRange {
        let mut prefix = Vec::new();
        for (position, value) in values.iter().enumerate() {
            let Some(value) = value else { break };
            let bytes = term(value);
            let known =
                !is_cut(&bytes) && bytes.first().is_none_or(|first| *first < tag(Type::Array));
            match &self.members {
                None => prefix = bytes,
                Some(members) if known => {
                    write_joined(
                        &bytes,
                        members.get(position).copied().unwrap_or(false),
                        &mut prefix,
                    );
                }
                Some(_) => break,
            }
        }
        match self.direction {
            Direction::Ascending => ByteRange::at_least(prefix),
            Direction::Descending => {
                ByteRange::new(Bound::Unbounded, ByteRange::prefix(&prefix).end)
            }
        }
    }

    /// The encoding of a position whose values are all known; `Some(None)` is undefined.
    pub(super) fn position_bytes(&self, values: &[Option<Value>]) -> Option<Option<Vec<u8>>> {
        if values.is_empty() {
            return None;
        }
        let mut joined = Vec::new();
        for (position, value) in values.iter().enumerate() {
            let value = value.as_ref()?;
            match &self.members {
                None if value.is_undefined() => return Some(None),
                None => joined = term(value),
                Some(members) => {
                    let descending = members.get(position).copied().unwrap_or(false);
                    write_joined(&term(value), descending, &mut joined);
                }
            }
        }
        Some(Some(joined))
    }

    /// The bytes of a value that decide its group, and whether only the items have the order inside.
    fn group_of(&self, value: armilla_index::Value<'_>) -> (usize, bool) {
        let bytes = value.bytes;
        let Some(members) = &self.members else {
            let is_marker = bytes.first().is_some_and(|first| *first >= tag(Type::Array));
            return (bytes.len(), is_marker || is_cut(bytes));
        };
        let mut at = 0;
        for descending in members {
            let flip = |byte: u8| if *descending { !byte } else { byte };
            let first = bytes.get(at).map(|byte| flip(*byte));
            let start = at;
            loop {
                match (
                    bytes.get(at).map(|byte| flip(*byte)),
                    bytes.get(at + 1).map(|byte| flip(*byte)),
                ) {
                    (Some(0), Some(0)) => {
                        // An escaped zero is followed by FF, the end mark by another zero.
                        break;
                    }
                    (Some(0), Some(_)) => at += 2,
                    (Some(_), _) => at += 1,
                    (None, _) => return (bytes.len(), true),
                }
            }
            let last = bytes.get(at.wrapping_sub(1)).map(|byte| flip(*byte));
            at += 2;
            let is_marker = first.is_some_and(|first| first >= tag(Type::Array));
            let is_cut =
                first == Some(tag(Type::String)) && at - 2 > start + 1 && last == Some(CUT);
            if is_marker || is_cut {
                return (at, true);
            }
        }
        (bytes.len(), false)
    }
}

fn direction(descending: bool) -> Direction {
    if descending { Direction::Descending } else { Direction::Ascending }
}

/// Whether a composite serves the keys: `Some(true)` when it is read backwards.
fn matches(composite: &[CompositePath], keys: &[OrderPath]) -> Option<bool> {
    let same = composite.len() == keys.len()
        && composite.iter().zip(keys).all(|(member, key)| {
            member.path.0.len() == key.path.len()
                && member.path.0.iter().zip(&key.path).all(|(left, right)| **left == **right)
        });
    let opposite = composite.iter().zip(keys).filter(|(m, key)| m.descending != key.descending);
    match opposite.count() {
        _ if !same => None,
        0 => Some(false),
        count if count == keys.len() => Some(true),
        _ => None,
    }
}

/// Documents with one value, in the order of their ordinals.
pub(super) struct Group<'s> {
    /// The value; nothing for undefined.
    pub(super) value: Option<&'s [u8]>,
    /// Only the items know the order inside.
    pub(super) ambiguous: bool,
    members: BinaryHeap<(OrdinalKey, usize, u32)>,
}

/// An ordinal that pops in the order of the walk.
type OrdinalKey = Result<u64, Reverse<u64>>;

impl Group<'_> {
    fn new(value: Option<&[u8]>, ambiguous: bool) -> Group<'_> {
        Group { value, ambiguous, members: BinaryHeap::new() }
    }

    /// The next document: part and local number.
    pub(super) fn pop(&mut self) -> Option<(usize, u32)> {
        self.members.pop().map(|(_, part, local)| (part, local))
    }
}

/// Says of a document whether it was handed out before: by value, effective key and ordinal.
pub(super) type Passed<'p> = dyn Fn(Option<&[u8]>, &[u8], u64) -> bool + 'p;

/// The groups of one target.
pub(super) struct Groups<'s> {
    index: &'s OrderIndex,
    target: &'s Target,
    source: &'s Source<'s>,
    plans: Vec<Option<PartPlan<'s>>>,
    steps: Steps<'s>,
    undefined_done: bool,
    exact: bool,
}

enum Steps<'s> {
    Walk(Box<Peekable<armilla_index::ValuesInOrder<'s>>>),
    Ascending(BinaryHeap<Reverse<Candidate<'s>>>),
    Descending(BinaryHeap<Candidate<'s>>),
}

/// A value, whether it is cut, and the document that has it: part, local number.
type Candidate<'s> = (&'s [u8], bool, usize, u32);

impl<'s> Groups<'s> {
    /// Walks through the path's values.
    pub(super) fn walk(
        source: &'s Source<'s>,
        index: &'s OrderIndex,
        target: &'s Target,
        range: &ValueRange,
    ) -> Self {
        // A path that nobody has is walked in no time: no part knows it.
        let path = index.path.unwrap_or(u32::MAX);
        let steps = target.published.view.walk(path, range, index.direction).peekable();
        let mut groups = Self::new(source, index, target, Steps::Walk(Box::new(steps)));
        for plan in groups.plans.iter_mut().flatten() {
            plan.selector.list_members();
        }
        groups
    }

    /// Orders the documents that the condition leaves.
    pub(super) fn heap(
        source: &'s Source<'s>,
        index: &'s OrderIndex,
        target: &'s Target,
        range: &ValueRange,
    ) -> Option<Self> {
        let mut candidates = Vec::new();
        let parts = target.published.view.parts();
        let mut groups = Self::new(source, index, target, Steps::Ascending(BinaryHeap::new()));
        let mut all_exact = groups.exact;
        for plan in groups.plans.iter().flatten() {
            let part = &parts[plan.number];
            let column = PathColumn::new(index.path, part)?;
            let Selection { locals, exact } = plan.selector.select(&plan.runs);
            all_exact &= exact;
            for local in locals {
                if let Some(value) = column.ordinal(local).and_then(|ordinal| column.entry(ordinal))
                    && range.contains(value.bytes)
                    && source.is_alive_at(part, local)
                {
                    candidates.push((value.bytes, value.cut, plan.number, local));
                }
            }
        }
        groups.exact = all_exact;
        groups.steps = match index.direction {
            Direction::Ascending => {
                Steps::Ascending(candidates.into_iter().map(Reverse).collect::<Vec<_>>().into())
            }
            Direction::Descending => Steps::Descending(candidates.into()),
        };
        Some(groups)
    }

    fn new(
        source: &'s Source<'s>,
        index: &'s OrderIndex,
        target: &'s Target,
        steps: Steps<'s>,
    ) -> Self {
        let count = target.published.view.parts().len();
        let mut plans: Vec<Option<PartPlan<'s>>> = (0..count).map(|_| None).collect();
        for plan in source.parts(target, None) {
            let number = plan.number;
            plans[number] = Some(plan);
        }
        let exact = plans.iter().flatten().all(|plan| plan.selector.may_be_exact());
        let undefined_done = !index.keeps_undefined;
        Self { index, target, source, plans, steps, undefined_done, exact }
    }

    /// True when documents that come out surely match.
    pub(super) fn is_exact(&self) -> bool {
        self.exact
    }

    /// The value of a group of a single path, if the index knows it.
    pub(super) fn known_value(&self, group: &Group<'_>) -> Option<Value> {
        match group.value {
            _ if self.index.members.is_some() => None,
            None => Some(Value::Undefined),
            Some(bytes) => known_value(armilla_index::Value { bytes, cut: false }),
        }
    }

    /// The next documents of one value that may match. `passed` leaves documents out before they
    /// are looked at: it is given the value, the effective key and the ordinal.
    pub(super) fn next_group(&mut self, passed: &Passed<'_>) -> Option<Group<'s>> {
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

    fn peek(&mut self) -> Option<(&'s [u8], bool)> {
        match &mut self.steps {
            Steps::Walk(steps) => {
                steps.peek().map(|located| (located.step.value.bytes, located.step.value.cut))
            }
            Steps::Ascending(heap) => {
                heap.peek().map(|Reverse(candidate)| (candidate.0, candidate.1))
            }
            Steps::Descending(heap) => heap.peek().map(|candidate| (candidate.0, candidate.1)),
        }
    }

    fn take(&mut self, group: &mut Group<'s>, passed: &Passed<'_>) {
        let candidate = match &mut self.steps {
            Steps::Walk(steps) => {
                let Some(located) = steps.next() else { return };
                for local in located.step.locals {
                    let local = local.get();
                    if self.may_match(located.part, local) {
                        self.add(group, located.part, local, passed);
                    }
                }
                return;
            }
            Steps::Ascending(heap) => heap.pop().map(|Reverse(candidate)| candidate),
            Steps::Descending(heap) => heap.pop(),
        };
        if let Some((_, _, part, local)) = candidate {
            self.add(group, part, local, passed);
        }
    }

    fn may_match(&self, part: usize, local: u32) -> bool {
        let Some(Some(plan)) = self.plans.get(part) else { return false };
        !plan.part.is_dead(local)
            && plan.runs.iter().any(|run| run.contains(&local))
            && plan.selector.may_match(local)
            && self.source.is_alive_at(plan.part, local)
    }

    fn add(&self, group: &mut Group<'s>, part: usize, local: u32, passed: &Passed<'_>) {
        let document = self.target.published.view.parts()[part].document(local);
        let value = group.value.filter(|_| !group.ambiguous);
        if (group.value.is_none() || value.is_some()) && passed(value, document.epk, document.docno)
        {
            return;
        }
        let key =
            if self.index.descending { Ok(document.docno) } else { Err(Reverse(document.docno)) };
        group.members.push((key, part, local));
    }

    /// The documents that have no value at the path.
    fn undefined(&mut self, passed: &Passed<'_>) -> Group<'s> {
        let mut group = Group::new(None, false);
        let mut all_exact = self.exact;
        for plan in self.plans.iter().flatten() {
            let Some(column) = PathColumn::new(self.index.path, plan.part) else { continue };
            let Selection { locals, exact } = plan.selector.select(&plan.runs);
            all_exact &= exact;
            for local in locals {
                if column.ordinal(local).is_none() && self.source.is_alive_at(plan.part, local) {
                    self.add(&mut group, plan.number, local, passed);
                }
            }
        }
        self.exact = all_exact;
        group
    }
}
