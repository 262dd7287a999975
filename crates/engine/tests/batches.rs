//! Many creates in one batch, over a real store: their ids are looked for together, and what is there is found all the same.
#![allow(clippy::unwrap_used, reason = "every function here is part of a test")]

#[path = "support/mod.rs"]
mod support;

use armilla_engine::items::WriteOptions;
use armilla_engine::items::batch::{Operation, Verb};
use armilla_engine::items::body::UncheckedBody;
use armilla_engine::{Account, Container, Options};
use armilla_model::Error;
use armilla_model::partition_key::PartitionKey;
use armilla_storage::{EmbeddedOptions, EmbeddedStore};
use std::ops::Range;
use std::sync::Arc;

fn key() -> PartitionKey {
    PartitionKey::parse(r#"["p"]"#).unwrap()
}

/// Creates items with these numbers, all or none; else where it failed.
fn create(container: &Arc<Container>, numbers: impl Iterator<Item = u32>) -> Result<(), usize> {
    let operation = |number| {
        let text = format!(r#"{{"id":"{number}","pk":"p"}}"#);
        let verb = Verb::Create(UncheckedBody::parse(text.as_bytes()).unwrap());
        Operation { verb, options: WriteOptions::default(), partition_key: None, minimal: true }
    };
    let mut txn = support::begin(container, &key());
    let outcome = txn.run_batch(numbers.map(operation).collect());
    match outcome {
        Ok(_) => support::commit(txn).map(drop).map_err(|error| panic!("{error}")),
        Err(failure) => {
            assert!(matches!(failure.error, Error::Conflict(_)), "{:?}", failure.error);
            Err(failure.position)
        }
    }
}

#[test]
fn an_id_is_created_once_wherever_it_lies() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(EmbeddedStore::open(folder.path(), &EmbeddedOptions::default()).unwrap());
    let account = Account::open(store.clone(), Options::default()).unwrap();
    account.create_database("d", None).unwrap();
    let definition = r#"{"id":"c","partitionKey":{"paths":["/pk"]}}"#;
    let container = support::create_container(&account, definition);
    let count = |numbers: Range<u32>| {
        let is_there =
            |number: &u32| container.read_item(&key(), &number.to_string()).unwrap().is_some();
        numbers.filter(is_there).count()
    };
    assert_eq!(create(&container, 0..50), Ok(()));
    // Beside what is in a write buffer, and then in a sorted file.
    assert_eq!(create(&container, (100..120).chain(7..8)), Err(20));
    assert!(store.flush().unwrap());
    assert_eq!(create(&container, (100..120).chain(49..60)), Err(20));
    assert_eq!(create(&container, 50..100), Ok(()));
    assert_eq!(create(&container, (100..120).chain(99..100)), Err(20));
    assert_eq!(count(0..200), 100);
    // Twice in one batch.
    assert_eq!(create(&container, (100..120).chain(103..104)), Err(20));
    // What was deleted is free.
    let mut txn = support::begin(&container, &key());
    for number in 10..20 {
        txn.delete_item(&number.to_string(), &WriteOptions::default()).unwrap();
    }
    support::commit(txn).unwrap();
    assert_eq!(create(&container, (10..20).chain(100..110)), Ok(()));
    assert_eq!(create(&container, (10..20).chain(110..120)), Err(0));
    assert_eq!(count(0..200), 110);
    account.close().unwrap();
}
