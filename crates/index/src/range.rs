//! Ranges of byte strings, compared byte by byte: spans of values and spans of partition keys.

use std::ops::Bound;

/// A span of byte strings.
///
/// ```
/// use armilla_index::ByteRange;
/// assert!(ByteRange::prefix(b"ab").contains(b"abc"));
/// assert!(!ByteRange::prefix(b"ab").contains(b"b"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByteRange {
    /// Where the span begins.
    pub start: Bound<Vec<u8>>,
    /// Where the span ends.
    pub end: Bound<Vec<u8>>,
}

/// A span of encoded values of one path.
pub type ValueRange = ByteRange;

/// A span of effective partition keys: one logical partition, a key prefix, or a physical range.
pub type EpkRange = ByteRange;

impl ByteRange {
    /// The span between two bounds.
    #[must_use]
    pub fn new(start: Bound<Vec<u8>>, end: Bound<Vec<u8>>) -> Self {
        Self { start, end }
    }

    /// Every byte string.
    #[must_use]
    pub fn all() -> Self {
        Self::new(Bound::Unbounded, Bound::Unbounded)
    }

    /// Exactly one byte string.
    #[must_use]
    pub fn exact(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        Self::new(Bound::Included(bytes.clone()), Bound::Included(bytes))
    }

    /// Every byte string that begins with `prefix`.
    #[must_use]
    pub fn prefix(prefix: &[u8]) -> Self {
        let end = match prefix.iter().rposition(|byte| *byte != u8::MAX) {
            Some(last) => {
                let mut end = prefix.get(..=last).unwrap_or_default().to_vec();
                if let Some(byte) = end.last_mut() {
                    *byte += 1;
                }
                Bound::Excluded(end)
            }
            None => Bound::Unbounded,
        };
        Self::new(Bound::Included(prefix.to_vec()), end)
    }

    /// From `start`, included, up to `end`, excluded.
    #[must_use]
    pub fn half_open(start: impl Into<Vec<u8>>, end: impl Into<Vec<u8>>) -> Self {
        Self::new(Bound::Included(start.into()), Bound::Excluded(end.into()))
    }

    /// `start` and everything above it.
    #[must_use]
    pub fn at_least(start: impl Into<Vec<u8>>) -> Self {
        Self::new(Bound::Included(start.into()), Bound::Unbounded)
    }

    /// Everything below `end`.
    #[must_use]
    pub fn below(end: impl Into<Vec<u8>>) -> Self {
        Self::new(Bound::Unbounded, Bound::Excluded(end.into()))
    }

    /// Whether `bytes` lies in the span.
    #[must_use]
    pub fn contains(&self, bytes: &[u8]) -> bool {
        !self.starts_after(bytes) && !self.ends_before(bytes)
    }

    /// Whether `bytes` lies before the span.
    pub(crate) fn starts_after(&self, bytes: &[u8]) -> bool {
        match &self.start {
            Bound::Unbounded => false,
            Bound::Included(start) => bytes < start.as_slice(),
            Bound::Excluded(start) => bytes <= start.as_slice(),
        }
    }

    /// Whether `bytes` lies behind the span.
    pub(crate) fn ends_before(&self, bytes: &[u8]) -> bool {
        match &self.end {
            Bound::Unbounded => false,
            Bound::Included(end) => bytes > end.as_slice(),
            Bound::Excluded(end) => bytes >= end.as_slice(),
        }
    }

    /// The span's only member, when its bounds say so.
    pub(crate) fn as_exact(&self) -> Option<&[u8]> {
        match (&self.start, &self.end) {
            (Bound::Included(start), Bound::Included(end)) if start == end => Some(start),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_of_highest_bytes_has_no_end() {
        let range = ByteRange::prefix(&[0xff, 0xff]);
        assert_eq!(range.end, Bound::Unbounded);
        assert!(range.contains(&[0xff, 0xff, 0xff]));
        assert!(!range.contains(&[0xff, 0xfe]));
    }

    #[test]
    fn a_prefix_ending_in_highest_bytes_carries() {
        let range = ByteRange::prefix(&[1, 0xff]);
        assert!(range.contains(&[1, 0xff, 0xff, 7]));
        assert!(!range.contains(&[2]));
    }

    #[test]
    fn an_empty_prefix_is_everything() {
        assert!(ByteRange::prefix(b"").contains(b""));
        assert!(ByteRange::prefix(b"").contains(&[0xff]));
    }
}
