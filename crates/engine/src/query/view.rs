//! View of a page: the ranges it addresses, each as of one moment, and who is there in them.
//!
//! An item is there for a query when it lives (its time to live has not passed) and when its writer did not
//! exclude it from the index by a directive: such items are seen by reads, lists and the change
//! feed, and by queries only that name them by id and partition key. Where a container has no index nothing is
//! excluded.

mod range;

pub(super) use range::RangeView;

use super::find::PathColumn;
use super::plan::costs::MEAN_SIZE_ITEMS_MAX;
use crate::container::{Container, Settings};
use crate::generation::IndexDefinition;
use crate::indexing::ROOT;
use crate::partition::Partition;
use crate::ranges::EpkSpan;
use armilla_index::{DocumentRef, Part};
use armilla_model::ttl::Liveness;
use std::sync::{Arc, OnceLock};

/// Ranges in the order of their keys, seen as of one moment each.
pub(super) struct View {
    pub(super) ranges: Vec<RangeView>,
    /// What the indexes of the ranges were built for: the settings, or those of before while new indexes are
    /// built.
    pub(super) definition: Arc<IndexDefinition>,
    /// The index of every range is of this definition.
    pub(super) is_indexed: bool,
    /// The path of `_ts`, which every indexed item has.
    stamp: Option<u32>,
    /// Which items have expired.
    liveness: Liveness,
    /// Some documents of some part have no terms.
    is_any_bare: OnceLock<bool>,
    /// Documents that are excluded from the index, by range and part.
    excluded: OnceLock<Vec<Vec<Locals>>>,
}

/// Local numbers of the excluded documents of a part, ascending.
type Locals = Vec<u32>;

impl View {
    /// Takes a view of every range that the spans touch.
    pub(super) fn take(container: &Container, settings: &Settings, spans: &[EpkSpan]) -> Self {
        let range = |partition: &Arc<Partition>| {
            let parts = spans.iter().filter_map(|span| partition.range.overlap(span));
            let spans: Vec<_> = parts.collect();
            if spans.is_empty() {
                return None;
            }
            Some(RangeView::new(
                partition.clone(),
                spans,
                container.core.consistent_view(partition),
            ))
        };
        let ranges: Vec<_> = container.partitions().iter().filter_map(range).collect();
        let first = ranges.first().map(|range| range.published.definition.clone());
        let definition = first.unwrap_or_else(|| container.index_definition());
        Self {
            is_indexed: ranges.iter().all(|range| range.published.definition.id == definition.id),
            ranges,
            definition,
            stamp: container.paths.find_name(ROOT, "_ts"),
            liveness: settings.policy.liveness(u64::from(container.core.now_seconds())),
            is_any_bare: OnceLock::new(),
            excluded: OnceLock::new(),
        }
    }

    /// Live documents in scope, expired ones included.
    pub(super) fn scope(&self) -> u64 {
        self.ranges.iter().map(RangeView::scope).sum()
    }

    /// True when items may expire.
    pub(super) fn expires(&self) -> bool {
        self.liveness.is_limited()
    }

    /// False once an item's time to live has passed.
    pub(super) fn is_alive(&self, document: &DocumentRef<'_>) -> bool {
        self.liveness.is_alive(document.ts, document.ttl)
    }

    /// The same, for a document of a part.
    pub(super) fn is_alive_at(&self, part: &Part, local: u32) -> bool {
        if !self.liveness.is_limited() {
            return true;
        }
        let (ts, ttl) = part.ts_and_ttl(local);
        self.liveness.is_alive(ts, ttl)
    }

    /// True when some documents of a part have no terms: their writers wanted none.
    pub(super) fn is_bare(&self, part: &Part) -> bool {
        self.is_any_bare() && self.lacks_terms(part)
    }

    fn lacks_terms(&self, part: &Part) -> bool {
        let stamped = self.stamp.and_then(|path| part.path(path));
        stamped.is_none_or(|index| index.documents_with() < part.len())
    }

    /// True when some documents of some part have no terms.
    pub(super) fn is_any_bare(&self) -> bool {
        let lacks_terms = |range: &RangeView| match self.stamp {
            Some(path) => range.published.is_any_bare(path),
            None => !range.parts().is_empty(),
        };
        *self.is_any_bare.get_or_init(|| self.ranges.iter().any(lacks_terms))
    }

    /// True when a document's writer excluded it from the index.
    pub(super) fn is_excluded_at(&self, range: usize, part: usize, local: u32) -> bool {
        let excluded = self.excluded.get_or_init(|| self.find_excluded());
        let locals = excluded.get(range).and_then(|parts| parts.get(part));
        locals.is_some_and(|locals| locals.binary_search(&local).is_ok())
    }

    /// By range; empty where no range has excluded documents, which is nearly always.
    fn find_excluded(&self) -> Vec<Vec<Locals>> {
        if !self.is_any_bare() {
            return Vec::new();
        }
        let of_range = |range: &RangeView| match range.has_index() {
            true => range.parts().iter().map(|part| self.excluded_of(part)).collect(),
            false => Vec::new(),
        };
        self.ranges.iter().map(of_range).collect()
    }

    /// Every indexed document has `_ts`.
    fn excluded_of(&self, part: &Part) -> Locals {
        if !self.is_bare(part) {
            return Locals::new();
        }
        match PathColumn::new(self.stamp, part) {
            Some(column) => {
                (0..part.len()).filter(|local| column.ordinal(*local).is_none()).collect()
            }
            None => Locals::new(),
        }
    }

    /// The mean size of a range's items: what an item that is not read counts for.
    pub(super) fn mean_size(&self, range: usize) -> usize {
        self.ranges.get(range).map_or(0, RangeView::mean_size)
    }

    /// The mean size of the items that a query addresses in a range, or of all its items where those are
    /// too many to look at.
    pub(super) fn mean_size_in_scope(&self, range: usize) -> usize {
        let Some(range) = self.ranges.get(range) else { return 0 };
        let (mut documents, mut bytes) = (0u64, 0u64);
        for (_, part, runs) in range.runs(None) {
            for run in runs {
                documents += u64::from(part.live_count_in(&run));
                if documents > MEAN_SIZE_ITEMS_MAX {
                    return range.mean_size();
                }
                let live = run.filter(|local| !part.is_dead(*local));
                bytes += live.map(|local| u64::from(part.document_size(local))).sum::<u64>();
            }
        }
        usize::try_from(bytes / documents.max(1)).unwrap_or(usize::MAX)
    }
}
