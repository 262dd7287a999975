//! Documents of a page, one after the other, as the plan says they are found.

mod by_id;
mod merge;

use crate::listing::index_range;
use crate::query::exec::workers;
use crate::query::find::Tester;
use crate::query::plan::costs::{PREFETCH_MAX, RANGES_TRIED_TOGETHER};
use crate::query::plan::{RangeAccess, sizes};
use crate::query::read::{Certainty, Found, Items};
use crate::query::token::Place;
use crate::query::view::RangeView;
use crate::ranges::EpkSpan;
use armilla_index::Direction;
use armilla_model::error::Result;
use merge::Merge;
use std::borrow::Cow;

impl Items<'_> {
    /// The documents that may match, in the order of (effective key, ordinal), from where the plan starts.
    pub(in crate::query) fn documents(&self) -> Box<dyn Iterator<Item = Result<Found<'_>>> + '_> {
        if let Some(points) = &self.plan.points {
            return match self.documents_at(points) {
                Ok(found) => Box::new(found.into_iter().map(Ok)),
                Err(error) => Box::new(std::iter::once(Err(error))),
            };
        }
        let start = self.plan.start.as_ref();
        let open = move |(_, range): &(usize, &RangeView)| {
            !start.is_some_and(|place| range.is_passed(place))
        };
        let ranges = self.visited().filter(open);
        Box::new(ranges.flat_map(|(number, range)| self.documents_of(number, range)).map(Ok))
    }

    /// Where the range of the next document ends, if another range comes behind it: a place before
    /// that range's first document.
    pub(in crate::query) fn end_of_range(&self, after: Option<&Place>) -> Option<Place> {
        let passed = |range: &&RangeView| after.is_some_and(|place| range.is_passed(place));
        let next = self.plan.view.ranges.iter().skip_while(passed).nth(1)?;
        Some(Place { epk: next.partition.range.min.clone(), docno: 0 })
    }

    /// Every live document in scope, whatever the condition.
    pub(in crate::query) fn everything(&self) -> impl Iterator<Item = Found<'_>> {
        let all = self.visited().flat_map(|(number, range)| self.scan(number, range, None));
        all.filter(|found| self.sees(found))
    }

    fn documents_of<'s>(
        &'s self,
        number: usize,
        range: &'s RangeView,
    ) -> Box<dyn Iterator<Item = Found<'s>> + 's> {
        let (plan, start) = (self.plan, self.plan.start.as_ref());
        let seen = |found: &Found<'s>| self.sees(found);
        // A page that comes to a second range may well come to more.
        let nth = number - self.visited.start;
        if nth % RANGES_TRIED_TOGETHER == 1 {
            workers::try_values(self, number..number.saturating_add(RANGES_TRIED_TOGETHER));
        }
        match plan.access_of(number) {
            RangeAccess::Scan => {
                self.expect(range.scope(), range.scope());
                let found = self.scan(number, range, start).filter(seen);
                match range.scope() <= PREFETCH_MAX && self.is_one_partition() {
                    true => Box::new(self.expect_these(found, range.scope(), number)),
                    false => Box::new(found),
                }
            }
            RangeAccess::List => {
                let (_, scope) = sizes(plan.parts(number));
                let merge = Merge::new(number, plan.parts(number));
                let wanted = merge.len() as u64;
                self.expect(wanted, scope as u64);
                match wanted <= PREFETCH_MAX && self.is_one_partition() {
                    true => Box::new(self.expect_these(merge.filter(seen), wanted, number)),
                    false => Box::new(merge.filter(seen)),
                }
            }
            RangeAccess::Test { exact } => {
                let (size, scope) = sizes(plan.parts(number));
                let mut testers: Vec<_> = range.parts().iter().map(|_| None).collect();
                for part in plan.parts(number) {
                    testers[part.number] = Some(Tester::new(part.selector, part.part));
                }
                let may_match = move |found: &Found<'s>| match found.at {
                    Some((part, local)) if self.overlaid(found).is_none() => {
                        testers[part].as_ref().is_none_or(|tester| tester.may_match(local))
                    }
                    _ => true,
                };
                let certainty = if exact { Certainty::Matches } else { Certainty::Open };
                self.expect(size as u64, scope as u64);
                let found = self.scan(number, range, start).filter(may_match).filter(seen);
                Box::new(found.map(move |found| Found { certainty, ..found }))
            }
        }
    }

    /// Every document of a range in order.
    fn scan<'s>(
        &'s self,
        number: usize,
        range: &'s RangeView,
        after: Option<&'s Place>,
    ) -> impl Iterator<Item = Found<'s>> + 's {
        let within_piece = |span: &'s EpkSpan| match &self.piece {
            None => Some(Cow::Borrowed(span)),
            Some(piece) => span.overlap(piece).map(Cow::Owned),
        };
        range.spans.iter().filter_map(within_piece).flat_map(move |span| {
            let passed = |place: &Place| span.max.as_ref().is_some_and(|max| *max <= place.epk);
            let open = !after.is_some_and(passed);
            let start = after.map(|place| (place.epk.as_bytes(), place.docno));
            let view = &range.published.view;
            let documents =
                open.then(|| view.documents(&index_range(&span), start, Direction::Ascending));
            documents.into_iter().flatten().map(move |located| Found {
                target: number,
                at: Some((located.part, located.local)),
                document: located.document,
                record: None,
                certainty: Certainty::Open,
            })
        })
    }
}
