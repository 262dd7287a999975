//! A backup comes back whole, a damaged one is refused, a failing disk leaves nothing half done.

use std::sync::Arc;

use super::*;
use crate::disk::{FailingDisk, MemoryDisk};
use crate::{EmbeddedOptions, EmbeddedStore, MemoryStore};

const FOLDER: &str = "nightly";

fn filled() -> MemoryStore {
    let store = MemoryStore::new();
    let mut batch = Batch::new();
    for number in 0..300u32 {
        let value = vec![b'x'; (number as usize * 97) % 20_000];
        batch.put(Keyspace::Items, number.to_be_bytes().to_vec(), value);
    }
    batch.put(Keyspace::Meta, b"name".to_vec(), "value");
    batch.put(Keyspace::Expiry, b"second".to_vec(), "");
    store.commit(batch, Durability::Synced).unwrap();
    store
}

fn contents(store: &dyn Store) -> Vec<Vec<(Vec<u8>, Bytes)>> {
    let snapshot = store.snapshot();
    let page = |keyspace| {
        snapshot.page(keyspace, &KeyRange::all(), Direction::Forward, usize::MAX).unwrap()
    };
    Keyspace::ALL.into_iter().map(page).collect()
}

#[test]
fn a_backup_is_restored_into_another_kind_of_store() {
    let source = filled();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FOLDER);
    let manifest = backup(&*source.snapshot(), &path).unwrap();
    assert_eq!(manifest.entries(Keyspace::Items), 300);
    assert_eq!(check(&path).unwrap(), manifest);

    let target = EmbeddedStore::open(folder.path().join("data"), &EmbeddedOptions::default());
    let target = target.unwrap();
    assert_eq!(restore(&path, &target).unwrap(), manifest);
    assert_eq!(contents(&target), contents(&source));

    // Neither direction overwrites anything.
    assert!(restore(&path, &target).is_err());
    assert!(backup(&*source.snapshot(), &path).is_err());
}

#[test]
fn an_empty_store_has_a_backup_too() {
    let disk = MemoryDisk::new();
    let folder = Path::new(FOLDER);
    let manifest = backup_on(&disk, &*MemoryStore::new().snapshot(), folder).unwrap();
    assert!(manifest.files.is_empty());
    restore_on(&disk, folder, &MemoryStore::new()).unwrap();
}

#[test]
fn damage_anywhere_is_refused_before_anything_is_restored() {
    let disk = MemoryDisk::new();
    let folder = Path::new(FOLDER);
    backup_on(&disk, &*filled().snapshot(), folder).unwrap();
    for name in disk.list(folder).unwrap() {
        let path = folder.join(&name);
        let good = disk.read(&path).unwrap().unwrap();
        for place in [0, good.len() / 2, good.len() - 1] {
            let mut bad = good.to_vec();
            bad[place] ^= 0x40;
            disk.replace(&path, &bad).unwrap();
            let target = MemoryStore::new();
            let refused = restore_on(&disk, folder, &target).unwrap_err();
            assert!(refused.is_corruption(), "{name} at {place}: {refused}");
            assert_eq!(contents(&target), contents(&MemoryStore::new()));
        }
        disk.replace(&path, &good[..good.len() - 1]).unwrap();
        assert!(check_on(&disk, folder).unwrap_err().is_corruption());
        disk.replace(&path, &good).unwrap();
    }
    check_on(&disk, folder).unwrap();
}

#[test]
fn wherever_the_disk_stops_a_backup_is_whole_or_absent() {
    let source = filled();
    let folder = Path::new(FOLDER);
    let budget = 10_000;
    let disk = FailingDisk::new(Arc::new(MemoryDisk::new()), budget);
    backup_on(&disk, &*source.snapshot(), folder).unwrap();
    let operations = budget - disk.left();
    for limit in 0..=operations {
        let memory = MemoryDisk::new();
        let failing = FailingDisk::new(Arc::new(memory.clone()), limit);
        let result = backup_on(&failing, &*source.snapshot(), folder);
        assert_eq!(result.is_ok(), limit == operations);
        memory.crash();
        if memory.list(folder).unwrap().is_empty() {
            // Another attempt succeeds, whatever the failed one left behind.
            backup_on(&memory, &*source.snapshot(), folder).unwrap();
        }
        check_on(&memory, folder).unwrap();
    }
}

#[test]
fn a_folder_that_is_no_backup_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let error = restore(folder.path(), &MemoryStore::new()).unwrap_err();
    assert!(error.to_string().ends_with("this is not a backup"), "{error}");
}
