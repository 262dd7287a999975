//! What a query has learnt about the data it goes through.
//!
//! How far the first matches lie from the end of an index cannot be known beforehand. A query that had
//! to give up walking will have to again: for a while it begins with what was better in the end.
//! And a query that was answered in a moment several times will be again.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How often a query ranks at once before it tries to walk again.
const RUNS: u32 = 31;
/// A page that took no longer was made in a moment.
const MOMENT: Duration = Duration::from_micros(500);
/// So many pages in a row must have been for the next one to count as one.
const MOMENTS: u32 = 8;

/// Kept with a query for its next runs. It decides how rows are found, never which.
#[derive(Debug, Default)]
pub(in crate::query) struct Habit {
    /// Runs that are left to rank at once.
    left: AtomicU32,
    /// Pages in a row that were made in a moment.
    moments: AtomicU32,
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

    /// Remembers how long a page took.
    pub(in crate::query) fn took(&self, time: Duration) {
        if time > MOMENT {
            self.moments.store(0, Ordering::Relaxed);
        } else if !self.is_quick() {
            self.moments.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// True when the last pages were made in a moment.
    pub(in crate::query) fn is_quick(&self) -> bool {
        self.moments.load(Ordering::Relaxed) >= MOMENTS
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

    #[test]
    fn a_slow_page_is_not_forgotten_at_once() {
        let habit = Habit::default();
        for _ in 0..MOMENTS {
            assert!(!habit.is_quick());
            habit.took(MOMENT);
        }
        assert!(habit.is_quick());
        habit.took(MOMENT * 2);
        habit.took(MOMENT);
        assert!(!habit.is_quick());
    }
}
