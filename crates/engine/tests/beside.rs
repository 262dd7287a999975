//! A query that wants several items of one logical partition looks for them where one of them lies. What it finds there
//! may have been replaced or deleted since, and some may lie elsewhere: rows and charges are those of the items as they are.
#![allow(clippy::unwrap_used, reason = "every function here is part of a test")]

#[path = "support/mod.rs"]
mod support;

use armilla_engine::items::WriteOptions;
use armilla_engine::query::{Access, Limit, PageOptions, Query, Request, Scope};
use armilla_engine::ranges::EpkSpan;
use armilla_engine::{Account, Container, Options};
use armilla_model::partition_key::PartitionKey;
use armilla_storage::{
    Batch, Direction, Durability, KeyRange, Keyspace, MemoryStore, Shown, Snapshot, Store,
    StoreError, StoreStats,
};
use bytes::Bytes;
use parking_lot::Mutex;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What lies beside an item.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Beside {
    /// What is stored.
    Everything,
    /// Every other item of that.
    EveryOther,
    /// What was stored when the store was told to remember.
    Remembered,
    Nothing,
}

#[derive(Default)]
struct Shared {
    beside: Mutex<Option<Beside>>,
    remembered: Mutex<Option<Arc<dyn Snapshot>>>,
    looks: AtomicUsize,
}

struct ScatteredStore(MemoryStore, Arc<Shared>);

struct ScatteredSnapshot(Arc<dyn Snapshot>, Arc<Shared>);

impl Store for ScatteredStore {
    fn snapshot(&self) -> Arc<dyn Snapshot> {
        Arc::new(ScatteredSnapshot(self.0.snapshot(), self.1.clone()))
    }
    fn commit(&self, batch: Batch, durability: Durability) -> Result<(), StoreError> {
        self.0.commit(batch, durability)
    }
    fn close(&self) -> Result<(), StoreError> {
        self.0.close()
    }
    fn stats(&self) -> StoreStats {
        self.0.stats()
    }
}

impl Snapshot for ScatteredSnapshot {
    fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.0.get(keyspace, key)
    }
    fn scan(
        &self,
        keyspace: Keyspace,
        range: &KeyRange,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], Bytes) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.0.scan(keyspace, range, direction, visit)
    }
    fn get_beside(
        &self,
        keyspace: Keyspace,
        keys: &[&[u8]],
        take: &mut dyn FnMut(usize, &Shown<'_>) -> bool,
    ) -> Result<(), StoreError> {
        self.1.looks.fetch_add(1, Ordering::Relaxed);
        let remembered = self.1.remembered.lock().clone();
        let beside = self.1.beside.lock().unwrap();
        let snapshot = match (beside, &remembered) {
            (Beside::Nothing, _) => return Ok(()),
            (Beside::Remembered, Some(remembered)) => remembered,
            _ => &self.0,
        };
        assert!(keys.is_sorted());
        for (position, key) in keys.iter().enumerate() {
            let is_shown = beside != Beside::EveryOther || position % 2 == 0;
            if let Some(value) = snapshot.get(keyspace, key)?.filter(|_| is_shown) {
                // Every third has to be copied.
                let share = || (position % 3 != 0).then(|| value.clone());
                take(position, &Shown::new(&value, &share));
            }
        }
        Ok(())
    }
}

/// Items of the partition that queries address.
const ITEMS: usize = 63;

fn key() -> PartitionKey {
    PartitionKey::parse(r#"["p"]"#).unwrap()
}

/// One item in five is a comment, the others are likes.
fn text(number: usize, round: usize) -> String {
    let kind = if number.is_multiple_of(5) { "comment" } else { "like" };
    format!(r#"{{"id":"{number}","pk":"p","kind":"{kind}","round":{round},"number":{number}}}"#)
}

/// The numbers and rounds of a kind's items, and what the pages cost.
fn told(container: &Arc<Container>, kind: &str, access: Access) -> (Vec<String>, String) {
    let epk = container.settings().policy.partition_key.epk(&key());
    let span = EpkSpan::of_prefix(&epk);
    let scope = Scope { span, limit: Limit::Key, cross_partition: false };
    let text = format!("SELECT * FROM c WHERE c.kind = '{kind}'");
    let query = Query::new(container.clone(), Request::of_text(&text), &scope).unwrap().by(access);
    let options = PageOptions { count_max: 1000, continuation: None, range_by_range: false };
    let page = query.page(options).unwrap();
    assert_eq!(page.continuation, None);
    let row = |row: &[u8]| {
        let row = support::value(std::str::from_utf8(row).unwrap());
        let of = |name: &str| row.get(name).unwrap().to_json();
        format!("{}:{}", of("number"), of("round"))
    };
    (page.rows.iter().map(|bytes| row(bytes)).collect(), page.charge.to_string())
}

#[test]
fn rows_are_the_items_as_they_are_whatever_lies_beside_them() {
    let shared = Arc::new(Shared::default());
    *shared.beside.lock() = Some(Beside::Everything);
    let store = Arc::new(ScatteredStore(MemoryStore::new(), shared.clone()));
    let options = Options { background: false, ..Options::default() };
    let account = Account::open(store.clone(), options).unwrap();
    account.create_database("d", None).unwrap();
    let definition = r#"{"id":"c","partitionKey":{"paths":["/pk"]}}"#;
    let container = support::create_container(&account, definition);
    let mut rounds = vec![None; ITEMS + 8];
    let mut write = |container: &Arc<Container>, numbers: Vec<usize>, round: Option<usize>| {
        let mut txn = support::begin(container, &key());
        for number in numbers {
            match round {
                Some(round) => {
                    let text = text(number, round);
                    txn.upsert_item(text.as_bytes(), &WriteOptions::default()).unwrap();
                }
                None => {
                    txn.delete_item(&number.to_string(), &WriteOptions::default()).unwrap();
                }
            }
            rounds[number] = round;
        }
        support::commit(txn).unwrap();
        rounds.clone()
    };
    let check = |rounds: &[Option<usize>]| {
        for beside in [Beside::Everything, Beside::EveryOther, Beside::Remembered, Beside::Nothing]
        {
            *shared.beside.lock() = Some(beside);
            for kind in ["comment", "like"] {
                let looks = shared.looks.load(Ordering::Relaxed);
                let is_kind = |number: &usize| number.is_multiple_of(5) == (kind == "comment");
                let numbers = (0..rounds.len()).filter(is_kind);
                let mut wanted: Vec<String> = numbers
                    .filter_map(|number| Some(format!("{number}:{}", rounds[number]?)))
                    .collect();
                let (mut rows, charge) = told(&container, kind, Access::ByCost);
                let (again, same_charge) = told(&container, kind, Access::ByCost);
                assert_eq!((&again, &same_charge), (&rows, &charge));
                rows.sort();
                wanted.sort();
                assert_eq!(rows, wanted, "{beside:?} {kind}");
                // Comments come from the item cache by and by.
                let is_looked = shared.looks.load(Ordering::Relaxed) > looks;
                assert!(is_looked || kind == "comment", "{beside:?} {kind}");
            }
        }
    };
    let rounds = write(&container, (0..ITEMS).collect(), Some(1));
    check(&rounds);
    assert!(shared.looks.load(Ordering::Relaxed) > 0);
    *shared.remembered.lock() = Some(store.0.snapshot());
    // Replaced, deleted, deleted and made again, and new.
    write(&container, (0..ITEMS).filter(|number| number % 3 == 0).collect(), Some(2));
    write(&container, (0..ITEMS).filter(|number| number % 7 == 1).collect(), None);
    let rounds = write(&container, (0..ITEMS).filter(|n| n % 14 == 1).collect(), Some(3));
    check(&rounds);
    let rounds = write(&container, (ITEMS..ITEMS + 8).collect(), Some(4));
    check(&rounds);
}
