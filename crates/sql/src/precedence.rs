//! How tightly operators bind, for the parser that reads them and the printer that writes them.

use crate::ast::{BinaryOperator, Expr, ExprKind};

/// `a ? b : c`, which binds loosest of all.
pub(crate) const CONDITIONAL: u8 = 0;
/// `??`
pub(crate) const COALESCE: u8 = 1;
/// `OR`
pub(crate) const OR: u8 = 2;
/// `AND`
pub(crate) const AND: u8 = 3;
/// `IN`, `BETWEEN`, `LIKE`
pub(crate) const PREDICATE: u8 = 4;
/// `||`, the loosest operator that bounds and patterns may hold without parentheses.
pub(crate) const CONCAT: u8 = 5;
/// Prefix operators.
pub(crate) const UNARY: u8 = 14;
/// What is one thing: names, literals, calls, and steps into them.
pub(crate) const SINGLE: u8 = 15;

/// How tightly an infix operator binds.
pub(crate) fn of_operator(operator: BinaryOperator) -> u8 {
    match operator {
        BinaryOperator::Coalesce => COALESCE,
        BinaryOperator::Concat => CONCAT,
        BinaryOperator::BitOr => 6,
        BinaryOperator::BitXor => 7,
        BinaryOperator::BitAnd => 8,
        BinaryOperator::Equal | BinaryOperator::NotEqual => 9,
        BinaryOperator::Less
        | BinaryOperator::LessOrEqual
        | BinaryOperator::Greater
        | BinaryOperator::GreaterOrEqual => 10,
        BinaryOperator::ShiftLeft
        | BinaryOperator::ShiftRight
        | BinaryOperator::ShiftRightUnsigned => 11,
        BinaryOperator::Add | BinaryOperator::Subtract => 12,
        BinaryOperator::Multiply | BinaryOperator::Divide | BinaryOperator::Modulo => 13,
    }
}

/// How tightly the outermost operator of an expression binds.
pub(crate) fn of(expr: &Expr) -> u8 {
    match &expr.kind {
        ExprKind::Conditional(..) => CONDITIONAL,
        ExprKind::Or(_) => OR,
        ExprKind::And(_) => AND,
        ExprKind::In { .. } | ExprKind::Between { .. } | ExprKind::Like { .. } => PREDICATE,
        ExprKind::Binary(operator, ..) => of_operator(*operator),
        ExprKind::Unary(..) => UNARY,
        _ => SINGLE,
    }
}
