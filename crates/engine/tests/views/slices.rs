//! Views in an account that is cut into slices: random histories in which copies of slices lag behind, are not there, or are older
//! than those that were read before, as at a node that takes a slice over. Whenever all slices have followed, they show together
//! what a view of an account that is not cut would show.

use super::support::{FIRST_SECOND, PARTITION_RUS, Random, create_container, setting};
use super::{check_parts, create_view};
use armilla_engine::account::OfferChange;
use armilla_engine::items::WriteOptions;
use armilla_engine::offers::Throughput;
use armilla_engine::restore::{CutAccount, JoinedSlices, empty_views, raise_heads};
use armilla_engine::views::{Followed, SliceCopies, SliceCopy, Status};
use armilla_engine::{Account, Container, Options, Slice, SliceBounds, Txn};
use armilla_index::Limits;
use armilla_model::clock::ManualClock;
use armilla_model::partition_key::PartitionKey;
use armilla_storage::disk::MemoryDisk;
use armilla_storage::{
    Batch, Direction, Durability, KeyRange, Keyspace, MemoryStore, Snapshot, Store as _,
};
use bytes::Bytes;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const SLICES: u32 = 3;
const SOURCE: &str =
    r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},"defaultTtl":-1}"#;

/// Name, key, source and definition of every view.
const VIEWS: [(&str, &str, &str, &str); 5] = [
    ("listed", "/k", "c", "SELECT c.id, c.pk, c.k, c.deep.n FROM c"),
    ("all", "/id", "c", "SELECT * FROM c"),
    ("some", "/k", "c", "SELECT c.k, c.n AS m FROM c WHERE c.n > 3"),
    ("above", "/m", "some", "SELECT c.m, c.k FROM c"),
    ("newest", "/k", "c", "SELECT TOP 2 c.k, c.n, c.id FROM c WHERE c.n < 8 ORDER BY c.n DESC"),
];

/// The copies that the owner of one slice has of the others.
#[derive(Clone, Default)]
struct Copies(Arc<Mutex<Vec<Option<SliceCopy>>>>);

impl SliceCopies for Copies {
    fn copy(&self, slice: u32) -> Option<SliceCopy> {
        self.0.lock().unwrap()[slice as usize].clone()
    }
}

/// A slice with its owner.
struct Owned {
    store: Arc<MemoryStore>,
    disk: MemoryDisk,
    account: Arc<Account>,
    copies: Copies,
    /// What others may have copied of it.
    past: Vec<SliceCopy>,
}

struct Slices {
    owned: Vec<Owned>,
    options: Options,
    clock: Arc<ManualClock>,
    random: Random,
    place: u64,
}

impl Slices {
    fn new(seed: u64) -> Self {
        let clock = Arc::new(ManualClock::at_seconds(FIRST_SECOND));
        let mut options = Options {
            clock: clock.clone(),
            partition_rus: PARTITION_RUS,
            background: false,
            index_limits: Limits {
                tail_documents_max: 4,
                file_documents_min: 8,
                manifest_changes_max: 10,
                ..Limits::default()
            },
            ..Options::default()
        };
        options.dials.turn("views", "extended").unwrap();
        let mut slices = Self { owned: Vec::new(), options, clock, random: Random(seed), place: 0 };
        for index in 0..SLICES {
            let store = Arc::new(MemoryStore::new());
            let copies = Copies::default();
            *copies.0.lock().unwrap() = vec![None; SLICES as usize];
            let disk = MemoryDisk::new();
            let account = slices.open(index, &store, &disk, &copies);
            slices.owned.push(Owned { store, disk, account, copies, past: Vec::new() });
        }
        slices.owned[0].account.create_database("d", None).unwrap();
        create_container(&slices.owned[0].account, SOURCE);
        slices.adopt();
        slices
    }

    fn open(
        &self,
        index: u32,
        store: &Arc<MemoryStore>,
        disk: &MemoryDisk,
        copies: &Copies,
    ) -> Arc<Account> {
        let options = Options {
            slice: Slice::new(index, SLICES).unwrap(),
            // Removals are forgotten once the files of an index have them.
            disk: Some(Arc::new(disk.clone())),
            ..self.options.clone()
        };
        let account = Account::open(store.clone(), options).unwrap();
        account.set_copies(Box::new(copies.clone()));
        account
    }

    fn adopt(&self) {
        let first = self.owned[0].account.snapshot();
        for owned in &self.owned[1..] {
            owned.account.adopt_catalog(&*first).unwrap();
        }
    }

    fn create_views(&mut self) {
        for (name, key, source, definition) in VIEWS {
            self.step();
            create_view(&self.owned[0].account, (name, key), source, definition).unwrap();
            // Others learn of it one after the other.
            let first = self.owned[0].account.snapshot();
            for index in 1..self.owned.len() {
                for _ in 0..self.random.below(4) {
                    self.follow_some();
                }
                self.write();
                self.owned[index].account.adopt_catalog(&*first).unwrap();
            }
        }
    }

    fn parts(&self, name: &str) -> Vec<Arc<Container>> {
        let part = |owned: &Owned| owned.account.container("d", name).unwrap();
        self.owned.iter().map(part).collect()
    }

    /// Brings one owner's copy of a slice up to date.
    fn refresh(&mut self, owner: usize, slice: usize) {
        self.place += 1;
        let copy = SliceCopy { place: self.place, snapshot: self.owned[slice].store.snapshot() };
        self.owned[slice].past.push(copy.clone());
        self.owned[owner].copies.0.lock().unwrap()[slice] = Some(copy);
    }

    /// Another node takes a slice over, whose copies of the other slices are older, or being made.
    fn take_over(&mut self, slice: usize, disk: MemoryDisk, store: Arc<MemoryStore>) {
        for other in 0..self.owned.len() {
            let past = &self.owned[other].past;
            let copy = match past.len() as u64 {
                0 => None,
                _ if self.random.one_in(4) => None,
                count => Some(past[self.random.below(count) as usize].clone()),
            };
            self.owned[slice].copies.0.lock().unwrap()[other] = copy;
        }
        let index = u32::try_from(slice).unwrap();
        self.owned[slice].account = self.open(index, &store, &disk, &self.owned[slice].copies);
        (self.owned[slice].store, self.owned[slice].disk) = (store, disk);
    }

    fn some_slice(&mut self) -> usize {
        self.random.below(self.owned.len() as u64) as usize
    }

    fn follow_some(&mut self) {
        let (owner, slice) = (self.some_slice(), self.some_slice());
        self.refresh(owner, slice);
        self.owned[owner].account.follow_views();
    }

    /// Everybody has everything, and every view shows its source.
    fn check(&mut self) {
        let begun = Instant::now();
        for owned in &self.owned {
            owned.account.clean_up().unwrap();
        }
        loop {
            assert!(begun.elapsed() < Duration::from_secs(120), "views do not come to an end");
            for owner in 0..self.owned.len() {
                (0..self.owned.len()).for_each(|slice| self.refresh(owner, slice));
            }
            let follow = |owned: &Owned| owned.account.follow_views();
            if self.owned.iter().map(follow).max() == Some(Followed::Everything) {
                break;
            }
        }
        for (name, _, source, _) in VIEWS {
            let views = self.parts(name);
            check_parts(&self.parts(source), &views);
            for view in views {
                assert_eq!(view.view_status(), Some(Status::Active), "{name}");
            }
        }
    }

    fn item(&mut self) -> (PartitionKey, String, String) {
        let random = &mut self.random;
        let (pk, id) = (format!("p{}", random.below(9)), format!("i{}", random.below(9)));
        let k = match random.below(9) {
            0 => String::new(),
            1 => format!(r#","k":"{}""#, "x".repeat(3000)),
            number => format!(r#","k":"k{number}""#),
        };
        let ttl = match random.below(6) {
            0 => format!(r#","ttl":{}"#, 1 + random.below(20)),
            _ => String::new(),
        };
        let n = random.below(9);
        let text = format!(r#"{{"id":"{id}","pk":"{pk}"{k},"n":{n},"deep":{{"n":{n}}}{ttl}}}"#);
        (PartitionKey::parse(&format!(r#"["{pk}"]"#)).unwrap(), id, text)
    }

    /// Changes a logical partition in the slice that has it.
    fn change(&self, key: &PartitionKey, change: impl FnOnce(&mut Txn)) {
        let definition = self.parts("c")[0].key_definition().clone();
        let slice = SliceBounds::new(definition.hashing, SLICES).slice_of(&definition.epk(key));
        let mut txn = super::support::begin(&self.parts("c")[slice as usize], key);
        change(&mut txn);
        super::support::commit(txn).unwrap();
    }

    fn write(&mut self) {
        let (key, _, text) = self.item();
        self.change(&key, |txn| {
            txn.upsert_item(text.as_bytes(), &WriteOptions::default()).unwrap();
        });
    }

    fn step(&mut self) {
        let options = WriteOptions::default();
        match self.random.below(32) {
            0..=11 => self.write(),
            12..=15 => {
                let (key, id, _) = self.item();
                self.change(&key, |txn| drop(txn.delete_item(&id, &options)));
            }
            16 => {
                let (key, _, _) = self.item();
                self.change(&key, |txn| {
                    txn.delete_partition().unwrap();
                });
            }
            17 => self.clock.advance(Duration::from_secs(1 + self.random.below(10))),
            18 | 19 => {
                let slice = self.some_slice();
                self.owned[slice].account.clean_up().unwrap();
            }
            20 => self.scale(),
            21 => {
                let slice = self.some_slice();
                let (name, ..) = self.random.one_of(&VIEWS);
                let name = if self.random.one_in(2) { "c" } else { name };
                drop(self.owned[slice].account.merge_partitions("d", name));
            }
            22 | 23 => {
                let slice = self.some_slice();
                self.owned[slice].account.close().unwrap();
                let disk = self.owned[slice].disk.after_crash();
                let store = Arc::new(self.owned[slice].store.fork());
                self.take_over(slice, disk, store);
            }
            24 | 25 => self.cut(),
            _ => self.follow_some(),
        }
    }

    /// A node is killed in the middle of a round, and another one takes its slice over.
    fn cut(&mut self) {
        let slice = self.some_slice();
        let account = self.owned[slice].account.clone();
        let follower = std::thread::spawn(move || account.follow_views());
        for _ in 0..self.random.below(3000) {
            std::hint::spin_loop();
        }
        // The disk first: an index never knows more than the store.
        let disk = self.owned[slice].disk.after_crash();
        let store = Arc::new(self.owned[slice].store.fork());
        follower.join().unwrap();
        self.take_over(slice, disk, store);
    }

    /// The source or a view gets more throughput, and each slice splits what it has of it.
    fn scale(&mut self) {
        let (name, ..) = self.random.one_of(&VIEWS);
        let name = if self.random.one_in(2) { "c" } else { name };
        let first = &self.owned[0].account;
        let Ok(container) = first.container("d", name) else { return };
        let offer = first.catalog().offer_of(&container.self_link).unwrap().clone();
        let partitions = SLICES * (1 + self.random.below(3) as u32);
        let units = (partitions * PARTITION_RUS).max(400).max(offer.minimum());
        let wanted = OfferChange::Set(Throughput::Manual(units));
        first.replace_offer(offer.number, wanted, None, None).unwrap();
        self.adopt();
        for owned in &self.owned {
            owned.account.split_partitions();
        }
    }
}

#[test]
fn slices_show_together_what_a_view_shows() {
    let (first, steps) = (setting("ARMILLA_VIEWS_SEED", 1), setting("ARMILLA_VIEWS_STEPS", 250));
    for seed in first..first + setting("ARMILLA_VIEWS_RUNS", 3) {
        println!("seed {seed} of slices");
        let mut slices = Slices::new(seed);
        slices.create_views();
        for _ in 0..steps {
            slices.step();
            if slices.random.one_in(25) {
                slices.check();
            }
        }
        slices.check();
        for owned in &slices.owned {
            assert_eq!(owned.account.verify().unwrap().findings, [""; 0]);
        }
    }
}

/// An item whose key in the view moves into another slice and back has one copy, and its removal reaches whoever has it.
#[test]
fn an_item_moves_from_slice_to_slice_and_its_end_is_seen_there() {
    let mut slices = Slices::new(1);
    slices.clock.advance(Duration::from_secs(1));
    create_view(&slices.owned[0].account, ("v", "/k"), "c", "SELECT c.id, c.k FROM c").unwrap();
    slices.adopt();
    let settle = |slices: &mut Slices| {
        for _ in 0..4 {
            for owner in 0..slices.owned.len() {
                (0..slices.owned.len()).for_each(|slice| slices.refresh(owner, slice));
                while slices.owned[owner].account.follow_views() == Followed::More {}
            }
        }
        slices.parts("v").iter().map(|part| part.document_count()).collect::<Vec<_>>()
    };
    let key = PartitionKey::parse(r#"["p"]"#).unwrap();
    let mut seen = std::collections::HashSet::new();
    for number in 0..40 {
        let text = format!(r#"{{"id":"i","pk":"p","k":"k{number}"}}"#);
        slices.change(&key, |txn| {
            txn.upsert_item(text.as_bytes(), &WriteOptions::default()).unwrap();
        });
        let counts = settle(&mut slices);
        assert_eq!(counts.iter().sum::<u64>(), 1, "{counts:?}");
        seen.insert(counts);
    }
    assert_eq!(seen.len(), SLICES as usize, "it was everywhere");
    slices.change(&key, |txn| {
        txn.delete_item("i", &WriteOptions::default()).unwrap();
    });
    // The removal is kept until every slice has seen it.
    slices.owned.iter().for_each(|owned| owned.account.clean_up().unwrap());
    assert_eq!(settle(&mut slices).iter().sum::<u64>(), 0);
    let first = slices.owned[0].account.clone();
    first.delete_container(&first.container("d", "v").unwrap(), None).unwrap();
    slices.adopt();
    for part in slices.parts("c") {
        assert!(part.views().is_empty(), "nobody follows any more");
    }
}

/// Everything of a store in a fresh one.
fn filled(entries: impl IntoIterator<Item = (Keyspace, Vec<u8>, Bytes)>) -> Arc<MemoryStore> {
    let (store, mut batch) = (MemoryStore::new(), Batch::new());
    entries.into_iter().for_each(|(keyspace, key, value)| batch.put(keyspace, key, value));
    store.commit(batch, Durability::Synced).unwrap();
    raise_heads(&store).unwrap();
    Arc::new(store)
}

fn all_of(snapshot: &dyn Snapshot) -> Vec<(Keyspace, Vec<u8>, Bytes)> {
    let page = |keyspace: Keyspace| {
        let all = KeyRange::all();
        snapshot.page(keyspace, &all, Direction::Forward, usize::MAX).unwrap()
    };
    let entry = |keyspace, (key, value)| (keyspace, key, value);
    let of = |keyspace| page(keyspace).into_iter().map(move |found| entry(keyspace, found));
    Keyspace::ALL.into_iter().flat_map(of).collect()
}

/// The stores of a backup that is cut.
fn cut_into_slices(whole: &dyn Snapshot) -> Vec<Arc<MemoryStore>> {
    let entries = all_of(whole);
    let meta = entries.iter().filter(|(keyspace, ..)| *keyspace == Keyspace::Meta);
    let meta = meta.map(|(_, key, value)| (key.clone(), value.clone()));
    let mut plan = CutAccount::plan(meta, SLICES).unwrap();
    let mut parts: Vec<Vec<_>> = plan
        .take_meta()
        .into_iter()
        .map(|meta| meta.into_iter().map(|(key, value)| (Keyspace::Meta, key, value)).collect())
        .collect();
    let others = entries.into_iter().filter(|(keyspace, ..)| *keyspace != Keyspace::Meta);
    for (keyspace, key, value) in others {
        if let Some(slice) = plan.slice_of(keyspace, &key, &value).unwrap() {
            parts[slice as usize].push((keyspace, key, value));
        }
    }
    parts.into_iter().map(filled).collect()
}

/// A backup of slices that have not all followed as far as the others, restored into an account that is not cut, and that one's into slices again.
#[test]
fn a_restored_view_is_built_anew_whatever_slices_had_of_it() {
    let mut slices = Slices::new(7);
    slices.create_views();
    (0..120).for_each(|_| slices.step());
    let snapshots =
        slices.owned.iter().map(|owned| -> Arc<dyn Snapshot> { owned.store.snapshot() });
    let joined = JoinedSlices::new(snapshots.collect()).unwrap();
    let whole = Account::open(filled(all_of(&joined)), slices.options.clone()).unwrap();
    let view = whole.container("d", "all").unwrap();
    assert_eq!(view.document_count(), 0);
    assert_eq!(view.view_status().map(Status::word), Some("InitialBuildAfterRestore"));
    whole.clean_up().unwrap();
    while whole.follow_views() != Followed::Everything {}
    for (name, _, source, _) in VIEWS {
        let (source, view) = (whole.container("d", source), whole.container("d", name));
        super::check_equal(&source.unwrap(), &view.unwrap());
    }
    assert_eq!(whole.verify().unwrap().findings, [""; 0]);
    for (slice, store) in cut_into_slices(&*whole.snapshot()).into_iter().enumerate() {
        slices.owned[slice].past.clear();
        slices.take_over(slice, MemoryDisk::new(), store);
        assert_eq!(slices.parts("all")[slice].document_count(), 0);
    }
    slices.check();
    (0..60).for_each(|_| slices.step());
    slices.check();
}

/// What one slice has lost, and another has copied before, is in no view any more once the loss is accepted.
#[test]
fn views_do_not_show_what_their_source_has_lost() {
    let mut slices = Slices::new(3);
    slices.create_views();
    (0..60).for_each(|_| slices.step());
    let before = slices.owned[1].store.fork();
    (0..60).for_each(|_| slices.write());
    slices.check();
    for slice in 0..slices.owned.len() {
        slices.owned[slice].account.close().unwrap();
        let store = match slice {
            1 => before.fork(),
            _ => slices.owned[slice].store.fork(),
        };
        raise_heads(&store).unwrap();
        empty_views(&store).unwrap();
        slices.owned[slice].past.clear();
        slices.take_over(slice, MemoryDisk::new(), Arc::new(store));
    }
    // The copies that others had are thrown away.
    for owned in &slices.owned {
        owned.copies.0.lock().unwrap().fill(None);
    }
    slices.check();
    (0..60).for_each(|_| slices.step());
    slices.check();
}

fn has_removals(owned: &Owned) -> bool {
    all_of(&*owned.store.snapshot()).iter().any(|(keyspace, ..)| *keyspace == Keyspace::Gone)
}

/// A slice that has not heard of a view forgets removals: nobody reads there for the view before it has.
#[test]
fn nothing_is_read_of_a_slice_that_does_not_know_the_view() {
    let mut slices = Slices::new(5);
    let keys = (0..30).map(|number| PartitionKey::parse(&format!(r#"["p{number}"]"#)).unwrap());
    let keys: Vec<_> = keys.collect();
    for (number, key) in keys.iter().enumerate() {
        let text = format!(r#"{{"id":"i","pk":"p{number}","k":"k{number}"}}"#);
        slices.change(key, |txn| {
            txn.upsert_item(text.as_bytes(), &WriteOptions::default()).unwrap();
        });
    }
    create_view(&slices.owned[0].account, ("v", "/k"), "c", "SELECT c.id, c.k FROM c").unwrap();
    for slice in 1..slices.owned.len() {
        slices.refresh(0, slice);
    }
    while slices.owned[0].account.follow_views() == Followed::More {}
    for key in &keys {
        slices.change(key, |txn| {
            txn.delete_item("i", &WriteOptions::default()).unwrap();
        });
    }
    for slice in 1..slices.owned.len() {
        // An index that is at work when it is closed has not everything in its files: then again.
        let begun = Instant::now();
        while has_removals(&slices.owned[slice]) {
            assert!(begun.elapsed() < Duration::from_secs(20), "removals are not forgotten");
            slices.owned[slice].account.close().unwrap();
            let disk = slices.owned[slice].disk.after_crash();
            let store = Arc::new(slices.owned[slice].store.fork());
            slices.take_over(slice, disk, store);
            slices.owned[slice].account.clean_up().unwrap();
        }
    }
    slices.adopt();
    for _ in 0..3 {
        for owner in 0..slices.owned.len() {
            (0..slices.owned.len()).for_each(|slice| slices.refresh(owner, slice));
            while slices.owned[owner].account.follow_views() == Followed::More {}
        }
    }
    assert_eq!(slices.parts("v").iter().map(|part| part.document_count()).sum::<u64>(), 0);
}
