//! Random histories of an index, compared after every step with a plain scan of a plain map.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod plain;

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use armilla_index::{Change, Files, Index, Job, Limits, MemoryFiles, Output, Version, View};
use bytes::Bytes;
use plain::{Plain, Row, check, row};
use proptest::prelude::*;

/// One step of a history. Numbers choose among what there is.
#[derive(Debug, Clone)]
enum Step {
    Create(Row),
    Replace(prop::sample::Index, Row, bool),
    Delete(prop::sample::Index, bool),
    DeletePartition(Vec<u8>),
    Publish,
    TakeJob,
    FinishJob(prop::sample::Index),
    RunJobs,
    /// Stops without warning: jobs in flight are lost, and what was not synced.
    Crash,
    Stop,
    /// The disk refuses everything after so many operations, until the next restart or job run.
    Fail(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => row().prop_map(Step::Create),
        6 => (any::<prop::sample::Index>(), row(), any::<bool>()).prop_map(|(i, r, k)| Step::Replace(i, r, k)),
        4 => (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(i, k)| Step::Delete(i, k)),
        1 => plain::epk().prop_map(Step::DeletePartition),
        8 => Just(Step::Publish),
        4 => Just(Step::TakeJob),
        4 => any::<prop::sample::Index>().prop_map(Step::FinishJob),
        1 => Just(Step::RunJobs),
        1 => Just(Step::Crash),
        1 => Just(Step::Stop),
        1 => (0u8..20).prop_map(Step::Fail),
    ]
}

struct History {
    index: Index,
    plain: Plain,
    lsn: u64,
    docno: u64,
    jobs: VecDeque<Job>,
    /// Views that readers still hold, and what they must go on showing.
    held: VecDeque<(Arc<View>, Plain)>,
    disk: Arc<Disk>,
    /// Deletions that the index does not cover yet, by LSN; what the engine keeps as `gone`.
    gone: BTreeMap<u64, Version>,
}

impl History {
    fn new() -> Self {
        let disk = Arc::new(Disk { files: MemoryFiles::new(), left: AtomicI64::new(i64::MAX) });
        Self {
            index: Index::open(limits(), disk.clone()).unwrap(),
            disk,
            gone: BTreeMap::new(),
            plain: Plain::default(),
            lsn: 0,
            docno: 0,
            jobs: VecDeque::new(),
            held: VecDeque::new(),
        }
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Create(row) => {
                self.docno += 1;
                self.upsert(row, self.docno, None);
            }
            Step::Replace(which, row, lsn_known) => {
                let Some((old, _)) = self.plain.choose(which) else { return };
                let version = version(&old, lsn_known);
                let row = Row { epk: old.epk.clone(), ..row };
                self.plain.remove(&old);
                self.upsert(row, old.docno, Some(version));
            }
            Step::Delete(which, lsn_known) => {
                let Some((old, _)) = self.plain.choose(which) else { return };
                self.lsn += 1;
                self.plain.remove(&old);
                self.gone.insert(self.lsn, version(&old, true));
                let version = version(&old, lsn_known);
                assert!(self.index.apply(Change::Delete { lsn: self.lsn, version }));
            }
            Step::DeletePartition(epk) => {
                let rows = self.plain.rows().filter(|(document, _)| document.epk == epk);
                let versions: Vec<_> = rows.map(|(document, _)| version(document, true)).collect();
                self.plain.remove_partition(&epk);
                for version in versions {
                    self.lsn += 1;
                    self.gone.insert(self.lsn, version.clone());
                    self.index.apply(Change::Delete { lsn: self.lsn, version });
                }
            }
            Step::Publish => self.publish(),
            Step::TakeJob => self.jobs.extend(self.index.take_job()),
            Step::FinishJob(which) => {
                if !self.jobs.is_empty() {
                    let job = self.jobs.remove(which.index(self.jobs.len())).unwrap();
                    let result = job.run();
                    let failed = result.error().is_some();
                    assert_eq!(self.index.install(result).is_err(), failed);
                    self.trim();
                    self.publish();
                }
            }
            Step::RunJobs => {
                self.disk.left.store(i64::MAX, Ordering::Relaxed);
                self.index.run_jobs().unwrap();
                self.trim();
                self.publish();
            }
            Step::Crash => {
                self.disk.files.crash();
                self.reopen();
            }
            Step::Stop => {
                self.disk.left.store(i64::MAX, Ordering::Relaxed);
                while let Some(job) = self.jobs.pop_front() {
                    self.index.install(job.run()).unwrap();
                }
                self.index.checkpoint().unwrap();
                assert_eq!(self.index.covered_lsn(), self.lsn);
                self.reopen();
            }
            Step::Fail(operations) => {
                self.disk.left.store(operations.into(), Ordering::Relaxed);
            }
        }
    }

    fn upsert(&mut self, row: Row, docno: u64, replaces: Option<Version>) {
        self.lsn += 1;
        let expected = replaces.is_some();
        let (document, terms) = self.plain.insert(row, docno, self.lsn);
        let found = self.index.apply(Change::Upsert { document, terms, replaces });
        assert_eq!(found, expected);
    }

    fn publish(&mut self) {
        let view = self.index.publish();
        assert_eq!(view.lsn(), self.lsn);
        check(&view, &self.plain);
        self.held.push_back((view, self.plain.clone()));
        if self.held.len() > 4 {
            self.held.pop_front();
        }
    }

    /// Forgets deletions that the index has made durable, as the engine does.
    fn trim(&mut self) {
        let covered = self.index.covered_lsn();
        assert!(covered <= self.lsn);
        self.gone.retain(|lsn, _| *lsn > covered);
    }

    fn reopen(&mut self) {
        self.jobs.clear();
        self.disk.left.store(i64::MAX, Ordering::Relaxed);
        let covered = self.index.covered_lsn();
        self.index = Index::open(limits(), self.disk.clone()).unwrap();
        // A manifest whose result was never installed may be newer, but never older.
        assert!(self.index.covered_lsn() >= covered);
        self.replay();
        self.trim();
        self.check_folder();
        self.publish();
    }

    /// Right after opening there is the manifest and its segments, nothing else.
    fn check_folder(&self) {
        let names = self.disk.files.list().unwrap();
        assert!(names.iter().all(|name| name == "MANIFEST" || name.ends_with(".segment")));
        let segments = names.iter().filter(|name| name.ends_with(".segment")).count();
        assert!(segments <= self.index.part_count());
    }

    fn replay(&mut self) {
        let covered = self.index.covered_lsn();
        let mut changes: BTreeMap<u64, Change> = BTreeMap::new();
        for (document, terms) in self.plain.rows().filter(|(d, _)| d.lsn > covered) {
            let replaces = Some(version(document, false));
            let (document, terms) = (document.clone(), plain::terms(terms));
            changes.insert(document.lsn, Change::Upsert { document, terms, replaces });
        }
        for (lsn, version) in self.gone.range(covered + 1..) {
            changes.insert(*lsn, Change::Delete { lsn: *lsn, version: version.clone() });
        }
        for (_, change) in changes {
            self.index.apply(change);
        }
        self.index.advance(self.lsn);
    }

    fn finish(mut self) {
        self.disk.left.store(i64::MAX, Ordering::Relaxed);
        while let Some(job) = self.jobs.pop_front() {
            self.index.install(job.run()).unwrap();
        }
        self.index.run_jobs().unwrap();
        self.publish();
        for (view, plain) in &self.held {
            check(view, plain);
        }
    }
}

fn version(document: &armilla_index::Document, lsn_known: bool) -> Version {
    let lsn = lsn_known.then_some(document.lsn);
    Version { epk: document.epk.clone(), docno: document.docno, lsn }
}

fn limits() -> Limits {
    Limits {
        tail_documents_max: 6,
        tier_fan_in: 3,
        tail_fan_in: 2,
        segment_documents_max: 120,
        file_documents_min: 12,
        ..Limits::default()
    }
}

/// Files in memory that stop working when told so.
struct Disk {
    files: MemoryFiles,
    left: AtomicI64,
}

impl Disk {
    fn use_one(&self) -> io::Result<()> {
        if self.left.fetch_sub(1, Ordering::Relaxed) <= 0 {
            return Err(io::Error::other("the disk is told to fail"));
        }
        Ok(())
    }
}

impl Files for Disk {
    fn create(&self, name: &str) -> io::Result<Box<dyn Output>> {
        self.use_one()?;
        self.files.create(name)
    }

    fn map(&self, name: &str) -> io::Result<Bytes> {
        self.use_one()?;
        self.files.map(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.use_one()?;
        self.files.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.use_one()?;
        self.files.remove(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.use_one()?;
        self.files.list()
    }
}

fn run(steps: Vec<Step>) {
    let mut history = History::new();
    for step in steps {
        history.apply(step);
    }
    history.finish();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_lookup_agrees_with_a_plain_scan(steps in proptest::collection::vec(step(), 1..250)) {
        run(steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    #[ignore = "minutes; run it after changing how parts are made"]
    fn many_histories_agree_with_a_plain_scan(steps in proptest::collection::vec(step(), 1..600)) {
        run(steps);
    }
}
