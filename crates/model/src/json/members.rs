//! Reading a few members of an object, and passing over the text of the others.

use super::{JsonError, Reader};
use crate::value::{Object, Value};
use jiter::Peek;
use std::sync::Arc;

/// Reads the members of an object that have one of these names. What stands behind the last of them
/// is not looked at, so the text must have been checked before, as stored items are; a text that is
/// no object is read whole.
pub fn parse_members(text: &[u8], wanted: &[Arc<str>]) -> Result<Value, JsonError> {
    let mut reader = Reader::new(text, None, &[]);
    let peek = reader.tokens.peek().map_err(|error| reader.syntax(&error))?;
    if peek != Peek::Object {
        return reader.whole();
    }
    let mut members: Vec<(Arc<str>, Value)> = Vec::with_capacity(wanted.len());
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
    use crate::json::parse;

    const TEXT: &str = r#"{"a":1.0,"b\n":{"x":["]}",2]},"c":"\"","d":null,"e":[1,{"a":2}]}"#;

    #[test]
    fn the_wanted_members_are_read_and_no_others() {
        let whole = parse(TEXT.as_bytes()).unwrap();
        for wanted in [&["a"][..], &["e", "b\n"], &["c", "zz"], &["d", "a", "b\n", "c", "e"], &[]] {
            let names: Vec<Arc<str>> = wanted.iter().map(|name| Arc::from(*name)).collect();
            let read = parse_members(TEXT.as_bytes(), &names).unwrap();
            for name in ["a", "b\n", "c", "d", "e", "zz"] {
                let expected = whole.get(name).filter(|_| wanted.contains(&name));
                assert_eq!(read.get(name), expected, "{name} of {wanted:?}");
            }
        }
    }

    #[test]
    fn broken_texts_are_errors() {
        let names = [Arc::from("z")];
        for text in ["", "{", r#"{"a"}"#, r#"{"a":}"#, r#"{"a":1"#, r#"{"a":1,}"#, "nonsense"] {
            assert!(parse_members(text.as_bytes(), &names).is_err(), "{text}");
        }
        assert_eq!(parse_members(b"[1]", &names).unwrap(), parse(b"[1]").unwrap());
    }
}
