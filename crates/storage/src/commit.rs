//! The group committer: many small commits, few syncs.
//!
//! Writers hand in a [`Submission`] and go away; one thread takes whatever has been queued, joins
//! it into one engine batch and syncs once:
//!
//! ```text
//!   submit ─┐
//!   submit ─┼─► queue ─► join ─► commit + sync ─► snapshot ─► apply… ─► publish ─► notify…
//!   submit ─┘                                     (each in the order of submission)
//! ```
//!
//! A writer that has been alone for a while commits on its own thread ([`Committer::submit_here`]): waking another thread and being woken by
//! it costs about as much as the rest. Whoever holds the [`Worker`] commits; it takes what is queued, in order, and leaves nothing half done, so groups
//! follow each other as if one thread made them.
//!
//! There is no timer. While one group is being synced the next one gathers by itself, so a lone
//! writer waits for about one sync and a crowd shares it. Submissions with an empty batch are
//! welcome: background threads hand in their results that way, since this thread is the only
//! publisher of views. A group of only such submissions is not synced.
//!
//! A failed commit ends the process ([`Fatal`]): after a failed sync nobody knows what the disk
//! holds, and trying again proves nothing. So does a panic in a completion, because some of its
//! group would be visible and some not. The submissions concerned are neither acknowledged nor refused:
//! they may be durable all the same, so their completions are kept until the process has ended, and with
//! it the connections of those who wait.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use armilla_model::clock::monotonic;
use parking_lot::{Condvar, Mutex};

use crate::{Batch, Durability, Room, Snapshot, Store, StoreError};

/// The most submissions that form one group.
const GROUP_SUBMISSIONS_MAX: usize = 4096;

/// A group takes no further submission once it holds this many bytes.
const GROUP_BYTES_MAX: usize = 16 * 1024 * 1024;
const _: () = assert!(GROUP_BYTES_MAX < crate::batch::VALUE_LENGTH_MAX);

/// After so many groups of a single submission each, with nobody waiting behind them, the writer is alone.
const LONE_GROUPS_MIN: usize = 4;

/// A commit that took longer ends that: a thread that has other things to do must not wait for a slow disk.
const LONE_COMMIT_MAX: Duration = Duration::from_millis(2);

/// A batch to commit and what to do when it is durable.
///
/// What a client may get wrong is checked before.
pub struct Submission {
    /// What to write; may be empty.
    pub batch: Batch,
    /// What to do afterwards.
    pub completion: Box<dyn Completion>,
}

/// The two steps after a submission has become durable.
pub trait Completion: Send {
    /// Runs in the order of submission, after the sync and before the group is published.
    fn apply(&mut self, group: u64);

    /// Runs in the order of submission, after the group has been published.
    fn notify(self: Box<Self>);
}

/// Makes a group visible: called once per group, between the last `apply` and the first `notify`.
pub type Publish = Box<dyn FnMut(u64, Arc<dyn Snapshot>) + Send>;

/// Called when nothing can be committed any more; the default one ends the process.
pub type FatalHandler = Box<dyn FnOnce(Fatal) + Send>;

/// Why the committer gave up.
#[derive(Debug)]
pub enum Fatal {
    /// The store could not commit a group.
    Commit(StoreError),
    /// A completion or the publisher panicked, with this message.
    Panic(String),
}

impl fmt::Display for Fatal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Commit(error) => write!(f, "a commit failed: {error}"),
            Self::Panic(message) => write!(f, "a panic during commit: {message}"),
        }
    }
}

/// What the committer has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitterStats {
    /// Groups published.
    pub groups: u64,
    /// Submissions completed.
    pub submissions: u64,
    /// Bytes handed to the store.
    pub bytes: u64,
}

/// Commits, on a thread of its own or on that of a lone writer.
pub struct Committer {
    shared: Arc<Shared>,
    store: Arc<dyn Store>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Committer {
    /// Starts the thread; a failure prints one line and aborts the process.
    ///
    /// # Panics
    ///
    /// When the system refuses a thread.
    #[must_use]
    pub fn start(store: Arc<dyn Store>, durability: Durability, publish: Publish) -> Self {
        Self::start_with(store, durability, publish, Box::new(abort))
    }

    /// As [`Committer::start`], with a handler of its own for failures.
    ///
    /// If the handler returns, the committer is dead: what is queued is dropped without being
    /// acknowledged.
    ///
    /// # Panics
    ///
    /// When the system refuses a thread.
    #[must_use]
    pub fn start_with(
        store: Arc<dyn Store>,
        durability: Durability,
        publish: Publish,
        fatal: FatalHandler,
    ) -> Self {
        let worker = Worker {
            store: Arc::clone(&store),
            durability,
            publish,
            fatal: Some(fatal),
            group: 0,
            pending: VecDeque::new(),
            unknown: Vec::new(),
        };
        let shared = Arc::new(Shared::new(worker));
        let ours = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("committer".into())
            .spawn(move || ours.run())
            .expect("a process that cannot start its committer cannot serve");
        Self { shared, store, thread: Mutex::new(Some(thread)) }
    }

    /// Queues a submission and returns at once.
    ///
    /// The queue itself has no bound. Back-pressure is the caller's: the engine compares
    /// [`Committer::queue_len`] and [`Committer::queue_bytes`] with its limits before it admits a write.
    /// After the committer was stopped the submission is dropped unacknowledged.
    pub fn submit(&self, submission: Submission) {
        drop(self.submit_here(submission));
    }

    /// Queues a submission for [`Queued::commit`]. Nobody is woken for it before the returned value is used or dropped.
    pub fn submit_here(&self, submission: Submission) -> Queued<'_> {
        let mut queue = self.shared.queue.lock();
        if !queue.closed {
            self.shared.unfinished.fetch_add(1, Ordering::Relaxed);
            self.shared.unfinished_bytes.fetch_add(submission.batch.bytes(), Ordering::Relaxed);
            queue.waiting.push_back(submission);
        }
        Queued { shared: &self.shared }
    }

    /// Whether a writer would be alone: nothing is queued, and for a while each group was one quick commit with nobody behind it. Never where
    /// room on the disk is short, because commits wait for it then.
    #[must_use]
    pub fn is_lone(&self) -> bool {
        let lone_groups = self.shared.lone_groups.load(Ordering::Relaxed);
        let is_alone = self.queue_len() == 0 && lone_groups >= LONE_GROUPS_MIN;
        is_alone && self.store.room() == Room::Plenty
    }

    /// The same for a thread that has other things to do: it may wait for a quick disk, and never for another machine.
    #[must_use]
    pub fn is_lone_at_disk(&self) -> bool {
        !self.store.is_remote() && self.is_lone()
    }

    /// How many submissions have been handed in and not yet been notified.
    #[must_use]
    pub fn queue_len(&self) -> usize {
        self.shared.unfinished.load(Ordering::Relaxed)
    }

    /// How many bytes those submissions write.
    #[must_use]
    pub fn queue_bytes(&self) -> usize {
        self.shared.unfinished_bytes.load(Ordering::Relaxed)
    }

    /// What has been done so far.
    #[must_use]
    pub fn stats(&self) -> CommitterStats {
        CommitterStats {
            groups: self.shared.groups.load(Ordering::Relaxed),
            submissions: self.shared.submissions.load(Ordering::Relaxed),
            bytes: self.shared.bytes.load(Ordering::Relaxed),
        }
    }

    /// Completes everything that is queued and ends the thread.
    pub fn stop(self) {
        self.shutdown();
    }

    /// As [`Committer::stop`], for a committer that is shared. Must not be called from a
    /// completion or from the publisher.
    pub fn shutdown(&self) {
        let mut queue = self.shared.queue.lock();
        queue.closed = true;
        queue.idle = false;
        drop(queue);
        self.store.end_waits();
        self.shared.ready.notify_one();
        // The last handle may go with a completion, on the thread itself; it then ends by itself.
        let own = std::thread::current().id();
        if let Some(thread) = self.thread.lock().take()
            && thread.thread().id() != own
        {
            // The thread catches its own panics, so there is nothing to learn from the result.
            let _ended = thread.join();
        }
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.shutdown();
    }
}

/// A submission that was queued. Dropped, it is left to the committer's thread.
#[must_use]
pub struct Queued<'c> {
    shared: &'c Shared,
}

impl Queued<'_> {
    /// Commits what is queued on this thread, unless somebody else is at it. The completions run here, so no lock may be held that they take.
    pub fn commit(self) {
        if let Some(mut worker) = self.shared.worker.try_lock() {
            self.shared.commit_queued(&mut worker);
        }
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        let mut queue = self.shared.queue.lock();
        if queue.idle && !queue.waiting.is_empty() {
            queue.idle = false;
            drop(queue);
            self.shared.ready.notify_one();
        }
    }
}

struct Shared {
    queue: Mutex<Queue>,
    ready: Condvar,
    /// Whoever holds it commits. Taken before the queue.
    worker: Mutex<Worker>,
    unfinished: AtomicUsize,
    unfinished_bytes: AtomicUsize,
    groups: AtomicU64,
    submissions: AtomicU64,
    bytes: AtomicU64,
    /// Groups since somebody else was seen, or a commit was slow.
    lone_groups: AtomicUsize,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Submission>,
    /// The thread sleeps and wants to be woken.
    idle: bool,
    /// Nothing more is accepted.
    closed: bool,
}

impl Shared {
    fn new(worker: Worker) -> Self {
        Self {
            queue: Mutex::default(),
            ready: Condvar::new(),
            worker: Mutex::new(worker),
            unfinished: AtomicUsize::new(0),
            unfinished_bytes: AtomicUsize::new(0),
            groups: AtomicU64::new(0),
            submissions: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            lone_groups: AtomicUsize::new(0),
        }
    }

    /// The committer's thread.
    fn run(&self) {
        while self.wait() {
            self.commit_queued(&mut self.worker.lock());
        }
        // A writer may still be at its own group.
        drop(self.worker.lock());
    }

    /// Waits until something is queued; false when the queue is closed and drained.
    fn wait(&self) -> bool {
        let mut queue = self.queue.lock();
        while queue.waiting.is_empty() {
            if queue.closed {
                return false;
            }
            queue.idle = true;
            self.ready.wait(&mut queue);
        }
        queue.idle = false;
        true
    }

    /// Commits all that is queued now. A failure is told to the handler; if that returns, nothing is committed any more.
    fn commit_queued(&self, worker: &mut Worker) {
        std::mem::swap(&mut self.queue.lock().waiting, &mut worker.pending);
        let result = catch_unwind(AssertUnwindSafe(|| worker.commit_pending(self)));
        let failure = match result {
            Ok(Ok(())) => return,
            Ok(Err(error)) => Fatal::Commit(error),
            Err(panic) => Fatal::Panic(panic_message(panic.as_ref())),
        };
        if let Some(fatal) = worker.fatal.take() {
            fatal(failure);
        }
        self.abandon(worker);
    }

    /// Drops everything that will never be committed.
    fn abandon(&self, worker: &mut Worker) {
        let mut queue = self.queue.lock();
        queue.closed = true;
        let waiting = std::mem::take(&mut queue.waiting);
        drop(queue);
        self.ready.notify_one();
        drop(waiting);
        worker.pending.clear();
        worker.unknown.clear();
    }

    /// Notes a group of so many submissions, and whether a writer seems to be alone.
    fn finish(&self, count: usize, bytes: usize, took: Duration) {
        self.groups.fetch_add(1, Ordering::Relaxed);
        self.submissions.fetch_add(count as u64, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let before = self.unfinished.fetch_sub(count, Ordering::Relaxed);
        assert!(before >= count, "{count} submissions are finished, of {before}");
        let bytes_before = self.unfinished_bytes.fetch_sub(bytes, Ordering::Relaxed);
        assert!(bytes_before >= bytes, "{bytes} bytes are committed, of {bytes_before} handed in");
        if before == 1 && took <= LONE_COMMIT_MAX {
            self.lone_groups.fetch_add(1, Ordering::Relaxed);
        } else {
            self.lone_groups.store(0, Ordering::Relaxed);
        }
    }
}

struct Worker {
    store: Arc<dyn Store>,
    durability: Durability,
    publish: Publish,
    /// Taken by the first failure.
    fatal: Option<FatalHandler>,
    group: u64,
    /// Taken from the queue, not yet in a group.
    pending: VecDeque<Submission>,
    /// The group that is being committed. Dropping a completion tells its owner that nothing was
    /// written, so it stays here when that is unknown.
    unknown: Vec<Box<dyn Completion>>,
}

impl Worker {
    fn commit_pending(&mut self, shared: &Shared) -> Result<(), StoreError> {
        while !self.pending.is_empty() {
            let batch = self.take_group();
            self.commit(batch, shared)?;
        }
        Ok(())
    }

    fn take_group(&mut self) -> Batch {
        assert!(self.unknown.is_empty(), "the group before has been notified");
        let mut batch = Batch::new();
        while self.unknown.len() < GROUP_SUBMISSIONS_MAX && batch.bytes() < GROUP_BYTES_MAX {
            let Some(submission) = self.pending.pop_front() else { break };
            batch.append(submission.batch);
            self.unknown.push(submission.completion);
        }
        batch
    }

    fn commit(&mut self, batch: Batch, shared: &Shared) -> Result<(), StoreError> {
        let (bytes, begun) = (batch.bytes(), monotonic());
        if !batch.is_empty() {
            self.store.commit(batch, self.durability)?;
        }
        let took = begun.elapsed();
        let snapshot = self.store.snapshot();
        self.group += 1;
        for completion in &mut self.unknown {
            completion.apply(self.group);
        }
        (self.publish)(self.group, snapshot);

        let completions = std::mem::take(&mut self.unknown);
        shared.finish(completions.len(), bytes, took);
        for completion in completions {
            completion.notify();
        }
        Ok(())
    }
}

fn abort(failure: Fatal) {
    eprintln!("armilla: stopping at once, {failure}");
    std::process::abort();
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "unknown".into())
}

#[cfg(test)]
mod tests;
