//! Random histories of an index, compared after every step with a plain scan of a plain map.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod plain;

use std::{collections::VecDeque, sync::Arc};

use armilla_index::{Change, EpkRange, Index, Job, Limits, Version, View};
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
}

impl History {
    fn new() -> Self {
        Self {
            index: Index::in_memory(limits()),
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
                let version = version(&old, lsn_known);
                assert!(self.index.apply(Change::Delete { lsn: self.lsn, version }));
            }
            Step::DeletePartition(epk) => {
                self.lsn += 1;
                self.plain.remove_partition(&epk);
                let range = EpkRange::exact(epk);
                self.index.apply(Change::DeleteRange { lsn: self.lsn, range });
            }
            Step::Publish => self.publish(),
            Step::TakeJob => self.jobs.extend(self.index.take_job()),
            Step::FinishJob(which) => {
                if !self.jobs.is_empty() {
                    let job = self.jobs.remove(which.index(self.jobs.len())).unwrap();
                    self.index.install(job.run()).unwrap();
                    self.publish();
                }
            }
            Step::RunJobs => {
                self.index.run_jobs().unwrap();
                self.publish();
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

    fn finish(mut self) {
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn every_lookup_agrees_with_a_plain_scan(steps in proptest::collection::vec(step(), 1..250)) {
        let mut history = History::new();
        for step in steps {
            history.apply(step);
        }
        history.finish();
    }
}
