//! Prefix and infix operators: `docs/protocol/sql.md#three-valued-logic` and `docs/protocol/sql.md#equality-and-order`.

use super::{Evaluated, Frame, Runtime, UNDEFINED, truth as truth_of};
use crate::ast::{BinaryOperator, UnaryOperator};
use crate::compiled::CompiledExpr;
use crate::error::Result;
use crate::functions::STRING_RESULT_MAX;
use armilla_model::Value;
use std::borrow::Cow;
use std::cmp::Ordering;

/// Evaluates an operator to a value.
pub(super) fn evaluate_operator(
    operator: BinaryOperator,
    left: &Value,
    right: &Value,
) -> Option<Value> {
    use BinaryOperator::*;
    match operator {
        Equal | NotEqual | Less | LessOrEqual | Greater | GreaterOrEqual => {
            compare(operator, left, right).map(Value::Bool)
        }
        Concat => concat(left, right),
        Coalesce => Some(if left.is_defined() { left.clone() } else { right.clone() }),
        Add | Subtract | Multiply | Divide | Modulo => arithmetic(operator, left, right),
        BitOr | BitXor | BitAnd | ShiftLeft | ShiftRight | ShiftRightUnsigned => {
            bits(operator, left, right)
        }
    }
}

pub(super) fn evaluate<'v>(
    expr: &'v CompiledExpr,
    frame: &'v Frame<'v>,
    runtime: &mut Runtime<'_>,
) -> Evaluated<'v> {
    match expr {
        CompiledExpr::Unary(UnaryOperator::Not, operand) => {
            let truth = truth_of(operand, frame, runtime)?;
            Ok(Cow::Owned(truth.map_or(Value::Undefined, |bool| Value::Bool(!bool))))
        }
        CompiledExpr::Unary(operator, operand) => {
            let operand = super::evaluate(operand, frame, runtime)?;
            Ok(Cow::Owned(unary(*operator, &operand).unwrap_or_default()))
        }
        CompiledExpr::Binary(BinaryOperator::Coalesce, left, right) => {
            let left = super::evaluate(left, frame, runtime)?;
            if left.is_defined() { Ok(left) } else { super::evaluate(right, frame, runtime) }
        }
        CompiledExpr::Binary(operator, left, right) => {
            let left = super::evaluate(left, frame, runtime)?;
            let right = super::evaluate(right, frame, runtime)?;
            Ok(Cow::Owned(evaluate_operator(*operator, &left, &right).unwrap_or_default()))
        }
        CompiledExpr::Chain(first, rest)
            if matches!(rest.first(), Some((BinaryOperator::Concat, _))) =>
        {
            joined(first, rest, frame, runtime)
        }
        CompiledExpr::Chain(first, rest) => {
            let mut value = super::evaluate(first, frame, runtime)?;
            for (operator, operand) in rest {
                let operand = super::evaluate(operand, frame, runtime)?;
                value =
                    Cow::Owned(evaluate_operator(*operator, &value, &operand).unwrap_or_default());
            }
            Ok(value)
        }
        _ => Ok(Cow::Borrowed(&UNDEFINED)),
    }
}

/// A chain of `||`, which has its level to itself: one text is made, not one per operator.
fn joined<'v>(
    first: &'v CompiledExpr,
    rest: &'v [(BinaryOperator, CompiledExpr)],
    frame: &'v Frame<'v>,
    runtime: &mut Runtime<'_>,
) -> Evaluated<'v> {
    let mut text = String::new();
    for operand in std::iter::once(first).chain(rest.iter().map(|(_, operand)| operand)) {
        match super::evaluate(operand, frame, runtime)?.as_str() {
            Some(part) if text.len() + part.len() <= STRING_RESULT_MAX => text.push_str(part),
            _ => return Ok(Cow::Borrowed(&UNDEFINED)),
        }
    }
    Ok(Cow::Owned(Value::from(text)))
}

/// Evaluates an operator to a truth without making a value of it.
pub(super) fn truth<'v>(
    expr: &'v CompiledExpr,
    frame: &'v Frame<'v>,
    runtime: &mut Runtime<'_>,
) -> Result<Option<bool>> {
    use BinaryOperator::*;
    match expr {
        CompiledExpr::Unary(UnaryOperator::Not, operand) => {
            Ok(truth_of(operand, frame, runtime)?.map(|bool| !bool))
        }
        CompiledExpr::Binary(
            operator @ (Equal | NotEqual | Less | LessOrEqual | Greater | GreaterOrEqual),
            left,
            right,
        ) => {
            let left = super::evaluate(left, frame, runtime)?;
            let right = super::evaluate(right, frame, runtime)?;
            Ok(compare(*operator, &left, &right))
        }
        _ => Ok(evaluate(expr, frame, runtime)?.as_bool()),
    }
}

pub(super) fn and(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

/// `=` and `<` and their relatives; `None` is undefined.
pub(crate) fn compare(operator: BinaryOperator, left: &Value, right: &Value) -> Option<bool> {
    match operator {
        BinaryOperator::Equal => equal(left, right),
        BinaryOperator::NotEqual => equal(left, right).map(|equal| !equal),
        BinaryOperator::Less => ordering(left, right).map(Ordering::is_lt),
        BinaryOperator::LessOrEqual => ordering(left, right).map(Ordering::is_le),
        BinaryOperator::Greater => ordering(left, right).map(Ordering::is_gt),
        BinaryOperator::GreaterOrEqual => ordering(left, right).map(Ordering::is_ge),
        _ => None,
    }
}

fn equal(left: &Value, right: &Value) -> Option<bool> {
    match (left, right) {
        (Value::Undefined, _) | (_, Value::Undefined) => None,
        (Value::Number(left), Value::Number(right)) => Some(left == right),
        (Value::String(left), Value::String(right)) => Some(left == right),
        _ => Some(left == right),
    }
}

/// The order of two scalars of one type; everything else has none.
pub(super) fn ordering(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Null, Value::Null) => Some(Ordering::Equal),
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        (Value::Number(left), Value::Number(right)) => left.partial_cmp(right),
        (Value::String(left), Value::String(right)) => Some(left.as_bytes().cmp(right.as_bytes())),
        _ => None,
    }
}

fn unary(operator: UnaryOperator, operand: &Value) -> Option<Value> {
    let number = operand.as_number()?;
    Some(match operator {
        UnaryOperator::Plus => operand.clone(),
        UnaryOperator::Minus => Value::Number(number.negated()),
        UnaryOperator::BitNot => Value::from(i64::from(!to_int32(number.as_f64()))),
        UnaryOperator::Not => return None,
    })
}

fn concat(left: &Value, right: &Value) -> Option<Value> {
    let (left, right) = (left.as_str()?, right.as_str()?);
    if left.len() + right.len() > crate::functions::STRING_RESULT_MAX {
        return None;
    }
    Some(Value::from([left, right].concat()))
}

fn arithmetic(operator: BinaryOperator, left: &Value, right: &Value) -> Option<Value> {
    let (left, right) = (left.as_number()?, right.as_number()?);
    Some(Value::Number(match operator {
        BinaryOperator::Add => left.plus(right),
        BinaryOperator::Subtract => left.minus(right),
        BinaryOperator::Multiply => left.times(right),
        BinaryOperator::Divide => left.divided_by(right),
        BinaryOperator::Modulo => left.modulo(right),
        _ => return None,
    }))
}

fn bits(operator: BinaryOperator, left: &Value, right: &Value) -> Option<Value> {
    let (left, right) = (to_int32(left.as_f64()?), to_int32(right.as_f64()?));
    // JavaScript takes the shift modulo 32.
    let shift = (right as u32) & 31;
    Some(Value::from(i64::from(match operator {
        BinaryOperator::BitOr => left | right,
        BinaryOperator::BitXor => left ^ right,
        BinaryOperator::BitAnd => left & right,
        BinaryOperator::ShiftLeft => left << shift,
        BinaryOperator::ShiftRight => left >> shift,
        // Unlike JavaScript's, the result has a sign.
        BinaryOperator::ShiftRightUnsigned => ((left as u32) >> shift) as i32,
        _ => return None,
    })))
}

/// JavaScript's ToInt32: modulo 2^32, not clamped.
fn to_int32(number: f64) -> i32 {
    if !number.is_finite() {
        return 0;
    }
    number.trunc().rem_euclid(4_294_967_296.0) as u32 as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_wrap_as_in_javascript() {
        for (number, expected) in [
            (4294967296.0, 0),
            (-1.0, -1),
            (2147483648.0, i32::MIN),
            (1e20, 1661992960),
            (-1.9, -1),
        ] {
            assert_eq!(to_int32(number), expected, "{number}");
        }
    }
}
