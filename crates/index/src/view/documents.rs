//! Documents of all parts in one order.

use std::{
    cmp::Ordering,
    collections::{BinaryHeap, binary_heap::PeekMut},
    ops::Range,
};

use super::Located;
use crate::{document::DocumentRef, part::Part, path_index::Direction, range::EpkRange};

/// The live documents of a view in the order of (epk, docno), or against it.
pub struct DocumentsInOrder<'a> {
    parts: &'a [Part],
    direction: Direction,
    heap: BinaryHeap<Next<'a>>,
}

/// The next document of one part.
struct Next<'a> {
    located: Located<'a>,
    direction: Direction,
    /// The documents behind it.
    rest: Range<u32>,
    /// The ordinal of its epk and the local numbers with that epk: neighbours mostly share it.
    epk: (u32, Range<u32>),
}

impl<'a> DocumentsInOrder<'a> {
    pub(super) fn new(
        parts: &'a [Part],
        range: &EpkRange,
        after: Option<(&[u8], u64)>,
        direction: Direction,
    ) -> Self {
        let mut documents = Self { parts, direction, heap: BinaryHeap::new() };
        for (number, part) in parts.iter().enumerate() {
            let mut locals = part.locals_of(range);
            if let Some(after) = after {
                resume(part, &mut locals, after, direction);
            }
            documents.heap.extend(next_of(parts, direction, number, locals, (0, 0..0)));
        }
        documents
    }
}

/// The first live document of `rest`.
fn next_of(
    parts: &[Part],
    direction: Direction,
    number: usize,
    mut rest: Range<u32>,
    mut epk: (u32, Range<u32>),
) -> Option<Next<'_>> {
    let part = &parts[number];
    let local = loop {
        let local = match direction {
            Direction::Ascending => rest.next(),
            Direction::Descending => rest.next_back(),
        }?;
        if !part.is_dead(local) {
            break local;
        }
    };
    let table = part.data.documents();
    if !epk.1.contains(&local) {
        let ordinal = table.epk_ordinal(local);
        epk = (ordinal, table.locals_of_epk(ordinal));
    }
    let document = table.with_epk(local, table.epk(epk.0));
    let located = Located { part: number, local, document };
    Some(Next { located, direction, rest, epk })
}

/// Leaves out what lies at or before `after`.
fn resume(part: &Part, locals: &mut Range<u32>, after: (&[u8], u64), direction: Direction) {
    let (epk, docno) = after;
    let table = part.data.documents();
    match direction {
        Direction::Ascending => {
            let first = match docno.checked_add(1) {
                Some(next) => table.lower_bound(epk, next),
                None => {
                    table
                        .locals_of(&EpkRange::new(
                            std::ops::Bound::Excluded(epk.to_vec()),
                            std::ops::Bound::Unbounded,
                        ))
                        .start
                }
            };
            locals.start = locals.start.max(first);
        }
        Direction::Descending => {
            locals.end = locals.end.min(table.lower_bound(epk, docno));
        }
    }
}

impl<'a> Iterator for DocumentsInOrder<'a> {
    type Item = Located<'a>;

    fn next(&mut self) -> Option<Located<'a>> {
        let mut top = self.heap.peek_mut()?;
        let located = top.located;
        let (rest, epk) = (top.rest.clone(), top.epk.clone());
        match next_of(self.parts, self.direction, located.part, rest, epk) {
            Some(next) => *top = next,
            None => drop(PeekMut::pop(top)),
        }
        Some(located)
    }
}

impl Next<'_> {
    fn key(&self) -> (&[u8], u64, usize) {
        let DocumentRef { epk, docno, .. } = self.located.document;
        (epk, docno, self.located.part)
    }
}

/// The heap gives the greatest first, so ascending order compares the other way round.
impl Ord for Next<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match self.direction {
            Direction::Ascending => other.key().cmp(&self.key()),
            Direction::Descending => self.key().cmp(&other.key()),
        }
    }
}

impl PartialOrd for Next<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Next<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Next<'_> {}
