//! What was read from the store for a page.

use armilla_model::error::{Error, Result};

/// Items read, and their bytes.
#[derive(Clone, Copy, Debug)]
pub(in crate::query) struct Loads {
    pub(in crate::query) items: u64,
    pub(in crate::query) bytes: u64,
    /// Bytes that may be read on this thread.
    bytes_max: u64,
}

impl Default for Loads {
    fn default() -> Self {
        Self { items: 0, bytes: 0, bytes_max: u64::MAX }
    }
}

impl Loads {
    /// Counts for a thread that may read no more than so many bytes.
    pub(in crate::query) fn at_most(bytes_max: u64) -> Self {
        Self { bytes_max, ..Self::default() }
    }

    /// Counts an item that was read; an error once there are too many bytes for this thread.
    pub(in crate::query) fn count(&mut self, size: usize) -> Result<()> {
        self.items += 1;
        self.bytes += size as u64;
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
    pub(in crate::query) fn absorb(&mut self, other: Self) {
        self.items += other.items;
        self.bytes += other.bytes;
    }
}
