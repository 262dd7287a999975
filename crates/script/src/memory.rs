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
//! The blocks themselves come from the runtime's [`Arena`].
#![allow(unsafe_code, reason = "an allocator is unsafe by nature; this one only counts")]

use crate::clock::monotonic;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use rquickjs::allocator::Allocator;

use crate::arena::Arena;

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
    /// Whether a block was refused since the call began.
    refused: AtomicBool,
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
            refused: AtomicBool::new(false),
            deadline: AtomicU64::new(u64::MAX),
            epoch: monotonic(),
        }
    }
}

impl Budget {
    /// A call begins and may use this much beyond what is used now, until its time is up.
    pub(crate) fn begin(&self, bytes_max: usize, deadline: Instant) {
        let used = self.used.load(Relaxed);
        self.before.store(used, Relaxed);
        self.refused.store(false, Relaxed);
        self.limit.store(used.saturating_add(bytes_max), Relaxed);
        self.block_max.store((bytes_max / BLOCK_PART).max(MEDIUM_BYTES), Relaxed);
        let micros = deadline.saturating_duration_since(self.epoch).as_micros();
        self.deadline.store(u64::try_from(micros).unwrap_or(u64::MAX), Relaxed);
    }

    /// What is in use.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// The arena was put back to a moment when this much was in use.
    pub(crate) fn set_used(&self, used: usize) {
        self.used.store(used, Relaxed);
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

    /// Whether the call was refused a block.
    pub(crate) fn has_refused(&self) -> bool {
        self.refused.load(Relaxed)
    }

    fn is_late(&self) -> bool {
        self.epoch.elapsed().as_micros() >= u128::from(self.deadline.load(Relaxed))
    }

    fn grants(&self, size: usize) -> bool {
        let granted = self.has_room(size);
        if !granted {
            self.refused.store(true, Relaxed);
        }
        granted
    }

    fn has_room(&self, size: usize) -> bool {
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

/// An arena with a budget, as the engine sees it.
pub(crate) struct Metered {
    pub(crate) budget: Arc<Budget>,
    pub(crate) arena: Arc<Arena>,
}

impl Metered {
    fn add(&self, block: *mut u8) -> *mut u8 {
        if !block.is_null() {
            // SAFETY: the block was allocated by the arena just now.
            let size = unsafe { Arena::usable_size(block) };
            self.budget.used.fetch_add(size, Relaxed);
        }
        block
    }
}

// SAFETY: all blocks come from and go back to the arena, which keeps the promises of the trait; this
// type only counts them and sometimes returns null, which the trait allows. Its methods are called by
// one runtime, whose calls are made by one thread at a time, and the arena is that runtime's own.
unsafe impl Allocator for Metered {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        if !self.budget.grants(size) {
            return null_mut();
        }
        // SAFETY: the runtime is the only one that uses the arena, and is calling.
        self.add(unsafe { self.arena.alloc(size) })
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        match count.checked_mul(size) {
            // SAFETY: the runtime is the only one that uses the arena, and is calling.
            Some(total) if self.budget.grants(total) => {
                self.add(unsafe { self.arena.alloc_zeroed(total) })
            }
            _ => null_mut(),
        }
    }

    unsafe fn dealloc(&mut self, block: *mut u8) {
        // SAFETY: the caller promises that the block is ours, and is the only one calling.
        unsafe {
            self.budget.used.fetch_sub(Arena::usable_size(block), Relaxed);
            self.arena.dealloc(block);
        }
    }

    unsafe fn realloc(&mut self, block: *mut u8, new_size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the block is ours; it stays as it is when null is
        // returned, and is counted anew when it moved.
        unsafe {
            let old_size = Arena::usable_size(block);
            if new_size > old_size && !self.budget.grants(new_size) {
                return null_mut();
            }
            let moved = self.arena.realloc(block, new_size);
            if !moved.is_null() {
                self.budget.used.fetch_sub(old_size, Relaxed);
                self.add(moved);
            }
            moved
        }
    }

    unsafe fn usable_size(block: *mut u8) -> usize {
        // SAFETY: the caller promises that the block is ours.
        unsafe { Arena::usable_size(block) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn metered(budget: &Arc<Budget>) -> Metered {
        Metered { budget: Arc::clone(budget), arena: Arc::new(Arena::new().unwrap()) }
    }

    #[test]
    fn blocks_are_counted_and_large_ones_refused_first() {
        let budget = Arc::new(Budget::default());
        let mut metered = metered(&budget);
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
        let mut metered = metered(&budget);
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
