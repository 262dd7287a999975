//! The query language as an editor knows it: keywords, and functions with what they do.

use armilla_sql::functions::{self, SPECIAL};

/// A function for completion and hover.
#[derive(Clone, Copy, Debug)]
pub struct Documented {
    /// The name in upper case.
    pub name: &'static str,
    /// Fewest arguments.
    pub arguments_min: usize,
    /// Most arguments; `usize::MAX` when any number is fine.
    pub arguments_max: usize,
    /// The type of the result.
    pub result: &'static str,
    /// What it does, in one line of Markdown.
    pub documentation: &'static str,
}

/// Every function of the language: those of rows, aggregates and ranking.
pub fn documented() -> impl Iterator<Item = Documented> {
    let of_rows = functions::all().map(|function| Documented {
        name: function.name,
        arguments_min: function.arguments_min,
        arguments_max: function.arguments_max,
        result: function.result.name(),
        documentation: function.documentation,
    });
    of_rows.chain(SPECIAL.iter().map(|special| Documented {
        name: special.name,
        arguments_min: special.arguments_min,
        arguments_max: special.arguments_max,
        result: special.result.name(),
        documentation: special.documentation,
    }))
}

/// The words that an editor offers, in the order of a query.
pub const KEYWORDS: [&str; 25] = [
    "SELECT", "DISTINCT", "TOP", "VALUE", "FROM", "JOIN", "IN", "AS", "WHERE", "AND", "OR", "NOT",
    "BETWEEN", "LIKE", "ESCAPE", "EXISTS", "ARRAY", "GROUP", "BY", "ORDER", "ASC", "DESC", "RANK",
    "OFFSET", "LIMIT",
];

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_sql::lexer::Keyword;

    #[test]
    fn offered_words_are_keywords_and_functions_are_told_of() {
        for word in KEYWORDS {
            assert!(Keyword::lookup(word).is_some(), "{word}");
        }
        assert!(documented().count() >= 129);
        assert!(documented().all(|function| !function.documentation.is_empty()));
    }
}
