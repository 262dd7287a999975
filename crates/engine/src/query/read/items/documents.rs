//! The documents of a source, one after the other.

use crate::listing::index_range;
use crate::query::exec::workers;
use crate::query::plan::costs::{LIST_MAX, LIST_SHARE, RANGES_TRIED_TOGETHER, SCAN_MAX};
use crate::query::read::items::merge::{Merge, by_number};
use crate::query::read::items::{Certainty, Found, PartPlan, Source};
use crate::query::token::Place;
use crate::query::view::Target;
use crate::ranges::EpkSpan;
use armilla_index::Direction;
use armilla_model::error::Result;
use std::borrow::Cow;

impl Source<'_> {
    /// The documents behind a place that may match, in the order of (effective key, ordinal).
    pub(in crate::query) fn documents(
        &self,
        after: Option<&Place>,
    ) -> Box<dyn Iterator<Item = Result<Found<'_>>> + '_> {
        if let Some(points) = &self.points {
            return match self.documents_at(points, after) {
                Ok(found) => Box::new(found.into_iter().map(Ok)),
                Err(error) => Box::new(std::iter::once(Err(error))),
            };
        }
        let after = after.cloned();
        Box::new(
            self.visited()
                .flat_map(move |(number, target)| {
                    let max = target.partition.range.max.as_ref();
                    let passed = |place: &Place| max.is_some_and(|max| *max <= place.epk);
                    match &after {
                        Some(place) if passed(place) => Box::new(std::iter::empty()),
                        after => self.documents_of(number, target, after.as_ref()),
                    }
                })
                .map(Ok),
        )
    }

    /// Where the range of the next document ends, if another range comes behind it: a place before
    /// that range's first document.
    pub(in crate::query) fn end_of_range(&self, after: Option<&Place>) -> Option<Place> {
        let passed = |target: &&Target| {
            let max = target.partition.range.max.as_ref();
            after.is_some_and(|place| max.is_some_and(|max| *max <= place.epk))
        };
        let next = self.targets.iter().skip_while(passed).nth(1)?;
        Some(Place { epk: next.partition.range.min.clone(), docno: 0 })
    }

    /// Every live document in scope, whatever the condition.
    pub(in crate::query) fn everything(&self) -> impl Iterator<Item = Found<'_>> {
        let all = self.visited().flat_map(|(number, target)| self.scan(number, target, None));
        all.filter(|found| self.sees(found))
    }

    fn documents_of<'s>(
        &'s self,
        number: usize,
        target: &'s Target,
        after: Option<&Place>,
    ) -> Box<dyn Iterator<Item = Found<'s>> + 's> {
        let seen = |found: &Found<'s>| self.sees(found);
        // A page that comes to a second range may well come to more.
        let nth = number - self.visited.start;
        if nth % RANGES_TRIED_TOGETHER == 1 {
            workers::try_values(self, number..number.saturating_add(RANGES_TRIED_TOGETHER));
        }
        if !self.condition.is_useful() || target.scope() <= self.threshold(SCAN_MAX) {
            self.neighbours.lock().expect(target.scope(), target.scope());
            return Box::new(self.scan(number, target, after).filter(seen));
        }
        let parts = self.parts(target, after);
        let size: usize = parts.iter().map(PartPlan::size).sum();
        let scope: usize = parts.iter().map(PartPlan::scope).sum();
        if !self.is_plain() || (size > LIST_MAX && size > scope / LIST_SHARE) {
            let exact = self.is_plain() && parts.iter().all(|plan| plan.selector.may_be_exact());
            let selectors = by_number(parts, target.published.view.parts().len());
            let may_match = move |found: &Found<'s>| match found.at {
                Some((part, local)) if self.laid_over(found).is_none() => {
                    selectors[part].as_ref().is_none_or(|selector| selector.may_match(local))
                }
                _ => true,
            };
            let certainty = if exact { Certainty::Matches } else { Certainty::Open };
            self.neighbours.lock().expect(size as u64, scope as u64);
            let found = self.scan(number, target, after).filter(may_match).filter(seen);
            return Box::new(found.map(move |found| Found { certainty, ..found }));
        }
        let merge = Merge::new(number, &parts);
        self.neighbours.lock().expect(merge.len() as u64, scope as u64);
        Box::new(merge.filter(seen))
    }

    /// Every document of a target in order.
    fn scan<'s>(
        &'s self,
        number: usize,
        target: &'s Target,
        after: Option<&Place>,
    ) -> impl Iterator<Item = Found<'s>> + 's {
        let after = after.cloned();
        let within_piece = |span: &'s EpkSpan| match &self.piece {
            None => Some(Cow::Borrowed(span)),
            Some(piece) => span.overlap(piece).map(Cow::Owned),
        };
        target.spans.iter().filter_map(within_piece).flat_map(move |span| {
            let passed = |place: &Place| span.max.as_ref().is_some_and(|max| *max <= place.epk);
            let open = !after.as_ref().is_some_and(passed);
            let start = after.as_ref().map(|place| (place.epk.as_bytes(), place.docno));
            let view = &target.published.view;
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
