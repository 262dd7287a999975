//! The memory of one call, counted and bounded.
//!
//! The engine has a memory limit of its own, but reaching it makes allocations fail in places
//! where the engine cannot cope: scripts were found that crash the process that way. So its limit
//! is not used. Instead every allocation is counted here, and a script over its limit is stopped by
//! the interrupt handler, which cannot be caught and harms nothing. What could grow far beyond the
//! limit before the handler looks is refused right away, where the engine does cope: large blocks,
//! which are arrays, texts and tables. Small ones, of which everything else is made, are granted.
//!
//! ```text
//!   used ── limit ──────── limit + 32 MB ──────────── limit + 512 MB
//!    all granted │ up to 64 KB granted │ up to 8 KB granted │ none
//!                └── the interrupt handler ends the script at its next look
//! ```
//!
//! No single block may be larger than a quarter of the limit, because the engine cannot be interrupted
//! inside one operation on one value; and none above 64 KB is granted when the call's time is up, so
//! that a step that makes a large value is the last one.
#![allow(unsafe_code, reason = "an allocator is unsafe by nature; this one only counts")]

use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use rquickjs::allocator::{Allocator, RustAllocator};

/// Blocks up to this size are what the engine's own small objects come in.
const SMALL_BYTES: usize = 8 << 10;
/// Blocks up to this size may go a little beyond the limit.
const MEDIUM_BYTES: usize = 64 << 10;
/// How far blocks of medium size may go beyond the limit.
const MEDIUM_EXTRA: usize = 32 << 20;
/// How far small blocks may go. No script is known to get there between two looks; one that does
/// puts the process at risk, but so would using up the machine's memory.
const SMALL_EXTRA: usize = 512 << 20;
/// The part of a call's memory that one block may take.
const BLOCK_PART: usize = 4;

/// What a runtime has allocated, and how much the running call may.
#[derive(Debug)]
pub(crate) struct Budget {
    used: AtomicUsize,
    /// What was in use when the call began.
    before: AtomicUsize,
    limit: AtomicUsize,
    /// The largest block.
    block_max: AtomicUsize,
    /// When the call's time is up, in microseconds since `epoch`.
    deadline: AtomicU64,
    epoch: Instant,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            used: AtomicUsize::new(0),
            before: AtomicUsize::new(0),
            limit: AtomicUsize::new(usize::MAX),
            block_max: AtomicUsize::new(usize::MAX),
            deadline: AtomicU64::new(u64::MAX),
            epoch: Instant::now(),
        }
    }
}

impl Budget {
    /// A call begins and may use this much beyond what is used now, until its time is up.
    pub(crate) fn begin(&self, bytes_max: usize, deadline: Instant) {
        let used = self.used.load(Relaxed);
        self.before.store(used, Relaxed);
        self.limit.store(used.saturating_add(bytes_max), Relaxed);
        self.block_max.store((bytes_max / BLOCK_PART).max(MEDIUM_BYTES), Relaxed);
        let micros = deadline.saturating_duration_since(self.epoch).as_micros();
        self.deadline.store(u64::try_from(micros).unwrap_or(u64::MAX), Relaxed);
    }

    /// What the call uses.
    pub(crate) fn used_by_call(&self) -> usize {
        self.used.load(Relaxed).saturating_sub(self.before.load(Relaxed))
    }

    /// The call has ended; nothing is refused until the next one.
    pub(crate) fn end(&self) {
        self.limit.store(usize::MAX, Relaxed);
        self.block_max.store(usize::MAX, Relaxed);
        self.deadline.store(u64::MAX, Relaxed);
    }

    /// Whether the call uses more than it may.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.used.load(Relaxed) > self.limit.load(Relaxed)
    }

    fn is_late(&self) -> bool {
        self.epoch.elapsed().as_micros() >= u128::from(self.deadline.load(Relaxed))
    }

    fn grants(&self, size: usize) -> bool {
        let extra = if size <= SMALL_BYTES {
            SMALL_EXTRA
        } else if size <= MEDIUM_BYTES {
            MEDIUM_EXTRA
        } else if size > self.block_max.load(Relaxed) || self.is_late() {
            return false;
        } else {
            0
        };
        let wanted = self.used.load(Relaxed).saturating_add(size);
        wanted <= self.limit.load(Relaxed).saturating_add(extra)
    }
}

/// The Rust allocator with a budget.
pub(crate) struct Metered(pub(crate) Arc<Budget>);

impl Metered {
    fn add(&self, block: *mut u8) -> *mut u8 {
        if !block.is_null() {
            // SAFETY: the block was allocated by `RustAllocator` just now.
            let size = unsafe { RustAllocator::usable_size(block) };
            self.0.used.fetch_add(size, Relaxed);
        }
        block
    }

    /// # Safety
    ///
    /// The block must be one of this allocator.
    unsafe fn remove(&self, block: *mut u8) {
        // SAFETY: as the caller promises.
        let size = unsafe { RustAllocator::usable_size(block) };
        self.0.used.fetch_sub(size, Relaxed);
    }
}

// SAFETY: all blocks come from and go back to `RustAllocator`, which keeps the promises of the
// trait; this type only counts them and sometimes returns null, which the trait allows.
unsafe impl Allocator for Metered {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        if self.0.grants(size) { self.add(RustAllocator.alloc(size)) } else { null_mut() }
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        match count.checked_mul(size) {
            Some(total) if self.0.grants(total) => self.add(RustAllocator.calloc(count, size)),
            _ => null_mut(),
        }
    }

    unsafe fn dealloc(&mut self, block: *mut u8) {
        // SAFETY: the caller promises that the block is ours.
        unsafe {
            self.remove(block);
            RustAllocator.dealloc(block);
        }
    }

    unsafe fn realloc(&mut self, block: *mut u8, new_size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the block is ours; it stays as it is when null is
        // returned, and is counted anew when it moved.
        unsafe {
            let old_size = RustAllocator::usable_size(block);
            if new_size > old_size && !self.0.grants(new_size) {
                return null_mut();
            }
            let moved = RustAllocator.realloc(block, new_size);
            if !moved.is_null() {
                self.0.used.fetch_sub(old_size, Relaxed);
                self.add(moved);
            }
            moved
        }
    }

    unsafe fn usable_size(block: *mut u8) -> usize {
        // SAFETY: the caller promises that the block is ours.
        unsafe { RustAllocator::usable_size(block) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn blocks_are_counted_and_large_ones_refused_first() {
        let budget = Arc::new(Budget::default());
        let mut metered = Metered(Arc::clone(&budget));
        let kept = metered.alloc(1000);
        assert!(budget.used.load(Relaxed) >= 1000);
        budget.begin(100_000, Instant::now() + Duration::from_secs(3600));
        assert!(metered.alloc(200_000).is_null());
        let medium = metered.alloc(60_000);
        let second = metered.alloc(60_000);
        assert!(!medium.is_null() && !second.is_null());
        assert!(budget.is_exceeded());
        // SAFETY: the blocks are those allocated above.
        unsafe {
            assert!(metered.realloc(second, 100_000).is_null());
            let second = metered.realloc(second, 100);
            metered.dealloc(second);
            metered.dealloc(medium);
            assert!(!budget.is_exceeded());
            metered.dealloc(kept);
        }
        budget.end();
        assert_eq!(budget.used.load(Relaxed), 0);
        assert!(metered.calloc(usize::MAX, 2).is_null());
    }

    #[test]
    fn no_block_is_too_large_a_part_and_none_comes_late() {
        let budget = Arc::new(Budget::default());
        let mut metered = Metered(Arc::clone(&budget));
        budget.begin(8 << 20, Instant::now() + Duration::from_secs(3600));
        assert!(metered.alloc(3 << 20).is_null());
        let kept = metered.alloc(1 << 20);
        assert!(!kept.is_null());
        budget.begin(8 << 20, Instant::now());
        assert!(metered.alloc(1 << 20).is_null());
        let small = metered.alloc(1 << 10);
        assert!(!small.is_null());
        // SAFETY: the blocks are those allocated above.
        unsafe {
            metered.dealloc(kept);
            metered.dealloc(small);
        }
    }
}
