//! A transaction that the store cannot commit whole: it is refused before it has a number, and the partition goes on.
#![allow(clippy::unwrap_used, reason = "every function here is part of a test")]

use armilla_engine::account::NewContainer;
use armilla_engine::items::WriteOptions;
use armilla_engine::{Account, Container, Options, Txn};
use armilla_model::partition_key::PartitionKey;
use armilla_model::{Error, Result, json};
use armilla_storage::{Batch, Durability, MemoryStore, Snapshot, Store, StoreError, StoreStats};
use std::sync::{Arc, mpsc};

/// So many operations are the most of one transaction.
const OPERATIONS_MAX: usize = 30;

struct SmallStore(MemoryStore);

impl Store for SmallStore {
    fn snapshot(&self) -> Arc<dyn Snapshot> {
        self.0.snapshot()
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
    fn takes(&self, batch: &Batch) -> bool {
        batch.len() <= OPERATIONS_MAX
    }
}

fn key() -> PartitionKey {
    PartitionKey::parse(r#"["p"]"#).unwrap()
}

fn change<T>(container: &Arc<Container>, stage: impl FnOnce(&mut Txn) -> Result<T>) -> Result<()> {
    let epk = container.settings().policy.partition_key.epk(&key());
    let mut txn = Txn::begin(container.clone(), key(), container.lock_and_wait(&epk))?;
    stage(&mut txn)?;
    let (sender, receiver) = mpsc::sync_channel(1);
    txn.commit(move |outcome| sender.send(outcome).unwrap());
    receiver.recv().unwrap().map(drop)
}

#[test]
fn a_partition_that_is_too_large_to_be_deleted_at_once_stays_whole_and_can_be_deleted_in_parts() {
    let options = Options { background: false, ..Options::default() };
    let account = Account::open(Arc::new(SmallStore(MemoryStore::new())), options).unwrap();
    account.create_database("d", None).unwrap();
    let definition = json::parse(br#"{"id":"c","partitionKey":{"paths":["/pk"]}}"#).unwrap();
    let new = NewContainer { definition: &definition, throughput: None };
    let container = account.create_container("d", &new).unwrap();
    let put = |id: usize| {
        let text = format!(r#"{{"id":"{id}","pk":"p"}}"#);
        change(&container, |txn| txn.upsert_item(text.as_bytes(), &WriteOptions::default()))
    };
    for id in 0..20 {
        put(id).unwrap();
    }
    let refused = change(&container, Txn::delete_partition).unwrap_err();
    assert!(matches!(&refused, Error::TooLarge(message) if message.contains("several requests")));
    let is_there = |id: usize| container.read_item(&key(), &id.to_string()).unwrap().is_some();
    assert!((0..20).all(is_there));
    put(20).unwrap();
    for id in 0..15 {
        let id = id.to_string();
        change(&container, |txn| txn.delete_item(&id, &WriteOptions::default())).unwrap();
    }
    change(&container, Txn::delete_partition).unwrap();
    assert!(!(0..=20).any(is_there));
}
