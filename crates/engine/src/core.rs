//! What every container shares: the store, the committer, the published root, locks and time.
//!
//! The committer's thread is the only publisher. Per group it publishes first the index view of
//! every partition the group touched, then the root with the store's snapshot; a reader that takes
//! the root first and then a view that is not newer sees items and index agree, without a lock.

use crate::locks::LockTable;
use crate::partition::{Partition, PublishedView};
use crate::scripts::Runtime;
use arc_swap::ArcSwap;
use armilla_index::{Job, JobKind, JobResult};
use armilla_model::clock::Clock;
use armilla_model::error::Result;
use armilla_model::etag::IdSource;
use armilla_script::ScriptEngine;
use armilla_storage::{Batch, Committer, Completion, Durability, Snapshot, Store, Submission};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, OnceLock, Weak};
use std::thread;

/// What readers see: everything up to one group of commits.
pub struct Root {
    /// Number of the group.
    pub group: u64,
    /// The store as of that group.
    pub snapshot: Arc<dyn Snapshot>,
}

/// Handles that live as long as the account.
pub struct Core {
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
    scripts: OnceLock<Runtime>,
    logical_partition_size: AtomicU64,
    dirty: Arc<Mutex<Vec<Arc<Partition>>>>,
}

impl Core {
    /// Starts the committer of a store and the two threads that seal and merge index segments.
    pub fn start(
        store: Arc<dyn Store>,
        durability: Durability,
        clock: Arc<dyn Clock>,
    ) -> Arc<Self> {
        let root = Arc::new(ArcSwap::from_pointee(Root { group: 0, snapshot: store.snapshot() }));
        let dirty = Arc::new(Mutex::new(Vec::<Arc<Partition>>::new()));
        Arc::new_cyclic(|core: &Weak<Self>| {
            let jobs = JobThreads::start(core);
            let (published, touched) = (root.clone(), dirty.clone());
            let publish = Box::new(move |group, snapshot| {
                for partition in std::mem::take(&mut *touched.lock()) {
                    if let Some((build, job)) = partition.publish_view(group) {
                        jobs.send(partition, build, job);
                    }
                }
                published.store(Arc::new(Root { group, snapshot }));
            });
            Self {
                committer: Committer::start(store.clone(), durability, publish),
                root,
                locks: Arc::new(LockTable::new()),
                ids: IdSource::started_at(clock.now_millis()),
                clock,
                store,
                scripts: OnceLock::new(),
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
    pub fn script_engine(&self) -> Result<&ScriptEngine> {
        self.scripts().map(Runtime::engine)
    }

    /// What compiles and runs scripts, started when the first one comes.
    pub(crate) fn scripts(&self) -> Result<&Runtime> {
        self.start_scripts(armilla_script::Limits::default)
    }

    /// Starts what runs scripts, unless it runs already.
    pub(crate) fn start_scripts(
        &self,
        limits: impl FnOnce() -> armilla_script::Limits,
    ) -> Result<&Runtime> {
        if let Some(runtime) = self.scripts.get() {
            return Ok(runtime);
        }
        let runtime = Runtime::start(limits())?;
        Ok(self.scripts.get_or_init(|| runtime))
    }

    /// The store as readers see it now.
    pub fn snapshot(&self) -> Arc<dyn Snapshot> {
        self.root.load().snapshot.clone()
    }

    /// The store and a partition's index as of the same moment.
    pub fn consistent_view(&self, partition: &Partition) -> (Arc<Root>, Arc<PublishedView>) {
        loop {
            let root = self.root.load_full();
            let view = partition.view();
            // A partition that was split is seen as it was then: items have changed since. Looked
            // at last, because what was taken before it ended is good.
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
    pub fn now_seconds(&self) -> u32 {
        u32::try_from(self.clock.now_seconds()).unwrap_or(u32::MAX)
    }

    /// Says that the group being applied touched this partition's index.
    pub(crate) fn mark_dirty(&self, partition: &Arc<Partition>) {
        let mut dirty = self.dirty.lock();
        if !dirty.iter().any(|known| Arc::ptr_eq(known, partition)) {
            dirty.push(partition.clone());
        }
    }

    /// Commits a batch and waits until it is durable. For the catalog and for background work;
    /// item writes use callbacks instead.
    pub fn commit_and_wait(&self, batch: Batch) {
        let (sender, receiver) = mpsc::sync_channel(1);
        self.committer.submit(Submission { batch, completion: Box::new(Signal(sender)) });
        // The committer ends the process when it cannot commit, so the signal always comes.
        let _ = receiver.recv();
    }
}

struct Signal(mpsc::SyncSender<()>);

impl Completion for Signal {
    fn apply(&mut self, _group: u64) {}

    fn notify(self: Box<Self>) {
        let _ = self.0.send(());
    }
}

/// Two threads: one for sealing and small merges, one for the large merges that would hold the
/// others up.
struct JobThreads {
    small: mpsc::Sender<Assignment>,
    large: mpsc::Sender<Assignment>,
}

/// A partition, the build of its index, and a job for it.
type Assignment = (Arc<Partition>, u64, Job);

/// Merges of more documents than this go to the second thread.
const LARGE_JOB_DOCUMENTS: u64 = 64 * 1024;

impl JobThreads {
    fn start(core: &Weak<Core>) -> Self {
        let start = |name: &str| {
            let (sender, receiver) = mpsc::channel();
            let core = core.clone();
            let run = move || run_jobs(&core, &receiver);
            let spawned = thread::Builder::new().name(name.to_owned()).spawn(run);
            spawned.expect("a thread can be started while the server starts");
            sender
        };
        Self { small: start("index-seal"), large: start("index-merge") }
    }

    fn send(&self, partition: Arc<Partition>, build: u64, job: Job) {
        let large = job.kind() != JobKind::Seal && job.documents() > LARGE_JOB_DOCUMENTS;
        let thread = if large { &self.large } else { &self.small };
        // Nobody listens any more when the account is closing.
        let _ = thread.send((partition, build, job));
    }
}

fn run_jobs(core: &Weak<Core>, jobs: &mpsc::Receiver<Assignment>) {
    for (partition, build, job) in jobs {
        let result = job.run();
        let Some(core) = core.upgrade() else { return };
        let completion =
            Box::new(Install { core: core.clone(), partition, build, result: Some(result) });
        core.committer.submit(Submission { batch: Batch::new(), completion });
    }
}

struct Install {
    core: Arc<Core>,
    partition: Arc<Partition>,
    build: u64,
    result: Option<JobResult>,
}

impl Completion for Install {
    fn apply(&mut self, _group: u64) {
        if let Some(result) = self.result.take() {
            self.partition.install(self.build, result);
            self.core.mark_dirty(&self.partition);
        }
    }

    fn notify(self: Box<Self>) {}
}
