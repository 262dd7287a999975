//! Commits on a network thread, for a client that nobody is beside.
//!
//! A small write is staged on the thread that has its connection. Handing its commit to another thread and being woken by
//! that one costs a lone client about as much as the rest, so that thread commits by itself. It waits for the disk meanwhile,
//! and a network thread that waits may be the one that would have seen the next request of somebody else. So it is watched: after
//! [`LONE_COMMIT_LATE`] a thread of ours hands an empty task to the runtime, which wakes another network thread, and that one
//! takes over the sockets and what was queued here.
//!
//! There is at most one such commit at a time, so all network threads but one always serve.

use crate::limits::{LONE_COMMIT_LATE, LONE_QUIET_LOOKS};
use armilla_model::clock::monotonic;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::Instant;
use tokio::runtime::{Handle, RuntimeFlavor};

/// Lets one commit at a time run on a network thread.
pub(crate) struct LoneCommits {
    shared: Arc<LoneWatch>,
    /// The thread that looks after them; none where there is nobody who could stand in.
    watcher: OnceLock<Option<Thread>>,
}

struct LoneWatch {
    epoch: Instant,
    /// When the commit under way began, in microseconds of `epoch`; 0 when there is none.
    began: AtomicU64,
    /// Commits so far.
    count: AtomicU64,
    /// The watcher is looking, and need not be woken.
    is_watched: AtomicBool,
    is_closed: AtomicBool,
}

/// A commit that is watched until this is dropped.
pub(crate) struct LoneCommit<'l>(&'l LoneWatch);

impl Default for LoneCommits {
    fn default() -> Self {
        let shared = LoneWatch {
            epoch: monotonic(),
            began: AtomicU64::new(0),
            count: AtomicU64::new(0),
            is_watched: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared), watcher: OnceLock::new() }
    }
}

impl LoneCommits {
    /// Lets this thread wait for the disk; nothing where another one does already, or none could stand in for it.
    pub(crate) fn begin(&self) -> Option<LoneCommit<'_>> {
        let watcher = self.watcher.get_or_init(|| start(&self.shared)).as_ref()?;
        let shared = &*self.shared;
        let now = shared.microseconds().max(1);
        shared.began.compare_exchange(0, now, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        let commit = LoneCommit(shared);
        // Before the flag: a watcher that is about to sleep counts again behind it.
        shared.count.fetch_add(1, Ordering::SeqCst);
        if !shared.is_watched.swap(true, Ordering::SeqCst) {
            watcher.unpark();
        }
        Some(commit)
    }
}

impl Drop for LoneCommits {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Ordering::Release);
        if let Some(Some(watcher)) = self.watcher.get() {
            watcher.unpark();
        }
    }
}

impl Drop for LoneCommit<'_> {
    fn drop(&mut self) {
        self.0.began.store(0, Ordering::Release);
    }
}

/// Starts the watcher, if this thread is one of several of a runtime.
fn start(shared: &Arc<LoneWatch>) -> Option<Thread> {
    let runtime = Handle::try_current().ok()?;
    if runtime.runtime_flavor() != RuntimeFlavor::MultiThread || runtime.metrics().num_workers() < 2
    {
        return None;
    }
    let shared = Arc::clone(shared);
    let watching = move || shared.watch(&|| drop(runtime.spawn(async {})));
    let watcher = thread::Builder::new().name("lone-commits".to_owned()).spawn(watching);
    watcher.ok().map(|handle| handle.thread().clone())
}

impl LoneWatch {
    fn microseconds(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Looks as long as there are commits, and sleeps while there are none.
    fn watch(&self, wake_another: &dyn Fn()) {
        let late = u64::try_from(LONE_COMMIT_LATE.as_micros()).unwrap_or(u64::MAX);
        let (mut seen, mut quiet) = (0, 0);
        while !self.is_closed.load(Ordering::Acquire) {
            let began = self.began.load(Ordering::Acquire);
            if began != 0 && self.microseconds().saturating_sub(began) >= late {
                wake_another();
            }
            let count = self.count.load(Ordering::SeqCst);
            quiet = if began == 0 && count == seen { quiet + 1 } else { 0 };
            seen = count;
            if quiet < LONE_QUIET_LOOKS {
                thread::park_timeout(LONE_COMMIT_LATE);
                continue;
            }
            self.is_watched.store(false, Ordering::SeqCst);
            if self.count.load(Ordering::SeqCst) == seen {
                thread::park();
            }
            quiet = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    fn runtime(threads: usize) -> tokio::runtime::Runtime {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(threads).enable_all().build().unwrap()
    }

    /// Timers belong to whichever network thread sleeps last. A thread that is held up is stood in for, or this never ends.
    #[test]
    fn others_are_served_while_a_commit_waits_for_the_disk() {
        const ROUNDS: usize = 20;
        let (runtime, lone) = (runtime(2), Arc::new(LoneCommits::default()));
        for _ in 0..ROUNDS {
            let (let_go, disk) = mpsc::channel::<()>();
            let commits = Arc::clone(&lone);
            let writer = runtime.spawn(async move {
                let _watched = commits.begin().unwrap();
                disk.recv_timeout(Duration::from_secs(30)).unwrap();
            });
            let other = runtime.spawn(async move {
                // Pause: what is tested is that timers go off while the disk is waited for.
                tokio::time::sleep(Duration::from_millis(20)).await;
                let_go.send(()).unwrap();
            });
            runtime.block_on(async { (writer.await.unwrap(), other.await.unwrap()) });
        }
    }

    #[test]
    fn one_commit_at_a_time_and_none_where_nobody_could_stand_in() {
        let lone = LoneCommits::default();
        runtime(2).block_on(async {
            let first = lone.begin();
            assert!(first.is_some());
            assert!(lone.begin().is_none());
            drop(first);
            assert!(lone.begin().is_some());
        });
        let lone = LoneCommits::default();
        runtime(1).block_on(async { assert!(lone.begin().is_none()) });
    }
}
