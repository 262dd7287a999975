//! Reading a few members of an object, and passing over the text of the others.
//!
//! Stored items are compact texts that were checked when they were written. So what is passed over
//! is not looked at but for its end; the wanted values are read as any text. A text that is not as
//! expected is read token by token instead, which finds out what is wrong with it.

use super::{JsonError, Reader, parse};
use crate::value::{Object, Value};
use jiter::Peek;
use memchr::memmem::Finder;
use smallvec::{SmallVec, smallvec};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// With more names than this going from member to member is quicker than a search for each.
const SEARCHES_MAX: usize = 4;
/// What a server adds to an item stands at its end, and is rarely longer than this.
const SYSTEM_TAIL: usize = 320;

/// The names of members that are wanted of many objects.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    names: Vec<Arc<str>>,
    /// What each looks like in a compact text, made when the first text is read; nothing when a name
    /// could be mistaken for something else, or there are too many.
    needles: OnceLock<Option<Vec<Needle>>>,
}

/// The beginning of a member in a compact text.
#[derive(Clone, Debug)]
struct Needle {
    finder: Finder<'static>,
    /// The name is like those that servers give.
    is_system: bool,
}

impl Needle {
    fn of(name: &str) -> Self {
        let finder = Finder::new(&format!("\"{name}\":")).into_owned();
        Self { finder, is_system: name.starts_with('_') }
    }

    fn len(&self) -> usize {
        self.finder.needle().len()
    }

    /// Where it is in a text in which it is once at most.
    fn find(&self, text: &[u8]) -> Option<usize> {
        let tail = text.len().saturating_sub(SYSTEM_TAIL);
        let in_tail = if self.is_system { self.finder.find(&text[tail..]) } else { None };
        in_tail.map(|at| tail + at).or_else(|| self.finder.find(text))
    }
}

impl Wanted {
    /// Members with these names, each given once.
    pub fn new(names: Vec<Arc<str>>) -> Self {
        Self { names, needles: OnceLock::new() }
    }

    fn needles(&self) -> Option<&[Needle]> {
        let make = || {
            // A quote that ends a string is never followed by one of these.
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            let plain = |name: &Arc<str>| !name.is_empty() && name.bytes().all(is_plain);
            let few = self.names.len() <= SEARCHES_MAX && self.names.iter().all(plain);
            few.then(|| self.names.iter().map(|name| Needle::of(name)).collect())
        };
        self.needles.get_or_init(make).as_deref()
    }
}

/// Reads the members of an object that have one of these names. Other members are not looked at, so
/// the text must have been checked before, as stored items are; one that was not may seem to have
/// none. A text that is no object is read whole.
pub fn parse_members(text: &[u8], wanted: &Wanted) -> Result<Value, JsonError> {
    let read = |spans: Spans| -> Option<Members> {
        let found = wanted.names.iter().zip(spans).filter_map(|(name, span)| Some((name, span?)));
        found.map(|(name, span)| Some((name.clone(), read_value(&text[span])?))).collect()
    };
    match spans(text, wanted).and_then(read) {
        Some(members) => Ok(Value::object(Object::from_unique(members))),
        None => by_tokens(text, &wanted.names),
    }
}

/// The texts of members in the order of the wanted names; nothing where an object has no such member.
pub type MemberTexts<'t> = SmallVec<[Option<Cow<'t, [u8]>>; SEARCHES_MAX]>;

/// Finds the members of an object like [`parse_members`], and leaves their values as they are written.
pub fn member_texts<'t>(text: &'t [u8], wanted: &Wanted) -> Result<MemberTexts<'t>, JsonError> {
    if let Some(spans) = spans(text, wanted) {
        let text_of = |span: Range<usize>| Cow::Borrowed(&text[span]);
        return Ok(spans.into_iter().map(|span| span.map(text_of)).collect());
    }
    let members = by_tokens(text, &wanted.names)?;
    let text_of = |value: &Value| Cow::Owned(value.to_json().into_bytes());
    Ok(wanted.names.iter().map(|name| members.get(name).map(text_of)).collect())
}

/// True when a value that is written like this in a stored item is written like this everywhere: its
/// text can be copied.
pub fn is_copied_as_written(value: &[u8]) -> bool {
    /// Digits of an integer that every double can hold.
    const DIGITS_MAX: usize = 15;
    match value {
        [b'"', inner @ ..] => memchr::memchr(b'\\', inner).is_none(),
        [b't' | b'f' | b'n', ..] | b"0" => true,
        [b'-', digits @ ..] | digits => {
            digits.len() <= DIGITS_MAX
                && digits.first().is_some_and(|first| *first != b'0')
                && digits.iter().all(u8::is_ascii_digit)
        }
    }
}

type Members = Vec<(Arc<str>, Value)>;
/// Where the values of the wanted members are.
type Spans = SmallVec<[Option<Range<usize>>; SEARCHES_MAX]>;

fn spans(text: &[u8], wanted: &Wanted) -> Option<Spans> {
    flat_spans(text, wanted).or_else(|| compact_spans(text, &wanted.names))
}

/// The members of a compact object without arrays and objects inside, each by a search; nothing when
/// there may be some, or something else is unusual.
///
/// What looks like `"name":` in such a text is a member, unless its first quote is an escaped one.
fn flat_spans(text: &[u8], wanted: &Wanted) -> Option<Spans> {
    let needles = wanted.needles()?;
    let inner = text.strip_prefix(b"{")?.strip_suffix(b"}")?;
    if memchr::memchr2(b'{', b'[', inner).is_some() {
        return None;
    }
    let span_of = |needle: &Needle| {
        let Some(at) = needle.find(inner) else { return Some(None) };
        if !matches!(inner[..at].last(), None | Some(b',')) {
            return None;
        }
        // Behind the bracket that was taken off.
        let value_at = 1 + at + needle.len();
        Some(Some(value_at..end_of_value(text, value_at)?))
    };
    needles.iter().map(span_of).collect()
}

/// The members of a compact object; nothing when it is not one, or something else is unusual.
fn compact_spans(text: &[u8], wanted: &[Arc<str>]) -> Option<Spans> {
    let mut spans: Spans = smallvec![None; wanted.len()];
    if text.first() != Some(&b'{') || text.last() != Some(&b'}') {
        return None;
    }
    if wanted.is_empty() || text.len() == 2 {
        return Some(spans);
    }
    let (mut at, mut missing) = (1, wanted.len());
    loop {
        let (name, value_at) = member_at(text, at)?;
        let end = end_of_value(text, value_at)?;
        if let Some(number) = wanted.iter().position(|wanted| wanted.as_bytes() == name) {
            missing -= usize::from(spans[number].is_none());
            spans[number] = Some(value_at..end);
            if missing == 0 {
                return Some(spans);
            }
        }
        match text.get(end)? {
            b',' => at = end + 1,
            b'}' if end + 1 == text.len() => return Some(spans),
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

    #[test]
    fn texts_that_are_copied_are_those_that_would_be_written() {
        let copied = ["\"a\"", "\"\"", "true", "false", "null", "0", "7", "-7", "123456789012345"];
        for text in copied {
            assert!(is_copied_as_written(text.as_bytes()), "{text}");
            assert_eq!(parse(text.as_bytes()).unwrap().to_json(), text);
        }
        for text in ["\"\\u0061\"", "1.0", "-0", "1e3", "1234567890123456", "[1]", "{}", "-"] {
            assert!(!is_copied_as_written(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn members_of_servers_are_found_at_the_end_and_elsewhere() {
        let long = "x".repeat(2 * SYSTEM_TAIL);
        let wanted = Wanted::new(vec!["_rid".into(), "a".into(), "_zz".into()]);
        for text in [
            format!(r#"{{"a":"{long}","_rid":"r"}}"#),
            format!(r#"{{"_rid":"r","a":"{long}"}}"#),
            format!(r#"{{"_rid":"r","a":"{long}","n":[1]}}"#),
        ] {
            let texts = member_texts(text.as_bytes(), &wanted).unwrap();
            let texts: Vec<_> = texts.iter().map(Option::as_deref).collect();
            let quoted = format!("\"{long}\"");
            assert_eq!(texts, [Some(&b"\"r\""[..]), Some(quoted.as_bytes()), None]);
        }
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
            prop_assert_eq!(&read, &by_tokens(text.as_bytes(), &wanted).unwrap(), "{}", text);
            let texts = member_texts(text.as_bytes(), &Wanted::new(wanted.clone())).unwrap();
            for (name, text) in wanted.iter().zip(texts) {
                let value = text.map(|text| parse(&text).unwrap());
                prop_assert_eq!(value.as_ref(), read.get(name));
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in "[{}\\[\\]\"\\\\,:a1 ]{0,24}") {
            let _outcome = parse_members(bytes.as_bytes(), &Wanted::new(vec![Arc::from("a")]));
        }
    }
}
