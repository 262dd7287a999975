//! The threads that run scripts: few, named, and with a queue that ends.
//!
//! A script blocks its thread for up to its time limit, so it must run neither on a network thread
//! nor on those that serve queries. Each job waits with the lock of its logical partition in hand;
//! jobs of one logical partition therefore queue at its lock and not here.

use super::watchdog::{Watchdog, Watched};
use crate::limits::{
    SCRIPT_QUEUE_MAX, SCRIPT_RETRY_AFTER, SCRIPT_STACK_SIZE, SCRIPT_THREADS_MAX, SCRIPT_THREADS_MIN,
};
use armilla_model::error::{Error, Result};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Instant;

type Job = Box<dyn FnOnce() + Send>;

/// Threads that take jobs in the order they came.
pub(super) struct Pool {
    shared: Arc<Shared>,
    /// How many threads there are, those given up and replaced not counted.
    threads: usize,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    filled: Condvar,
    watchdog: Watchdog,
    /// Threads started so far, for their names.
    started: AtomicUsize,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Places that are kept for jobs on their way.
    reserved: usize,
    closed: bool,
}

/// A place in the queue.
pub(super) struct QueuePlace {
    shared: Arc<Shared>,
}

impl Pool {
    /// Starts the threads.
    pub(super) fn start() -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let cores = thread::available_parallelism().map_or(SCRIPT_THREADS_MIN, usize::from);
        for _ in 0..cores.clamp(SCRIPT_THREADS_MIN, SCRIPT_THREADS_MAX) {
            start_thread(&shared)?;
        }
        let pool = Self { shared: shared.clone(), threads: shared.started.load(Relaxed) };
        thread::Builder::new()
            .name("script-watchdog".to_owned())
            .spawn(move || {
                shared.watchdog.run(|| start_thread(&shared).is_ok());
            })
            .map_err(|error| Error::Internal(format!("the watchdog failed: {error}")))?;
        Ok(pool)
    }

    /// Watches the job of this thread: when it has not ended by then, `take_back` is asked to take back
    /// what the job holds, and another thread takes the place of this one.
    pub(super) fn watch(
        &self,
        late_at: Instant,
        take_back: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Watched<'_> {
        self.shared.watchdog.watch(late_at, take_back)
    }

    /// Threads that were given up so far.
    pub(super) fn given_up(&self) -> u64 {
        self.shared.watchdog.given_up()
    }

    /// Keeps a place in the queue, if there is one.
    pub(super) fn reserve(&self) -> Result<QueuePlace> {
        let mut queue = self.shared.queue.lock();
        let is_lost = self.shared.watchdog.lost() >= self.threads;
        if queue.jobs.len() + queue.reserved >= SCRIPT_QUEUE_MAX || is_lost {
            return Err(Error::Overloaded { retry_after: SCRIPT_RETRY_AFTER });
        }
        queue.reserved += 1;
        Ok(QueuePlace { shared: self.shared.clone() })
    }
}

impl QueuePlace {
    /// Puts a job into the place.
    pub(super) fn fill(self, job: impl FnOnce() + Send + 'static) {
        self.shared.queue.lock().jobs.push_back(Box::new(job));
        self.shared.filled.notify_one();
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        self.shared.queue.lock().reserved -= 1;
    }
}

impl Drop for Pool {
    /// Lets the threads end when the queue is empty. Nobody waits for them: the last job may be
    /// what drops the pool.
    fn drop(&mut self) {
        self.shared.queue.lock().closed = true;
        self.shared.filled.notify_all();
        self.shared.watchdog.close();
    }
}

fn start_thread(shared: &Arc<Shared>) -> Result<()> {
    let number = shared.started.fetch_add(1, Relaxed);
    let shared = shared.clone();
    thread::Builder::new()
        .name(format!("script-{number}"))
        .stack_size(SCRIPT_STACK_SIZE)
        .spawn(move || work(&shared))
        .map(drop)
        .map_err(|error| Error::Internal(format!("a script thread failed: {error}")))
}

fn work(shared: &Shared) {
    shared.watchdog.enter();
    while let Some(job) = next(shared) {
        // Whoever waits for the job hears of it because what the job held is dropped.
        if panic::catch_unwind(AssertUnwindSafe(job)).is_err() {
            tracing::error!("a script's job panicked; its transaction was dropped");
        }
        if shared.watchdog.is_replaced() {
            return;
        }
    }
}

fn next(shared: &Shared) -> Option<Job> {
    let mut queue = shared.queue.lock();
    loop {
        if let Some(job) = queue.jobs.pop_front() {
            return Some(job);
        }
        if queue.closed {
            return None;
        }
        shared.filled.wait(&mut queue);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Waits until something holds, or fails.
    fn until(holds: impl Fn() -> bool) {
        let deadline = Instant::now() + std::time::Duration::from_secs(30);
        while !holds() {
            assert!(Instant::now() < deadline, "it never came to hold");
            std::thread::yield_now();
        }
    }

    #[test]
    fn the_queue_ends_and_opens_again() {
        let pool = Pool::start().unwrap();
        let places: Vec<_> = (0..SCRIPT_QUEUE_MAX).map(|_| pool.reserve().unwrap()).collect();
        assert!(matches!(pool.reserve(), Err(Error::Overloaded { .. })));
        drop(places);
        pool.reserve().unwrap();
    }

    #[test]
    fn threads_that_do_not_come_back_are_replaced_and_end_when_they_do() {
        let pool = Pool::start().unwrap();
        let shared = pool.shared.clone();
        let threads = shared.started.load(Relaxed);
        let (let_go, stuck) = mpsc::channel::<()>();
        let stuck = Arc::new(Mutex::new(stuck));
        let (sender, receiver) = mpsc::channel();
        for _ in 0..threads {
            let (inner, stuck, sender) = (shared.clone(), stuck.clone(), sender.clone());
            pool.reserve().unwrap().fill(move || {
                let taken_back = sender.clone();
                let _watched = inner.watchdog.watch(Instant::now(), move || {
                    taken_back.send("taken back").unwrap();
                    true
                });
                let _let_go = stuck.lock().recv();
                sender.send("came back").unwrap();
            });
        }
        // Every thread is stuck; each is taken back, and others run what comes.
        for _ in 0..threads {
            assert_eq!(receiver.recv().unwrap(), "taken back");
        }
        pool.reserve().unwrap().fill(move || sender.send("another").unwrap());
        assert_eq!(receiver.recv().unwrap(), "another");
        // Threads are counted, and others started in their place, after what they held is taken back.
        until(|| pool.given_up() == threads as u64);
        until(|| shared.started.load(Relaxed) == 2 * threads);
        drop(let_go);
        let came_back = receiver.iter().inspect(|what| assert_eq!(*what, "came back"));
        assert_eq!(came_back.count(), threads);
        assert_eq!(pool.given_up(), threads as u64);
        assert_eq!(shared.started.load(Relaxed), 2 * threads);
    }

    #[test]
    fn jobs_run_also_after_one_that_panics() {
        let pool = Pool::start().unwrap();
        let (sender, receiver) = mpsc::channel();
        for number in 0..40 {
            let sender = sender.clone();
            pool.reserve().unwrap().fill(move || {
                assert!(number % 2 == 0, "every other job fails");
                sender.send(number).unwrap();
            });
        }
        drop((pool, sender));
        let mut ran: Vec<i32> = receiver.iter().collect();
        ran.sort_unstable();
        assert_eq!(ran, (0..40).step_by(2).collect::<Vec<_>>());
    }
}
