//! Functions that are no plain code from values to a value: aggregates and those of ranking, which the
//! binder makes part of the plan, and names of the service that this server refuses.

use super::function::{Kind, Volatility};

/// A function that the binder knows by name.
#[derive(Clone, Copy, Debug)]
pub struct Special {
    /// The name in upper case.
    pub name: &'static str,
    /// Fewest arguments.
    pub arguments_min: usize,
    /// Most arguments; `usize::MAX` when any number is fine.
    pub arguments_max: usize,
    /// What the result depends on beside the arguments.
    pub volatility: Volatility,
    /// The type of the result.
    pub result: Kind,
    /// What it does, in one line of Markdown.
    pub documentation: &'static str,
}

/// Aggregates, ranking, and the number of a document.
pub static SPECIAL: [Special; 12] = [
    aggregate("AVG", Kind::Number, "Average over the rows; undefined when one is no number."),
    aggregate("COUNT", Kind::Number, "Number of rows whose value is defined."),
    aggregate("COUNTIF", Kind::Number, "Number of rows whose value is `true`."),
    aggregate("MAKELIST", Kind::Array, "The values of the rows."),
    aggregate("MAKESET", Kind::Array, "The distinct values of the rows."),
    aggregate("MAX", Kind::Any, "Largest value of the rows."),
    aggregate("MIN", Kind::Any, "Smallest value of the rows."),
    aggregate("SUM", Kind::Number, "Sum over the rows; undefined when one is no number."),
    Special {
        name: "DOCUMENTID",
        arguments_min: 1,
        arguments_max: 1,
        volatility: Volatility::Call,
        result: Kind::Number,
        documentation: "Number of the item in its physical partition; the argument is its alias.",
    },
    ranking(
        "FULLTEXTSCORE",
        "BM25 score of a text for words and phrases. Only in `ORDER BY RANK`.",
    ),
    ranking("RRF", "Reciprocal rank fusion of several scores. Only in `ORDER BY RANK`."),
    ranking("COMBINEDSCORE", "Fusion of several full-text scores. Only in `ORDER BY RANK`."),
];

const fn aggregate(name: &'static str, result: Kind, documentation: &'static str) -> Special {
    let volatility = Volatility::Immutable;
    Special { name, arguments_min: 1, arguments_max: 1, volatility, result, documentation }
}

const fn ranking(name: &'static str, documentation: &'static str) -> Special {
    Special {
        name,
        arguments_min: 2,
        arguments_max: usize::MAX,
        volatility: Volatility::Container,
        result: Kind::Number,
        documentation,
    }
}

/// The special function of a name in any letter case.
pub fn special(name: &str) -> Option<&'static Special> {
    SPECIAL.iter().find(|special| special.name.eq_ignore_ascii_case(name))
}

/// Names that the service knows and this server does not: what is not published, what needs a
/// model, and what other APIs of the service rewrite their queries to.
const REFUSED: [&str; 6] = [
    "HASH",
    "GENERATEEMBEDDINGS",
    "_COMPARE_BSON_BINARYDATA",
    "_COMPARE_OBJECTS",
    "_MASK",
    "_PROXY_PROJECTION",
];

/// True for a function of the service that this server does not have: the refusal then says so
/// instead of calling the name unknown.
pub fn is_refused(name: &str) -> bool {
    let begins = |prefix: &str| {
        name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    begins("_M_")
        || begins("C_")
        || name.eq_ignore_ascii_case("_REGEX_MATCH")
        || REFUSED.iter().any(|refused| refused.eq_ignore_ascii_case(name))
}
