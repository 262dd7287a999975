//! A block that is not what was written: clear errors, no more writes to its partition, others go on.
#![allow(clippy::unwrap_used, reason = "every function here is part of a test")]

use armilla_engine::account::NewContainer;
use armilla_engine::items::WriteOptions;
use armilla_engine::query::{Limit, PageOptions, Query, Request, Scope};
use armilla_engine::ranges::EpkSpan;
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
        if keyspace == Keyspace::Items && value.as_ref().is_some_and(is_rotten) {
            return Err(damage());
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
        let mut met = false;
        self.0.scan(keyspace, range, direction, &mut |key, value| {
            met = keyspace == Keyspace::Items && is_rotten(&value);
            if met { ControlFlow::Break(()) } else { visit(key, value) }
        })?;
        if met { Err(damage()) } else { Ok(()) }
    }
}

fn is_rotten(value: &Bytes) -> bool {
    value.windows(ROTTEN.len()).any(|part| part == ROTTEN)
}

fn damage() -> StoreError {
    StoreError::corruption("tables/7", "a block has another checksum")
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

/// An account with an empty container of each name.
fn containers<const N: usize>(names: [&str; N]) -> (Arc<Account>, [Arc<Container>; N]) {
    let options = Options { background: false, ..Options::default() };
    let account = Account::open(Arc::new(RottenStore(MemoryStore::new())), options).unwrap();
    account.create_database("d", None).unwrap();
    let made = names.map(|name| {
        let definition = format!(r#"{{"id":"{name}","partitionKey":{{"paths":["/pk"]}}}}"#);
        let definition = json::parse(definition.as_bytes()).unwrap();
        let new = NewContainer { definition: &definition, throughput: None };
        account.create_container("d", &new).unwrap()
    });
    (account, made)
}

#[test]
fn damage_that_a_query_meets_while_it_reads_ahead_is_noted() {
    let (account, [bad]) = containers(["bad"]);
    // So many that a query reads several at a time; the last of them cannot be read.
    for number in 0..60 {
        put(&bad, &format!(r#"{{"id":"{number}","pk":"p"}}"#)).unwrap();
    }
    put(&bad, r#"{"id":"last","pk":"p","x":"rotten"}"#).unwrap();
    let scope = Scope { span: EpkSpan::all(), limit: Limit::Container, cross_partition: true };
    let query = Query::new(bad.clone(), Request::of_text("SELECT * FROM c"), &scope).unwrap();
    let options = PageOptions { count_max: 40, continuation: None, range_by_range: false };
    let plan = query.plan(options).unwrap();
    check_damaged(query.run(&plan).map(drop), &["container 'bad'", "partition ", "tables/7"]);
    assert_eq!(account.damaged_partitions(), 1);
    check_damaged(put(&bad, r#"{"id":"new","pk":"p"}"#), &["takes no writes"]);
}

#[test]
fn a_damaged_partition_says_where_and_takes_no_writes_while_others_go_on() {
    let (account, [bad, good]) = containers(["bad", "good"]);
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
