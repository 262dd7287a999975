//! Hasher for maps that every request asks: the names of properties, and the locks that are held.
//!
//! Each process has a seed of its own, so that nobody can prepare keys that clash. What is hashed is short.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Makes hashers with the seed of the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuickHash(u64);

impl Default for QuickHash {
    fn default() -> Self {
        static SEED: OnceLock<u64> = OnceLock::new();
        Self(*SEED.get_or_init(|| RandomState::new().hash_one("the seed of this process")))
    }
}

impl BuildHasher for QuickHash {
    type Hasher = QuickHasher;

    fn build_hasher(&self) -> QuickHasher {
        QuickHasher(self.0)
    }
}

/// What was hashed so far is the seed of what follows.
pub(crate) struct QuickHasher(u64);

impl Hasher for QuickHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64_with_seed(bytes, self.0);
    }

    /// What ends a text: one value for all of them.
    fn write_u8(&mut self, number: u8) {
        self.0 ^= u64::from(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn different_keys_have_different_hashes() {
        let hash = QuickHash::default();
        let mut seen = HashSet::new();
        for number in 0..1000_u32 {
            assert!(seen.insert(hash.hash_one(number)));
            assert!(seen.insert(hash.hash_one(number.to_string())));
            assert!(seen.insert(hash.hash_one((number, "x"))));
        }
        assert_eq!(hash.hash_one("a"), QuickHash::default().hash_one("a"));
    }
}
