//! Merges of sorted files on a disk that fills up.
//!
//! A merge writes its result before it removes what it read, so it needs as much room again as its inputs
//! have. One that runs out of room has worked in vain, and what it wrote stays until the next start. Two
//! things keep this from happening:
//!
//! - the reserve grows by the largest merge in sight ([`largest`]), so that writes stop while merges, which
//!   give back the room of what was deleted, still fit;
//! - each merge looks at the disk as it goes ([`PauseFactory`]) and waits below a floor until there is room
//!   again. The engine lets us see every entry of a merge through a filter; ours keeps all of them. No
//!   lock is held meanwhile, and the engine's first worker flushes only, so flushes go on.
//!
//! A merge that meets a full disk all the same waits and begins again ([`RoomWaits`]).

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use fjall::AbstractTree;
use fjall::compaction::filter::{
    CompactionFilter, CompactionFilterResult, Context, Factory, ItemAccessor, Verdict,
};

use super::room_waits::RoomWaits;

/// A merge looks at the disk once in so many bytes.
const LOOK_EVERY_BYTES: usize = 1 << 20;

/// The most that the reserve grows for merges. Larger ones are possible in stores of many gigabytes; they
/// wait for room if there is too little.
const LARGEST_MAX: u64 = 1 << 30;

/// About as many bytes as the largest merge in sight writes: the newest files of a tree and the level
/// they go to.
pub(super) fn largest<'a>(trees: impl Iterator<Item = &'a fjall::Keyspace>) -> u64 {
    let of_tree = |keyspace: &fjall::Keyspace| {
        let version = keyspace.tree.current_version();
        let mut levels = version.iter_levels().map(|level| level.size());
        let newest = levels.next().unwrap_or(0);
        newest.saturating_add(levels.find(|bytes| *bytes > 0).unwrap_or(0))
    };
    trees.map(of_tree).max().unwrap_or(0).min(LARGEST_MAX)
}

/// What the engine asks for at the beginning of each merge.
pub(super) fn pausing(waits: &Arc<RoomWaits>) -> Arc<dyn Factory> {
    Arc::new(PauseFactory(AssertUnwindSafe(Arc::clone(waits))))
}

/// Makes the filter of one merge.
struct PauseFactory(AssertUnwindSafe<Arc<RoomWaits>>);

impl Factory for PauseFactory {
    fn name(&self) -> &'static str {
        "pause on a full disk"
    }

    fn make_filter(&self, _context: &Context) -> Box<dyn CompactionFilter> {
        // Looks before the first entry.
        Box::new(PauseFilter { waits: Arc::clone(&self.0), unlooked: LOOK_EVERY_BYTES })
    }
}

/// Sees every entry of one merge but the marks of deleted ones, and keeps it.
struct PauseFilter {
    waits: Arc<RoomWaits>,
    /// Bytes since the last look.
    unlooked: usize,
}

impl CompactionFilter for PauseFilter {
    fn filter_item(&mut self, item: ItemAccessor<'_>, _: &Context) -> CompactionFilterResult {
        self.unlooked += item.key().len() + item.value()?.len();
        if self.unlooked >= LOOK_EVERY_BYTES {
            self.unlooked = 0;
            if !self.waits.wait_to_merge() {
                let closed = "the store was closed while a merge waited for room";
                let closed = std::io::Error::new(std::io::ErrorKind::StorageFull, closed);
                return Err(lsm_tree::Error::Io(closed));
            }
        }
        Ok(Verdict::Keep)
    }
}

#[cfg(test)]
mod tests;
