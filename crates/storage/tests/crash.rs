//! Killed at any moment, a store keeps what it acknowledged and shows every batch whole or not at all.
//!
//! A child process commits numbered batches through the committer and says each number when it is
//! acknowledged. The parent kills it without warning, opens the folder and looks:
//!
//! * every acknowledged batch is there;
//! * every batch is there with all its parts, or with none;
//! * no batch is there without the ones before it, since they were submitted in order.
//!
//! Then the next child goes on where the last one was stopped.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use armilla_storage::keycode::{KeyReader, KeyWriter};
use armilla_storage::{
    Batch, Committer, Completion, Direction, Durability, EmbeddedOptions, EmbeddedStore, KeyRange,
    Keyspace, Snapshot, Store, Submission,
};

const ROUNDS: u64 = 10;
/// Kills in the first moments of a new folder; `ARMILLA_CRASH_ROUNDS` gives another number.
const NEW_FOLDER_ROUNDS: u64 = 24;
/// Kills around the moments at which the engine begins and removes journals.
const ROTATION_ROUNDS: u64 = 6;
const FOLDER_VARIABLE: &str = "ARMILLA_CRASH_TEST_FOLDER";
/// Bytes added to every value, so that journals fill up.
const PADDING_VARIABLE: &str = "ARMILLA_CRASH_TEST_PADDING";
const CHILD_TEST: &str = "child_that_commits_until_it_is_killed";

/// Parts of a batch in `items`; it has one more in `feed` and one in `meta`.
const PARTS: u8 = 3;
const WRITERS: usize = 4;
/// How many submissions may be unacknowledged at once.
const UNACKNOWLEDGED_MAX: usize = 32;

#[test]
fn acknowledged_batches_survive_a_kill_and_batches_are_whole() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut total = 0;
    for round in 0..ROUNDS {
        let delay = Duration::from_micros(random.below(3000));
        let acknowledged = run_and_kill(folder.path(), 1 + random.below(400), delay, 0);
        let store = open(folder.path());
        let present = present_batches(&*store.snapshot());
        for number in &acknowledged {
            assert!(present.contains(number), "round {round}: batch {number} was lost");
        }
        let count = present.len() as u64;
        let highest = present.last().map_or(0, |highest| highest + 1);
        assert_eq!(count, highest, "round {round}: a batch is there without the one before it");
        assert!(count >= total, "round {round}: old batches are gone");
        total = count;
        // Every other round a clean stop comes between, which empties the journal.
        if round % 2 == 1 {
            store.close().unwrap();
        }
    }
    assert!(total > ROUNDS, "the children hardly wrote anything");
}

#[test]
fn a_store_killed_while_it_is_being_made_can_be_opened() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    for round in 0..rounds(NEW_FOLDER_ROUNDS) {
        let folder = tempfile::tempdir().unwrap();
        // Twice in a row: the second start finds what the first left half done.
        for _ in 0..2 {
            let delay = Duration::from_micros(random.below(350_000));
            let acknowledged = run_and_kill(folder.path(), 0, delay, 0);
            let store = open(folder.path());
            let present = present_batches(&*store.snapshot());
            assert!(acknowledged.iter().all(|number| present.contains(number)), "round {round}");
        }
    }
}

#[test]
fn a_store_killed_while_journals_come_and_go_can_be_opened() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(0xd1b5_4a32_d192_ed03);
    let mut newest = 0;
    for round in 0..rounds(ROTATION_ROUNDS) {
        let delay = Duration::from_micros(random.below(150_000));
        // A journal takes about 55 of these batches.
        let acknowledged = run_and_kill(folder.path(), 30 + random.below(40), delay, PADDING);
        let store = open(folder.path());
        let present = present_feed(&*store.snapshot());
        assert!(acknowledged.iter().all(|number| present.contains(number)), "round {round}");
        drop(store);
        newest = newest.max(newest_journal(folder.path()));
    }
    assert!(newest > 1, "no journal was ever full");
}

const PADDING: usize = 400_000;

fn rounds(usual: u64) -> u64 {
    std::env::var("ARMILLA_CRASH_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

fn newest_journal(folder: &Path) -> u64 {
    let names = std::fs::read_dir(folder.join("engine")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter_map(|name| name.strip_suffix(".jnl")?.parse().ok()).max().unwrap()
}

/// The numbers of the batches, without looking into their values.
fn present_feed(snapshot: &dyn Snapshot) -> BTreeSet<u64> {
    let all = KeyRange::all();
    let feed = snapshot.page(Keyspace::Feed, &all, Direction::Forward, usize::MAX).unwrap();
    let numbers: BTreeSet<u64> =
        feed.iter().map(|(key, _)| KeyReader::new(key).u64().unwrap()).collect();
    for number in &numbers {
        let part = |part| snapshot.contains(Keyspace::Items, &item_key(*number, part)).unwrap();
        assert!((0..PARTS).all(part), "batch {number} lacks a part");
    }
    numbers
}

/// Runs a child until it has acknowledged this many batches and a little longer; what it acknowledged.
fn run_and_kill(folder: &Path, wanted: u64, delay: Duration, padding: usize) -> Vec<u64> {
    let mut child = start_child(folder, padding);
    let output = child.stdout.take().unwrap();
    let (seen, wait) = std::sync::mpsc::channel();
    let reader = thread::spawn(move || {
        let mut acknowledged = Vec::new();
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if let Some(number) = line.strip_prefix("ack ").and_then(|n| n.parse().ok()) {
                acknowledged.push(number);
                let _ = seen.send(());
            }
        }
        acknowledged
    });
    for _ in 0..wanted {
        if wait.recv_timeout(Duration::from_secs(20)).is_err() {
            break;
        }
    }
    // Pause: the moment of the kill is random, and every moment must be right.
    thread::sleep(delay);
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

fn start_child(folder: &Path, padding: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", CHILD_TEST, "--nocapture"])
        .env(FOLDER_VARIABLE, folder)
        .env(PADDING_VARIABLE, padding.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// The numbers of the batches that are there; panics when one of them is not whole.
fn present_batches(snapshot: &dyn Snapshot) -> BTreeSet<u64> {
    let all = KeyRange::all();
    let feed = snapshot.page(Keyspace::Feed, &all, Direction::Forward, usize::MAX).unwrap();
    let numbers: BTreeSet<u64> =
        feed.iter().map(|(key, _)| KeyReader::new(key).u64().unwrap()).collect();
    for number in &numbers {
        for part in 0..PARTS {
            let value = snapshot.get(Keyspace::Items, &item_key(*number, part)).unwrap();
            let value = value.unwrap_or_else(|| panic!("batch {number} lacks part {part}"));
            assert_eq!(value, item_value(*number, part), "batch {number}, part {part}");
        }
    }
    let items = snapshot.page(Keyspace::Items, &all, Direction::Forward, usize::MAX).unwrap();
    assert_eq!(items.len(), numbers.len() * usize::from(PARTS), "a part without its batch");
    let head = snapshot.get(Keyspace::Meta, b"head").unwrap();
    let head = head.map(|head| KeyReader::new(&head).u64().unwrap());
    assert_eq!(head, numbers.last().copied());
    numbers
}

#[test]
#[ignore = "run as a child process by the test above"]
fn child_that_commits_until_it_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER_VARIABLE) else { return };
    let store = Arc::new(open(Path::new(&folder)));
    let head = store.snapshot().get(Keyspace::Meta, b"head").unwrap();
    let next = head.map_or(0, |head| KeyReader::new(&head).u64().unwrap() + 1);
    let as_store = Arc::clone(&store) as Arc<dyn Store>;
    let committer = Committer::start(as_store, Durability::Synced, Box::new(|_, _| ()));
    // Taking a number and submitting is one step, as the engine's sequencer does it.
    let sequencer = Mutex::new(next);
    let give_up = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| {
                while !give_up.load(Ordering::Relaxed) {
                    submit_one(&committer, &sequencer);
                }
            });
        }
        // Pause: nobody is killed this late; this only keeps an orphan from running for ever.
        thread::sleep(Duration::from_secs(60));
        give_up.store(true, Ordering::Relaxed);
    });
}

fn submit_one(committer: &Committer, sequencer: &Mutex<u64>) {
    let mut next = sequencer.lock().unwrap();
    if committer.queue_len() >= UNACKNOWLEDGED_MAX {
        drop(next);
        // Pause: a writer that is ahead of the committer, in a process that is killed.
        thread::sleep(Duration::from_micros(50));
        return;
    }
    let number = *next;
    *next += 1;
    committer
        .submit(Submission { batch: numbered_batch(number), completion: Box::new(Say(number)) });
}

/// Says a number once it is acknowledged.
struct Say(u64);

impl Completion for Say {
    fn apply(&mut self, _group: u64) {}

    fn notify(self: Box<Self>) {
        let mut output = std::io::stdout().lock();
        // The parent may be gone already.
        let _ = writeln!(output, "ack {}", self.0);
        let _ = output.flush();
    }
}

fn numbered_batch(number: u64) -> Batch {
    let padding = std::env::var(PADDING_VARIABLE).map_or(0, |text| text.parse().unwrap());
    let mut batch = Batch::new();
    for part in 0..PARTS {
        let mut value = item_value(number, part);
        value.resize(value.len() + padding, part);
        batch.put(Keyspace::Items, item_key(number, part), value);
    }
    batch.put(Keyspace::Feed, KeyWriter::new().u64(number).finish(), "");
    batch.put(Keyspace::Meta, b"head".to_vec(), KeyWriter::new().u64(number).finish());
    batch
}

fn item_key(number: u64, part: u8) -> Vec<u8> {
    // Scattered, as hashed keys are.
    KeyWriter::new().u64(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).u8(part).finish()
}

fn item_value(number: u64, part: u8) -> Vec<u8> {
    let length = 20 + (number * 37 + u64::from(part) * 911) % 3000;
    let mut value = number.to_be_bytes().to_vec();
    value.resize(usize::try_from(length).unwrap(), part);
    value
}

fn open(folder: &Path) -> EmbeddedStore {
    // A small write buffer, so that flushes and merges happen under the kill as well.
    let options = EmbeddedOptions { items_buffer_bytes: 256 * 1024, ..EmbeddedOptions::default() };
    EmbeddedStore::open(folder, &options).unwrap()
}

/// Xorshift: enough for choosing moments.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
