//! From what is stored to what the index is told.

use crate::feed_entry::FeedEntry;
use crate::indexing::{self, PathDictionary};
use crate::keys::{self, ItemKey};
use crate::ranges::EpkSpan;
use crate::record::Record;
use armilla_index::{Change, Document, Index, Terms, Version};
use armilla_model::lsn::Lsn;
use armilla_model::policy::ContainerPolicy;
use armilla_storage::{Direction, Keyspace, Snapshot, StoreError};
use bytes::Bytes;
use std::ops::{Bound, ControlFlow};

/// Documents taken into an index at a time while it is filled.
const PIECE: u64 = 1024;

/// A container as far as its index depends on it.
#[derive(Clone, Copy)]
pub(crate) struct Derivation<'a> {
    /// Its number.
    pub(crate) container: u32,
    /// The policy of the index.
    pub(crate) policy: &'a ContainerPolicy,
    /// The numbers of its paths.
    pub(crate) paths: &'a PathDictionary,
}

/// How much of a log was taken up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Replayed {
    /// The last transaction seen; the start if there was none.
    pub(crate) last: Lsn,
    /// Entries taken.
    pub(crate) entries: u64,
}

/// Fills an index piece by piece, so that not all terms are held at once.
pub(crate) struct Filling<'i> {
    index: &'i mut Index,
    changes: u64,
}

impl<'i> Filling<'i> {
    pub(crate) fn new(index: &'i mut Index) -> Self {
        Self { index, changes: 0 }
    }

    /// Takes a change; says how many there were.
    pub(crate) fn apply(&mut self, change: Change) -> u64 {
        self.index.apply(change);
        self.changes += 1;
        if self.changes.is_multiple_of(PIECE) {
            self.settle();
        }
        self.changes
    }

    fn settle(&mut self) {
        self.index.publish();
        if let Err(error) = self.index.run_jobs() {
            tracing::warn!(%error, "an index job failed and will be tried again");
        }
    }
}

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        self.settle();
    }
}

impl Derivation<'_> {
    /// Hands every stored item of a span to `visit`, in the order of keys, until it breaks.
    pub(crate) fn scan(
        &self,
        snapshot: &dyn Snapshot,
        span: &EpkSpan,
        visit: &mut dyn FnMut(Change) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let definition = &self.policy.partition_key;
        let (min, max) = (Bound::Included(&span.min), span.max.as_ref());
        let range = keys::items_between(self.container, definition, min, max);
        each(snapshot, Keyspace::Items, &range, |key, value| {
            let key = keys::read_item(key, definition)
                .map_err(|_| StoreError::corruption("items", "a key is malformed"))?;
            let record = Record::new(value)?;
            if record.is_tombstone() {
                return Ok(ControlFlow::Continue(()));
            }
            let (document, terms) = self.document(&key, &record)?;
            Ok(visit(Change::Upsert { document, terms, replaces: None }))
        })
    }

    /// Hands what a log says after a transaction about the keys of a span to `visit`. A version may
    /// be told that is known already; whoever applies it again changes nothing.
    pub(crate) fn replay(
        &self,
        snapshot: &dyn Snapshot,
        log: u32,
        after: Lsn,
        span: &EpkSpan,
        visit: &mut dyn FnMut(Change),
    ) -> Result<Replayed, StoreError> {
        let mut replayed = Replayed { last: after, entries: 0 };
        let range = keys::log_after(self.container, log, after);
        // An ordinal is never in both: one that is gone does not come back. So their order among
        // each other does not matter.
        for keyspace in [Keyspace::Gone, Keyspace::Feed] {
            each(snapshot, keyspace, &range, |key, value| {
                let position = keys::read_log(key)
                    .map_err(|_| StoreError::corruption("feed", "a key is malformed"))?;
                replayed.last = replayed.last.max(position.lsn);
                let entry = FeedEntry::decode(&value)?;
                if span.contains(&entry.item.epk) {
                    replayed.entries += 1;
                    visit(self.change(snapshot, keyspace, position.lsn, &entry)?);
                }
                Ok(ControlFlow::Continue(()))
            })?;
        }
        Ok(replayed)
    }

    fn change(
        &self,
        snapshot: &dyn Snapshot,
        log: Keyspace,
        lsn: Lsn,
        entry: &FeedEntry,
    ) -> Result<Change, StoreError> {
        let epk = entry.item.epk.as_bytes().to_vec();
        let version = Version { epk, docno: entry.docno, lsn: None };
        if log == Keyspace::Gone {
            return Ok(Change::Delete { lsn: lsn.0, version });
        }
        let place = keys::item(self.container, &self.policy.partition_key, &entry.item);
        let missing = || StoreError::corruption("feed", "an entry names an item that is not there");
        let record = Record::new(snapshot.get(Keyspace::Items, &place)?.ok_or_else(missing)?)?;
        let (document, terms) = self.document(&entry.item, &record)?;
        Ok(Change::Upsert { document, terms, replaces: Some(version) })
    }

    /// What the index knows of a stored item.
    pub(crate) fn document(
        &self,
        key: &ItemKey,
        record: &Record,
    ) -> Result<(Document, Terms), StoreError> {
        let item = armilla_model::json::parse(&record.text()).map_err(|error| {
            StoreError::corruption("items", format!("an item is not JSON: {error}"))
        })?;
        let (ts, indexed) = (record.ts(), record.is_indexed());
        let terms = indexing::terms_of(&item, ts, indexed, self.policy, self.paths).terms;
        let document = Document {
            epk: key.epk.as_bytes().to_vec(),
            docno: record.docno(),
            lsn: record.lsn().0,
            hash: key.hash,
            ts,
            ttl: record.ttl(),
            size: u32::try_from(record.size()).unwrap_or(u32::MAX),
        };
        Ok((document, terms))
    }

    /// The last transaction of a log in a snapshot, as far as its entries tell, or where it began: the
    /// log of a range that was just split off is empty, and its items are from before.
    pub(crate) fn head(&self, snapshot: &dyn Snapshot, log: u32) -> Result<Lsn, StoreError> {
        let range = keys::log_of(self.container, log);
        let noted =
            snapshot.get(Keyspace::Meta, &keys::meta(keys::Meta::Head, &[self.container, log]))?;
        let noted = noted.and_then(|bytes| bytes[..].try_into().ok());
        let mut head = Lsn(noted.map_or(0, u64::from_be_bytes));
        for keyspace in [Keyspace::Feed, Keyspace::Gone] {
            let last = snapshot.first(keyspace, &range, Direction::Backward)?;
            let position = last.map(|(key, _)| keys::read_log(&key)).transpose();
            let position =
                position.map_err(|_| StoreError::corruption("feed", "a key is malformed"))?;
            head = head.max(position.map_or(Lsn(0), |position| position.lsn));
        }
        Ok(head)
    }
}

/// Scans a range with a visitor that may fail.
fn each(
    snapshot: &dyn Snapshot,
    keyspace: Keyspace,
    range: &armilla_storage::KeyRange,
    mut visit: impl FnMut(&[u8], Bytes) -> Result<ControlFlow<()>, StoreError>,
) -> Result<(), StoreError> {
    let mut failure = None;
    snapshot.scan(keyspace, range, Direction::Forward, &mut |key, value| {
        visit(key, value).unwrap_or_else(|error| {
            failure = Some(error);
            ControlFlow::Break(())
        })
    })?;
    failure.map_or(Ok(()), Err)
}
