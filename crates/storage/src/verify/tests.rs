//! A healthy store passes; flipped bytes in the engine's files are found.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;
use crate::{Batch, Durability, EmbeddedOptions, EmbeddedStore, MemoryStore, Store};

fn fill(store: &dyn Store) {
    for round in 0..4u32 {
        let mut batch = Batch::new();
        for number in 0..500u32 {
            let key = [number.to_be_bytes(), round.to_be_bytes()].concat();
            let value: Vec<u8> =
                (0..200u32).map(|i| (i * number + round).to_be_bytes()[3]).collect();
            batch.put(Keyspace::Items, key, value);
        }
        batch.put(Keyspace::Meta, round.to_be_bytes().to_vec(), "m");
        store.commit(batch, Durability::Relaxed).unwrap();
    }
}

fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            files_below(&entry.path(), found);
        } else {
            found.push(entry.path());
        }
    }
}

#[test]
fn a_healthy_store_passes_and_is_counted() {
    let store = MemoryStore::new();
    fill(&store);
    let reports = verify(&*store.snapshot());
    first_damage(&reports).unwrap();
    let entries: Vec<u64> = reports.iter().map(|report| report.entries).collect();
    assert_eq!(entries, [4, 2000, 0, 0, 0, 0, 0]);
    assert_eq!(reports[0].bytes, 4 * 5);
}

#[test]
fn flipped_bytes_in_sorted_files_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions { cache_bytes: 0, ..EmbeddedOptions::default() };
    let store = EmbeddedStore::open(folder.path(), &options).unwrap();
    fill(&store);
    store.close().unwrap();
    drop(store);

    let mut files = Vec::new();
    files_below(&folder.path().join("engine"), &mut files);
    let largest = files.iter().max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    let good = fs::read(largest).unwrap();
    assert!(good.len() > 50_000, "the items are in {}", largest.display());
    for place in [good.len() / 10, good.len() / 3, good.len() / 2] {
        let mut bad = good.clone();
        bad[place] ^= 0x01;
        fs::write(largest, &bad).unwrap();
        // Damage may be found when opening or when walking, but it is found and never a panic.
        let found = EmbeddedStore::open(folder.path(), &options)
            .and_then(|store| first_damage(&verify(&*store.snapshot())));
        assert!(found.as_ref().is_err_and(StoreError::is_corruption), "at {place}: {found:?}");
    }
    fs::write(largest, &good).unwrap();
    let store = EmbeddedStore::open(folder.path(), &options).unwrap();
    first_damage(&verify(&*store.snapshot())).unwrap();
}
