//! Execution feedback: what a query has learnt by running, for its next runs.
//!
//! How far the first matches lie from the end of an index cannot be known beforehand. A query that had
//! to give up walking will have to again: for a while it begins with what was better in the end.
//! And a query that was answered in a moment several times will be again.

use crate::query::plan::costs::{
    QUICK_PAGE_TIME, QUICK_PAGES_LOST, QUICK_PAGES_MAX, QUICK_PAGES_MIN, RANKING_RUNS,
    SLOW_PAGE_TIME,
};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Kept with a query for its next runs. It decides how rows are found, never which.
#[derive(Debug, Default)]
pub(in crate::query) struct ExecutionFeedback {
    /// Runs that are left to rank at once.
    left: AtomicU32,
    /// Pages that were made in a moment lately.
    moments: AtomicU32,
}

impl ExecutionFeedback {
    /// True when walking was given up lately.
    pub(in crate::query) fn ranks(&self) -> bool {
        let fewer = |left: u32| left.checked_sub(1);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer).is_ok()
    }

    /// The same without counting the run.
    pub(in crate::query) fn will_rank(&self) -> bool {
        self.left.load(Ordering::Relaxed) > 0
    }

    /// Remembers that walking was given up.
    pub(in crate::query) fn gave_up(&self) {
        self.left.store(RANKING_RUNS, Ordering::Relaxed);
    }

    /// Remembers how long a page took.
    pub(in crate::query) fn took(&self, time: Duration) {
        // What two pages remember at once may count as one.
        let known = self.moments.load(Ordering::Relaxed);
        let moments = match time {
            time if time > SLOW_PAGE_TIME => 0,
            time if time > QUICK_PAGE_TIME => known.saturating_sub(QUICK_PAGES_LOST),
            _ => (known + 1).min(QUICK_PAGES_MAX),
        };
        if moments != known {
            self.moments.store(moments, Ordering::Relaxed);
        }
    }

    /// True when the last pages were made in a moment.
    pub(in crate::query) fn is_quick(&self) -> bool {
        self.moments.load(Ordering::Relaxed) >= QUICK_PAGES_MIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_habit_fades() {
        let feedback = ExecutionFeedback::default();
        assert!(!feedback.ranks());
        feedback.gave_up();
        assert_eq!((0..100).filter(|_| feedback.ranks()).count(), RANKING_RUNS as usize);
    }

    #[test]
    fn a_slow_page_is_not_forgotten_at_once() {
        let feedback = ExecutionFeedback::default();
        for _ in 0..QUICK_PAGES_MIN {
            assert!(!feedback.is_quick());
            feedback.took(QUICK_PAGE_TIME);
        }
        assert!(feedback.is_quick());
        (0..100).for_each(|_| feedback.took(QUICK_PAGE_TIME));
        feedback.took(QUICK_PAGE_TIME * 2);
        assert!(feedback.is_quick(), "one page on a busy machine");
        (0..2).for_each(|_| feedback.took(QUICK_PAGE_TIME * 2));
        assert!(!feedback.is_quick(), "several");
        (0..100).for_each(|_| feedback.took(QUICK_PAGE_TIME));
        feedback.took(SLOW_PAGE_TIME * 2);
        feedback.took(QUICK_PAGE_TIME);
        assert!(!feedback.is_quick(), "one that was slow");
    }
}
