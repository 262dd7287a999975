//! Expressions: names to frames, parameters to values, constants folded.

use super::fold::fold;
use super::{Binder, Clause, Place, Seen, aggregate_of, contains_aggregate, is_path};
use crate::ast::{self, ExprKind, Name, SubqueryKind, UnaryOperator};
use crate::compiled::{
    Aggregate, Compiled, CompiledExpr, Input, Order, PathRef, Projection, Source, Step, ValueSet,
};
use crate::error::{Code, Location};
use crate::like::Pattern;
use crate::limits::{AGGREGATES_MAX, REFERENCES_UNGUARDED_MAX};
use armilla_model::number::INTEGERS_END;
use armilla_model::{Number, Value};
use std::sync::Arc;

impl Binder<'_> {
    pub(super) fn expression(&mut self, expr: &ast::Expr) -> CompiledExpr {
        if let Some(expr) = self.grouped(expr) {
            return expr;
        }
        let constructs =
            matches!(expr.kind, ExprKind::Array(_) | ExprKind::Object(_) | ExprKind::Call { .. });
        if !constructs || self.inside_constructor {
            return self.ungrouped(expr);
        }
        self.inside_constructor = true;
        let compiled = self.ungrouped(expr);
        self.inside_constructor = false;
        if repeats_much(&compiled) { CompiledExpr::Guarded(Box::new(compiled)) } else { compiled }
    }

    fn ungrouped(&mut self, expr: &ast::Expr) -> CompiledExpr {
        match &expr.kind {
            ExprKind::Undefined => CompiledExpr::UNDEFINED,
            ExprKind::Null => CompiledExpr::Constant(Value::Null),
            ExprKind::Bool(bool) => CompiledExpr::Constant(Value::Bool(*bool)),
            ExprKind::Number(number) => CompiledExpr::Constant(Value::Number(*number)),
            ExprKind::String(text) => CompiledExpr::Constant(Value::String(text.clone())),
            ExprKind::Parameter(name) => {
                CompiledExpr::Constant(self.parameter(name, expr.location).unwrap_or_default())
            }
            ExprKind::Identifier(_) | ExprKind::Member(..) | ExprKind::Index(..) => {
                self.reference(expr)
            }
            ExprKind::Array(elements) => fold(CompiledExpr::Array(self.list(elements))),
            ExprKind::Object(members) => self.object(members),
            ExprKind::And(parts) => self.connective(parts, true),
            ExprKind::Or(parts) => self.connective(parts, false),
            ExprKind::Call { name, user, arguments, name_location } => {
                let places = (*name_location, expr.location);
                self.call(name, *user, arguments, places)
            }
            ExprKind::Subquery(kind, query) => self.subquery(*kind, query, expr.location),
            _ => self.operation(expr),
        }
    }

    pub(super) fn list(&mut self, list: &[ast::Expr]) -> Vec<CompiledExpr> {
        list.iter().map(|expr| self.expression(expr)).collect()
    }

    fn boxed(&mut self, expr: &ast::Expr) -> Box<CompiledExpr> {
        Box::new(self.expression(expr))
    }

    fn operation(&mut self, expr: &ast::Expr) -> CompiledExpr {
        match &expr.kind {
            // The one integer whose digits without the sign are none.
            ExprKind::Unary(UnaryOperator::Minus, operand)
                if matches!(operand.kind, ExprKind::Number(Number::Float(INTEGERS_END))) =>
            {
                CompiledExpr::Constant(Value::from(i64::MIN))
            }
            ExprKind::Unary(operator, operand) => {
                fold(CompiledExpr::Unary(*operator, self.boxed(operand)))
            }
            ExprKind::Binary(operator, left, right) => {
                fold(CompiledExpr::Binary(*operator, self.boxed(left), self.boxed(right)))
            }
            ExprKind::Chain(first, rest) => self.chain(first, rest),
            ExprKind::Let { name, value, body } => self.binding(name, value, body, expr.location),
            ExprKind::Conditional(condition, then, otherwise) => {
                let parts =
                    (self.expression(condition), self.expression(then), self.expression(otherwise));
                fold(CompiledExpr::Conditional(Box::new(parts)))
            }
            ExprKind::In { needle, list, negated } => {
                let needle = self.boxed(needle);
                let list = self.list(list);
                negate(*negated, fold(membership(needle, list)))
            }
            ExprKind::Between { value, low, high, negated } => {
                let parts = (self.expression(value), self.expression(low), self.expression(high));
                negate(*negated, fold(CompiledExpr::Between(Box::new(parts))))
            }
            ExprKind::Like { value, pattern, escape, negated } => {
                let escape = escape.as_ref().and_then(|text| self.escape(text, expr.location));
                let value = self.expression(value);
                let pattern = self.expression(pattern);
                negate(*negated, fold(like(value, pattern, escape)))
            }
            _ => CompiledExpr::UNDEFINED,
        }
    }

    /// A long chain: what is constant at its start is folded, the rest stays one node.
    fn chain(
        &mut self,
        first: &ast::Expr,
        rest: &[(ast::BinaryOperator, ast::Expr)],
    ) -> CompiledExpr {
        let mut first = self.expression(first);
        let mut kept: Vec<(ast::BinaryOperator, CompiledExpr)> = Vec::new();
        for (operator, operand) in rest {
            let operand = self.expression(operand);
            if kept.is_empty() && first.constant().is_some() && operand.constant().is_some() {
                first = fold(CompiledExpr::Binary(*operator, Box::new(first), Box::new(operand)));
            } else {
                kept.push((*operator, operand));
            }
        }
        if kept.is_empty() { first } else { CompiledExpr::Chain(Box::new(first), kept) }
    }

    /// `LET name = value IN body` is a sub-query with one row.
    fn binding(
        &mut self,
        name: &Name,
        value: &ast::Expr,
        body: &ast::Expr,
        location: Location,
    ) -> CompiledExpr {
        if self.find(name).is_some() {
            let message =
                format!("The variable name '{name}' in the LET expression must be unique.");
            return self.wrong(Code::LetName, message, location);
        }
        // In an array, so that an undefined value is a row as well.
        let value = CompiledExpr::Array(vec![self.expression(value)]);
        self.depth += 1;
        let binding = super::Binding::new(Some(name.clone()), self.depth);
        self.bindings.push(super::Binding { lifted: true, ..binding });
        let body = self.expression(body);
        self.bindings.pop();
        self.depth -= 1;
        let query = Compiled {
            input: Input::Single,
            sources: vec![Source::One(value)],
            filter: None,
            checks: vec![None, None],
            aggregation: None,
            projection: Projection::Value(body),
            distinct: false,
            order: Order::None,
            top: None,
            offset: 0,
            limit: None,
            calls_user_functions: self.calls_user_functions,
            multiplies: false,
        };
        CompiledExpr::Subquery(SubqueryKind::Scalar, Box::new(query))
    }

    /// The escape of LIKE: one character.
    fn escape(&mut self, text: &Name, location: Location) -> Option<char> {
        let mut characters = text.chars();
        let first = characters.next();
        if first.is_none() || characters.next().is_some() {
            let message =
                format!("The invalid escape character '{text}' was specified in a LIKE predicate.");
            self.error(Code::LikeEscape, message, location);
        }
        first
    }

    fn object(&mut self, members: &[(Name, ast::Expr)]) -> CompiledExpr {
        let mut compiled: Vec<(Name, CompiledExpr)> = Vec::with_capacity(members.len());
        let mut seen = Seen::new(members.len());
        for (name, expr) in members {
            if !seen.insert(name) {
                self.duplicate_property(name, expr.location);
                continue;
            }
            compiled.push((name.clone(), self.expression(expr)));
        }
        fold(CompiledExpr::Object(compiled))
    }

    pub(super) fn duplicate_property(&mut self, name: &Name, location: Location) {
        let message =
            format!("Object creation error, property name '{name}' specified more than once.");
        self.error(Code::DuplicateProperty, message, location);
    }

    fn connective(&mut self, parts: &[ast::Expr], is_and: bool) -> CompiledExpr {
        let mut flat = Vec::with_capacity(parts.len());
        for part in parts {
            match self.expression(part) {
                CompiledExpr::And(inner) if is_and => flat.extend(inner),
                CompiledExpr::Or(inner) if !is_and => flat.extend(inner),
                other => flat.push(other),
            }
        }
        fold(if is_and { CompiledExpr::And(flat) } else { CompiledExpr::Or(flat) })
    }

    /// A name, a path below it, or a step into any other expression.
    fn reference(&mut self, expr: &ast::Expr) -> CompiledExpr {
        let mut steps = Vec::new();
        let mut base = expr;
        // From the outermost step inwards.
        loop {
            if let Some(slot) = self.key_slot(base) {
                return descend(CompiledExpr::Slot(slot), steps.into_iter().rev());
            }
            match &base.kind {
                ExprKind::Member(inner, name) => {
                    steps.push(Step::Member(name.clone()));
                    base = inner;
                }
                ExprKind::Index(inner, index) => match self.constant_step(index) {
                    Some(step) => {
                        steps.push(step);
                        base = inner;
                    }
                    None => return self.computed_index(index, base.location),
                },
                _ => break,
            }
        }
        if let ExprKind::Identifier(name) = &base.kind {
            if self.find(name).is_some_and(|binding| binding.hidden) {
                return self.not_grouped(named_part(expr).location);
            }
            steps.reverse();
            return self.path(name, steps, base.location);
        }
        let base = self.expression(base);
        descend(base, steps.into_iter().rev())
    }

    /// `e[computed]`, which the language has and no query may use.
    fn computed_index(&mut self, index: &ast::Expr, location: Location) -> CompiledExpr {
        let _bound = self.expression(index);
        let message =
            "The specified query includes 'member indexer' which is currently not supported.";
        self.wrong(Code::Unsupported, message, location)
    }

    /// Reports a property that is neither grouped nor aggregated.
    pub(super) fn not_grouped(&mut self, location: Location) -> CompiledExpr {
        if self.groups_are_wrong {
            return CompiledExpr::UNDEFINED;
        }
        let (code, clause) = self.clause_words();
        let property = self.text.at(location).unwrap_or_default();
        let message = format!(
            "Property reference '{property}' is invalid in the {clause} because it is not contained \
             in either an aggregate function or the GROUP BY clause."
        );
        self.wrong(code, message, location)
    }

    /// A literal or parameter that chooses a member or an element.
    fn constant_step(&mut self, index: &ast::Expr) -> Option<Step> {
        let value = match &index.kind {
            ExprKind::Number(number) => Value::Number(*number),
            ExprKind::Unary(UnaryOperator::Minus, operand) => {
                let ExprKind::Number(number) = &operand.kind else { return None };
                let is_zero = number.as_f64() == 0.0;
                return Some(Step::Element(if is_zero { 0 } else { usize::MAX }));
            }
            ExprKind::Parameter(name) => self.parameter(name, index.location)?,
            _ => return None,
        };
        match value {
            Value::String(name) => Some(Step::Member(name)),
            // A fraction or a negative number is the position of no element.
            Value::Number(number) => {
                let position = number.as_i64().and_then(|position| position.try_into().ok());
                Some(Step::Element(position.unwrap_or(usize::MAX)))
            }
            Value::Undefined => Some(Step::Element(usize::MAX)),
            _ => None,
        }
    }

    /// A path below a name of FROM.
    pub(super) fn path(
        &mut self,
        name: &Name,
        steps: Vec<Step>,
        location: Location,
    ) -> CompiledExpr {
        let Some(binding) = self.find(name) else {
            let message = format!("Identifier '{name}' could not be resolved.");
            return self.wrong(Code::UnknownIdentifier, message, location);
        };
        let hops = self.depth - binding.depth;
        let lifted = binding.lifted.then_some(Step::Element(0));
        if binding.is_item
            && let Some(computed) = self.computed(hops, &steps)
        {
            return computed;
        }
        CompiledExpr::Path(PathRef { hops, steps: lifted.into_iter().chain(steps).collect() })
    }

    fn computed(&mut self, hops: usize, steps: &[Step]) -> Option<CompiledExpr> {
        let (Step::Member(first), rest) = steps.split_first()? else { return None };
        let schema = self.schema;
        let property = schema.computed.iter().find(|property| property.name == *first)?;
        if self.inside_computed {
            return None;
        }
        let mut inner = Binder::new(&[], schema);
        inner.inside_computed = true;
        let binding = super::Binding::new(property.alias.clone(), 0);
        inner.bindings.push(super::Binding { is_item: true, ..binding });
        let definition = Arc::new(inner.expression(&property.expr));
        self.errors.extend(inner.errors);
        Some(CompiledExpr::Computed { name: first.clone(), hops, definition, steps: rest.into() })
    }

    fn subquery(
        &mut self,
        kind: SubqueryKind,
        query: &ast::Query,
        location: Location,
    ) -> CompiledExpr {
        let inside_constructor = std::mem::take(&mut self.inside_constructor);
        let compiled = self.query(query, Place::Inner);
        self.inside_constructor = inside_constructor;
        if kind == SubqueryKind::Scalar && may_have_rows(query) {
            let message =
                "The cardinality of a scalar subquery result set cannot be greater than one.";
            return self.wrong(Code::ScalarRows, message, location);
        }
        CompiledExpr::Subquery(kind, Box::new(compiled))
    }

    /// The slot of a GROUP BY key, behind an aggregation.
    fn key_slot(&self, expr: &ast::Expr) -> Option<usize> {
        let grouping = self.grouping.as_ref()?;
        grouping.keys.iter().position(|key| key == expr)
    }

    /// Behind an aggregation: keys and aggregates are slots, everything else is bound as usual.
    fn grouped(&mut self, expr: &ast::Expr) -> Option<CompiledExpr> {
        let aggregate = aggregate_of(expr);
        if self.grouping.is_none() {
            return aggregate.map(|(_, arguments)| self.misplaced_aggregate(arguments, expr));
        }
        // What is sorted by is a path, though the same expression may be grouped by.
        if (self.clause != Clause::Order || is_path(expr))
            && let Some(position) = self.key_slot(expr)
        {
            return Some(CompiledExpr::Slot(position));
        }
        let (kind, arguments) = aggregate?;
        let grouping = self.grouping.as_ref()?;
        if let Some(seen) = grouping.aggregates.iter().position(|(known, _)| known == expr) {
            return Some(CompiledExpr::Slot(grouping.keys.len() + seen));
        }
        let ExprKind::Call { name, .. } = &expr.kind else { return None };
        let [argument] = arguments else {
            let message = format!("The {name} function requires 1 argument(s).");
            return Some(self.wrong(Code::ArgumentCount, message, expr.location));
        };
        let aggregates = self.grouping.as_ref().map_or(0, |grouping| grouping.aggregates.len());
        if aggregates >= AGGREGATES_MAX {
            let message = format!("A query has at most {AGGREGATES_MAX} aggregates.");
            return Some(self.wrong(Code::TooLarge, message, expr.location));
        }
        let bound = self.aggregate_argument(argument);
        if contains_aggregate(argument) {
            return Some(self.nested_aggregate(expr.location));
        }
        let grouping = self.grouping.as_mut()?;
        let slot = grouping.keys.len() + grouping.aggregates.len();
        grouping.aggregates.push((expr.clone(), Aggregate { kind, argument: bound }));
        Some(CompiledExpr::Slot(slot))
    }

    /// Binds the argument of an aggregate, which sees rows and not groups.
    fn aggregate_argument(&mut self, argument: &ast::Expr) -> CompiledExpr {
        let grouping = self.grouping.take();
        let (from, row_depth) = grouping
            .as_ref()
            .map_or((0, self.depth), |grouping| (grouping.bindings_from, grouping.row_depth));
        let group_depth = std::mem::replace(&mut self.depth, row_depth);
        self.bindings[from..].iter_mut().for_each(|binding| binding.hidden = false);
        self.inside_aggregate = true;
        let compiled = self.expression(argument);
        self.inside_aggregate = false;
        self.bindings[from..].iter_mut().for_each(|binding| binding.hidden = true);
        self.depth = group_depth;
        self.grouping = grouping;
        compiled
    }

    fn misplaced_aggregate(&mut self, arguments: &[ast::Expr], expr: &ast::Expr) -> CompiledExpr {
        let location = expr.location;
        if let ExprKind::Call { name, .. } = &expr.kind
            && arguments.len() != 1
        {
            let message = format!("The {name} function requires 1 argument(s).");
            return self.wrong(Code::ArgumentCount, message, location);
        }
        if self.inside_aggregate {
            // The aggregate around it reports that.
            self.list(arguments);
            if arguments.iter().any(contains_aggregate) {
                self.nested_aggregate(location);
            }
            return CompiledExpr::UNDEFINED;
        }
        if self.clause == Clause::Ranked {
            let message = "Aggregate functions are not allowed with the ORDER BY RANK clause.";
            return self.wrong(Code::RankWithAggregate, message, location);
        }
        let message = "Aggregates are not allowed in the WHERE clause.";
        self.wrong(Code::AggregateInWhere, message, location)
    }

    fn nested_aggregate(&mut self, location: Location) -> CompiledExpr {
        let message = "Cannot perform an aggregate function on an expression containing an \
                       aggregate or a subquery.";
        self.wrong(Code::NestedAggregate, message, location)
    }
}

/// Steps into the value of an expression.
fn descend(base: CompiledExpr, steps: impl Iterator<Item = Step>) -> CompiledExpr {
    steps.fold(base, |base, step| {
        fold(match step {
            Step::Member(name) => CompiledExpr::Member(Box::new(base), name),
            Step::Element(index) => {
                let index = i64::try_from(index).unwrap_or(i64::MAX);
                CompiledExpr::Index(
                    Box::new(base),
                    Box::new(CompiledExpr::Constant(Value::from(index))),
                )
            }
        })
    })
}

/// A reference up to its first index: what messages call a property.
fn named_part(expr: &ast::Expr) -> &ast::Expr {
    let (mut part, mut at) = (expr, expr);
    loop {
        match &at.kind {
            ExprKind::Member(inner, _) => at = inner,
            ExprKind::Index(inner, _) => {
                at = inner;
                part = inner;
            }
            _ => return part,
        }
    }
}

/// True when a sub-query may have more than one row, whatever the data: it goes through an array and
/// aggregates nothing.
fn may_have_rows(query: &ast::Query) -> bool {
    if super::is_aggregated(query) && query.group_by.is_empty() {
        return false;
    }
    query.from.iter().any(|source| {
        let inner = match &source.collection {
            ast::Collection::Query(query) => may_have_rows(query),
            ast::Collection::Path { .. } => false,
        };
        source.iterate || inner
    })
}

/// True when an expression refers to so many values that what it makes of them may be enormous.
fn repeats_much(expr: &CompiledExpr) -> bool {
    fn count(expr: &CompiledExpr, left: &mut usize) -> bool {
        if expr.constant().is_none() && expr.operands().is_empty() {
            *left = left.saturating_sub(1);
        }
        *left > 0 && expr.operands().into_iter().all(|operand| count(operand, left))
    }
    !count(expr, &mut REFERENCES_UNGUARDED_MAX.clone())
}

fn negate(negated: bool, expr: CompiledExpr) -> CompiledExpr {
    if negated { fold(CompiledExpr::Unary(UnaryOperator::Not, Box::new(expr))) } else { expr }
}

fn membership(needle: Box<CompiledExpr>, list: Vec<CompiledExpr>) -> CompiledExpr {
    let constants: Option<Vec<Value>> = list.iter().map(|expr| expr.constant().cloned()).collect();
    match constants {
        Some(values) => CompiledExpr::InSet(needle, ValueSet::new(values)),
        None => CompiledExpr::In(needle, list),
    }
}

fn like(value: CompiledExpr, pattern: CompiledExpr, escape: Option<char>) -> CompiledExpr {
    match &pattern {
        CompiledExpr::Constant(Value::String(text)) => {
            CompiledExpr::Like(Box::new(value), Pattern::new(text, escape))
        }
        _ => CompiledExpr::LikeComputed(Box::new((value, pattern)), escape),
    }
}
