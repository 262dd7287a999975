//! A new index from a part of an old one: how a partition is split.

use std::sync::Arc;

use super::{Index, Slot, State};
use crate::{
    dead::DeadSet,
    error::Result,
    files::Files,
    job::{Combine, Combined, Input, Outcome},
    limits::{Limits, SEGMENT_BYTES_MAX},
    part::Part,
    range::EpkRange,
    view::View,
};

impl Index {
    /// Makes an index of the documents of a view whose effective partition keys lie in a range.
    ///
    /// Heavy: runs on its caller's thread while the old index goes on. The new index is as of
    /// [`View::lsn`]; what was written since has to be applied to it as after a crash. With
    /// `files`, whatever lies in their folder is removed first, and the result is durable.
    pub fn extract(
        view: &View,
        range: &EpkRange,
        limits: Limits,
        files: Option<Arc<dyn Files>>,
    ) -> Result<Self> {
        let mut index = match files {
            Some(files) => Self::create(limits, files)?,
            None => Self::in_memory(limits),
        };
        index.advance(view.lsn());
        let (mut inputs, mut documents, mut bytes) = (vec![], 0u64, 0u64);
        for part in &view.parts {
            let dead = dead_or_outside(part, range);
            let live = u64::from(part.len() - dead.len());
            if live == 0 {
                continue;
            }
            documents += live;
            bytes += part.size() as u64;
            if documents > u64::from(limits.segment_documents_max) || bytes > SEGMENT_BYTES_MAX {
                index.add_extracted(std::mem::take(&mut inputs))?;
                (documents, bytes) = (live, part.size() as u64);
            }
            inputs.push(Input { id: 0, data: part.data.clone(), dead });
        }
        index.add_extracted(inputs)?;
        if index.files.is_some() {
            index.checkpoint()?;
        }
        Ok(index)
    }

    fn add_extracted(&mut self, inputs: Vec<Input>) -> Result<()> {
        if inputs.is_empty() {
            return Ok(());
        }
        let target = self.files.clone().map(|files| (files, self.new_id()));
        match (Combine { inputs, target }).run() {
            Outcome::Combined(Combined { part: Some(data), file, .. }) => {
                let id = self.new_id();
                let dead = DeadSet::new();
                self.slots.push(Slot { id, data, dead, state: State::Settled, file });
                Ok(())
            }
            Outcome::Failed { error, .. } => Err(error),
            _ => Ok(()),
        }
    }
}

/// All documents of a part that are dead or not in the range.
fn dead_or_outside(part: &Part, range: &EpkRange) -> DeadSet {
    let inside = part.locals_of(range);
    let mut dead = part.dead.clone();
    dead.insert_range(0..inside.start);
    dead.insert_range(inside.end..part.len());
    dead
}
