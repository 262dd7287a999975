//! Ranges of keys, and the direction in which they are walked.

use std::ops::Bound;

/// The order in which a scan visits keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Smallest key first.
    Forward,
    /// Largest key first.
    Backward,
}

/// A range of keys in byte order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// Where the range begins.
    pub start: Bound<Vec<u8>>,
    /// Where it ends.
    pub end: Bound<Vec<u8>>,
}

impl KeyRange {
    /// Every key.
    #[must_use]
    pub const fn all() -> Self {
        Self { start: Bound::Unbounded, end: Bound::Unbounded }
    }

    /// Every key that begins with `prefix`.
    #[must_use]
    pub fn prefix(prefix: &[u8]) -> Self {
        let end = prefix_end(prefix).map_or(Bound::Unbounded, Bound::Excluded);
        Self { start: Bound::Included(prefix.to_vec()), end }
    }

    /// From `start` (included) to `end` (excluded).
    pub fn between(start: impl Into<Vec<u8>>, end: impl Into<Vec<u8>>) -> Self {
        Self { start: Bound::Included(start.into()), end: Bound::Excluded(end.into()) }
    }

    /// From `start` (included) to `end` (included).
    pub fn inclusive(start: impl Into<Vec<u8>>, end: impl Into<Vec<u8>>) -> Self {
        Self { start: Bound::Included(start.into()), end: Bound::Included(end.into()) }
    }

    /// Every key above `key`.
    pub fn after(key: impl Into<Vec<u8>>) -> Self {
        Self::all().starting_after(key)
    }

    /// `key` and every key above it.
    pub fn from(key: impl Into<Vec<u8>>) -> Self {
        Self::all().starting_at(key)
    }

    /// Every key below `key`.
    pub fn before(key: impl Into<Vec<u8>>) -> Self {
        Self::all().ending_before(key)
    }

    /// The same end, beginning above `key`: how a scan resumes.
    #[must_use]
    pub fn starting_after(self, key: impl Into<Vec<u8>>) -> Self {
        Self { start: Bound::Excluded(key.into()), ..self }
    }

    /// The same end, beginning at `key`.
    #[must_use]
    pub fn starting_at(self, key: impl Into<Vec<u8>>) -> Self {
        Self { start: Bound::Included(key.into()), ..self }
    }

    /// The same start, ending before `key`: how a backward scan resumes.
    #[must_use]
    pub fn ending_before(self, key: impl Into<Vec<u8>>) -> Self {
        Self { end: Bound::Excluded(key.into()), ..self }
    }

    /// Whether no key can be inside, because the end does not lie above the start.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        use Bound::{Excluded, Included, Unbounded};
        match (&self.start, &self.end) {
            (Unbounded, _) | (_, Unbounded) => false,
            (Included(start), Included(end)) => start > end,
            (Included(start) | Excluded(start), Included(end) | Excluded(end)) => start >= end,
        }
    }

    /// Whether `key` lies inside.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        let above = match &self.start {
            Bound::Included(start) => key >= start.as_slice(),
            Bound::Excluded(start) => key > start.as_slice(),
            Bound::Unbounded => true,
        };
        let below = match &self.end {
            Bound::Included(end) => key <= end.as_slice(),
            Bound::Excluded(end) => key < end.as_slice(),
            Bound::Unbounded => true,
        };
        above && below
    }

    /// Both bounds as borrowed slices, in the form range lookups take.
    #[must_use]
    pub fn as_bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (self.start.as_ref().map(Vec::as_slice), self.end.as_ref().map(Vec::as_slice))
    }
}

/// The smallest key above every key with this prefix, if there is one.
fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix.get(..=last)?.to_vec();
    *end.last_mut()? += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_prefix_of_highest_bytes_has_no_end() {
        assert_eq!(KeyRange::prefix(&[0xff, 0xff]).end, Bound::Unbounded);
        assert_eq!(KeyRange::prefix(&[1, 0xff]).end, Bound::Excluded(vec![2]));
        assert_eq!(KeyRange::prefix(&[]), KeyRange::from([]));
    }

    #[test]
    fn reversed_and_half_open_ranges_of_one_key_are_empty() {
        assert!(KeyRange::between(*b"b", *b"a").is_empty());
        assert!(KeyRange::between(*b"a", *b"a").is_empty());
        assert!(!KeyRange::inclusive(*b"a", *b"a").is_empty());
        assert!(KeyRange::inclusive(*b"a", *b"a").starting_after(*b"a").is_empty());
        assert!(!KeyRange::after(*b"a").is_empty());
    }

    proptest! {
        #[test]
        fn a_prefix_range_holds_exactly_the_keys_with_that_prefix(
            prefix in prop::collection::vec(prop_oneof![Just(0u8), Just(255), any::<u8>()], 0..4),
            key in prop::collection::vec(prop_oneof![Just(0u8), Just(255), any::<u8>()], 0..6),
        ) {
            prop_assert_eq!(KeyRange::prefix(&prefix).contains(&key), key.starts_with(&prefix));
        }

        #[test]
        fn an_empty_range_contains_nothing(
            start in prop::collection::vec(any::<u8>(), 0..3),
            end in prop::collection::vec(any::<u8>(), 0..3),
            key in prop::collection::vec(any::<u8>(), 0..3),
        ) {
            let range = KeyRange::between(start, end);
            prop_assert!(!(range.is_empty() && range.contains(&key)));
        }
    }
}
