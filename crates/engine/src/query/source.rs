//! The items a query goes through: ranges, one consistent view of each, and loading.

use super::prepare::Prepared;
use super::token::Place;
use super::work::Work;
use crate::container::{Container, Settings};
use crate::core::Root;
use crate::listing::index_range;
use crate::partition::{Partition, PublishedView};
use crate::ranges::EpkSpan;
use crate::record::Record;
use armilla_index::{Direction, DocumentRef};
use armilla_model::charge::RequestCharge;
use armilla_model::error::{Error, Result};
use armilla_model::partition_key::Epk;
use armilla_model::value::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// Everything in the scope of a query.
pub(super) struct Source<'a> {
    pub(super) container: &'a Container,
    pub(super) settings: &'a Settings,
    /// In the order of their keys.
    pub(super) targets: Vec<Target>,
    /// What an open transaction has made of items, by ordinal. Whoever finds documents by their
    /// terms must not, when there is one: the index knows these items as they were.
    pub(super) overlay: Option<&'a Overlay>,
    /// The second by which items have expired.
    now: u64,
}

/// Items that are different from what the index and the store say, by ordinal: their version, or
/// nothing if they are gone.
pub(crate) type Overlay = HashMap<u64, Option<Record>>;

/// A range, seen as of one moment, and the parts of it that are asked for.
pub(super) struct Target {
    pub(super) partition: Arc<Partition>,
    pub(super) spans: Vec<EpkSpan>,
    root: Arc<Root>,
    pub(super) published: Arc<PublishedView>,
}

/// A document of a target.
#[derive(Clone, Copy)]
pub(super) struct Found<'s> {
    /// Which of [`Source::targets`].
    pub(super) target: usize,
    pub(super) document: DocumentRef<'s>,
}

impl Found<'_> {
    pub(super) fn place(&self) -> Place {
        Place { epk: Epk::from_bytes(self.document.epk), docno: self.document.docno }
    }
}

/// An item as a query sees it.
pub(super) struct Loaded {
    pub(super) record: Record,
    pub(super) value: Value,
}

impl<'a> Source<'a> {
    /// Takes a view of every range that the spans touch.
    pub(super) fn new(container: &'a Container, settings: &'a Settings, spans: &[EpkSpan]) -> Self {
        let core = &container.core;
        let target = |partition: &Arc<Partition>| {
            let parts = spans.iter().filter_map(|span| partition.range.overlap(span));
            let spans: Vec<_> = parts.collect();
            if spans.is_empty() {
                return None;
            }
            let (root, published) = core.consistent_view(partition);
            Some(Target { partition: partition.clone(), spans, root, published })
        };
        let targets = container.partitions().iter().filter_map(target).collect();
        let now = u64::from(core.now_seconds());
        Self { container, settings, targets, overlay: None, now }
    }

    /// The same, as an open transaction sees it.
    pub(super) fn over(self, overlay: Option<&'a Overlay>) -> Self {
        Self { overlay, ..self }
    }

    /// Live documents in scope, expired ones included.
    pub(super) fn document_count(&self) -> u64 {
        let count = |target: &Target| {
            let view = &target.published.view;
            target.spans.iter().map(|span| view.live_count_in(&index_range(span))).sum::<u64>()
        };
        self.targets.iter().map(count).sum()
    }

    /// The documents behind a place, in the order of (effective key, ordinal).
    pub(super) fn documents(&self, after: Option<&Place>) -> impl Iterator<Item = Found<'_>> {
        let after = after.cloned();
        self.targets.iter().enumerate().flat_map(move |(number, target)| {
            let after = after.clone();
            target
                .spans
                .iter()
                .flat_map(move |span| self.documents_in(number, target, span, after.clone()))
        })
    }

    fn documents_in<'s>(
        &'s self,
        number: usize,
        target: &'s Target,
        span: &EpkSpan,
        after: Option<Place>,
    ) -> Box<dyn Iterator<Item = Found<'s>> + 's> {
        let passed = |place: &Place| span.max.as_ref().is_some_and(|max| *max <= place.epk);
        if after.as_ref().is_some_and(passed) {
            return Box::new(std::iter::empty());
        }
        let start = after.as_ref().map(|place| (place.epk.as_bytes(), place.docno));
        let documents =
            target.published.view.documents(&index_range(span), start, Direction::Ascending);
        Box::new(
            documents
                .map(move |located| Found { target: number, document: located.document })
                .filter(|found| self.is_alive(&found.document) && !self.is_gone(found)),
        )
    }

    /// False once an item's time to live has passed.
    pub(super) fn is_alive(&self, document: &DocumentRef<'_>) -> bool {
        let expires_at = document.expires_at(self.settings.policy.default_ttl);
        expires_at.is_none_or(|deadline| self.now < deadline)
    }

    fn is_gone(&self, found: &Found<'_>) -> bool {
        matches!(self.laid_over(found), Some(None))
    }

    fn laid_over(&self, found: &Found<'_>) -> Option<&Option<Record>> {
        self.overlay?.get(&found.document.docno)
    }

    /// The live document at a place, if it is in scope.
    pub(super) fn find(&self, place: &Place) -> Option<Found<'_>> {
        let target = |target: &Target| target.partition.range.contains(&place.epk);
        let number = self.targets.iter().position(target)?;
        let view = &self.targets[number].published.view;
        let located = view.find(place.epk.as_bytes(), place.docno)?;
        let found = Found { target: number, document: located.document };
        (!self.is_gone(&found)).then_some(found)
    }

    /// Reads a document's item.
    pub(super) fn record(&self, found: &Found<'_>, work: &mut Work) -> Result<Record> {
        if let Some(Some(record)) = self.laid_over(found) {
            work.loaded(record.size());
            return Ok(record.clone());
        }
        let target = &self.targets[found.target];
        let document = &found.document;
        let epk = Epk::from_bytes(document.epk);
        let snapshot = &*target.root.snapshot;
        let record = self.container.find_by_docno(snapshot, &epk, document.hash, document.docno)?;
        let record = record.ok_or_else(|| {
            Error::Internal("the index names an item that is not there".to_owned())
        })?;
        work.loaded(record.size());
        Ok(record)
    }

    /// Reads and parses a document's item.
    pub(super) fn load(&self, found: &Found<'_>, work: &mut Work) -> Result<Loaded> {
        let record = self.record(found, work)?;
        let value = crate::txn::parse_stored(&record.text())?;
        Ok(Loaded { record, value })
    }

    /// What visiting the ranges behind a place costs before any work.
    pub(super) fn base_charge(&self, after: Option<&Place>) -> RequestCharge {
        let begun =
            |target: &&Target| after.is_some_and(|place| target.partition.range.min <= place.epk);
        RequestCharge::QUERY_BASE
            * self.targets.iter().filter(|target| !begun(target)).count() as u64
    }

    /// Calls a function with what evaluation needs.
    pub(super) fn with_runtime<T>(
        &self,
        prepared: &Prepared,
        work: &mut Work,
        run: impl FnOnce(&mut armilla_sql::eval::Runtime<'_>, &mut Work) -> T,
    ) -> T {
        super::work::with_runtime(self, prepared, work, run)
    }
}

/// What two spans share.
pub(super) fn overlap(left: &EpkSpan, right: &EpkSpan) -> Option<EpkSpan> {
    let min = left.min.clone().max(right.min.clone());
    let max = match (&left.max, &right.max) {
        (Some(left), Some(right)) => Some(left.min(right).clone()),
        (bound, None) | (None, bound) => bound.clone(),
    };
    max.as_ref().is_none_or(|max| min < *max).then_some(EpkSpan { min, max })
}
