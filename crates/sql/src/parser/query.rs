//! The clauses of a query.

use super::{Parser, Tall};
use crate::ast::{
    Collection, Count, CountValue, Expr, ExprKind, FromItem, Name, OrderItem, Places, Query,
    SelectItem, Selection, SourceStep, Text,
};
use crate::error::Result;
use crate::lexer::{Keyword, TokenKind};
use crate::limits::SUBQUERY_HEIGHT;
use armilla_model::Number;

impl Parser<'_> {
    /// `SELECT …` up to the end of the query or sub-query.
    pub(super) fn query(&mut self) -> Result<Tall<Query>> {
        let start = self.current.location;
        self.descend()?;
        self.expect_keyword(Keyword::Select)?;
        let distinct = self.take_keyword(Keyword::Distinct);
        let top_start = self.current.location;
        let top = if self.take_keyword(Keyword::Top) { Some(self.count(false)?) } else { None };
        let top_location = self.since(top_start);
        let (select, height) = self.selection()?;
        let select_location = self.since(start);
        let (mut query, rest) = self.clauses(select)?;
        self.ascend();
        (query.distinct, query.top, query.location) = (distinct, top, self.since(start));
        (query.places.select, query.places.top) = (select_location, top_location);
        Ok((query, height.max(rest)))
    }

    /// `FROM c WHERE …`: a query without its SELECT.
    pub(super) fn condition(&mut self) -> Result<Tall<Query>> {
        if !self.at_keyword(Keyword::From) {
            return Err(self.unexpected());
        }
        let select = Selection::Value(Expr::made(ExprKind::Bool(true)));
        self.clauses(select)
    }

    fn clauses(&mut self, select: Selection) -> Result<Tall<Query>> {
        let start = self.current.location;
        let (from, mut height) = self.source_list()?;
        let mut taller = |other: usize| height = height.max(other);
        let filter = if self.take_keyword(Keyword::Where) {
            let (filter, tall) = self.expression()?;
            taller(tall);
            Some(filter)
        } else {
            None
        };
        let mut places = Places::default();
        let clause = self.current.location;
        let (group_by, tall) = self.group_by()?;
        places.group_by = self.since(clause);
        taller(tall);
        let clause = self.current.location;
        let (order_by, rank, tall) = self.order_by()?;
        places.order_by = self.since(clause);
        taller(tall);
        let clause = self.current.location;
        let offset_limit = self.offset_limit()?;
        places.offset_limit = self.since(clause);
        let location = self.since(start);
        let query = Query {
            distinct: false,
            top: None,
            select,
            from,
            filter,
            group_by,
            order_by,
            rank,
            offset_limit,
            location,
            places,
            text: Text::default(),
        };
        Ok((query, height))
    }

    /// True when the current token is an integer, and written as one.
    fn is_integer(&self) -> bool {
        let digits = self.current.text.bytes().all(|byte| byte.is_ascii_digit());
        matches!(self.current.kind, TokenKind::Number(Number::Int(_)))
            && (digits || self.current.text.starts_with(['0']))
    }

    /// A number or a parameter; `whole` where the grammar takes integers only.
    fn count(&mut self, whole: bool) -> Result<Count> {
        let location = self.current.location;
        let value = match self.current.kind {
            TokenKind::Number(number) if self.is_integer() || !whole => CountValue::Literal(number),
            TokenKind::Word if !whole => match self.current.text {
                "NaN" => CountValue::Literal(Number::Float(f64::NAN)),
                "Infinity" => CountValue::Literal(Number::Float(f64::INFINITY)),
                _ => return Err(self.unexpected()),
            },
            TokenKind::Parameter => CountValue::Parameter(self.current.text.into()),
            _ => return Err(self.unexpected()),
        };
        self.advance();
        Ok(Count { value, location })
    }

    fn selection(&mut self) -> Result<Tall<Selection>> {
        let location = self.current.location;
        if self.take_symbol("*") {
            return Ok((Selection::Star(location), 1));
        }
        if self.take_keyword(Keyword::Value) {
            let (expr, height) = self.expression()?;
            return Ok((Selection::Value(expr), height));
        }
        let mut items = Vec::new();
        let mut tallest = 0;
        loop {
            let (expr, height) = self.expression()?;
            tallest = tallest.max(height);
            let alias = self.output_name()?;
            items.push(SelectItem { expr, alias });
            if !self.take_symbol(",") {
                return Ok((Selection::List(items), tallest));
            }
        }
    }

    /// `[AS] name` or `[AS] 'any text'`.
    fn output_name(&mut self) -> Result<Option<Name>> {
        let named = self.take_keyword(Keyword::As);
        if let TokenKind::String(name) = &self.current.kind {
            let name = name.clone();
            self.advance();
            return Ok(Some(name));
        }
        if named || self.at_name() { self.chosen_name().map(Some) } else { Ok(None) }
    }

    fn source_list(&mut self) -> Result<Tall<Vec<FromItem>>> {
        if !self.take_keyword(Keyword::From) {
            return Ok((Vec::new(), 0));
        }
        let (first, mut tallest) = self.source()?;
        let mut sources = vec![first];
        while self.at_keyword(Keyword::Join) {
            self.advance();
            self.joins += 1;
            let (source, height) = self.source()?;
            tallest = tallest.max(height);
            sources.push(source);
        }
        Ok((sources, tallest))
    }

    fn source(&mut self) -> Result<Tall<FromItem>> {
        let start = self.current.location;
        let iterate = self.at_name() && self.following.kind == TokenKind::Keyword(Keyword::In);
        let mut alias = None;
        let mut alias_location = start;
        if iterate {
            alias = Some(self.name()?);
            self.advance();
        }
        let (collection, height) = self.collection()?;
        let location = self.since(start);
        if !iterate {
            alias_location = self.previous;
        }
        if !iterate && (self.take_keyword(Keyword::As) || self.at_name()) {
            alias_location = self.current.location;
            alias = Some(self.chosen_name()?);
        }
        Ok((FromItem { collection, iterate, alias, alias_location, location }, height))
    }

    fn collection(&mut self) -> Result<Tall<Collection>> {
        if self.take_symbol("(") {
            let (query, height) = self.query()?;
            self.expect_symbol(")")?;
            let height = self.check_height(height + SUBQUERY_HEIGHT)?;
            return Ok((Collection::Query(Box::new(query)), height));
        }
        let root_location = self.current.location;
        let root = self.name()?;
        let mut steps = Vec::new();
        loop {
            if self.take_symbol(".") {
                steps.push(SourceStep::Member(self.chosen_name()?));
            } else if self.take_symbol("[") {
                steps.push(self.bracket_step()?);
                self.expect_symbol("]")?;
            } else {
                return Ok((Collection::Path { root, root_location, steps }, 1));
            }
        }
    }

    fn bracket_step(&mut self) -> Result<SourceStep> {
        let step = match &self.current.kind {
            TokenKind::String(name) => SourceStep::Member(name.clone()),
            // A fraction is no position of any element.
            TokenKind::Number(number) => match number.as_i64().map(u64::try_from) {
                Some(Ok(index)) => SourceStep::Element(index),
                _ => SourceStep::Element(u64::MAX),
            },
            _ => return Err(self.unexpected()),
        };
        self.advance();
        Ok(step)
    }

    fn group_by(&mut self) -> Result<Tall<Vec<Expr>>> {
        if !self.take_keyword(Keyword::Group) {
            return Ok((Vec::new(), 0));
        }
        self.expect_keyword(Keyword::By)?;
        self.expression_list()
    }

    fn order_by(&mut self) -> Result<(Vec<OrderItem>, bool, usize)> {
        if !self.take_keyword(Keyword::Order) {
            return Ok((Vec::new(), false, 0));
        }
        self.expect_keyword(Keyword::By)?;
        // RANK may also be an alias: `ORDER BY rank.x`.
        let rank = self.at_keyword(Keyword::Rank)
            && (self.following.kind == TokenKind::Word || self.following.kind == TokenKind::End);
        if rank {
            self.advance();
        }
        let mut items = Vec::new();
        let mut tallest = 0;
        loop {
            let (expr, height) = if rank { self.call()? } else { self.expression()? };
            tallest = tallest.max(height);
            let descending = self.take_keyword(Keyword::Desc);
            let directed = descending || self.take_keyword(Keyword::Asc);
            items.push(OrderItem { expr, descending, directed });
            if rank || !self.take_symbol(",") {
                return Ok((items, rank, tallest));
            }
        }
    }

    fn offset_limit(&mut self) -> Result<Option<(Count, Count)>> {
        if !self.take_keyword(Keyword::Offset) {
            return Ok(None);
        }
        let offset = self.count(true)?;
        self.expect_keyword(Keyword::Limit)?;
        let limit = self.count(true)?;
        Ok(Some((offset, limit)))
    }
}
