//! A block that is not what was written: clear errors, no more writes to its partition, others go on.
#![allow(clippy::unwrap_used, reason = "every function here is part of a test")]

use armilla_engine::account::NewContainer;
use armilla_engine::items::WriteOptions;
use armilla_engine::{Account, Container, Options, Txn};
use armilla_model::partition_key::PartitionKey;
use armilla_model::{Error, Result, json};
use armilla_storage::{
    Batch, Direction, Durability, KeyRange, Keyspace, MemoryStore, Snapshot, Store, StoreError,
    StoreStats,
};
use bytes::Bytes;
use std::ops::ControlFlow;
use std::sync::{Arc, mpsc};

/// Items with this word in them cannot be read back.
const ROTTEN: &[u8] = b"rotten";

struct RottenStore(MemoryStore);

struct RottenSnapshot(Arc<dyn Snapshot>);

impl Store for RottenStore {
    fn snapshot(&self) -> Arc<dyn Snapshot> {
        Arc::new(RottenSnapshot(self.0.snapshot()))
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

impl Snapshot for RottenSnapshot {
    fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let value = self.0.get(keyspace, key)?;
        let is_rotten = |value: &Bytes| value.windows(ROTTEN.len()).any(|part| part == ROTTEN);
        if keyspace == Keyspace::Items && value.as_ref().is_some_and(is_rotten) {
            return Err(StoreError::corruption("tables/7", "a block has another checksum"));
        }
        Ok(value)
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
}

fn key() -> PartitionKey {
    PartitionKey::parse(r#"["p"]"#).unwrap()
}

fn put(container: &Arc<Container>, text: &str) -> Result<()> {
    let epk = container.settings().policy.partition_key.epk(&key());
    let mut txn = Txn::begin(container.clone(), key(), container.lock_and_wait(&epk))?;
    txn.upsert_item(text.as_bytes(), &WriteOptions::default())?;
    let (sender, receiver) = mpsc::sync_channel(1);
    txn.commit(move |outcome| sender.send(outcome).unwrap());
    receiver.recv().unwrap().map(drop)
}

fn check_damaged(outcome: Result<()>, words: &[&str]) {
    let Err(Error::Damaged(message)) = outcome else { panic!("{outcome:?}") };
    for word in words {
        assert!(message.contains(word), "'{word}' is not in: {message}");
    }
}

#[test]
fn a_damaged_partition_says_where_and_takes_no_writes_while_others_go_on() {
    let options = Options { background: false, ..Options::default() };
    let account = Account::open(Arc::new(RottenStore(MemoryStore::new())), options).unwrap();
    account.create_database("d", None).unwrap();
    let make = |name: &str| {
        let definition = format!(r#"{{"id":"{name}","partitionKey":{{"paths":["/pk"]}}}}"#);
        let definition = json::parse(definition.as_bytes()).unwrap();
        let new = NewContainer { definition: &definition, throughput: None };
        account.create_container("d", &new).unwrap()
    };
    let (bad, good) = (make("bad"), make("good"));
    put(&bad, r#"{"id":"a","pk":"p","x":"rotten"}"#).unwrap();
    put(&bad, r#"{"id":"b","pk":"p"}"#).unwrap();
    put(&good, r#"{"id":"b","pk":"p"}"#).unwrap();
    assert_eq!(account.damaged_partitions(), 0);

    // Until somebody meets the block nobody knows.
    put(&bad, r#"{"id":"c","pk":"p"}"#).unwrap();
    let read = |id: &str| bad.read_item(&key(), id).map(drop);
    let place = ["container 'bad'", "partition ", "tables/7", "checksum", "armilla restore"];
    check_damaged(read("a"), &place);
    assert_eq!(account.damaged_partitions(), 1);

    // From now on the partition takes no writes, and answers what it can.
    check_damaged(put(&bad, r#"{"id":"d","pk":"p"}"#), &["takes no writes", "tables/7"]);
    check_damaged(put(&bad, r#"{"id":"b","pk":"p","n":1}"#), &["takes no writes"]);
    read("b").unwrap();
    check_damaged(read("a"), &place);
    assert_eq!(account.damaged_partitions(), 1);

    // Others do not notice.
    put(&good, r#"{"id":"c","pk":"p"}"#).unwrap();
    good.read_item(&key(), "c").unwrap().unwrap();
}
