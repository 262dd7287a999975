//! What a query has learnt about the data it goes through.
//!
//! How far the first matches lie from the end of an index cannot be known beforehand. A query that had
//! to give up walking will have to again: for a while it begins with what was better in the end.

use std::sync::atomic::{AtomicU32, Ordering};

/// How often a query ranks at once before it tries to walk again.
const RUNS: u32 = 31;

/// Kept with a query for its next runs. It decides how rows are found, never which.
#[derive(Debug, Default)]
pub(in crate::query) struct Habit {
    /// Runs that are left to rank at once.
    left: AtomicU32,
}

impl Habit {
    /// True when walking was given up lately.
    pub(super) fn ranks(&self) -> bool {
        let fewer = |left: u32| left.checked_sub(1);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer).is_ok()
    }

    /// The same without counting the run.
    pub(in crate::query) fn will_rank(&self) -> bool {
        self.left.load(Ordering::Relaxed) > 0
    }

    /// Remembers that walking was given up.
    pub(super) fn gave_up(&self) {
        self.left.store(RUNS, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_habit_fades() {
        let habit = Habit::default();
        assert!(!habit.ranks());
        habit.gave_up();
        assert_eq!((0..100).filter(|_| habit.ranks()).count(), RUNS as usize);
    }
}
