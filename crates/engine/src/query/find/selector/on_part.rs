//! One test on one part: documents by the posting lists or the column of a path.

use super::tree::Tree;
use crate::query::find::leaf::Leaf;
use crate::query::plan::costs::{
    BIT_SET_SHARE, COLUMN_RUN_MAX, LIST_FACTOR, LIST_MIN, PREDICATE_FACTOR,
};
use armilla_index::{Column, Local, LocalSet, Part, PathIndex, within};
use std::ops::Range;

/// A leaf's values in the dictionary of one part.
#[derive(Debug)]
pub(super) struct OnPart {
    pub(super) path: u32,
    /// Ascending and disjoint.
    pub(super) ordinals: Vec<Range<u32>>,
    pub(super) complement: bool,
    pub(super) exact: bool,
    pub(super) is_multi_valued: bool,
    /// Entries in the lists of these ordinals.
    pub(super) entries: usize,
}

/// The documents that a condition is asked about.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub(super) documents: usize,
    /// One of them: those of one logical partition have many values in common.
    pub(super) first: Option<u32>,
}

impl Asked {
    pub(super) fn of(runs: &[Range<u32>]) -> Self {
        let documents = runs.iter().map(|run| run.len()).sum();
        Self { documents, first: runs.first().map(|run| run.start) }
    }
}

/// True when a predicate is tried on so many distinct values, for so many documents.
pub(super) fn is_tried(values: usize, scope: usize) -> bool {
    values <= scope.saturating_mul(PREDICATE_FACTOR)
}

pub(super) fn on_part(leaf: &Leaf, part: &Part, asked: Asked) -> Tree {
    let none = if leaf.complement { Tree::All } else { Tree::Nothing };
    let found = leaf.path.and_then(|path| Some((path, part.path(path)?)));
    let Some((path, index)) = found else { return none };
    let (ordinals, exact) = match &leaf.filter {
        Some(filter) => {
            if !is_tried(index.value_count() as usize, asked.documents) {
                return Tree::Unknown;
            }
            let values = filter.matching(part, &index);
            (values.ordinals.clone(), values.exact && leaf.exact)
        }
        None => {
            let ranges = leaf.ranges.iter().map(|range| match asked.first {
                Some(first) => index.ordinals_by(range, first),
                None => index.ordinals(range),
            });
            (ranges.filter(|range| !range.is_empty()).collect(), leaf.exact)
        }
    };
    if ordinals.is_empty() {
        return none;
    }
    debug_assert!(
        ordinals.is_sorted_by(|left: &Range<u32>, right| left.end <= right.start),
        "values ascend"
    );
    let entries = ordinals.iter().map(|ordinals| index.lists(ordinals).len()).sum();
    let (complement, is_multi_valued) = (leaf.complement, index.is_multi_valued());
    Tree::Leaf(OnPart { path, ordinals, complement, exact, is_multi_valued, entries })
}

impl OnPart {
    pub(super) fn index<'p>(&self, part: &'p Part) -> PathIndex<'p> {
        part.path(self.path).expect("the selector was made for this part, which has the path")
    }

    /// The list of documents, where there is only one.
    pub(super) fn only_list<'p>(&self, part: &'p Part) -> Option<&'p [Local]> {
        match self.ordinals.as_slice() {
            [ordinals] if !self.complement && ordinals.len() == 1 => {
                Some(self.index(part).list(ordinals.start))
            }
            _ => None,
        }
    }

    pub(super) fn is_one_list(&self) -> bool {
        !self.complement && matches!(self.ordinals.as_slice(), [ordinals] if ordinals.len() == 1)
    }

    /// Live documents of a run.
    pub(super) fn count_live(&self, part: &Part, run: &Range<u32>) -> u64 {
        let index = self.index(part);
        if let Some(column) = index.column().filter(|_| run.len() <= COLUMN_RUN_MAX) {
            let matching = run.clone().filter(|local| self.matches(&column, *local));
            return matching.filter(|local| !part.is_dead(*local)).count() as u64;
        }
        if self.is_one_list() {
            let list = within(index.list(self.ordinals[0].start), run);
            if part.dead().is_empty() {
                return list.len() as u64;
            }
            return list.iter().filter(|local| !part.is_dead(local.get())).count() as u64;
        }
        let locals = self.select(part, std::slice::from_ref(run));
        locals.iter().filter(|local| !part.is_dead(**local)).count() as u64
    }

    /// The documents of the runs, ascending.
    pub(super) fn select(&self, part: &Part, runs: &[Range<u32>]) -> Vec<u32> {
        let (index, documents) = (self.index(part), part.len());
        let scope: usize = runs.iter().map(|run| run.len()).sum();
        if let Some(column) = index.column()
            && (self.complement || scope < self.entries)
        {
            let all = runs.iter().cloned().flatten();
            return all.filter(|local| self.matches(&column, *local)).collect();
        }
        let mut locals = Vec::with_capacity(self.entries.min(scope));
        for ordinal in self.ordinals.iter().cloned().flatten() {
            let list = index.list(ordinal);
            match runs {
                [run] => locals.extend(within(list, run).iter().map(|local| local.get())),
                _ => locals.extend(
                    list.iter().map(|local| local.get()).filter(|local| is_in(runs, *local)),
                ),
            }
        }
        let locals = if self.is_one_list() { locals } else { sorted(locals, documents) };
        if !self.complement {
            return locals;
        }
        let mut set = LocalSet::none(documents);
        runs.iter().cloned().flatten().for_each(|local| set.insert(local));
        locals.iter().for_each(|local| set.remove(*local));
        set.iter().collect()
    }

    pub(super) fn retain(&self, part: &Part, locals: &mut Vec<u32>) -> bool {
        let index = self.index(part);
        if let Some(column) = index.column() {
            locals.retain(|local| self.matches(&column, *local));
            return self.exact;
        }
        if self.entries > locals.len().saturating_mul(LIST_FACTOR) + LIST_MIN {
            return false;
        }
        let mut listed = Vec::with_capacity(self.entries);
        for ordinals in &self.ordinals {
            listed.extend(index.lists(ordinals).iter().map(|local| local.get()));
        }
        listed.sort_unstable();
        locals.retain(|local| listed.binary_search(local).is_ok() != self.complement);
        self.exact
    }

    #[inline]
    pub(super) fn matches(&self, column: &Column<'_>, local: u32) -> bool {
        let inside = match self.ordinals.as_slice() {
            [only] => column.matches(local, only),
            many => column.ordinal(local).is_some_and(|ordinal| {
                let behind = many.partition_point(|range| range.end <= ordinal);
                many.get(behind).is_some_and(|range| range.start <= ordinal)
            }),
        };
        inside != self.complement
    }
}

fn is_in(runs: &[Range<u32>], local: u32) -> bool {
    let behind = runs.partition_point(|run| run.end <= local);
    runs.get(behind).is_some_and(|run| run.start <= local)
}

/// Ascending and without repetition.
pub(super) fn sorted(mut locals: Vec<u32>, documents: u32) -> Vec<u32> {
    if locals.len() > documents as usize / BIT_SET_SHARE {
        let mut set = LocalSet::none(documents);
        locals.iter().for_each(|local| set.insert(*local));
        locals.clear();
        locals.extend(set.iter());
    } else {
        locals.sort_unstable();
        locals.dedup();
    }
    locals
}
