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

use parking_lot::{Condvar, Mutex};

use crate::{Batch, Durability, Snapshot, Store, StoreError};

/// The most submissions that form one group.
const GROUP_SUBMISSIONS_MAX: usize = 4096;

/// A group takes no further submission once it holds this many bytes.
const GROUP_BYTES_MAX: usize = 16 * 1024 * 1024;
const _: () = assert!(GROUP_BYTES_MAX < crate::batch::VALUE_LENGTH_MAX);

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

/// The one thread that commits.
pub struct Committer {
    shared: Arc<Shared>,
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
        let shared = Arc::<Shared>::default();
        let worker = Worker {
            shared: Arc::clone(&shared),
            store,
            durability,
            publish,
            group: 0,
            pending: VecDeque::new(),
            unknown: Vec::new(),
        };
        let thread = thread::Builder::new()
            .name("committer".into())
            .spawn(move || worker.run(fatal))
            .expect("a process that cannot start its committer cannot serve");
        Self { shared, thread: Mutex::new(Some(thread)) }
    }

    /// Queues a submission and returns at once.
    ///
    /// The queue itself has no bound. Back-pressure is the caller's: the engine compares
    /// [`Committer::queue_len`] and [`Committer::queue_bytes`] with its limits before it admits a write.
    /// After the committer was stopped the submission is dropped unacknowledged.
    pub fn submit(&self, submission: Submission) {
        let mut queue = self.shared.queue.lock();
        if queue.closed {
            return;
        }
        self.shared.unfinished.fetch_add(1, Ordering::Relaxed);
        self.shared.unfinished_bytes.fetch_add(submission.batch.bytes(), Ordering::Relaxed);
        queue.waiting.push_back(submission);
        if queue.idle {
            queue.idle = false;
            drop(queue);
            self.shared.ready.notify_one();
        }
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

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    ready: Condvar,
    unfinished: AtomicUsize,
    unfinished_bytes: AtomicUsize,
    groups: AtomicU64,
    submissions: AtomicU64,
    bytes: AtomicU64,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Submission>,
    /// The thread sleeps and wants to be woken.
    idle: bool,
    /// Nothing more is accepted.
    closed: bool,
}

struct Worker {
    shared: Arc<Shared>,
    store: Arc<dyn Store>,
    durability: Durability,
    publish: Publish,
    group: u64,
    /// Taken from the queue, not yet in a group.
    pending: VecDeque<Submission>,
    /// The group that is being committed. Dropping a completion tells its owner that nothing was
    /// written, so it stays here when that is unknown.
    unknown: Vec<Box<dyn Completion>>,
}

impl Worker {
    fn run(mut self, fatal: FatalHandler) {
        let result = catch_unwind(AssertUnwindSafe(|| self.commit_groups()));
        let failure = match result {
            Ok(Ok(())) => return,
            Ok(Err(error)) => Fatal::Commit(error),
            Err(panic) => Fatal::Panic(panic_message(panic.as_ref())),
        };
        fatal(failure);
        self.abandon();
    }

    fn commit_groups(&mut self) -> Result<(), StoreError> {
        while self.wait() {
            let batch = self.take_group();
            self.commit(batch)?;
        }
        Ok(())
    }

    /// Waits until something is pending; false when the queue is closed and drained.
    fn wait(&mut self) -> bool {
        if !self.pending.is_empty() {
            return true;
        }
        let mut queue = self.shared.queue.lock();
        while queue.waiting.is_empty() {
            if queue.closed {
                return false;
            }
            queue.idle = true;
            self.shared.ready.wait(&mut queue);
        }
        queue.idle = false;
        std::mem::swap(&mut queue.waiting, &mut self.pending);
        true
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

    fn commit(&mut self, batch: Batch) -> Result<(), StoreError> {
        let bytes = batch.bytes();
        if !batch.is_empty() {
            self.store.commit(batch, self.durability)?;
        }
        let snapshot = self.store.snapshot();
        self.group += 1;
        for completion in &mut self.unknown {
            completion.apply(self.group);
        }
        (self.publish)(self.group, snapshot);

        let completions = std::mem::take(&mut self.unknown);
        let count = completions.len();
        self.shared.groups.fetch_add(1, Ordering::Relaxed);
        self.shared.submissions.fetch_add(count as u64, Ordering::Relaxed);
        self.shared.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let before = self.shared.unfinished.fetch_sub(count, Ordering::Relaxed);
        assert!(before >= count, "{count} submissions are finished, of {before}");
        let before = self.shared.unfinished_bytes.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "{bytes} bytes are committed, of {before} that were handed in");
        for completion in completions {
            completion.notify();
        }
        Ok(())
    }

    /// Drops everything that will never be committed.
    fn abandon(&mut self) {
        let mut queue = self.shared.queue.lock();
        queue.closed = true;
        let waiting = std::mem::take(&mut queue.waiting);
        drop(queue);
        drop(waiting);
        self.pending.clear();
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
