//! What is wrong with a query, where, and the JSON document that says so.
//!
//! Compile errors carry the service's codes (`SC1001` and so on) and the place in the text, which
//! editors underline. Refusals at run time have a text only. See
//! `docs/protocol/sql.md#errors`.

use armilla_model::json::write_string;
use std::fmt;

/// A half-open range of UTF-16 offsets into the query text.
///
/// Two locations always compare equal: syntax trees are equal when they say the same thing,
/// wherever they stood. Compare `start` and `end` to compare places.
#[derive(Clone, Copy, Debug, Default, Eq)]
pub struct Location {
    /// Offset of the first unit.
    pub start: u32,
    /// Offset behind the last unit.
    pub end: u32,
}

impl PartialEq for Location {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Location {
    /// The range from the start of this one to the end of another.
    pub fn to(self, end: Self) -> Self {
        Self { start: self.start, end: end.end.max(self.start) }
    }
}

/// The kind of a compile error. The names say the situation, [`Code::as_str`] gives the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// A token cannot continue the sentence.
    Syntax,
    /// The text ends too early.
    UnexpectedEnd,
    /// A character starts no token.
    InvalidToken,
    /// A number token is malformed.
    MalformedNumber,
    /// A string token is malformed.
    MalformedString,
    /// `SELECT *` without FROM.
    StarWithoutFrom,
    /// A name is unknown.
    UnknownIdentifier,
    /// A built-in function is unknown.
    UnknownFunction,
    /// A parameter was not supplied.
    Parameter,
    /// An alias is in use already.
    DuplicateAlias,
    /// An output name or a key of an object is written twice.
    DuplicateProperty,
    /// The name of a LET is in use already.
    LetName,
    /// `SELECT *` with aggregates.
    StarWithAggregates,
    /// `SELECT *` with GROUP BY.
    StarWithGroupBy,
    /// `SELECT *` over several sources.
    StarNeedsOneSource,
    /// A function has the wrong number of arguments.
    ArgumentCount,
    /// The modulo of HASH is no literal.
    HashModulo,
    /// A timespan is no such literal.
    Timespan,
    /// TOP is too large or no integer.
    Top,
    /// LIMIT is too large.
    Limit,
    /// OFFSET is too large.
    Offset,
    /// A limit of ours is exceeded: length or nesting.
    TooLarge,
    /// LET in GROUP BY.
    LetInGroupBy,
    /// LET in ORDER BY.
    LetInOrderBy,
    /// An aggregate inside an aggregate.
    NestedAggregate,
    /// A property outside of GROUP BY is selected.
    NotGrouped,
    /// A property outside of GROUP BY in ORDER BY.
    NotGroupedInOrder,
    /// An aggregate in WHERE.
    AggregateInWhere,
    /// A GROUP BY key without a property.
    GroupByConstant,
    /// An aggregate or a sub-query in GROUP BY.
    GroupByAggregate,
    /// A scalar sub-query that may have several rows.
    ScalarRows,
    /// ORDER BY in a sub-query.
    OrderInSubquery,
    /// TOP in a sub-query.
    TopInSubquery,
    /// OFFSET LIMIT in a sub-query.
    OffsetInSubquery,
    /// TOP and OFFSET in one query.
    TopWithOffset,
    /// ORDER BY over something that is no path.
    OrderByNotPath,
    /// The escape of LIKE is not one character.
    LikeEscape,
    /// A direction or an option that VectorDistance does not take.
    VectorOption,
    /// The third argument of VectorDistance is no boolean.
    VectorExactSearch,
    /// `searchListSizeMultiplier` is out of range.
    VectorSearchList,
    /// `quantizedVectorListMultiplier` is out of range.
    VectorQuantizedList,
    /// `filterPriority` is out of range.
    VectorFilterPriority,
    /// The argument of GenerateEmbeddings is no string.
    Embeddings,
    /// ORDER BY RANK with DISTINCT.
    RankWithDistinct,
    /// ORDER BY RANK of a function that ranks nothing.
    RankFunction,
    /// ORDER BY RANK with a direction.
    RankDirection,
    /// ORDER BY RANK over the elements of an array.
    RankWithIn,
    /// ORDER BY RANK with JOIN.
    RankWithJoin,
    /// ORDER BY RANK over a sub-query.
    RankWithSubquery,
    /// ORDER BY RANK with aggregates.
    RankWithAggregate,
    /// ORDER BY RANK with GROUP BY.
    RankWithGroupBy,
    /// ORDER BY RANK in a sub-query.
    RankInSubquery,
    /// The weights of RRF are no list of numbers, one for each component.
    RankWeights,
    /// COMBINEDSCORE of something that is no FullTextScore.
    CombinedScore,
    /// Fewer than two components to fuse.
    RankComponents,
    /// FullTextScore outside of ORDER BY RANK.
    FullTextScorePlace,
    /// A search term that is no such literal.
    FullTextTerms,
    /// An expression the language has and no query may use.
    Unsupported,
    /// Too many JOINs.
    Joins,
    /// Too many calls of user functions.
    UserFunctions,
}

impl Code {
    /// The code as the service writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Syntax => "SC1001",
            Self::UnexpectedEnd => "SC1002",
            Self::InvalidToken => "SC1010",
            Self::MalformedNumber => "SC1011",
            Self::MalformedString => "SC1012",
            Self::StarWithoutFrom => "SC1021",
            Self::UnknownIdentifier => "SC2001",
            Self::UnknownFunction => "SC2005",
            Self::Parameter => "SC2020",
            Self::DuplicateAlias => "SC2021",
            Self::DuplicateProperty => "SC2022",
            Self::LetName => "SC2023",
            Self::StarWithAggregates => "SC2040",
            Self::StarWithGroupBy => "SC2041",
            Self::StarNeedsOneSource => "SC2042",
            Self::ArgumentCount => "SC2050",
            Self::HashModulo => "SC2051",
            Self::Timespan => "SC2053",
            Self::Top => "SC2060",
            Self::Limit => "SC2061",
            Self::Offset => "SC2062",
            Self::TooLarge => "SC2070",
            Self::LetInGroupBy => "SC2090",
            Self::LetInOrderBy => "SC2091",
            Self::NestedAggregate => "SC2101",
            Self::NotGrouped => "SC2102",
            Self::NotGroupedInOrder => "SC2103",
            Self::AggregateInWhere => "SC2104",
            Self::GroupByConstant => "SC2110",
            Self::GroupByAggregate => "SC2111",
            Self::ScalarRows => "SC2201",
            Self::OrderInSubquery => "SC2202",
            Self::TopInSubquery => "SC2203",
            Self::OffsetInSubquery => "SC2204",
            Self::TopWithOffset => "SC2205",
            Self::OrderByNotPath => "2206",
            Self::LikeEscape => "SC2207",
            Self::VectorOption => "SC2210",
            Self::VectorExactSearch => "SC2212",
            Self::VectorSearchList => "SC2213",
            Self::VectorQuantizedList => "SC2214",
            Self::VectorFilterPriority => "SC2215",
            Self::Embeddings => "SC2216",
            Self::RankWithDistinct => "SC2220",
            Self::RankFunction => "SC2221",
            Self::RankDirection => "SC2222",
            Self::RankWithIn => "SC2223",
            Self::RankWithJoin => "SC2224",
            Self::RankWithSubquery => "SC2225",
            Self::RankWithAggregate => "SC2226",
            Self::RankWithGroupBy => "SC2227",
            Self::RankInSubquery => "SC2228",
            Self::RankWeights => "SC2229",
            Self::CombinedScore => "SC2231",
            Self::RankComponents => "SC2233",
            Self::FullTextScorePlace => "SC2240",
            Self::FullTextTerms => "SC2241",
            Self::Unsupported => "SC2990",
            Self::Joins => "SC3002",
            Self::UserFunctions => "SC3005",
        }
    }
}

impl Code {
    /// When the service looks for such an error: names first, then groups, then the rows of sub-queries.
    pub(crate) fn phase(self) -> u8 {
        match self {
            Self::NotGrouped | Self::NotGroupedInOrder => 1,
            Self::ScalarRows => 2,
            _ => 0,
        }
    }
}

/// One compile error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// What kind of error.
    pub code: Code,
    /// The text for people.
    pub message: String,
    /// Where in the query text.
    pub location: Location,
    /// What to write instead. It stands beside the message, which is the service's word for word.
    pub hint: Option<String>,
}

/// Why a query cannot be compiled or run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SqlError {
    /// The text does not compile; at least one diagnostic.
    Compile(Vec<Diagnostic>),
    /// The query is understood and refused, or failed while it ran.
    Refused(String),
    /// The runtime asked the query to stop.
    Interrupted,
}

const INTERRUPTED: &str = "The query was stopped because it ran too long.";

/// The result of compiling or running.
pub type Result<T, E = SqlError> = std::result::Result<T, E>;

impl SqlError {
    /// One compile error.
    pub fn compile(code: Code, message: impl Into<String>, location: Location) -> Self {
        Self::Compile(vec![Diagnostic { code, message: message.into(), location, hint: None }])
    }

    /// The same error with advice beside its first message.
    #[must_use]
    pub(crate) fn hinting(mut self, hint: String) -> Self {
        if let Self::Compile(diagnostics) = &mut self
            && let Some(first) = diagnostics.first_mut()
        {
            first.hint = Some(hint);
        }
        self
    }

    /// A refusal at run time.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::Refused(message.into())
    }

    /// The JSON document that describes the error: `{"errors":[…]}` with codes and places for
    /// compile errors, `{"Errors":["…"]}` for refusals.
    pub fn to_json(&self) -> String {
        let mut out = Vec::new();
        match self {
            Self::Compile(diagnostics) => {
                out.extend_from_slice(b"{\"errors\":[");
                for (position, diagnostic) in diagnostics.iter().enumerate() {
                    if position > 0 {
                        out.push(b',');
                    }
                    diagnostic.write_json(&mut out);
                }
            }
            Self::Refused(_) | Self::Interrupted => {
                let message = match self {
                    Self::Refused(message) => message,
                    _ => INTERRUPTED,
                };
                out.extend_from_slice(b"{\"Errors\":[");
                write_string(message, &mut out);
            }
        }
        out.extend_from_slice(b"]}");
        String::from_utf8(out).expect("JSON text is built from strings")
    }
}

impl Diagnostic {
    fn write_json(&self, out: &mut Vec<u8>) {
        let Location { start, end } = self.location;
        // One code of the service is a number and has no place.
        if self.code == Code::OrderByNotPath {
            let head = format!("{{\"severity\":\"Error\",\"code\":{},", self.code.as_str());
            out.extend_from_slice(head.as_bytes());
            out.extend_from_slice(b"\"message\":");
            write_string(&self.message, out);
            out.push(b'}');
            return;
        }
        let head = format!(
            "{{\"severity\":\"Error\",\"location\":{{\"start\":{start},\"end\":{end}}},\
             \"code\":\"{}\",\"message\":",
            self.code.as_str()
        );
        out.extend_from_slice(head.as_bytes());
        write_string(&self.message, out);
        if let Some(hint) = &self.hint {
            out.extend_from_slice(b",\"hint\":");
            write_string(hint, out);
        }
        out.push(b'}');
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.to_json())
    }
}

impl std::error::Error for SqlError {}

/// What the language refuses is the client's to mend.
impl From<SqlError> for armilla_model::Error {
    fn from(error: SqlError) -> Self {
        Self::QuerySyntax(error.to_json())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compile_errors_have_the_documented_shape() {
        let location = Location { start: 7, end: 15 };
        let message = "Syntax error, incorrect syntax near 'distinct'.";
        let error = SqlError::compile(Code::Syntax, message, location);
        assert_eq!(
            error.to_json(),
            r#"{"errors":[{"severity":"Error","location":{"start":7,"end":15},"code":"SC1001","message":"Syntax error, incorrect syntax near 'distinct'."}]}"#
        );
    }

    #[test]
    fn a_hint_stands_beside_the_message() {
        let error = SqlError::compile(Code::Syntax, "no", Location::default());
        assert_eq!(
            error.hinting("write \"x\"".into()).to_json(),
            r#"{"errors":[{"severity":"Error","location":{"start":0,"end":0},"code":"SC1001","message":"no","hint":"write \"x\""}]}"#
        );
    }

    #[test]
    fn refusals_are_a_list_of_texts() {
        assert_eq!(SqlError::refused("no \"x\"").to_json(), r#"{"Errors":["no \"x\""]}"#);
    }
}
