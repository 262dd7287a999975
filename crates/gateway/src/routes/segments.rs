//! A request path, split at `/` and percent-decoded once.

use armilla_model::{Error, Result};
use std::borrow::Cow;

/// The deepest path: an attachment of an item.
pub const SEGMENTS_MAX: usize = 8;

/// The decoded segments of a path. Empty ones (leading, trailing and doubled slashes) are dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segments<'a> {
    parts: [Cow<'a, str>; SEGMENTS_MAX],
    count: usize,
}

impl<'a> Segments<'a> {
    /// Splits, then decodes: a `%2F` inside an id does not become a separator.
    pub fn parse(path: &'a str) -> Result<Self> {
        let mut segments = Self::default();
        let mut rest = path;
        // Byte by byte: segments are shorter than what a search of a text takes to begin.
        while let Some(end) = rest.bytes().position(|byte| byte == b'/') {
            let (raw, behind) = rest.split_at(end);
            segments.take(raw)?;
            rest = behind.get(1..).unwrap_or_default();
        }
        segments.take(rest)?;
        Ok(segments)
    }

    /// Takes up segments that are decoded already, as a wire has them that knows no paths.
    ///
    /// # Errors
    ///
    /// When there are more than any path has.
    pub fn of(texts: impl IntoIterator<Item = Cow<'a, str>>) -> Result<Self> {
        let mut segments = Self::default();
        texts.into_iter().try_for_each(|text| segments.push(text))?;
        Ok(segments)
    }

    /// Takes up a segment as the path has it; an empty one is none.
    fn take(&mut self, raw: &'a str) -> Result<()> {
        if raw.is_empty() { Ok(()) } else { self.push(decode(raw)?) }
    }

    fn push(&mut self, text: Cow<'a, str>) -> Result<()> {
        let Some(part) = self.parts.get_mut(self.count) else {
            return Err(Error::NotFound("No resource has a path this long.".to_owned()));
        };
        *part = text;
        self.count += 1;
        Ok(())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether the path is `/`.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The texts in a fixed array, the unused places empty.
    pub fn texts(&self) -> [&str; SEGMENTS_MAX] {
        std::array::from_fn(|position| &*self.parts[position])
    }
}

/// Percent-decodes one segment. A plus is a plus.
fn decode(raw: &str) -> Result<Cow<'_, str>> {
    if !raw.as_bytes().contains(&b'%') {
        return Ok(Cow::Borrowed(raw));
    }
    let malformed = || Error::bad_request("The path is not valid percent-encoded UTF-8.");
    let decoded = percent_decode(raw.as_bytes()).ok_or_else(malformed)?;
    String::from_utf8(decoded).map(Cow::Owned).map_err(|_| malformed())
}

/// Decodes `%XX`; nothing when a percent sign is not followed by two hexadecimal digits.
pub(crate) fn percent_decode(raw: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.iter().position(|&byte| byte == b'%') {
        let (plain, encoded) = rest.split_at(at);
        decoded.extend_from_slice(plain);
        let (&[_, high, low], behind) = encoded.split_first_chunk::<3>()?;
        decoded.push(hex_digit(high)? << 4 | hex_digit(low)?);
        rest = behind;
    }
    decoded.extend_from_slice(rest);
    Some(decoded)
}

pub(crate) fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn decodes_after_splitting() {
        let segments = Segments::parse("/dbs/a%2Fb/%C3%BC%20x+y/").unwrap();
        assert_eq!(&segments.texts()[..3], ["dbs", "a/b", "ü x+y"]);
        assert_eq!(segments.len(), 3);
    }

    #[test]
    fn broken_encodings_are_refused() {
        for path in ["/%", "/%4", "/%zz", "/%ff%fe"] {
            assert!(matches!(Segments::parse(path), Err(Error::BadRequest(_))), "{path}");
        }
        assert!(matches!(Segments::parse("/1/2/3/4/5/6/7/8/9"), Err(Error::NotFound(_))));
    }

    #[test]
    fn decoded_segments_are_taken_as_they_are() {
        let of = |texts: &[&'static str]| Segments::of(texts.iter().map(|text| (*text).into()));
        let segments = of(&["dbs", "a/b", "colls", "ü x%41+y"]).unwrap();
        assert_eq!(segments, Segments::parse("/dbs/a%2Fb/colls/ü%20x%2541+y").unwrap());
        assert!(of(&["x"; SEGMENTS_MAX + 1]).is_err());
    }

    proptest! {
        #[test]
        fn any_path_is_answered(path in "[/%a-zA-Z0-9=+ü]{0,64}") {
            if let Ok(segments) = Segments::parse(&path) {
                let found = super::super::Route::find(&segments);
                prop_assert!(!segments.is_empty() || found.is_some());
            }
        }
    }
}
