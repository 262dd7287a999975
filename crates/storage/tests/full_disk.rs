//! A disk that other programs fill to its last byte, in the middle of commits, flushes and merges.
//!
//! The disk is a real one: a file system of a few megabytes in memory, mounted in a namespace of its own. Each test
//! starts itself again inside. Where the system allows no such namespaces the tests say so and pass.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "this whole target is a test")]

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use armilla_storage::{
    Batch, Durability, EmbeddedOptions, EmbeddedStore, Keyspace, Room, Store as _,
};

/// Tells a test that it runs inside, and where the small disk is.
const SMALL_DISK: &str = "ARMILLA_TEST_SMALL_DISK";
const DISK_BYTES: u64 = 256 << 20;
const RESERVE_BYTES: u64 = 8 << 20;
/// How long something that must happen is awaited.
const WITHIN: Duration = Duration::from_secs(120);
const VALUE_BYTES: usize = 10_000;

/// Runs the test of this name on a small disk.
fn on_a_small_disk(name: &str, test: fn(&Path)) {
    if let Some(disk) = std::env::var_os(SMALL_DISK) {
        return test(Path::new(&disk));
    }
    let disk = tempfile::tempdir().unwrap();
    let inside = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c"]);
        let mount = format!("mount -t tmpfs -o size={DISK_BYTES} tmpfs \"$1\" && {script}");
        command.arg(mount).arg("sh").arg(disk.path());
        command.arg(std::env::current_exe().unwrap()).arg(name).env(SMALL_DISK, disk.path());
        command.output()
    };
    if !inside("true").is_ok_and(|output| output.status.success()) {
        eprintln!("{name} was not run: this system does not let us mount a small disk");
        return;
    }
    let output = inside("exec \"$2\" --exact \"$3\" --nocapture").unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{complaints}");
}

fn options() -> EmbeddedOptions {
    EmbeddedOptions {
        reserve_bytes: RESERVE_BYTES,
        items_buffer_bytes: 1 << 20,
        ..EmbeddedOptions::default()
    }
}

fn open(disk: &Path) -> EmbeddedStore {
    EmbeddedStore::open(disk.join("data"), &options()).unwrap()
}

/// A batch of values that do not compress, one byte of each of which is the round.
fn batch(first: u32, count: u32) -> Batch {
    let mut batch = Batch::new();
    for key in first..first + count {
        batch.put(Keyspace::Items, key.to_be_bytes().to_vec(), value(key));
    }
    batch
}

fn value(key: u32) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(u64::from(key));
    (0..VALUE_BYTES).map(|_| random.u8(..)).collect()
}

fn commit(store: &EmbeddedStore, first: u32, count: u32) {
    store.commit(batch(first, count), Durability::Synced).unwrap();
}

/// These keys are there, and no other.
fn expect(store: &EmbeddedStore, count: u32) {
    let snapshot = store.snapshot();
    for key in 0..count {
        let found = snapshot.get(Keyspace::Items, &key.to_be_bytes()).unwrap();
        assert_eq!(found.as_deref(), Some(&*value(key)), "key {key} of {count}");
    }
    let beyond = snapshot.get(Keyspace::Items, &count.to_be_bytes()).unwrap();
    assert!(beyond.is_none(), "key {count} was never written");
}

/// A file of another program that takes all of the disk but so many bytes.
fn fill(disk: &Path, free: u64) {
    fill_up(disk);
    let other = File::options().write(true).open(disk.join("other")).unwrap();
    let length = other.metadata().unwrap().len();
    other.set_len(length - free).unwrap();
}

/// The other program takes what is free now.
fn fill_up(disk: &Path) {
    let other = File::options().create(true).append(true).open(disk.join("other"));
    let (mut other, block) = (other.unwrap(), vec![1; 1 << 20]);
    for piece in [block.len(), 4096, 1] {
        while other.write(&block[..piece]).is_ok_and(|written| written > 0) {}
    }
}

fn make_room(disk: &Path) {
    std::fs::remove_file(disk.join("other")).unwrap();
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < WITHIN, "{what}");
        // Pause: between two looks at the condition that is awaited.
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_flush_on_a_full_disk_waits_and_is_finished() {
    on_a_small_disk("a_flush_on_a_full_disk_waits_and_is_finished", |disk| {
        let store = open(disk);
        commit(&store, 0, 50);
        fill(disk, 0);
        assert!(!store.flush().unwrap(), "there is no room for the buffers");
        assert_eq!(store.room(), Room::Nothing);
        expect(&store, 50);
        make_room(disk);
        wait_until("the buffers are flushed", || store.flush().unwrap());
        wait_until("writes are taken again", || store.room() == Room::Plenty);
        commit(&store, 50, 50);
        expect(&store, 100);
        store.close().unwrap();
        drop(store);
        expect(&open(disk), 100);
    });
}

#[test]
fn a_commit_on_a_full_disk_waits_and_is_finished() {
    on_a_small_disk("a_commit_on_a_full_disk_waits_and_is_finished", |disk| {
        let store = open(disk);
        commit(&store, 0, 10);
        // Some of the next batch fits.
        fill(disk, 40_000);
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                commit(&store, 10, 10);
                is_done.store(true, Ordering::SeqCst);
            });
            wait_until("the commit waits", || store.room() == Room::Nothing);
            assert!(!is_done.load(Ordering::SeqCst));
            expect(&store, 10);
            make_room(disk);
        });
        expect(&store, 20);
        commit(&store, 20, 10);
        // As after a kill.
        let copy = tempfile::tempdir_in(disk).unwrap();
        copy_folder(&disk.join("data"), &copy.path().join("data"));
        expect(&open(copy.path()), 30);
    });
}

#[test]
fn a_batch_that_does_not_fit_leaves_nothing_in_the_journal() {
    on_a_small_disk("a_batch_that_does_not_fit_leaves_nothing_in_the_journal", |disk| {
        let store = open(disk);
        for round in 0..5 {
            commit(&store, round * 10, 10);
            fill(disk, u64::from(round) * 9_000);
            thread::scope(|scope| {
                let waits = scope.spawn(|| store.commit(batch(900, 50), Durability::Synced));
                wait_until("the commit waits", || store.room() == Room::Nothing);
                // Once is enough: from now on none waits.
                store.end_waits();
                assert!(waits.join().unwrap().unwrap_err().is_full_disk());
            });
            make_room(disk);
            wait_until("there is room", || store.room() == Room::Plenty);
        }
        commit(&store, 50, 10);
        expect(&store, 60);
        let copy = tempfile::tempdir_in(disk).unwrap();
        copy_folder(&disk.join("data"), &copy.path().join("data"));
        expect(&open(copy.path()), 60);
    });
}

#[test]
fn a_store_on_a_full_disk_can_be_closed_and_opened() {
    on_a_small_disk("a_store_on_a_full_disk_can_be_closed_and_opened", |disk| {
        let store = open(disk);
        commit(&store, 0, 50);
        fill(disk, 0);
        assert!(!store.flush().unwrap());
        store.close().unwrap();
        drop(store);
        // Nothing was flushed, so all of it is replayed; there is no room for it this time either.
        let store = open(disk);
        expect(&store, 50);
        make_room(disk);
        wait_until("writes are taken again", || store.room() == Room::Plenty);
        commit(&store, 50, 10);
        expect(&store, 60);
    });
}

#[test]
fn a_disk_that_is_filled_and_cleared_again_and_again_loses_nothing() {
    let name = "a_disk_that_is_filled_and_cleared_again_and_again_loses_nothing";
    on_a_small_disk(name, |disk| {
        const ROUNDS: u32 = 12;
        let store = open(disk);
        let writer = Writer::default();
        thread::scope(|scope| {
            let _over = Over(&writer);
            scope.spawn(|| writer.run(&store));
            for round in 0..ROUNDS {
                fill(disk, u64::from(round) * 1_000);
                wait_until("writes are refused", || {
                    // A merge or flush that had its room already removes what it has replaced: a disk that is
                    // full in part holds the writer up, and nothing fills it further.
                    let room = store.room();
                    if room == Room::Reserve {
                        fill_up(disk);
                    }
                    room == Room::Nothing
                });
                expect_some(&store);
                make_room(disk);
                let seen = writer.committed.load(Ordering::SeqCst);
                wait_until("writes go on", || {
                    writer.committed.load(Ordering::SeqCst) > seen + KEYS / BATCH
                });
            }
        });
        expect(&store, KEYS);
        store.close().unwrap();
        drop(store);
        expect(&open(disk), KEYS);
    });
}

const KEYS: u32 = 400;
const BATCH: u32 = 20;

/// Writes the same keys again and again, so that there is something to merge.
#[derive(Default)]
struct Writer {
    committed: AtomicU32,
    is_over: AtomicBool,
}

impl Writer {
    fn run(&self, store: &EmbeddedStore) {
        for first in (0..KEYS).step_by(BATCH as usize).cycle() {
            // As the engine does before it takes a write.
            while store.room() != Room::Plenty {
                if self.is_over.load(Ordering::SeqCst) {
                    return;
                }
                thread::yield_now();
            }
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            commit(store, first, BATCH);
            self.committed.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Ends the writer when the rounds are over, or failed.
struct Over<'w>(&'w Writer);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::SeqCst);
    }
}

/// Reads go on.
fn expect_some(store: &EmbeddedStore) {
    let found = store.snapshot().get(Keyspace::Items, &0_u32.to_be_bytes()).unwrap();
    assert!(found.is_none_or(|found| *found == *value(0)));
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &to);
        } else if entry.file_name() != "lock" {
            std::fs::copy(entry.path(), &to).unwrap();
        }
    }
}
