//! Letter case without regard to locale: one character becomes one character.
//!
//! That keeps results bounded and positions stable. `ß` therefore has no upper case, as in the
//! invariant culture of .NET.

use std::borrow::Cow;

/// The text in lower case.
pub(super) fn lower(text: &str) -> String {
    if text.is_ascii() { text.to_ascii_lowercase() } else { text.chars().map(lower_char).collect() }
}

/// The text in upper case.
pub(super) fn upper(text: &str) -> String {
    if text.is_ascii() { text.to_ascii_uppercase() } else { text.chars().map(upper_char).collect() }
}

/// A form in which texts that differ only in case are equal.
pub(super) fn fold(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase()) {
        return Cow::Borrowed(text);
    }
    // Through upper case, so that the two small sigmas and the two small s are one.
    Cow::Owned(text.chars().map(|char| lower_char(upper_char(char))).collect())
}

fn lower_char(char: char) -> char {
    let mut lower = char.to_lowercase();
    if lower.len() == 1 { lower.next().unwrap_or(char) } else { char }
}

fn upper_char(char: char) -> char {
    let mut upper = char.to_uppercase();
    if upper.len() == 1 { upper.next().unwrap_or(char) } else { char }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_character_stays_one() {
        assert_eq!(upper("straße é"), "STRAßE É");
        assert_eq!(lower("ÅB İ"), "åb İ");
        assert_eq!(fold("ΣΑΣ"), fold("σας"));
        assert_eq!(fold("Abc"), "abc");
    }
}
