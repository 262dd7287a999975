//! Items that a condition names by their ids.

use crate::query::find::points::Point;
use crate::query::read::items::{Certainty, Found, Source};
use crate::query::token::Place;
use crate::ranges::EpkSpan;
use armilla_index::DocumentRef;
use armilla_model::error::Result;

use crate::query::view::Target;

impl Source<'_> {
    /// The named items behind a place, in the order of (effective key, ordinal).
    pub(in crate::query) fn documents_at<'s>(
        &'s self,
        points: &'s [Point],
        after: Option<&Place>,
    ) -> Result<Vec<Found<'s>>> {
        let find = |point: &'s Point| self.point(point).transpose();
        let mut found: Vec<Found<'s>> = points.iter().filter_map(find).collect::<Result<_>>()?;
        found.retain(|found| {
            self.is_alive(&found.document) && after.is_none_or(|place| *place < found.place())
        });
        found.sort_by(|left, right| {
            let key = |found: &Found<'s>| (found.document.epk, found.document.docno);
            key(left).cmp(&key(right))
        });
        Ok(found)
    }

    /// The item with an id, if it is there and in scope.
    fn point<'s>(&'s self, point: &'s Point) -> Result<Option<Found<'s>>> {
        let contains = |target: &Target| target.partition.range.contains(&point.epk);
        let Some(number) = self.targets.iter().position(contains) else { return Ok(None) };
        let target = &self.targets[number];
        let inside = |span: &EpkSpan| {
            span.min <= point.epk && span.max.as_ref().is_none_or(|max| point.epk < *max)
        };
        if !target.spans.iter().any(inside) {
            return Ok(None);
        }
        let slot = self.container.locate(target.snapshot(), &point.epk, &point.id)?;
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
