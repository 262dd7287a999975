//! Candidates of several parts, merged into the order of (effective key, ordinal).

use crate::query::find::Selection;
use crate::query::plan::PartPlan;
use crate::query::read::{Certainty, Found};
use armilla_index::{DocumentRef, Part};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::Range;

/// Candidates of one part.
struct List<'s> {
    number: usize,
    part: &'s Part,
    locals: std::vec::IntoIter<u32>,
    certainty: Certainty<'s>,
    /// The effective key of the last document, and the local numbers that have the same.
    run: (&'s [u8], Range<u32>),
}

impl<'s> List<'s> {
    /// The next document; the list is this one of several.
    fn next(&mut self, list: usize) -> Option<MergeHead<'s>> {
        let local = self.locals.next()?;
        if !self.run.1.contains(&local) {
            self.run = self.part.epk_run(local);
        }
        Some(MergeHead { document: self.part.document_with(local, self.run.0), list, local })
    }
}

/// A list's next document. The largest, which a heap gives first, is the one that comes first.
struct MergeHead<'s> {
    document: DocumentRef<'s>,
    list: usize,
    local: u32,
}

impl MergeHead<'_> {
    fn place(&self) -> (&[u8], u64, usize) {
        (self.document.epk, self.document.docno, self.list)
    }
}

impl Ord for MergeHead<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.place().cmp(&self.place())
    }
}

impl PartialOrd for MergeHead<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for MergeHead<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.place() == other.place()
    }
}

impl Eq for MergeHead<'_> {}

/// Candidates of several parts in one order.
pub(super) struct Merge<'s> {
    target: usize,
    lists: Vec<List<'s>>,
    heap: BinaryHeap<MergeHead<'s>>,
}

impl<'s> Merge<'s> {
    pub(super) fn new(target: usize, parts: impl Iterator<Item = PartPlan<'s>>) -> Self {
        let list = |plan: PartPlan<'s>| {
            let Selection { locals, exact } = plan.select();
            let certainty = if exact { Certainty::Matches } else { Certainty::Open };
            let (number, part, run) = (plan.number, plan.part, (&[][..], 0..0));
            List { number, part, locals: locals.into_iter(), certainty, run }
        };
        let mut lists: Vec<_> = parts.map(list).collect();
        let heads = lists.iter_mut().enumerate().filter_map(|(number, list)| list.next(number));
        let heap = heads.collect();
        Self { target, lists, heap }
    }

    /// How many candidates there are.
    pub(super) fn len(&self) -> usize {
        self.heap.len() + self.lists.iter().map(|list| list.locals.len()).sum::<usize>()
    }
}

impl<'s> Iterator for Merge<'s> {
    type Item = Found<'s>;

    fn next(&mut self) -> Option<Found<'s>> {
        let mut first = self.heap.peek_mut()?;
        let MergeHead { document, list, local } = *first;
        let from = &mut self.lists[list];
        let (number, certainty) = (from.number, from.certainty);
        match from.next(list) {
            Some(next) => *first = next,
            None => drop(PeekMut::pop(first)),
        }
        let at = Some((number, local));
        Some(Found { target: self.target, at, document, record: None, certainty })
    }
}
