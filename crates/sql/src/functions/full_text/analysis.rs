//! Texts as words.

use rust_stemmers::{Algorithm, Stemmer};
use std::sync::LazyLock;

/// Longest word in bytes; the rest of a longer one is left out.
pub const WORD_LENGTH_MAX: usize = 128;

// Sorted. The words search engines commonly leave out of English.
const COMMON_WORDS: [&str; 33] = [
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it",
    "no", "not", "of", "on", "or", "such", "that", "the", "their", "then", "there", "these",
    "they", "this", "to", "was", "will", "with",
];

static STEMMER: LazyLock<Stemmer> = LazyLock::new(|| Stemmer::create(Algorithm::English));

/// A word of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    text: Box<str>,
    // Nothing when it is the text itself.
    stem: Option<Box<str>>,
}

impl Word {
    /// The word in lower case.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The stem by which words are compared.
    pub fn stem(&self) -> &str {
        self.stem.as_deref().unwrap_or(&self.text)
    }

    fn of(run: &str) -> Self {
        let text = run.to_lowercase().into_boxed_str();
        let stem = STEMMER.stem(&text);
        let stem = (*stem != *text).then(|| stem.into_owned().into_boxed_str());
        Self { text, stem }
    }
}

/// The words of a text in order, without the commonest ones.
pub fn tokenize(text: &str) -> impl Iterator<Item = Word> {
    runs(text).map(Word::of)
}

/// The number of words [`tokenize`] finds.
pub fn word_count(text: &str) -> usize {
    runs(text).count()
}

fn runs(text: &str) -> impl Iterator<Item = &str> {
    text.split(|char: char| !char.is_alphanumeric())
        .filter(|run| !run.is_empty() && !is_common(run))
        .map(cut)
}

fn cut(run: &str) -> &str {
    let end = (0..=run.len().min(WORD_LENGTH_MAX)).rev().find(|&end| run.is_char_boundary(end));
    &run[..end.unwrap_or(0)]
}

fn is_common(run: &str) -> bool {
    let longest = COMMON_WORDS.iter().map(|word| word.len()).max();
    longest.is_some_and(|longest| run.len() <= longest)
        && COMMON_WORDS.binary_search(&&*run.to_ascii_lowercase()).is_ok()
}

/// True when at most so many letters must be changed, added or removed to make the words equal.
pub(super) fn within_distance(left: &str, right: &str, most: usize) -> bool {
    let left: Vec<char> = left.chars().collect();
    let right: Vec<char> = right.chars().collect();
    if left.len().abs_diff(right.len()) > most {
        return false;
    }
    // The usual table, one row at a time: the cost to make a prefix of one word that of the other.
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (at, left) in left.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (column, right) in right.iter().enumerate() {
            let changed = diagonal + usize::from(left != right);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
        if row.iter().all(|cost| *cost > most) {
            return false;
        }
    }
    row[right.len()] <= most
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stems(text: &str) -> Vec<String> {
        tokenize(text).map(|word| word.stem().to_owned()).collect()
    }

    #[test]
    fn texts_become_stems_of_words() {
        assert_eq!(
            stems("The runners' running, and 42 Bicycles!"),
            ["runner", "run", "42", "bicycl"]
        );
        assert_eq!(stems("Éléphant naïve"), ["éléphant", "naïv"]);
        assert!(stems("... the and").is_empty());
        assert_eq!(word_count("The red bicycle"), 2);
    }

    #[test]
    fn common_words_are_sorted_and_long_words_cut() {
        assert!(COMMON_WORDS.is_sorted());
        assert_eq!(stems(&"7".repeat(1000))[0].len(), WORD_LENGTH_MAX);
        assert!(stems(&"é".repeat(1000))[0].len() <= WORD_LENGTH_MAX);
    }

    #[test]
    fn distances_count_edits() {
        assert!(within_distance("kitten", "sitten", 1));
        assert!(!within_distance("kitten", "sitting", 2));
        assert!(within_distance("", "ab", 2));
        assert!(!within_distance("", "abc", 2));
        assert!(within_distance("naïve", "naive", 1));
    }
}
