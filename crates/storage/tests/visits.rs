//! Forward scans of the embedded store go through blocks where they lie: over many sorted files, with overwritten and
//! deleted keys, now and through older snapshots, they show what the memory store shows.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use armilla_storage::{
    Batch, Direction, Durability, EmbeddedOptions, EmbeddedStore, KeyRange, Keyspace, MemoryStore,
    Snapshot, Store,
};

/// Rounds of writes, each of which ends in a sorted file.
const ROUNDS: usize = 8;
/// Groups of keys: as many as items of a few hundred logical partitions.
const GROUPS: usize = 200;
/// Keys of a group.
const MEMBERS: usize = 60;

type Entry = (Vec<u8>, Vec<u8>);

fn key(group: usize, member: usize) -> Vec<u8> {
    format!("group {group:05} member {member:03}").into_bytes()
}

fn group(group: usize) -> KeyRange {
    KeyRange::prefix(format!("group {group:05} ").as_bytes())
}

fn entries(snapshot: &dyn Snapshot, keyspace: Keyspace, range: &KeyRange) -> Vec<Entry> {
    let mut entries = Vec::new();
    let visit = &mut |key: &[u8], value: bytes::Bytes| {
        entries.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    };
    snapshot.scan(keyspace, range, Direction::Forward, visit).unwrap();
    entries
}

fn beside(snapshot: &dyn Snapshot, key: &[u8], range: &KeyRange) -> Vec<Entry> {
    let mut entries = Vec::new();
    let visit = &mut |key: &[u8], value: bytes::Bytes| {
        entries.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    };
    snapshot.scan_beside(Keyspace::Items, key, range, visit).unwrap();
    entries
}

/// Both stores, and every value that a key ever had.
struct Stores {
    embedded: EmbeddedStore,
    memory: MemoryStore,
    versions: BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>,
}

impl Stores {
    fn commit(&mut self, batch: &Batch) {
        self.embedded.commit(batch.clone(), Durability::Relaxed).unwrap();
        self.memory.commit(batch.clone(), Durability::Relaxed).unwrap();
    }

    /// Writes and deletes keys of some groups, in both keyspaces: one has whole keys in its files, the other does not.
    fn round(&mut self, random: &mut fastrand::Rng) {
        for _ in 0..GROUPS / 4 {
            let (group, mut batch) = (random.usize(..GROUPS), Batch::new());
            for member in 0..MEMBERS {
                let key = key(group, member);
                match random.u8(..10) {
                    0..6 => {
                        let value = vec![random.u8(..); random.usize(..400)];
                        self.versions.entry(key.clone()).or_default().insert(value.clone());
                        batch.put(Keyspace::Items, key.clone(), value.clone());
                        batch.put(Keyspace::Feed, key, value);
                    }
                    6..8 => {
                        batch.delete(Keyspace::Items, key.clone());
                        batch.delete(Keyspace::Feed, key);
                    }
                    _ => {}
                }
            }
            self.commit(&batch);
        }
    }

    fn check(&self, embedded: &dyn Snapshot, memory: &dyn Snapshot, random: &mut fastrand::Rng) {
        for keyspace in [Keyspace::Items, Keyspace::Feed] {
            let all = KeyRange::all();
            assert_eq!(entries(embedded, keyspace, &all), entries(memory, keyspace, &all));
            for _ in 0..10 {
                let from = key(random.usize(..GROUPS), random.usize(..MEMBERS));
                let to = key(random.usize(..GROUPS), random.usize(..MEMBERS));
                for range in [
                    group(random.usize(..GROUPS)),
                    KeyRange::between(&*from, &*to),
                    KeyRange::inclusive(&*from, &*to),
                    KeyRange::after(&*from),
                    KeyRange::before(&*to),
                ] {
                    let told = entries(embedded, keyspace, &range);
                    assert_eq!(told, entries(memory, keyspace, &range), "{range:?}");
                    let limit = random.usize(1..90);
                    let page = embedded.page(keyspace, &range, Direction::Forward, limit).unwrap();
                    assert_eq!(
                        page,
                        memory.page(keyspace, &range, Direction::Forward, limit).unwrap()
                    );
                }
            }
        }
        for _ in 0..10 {
            let (group_number, member) = (random.usize(..GROUPS), random.usize(..MEMBERS));
            let (known, range) = (key(group_number, member), group(group_number));
            let shown = beside(embedded, &known, &range);
            for (key, value) in &shown {
                assert!(range.contains(key));
                assert!(self.versions[key].contains(value), "a value that was never written");
            }
            // Of the known key itself the newest version is there, unless it was deleted.
            if let Some(value) = memory.get(Keyspace::Items, &known).unwrap() {
                assert!(shown.contains(&(known, value.to_vec())));
            }
        }
    }
}

#[test]
fn a_forward_scan_shows_what_is_stored_wherever_it_lies() {
    let folder = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions {
        items_buffer_bytes: 256 * 1024,
        cache_bytes: 512 * 1024,
        ..EmbeddedOptions::default()
    };
    let embedded = EmbeddedStore::open(folder.path(), &options).unwrap();
    let mut stores = Stores { embedded, memory: MemoryStore::new(), versions: BTreeMap::new() };
    let random = &mut fastrand::Rng::with_seed(67);
    let mut held: Vec<(Arc<dyn Snapshot>, Arc<dyn Snapshot>)> = Vec::new();
    for round in 0..ROUNDS {
        stores.round(random);
        if round % 4 == 1 {
            held.push((stores.embedded.snapshot(), stores.memory.snapshot()));
        }
        if round % 3 != 2 {
            assert!(stores.embedded.flush().unwrap());
        }
        let (embedded, memory) = (stores.embedded.snapshot(), stores.memory.snapshot());
        stores.check(&*embedded, &*memory, random);
    }
    for (embedded, memory) in &held {
        stores.check(&**embedded, &**memory, random);
    }
}

#[test]
fn what_was_written_together_is_shown_beside_each_of_its_keys() {
    let folder = tempfile::tempdir().unwrap();
    let embedded = EmbeddedStore::open(folder.path(), &EmbeddedOptions::default()).unwrap();
    for number in 0..20 {
        let mut batch = Batch::new();
        for member in 0..MEMBERS {
            batch.put(Keyspace::Items, key(number, member), vec![number as u8; 300]);
        }
        embedded.commit(batch, Durability::Relaxed).unwrap();
        if number % 5 == 4 {
            assert!(embedded.flush().unwrap());
        }
        let snapshot = embedded.snapshot();
        for group_number in 0..=number {
            let range = group(group_number);
            let all = entries(&*snapshot, Keyspace::Items, &range);
            assert_eq!(all.len(), MEMBERS);
            assert_eq!(beside(&*snapshot, &key(group_number, 17), &range), all);
        }
    }
    let snapshot = embedded.snapshot();
    assert_eq!(beside(&*snapshot, b"group 00003 nobody", &group(3)), []);
}
