//! Tokens to a syntax tree, by recursive descent with a named depth.
//!
//! Every text gives a tree or an error with its place. Nesting is counted while the parser goes
//! down and the height of the tree while it comes back up, so neither this parser nor anything
//! that later walks the tree can run out of stack.

mod expression;
mod query;

use crate::ast::{Expr, Name, Query, Selection, Text};
use crate::error::{Code, Location, Result, SqlError};
use crate::lexer::{Keyword, Lexer, Token, TokenKind};
use crate::limits::{
    EXPRESSION_HEIGHT_MAX, EXPRESSION_NESTING_MAX, JOINS_MAX, QUERY_LENGTH_MAX,
    USER_FUNCTION_CALLS_MAX,
};

/// Parses a query text.
pub fn parse(text: &str) -> Result<Query> {
    let mut parser = Parser::new(text)?;
    let mut query = parser.query()?.0;
    parser.expect_end()?;
    parser.check(&query)?;
    query.text = Text(text.into());
    Ok(query)
}

/// Parses the condition of a conditional patch: `FROM c WHERE …`, with an optional `SELECT` in
/// front. The tree is the query that selects the items meeting the condition.
pub fn parse_condition(text: &str) -> Result<Query> {
    let mut parser = Parser::new(text)?;
    let query =
        if parser.at_keyword(Keyword::Select) { parser.query()?.0 } else { parser.condition()?.0 };
    parser.expect_end()?;
    parser.check(&query)?;
    Ok(query)
}

/// Parses a single expression.
pub fn parse_expression(text: &str) -> Result<Expr> {
    let mut parser = Parser::new(text)?;
    let expr = parser.expression()?.0;
    parser.expect_end()?;
    Ok(expr)
}

/// A node and the height of the tree below it.
type Tall<T> = (T, usize);

struct Parser<'t> {
    lexer: Lexer<'t>,
    current: Token<'t>,
    following: Token<'t>,
    previous: Location,
    nesting: usize,
    joins: usize,
    user_calls: usize,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> Result<Self> {
        if text.len() > QUERY_LENGTH_MAX {
            let message = format!("The query text is longer than {QUERY_LENGTH_MAX} bytes.");
            return Err(SqlError::compile(Code::TooLarge, message, Location::default()));
        }
        let mut lexer = Lexer::new(text);
        let current = lexer.next_token();
        let following = lexer.next_token();
        let previous = Location::default();
        Ok(Self { lexer, current, following, previous, nesting: 0, joins: 0, user_calls: 0 })
    }

    fn advance(&mut self) -> Token<'t> {
        let next = self.lexer.next_token();
        let following = std::mem::replace(&mut self.following, next);
        let current = std::mem::replace(&mut self.current, following);
        self.previous = current.location;
        current
    }

    fn at_keyword(&self, keyword: Keyword) -> bool {
        self.current.kind == TokenKind::Keyword(keyword)
    }

    fn at_symbol(&self, symbol: &str) -> bool {
        matches!(self.current.kind, TokenKind::Symbol(found) if found == symbol)
    }

    fn following_is_symbol(&self, symbol: &str) -> bool {
        matches!(self.following.kind, TokenKind::Symbol(found) if found == symbol)
    }

    fn take_keyword(&mut self, keyword: Keyword) -> bool {
        let found = self.at_keyword(keyword);
        if found {
            self.advance();
        }
        found
    }

    fn take_symbol(&mut self, symbol: &str) -> bool {
        let found = self.at_symbol(symbol);
        if found {
            self.advance();
        }
        found
    }

    fn expect_keyword(&mut self, keyword: Keyword) -> Result<()> {
        if self.take_keyword(keyword) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn expect_symbol(&mut self, symbol: &str) -> Result<()> {
        if self.take_symbol(symbol) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn expect_end(&self) -> Result<()> {
        if self.current.kind == TokenKind::End { Ok(()) } else { Err(self.unexpected()) }
    }

    /// True when the current token can be a name: no reserved and no literal word.
    fn at_name(&self) -> bool {
        match self.current.kind {
            TokenKind::Word => !crate::lexer::LITERAL_WORDS.contains(&self.current.text),
            TokenKind::Keyword(keyword) => keyword.is_contextual(),
            _ => false,
        }
    }

    fn name(&mut self) -> Result<Name> {
        if self.at_name() { Ok(self.advance().text.into()) } else { Err(self.unexpected()) }
    }

    /// A name behind a dot or AS, where a reserved word deserves advice.
    fn chosen_name(&mut self) -> Result<Name> {
        if self.at_name() { self.name() } else { Err(self.no_name()) }
    }

    /// The error for the current token where somebody chose a name.
    fn no_name(&self) -> SqlError {
        let text = self.current.text;
        let is_word = matches!(self.current.kind, TokenKind::Keyword(_) | TokenKind::Word);
        let error = self.unexpected();
        if !is_word {
            return error;
        }
        error.hinting(format!(
            "'{text}' is a reserved word. As a name it is written in quotation marks: c[\"{text}\"] for a \
             property, AS \"{text}\" for an output name, {{\"{text}\": 1}} in an object."
        ))
    }

    /// The error for the current token.
    fn unexpected(&self) -> SqlError {
        let Token { kind, text, location } = &self.current;
        let (code, message) = match kind {
            TokenKind::End => {
                (Code::UnexpectedEnd, "Syntax error, unexpected end-of-file.".to_owned())
            }
            TokenKind::BadString => (
                Code::MalformedString,
                format!("Syntax error, invalid string literal token '{}'.", shortened(text)),
            ),
            TokenKind::BadNumber => (
                Code::MalformedNumber,
                format!("Syntax error, invalid numeric value token '{}'.", shortened(text)),
            ),
            TokenKind::BadCharacter => {
                (Code::InvalidToken, format!("Syntax error, invalid token '{text}'."))
            }
            _ => (
                Code::Syntax,
                format!("Syntax error, incorrect syntax near '{}'.", shortened(text)),
            ),
        };
        SqlError::compile(code, message, *location)
    }

    /// What the grammar cannot say.
    fn check(&self, query: &Query) -> Result<()> {
        let refuse = |code: Code, message: String| SqlError::compile(code, message, query.location);
        if let Selection::Star(location) = query.select
            && query.from.is_empty()
        {
            let message = "Syntax error, 'SELECT *' is not valid if FROM clause is omitted.";
            return Err(SqlError::compile(Code::StarWithoutFrom, message, location));
        }
        if self.joins > JOINS_MAX {
            let message =
                "The SQL query exceeded the maximum number of joins. The allowed limit is";
            return Err(refuse(Code::Joins, format!("{message} {JOINS_MAX}.")));
        }
        if self.user_calls > USER_FUNCTION_CALLS_MAX {
            let message = "The SQL query exceeded the maximum number of user-defined function \
                           calls. The allowed limit is";
            let message = format!("{message} {USER_FUNCTION_CALLS_MAX}.");
            return Err(refuse(Code::UserFunctions, message));
        }
        Ok(())
    }

    fn since(&self, start: Location) -> Location {
        Location { start: start.start, end: self.previous.end.max(start.start) }
    }

    fn descend(&mut self) -> Result<()> {
        self.nesting += 1;
        if self.nesting > EXPRESSION_NESTING_MAX {
            return Err(self.too_deep());
        }
        Ok(())
    }

    fn ascend(&mut self) {
        self.nesting -= 1;
    }

    fn check_height(&self, height: usize) -> Result<usize> {
        if height > EXPRESSION_HEIGHT_MAX { Err(self.too_deep()) } else { Ok(height) }
    }

    fn too_deep(&self) -> SqlError {
        let message = "The query is nested too deeply.";
        SqlError::compile(Code::TooLarge, message, self.current.location)
    }
}

/// Error messages quote tokens; a token may be half a megabyte long.
fn shortened(text: &str) -> String {
    const QUOTED_MAX: usize = 100;
    text.chars().take(QUOTED_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> (String, u32, u32) {
        match parse(text) {
            Err(SqlError::Compile(list)) => {
                let first = &list[0];
                let location = first.location;
                (first.code.as_str().to_owned(), location.start, location.end)
            }
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn errors_say_where() {
        assert_eq!(error("SELECT TOP 1 DISTINCT c FROM c"), ("SC1001".into(), 13, 21));
        assert_eq!(error("SELECT"), ("SC1002".into(), 6, 6));
        assert_eq!(error("SELECT 'é' FROM c.order"), ("SC1001".into(), 18, 23));
        assert_eq!(error("SELECT c.12a FROM c").0, "SC1011");
        assert_eq!(error("SELECT VALUE 'abc").0, "SC1012");
        assert_eq!(error("SELECT VALUE 1 # 2"), ("SC1010".into(), 15, 16));
    }

    #[test]
    fn deep_texts_are_refused_and_long_ones_are_not() {
        let parens = |n: usize| format!("SELECT VALUE {}1{}", "(".repeat(n), ")".repeat(n));
        assert!(parse(&parens(100_000)).is_ok());
        assert_eq!(error(&"(".repeat(100_000)).0, "SC1001");
        let arrays = |n: usize| format!("SELECT VALUE {}1{}", "[".repeat(n), "]".repeat(n));
        assert!(parse(&arrays(100)).is_ok());
        assert_eq!(error(&arrays(100_000)).0, "SC2070");
        assert_eq!(error(&format!("SELECT VALUE {}", "{a:".repeat(100_000))).0, "SC2070");
        assert_eq!(error(&format!("SELECT VALUE {}1", "- ".repeat(100_000))).0, "SC2070");
        assert_eq!(error(&"SELECT VALUE (".repeat(50_000)).0, "SC2070");
        let chain = format!("SELECT VALUE {}a{}", "(".repeat(5000), " OR b)".repeat(5000));
        assert!(parse(&chain).is_ok());
        assert!(parse(&format!("SELECT VALUE 1{}", "+1".repeat(10_000))).is_ok());
        assert!(parse(&format!("SELECT VALUE c.a{}", " || c.b".repeat(10_000))).is_ok());
        assert_eq!(error(&format!("SELECT VALUE c{}", ".a".repeat(10_000))).0, "SC2070");
        assert!(parse(&format!("SELECT VALUE 1{}", " OR 1".repeat(50_000))).is_ok());
        assert!(parse(&format!("SELECT VALUE 1 IN (1{})", ",1".repeat(200_000))).is_ok());
    }

    #[test]
    fn a_reserved_word_as_a_name_is_refused_with_the_form_to_write() {
        for (text, written) in [
            ("SELECT c.end FROM c", r#"c["end"]"#),
            ("SELECT * FROM c WHERE c.a.Order = 1", r#"c["Order"]"#),
            ("SELECT * FROM x IN c.value", r#"c["value"]"#),
            ("SELECT c.x AS left FROM c", r#"AS "left""#),
            ("SELECT VALUE {value: c.x} FROM c", r#"{"value": 1}"#),
            ("SELECT c.true FROM c", r#"c["true"]"#),
        ] {
            let Err(SqlError::Compile(list)) = parse(text) else { panic!("{text} is accepted") };
            assert!(list[0].message.starts_with("Syntax error, incorrect syntax near '"), "{text}");
            let hint = list[0].hint.as_deref().expect(text);
            assert!(hint.contains(written), "{text}: {hint}");
        }
        for text in [
            r#"SELECT c["end"], c.x AS "left" FROM x IN c["value"]"#,
            r#"SELECT VALUE {"value": c["true"]} FROM c"#,
        ] {
            assert!(parse(text).is_ok(), "{text}");
        }
        for text in ["SELECT FROM c", "SELECT c.+ FROM c", "SELECT c. FROM", "SELECT c.x AS"] {
            let Err(SqlError::Compile(list)) = parse(text) else { panic!("{text} is accepted") };
            assert_eq!(list[0].hint.is_some(), text == "SELECT c. FROM", "{text}");
        }
    }

    #[test]
    fn conditions_of_patches() {
        assert!(parse_condition("from c where c.a = 1").is_ok());
        assert!(parse_condition("SELECT * FROM c WHERE c.a = 1").is_ok());
        assert!(parse_condition("where c.a = 1").is_err());
    }
}
