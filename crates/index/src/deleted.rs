//! Which documents of a part are dead: a persistent bitmap in chunks.
//!
//! The committer owns the newest set of every part and marks deaths in it; a view holds a clone.
//! A clone is one pointer. The first mark after a clone copies the list of leaves and the one leaf
//! it touches (two kilobytes), so a reader's set never changes and no lock is needed.

use std::{ops::Range, sync::Arc};

const LEAF_BITS: u32 = 1 << 14;
const LEAF_WORDS: usize = (LEAF_BITS / u64::BITS) as usize;

/// The dead documents of one part, by local number.
#[derive(Clone, Default)]
pub struct DeadSet {
    count: u32,
    leaves: Arc<Vec<Option<Arc<Leaf>>>>,
}

#[derive(Clone)]
struct Leaf {
    count: u32,
    words: [u64; LEAF_WORDS],
}

impl DeadSet {
    /// A set without members.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many documents are dead.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.count
    }

    /// Whether nothing is dead.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether this document is dead.
    #[inline]
    #[must_use]
    pub fn contains(&self, local: u32) -> bool {
        match self.leaf(local / LEAF_BITS) {
            Some(leaf) => leaf.words[word_of(local)] & bit_of(local) != 0,
            None => false,
        }
    }

    /// Marks a document; false when it was dead before.
    pub(crate) fn insert(&mut self, local: u32) -> bool {
        if self.contains(local) {
            return false;
        }
        let leaf = self.leaf_mut(local / LEAF_BITS);
        leaf.words[word_of(local)] |= bit_of(local);
        leaf.count += 1;
        self.count += 1;
        true
    }

    /// How many documents of a run are dead.
    #[must_use]
    pub fn count_in(&self, locals: &Range<u32>) -> u32 {
        if self.is_empty() || locals.is_empty() {
            return 0;
        }
        let (first, last) = (locals.start / LEAF_BITS, (locals.end - 1) / LEAF_BITS);
        (first..=last.min(crate::layout::narrow(self.leaves.len())))
            .filter_map(|number| Some((number, self.leaf(number)?)))
            .map(|(number, leaf)| leaf.count_in(number * LEAF_BITS, locals))
            .sum()
    }

    /// The dead documents in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.leaves
            .iter()
            .enumerate()
            .filter_map(|(number, leaf)| Some((number, leaf.as_ref()?)))
            .flat_map(|(number, leaf)| bits(&leaf.words).map(move |bit| base(number) + bit))
    }

    /// The members that `older`, a former state of this set, does not have yet.
    pub(crate) fn since<'a>(&'a self, older: &'a Self) -> impl Iterator<Item = u32> + 'a {
        let changed = self.leaves.iter().enumerate().filter_map(|(number, leaf)| {
            let leaf = leaf.as_ref()?;
            let old = older.leaves.get(number).and_then(Option::as_ref);
            let same = old.is_some_and(|old| Arc::ptr_eq(old, leaf));
            (!same).then_some((number, leaf))
        });
        changed
            .flat_map(|(number, leaf)| bits(&leaf.words).map(move |bit| base(number) + bit))
            .filter(|local| !older.contains(*local))
    }

    /// A leaf that no view shares, made on demand.
    fn leaf_mut(&mut self, number: u32) -> &mut Leaf {
        let number = number as usize;
        let leaves = Arc::make_mut(&mut self.leaves);
        if leaves.len() <= number {
            leaves.resize(number + 1, None);
        }
        Arc::make_mut(leaves[number].get_or_insert_with(Arc::default))
    }

    #[inline]
    fn leaf(&self, number: u32) -> Option<&Leaf> {
        self.leaves.get(number as usize)?.as_deref()
    }
}

impl Leaf {
    fn count_in(&self, base: u32, locals: &Range<u32>) -> u32 {
        let start = locals.start.saturating_sub(base);
        let end = (locals.end - base).min(LEAF_BITS);
        if start == 0 && end == LEAF_BITS {
            return self.count;
        }
        masks(start, end).map(|(word, mask)| (self.words[word] & mask).count_ones()).sum()
    }
}

/// The words of the bits from `start` to `end`, which is not empty, and which bits of each.
fn masks(start: u32, end: u32) -> impl Iterator<Item = (usize, u64)> {
    let (first, last) = (word_of(start), word_of(end - 1));
    (first..=last).map(move |word| {
        let low = if word == first { u64::MAX << (start % u64::BITS) } else { u64::MAX };
        let high = if word == last {
            u64::MAX >> (u64::BITS - 1 - (end - 1) % u64::BITS)
        } else {
            u64::MAX
        };
        (word, low & high)
    })
}

impl Default for Leaf {
    fn default() -> Self {
        Self { count: 0, words: [0; LEAF_WORDS] }
    }
}

impl std::fmt::Debug for DeadSet {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_set().entries(self.iter()).finish()
    }
}

impl FromIterator<u32> for DeadSet {
    fn from_iter<I: IntoIterator<Item = u32>>(locals: I) -> Self {
        let mut dead = Self::new();
        for local in locals {
            dead.insert(local);
        }
        dead
    }
}

/// The numbers of the set bits of a bitmap.
pub(crate) fn bits(words: &[u64]) -> impl Iterator<Item = u32> + '_ {
    words.iter().enumerate().flat_map(|(number, word)| {
        let mut rest = *word;
        std::iter::from_fn(move || {
            if rest == 0 {
                return None;
            }
            let bit = rest.trailing_zeros();
            rest &= rest - 1;
            Some(crate::layout::narrow(number) * u64::BITS + bit)
        })
    })
}

fn base(leaf: usize) -> u32 {
    crate::layout::narrow(leaf) * LEAF_BITS
}

#[inline]
fn word_of(local: u32) -> usize {
    ((local % LEAF_BITS) / u64::BITS) as usize
}

#[inline]
fn bit_of(local: u32) -> u64 {
    1 << (local % u64::BITS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_dead_set_is_a_set(
            members in proptest::collection::vec(0u32..100_000, 0..300),
            start in 0u32..100_000,
            length in 0u32..100_000,
        ) {
            let plain: BTreeSet<u32> = members.iter().copied().collect();
            let mut dead = DeadSet::new();
            let mut half = DeadSet::new();
            for (position, member) in members.iter().enumerate() {
                if position == members.len() / 2 {
                    half = dead.clone();
                }
                dead.insert(*member);
            }
            prop_assert_eq!(dead.len() as usize, plain.len());
            prop_assert!(dead.iter().eq(plain.iter().copied()));
            let run = start..start + length;
            prop_assert_eq!(dead.count_in(&run) as usize, plain.range(run).count());
            let newer: Vec<u32> = dead.since(&half).collect();
            prop_assert_eq!(newer.len(), (dead.len() - half.len()) as usize);
            prop_assert!(newer.iter().all(|local| !half.contains(*local)));
        }
    }
}
