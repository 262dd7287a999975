//! The terms of one document: which values it has at which paths.

use crate::limits::VALUE_LENGTH_MAX;

/// The terms of one document, in one arena: pairs of a path number and an encoded value.
///
/// A path may have many values (array elements); a value given twice counts once. Values are
/// opaque bytes that sort byte by byte.
///
/// ```
/// let mut terms = armilla_index::Terms::new();
/// terms.push(7, b"\x04post");
/// terms.push_cut(9, b"\x04a long text of which only the begi");
/// assert_eq!(terms.len(), 2);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Terms {
    entries: Vec<TermEntry>,
    bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TermEntry {
    path: u32,
    end: u32,
    cut: bool,
}

/// An encoded value, and whether the index holds all of it.
///
/// Values order by their bytes; of two with the same bytes the whole one comes before the cut one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value<'a> {
    /// The encoded value.
    pub bytes: &'a [u8],
    /// The bytes stand for several values (a shortened string, a rounded number): whoever needs
    /// the exact one looks at the item.
    pub cut: bool,
}

impl Terms {
    /// No terms.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// No terms, with room for so many of about so many bytes together.
    #[must_use]
    pub fn with_capacity(terms: usize, bytes: usize) -> Self {
        Self { entries: Vec::with_capacity(terms), bytes: Vec::with_capacity(bytes) }
    }

    /// Adds a value at a path. Values beyond [`VALUE_LENGTH_MAX`] are shortened to it and marked
    /// as cut.
    pub fn push(&mut self, path: u32, value: &[u8]) {
        self.add(path, value, false);
    }

    /// Adds a value that was shortened or rounded before: it carries the cut mark.
    pub fn push_cut(&mut self, path: u32, value: &[u8]) {
        self.add(path, value, true);
    }

    /// How many terms there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no term.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The terms in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Value<'_>)> {
        let mut start = 0;
        self.entries.iter().map(move |entry| {
            let bytes = &self.bytes[start..entry.end as usize];
            start = entry.end as usize;
            (entry.path, Value { bytes, cut: entry.cut })
        })
    }

    /// Roughly how much memory the terms take.
    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes.len() + self.entries.len() * size_of::<TermEntry>()
    }

    /// The bytes of all values together.
    pub(crate) fn bytes_len(&self) -> usize {
        self.bytes.len()
    }

    fn add(&mut self, path: u32, value: &[u8], cut: bool) {
        let kept = value.get(..VALUE_LENGTH_MAX).unwrap_or(value);
        self.bytes.extend_from_slice(kept);
        let end = crate::layout::narrow(self.bytes.len());
        self.entries.push(TermEntry { path, end, cut: cut || kept.len() < value.len() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_come_back_as_they_were_added() {
        let mut terms = Terms::new();
        terms.push(3, b"abc");
        terms.push(1, b"");
        terms.push_cut(3, b"abc");
        let all: Vec<_> = terms.iter().collect();
        assert_eq!(all[0], (3, Value { bytes: b"abc", cut: false }));
        assert_eq!(all[1], (1, Value { bytes: b"", cut: false }));
        assert_eq!(all[2], (3, Value { bytes: b"abc", cut: true }));
    }

    #[test]
    fn an_overlong_value_is_shortened_and_marked() {
        let mut terms = Terms::new();
        terms.push(1, &vec![7; VALUE_LENGTH_MAX + 1]);
        let (_, value) = terms.iter().next().unwrap();
        assert_eq!(value.bytes.len(), VALUE_LENGTH_MAX);
        assert!(value.cut);
    }
}
