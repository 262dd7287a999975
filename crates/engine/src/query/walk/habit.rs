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
/// One that took longer than this was slow; in between, the machine may have been busy.
const SLOW: Duration = Duration::from_millis(10);
/// So many pages must have been made in a moment for the next one to count as one.
const MOMENTS: u32 = 8;
/// More of them are not remembered.
const MOMENTS_MAX: u32 = 16;
/// A page that was neither takes so many of them back.
const MOMENTS_LOST: u32 = 4;

/// Kept with a query for its next runs. It decides how rows are found, never which.
#[derive(Debug, Default)]
pub(in crate::query) struct Habit {
    /// Runs that are left to rank at once.
    left: AtomicU32,
    /// Pages that were made in a moment lately.
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
        // What two pages remember at once may count as one.
        let known = self.moments.load(Ordering::Relaxed);
        let moments = match time {
            time if time > SLOW => 0,
            time if time > MOMENT => known.saturating_sub(MOMENTS_LOST),
            _ => (known + 1).min(MOMENTS_MAX),
        };
        if moments != known {
            self.moments.store(moments, Ordering::Relaxed);
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
        (0..100).for_each(|_| habit.took(MOMENT));
        habit.took(MOMENT * 2);
        assert!(habit.is_quick(), "one page on a busy machine");
        (0..2).for_each(|_| habit.took(MOMENT * 2));
        assert!(!habit.is_quick(), "several");
        (0..100).for_each(|_| habit.took(MOMENT));
        habit.took(SLOW * 2);
        habit.took(MOMENT);
        assert!(!habit.is_quick(), "one that was slow");
    }
}
