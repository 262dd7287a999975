//! Free space of the disk under a store.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::Room;

/// Tells the free bytes; `None` when the system does not say.
pub(super) type Probe = Arc<dyn Fn() -> Option<u64> + Send + Sync>;

/// The disk on which this folder lies.
pub(super) fn probe_of(folder: PathBuf) -> Probe {
    Arc::new(move || free_bytes(&folder))
}

/// Looks at the free space now and then, and remembers what it means.
pub(super) struct Space {
    probe: Probe,
    reserve: Reserve,
    room: Arc<SharedRoom>,
}

/// What is kept free for journals, flushes and merges under way.
#[derive(Clone, Copy)]
pub(super) struct Reserve {
    bytes: u64,
}

impl Reserve {
    pub(super) const fn new(bytes: u64) -> Self {
        Self { bytes }
    }

    /// Merges wait below so many free bytes: half is left to journals, flushes and deletes.
    pub(super) const fn merges_from(self) -> u64 {
        self.bytes / 2
    }

    /// Deletes may use the reserve but for a quarter.
    pub(super) const fn deletes_from(self) -> u64 {
        self.bytes / 4
    }

    /// Other writes leave room for the largest merge too. No reserve, no refusal.
    const fn writes_from(self, merge_bytes: u64) -> u64 {
        if self.bytes == 0 { 0 } else { self.bytes.saturating_add(merge_bytes) }
    }

    const fn room(self, free: u64, merge_bytes: u64) -> Room {
        if free >= self.writes_from(merge_bytes) {
            Room::Plenty
        } else if free >= self.deletes_from() {
            Room::Reserve
        } else {
            Room::Nothing
        }
    }
}

/// The last answer, for everybody who asks before a write.
#[derive(Default)]
pub(super) struct SharedRoom(AtomicU8);

impl SharedRoom {
    pub(super) fn get(&self) -> Room {
        match self.0.load(Ordering::Relaxed) {
            0 => Room::Plenty,
            1 => Room::Reserve,
            _ => Room::Nothing,
        }
    }

    pub(super) fn set(&self, room: Room) {
        self.0.store(room as u8, Ordering::Relaxed);
    }
}

impl Space {
    pub(super) fn new(probe: Probe, reserve: Reserve, room: &Arc<SharedRoom>) -> Self {
        Self { probe, reserve, room: Arc::clone(room) }
    }

    /// Looks now, while the largest merge in sight has so many bytes. A system that does not say how
    /// much is free is taken to have plenty.
    pub(super) fn look(&self, merge_bytes: u64) -> Room {
        let free = (self.probe)().unwrap_or(u64::MAX);
        let room = self.reserve.room(free, merge_bytes);
        self.room.set(room);
        room
    }
}

#[cfg(unix)]
fn free_bytes(folder: &std::path::Path) -> Option<u64> {
    let found = rustix::fs::statvfs(folder).ok()?;
    found.f_bavail.checked_mul(found.f_frsize)
}

#[cfg(not(unix))]
fn free_bytes(_folder: &std::path::Path) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn a_disk_that_fills_up_and_is_cleared_is_followed() {
        let free = Arc::new(AtomicU64::new(1000));
        let room = Arc::<SharedRoom>::default();
        let disk = Arc::clone(&free);
        let probe = Arc::new(move || Some(disk.load(Ordering::Relaxed)));
        let space = Space::new(probe, Reserve::new(400), &room);
        for (bytes, expected) in
            [(1000, Room::Plenty), (300, Room::Reserve), (7, Room::Nothing), (400, Room::Plenty)]
        {
            free.store(bytes, Ordering::Relaxed);
            assert_eq!((space.look(0), room.get()), (expected, expected));
        }
        assert_eq!(space.look(1), Room::Reserve, "a merge would not fit");
    }

    #[test]
    fn the_reserve_is_for_deletes_but_for_its_last_part() {
        let room = |free| Reserve::new(400).room(free, 0);
        assert_eq!([room(u64::MAX), room(400)], [Room::Plenty; 2]);
        assert_eq!([room(399), room(100)], [Room::Reserve; 2]);
        assert_eq!([room(99), room(0)], [Room::Nothing; 2]);
        assert_eq!(Reserve::new(0).room(0, 7), Room::Plenty, "no reserve, no refusal");
        let with_merge = |free| Reserve::new(400).room(free, 1000);
        assert_eq!([with_merge(1400), with_merge(1399)], [Room::Plenty, Room::Reserve]);
        assert_eq!([with_merge(100), with_merge(99)], [Room::Reserve, Room::Nothing]);
    }

    #[test]
    fn the_system_says_how_much_is_free() {
        let folder = tempfile::tempdir().unwrap();
        assert!(cfg!(not(unix)) || probe_of(folder.path().into())().is_some());
    }
}
