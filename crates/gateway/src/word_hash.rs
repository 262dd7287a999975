//! A hash for small keys that this server makes itself: numbers of containers, kinds of requests.
//!
//! One multiplication a word. The standard one takes several times as long, to guard against keys that strangers choose; those must not
//! be hashed with this one.

use std::hash::{BuildHasherDefault, Hasher};

/// For maps and sets of such keys.
pub(crate) type WordHash = BuildHasherDefault<WordHasher>;

/// The state of one hash.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WordHasher(u64);

impl WordHasher {
    fn add(&mut self, word: u64) {
        const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(ODD);
    }
}

impl Hasher for WordHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.add(u64::from_le_bytes(*word)));
        let last = rest.iter().fold(rest.len() as u64, |word, byte| word << 8 | u64::from(*byte));
        self.add(last);
    }

    fn write_u8(&mut self, number: u8) {
        self.add(u64::from(number));
    }

    fn write_u16(&mut self, number: u16) {
        self.add(u64::from(number));
    }

    fn write_u32(&mut self, number: u32) {
        self.add(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.add(number);
    }

    fn write_usize(&mut self, number: usize) {
        self.add(number as u64);
    }

    fn finish(&self) -> u64 {
        // The last multiplication leaves the low bits, by which maps find a place, the poorest.
        self.0.rotate_left(26)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::hash::BuildHasher as _;

    #[test]
    fn small_keys_spread_over_the_places_of_a_map() {
        let hash = WordHash::default();
        for bits in [0, 57] {
            let places: HashSet<u64> = (0..128_u32)
                .map(|number| (hash.hash_one((number, "read")) >> bits) & 127)
                .collect();
            assert!(places.len() > 64, "{} of 128 places from bit {bits} on", places.len());
        }
        assert_ne!(hash.hash_one("read"), hash.hash_one("rea\0d"));
        assert_ne!(hash.hash_one("create"), hash.hash_one("upsert"));
    }
}
