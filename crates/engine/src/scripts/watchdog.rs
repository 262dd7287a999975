//! The watchdog of script threads.
//!
//! A script is interrupted when its time is up (`script::meter`), but not inside a built-in function of the engine. Those
//! have guards; should one be missing, the script's thread does not come back in time. A thread that is
//! late is given up: what its job holds is taken back, so that others get the lock of its logical
//! partition and the caller an answer, and another thread takes its place. The late one ends when it
//! comes back. How many may be late at a time is bounded; beyond that nobody takes their place,
//! and once all are late, what waits is refused.

use crate::limits::{SCRIPT_THREADS_LATE_MAX, SCRIPT_WATCHDOG_TICK};
use armilla_model::clock::monotonic;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

thread_local! {
    /// The fate of this thread, if it is watched.
    static FATE: RefCell<Option<Arc<AtomicU8>>> = const { RefCell::new(None) };
}

/// A thread goes on.
const GOES_ON: u8 = 0;
/// Another has taken its place.
const REPLACED: u8 = 1;
/// It was given up, and nobody has.
const LOST: u8 = 2;

/// Takes back what a job holds; false when there is nothing, or it cannot be done right now.
type TakeBack = Arc<dyn Fn() -> bool + Send + Sync>;

/// What runs, and when it is late.
#[derive(Default)]
pub(super) struct Watchdog {
    state: Mutex<WatchdogState>,
    closing: Condvar,
    /// Threads that were given up so far.
    given_up: AtomicU64,
}

#[derive(Default)]
struct WatchdogState {
    running: HashMap<u64, WatchedJob>,
    next_number: u64,
    /// Threads that were replaced and have not come back.
    replaced: usize,
    /// Threads that were given up, not replaced, and have not come back.
    lost: usize,
    closed: bool,
}

struct WatchedJob {
    late_at: Instant,
    take_back: TakeBack,
    fate: Arc<AtomicU8>,
}

/// A job that is watched until this is dropped.
pub(super) struct Watched<'w> {
    watchdog: &'w Watchdog,
    number: u64,
}

impl Watchdog {
    /// Watches the job of this thread, which is given up when it has not ended by then.
    pub(super) fn watch(
        &self,
        late_at: Instant,
        take_back: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Watched<'_> {
        let fate = FATE.with_borrow(|fate| fate.clone()).unwrap_or_default();
        let mut state = self.state.lock();
        state.next_number += 1;
        let number = state.next_number;
        let take_back = Arc::new(take_back);
        state.running.insert(number, WatchedJob { late_at, take_back, fate });
        Watched { watchdog: self, number }
    }

    /// How many threads were given up so far.
    pub(super) fn given_up(&self) -> u64 {
        self.given_up.load(Relaxed)
    }

    /// Threads that were given up, not replaced, and have not come back.
    pub(super) fn lost(&self) -> usize {
        self.state.lock().lost
    }

    /// Looks after the jobs until the watchdog is closed. `replace` starts another thread.
    pub(super) fn run(&self, replace: impl Fn() -> bool) {
        let mut state = self.state.lock();
        while !state.closed {
            self.closing.wait_for(&mut state, SCRIPT_WATCHDOG_TICK);
            let now = monotonic();
            let is_late = |running: &WatchedJob| running.late_at <= now;
            let late: Vec<u64> = state
                .running
                .iter()
                .filter(|(_, running)| is_late(running))
                .map(|(number, _)| *number)
                .collect();
            for number in late {
                let Some(running) = state.running.get(&number) else { continue };
                let (take_back, fate) = (running.take_back.clone(), running.fate.clone());
                // Not under the lock: whoever waited for what is taken back goes on at once.
                if !MutexGuard::unlocked(&mut state, || take_back()) {
                    continue;
                }
                state.running.remove(&number);
                self.given_up.fetch_add(1, Relaxed);
                let is_replaced = state.replaced < SCRIPT_THREADS_LATE_MAX && replace();
                if is_replaced {
                    state.replaced += 1;
                } else {
                    state.lost += 1;
                }
                fate.store(if is_replaced { REPLACED } else { LOST }, Relaxed);
                let late = state.replaced + state.lost;
                tracing::error!(late, "a script did not end in time; its thread was given up");
            }
        }
    }

    /// Marks this thread as one that can be replaced.
    pub(super) fn enter(&self) {
        FATE.set(Some(Arc::default()));
    }

    /// Says that this thread has come back from its job. True when another has taken its place, so
    /// that it is to end.
    pub(super) fn is_replaced(&self) -> bool {
        let fate = FATE.with_borrow(|fate| fate.clone()).unwrap_or_default();
        let fate = fate.swap(GOES_ON, Relaxed);
        if fate != GOES_ON {
            let mut state = self.state.lock();
            let late = if fate == LOST { &mut state.lost } else { &mut state.replaced };
            *late -= 1;
        }
        fate == REPLACED
    }

    /// Ends the watch.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.closing.notify_all();
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.watchdog.state.lock().running.remove(&self.number);
    }
}
