//! An index on disk: what is written, what is removed, and what damage looks like.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    io,
    sync::{Arc, Mutex},
};

use armilla_index::{
    Change, Document, Error, Files, Index, JobKind, Limits, MemoryFiles, Output, Terms, ValueRange,
    Version,
};
use bytes::Bytes;

fn limits() -> Limits {
    Limits { tail_documents_max: 4, tier_fan_in: 2, file_documents_min: 8, ..Limits::default() }
}

fn write(index: &mut Index, documents: std::ops::Range<u64>) {
    for docno in documents {
        let mut terms = Terms::new();
        terms.push(1, &docno.to_be_bytes());
        let document =
            Document { epk: vec![1], docno, lsn: docno, hash: docno, ts: 0, ttl: 0, size: 1 };
        index.apply(Change::Upsert { document, terms, replaces: None });
        index.publish();
    }
}

fn segments(files: &MemoryFiles) -> Vec<String> {
    files.list().unwrap().into_iter().filter(|name| name.ends_with(".segment")).collect()
}

fn open(files: &MemoryFiles) -> armilla_index::Result<Index> {
    Index::open(limits(), Arc::new(files.clone()))
}

fn stopped_index() -> MemoryFiles {
    let files = MemoryFiles::new();
    let mut index = open(&files).unwrap();
    write(&mut index, 1..41);
    index.checkpoint().unwrap();
    files
}

#[test]
fn a_clean_stop_leaves_nothing_to_replay() {
    let files = stopped_index();
    files.crash();
    let mut index = open(&files).unwrap();
    assert_eq!(index.covered_lsn(), 40);
    assert_eq!(index.publish().count(1, &ValueRange::all()), 40);
}

#[test]
fn a_crash_loses_only_what_is_above_the_covered_lsn() {
    let files = MemoryFiles::new();
    let mut index = open(&files).unwrap();
    write(&mut index, 1..39);
    index.run_jobs().unwrap();
    files.crash();
    let mut index = open(&files).unwrap();
    let covered = index.covered_lsn();
    assert!(covered >= 32, "{covered}");
    assert_eq!(index.publish().live_count(), covered);
    write(&mut index, covered + 1..39);
    assert_eq!(index.publish().live_count(), 38);
}

#[test]
fn a_merge_removes_exactly_the_files_it_replaced() {
    let files = MemoryFiles::new();
    let mut index = open(&files).unwrap();
    write(&mut index, 1..100);
    index.run_jobs().unwrap();
    let mut reopened = open(&files).unwrap();
    assert_eq!(segments(&files).len(), reopened.publish().parts().len());
}

#[test]
fn a_reader_keeps_a_segment_whose_file_is_gone() {
    let files = MemoryFiles::new();
    let mut index = open(&files).unwrap();
    write(&mut index, 1..20);
    index.run_jobs().unwrap();
    let view = index.publish();
    let before = segments(&files);
    for docno in 20..80 {
        write(&mut index, docno..docno + 1);
        index.run_jobs().unwrap();
    }
    assert!(before.iter().any(|name| !segments(&files).contains(name)));
    assert_eq!(view.count(1, &ValueRange::all()), 19);
}

#[test]
fn unlisted_files_go_at_open() {
    let files = stopped_index();
    let before = files.list().unwrap();
    for name in ["00000000000000ff.segment", "MANIFEST.new"] {
        files.create(name).unwrap().sync().unwrap();
    }
    open(&files).unwrap();
    assert_eq!(files.list().unwrap(), before);
}

#[test]
fn a_lost_segment_asks_for_a_rebuild() {
    let files = stopped_index();
    files.remove(&segments(&files)[0]).unwrap();
    let Err(error) = open(&files) else { panic!("a lost segment was not noticed") };
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
}

/// Files of an index that goes on in the moment when somebody has read the manifest and asks for the first segment.
struct InUse {
    files: MemoryFiles,
    index: Mutex<Option<Index>>,
}

impl Files for InUse {
    fn create(&self, name: &str) -> io::Result<Box<dyn Output>> {
        self.files.create(name)
    }

    fn map(&self, name: &str) -> io::Result<Bytes> {
        let index = self.index.lock().unwrap().take_if(|_| name.ends_with(".segment"));
        if let Some(mut index) = index {
            for docno in 20..80 {
                write(&mut index, docno..docno + 1);
                index.run_jobs().unwrap();
            }
        }
        self.files.map(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.files.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.files.remove(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.files.list()
    }
}

#[test]
fn a_check_of_an_index_in_use_finds_no_file_lost_that_a_merge_replaced() {
    let files = MemoryFiles::new();
    let mut index = open(&files).unwrap();
    write(&mut index, 1..20);
    index.run_jobs().unwrap();
    let before = segments(&files);
    let in_use = InUse { files: files.clone(), index: Mutex::new(Some(index)) };
    let checked = Index::check(&in_use).unwrap();
    assert!(!segments(&files).contains(&before[0]));
    assert_eq!(checked, segments(&files).len());
    files.remove(&segments(&files)[0]).unwrap();
    assert!(matches!(Index::check(&in_use), Err(Error::Damaged { .. })));
}

#[test]
fn every_damaged_byte_of_a_file_is_noticed_or_harmless() {
    let files = stopped_index();
    for name in files.list().unwrap() {
        let length = files.map(&name).unwrap().len();
        for at in (0..length).step_by(7) {
            files.damage(&name, |bytes| bytes[at] ^= 0x55);
            match open(&files) {
                // A byte of padding.
                Ok(mut index) => assert_eq!(index.publish().count(1, &ValueRange::all()), 40),
                Err(error) => {
                    assert!(matches!(error, Error::Damaged { .. }), "{name} {at}: {error}");
                }
            }
            files.damage(&name, |bytes| bytes[at] ^= 0x55);
        }
    }
}

#[test]
fn a_swapped_segment_is_noticed() {
    let (files, other) = (stopped_index(), MemoryFiles::new());
    let mut index = open(&other).unwrap();
    write(&mut index, 1..42);
    index.checkpoint().unwrap();
    let foreign = other.map(&segments(&other)[0]).unwrap();
    files.damage(&segments(&files)[0], |bytes| *bytes = foreign.to_vec());
    assert!(matches!(open(&files), Err(Error::Damaged { .. })));
}

#[test]
fn create_starts_from_nothing() {
    let files = stopped_index();
    let mut index = Index::create(limits(), Arc::new(files.clone())).unwrap();
    assert!(files.list().unwrap().is_empty());
    assert_eq!((index.covered_lsn(), index.publish().live_count()), (0, 0));
}

#[test]
fn deaths_are_durable_without_a_new_file() {
    let files = stopped_index();
    let limits = Limits { manifest_changes_max: 5, ..limits() };
    let mut index = Index::open(limits, Arc::new(files.clone())).unwrap();
    for docno in 1..6 {
        let version = Version { epk: vec![1], docno, lsn: Some(docno) };
        assert!(index.apply(Change::Delete { lsn: 40 + docno, version }));
    }
    let job = index.take_job().unwrap();
    assert_eq!(job.kind(), JobKind::Manifest);
    index.install(job.run()).unwrap();
    files.crash();
    let mut index = open(&files).unwrap();
    assert_eq!(index.covered_lsn(), 45);
    assert_eq!(index.publish().live_count(), 35);
}

#[test]
fn a_flush_makes_files_of_small_segments() {
    let files = MemoryFiles::new();
    let mut index = open(&files).unwrap();
    write(&mut index, 1..6);
    index.run_jobs().unwrap();
    assert!(segments(&files).is_empty());
    let job = index.take_flush_job().unwrap();
    assert!(index.take_flush_job().is_none());
    index.install(job.run()).unwrap();
    assert_eq!(segments(&files).len(), 1);
    assert_eq!(index.covered_lsn(), 4);
}
