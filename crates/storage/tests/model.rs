//! The embedded store and the memory store answer alike, whatever is done to them.
//!
//! Random batches, flushes and reopenings run against both; after each step point reads and scans
//! in both directions must agree, also through a snapshot taken earlier.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::VecDeque;
use std::sync::Arc;

use armilla_storage::{
    Batch, Direction, Durability, EmbeddedOptions, EmbeddedStore, KeyRange, Keyspace, MemoryStore,
    Snapshot, Store,
};
use proptest::prelude::*;
use tempfile::TempDir;

/// Snapshots that are kept while the stores go on.
const HELD_MAX: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    Commit(Vec<Change>),
    Flush,
    /// With or without a clean stop.
    Reopen(bool),
    HoldSnapshot,
    Scan(Vec<u8>, Vec<u8>, bool, usize),
}

#[derive(Clone, Debug)]
enum Change {
    Put(Keyspace, Vec<u8>, Vec<u8>),
    Delete(Keyspace, Vec<u8>),
}

fn keyspaces() -> impl Strategy<Value = Keyspace> {
    prop_oneof![Just(Keyspace::Items), Just(Keyspace::Feed), Just(Keyspace::Meta)]
}

/// Few and short keys, so that changes meet each other.
fn keys() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0xff)], 1..4)
}

fn values() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(Vec::new()),
        Just(b"same".to_vec()),
        prop::collection::vec(any::<u8>(), 1..600)
    ]
}

fn changes() -> impl Strategy<Value = Change> {
    prop_oneof![
        12 => (keyspaces(), keys(), values()).prop_map(|(s, k, v)| Change::Put(s, k, v)),
        5 => (keyspaces(), keys()).prop_map(|(s, k)| Change::Delete(s, k)),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => prop::collection::vec(changes(), 1..6).prop_map(Step::Commit),
        2 => Just(Step::Flush),
        1 => any::<bool>().prop_map(Step::Reopen),
        2 => Just(Step::HoldSnapshot),
        6 => (keys(), keys(), any::<bool>(), 1usize..8)
            .prop_map(|(a, b, backward, limit)| Step::Scan(a, b, backward, limit)),
    ]
}

/// Both stores, and pairs of snapshots taken at the same moment.
struct Pair {
    folder: TempDir,
    embedded: Option<EmbeddedStore>,
    memory: MemoryStore,
    held: VecDeque<(Arc<dyn Snapshot>, Arc<dyn Snapshot>)>,
}

impl Pair {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let embedded = Some(open(&folder));
        Self { folder, embedded, memory: MemoryStore::new(), held: VecDeque::new() }
    }

    fn embedded(&self) -> &EmbeddedStore {
        self.embedded.as_ref().unwrap()
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Commit(changes) => self.commit(changes),
            Step::Flush => assert!(self.embedded().flush().unwrap()),
            Step::Reopen(clean) => self.reopen(clean),
            Step::HoldSnapshot => {
                self.held.push_back((self.embedded().snapshot(), self.memory.snapshot()));
                self.held.truncate(HELD_MAX);
            }
            Step::Scan(start, end, backward, limit) => self.scan(&start, &end, backward, limit),
        }
        self.compare_all();
    }

    fn commit(&self, changes: Vec<Change>) {
        let mut batch = Batch::new();
        for change in changes {
            match change {
                Change::Put(keyspace, key, value) => batch.put(keyspace, key, value),
                Change::Delete(keyspace, key) => batch.delete(keyspace, key),
            }
        }
        self.embedded().commit(batch.clone(), Durability::Relaxed).unwrap();
        self.memory.commit(batch, Durability::Relaxed).unwrap();
    }

    fn reopen(&mut self, clean: bool) {
        self.held.clear();
        if clean {
            self.embedded().close().unwrap();
        }
        self.embedded = None;
        self.embedded = Some(open(&self.folder));
    }

    fn scan(&self, start: &[u8], end: &[u8], backward: bool, limit: usize) {
        let direction = if backward { Direction::Backward } else { Direction::Forward };
        let (embedded, memory) = (self.embedded().snapshot(), self.memory.snapshot());
        for range in [
            KeyRange::between(start, end),
            KeyRange::inclusive(start, end),
            KeyRange::prefix(start),
            KeyRange::prefix(start).starting_after(end),
            KeyRange::after(start),
            KeyRange::before(end),
        ] {
            let page = |snapshot: &dyn Snapshot| {
                snapshot.page(Keyspace::Items, &range, direction, limit).unwrap()
            };
            assert_eq!(page(&*embedded), page(&*memory), "{range:?} {direction:?} {limit}");
        }
    }

    fn compare_all(&self) {
        compare(&*self.embedded().snapshot(), &*self.memory.snapshot());
        for (embedded, memory) in &self.held {
            compare(&**embedded, &**memory);
        }
    }
}

fn compare(embedded: &dyn Snapshot, memory: &dyn Snapshot) {
    for keyspace in [Keyspace::Items, Keyspace::Feed, Keyspace::Meta] {
        for direction in [Direction::Forward, Direction::Backward] {
            let page = |snapshot: &dyn Snapshot| {
                snapshot.page(keyspace, &KeyRange::all(), direction, usize::MAX).unwrap()
            };
            let entries = page(memory);
            assert_eq!(page(embedded), entries, "{keyspace} {direction:?}");
            let keys: Vec<Vec<u8>> = entries.into_iter().map(|(key, _)| key).collect();
            let both = [embedded, memory].map(|s| s.get_many(keyspace, &keys).unwrap());
            assert_eq!(both[0], both[1]);
        }
        for absent in [&b"nothing here"[..], b"\0\0\0\0\0", b"\xff\xff\xff\xff\xff"] {
            assert_eq!(embedded.get(keyspace, absent).unwrap(), None);
            assert!(!embedded.contains(keyspace, absent).unwrap());
        }
    }
}

fn open(folder: &TempDir) -> EmbeddedStore {
    let options = EmbeddedOptions { items_buffer_bytes: 16 * 1024, ..EmbeddedOptions::default() };
    EmbeddedStore::open(folder.path(), &options).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 400, ..ProptestConfig::default() })]

    #[test]
    fn both_stores_agree(steps in prop::collection::vec(steps(), 1..60)) {
        let mut pair = Pair::new();
        steps.into_iter().for_each(|step| pair.run(step));
    }
}
