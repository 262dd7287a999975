//! Which work there is: chunks to gather, tails to seal, segments to merge or to rewrite.

use std::{ops::Range, sync::Arc};

use super::{Index, Slot, State};
use crate::{
    deleted::DeadSet,
    files::Files,
    job::{Combine, Input, Job, JobKind, Work},
    limits::{JOB_INPUTS_MAX, Limits, SEAL_BYTES_MAX, SEGMENT_BYTES_MAX},
    part::PartData,
    tail::Chunk,
    tiers::{run_to_merge, tier_of},
};

/// A segment is rewritten alone when one in so many of its documents is dead.
const REWRITE_DEAD_SHARE: u32 = 4;

impl Index {
    /// Gathers small chunks of the tail, and freezes the tail when it is full.
    pub(super) fn gather_tail(&mut self) {
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

    pub(super) fn run_to_seal(&self) -> Option<Range<usize>> {
        let start = self.slots.iter().position(|slot| slot.state == State::Frozen)?;
        let frozen = self.slots[start..].iter().take_while(|slot| slot.state == State::Frozen);
        let mut bytes = 0;
        let fits = |slot: &&Slot| {
            bytes += slot.data.size();
            bytes <= SEAL_BYTES_MAX
        };
        let count = frozen.take(JOB_INPUTS_MAX).take_while(fits).count();
        Some(start..start + count.max(1))
    }

    pub(super) fn segment_to_rewrite(&self) -> Option<Range<usize>> {
        let mostly_dead = |slot: &Slot| {
            let documents = slot.data.documents().len();
            slot.state == State::Settled
                && slot.dead.len() >= documents.div_ceil(REWRITE_DEAD_SHARE)
        };
        let position = self.slots.iter().position(mostly_dead)?;
        Some(position..position + 1)
    }

    pub(super) fn run_of_tier(&self) -> Option<Range<usize>> {
        let Limits { tier_fan_in, segment_documents_max, .. } = self.limits;
        let tier = |slot: &Slot| {
            let small = slot.live() < segment_documents_max / 2
                && (slot.data.size() as u64) < SEGMENT_BYTES_MAX / 2;
            (slot.state == State::Settled && small).then(|| self.tier(slot))
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

    /// The tier of a segment by its documents or, where they are wide, by its bytes.
    fn tier(&self, slot: &Slot) -> u32 {
        let Limits { tail_documents_max, tail_bytes_max, tier_fan_in, .. } = self.limits;
        let bytes = u32::try_from(slot.data.size()).unwrap_or(u32::MAX);
        let bytes_base = u32::try_from(tail_bytes_max / 2).unwrap_or(u32::MAX);
        let by_documents = tier_of(slot.live(), tail_documents_max, tier_fan_in);
        by_documents.max(tier_of(bytes, bytes_base, tier_fan_in))
    }

    pub(super) fn combine(&mut self, kind: JobKind, range: Range<usize>) -> Job {
        let mut inputs = vec![];
        let mut from_file = false;
        for slot in &mut self.slots[range] {
            from_file |= slot.file.is_some();
            slot.state = State::Busy;
            inputs.push(Input { id: slot.id, data: slot.data.clone(), dead: slot.dead.clone() });
        }
        let live = |input: &Input| u64::from(input.data.documents().len() - input.dead.len());
        let documents = inputs.iter().map(live).sum();
        let target = self.target(documents, from_file);
        Job { kind, documents, work: Work::Combine(Combine { inputs, target }) }
    }

    /// Where a new segment goes: large ones into a file, where there are files. So does what
    /// comes out of files, lest the covered LSN go back.
    fn target(&mut self, documents: u64, from_file: bool) -> Option<(Arc<dyn Files>, u64)> {
        let files = self.files.clone()?;
        let large = documents >= u64::from(self.limits.file_documents_min);
        (documents > 0 && (large || from_file)).then(|| (files, self.new_id()))
    }
}
