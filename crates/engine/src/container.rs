//! A container: its settings, its physical partitions, its scripts, and the way from a key to an
//! item.

use crate::core::Core;
use crate::dials::{Dials, Turned};
use crate::generation::IndexDefinition;
use crate::indexing::PathDictionary;
use crate::keys::{self, ItemKey};
use crate::limits::{ITEM_PROBES_MAX, REKEY_GRACE, REKEY_RETRY};
use crate::locks::PartitionLock;
use crate::offers::MANUAL_MIN;
use crate::ordinals::{Marks, Ordinals};
use crate::partition::{Partition, PartitionMerge};
use crate::partition_sizes::LogicalSizes;
use crate::ranges::{EpkSpan, Range};
use crate::ranked::{Rank, RankedGuard, RankedLock};
use crate::record::Record;
use crate::scripts::{Kind, Script, Scripts};
use crate::subscriptions::Subscriptions;
use crate::throttle::{Budget, Recent};
use crate::views::ContainerView;
use arc_swap::{ArcSwap, ArcSwapOption};
use armilla_model::charge::{Rates, RequestCharge};
use armilla_model::error::{Error, Result};
use armilla_model::etag::ETag;
use armilla_model::partition_key::{Definition, Epk};
use armilla_model::policy::ContainerPolicy;
use armilla_model::rid;
use armilla_model::session_token::SessionToken;
use armilla_model::tally::{self, Work};
use armilla_storage::{Keyspace, Snapshot};
use parking_lot::Mutex;
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

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
    /// What makes it a view, set before anybody sees the container.
    pub(crate) view: OnceLock<Arc<ContainerView>>,
    /// The views that follow it; changed with the catalog.
    pub(crate) views: ArcSwap<Vec<Arc<Self>>>,
    /// The subscriptions to its feed; changed with the catalog.
    pub(crate) subscriptions: ArcSwap<Subscriptions>,
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
    ordinals: Ordinals,
    // Milliseconds; 0 when no split is waiting.
    split_due: AtomicU64,
    /// The merge that is under way, or the last one.
    pub(crate) merge: ArcSwapOption<PartitionMerge>,
    dropped: AtomicBool,
    // Clients are put off while another container takes this one's place.
    fenced: AtomicBool,
    /// The container that has taken this one's place.
    rekeyed: OnceLock<Rekeyed>,
}

/// Which container has taken another's place, and since when.
struct Rekeyed {
    into: Arc<str>,
    /// Its number, until the notes of where its copies lay are removed.
    noted: Mutex<Option<u32>>,
    /// Nothing when that was before the server was started.
    at: Option<Instant>,
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

/// What the catalog and the store know of a container when it is put together.
pub(crate) struct KnownContainer {
    /// Number of its database.
    pub database: u32,
    /// Its own number.
    pub number: u32,
    /// What its tokens and unique keys are hashed with.
    pub secret: (u64, u64),
    /// Its definition.
    pub settings: Settings,
    /// Paths that its index knows.
    pub paths: PathDictionary,
    /// One for each range.
    pub partitions: Vec<Arc<Partition>>,
    /// Which ordinals its partitions have reserved.
    pub reserved: Marks,
}

/// The place of an id: the record if it is there, and the key where it is or would be.
#[derive(Clone)]
pub(crate) struct Slot {
    /// Where.
    pub key: ItemKey,
    /// What.
    pub record: Option<Record>,
}

/// While this lives, clients are put off.
pub(crate) struct Fence(Arc<Container>);

impl Drop for Fence {
    fn drop(&mut self) {
        self.0.fenced.store(false, Ordering::SeqCst);
    }
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
    pub(crate) fn new(core: Arc<Core>, known: KnownContainer) -> Self {
        let KnownContainer { database, number, secret, settings, paths, partitions, reserved } =
            known;
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
            view: OnceLock::new(),
            views: ArcSwap::default(),
            subscriptions: ArcSwap::default(),
            key_definition: settings.policy.partition_key.clone(),
            settings: ArcSwap::from_pointee(settings),
            ordinals: Ordinals::behind(&reserved),
            partitions: ArcSwap::from_pointee(partitions),
            secret,
            replacing: RankedLock::new(Rank::Replacing, ()),
            reshaping: RankedLock::new(Rank::Reshaping, ()),
            progress: AtomicU8::new(100),
            removals_kept: AtomicUsize::new(0),
            split_due: AtomicU64::new(0),
            merge: ArcSwapOption::empty(),
            dropped: AtomicBool::new(false),
            fenced: AtomicBool::new(false),
            rekeyed: OnceLock::new(),
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

    /// What reading an item with a text of so many bytes costs.
    pub fn read_charge(&self, text_length: usize) -> RequestCharge {
        self.dials.load().profile.rates.read(text_length)
    }

    /// How many user functions, stored procedures and triggers there are.
    pub fn script_counts(&self) -> (usize, usize, usize) {
        let scripts = self.scripts.load();
        (scripts.functions.len(), scripts.procedures.len(), scripts.triggers.len())
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

    /// The merge that is under way, or else the last one since the start.
    pub fn merge(&self) -> Option<Arc<PartitionMerge>> {
        self.merge.load_full()
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

    /// True when this is a part of the container alone, and others have the rest.
    pub fn is_sliced(&self) -> bool {
        !self.core.slice.is_whole()
    }

    /// Refuses a key of another slice of the account.
    ///
    /// # Errors
    ///
    /// [`Error::InOtherSlice`].
    pub fn check_slice(&self, epk: &Epk) -> Result<()> {
        let slice = self.core.slice;
        if slice.is_whole() { Ok(()) } else { slice.check(&self.key_definition, epk) }
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

    /// The ordinal of a new item with this key.
    pub(crate) fn next_docno(&self, epk: &Epk) -> Result<u64> {
        self.ordinals.next(self.partition_of(epk).series)
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
        let mut quoted = Vec::new();
        let mut key = ItemKey { epk: epk.clone(), hash: self.hash_of(id), probe: 0 };
        let mut free = None;
        for probe in 0..ITEM_PROBES_MAX {
            key.probe = probe;
            let Some(record) = self.get_any(snapshot, &key)? else {
                return Ok(Slot { key: free.unwrap_or(key), record: None });
            };
            if quoted.is_empty() {
                armilla_model::json::write_string(id, &mut quoted);
            }
            if record.has_id(&quoted) {
                return Ok(Slot { key, record: Some(record) });
            }
            if record.is_tombstone() {
                free.get_or_insert_with(|| key.clone());
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
        if let Some(view) = self.view() {
            view.leave_queue();
        }
    }

    /// Puts clients off until the result is dropped. What the server itself writes, for subscriptions and for items that
    /// expire, goes on.
    pub(crate) fn fence(self: &Arc<Self>) -> Fence {
        self.fenced.store(true, Ordering::SeqCst);
        Fence(self.clone())
    }

    /// `_rid` of the container that has taken this one's place: it is read-only since.
    pub fn rekeyed_into(&self) -> Option<&Arc<str>> {
        self.rekeyed.get().map(|rekeyed| &rekeyed.into)
    }

    /// Another container has taken this one's place.
    pub(crate) fn set_rekeyed_into(&self, number: u32, at: Option<Instant>) {
        let into = rid::encode(&rid::container(self.database, number)).into();
        let _first = self.rekeyed.set(Rekeyed { into, noted: Mutex::new(Some(number)), at });
    }

    /// The number of the container that has taken this one's place, once: its notes are to be removed.
    pub(crate) fn take_rekey_notes(&self) -> Option<u32> {
        self.rekeyed.get().and_then(|rekeyed| rekeyed.noted.lock().take())
    }

    /// Refuses writes to a container whose place another one has taken. Who was on the way when it happened is put off, and
    /// finds the other one under the name.
    pub(crate) fn check_in_place(&self) -> Result<()> {
        let Some(Rekeyed { into, at, .. }) = self.rekeyed.get() else { return Ok(()) };
        if at.is_some_and(|at| at.elapsed() < REKEY_GRACE) {
            return Err(Error::Overloaded { retry_after: REKEY_RETRY });
        }
        Err(Error::Forbidden(format!(
            "This container was re-keyed and is read-only since: its items are in the container with the _rid {into}. Write there."
        )))
    }

    /// Asked under the sequencer: refuses what must not be committed any more, or not now.
    pub(crate) fn check_fence(&self, is_own: bool) -> Result<()> {
        self.check_in_place()?;
        if self.fenced.load(Ordering::SeqCst) && !is_own {
            return Err(Error::Overloaded { retry_after: REKEY_RETRY });
        }
        Ok(())
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
