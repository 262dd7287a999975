//! Expressions: names to frames, parameters to values, constants folded.

use super::fold::fold;
use super::{Binder, Place, aggregate_of};
use crate::ast::{self, ExprKind, Name, SubqueryKind, UnaryOperator};
use crate::compiled::{
    Aggregate, Compiled, Expr, Input, Order, PathRef, Projection, Source, Step, ValueSet,
};
use crate::error::{Code, Location};
use crate::like::Pattern;
use crate::limits::{AGGREGATES_MAX, REFERENCES_UNGUARDED_MAX};
use crate::print;
use armilla_model::number::INTEGERS_END;
use armilla_model::{Number, Value};
use std::sync::Arc;

impl Binder<'_> {
    pub(super) fn expression(&mut self, expr: &ast::Expr) -> Expr {
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
        if repeats_much(&compiled) { Expr::Guarded(Box::new(compiled)) } else { compiled }
    }

    fn ungrouped(&mut self, expr: &ast::Expr) -> Expr {
        match &expr.kind {
            ExprKind::Undefined => Expr::UNDEFINED,
            ExprKind::Null => Expr::Constant(Value::Null),
            ExprKind::Bool(bool) => Expr::Constant(Value::Bool(*bool)),
            ExprKind::Number(number) => Expr::Constant(Value::Number(*number)),
            ExprKind::String(text) => Expr::Constant(Value::String(text.clone())),
            ExprKind::Parameter(name) => {
                Expr::Constant(self.parameter(name, expr.location).unwrap_or_default())
            }
            ExprKind::Identifier(_) | ExprKind::Member(..) | ExprKind::Index(..) => {
                self.reference(expr)
            }
            ExprKind::Array(elements) => fold(Expr::Array(self.list(elements))),
            ExprKind::Object(members) => self.object(members),
            ExprKind::And(parts) => self.connective(parts, true),
            ExprKind::Or(parts) => self.connective(parts, false),
            ExprKind::Call { name, user, arguments, .. } => {
                self.call(name, *user, arguments, expr.location)
            }
            ExprKind::Subquery(kind, query) => self.subquery(*kind, query, expr.location),
            _ => self.operation(expr),
        }
    }

    pub(super) fn list(&mut self, list: &[ast::Expr]) -> Vec<Expr> {
        list.iter().map(|expr| self.expression(expr)).collect()
    }

    fn boxed(&mut self, expr: &ast::Expr) -> Box<Expr> {
        Box::new(self.expression(expr))
    }

    fn operation(&mut self, expr: &ast::Expr) -> Expr {
        match &expr.kind {
            // The one integer whose digits without the sign are none.
            ExprKind::Unary(UnaryOperator::Minus, operand)
                if matches!(operand.kind, ExprKind::Number(Number::Float(INTEGERS_END))) =>
            {
                Expr::Constant(Value::from(i64::MIN))
            }
            ExprKind::Unary(operator, operand) => fold(Expr::Unary(*operator, self.boxed(operand))),
            ExprKind::Binary(operator, left, right) => {
                fold(Expr::Binary(*operator, self.boxed(left), self.boxed(right)))
            }
            ExprKind::Chain(first, rest) => self.chain(first, rest),
            ExprKind::Let { name, value, body } => self.binding(name, value, body, expr.location),
            ExprKind::Conditional(condition, then, otherwise) => {
                let parts =
                    (self.expression(condition), self.expression(then), self.expression(otherwise));
                fold(Expr::Conditional(Box::new(parts)))
            }
            ExprKind::In { needle, list, negated } => {
                let needle = self.boxed(needle);
                let list = self.list(list);
                negate(*negated, fold(membership(needle, list)))
            }
            ExprKind::Between { value, low, high, negated } => {
                let parts = (self.expression(value), self.expression(low), self.expression(high));
                negate(*negated, fold(Expr::Between(Box::new(parts))))
            }
            ExprKind::Like { value, pattern, escape, negated } => {
                let escape = escape.as_ref().and_then(|escape| escape.chars().next());
                let value = self.expression(value);
                let pattern = self.expression(pattern);
                negate(*negated, fold(like(value, pattern, escape)))
            }
            _ => Expr::UNDEFINED,
        }
    }

    /// A long chain: what is constant at its start is folded, the rest stays one node.
    fn chain(&mut self, first: &ast::Expr, rest: &[(ast::BinaryOperator, ast::Expr)]) -> Expr {
        let mut first = self.expression(first);
        let mut kept: Vec<(ast::BinaryOperator, Expr)> = Vec::new();
        for (operator, operand) in rest {
            let operand = self.expression(operand);
            if kept.is_empty() && first.constant().is_some() && operand.constant().is_some() {
                first = fold(Expr::Binary(*operator, Box::new(first), Box::new(operand)));
            } else {
                kept.push((*operator, operand));
            }
        }
        if kept.is_empty() { first } else { Expr::Chain(Box::new(first), kept) }
    }

    /// `LET name = value IN body` is a sub-query with one row.
    fn binding(
        &mut self,
        name: &Name,
        value: &ast::Expr,
        body: &ast::Expr,
        location: Location,
    ) -> Expr {
        if self.find(name).is_some() {
            let message =
                format!("The variable name '{name}' in the LET expression must be unique.");
            return self.wrong(Code::LetName, message, location);
        }
        // In an array, so that an undefined value is a row as well.
        let value = Expr::Array(vec![self.expression(value)]);
        self.depth += 1;
        self.bindings.push(super::Binding {
            name: Some(name.clone()),
            depth: self.depth,
            is_item: false,
            hidden: false,
            lifted: true,
        });
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
        Expr::Subquery(SubqueryKind::Scalar, Box::new(query))
    }

    fn object(&mut self, members: &[(Name, ast::Expr)]) -> Expr {
        let mut compiled: Vec<(Name, Expr)> = Vec::with_capacity(members.len());
        let large = members.len() > 16;
        let mut positions = std::collections::HashMap::new();
        for (name, expr) in members {
            let expr = self.expression(expr);
            let position = if large {
                positions.get(name).copied()
            } else {
                compiled.iter().position(|(seen, _)| seen == name)
            };
            match position {
                // A name written twice has the value written last.
                Some(position) => compiled[position].1 = expr,
                None => {
                    positions.insert(name.clone(), compiled.len());
                    compiled.push((name.clone(), expr));
                }
            }
        }
        fold(Expr::Object(compiled))
    }

    fn connective(&mut self, parts: &[ast::Expr], is_and: bool) -> Expr {
        let mut flat = Vec::with_capacity(parts.len());
        for part in parts {
            match self.expression(part) {
                Expr::And(inner) if is_and => flat.extend(inner),
                Expr::Or(inner) if !is_and => flat.extend(inner),
                other => flat.push(other),
            }
        }
        fold(if is_and { Expr::And(flat) } else { Expr::Or(flat) })
    }

    /// A name, a path below it, or a step into any other expression.
    fn reference(&mut self, expr: &ast::Expr) -> Expr {
        let mut steps = Vec::new();
        let mut base = expr;
        // From the outermost step inwards, as long as the steps are constants.
        loop {
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
                    None => break,
                },
                _ => break,
            }
        }
        steps.reverse();
        if let ExprKind::Identifier(name) = &base.kind {
            if self.find(name).is_some_and(|binding| binding.hidden) {
                let message = format!(
                    "Property reference '{}' is invalid in the select list because it is not \
                     contained in either an aggregate function or the GROUP BY clause.",
                    print::expression(expr)
                );
                return self.wrong(Code::NotGrouped, message, expr.location);
            }
            return self.path(name, steps, base.location);
        }
        let base = match &base.kind {
            ExprKind::Index(inner, index) => {
                let inner = self.boxed(inner);
                fold(Expr::Index(inner, self.boxed(index)))
            }
            _ => self.expression(base),
        };
        steps.into_iter().fold(base, |base, step| {
            fold(match step {
                Step::Member(name) => Expr::Member(Box::new(base), name),
                Step::Element(index) => {
                    let index = i64::try_from(index).unwrap_or(i64::MAX);
                    Expr::Index(Box::new(base), Box::new(Expr::Constant(Value::from(index))))
                }
            })
        })
    }

    /// A literal or parameter that chooses a member or an element.
    fn constant_step(&mut self, index: &ast::Expr) -> Option<Step> {
        let value = match &index.kind {
            ExprKind::Number(number) => Value::Number(*number),
            ExprKind::Parameter(name) => self.parameter(name, index.location)?,
            _ => return None,
        };
        match value {
            Value::String(name) => Some(Step::Member(name)),
            Value::Number(number) => number.as_i64()?.try_into().ok().map(Step::Element),
            _ => None,
        }
    }

    /// A path below a name of FROM.
    pub(super) fn path(&mut self, name: &Name, steps: Vec<Step>, location: Location) -> Expr {
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
        Expr::Path(PathRef { hops, steps: lifted.into_iter().chain(steps).collect() })
    }

    fn computed(&mut self, hops: usize, steps: &[Step]) -> Option<Expr> {
        let (Step::Member(first), rest) = steps.split_first()? else { return None };
        let schema = self.schema;
        let property = schema.computed.iter().find(|property| property.name == *first)?;
        if self.inside_computed {
            return None;
        }
        let mut inner = Binder::new(&[], schema);
        inner.inside_computed = true;
        inner.bindings.push(super::Binding {
            name: property.alias.clone(),
            depth: 0,
            is_item: true,
            hidden: false,
            lifted: false,
        });
        let definition = Arc::new(inner.expression(&property.expr));
        self.errors.extend(inner.errors);
        Some(Expr::Computed { name: first.clone(), hops, definition, steps: rest.into() })
    }

    fn subquery(&mut self, kind: SubqueryKind, query: &ast::Query, location: Location) -> Expr {
        if self.inside_aggregate {
            return self.nested_aggregate(location);
        }
        let inside_constructor = std::mem::take(&mut self.inside_constructor);
        let compiled = self.query(query, Place::Inner);
        self.inside_constructor = inside_constructor;
        Expr::Subquery(kind, Box::new(compiled))
    }

    /// Behind an aggregation: keys and aggregates are slots, everything else is bound as usual.
    fn grouped(&mut self, expr: &ast::Expr) -> Option<Expr> {
        let aggregate = aggregate_of(expr);
        let Some(grouping) = &self.grouping else {
            return aggregate.map(|_| self.misplaced_aggregate(expr.location));
        };
        if let Some(position) = grouping.keys.iter().position(|key| key == expr) {
            return Some(Expr::Slot(position));
        }
        let (kind, arguments) = aggregate?;
        let key_count = grouping.keys.len();
        if let Some(seen) = grouping.aggregates.iter().position(|(known, _)| known == expr) {
            return Some(Expr::Slot(key_count + seen));
        }
        let [argument] = arguments else {
            let name = kind.name();
            let message = format!("The {name} function requires 1 argument(s).");
            return Some(self.wrong(Code::ArgumentCount, message, expr.location));
        };
        if grouping.aggregates.len() >= AGGREGATES_MAX {
            let message = format!("A query has at most {AGGREGATES_MAX} aggregates.");
            return Some(self.wrong(Code::TooLarge, message, expr.location));
        }
        let argument = self.aggregate_argument(argument);
        let grouping = self.grouping.as_mut()?;
        grouping.aggregates.push((expr.clone(), Aggregate { kind, argument }));
        Some(Expr::Slot(key_count + grouping.aggregates.len() - 1))
    }

    /// Binds the argument of an aggregate, which sees rows and not groups.
    fn aggregate_argument(&mut self, argument: &ast::Expr) -> Expr {
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

    fn misplaced_aggregate(&mut self, location: Location) -> Expr {
        if self.inside_aggregate {
            return self.nested_aggregate(location);
        }
        let message = "An aggregate function is only allowed in the SELECT clause.";
        self.wrong(Code::AggregateNotAllowed, message, location)
    }

    fn nested_aggregate(&mut self, location: Location) -> Expr {
        let message = "Cannot perform an aggregate function on an expression containing an \
                       aggregate or a subquery.";
        self.wrong(Code::NestedAggregate, message, location)
    }
}

/// True when an expression refers to so many values that what it makes of them may be enormous.
fn repeats_much(expr: &Expr) -> bool {
    fn count(expr: &Expr, left: &mut usize) -> bool {
        if expr.constant().is_none() && expr.operands().is_empty() {
            *left = left.saturating_sub(1);
        }
        *left > 0 && expr.operands().into_iter().all(|operand| count(operand, left))
    }
    !count(expr, &mut REFERENCES_UNGUARDED_MAX.clone())
}

fn negate(negated: bool, expr: Expr) -> Expr {
    if negated { fold(Expr::Unary(UnaryOperator::Not, Box::new(expr))) } else { expr }
}

fn membership(needle: Box<Expr>, list: Vec<Expr>) -> Expr {
    let constants: Option<Vec<Value>> = list.iter().map(|expr| expr.constant().cloned()).collect();
    match constants {
        Some(values) => Expr::InSet(needle, ValueSet::new(values)),
        None => Expr::In(needle, list),
    }
}

fn like(value: Expr, pattern: Expr, escape: Option<char>) -> Expr {
    match &pattern {
        Expr::Constant(Value::String(text)) => {
            Expr::Like(Box::new(value), Pattern::new(text, escape))
        }
        _ => Expr::LikeComputed(Box::new((value, pattern)), escape),
    }
}
