//! Journals written by the engine itself, then cut and damaged in every way a disk may do it.

use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::embedded::folder::engine_path;
use crate::{
    Batch, Direction, Durability, EmbeddedOptions, EmbeddedStore, KeyRange, Keyspace, Store,
};

const BATCHES: u64 = 6;
/// Larger than two pages, so that a page in the middle of a batch can be missing.
const VALUE_LENGTH: usize = 9000;

/// A store that was stopped without warning, its journal, and where each batch in it ends.
struct Written {
    folder: TempDir,
    journal: PathBuf,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

fn written() -> Written {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).unwrap();
    for number in 0..BATCHES {
        let mut batch = Batch::new();
        let byte = b'a' + u8::try_from(number).unwrap();
        batch.put(Keyspace::Items, number.to_be_bytes().to_vec(), vec![byte; VALUE_LENGTH]);
        batch.put(Keyspace::Feed, number.to_be_bytes().to_vec(), "");
        batch.delete(Keyspace::Meta, b"nothing".to_vec());
        store.commit(batch, Durability::Synced).unwrap();
    }
    drop(store);
    let engine = engine_path(folder.path());
    let journal = path(&engine, *numbers(&engine).unwrap().last().unwrap());
    let bytes = fs::read(&journal).unwrap();
    let mut ends = Vec::new();
    let mut end = 0;
    while let Some((_, length)) = parse_batch(&bytes[end..]) {
        end += length;
        ends.push(end);
    }
    assert_eq!(ends.len() as u64, BATCHES, "this engine writes another layout");
    assert_eq!(examine(&bytes), End::Clean);
    // A preallocated journal goes on with zeros; a few of them are enough.
    let mut bytes = bytes[..end].to_vec();
    bytes.resize(end + 5000, 0);
    // These tests are about what the journal itself tells; `engine.covered` would tell more.
    fs::remove_file(folder.path().join("engine.covered")).unwrap();
    Written { folder, journal, bytes, ends }
}

fn examine(bytes: &[u8]) -> End {
    let mut batches = Batches::new(bytes);
    batches.by_ref().for_each(drop);
    batches.end()
}

fn open(folder: &TempDir) -> Result<EmbeddedStore, StoreError> {
    EmbeddedStore::open(folder.path(), &EmbeddedOptions::default())
}

impl Written {
    /// Opens the store over this journal; how many batches it has, all of them whole.
    fn open_with(&self, journal: &[u8]) -> Result<u64, StoreError> {
        fs::write(&self.journal, journal).unwrap();
        let _ = fs::remove_file(self.folder.path().join("engine.covered"));
        let store = open(&self.folder)?;
        let snapshot = store.snapshot();
        let count = |keyspace| {
            let page = snapshot.page(keyspace, &KeyRange::all(), Direction::Forward, 99).unwrap();
            for (index, (key, _)) in page.iter().enumerate() {
                assert_eq!(key, &(index as u64).to_be_bytes(), "batches are there in order");
            }
            page.len() as u64
        };
        assert_eq!(count(Keyspace::Items), count(Keyspace::Feed));
        Ok(count(Keyspace::Items))
    }
}

#[test]
fn an_untouched_journal_is_clean() {
    let written = written();
    assert_eq!(examine(&written.bytes), End::Clean);
    assert_eq!(examine(&[]), End::Clean);
    assert_eq!(written.open_with(&written.bytes).unwrap(), BATCHES);
}

#[test]
fn a_journal_cut_anywhere_keeps_the_whole_batches_before_the_cut() {
    let written = written();
    let end = *written.ends.last().unwrap();
    let near_ends = written.ends.iter().flat_map(|end| [end - 1, *end, end + 1, end + 13]);
    let between = (0..end).step_by(end / 11);
    for cut in near_ends.chain(between).filter(|cut| *cut <= end) {
        let whole = written.ends.iter().filter(|end| **end <= cut).count() as u64;
        assert_eq!(written.open_with(&written.bytes[..cut]).unwrap(), whole, "cut at {cut}");
        // The same with the zeros of a preallocated file behind the cut.
        let mut zeros = written.bytes[..cut].to_vec();
        zeros.resize(end + 5000, 0);
        assert_eq!(written.open_with(&zeros).unwrap(), whole, "zeros from {cut}");
    }
}

#[test]
fn a_page_missing_from_the_last_batch_costs_only_that_batch() {
    let written = written();
    let [.., start, end] = written.ends[..] else { panic!("there are several batches") };
    for hole in (start..end - 100).step_by(1000) {
        let mut bytes = written.bytes.clone();
        bytes[hole..(hole + 4096).min(end - 17)].fill(0);
        assert_eq!(written.open_with(&bytes).unwrap(), BATCHES - 1, "hole at {hole}");
    }
}

#[test]
fn damage_before_whole_batches_is_refused_and_nothing_is_changed() {
    let written = written();
    let [first, second, ..] = written.ends[..] else { panic!("there are several batches") };
    for place in [0, 2, first / 2, first - 1, first, first + 3, second - 10] {
        let mut bytes = written.bytes.clone();
        bytes[place] ^= 0x10;
        let refused = written.open_with(&bytes).unwrap_err();
        assert!(refused.is_corruption(), "at {place}: {refused}");
        assert!(refused.to_string().contains("acknowledged writes"), "{refused}");
        assert_eq!(fs::read(&written.journal).unwrap(), bytes);
    }
    assert_eq!(written.open_with(&written.bytes).unwrap(), BATCHES);
}

#[test]
fn a_changed_sequence_number_is_refused_and_nothing_is_changed() {
    let written = written();
    let sequence_at = |batch: usize| if batch == 0 { 5 } else { written.ends[batch - 1] + 5 };
    let damage = |batch: usize, change: &dyn Fn(&mut [u8])| {
        let mut bytes = written.bytes.clone();
        let at = sequence_at(batch);
        change(&mut bytes[at..at + 8]);
        bytes
    };
    let flipped = [(2, 1, 8), (3, 0, 0x40), (0, 2, 1), (5, 7, 0x80), (5, 5, 1)]
        .map(|(batch, byte, bit)| (batch, damage(batch, &|number| number[byte] ^= bit)));
    let zeroed = [1, 5].map(|batch| (batch, damage(batch, &|number| number.fill(0))));
    for (batch, bytes) in flipped.into_iter().chain(zeroed) {
        let refused = written.open_with(&bytes).unwrap_err();
        assert!(refused.to_string().contains("sequence number"), "batch {batch}: {refused}");
        assert!(refused.to_string().contains(".jnl"), "{refused}");
        assert_eq!(fs::read(&written.journal).unwrap(), bytes);
    }
    assert_eq!(written.open_with(&written.bytes).unwrap(), BATCHES);
}

#[test]
fn a_first_sequence_number_below_those_in_sorted_files_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..4_u8 {
        let store = open(&folder).unwrap();
        let mut batch = Batch::new();
        batch.put(Keyspace::Items, vec![number], "value");
        store.commit(batch, Durability::Synced).unwrap();
        if number < 3 {
            store.close().unwrap();
        }
    }
    let journal = path(&engine_path(folder.path()), 0);
    let mut bytes = fs::read(&journal).unwrap();
    // The only batch: the engine would take it for one that was flushed long ago.
    bytes[5..13].fill(0);
    fs::write(&journal, bytes).unwrap();
    fs::remove_file(folder.path().join("engine.covered")).unwrap();
    let refused = open(&folder).err().unwrap();
    assert!(refused.to_string().contains("sequence number 0"), "{refused}");
}

#[test]
fn an_older_journal_with_a_torn_end_is_refused() {
    let written = written();
    let end = *written.ends.last().unwrap();
    fs::write(&written.journal, &written.bytes[..end - 1]).unwrap();
    fs::write(written.journal.with_file_name("1.jnl"), b"").unwrap();
    assert!(open(&written.folder).err().unwrap().is_corruption());
}

proptest! {
    #[test]
    fn any_bytes_are_examined_without_panic(
        bytes in prop::collection::vec(prop_oneof![0u8..5, any::<u8>()], 0..200),
    ) {
        let _end = examine(&bytes);
    }
}
