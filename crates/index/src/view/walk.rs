//! Values of all parts in one order.

use std::{
    cmp::Ordering,
    collections::{BinaryHeap, binary_heap::PeekMut},
    ops::Range,
};

use super::LocatedStep;
use crate::{
    part::Part,
    path_index::{Direction, PathIndex},
    range::ValueRange,
    terms::Value,
};

/// The values of one path over all parts, in value order.
pub struct ValuesInOrder<'a> {
    direction: Direction,
    heap: BinaryHeap<NextValue<'a>>,
}

/// The next value of one part.
struct NextValue<'a> {
    value: Value<'a>,
    ordinal: u32,
    part: usize,
    direction: Direction,
    index: PathIndex<'a>,
    rest: Range<u32>,
}

impl<'a> ValuesInOrder<'a> {
    pub(super) fn new(
        parts: &'a [Part],
        path: u32,
        range: &ValueRange,
        direction: Direction,
    ) -> Self {
        let first = |(part, index): (usize, PathIndex<'a>)| {
            let mut rest = index.ordinals(range);
            let ordinal = step(&mut rest, direction)?;
            Some(NextValue { value: index.value(ordinal), ordinal, part, direction, index, rest })
        };
        let indexes = parts.iter().enumerate().filter_map(|(n, part)| Some((n, part.path(path)?)));
        Self { direction, heap: indexes.filter_map(first).collect() }
    }
}

fn step(rest: &mut Range<u32>, direction: Direction) -> Option<u32> {
    match direction {
        Direction::Ascending => rest.next(),
        Direction::Descending => rest.next_back(),
    }
}

impl<'a> Iterator for ValuesInOrder<'a> {
    type Item = LocatedStep<'a>;

    fn next(&mut self) -> Option<LocatedStep<'a>> {
        let mut top = self.heap.peek_mut()?;
        let found = LocatedStep { part: top.part, step: top.index.step(top.ordinal) };
        match step(&mut top.rest, self.direction) {
            Some(ordinal) => {
                top.ordinal = ordinal;
                top.value = top.index.value(ordinal);
            }
            None => {
                PeekMut::pop(top);
            }
        }
        Some(found)
    }
}

/// The heap gives the greatest first, so ascending order compares the other way round. Equal
/// values come with the oldest part first in both directions.
impl Ord for NextValue<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_value = match self.direction {
            Direction::Ascending => other.value.cmp(&self.value),
            Direction::Descending => self.value.cmp(&other.value),
        };
        by_value.then_with(|| other.part.cmp(&self.part))
    }
}

impl PartialOrd for NextValue<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for NextValue<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for NextValue<'_> {}
