//! Committing: the final state of each touched item becomes keys, values and index changes.
//!
//! Everything here runs under the partition's sequencer, which gives the LSN, so it only copies:
//! checks, texts and terms were made when the changes were staged.

use super::{Before, Committed, Draft, MANY_ITEMS, Now, Owner, Staged, Txn};
use crate::container::{Container, Settings};
use crate::feed_entry::{FeedEntry, FeedOperation, Origin};
use crate::indexing;
use crate::keys::{self, ItemKey, LogPosition};
use crate::limits::DOCNO_BLOCK;
use crate::locks::PartitionLock;
use crate::ordinals::Marks;
use crate::partition::{Partition, Sequencer};
use crate::paths::PathsInUse;
use crate::ranked::RankedGuard;
use crate::record::{self, HEADER_LENGTH, Record, RecordHead};
use crate::versions::VersionEntry;
use armilla_model::clock::monotonic;
use armilla_model::error::{Error, Result};
use armilla_model::lsn::Lsn;
use armilla_model::partition_key::Epk;
use armilla_model::policy::ContainerPolicy;
use armilla_model::ttl;
use armilla_storage::{Batch, Completion, Keyspace, Snapshot, Submission};
use std::collections::{HashMap, HashSet};
use std::mem::take;
use std::sync::Arc;
use std::time::Instant;

impl Txn {
    /// Commits the change set as one transaction. The callback runs when it is durable and visible;
    /// a transaction that changed nothing answers at once.
    pub fn commit(self, done: impl FnOnce(Result<Committed>) + Send + 'static) {
        self.commit_by(CommitThread::Own, done);
    }

    /// The same on this thread, if nobody else has been writing for a while: the callback has run when this returns. Other writers are
    /// not waited for, but the disk is, or the ledger: not for a network thread.
    pub fn commit_here(self, done: impl FnOnce(Result<Committed>) + Send + 'static) {
        let is_lone = self.container.core.committer.is_lone();
        self.commit_by(if is_lone { CommitThread::Caller } else { CommitThread::Own }, done);
    }

    /// The same on a network thread, which waits for a quick disk and for no other machine.
    pub fn commit_here_at_disk(self, done: impl FnOnce(Result<Committed>) + Send + 'static) {
        let is_lone = self.is_lone_at_disk();
        self.commit_by(if is_lone { CommitThread::Caller } else { CommitThread::Own }, done);
    }

    /// Whether nobody else has been writing for a while, so that [`commit_here_at_disk`](Self::commit_here_at_disk) commits on the
    /// thread that calls it.
    pub fn is_lone_at_disk(&self) -> bool {
        self.container.core.committer.is_lone_at_disk()
    }

    fn commit_by(
        self,
        thread: CommitThread,
        done: impl FnOnce(Result<Committed>) + Send + 'static,
    ) {
        let mut partition = self.container.partition_of(&self.epk);
        if self.is_clean() {
            let (lsn, partition) = (partition.lsn(), partition.range.id);
            drop(self);
            return done(Ok(Committed { lsn, partition }));
        }
        if let Err(error) = self.container.check_alive() {
            drop(self);
            return done(Err(error));
        }
        let room = self.container.check_whole(&partition).and_then(|()| {
            if self.container.view().is_some() {
                // Its source was allowed to hold this; refused, the view would stop for good.
                return Ok(());
            }
            let growth = growth(&self.staged);
            self.container.take_room(&partition, &self.epk, &*self.snapshot, growth)
        });
        if let Err(error) = room {
            drop(self);
            return done(Err(error));
        }
        // A partition that was split or merged takes no more writes: its children do.
        loop {
            let sequencer = partition.sequence();
            let is_own = self.origin.number != 0 || self.expiring;
            if let Err(error) = self.container.check_fence(is_own) {
                drop(sequencer);
                drop(self);
                return done(Err(error));
            }
            if !sequencer.closed {
                return self.sequence(&partition, sequencer, thread, done);
            }
            drop(sequencer);
            partition = self.container.partition_of(&self.epk);
        }
    }

    /// Gives the transaction its LSN and queues it, under the sequencer of its partition.
    fn sequence(
        mut self,
        partition: &Arc<Partition>,
        mut sequencer: RankedGuard<'_, Sequencer>,
        thread: CommitThread,
        done: impl FnOnce(Result<Committed>) + Send + 'static,
    ) {
        let (mut staged, unique) = (take(&mut self.staged), take(&mut self.unique));
        let notes = take(&mut self.notes);
        // Under the sequencer the serving index stays the same. While a new one is built for the
        // settings of now, the old one still wants its own terms.
        let serving = partition.view();
        if !serving.definition.serves(&self.settings.policy) {
            remake_terms(&mut staged, &serving.definition.policy, &self.container);
        }
        let mut writer = CommitWriter::new(&self, partition, &sequencer, &staged);
        let written = writer.write(staged, unique, &self.epk).and_then(|()| writer.check_size());
        if let Err(error) = written {
            drop(sequencer);
            drop(self.lock);
            return done(Err(error));
        }
        for (key, value) in notes {
            writer.batch.put(Keyspace::Meta, key, value);
        }
        writer.reserve_docno(&mut sequencer);
        let container = &self.container;
        let saving = container.paths.save(container.number, &mut writer.batch);
        let CommitWriter { batch, lsn, second, changes, counted, .. } = writer;
        sequencer.advance(lsn, second);
        let completion = TxnCompletion {
            container: container.clone(),
            partition: partition.clone(),
            changes,
            counted,
            lsn,
            lock: Some(self.lock),
            _paths: self.paths,
            done: Some(Box::new(done)),
            queued: monotonic(),
        };
        // Queued under the sequencer: the queue has each partition's batches in LSN order.
        let core = Arc::clone(&container.core);
        let submission = Submission { batch, completion: Box::new(completion) };
        let queued = core.committer.submit_here(submission);
        drop(saving);
        drop(sequencer);
        match thread {
            CommitThread::Own => drop(queued),
            CommitThread::Caller => queued.commit(),
        }
    }
}

/// Which thread commits.
#[derive(Clone, Copy)]
enum CommitThread {
    /// The committer's own.
    Own,
    /// The one that writes.
    Caller,
}

/// Up to so many bytes, on the average, items of a transaction share the memory in which they go to the store.
const SHARED_TEXT_MAX: usize = 4096;

/// By how many bytes of texts the transaction makes its logical partition grow.
fn growth(staged: &[Staged]) -> i64 {
    let changed = staged.iter().filter(|staged| staged.is_changed());
    let growth = changed.map(|staged| {
        let before = staged.before.as_ref().map_or(0, |before| before.record.size());
        let after = staged.draft().map_or(0, |draft| draft.bytes.len() - HEADER_LENGTH);
        after as i64 - before as i64
    });
    growth.sum()
}

/// Items whose new version is at another place than the old one, because their id changed.
fn moved(staged: &[Staged]) -> HashMap<u64, Lsn> {
    let stays = |staged: &Staged, docno| {
        staged.draft().is_some_and(|draft| draft.head.docno == docno) || !staged.is_changed()
    };
    let mut left: HashMap<u64, Lsn> = HashMap::new();
    for item in staged {
        if let Some(Before { record, .. }) = &item.before
            && !stays(item, record.docno())
        {
            left.insert(record.docno(), record.lsn());
        }
    }
    if !left.is_empty() {
        let drafts = staged.iter().filter_map(Staged::draft);
        let arrived: HashSet<_> = drafts.map(|draft| draft.head.docno).collect();
        left.retain(|docno, _| arrived.contains(docno));
    }
    left
}

/// Makes the terms of drafts again that were staged under a policy that has changed since.
fn remake_terms(staged: &mut [Staged], policy: &ContainerPolicy, container: &Container) {
    for staged in staged {
        let Now::Draft(draft) = &mut staged.now else { continue };
        let RecordHead { ts, indexed, .. } = draft.head;
        draft.terms = indexing::terms_of(&draft.value, ts, indexed, policy, &container.paths);
    }
}

/// A change to the index, applied when its transaction is durable.
pub struct IndexChange {
    /// The version that is gone.
    pub removed: Option<(u64, Lsn)>,
    /// The version that is new, with its terms.
    pub added: Option<(armilla_index::Document, armilla_index::Terms)>,
    /// The logical partition.
    pub epk: Epk,
}

/// Turns the final state of each touched item into keys and values.
struct CommitWriter<'c> {
    container: &'c Container,
    settings: &'c Settings,
    partition: &'c Partition,
    snapshot: &'c dyn Snapshot,
    batch: Batch,
    lsn: Lsn,
    second: u32,
    origin: Origin,
    expiring: bool,
    sequence: u32,
    /// Entries in the log of all versions, where the container keeps one.
    versions: Option<u32>,
    /// Items that change their place, with the version that goes.
    moved: HashMap<u64, Lsn>,
    changes: Vec<IndexChange>,
    /// The highest ordinals of items that were not there before.
    created: Marks,
    counted: (i64, i64),
    /// Where keys and entries are written before they are copied into memory that the items of the transaction share, if they are many.
    scratch: Option<(Vec<u8>, Vec<u8>)>,
}

impl<'c> CommitWriter<'c> {
    /// Writes a transaction as the next one of its partition.
    fn new(
        txn: &'c Txn,
        partition: &'c Partition,
        sequencer: &Sequencer,
        staged: &[Staged],
    ) -> Self {
        let keeps_versions = txn.container.settings().policy.retention_minutes > 0;
        let mut batch = Batch::with_capacity(staged.len() * 3);
        let texts = staged.iter().filter_map(Staged::draft).map(|draft| draft.bytes.len());
        let (items, texts) = (staged.len(), texts.sum::<usize>());
        // Large texts are handed over as they are, not copied once more.
        let is_many = items >= MANY_ITEMS && texts <= items * SHARED_TEXT_MAX;
        if is_many {
            batch.share(Keyspace::Items, texts + items * keys::item_length(&txn.epk));
            let entry = keys::LOG_KEY_LENGTH + FeedEntry::length(&txn.epk);
            batch.share(Keyspace::Feed, items * entry);
        }
        Self {
            container: &txn.container,
            settings: &txn.settings,
            partition,
            snapshot: &*txn.snapshot,
            batch,
            lsn: sequencer.last.next(),
            second: sequencer.second.max(txn.now),
            origin: txn.origin,
            expiring: txn.expiring,
            sequence: 0,
            versions: keeps_versions.then_some(0),
            moved: moved(staged),
            changes: Vec::with_capacity(staged.len()),
            created: Marks::default(),
            counted: (0, 0),
            scratch: is_many.then(Default::default),
        }
    }

    /// Writes the items, and who owns which unique keys now.
    fn write(
        &mut self,
        staged: Vec<Staged>,
        unique: HashMap<Vec<u8>, Option<Owner>>,
        epk: &Epk,
    ) -> Result<()> {
        for staged in staged {
            self.item(staged, epk)?;
        }
        for (key, owner) in unique {
            match owner {
                Some((hash, probe)) => {
                    let value = [&hash.to_be_bytes()[..], &[probe]].concat();
                    self.batch.put(Keyspace::Unique, key, value);
                }
                None => self.batch.delete(Keyspace::Unique, key),
            }
        }
        Ok(())
    }

    /// Refuses what the store cannot commit whole.
    fn check_size(&self) -> Result<()> {
        if self.container.core.store.takes(&self.batch) {
            return Ok(());
        }
        Err(Error::TooLarge(
            "One transaction cannot change so much where the account lies in a database. Delete the items of the logical partition in \
             several requests, for example those of a query, and then what is left."
                .to_owned(),
        ))
    }

    fn item(&mut self, staged: Staged, epk: &Epk) -> Result<()> {
        if !staged.is_changed() {
            return Ok(());
        }
        let Staged { key, before, now } = staged;
        if self.versions.is_some() {
            self.log_versions(epk, before.as_ref(), &now);
        }
        if let Some(before) = &before {
            self.forget(&key, &before.record);
        }
        let version = before.as_ref().map(|before| (before.record.docno(), before.record.lsn()));
        let removed = version.filter(|(docno, _)| !self.moved.contains_key(docno));
        match now {
            Now::Draft(draft) => {
                let docno = draft.head.docno;
                let stays = before.is_some_and(|before| before.visible)
                    && version.is_some_and(|(before, _)| before == docno);
                let arrives = self.moved.get(&docno).map(|&lsn| (docno, lsn));
                let place = key.clone();
                let added = Some(self.put(key, draft, !stays && arrives.is_none()));
                if let Some((gone, _)) = removed.filter(|(gone, _)| *gone != docno) {
                    self.log_removal(place, gone);
                }
                if arrives.is_some() && removed.is_some() {
                    self.changes.push(IndexChange { removed, added: None, epk: epk.clone() });
                }
                let removed = arrives.or(removed);
                self.changes.push(IndexChange { removed, added, epk: epk.clone() });
            }
            Now::Removed | Now::AsBefore => {
                self.remove(key, removed.map(|(docno, _)| docno))?;
                self.changes.push(IndexChange { removed, added: None, epk: epk.clone() });
            }
        }
        Ok(())
    }

    /// Logs what happens to an item with its texts: the end of what was there, if it ends, and what
    /// is there now.
    fn log_versions(&mut self, epk: &Epk, before: Option<&Before>, now: &Now) {
        let docno = match now {
            Now::Draft(draft) => Some(draft.head.docno),
            Now::Removed | Now::AsBefore => None,
        };
        let goes_on = |before: &&Before| before.visible && docno == Some(before.record.docno());
        let moves = |before: &&Before| self.moved.contains_key(&before.record.docno());
        if let Some(before) = before.filter(|before| !goes_on(before) && !moves(before)) {
            let expired = self.expiring || !before.visible;
            let operation = if expired { FeedOperation::Expire } else { FeedOperation::Delete };
            self.log_version(operation, epk, &[], Some(&before.record), before.record.lsn());
        }
        if let Now::Draft(draft) = now {
            let previous = before.filter(goes_on).map(|before| &before.record);
            let moved_from = self.moved.get(&draft.head.docno).copied();
            let previous_lsn = previous.map(Record::lsn).or(moved_from).unwrap_or_default();
            let created = previous.is_none() && moved_from.is_none();
            let operation = if created { FeedOperation::Create } else { FeedOperation::Replace };
            self.log_version(operation, epk, &draft.bytes[HEADER_LENGTH..], previous, previous_lsn);
        }
    }

    fn log_version(
        &mut self,
        operation: FeedOperation,
        epk: &Epk,
        current: &[u8],
        previous: Option<&Record>,
        previous_lsn: Lsn,
    ) {
        let Some(sequence) = &mut self.versions else { return };
        let position = LogPosition {
            partition: self.partition.range.id,
            lsn: self.lsn,
            sequence: std::mem::replace(sequence, *sequence + 1),
        };
        let (second, origin) = (self.second, self.origin);
        let entry =
            VersionEntry { operation, second, origin, epk, previous_lsn, current, previous };
        let key = keys::log(self.container.number, position);
        self.batch.put(Keyspace::Versions, key, entry.encode());
    }

    /// Removes what points at the version in the store.
    fn forget(&mut self, key: &ItemKey, record: &Record) {
        let number = self.container.number;
        let position = LogPosition {
            partition: record.partition(),
            lsn: record.lsn(),
            sequence: record.sequence(),
        };
        self.batch.delete(Keyspace::Feed, keys::log(number, position));
        if let Some(second) = ttl::own_second(record.ts(), record.ttl()) {
            let definition = &self.settings.policy.partition_key;
            self.batch.delete(Keyspace::Expiry, keys::expiry(second, number, definition, key));
        }
        self.counted.0 -= 1;
        self.counted.1 -= record.size() as i64;
    }

    fn put(
        &mut self,
        key: ItemKey,
        mut draft: Draft,
        created: bool,
    ) -> (armilla_index::Document, armilla_index::Terms) {
        let number = self.container.number;
        let definition = &self.settings.policy.partition_key;
        let sequence = self.next_sequence();
        record::set_position(&mut draft.bytes, self.lsn, sequence, self.partition.range.id);
        self.counted.0 += 1;
        self.counted.1 += (draft.bytes.len() - HEADER_LENGTH) as i64;
        if created {
            self.created.raise(draft.head.docno);
        }
        if let Some(second) = ttl::own_second(draft.head.ts, draft.head.ttl) {
            let expiry = keys::expiry(second, number, definition, &key);
            self.batch.put(Keyspace::Expiry, expiry, Vec::new());
        }
        let operation = if created { FeedOperation::Create } else { FeedOperation::Replace };
        let entry = self.entry(key.clone(), operation, draft.head.docno);
        let position = self.position(sequence);
        match &mut self.scratch {
            None => self.batch.put(Keyspace::Feed, keys::log(number, position), entry.encode()),
            Some((place, value)) => {
                *place = keys::log_in(take(place), number, position);
                *value = entry.encode_in(take(value));
                self.batch.put_shared(Keyspace::Feed, place, value);
            }
        }
        let document = armilla_index::Document {
            epk: key.epk.as_bytes().to_vec(),
            docno: draft.head.docno,
            lsn: self.lsn.0,
            hash: key.hash,
            ts: draft.head.ts,
            ttl: draft.head.ttl,
            size: u32::try_from(draft.bytes.len() - HEADER_LENGTH).unwrap_or(u32::MAX),
        };
        match &mut self.scratch {
            None => {
                // Without room to spare the store takes the bytes over as they are.
                draft.bytes.shrink_to_fit();
                self.batch.put(Keyspace::Items, keys::item(number, definition, &key), draft.bytes);
            }
            Some((place, _)) => {
                *place = keys::item_in(take(place), number, definition, &key);
                self.batch.put_shared(Keyspace::Items, place, &draft.bytes);
            }
        }
        (document, draft.terms.terms)
    }

    /// Frees a place. An item that is gone, and not merely somewhere else, is logged.
    fn remove(&mut self, key: ItemKey, gone: Option<u64>) -> Result<()> {
        let number = self.container.number;
        let definition = &self.settings.policy.partition_key;
        let place = keys::item(number, definition, &key);
        let behind = ItemKey { probe: key.probe.saturating_add(1), ..key.clone() };
        let chain_goes_on = self.container.get_any(self.snapshot, &behind)?.is_some();
        if chain_goes_on {
            self.batch.put(Keyspace::Items, place, record::tombstone());
        } else {
            self.batch.delete(Keyspace::Items, place);
        }
        if let Some(docno) = gone {
            self.log_removal(key, docno);
        }
        Ok(())
    }

    /// Notes that an ordinal is gone for ever: without this an index that is brought up to date from
    /// the logs would keep it.
    fn log_removal(&mut self, key: ItemKey, docno: u64) {
        let sequence = self.next_sequence();
        let operation = if self.expiring { FeedOperation::Expire } else { FeedOperation::Delete };
        let entry = self.entry(key, operation, docno);
        let position = keys::log(self.container.number, self.position(sequence));
        self.batch.put(Keyspace::Gone, position, entry.encode());
    }

    fn entry(&self, item: ItemKey, operation: FeedOperation, docno: u64) -> FeedEntry {
        FeedEntry { item, operation, second: self.second, origin: self.origin, docno }
    }

    fn position(&self, sequence: u32) -> LogPosition {
        LogPosition { partition: self.partition.range.id, lsn: self.lsn, sequence }
    }

    fn next_sequence(&mut self) -> u32 {
        let sequence = self.sequence;
        self.sequence += 1;
        sequence
    }

    /// Reserves ordinals ahead, so that none is given out twice after a crash. Each partition keeps
    /// its own mark, because only inside a partition is there an order of batches.
    fn reserve_docno(&mut self, sequencer: &mut Sequencer) {
        let missing = |docno: &u64| !sequencer.reserved.covers(*docno);
        let missing: Vec<u64> = self.created.iter().filter(missing).collect();
        if missing.is_empty() {
            return;
        }
        for docno in missing {
            sequencer.reserved.raise(docno + DOCNO_BLOCK);
        }
        let key = keys::meta(
            keys::Meta::DocumentNumber,
            &[self.container.number, self.partition.range.id],
        );
        self.batch.put(Keyspace::Meta, key, sequencer.reserved.encode());
    }
}

struct TxnCompletion {
    container: Arc<Container>,
    partition: Arc<Partition>,
    changes: Vec<IndexChange>,
    counted: (i64, i64),
    lsn: Lsn,
    lock: Option<PartitionLock>,
    /// Until the terms of the changes are seen by everybody.
    _paths: PathsInUse,
    done: Option<Box<dyn FnOnce(Result<Committed>) + Send>>,
    queued: Instant,
}

impl Completion for TxnCompletion {
    fn apply(&mut self, _group: u64) {
        self.partition.count(self.counted.0, self.counted.1);
        self.partition.apply(std::mem::take(&mut self.changes), self.lsn);
        self.partition.set_visible(self.lsn);
        self.container.core.mark_dirty(&self.partition);
    }

    fn notify(mut self: Box<Self>) {
        // The lock goes first: whoever hears of this commit may write again at once.
        drop(self.lock.take());
        self.container.wake_followers();
        if let Some(observer) = self.container.core.observed.get() {
            observer.committed(self.queued.elapsed());
        }
        if let Some(done) = self.done.take() {
            done(Ok(Committed { lsn: self.lsn, partition: self.partition.range.id }));
        }
    }
}
