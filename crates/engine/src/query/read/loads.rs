//! What was read from the store for a page.

use crate::query::stopwatch::{PageTimes, Stopwatch};
use armilla_model::error::{Error, Result};

/// Items read, and their bytes.
#[derive(Debug)]
pub(in crate::query) struct Loads {
    pub(in crate::query) items: u64,
    pub(in crate::query) bytes: u64,
    /// Bytes that may be read on this thread.
    bytes_max: u64,
    /// Runs where the page will be explained.
    watch: Option<Box<Stopwatch>>,
}

impl Default for Loads {
    fn default() -> Self {
        Self { items: 0, bytes: 0, bytes_max: u64::MAX, watch: None }
    }
}

impl Loads {
    /// From here on no more than so many bytes may be read.
    pub(in crate::query) fn limit(&mut self, bytes_max: u64) {
        self.bytes_max = bytes_max;
    }

    /// From here on time is measured.
    pub(in crate::query) fn measure(&mut self) {
        self.watch = Some(Box::new(Stopwatch::start()));
    }

    /// True when time is measured.
    pub(in crate::query) fn is_measured(&self) -> bool {
        self.watch.is_some()
    }

    /// From here on it is the work of this range that is measured.
    pub(in crate::query) fn enter(&mut self, range: usize) {
        if let Some(watch) = &mut self.watch {
            watch.enter(range);
        }
    }

    /// The times that were measured; the measuring ends.
    pub(in crate::query) fn take_times(&mut self) -> Option<PageTimes> {
        self.watch.take().map(|watch| watch.stop())
    }

    /// Counts an item that was read; an error once there are too many bytes for this thread.
    pub(in crate::query) fn count(&mut self, size: usize) -> Result<()> {
        self.items += 1;
        self.bytes += size as u64;
        if let Some(watch) = &mut self.watch {
            watch.loaded();
        }
        if self.is_outgrown() {
            return Err(Error::Internal("the page is too large for a network thread".to_owned()));
        }
        Ok(())
    }

    /// True when more was read than this thread has time for.
    pub(in crate::query) fn is_outgrown(&self) -> bool {
        self.bytes > self.bytes_max
    }

    /// Takes in what another thread has read.
    pub(in crate::query) fn absorb(&mut self, other: &LoadCounts) {
        self.items += other.items;
        self.bytes += other.bytes;
        if let (Some(watch), Some(times)) = (&mut self.watch, &other.times) {
            watch.absorb(times);
        }
    }

    /// What was read, for the thread that began it.
    pub(in crate::query) fn take_counts(&mut self) -> LoadCounts {
        LoadCounts { items: self.items, bytes: self.bytes, times: self.take_times() }
    }
}

/// What another thread has read, and how long it took.
pub(in crate::query) struct LoadCounts {
    items: u64,
    bytes: u64,
    times: Option<PageTimes>,
}
