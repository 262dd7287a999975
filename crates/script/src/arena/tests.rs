//! The arena against a model of its blocks, and images of it.

use super::*;

/// Steps of a test; few where every access is checked.
const STEPS: usize = if cfg!(miri) { 200 } else { 5000 };
/// Doublings of the largest block of a test.
const DOUBLINGS: usize = if cfg!(miri) { 18 } else { 19 };

#[test]
fn classes_fit_tightly_and_are_all_there() {
    let mut seen = 0;
    for gross in (1..=SMALL_BYTES_MAX).step_by(if cfg!(miri) { 7 } else { 1 }) {
        let (class, size) = class_of(gross);
        assert!(size >= gross && size - gross < 8.max(gross / 8), "{gross} in {size}");
        assert_eq!((class_of(size), size % ALIGN), ((class, size), 0), "{gross}");
        assert!(class == seen || class == seen + 1);
        seen = class;
    }
    assert_eq!(seen, CLASSES - 1);
}

/// Pseudo-random numbers, always the same.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % end
    }

    /// Mostly small, sometimes large.
    fn size(&mut self) -> usize {
        let doubling = self.below(DOUBLINGS);
        1 + self.below(1 << doubling)
    }
}

/// Blocks with what was written to them.
struct Blocks<'a>(&'a Arena, Vec<(*mut u8, usize, u8)>);

impl Blocks<'_> {
    fn step(&mut self, numbers: &mut Numbers) {
        let (arena, mark) = (self.0, numbers.below(256) as u8);
        // SAFETY: the arena is this test's alone, and all blocks in the list are alive.
        unsafe {
            match (numbers.below(5), self.1.is_empty()) {
                (0 | 1, _) | (_, true) => {
                    let size = numbers.size();
                    let block = arena.alloc(size);
                    ptr::write_bytes(block, mark, size);
                    self.1.push((block, size, mark));
                }
                (2, _) => {
                    let size = numbers.size();
                    let block = arena.alloc_zeroed(size);
                    self.1.push((block, size, 0));
                }
                (3, _) => {
                    let at = numbers.below(self.1.len());
                    let (block, old, mark) = self.1[at];
                    let size = numbers.size();
                    let block = arena.realloc(block, size);
                    ptr::write_bytes(block.add(old.min(size)), mark, size - old.min(size));
                    self.1[at] = (block, size, mark);
                }
                _ => {
                    let at = numbers.below(self.1.len());
                    let (block, ..) = self.1.swap_remove(at);
                    arena.dealloc(block);
                }
            }
        }
    }

    fn check(&self) {
        for (block, size, mark) in &self.1 {
            // SAFETY: the block is alive and was filled with its mark.
            let bytes = unsafe { std::slice::from_raw_parts(*block, *size) };
            assert!(bytes.iter().all(|byte| byte == mark));
            // SAFETY: the block is alive.
            assert!(unsafe { Arena::usable_size(*block) } >= *size);
            assert_eq!(block.addr() % ALIGN, 0);
        }
    }
}

#[test]
fn blocks_keep_their_content_until_they_are_freed() {
    for arena in [Arena::new(), Arena::of_single_blocks()].map(Option::unwrap) {
        let (mut blocks, mut numbers) = (Blocks(&arena, Vec::new()), Numbers(1));
        for round in 0..STEPS {
            blocks.step(&mut numbers);
            if round % (STEPS / 10) == 0 {
                blocks.check();
            }
        }
        blocks.check();
    }
}

#[test]
fn a_image_brings_everything_back() {
    let arena = Arena::new().unwrap();
    let (mut blocks, mut numbers) = (Blocks(&arena, Vec::new()), Numbers(7));
    for size in [1, 8, 100, 5000, 40_000, 4096, 700] {
        // SAFETY: the arena is this test's alone.
        let block = unsafe { arena.alloc(size) };
        // SAFETY: the block was just made.
        unsafe { ptr::write_bytes(block, size as u8, size) };
        blocks.1.push((block, size, size as u8));
    }
    // SAFETY: the arena is this test's alone.
    let image = unsafe { arena.image() }.unwrap();
    let then = blocks.1.clone();
    let mut first_blocks = Vec::new();
    for _ in 0..3 {
        numbers.0 = 7;
        for _ in 0..2000 {
            blocks.step(&mut numbers);
        }
        // SAFETY: as above; with large blocks or more chunks there is no image.
        assert!(unsafe { arena.image() }.is_none());
        // SAFETY: only the blocks of then are used from here on.
        unsafe { arena.restore(&image) };
        blocks.1.clone_from(&then);
        blocks.check();
        // SAFETY: the arena is this test's alone.
        first_blocks.push(unsafe { arena.alloc(300) });
        // SAFETY: the block was just made.
        unsafe { arena.dealloc(first_blocks[0]) };
    }
    assert!(first_blocks.iter().all(|block| *block == first_blocks[0]));
}

#[test]
fn sizes_that_nobody_has_are_refused() {
    let arena = Arena::new().unwrap();
    // SAFETY: the arena is this test's alone.
    unsafe {
        assert!(arena.alloc(usize::MAX).is_null());
        assert!(arena.alloc(isize::MAX as usize).is_null());
        let block = arena.alloc(100_000);
        assert!(arena.realloc(block, usize::MAX - 10).is_null());
        ptr::write_bytes(block, 7, 100_000);
        arena.dealloc(block);
    }
}
