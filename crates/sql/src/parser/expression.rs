//! Scalar expressions, by precedence climbing.

use super::{Parser, Tall};
use crate::ast::{BinaryOperator, Expr, ExprKind, SubqueryKind, UnaryOperator};
use crate::error::{Location, Result};
use crate::lexer::{Keyword, TokenKind};
use crate::limits::SUBQUERY_HEIGHT;
use crate::precedence;
use armilla_model::Number;

impl Parser<'_> {
    /// `coalesce [ ? expr : expr ]`
    pub(super) fn expression(&mut self) -> Result<Tall<Expr>> {
        self.expression_behind(None)
    }

    /// An expression of which the first operand may have been read already.
    fn expression_behind(&mut self, first: Option<Tall<Expr>>) -> Result<Tall<Expr>> {
        self.descend()?;
        let condition = self.coalesce(first)?;
        let whole = self.conditional(condition)?;
        self.ascend();
        Ok(whole)
    }

    fn conditional(&mut self, (condition, height): Tall<Expr>) -> Result<Tall<Expr>> {
        if !self.take_symbol("?") {
            return Ok((condition, height));
        }
        let (then, then_height) = self.expression()?;
        self.expect_symbol(":")?;
        let (otherwise, otherwise_height) = self.expression()?;
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

    /// `or { ?? or }`, from right to left.
    fn coalesce(&mut self, first: Option<Tall<Expr>>) -> Result<Tall<Expr>> {
        let mut last = self.disjunction(first)?;
        let mut before = Vec::new();
        while self.take_symbol("??") {
            before.push(std::mem::replace(&mut last, self.disjunction(None)?));
        }
        while let Some(left) = before.pop() {
            last = self.binary(BinaryOperator::Coalesce, left, last)?;
        }
        Ok(last)
    }

    /// `between | and { OR and }`: BETWEEN stands alone, beside AND and OR only in parentheses.
    fn disjunction(&mut self, first: Option<Tall<Expr>>) -> Result<Tall<Expr>> {
        let first = self.operators(first, precedence::COMPARISON)?;
        if self.at_predicate(Keyword::Between) {
            return self.between(first);
        }
        let mut left = self.conjunction(first)?;
        while self.take_keyword(Keyword::Or) {
            let operand = self.operators(None, precedence::COMPARISON)?;
            let right = self.conjunction(operand)?;
            left = self.connective(false, left, right)?;
        }
        Ok(left)
    }

    /// `predicate { AND predicate }` of which the first operand has been read.
    fn conjunction(&mut self, first: Tall<Expr>) -> Result<Tall<Expr>> {
        let mut left = self.predicate(first)?;
        while self.take_keyword(Keyword::And) {
            let operand = self.operators(None, precedence::COMPARISON)?;
            let right = self.predicate(operand)?;
            left = self.connective(true, left, right)?;
        }
        Ok(left)
    }

    /// Operands and the infix operators between them that bind at least as tightly as `minimum`.
    fn operators(&mut self, first: Option<Tall<Expr>>, minimum: u8) -> Result<Tall<Expr>> {
        let mut left = match first {
            Some(first) => first,
            None => self.unary()?,
        };
        while let Some(operator) = self.infix(minimum) {
            self.advance();
            let right = self.operators(None, precedence::of_operator(operator) + 1)?;
            left = self.binary(operator, left, right)?;
        }
        Ok(left)
    }

    fn infix(&self, minimum: u8) -> Option<BinaryOperator> {
        let TokenKind::Symbol(symbol) = &self.current.kind else { return None };
        binary_operator(symbol).filter(|operator| precedence::of_operator(*operator) >= minimum)
    }

    /// One operator more. A chain of operators on one level is one node once it is long, so that its
    /// length is no depth.
    fn binary(
        &self,
        operator: BinaryOperator,
        left: Tall<Expr>,
        right: Tall<Expr>,
    ) -> Result<Tall<Expr>> {
        let location = left.0.location.to(right.0.location);
        if chains(&left.0, operator) {
            let height = self.check_height(left.1.max(1 + right.1))?;
            let (first, mut rest) = unchained(left.0);
            rest.push((operator, right.0));
            return Ok((Expr { kind: ExprKind::Chain(first, rest), location }, height));
        }
        let height = self.check_height(1 + left.1.max(right.1))?;
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

    /// True at `word` or `NOT word`.
    fn at_predicate(&self, word: Keyword) -> bool {
        self.at_keyword(word)
            || (self.at_keyword(Keyword::Not) && self.following.kind == TokenKind::Keyword(word))
    }

    /// `[NOT] BETWEEN a AND b`
    fn between(&mut self, (value, height): Tall<Expr>) -> Result<Tall<Expr>> {
        let start = value.location;
        let negated = self.take_keyword(Keyword::Not);
        self.expect_keyword(Keyword::Between)?;
        let (low, low_height) = self.operators(None, precedence::COMPARISON)?;
        self.expect_keyword(Keyword::And)?;
        let (high, high_height) = self.operators(None, precedence::COMPARISON)?;
        let (value, low, high) = (Box::new(value), Box::new(low), Box::new(high));
        let kind = ExprKind::Between { value, low, high, negated };
        let height = self.check_height(1 + height.max(low_height).max(high_height))?;
        Ok((Expr { kind, location: self.since(start) }, height))
    }

    /// An operand, and `[NOT] IN (…)` or `[NOT] LIKE p [ESCAPE 'e']` behind it, which do not chain.
    fn predicate(&mut self, left: Tall<Expr>) -> Result<Tall<Expr>> {
        let start = left.0.location;
        let negated = self.take_keyword(Keyword::Not);
        let is_in = self.take_keyword(Keyword::In);
        if !is_in && !self.take_keyword(Keyword::Like) {
            return if negated { Err(self.unexpected()) } else { Ok(left) };
        }
        let (value, height) = (Box::new(left.0), left.1);
        let (kind, other) = if is_in {
            self.expect_symbol("(")?;
            let (list, tall) = self.expression_list()?;
            self.expect_symbol(")")?;
            (ExprKind::In { needle: value, list, negated }, tall)
        } else {
            let (pattern, tall) = self.operators(None, precedence::COMPARISON)?;
            let escape =
                if self.take_keyword(Keyword::Escape) { Some(self.escape()?) } else { None };
            (ExprKind::Like { value, pattern: Box::new(pattern), escape, negated }, tall)
        };
        let height = self.check_height(1 + height.max(other))?;
        Ok((Expr { kind, location: self.since(start) }, height))
    }

    /// The escape of LIKE: a string. The binder says whether it is one character.
    fn escape(&mut self) -> Result<crate::ast::Name> {
        let TokenKind::String(text) = &self.current.kind else { return Err(self.unexpected()) };
        let text = text.clone();
        self.advance();
        Ok(text)
    }

    fn unary(&mut self) -> Result<Tall<Expr>> {
        let operator = match &self.current.kind {
            TokenKind::Symbol("-") => UnaryOperator::Minus,
            TokenKind::Symbol("+") => UnaryOperator::Plus,
            TokenKind::Symbol("~") => UnaryOperator::BitNot,
            TokenKind::Keyword(Keyword::Not) => UnaryOperator::Not,
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
                let name = self.chosen_name()?;
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
            TokenKind::String(text) => ExprKind::String(text.clone()),
            TokenKind::Number(number) => ExprKind::Number(*number),
            TokenKind::Parameter => ExprKind::Parameter(self.current.text.into()),
            TokenKind::Symbol("(") => return self.parenthesis(),
            TokenKind::Symbol("[") => return self.array(),
            TokenKind::Symbol("{") => return self.object(),
            TokenKind::Word => match literal_word(self.current.text) {
                Some(kind) => kind,
                None => return self.name_or_call(),
            },
            TokenKind::Keyword(keyword) => return self.keyword_expression(*keyword),
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
        } else if self.at_let() {
            self.binding()?
        } else {
            self.expression()?
        };
        self.close(&mut inner, innermost)?;
        while let Some(start) = starts.pop() {
            let operand = self.postfix_behind(inner, start)?;
            inner = self.expression_behind(Some(operand))?;
            self.close(&mut inner, start)?;
        }
        Ok(inner)
    }

    /// True at `LET name`, which is no keyword elsewhere.
    fn at_let(&self) -> bool {
        self.current.kind == TokenKind::Word
            && self.current.text.eq_ignore_ascii_case("LET")
            && self.following.kind == TokenKind::Word
    }

    /// `LET name = value IN body`, inside of parentheses.
    fn binding(&mut self) -> Result<Tall<Expr>> {
        self.descend()?;
        let start = self.advance().location;
        let name = self.name()?;
        self.expect_symbol("=")?;
        // IN ends the value, so it cannot hold one outside of parentheses.
        let (value, height) = self.operators(None, precedence::COMPARISON)?;
        self.expect_keyword(Keyword::In)?;
        let (body, body_height) = self.expression()?;
        self.ascend();
        let height = self.check_height(height.max(body_height) + SUBQUERY_HEIGHT)?;
        let kind = ExprKind::Let { name, value: Box::new(value), body: Box::new(body) };
        Ok((Expr { kind, location: self.since(start) }, height))
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
                    TokenKind::String(name) => name.clone(),
                    _ if self.at_name() => self.current.text.into(),
                    _ => return Err(self.no_name()),
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
            Keyword::Rank => return self.name_or_call(),
            // No names, but built-in functions.
            Keyword::Left | Keyword::Right => return self.call(),
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
        let is_user_call = self.current.text == "udf" && self.current.kind == TokenKind::Word;
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
        let user = self.current.text == "udf" && self.current.kind == TokenKind::Word;
        if user {
            self.advance();
            self.expect_symbol(".")?;
            self.user_calls += 1;
        }
        let is_side = self.at_keyword(Keyword::Left) || self.at_keyword(Keyword::Right);
        let name_location = self.current.location;
        let name = if is_side && !user {
            self.advance().text.to_ascii_uppercase().into()
        } else {
            self.name()?
        };
        self.expect_symbol("(")?;
        if !user && self.at_keyword(Keyword::Select) {
            // A sub-query as an argument needs parentheses of its own.
            self.query()?;
            return Err(self.unexpected());
        }
        let (arguments, height) =
            if self.at_symbol(")") { (Vec::new(), 0) } else { self.expression_list()? };
        self.expect_symbol(")")?;
        let height = self.check_height(height + 1)?;
        let kind = ExprKind::Call { name, user, arguments, name_location };
        Ok((Expr { kind, location: self.since(start) }, height))
    }
}

/// Operators of a chain that stand beside each other before it becomes one node.
const CHAIN_MIN: usize = 32;

/// True when an operator makes a chain, or a longer one, of what stands left of it.
fn chains(left: &Expr, operator: BinaryOperator) -> bool {
    let level = precedence::of_operator(operator);
    if level == precedence::COALESCE {
        return false;
    }
    if let ExprKind::Chain(..) = &left.kind {
        return precedence::of(left) == level;
    }
    let mut spine = left;
    for _ in 0..CHAIN_MIN {
        match &spine.kind {
            ExprKind::Binary(operator, left, _) if precedence::of_operator(*operator) == level => {
                spine = left;
            }
            _ => return false,
        }
    }
    true
}

/// The operands of a chain, or of the binary operators that become one.
fn unchained(expr: Expr) -> (Box<Expr>, Vec<(BinaryOperator, Expr)>) {
    let mut expr = expr;
    let mut rest = Vec::new();
    let level = precedence::of(&expr);
    loop {
        match expr.kind {
            ExprKind::Chain(first, rest) => return (first, rest),
            ExprKind::Binary(operator, left, right)
                if precedence::of_operator(operator) == level =>
            {
                rest.push((operator, *right));
                expr = *left;
            }
            _ => {
                rest.reverse();
                return (Box::new(expr), rest);
            }
        }
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
