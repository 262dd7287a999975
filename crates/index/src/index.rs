//! The writer of an index, owned by the committer.
//!
//! It keeps the list of parts in the order of their age, applies changes, publishes views, hands
//! out jobs and installs their results. Nothing here takes long: whatever sorts, merges or waits
//! for a disk is a [`Job`].

use std::{ops::Range, sync::Arc};

mod pending;
mod persist;
mod plan;

use pending::Pending;
use persist::Durable;

use crate::{
    deleted::DeadSet,
    document::{Document, Version},
    error::Result,
    files::Files,
    job::{Combined, Input, Job, JobKind, JobResult, Outcome},
    limits::{Limits, PENDING_BYTES_MAX},
    merge::DROPPED,
    part::{Part, PartData},
    tail::Chunk,
    terms::Terms,
    view::View,
};

/// A change of the documents. Changes come in the order of their LSNs.
#[derive(Debug, Clone)]
pub enum Change {
    /// A new version of a document.
    Upsert {
        /// The version.
        document: Document,
        /// Its terms; none where the container is not indexed.
        terms: Terms,
        /// The version it replaces. While replaying after a crash: always the document itself,
        /// whether or not an older version is known to exist.
        replaces: Option<Version>,
    },
    /// A document is deleted.
    Delete {
        /// The LSN of the deletion.
        lsn: u64,
        /// The version that goes.
        version: Version,
    },
}

/// The index of one partition, as its single writer sees it.
pub struct Index {
    pub(crate) limits: Limits,
    pub(crate) lsn: u64,
    /// By age, oldest first.
    pub(crate) slots: Vec<Slot>,
    pub(crate) next_id: u64,
    pub(crate) files: Option<Arc<dyn Files>>,
    pending: Pending,
    durable: Durable,
}

/// A part in the list of the writer.
pub(crate) struct Slot {
    pub(crate) id: u64,
    pub(crate) data: Arc<PartData>,
    pub(crate) dead: DeadSet,
    pub(crate) state: State,
    /// The file's number, where the part is a file.
    pub(crate) file: Option<u64>,
}

/// What may happen to a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// A chunk that may be gathered with its neighbours.
    Open,
    /// A chunk that waits to be sealed.
    Frozen,
    /// A segment.
    Settled,
    /// Some job works on it.
    Busy,
}

impl Index {
    /// An empty index that lives in memory only.
    #[must_use]
    pub fn in_memory(limits: Limits) -> Self {
        Self {
            limits,
            lsn: 0,
            slots: vec![],
            next_id: 1,
            files: None,
            pending: Pending::default(),
            durable: Durable::default(),
        }
    }

    /// Takes in a change; it is seen by the next published view. Returns whether the version
    /// that was named as replaced or deleted was found.
    pub fn apply(&mut self, change: Change) -> bool {
        self.durable.changes += 1;
        match change {
            Change::Upsert { document, terms, replaces } => {
                self.advance(document.lsn);
                let found = replaces.is_some_and(|version| self.kill(&version));
                self.pending.push(document, terms);
                if self.pending.size() >= PENDING_BYTES_MAX {
                    self.make_chunk();
                }
                found
            }
            Change::Delete { lsn, version } => {
                self.advance(lsn);
                self.kill(&version)
            }
        }
    }

    /// Says that everything up to an LSN was applied, where the last writes changed no document.
    pub fn advance(&mut self, lsn: u64) {
        self.lsn = self.lsn.max(lsn);
    }

    /// Makes a view of everything applied so far.
    pub fn publish(&mut self) -> Arc<View> {
        self.make_chunk();
        Arc::new(self.view())
    }

    /// The next job, small ones first; nothing when there is none. Several may be out at once.
    pub fn take_job(&mut self) -> Option<Job> {
        let work = self
            .run_to_seal()
            .map(|range| (JobKind::Seal, range))
            .or_else(|| self.segment_to_rewrite().map(|range| (JobKind::Rewrite, range)))
            .or_else(|| self.run_of_tier().map(|range| (JobKind::Merge, range)));
        match work {
            Some((kind, range)) => Some(self.combine(kind, range)),
            None => self.manifest_job(),
        }
    }

    /// Puts the result of a job in place of its inputs. Publish afterwards, so that readers let go
    /// of the old parts. An error says that the job failed and changed nothing; the same job comes
    /// again from [`Index::take_job`].
    pub fn install(&mut self, result: JobResult) -> Result<()> {
        match result.outcome {
            Outcome::Combined(combined) => {
                self.install_combined(combined);
                Ok(())
            }
            Outcome::Persisted(persisted) => {
                self.install_persisted(persisted);
                Ok(())
            }
            Outcome::NotPersisted { work, error } => {
                self.take_back(work);
                Err(error)
            }
            Outcome::Failed { ids, error } => {
                self.release(&ids);
                Err(error)
            }
        }
    }

    /// Runs jobs on this thread until none is left.
    pub fn run_jobs(&mut self) -> Result<()> {
        while let Some(job) = self.take_job() {
            self.install(job.run())?;
        }
        Ok(())
    }

    /// How many changes were applied that no manifest knows of yet: about what a crash would replay.
    #[must_use]
    pub fn unsaved_changes(&self) -> u64 {
        self.durable.changes
    }

    /// How many parts there are.
    #[must_use]
    pub fn part_count(&self) -> usize {
        self.slots.len()
    }

    /// How many documents live; what is not yet published does not count.
    #[must_use]
    pub fn live_count(&self) -> u64 {
        self.slots.iter().map(|slot| u64::from(slot.live())).sum()
    }

    fn make_chunk(&mut self) {
        let rows = self.pending.take();
        if !rows.is_empty() {
            let chunk = Chunk::new(&rows);
            let slot = self.slot(PartData::Chunk(chunk), DeadSet::new(), State::Open);
            self.slots.push(slot);
            self.gather_tail();
        }
    }

    fn view(&self) -> View {
        let part = |slot: &Slot| Part { data: slot.data.clone(), dead: slot.dead.clone() };
        View { lsn: self.lsn, parts: self.slots.iter().map(part).collect() }
    }

    fn kill(&mut self, version: &Version) -> bool {
        if self.pending.remove(version) {
            return true;
        }
        let near = |slot: &Slot| version.lsn.is_some_and(|lsn| slot.may_hold(lsn));
        self.slots.iter_mut().rev().any(|slot| near(slot) && slot.kill(version))
            || self.slots.iter_mut().rev().any(|slot| slot.kill(version))
    }

    pub(crate) fn slot(&mut self, data: PartData, dead: DeadSet, state: State) -> Slot {
        let id = self.new_id();
        Slot { id, data: Arc::new(data), dead, state, file: None }
    }

    fn install_combined(&mut self, combined: Combined) {
        let Combined { inputs, maps, part, file } = combined;
        let Some(range) = self.range_of(&inputs) else {
            debug_assert!(false, "a result is installed in the index that gave out its job");
            return;
        };
        let mut dead = DeadSet::new();
        let slots = &self.slots[range.clone()];
        for ((slot, input), map) in slots.iter().zip(&inputs).zip(&maps) {
            // Deaths that came while the job was running.
            for local in slot.dead.since(&input.dead) {
                let new = map[local as usize];
                debug_assert_ne!(new, DROPPED, "it was alive when the job was taken");
                dead.insert(new);
            }
        }
        self.files_changed(&range, file.is_some());
        let id = self.new_id();
        let slot = part.map(|data| Slot { id, data, dead, state: State::Settled, file });
        self.slots.splice(range, slot);
    }

    pub(crate) fn new_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    fn range_of(&self, inputs: &[Input]) -> Option<Range<usize>> {
        let first = inputs.first()?.id;
        let start = self.slots.iter().position(|slot| slot.id == first)?;
        let slots = self.slots.get(start..start + inputs.len())?;
        let same = slots.iter().zip(inputs).all(|(slot, input)| slot.id == input.id);
        same.then_some(start..start + inputs.len())
    }

    fn release(&mut self, ids: &[u64]) {
        for slot in self.slots.iter_mut().filter(|slot| ids.contains(&slot.id)) {
            slot.state = match *slot.data {
                PartData::Chunk(_) => State::Frozen,
                PartData::Segment(_) => State::Settled,
            };
        }
    }
}

impl Slot {
    fn live(&self) -> u32 {
        self.data.documents().len() - self.dead.len()
    }

    fn may_hold(&self, lsn: u64) -> bool {
        let documents = self.data.documents();
        documents.lsn_low() <= lsn && lsn <= documents.lsn_high()
    }

    /// Marks a version dead if it is here and alive.
    fn kill(&mut self, version: &Version) -> bool {
        let mut found = self.data.documents().find(&version.epk, version.docno);
        found.any(|local| self.dead.insert(local))
    }
}
