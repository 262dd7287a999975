//! Turns: how the requests of one connection share the network's threads with those of others.
//!
//! The runtime serves tasks in the order they became ready, and every request of an HTTP/2 connection
//! is a task. So a client that sends thousands of requests at once would stand in the queue thousands
//! of times before another client's one request, and the other would wait for seconds. With turns a
//! connection stands there a few times at most: a request runs on only when it has a turn, and the
//! connection's own task hands out new ones, which stands in the same queue as everybody else.

use parking_lot::Mutex;
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use tokio::sync::Semaphore;

/// Turns of a connection for each thread of the network: enough to keep them all busy.
const TURNS_PER_THREAD: usize = 4;

/// The turns of one connection.
pub(super) struct Turns {
    left: Semaphore,
    turns_max: usize,
    /// The connection's task.
    host: Mutex<Option<Waker>>,
}

impl Turns {
    /// The turns of a new connection. Must be called inside a runtime.
    pub(super) fn new() -> Self {
        let threads = tokio::runtime::Handle::current().metrics().num_workers();
        let turns_max = threads * TURNS_PER_THREAD;
        Self { left: Semaphore::new(turns_max), turns_max, host: Mutex::default() }
    }

    /// Hands out new turns. The connection's task calls it whenever it runs.
    pub(super) fn renew(&self, context: &Context<'_>) {
        let mut host = self.host.lock();
        if !host.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            *host = Some(context.waker().clone());
        }
        drop(host);
        let used = self.turns_max.saturating_sub(self.left.available_permits());
        if used > 0 {
            self.left.add_permits(used);
        }
    }

    /// Does some work, running on only when it has a turn.
    pub(super) async fn take<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            if let Ok(turn) = self.left.acquire().await {
                turn.forget();
            }
            let polled = poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await;
            if self.left.available_permits() == 0
                && let Some(host) = &*self.host.lock()
            {
                host.wake_by_ref();
            }
            match polled {
                Poll::Ready(done) => return done,
                Poll::Pending => woken().await,
            }
        }
    }
}

/// Waits until the task is woken: whoever was polled last has its waker.
async fn woken() {
    let mut is_woken = false;
    poll_fn(|_| {
        let poll = if is_woken { Poll::Ready(()) } else { Poll::Pending };
        is_woken = true;
        poll
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::sync::Notify;
    use tokio::task::{JoinHandle, JoinSet, yield_now};

    /// A connection: its turns, and the task that renews them.
    fn connection() -> (Arc<Turns>, JoinHandle<()>) {
        let turns = Arc::new(Turns::new());
        let renewed = turns.clone();
        let host = tokio::spawn(poll_fn(move |context| {
            renewed.renew(context);
            Poll::Pending
        }));
        (turns, host)
    }

    /// Another connection's request is served before all those of a crowded one, and all of these come
    /// to their end, with waits in between.
    #[tokio::test]
    async fn a_crowd_on_one_connection_lets_others_pass() {
        const CROWD: usize = 1_000;
        const STEPS: usize = 3;
        let ((turns, host), done) = (connection(), Arc::new(AtomicUsize::new(0)));
        let mut crowd = JoinSet::new();
        for _ in 0..CROWD {
            let (turns, done) = (turns.clone(), done.clone());
            crowd.spawn(async move {
                let work = async {
                    for _ in 0..STEPS {
                        done.fetch_add(1, Ordering::SeqCst);
                        yield_now().await;
                    }
                };
                turns.take(work).await;
            });
        }
        let other = tokio::spawn(async { Turns::new().take(async {}).await });
        other.await.unwrap();
        let before = done.load(Ordering::SeqCst);
        assert!(before < CROWD / 10, "{before} steps of the crowd came first");
        while crowd.join_next().await.is_some() {}
        assert_eq!(done.load(Ordering::SeqCst), CROWD * STEPS);
        host.abort();
    }

    /// Who waits for something else keeps nobody from running, and who goes away takes no turn along.
    #[tokio::test]
    async fn waiting_takes_no_turn() {
        let ((turns, host), gate) = (connection(), Arc::new(Notify::new()));
        let mut waiting = JoinSet::new();
        for _ in 0..100 {
            let (turns, gate) = (turns.clone(), gate.clone());
            waiting.spawn(async move { turns.take(gate.notified()).await });
        }
        for _ in 0..300 {
            yield_now().await;
        }
        assert_eq!(turns.take(async { 7 }).await, 7);
        waiting.abort_all();
        while waiting.join_next().await.is_some() {}
        for _ in 0..1_000 {
            assert_eq!(turns.take(async { 8 }).await, 8);
        }
        host.abort();
    }
}
