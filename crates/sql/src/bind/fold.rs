//! Constant folding.

use crate::ast::BinaryOperator;
use crate::compiled::CompiledExpr;
use crate::effort::Effort;
use crate::eval::{Frame, Runtime, evaluate};
use crate::functions::{Context, Volatility};
use crate::limits::FOLD_STEPS_MAX;
use armilla_model::Value;

/// Largest constant that folding makes of a call, in bytes.
const FOLDED_MAX: usize = 64 * 1024;

/// Replaces an expression over constants by its value, and drops what cannot matter in AND and OR.
pub(crate) fn fold(expr: CompiledExpr) -> CompiledExpr {
    let expr = match expr {
        CompiledExpr::And(parts) => return fold_connective(parts, true),
        CompiledExpr::Or(parts) => return fold_connective(parts, false),
        CompiledExpr::Conditional(parts) => {
            let (condition, then, otherwise) = *parts;
            return match &condition {
                CompiledExpr::Constant(value) if value.as_bool() == Some(true) => then,
                CompiledExpr::Constant(_) => otherwise,
                _ => CompiledExpr::Conditional(Box::new((condition, then, otherwise))),
            };
        }
        other => other,
    };
    match &expr {
        _ if !is_foldable(&expr) => expr,
        CompiledExpr::Array(_) | CompiledExpr::Object(_) => constant(&expr, usize::MAX),
        _ => constant(&expr, FOLDED_MAX),
    }
}

fn is_foldable(expr: &CompiledExpr) -> bool {
    let is_constant = |expr: &CompiledExpr| expr.constant().is_some();
    match expr {
        CompiledExpr::Member(base, _) => is_constant(base),
        CompiledExpr::Index(base, index) => is_constant(base) && is_constant(index),
        CompiledExpr::Array(elements) => elements.iter().all(is_constant),
        CompiledExpr::Object(members) => members.iter().all(|(_, expr)| is_constant(expr)),
        CompiledExpr::Unary(_, operand) => is_constant(operand),
        CompiledExpr::Binary(_, left, right) => is_constant(left) && is_constant(right),
        CompiledExpr::InSet(needle, _) => is_constant(needle),
        CompiledExpr::In(needle, list) => is_constant(needle) && list.iter().all(is_constant),
        CompiledExpr::Between(parts) => {
            is_constant(&parts.0) && is_constant(&parts.1) && is_constant(&parts.2)
        }
        CompiledExpr::Like(value, _) => is_constant(value),
        CompiledExpr::LikeComputed(parts, _) => is_constant(&parts.0) && is_constant(&parts.1),
        CompiledExpr::Call(function, arguments) => {
            function.volatility == Volatility::Immutable && arguments.iter().all(is_constant)
        }
        _ => false,
    }
}

fn constant(expr: &CompiledExpr, size_max: usize) -> CompiledExpr {
    let mut random = || 0.0;
    let mut runtime = Runtime::new(Context {
        now_ticks: &|| 0,
        now_static_ticks: 0,
        random: &mut random,
        geometry: false,
        vectors: &[],
        effort: Effort::of_steps(FOLD_STEPS_MAX),
    });
    let frame = Frame::item(&Value::Undefined);
    match evaluate(expr, &frame, &mut runtime) {
        // What takes long is left to the run, which can be stopped. A large result is made again per row rather than kept once per place in the text.
        Ok(value) if !crate::weight::exceeds(&value, size_max) => {
            CompiledExpr::Constant(value.into_owned())
        }
        _ => expr.clone(),
    }
}

/// `true AND x` is `AND x`, not `x`: a part that is no boolean makes the whole undefined.
fn fold_connective(parts: Vec<CompiledExpr>, is_and: bool) -> CompiledExpr {
    let bool_of = |part: &CompiledExpr| part.constant().and_then(Value::as_bool);
    if parts.iter().any(|part| bool_of(part) == Some(!is_and)) {
        return CompiledExpr::Constant(Value::Bool(!is_and));
    }
    let all_constant = parts.iter().all(|part| part.constant().is_some());
    let mut kept: Vec<_> = parts.into_iter().filter(|part| bool_of(part) != Some(is_and)).collect();
    if kept.is_empty() {
        return CompiledExpr::Constant(Value::Bool(is_and));
    }
    if all_constant {
        // What is left are constants that are no booleans.
        return CompiledExpr::UNDEFINED;
    }
    if kept.len() == 1 && is_boolean(&kept[0]) {
        return kept.remove(0);
    }
    if is_and { CompiledExpr::And(kept) } else { CompiledExpr::Or(kept) }
}

/// True when the expression is always a boolean or undefined.
pub(crate) fn is_boolean(expr: &CompiledExpr) -> bool {
    use BinaryOperator::*;
    match expr {
        CompiledExpr::And(_)
        | CompiledExpr::Or(_)
        | CompiledExpr::InSet(..)
        | CompiledExpr::In(..)
        | CompiledExpr::Between(_)
        | CompiledExpr::Like(..)
        | CompiledExpr::LikeComputed(..)
        | CompiledExpr::Unary(crate::ast::UnaryOperator::Not, _) => true,
        CompiledExpr::Binary(operator, ..) => {
            matches!(operator, Equal | NotEqual | Less | LessOrEqual | Greater | GreaterOrEqual)
        }
        _ => false,
    }
}
