//! Local document numbers: lists of them as they lie in the index, and sets for combining them.
//!
//! A part numbers its documents 0, 1, 2 … in the order of (epk, docno). Everything an index
//! answers is a list of such numbers, borrowed from the part: [`Local`] is the number as it is
//! stored. [`LocalSet`] is a plain bitmap over one part for unions and complements.

use std::ops::Range;

use crate::{
    deleted::{DeadSet, bits},
    layout::U32,
};

/// A local document number as it is stored; `.get()` gives the `u32`.
pub type Local = U32;

/// The members of a sorted list that lie in a run of local numbers, as when a query stays inside
/// one logical partition.
#[must_use]
pub fn within<'a>(list: &'a [Local], locals: &Range<u32>) -> &'a [Local] {
    debug_assert!(is_ascending(list));
    let start = list.partition_point(|local| local.get() < locals.start);
    let rest = &list[start..];
    &rest[..rest.partition_point(|local| local.get() < locals.end)]
}

/// The members that two sorted lists share.
///
/// Walks through the shorter list and leaps through the longer one, so a short list makes it
/// cheap however long the other is.
#[must_use]
pub fn intersect(left: &[Local], right: &[Local]) -> Vec<u32> {
    debug_assert!(is_ascending(left) && is_ascending(right));
    let (short, mut long) = if left.len() <= right.len() { (left, right) } else { (right, left) };
    let mut shared = Vec::new();
    for local in short {
        let local = local.get();
        long = &long[leap(long, local)..];
        match long.first() {
            Some(found) if found.get() == local => shared.push(local),
            Some(_) => {}
            None => break,
        }
    }
    shared
}

/// Whether the members of a list go up, as those of one value do.
fn is_ascending(list: &[Local]) -> bool {
    list.is_sorted_by(|before, after| before.get() < after.get())
}

/// The position of the first member that is not below `local`, near the front most likely.
fn leap(list: &[Local], local: u32) -> usize {
    let mut bound = 1;
    while bound < list.len() && list[bound].get() < local {
        bound *= 2;
    }
    let (start, end) = (bound / 2, list.len().min(bound + 1));
    start + list[start..end].partition_point(|found| found.get() < local)
}

/// Any set of the documents of one part, one bit each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalSet {
    documents: u32,
    words: Vec<u64>,
}

impl LocalSet {
    /// No document, of a part with `documents` documents.
    #[must_use]
    pub fn none(documents: u32) -> Self {
        Self { documents, words: vec![0; documents.div_ceil(u64::BITS) as usize] }
    }

    /// Every document of a part with `documents` documents.
    #[must_use]
    pub fn all(documents: u32) -> Self {
        let mut set = Self::none(documents);
        set.complement();
        set
    }

    /// Adds a document.
    #[inline]
    pub fn insert(&mut self, local: u32) {
        self.words[(local / u64::BITS) as usize] |= 1 << (local % u64::BITS);
    }

    /// Adds every document of a list, in whatever order it is.
    pub fn extend(&mut self, list: &[Local]) {
        for local in list {
            self.insert(local.get());
        }
    }

    /// Removes a document.
    #[inline]
    pub fn remove(&mut self, local: u32) {
        self.words[(local / u64::BITS) as usize] &= !(1 << (local % u64::BITS));
    }

    /// Whether the document is a member.
    #[inline]
    #[must_use]
    pub fn contains(&self, local: u32) -> bool {
        let word = self.words.get((local / u64::BITS) as usize);
        word.is_some_and(|word| word & (1 << (local % u64::BITS)) != 0)
    }

    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// Whether there is no member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Adds the members of another set of the same part.
    pub fn union(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word |= other;
        }
    }

    /// Keeps only members that another set of the same part has as well.
    pub fn intersect(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= other;
        }
    }

    /// Removes the dead.
    pub fn subtract_dead(&mut self, dead: &DeadSet) {
        dead.iter().for_each(|local| self.remove(local));
    }

    /// Makes members of all others and others of all members.
    pub fn complement(&mut self) {
        for word in &mut self.words {
            *word = !*word;
        }
        let used = self.documents % u64::BITS;
        if let (Some(last), true) = (self.words.last_mut(), used != 0) {
            *last &= (1 << used) - 1;
        }
    }

    /// The members in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        bits(&self.words)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use proptest::prelude::*;

    fn list(set: &BTreeSet<u32>) -> Vec<Local> {
        set.iter().map(|local| Local::new(*local)).collect()
    }

    proptest! {
        #[test]
        fn lists_and_sets_agree_with_plain_sets(
            left in proptest::collection::btree_set(0u32..500, 0..200),
            right in proptest::collection::btree_set(0u32..500, 0..20),
            start in 0u32..500,
            end in 0u32..500,
        ) {
            let shared: Vec<u32> = left.intersection(&right).copied().collect();
            prop_assert_eq!(intersect(&list(&left), &list(&right)), shared.clone());
            prop_assert_eq!(intersect(&list(&right), &list(&left)), shared.clone());
            let inside: Vec<u32> = left.iter().copied().filter(|l| (start..end).contains(l)).collect();
            let all = list(&left);
            prop_assert!(within(&all, &(start..end)).iter().map(|l| l.get()).eq(inside));

            let mut set = LocalSet::none(500);
            set.extend(&all);
            prop_assert!(set.iter().eq(left.iter().copied()));
            let mut other = LocalSet::none(500);
            other.extend(&list(&right));
            let mut both = set.clone();
            both.intersect(&other);
            prop_assert!(both.iter().eq(shared));
            let mut rest = set.clone();
            let mut outside = other.clone();
            outside.complement();
            rest.intersect(&outside);
            prop_assert!(rest.iter().eq(left.difference(&right).copied()));
            rest.union(&both);
            prop_assert_eq!(&rest, &set);
            rest.complement();
            prop_assert_eq!(rest.len() as usize, 500 - left.len());
        }
    }
}
