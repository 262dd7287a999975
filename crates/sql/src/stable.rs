//! Which queries over one item always give the same row for the same item, so that it can be kept.

use crate::ast::{Expr, ExprKind, Query, Selection};
use crate::functions::{self, Volatility};

/// True when a query `SELECT VALUE … FROM c` depends on nothing but what a client wrote into the item:
/// not on time, chance, user functions, the container's definition or system properties, and not on the
/// item as a whole, which has those. Sub-queries are not looked into.
pub fn is_stable(query: &Query) -> bool {
    matches!(&query.select, Selection::Value(expr) if is_stable_expression(expr))
}

fn is_stable_expression(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Identifier(_)
        | ExprKind::Parameter(_)
        | ExprKind::Subquery(..)
        | ExprKind::Call { user: true, .. } => return false,
        ExprKind::Member(base, name) if matches!(base.kind, ExprKind::Identifier(_)) => {
            return !name.starts_with('_');
        }
        ExprKind::Call { name, .. } => {
            let function = functions::lookup(name);
            if function.is_none_or(|function| function.volatility != Volatility::Immutable) {
                return false;
            }
        }
        _ => {}
    }
    let mut stable = true;
    expr.for_each_child(&mut |child| stable &= is_stable_expression(child));
    stable
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::parse;

    #[test]
    fn only_what_the_client_wrote_is_stable() {
        for (expr, expected) in [
            ("LOWER(c.name)", true),
            ("c.a.b[0] + 1 > 2 ? [c.x] : {y: c._ts.z}", false),
            ("c.a.b[0] + 1 > 2 ? [c.x] : {y: c.z._ts}", true),
            ("c", false),
            ("ObjectToArray(c)", false),
            ("c[c.name]", false),
            ("c._ts", false),
            ("getCurrentTimestamp() - c.at", false),
            ("c.a + rand()", false),
            ("c.at < NOW()", false),
            ("c.at > ago('dd', 1)", false),
            ("GETCURRENTTICKSSTATIC()", false),
            ("ST_DISTANCE(c.a, c.b)", false),
            ("_VectorScore(c.a, [1])", false),
            ("IsString(c.a)", true),
            ("udf.f(c.a)", false),
            ("ARRAY(SELECT VALUE t FROM t IN c.tags)", false),
        ] {
            let query = parse(&format!("SELECT VALUE {expr} FROM c")).unwrap();
            assert_eq!(is_stable(&query), expected, "{expr}");
        }
    }
}
