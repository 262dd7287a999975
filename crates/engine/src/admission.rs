//! Back-pressure: whether one more write may begin, and what a query may hold.
//!
//! The commit queue, the bytes under way and the memory of queries are bounded here, before work is
//! done: whoever comes when a bound is reached is told when to come back ([`Error::Overloaded`]). The
//! committer itself takes whatever is handed to it, because a transaction that was staged must end.

use crate::account::Account;
use crate::core::Core;
use crate::limits::{
    COMMIT_QUEUE_BYTES_MAX, COMMIT_QUEUE_MAX, COMMIT_QUEUE_PRESSED_MAX, COMMIT_QUEUE_STALLED_MAX,
    QUERIES_MEMORY_MAX, QUERY_RETRY_AFTER, WRITE_BYTES_MIN, WRITE_RETRY_AFTER, WRITES_BYTES_MAX,
};
use armilla_model::error::{Error, Result};
use armilla_storage::{Pressure, Room};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A number of bytes that many share, with a bound.
#[derive(Debug)]
pub(crate) struct MemoryShare {
    taken: AtomicUsize,
    most: AtomicUsize,
}

impl MemoryShare {
    pub(crate) fn new(most: usize) -> Self {
        Self { taken: AtomicUsize::new(0), most: AtomicUsize::new(most) }
    }

    /// Sets another bound.
    pub(crate) fn limit(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
    }

    /// Takes bytes if they are there.
    fn take(&self, bytes: usize) -> bool {
        let before = self.taken.fetch_add(bytes, Ordering::Relaxed);
        let fits = before.saturating_add(bytes) <= self.most.load(Ordering::Relaxed);
        if !fits {
            self.give_back(bytes);
        }
        fits
    }

    /// Takes bytes that are held already.
    pub(crate) fn take_anyway(&self, bytes: usize) {
        self.taken.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn give_back(&self, bytes: usize) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }
}

/// What requests share.
#[derive(Debug)]
pub(crate) struct Shares {
    /// Bytes of writes under way.
    writes: MemoryShare,
    /// Bytes that queries hold.
    pub(crate) queries: Arc<MemoryShare>,
}

impl Default for Shares {
    fn default() -> Self {
        let queries = Arc::new(MemoryShare::new(QUERIES_MEMORY_MAX));
        Self { writes: MemoryShare::new(WRITES_BYTES_MAX), queries }
    }
}

impl MemoryShare {
    /// Takes bytes for a query.
    pub(crate) fn take_for_query(&self, bytes: usize) -> Result<()> {
        match self.take(bytes) {
            true => Ok(()),
            false => Err(Error::Overloaded { retry_after: QUERY_RETRY_AFTER }),
        }
    }
}

/// The place of a write under way, given back when dropped.
pub struct WriteAdmission<'c> {
    writes: &'c MemoryShare,
    bytes: usize,
}

impl Drop for WriteAdmission<'_> {
    fn drop(&mut self) {
        self.writes.give_back(self.bytes);
    }
}

/// What is under way now. Each number has a bound in [`limits`](crate::limits).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Transactions that were handed to the committer and are not answered yet.
    pub commits_queued: usize,
    /// Bytes that those write.
    pub commit_bytes_queued: usize,
    /// Bytes of writes between their admission and their answer.
    pub write_bytes: usize,
    /// Bytes that queries hold while they sort, group or gather, beyond what each may hold uncounted.
    pub query_bytes: usize,
}

/// What a write does to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    /// It may need more room.
    Any,
    /// It only removes items, which makes room in the end.
    Delete,
}

impl Account {
    /// What is under way now.
    pub fn load(&self) -> Load {
        let (committer, shares) = (&self.core.committer, &self.core.shares);
        Load {
            commits_queued: committer.queue_len(),
            commit_bytes_queued: committer.queue_bytes(),
            write_bytes: shares.writes.taken(),
            query_bytes: shares.queries.taken(),
        }
    }

    /// Refuses a write for which the disk has no room.
    ///
    /// # Errors
    ///
    /// [`Error::DiskFull`].
    pub fn require_room(&self, kind: WriteKind) -> Result<()> {
        match (self.core.store.room(), kind) {
            (Room::Plenty, _) | (Room::Reserve, WriteKind::Delete) => Ok(()),
            _ => Err(Error::DiskFull),
        }
    }

    /// A place for one more write with a body of so many bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Overloaded`] while more is queued than the store keeps up with, [`Error::DiskFull`] while
    /// there is no room for this kind of write.
    pub fn admit_write(&self, bytes: usize, kind: WriteKind) -> Result<WriteAdmission<'_>> {
        self.require_room(kind)?;
        let bytes = bytes + WRITE_BYTES_MIN;
        let writes = &self.core.shares.writes;
        if self.core.keeps_up() && writes.take(bytes) {
            return Ok(WriteAdmission { writes, bytes });
        }
        Err(Error::Overloaded { retry_after: WRITE_RETRY_AFTER })
    }
}

impl Core {
    /// True while the commit queue is shorter than the store's strain allows.
    pub(crate) fn keeps_up(&self) -> bool {
        let queued = self.committer.queue_len();
        // Asked before every write: the store is looked at only when something waits.
        if queued < COMMIT_QUEUE_STALLED_MAX {
            return self.committer.queue_bytes() < COMMIT_QUEUE_BYTES_MAX;
        }
        let most = match self.store.pressure() {
            Pressure::Calm => COMMIT_QUEUE_MAX,
            Pressure::High => COMMIT_QUEUE_PRESSED_MAX,
            Pressure::Stalled => COMMIT_QUEUE_STALLED_MAX,
        };
        queued < most && self.committer.queue_bytes() < COMMIT_QUEUE_BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_gives_out_no_more_than_it_has() {
        let share = MemoryShare::new(100);
        assert!(share.take(60) && !share.take(41) && share.take(40) && !share.take(1));
        share.give_back(60);
        assert!(share.take(60));
        assert!(!share.take(usize::MAX), "nor does it wrap around");
        assert_eq!(share.taken(), 100);
    }
}
