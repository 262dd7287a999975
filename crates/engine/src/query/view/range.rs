//! View of one range of the key space.

use crate::core::Root;
use crate::listing::index_range;
use crate::partition::{Partition, PublishedView};
use crate::query::find::Runs;
use crate::query::token::Place;
use crate::ranges::EpkSpan;
use armilla_index::{EpkRange, Part};
use armilla_model::partition_key::Epk;
use armilla_storage::Snapshot;
use std::ops::{Bound, Range};
use std::sync::{Arc, OnceLock};

/// A range, seen as of one moment, and the parts of it that are asked for.
pub(in crate::query) struct RangeView {
    pub(in crate::query) partition: Arc<Partition>,
    pub(in crate::query) spans: Vec<EpkSpan>,
    root: Arc<Root>,
    pub(in crate::query) published: Arc<PublishedView>,
    /// The documents in scope, by part; found once and asked for many times.
    runs: OnceLock<Vec<(usize, Runs)>>,
    mean_size: OnceLock<usize>,
}

impl RangeView {
    pub(super) fn new(
        partition: Arc<Partition>,
        spans: Vec<EpkSpan>,
        (root, published): (Arc<Root>, Arc<PublishedView>),
    ) -> Self {
        let (runs, mean_size) = (OnceLock::new(), OnceLock::new());
        Self { partition, spans, root, published, runs, mean_size }
    }

    /// The store as of that moment.
    pub(in crate::query) fn snapshot(&self) -> &dyn Snapshot {
        &*self.root.snapshot
    }

    /// The parts of its index.
    pub(in crate::query) fn parts(&self) -> &[Part] {
        self.published.view.parts()
    }

    /// True when its items are indexed, all but those that were excluded.
    pub(in crate::query) fn has_index(&self) -> bool {
        self.published.definition.policy.indexing.enabled
    }

    /// True when a place lies behind all of its items.
    pub(in crate::query) fn is_passed(&self, place: &Place) -> bool {
        self.partition.range.max.as_ref().is_some_and(|max| *max <= place.epk)
    }

    /// The mean size of its items, as it is when first asked for.
    pub(in crate::query) fn mean_size(&self) -> usize {
        *self.mean_size.get_or_init(|| {
            let documents = self.partition.document_count().max(1);
            usize::try_from(self.partition.size() / documents).unwrap_or(usize::MAX)
        })
    }

    /// The parts that have documents in scope, and those documents as runs of local numbers.
    fn all_runs(&self) -> &[(usize, Runs)] {
        self.runs.get_or_init(|| {
            let ranges: Vec<EpkRange> = self.spans.iter().map(index_range).collect();
            let parts = self.parts().iter().enumerate();
            let with_runs = parts.map(|(number, part)| (number, runs(part, &ranges)));
            with_runs.filter(|(_, runs)| !runs.is_empty()).collect()
        })
    }

    /// The same behind a place.
    pub(in crate::query) fn runs(
        &self,
        after: Option<&Place>,
    ) -> impl Iterator<Item = (usize, &Part, Runs)> {
        let parts = self.parts();
        let after = after.cloned();
        self.all_runs().iter().filter_map(move |(number, runs)| {
            let part = &parts[*number];
            let runs = match &after {
                None => runs.clone(),
                Some(place) => behind(part, runs, place),
            };
            (!runs.is_empty()).then_some((*number, part, runs))
        })
    }

    /// Keys that cut the documents in scope into about so many pieces of one size, ascending; fewer where
    /// many have one key.
    pub(in crate::query) fn cuts(&self, pieces: usize) -> Vec<Epk> {
        let parts = self.parts();
        let runs = self.all_runs().iter();
        let runs = runs.flat_map(|(number, runs)| runs.iter().map(|run| (&parts[*number], run)));
        let Some((part, run)) = runs.max_by_key(|(_, run)| run.len()) else { return Vec::new() };
        let at = |piece: usize| run.start + (run.len() * piece / pieces) as u32;
        let key = |piece| Epk::from_bytes(part.document(at(piece)).epk);
        let mut cuts: Vec<Epk> = (1..pieces).map(key).collect();
        cuts.dedup();
        cuts
    }

    /// Live documents in scope, expired ones included.
    pub(in crate::query) fn scope(&self) -> u64 {
        let parts = self.parts();
        let live = |(number, runs): &(usize, Runs)| -> u64 {
            runs.iter().map(|run| u64::from(parts[*number].live_count_in(run))).sum()
        };
        self.all_runs().iter().map(live).sum()
    }
}

/// The documents of ranges, as runs of local numbers. Most parts have none of a logical partition.
fn runs(part: &Part, ranges: &[EpkRange]) -> Runs {
    let mut runs = Runs::new();
    for range in ranges {
        let run = part.locals_of(range);
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
fn behind(part: &Part, runs: &Runs, place: &Place) -> Runs {
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
