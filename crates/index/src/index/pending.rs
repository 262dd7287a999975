//! Documents that are applied but not yet published.

use std::collections::HashMap;

use crate::{
    document::{Document, Version},
    terms::Terms,
};

/// Documents that are applied but not yet published.
#[derive(Default)]
pub(super) struct Pending {
    rows: Vec<Option<(Document, Terms)>>,
    /// Made when somebody looks for a document: those that are created are not looked for.
    by_docno: HashMap<u64, usize>,
    /// So many rows are in it.
    numbered: usize,
    bytes: usize,
}

impl Pending {
    pub(super) fn push(&mut self, document: Document, terms: Terms) {
        self.bytes += terms.size() + document.epk.len();
        self.rows.push(Some((document, terms)));
    }

    pub(super) fn remove(&mut self, version: &Version) -> bool {
        let new = self.rows.iter().enumerate().skip(self.numbered);
        let numbers = new.filter_map(|(at, row)| Some((row.as_ref()?.0.docno, at)));
        self.by_docno.extend(numbers);
        self.numbered = self.rows.len();
        let Some(position) = self.by_docno.get(&version.docno).copied() else { return false };
        let row = &mut self.rows[position];
        if row.as_ref().is_none_or(|(document, _)| document.epk != version.epk) {
            return false;
        }
        self.by_docno.remove(&version.docno);
        *row = None;
        true
    }

    /// Roughly how much memory is taken.
    pub(super) fn size(&self) -> usize {
        self.bytes
    }

    /// The lowest LSN that waits.
    pub(super) fn lsn_low(&self) -> Option<u64> {
        self.rows.iter().flatten().map(|(document, _)| document.lsn).min()
    }

    pub(super) fn take(&mut self) -> Vec<(Document, Terms)> {
        self.by_docno.clear();
        self.numbered = 0;
        self.bytes = 0;
        self.rows.drain(..).flatten().collect()
    }
}
