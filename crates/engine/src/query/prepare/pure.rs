//! Whether a query's rows depend on nothing but the values they are made of.

use armilla_sql::compiled::{
    Compiled, CompiledExpr, Input, Order, Projection, RankComponent, Source,
};

/// False when the same item may give different rows: random numbers, the time, the number of the
/// document, and user functions, which are charged by the call.
pub(crate) fn is_pure(query: &Compiled) -> bool {
    let input = match &query.input {
        Input::Single | Input::Items => true,
        Input::Query(inner) => is_pure(inner),
    };
    let source = |source: &Source| match source {
        Source::One(expr) | Source::Each(expr) => is_fixed(expr),
        Source::Rows(rows) | Source::EachOfRows(rows) => is_pure(rows),
    };
    let order = match &query.order {
        Order::None => true,
        Order::Keys { keys, .. } => keys.iter().all(|key| is_fixed(&key.expr)),
        Order::Rank(rank) => rank.components.iter().all(|component| match component {
            RankComponent::FullText { text, .. } => is_fixed(text),
            RankComponent::Vector { distance, .. } => is_fixed(distance),
        }),
    };
    let aggregation = query.aggregation.iter().all(|aggregation| {
        let arguments = aggregation.aggregates.iter().map(|aggregate| &aggregate.argument);
        aggregation.keys.iter().chain(arguments).all(is_fixed)
    });
    let projection = match &query.projection {
        Projection::Star => true,
        Projection::Value(expr) => is_fixed(expr),
        Projection::Object(members) => members.iter().all(|(_, expr)| is_fixed(expr)),
    };
    input
        && query.sources.iter().all(source)
        && query.filter.iter().all(is_fixed)
        && order
        && aggregation
        && projection
}

fn is_fixed(expr: &CompiledExpr) -> bool {
    match expr {
        CompiledExpr::Constant(_) | CompiledExpr::Path(_) | CompiledExpr::Slot(_) => true,
        CompiledExpr::DocumentId | CompiledExpr::User(..) => false,
        CompiledExpr::Computed { definition, .. } => is_fixed(definition),
        CompiledExpr::Member(base, _)
        | CompiledExpr::Unary(_, base)
        | CompiledExpr::Guarded(base)
        | CompiledExpr::InSet(base, _)
        | CompiledExpr::Like(base, _) => is_fixed(base),
        CompiledExpr::Index(left, right) | CompiledExpr::Binary(_, left, right) => {
            is_fixed(left) && is_fixed(right)
        }
        CompiledExpr::Chain(first, rest) => {
            is_fixed(first) && rest.iter().all(|(_, operand)| is_fixed(operand))
        }
        CompiledExpr::Array(list) | CompiledExpr::And(list) | CompiledExpr::Or(list) => {
            list.iter().all(is_fixed)
        }
        CompiledExpr::Object(members) => members.iter().all(|(_, expr)| is_fixed(expr)),
        CompiledExpr::Conditional(parts) | CompiledExpr::Between(parts) => {
            is_fixed(&parts.0) && is_fixed(&parts.1) && is_fixed(&parts.2)
        }
        CompiledExpr::In(needle, list) => is_fixed(needle) && list.iter().all(is_fixed),
        CompiledExpr::LikeComputed(parts, _) => is_fixed(&parts.0) && is_fixed(&parts.1),
        CompiledExpr::Call(function, arguments) => {
            function.volatility.is_deterministic() && arguments.iter().all(is_fixed)
        }
        CompiledExpr::Subquery(_, query) => is_pure(query),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_sql::{Schema, compile, parse};

    #[test]
    fn what_changes_by_itself_is_not_pure() {
        let pure =
            |text: &str| is_pure(&compile(&parse(text).unwrap(), &[], &Schema::none()).unwrap());
        assert!(pure("SELECT COUNT(1) AS n, c.t FROM c WHERE c.a = 1 GROUP BY c.t"));
        assert!(!pure("SELECT VALUE COUNT(1) FROM c WHERE RAND() < 0.5"));
        assert!(!pure("SELECT VALUE MAX(GetCurrentTicks()) FROM c"));
        assert!(!pure("SELECT VALUE COUNT(1) FROM c WHERE EXISTS(SELECT VALUE DOCUMENTID(c))"));
        assert!(!pure("SELECT VALUE SUM(udf.f(c.n)) FROM c"));
    }
}
