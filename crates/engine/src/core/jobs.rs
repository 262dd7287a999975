//! The threads behind the committer: they seal and merge index segments, and build new indexes.
//!
//! Sealing and small merges have a thread of their own, so that a large merge does not hold them
//! up. New indexes are built on a third one, one after the other: whoever wants one leaves a task,
//! so a split and a changed policy of the same container never meet.

use super::Core;
use crate::limits::{LARGE_JOB_DOCUMENTS, STOP_WAIT_MAX};
use crate::partition::{Assignment, Done, Partition};
use armilla_index::JobKind;
use armilla_model::clock::monotonic;
use armilla_storage::{Batch, Completion, Submission};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak, mpsc};
use std::thread;
use std::time::Duration;

/// A piece of work for the thread that builds indexes.
pub(crate) type Task = Box<dyn FnOnce() + Send>;

/// What the threads share with the account.
#[derive(Default)]
pub(crate) struct Background {
    stopping: AtomicBool,
    jobs_out: AtomicUsize,
}

impl Background {
    /// True when the account closes: long work ends early.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Hands out no more jobs, and waits for those that are out.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        let start = monotonic();
        while self.jobs_out.load(Ordering::SeqCst) > 0 && start.elapsed() < STOP_WAIT_MAX {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The ways to the threads.
pub(super) struct JobThreads {
    small: mpsc::Sender<Assignment>,
    large: mpsc::Sender<Assignment>,
    background: Arc<Background>,
}

impl JobThreads {
    /// Starts the two threads for jobs.
    pub(super) fn start(core: &Weak<Core>, background: &Arc<Background>) -> Self {
        let start = |name: &str| {
            let (sender, receiver) = mpsc::channel();
            let core = core.clone();
            spawn(name, move || run_jobs(&core, &receiver));
            sender
        };
        let (small, large) = (start("index-seal"), start("index-merge"));
        Self { small, large, background: background.clone() }
    }

    /// Publishes a partition's view and sends out the job it has.
    pub(super) fn publish(&self, partition: &Arc<Partition>, group: u64) {
        let job_wanted = !self.background.is_stopping();
        let Some(assignment) = partition.publish_view(group, job_wanted) else { return };
        let job = &assignment.job;
        let large = job.kind() != JobKind::Seal && job.documents() > LARGE_JOB_DOCUMENTS;
        self.background.jobs_out.fetch_add(1, Ordering::SeqCst);
        let thread = if large { &self.large } else { &self.small };
        // Nobody listens any more when the account is closing.
        let _ = thread.send(assignment);
    }
}

/// Starts the thread that builds indexes.
pub(super) fn start_builder() -> mpsc::Sender<Task> {
    let (sender, receiver) = mpsc::channel::<Task>();
    spawn("index-build", move || receiver.into_iter().for_each(|task| task()));
    sender
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) {
    let spawned = thread::Builder::new().name(name.to_owned()).spawn(run);
    spawned.expect("a thread can be started while the server starts");
}

fn run_jobs(core: &Weak<Core>, jobs: &mpsc::Receiver<Assignment>) {
    for assignment in jobs {
        let started = monotonic();
        let done = assignment.run();
        let Some(core) = core.upgrade() else { return };
        if let Some(observer) = core.observed.get() {
            observer.compacted(started.elapsed());
        }
        let completion = Box::new(Install { core: core.clone(), done: Some(done) });
        core.committer.submit(Submission { batch: Batch::new(), completion });
    }
}

struct Install {
    core: Arc<Core>,
    done: Option<Done>,
}

impl Completion for Install {
    fn apply(&mut self, _group: u64) {
        let Some(done) = self.done.take() else { return };
        let partition = done.partition.clone();
        if Partition::install(done) {
            self.core.mark_dirty(&partition);
        }
        self.core.background.jobs_out.fetch_sub(1, Ordering::SeqCst);
    }

    fn notify(self: Box<Self>) {}
}

/// Has the index of a partition that rests become files, which frees its memory.
pub(crate) fn flush_index(core: &Arc<Core>, partition: &Arc<Partition>) {
    let completion = Box::new(FlushIndex { core: core.clone(), partition: partition.clone() });
    core.committer.submit(Submission { batch: Batch::new(), completion });
}

struct FlushIndex {
    core: Arc<Core>,
    partition: Arc<Partition>,
}

impl Completion for FlushIndex {
    fn apply(&mut self, _group: u64) {
        if self.partition.flush_index() {
            self.core.mark_dirty(&self.partition);
        }
    }

    fn notify(self: Box<Self>) {}
}
