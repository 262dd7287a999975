//! Whether two texts say the same: parsed, and compared as trees.

use armilla_sql::ast::{Collection, Expr, ExprKind, Query, Selection};
use armilla_sql::{parse, parse_expression, print};

/// How two queries differ; nothing when they say the same, or both say nothing.
pub(crate) fn difference(expected: &str, found: &str) -> Option<&'static str> {
    if expected.is_empty() || found.is_empty() {
        return (expected.is_empty() != found.is_empty()).then_some("one is empty");
    }
    match (parse(&named(expected)), parse(&named(found))) {
        (Ok(mut expected), Ok(mut found)) => {
            query(&mut expected);
            query(&mut found);
            (print::query(&expected) != print::query(&found)).then_some("another tree")
        }
        (Err(_), _) => Some("the planner's does not parse"),
        (_, Err(_)) => Some("ours does not parse"),
    }
}

pub(crate) fn same_expression(expected: &str, found: &str) -> bool {
    match (parse_expression(&named(expected)), parse_expression(&named(found))) {
        (Ok(mut expected), Ok(mut found)) => {
            expression(&mut expected);
            expression(&mut found);
            print::expression(&expected) == print::expression(&found)
        }
        _ => false,
    }
}

/// Placeholders in braces become names.
fn named(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("{documentdb-") {
        let end = at + rest[at..].find('}').unwrap_or(rest.len() - at - 1);
        out.push_str(&rest[..at]);
        out.push_str(&rest[at + 1..end].replace('-', "_"));
        rest = &rest[end + 1..];
    }
    out + rest
}

fn query(query_: &mut Query) {
    match &mut query_.select {
        Selection::Star(_) => {}
        Selection::Value(expr) => expression(expr),
        Selection::List(items) => items.iter_mut().for_each(|item| expression(&mut item.expr)),
    }
    for source in &mut query_.from {
        if let Collection::Query(inner) = &mut source.collection {
            query(inner);
        }
    }
    query_.filter.iter_mut().for_each(expression);
    query_.group_by.iter_mut().for_each(expression);
    query_.order_by.iter_mut().for_each(|item| expression(&mut item.expr));
}

/// Names of built-in functions in upper case, conjuncts and disjuncts flat and in one order.
fn expression(expr: &mut Expr) {
    match &mut expr.kind {
        ExprKind::Member(one, _) | ExprKind::Unary(_, one) => expression(one),
        ExprKind::Index(left, right) | ExprKind::Binary(_, left, right) => {
            expression(left);
            expression(right);
        }
        ExprKind::Array(list) => list.iter_mut().for_each(expression),
        ExprKind::And(list) => {
            list.iter_mut().for_each(expression);
            let mut flat: Vec<Expr> = Vec::new();
            for part in std::mem::take(list) {
                match part.kind {
                    ExprKind::And(inner) => flat.extend(inner),
                    _ => flat.push(part),
                }
            }
            flat.sort_by_key(print::expression);
            *list = flat;
        }
        ExprKind::Or(list) => {
            list.iter_mut().for_each(expression);
            let mut flat: Vec<Expr> = Vec::new();
            for part in std::mem::take(list) {
                match part.kind {
                    ExprKind::Or(inner) => flat.extend(inner),
                    _ => flat.push(part),
                }
            }
            *list = flat;
        }
        ExprKind::Chain(first, rest) => {
            expression(first);
            rest.iter_mut().for_each(|(_, operand)| expression(operand));
        }
        ExprKind::Let { value, body, .. } => {
            expression(value);
            expression(body);
        }
        ExprKind::Call { name, user, arguments, .. } => {
            if !*user {
                *name = name.to_ascii_uppercase().into();
            }
            arguments.iter_mut().for_each(expression);
        }
        ExprKind::Object(members) => members.iter_mut().for_each(|(_, member)| expression(member)),
        ExprKind::Conditional(condition, then, otherwise) => {
            [condition, then, otherwise].into_iter().for_each(|part| expression(part));
        }
        ExprKind::In { needle, list, .. } => {
            expression(needle);
            list.iter_mut().for_each(expression);
        }
        ExprKind::Between { value, low, high, .. } => {
            [value, low, high].into_iter().for_each(|part| expression(part));
        }
        ExprKind::Like { value, pattern, .. } => {
            expression(value);
            expression(pattern);
        }
        ExprKind::Subquery(_, inner) => query(inner),
        _ => {}
    }
}
