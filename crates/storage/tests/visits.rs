//! Forward scans of the embedded store go through blocks where they lie: over many sorted files, with overwritten and
//! deleted keys, now and through older snapshots, they show what the memory store shows.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use armilla_storage::{
    Batch, Direction, Durability, EmbeddedOptions, EmbeddedStore, KeyRange, Keyspace, MemoryStore,
    Shown, Snapshot, Store,
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

/// What is shown of keys that are looked for together, by the position of the key; the wanted value ends the search for a key.
fn beside(
    snapshot: &dyn Snapshot,
    keyspace: Keyspace,
    keys: &[Vec<u8>],
    is_wanted: &dyn Fn(usize, &[u8]) -> bool,
) -> Vec<(usize, Vec<u8>)> {
    let (mut shown, mut taken) = (Vec::new(), BTreeSet::new());
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let take = &mut |position: usize, value: &Shown<'_>| {
        let (value, shared) = (value.bytes(), value.share());
        assert!(shared.is_none_or(|shared| shared == value));
        assert!(!taken.contains(&position), "a key that was found is looked for again");
        shown.push((position, value.to_vec()));
        let is_wanted = is_wanted(position, value);
        if is_wanted {
            taken.insert(position);
        }
        is_wanted
    };
    snapshot.get_beside(keyspace, &keys, take).unwrap();
    shown
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
        for keyspace in [Keyspace::Items, Keyspace::Feed] {
            for round in 0..10 {
                self.check_beside(embedded, memory, keyspace, random, round % 3 == 0);
            }
        }
    }

    /// Looks for some keys of one group, or of anywhere, together.
    fn check_beside(
        &self,
        embedded: &dyn Snapshot,
        memory: &dyn Snapshot,
        keyspace: Keyspace,
        random: &mut fastrand::Rng,
        is_anywhere: bool,
    ) {
        let (one, count) = (random.usize(..GROUPS), random.usize(1..MEMBERS));
        let any = |random: &mut fastrand::Rng| match is_anywhere {
            true => key(random.usize(..GROUPS), random.usize(..MEMBERS)),
            false => key(one, random.usize(..MEMBERS)),
        };
        let keys: BTreeSet<Vec<u8>> = (0..count).map(|_| any(random)).collect();
        let keys: Vec<Vec<u8>> = keys.into_iter().collect();
        let stored: Vec<_> = keys.iter().map(|key| memory.get(keyspace, key).unwrap()).collect();
        let is_stored = |position: usize, value: &[u8]| stored[position].as_deref() == Some(value);
        let shown = beside(embedded, keyspace, &keys, &is_stored);
        for (position, value) in &shown {
            let versions = &self.versions[&keys[*position]];
            assert!(versions.contains(value), "a value that was never written");
        }
        // Of the first key the newest version is there, unless it was deleted.
        if let Some(value) = &stored[0] {
            assert!(shown.contains(&(0, value.to_vec())));
        }
        // Whoever never says that it is the one is shown it too, and no more than a few times.
        let shown = beside(embedded, keyspace, &keys, &|_, _| false);
        assert!(shown.len() <= keys.len() * ROUNDS);
        if let Some(value) = &stored[0] {
            assert!(shown.contains(&(0, value.to_vec())));
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
fn keys_that_were_written_together_are_all_found_together() {
    for cache_bytes in [64 * 1024, 64 * 1024 * 1024] {
        let folder = tempfile::tempdir().unwrap();
        let options = EmbeddedOptions { cache_bytes, ..EmbeddedOptions::default() };
        let embedded = EmbeddedStore::open(folder.path(), &options).unwrap();
        for number in 0..20 {
            let mut batch = Batch::new();
            for member in 0..MEMBERS {
                batch.put(Keyspace::Items, key(number, member), vec![number as u8; 300 + member]);
            }
            embedded.commit(batch, Durability::Relaxed).unwrap();
            if number % 5 == 4 {
                assert!(embedded.flush().unwrap());
            }
            let snapshot = embedded.snapshot();
            for group in 0..=number {
                for step in [1, 5, 23] {
                    let members = || (3..MEMBERS).step_by(step);
                    let keys: Vec<_> = members().map(|member| key(group, member)).collect();
                    let mut shown = beside(&*snapshot, Keyspace::Items, &keys, &|_, _| true);
                    shown.sort();
                    let values = members().map(|member| vec![group as u8; 300 + member]);
                    assert_eq!(shown, values.enumerate().collect::<Vec<_>>());
                }
            }
        }
        let snapshot = embedded.snapshot();
        let nobody = [b"group 00003 nobody".to_vec(), b"nobody".to_vec()];
        assert_eq!(beside(&*snapshot, Keyspace::Items, &nobody, &|_, _| true), []);
        assert_eq!(beside(&*snapshot, Keyspace::Items, &[], &|_, _| true), []);
    }
}

#[test]
fn keys_in_several_places_are_looked_for_in_each() {
    let folder = tempfile::tempdir().unwrap();
    let embedded = EmbeddedStore::open(folder.path(), &EmbeddedOptions::default()).unwrap();
    // Three sorted files or write buffers, each with every third key, and an older version of the next one.
    for part in 0..3 {
        let mut batch = Batch::new();
        for member in 0..MEMBERS {
            match (member + 3 - part) % 3 {
                0 => batch.put(Keyspace::Items, key(7, member), b"new".to_vec()),
                1 if part < 2 => batch.put(Keyspace::Items, key(7, member), b"old".to_vec()),
                _ => {}
            }
        }
        embedded.commit(batch, Durability::Relaxed).unwrap();
        if part < 2 {
            assert!(embedded.flush().unwrap());
        }
    }
    let keys: Vec<_> = (0..MEMBERS).map(|member| key(7, member)).collect();
    let snapshot = embedded.snapshot();
    let shown = beside(&*snapshot, Keyspace::Items, &keys, &|_, value| value == b"new");
    let found: BTreeSet<usize> =
        shown.iter().filter(|(_, value)| value == b"new").map(|(position, _)| *position).collect();
    assert_eq!(found, (0..MEMBERS).collect());
}
