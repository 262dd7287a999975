//! Memory image of a runtime: an allocator whose memory can be put back to how it was.
//!
//! Everything the JavaScript engine allocates lies in an arena: small blocks in one chunk (in more
//! of them for greedy scripts), large ones each by itself. An image is a copy of that one chunk,
//! taken when the runtime is ready for a call; restoring it copies the bytes back and drops what
//! came later. After that the runtime is, byte for byte, what it was when the image was taken: no
//! object, prototype, symbol, promise or pending exception of the call in between is left, and
//! nothing had to be found or freed for that. It takes microseconds, where making a context anew
//! takes hundreds of them.
//!
//! ```text
//!   chunk   │ header │ block │ header │ block │ … │ at ──► free
//!           └──────── image ────────────────────┘
//! ```
//!
//! Every block has its size in front of it. Freed small blocks wait in a list by size class.
#![allow(unsafe_code, reason = "an allocator is unsafe by nature")]

use std::alloc::{self, Layout};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull, null_mut};

/// What a block's size takes in front of it.
const HEADER_BYTES: usize = size_of::<usize>();
/// What the engine asks for; the same as its own allocator gives.
const ALIGN: usize = align_of::<u64>();
/// Small blocks are cut from chunks of this size. A ready runtime takes about a third of one.
const CHUNK_BYTES: usize = 1 << 20;
/// Largest block, with its header, that is cut from a chunk.
const SMALL_BYTES_MAX: usize = 64 << 10;
/// Classes of sizes: multiples of eight up to 128 bytes, then sixteen steps for each doubling.
const CLASSES: usize = 160;

/// The memory of one runtime.
pub(crate) struct Arena(UnsafeCell<State>);

// SAFETY: the state is used by whoever runs the runtime that the arena belongs to, one thread at a
// time (see the methods' contracts); its blocks belong to no thread.
unsafe impl Send for Arena {}
// SAFETY: as above; all methods that touch the state are unsafe to call.
unsafe impl Sync for Arena {}

struct State {
    /// The first one is there from the beginning to the end.
    chunks: Vec<NonNull<u8>>,
    /// The free rest of the last chunk.
    at: *mut u8,
    end: *mut u8,
    /// Freed small blocks by class.
    free: [*mut Free; CLASSES],
    /// All large blocks.
    large: *mut Large,
    /// Largest block, with its header, that is cut from a chunk.
    small_bytes_max: usize,
}

/// A freed block; lies where the block's content was.
struct Free {
    next: *mut Self,
}

/// In front of a large block. The size comes last: it is the header that all blocks have.
#[repr(C)]
struct Large {
    previous: *mut Self,
    next: *mut Self,
    size: usize,
}

/// An arena as it was at one moment.
pub(crate) struct MemoryImage {
    bytes: Box<[MaybeUninit<u8>]>,
    at: *mut u8,
    end: *mut u8,
    free: [*mut Free; CLASSES],
}

// SAFETY: the pointers are only ever looked at by the arena they came from.
unsafe impl Send for MemoryImage {}

/// The class of blocks of this size, header included, and the size such blocks have.
fn class_of(gross: usize) -> (usize, usize) {
    let last = gross - 1;
    if gross <= 128 {
        return (last / 8, (last / 8 + 1) * 8);
    }
    let doubling = last.ilog2() as usize;
    let step = doubling - 4;
    let steps = (last >> step) & 15;
    (16 + (doubling - 7) * 16 + steps, (1 << doubling) + ((steps + 1) << step))
}

impl Arena {
    /// An arena with its first chunk; nothing when there is no memory for it.
    pub(crate) fn new() -> Option<Self> {
        Self::with_small(SMALL_BYTES_MAX)
    }

    /// An arena of which no image can be taken: every block is one of the system's own, so that tools that
    /// watch the system's allocator see each of them.
    pub(crate) fn of_single_blocks() -> Option<Self> {
        Self::with_small(0)
    }

    fn with_small(small_bytes_max: usize) -> Option<Self> {
        let mut state = State {
            chunks: Vec::new(),
            at: null_mut(),
            end: null_mut(),
            free: [null_mut(); CLASSES],
            large: null_mut(),
            small_bytes_max,
        };
        state.add_chunk()?;
        Some(Self(UnsafeCell::new(state)))
    }

    /// A block of at least this size, or null.
    ///
    /// # Safety
    ///
    /// Nobody else may be using the arena.
    pub(crate) unsafe fn alloc(&self, size: usize) -> *mut u8 {
        // SAFETY: as the caller promises.
        unsafe { (*self.0.get()).alloc(size, false) }
    }

    /// A block of at least this size filled with zeros, or null.
    ///
    /// # Safety
    ///
    /// Nobody else may be using the arena.
    pub(crate) unsafe fn alloc_zeroed(&self, size: usize) -> *mut u8 {
        // SAFETY: as the caller promises.
        unsafe { (*self.0.get()).alloc(size, true) }
    }

    /// Takes a block back.
    ///
    /// # Safety
    ///
    /// The block is a living one of this arena, which nobody else may be using.
    pub(crate) unsafe fn dealloc(&self, block: *mut u8) {
        // SAFETY: as the caller promises.
        unsafe { (*self.0.get()).dealloc(block) }
    }

    /// A block of another size with the same content; null, and nothing happened, without memory.
    ///
    /// # Safety
    ///
    /// As for [`Arena::dealloc`].
    pub(crate) unsafe fn realloc(&self, block: *mut u8, size: usize) -> *mut u8 {
        // SAFETY: as the caller promises.
        unsafe { (*self.0.get()).realloc(block, size) }
    }

    /// What fits into a block.
    ///
    /// # Safety
    ///
    /// The block is a living one of an arena.
    pub(crate) unsafe fn usable_size(block: *mut u8) -> usize {
        // SAFETY: every block has its size in front of it.
        unsafe { header(block).read() }
    }

    /// The arena as it is now. Nothing if it does not fit: it has large blocks or several chunks.
    ///
    /// # Safety
    ///
    /// Nobody else may be using the arena.
    pub(crate) unsafe fn image(&self) -> Option<MemoryImage> {
        // SAFETY: as the caller promises.
        let state = unsafe { &*self.0.get() };
        if state.chunks.len() > 1 || !state.large.is_null() {
            return None;
        }
        let base = state.chunks.first()?.as_ptr();
        let mut bytes = Box::new_uninit_slice(state.at.addr() - base.addr());
        // SAFETY: the chunk is allocated up to `at` and beyond; the copy may hold bytes that
        // nobody has written yet, which its type allows.
        unsafe { ptr::copy_nonoverlapping(base.cast(), bytes.as_mut_ptr(), bytes.len()) };
        Some(MemoryImage { bytes, at: state.at, end: state.end, free: state.free })
    }

    /// Makes the arena what it was when the image was taken of it.
    ///
    /// # Safety
    ///
    /// The image is one of this arena, which nobody else may be using. Blocks that came later are
    /// gone, and those of then have their content of then: no reference to any of them may be held
    /// that would not have been right at that moment.
    pub(crate) unsafe fn restore(&self, image: &MemoryImage) {
        // SAFETY: as the caller promises. The first chunk is still there, and as long as the
        // image of it at least.
        unsafe {
            let state = &mut *self.0.get();
            state.free_large();
            state.free_chunks(1);
            let base = state.chunks[0].as_ptr().cast();
            ptr::copy_nonoverlapping(image.bytes.as_ptr(), base, image.bytes.len());
            (state.at, state.end, state.free) = (image.at, image.end, image.free);
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let state = self.0.get_mut();
        // SAFETY: nobody has the arena any more, so nobody uses its blocks.
        unsafe {
            state.free_large();
            state.free_chunks(0);
        }
    }
}

impl State {
    fn add_chunk(&mut self) -> Option<()> {
        // SAFETY: the layout has a size.
        let chunk = NonNull::new(unsafe { alloc::alloc(chunk_layout()) })?;
        self.chunks.push(chunk);
        self.at = chunk.as_ptr();
        // SAFETY: one behind the end of the chunk.
        self.end = unsafe { self.at.add(CHUNK_BYTES) };
        Some(())
    }

    /// # Safety
    ///
    /// Blocks of all chunks but the first `kept` ones are not used any more.
    unsafe fn free_chunks(&mut self, kept: usize) {
        for chunk in self.chunks.drain(kept..) {
            // SAFETY: `add_chunk` allocated it with this layout.
            unsafe { alloc::dealloc(chunk.as_ptr(), chunk_layout()) };
        }
    }

    fn alloc(&mut self, size: usize, zeroed: bool) -> *mut u8 {
        // A free block must have room for its link.
        let Some(gross) = size.max(size_of::<Free>()).checked_add(HEADER_BYTES) else {
            return null_mut();
        };
        if gross > self.small_bytes_max {
            return self.alloc_large(size, zeroed);
        }
        let block = self.alloc_small(gross);
        if zeroed && !block.is_null() {
            // SAFETY: the block has room for `size` bytes.
            unsafe { ptr::write_bytes(block, 0, size) };
        }
        block
    }

    /// Whether a block into which so much fits is one by itself.
    fn is_large(&self, size: usize) -> bool {
        size + HEADER_BYTES > self.small_bytes_max
    }

    fn alloc_small(&mut self, gross: usize) -> *mut u8 {
        let (class, gross) = class_of(gross);
        let freed = self.free[class];
        if !freed.is_null() {
            // SAFETY: blocks in the list are free and begin with their link.
            self.free[class] = unsafe { (*freed).next };
            return freed.cast();
        }
        if self.end.addr() - self.at.addr() < gross && self.add_chunk().is_none() {
            return null_mut();
        }
        // SAFETY: the rest of the chunk has room for `gross` bytes, which is a multiple of eight
        // like everything cut from the chunk before.
        unsafe {
            let block = self.at.add(HEADER_BYTES);
            self.at = self.at.add(gross);
            header(block).write(gross - HEADER_BYTES);
            block
        }
    }

    fn alloc_large(&mut self, size: usize, zeroed: bool) -> *mut u8 {
        let Some((layout, size)) = large_layout(size) else { return null_mut() };
        // SAFETY: the layout has a size; the block begins with room for the links.
        unsafe {
            let raw = if zeroed { alloc::alloc_zeroed(layout) } else { alloc::alloc(layout) };
            if raw.is_null() {
                return null_mut();
            }
            self.link(raw.cast(), size);
            raw.add(size_of::<Large>())
        }
    }

    /// # Safety
    ///
    /// `large` points to a block of that size that is in no list.
    unsafe fn link(&mut self, large: *mut Large, size: usize) {
        // SAFETY: as the caller promises; the first block of the list is alive.
        unsafe {
            large.write(Large { previous: null_mut(), next: self.large, size });
            if !self.large.is_null() {
                (*self.large).previous = large;
            }
        }
        self.large = large;
    }

    /// # Safety
    ///
    /// `large` is in the list.
    unsafe fn unlink(&mut self, large: *mut Large) {
        // SAFETY: neighbours in the list are alive.
        unsafe {
            let Large { previous, next, .. } = large.read();
            match previous.is_null() {
                true => self.large = next,
                false => (*previous).next = next,
            }
            if !next.is_null() {
                (*next).previous = previous;
            }
        }
    }

    /// # Safety
    ///
    /// No large block is used any more.
    unsafe fn free_large(&mut self) {
        while !self.large.is_null() {
            // SAFETY: blocks in the list are alive, and this is the last use of this one.
            unsafe { self.dealloc(self.large.add(1).cast()) };
        }
    }

    /// # Safety
    ///
    /// The block is a living one of this arena.
    unsafe fn dealloc(&mut self, block: *mut u8) {
        // SAFETY: as the caller promises; the size in front tells how the block was made.
        unsafe {
            let size = header(block).read();
            if !self.is_large(size) {
                let (class, _) = class_of(size + HEADER_BYTES);
                block.cast::<Free>().write(Free { next: self.free[class] });
                self.free[class] = block.cast();
                return;
            }
            let large = block.cast::<Large>().sub(1);
            self.unlink(large);
            alloc::dealloc(large.cast(), made_layout(size));
        }
    }

    /// # Safety
    ///
    /// The block is a living one of this arena.
    unsafe fn realloc(&mut self, block: *mut u8, size: usize) -> *mut u8 {
        // SAFETY: as the caller promises.
        unsafe {
            let old_size = header(block).read();
            let (was_large, is_large) = (self.is_large(old_size), self.is_large(size));
            if was_large && is_large {
                return self.realloc_large(block, old_size, size);
            }
            // A little smaller is no reason to move.
            if size <= old_size && size >= old_size / 2 && was_large == is_large {
                return block;
            }
            let moved = self.alloc(size, false);
            if !moved.is_null() {
                ptr::copy_nonoverlapping(block, moved, old_size.min(size));
                self.dealloc(block);
            }
            moved
        }
    }

    /// # Safety
    ///
    /// The block is a living large one of this arena, of the old size.
    unsafe fn realloc_large(&mut self, block: *mut u8, old_size: usize, size: usize) -> *mut u8 {
        let Some((layout, size)) = large_layout(size) else { return null_mut() };
        // SAFETY: as the caller promises. The block is out of the list while it may move, and
        // comes back into it whether it did or not.
        unsafe {
            let large = block.cast::<Large>().sub(1);
            self.unlink(large);
            let raw = alloc::realloc(large.cast(), made_layout(old_size), layout.size());
            if raw.is_null() {
                self.link(large, old_size);
                return null_mut();
            }
            self.link(raw.cast(), size);
            raw.add(size_of::<Large>())
        }
    }
}

/// Where a block's size is.
///
/// # Safety
///
/// The block is one of an arena.
unsafe fn header(block: *mut u8) -> *mut usize {
    // SAFETY: every block has its size in front of it.
    unsafe { block.cast::<usize>().sub(1) }
}

fn chunk_layout() -> Layout {
    Layout::from_size_align(CHUNK_BYTES, ALIGN).expect("a small size and a power of two")
}

/// The layout of a large block with its links, and what fits into it.
fn large_layout(size: usize) -> Option<(Layout, usize)> {
    let size = size.checked_next_multiple_of(ALIGN)?;
    let gross = size.checked_add(size_of::<Large>())?;
    Some((Layout::from_size_align(gross, ALIGN).ok()?, size))
}

/// The layout of a large block that was made.
fn made_layout(size: usize) -> Layout {
    large_layout(size).expect("it was made with this size").0
}

#[cfg(test)]
mod tests;
