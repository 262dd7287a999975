//! Arrays of objects, read member by member: some values stay text, some are items that are read where they stand.

use super::{JsonError, ParsedItem, Reader, repeated};
use jiter::{Jiter, Peek};
use std::borrow::Cow;

/// The members of an object, each value as the text it has.
pub type RawMembers<'j> = Vec<(Cow<'static, str>, &'j [u8])>;

/// Reads an array of objects no deeper than their members: syntax is checked, values stay text. The
/// limits of [`parse`](super::parse) on names, depth and numbers are left to whoever reads the values. Names that the
/// caller expects cost no memory.
pub fn raw_objects<'j>(
    text: &'j [u8],
    expected: &[&'static str],
) -> Result<Vec<RawMembers<'j>>, JsonError> {
    read_objects(text, |object| {
        let mut members = RawMembers::new();
        while let Some(name) = object.next_name(expected)? {
            members.push((name, object.raw()?));
        }
        if let Some(kept) = repeated::kept(members.iter().map(|(name, _)| &**name)) {
            repeated::retain(&mut members, &kept);
        }
        Ok(members)
    })
}

/// Reads an array of objects; `read` is called for each and takes its members to the end.
pub fn read_objects<'j, T>(
    text: &'j [u8],
    mut read: impl FnMut(&mut MemberReader<'j>) -> Result<T, JsonError>,
) -> Result<Vec<T>, JsonError> {
    let mut members = MemberReader { reader: Reader::new(text, None, &[]), is_begun: false };
    let reader = &mut members.reader;
    let peek = reader.tokens.peek().map_err(|error| reader.syntax(&error))?;
    if peek != Peek::Array {
        return Err(reader.refusal("expected an array".to_owned()));
    }
    let mut objects = Vec::new();
    let mut next = reader.tokens.known_array().map_err(|error| reader.syntax(&error))?;
    while let Some(peek) = next {
        if peek != Peek::Object {
            return Err(members.reader.refusal("expected an object".to_owned()));
        }
        members.is_begun = false;
        objects.push(read(&mut members)?);
        let reader = &mut members.reader;
        next = reader.tokens.array_step().map_err(|error| reader.syntax(&error))?;
    }
    let reader = &mut members.reader;
    reader.tokens.finish().map_err(|error| reader.syntax(&error))?;
    Ok(objects)
}

/// The members of an object that is being read. Behind each name one of the other calls takes its value.
pub struct MemberReader<'j> {
    reader: Reader<'j, 'static>,
    is_begun: bool,
}

impl<'j> MemberReader<'j> {
    /// The name of the next member; nothing behind the last one. Names that the caller expects cost no memory.
    pub fn next_name(
        &mut self,
        expected: &[&'static str],
    ) -> Result<Option<Cow<'static, str>>, JsonError> {
        let keep = |name: &str| -> Cow<'static, str> {
            let known = expected.iter().find(|known| **known == name);
            known.map_or_else(|| name.to_owned().into(), |known| (*known).into())
        };
        let tokens = &mut self.reader.tokens;
        let next = match std::mem::replace(&mut self.is_begun, true) {
            true => tokens.next_key().map(|name| name.map(keep)),
            false => tokens.known_object().map(|name| name.map(keep)),
        };
        next.map_err(|error| self.reader.syntax(&error))
    }

    /// Passes over a value, of which only the syntax is checked, and returns its text.
    pub fn raw(&mut self) -> Result<&'j [u8], JsonError> {
        let reader = &mut self.reader;
        let peek = reader.tokens.peek().map_err(|error| reader.syntax(&error))?;
        let start = reader.tokens.current_index();
        reader.tokens.known_skip(peek).map_err(|error| reader.syntax(&error))?;
        Ok(reader.tokens.slice_to_current(start))
    }

    /// Reads a value like [`parse_item`](super::parse_item). Returns how many bytes its text has, too. Behind an error
    /// nothing more can be read.
    pub fn item(
        &mut self,
        left_out: &[&str],
        out: &mut Vec<u8>,
    ) -> Result<(ParsedItem, usize), JsonError> {
        crate::tally::count(crate::tally::Work::ItemParse);
        let tokens = std::mem::replace(&mut self.reader.tokens, Jiter::new(b""));
        let mut reader = Reader::of_item(tokens, left_out, out);
        let peek = reader.tokens.peek().map_err(|error| reader.syntax(&error))?;
        let start = reader.tokens.current_index();
        let value = reader.value(peek, 0)?;
        let id_at = reader.id_at;
        self.reader.tokens = reader.tokens;
        Ok((ParsedItem { value, id_at }, self.reader.tokens.current_index() - start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse_item;

    fn read(text: &str) -> Result<Vec<(String, usize, Vec<String>)>, JsonError> {
        read_objects(text.as_bytes(), |object| {
            let (mut item, mut size, mut others) = (String::new(), 0, Vec::new());
            while let Some(name) = object.next_name(&["body"])? {
                if name == "body" {
                    let mut out = Vec::new();
                    size = object.item(&["_ts"], &mut out)?.1;
                    item = String::from_utf8_lossy(&out).into_owned();
                } else {
                    others.push(String::from_utf8_lossy(object.raw()?).into_owned());
                }
            }
            Ok((item, size, others))
        })
    }

    #[test]
    fn items_are_read_where_they_stand() {
        let body = r#"{ "id" : "a\u0062", "_ts": 1, "n": [1.50, {"x": null}] }"#;
        let text = format!(r#" [{{"kind":"x", "body": {body} ,"n" : 7}}, {{}}, {{"body":3}}] "#);
        let objects = read(&text).unwrap();
        let mut out = Vec::new();
        parse_item(body.as_bytes(), &["_ts"], &mut out).unwrap();
        assert_eq!(objects[0].0.as_bytes(), out);
        assert_eq!(
            (objects[0].1, &objects[0].2[..]),
            (body.len(), &["\"x\"".to_owned(), "7".to_owned()][..])
        );
        assert_eq!(objects[1], (String::new(), 0, Vec::new()));
        assert_eq!((&*objects[2].0, objects[2].1), ("3", 1));
    }

    #[test]
    fn what_is_broken_is_refused_wherever_it_is() {
        let texts = [
            "",
            "{}",
            "[",
            "[1]",
            "[{]",
            "[{\"a\"}]",
            "[{\"a\":}]",
            "[{\"body\":{]}]",
            "[{\"body\":1e400}]",
            "[{\"body\":{\"id\":\"a\",\"id\":\"b\"}}]",
            "[{}] x",
            "[{},]",
            "[{\"a\":1,}]",
        ];
        for text in texts {
            assert!(read(text).is_err(), "{text}");
        }
        let error = read("[{\"a\":1},\n{\"body\":{\"b\" 2}}]").unwrap_err();
        assert_eq!(error.line, 2, "{error}");
    }
}
