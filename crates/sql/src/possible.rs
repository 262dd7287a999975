//! Which types an expression can have, and so which queries can have no rows at all.
//!
//! Nothing is known about items, so a path may be anything. What operators and functions make of their
//! operands is known: a sum is a number or undefined, never true.

use crate::access;
use crate::aggregate::AggregateKind;
use crate::ast::{BinaryOperator, UnaryOperator};
use crate::bind::fold;
use crate::compiled::{Aggregate, Compiled, CompiledExpr, Input, Projection, Step};
use crate::eval::walk;
use crate::functions::Kind;
use armilla_model::Value;
use std::collections::HashMap;

/// A set of types. Undefined is always possible and never noted.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Types(u8);

impl Types {
    const NONE: Self = Self(0);
    const NULL: Self = Self(1);
    const BOOL: Self = Self(2);
    const NUMBER: Self = Self(4);
    const STRING: Self = Self(8);
    const ARRAY: Self = Self(16);
    const OBJECT: Self = Self(32);
    const ANY: Self = Self(63);

    fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// This type where it is possible at all.
    fn when(self, possible: bool) -> Self {
        if possible { self } else { Self::NONE }
    }
}

/// True when some item might have a row: the condition can be true, and what is selected defined.
pub(crate) fn has_rows(query: &Compiled) -> bool {
    if let Input::Query(inner) = &query.input
        && !has_rows(inner)
        && inner.aggregation.is_none()
    {
        return false;
    }
    let known = query.filter.as_ref().map(equalities).unwrap_or_default();
    let can_be_true = query.filter.as_ref().is_none_or(|filter| {
        let conjuncts = match filter {
            CompiledExpr::And(parts) => parts.as_slice(),
            other => std::slice::from_ref(other),
        };
        conjuncts.iter().all(|part| can_be_true(part) && can_be_true(&known.put_into(part)))
    });
    let can_be_defined = match &query.projection {
        Projection::Value(expr) => {
            types_over(expr, &slots(query)) != Types::NONE
                && (query.aggregation.is_some() || types(&known.put_into(expr)) != Types::NONE)
        }
        Projection::Star | Projection::Object(_) => true,
    };
    can_be_true && can_be_defined && !matches!(access::analyse(query), access::Node::Nothing)
}

/// What a condition says paths are equal to.
#[derive(Default)]
struct Equalities<'e>(HashMap<(usize, &'e [Step]), &'e Value>);

fn equalities(filter: &CompiledExpr) -> Equalities<'_> {
    let conjuncts = match filter {
        CompiledExpr::And(parts) => parts.as_slice(),
        other => std::slice::from_ref(other),
    };
    let mut known = HashMap::new();
    for conjunct in conjuncts {
        if let CompiledExpr::Binary(BinaryOperator::Equal, left, right) = conjunct
            && let (CompiledExpr::Path(path), CompiledExpr::Constant(value))
            | (CompiledExpr::Constant(value), CompiledExpr::Path(path)) = (&**left, &**right)
        {
            known.entry((path.hops, &*path.steps)).or_insert(value);
        }
    }
    Equalities(known)
}

impl Equalities<'_> {
    /// The expression with values in the place of the paths that have to have them.
    fn put_into(&self, expr: &CompiledExpr) -> CompiledExpr {
        if self.0.is_empty() {
            return expr.clone();
        }
        if let CompiledExpr::Path(path) = expr {
            let steps = &path.steps;
            let known = (0..=steps.len()).find_map(|length| {
                let value = self.0.get(&(path.hops, &steps[..length]))?;
                Some(walk(value, &steps[length..]).clone())
            });
            return known.map_or_else(|| expr.clone(), CompiledExpr::Constant);
        }
        let mut expr = expr.clone();
        for operand in expr.operands_mut() {
            *operand = self.put_into(operand);
        }
        fold(expr)
    }
}

fn can_be_true(expr: &CompiledExpr) -> bool {
    match expr {
        CompiledExpr::Constant(value) => value.as_bool() == Some(true),
        CompiledExpr::And(parts) => parts.iter().all(can_be_true),
        CompiledExpr::Or(parts) => parts.iter().any(can_be_true),
        CompiledExpr::Binary(BinaryOperator::Equal, left, right) => {
            let is_nan = |expr: &CompiledExpr| {
                expr.constant().and_then(Value::as_f64).is_some_and(f64::is_nan)
            };
            !is_nan(left) && !is_nan(right) && types(expr).has(Types::BOOL)
        }
        other => types(other).has(Types::BOOL),
    }
}

fn of_value(value: &Value) -> Types {
    match value {
        Value::Undefined => Types::NONE,
        Value::Null => Types::NULL,
        Value::Bool(_) => Types::BOOL,
        Value::Number(_) => Types::NUMBER,
        Value::String(_) => Types::STRING,
        Value::Array(_) => Types::ARRAY,
        Value::Object(_) => Types::OBJECT,
    }
}

fn of_kind(kind: Kind) -> Types {
    match kind {
        Kind::Any => Types::ANY,
        Kind::Null => Types::NULL,
        Kind::Bool => Types::BOOL,
        Kind::Number => Types::NUMBER,
        Kind::String => Types::STRING,
        Kind::Array => Types::ARRAY,
        Kind::Object => Types::OBJECT,
    }
}

/// Functions of numbers only.
const NUMERIC: [&str; 21] = [
    "ABS", "ACOS", "ASIN", "ATAN", "CEILING", "COS", "COT", "DEGREES", "EXP", "FLOOR", "LOG",
    "LOG10", "POWER", "RADIANS", "ROUND", "SIGN", "SIN", "SQRT", "SQUARE", "TAN", "TRUNC",
];

/// The types of the slots of a query's groups.
fn slots(query: &Compiled) -> Vec<Types> {
    let Some(aggregation) = &query.aggregation else { return Vec::new() };
    let aggregate = |aggregate: &Aggregate| match aggregate.kind {
        AggregateKind::Count
        | AggregateKind::CountIf
        | AggregateKind::Sum
        | AggregateKind::Average => Types::NUMBER,
        AggregateKind::MakeList | AggregateKind::MakeSet => Types::ARRAY,
        AggregateKind::Min | AggregateKind::Max => Types::ANY,
    };
    let keys = aggregation.keys.iter().map(|_| Types::ANY);
    keys.chain(aggregation.aggregates.iter().map(aggregate)).collect()
}

fn types(expr: &CompiledExpr) -> Types {
    types_over(expr, &[])
}

/// The types of an expression over finished groups, whose slots have these.
fn types_over(expr: &CompiledExpr, slots: &[Types]) -> Types {
    let types = |expr: &CompiledExpr| types_over(expr, slots);
    match expr {
        CompiledExpr::Constant(value) => of_value(value),
        CompiledExpr::Array(_) => Types::ARRAY,
        CompiledExpr::Object(_) => Types::OBJECT,
        CompiledExpr::Member(base, _) => Types::ANY.when(types(base).has(Types::OBJECT)),
        CompiledExpr::Index(base, _) => {
            Types::ANY.when(types(base).has(Types::OBJECT.or(Types::ARRAY)))
        }
        CompiledExpr::Unary(UnaryOperator::Not, operand) => {
            Types::BOOL.when(types(operand).has(Types::BOOL))
        }
        CompiledExpr::Unary(_, operand) => Types::NUMBER.when(types(operand).has(Types::NUMBER)),
        CompiledExpr::Binary(operator, left, right) => binary(*operator, types(left), types(right)),
        CompiledExpr::Chain(first, rest) => rest
            .iter()
            .fold(types(first), |left, (operator, right)| binary(*operator, left, types(right))),
        // One part decides.
        CompiledExpr::And(parts) | CompiledExpr::Or(parts) => {
            Types::BOOL.when(parts.iter().any(|part| types(part).has(Types::BOOL)))
        }
        CompiledExpr::Conditional(parts) => types(&parts.1).or(types(&parts.2)),
        CompiledExpr::InSet(needle, _) | CompiledExpr::In(needle, _) => {
            Types::BOOL.when(types(needle) != Types::NONE)
        }
        CompiledExpr::Between(parts) => Types::BOOL.when(types(&parts.0) != Types::NONE),
        CompiledExpr::Like(value, _) => Types::BOOL.when(types(value).has(Types::STRING)),
        CompiledExpr::LikeComputed(parts, _) => {
            let both = types(&parts.0).has(Types::STRING) && types(&parts.1).has(Types::STRING);
            Types::BOOL.when(both)
        }
        CompiledExpr::Call(function, arguments) => {
            let given = |argument: &CompiledExpr| types(argument) != Types::NONE;
            let is_defined = function.sees_undefined || arguments.iter().all(given);
            let fits = !NUMERIC.contains(&function.name)
                || arguments.iter().all(|argument| types(argument).has(Types::NUMBER));
            of_kind(function.result).when(is_defined && fits)
        }
        CompiledExpr::Guarded(inner) => types(inner),
        CompiledExpr::DocumentId => Types::NUMBER,
        CompiledExpr::Slot(slot) => slots.get(*slot).copied().unwrap_or(Types::ANY),
        CompiledExpr::Path(_)
        | CompiledExpr::Computed { .. }
        | CompiledExpr::User(..)
        | CompiledExpr::Subquery(..) => Types::ANY,
    }
}

fn binary(operator: BinaryOperator, left: Types, right: Types) -> Types {
    use BinaryOperator::*;
    let both = |kind: Types| left.has(kind) && right.has(kind);
    match operator {
        Coalesce => left.or(right),
        Concat => Types::STRING.when(both(Types::STRING)),
        Equal | NotEqual => Types::BOOL.when(left != Types::NONE && right != Types::NONE),
        Less | LessOrEqual | Greater | GreaterOrEqual => {
            let kinds = [Types::NULL, Types::BOOL, Types::NUMBER, Types::STRING];
            Types::BOOL.when(kinds.into_iter().any(both))
        }
        Add | Subtract | Multiply | Divide | Modulo | BitOr | BitXor | BitAnd | ShiftLeft
        | ShiftRight | ShiftRightUnsigned => Types::NUMBER.when(both(Types::NUMBER)),
    }
}
