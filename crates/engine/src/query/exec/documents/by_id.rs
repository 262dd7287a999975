//! Point reads: items that a condition names by their ids.

use crate::query::find::points::Point;
use crate::query::read::{Certainty, Found, Items};
use crate::query::view::RangeView;
use crate::ranges::EpkSpan;
use armilla_index::DocumentRef;
use armilla_model::error::Result;

impl Items<'_> {
    /// The named items from where the plan starts, in the order of (effective key, ordinal).
    pub(super) fn documents_at<'s>(&'s self, points: &'s [Point]) -> Result<Vec<Found<'s>>> {
        let start = self.plan.start.as_ref();
        let find = |point: &'s Point| self.point(point).transpose();
        let mut found: Vec<Found<'s>> = points.iter().filter_map(find).collect::<Result<_>>()?;
        found.retain(|found| {
            self.plan.view.is_alive(&found.document)
                && start.is_none_or(|place| *place < found.place())
        });
        found.sort_by(|left, right| {
            let key = |found: &Found<'s>| (found.document.epk, found.document.docno);
            key(left).cmp(&key(right))
        });
        Ok(found)
    }

    /// The item with an id, if it is there and in scope.
    fn point<'s>(&'s self, point: &'s Point) -> Result<Option<Found<'s>>> {
        let contains = |range: &RangeView| range.partition.range.contains(&point.epk);
        let ranges = &self.plan.view.ranges;
        let Some(number) = ranges.iter().position(contains) else { return Ok(None) };
        let range = &ranges[number];
        let inside = |span: &EpkSpan| {
            span.min <= point.epk && span.max.as_ref().is_none_or(|max| point.epk < *max)
        };
        if !range.spans.iter().any(inside) {
            return Ok(None);
        }
        let slot = self.query.container.locate(range.snapshot(), &point.epk, &point.id)?;
        let Some(record) = slot.record else { return Ok(None) };
        let document = DocumentRef {
            epk: point.epk.as_bytes(),
            docno: record.docno(),
            lsn: record.lsn().0,
            hash: slot.key.hash,
            ts: record.ts(),
            ttl: record.ttl(),
            size: u32::try_from(record.size()).unwrap_or(u32::MAX),
        };
        let certainty = point.key.as_ref().map_or(Certainty::Open, Certainty::ByKey);
        Ok(Some(Found { target: number, at: None, document, record: Some(record), certainty }))
    }
}
