//! How tightly operators bind, for the parser that reads them and the printer that writes them.
//!
//! The levels are those of the service's own planner, which prints its trees with all parentheses:
//! bit operators stand beside `+` and `-`, `||` binds tighter than any comparison, and shifts and
//! comparisons share one level. So `c.flags & 4 = 4` is `(c.flags & 4) = 4`.

use crate::ast::{BinaryOperator, Expr, ExprKind};

/// `a ? b : c`, which binds loosest of all.
pub(crate) const CONDITIONAL: u8 = 0;
/// `??`, from right to left.
pub(crate) const COALESCE: u8 = 1;
/// `OR`. `BETWEEN` stands here, too, but never beside AND or OR.
pub(crate) const OR: u8 = 2;
/// `AND`
pub(crate) const AND: u8 = 3;
/// `IN`, `LIKE`
pub(crate) const PREDICATE: u8 = 4;
/// `<< >> >>> = != < <= > >=`: the loosest operators that bounds and patterns may hold without
/// parentheses.
pub(crate) const COMPARISON: u8 = 5;
/// `||`
const CONCAT: u8 = 6;
/// `+ - & | ^`
const ADDITIVE: u8 = 7;
/// `* / %`
const MULTIPLICATIVE: u8 = 8;
/// Prefix operators.
pub(crate) const UNARY: u8 = 9;
/// What is one thing: names, literals, calls, and steps into them.
pub(crate) const SINGLE: u8 = 10;

/// How tightly an infix operator binds.
pub(crate) fn of_operator(operator: BinaryOperator) -> u8 {
    use BinaryOperator::*;
    match operator {
        Coalesce => COALESCE,
        Equal | NotEqual | Less | LessOrEqual | Greater | GreaterOrEqual | ShiftLeft
        | ShiftRight | ShiftRightUnsigned => COMPARISON,
        Concat => CONCAT,
        Add | Subtract | BitAnd | BitOr | BitXor => ADDITIVE,
        Multiply | Divide | Modulo => MULTIPLICATIVE,
    }
}

/// How tightly the outermost operator of an expression binds.
pub(crate) fn of(expr: &Expr) -> u8 {
    match &expr.kind {
        ExprKind::Conditional(..) => CONDITIONAL,
        ExprKind::Or(_) | ExprKind::Between { .. } => OR,
        ExprKind::And(_) => AND,
        ExprKind::In { .. } | ExprKind::Like { .. } => PREDICATE,
        ExprKind::Binary(operator, ..) => of_operator(*operator),
        ExprKind::Chain(_, rest) => {
            rest.first().map_or(SINGLE, |(operator, _)| of_operator(*operator))
        }
        ExprKind::Unary(..) => UNARY,
        _ => SINGLE,
    }
}
