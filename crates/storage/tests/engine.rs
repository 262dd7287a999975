//! What the store relies on in the vendored engine: lists of files are synced beside readers and writers, and its workers end.

#![allow(clippy::unwrap_used, reason = "this whole target is a test")]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use fjall::{Database, Keyspace, KeyspaceCreateOptions};

const WRITES: u32 = 30_000;

fn open(folder: &std::path::Path) -> Database {
    Database::builder(folder).worker_threads(3).open().unwrap()
}

fn keyspace(database: &Database) -> Keyspace {
    let small = || KeyspaceCreateOptions::default().max_memtable_size(4096);
    database.keyspace("items", small).unwrap()
}

fn is_there(items: &Keyspace, key: u32) -> bool {
    items.get(key.to_be_bytes()).unwrap().is_some_and(|value| *value == key.to_be_bytes())
}

/// Buffers are closed, flushed and merged all the time, so many are closed while a list of files is being synced. One that the next
/// list forgot would take its writes with it.
#[test]
fn no_write_is_missed_while_lists_of_files_are_synced() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(folder.path());
    let items = keyspace(&database);
    let (written, ended) = (AtomicU32::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = fastrand::Rng::with_seed(7);
            while !ended.load(Ordering::Acquire) {
                let count = written.load(Ordering::Acquire);
                if count > 0 {
                    // The newest ones move from buffer to file.
                    let key = random.u32(count.saturating_sub(2_000)..count);
                    assert!(is_there(&items, key), "key {key} of {count}");
                }
            }
        });
        scope.spawn(|| {
            while !ended.load(Ordering::Acquire) {
                let _closed = items.rotate_memtable().unwrap();
            }
        });
        for key in 0..WRITES {
            items.insert(key.to_be_bytes(), key.to_be_bytes()).unwrap();
            written.store(key + 1, Ordering::Release);
        }
        ended.store(true, Ordering::Release);
    });
    for key in 0..WRITES {
        assert!(is_there(&items, key), "key {key}");
    }
    // Closed in the middle of whatever waits.
    drop((items, database));
    let database = open(folder.path());
    let items = keyspace(&database);
    for key in 0..WRITES {
        assert!(is_there(&items, key), "key {key} behind a start");
    }
}

/// It asks for flushes that nobody will make; those must not keep it.
#[test]
fn a_tree_that_outlives_its_database_does_not_keep_the_folder_locked() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(folder.path());
    let items = keyspace(&database);
    drop(database);
    for key in 0..1_000_u32 {
        items.insert(key.to_be_bytes(), key.to_be_bytes()).unwrap();
    }
    drop(items);
    let database = open(folder.path());
    assert!(is_there(&keyspace(&database), 999));
}
