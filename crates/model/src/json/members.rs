//! Reading a few members of an object, and passing over the text of the others.
//!
//! Stored items are compact texts that were checked when they were written. So what is passed over
//! is not looked at but for its end; the wanted values are read as any text. A text that is not as
//! expected is read token by token instead, which finds out what is wrong with it.

use super::{JsonError, Reader, parse};
use crate::value::{Object, Value};
use jiter::Peek;
use memchr::memmem::Finder;
use std::sync::{Arc, OnceLock};

/// With more names than this going from member to member is quicker than a search for each.
const SEARCHES_MAX: usize = 4;

/// The names of members that are wanted of many objects.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    names: Vec<Arc<str>>,
    /// What each looks like in a compact text, made when the first text is read; nothing when a name
    /// could be mistaken for something else, or there are too many.
    needles: OnceLock<Option<Vec<Finder<'static>>>>,
}

impl Wanted {
    /// Members with these names, each given once.
    pub fn new(names: Vec<Arc<str>>) -> Self {
        Self { names, needles: OnceLock::new() }
    }

    fn needles(&self) -> Option<&[Finder<'static>]> {
        let make = || {
            // A quote that ends a string is never followed by one of these.
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            let plain = |name: &Arc<str>| !name.is_empty() && name.bytes().all(is_plain);
            let needle = |name: &Arc<str>| Finder::new(&format!("\"{name}\":")).into_owned();
            let few = self.names.len() <= SEARCHES_MAX && self.names.iter().all(plain);
            few.then(|| self.names.iter().map(needle).collect())
        };
        self.needles.get_or_init(make).as_deref()
    }
}

/// Reads the members of an object that have one of these names. Other members are not looked at, so
/// the text must have been checked before, as stored items are; one that was not may seem to have
/// none. A text that is no object is read whole.
pub fn parse_members(text: &[u8], wanted: &Wanted) -> Result<Value, JsonError> {
    let members = flat_members(text, wanted).or_else(|| compact_members(text, &wanted.names));
    match members {
        Some(members) => Ok(Value::object(Object::from_unique(members))),
        None => by_tokens(text, &wanted.names),
    }
}

type Members = Vec<(Arc<str>, Value)>;

/// The members of a compact object without arrays and objects inside, each by a search; nothing when
/// there may be some, or something else is unusual.
///
/// What looks like `"name":` in such a text is a member, unless its first quote is an escaped one.
fn flat_members(text: &[u8], wanted: &Wanted) -> Option<Members> {
    let needles = wanted.needles()?;
    let inner = text.strip_prefix(b"{")?.strip_suffix(b"}")?;
    if memchr::memchr2(b'{', b'[', inner).is_some() {
        return None;
    }
    let mut members = Members::with_capacity(needles.len());
    for (name, needle) in wanted.names.iter().zip(needles) {
        let Some(at) = needle.find(inner) else { continue };
        if !matches!(inner[..at].last(), None | Some(b',')) {
            return None;
        }
        // Behind the bracket that was taken off.
        let value_at = 1 + at + needle.needle().len();
        let end = end_of_value(text, value_at)?;
        members.push((name.clone(), read_value(&text[value_at..end])?));
    }
    Some(members)
}

/// The members of a compact object; nothing when it is not one, or something else is unusual.
fn compact_members(text: &[u8], wanted: &[Arc<str>]) -> Option<Members> {
    let mut members = Members::with_capacity(wanted.len());
    if text.first() != Some(&b'{') || text.last() != Some(&b'}') {
        return None;
    }
    if wanted.is_empty() || text.len() == 2 {
        return Some(members);
    }
    let mut at = 1;
    loop {
        let (name, value_at) = member_at(text, at)?;
        let end = end_of_value(text, value_at)?;
        if let Some(name) = wanted.iter().find(|wanted| wanted.as_bytes() == name) {
            members.push((name.clone(), read_value(&text[value_at..end])?));
            if members.len() == wanted.len() {
                return Some(members);
            }
        }
        match text.get(end)? {
            b',' => at = end + 1,
            b'}' if end + 1 == text.len() => return Some(members),
            _ => return None,
        }
    }
}

/// The name of the member that begins here, and where its value begins.
fn member_at(text: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let rest = text.get(at..)?.strip_prefix(b"\"")?;
    // Names are short: a plain loop is done before a wide search has begun.
    let length = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
    (rest.get(length..length + 2)? == b"\":").then(|| (&rest[..length], at + length + 3))
}

/// Where the value that begins here ends.
fn end_of_value(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at)? {
        b'"' => end_of_string(text, at),
        b'{' | b'[' => end_of_nested(text, at),
        _ => {
            let scalar = text[at..].iter().position(|byte| matches!(byte, b',' | b'}'))?;
            (scalar > 0).then_some(at + scalar)
        }
    }
}

fn end_of_string(text: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

fn end_of_nested(text: &[u8], at: usize) -> Option<usize> {
    let (mut at, mut depth) = (at, 0usize);
    loop {
        match text.get(at)? {
            b'"' => {
                at = end_of_string(text, at)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return Some(at);
        }
    }
}

/// A value from its text.
fn read_value(text: &[u8]) -> Option<Value> {
    match text {
        // A string without escapes is its own text.
        [b'"', inner @ .., b'"'] if memchr::memchr(b'\\', inner).is_none() => {
            std::str::from_utf8(inner).ok().map(|text| Value::String(text.into()))
        }
        _ => parse(text).ok(),
    }
}

/// The same for any text, and with a word on what is wrong with it.
fn by_tokens(text: &[u8], wanted: &[Arc<str>]) -> Result<Value, JsonError> {
    let mut reader = Reader::new(text, None, &[]);
    let peek = reader.tokens.peek().map_err(|error| reader.syntax(&error))?;
    if peek != Peek::Object {
        return reader.whole();
    }
    let mut members: Members = Vec::with_capacity(wanted.len());
    if wanted.is_empty() {
        return Ok(Value::object(Object::from_unique(members)));
    }
    let mut next = reader.tokens.known_object().map(|name| name.map(|name| find(wanted, name)));
    loop {
        let name = match next {
            Ok(Some(name)) => name,
            Ok(None) => break,
            Err(error) => return Err(reader.syntax(&error)),
        };
        let peek = reader.tokens.peek().map_err(|error| reader.syntax(&error))?;
        match name {
            Some(name) => {
                members.push((name, reader.value(peek, 1)?));
                if members.len() == wanted.len() {
                    break;
                }
            }
            None => reader.tokens.known_skip(peek).map_err(|error| reader.syntax(&error))?,
        }
        next = reader.tokens.next_key().map(|name| name.map(|name| find(wanted, name)));
    }
    Ok(Value::object(Object::from_unique(members)))
}

fn find(wanted: &[Arc<str>], name: &str) -> Option<Arc<str>> {
    wanted.iter().find(|wanted| ***wanted == *name).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = r#"{"a":1.0,"b\n":{"x":["]}",2]},"c":"\"","d":null,"e":[1,{"a":2}]}"#;

    #[test]
    fn the_wanted_members_are_read_and_no_others() {
        let whole = parse(TEXT.as_bytes()).unwrap();
        for wanted in [&["a"][..], &["e", "b\n"], &["c", "zz"], &["d", "a", "b\n", "c", "e"], &[]] {
            let names: Vec<Arc<str>> = wanted.iter().map(|name| Arc::from(*name)).collect();
            let read = parse_members(TEXT.as_bytes(), &Wanted::new(names)).unwrap();
            for name in ["a", "b\n", "c", "d", "e", "zz"] {
                let expected = whole.get(name).filter(|_| wanted.contains(&name));
                assert_eq!(read.get(name), expected, "{name} of {wanted:?}");
            }
        }
    }

    #[test]
    fn broken_texts_are_errors_where_they_are_looked_at() {
        let names = Wanted::new(vec![Arc::from("a")]);
        for text in ["", "{", r#"{"a"}"#, r#"{"a":}"#, r#"{"a":1"#, r#"{"a":1,}"#, "nonsense"] {
            assert!(by_tokens(text.as_bytes(), &[Arc::from("z")]).is_err(), "{text}");
        }
        for text in ["", "{", r#"{"a":}"#, r#"{"a":tru}"#, r#"{"a":"x}"#, r#"{"a":[1}"#, "nonsense"]
        {
            assert!(parse_members(text.as_bytes(), &names).is_err(), "{text}");
        }
        assert_eq!(parse_members(b"[1]", &names).unwrap(), parse(b"[1]").unwrap());
    }

    /// Any value, a few levels deep.
    fn value() -> impl Strategy<Value = Value> {
        let text = || "[a-c\"\\\\{}\\[\\],:\\n\u{e9}\u{1f600}]{0,8}";
        let scalar = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            (-1000i32..1000).prop_map(|number| Value::from(f64::from(number) / 8.0)),
            text().prop_map(Value::from),
        ];
        scalar.prop_recursive(3, 24, 4, move |inner| {
            let members = proptest::collection::btree_map(text(), inner.clone(), 0..4);
            prop_oneof![
                proptest::collection::vec(inner, 0..4).prop_map(Value::array),
                members.prop_map(|members| {
                    let members = members.into_iter().map(|(name, value)| (name.into(), value));
                    Value::object(members.collect())
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn both_ways_of_reading_agree(
            members in proptest::collection::btree_map("[a-c\"\\\\]{0,3}", value(), 0..6),
            wanted in proptest::collection::btree_set("[a-c\"\\\\]{0,3}", 0..4),
        ) {
            let members: Object =
                members.into_iter().map(|(name, value)| (name.into(), value)).collect();
            let text = Value::object(members).to_json();
            let wanted: Vec<Arc<str>> = wanted.iter().map(|name| Arc::from(&**name)).collect();
            let read = parse_members(text.as_bytes(), &Wanted::new(wanted.clone())).unwrap();
            prop_assert_eq!(read, by_tokens(text.as_bytes(), &wanted).unwrap(), "{}", text);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in "[{}\\[\\]\"\\\\,:a1 ]{0,24}") {
            let _outcome = parse_members(bytes.as_bytes(), &Wanted::new(vec![Arc::from("a")]));
        }
    }
}
