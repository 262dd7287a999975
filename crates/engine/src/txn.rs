//! Transactions: the changes of one request, batch or script inside one logical partition.
//!
//! A transaction holds the lock of its logical partition from before its first read until its view
//! is published, so whatever it read is still true when it commits. Its writes gather in a change
//! set laid over the snapshot; committing turns the *final* state of each touched item into one
//! engine batch with one LSN. Dropping it leaves no trace.
//!
//! ```text
//! find ─► stage ─► stage … ─► commit: sequence (LSN, keys) ─► committer ─► index, view ─► reply
//! ```

mod absent;
mod commit;
mod current;
mod touched;
pub(crate) mod unique;

use absent::Absent;
pub use commit::IndexChange;
pub use current::{Current, StagedItem};

use crate::address::ItemAddress;
use crate::container::{Container, Settings, Slot};
use crate::feed_entry::Origin;
use crate::indexing::{self, ItemTerms};
use crate::items::body::Body;
use crate::items::{WriteOptions, Written};
use crate::keys::ItemKey;
use crate::limits::TXN_FOUND_MAX;
use crate::locks::PartitionLock;
use crate::paths::{PathMemo, PathsInUse};
use crate::record::{self, HEADER_LENGTH, Record, RecordHead};
use crate::store_failure;
use armilla_model::charge::RequestCharge;
use armilla_model::error::{Error, Result};
use armilla_model::etag::ETag;
use armilla_model::lsn::Lsn;
use armilla_model::partition_key::{Epk, PartitionKey};
use armilla_model::policy::ContainerPolicy;
use armilla_model::rid;
use armilla_model::value::Value;
use armilla_storage::Snapshot;
use bytes::Bytes;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use touched::Touched;

/// With so many items what they have in common is worth remembering.
const MANY_ITEMS: usize = 4;

/// An open transaction.
pub struct Txn {
    container: Arc<Container>,
    settings: Arc<Settings>,
    key: PartitionKey,
    epk: Epk,
    snapshot: Arc<dyn Snapshot>,
    lock: PartitionLock,
    paths: PathsInUse,
    path_memo: PathMemo,
    now: u32,
    origin: Origin,
    expiring: bool,
    /// Entries of `meta` that are committed with the changes.
    notes: Vec<(Vec<u8>, Vec<u8>)>,
    staged: Vec<Staged>,
    /// Items that were read last and are likely to be written.
    found: Vec<(Arc<str>, Slot)>,
    /// Which ids nobody has, as far as it was found out.
    absent: Absent,
    /// Ids and places of the staged items.
    touched: Touched,
    unique: HashMap<Vec<u8>, Option<Owner>>,
    /// Version and time of the next item, where they are not to be new.
    stamp: Option<(ETag, u32)>,
    /// Bytes of stored versions that may still be parsed; any number without it.
    loading_left: Option<usize>,
    /// An operation was refused because it would have parsed more.
    is_heavy: bool,
}

type Owner = (u64, u8);

/// One touched item: what it was when the transaction began, and what it is now.
struct Staged {
    key: ItemKey,
    before: Option<Before>,
    now: Now,
}

/// What a transaction did to an item.
enum Now {
    /// Nothing, or nothing that was accepted.
    AsBefore,
    /// It gave it a new version.
    Draft(Draft),
    /// It removed it.
    Removed,
}

/// The version in the store, expired ones included.
struct Before {
    record: Record,
    tuples: Vec<[u8; 16]>,
    /// What its terms weigh; the terms themselves are not there.
    weights: ItemTerms,
    visible: bool,
}

/// A version that is not yet in the store.
struct Draft {
    head: RecordHead,
    bytes: Vec<u8>,
    value: Value,
    terms: ItemTerms,
    tuples: Vec<[u8; 16]>,
}

/// Where and when a transaction was committed.
#[derive(Clone, Copy, Debug)]
pub struct Committed {
    /// Its position in the partition's log.
    pub lsn: Lsn,
    /// The partition.
    pub partition: u32,
    /// Whether it changed anything. One that only read says how far the log was.
    pub wrote: bool,
}

impl Txn {
    /// Begins a transaction under the lock of its logical partition, for whoever has no address at hand.
    pub fn begin(
        container: Arc<Container>,
        key: PartitionKey,
        lock: PartitionLock,
    ) -> Result<Self> {
        Self::at(ItemAddress::of(&container, key)?, lock)
    }

    /// Begins a transaction under the lock of the logical partition at an address.
    pub fn at(address: ItemAddress, lock: PartitionLock) -> Result<Self> {
        let ItemAddress { container, settings, key, epk, .. } = address;
        container.check_alive()?;
        Ok(Self {
            snapshot: container.core.snapshot(),
            now: container.core.now_seconds(),
            paths: container.paths.in_use(),
            path_memo: PathMemo::default(),
            container,
            settings,
            key,
            epk,
            lock,
            origin: Origin::default(),
            expiring: false,
            notes: Vec::new(),
            staged: Vec::new(),
            found: Vec::new(),
            absent: Absent::default(),
            touched: Touched::default(),
            unique: HashMap::new(),
            stamp: None,
            loading_left: None,
            is_heavy: false,
        })
    }

    /// The transaction as it began, under the same lock: what was staged is forgotten, and so is the
    /// limit of [`limit_loading`](Self::limit_loading).
    #[must_use]
    pub fn restarted(self) -> Self {
        Self {
            staged: Vec::new(),
            touched: Touched::default(),
            unique: HashMap::new(),
            loading_left: None,
            is_heavy: false,
            ..self
        }
    }

    /// Limits the bytes of stored versions that operations may parse, for a thread that must not be
    /// held up. One that would need more is refused, leaves no trace, and
    /// [`is_heavy`](Self::is_heavy) says so: it is to be run again elsewhere, without the limit.
    pub fn limit_loading(&mut self, bytes: Option<usize>) {
        self.loading_left = bytes;
        self.is_heavy = false;
    }

    /// True when an operation was refused for the limit of [`limit_loading`](Self::limit_loading).
    pub fn is_heavy(&self) -> bool {
        self.is_heavy
    }

    /// The container.
    pub fn container(&self) -> &Arc<Container> {
        &self.container
    }

    /// The logical partition.
    pub fn key(&self) -> &PartitionKey {
        &self.key
    }

    /// Its effective key.
    pub fn epk(&self) -> &Epk {
        &self.epk
    }

    /// The store as it was when the transaction began.
    pub fn snapshot(&self) -> &Arc<dyn Snapshot> {
        &self.snapshot
    }

    /// Says that removals are expiries, which the change feed tells apart.
    pub(crate) fn set_expiring(&mut self) {
        self.expiring = true;
    }

    /// Says that the server itself writes on behalf of a view or subscription, whose number the feed shows.
    pub(crate) fn set_origin(&mut self, origin: Origin) {
        self.origin = origin;
    }

    /// Adds an entry of `meta` that is committed with the changes, of which there must be one.
    pub(crate) fn note(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.notes.push((key, value));
    }

    /// Gives the next item that is staged this version and time.
    pub(crate) fn set_stamp(&mut self, etag: ETag, ts: u32) {
        self.stamp = Some((etag, ts));
    }

    /// Refuses what clients and scripts write to a view, or to a container whose place another one has taken.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.container.check_in_place()?;
        match self.container.view() {
            Some(view) if view.is_rekey() && self.origin.number != self.container.number => {
                Err(Error::Forbidden(format!(
                    "This container is being filled with the items of '{}' under another partition key, and cannot be written before it has taken that container's place.",
                    view.source_name()
                )))
            }
            Some(view) if self.origin.number != self.container.number => {
                Err(Error::Forbidden(format!(
                    "This container is a view of '{}': its items follow that container and cannot be written. Write there instead.",
                    view.source_name()
                )))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn policy(&self) -> &ContainerPolicy {
        &self.settings.policy
    }

    /// Refuses an item whose key is not this transaction's.
    pub(crate) fn check_key_of(&self, item: &Value) -> Result<()> {
        let key = PartitionKey::of_item(item, &self.policy().partition_key);
        if self.key == key {
            return Ok(());
        }
        Err(Error::PartitionKeyMismatch(format!(
            "PartitionKey extracted from document doesn't match the one specified in the header. The document has {}, the request {}. Learn more: https://aka.ms/CosmosDB/sql/errors/wrong-pk-value",
            key.to_header(),
            self.key.to_header()
        )))
    }

    /// The item as this transaction sees it.
    pub fn find(&self, id: &str) -> Result<Option<Current<'_>>> {
        if let Some(at) = self.touched.find(id) {
            return Ok(self.staged[at].current());
        }
        let slot = self.locate(id)?;
        Ok(slot.record.filter(|record| self.is_alive(record)).map(Current::Stored))
    }

    /// The same for an item that is likely to be written: its place in the store is remembered, so that it is
    /// searched for once.
    pub(crate) fn find_to_write(&mut self, id: &Arc<str>) -> Result<Option<Current<'_>>> {
        if self.touched.find(id).is_none() && !self.found.iter().any(|(found, _)| found == id) {
            let slot = self.locate(id)?;
            if slot.record.is_some() {
                self.found.truncate(TXN_FOUND_MAX - 1);
                self.found.insert(0, (id.clone(), slot));
            }
        }
        self.find(id)
    }

    /// The place of an id in the store.
    fn locate(&self, id: &str) -> Result<Slot> {
        if let Some(slot) = self.place_of_absent(id) {
            return Ok(slot);
        }
        match self.found.iter().find(|(found, _)| &**found == id) {
            Some((_, slot)) => Ok(slot.clone()),
            None => self.container.locate(&*self.snapshot, &self.epk, id),
        }
    }

    /// The item as this transaction sees it, about to be written: it enters the change set, so that
    /// staging need not look for it again.
    pub(crate) fn look_up(&mut self, id: &str) -> Result<Option<Current<'_>>> {
        let at = self.touch(id)?;
        Ok(self.staged[at].current())
    }

    /// Looks up items that are about to be written, as far as the limit of
    /// [`limit_loading`](Self::limit_loading) goes; false when they are too large for it.
    pub fn look_ahead<'i>(&mut self, ids: impl IntoIterator<Item = &'i str>) -> Result<bool> {
        for id in ids {
            match self.touch(id) {
                Ok(_) => {}
                Err(_) if self.is_heavy => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// What the transaction changed of the items that were there when it began, by ordinal: the
    /// version of now, or nothing if the item is gone. Readers lay this over the snapshot.
    pub(crate) fn overlay(&self) -> Result<HashMap<u64, Option<Record>>> {
        let mut overlay = HashMap::new();
        let changed = self.staged.iter().filter(|staged| !matches!(staged.now, Now::AsBefore));
        for before in changed.filter_map(Staged::visible) {
            overlay.insert(before.record.docno(), None);
        }
        for draft in self.staged.iter().filter_map(Staged::draft) {
            if let Some(version) = overlay.get_mut(&draft.head.docno) {
                let record = Record::new(Bytes::copy_from_slice(&draft.bytes));
                *version = Some(record.map_err(store_failure)?);
            }
        }
        Ok(overlay)
    }

    /// Ordinals of the items that the transaction created, and their texts, in no order.
    pub(crate) fn created(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let visible = self.staged.iter().filter_map(Staged::visible);
        let before: HashSet<_> = visible.map(|before| before.record.docno()).collect();
        let drafts = self.staged.iter().filter_map(Staged::draft);
        drafts
            .filter(move |draft| !before.contains(&draft.head.docno))
            .map(|draft| (draft.head.docno, &draft.bytes[HEADER_LENGTH..]))
    }

    /// Makes room for so many more items.
    pub(crate) fn reserve(&mut self, items: usize) {
        if items >= MANY_ITEMS {
            self.path_memo.turn_on();
        }
        self.staged.reserve(items);
        self.touched.reserve(items);
    }

    /// True when nothing was written.
    pub fn is_clean(&self) -> bool {
        !self.staged.iter().any(Staged::is_changed)
    }

    fn is_alive(&self, record: &Record) -> bool {
        record.is_alive(self.policy().liveness(u64::from(self.now)))
    }

    /// Stages a new version of the item, whether or not it exists.
    pub(crate) fn stage(&mut self, body: Body, options: &WriteOptions) -> Result<Written> {
        let at = self.touch(&body.id)?;
        self.put_draft(at, at, body, options)
    }

    /// Stages an item that must not exist.
    pub(crate) fn stage_new(&mut self, body: Body, options: &WriteOptions) -> Result<Written> {
        let at = self.touch_shared(&body.id)?;
        if self.staged[at].current().is_some() {
            return Err(Error::conflict());
        }
        self.put_draft(at, at, body, options)
    }

    /// Stages a new version of an item that [`find`](Self::find) has seen under another id, which
    /// must be free. The item keeps its ordinal.
    pub(crate) fn stage_renamed(
        &mut self,
        id: &str,
        body: Body,
        options: &WriteOptions,
    ) -> Result<Written> {
        let (from, to) = (self.touch(id)?, self.touch(&body.id)?);
        let held = self.staged[from].tuples().to_vec();
        self.claim(from, &[])?;
        match self.put_draft(to, from, body, options) {
            Ok(written) => {
                self.staged[from].now = Now::Removed;
                Ok(written)
            }
            Err(error) => {
                self.claim(from, &held)?;
                Err(error)
            }
        }
    }

    /// Makes `body` the version of now at one place, as the successor of the item at another.
    fn put_draft(
        &mut self,
        at: usize,
        successor_of: usize,
        mut body: Body,
        options: &WriteOptions,
    ) -> Result<Written> {
        self.check_writable()?;
        let indexed = !options.exclude_from_index;
        let ts = self.stamp.map_or(self.now, |(_, ts)| ts);
        let terms = self.terms_of_new(&body.value, ts, indexed)?;
        let tuples =
            unique::tuples(&body.value, &self.policy().unique_keys, self.container.secret());
        self.claim(at, &tuples)?;
        let docno = self.docno_of(successor_of)?;
        let stamp = self.stamp.take();
        let container = &self.container;
        let head = RecordHead {
            docno,
            ts,
            ttl: body.ttl,
            etag: stamp.map_or_else(|| container.core.ids.next_etag(), |(etag, _)| etag),
            id_at: body.id_at,
            indexed,
        };
        let rid = rid::encode(&rid::document(container.rid, head.docno));
        body.close(&rid, &container.docs_link, head.etag, head.ts);
        body.bytes[..HEADER_LENGTH].copy_from_slice(&record::header(&head));
        let size = body.bytes.len() - HEADER_LENGTH;
        let (size_before, charge) = self.price(successor_of, size, &terms);
        let replaced = self.replaced(successor_of);
        let text = match options.minimal {
            true => Bytes::new(),
            false => Bytes::copy_from_slice(&body.bytes[HEADER_LENGTH..]),
        };
        self.staged[at].now =
            Now::Draft(Draft { head, bytes: body.bytes, value: body.value, terms, tuples });
        Ok(Written {
            created: size_before.is_none(),
            text,
            etag: Some(head.etag),
            charge,
            id: body.id,
            docno: head.docno,
            size_before: size_before.unwrap_or_default(),
            replaced,
        })
    }

    fn terms_of_new(&mut self, item: &Value, ts: u32, indexed: bool) -> Result<ItemTerms> {
        let (paths, policy) = (&self.container.paths, &self.settings.policy);
        let terms = match self.container.view() {
            // Its source was allowed to have these paths; refused, the view would stop for good.
            Some(_) => indexing::terms_of(item, ts, indexed, policy, paths),
            None => {
                let numbers = (paths, &mut self.path_memo);
                indexing::terms_of_new(item, ts, indexed, policy, numbers)
            }
        };
        if !terms.lacks_paths {
            return Ok(terms);
        }
        Err(Error::bad_request(format!(
            "The items of this container have {} different property paths, and the index takes no \
             more. Exclude paths from its indexing policy, or write what changes from item to item \
             as values and not as names.",
            paths.len()
        )))
    }

    /// Stages the removal of an item that [`find`](Self::find) has seen.
    pub(crate) fn stage_removal(&mut self, id: &str) -> Result<RequestCharge> {
        self.check_writable()?;
        let at = self.touch(id)?;
        self.claim(at, &[])?;
        let rates = self.container.rates();
        let staged = &mut self.staged[at];
        let charge = match (&staged.now, &staged.before) {
            (Now::Draft(draft), _) => {
                let size = draft.bytes.len() - HEADER_LENGTH;
                rates.write(size) + rates.terms(draft.terms.charged())
            }
            (Now::AsBefore, Some(before)) => {
                rates.write(before.record.size()) + rates.terms(before.weights.charged())
            }
            (Now::AsBefore, None) | (Now::Removed, _) => rates.failure,
        };
        staged.now = Now::Removed;
        Ok(charge)
    }

    /// The place of an item in the change set; an untouched item enters as it is in the store.
    fn touch(&mut self, id: &str) -> Result<usize> {
        match self.touched.find(id) {
            Some(at) => Ok(at),
            None => self.touch_first(id.into()),
        }
    }

    /// The same with an id that is in memory of its own already.
    fn touch_shared(&mut self, id: &Arc<str>) -> Result<usize> {
        match self.touched.find(id) {
            Some(at) => Ok(at),
            None => self.touch_first(id.clone()),
        }
    }

    fn touch_first(&mut self, id: Arc<str>) -> Result<usize> {
        let mut slot = self.locate(&id)?;
        // Two new items of one transaction whose hashes clash take places one after the other.
        while slot.record.is_none() && self.touched.has_place((slot.key.hash, slot.key.probe)) {
            slot.key.probe = slot.key.probe.checked_add(1).ok_or_else(|| {
                Error::Internal("too many items with the same hash of their id".to_owned())
            })?;
        }
        if let Some(record) = &slot.record {
            self.spend_loading(record.size())?;
        }
        let before = slot.record.map(|record| self.load(record)).transpose()?;
        let at = self.touched.add(id, (slot.key.hash, slot.key.probe));
        self.staged.push(Staged { key: slot.key, before, now: Now::AsBefore });
        Ok(at)
    }

    fn spend_loading(&mut self, bytes: usize) -> Result<()> {
        let Some(left) = &mut self.loading_left else { return Ok(()) };
        match left.checked_sub(bytes) {
            Some(rest) => *left = rest,
            None => {
                self.is_heavy = true;
                let refusal = "the stored item is too large for this thread";
                return Err(Error::Internal(refusal.to_owned()));
            }
        }
        Ok(())
    }

    fn load(&self, record: Record) -> Result<Before> {
        let value = parse_stored(&record.text())?;
        let policy = self.policy();
        let tuples = unique::tuples(&value, &policy.unique_keys, self.container.secret());
        let weights = indexing::weights_of(
            &value,
            record.ts(),
            record.is_indexed(),
            policy,
            &self.container.paths,
        );
        let visible = self.is_alive(&record);
        Ok(Before { record, tuples, weights, visible })
    }

    fn docno_of(&self, at: usize) -> Result<u64> {
        let kept = match &self.staged[at].now {
            Now::Draft(draft) => Some(draft.head.docno),
            Now::AsBefore => self.staged[at].visible().map(|before| before.record.docno()),
            Now::Removed => None,
        };
        kept.map_or_else(|| self.container.next_docno(&self.epk), Ok)
    }

    /// The stored text that a write takes the place of.
    fn replaced(&self, at: usize) -> Option<Bytes> {
        let staged = &self.staged[at];
        let is_stored = matches!(staged.now, Now::AsBefore);
        staged.visible().filter(|_| is_stored).map(|before| before.record.text())
    }

    /// The size of what the write replaces, if anything, and its charge.
    fn price(&self, at: usize, size: usize, terms: &ItemTerms) -> (Option<usize>, RequestCharge) {
        let rates = self.container.rates();
        let staged = &self.staged[at];
        let previous = match &staged.now {
            Now::Draft(draft) => Some((draft.bytes.len() - HEADER_LENGTH, &draft.terms)),
            Now::AsBefore => staged.visible().map(|before| (before.record.size(), &before.weights)),
            Now::Removed => None,
        };
        match previous {
            None => (None, rates.write(size) + rates.terms(terms.charged())),
            Some((before_size, before)) => {
                let changed = rates.terms(before.charged_difference(terms));
                (Some(before_size), rates.replace(before_size, size) + changed)
            }
        }
    }
}

impl Staged {
    /// The item as its transaction sees it.
    fn current(&self) -> Option<Current<'_>> {
        match &self.now {
            Now::Draft(draft) => Some(Current::Staged(StagedItem(draft))),
            Now::Removed => None,
            Now::AsBefore => self.visible().map(|before| Current::Stored(before.record.clone())),
        }
    }

    fn draft(&self) -> Option<&Draft> {
        match &self.now {
            Now::Draft(draft) => Some(draft),
            Now::AsBefore | Now::Removed => None,
        }
    }

    /// What readers saw of it when the transaction began.
    fn visible(&self) -> Option<&Before> {
        self.before.as_ref().filter(|before| before.visible)
    }

    fn is_changed(&self) -> bool {
        match self.now {
            Now::AsBefore => false,
            Now::Draft(_) => true,
            Now::Removed => self.before.is_some(),
        }
    }

    /// The unique keys it has.
    fn tuples(&self) -> &[[u8; 16]] {
        match (&self.now, &self.before) {
            (Now::Draft(draft), _) => &draft.tuples,
            (Now::AsBefore, Some(before)) => &before.tuples,
            (Now::AsBefore, None) | (Now::Removed, _) => &[],
        }
    }
}

/// Parses a stored text, which was checked when it was written.
pub(crate) fn parse_stored(text: &[u8]) -> Result<Value> {
    armilla_model::json::parse(text)
        .map_err(|error| Error::Internal(format!("a stored item is not JSON: {error}")))
}
