//! What every container shares: the store, the committer, the published root, locks and time.
//!
//! The committer's thread is the only publisher. Per group it publishes first the index view of
//! every partition the group touched, then the root with the store's snapshot; a reader that takes
//! the root first and then a view that is not newer sees items and index agree, without a lock.

pub(crate) mod jobs;

use crate::admission::Shares;
use crate::dials::Dials;
use crate::generation::open::OpenedIndexes;
use crate::index_files::IndexFolders;
use crate::item_cache::ItemCache;
use crate::locks::LockTable;
use crate::observe::Observed;
use crate::partition::{Partition, PublishedView};
use crate::query::{CachedOrders, QueryCache};
use crate::scripts::Runtime;
use crate::slice::Slice;
use crate::subscriptions::Courier;
use crate::views::{Signal, SliceCopies};
use arc_swap::ArcSwap;
use armilla_model::clock::Clock;
use armilla_model::error::Result;
use armilla_model::etag::IdSource;
use armilla_script::ScriptEngine;
use armilla_storage::{Batch, Committer, Completion, Durability, Snapshot, Store, Submission};
use jobs::{Background, JobThreads, Task};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, OnceLock, Weak};
use std::thread;

/// What readers see: everything up to one group of commits.
pub(crate) struct Root {
    /// Number of the group.
    pub group: u64,
    /// The store as of that group.
    pub snapshot: Arc<dyn Snapshot>,
}

/// Handles that live as long as the account.
pub(crate) struct Core {
    /// The store itself.
    pub store: Arc<dyn Store>,
    /// The only writer to it.
    pub committer: Committer,
    /// What readers see.
    pub root: Arc<ArcSwap<Root>>,
    /// Locks of logical partitions.
    pub locks: Arc<LockTable>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Fresh etags.
    pub ids: IdSource,
    /// What writes under way and queries share.
    pub(crate) shares: Shares,
    /// Where index files lie.
    pub(crate) folders: IndexFolders,
    /// What opening the indexes took.
    pub(crate) opened: OpenedIndexes,
    /// The threads that work on indexes.
    pub(crate) background: Arc<Background>,
    builder: mpsc::Sender<Task>,
    /// What wakes the thread that keeps views up.
    pub(crate) followers: Arc<Signal>,
    /// What wakes the thread of the subscriptions.
    pub(crate) subscribers: Arc<Signal>,
    /// Who carries batches out of the server, where somebody does.
    pub(crate) courier: OnceLock<Box<dyn Courier>>,
    /// Who has copies of the other slices, where there are others.
    pub(crate) copies: OnceLock<Box<dyn SliceCopies>>,
    /// Who hears how long things took.
    pub observed: Observed,
    /// How throughput and charges are treated where a container says nothing else.
    pub dials: ArcSwap<Dials>,
    /// When a write counts as done.
    pub(crate) durability: Durability,
    /// The part of the key space that is here.
    pub(crate) slice: Slice,
    /// Items that queries come back to.
    pub(crate) hot: ItemCache,
    /// Queries of all containers, compiled.
    pub(crate) queries: QueryCache,
    /// Orders of candidates that queries come back to.
    pub(crate) orders: CachedOrders,
    scripts: OnceLock<Runtime>,
    script_limits: OnceLock<armilla_script::Limits>,
    logical_partition_size: AtomicU64,
    dirty: Arc<Mutex<Vec<Arc<Partition>>>>,
}

impl Core {
    /// Starts the committer of a store and the threads that work on indexes.
    pub(crate) fn start(
        store: Arc<dyn Store>,
        folders: IndexFolders,
        durability: Durability,
        clock: Arc<dyn Clock>,
        ids: IdSource,
        (dials, slice): (Dials, Slice),
    ) -> Arc<Self> {
        let root = Arc::new(ArcSwap::from_pointee(Root { group: 0, snapshot: store.snapshot() }));
        let dirty = Arc::new(Mutex::new(Vec::<Arc<Partition>>::new()));
        let background = Arc::new(Background::default());
        Arc::new_cyclic(|core: &Weak<Self>| {
            let jobs = JobThreads::start(core, &background);
            let (published, touched) = (root.clone(), dirty.clone());
            let publish = Box::new(move |group, snapshot| {
                for partition in std::mem::take(&mut *touched.lock()) {
                    jobs.publish(&partition, group);
                }
                assert!(group > published.load().group, "groups are published in their order");
                published.store(Arc::new(Root { group, snapshot }));
            });
            Self {
                committer: Committer::start(store.clone(), durability, publish),
                root,
                locks: Arc::new(LockTable::new()),
                ids,
                clock,
                dials: ArcSwap::from_pointee(dials),
                shares: Shares::default(),
                observed: Observed::default(),
                store,
                folders,
                durability,
                slice,
                opened: OpenedIndexes::default(),
                builder: jobs::start_builder(),
                followers: Arc::default(),
                subscribers: Arc::default(),
                courier: OnceLock::new(),
                copies: OnceLock::new(),
                background,
                hot: ItemCache::default(),
                queries: QueryCache::default(),
                orders: CachedOrders::default(),
                scripts: OnceLock::new(),
                script_limits: OnceLock::new(),
                logical_partition_size: AtomicU64::new(u64::MAX),
                dirty,
            }
        })
    }

    /// Bytes that one logical partition may have.
    pub(crate) fn logical_partition_size(&self) -> u64 {
        self.logical_partition_size.load(Ordering::Relaxed)
    }

    pub(crate) fn set_logical_partition_size(&self, bytes: u64) {
        self.logical_partition_size.store(bytes, Ordering::Relaxed);
    }

    /// What compiles scripts.
    pub(crate) fn script_engine(&self) -> Result<&ScriptEngine> {
        self.scripts().map(Runtime::engine)
    }

    /// What compiles and runs scripts, started when the first one comes.
    pub(crate) fn scripts(&self) -> Result<&Runtime> {
        if let Some(runtime) = self.scripts.get() {
            return Ok(runtime);
        }
        let limits = self.script_limits.get().cloned().unwrap_or_default();
        let runtime = Runtime::start(limits)?;
        Ok(self.scripts.get_or_init(|| runtime))
    }

    /// The same, if one has come.
    pub(crate) fn started_scripts(&self) -> Option<&Runtime> {
        self.scripts.get()
    }

    /// Scripts whose threads were given up.
    pub(crate) fn scripts_given_up(&self) -> u64 {
        self.scripts.get().map_or(0, Runtime::given_up)
    }

    /// Says what scripts may use. Only the first word counts, and only before the first script.
    pub(crate) fn set_script_limits(&self, limits: armilla_script::Limits) {
        let _already_set = self.script_limits.set(limits);
    }

    /// The store as readers see it now.
    pub(crate) fn snapshot(&self) -> Arc<dyn Snapshot> {
        self.root.load().snapshot.clone()
    }

    /// The store and a partition's index as of the same moment.
    pub(crate) fn consistent_view(&self, partition: &Partition) -> (Arc<Root>, Arc<PublishedView>) {
        loop {
            let root = self.root.load_full();
            let view = partition.view();
            // A partition that was split is seen as it was then: items have changed since. Looked
            // at last, because what was taken before it ended is good. Its view may be of a later group than that root:
            // a finished job of its index was put in place while the children were noted. Nobody wrote to it by then,
            // so both show the same items.
            if let Some(last) = partition.last_root() {
                return (last.clone(), partition.view());
            }
            if view.group <= root.group {
                return (root, view);
            }
            // The view of the next group is out and its root will be in a moment.
            thread::yield_now();
        }
    }

    /// The second that a write of now is stamped with.
    pub(crate) fn now_seconds(&self) -> u32 {
        u32::try_from(self.clock.now_seconds()).unwrap_or(u32::MAX)
    }

    /// Says that the group being applied touched this partition's index.
    pub(crate) fn mark_dirty(&self, partition: &Arc<Partition>) {
        let mut dirty = self.dirty.lock();
        if !dirty.iter().any(|known| Arc::ptr_eq(known, partition)) {
            dirty.push(partition.clone());
        }
    }

    /// Commits a batch and waits until it is durable; false when the server is stopping and
    /// nothing was written. For the catalog and for background work; item writes use callbacks.
    pub(crate) fn commit_and_wait(&self, batch: Batch) -> bool {
        self.commit_and_apply(batch, || {})
    }

    /// Queues a batch before everything that is queued from now on, and does not wait for it.
    pub(crate) fn commit_later(&self, batch: Batch) {
        let (sender, _nobody_waits) = mpsc::sync_channel(1);
        let completion = Box::new(Act { act: Some(Box::new(|| {})), done: sender });
        self.committer.submit(Submission { batch, completion });
    }

    /// Commits a batch, does something on the committer's thread before its group is published, and
    /// waits until that is visible.
    pub(crate) fn commit_and_apply(
        &self,
        batch: Batch,
        act: impl FnOnce() + Send + 'static,
    ) -> bool {
        let (sender, receiver) = mpsc::sync_channel(1);
        let completion = Box::new(Act { act: Some(Box::new(act)), done: sender });
        self.committer.submit(Submission { batch, completion });
        // The committer ends the process when it cannot commit, so the signal comes unless the
        // server is stopping: then the batch was dropped, and its end of the channel with it.
        receiver.recv().is_ok()
    }

    /// Leaves a task for the thread that builds indexes; tasks run one after the other.
    pub(crate) fn build_later(&self, task: impl FnOnce() + Send + 'static) {
        // The thread lives as long as this handle to it.
        let _ = self.builder.send(Box::new(task));
    }

    /// Waits for everything that is queued or out, and hands out no more jobs.
    pub(crate) fn stop_background(&self) {
        self.background.stop();
        self.commit_and_wait(Batch::new());
    }
}

struct Act {
    act: Option<Task>,
    done: mpsc::SyncSender<()>,
}

impl Completion for Act {
    fn apply(&mut self, _group: u64) {
        if let Some(act) = self.act.take() {
            act();
        }
    }

    fn notify(self: Box<Self>) {
        let _ = self.done.send(());
    }
}
