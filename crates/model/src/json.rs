//! Reading and writing JSON text.
//!
//! One pass does everything a write needs: the text is checked (syntax with line and column, depth,
//! UTF-8, numbers within a double's range), copied without insignificant whitespace but with its
//! numbers exactly as written, and handed back as a [`Value`]. Of members with one name the last
//! counts. The tokens
//! come from `jiter`; what it does not check is checked here.

mod members;
mod names;
mod objects;
mod quoted;
mod repeated;

pub use members::{MemberTexts, Wanted, is_copied_as_written, member_texts, parse_members};
pub use objects::{MemberReader, RawMembers, raw_objects, read_objects};
pub use quoted::QuotedFinder;

use crate::limits::NESTING_MAX;
use crate::number::Number;
use crate::value::{Object, Value};
use jiter::{Jiter, JiterError, Peek};
use std::fmt;
use std::sync::Arc;

/// Why a text is not acceptable JSON, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError {
    /// What is wrong, in words.
    pub message: String,
    /// Line of the offending character, from 1.
    pub line: usize,
    /// Column of the offending character, from 1.
    pub column: usize,
}

impl fmt::Display for JsonError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} at line {} column {}", self.message, self.line, self.column)
    }
}

impl std::error::Error for JsonError {}

/// Reads one JSON value; anything but whitespace behind it is an error.
pub fn parse(text: &[u8]) -> Result<Value, JsonError> {
    Reader::new(text, None, &[]).whole()
}

/// What [`parse_item`] found.
#[derive(Clone, Debug)]
pub struct ParsedItem {
    /// The document without the members that were left out.
    pub value: Value,
    /// Where the value of the top-level member `id` begins in the compact text.
    pub id_at: Option<usize>,
}

/// Reads a document and appends its compact text like [`parse_compact`], without the top-level
/// members named in `left_out`. An `id` that is there twice is refused.
pub fn parse_item(
    text: &[u8],
    left_out: &[&str],
    out: &mut Vec<u8>,
) -> Result<ParsedItem, JsonError> {
    crate::tally::count(crate::tally::Work::ItemParse);
    out.reserve(text.len());
    let mut reader = Reader::of_item(Jiter::new(text), left_out, out);
    let value = reader.whole()?;
    Ok(ParsedItem { value, id_at: reader.id_at })
}

/// Reads one JSON value and appends its compact text to `out`: whitespace between tokens is gone,
/// numbers and strings are as they were written.
pub fn parse_compact(text: &[u8], out: &mut Vec<u8>) -> Result<Value, JsonError> {
    out.reserve(text.len());
    Reader::new(text, Some(out), &[]).whole()
}

/// Room for the members of an object that is being read.
const MEMBERS_ROOM: usize = 8;

struct Reader<'j, 'o> {
    tokens: Jiter<'j>,
    compact: Option<&'o mut Vec<u8>>,
    left_out: &'o [&'o str],
    id_at: Option<usize>,
    /// The text is an item, which has one id.
    is_item: bool,
    /// Where the members of the objects that are being read begin in the compact text.
    starts: Vec<usize>,
}

impl<'j, 'o> Reader<'j, 'o> {
    fn new(text: &'j [u8], compact: Option<&'o mut Vec<u8>>, left_out: &'o [&'o str]) -> Self {
        let tokens = Jiter::new(text);
        Self { tokens, compact, left_out, id_at: None, is_item: false, starts: Vec::new() }
    }

    fn of_item(tokens: Jiter<'j>, left_out: &'o [&'o str], out: &'o mut Vec<u8>) -> Self {
        let compact = Some(out);
        Self { tokens, compact, left_out, id_at: None, is_item: true, starts: Vec::new() }
    }

    fn whole(&mut self) -> Result<Value, JsonError> {
        let peek = self.tokens.peek().map_err(|error| self.syntax(&error))?;
        let value = self.value(peek, 0)?;
        self.tokens.finish().map_err(|error| self.syntax(&error))?;
        Ok(value)
    }

    fn value(&mut self, peek: Peek, depth: usize) -> Result<Value, JsonError> {
        if depth >= NESTING_MAX {
            return Err(self.refusal(format!("nesting is deeper than {NESTING_MAX} levels")));
        }
        match peek {
            Peek::Null => self.tokens.known_null().map_err(|error| self.syntax(&error)).map(|()| {
                self.copy(b"null");
                Value::Null
            }),
            Peek::True | Peek::False => {
                let bool = self.tokens.known_bool(peek).map_err(|error| self.syntax(&error))?;
                self.copy(if bool { b"true" } else { b"false" });
                Ok(Value::Bool(bool))
            }
            Peek::String => self.string(),
            Peek::Array => self.array(depth),
            Peek::Object => self.object(depth),
            _ => self.number(peek),
        }
    }

    fn number(&mut self, peek: Peek) -> Result<Value, JsonError> {
        let start = self.tokens.current_index();
        if let Err(error) = self.tokens.known_number_bytes(peek) {
            return Err(self.syntax(&error));
        }
        let text = std::str::from_utf8(self.tokens.slice_to_current(start))
            .map_err(|_| self.refusal("a number is not text".to_owned()))?;
        let number = read_number(text)
            .ok_or_else(|| self.refusal(format!("'{text}' is not a number a double can hold")))?;
        self.copy(text.as_bytes());
        Ok(Value::Number(number))
    }

    fn string(&mut self) -> Result<Value, JsonError> {
        let start = self.tokens.current_index();
        let text: Arc<str> = match self.tokens.known_str() {
            Ok(text) => text.into(),
            Err(error) => return Err(self.syntax(&error)),
        };
        if let Some(out) = &mut self.compact {
            // Whoever escapes something needs more bytes for it than it has.
            let written = self.tokens.slice_to_current(start);
            if written.len() == text.len() + 2 {
                out.extend_from_slice(written);
            } else {
                write_string(&text, out);
            }
        }
        Ok(Value::String(text))
    }

    fn array(&mut self, depth: usize) -> Result<Value, JsonError> {
        self.copy(b"[");
        let mut elements = Vec::new();
        let mut next = self.tokens.known_array().map_err(|error| self.syntax(&error))?;
        while let Some(peek) = next {
            if !elements.is_empty() {
                self.copy(b",");
            }
            elements.push(self.value(peek, depth + 1)?);
            next = self.tokens.array_step().map_err(|error| self.syntax(&error))?;
        }
        self.copy(b"]");
        Ok(Value::array(elements))
    }

    fn object(&mut self, depth: usize) -> Result<Value, JsonError> {
        self.copy(b"{");
        let mut members: Vec<(Arc<str>, Value)> = Vec::with_capacity(MEMBERS_ROOM);
        let outer = self.starts.len();
        let mut next = self.first_name()?;
        while let Some(name) = next {
            if depth == 0 && self.left_out.contains(&&*name) {
                self.pass_over(depth)?;
                next = self.next_name()?;
                continue;
            }
            if !members.is_empty() {
                self.copy(b",");
            }
            if let Some(out) = &mut self.compact {
                if self.starts.capacity() == 0 {
                    self.starts.reserve(MEMBERS_ROOM);
                }
                self.starts.push(out.len());
                write_string(&name, out);
                out.push(b':');
                if depth == 0 && &*name == "id" {
                    self.id_at = Some(out.len());
                }
            }
            let peek = self.tokens.peek().map_err(|error| self.syntax(&error))?;
            let value = self.value(peek, depth + 1)?;
            members.push((name, value));
            next = self.next_name()?;
        }
        if let Some(kept) = repeated::kept(members.iter().map(|(name, _)| &**name)) {
            self.drop_repeated(&mut members, &kept, outer, depth)?;
        }
        self.starts.truncate(outer);
        self.copy(b"}");
        Ok(Value::object(Object::from_unique(members)))
    }

    /// Checks the next value without copying it.
    fn pass_over(&mut self, depth: usize) -> Result<(), JsonError> {
        let compact = self.compact.take();
        let peek = self.tokens.peek().map_err(|error| self.syntax(&error));
        let checked = peek.and_then(|peek| self.value(peek, depth + 1));
        self.compact = compact;
        checked.map(drop)
    }

    fn first_name(&mut self) -> Result<Option<Arc<str>>, JsonError> {
        match self.tokens.known_object() {
            Ok(name) => Ok(name.map(names::shared)),
            Err(error) => Err(self.syntax(&error)),
        }
    }

    fn next_name(&mut self) -> Result<Option<Arc<str>>, JsonError> {
        match self.tokens.next_key() {
            Ok(name) => Ok(name.map(names::shared)),
            Err(error) => Err(self.syntax(&error)),
        }
    }

    /// Leaves the last member of each name, in the value and in the compact text.
    fn drop_repeated(
        &mut self,
        members: &mut Vec<(Arc<str>, Value)>,
        kept: &[bool],
        outer: usize,
        depth: usize,
    ) -> Result<(), JsonError> {
        let is_root = depth == 0;
        let id_is_dropped =
            members.iter().zip(kept).any(|(member, kept)| !kept && &*member.0 == "id");
        if self.is_item && is_root && id_is_dropped {
            return Err(self.refusal("the property 'id' is there twice".to_owned()));
        }
        repeated::retain(members, kept);
        if let Some(out) = &mut self.compact {
            let starts = repeated::cut(out, &self.starts[outer..], kept);
            let id = members.iter().position(|member| &*member.0 == "id").filter(|_| is_root);
            if let Some(start) = id.and_then(|id| starts.get(id)) {
                self.id_at = Some(start + "\"id\":".len());
            }
        }
        Ok(())
    }

    fn copy(&mut self, bytes: &[u8]) {
        if let Some(out) = &mut self.compact {
            out.extend_from_slice(bytes);
        }
    }

    fn syntax(&self, error: &JiterError) -> JsonError {
        let position = self.tokens.error_position(error.index);
        JsonError {
            message: error.error_type.to_string(),
            line: position.line,
            column: position.column,
        }
    }

    fn refusal(&self, message: String) -> JsonError {
        let position = self.tokens.current_position();
        JsonError { message, line: position.line, column: position.column }
    }
}

/// Reads a JSON number; `None` when a double cannot hold it.
pub fn read_number(text: &str) -> Option<Number> {
    if let Ok(int) = text.parse::<i64>() {
        // "-0" is a double; as an integer its sign would be lost.
        return Some(if int == 0 && text.starts_with('-') {
            Number::Float(-0.0)
        } else {
            Number::Int(int)
        });
    }
    text.parse::<f64>().ok().filter(|float| float.is_finite()).map(Number::Float)
}

/// Appends a quoted, escaped JSON string.
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let bytes = text.as_bytes();
    let is_plain = |byte: u8| byte >= 0x20 && byte != b'"' && byte != b'\\';
    // Nearly all are; without a way out the compiler looks at many bytes at a time.
    if bytes.iter().fold(true, |plain, &byte| plain & is_plain(byte)) {
        out.extend_from_slice(bytes);
        out.push(b'"');
        return;
    }
    let mut copied = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        if is_plain(byte) {
            continue;
        }
        out.extend_from_slice(&bytes[copied..at]);
        copied = at + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            _ => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(byte >> 4)]);
                out.push(HEX[usize::from(byte & 15)]);
            }
        }
    }
    out.extend_from_slice(&bytes[copied..]);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compact(text: &str) -> Result<String, JsonError> {
        let mut out = Vec::new();
        parse_compact(text.as_bytes(), &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn whitespace_goes_and_numbers_stay_as_written() {
        let text = " { \"a\" : [ 1.0 , 1e2, -0 ] ,\n \"b\\u00e9\" : \"x\\/y\\n\" } ";
        assert_eq!(compact(text).unwrap(), r#"{"a":[1.0,1e2,-0],"bé":"x/y\n"}"#);
    }

    #[test]
    fn errors_say_line_and_column() {
        let error = compact("{\"a\": 1,\n \"b\" 2}").unwrap_err();
        assert_eq!((error.line, error.column), (2, 6), "{error}");
    }

    #[test]
    fn what_is_refused() {
        let deep = format!("{}{}", "[".repeat(129), "]".repeat(129));
        let fits = format!("{}{}", "[".repeat(128), "]".repeat(128));
        assert!(compact(&fits).is_ok());
        for text in ["1e400", &deep, "{} x", "", "{'a':1}", "[1,]", "nul", "NaN"] {
            assert!(compact(text).is_err(), "{text} was accepted");
        }
        assert!(parse(b"\"\xff\"").is_err());
        assert!(parse(b"\"\\ud800\"").is_err());
    }

    #[test]
    fn items_lose_the_members_that_are_left_out() {
        let mut out = Vec::new();
        let text = br#"{"_ts": {"a":1}, "a": {"_ts": 1}, "_x":2, "id": "b", "_ts2":3, "_rid":4}"#;
        let item = parse_item(text, &["_ts", "_rid"], &mut out).unwrap();
        assert_eq!(out, br#"{"a":{"_ts":1},"_x":2,"id":"b","_ts2":3}"#);
        assert!(item.value.get("_ts").is_none());
        assert!(out[item.id_at.unwrap()..].starts_with(b"\"b\""));
    }

    #[test]
    fn raw_objects_keep_the_text_of_their_values() {
        let objects = raw_objects(br#" [ {"a": {"n" : 1.0}, "b":"x"} , {} ] "#, &["b"]).unwrap();
        assert_eq!(objects.len(), 2);
        assert_eq!(objects[0][0], ("a".into(), br#"{"n" : 1.0}"#.as_slice()));
        assert_eq!(objects[0][1], ("b".into(), br#""x""#.as_slice()));
        for text in ["{}", "[1]", "[{]", "[] x", r#"[{"a":{"b"}}]"#] {
            assert!(raw_objects(text.as_bytes(), &[]).is_err(), "{text} was accepted");
        }
    }
}
