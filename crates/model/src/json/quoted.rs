//! Finding out that a text lacks a string, without reading it.

use memchr::memmem::Finder;

/// Looks for a string value in compact JSON texts: as it is written there, with its quotes.
#[derive(Clone, Debug)]
pub struct QuotedFinder(Finder<'static>);

impl QuotedFinder {
    /// Looks for this string; nothing where it could be written in several ways, which are those with marks that JSON escapes and
    /// all beyond ASCII.
    pub fn of(text: &str) -> Option<Self> {
        let is_plain = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\';
        text.bytes().all(is_plain).then(|| Self(Finder::new(&format!("\"{text}\"")).into_owned()))
    }

    /// Whether the text of an object has it: false is certain, true is not (the string may be a name, or another member's value).
    pub fn is_in(&self, text: &[u8]) -> bool {
        self.0.find(text).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{parse, parse_compact};
    use crate::value::Value;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_text_with_the_string_is_never_passed_over(text in "[ -~]{0,12}", around in "[ -~\u{e9}]{0,12}") {
            let stored = Value::from(around).to_json();
            let item = format!(r#"{{"x": {stored}, "y" : {}}}"#, Value::from(text.clone()).to_json());
            let mut compact = Vec::new();
            parse_compact(item.as_bytes(), &mut compact).unwrap();
            if let Some(finder) = QuotedFinder::of(&text) {
                prop_assert!(finder.is_in(&compact));
                let lacks = !finder.is_in(stored.as_bytes());
                prop_assert!(!lacks || parse(stored.as_bytes()).unwrap().as_str() != Some(text.as_str()));
            }
        }
    }

    #[test]
    fn strings_that_are_escaped_are_not_looked_for() {
        for text in ["a\"b", "a\\b", "line\n", "caf\u{e9}"] {
            assert!(QuotedFinder::of(text).is_none(), "{text}");
        }
        assert!(QuotedFinder::of("").is_some_and(|finder| finder.is_in(br#"{"a":""}"#)));
    }
}
