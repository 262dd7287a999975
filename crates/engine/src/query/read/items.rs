//! The items of a page, or of one thread's share of it: who is there, and their texts. Who has expired is told by
//! `query::view`; the rule of times to live is `armilla_model::ttl`.

mod cached;

use super::prefetch::Prefetch;
use super::{Loads, Reader};
use crate::item_cache::Keeping;
use crate::query::Query;
use crate::query::plan::{Plan, WorkShare};
use crate::query::prepare::Prepared;
use crate::query::token::Place;
use crate::query::view::RangeView;
use crate::ranges::EpkSpan;
use crate::record::Record;
use armilla_index::DocumentRef;
use armilla_model::error::{Error, Result};
use armilla_model::partition_key::{Epk, PartitionKey};
use parking_lot::Mutex;
use std::ops::Range;

/// The items that one thread goes through.
pub(in crate::query) struct Items<'p> {
    pub(in crate::query) query: &'p Query,
    pub(in crate::query) plan: &'p Plan,
    /// Which ranges documents come from: all, or the one that a thread goes through.
    pub(in crate::query) visited: Range<usize>,
    /// The keys that documents come from, where several threads go through all documents of a range.
    pub(in crate::query) piece: Option<EpkSpan>,
    /// Used by one thread at a time; each has items of its own.
    prefetch: Mutex<Prefetch>,
}

/// A document of a range.
#[derive(Clone)]
pub(in crate::query) struct Found<'s> {
    /// Which of the view's ranges.
    pub(in crate::query) target: usize,
    /// Which part of the view, and which document there; nothing when it was found by its id.
    pub(in crate::query) at: Option<(usize, u32)>,
    pub(in crate::query) document: DocumentRef<'s>,
    /// The item, if it was read on the way.
    pub(in crate::query) record: Option<Record>,
    /// What is known of the condition.
    pub(in crate::query) certainty: Certainty<'s>,
}

/// What is known of the condition before an item is looked at.
#[derive(Clone, Copy, PartialEq)]
pub(in crate::query) enum Certainty<'s> {
    /// The item may match.
    Open,
    /// The item matches.
    Matches,
    /// The item matches if this is its partition key.
    ByKey(&'s PartitionKey),
}

impl Found<'_> {
    pub(in crate::query) fn place(&self) -> Place {
        Place { epk: Epk::from_bytes(self.document.epk), docno: self.document.docno }
    }
}

impl<'p> Items<'p> {
    /// All items that a plan addresses.
    pub(in crate::query) fn new(query: &'p Query, plan: &'p Plan) -> Self {
        let (visited, prefetch) = (0..plan.view.ranges.len(), Mutex::default());
        Self { query, plan, visited, piece: None, prefetch }
    }

    /// The same for a thread that goes through one range only, or a piece of it.
    pub(in crate::query) fn for_share(&self, WorkShare { target, piece }: &WorkShare) -> Self {
        let (visited, prefetch) = (*target..*target + 1, Mutex::default());
        Self { query: self.query, plan: self.plan, visited, piece: piece.clone(), prefetch }
    }

    /// The same for a thread that reads so many of the documents to come.
    pub(in crate::query) fn for_worker(&self, items: u64) -> Self {
        let prefetch = Mutex::new(self.prefetch.lock().for_worker(items));
        Self {
            query: self.query,
            plan: self.plan,
            visited: self.visited.clone(),
            piece: None,
            prefetch,
        }
    }

    /// The ranges that documents come from, and their numbers.
    pub(in crate::query) fn visited(&self) -> impl Iterator<Item = (usize, &'p RangeView)> {
        let ranges: &'p [RangeView] = &self.plan.view.ranges;
        self.visited.clone().filter_map(|number| Some((number, ranges.get(number)?)))
    }

    /// True when a document is there for this query: alive, not removed by the open transaction, and
    /// not excluded from the index.
    pub(in crate::query) fn sees(&self, found: &Found<'_>) -> bool {
        self.plan.view.is_alive(&found.document) && !self.is_gone(found) && !self.is_excluded(found)
    }

    fn is_gone(&self, found: &Found<'_>) -> bool {
        matches!(self.overlaid(found), Some(None))
    }

    fn is_excluded(&self, found: &Found<'_>) -> bool {
        let view = &self.plan.view;
        if let Some(Some(record)) = self.overlaid(found) {
            let has_index = view.ranges.get(found.target).is_some_and(RangeView::has_index);
            return !record.is_indexed() && has_index;
        }
        found.at.is_some_and(|(part, local)| view.is_excluded_at(found.target, part, local))
    }

    /// What an open transaction has made of a document's item.
    pub(in crate::query) fn overlaid(&self, found: &Found<'_>) -> Option<&'p Option<Record>> {
        self.plan.overlay.as_ref()?.get(&found.document.docno)
    }

    /// A document of a part.
    pub(in crate::query) fn at(&self, target: usize, part: usize, local: u32) -> Found<'p> {
        let document = self.plan.view.ranges[target].parts()[part].document(local);
        let at = Some((part, local));
        Found { target, at, document, record: None, certainty: Certainty::Open }
    }

    /// The live document at a place, if it is in scope.
    pub(in crate::query) fn find(&self, place: &Place) -> Option<Found<'p>> {
        let ranges = &self.plan.view.ranges;
        let target = ranges.iter().position(|range| range.partition.range.contains(&place.epk))?;
        let located = ranges[target].published.view.find(place.epk.as_bytes(), place.docno)?;
        let found = self.at(target, located.part, located.local);
        (!self.is_gone(&found)).then_some(found)
    }

    /// Reads a document's item.
    pub(in crate::query) fn record(&self, found: &Found<'_>, loads: &mut Loads) -> Result<Record> {
        loads.enter(found.target);
        let record = match (&found.record, self.overlaid(found)) {
            (_, Some(Some(record))) | (Some(record), _) => record.clone(),
            (None, _) => {
                let document = &found.document;
                let prefetched = self.prefetch.lock().take(self, found.target, document)?;
                match prefetched {
                    Some(record) => record,
                    None => self.kept_or_searched(found.target, document, Keeping::OnReturn)?,
                }
            }
        };
        loads.count(record.size())?;
        Ok(record)
    }

    /// Searches the store for a document's item.
    fn search(&self, target: usize, document: &DocumentRef<'_>) -> Result<Record> {
        let snapshot = self.plan.view.ranges[target].snapshot();
        let (container, epk) = (&self.query.container, Epk::from_bytes(document.epk));
        let read = container.find_by_docno(snapshot, &epk, document.hash, document.docno)?;
        read.ok_or_else(|| {
            Error::Internal("the index names an item that the store does not have".to_owned())
        })
    }

    /// True when one span of keys of one range is addressed, by one thread: it may be a logical partition.
    pub(in crate::query) fn is_one_partition(&self) -> bool {
        let ranges = &self.plan.view.ranges;
        ranges.len() == 1 && ranges[0].spans.len() == 1 && self.piece.is_none()
    }

    /// Says how many items will be read from now on, in the order of their partitions, if nobody stops;
    /// and among how many they lie.
    pub(in crate::query) fn expect(&self, items: u64, scope: u64) {
        self.prefetch.lock().expect(items, scope);
    }

    /// The same where the documents are known, of which there are so many at most. They are handed out again.
    pub(in crate::query) fn expect_these<'s>(
        &self,
        found: impl Iterator<Item = Found<'s>>,
        count_max: u64,
        target: usize,
    ) -> std::vec::IntoIter<Found<'s>> {
        let mut documents = Vec::with_capacity(usize::try_from(count_max).unwrap_or_default());
        documents.extend(found);
        self.prefetch.lock().expect_these(self, target, &documents);
        documents.into_iter()
    }

    /// Says that no more than so many items will be read.
    pub(in crate::query) fn read_at_most(&self, items: u64) {
        self.prefetch.lock().limit(items);
    }

    /// Says that items will be read in another order than that of their partitions from now on.
    pub(in crate::query) fn read_anywhere(&self) {
        self.prefetch.lock().leave_order();
    }

    /// What reads the items, or what the query needs of them.
    pub(in crate::query) fn reader(&self) -> Reader<'_> {
        Reader::new(self, Prepared::references)
    }

    /// The same, before rows are made: where those are copies, the items are read for them only.
    pub(in crate::query) fn key_reader(&self) -> Reader<'_> {
        Reader::new(self, Prepared::deciding)
    }
}
