//! The writer of an index, owned by the committer.
//!
//! It keeps the list of parts in the order of their age, applies changes, publishes views, hands
//! out jobs and installs their results. Nothing here takes long: whatever sorts, merges or waits
//! for a disk is a [`Job`].

use std::{collections::HashMap, ops::Range, sync::Arc};

use crate::{
    dead::DeadSet,
    document::{Document, Version},
    error::Result,
    files::Files,
    job::{Combine, Combined, Input, Job, JobKind, JobResult, Outcome, Work},
    limits::{JOB_INPUTS_MAX, Limits, SEGMENT_BYTES_MAX},
    merge::DROPPED,
    part::{Part, PartData},
    range::EpkRange,
    tail::Chunk,
    terms::Terms,
    tiers::{run_to_merge, tier_of},
    view::View,
};

/// A segment is rewritten alone when one in so many of its documents is dead.
const REWRITE_DEAD_SHARE: u32 = 4;

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
    /// All documents of a range of effective partition keys are deleted at once.
    DeleteRange {
        /// The LSN of the deletion.
        lsn: u64,
        /// The keys; one logical partition is [`EpkRange::exact`].
        range: EpkRange,
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
}

/// A part in the list of the writer.
pub(crate) struct Slot {
    pub(crate) id: u64,
    pub(crate) data: Arc<PartData>,
    pub(crate) dead: DeadSet,
    pub(crate) state: State,
    pub(crate) file: Option<String>,
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

/// Documents that are applied but not yet published.
#[derive(Default)]
struct Pending {
    rows: Vec<Option<(Document, Terms)>>,
    by_docno: HashMap<u64, usize>,
}

impl Index {
    /// An empty index that lives in memory only.
    #[must_use]
    pub fn in_memory(limits: Limits) -> Self {
        Self { limits, lsn: 0, slots: vec![], next_id: 1, files: None, pending: Pending::default() }
    }

    /// Takes in a change; it is seen by the next published view. Returns whether the version
    /// that was named as replaced or deleted was found.
    pub fn apply(&mut self, change: Change) -> bool {
        match change {
            Change::Upsert { document, terms, replaces } => {
                self.advance(document.lsn);
                let found = replaces.is_some_and(|version| self.kill(&version));
                self.pending.push(document, terms);
                found
            }
            Change::Delete { lsn, version } => {
                self.advance(lsn);
                self.kill(&version)
            }
            Change::DeleteRange { lsn, range } => {
                self.advance(lsn);
                self.kill_range(&range)
            }
        }
    }

    /// Says that everything up to an LSN was applied, where the last writes changed no document.
    pub fn advance(&mut self, lsn: u64) {
        self.lsn = self.lsn.max(lsn);
    }

    /// Makes a view of everything applied so far.
    pub fn publish(&mut self) -> Arc<View> {
        let rows = self.pending.take();
        if !rows.is_empty() {
            let chunk = Chunk::new(&rows);
            let slot = self.slot(PartData::Chunk(chunk), DeadSet::new(), State::Open);
            self.slots.push(slot);
            self.gather_tail();
        }
        Arc::new(self.view())
    }

    /// The next job, small ones first; nothing when there is none. Several may be out at once.
    pub fn take_job(&mut self) -> Option<Job> {
        let (kind, range) = self
            .run_to_seal()
            .map(|range| (JobKind::Seal, range))
            .or_else(|| self.segment_to_rewrite().map(|range| (JobKind::Rewrite, range)))
            .or_else(|| self.run_of_tier().map(|range| (JobKind::Merge, range)))?;
        Some(self.combine(kind, range))
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

    /// How many chunks wait to be sealed: if this grows, the job threads do not keep up and the
    /// writers should be slowed down.
    #[must_use]
    pub fn backlog(&self) -> usize {
        let waits = |slot: &&Slot| slot.data.as_chunk().is_some() && slot.state != State::Open;
        self.slots.iter().filter(waits).count()
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

    fn kill_range(&mut self, range: &EpkRange) -> bool {
        let mut found = self.pending.remove_range(range);
        for slot in &mut self.slots {
            let locals = slot.data.documents().locals_of(range);
            found |= !locals.is_empty();
            slot.dead.insert_range(locals);
        }
        found
    }

    pub(crate) fn slot(&mut self, data: PartData, dead: DeadSet, state: State) -> Slot {
        let id = self.next_id;
        self.next_id += 1;
        Slot { id, data: Arc::new(data), dead, state, file: None }
    }

    /// Gathers small chunks of the tail, and freezes the tail when it is full.
    fn gather_tail(&mut self) {
        let open = self.open_tail();
        let slots = &self.slots[open.clone()];
        let documents: u32 = slots.iter().map(|slot| slot.data.documents().len()).sum();
        let bytes: usize = slots.iter().map(|slot| slot.data.size()).sum();
        if documents >= self.limits.tail_documents_max || bytes >= self.limits.tail_bytes_max {
            for slot in &mut self.slots[open] {
                slot.state = State::Frozen;
            }
            return;
        }
        let fan_in = self.limits.tail_fan_in;
        let tier = |slot: &Slot| Some(tier_of(slot.data.documents().len(), 1, fan_in));
        let tiers: Vec<_> = slots.iter().map(tier).collect();
        if let Some(run) = run_to_merge(&tiers, fan_in, JOB_INPUTS_MAX) {
            self.gather(open.start + run.start..open.start + run.end);
        }
    }

    fn open_tail(&self) -> Range<usize> {
        let open = self.slots.iter().rev().take_while(|slot| slot.state == State::Open).count();
        self.slots.len() - open..self.slots.len()
    }

    fn gather(&mut self, range: Range<usize>) {
        let slots = &self.slots[range.clone()];
        let chunks: Vec<_> =
            slots.iter().filter_map(|slot| Some((slot.data.as_chunk()?, &slot.dead))).collect();
        let (chunk, _) = Chunk::combine(&chunks);
        let slot = (chunk.documents().len() > 0)
            .then(|| self.slot(PartData::Chunk(chunk), DeadSet::new(), State::Open));
        self.slots.splice(range, slot);
    }

    fn run_to_seal(&self) -> Option<Range<usize>> {
        let start = self.slots.iter().position(|slot| slot.state == State::Frozen)?;
        let frozen = self.slots[start..].iter().take_while(|slot| slot.state == State::Frozen);
        Some(start..start + frozen.take(JOB_INPUTS_MAX).count())
    }

    fn segment_to_rewrite(&self) -> Option<Range<usize>> {
        let mostly_dead = |slot: &Slot| {
            let documents = slot.data.documents().len();
            slot.state == State::Settled
                && slot.dead.len() >= documents.div_ceil(REWRITE_DEAD_SHARE)
        };
        let position = self.slots.iter().position(mostly_dead)?;
        Some(position..position + 1)
    }

    fn run_of_tier(&self) -> Option<Range<usize>> {
        let Limits { tail_documents_max, tier_fan_in, segment_documents_max, .. } = self.limits;
        let tier = |slot: &Slot| {
            let free = slot.state == State::Settled && slot.live() < segment_documents_max / 2;
            free.then(|| tier_of(slot.live(), tail_documents_max, tier_fan_in))
        };
        let tiers: Vec<_> = self.slots.iter().map(tier).collect();
        let run = run_to_merge(&tiers, tier_fan_in, JOB_INPUTS_MAX)?;
        let (mut documents, mut bytes) = (0u64, 0u64);
        let fits = |slot: &&Slot| {
            documents += u64::from(slot.live());
            bytes += slot.data.size() as u64;
            documents <= u64::from(segment_documents_max) && bytes <= SEGMENT_BYTES_MAX
        };
        let length = self.slots[run.clone()].iter().take_while(fits).count();
        (length > 1).then(|| run.start..run.start + length)
    }

    fn combine(&mut self, kind: JobKind, range: Range<usize>) -> Job {
        let mut inputs = vec![];
        for slot in &mut self.slots[range] {
            slot.state = State::Busy;
            inputs.push(Input { id: slot.id, data: slot.data.clone(), dead: slot.dead.clone() });
        }
        let live = |input: &Input| u64::from(input.data.documents().len() - input.dead.len());
        let documents = inputs.iter().map(live).sum();
        let target = self.target(documents);
        Job { kind, documents, work: Work::Combine(Combine { inputs, target }) }
    }

    /// Where a new segment goes: large ones into a file, where there are files.
    fn target(&mut self, documents: u64) -> Option<(Arc<dyn Files>, String)> {
        let files = self.files.clone()?;
        if documents < u64::from(self.limits.file_documents_min) {
            return None;
        }
        let name = crate::manifest::file_name(self.next_id);
        self.next_id += 1;
        Some((files, name))
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
        let id = self.next_id;
        self.next_id += 1;
        let slot = part.map(|data| Slot { id, data, dead, state: State::Settled, file });
        self.slots.splice(range, slot);
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

impl Pending {
    fn push(&mut self, document: Document, terms: Terms) {
        self.by_docno.insert(document.docno, self.rows.len());
        self.rows.push(Some((document, terms)));
    }

    fn remove(&mut self, version: &Version) -> bool {
        let Some(position) = self.by_docno.get(&version.docno).copied() else { return false };
        let row = &mut self.rows[position];
        if row.as_ref().is_none_or(|(document, _)| document.epk != version.epk) {
            return false;
        }
        self.by_docno.remove(&version.docno);
        *row = None;
        true
    }

    fn remove_range(&mut self, range: &EpkRange) -> bool {
        let mut found = false;
        for row in &mut self.rows {
            if let Some((document, _)) = row.take_if(|(document, _)| range.contains(&document.epk))
            {
                self.by_docno.remove(&document.docno);
                found = true;
            }
        }
        found
    }

    fn take(&mut self) -> Vec<(Document, Terms)> {
        self.by_docno.clear();
        self.rows.drain(..).flatten().collect()
    }
}
