//! The allocator of the process: mimalloc, asked for plain memory wherever plain memory is aligned well enough.
//!
//! Many small objects come from many threads: the system's allocator fragments and keeps memory. Rust names an alignment with each request.
//! Handed on, it costs: what is larger than a kilobyte, and what finds no free block at once, is then made larger by the alignment and cut
//! ([decision 0078](../../../docs/decisions/0078-what-a-load-costs.md)). Nearly everything wants eight bytes or fewer, which every block has.

use libmimalloc_sys as mi;
use std::alloc::{GlobalAlloc, Layout};

/// mimalloc for the whole process.
pub(crate) struct Allocator;

/// Every block is aligned to a word, and to two words if it is at least as long.
const fn is_plain(size: usize, align: usize) -> bool {
    align <= size_of::<usize>() || (align <= 2 * size_of::<usize>() && align <= size)
}

#[expect(unsafe_code, reason = "an allocator hands out memory")]
// SAFETY: each function does what its name says with a layout that the caller vouches for. Memory of either way in is given back and
// grown by the same functions. Plain blocks are aligned as `is_plain` says, which is what mimalloc promises of `malloc`.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        // SAFETY: see above.
        unsafe {
            if is_plain(size, align) {
                mi::mi_malloc(size).cast()
            } else {
                mi::mi_malloc_aligned(size, align).cast()
            }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        // SAFETY: see above.
        unsafe {
            if is_plain(size, align) {
                mi::mi_zalloc(size).cast()
            } else {
                mi::mi_zalloc_aligned(size, align).cast()
            }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, _layout: Layout) {
        // SAFETY: see above.
        unsafe { mi::mi_free(memory.cast()) }
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: see above. Blocks that stay where they are keep the alignment that they had.
        unsafe {
            if is_plain(size, layout.align()) {
                mi::mi_realloc(memory.cast(), size).cast()
            } else {
                mi::mi_realloc_aligned(memory.cast(), size, layout.align()).cast()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(unsafe_code, reason = "an allocator hands out memory")]
    fn memory_is_aligned_as_it_was_asked_for_and_keeps_its_bytes() {
        for align in [1, 2, 4, 8, 16, 32, 64, 4096] {
            for size in [1, 7, 8, 15, 16, 17, 24, 40, 48, 100, 1000, 1025, 5000, 100_000] {
                let layout = Layout::from_size_align(size, align).unwrap();
                // SAFETY: each block is used within its size and given back once, with its last layout.
                unsafe {
                    let blocks: Vec<_> = (0..20).map(|_| Allocator.alloc(layout)).collect();
                    for &block in &blocks {
                        assert_eq!(block as usize % align, 0, "{size} bytes at {align}");
                        block.write_bytes(7, size);
                        let grown = Allocator.realloc(block, layout, size * 3);
                        assert_eq!(grown as usize % align, 0, "{size} bytes grown at {align}");
                        let kept = std::slice::from_raw_parts(grown, size);
                        assert!(kept.iter().all(|byte| *byte == 7));
                        let layout = Layout::from_size_align(size * 3, align).unwrap();
                        Allocator.dealloc(grown, layout);
                    }
                    let zeros = Allocator.alloc_zeroed(layout);
                    assert_eq!(zeros as usize % align, 0);
                    assert!(std::slice::from_raw_parts(zeros, size).iter().all(|byte| *byte == 0));
                    Allocator.dealloc(zeros, layout);
                }
            }
        }
    }
}
