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

/// A backup of a store with a few entries in each keyspace.
fn small_backup(folder: &Path) -> PathBuf {
    let store = MemoryStore::new();
    let mut batch = Batch::new();
    for keyspace in Keyspace::ALL {
        for number in 0..20_u8 {
            batch.put(keyspace, vec![number], vec![number; 500]);
        }
    }
    store.commit(batch, Durability::Synced).unwrap();
    let to = folder.join("backup");
    backup(&*store.snapshot(), &to).unwrap();
    to
}

#[test]
fn a_restored_folder_appears_when_it_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let from = small_backup(folder.path());
    let options = crate::EmbeddedOptions::default();
    let mounted = folder.path().join("mounted");
    std::fs::create_dir(&mounted).unwrap();
    for data in [folder.path().join("new"), mounted] {
        restore_into(&from, &data, &options, |_| Ok(())).unwrap();
        let store = crate::EmbeddedStore::open(&data, &options).unwrap();
        assert_eq!(store.snapshot().get(Keyspace::Feed, &[7]).unwrap().unwrap(), vec![7; 500]);
        drop(store);
        let refused = restore_into(&from, &data, &options, |_| Ok(())).unwrap_err().to_string();
        assert!(refused.contains("not empty"), "{refused}");
    }
    assert!(!folder.path().join("new.partial").exists());
}

#[test]
fn a_restore_that_did_not_end_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let from = small_backup(folder.path());
    let options = crate::EmbeddedOptions::default();
    let (new, mounted) = (folder.path().join("new"), folder.path().join("mounted"));
    std::fs::create_dir(&mounted).unwrap();
    let stops = |_: &dyn Store| Err(StoreError::io("stop here", std::io::Error::other("killed")));
    for (data, rest) in [(&new, "new.partial"), (&mounted, "mounted")] {
        assert!(restore_into(&from, data, &options, stops).is_err());
        let rest = folder.path().join(rest);
        let refused = crate::EmbeddedStore::open(&rest, &options).err().unwrap().to_string();
        assert!(refused.contains("restoring") && refused.contains("did not end"), "{refused}");
        let refused = restore_into(&from, data, &options, |_| Ok(())).unwrap_err().to_string();
        assert!(refused.contains("an earlier restore did not end"), "{refused}");
    }
    assert!(!new.exists());
}

#[test]
fn a_check_of_something_else_makes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    assert!(check(&folder.path().join("a/b/backup")).is_err());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
