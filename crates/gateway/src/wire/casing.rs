//! `pre` and `Pre`: the words of definitions, as clients spell them.

/// How a client wrote a word: SDKs send `pre` and `Pre`, and expect back what they sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Casing {
    /// `Pre`.
    Title,
    /// `pre`.
    Lower,
}

impl Casing {
    /// The casing of a word.
    pub(super) fn of(word: &str) -> Self {
        if word.starts_with(|first: char| first.is_ascii_lowercase()) {
            Self::Lower
        } else {
            Self::Title
        }
    }

    /// A word in this casing, given in title case.
    pub(super) fn apply(self, word: &str) -> String {
        match self {
            Self::Title => word.to_owned(),
            Self::Lower => word.to_ascii_lowercase(),
        }
    }
}
