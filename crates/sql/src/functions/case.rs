//! Letter case without regard to locale: one character becomes one character.
//!
//! One table of 1,013 pairs serves UPPER, LOWER and every comparison that ignores case. It is the
//! service's: the simple mappings of Unicode 5.1 that go both ways. `ß`, `ς`, `ı`, `ſ` and `µ` have no
//! other case in it, nor have letters that Unicode got later.

mod pairs;

use std::borrow::Cow;
use std::sync::LazyLock;

/// The text in lower case.
pub(super) fn lower(text: &str) -> String {
    if text.is_ascii() { text.to_ascii_lowercase() } else { text.chars().map(lower_char).collect() }
}

/// The text in upper case.
pub(super) fn upper(text: &str) -> String {
    if text.is_ascii() { text.to_ascii_uppercase() } else { text.chars().map(upper_char).collect() }
}

/// A form in which texts that differ only in case are equal: lower case.
pub(super) fn fold(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase()) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(lower(text))
}

fn lower_char(char: char) -> char {
    if char.is_ascii() { char.to_ascii_lowercase() } else { TO_LOWER.find(char) }
}

fn upper_char(char: char) -> char {
    if char.is_ascii() { char.to_ascii_uppercase() } else { TO_UPPER.find(char) }
}

/// Pairs sorted by their first letter.
struct CaseMapping(Vec<(char, char)>);

static TO_UPPER: LazyLock<CaseMapping> =
    LazyLock::new(|| CaseMapping::new(|small, capital| (small, capital)));
static TO_LOWER: LazyLock<CaseMapping> =
    LazyLock::new(|| CaseMapping::new(|small, capital| (capital, small)));

impl CaseMapping {
    fn new(direction: fn(char, char) -> (char, char)) -> Self {
        let run = |&(first, last, step, distance): &(u32, u32, u32, i32)| {
            let pair = move |small: u32| {
                let capital = small.checked_add_signed(distance).and_then(char::from_u32)?;
                Some(direction(char::from_u32(small)?, capital))
            };
            (first..=last).step_by(step as usize).filter_map(pair)
        };
        let mut pairs: Vec<_> = pairs::RUNS.iter().flat_map(run).collect();
        pairs.sort_unstable();
        Self(pairs)
    }

    fn find(&self, char: char) -> char {
        match self.0.binary_search_by_key(&char, |pair| pair.0) {
            Ok(at) => self.0[at].1,
            Err(_) => char,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_character_stays_one() {
        assert_eq!(upper("straße é"), "STRAßE É");
        assert_eq!(lower("ÅB İ"), "åb İ");
        assert_eq!(fold("ΣΑ"), fold("σα"));
        assert_ne!(fold("Σ"), fold("ς"));
        assert_eq!(upper("ᾳıſµ"), "ᾼıſµ");
        assert_eq!(fold("Abc"), "abc");
    }

    #[test]
    fn every_pair_goes_both_ways() {
        assert_eq!((TO_LOWER.0.len(), TO_UPPER.0.len()), (1013, 1013));
        for &(small, capital) in &TO_UPPER.0 {
            assert_eq!((upper_char(small), lower_char(capital)), (capital, small));
            assert_eq!((lower_char(small), upper_char(capital)), (small, capital));
        }
    }
}
