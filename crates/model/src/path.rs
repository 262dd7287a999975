//! Paths into documents: `/a/b`, `/"odd name"/c` (either kind of quote), as policies and partition keys write them.

use crate::error::{Error, Result};
use crate::value::Value;
use std::fmt;

/// A path of property names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Path(pub Vec<String>);

impl Path {
    /// Reads a path; every segment must be a property name (no wildcard, no array step).
    pub fn parse(text: &str) -> Result<Self> {
        let segments = split_segments(text)?;
        let plain = |segment: &Segment| match segment {
            Segment::Quoted(name) => Some(name.clone()),
            Segment::Bare(name) if !matches!(name.as_str(), "*" | "?" | "[]" | "") => {
                Some(name.clone())
            }
            Segment::Bare(_) => None,
        };
        let names: Option<Vec<_>> = segments.iter().map(plain).collect();
        names.filter(|names| !names.is_empty()).map(Self).ok_or_else(|| {
            Error::bad_request(format!("The path '{text}' must name a property, like '/a/b'."))
        })
    }

    /// The value at the path, or `None` where a step leads nowhere.
    pub fn find<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        self.0.iter().try_fold(value, |value, name| value.get(name))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|name| write!(formatter, "/{name}"))
    }
}

/// One step of a written path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// As written: a name, `*`, `?` or `[]`.
    Bare(String),
    /// A name in quotes, whatever it contains.
    Quoted(String),
}

/// Splits a path at its slashes, minding quoted names.
pub fn split_segments(text: &str) -> Result<Vec<Segment>> {
    let malformed = |why: &str| Error::bad_request(format!("The path '{text}' {why}."));
    let mut rest = text.strip_prefix('/').ok_or_else(|| malformed("must begin with '/'"))?;
    let mut segments = Vec::new();
    loop {
        let quote = rest.chars().next().filter(|first| matches!(first, '"' | '\''));
        let (segment, behind) = match quote {
            Some(quote) => {
                let (name, behind) = unquote(&rest[1..], quote)
                    .ok_or_else(|| malformed("has a quote that is never closed"))?;
                (Segment::Quoted(name), behind)
            }
            None => {
                let end = rest.find('/').unwrap_or(rest.len());
                (Segment::Bare(rest[..end].to_owned()), &rest[end..])
            }
        };
        segments.push(segment);
        if behind.is_empty() {
            return Ok(segments);
        }
        rest =
            behind.strip_prefix('/').ok_or_else(|| malformed("has text behind a quoted name"))?;
    }
}

fn unquote(text: &str, quote: char) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            _ if character == quote => return Some((name, &text[at + 1..])),
            '\\' => name.push(characters.next()?.1),
            _ => name.push(character),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_with_and_without_quotes() {
        assert_eq!(Path::parse("/a/b").unwrap().0, ["a", "b"]);
        assert_eq!(Path::parse(r#"/"odd/name"/c"#).unwrap().0, ["odd/name", "c"]);
        assert_eq!(Path::parse(r#"/'le"vel 1'/'a/b'"#).unwrap().0, ["le\"vel 1", "a/b"]);
        for text in ["", "a", "/", "/a/*", "/a/[]", r#"/"open"#, r#"/"a"b"#] {
            assert!(Path::parse(text).is_err(), "{text} was accepted");
        }
    }
}
