//! Bounded pools for work that takes its time.
//!
//! Three pools, so that one kind of work cannot starve another: reads (queries, lists, feeds), writes
//! (staging of what is large) and the catalog, whose work waits for commits more than it computes. Each
//! runs a few pieces of work at once; a bounded number waits for a place, for a bounded time, and whoever
//! comes when the queue is full is told when to come back. A client that goes away leaves the queue.

use crate::limits::{
    CATALOG_THREADS, POOL_QUEUE_MAX, POOL_RETRY_AFTER, POOL_THREADS_MAX, POOL_THREADS_MIN,
    POOL_THREADS_PER_CORE, POOL_WAIT_MAX,
};
use armilla_model::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The pools of a service.
pub(crate) struct Pools {
    /// Queries, lists, change feeds.
    pub(crate) reads: Pool,
    /// Staging of large writes.
    pub(crate) writes: Pool,
    /// Databases, containers, scripts, users, offers.
    pub(crate) catalog: Pool,
}

impl Default for Pools {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = (cores * POOL_THREADS_PER_CORE).clamp(POOL_THREADS_MIN, POOL_THREADS_MAX);
        Self {
            reads: Pool::new(threads, POOL_QUEUE_MAX, POOL_WAIT_MAX),
            writes: Pool::new(threads, POOL_QUEUE_MAX, POOL_WAIT_MAX),
            catalog: Pool::new(CATALOG_THREADS, POOL_QUEUE_MAX, POOL_WAIT_MAX),
        }
    }
}

/// Threads for one kind of work, and a queue that ends.
pub(crate) struct Pool {
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
    waiting_max: usize,
    wait_max: Duration,
}

impl Pool {
    fn new(threads: usize, waiting_max: usize, wait_max: Duration) -> Self {
        let places = Arc::new(Semaphore::new(threads));
        Self { places, waiting: AtomicUsize::new(0), waiting_max, wait_max }
    }

    /// Runs work on a thread that may be kept busy.
    ///
    /// # Errors
    ///
    /// What the work says, or [`Error::Overloaded`] when there was no place for it.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        on_thread(self.place().await?, work).await
    }

    /// Begins work that nobody waits for, once there is a place for it.
    ///
    /// # Errors
    ///
    /// [`Error::Overloaded`] when there was none.
    pub(crate) async fn begin(&self, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let place = self.place().await?;
        let _on_its_own = tokio::task::spawn_blocking(move || {
            work();
            drop(place);
        });
        Ok(())
    }

    /// Runs work that goes on with what was begun, and so waits for its place however long.
    ///
    /// # Errors
    ///
    /// What the work says.
    pub(crate) async fn resume<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let closed = |_| Error::Internal("the pool is closed".to_owned());
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(closed)?;
        on_thread(place, work).await
    }

    async fn place(&self) -> Result<OwnedSemaphorePermit> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(place);
        }
        let full = || Error::Overloaded { retry_after: POOL_RETRY_AFTER };
        let _waiting = QueueTicket::begin(&self.waiting, self.waiting_max).ok_or_else(full)?;
        let place = Arc::clone(&self.places).acquire_owned();
        match tokio::time::timeout(self.wait_max, place).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) | Err(_) => Err(full()),
        }
    }
}

async fn on_thread<T: Send + 'static>(
    place: OwnedSemaphorePermit,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let working = tokio::task::spawn_blocking(move || {
        let done = work();
        // Kept to the end of the work, also when nobody waits for it any more.
        drop(place);
        done
    });
    let ended = |error| {
        let what =
            "A thread of the server ended in the middle of this request; its log has the reason";
        Err(Error::Internal(format!("{what} ({error}). A read may be repeated.")))
    };
    working.await.unwrap_or_else(ended)
}

/// One who waits for a place, until dropped.
struct QueueTicket<'p>(&'p AtomicUsize);

impl<'p> QueueTicket<'p> {
    fn begin(count: &'p AtomicUsize, most: usize) -> Option<Self> {
        let before = count.fetch_add(1, Ordering::AcqRel);
        // Counts back when there are too many, since it is dropped.
        let waiting = Self(count);
        (before < most).then_some(waiting)
    }
}

impl Drop for QueueTicket<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const SOON: Duration = Duration::from_secs(20);

    /// Polls a future once, so that it is queued.
    async fn begun<F: Future + Unpin>(future: &mut F) {
        let polled = std::future::poll_fn(|context| {
            std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(context).is_ready())
        });
        assert!(!polled.await, "the work is under way or waits");
    }

    #[tokio::test]
    async fn a_full_pool_queues_up_to_its_bound_and_then_refuses() {
        let pool = Pool::new(1, 2, SOON);
        let (release, held) = mpsc::channel::<()>();
        let mut running = Box::pin(pool.run(move || Ok(held.recv_timeout(SOON).is_ok())));
        begun(&mut running).await;
        let mut first = Box::pin(pool.run(|| Ok(1)));
        let mut second = Box::pin(pool.run(|| Ok(2)));
        begun(&mut first).await;
        begun(&mut second).await;
        let refused = pool.run(|| Ok(3)).await;
        assert!(matches!(refused, Err(Error::Overloaded { .. })), "{refused:?}");
        // Whoever goes away makes room.
        drop(first);
        let mut third = Box::pin(pool.run(|| Ok(3)));
        begun(&mut third).await;
        release.send(()).unwrap();
        assert_eq!(running.await, Ok(true));
        assert_eq!((second.await, third.await), (Ok(2), Ok(3)));
    }

    #[tokio::test]
    async fn nobody_waits_for_a_place_for_ever() {
        let pool = Pool::new(1, 2, Duration::from_millis(20));
        let (release, held) = mpsc::channel::<()>();
        let mut running = Box::pin(pool.run(move || Ok(held.recv_timeout(SOON).is_ok())));
        begun(&mut running).await;
        let refused = pool.run(|| Ok(())).await;
        assert!(matches!(refused, Err(Error::Overloaded { .. })), "{refused:?}");
        release.send(()).unwrap();
        assert_eq!(running.await, Ok(true));
    }

    #[tokio::test]
    async fn work_that_nobody_waits_for_keeps_its_place_to_its_end() {
        let pool = Pool::new(1, 0, SOON);
        let (release, held) = mpsc::channel::<()>();
        let (ended, end) = mpsc::channel();
        let mut abandoned = Box::pin(pool.run(move || {
            let _ = held.recv_timeout(SOON);
            Ok(ended.send(()))
        }));
        begun(&mut abandoned).await;
        drop(abandoned);
        assert!(pool.run(|| Ok(())).await.is_err(), "its thread is still busy");
        release.send(()).unwrap();
        end.recv_timeout(SOON).unwrap();
        while pool.run(|| Ok(())).await.is_err() {
            tokio::task::yield_now().await;
        }
    }
}
