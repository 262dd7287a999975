//! Work that waits for room on a full disk.
//!
//! Other programs may fill the disk to its last byte at any moment: in the middle of a batch, a flush or a
//! merge. Nothing is lost by it. A batch that does not fit is taken out of the journal again, a buffer is kept
//! until it is flushed, and so are the inputs of a merge. So the engine waits here, on the thread that met the
//! full disk, and tries again when there is room; writers are refused meanwhile, and readers notice nothing.
//! A sync that fails is another matter: it ends the process, whatever its cause.
//!
//! What an interrupted flush or merge has written stays on the disk until the next start. So each
//! waits until there is room for all of it, rather than for a part again and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fjall::{FullDiskHandler, FullDiskWork};
use parking_lot::{Condvar, Mutex};

use super::space::{Probe, Reserve, SharedRoom};
use super::watch::Progress;
use crate::Room;

/// How often whoever waits for room looks again.
const LOOK_AGAIN_EVERY: Duration = Duration::from_millis(250);

/// Where commits, flushes and merges of a store wait for room.
pub(super) struct RoomWaits {
    probe: Probe,
    reserve: Reserve,
    room: Arc<SharedRoom>,
    progress: Arc<Progress>,
    ending: Mutex<Ending>,
    wake: Condvar,
    /// Threads that met a full disk and wait.
    waiting: AtomicUsize,
}

/// Who still waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ending {
    Nobody,
    Commits,
    Everybody,
}

impl RoomWaits {
    pub(super) fn new(
        probe: Probe,
        reserve: Reserve,
        room: &Arc<SharedRoom>,
        progress: &Arc<Progress>,
    ) -> Arc<Self> {
        let (room, progress) = (Arc::clone(room), Arc::clone(progress));
        let (ending, wake) = (Mutex::new(Ending::Nobody), Condvar::new());
        let waiting = AtomicUsize::new(0);
        Arc::new(Self { probe, reserve, room, progress, ending, wake, waiting })
    }

    /// What the engine calls when the disk is full.
    pub(super) fn handler(self: &Arc<Self>) -> FullDiskHandler {
        let waits = Arc::clone(self);
        Arc::new(move |work| waits.disk_is_full(work))
    }

    /// Comes back when there is room for a merge; false when the store is closed before.
    pub(super) fn wait_to_merge(&self) -> bool {
        self.wait_above(self.reserve.merges_from(), Ending::Everybody)
    }

    /// Whether something met a full disk and waits.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    /// Commits give up: nobody will wait for them any longer.
    pub(super) fn end_commits(&self) {
        self.end(Ending::Commits);
    }

    /// Everybody gives up, so that the engine can be closed. What was interrupted is removed by the next
    /// start, as after a kill.
    pub(super) fn end_all(&self) {
        self.end(Ending::Everybody);
    }

    fn end(&self, ending: Ending) {
        let mut state = self.ending.lock();
        *state = ending.max(*state);
        drop(state);
        self.wake.notify_all();
    }

    /// Returns whether to try again.
    fn disk_is_full(&self, work: FullDiskWork) -> bool {
        let (floor, gives_up_at) = match work {
            // As soon as deletes are taken again, they must not queue behind it.
            FullDiskWork::Commit => (self.reserve.deletes_from(), Ending::Commits),
            FullDiskWork::Flush | FullDiskWork::Merge => {
                (self.reserve.merges_from(), Ending::Everybody)
            }
        };
        // At once: the watcher may have looked before the disk was filled. Whoever sees that something waits sees this too.
        self.room.set(Room::Nothing);
        if self.waiting.fetch_add(1, Ordering::Release) == 0 {
            eprintln!("armilla: the disk is full; writes are refused until there is room");
        }
        self.progress.look_now();
        let goes_on = self.pause(gives_up_at) && self.wait_above(floor, gives_up_at);
        if self.waiting.fetch_sub(1, Ordering::Relaxed) == 1 && goes_on {
            eprintln!("armilla: the disk has room again");
        }
        goes_on
    }

    fn wait_above(&self, floor_bytes: u64, gives_up_at: Ending) -> bool {
        while (self.probe)().is_some_and(|free| free < floor_bytes) {
            if !self.pause(gives_up_at) {
                return false;
            }
        }
        true
    }

    /// Waits a moment; false when it is not worth waiting any longer.
    fn pause(&self, gives_up_at: Ending) -> bool {
        let mut ending = self.ending.lock();
        if *ending < gives_up_at {
            self.wake.wait_for(&mut ending, LOOK_AGAIN_EVERY);
        }
        *ending < gives_up_at
    }
}

/// Ends all waits when it is dropped: the engine waits for its own threads when it is closed.
pub(super) struct WaitsEnd(pub(super) Arc<RoomWaits>);

impl Drop for WaitsEnd {
    fn drop(&mut self) {
        self.0.end_all();
    }
}
