//! Damage of every kind, and what is still read.

use std::collections::BTreeSet;

use super::*;
use crate::{Batch, Durability, EmbeddedOptions, EmbeddedStore, Store};

const ENTRIES: u16 = 300;

/// A store with entries in sorted files; one of them was then changed, one removed and one added, which
/// is in the journal.
fn written() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions::default();
    let store = EmbeddedStore::open(folder.path(), &options).unwrap();
    let mut batch = Batch::new();
    for number in 0..ENTRIES {
        batch.put(Keyspace::Items, number.to_be_bytes().to_vec(), vec![7; 500]);
    }
    store.commit(batch, Durability::Synced).unwrap();
    store.close().unwrap();
    drop(store);
    let store = EmbeddedStore::open(folder.path(), &options).unwrap();
    let mut batch = Batch::new();
    batch.put(Keyspace::Items, 5_u16.to_be_bytes().to_vec(), "changed");
    batch.delete(Keyspace::Items, 6_u16.to_be_bytes().to_vec());
    batch.put(Keyspace::Items, ENTRIES.to_be_bytes().to_vec(), "new");
    store.commit(batch, Durability::Synced).unwrap();
    folder
}

fn read(folder: &Path) -> (BTreeMap<u16, Bytes>, Vec<Loss>) {
    let mut salvage = Salvage::open(folder).unwrap();
    let mut found = BTreeMap::new();
    salvage.read(Keyspace::Items, &mut |key, value| {
        let number = u16::from_be_bytes(key.try_into().unwrap());
        assert!(found.insert(number, value).is_none(), "{number} was shown twice");
    });
    (found, salvage.losses().to_vec())
}

fn table(folder: &Path) -> PathBuf {
    let tree = Salvage::open(folder).unwrap().trees[&Keyspace::Items];
    TreeFiles::read(&engine_path(folder), tree).unwrap().tables[0].path.clone()
}

#[test]
fn a_healthy_store_is_read_whole_and_left_alone() {
    let folder = written();
    let (found, losses) = read(folder.path());
    assert_eq!(losses, []);
    assert_eq!(found.len(), usize::from(ENTRIES));
    assert_eq!((&found[&5][..], &found[&ENTRIES][..]), (&b"changed"[..], &b"new"[..]));
    assert!(!found.contains_key(&6));
    EmbeddedStore::open(folder.path(), &EmbeddedOptions::default()).unwrap();
}

#[test]
fn behind_a_damaged_block_a_sorted_file_is_read_from_its_end() {
    let folder = written();
    let table = table(folder.path());
    let mut bytes = fs::read(&table).unwrap();
    let middle = bytes.len() / 3;
    bytes[middle] ^= 1;
    fs::write(&table, bytes).unwrap();
    let (found, losses) = read(folder.path());
    assert!(found.contains_key(&0) && found.contains_key(&(ENTRIES - 1)));
    let missing: BTreeSet<u16> =
        (0..ENTRIES).filter(|number| !found.contains_key(number)).collect();
    assert!(missing.len() > 1 && missing.len() < 40, "{missing:?}");
    assert_eq!(losses.len(), 1);
    assert!(losses[0].place.ends_with(table.file_name().unwrap().to_str().unwrap()));
}

#[test]
fn lost_lists_names_and_files_cost_no_more_than_they_held() {
    let lost = |name: &str| {
        let folder = written();
        let tree = Salvage::open(folder.path()).unwrap().trees[&Keyspace::Items];
        let path = engine_path(folder.path()).join(name.replace("items", &tree.to_string()));
        if path.is_dir() {
            fs::remove_dir_all(&path).unwrap()
        } else {
            fs::remove_file(&path).unwrap()
        }
        let before = fs::read_dir(folder.path()).unwrap().count();
        let (found, losses) = read(folder.path());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), before);
        (found.len(), losses.len())
    };
    let all = usize::from(ENTRIES);
    assert_eq!(lost("keyspaces/items/current").0, all);
    assert_eq!(lost("keyspaces/0/current").0, all);
    assert_eq!(lost("keyspaces/0").0, all);
    assert_eq!(lost("version"), (all, 0));
    // Without the journal the newest writes are missing, and nothing tells.
    assert_eq!(lost("0.jnl").0, all);
    // Without its sorted files only the journal is left.
    let (found, losses) = lost("keyspaces/items");
    assert_eq!(found, 2);
    assert!(losses > 0);
}

#[test]
fn whole_batches_behind_damage_in_a_journal_are_read() {
    let folder = written();
    let store = EmbeddedStore::open(folder.path(), &EmbeddedOptions::default()).unwrap();
    let mut batch = Batch::new();
    batch.put(Keyspace::Items, 1000_u16.to_be_bytes().to_vec(), "later");
    store.commit(batch, Durability::Synced).unwrap();
    drop(store);
    let journal = engine_path(folder.path()).join("0.jnl");
    let mut bytes = fs::read(&journal).unwrap();
    bytes[40] ^= 1;
    fs::write(&journal, bytes).unwrap();
    let (found, losses) = read(folder.path());
    assert!(found.contains_key(&1000) && found.contains_key(&6), "the removal of 6 is lost");
    assert!(losses.iter().any(|loss| loss.place.ends_with("0.jnl")), "{losses:?}");
}
