//! Scalar expressions, by precedence climbing.

use super::{Parser, Tall};
use crate::ast::{BinaryOperator, Expr, ExprKind, SubqueryKind, UnaryOperator};
use crate::error::{Code, Location, Result, SqlError};
use crate::lexer::{Keyword, Kind};
use crate::limits::{SUBQUERY_HEIGHT, USER_FUNCTION_CALLS_MAX};
use crate::precedence;
use armilla_model::Number;

/// An infix operator as the climbing loop sees it.
enum Infix {
    And,
    Or,
    Predicate,
    Binary(BinaryOperator),
}

impl Parser<'_> {
    /// `coalesce [ ? expr : expr ]`
    pub(super) fn expression(&mut self) -> Result<Tall<Expr>> {
        let condition = self.operators(precedence::COALESCE)?;
        self.conditional(condition)
    }

    fn conditional(&mut self, (condition, height): Tall<Expr>) -> Result<Tall<Expr>> {
        if !self.take_symbol("?") {
            return Ok((condition, height));
        }
        self.descend()?;
        let (then, then_height) = self.expression()?;
        self.expect_symbol(":")?;
        let (otherwise, otherwise_height) = self.expression()?;
        self.ascend();
        let location = condition.location.to(otherwise.location);
        let height = self.check_height(1 + height.max(then_height).max(otherwise_height))?;
        let kind = ExprKind::Conditional(Box::new(condition), Box::new(then), Box::new(otherwise));
        Ok((Expr { kind, location }, height))
    }

    /// One or more expressions separated by commas.
    pub(super) fn expression_list(&mut self) -> Result<Tall<Vec<Expr>>> {
        let mut list = Vec::new();
        let mut tallest = 0;
        loop {
            let (expr, height) = self.expression()?;
            tallest = tallest.max(height);
            list.push(expr);
            if !self.take_symbol(",") {
                return Ok((list, tallest));
            }
        }
    }

    fn operators(&mut self, minimum: u8) -> Result<Tall<Expr>> {
        self.descend()?;
        let left = self.unary()?;
        let whole = self.operators_behind(left, minimum)?;
        self.ascend();
        Ok(whole)
    }

    /// The operators behind an operand that has been read.
    fn operators_behind(&mut self, mut left: Tall<Expr>, minimum: u8) -> Result<Tall<Expr>> {
        while let Some((infix, precedence)) = self.infix() {
            if precedence < minimum {
                break;
            }
            left = match infix {
                Infix::Predicate => self.predicate(left)?,
                Infix::Binary(operator) => {
                    self.advance();
                    let right = self.operators(precedence + 1)?;
                    self.binary(operator, left, right)?
                }
                Infix::And | Infix::Or => {
                    self.advance();
                    let right = self.operators(precedence + 1)?;
                    let is_and = matches!(infix, Infix::And);
                    self.connective(is_and, left, right)?
                }
            };
        }
        Ok(left)
    }

    fn infix(&self) -> Option<(Infix, u8)> {
        match &self.current.kind {
            Kind::Keyword(Keyword::And) => Some((Infix::And, precedence::AND)),
            Kind::Keyword(Keyword::Or) => Some((Infix::Or, precedence::OR)),
            Kind::Keyword(Keyword::In | Keyword::Between | Keyword::Like | Keyword::Not) => {
                Some((Infix::Predicate, precedence::PREDICATE))
            }
            Kind::Symbol(symbol) => {
                let operator = binary_operator(symbol)?;
                Some((Infix::Binary(operator), precedence::of_operator(operator)))
            }
            _ => None,
        }
    }

    fn binary(
        &self,
        operator: BinaryOperator,
        left: Tall<Expr>,
        right: Tall<Expr>,
    ) -> Result<Tall<Expr>> {
        let height = self.check_height(1 + left.1.max(right.1))?;
        let location = left.0.location.to(right.0.location);
        let kind = ExprKind::Binary(operator, Box::new(left.0), Box::new(right.0));
        Ok((Expr { kind, location }, height))
    }

    /// A chain of ANDs (or ORs) is one node, however long it is, and so is one that is nested to
    /// the left by parentheses, as object-relational mappers write it.
    fn connective(&self, is_and: bool, left: Tall<Expr>, right: Tall<Expr>) -> Result<Tall<Expr>> {
        let location = left.0.location.to(right.0.location);
        let mut height = 1 + left.1.max(right.1);
        let parts = match (left.0.kind, is_and) {
            (ExprKind::And(mut parts), true) | (ExprKind::Or(mut parts), false) => {
                height = left.1.max(1 + right.1);
                parts.push(right.0);
                parts
            }
            (kind, _) => vec![Expr { kind, location: left.0.location }, right.0],
        };
        let height = self.check_height(height)?;
        let kind = if is_and { ExprKind::And(parts) } else { ExprKind::Or(parts) };
        Ok((Expr { kind, location }, height))
    }

    /// `[NOT] IN (…)`, `[NOT] BETWEEN a AND b`, `[NOT] LIKE p [ESCAPE 'e']`.
    fn predicate(&mut self, left: Tall<Expr>) -> Result<Tall<Expr>> {
        let negated = self.take_keyword(Keyword::Not);
        let start = left.0.location;
        let (value, height) = (Box::new(left.0), left.1);
        let (kind, other) = if self.take_keyword(Keyword::In) {
            self.expect_symbol("(")?;
            let (list, tall) = self.expression_list()?;
            self.expect_symbol(")")?;
            (ExprKind::In { needle: value, list, negated }, tall)
        } else if self.take_keyword(Keyword::Between) {
            let (low, low_height) = self.operators(precedence::CONCAT)?;
            self.expect_keyword(Keyword::And)?;
            let (high, high_height) = self.operators(precedence::CONCAT)?;
            let (low, high) = (Box::new(low), Box::new(high));
            (ExprKind::Between { value, low, high, negated }, low_height.max(high_height))
        } else {
            self.expect_keyword(Keyword::Like)?;
            let (pattern, tall) = self.operators(precedence::CONCAT)?;
            let escape =
                if self.take_keyword(Keyword::Escape) { Some(self.escape()?) } else { None };
            (ExprKind::Like { value, pattern: Box::new(pattern), escape, negated }, tall)
        };
        let height = self.check_height(1 + height.max(other))?;
        Ok((Expr { kind, location: self.since(start) }, height))
    }

    /// The escape of LIKE: a string of exactly one character.
    fn escape(&mut self) -> Result<crate::ast::Name> {
        match &self.current.kind {
            Kind::String(text) if text.chars().count() == 1 => {
                let text = text.clone();
                self.advance();
                Ok(text)
            }
            _ => Err(self.unexpected()),
        }
    }

    fn unary(&mut self) -> Result<Tall<Expr>> {
        let operator = match &self.current.kind {
            Kind::Symbol("-") => UnaryOperator::Minus,
            Kind::Symbol("+") => UnaryOperator::Plus,
            Kind::Symbol("~") => UnaryOperator::BitNot,
            Kind::Keyword(Keyword::Not) => UnaryOperator::Not,
            _ => return self.postfix(),
        };
        let start = self.advance().location;
        self.descend()?;
        let (operand, height) = self.unary()?;
        self.ascend();
        let height = self.check_height(height + 1)?;
        let kind = ExprKind::Unary(operator, Box::new(operand));
        Ok((Expr { kind, location: self.since(start) }, height))
    }

    fn postfix(&mut self) -> Result<Tall<Expr>> {
        let start = self.current.location;
        let operand = self.primary()?;
        self.postfix_behind(operand, start)
    }

    fn postfix_behind(&mut self, operand: Tall<Expr>, start: Location) -> Result<Tall<Expr>> {
        let (mut expr, mut height) = operand;
        loop {
            let kind = if self.take_symbol(".") {
                let name = self.name()?;
                ExprKind::Member(Box::new(expr), name)
            } else if self.take_symbol("[") {
                let (index, tall) = self.expression()?;
                self.expect_symbol("]")?;
                height = height.max(tall);
                match index.kind {
                    ExprKind::String(name) => ExprKind::Member(Box::new(expr), name),
                    _ => ExprKind::Index(Box::new(expr), Box::new(index)),
                }
            } else {
                return Ok((expr, height));
            };
            height = self.check_height(height + 1)?;
            expr = Expr { kind, location: self.since(start) };
        }
    }

    fn primary(&mut self) -> Result<Tall<Expr>> {
        let location = self.current.location;
        let kind = match &self.current.kind {
            Kind::String(text) => ExprKind::String(text.clone()),
            Kind::Number(number) => ExprKind::Number(*number),
            Kind::Parameter => ExprKind::Parameter(self.current.text.into()),
            Kind::Symbol("(") => return self.parenthesis(),
            Kind::Symbol("[") => return self.array(),
            Kind::Symbol("{") => return self.object(),
            Kind::Word => match literal_word(self.current.text) {
                Some(kind) => kind,
                None => return self.name_or_call(),
            },
            Kind::Keyword(keyword) => return self.keyword_expression(*keyword),
            _ => return Err(self.unexpected()),
        };
        self.advance();
        Ok((Expr { kind, location }, 1))
    }

    /// `( … )`. Parentheses that open one after the other are read in a loop: such nesting to the
    /// left comes from generated texts and may be hundreds deep.
    fn parenthesis(&mut self) -> Result<Tall<Expr>> {
        let mut starts = Vec::new();
        while self.at_symbol("(") {
            starts.push(self.advance().location);
        }
        let innermost = starts.pop().unwrap_or_default();
        let mut inner = if self.at_keyword(Keyword::Select) {
            self.subquery(SubqueryKind::Scalar, innermost)?
        } else {
            self.expression()?
        };
        self.close(&mut inner, innermost)?;
        while let Some(start) = starts.pop() {
            let operand = self.postfix_behind(inner, start)?;
            let condition = self.operators_behind(operand, precedence::COALESCE)?;
            inner = self.conditional(condition)?;
            self.close(&mut inner, start)?;
        }
        Ok(inner)
    }

    fn close(&mut self, inner: &mut Tall<Expr>, start: Location) -> Result<()> {
        self.expect_symbol(")")?;
        inner.0.location = self.since(start);
        Ok(())
    }

    fn subquery(&mut self, kind: SubqueryKind, start: Location) -> Result<Tall<Expr>> {
        let (query, height) = self.query()?;
        let height = self.check_height(height + SUBQUERY_HEIGHT)?;
        let kind = ExprKind::Subquery(kind, Box::new(query));
        Ok((Expr { kind, location: self.since(start) }, height))
    }

    fn array(&mut self) -> Result<Tall<Expr>> {
        let start = self.advance().location;
        let (elements, height) =
            if self.at_symbol("]") { (Vec::new(), 0) } else { self.expression_list()? };
        self.expect_symbol("]")?;
        let height = self.check_height(height + 1)?;
        Ok((Expr { kind: ExprKind::Array(elements), location: self.since(start) }, height))
    }

    fn object(&mut self) -> Result<Tall<Expr>> {
        let start = self.advance().location;
        let mut members = Vec::new();
        let mut tallest = 0;
        if !self.at_symbol("}") {
            loop {
                let name = match &self.current.kind {
                    Kind::String(name) => name.clone(),
                    Kind::Word | Kind::Keyword(_) => self.current.text.into(),
                    _ => return Err(self.unexpected()),
                };
                self.advance();
                self.expect_symbol(":")?;
                let (expr, height) = self.expression()?;
                tallest = tallest.max(height);
                members.push((name, expr));
                if !self.take_symbol(",") {
                    break;
                }
            }
        }
        self.expect_symbol("}")?;
        let height = self.check_height(tallest + 1)?;
        Ok((Expr { kind: ExprKind::Object(members), location: self.since(start) }, height))
    }

    fn keyword_expression(&mut self, keyword: Keyword) -> Result<Tall<Expr>> {
        let kind = match keyword {
            Keyword::Exists => SubqueryKind::Exists,
            Keyword::Array => SubqueryKind::Array,
            Keyword::All => SubqueryKind::All,
            Keyword::First => SubqueryKind::First,
            Keyword::Last => SubqueryKind::Last,
            Keyword::Left | Keyword::Right | Keyword::Rank => return self.name_or_call(),
            _ => return Err(self.unexpected()),
        };
        if !self.following_is_symbol("(") {
            // EXISTS and ARRAY are no names; the others are.
            return if keyword.is_contextual() {
                self.name_or_call()
            } else {
                self.advance();
                Err(self.unexpected())
            };
        }
        let start = self.advance().location;
        self.advance();
        let (mut expr, height) = self.subquery(kind, start)?;
        self.expect_symbol(")")?;
        expr.location = self.since(start);
        Ok((expr, height))
    }

    fn name_or_call(&mut self) -> Result<Tall<Expr>> {
        let is_user_call = self.current.text == "udf" && self.current.kind == Kind::Word;
        if is_user_call || self.following_is_symbol("(") {
            return self.call();
        }
        let location = self.current.location;
        let name = self.name()?;
        Ok((Expr { kind: ExprKind::Identifier(name), location }, 1))
    }

    /// `name(…)` or `udf.name(…)`
    pub(super) fn call(&mut self) -> Result<Tall<Expr>> {
        let start = self.current.location;
        let user = self.current.text == "udf" && self.current.kind == Kind::Word;
        if user {
            self.advance();
            self.expect_symbol(".")?;
            self.count_user_call(start)?;
        }
        let name = self.name()?;
        self.expect_symbol("(")?;
        let (arguments, height) =
            if self.at_symbol(")") { (Vec::new(), 0) } else { self.expression_list()? };
        self.expect_symbol(")")?;
        let height = self.check_height(height + 1)?;
        let kind = ExprKind::Call { name, user, arguments };
        Ok((Expr { kind, location: self.since(start) }, height))
    }

    fn count_user_call(&mut self, location: Location) -> Result<()> {
        self.user_calls += 1;
        if self.user_calls > USER_FUNCTION_CALLS_MAX {
            let message =
                format!("The query calls more than {USER_FUNCTION_CALLS_MAX} user functions.");
            return Err(SqlError::compile(Code::TooLarge, message, location));
        }
        Ok(())
    }
}

fn literal_word(word: &str) -> Option<ExprKind> {
    match word {
        "true" => Some(ExprKind::Bool(true)),
        "false" => Some(ExprKind::Bool(false)),
        "null" => Some(ExprKind::Null),
        "undefined" => Some(ExprKind::Undefined),
        "NaN" => Some(ExprKind::Number(Number::Float(f64::NAN))),
        "Infinity" => Some(ExprKind::Number(Number::Float(f64::INFINITY))),
        _ => None,
    }
}

fn binary_operator(symbol: &str) -> Option<BinaryOperator> {
    Some(match symbol {
        "??" => BinaryOperator::Coalesce,
        "||" => BinaryOperator::Concat,
        "|" => BinaryOperator::BitOr,
        "^" => BinaryOperator::BitXor,
        "&" => BinaryOperator::BitAnd,
        "=" => BinaryOperator::Equal,
        "!=" | "<>" => BinaryOperator::NotEqual,
        "<" => BinaryOperator::Less,
        "<=" => BinaryOperator::LessOrEqual,
        ">" => BinaryOperator::Greater,
        ">=" => BinaryOperator::GreaterOrEqual,
        "<<" => BinaryOperator::ShiftLeft,
        ">>" => BinaryOperator::ShiftRight,
        ">>>" => BinaryOperator::ShiftRightUnsigned,
        "+" => BinaryOperator::Add,
        "-" => BinaryOperator::Subtract,
        "*" => BinaryOperator::Multiply,
        "/" => BinaryOperator::Divide,
        "%" => BinaryOperator::Modulo,
        _ => return None,
    })
}
