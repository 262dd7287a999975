//! Merges on a disk that says how full it is.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fjall::{Database, KeyspaceCreateOptions};

use super::*;
use crate::embedded::EmbeddedOptions;
use crate::embedded::space::Reserve;

const FLOOR: u64 = 1000;
const KEYS: u32 = 50;
/// Files of one tree from which the engine merges them.
const MERGE_FROM: usize = 4;
/// Files that are written; the first one is moved down without a merge.
const FILES: u32 = 6;
/// How long something that must happen is awaited.
const WITHIN: Duration = Duration::from_secs(60);

/// A disk with so many free bytes, and how often it was asked.
#[derive(Default)]
struct Disk {
    free: AtomicU64,
    looks: AtomicU64,
}

impl Disk {
    fn waits(self: &Arc<Self>) -> Arc<RoomWaits> {
        let disk = Arc::clone(self);
        let probe = move || {
            disk.looks.fetch_add(1, Ordering::SeqCst);
            Some(disk.free.load(Ordering::SeqCst))
        };
        let reserve = Reserve::new(2 * FLOOR);
        RoomWaits::new(Arc::new(probe), reserve, &Arc::default(), &Arc::default())
    }
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < WITHIN, "{what}");
        // Pause: between two looks at the condition that is awaited.
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn open(path: &Path, waits: &Arc<RoomWaits>) -> (Database, fjall::Keyspace) {
    let database = EmbeddedOptions::default().waiting(path, waits).open().unwrap();
    let tree = database.keyspace("items", KeyspaceCreateOptions::default).unwrap();
    (database, tree)
}

/// Files that lie over each other, until the engine wants to merge them.
fn fill(tree: &fjall::Keyspace) {
    for round in 0..FILES {
        for key in 0..KEYS {
            tree.insert(key.to_be_bytes(), round.to_be_bytes()).unwrap();
        }
        tree.rotate_memtable_and_wait().unwrap();
    }
}

fn expect_newest(tree: &fjall::Keyspace) {
    for key in 0..KEYS {
        let found = tree.get(key.to_be_bytes()).unwrap().unwrap();
        assert_eq!(*found, (FILES - 1).to_be_bytes());
    }
}

#[test]
fn a_merge_waits_for_room_and_then_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::<Disk>::default();
    let (database, tree) = open(folder.path(), &disk.waits());
    fill(&tree);
    wait_until("a merge looks at the disk again", || disk.looks.load(Ordering::SeqCst) >= 3);
    assert!(tree.tree.l0_run_count() >= MERGE_FROM, "nothing was merged");
    assert!(largest([&tree].into_iter()) > 0);
    expect_newest(&tree);
    // Flushes go on while merges wait.
    tree.insert("flushed", "meanwhile").unwrap();
    tree.rotate_memtable_and_wait().unwrap();
    disk.free.store(FLOOR, Ordering::SeqCst);
    wait_until("the files are merged", || tree.tree.l0_run_count() < MERGE_FROM);
    expect_newest(&tree);
    tree.insert("written", "afterwards").unwrap();
    drop((tree, database));
}

#[test]
fn a_store_can_be_closed_while_a_merge_waits() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::<Disk>::default();
    let waits = disk.waits();
    let (database, tree) = open(folder.path(), &waits);
    fill(&tree);
    wait_until("a merge looks at the disk", || disk.looks.load(Ordering::SeqCst) >= 1);
    waits.end_all();
    drop((tree, database));
    disk.free.store(FLOOR, Ordering::SeqCst);
    let (database, tree) = open(folder.path(), &disk.waits());
    expect_newest(&tree);
    wait_until("the files are merged", || tree.tree.l0_run_count() < MERGE_FROM);
    expect_newest(&tree);
    drop((tree, database));
}
