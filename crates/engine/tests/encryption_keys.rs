//! Client encryption keys as records: they outlive starts, backups and restores, and a verification finds those that belong
//! to nobody, or that a policy misses.

#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

mod support;

use armilla_engine::encryption::NewEncryptionKey;
use armilla_engine::{Account, Options};
use armilla_model::Object;
use armilla_storage::backup::{backup, restore_into};
use armilla_storage::{Batch, Durability, EmbeddedOptions, EmbeddedStore, Keyspace, Store};
use std::sync::Arc;
use support::{Bench, create_container, value};

/// A container whose clients encrypt one property with the key `key1`.
const ENCRYPTED: &str = r#"{"id":"encrypted","partitionKey":{"paths":["/pk"]},"clientEncryptionPolicy":{
    "includedPaths":[{"path":"/ssn","clientEncryptionKeyId":"key1","encryptionType":"Deterministic",
        "encryptionAlgorithm":"AEAD_AES_256_CBC_HMAC_SHA256"}],"policyFormatVersion":1}}"#;

fn key(name: &str) -> NewEncryptionKey {
    let metadata = value(r#"{"type":"TEST","name":"cmk","value":"v","future":[1,{"a":null}]}"#);
    let definition = Object::of([
        ("encryptionAlgorithm", "AEAD_AES_256_CBC_HMAC_SHA256".into()),
        ("keyWrapMetadata", metadata),
        ("wrappedDataEncryptionKey", "AAEC".into()),
    ]);
    NewEncryptionKey { name: name.to_owned(), definition }
}

/// The place of a key in `meta`, as `docs/format.md` has it.
fn record(database: u32, number: u32) -> Vec<u8> {
    [&b"K"[..], &database.to_be_bytes(), &number.to_be_bytes()].concat()
}

/// Everything that a key says.
fn told(account: &Account) -> String {
    let database = account.database("d").unwrap();
    let key = database.encryption_key("key1").unwrap();
    format!("{key:?}")
}

fn findings(account: &Account) -> Vec<String> {
    account.verify().unwrap().findings
}

#[test]
fn keys_outlive_a_start_a_backup_and_a_restore() {
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str| {
        let store = EmbeddedStore::open(folder.path().join(name), &EmbeddedOptions::default());
        let store: Arc<dyn Store> = Arc::new(store.unwrap());
        let options = Options { background: false, ..Options::default() };
        (Account::open(store.clone(), options).unwrap(), store)
    };
    let (account, store) = open("data");
    account.create_database("d", None).unwrap();
    account.create_encryption_key("d", key("key1")).unwrap();
    create_container(&account, ENCRYPTED);
    let replaced = account.replace_encryption_key("d", "key1", key("key1"), None).unwrap();
    let before = told(&account);
    assert!(before.contains(&format!("{:?}", replaced.etag)), "{before}");
    let copy = folder.path().join("backup");
    backup(&*store.snapshot(), &copy).unwrap();
    account.close().unwrap();
    drop((account, store));
    let restored = folder.path().join("restored");
    let finish = armilla_engine::restore::raise_heads;
    restore_into(&copy, &restored, &EmbeddedOptions::default(), finish).unwrap();
    let (account, _store) = open("restored");
    assert_eq!(told(&account), before);
    assert_eq!(findings(&account), [""; 0]);
    account.close().unwrap();
}

#[test]
fn a_verification_finds_keys_of_nobody_and_keys_that_are_missed() {
    let mut bench = Bench::new(r#"{"id":"c","partitionKey":{"paths":["/pk"]}}"#, |_| {});
    let made = bench.account.create_encryption_key("d", key("key1")).unwrap();
    create_container(&bench.account, ENCRYPTED);
    assert_eq!(findings(&bench.account), [""; 0]);
    let database = bench.account.database("d").unwrap().number;
    let stored = record(database, made.number);
    let text = bench.store.snapshot().get(Keyspace::Meta, &stored).unwrap().unwrap();
    let mut batch = Batch::new();
    batch.delete(Keyspace::Meta, stored);
    batch.put(Keyspace::Meta, record(99, 7), text.to_vec());
    bench.store.commit(batch, Durability::Synced).unwrap();
    bench.restart();
    let found = findings(&bench.account);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().any(|finding| finding.contains("is of no database")), "{found:?}");
    assert!(found.iter().any(|finding| finding.contains("'key1', which is missing")), "{found:?}");
}

#[test]
fn a_record_that_cannot_be_read_is_a_refusal() {
    let bench = Bench::new(r#"{"id":"c","partitionKey":{"paths":["/pk"]}}"#, |_| {});
    let database = bench.account.database("d").unwrap().number;
    let mut batch = Batch::new();
    batch.put(Keyspace::Meta, record(database, 7), b"{}".to_vec());
    bench.store.commit(batch, Durability::Synced).unwrap();
    let refused = Account::open(bench.store.clone(), bench.options.clone());
    let refused = refused.err().expect("a damaged catalog is not served").to_string();
    assert!(refused.contains("malformed"), "{refused}");
}
