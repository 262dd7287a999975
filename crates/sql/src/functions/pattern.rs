//! Regular expressions, matched in linear time.
//!
//! Patterns are compiled once and kept in a bounded cache that all queries share. Look-around and
//! back-references do not exist here, because they have no linear matcher; a pattern with them, or
//! one that is malformed or too large, gives undefined.

use quick_cache::Equivalent;
use quick_cache::sync::Cache;
use regex::{Regex, RegexBuilder};
use std::sync::LazyLock;

/// Longest pattern in bytes.
const PATTERN_LENGTH_MAX: usize = 16 * 1024;
/// Largest compiled pattern in bytes.
const PATTERN_SIZE_MAX: usize = 1024 * 1024;
/// Largest cache of a pattern's matcher in bytes.
const MATCHER_SIZE_MAX: usize = 512 * 1024;
/// Deepest nesting of groups in a pattern.
const PATTERN_NESTING_MAX: u32 = 100;
/// Compiled patterns kept.
const PATTERNS_CACHED_MAX: usize = 128;

/// True when the pattern matches somewhere in the text; nothing when it is not a pattern.
pub(super) fn matches(text: &str, pattern: &str, modifiers: &str) -> Option<bool> {
    let key = BorrowedKey { pattern, modifiers: Modifiers::parse(modifiers)? };
    let regex = match CACHE.get(&key) {
        Some(regex) => regex,
        None => {
            let regex = compile(&key);
            CACHE.insert(Key { pattern: pattern.into(), modifiers: key.modifiers }, regex.clone());
            regex
        }
    };
    regex.map(|regex| regex.is_match(text))
}

static CACHE: LazyLock<Cache<Key, Option<Regex>>> =
    LazyLock::new(|| Cache::new(PATTERNS_CACHED_MAX));

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Modifiers {
    multi_line: bool,
    dot_matches_new_line: bool,
    ignore_case: bool,
    ignore_whitespace: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    pattern: Box<str>,
    modifiers: Modifiers,
}

// Hashes as `Key` does, so that a hit costs no allocation.
#[derive(Hash)]
struct BorrowedKey<'a> {
    pattern: &'a str,
    modifiers: Modifiers,
}

impl Equivalent<Key> for BorrowedKey<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.pattern == &*key.pattern && self.modifiers == key.modifiers
    }
}

impl Modifiers {
    fn parse(letters: &str) -> Option<Self> {
        let mut modifiers = Self::default();
        for letter in letters.chars() {
            match letter {
                'm' => modifiers.multi_line = true,
                's' => modifiers.dot_matches_new_line = true,
                'i' => modifiers.ignore_case = true,
                'x' => modifiers.ignore_whitespace = true,
                _ => return None,
            }
        }
        Some(modifiers)
    }
}

fn compile(key: &BorrowedKey<'_>) -> Option<Regex> {
    if key.pattern.len() > PATTERN_LENGTH_MAX {
        return None;
    }
    RegexBuilder::new(key.pattern)
        .multi_line(key.modifiers.multi_line)
        .dot_matches_new_line(key.modifiers.dot_matches_new_line)
        .case_insensitive(key.modifiers.ignore_case)
        .ignore_whitespace(key.modifiers.ignore_whitespace)
        .size_limit(PATTERN_SIZE_MAX)
        .dfa_size_limit(MATCHER_SIZE_MAX)
        .nest_limit(PATTERN_NESTING_MAX)
        .build()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modifiers_change_the_match() {
        assert_eq!(matches("Line1\nLine2", "^Line2$", "m"), Some(true));
        assert_eq!(matches("Line1\nLine2", "^Line2$", ""), Some(false));
        assert_eq!(matches("a\nb", "a.b", ""), Some(false));
        assert_eq!(matches("a\nb", "a.b", "s"), Some(true));
        assert_eq!(matches("abcd", "aB c", "ix"), Some(true));
        assert_eq!(matches("abcd", "abc", "g"), None);
    }

    #[test]
    fn what_is_no_pattern_or_too_large_is_unknown() {
        for pattern in ["(", r"(a)\1", "(?=a)", &"a".repeat(20_000), r"\w{1000}{1000}"] {
            assert_eq!(matches("a", pattern, ""), None);
        }
        assert_eq!(matches(&"a".repeat(100_000), "(a*)*b", ""), Some(false));
    }
}
