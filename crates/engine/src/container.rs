//! A container: its settings, its physical partitions, its scripts, and the way from a key to an
//! item.

use crate::core::Core;
use crate::dials::{Dials, Turned};
use crate::generation::IndexDefinition;
use crate::indexing::PathDictionary;
use crate::keys::{self, ItemKey};
use crate::limits::ITEM_PROBES_MAX;
use crate::locks::PartitionLock;
use crate::offers::MANUAL_MIN;
use crate::partition::Partition;
use crate::partition_sizes::LogicalSizes;
use crate::ranges::{EpkSpan, Range};
use crate::ranked::{Rank, RankedGuard, RankedLock};
use crate::record::Record;
use crate::scripts::{Kind, Script, Scripts};
use crate::throttle::{Budget, Recent};
use arc_swap::ArcSwap;
use armilla_model::charge::Rates;
use armilla_model::error::{Error, Result};
use armilla_model::etag::ETag;
use armilla_model::partition_key::{Definition, Epk};
use armilla_model::policy::ContainerPolicy;
use armilla_model::rid;
use armilla_model::session_token::SessionToken;
use armilla_model::tally::{self, Work};
use armilla_storage::{Keyspace, Snapshot};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};

/// A container.
pub struct Container {
    pub(crate) core: Arc<Core>,
    /// Number in keys, never used again.
    pub number: u32,
    /// Its database's number.
    pub database: u32,
    /// Binary resource id.
    pub rid: [u8; 8],
    /// The resource id as text.
    pub rid_text: Arc<str>,
    /// `dbs/…/colls/…/`.
    pub self_link: Arc<str>,
    /// `dbs/…/colls/…/docs/`, the beginning of every item's `_self`.
    pub(crate) docs_link: Arc<str>,
    /// Indexed paths and their numbers.
    pub paths: PathDictionary,
    pub(crate) scripts: ArcSwap<Scripts>,
    pub(crate) sizes: LogicalSizes,
    settings: ArcSwap<Settings>,
    /// How keys are hashed, which no change of the settings touches.
    key_definition: Definition,
    partitions: ArcSwap<Vec<Arc<Partition>>>,
    dials: ArcSwap<Dials>,
    budget: ArcSwap<Budget>,
    pub(crate) recent_scripts: Recent,
    turned: RankedLock<Turned>,
    secret: (u64, u64),
    // Held while the definition or the ranges are replaced, and while indexes are switched.
    replacing: RankedLock<()>,
    // Held by whoever splits or merges: a plan is made of the partitions as they are.
    reshaping: RankedLock<()>,
    progress: AtomicU8,
    removals_kept: AtomicUsize,
    docno: AtomicU64,
    // Milliseconds; 0 when no split is waiting.
    split_due: AtomicU64,
    dropped: AtomicBool,
}

/// What replacing a container changes.
#[derive(Debug)]
pub struct Settings {
    /// Name of the database.
    pub database: Arc<str>,
    /// Name of the container.
    pub name: Arc<str>,
    /// `dbs/{name}/colls/{name}`.
    pub alt_link: Arc<str>,
    /// Its policies.
    pub policy: ContainerPolicy,
    /// Version of the definition.
    pub etag: ETag,
    /// Second of the last change.
    pub ts: u64,
    /// Counts changes of the definition; names the index that was built for it
    /// ([`IndexDefinition`](crate::generation::IndexDefinition)).
    pub generation: u64,
}

/// The place of an id: the record if it is there, and the key where it is or would be.
pub(crate) struct Slot {
    /// Where.
    pub key: ItemKey,
    /// What.
    pub record: Option<Record>,
}

/// While this lives, no removal is forgotten.
pub(crate) struct RemovalsKept(Arc<Container>);

impl Drop for RemovalsKept {
    fn drop(&mut self) {
        self.0.removals_kept.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Container {
    /// Puts a container together from what the catalog knows of it.
    pub(crate) fn new(
        core: Arc<Core>,
        (database, number): (u32, u32),
        secret: (u64, u64),
        settings: Settings,
        paths: PathDictionary,
        partitions: Vec<Arc<Partition>>,
        docno: u64,
    ) -> Self {
        let rid = rid::container(database, number);
        let rid_text: Arc<str> = rid::encode(&rid).into();
        let self_link = format!("dbs/{}/colls/{rid_text}/", rid::encode(&rid::database(database)));
        Self {
            dials: ArcSwap::new(core.dials.load_full()),
            turned: RankedLock::new(Rank::Dials, Turned::default()),
            budget: ArcSwap::from_pointee(Budget::new(MANUAL_MIN, false)),
            recent_scripts: Recent::default(),
            core,
            number,
            database,
            rid,
            rid_text,
            docs_link: format!("{self_link}docs/").into(),
            self_link: self_link.into(),
            paths,
            scripts: ArcSwap::default(),
            sizes: LogicalSizes::default(),
            key_definition: settings.policy.partition_key.clone(),
            settings: ArcSwap::from_pointee(settings),
            partitions: ArcSwap::from_pointee(partitions),
            secret,
            replacing: RankedLock::new(Rank::Replacing, ()),
            reshaping: RankedLock::new(Rank::Reshaping, ()),
            progress: AtomicU8::new(100),
            removals_kept: AtomicUsize::new(0),
            docno: AtomicU64::new(docno),
            split_due: AtomicU64::new(0),
            dropped: AtomicBool::new(false),
        }
    }

    /// `dbs/{name}/colls/{name}`.
    pub fn alt_link(&self) -> Arc<str> {
        self.settings.load().alt_link.clone()
    }

    /// The settings of now.
    pub fn settings(&self) -> Arc<Settings> {
        tally::count(Work::SettingsLoad);
        self.settings.load_full()
    }

    /// How partition keys are checked and hashed.
    pub fn key_definition(&self) -> &Definition {
        &self.key_definition
    }

    /// The dials of now.
    pub fn dials(&self) -> Arc<Dials> {
        self.dials.load_full()
    }

    /// The throughput that the container draws on.
    pub fn budget(&self) -> Arc<Budget> {
        self.budget.load_full()
    }

    pub(crate) fn set_budget(&self, budget: Arc<Budget>) {
        self.budget.store(budget);
    }

    /// What things cost in this container.
    pub fn rates(&self) -> Arc<Rates> {
        self.dials.load().profile.rates.clone()
    }

    /// The dials that were turned for this container.
    pub fn turned(&self) -> Turned {
        self.turned.lock().clone()
    }

    /// Takes up dials of this container, over those of the account.
    pub(crate) fn set_turned(&self, turned: Turned) {
        *self.turned.lock() = turned;
        self.adjust();
    }

    /// Takes up changed dials of the account.
    pub(crate) fn adjust(&self) {
        let turned = self.turned.lock();
        self.dials.store(Arc::new(self.core.dials.load().with(&turned)));
    }

    /// Keeps others from replacing the definition.
    pub(crate) fn replacing(&self) -> RankedGuard<'_, ()> {
        self.replacing.lock()
    }

    /// Keeps others from splitting and merging.
    pub(crate) fn reshaping(&self) -> RankedGuard<'_, ()> {
        self.reshaping.lock()
    }

    /// As [`replacing`](Self::replacing), if nobody else does.
    pub(crate) fn try_replacing(&self) -> Option<RankedGuard<'_, ()>> {
        self.replacing.try_lock()
    }

    pub(crate) fn set_settings(&self, settings: Settings) {
        self.settings.store(Arc::new(settings));
    }

    /// The physical partitions of now, in the order of their keys.
    pub fn partitions(&self) -> Arc<Vec<Arc<Partition>>> {
        self.partitions.load_full()
    }

    /// Puts other partitions in the place of some; they cover the same keys.
    pub(crate) fn set_partitions(&self, partitions: Vec<Arc<Partition>>) {
        self.partitions.store(Arc::new(partitions));
    }

    /// When the split that the container needs is to happen, in milliseconds.
    pub(crate) fn split_due(&self) -> Option<u64> {
        Some(self.split_due.load(Ordering::Relaxed)).filter(|due| *due != 0)
    }

    pub(crate) fn set_split_due(&self, due: Option<u64>) {
        self.split_due.store(due.unwrap_or(0), Ordering::Relaxed);
    }

    /// The partition that holds an effective key.
    pub fn partition_of(&self, epk: &Epk) -> Arc<Partition> {
        let partitions = self.partitions.load();
        let behind = partitions.partition_point(|partition| partition.range.min <= *epk);
        partitions[behind.saturating_sub(1)].clone()
    }

    /// The partition with this range id; 410 when there is none (any more).
    pub fn partition(&self, range: u32) -> Result<Arc<Partition>> {
        let partitions = self.partitions.load();
        let found = partitions.iter().find(|partition| partition.range.id == range);
        found.cloned().ok_or(Error::PartitionGone)
    }

    /// The partitions that a span touches, each with its part of the span.
    pub fn partitions_in(&self, span: &EpkSpan) -> Vec<(Arc<Partition>, EpkSpan)> {
        let part = |partition: &Arc<Partition>| {
            partition.range.overlap(span).map(|part| (partition.clone(), part))
        };
        self.partitions.load().iter().filter_map(part).collect()
    }

    /// Ranges for clients.
    pub fn ranges(&self) -> Vec<Range> {
        self.partitions.load().iter().map(|partition| partition.range.clone()).collect()
    }

    /// The session tokens of all ranges, joined.
    pub fn session_tokens(&self) -> String {
        let token = |partition: &Arc<Partition>| {
            SessionToken { range: partition.range.id, lsn: partition.lsn() }.to_string()
        };
        self.partitions.load().iter().map(token).collect::<Vec<_>>().join(",")
    }

    /// Refuses a client that has seen a later state of the partition than this server has.
    pub fn check_session(&self, tokens: &[SessionToken], partition: &Partition) -> Result<()> {
        let range = &partition.range;
        let concerns =
            |token: &&SessionToken| token.range == range.id || range.parents.contains(&token.range);
        let ahead = |token: &SessionToken| token.range == range.id && token.lsn > partition.lsn();
        if tokens.iter().filter(concerns).any(ahead) {
            Err(Error::SessionNotAvailable)
        } else {
            Ok(())
        }
    }

    /// Takes the lock of a logical partition, if nobody has it.
    pub fn try_lock(&self, epk: &Epk) -> Option<PartitionLock> {
        self.core.locks.try_lock(self.number, epk)
    }

    /// Hands the lock of a logical partition to the callback when it is this caller's turn. What
    /// the callback returns, because its client has gone, is handed on.
    ///
    /// # Errors
    ///
    /// When too many wait for this key already.
    pub fn lock(
        &self,
        epk: &Epk,
        granted: impl FnOnce(PartitionLock) -> Option<PartitionLock> + Send + 'static,
    ) -> Result<()> {
        self.core.locks.lock(self.number, epk, granted)
    }

    /// Takes the lock, waiting on this thread. For background work and tests.
    pub fn lock_and_wait(&self, epk: &Epk) -> PartitionLock {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        self.core.locks.lock_always(self.number, epk, move |lock| {
            sender.send(lock).err().map(|unsent| unsent.0)
        });
        receiver.recv().expect("the table hands every waiter its lock")
    }

    /// A new ordinal.
    pub(crate) fn next_docno(&self) -> u64 {
        self.docno.fetch_add(1, Ordering::Relaxed)
    }

    /// Keys of the hashes of this container.
    pub(crate) fn secret(&self) -> (u64, u64) {
        self.secret
    }

    /// The hash of an id.
    pub(crate) fn hash_of(&self, id: &str) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.secret.0, self.secret.1);
        hasher.write(id.as_bytes());
        hasher.finish()
    }

    /// Finds an id in a logical partition: nearly always one get.
    pub(crate) fn locate(&self, snapshot: &dyn Snapshot, epk: &Epk, id: &str) -> Result<Slot> {
        let mut quoted = Vec::with_capacity(id.len() + 2);
        armilla_model::json::write_string(id, &mut quoted);
        let mut key = ItemKey { epk: epk.clone(), hash: self.hash_of(id), probe: 0 };
        let mut free = None;
        for probe in 0..ITEM_PROBES_MAX {
            key.probe = probe;
            match self.get_any(snapshot, &key)? {
                None => return Ok(Slot { key: free.unwrap_or(key), record: None }),
                Some(record) if record.has_id(&quoted) => {
                    return Ok(Slot { key, record: Some(record) });
                }
                Some(record) if record.is_tombstone() => {
                    free.get_or_insert_with(|| key.clone());
                }
                Some(_) => {}
            }
        }
        Err(Error::Internal("too many items with the same hash of their id".to_owned()))
    }

    /// The item at a key, tombstones included.
    pub(crate) fn get_any(&self, snapshot: &dyn Snapshot, key: &ItemKey) -> Result<Option<Record>> {
        let place = keys::item(self.number, &self.key_definition, key);
        let read = snapshot.get(Keyspace::Items, &place);
        let record = read.and_then(|bytes| bytes.map(Record::new).transpose());
        record.map_err(|error| self.failed_at(&key.epk, error))
    }

    /// The item at a key.
    pub(crate) fn get(&self, snapshot: &dyn Snapshot, key: &ItemKey) -> Result<Option<Record>> {
        Ok(self.get_any(snapshot, key)?.filter(|record| !record.is_tombstone()))
    }

    /// The item with this ordinal, found by its hash as the index knows it.
    pub(crate) fn find_by_docno(
        &self,
        snapshot: &dyn Snapshot,
        epk: &Epk,
        hash: u64,
        docno: u64,
    ) -> Result<Option<Record>> {
        let mut key = ItemKey { epk: epk.clone(), hash, probe: 0 };
        for probe in 0..ITEM_PROBES_MAX {
            key.probe = probe;
            match self.get_any(snapshot, &key)? {
                None => return Ok(None),
                Some(record) if !record.is_tombstone() && record.docno() == docno => {
                    return Ok(Some(record));
                }
                Some(_) => {}
            }
        }
        Ok(None)
    }

    /// A script by name, or else by rid.
    pub fn script(&self, kind: Kind, segment: &str) -> Result<Arc<Script>> {
        let scripts = self.scripts.load();
        let of_kind = scripts.of(kind);
        let by_rid = || {
            let bytes = rid::decode(segment)?;
            let (container, number) = rid::split_child(&bytes, kind.child())?;
            let found = of_kind.values().find(|script| u64::from(script.number) == number);
            found.filter(|_| container == self.rid)
        };
        of_kind.get(segment).or_else(by_rid).cloned().ok_or_else(Error::not_found)
    }

    /// The scripts of now.
    pub fn scripts(&self) -> Arc<Scripts> {
        self.scripts.load_full()
    }

    /// What the serving indexes were built for.
    pub(crate) fn index_definition(&self) -> Arc<IndexDefinition> {
        self.partitions.load()[0].view().definition.clone()
    }

    /// How far a new index has come, in percent; 100 when none is being built.
    pub fn index_progress(&self) -> u8 {
        self.progress.load(Ordering::Relaxed)
    }

    pub(crate) fn set_index_progress(&self, percent: u8) {
        self.progress.store(percent.min(100), Ordering::Relaxed);
    }

    /// Waits until the indexes are those of the settings. For tests and tools.
    pub fn wait_for_index(&self) {
        while self.index_progress() < 100 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    /// Keeps removals in the logs for as long as the result lives: somebody reads them.
    pub(crate) fn keep_removals(self: &Arc<Self>) -> RemovalsKept {
        self.removals_kept.fetch_add(1, Ordering::SeqCst);
        RemovalsKept(self.clone())
    }

    /// True while somebody needs old removals.
    pub(crate) fn removals_are_kept(&self) -> bool {
        self.removals_kept.load(Ordering::SeqCst) > 0
    }

    /// Refuses work on a container that was deleted meanwhile.
    pub(crate) fn check_alive(&self) -> Result<()> {
        if self.dropped.load(Ordering::Acquire) { Err(Error::parent_not_found()) } else { Ok(()) }
    }

    pub(crate) fn mark_dropped(&self) {
        self.dropped.store(true, Ordering::Release);
    }

    /// Items in all partitions.
    pub fn document_count(&self) -> u64 {
        self.partitions.load().iter().map(|partition| partition.document_count()).sum()
    }

    /// Bytes of item texts in all partitions.
    pub fn size(&self) -> u64 {
        self.partitions.load().iter().map(|partition| partition.size()).sum()
    }
}
