//! What is wrong with a query, where, and the JSON document that says so.
//!
//! Compile errors carry the service's codes (`SC1001` and so on) and the place in the text, which
//! editors underline. Refusals at run time have a text only. See the contract, section 7.

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
    /// A string token is malformed.
    MalformedString,
    /// A number token is malformed.
    MalformedNumber,
    /// A name is unknown.
    UnknownIdentifier,
    /// A built-in function is unknown.
    UnknownFunction,
    /// An alias or an output name is used twice.
    DuplicateName,
    /// The name of a LET is in use already.
    LetName,
    /// A parameter was not supplied, or cannot be used in its place.
    Parameter,
    /// `SELECT *` with GROUP BY.
    StarWithGroupBy,
    /// `SELECT *` over several sources or none.
    StarNeedsOneSource,
    /// A function has the wrong number of arguments.
    ArgumentCount,
    /// TOP is too large or no integer.
    Top,
    /// LIMIT is too large.
    Limit,
    /// OFFSET is too large.
    Offset,
    /// Too many JOINs.
    Joins,
    /// Too many calls of user functions.
    UserFunctions,
    /// A limit of the language is exceeded.
    TooLarge,
    /// An aggregate inside an aggregate.
    NestedAggregate,
    /// A property outside of GROUP BY.
    NotGrouped,
    /// An aggregate where none may stand.
    AggregateNotAllowed,
    /// GROUP BY and ORDER BY together.
    GroupByWithOrderBy,
    /// A clause or function in a place that cannot serve it.
    Unsupported,
    /// ORDER BY over something that is no path.
    OrderByNotPath,
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
            Self::UnknownIdentifier => "SC2001",
            Self::UnknownFunction => "SC2005",
            Self::DuplicateName => "SC2011",
            Self::LetName => "SC2023",
            Self::Parameter => "SC2020",
            Self::StarNeedsOneSource => "SC2040",
            Self::StarWithGroupBy => "SC2041",
            Self::ArgumentCount => "SC2050",
            Self::Top => "SC2060",
            Self::Limit => "SC2061",
            Self::Offset => "SC2062",
            Self::TooLarge => "SC2070",
            Self::Joins => "SC3002",
            Self::UserFunctions => "SC3005",
            Self::NestedAggregate => "SC2101",
            Self::NotGrouped => "SC2102",
            Self::AggregateNotAllowed => "SC2103",
            Self::GroupByWithOrderBy => "SC2104",
            Self::Unsupported => "SC2201",
            Self::OrderByNotPath => "SC2206",
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
        Self::Compile(vec![Diagnostic { code, message: message.into(), location }])
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
        let head = format!(
            "{{\"severity\":\"Error\",\"location\":{{\"start\":{start},\"end\":{end}}},\
             \"code\":\"{}\",\"message\":",
            self.code.as_str()
        );
        out.extend_from_slice(head.as_bytes());
        write_string(&self.message, out);
        out.push(b'}');
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.to_json())
    }
}

impl std::error::Error for SqlError {}

impl From<SqlError> for armilla_model::Error {
    fn from(error: SqlError) -> Self {
        match error {
            SqlError::Interrupted => Self::Timeout(INTERRUPTED.to_owned()),
            other => Self::QuerySyntax(other.to_json()),
        }
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
    fn refusals_are_a_list_of_texts() {
        assert_eq!(SqlError::refused("no \"x\"").to_json(), r#"{"Errors":["no \"x\""]}"#);
    }
}
