//! Free space of the disk under a store.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::Room;

/// Tells the free bytes; `None` when the system does not say.
type Probe = Box<dyn Fn() -> Option<u64> + Send>;

/// Looks at the free space now and then, and remembers what it means.
pub(super) struct Space {
    probe: Probe,
    reserve_bytes: u64,
    room: Arc<SharedRoom>,
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

    fn set(&self, room: Room) {
        self.0.store(room as u8, Ordering::Relaxed);
    }
}

impl Space {
    /// The disk on which this folder lies.
    pub(super) fn of_folder(folder: PathBuf, reserve_bytes: u64, room: &Arc<SharedRoom>) -> Self {
        Self::new(Box::new(move || free_bytes(&folder)), reserve_bytes, room)
    }

    fn new(probe: Probe, reserve_bytes: u64, room: &Arc<SharedRoom>) -> Self {
        Self { probe, reserve_bytes, room: Arc::clone(room) }
    }

    /// Looks now. A system that does not say how much is free is taken to have plenty.
    pub(super) fn look(&self) -> Room {
        let free = (self.probe)().unwrap_or(u64::MAX);
        let room = Room::of(free, self.reserve_bytes);
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
        let space = Space::new(Box::new(move || Some(disk.load(Ordering::Relaxed))), 400, &room);
        for (bytes, expected) in
            [(1000, Room::Plenty), (300, Room::Reserve), (7, Room::Nothing), (400, Room::Plenty)]
        {
            free.store(bytes, Ordering::Relaxed);
            assert_eq!((space.look(), room.get()), (expected, expected));
        }
    }

    #[test]
    fn the_system_says_how_much_is_free() {
        let folder = tempfile::tempdir().unwrap();
        assert!(cfg!(not(unix)) || free_bytes(folder.path()).is_some());
    }
}
