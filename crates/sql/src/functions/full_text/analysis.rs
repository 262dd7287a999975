//! Texts as words.

use rust_stemmers::{Algorithm, Stemmer};
use std::sync::LazyLock;

/// Longest word in bytes; the rest of a longer one is left out.
pub const WORD_LENGTH_MAX: usize = 128;

/// The stop words of the service's documentation, sorted: digits and single letters among them.
static STOP_WORDS: LazyLock<Vec<&str>> =
    LazyLock::new(|| include_str!("stop_words.txt").lines().collect());
/// The longest of them, in bytes.
const STOP_WORD_LENGTH_MAX: usize = 13;
/// The months, by which written dates are known.
const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
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

/// The words of a text in order, without stop words.
pub fn tokenize(text: &str) -> impl Iterator<Item = Word> {
    runs(text).filter(|run| !is_stop_word(run)).map(|run| Word::of(cut(run)))
}

/// The length of a text: the number of words [`tokenize`] finds, and one more for each written date
/// (`March 4, 1921`, `4 March 1921`).
pub fn word_count(text: &str) -> usize {
    let (mut words, mut last) = (0, [""; 2]);
    for run in runs(text) {
        words += usize::from(!is_stop_word(run)) + usize::from(is_date(last[0], last[1], run));
        last = [last[1], run];
    }
    words
}

fn runs(text: &str) -> impl Iterator<Item = &str> {
    text.split(|char: char| !char.is_alphanumeric()).filter(|run| !run.is_empty())
}

fn is_date(first: &str, second: &str, third: &str) -> bool {
    let is_year = third.len() == 4 && is_number(third);
    let is_day = |run: &str| run.len() <= 2 && is_number(run);
    is_year && (is_month(first) && is_day(second) || is_day(first) && is_month(second))
}

fn is_number(run: &str) -> bool {
    !run.is_empty() && run.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_month(run: &str) -> bool {
    MONTHS.iter().any(|month| month.eq_ignore_ascii_case(run))
}

fn cut(run: &str) -> &str {
    let end = (0..=run.len().min(WORD_LENGTH_MAX)).rev().find(|&end| run.is_char_boundary(end));
    &run[..end.unwrap_or(0)]
}

fn is_stop_word(run: &str) -> bool {
    run.len() <= STOP_WORD_LENGTH_MAX
        && STOP_WORDS.binary_search(&&*run.to_ascii_lowercase()).is_ok()
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
    fn stop_words_are_sorted_and_long_words_cut() {
        assert!(STOP_WORDS.is_sorted());
        let longest = STOP_WORDS.iter().map(|word| word.len()).max();
        assert_eq!(longest, Some(STOP_WORD_LENGTH_MAX));
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
