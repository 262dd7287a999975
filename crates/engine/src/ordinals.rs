//! Ordinals of items: the numbers inside `_rid`.
//!
//! Each stretch of the key space has a *series* of its own (its first twelve bits lie above the number, see
//! [`armilla_model::rid`]), so items of one range are numbered from one and two ranges never clash. A range takes the
//! series of its position, or the highest that its ancestors had: inside a logical partition ordinals go up as items
//! come, also behind splits and merges.

use crate::limits::DOCNO_BLOCK;
use crate::partition::{Partition, Sequencer};
use crate::ranked::RankedGuard;
use arc_swap::ArcSwap;
use armilla_model::error::{Error, Result};
use armilla_model::rid::NUMBER_BITS;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The last number of a series that is given out; a block behind it can still be reserved.
const NUMBER_MAX: u64 = (1 << NUMBER_BITS) - 1 - DOCNO_BLOCK;

fn series_of(ordinal: u64) -> u16 {
    u16::try_from(ordinal >> NUMBER_BITS).unwrap_or(u16::MAX)
}

fn first_of(series: u16) -> u64 {
    u64::from(series) << NUMBER_BITS | 1
}

/// The next ordinal of each series of a container. Ranges that are too narrow to have a series of their own share one.
pub(crate) struct Ordinals(ArcSwap<BTreeMap<u16, Arc<AtomicU64>>>);

impl Ordinals {
    /// Goes on behind everything that was reserved.
    pub(crate) fn behind(reserved: &Marks) -> Self {
        let counter = |mark: u64| (series_of(mark), Arc::new(AtomicU64::new(mark)));
        Self(ArcSwap::from_pointee(reserved.iter().map(counter).collect()))
    }

    /// A new ordinal.
    pub(crate) fn next(&self, series: u16) -> Result<u64> {
        let ordinal = match self.0.load().get(&series) {
            Some(next) => next.fetch_add(1, Ordering::Relaxed),
            None => self.begin(series).fetch_add(1, Ordering::Relaxed),
        };
        if ordinal > (u64::from(series) << NUMBER_BITS | NUMBER_MAX) {
            return Err(Error::Internal(format!(
                "This physical partition has given all its {NUMBER_MAX} numbers to items. \
                 Copy the container into a new one (armilla export, armilla import)."
            )));
        }
        Ok(ordinal)
    }

    fn begin(&self, series: u16) -> Arc<AtomicU64> {
        let fresh = Arc::new(AtomicU64::new(first_of(series)));
        self.0.rcu(|known| {
            let mut known = BTreeMap::clone(known);
            known.entry(series).or_insert_with(|| fresh.clone());
            known
        });
        // Another thread may have been first.
        self.0.load().get(&series).cloned().unwrap_or(fresh)
    }
}

/// One ordinal per series: the first that is not reserved, or the highest that was used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks(Vec<u64>);

impl Marks {
    /// Moves the mark of the ordinal's series up to it.
    pub(crate) fn raise(&mut self, ordinal: u64) {
        let series = series_of(ordinal);
        match self.0.iter_mut().find(|mark| series_of(**mark) == series) {
            Some(mark) => *mark = ordinal.max(*mark),
            None => self.0.push(ordinal),
        }
    }

    /// Moves all marks up to the others.
    pub(crate) fn raise_all(&mut self, others: &Self) {
        others.iter().for_each(|mark| self.raise(mark));
    }

    /// True when the ordinal lies below the mark of its series.
    pub(crate) fn covers(&self, ordinal: u64) -> bool {
        let series = series_of(ordinal);
        self.0.iter().any(|mark| series_of(*mark) == series && ordinal < *mark)
    }

    /// All marks.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.iter().copied()
    }

    /// The highest series that has a mark.
    pub(crate) fn series_max(&self) -> u16 {
        self.iter().map(series_of).max().unwrap_or_default()
    }

    /// The mark of the highest series alone. It makes a range go on from that series; the other marks only have to be
    /// kept somewhere, once.
    pub(crate) fn highest(&self) -> Self {
        Self(self.iter().max().into_iter().collect())
    }

    /// The marks of a series and of those below it.
    pub(crate) fn up_to(&self, series: u16) -> Self {
        Self(self.iter().filter(|mark| series_of(*mark) <= series).collect())
    }

    /// Moves the mark of a series on by so many numbers; nothing when it has not so many.
    pub(crate) fn move_on(&mut self, series: u16, by: u64) -> Option<()> {
        let known = self.iter().find(|mark| series_of(*mark) == series);
        let moved = known.unwrap_or(first_of(series)) + by;
        let is_inside = series_of(moved) == series && moved <= first_of(series) + NUMBER_MAX;
        is_inside.then(|| self.raise(moved))
    }

    /// What partitions leave to those that take their place: their marks, and the series they counted in, even where
    /// nothing of it was reserved yet.
    pub(crate) fn inherited(old: &[Arc<Partition>], held: &[RankedGuard<'_, Sequencer>]) -> Self {
        let mut marks = Self::default();
        held.iter().for_each(|held| marks.raise_all(&held.reserved));
        old.iter().for_each(|old| marks.raise(first_of(old.series)));
        marks
    }

    /// The stored form: eight bytes a mark.
    pub(crate) fn encode(&self) -> Vec<u8> {
        self.iter().flat_map(u64::to_be_bytes).collect()
    }

    /// Reads the stored form.
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let (marks, _) = bytes.as_chunks();
        Self(marks.iter().map(|mark| u64::from_be_bytes(*mark)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_series_has_its_own_mark() {
        let mut marks = Marks::default();
        for ordinal in [first_of(0), first_of(8) + 9, first_of(0) + 5, first_of(8)] {
            marks.raise(ordinal);
        }
        assert_eq!(marks.iter().collect::<Vec<_>>(), [first_of(0) + 5, first_of(8) + 9]);
        assert!(marks.covers(first_of(0) + 4) && marks.covers(first_of(8) + 8));
        assert!(!marks.covers(first_of(0) + 5) && !marks.covers(first_of(4)));
        assert_eq!((marks.series_max(), marks.highest().iter().next()), (8, Some(first_of(8) + 9)));
        assert_eq!(Marks::decode(&marks.encode()), marks);
        assert_eq!(marks.up_to(7).iter().collect::<Vec<_>>(), [first_of(0) + 5]);
        assert_eq!((marks.move_on(8, 10), marks.move_on(9, 1)), (Some(()), Some(())));
        assert!(marks.covers(first_of(8) + 18) && marks.covers(first_of(9)));
        assert_eq!(marks.move_on(8, NUMBER_MAX), None, "the series has not so many");
    }

    #[test]
    fn series_begin_at_one_and_go_on_behind_what_was_reserved() {
        let ordinals = Ordinals(ArcSwap::default());
        let numbers = [0, 8, 8, 0, 4].map(|series| ordinals.next(series).unwrap());
        assert_eq!(numbers, [1, first_of(8), first_of(8) + 1, 2, first_of(4)]);
    }

    #[test]
    fn a_series_that_is_used_up_refuses_instead_of_running_into_the_next() {
        let last = first_of(3) - 1 + NUMBER_MAX;
        let known = BTreeMap::from([(3, Arc::new(AtomicU64::new(last)))]);
        let ordinals = Ordinals(ArcSwap::from_pointee(known));
        assert_eq!(ordinals.next(3).unwrap(), last);
        let refused = ordinals.next(3).unwrap_err().to_string();
        assert!(refused.contains("armilla export"), "{refused}");
        assert_eq!(series_of(last + DOCNO_BLOCK), 3);
    }
}
