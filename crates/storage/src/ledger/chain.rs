//! The chain of a journal: a checksum over all rows up to one, in order.

use std::fmt;

use xxhash_rust::xxh3::Xxh3;

/// Checksum of a row and of all rows before it.
///
/// A database that lost acknowledged rows and went on from there continues another chain. Whoever applies a row checks it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Chain(pub u64);

impl Chain {
    /// Before the first row of a shard.
    pub const START: Self = Self(0);

    /// The chain with one more batch.
    #[must_use]
    pub fn with(self, batch: &[u8]) -> Self {
        let mut hasher = Xxh3::new();
        hasher.update(&self.0.to_be_bytes());
        hasher.update(batch);
        Self(hasher.digest())
    }
}

impl fmt::Display for Chain {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_depends_on_content_and_order() {
        let (one, two) = (&b"one"[..], &b"two"[..]);
        let straight = Chain::START.with(one).with(two);
        assert_eq!(straight, Chain::START.with(one).with(two));
        assert_ne!(straight, Chain::START.with(two).with(one));
        assert_ne!(Chain::START.with(b""), Chain::START);
    }

    /// The number is part of what lies in databases: it may never change.
    #[test]
    fn the_first_link_is_pinned() {
        assert_eq!(Chain::START.with(b"armilla").to_string(), "c548620686514bb3");
    }
}
