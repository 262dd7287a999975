//! Connections that have not brought a request yet that was let in.
//!
//! They cost a stranger nothing, so they may fill only a part of the places. When that part is full,
//! the oldest of them makes room for the newest: a client connects because it has a request, and is no
//! newcomer a moment later, while those who say nothing are closed one after the other.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Notify;

/// The newcomers of a server, oldest first.
pub(super) struct Newcomers {
    known: Mutex<KnownPeers>,
    count_max: usize,
}

#[derive(Default)]
struct KnownPeers {
    waiting: BTreeMap<u64, Arc<Notify>>,
    last: u64,
}

/// One of them, until dropped.
pub(super) struct Newcomer {
    all: Arc<Newcomers>,
    number: u64,
    evicted: Arc<Notify>,
}

impl Newcomers {
    pub(super) fn new(count_max: usize) -> Self {
        Self { known: Mutex::default(), count_max: count_max.max(1) }
    }

    /// One more, for whom the oldest goes if there are too many.
    pub(super) fn arrive(all: &Arc<Self>) -> Newcomer {
        let evicted = Arc::<Notify>::default();
        let mut known = all.known.lock();
        if known.waiting.len() >= all.count_max
            && let Some((_, oldest)) = known.waiting.pop_first()
        {
            oldest.notify_one();
        }
        known.last += 1;
        let number = known.last;
        known.waiting.insert(number, evicted.clone());
        Newcomer { all: all.clone(), number, evicted }
    }
}

impl Newcomer {
    /// Waits until this one has to make room.
    pub(super) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    /// It has brought a request that was let in: it stays.
    pub(super) fn settle(&self) {
        self.all.known.lock().waiting.remove(&self.number);
    }
}

impl Drop for Newcomer {
    fn drop(&mut self) {
        self.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn is_evicted(newcomer: &Newcomer) -> bool {
        let evicted = pin!(newcomer.evicted());
        evicted.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn the_oldest_makes_room_and_who_left_counts_no_more() {
        let all = Arc::new(Newcomers::new(2));
        let first = Newcomers::arrive(&all);
        let second = Newcomers::arrive(&all);
        drop(second);
        let third = Newcomers::arrive(&all);
        assert!(!is_evicted(&first) && !is_evicted(&third));
        let fourth = Newcomers::arrive(&all);
        assert!(is_evicted(&first) && !is_evicted(&third) && !is_evicted(&fourth));
    }
}
