//! Predicates over a single path that no index entry answers directly.
//!
//! `UPPER(c.a) = 'X'`, `c.n % 2 = 0`, `CONTAINS(c.s, 'y')`: when a predicate refers to one path and
//! to constants only, it can be tested on the path's distinct values instead of on items.

use super::{Node, Scope, Test};
use crate::ast::BinaryOperator;
use crate::compiled::{CompiledExpr, PathRef};
use crate::effort::Effort;
use crate::eval::{Frame, Runtime, truth};
use crate::functions::{Context, Volatility};
use crate::limits::FOLD_STEPS_MAX;
use armilla_model::Value;
use std::sync::Arc;

/// A predicate over one value.
#[derive(Clone, Debug)]
pub struct Predicate {
    expr: Arc<CompiledExpr>,
    wanted: bool,
    /// Arrays and objects may pass too. The index knows only that they are there: they are
    /// candidates.
    pub non_scalars: bool,
}

impl PartialEq for Predicate {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.expr, &other.expr) && self.wanted == other.wanted
    }
}

impl Predicate {
    /// True when the value passes; nothing when that takes more than the steps that are left, which are
    /// counted down.
    pub fn holds(&self, value: &Value, steps_left: &mut u64) -> Option<bool> {
        let mut random = || 0.0;
        let mut runtime = Runtime::new(Context {
            now_ticks: &|| 0,
            now_static_ticks: 0,
            random: &mut random,
            geometry: false,
            vectors: &[],
            effort: Effort::of_total(*steps_left),
        });
        let frame = Frame::item(value);
        // User functions and sub-queries, which alone can fail otherwise, are never part of a predicate.
        let found = truth(&self.expr, &frame, &mut runtime);
        *steps_left = runtime.functions.effort.left();
        found.ok().map(|found| found == Some(self.wanted))
    }
}

impl Scope {
    pub(super) fn predicate(&self, expr: &CompiledExpr, wanted: bool) -> Node {
        let mut only: Option<&CompiledExpr> = None;
        let Some(rewritten) = self.over_value(expr, &mut only) else { return Node::Unknown };
        let found = only.and_then(|path| self.find(path));
        let Some(found) = found.filter(|found| !found.path.is_empty()) else {
            return Node::Unknown;
        };
        let predicate = Predicate {
            non_scalars: !is_undefined_for_non_scalars(&rewritten),
            expr: Arc::new(rewritten),
            wanted,
        };
        // Items without the path would have to pass too; the index does not list them.
        if predicate.holds(&Value::Undefined, &mut { FOLD_STEPS_MAX }) != Some(false) {
            return Node::Unknown;
        }
        found.atom(Test::Predicate(predicate))
    }

    /// The expression over a frame that holds the value of the one path it refers to.
    fn over_value<'e>(
        &self,
        expr: &'e CompiledExpr,
        only: &mut Option<&'e CompiledExpr>,
    ) -> Option<CompiledExpr> {
        let boxed = |expr: &'e CompiledExpr, only: &mut Option<&'e CompiledExpr>| {
            self.over_value(expr, only).map(Box::new)
        };
        Some(match expr {
            CompiledExpr::Constant(_) => expr.clone(),
            CompiledExpr::Path(_) | CompiledExpr::Computed { .. } => {
                match only {
                    Some(known) if !is_same_reference(known, expr) => return None,
                    _ => *only = Some(expr),
                }
                CompiledExpr::Path(PathRef { hops: 0, steps: Box::default() })
            }
            CompiledExpr::Unary(operator, operand) => {
                CompiledExpr::Unary(*operator, boxed(operand, only)?)
            }
            CompiledExpr::Binary(operator, left, right) => {
                CompiledExpr::Binary(*operator, boxed(left, only)?, boxed(right, only)?)
            }
            CompiledExpr::InSet(needle, set) => {
                CompiledExpr::InSet(boxed(needle, only)?, set.clone())
            }
            CompiledExpr::Like(value, pattern) => {
                CompiledExpr::Like(boxed(value, only)?, pattern.clone())
            }
            CompiledExpr::Between(parts) => CompiledExpr::Between(Box::new((
                self.over_value(&parts.0, only)?,
                self.over_value(&parts.1, only)?,
                self.over_value(&parts.2, only)?,
            ))),
            CompiledExpr::Call(function, arguments)
                if function.volatility == Volatility::Immutable =>
            {
                let arguments: Option<Vec<_>> =
                    arguments.iter().map(|argument| self.over_value(argument, only)).collect();
                CompiledExpr::Call(function, arguments?)
            }
            _ => return None,
        })
    }
}

/// The same value of the same row. Two elements of one array are at one path and are not.
fn is_same_reference(left: &CompiledExpr, right: &CompiledExpr) -> bool {
    match (left, right) {
        (CompiledExpr::Path(left), CompiledExpr::Path(right)) => left == right,
        (
            CompiledExpr::Computed { name, hops, steps, .. },
            CompiledExpr::Computed { name: other, hops: other_hops, steps: other_steps, .. },
        ) => name == other && hops == other_hops && steps == other_steps,
        _ => false,
    }
}

/// Functions that are undefined for arrays and objects, whichever argument they are.
fn is_scalar_function(name: &str) -> bool {
    const NAMES: [&str; 32] = [
        "ABS",
        "CEILING",
        "FLOOR",
        "ROUND",
        "TRUNC",
        "SIGN",
        "SQRT",
        "SQUARE",
        "POWER",
        "LOG",
        "LOG10",
        "EXP",
        "LEFT",
        "RIGHT",
        "SUBSTRING",
        "UPPER",
        "LOWER",
        "LENGTH",
        "CONTAINS",
        "STARTSWITH",
        "ENDSWITH",
        "STRINGEQUALS",
        "REGEXMATCH",
        "INDEX_OF",
        "TRIM",
        "LTRIM",
        "RTRIM",
        "REVERSE",
        "REPLACE",
        "CONCAT",
        "DATETIMEPART",
        "YEAR",
    ];
    NAMES.contains(&name)
}

/// True when the expression is undefined wherever the value is an array or object.
fn is_undefined_for_non_scalars(expr: &CompiledExpr) -> bool {
    use BinaryOperator::*;
    let feeds = |expr: &CompiledExpr| {
        matches!(expr, CompiledExpr::Path(_)) || is_undefined_for_non_scalars(expr)
    };
    match expr {
        CompiledExpr::Call(function, arguments) => {
            is_scalar_function(function.name) && arguments.iter().any(feeds)
        }
        CompiledExpr::Binary(Equal | NotEqual, left, right) => {
            is_undefined_for_non_scalars(left) || is_undefined_for_non_scalars(right)
        }
        CompiledExpr::Binary(Coalesce, ..) => false,
        CompiledExpr::Binary(_, left, right) => feeds(left) || feeds(right),
        CompiledExpr::Like(value, _) => feeds(value),
        CompiledExpr::Between(parts) => feeds(&parts.0),
        CompiledExpr::InSet(needle, _) => is_undefined_for_non_scalars(needle),
        CompiledExpr::Unary(_, operand) => feeds(operand),
        _ => false,
    }
}
