//! What every store offers: snapshots to read from, and atomic commits.
//!
//! The shapes fit a remote engine too: reads come in batches that are one round trip there and
//! free here, visitors see borrowed keys, and no transaction
//! object crosses the trait.

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;

use crate::{Batch, Direction, KeyRange, Keyspace, StoreError};

/// When a commit counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// After the disk has confirmed it: survives loss of power.
    Synced,
    /// After the operating system has it: survives a crash of the process, not of the machine.
    Relaxed,
}

/// An ordered byte map per keyspace, with snapshots and atomic batches.
pub trait Store: Send + Sync {
    /// The state after the last commit, unaffected by later ones.
    ///
    /// Cheap (one is taken per commit group), but it keeps old versions alive: hold it for
    /// seconds, not for hours.
    fn snapshot(&self) -> Arc<dyn Snapshot>;

    /// Writes the batch whole or not at all; with [`Durability::Synced`] no reader sees it before
    /// the disk has confirmed it.
    ///
    /// # Errors
    ///
    /// After an error it is unknown what a restart will find, and the process must stop.
    fn commit(&self, batch: Batch, durability: Durability) -> Result<(), StoreError>;

    /// Nothing will be committed any more: a store whose truth lies elsewhere lets others have it before the rest of
    /// the closing, which may take its time.
    fn give_up(&self) {}

    /// Makes everything durable and ends background work; later commits are refused.
    ///
    /// Snapshots that are still held stay readable. Closing twice is harmless.
    ///
    /// # Errors
    ///
    /// When something could not be written.
    fn close(&self) -> Result<(), StoreError>;

    /// Sizes and signs of strain. May wait for a sync to end: for a metrics page, not for every
    /// request.
    fn stats(&self) -> StoreStats;

    /// Whether writers should slow down. Never waits: the engine asks before it admits a write.
    fn pressure(&self) -> Pressure {
        Pressure::Calm
    }

    /// Whether a commit asks another machine. A thread that has other things to do never waits for that.
    fn is_remote(&self) -> bool {
        false
    }

    /// Whether one batch is not too much to be committed whole: the engine asks before it gives a transaction its number.
    fn takes(&self, batch: &Batch) -> bool {
        let _ = batch;
        true
    }

    /// Whether there is room for more. Never waits: the engine asks before it admits a write.
    fn room(&self) -> Room {
        Room::Plenty
    }

    /// Commits that wait for room on the disk fail from now on: the store is about to be closed.
    fn end_waits(&self) {}
}

/// A value that is shown while it lies in memory that may be used again.
pub struct Shown<'a> {
    bytes: &'a [u8],
    share: &'a dyn Fn() -> Option<Bytes>,
}

impl<'a> Shown<'a> {
    /// A value, and what shares its memory where that can be.
    pub fn new(bytes: &'a [u8], share: &'a dyn Fn() -> Option<Bytes>) -> Self {
        Self { bytes, share }
    }

    /// The value.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The value without a copy; nothing where it must be copied to be kept.
    #[must_use]
    pub fn share(&self) -> Option<Bytes> {
        (self.share)()
    }
}

/// One unchanging state of a store.
pub trait Snapshot: Send + Sync {
    /// The value of a key. It shares memory with the engine: nothing is copied, and a small value
    /// that is kept keeps its whole block of a few kilobytes.
    ///
    /// # Errors
    ///
    /// When the disk fails or what it holds is damaged.
    fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Bytes>, StoreError>;

    /// The values of many keys, in the order of the keys.
    ///
    /// # Errors
    ///
    /// As [`Snapshot::get`].
    fn get_many(
        &self,
        keyspace: Keyspace,
        keys: &[Vec<u8>],
    ) -> Result<Vec<Option<Bytes>>, StoreError> {
        keys.iter().map(|key| self.get(keyspace, key)).collect()
    }

    /// Whether the key is there.
    ///
    /// # Errors
    ///
    /// As [`Snapshot::get`].
    fn contains(&self, keyspace: Keyspace, key: &[u8]) -> Result<bool, StoreError> {
        Ok(self.get(keyspace, key)?.is_some())
    }

    /// Shows every entry of the range to `visit`, in order, until it breaks.
    ///
    /// # Errors
    ///
    /// As [`Snapshot::get`]; entries before the failure have been shown.
    fn scan(
        &self,
        keyspace: Keyspace,
        range: &KeyRange,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], Bytes) -> ControlFlow<()>,
    ) -> Result<(), StoreError>;

    /// Shows values of keys to `take`, each with the position of its key; the keys are in ascending order and neighbours. `take` says
    /// whether that is the value it looks for. They are looked for together where one of them lies, which costs less than a search
    /// each. Some may not be shown, and some may be older versions than [`Snapshot::get`] gives, deleted ones among
    /// them: it is for those who can tell by the value and search for what they miss.
    ///
    /// # Errors
    ///
    /// As [`Snapshot::get`].
    fn get_beside(
        &self,
        keyspace: Keyspace,
        keys: &[&[u8]],
        take: &mut dyn FnMut(usize, &Shown<'_>) -> bool,
    ) -> Result<(), StoreError> {
        for (position, key) in keys.iter().enumerate() {
            if let Some(value) = self.get(keyspace, key)? {
                take(position, &Shown::new(&value, &|| Some(value.clone())));
            }
        }
        Ok(())
    }

    /// The first entry of the range in this direction.
    ///
    /// # Errors
    ///
    /// As [`Snapshot::scan`].
    fn first(
        &self,
        keyspace: Keyspace,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<Option<(Vec<u8>, Bytes)>, StoreError> {
        let mut found = None;
        self.scan(keyspace, range, direction, &mut |key, value| {
            found = Some((key.to_vec(), value));
            ControlFlow::Break(())
        })?;
        Ok(found)
    }

    /// Up to `limit` entries of the range.
    ///
    /// # Errors
    ///
    /// As [`Snapshot::scan`].
    fn page(
        &self,
        keyspace: Keyspace,
        range: &KeyRange,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<(Vec<u8>, Bytes)>, StoreError> {
        let mut entries = Vec::new();
        if limit == 0 {
            return Ok(entries);
        }
        self.scan(keyspace, range, direction, &mut |key, value| {
            entries.push((key.to_vec(), value));
            if entries.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok(entries)
    }
}

/// How close the engine is to holding writers back by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    /// Background work keeps up.
    Calm,
    /// It falls behind: slow writers down now, before the engine stalls them.
    High,
    /// The engine is holding writers back, or is about to.
    Stalled,
}

/// How much room is left where the store lies.
///
/// A store that runs out of room in the middle of a flush cannot go on, so a part is kept free for what
/// is on its way already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Room {
    /// More than the reserve.
    Plenty,
    /// Less than the reserve: enough to finish what has begun, and for deletes, which make room.
    Reserve,
    /// Most of the reserve is gone too.
    Nothing,
}

/// Sizes and signs of strain of a store; zero where a store has no such thing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Bytes in files.
    pub disk_bytes: u64,
    /// Bytes of journals: what a restart after a crash has to read.
    pub journal_bytes: u64,
    /// Bytes written but not yet in sorted files.
    pub write_buffer_bytes: u64,
    /// Bytes of blocks kept in memory.
    pub cache_bytes: u64,
    /// The most write buffers any keyspace has waiting to be flushed.
    pub flushes_waiting: usize,
    /// The most overlapping files any keyspace has waiting to be merged.
    pub files_unmerged: usize,
    /// Merges running now.
    pub merges_active: usize,
}

impl StoreStats {
    /// What the counts mean for writers. The bounds follow the embedded engine's own: it stops
    /// writers at four waiting flushes and begins to brake at twenty unmerged files.
    #[must_use]
    pub const fn pressure(&self) -> Pressure {
        Pressure::of(self.flushes_waiting, self.files_unmerged)
    }
}

impl Pressure {
    pub(crate) const fn of(flushes_waiting: usize, files_unmerged: usize) -> Self {
        match (flushes_waiting, files_unmerged) {
            (4.., _) | (_, 28..) => Self::Stalled,
            (3, _) | (_, 18..) => Self::High,
            _ => Self::Calm,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_rises_before_the_engine_stalls() {
        let with = |flushes_waiting, files_unmerged| {
            StoreStats { flushes_waiting, files_unmerged, ..StoreStats::default() }.pressure()
        };
        assert_eq!(with(0, 0), Pressure::Calm);
        assert_eq!(with(2, 17), Pressure::Calm);
        assert_eq!(with(3, 0), Pressure::High);
        assert_eq!(with(0, 18), Pressure::High);
        assert_eq!(with(4, 0), Pressure::Stalled);
        assert_eq!(with(0, 30), Pressure::Stalled);
    }
}
