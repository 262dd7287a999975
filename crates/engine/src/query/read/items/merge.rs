//! Documents of several parts in one order.

use crate::listing::index_range;
use crate::query::find::{Runs, Selection, Selector};
use crate::query::read::items::{Certainty, Found, PartPlan};
use crate::query::token::Place;
use crate::ranges::EpkSpan;
use armilla_index::{EpkRange, Part};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::{Bound, Range};

/// The documents of spans, as runs of local numbers.
pub(in crate::query) fn runs(part: &Part, spans: &[EpkSpan]) -> Runs {
    let mut runs: Runs = Vec::with_capacity(spans.len().min(16));
    for span in spans {
        let run = part.locals_of(&index_range(span));
        if run.start < run.end {
            match runs.last_mut() {
                Some(last) if last.end == run.start => last.end = run.end,
                _ => runs.push(run),
            }
        }
    }
    runs
}

/// What lies behind a place.
pub(in crate::query) fn behind(part: &Part, runs: &Runs, place: &Place) -> Runs {
    let first = first_behind(part, place);
    let rest = runs.iter().map(|run| run.start.max(first)..run.end);
    rest.filter(|run| run.start < run.end).collect()
}

fn first_behind(part: &Part, place: &Place) -> u32 {
    let epk = place.epk.as_bytes().to_vec();
    let own: Range<u32> = part.locals_of(&EpkRange::exact(epk.clone()));
    if own.is_empty() {
        return part.locals_of(&EpkRange::new(Bound::Excluded(epk), Bound::Unbounded)).start;
    }
    let (mut low, mut high) = (own.start, own.end);
    while low < high {
        let middle = low + (high - low) / 2;
        if part.docno(middle) <= place.docno {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

pub(in crate::query) fn by_number(
    parts: Vec<PartPlan<'_>>,
    count: usize,
) -> Vec<Option<Selector<'_>>> {
    let mut selectors: Vec<Option<Selector<'_>>> = (0..count).map(|_| None).collect();
    for mut plan in parts {
        plan.selector.list_members();
        selectors[plan.number] = Some(plan.selector);
    }
    selectors
}

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
pub(in crate::query) struct Merge<'s> {
    target: usize,
    lists: Vec<List<'s>>,
    heap: BinaryHeap<Reverse<Next<'s>>>,
}

impl<'s> Merge<'s> {
    pub(in crate::query) fn new(target: usize, parts: &[PartPlan<'s>]) -> Self {
        let list = |plan: &PartPlan<'s>| {
            let Selection { locals, exact } = plan.selector.select(&plan.runs);
            let certainty = if exact { Certainty::Matches } else { Certainty::Open };
            List { number: plan.number, part: plan.part, locals: locals.into_iter(), certainty }
        };
        let mut merge =
            Self { target, lists: parts.iter().map(list).collect(), heap: BinaryHeap::new() };
        (0..merge.lists.len()).for_each(|list| merge.advance(list));
        merge
    }

    /// How many candidates there are.
    pub(in crate::query) fn len(&self) -> usize {
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
