//! The embedded store's own promises: reopening, locking, versions, closing.

use std::fs;

use tempfile::TempDir;

use super::*;

fn open(folder: &TempDir) -> EmbeddedStore {
    EmbeddedStore::open(folder.path(), &EmbeddedOptions::default()).unwrap()
}

fn put(store: &EmbeddedStore, key: &str, value: &str) {
    let mut batch = Batch::new();
    batch.put(Keyspace::Items, key.into(), value.to_owned());
    store.commit(batch, Durability::Synced).unwrap();
}

fn get(store: &EmbeddedStore, key: &str) -> Option<String> {
    let found = store.snapshot().get(Keyspace::Items, key.as_bytes()).unwrap();
    found.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

/// Bytes of all journal files, as a measure of what the next start reads.
fn journal_bytes(folder: &TempDir) -> u64 {
    let entries = fs::read_dir(folder::engine_path(folder.path())).unwrap();
    let journals = entries
        .map(Result::unwrap)
        .filter(|entry| entry.path().extension().is_some_and(|extension| extension == "jnl"));
    journals.map(|entry| entry.metadata().unwrap().len()).sum()
}

#[test]
fn what_was_committed_is_there_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    put(&store, "a", "1");
    drop(store);
    let store = open(&folder);
    assert_eq!(get(&store, "a").as_deref(), Some("1"));
    put(&store, "a", "2");
    put(&store, "b", "3");
    drop(store);
    let store = open(&folder);
    assert_eq!((get(&store, "a").as_deref(), get(&store, "b").as_deref()), (Some("2"), Some("3")));
}

#[test]
fn a_clean_stop_leaves_nothing_to_replay() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..4 {
        let store = open(&folder);
        if round > 0 {
            assert_eq!(get(&store, "a"), Some((round - 1).to_string()));
            assert_eq!(get(&store, &format!("k{}", round - 1)), Some("v".into()));
        }
        put(&store, "a", &round.to_string());
        put(&store, &format!("k{round}"), "v");
        store.close().unwrap();
        assert_eq!(journal_bytes(&folder), 0);
    }
    // And an unclean one in between changes nothing.
    let store = open(&folder);
    put(&store, "a", "last");
    drop(store);
    assert_eq!(get(&open(&folder), "a").as_deref(), Some("last"));
}

/// Each batch that makes the file longer makes its sync write the file's metadata as well.
#[test]
fn small_batches_do_not_change_the_length_of_a_journal_that_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    put(&store, "a", "1");
    drop(store);
    let store = open(&folder);
    put(&store, "b", "2");
    let length = journal_bytes(&folder);
    for number in 0..100 {
        put(&store, &format!("k{number}"), "v");
    }
    assert_eq!(journal_bytes(&folder), length);
    // Dropped, it is left as a killed process leaves it: batches, then zeros.
    drop(store);
    for round in 0..3 {
        let store = open(&folder);
        assert_eq!(get(&store, "a").as_deref(), Some("1"));
        assert_eq!(get(&store, "k99").as_deref(), Some("v"));
        put(&store, "k99", "v");
        put(&store, &format!("round{round}"), "v");
        assert_eq!(get(&store, &format!("round{}", round / 2)).as_deref(), Some("v"));
        drop(store);
    }
}

#[test]
fn a_closed_store_refuses_commits_but_still_reads() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    put(&store, "a", "1");
    let held = store.snapshot();
    store.close().unwrap();
    store.close().unwrap();
    let mut batch = Batch::new();
    batch.put(Keyspace::Items, b"a".to_vec(), "2");
    assert!(matches!(store.commit(batch, Durability::Synced), Err(StoreError::Io { .. })));
    assert_eq!(get(&store, "a").as_deref(), Some("1"));
    assert_eq!(held.get(Keyspace::Items, b"a").unwrap().unwrap(), "1");
}

#[test]
fn a_second_opening_of_the_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let refused = EmbeddedStore::open(folder.path(), &EmbeddedOptions::default());
    let error = refused.err().unwrap();
    assert!(matches!(&error, StoreError::Locked { path } if path == folder.path()));
    drop(store);
    open(&folder);
}

#[test]
fn another_format_version_is_refused_untouched() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    put(&store, "a", "1");
    drop(store);
    fs::write(folder.path().join("format"), "armilla-format 99\n").unwrap();
    let error = EmbeddedStore::open(folder.path(), &EmbeddedOptions::default()).err().unwrap();
    assert!(matches!(error, StoreError::FormatVersion { found: 99, expected: FORMAT_VERSION }));
    fs::remove_file(folder.path().join("format")).unwrap();
    let error = EmbeddedStore::open(folder.path(), &EmbeddedOptions::default()).err().unwrap();
    assert!(error.is_corruption(), "{error}");
}

#[test]
fn the_last_operation_on_a_key_wins_also_after_replay_and_flush() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let mut batch = Batch::new();
    batch.put(Keyspace::Items, b"put-put".to_vec(), "1");
    batch.put(Keyspace::Items, b"put-delete".to_vec(), "1");
    batch.delete(Keyspace::Items, b"delete-put".to_vec());
    batch.put(Keyspace::Items, b"put-put".to_vec(), "2");
    batch.delete(Keyspace::Items, b"put-delete".to_vec());
    batch.put(Keyspace::Items, b"delete-put".to_vec(), "2");
    store.commit(batch, Durability::Synced).unwrap();
    let check = |store: &EmbeddedStore| {
        assert_eq!(get(store, "put-put").as_deref(), Some("2"));
        assert_eq!(get(store, "put-delete"), None);
        assert_eq!(get(store, "delete-put").as_deref(), Some("2"));
        let all = KeyRange::all();
        let page = store.snapshot().page(Keyspace::Items, &all, Direction::Forward, 9).unwrap();
        assert_eq!(page.len(), 2);
    };
    check(&store);
    drop(store);
    let store = open(&folder);
    check(&store);
    assert!(store.flush().unwrap());
    check(&store);
}

#[test]
fn stats_see_what_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    put(&store, "a", &"x".repeat(100_000));
    let stats = store.stats();
    assert!(stats.write_buffer_bytes >= 100_000);
    assert!(stats.journal_bytes >= 100_000);
    assert!(stats.disk_bytes >= stats.journal_bytes);
    assert_eq!(stats.pressure(), crate::Pressure::Calm);
}

#[test]
fn a_new_store_works_before_all_its_trees_are_made() {
    for round in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder);
        let before = store.snapshot();
        // The rarest tree first: it is made last, or here.
        let mut batch = Batch::new();
        for keyspace in Keyspace::ALL.into_iter().rev().take(1 + round) {
            assert_eq!(before.get(keyspace, b"k").unwrap(), None);
            batch.put(keyspace, b"k".to_vec(), keyspace.name());
        }
        store.commit(batch, Durability::Synced).unwrap();
        drop(store);
        let present = |snapshot: &dyn Snapshot| {
            let all = Keyspace::ALL.into_iter();
            all.filter(|keyspace| snapshot.contains(*keyspace, b"k").unwrap()).count()
        };
        assert_eq!(present(&*before), 0);
        drop(before);
        let store = open(&folder);
        assert_eq!(present(&*store.snapshot()), 1 + round);
        store.close().unwrap();
    }
}

#[test]
fn snapshots_outlive_flushes_beside_one_of_an_empty_store() {
    // fjall forgot what later snapshots needed while one of number zero was held.
    let folder = tempfile::tempdir().unwrap();
    // Numbers begin at zero when a store is opened again that has all its trees and no entry.
    open(&folder).close().unwrap();
    let store = open(&folder);
    let mut held = vec![store.snapshot()];
    for round in 0..8 {
        put(&store, "a", &round.to_string());
        held.push(store.snapshot());
        assert!(store.flush().unwrap());
        for (number, snapshot) in held.iter().enumerate() {
            let found = snapshot.page(Keyspace::Items, &KeyRange::all(), Direction::Forward, 9);
            assert_eq!(found.unwrap().len(), number.min(1));
        }
    }
}

#[test]
fn what_is_told_to_be_absent_is_absent() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let texts: Vec<String> = (0..200).map(|number| format!("key{number:03}")).collect();
    let keys: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
    let told = |snapshot: &dyn Snapshot| {
        let mut told = Vec::new();
        snapshot.absent_beside(Keyspace::Items, &keys, &mut |at| told.push(at)).unwrap();
        assert!(told.iter().all(|&at| snapshot.get(Keyspace::Items, keys[at]).unwrap().is_none()));
        told.len()
    };
    put(&store, "key", "there");
    assert_eq!(told(&*store.snapshot()), keys.len());
    // In sorted files, in write buffers, deleted from them, and newer than the snapshot.
    let mut expected = keys.len();
    for (round, is_flushed) in [true, true, false, false].into_iter().enumerate() {
        let before = store.snapshot();
        for text in texts.iter().skip(round).step_by(7) {
            put(&store, text, "there");
            expected -= 1;
        }
        if is_flushed {
            assert!(store.flush().unwrap());
        }
        let told_before = told(&*before);
        assert!(told_before >= expected * 9 / 10 - 1, "{told_before} of {expected} are told");
        let told = told(&*store.snapshot());
        assert!(told <= expected && told >= expected * 9 / 10 - 1, "{told} of {expected} are told");
    }
    let mut batch = Batch::new();
    batch.delete(Keyspace::Items, texts[2].clone().into_bytes());
    store.commit(batch, Durability::Synced).unwrap();
    told(&*store.snapshot());
}

#[test]
fn large_write_buffers_are_flushed_at_rest() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    put(&store, "small", "1");
    let value = "x".repeat(1 << 20);
    (0..20).for_each(|number| put(&store, &format!("k{number}"), &value));
    let mut waited = Duration::ZERO;
    while !store.trees.all_flushed() {
        assert!(waited < FLUSH_WAIT_MAX, "nothing was flushed");
        // Pause: between two looks.
        thread::sleep(FLUSH_WAIT_STEP);
        waited += FLUSH_WAIT_STEP;
    }
    put(&store, "small", "2");
    drop(store);
    let store = open(&folder);
    assert_eq!(get(&store, "small").as_deref(), Some("2"));
    assert_eq!(get(&store, "k7"), Some(value));
}
