//! Candidates of several parts, merged into the order of (effective key, ordinal).

use crate::query::find::Selection;
use crate::query::plan::PartPlan;
use crate::query::read::{Certainty, Found};
use armilla_index::Part;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Candidates of one part.
struct List<'s> {
    number: usize,
    part: &'s Part,
    locals: std::vec::IntoIter<u32>,
    certainty: Certainty<'s>,
}

/// A list's next document: effective key, ordinal, list, local number.
type Next<'s> = (&'s [u8], u64, usize, u32);

/// Candidates of several parts in one order.
pub(super) struct Merge<'s> {
    target: usize,
    lists: Vec<List<'s>>,
    heap: BinaryHeap<Reverse<Next<'s>>>,
}

impl<'s> Merge<'s> {
    pub(super) fn new(target: usize, parts: impl Iterator<Item = PartPlan<'s>>) -> Self {
        let list = |plan: PartPlan<'s>| {
            let Selection { locals, exact } = plan.select();
            let certainty = if exact { Certainty::Matches } else { Certainty::Open };
            List { number: plan.number, part: plan.part, locals: locals.into_iter(), certainty }
        };
        let mut merge = Self { target, lists: parts.map(list).collect(), heap: BinaryHeap::new() };
        (0..merge.lists.len()).for_each(|list| merge.advance(list));
        merge
    }

    /// How many candidates there are.
    pub(super) fn len(&self) -> usize {
        self.heap.len() + self.lists.iter().map(|list| list.locals.len()).sum::<usize>()
    }

    fn advance(&mut self, list: usize) {
        let List { part, locals, .. } = &mut self.lists[list];
        if let Some(local) = locals.next() {
            let document = part.document(local);
            self.heap.push(Reverse((document.epk, document.docno, list, local)));
        }
    }
}

impl<'s> Iterator for Merge<'s> {
    type Item = Found<'s>;

    fn next(&mut self) -> Option<Found<'s>> {
        let Reverse((_, _, list, local)) = self.heap.pop()?;
        self.advance(list);
        let List { number, part, certainty, .. } = self.lists[list];
        let document = part.document(local);
        let at = Some((number, local));
        Some(Found { target: self.target, at, document, record: None, certainty })
    }
}
