//! Sources for several threads: each its own, of the same targets.

use crate::query::exec::workers::Share;
use crate::query::read::items::{Neighbours, Source};
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::OnceLock;

impl Source<'_> {
    /// The same for a thread that goes through one target only, or a piece of it.
    pub(in crate::query) fn only(&self, Share { target, piece }: &Share) -> Self {
        let copy = self.copy(*target..*target + 1, Neighbours::default());
        Self { piece: piece.clone(), ..copy }
    }

    /// The same for a thread that reads so many of the documents to come.
    pub(in crate::query) fn beside(&self, items: u64) -> Self {
        self.copy(self.visited.clone(), self.neighbours.lock().beside(items))
    }

    fn copy(&self, visited: Range<usize>, neighbours: Neighbours) -> Self {
        Self {
            visited,
            piece: None,
            condition: self.condition.clone(),
            charged: self.charged.clone(),
            index: self.index.clone(),
            points: self.points.clone(),
            neighbours: Mutex::new(neighbours),
            estimate: OnceLock::new(),
            excluded: OnceLock::new(),
            ..*self
        }
    }
}
