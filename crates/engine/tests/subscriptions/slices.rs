//! Subscriptions in an account that is cut into slices: each slice delivers what it has, and keeps how far it has come.

use super::procedures::{COUNT, COUNTED};
use super::support::{FIRST_SECOND, Random, begin, commit, create_container, rows, setting, value};
use super::{CONTAINER, PATIENCE, Receiver, text};
use armilla_engine::account::NewScript;
use armilla_engine::items::WriteOptions;
use armilla_engine::restore::{CutAccount, JoinedSlices, raise_heads};
use armilla_engine::scripts::Kind;
use armilla_engine::subscriptions::queue::DeliveryOutcome;
use armilla_engine::{Account, Container, Options, Slice, SliceBounds};
use armilla_model::clock::ManualClock;
use armilla_model::partition_key::PartitionKey;
use armilla_storage::{
    Batch, Direction, Durability, KeyRange, Keyspace, MemoryStore, Snapshot, Store as _,
};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

const SLICES: u32 = 3;
const HOOK: &str = r#"{"id":"hook","target":{"kind":"webhook","url":"https://a"},"filter":{"where":"c.type = 'e'"},
    "feed":{"start":"beginning"},"batch":{"maxItems":7}}"#;

struct Slices {
    stores: Vec<Arc<MemoryStore>>,
    accounts: Vec<Arc<Account>>,
    receiver: Receiver,
    random: Random,
    options: Options,
    /// Items made, by logical partition.
    made: BTreeMap<String, u64>,
    next: u64,
}

impl Slices {
    fn new(seed: u64) -> Self {
        let clock = Arc::new(ManualClock::at_seconds(FIRST_SECOND));
        let options = Options { clock, background: false, ..Options::default() };
        let mut slices = Self {
            stores: Vec::new(),
            accounts: Vec::new(),
            receiver: Receiver::new(|_| DeliveryOutcome::Done),
            random: Random(seed),
            options,
            made: BTreeMap::new(),
            next: 0,
        };
        slices.open((0..SLICES).map(|_| Arc::new(MemoryStore::new())).collect());
        slices.accounts[0].create_database("d", None).unwrap();
        let container = create_container(&slices.accounts[0], CONTAINER);
        let new = NewScript { kind: Kind::Procedure, name: "count", body: COUNT, trigger: None };
        slices.accounts[0].create_script(&container, &new, true).unwrap();
        slices.adopt();
        slices
    }

    /// Starts on these stores, as many slices as there are.
    fn open(&mut self, stores: Vec<Arc<MemoryStore>>) {
        let count = u32::try_from(stores.len()).unwrap();
        let accounts = (0..count).zip(&stores);
        self.accounts = accounts.map(|(index, store)| self.open_one(store, index, count)).collect();
        self.stores = stores;
    }

    fn open_one(&self, store: &Arc<MemoryStore>, index: u32, count: u32) -> Arc<Account> {
        let slice = Slice::new(index, count).unwrap();
        let options = Options { slice, ..self.options.clone() };
        let account = Account::open(store.clone(), options).unwrap();
        account.set_courier(Box::new(self.receiver.clone()));
        account
    }

    fn adopt(&self) {
        let first = self.accounts[0].snapshot();
        for account in &self.accounts[1..] {
            account.adopt_catalog(&*first).unwrap();
        }
    }

    fn parts(&self) -> Vec<Arc<Container>> {
        self.accounts.iter().map(|account| account.container("d", "c").unwrap()).collect()
    }

    fn subscribe(&self, definition: &str) {
        let container = self.accounts[0].container("d", "c").unwrap();
        self.accounts[0].create_subscription(&container, &value(definition)).unwrap();
        self.adopt();
    }

    fn write(&mut self) {
        let pk = format!("p{}", self.random.below(12));
        let key = PartitionKey::parse(&format!(r#"["{pk}"]"#)).unwrap();
        let parts = self.parts();
        let definition = parts[0].key_definition();
        let count = u32::try_from(parts.len()).unwrap();
        let slice = SliceBounds::new(definition.hashing, count).slice_of(&definition.epk(&key));
        let mut txn = begin(&parts[slice as usize], &key);
        let number = self.next;
        self.next += 1;
        let item = format!(r#"{{"id":"e{number}","pk":"{pk}","type":"e"}}"#);
        txn.create_item(item.as_bytes(), &WriteOptions::default()).unwrap();
        commit(txn).unwrap();
        *self.made.entry(pk).or_default() += 1;
    }

    /// The owner of a slice is gone in the middle of a round, and another one goes on.
    fn cut(&mut self) {
        let slice = self.random.below(self.accounts.len() as u64) as usize;
        let account = self.accounts[slice].clone();
        let most = Duration::from_millis(self.random.below(5));
        let follower = std::thread::spawn(move || account.settle_subscriptions(most));
        for _ in 0..self.random.below(200_000) {
            std::hint::spin_loop();
        }
        let store = Arc::new(self.stores[slice].fork());
        follower.join().unwrap();
        let count = u32::try_from(self.accounts.len()).unwrap();
        self.accounts[slice] = self.open_one(&store, u32::try_from(slice).unwrap(), count);
        self.stores[slice] = store;
    }

    fn settle(&self) {
        for account in &self.accounts {
            assert!(account.settle_subscriptions(PATIENCE), "they do not come to an end");
        }
    }

    /// Every item was counted once, and sent.
    fn check(&self) {
        self.settle();
        let of_counters = "SELECT c.pk, c.n, c.keys FROM c WHERE c.type = 'counter'";
        let mut counted = BTreeMap::new();
        for part in self.parts() {
            for counter in rows(&part, of_counters, 100, |_| {}) {
                let n = counter.get("n").unwrap().as_i64().unwrap() as u64;
                let keys = counter.get("keys").unwrap().as_array().unwrap();
                let different: BTreeSet<_> = keys.iter().map(|key| key.as_str().unwrap()).collect();
                assert_eq!(different.len(), keys.len(), "an entry was counted twice");
                counted.insert(text(&counter, "pk"), n);
            }
        }
        assert_eq!(counted, self.made);
        let sent: BTreeSet<_> = self.receiver.ids().into_iter().collect();
        assert_eq!(sent.len() as u64, self.next);
    }
}

#[test]
fn each_slice_delivers_what_it_has_once() {
    let first = setting("ARMILLA_SUBSCRIPTIONS_SEED", 1);
    for seed in first..first + setting("ARMILLA_SUBSCRIPTIONS_RUNS", 4) {
        println!("seed {seed} of slices");
        let mut slices = Slices::new(seed);
        (0..20).for_each(|_| slices.write());
        slices.subscribe(COUNTED);
        slices.subscribe(HOOK);
        for _ in 0..setting("ARMILLA_SUBSCRIPTIONS_STEPS", 80) {
            match slices.random.below(8) {
                0 => slices.cut(),
                1 => {
                    let slice = slices.random.below(u64::from(SLICES)) as usize;
                    slices.accounts[slice].settle_subscriptions(Duration::from_millis(2));
                }
                _ => slices.write(),
            }
        }
        slices.check();
    }
}

#[test]
fn definitions_are_those_of_the_first_slice() {
    let mut slices = Slices::new(1);
    slices.subscribe(HOOK);
    let container = slices.accounts[0].container("d", "c").unwrap();
    let replaced = HOOK.replacen("https://a", "https://b", 1);
    slices.accounts[0].replace_subscription(&container, "hook", &value(&replaced), None).unwrap();
    slices.adopt();
    let etag = container.subscription("hook").unwrap().version().etag;
    for part in slices.parts() {
        let subscription = part.subscription("hook").unwrap();
        assert_eq!(subscription.version().etag, etag);
    }
    let positions = |slices: &Slices, slice: usize| {
        let page = |kind: u8| {
            let range = KeyRange::prefix(&[kind]);
            let snapshot = slices.stores[slice].snapshot();
            snapshot.page(Keyspace::Meta, &range, Direction::Forward, 10).unwrap().len()
        };
        (page(b'B'), page(b'Q'))
    };
    (0..10).for_each(|_| slices.write());
    slices.settle();
    assert_eq!(slices.receiver.by_key().len(), 10);
    slices.accounts[0].delete_subscription(&container, "hook", None).unwrap();
    slices.adopt();
    for slice in 0..slices.stores.len() {
        assert_eq!(positions(&slices, slice), (0, 0), "nothing is left of it");
        assert!(slices.parts()[slice].subscriptions().is_empty());
    }
    (0..10).for_each(|_| slices.write());
    slices.settle();
    assert_eq!(slices.receiver.by_key().len(), 10, "nothing is sent any more");
}

fn all_of(snapshot: &dyn Snapshot) -> Vec<(Keyspace, Vec<u8>, Bytes)> {
    let of = |keyspace: Keyspace| {
        let all = KeyRange::all();
        let page = snapshot.page(keyspace, &all, Direction::Forward, usize::MAX).unwrap();
        page.into_iter().map(move |(key, value)| (keyspace, key, value))
    };
    Keyspace::ALL.into_iter().flat_map(of).collect()
}

fn filled(entries: impl IntoIterator<Item = (Keyspace, Vec<u8>, Bytes)>) -> Arc<MemoryStore> {
    let (store, mut batch) = (MemoryStore::new(), Batch::new());
    entries.into_iter().for_each(|(keyspace, key, value)| batch.put(keyspace, key, value));
    store.commit(batch, Durability::Synced).unwrap();
    raise_heads(&store).unwrap();
    Arc::new(store)
}

/// What slices had delivered stays delivered in an account that is not cut, and what they had not comes there, once; and so on in other slices.
#[test]
fn a_backup_goes_on_where_each_slice_was() {
    for seed in 1..5 {
        let mut slices = Slices::new(seed);
        slices.subscribe(COUNTED);
        slices.subscribe(HOOK);
        (0..40).for_each(|_| slices.write());
        // One slice has delivered everything, one a part, one nothing.
        slices.accounts[0].settle_subscriptions(PATIENCE);
        slices.accounts[1].settle_subscriptions(Duration::ZERO);
        (0..20).for_each(|_| slices.write());
        let stores = slices.stores.iter();
        let snapshots = stores.map(|store| -> Arc<dyn Snapshot> { store.snapshot() }).collect();
        let joined = filled(all_of(&JoinedSlices::new(snapshots).unwrap()));
        slices.open(vec![joined]);
        (0..10).for_each(|_| slices.write());
        slices.check();
        (0..10).for_each(|_| slices.write());
        let entries = all_of(&*slices.stores[0].snapshot());
        let meta = entries.iter().filter(|(keyspace, ..)| *keyspace == Keyspace::Meta);
        let meta = meta.map(|(_, key, value)| (key.clone(), value.clone()));
        let mut plan = CutAccount::plan(meta, 4).unwrap();
        let mut parts: Vec<Vec<_>> = Vec::new();
        for meta in plan.take_meta() {
            parts.push(meta.into_iter().map(|(key, value)| (Keyspace::Meta, key, value)).collect());
        }
        for (keyspace, key, value) in entries {
            if keyspace != Keyspace::Meta
                && let Some(slice) = plan.slice_of(keyspace, &key, &value).unwrap()
            {
                parts[slice as usize].push((keyspace, key, value));
            }
        }
        slices.open(parts.into_iter().map(filled).collect());
        (0..10).for_each(|_| slices.write());
        slices.check();
    }
}
