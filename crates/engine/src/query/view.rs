//! One range in the scope of a query.

use crate::core::Root;
use crate::partition::{Partition, PublishedView};
use crate::query::find::Runs;
use crate::query::read::items::merge::{behind, runs};
use crate::query::token::Place;
use crate::ranges::EpkSpan;
use armilla_index::Part;
use armilla_model::partition_key::Epk;
use armilla_storage::Snapshot;
use std::sync::{Arc, OnceLock};

/// A range, seen as of one moment, and the parts of it that are asked for.
pub(in crate::query) struct Target {
    pub(in crate::query) partition: Arc<Partition>,
    pub(in crate::query) spans: Vec<EpkSpan>,
    pub(in crate::query) root: Arc<Root>,
    pub(in crate::query) published: Arc<PublishedView>,
    /// The documents in scope, by part; found once and asked for many times.
    runs: OnceLock<Vec<(usize, Runs)>>,
}

impl Target {
    pub(in crate::query) fn new(
        partition: Arc<Partition>,
        spans: Vec<EpkSpan>,
        (root, published): (Arc<Root>, Arc<PublishedView>),
    ) -> Self {
        Self { partition, spans, root, published, runs: OnceLock::new() }
    }

    /// The store as of that moment.
    pub(in crate::query) fn snapshot(&self) -> &dyn Snapshot {
        &*self.root.snapshot
    }

    /// The parts that have documents in scope, and those documents as runs of local numbers.
    fn all_runs(&self) -> &[(usize, Runs)] {
        self.runs.get_or_init(|| {
            let parts = self.published.view.parts().iter().enumerate();
            let with_runs = parts.map(|(number, part)| (number, runs(part, &self.spans)));
            with_runs.filter(|(_, runs)| !runs.is_empty()).collect()
        })
    }

    /// The same behind a place.
    pub(in crate::query) fn runs(
        &self,
        after: Option<&Place>,
    ) -> impl Iterator<Item = (usize, &Part, Runs)> {
        let parts = self.published.view.parts();
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
        let parts = self.published.view.parts();
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
        let parts = self.published.view.parts();
        let live = |(number, runs): &(usize, Runs)| -> u64 {
            runs.iter().map(|run| u64::from(parts[*number].live_count_in(run))).sum()
        };
        self.all_runs().iter().map(live).sum()
    }
}
