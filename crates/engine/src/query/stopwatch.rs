//! Stopwatch: where the time of a page goes, by range and by step. It runs only for pages that somebody wants
//! explained: asking the clock at every item is not free.

use armilla_model::clock::monotonic;
use std::time::{Duration, Instant};

/// Measures one thread's work on a page.
#[derive(Debug)]
pub(in crate::query) struct Stopwatch {
    last: Instant,
    range: usize,
    times: PageTimes,
}

/// Where the time of a page went. Several threads together may have taken longer than the page.
#[derive(Clone, Debug, Default)]
pub(in crate::query) struct PageTimes {
    /// Reading items from the store.
    pub(in crate::query) loading: Duration,
    /// All work, by range.
    pub(in crate::query) ranges: Vec<Duration>,
}

impl Stopwatch {
    /// Begins with the first range.
    pub(in crate::query) fn start() -> Self {
        Self { last: monotonic(), range: 0, times: PageTimes::default() }
    }

    /// From here on it is the work of this range; what has passed was that of the range before.
    pub(in crate::query) fn enter(&mut self, range: usize) {
        self.lap();
        self.range = range;
    }

    /// What has passed since the last mark was spent on reading an item.
    pub(in crate::query) fn loaded(&mut self) {
        let passed = self.lap();
        self.times.loading += passed;
    }

    fn lap(&mut self) -> Duration {
        let now = monotonic();
        let passed = now.saturating_duration_since(self.last);
        self.last = now;
        self.times.add(self.range, passed);
        passed
    }

    /// The times so far.
    pub(in crate::query) fn stop(mut self) -> PageTimes {
        self.lap();
        self.times
    }

    /// Takes in the times of another thread.
    pub(in crate::query) fn absorb(&mut self, other: &PageTimes) {
        self.times.loading += other.loading;
        for (range, time) in other.ranges.iter().enumerate() {
            self.times.add(range, *time);
        }
        // While the others worked, this thread waited.
        self.last = monotonic();
    }
}

impl PageTimes {
    fn add(&mut self, range: usize, time: Duration) {
        if self.ranges.len() <= range {
            self.ranges.resize(range + 1, Duration::ZERO);
        }
        self.ranges[range] += time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_belongs_to_the_range_that_was_entered_last() {
        let mut watch = Stopwatch::start();
        watch.enter(2);
        watch.loaded();
        watch.absorb(&PageTimes {
            loading: Duration::from_secs(5),
            ranges: vec![Duration::ZERO, Duration::from_secs(7)],
        });
        let times = watch.stop();
        assert_eq!(times.ranges.len(), 3);
        assert_eq!(times.ranges[1], Duration::from_secs(7));
        assert!(times.loading >= Duration::from_secs(5));
    }
}
