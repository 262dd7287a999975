//! What a reader sees: one state of the index, which never changes.

use crate::{
    document::DocumentRef,
    layout::narrow,
    part::Part,
    path_index::{Direction, Step},
    range::{EpkRange, ValueRange},
};

mod documents;
mod walk;

pub use documents::DocumentsInOrder;
pub use walk::ValuesInOrder;

/// One state of an index. Cheap to keep, free of locks; holds its parts alive until dropped.
#[derive(Debug, Clone, Default)]
pub struct View {
    pub(crate) lsn: u64,
    pub(crate) parts: Vec<Part>,
}

/// A document of a view, and where it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Located<'a> {
    /// Which of [`View::parts`].
    pub part: usize,
    /// The local number in that part.
    pub local: u32,
    /// The document.
    pub document: DocumentRef<'a>,
}

/// One value of one part, met while walking through a whole view.
#[derive(Debug, Clone, Copy)]
pub struct LocatedStep<'a> {
    /// Which of [`View::parts`].
    pub part: usize,
    /// The value and its documents there.
    pub step: Step<'a>,
}

impl View {
    /// Everything written at or below this LSN is in the view, nothing above it.
    #[must_use]
    pub fn lsn(&self) -> u64 {
        self.lsn
    }

    /// The parts, oldest first. A live document lies in exactly one of them.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// How many documents live.
    #[must_use]
    pub fn live_count(&self) -> u64 {
        self.parts.iter().map(|part| u64::from(part.live_count())).sum()
    }

    /// How many documents live in a range of effective partition keys.
    #[must_use]
    pub fn live_count_in(&self, range: &EpkRange) -> u64 {
        let count = |part: &Part| u64::from(part.live_count_in(&part.locals_of(range)));
        self.parts.iter().map(count).sum()
    }

    /// How many live documents have a value in a range.
    #[must_use]
    pub fn count(&self, path: u32, range: &ValueRange) -> u64 {
        self.parts.iter().map(|part| u64::from(part.count(path, range))).sum()
    }

    /// How many live documents of a range of effective partition keys have a value in a range.
    #[must_use]
    pub fn count_in(&self, path: u32, range: &ValueRange, epks: &EpkRange) -> u64 {
        let count = |part: &Part| u64::from(part.count_within(path, range, &part.locals_of(epks)));
        self.parts.iter().map(count).sum()
    }

    /// The live version of a document.
    #[must_use]
    pub fn find(&self, epk: &[u8], docno: u64) -> Option<Located<'_>> {
        // New documents are asked for more often than old ones.
        self.parts.iter().enumerate().rev().find_map(|(number, part)| {
            let local = part.find(epk, docno)?;
            Some(Located { part: number, local, document: part.document(local) })
        })
    }

    /// The live documents of a range of effective partition keys, in the order of (epk, docno)
    /// or against it, strictly behind `after` in that order.
    #[must_use]
    pub fn documents(
        &self,
        range: &EpkRange,
        after: Option<(&[u8], u64)>,
        direction: Direction,
    ) -> DocumentsInOrder<'_> {
        DocumentsInOrder::new(&self.parts, range, after, direction)
    }

    /// The values of a range over all parts, in value order. A value that several parts have
    /// comes once for each, oldest part first. Dead documents included.
    #[must_use]
    pub fn walk(&self, path: u32, range: &ValueRange, direction: Direction) -> ValuesInOrder<'_> {
        ValuesInOrder::new(&self.parts, path, range, direction)
    }

    /// Shows the paths that living documents have, some of them more than once.
    pub fn live_paths(&self, show: &mut dyn FnMut(u32)) {
        for part in self.parts.iter().filter(|part| part.live_count() > 0) {
            let is_live = |path: &u32| {
                part.dead.is_empty()
                    || part
                        .postings(*path, &ValueRange::all())
                        .iter()
                        .any(|local| !part.is_dead(local.get()))
            };
            part.paths().filter(is_live).for_each(&mut *show);
        }
    }

    /// How many bytes the texts of all live documents have. Goes through all of them.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        self.parts.iter().map(Part::live_bytes).sum()
    }

    /// How many parts a query has to visit.
    #[must_use]
    pub fn part_count(&self) -> u32 {
        narrow(self.parts.len())
    }
}
