//! The account: everything one server holds, opened from a store and changed through here.

mod adopt;
mod budgets;
mod containers;
mod databases;
mod encryption_keys;
mod janitor;
mod merges;
mod open;
mod partitions;
mod rehearsal;
mod rekey;
mod scripts;
mod subscriptions;
mod throughput;
mod users;
mod views;

pub use containers::NewContainer;
pub use merges::PromisedMerge;
pub(crate) use open::stored_head;
pub use rekey::{NewRekey, RekeyStatus};
pub use scripts::NewScript;
pub use throughput::OfferChange;
pub use users::NewPermission;

use crate::account::budgets::Budgets;
use crate::catalog::{Catalog, Database};
use crate::container::Container;
use crate::core::Core;
use crate::dials::Dials;
use crate::index_files::IndexFolders;
use crate::keys::{self, Meta};
use crate::limits::{LOGICAL_PARTITION_SIZE_DEFAULT, PARTITION_SIZE_DEFAULT};
use crate::ranked::{Rank, RankedLock};
use crate::slice::Slice;
use arc_swap::ArcSwap;
use armilla_model::clock::{Clock, SystemClock};
use armilla_model::error::{Error, Result};
use armilla_model::etag::{ETag, IdSource};
use armilla_model::lsn::Lsn;
use armilla_model::tally::{self, Work};
use armilla_storage::disk::Disk;
use armilla_storage::{Batch, Durability, Keyspace, Store, StoreError};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// How an account behaves.
#[derive(Clone)]
pub struct Options {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// When a write counts as done.
    pub durability: Durability,
    /// A number that no other run of any node has, where several nodes may own the data one after the other: two of them may start in
    /// one millisecond. Without it the millisecond of the start is good enough.
    pub incarnation: Option<u64>,
    /// A fixed number of physical partitions for new containers, whatever their throughput.
    pub partitions: Option<u32>,
    /// Request units per second that one physical partition serves.
    pub partition_rus: u32,
    /// Bytes of item texts beyond which a physical partition is split.
    pub partition_size: u64,
    /// Bytes of item texts that one logical partition may have.
    pub logical_partition_size: u64,
    /// Bytes that all queries together may hold while they sort, group or gather.
    pub query_memory: usize,
    /// How long a split waits, so that people can watch one.
    pub split_delay: Duration,
    /// How throughput and charges are treated; `partitions` and `partition_rus` win over those in
    /// here.
    pub dials: Dials,
    /// Nothing is provisioned: no offers, and a fixed most for every container.
    pub serverless: bool,
    /// Sweep expired items and dropped containers in the background.
    pub background: bool,
    /// The part of the key space that this account has; the others have accounts of their own.
    pub slice: Slice,
    /// Where index files lie; without it every index lives in memory and is built at each start.
    pub disk: Option<Arc<dyn Disk>>,
    /// How large the pieces of an index become; tests make them small.
    pub index_limits: armilla_index::Limits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: Arc::new(SystemClock),
            durability: Durability::Synced,
            incarnation: None,
            partitions: None,
            partition_rus: crate::dials::PARTITION_RUS,
            partition_size: PARTITION_SIZE_DEFAULT,
            logical_partition_size: LOGICAL_PARTITION_SIZE_DEFAULT,
            query_memory: crate::limits::QUERIES_MEMORY_MAX,
            split_delay: Duration::ZERO,
            dials: Dials::default(),
            serverless: false,
            background: true,
            slice: Slice::WHOLE,
            disk: None,
            index_limits: armilla_index::Limits::default(),
        }
    }
}

/// An open account.
pub struct Account {
    pub(crate) core: Arc<Core>,
    catalog: ArcSwap<Catalog>,
    // Held by whoever changes the catalog; holds the next number to give out.
    changing: RankedLock<u32>,
    // The furthest log of all dropped containers.
    retired: Mutex<Lsn>,
    budgets: Budgets,
    options: Options,
    // Which state of the catalog this is; counted where the account is cut into slices.
    edition: AtomicU64,
}

impl Account {
    /// Opens the account in a store.
    pub fn open(store: Arc<dyn Store>, options: Options) -> Result<Arc<Self>, StoreError> {
        let folders = IndexFolders::new(options.disk.clone(), options.index_limits);
        let dials = Dials {
            partitions: options.partitions,
            partition_rus: options.partition_rus,
            ..options.dials.clone()
        };
        let (durability, clock) = (options.durability, options.clock.clone());
        let ids = IdSource::started_at(options.incarnation.unwrap_or_else(|| clock.now_millis()));
        let core = Core::start(store, folders, durability, clock, ids, (dials, options.slice));
        core.set_logical_partition_size(options.logical_partition_size);
        core.shares.queries.limit(options.query_memory);
        let (catalog, next_number) = open::load(&core)?;
        let edition = AtomicU64::new(adopt::edition_in(&*core.snapshot())?);
        let account = Arc::new(Self {
            core,
            catalog: ArcSwap::from_pointee(catalog),
            changing: RankedLock::new(Rank::Catalog, next_number),
            retired: Mutex::default(),
            budgets: Budgets::default(),
            options,
            edition,
        });
        for container in account.containers() {
            // Before anybody writes, and before another index is built.
            if account.options.background {
                container.forget_paths();
            }
            crate::reindex::request(&container);
        }
        account.assign_budgets();
        if account.options.background {
            janitor::start(&account);
            partitions::start(&account);
            crate::views::start(&account);
            crate::subscriptions::start(&account);
        }
        Ok(account)
    }

    /// Removes index files that do not serve in this store. A node calls it before it follows another one: what it has left of an index
    /// that it was building may not be taken for the one that the other builds under the same name.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub fn retain_index_files(store: &dyn Store, disk: Arc<dyn Disk>) -> Result<(), StoreError> {
        let serving = open::serving_indexes(&*store.snapshot())?;
        let folders = IndexFolders::new(Some(disk), armilla_index::Limits::default());
        folders.retain(&serving);
        Ok(())
    }

    /// Everything there is, as of now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    /// A database by name or rid.
    pub fn database(&self, segment: &str) -> Result<Arc<Database>> {
        self.catalog.load().database(segment).cloned().ok_or_else(Error::not_found)
    }

    /// True when nothing is provisioned.
    pub fn is_serverless(&self) -> bool {
        self.options.serverless
    }

    /// The part of the key space that this account has.
    pub fn slice(&self) -> Slice {
        self.core.slice
    }

    /// A container by names or rids.
    pub fn container(&self, database: &str, container: &str) -> Result<Arc<Container>> {
        tally::count(Work::ContainerLookup);
        let catalog = self.catalog.load();
        let database = catalog.database(database).ok_or_else(Error::parent_not_found)?;
        database.container(container).cloned().ok_or_else(Error::parent_not_found)
    }

    /// All containers of now.
    pub(crate) fn containers(&self) -> Vec<Arc<Container>> {
        let catalog = self.catalog.load();
        let databases = catalog.databases.values();
        databases.flat_map(|database| database.containers.values().cloned()).collect()
    }

    /// What opening the indexes took: entries of logs that were replayed, and items that were read
    /// because there were no files to use.
    pub fn opened_indexes(&self) -> (u64, u64) {
        (self.core.opened.replayed(), self.core.opened.scanned())
    }

    /// Sets who hears how long commits and index work take.
    pub fn observe(&self, observer: Box<dyn crate::observe::Observer>) {
        self.core.observed.set(observer);
    }

    /// The time.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.core.clock
    }

    /// The store, for backup and verification.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.core.store
    }

    /// What readers see of the store now.
    pub fn snapshot(&self) -> Arc<dyn armilla_storage::Snapshot> {
        self.core.snapshot()
    }

    /// Remembers how far the logs of a dropped container went.
    fn retire(&self, container: &Container) {
        let head = container.partitions().iter().map(|partition| partition.lsn()).max();
        let mut retired = self.retired.lock();
        *retired = head.unwrap_or_default().max(*retired);
    }

    /// Where the logs of a new container begin: above every log there is or was. Clients keep session
    /// tokens by name and sometimes send those of another container; this way few of them seem to
    /// be from a future that was lost.
    fn first_head(&self) -> Lsn {
        let catalog = self.catalog.load();
        let containers =
            catalog.databases.values().flat_map(|database| database.containers.values());
        let heads = containers.flat_map(|container| {
            let partitions = container.partitions();
            partitions.iter().map(|partition| partition.lsn()).max()
        });
        heads.max().unwrap_or_default().max(*self.retired.lock())
    }

    /// Waits for queued writes and lets another node have the account at once. Nothing is committed any more; [`Account::close`] does the
    /// rest, which may take its time.
    pub fn give_up(&self) {
        self.core.committer.shutdown();
        self.core.store.give_up();
    }

    /// Waits for queued writes, makes the indexes durable and closes the store. Writes after this are
    /// lost with the process.
    pub fn close(&self) -> Result<(), StoreError> {
        self.core.stop_background();
        self.close_subscriptions();
        for container in self.containers() {
            for partition in container.partitions().iter() {
                if let Err(error) = partition.checkpoint() {
                    tracing::warn!(%error, "an index was not saved; the next start replays the log");
                }
            }
        }
        // Background work that comes late is dropped; without this it would find a closed store.
        self.core.committer.shutdown();
        self.core.store.close()
    }

    /// Runs one change of the catalog: `change` gets the catalog as it is and a batch, and returns
    /// the catalog as it shall be. The batch is durable before anybody sees the new catalog, or
    /// anything else that the change shows.
    fn change<'a, T>(&'a self, change: impl FnOnce(&mut Change<'a>) -> Result<T>) -> Result<T> {
        self.core.slice.require_first()?;
        self.change_own(|work| {
            let outcome = change(work)?;
            if !self.core.slice.is_whole() {
                work.set_edition(self.edition() + 1);
            }
            Ok(outcome)
        })
    }

    /// As [`change`](Self::change), of what the slices of an account do not share.
    fn change_own<'a, T>(&'a self, change: impl FnOnce(&mut Change<'a>) -> Result<T>) -> Result<T> {
        let mut next_number = self.changing.lock();
        let mut work = Change {
            catalog: Catalog::clone(&self.catalog.load()),
            batch: Batch::new(),
            next_number: *next_number,
            prepared: Vec::new(),
            shown: Vec::new(),
            account: self,
        };
        let outcome = change(&mut work)?;
        let Change { catalog, mut batch, next_number: number, prepared, shown, .. } = work;
        if number != *next_number {
            let key = keys::meta(Meta::Account, &[]);
            batch.put(Keyspace::Meta, key, number.to_be_bytes().to_vec());
        }
        if !batch.is_empty() && !self.core.commit_and_wait(batch) {
            return Err(Error::Internal("the server is stopping; nothing was changed".to_owned()));
        }
        *next_number = number;
        prepared.into_iter().for_each(|prepare| prepare());
        self.catalog.store(Arc::new(catalog));
        self.assign_budgets();
        shown.into_iter().for_each(|show| show());
        Ok(outcome)
    }
}

/// A change of the catalog under way.
struct Change<'a> {
    catalog: Catalog,
    batch: Batch,
    next_number: u32,
    prepared: Vec<Box<dyn FnOnce() + 'a>>,
    shown: Vec<Box<dyn FnOnce() + 'a>>,
    account: &'a Account,
}

impl<'a> Change<'a> {
    /// Does something when the change is durable, and not before.
    fn show(&mut self, show: impl FnOnce() + 'a) {
        self.shown.push(Box::new(show));
    }

    /// Does something when the change is durable, just before others see the new catalog.
    fn prepare(&mut self, prepare: impl FnOnce() + 'a) {
        self.prepared.push(Box::new(prepare));
    }

    /// A number nothing else has or had.
    fn number(&mut self) -> u32 {
        self.next_number += 1;
        self.next_number
    }

    fn stamp(&self) -> (ETag, u64) {
        let core = &self.account.core;
        (core.ids.next_etag(), core.clock.now_seconds())
    }

    fn put(&mut self, kind: Meta, numbers: &[u32], value: Vec<u8>) {
        self.batch.put(Keyspace::Meta, keys::meta(kind, numbers), value);
    }

    fn delete(&mut self, kind: Meta, numbers: &[u32]) {
        self.batch.delete(Keyspace::Meta, keys::meta(kind, numbers));
    }

    fn database(&self, segment: &str) -> Result<Arc<Database>> {
        self.catalog.database(segment).cloned().ok_or_else(Error::not_found)
    }

    /// Puts a changed database in the place of the old one.
    fn set_database(&mut self, database: Database) {
        self.catalog.databases.insert(database.name.clone(), Arc::new(database));
    }
}
