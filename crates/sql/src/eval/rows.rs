//! From one item to its rows: FROM and JOIN, then WHERE, then the projection.
//!
//! Rows are handed to a visitor as frames on the stack; nothing is collected, and the visitor may
//! stop at any row.

use super::{Frame, Runtime, UNDEFINED, build_object, check_weight, evaluate, sink, truth};
use crate::compiled::{Compiled, CompiledExpr, Order, Projection, Source};
use crate::error::{Result, SqlError};
use armilla_model::Value;
use std::ops::ControlFlow;

/// What a visitor answers: go on, stop, or fail with an error of its own.
pub type Visited<E = SqlError> = std::result::Result<ControlFlow<()>, E>;

/// Calls a visitor with a row's innermost frame.
pub type VisitRow<'v, E = SqlError> = dyn FnMut(&Frame<'_>, &mut Runtime<'_>) -> Visited<E> + 'v;

/// Hands every row of the item that meets the condition to the visitor. The visitor gets the
/// innermost frame, which [`project`], [`order_keys`] and [`super::Sink::push`] take. Its errors are
/// its own; those of the language are converted to them.
pub fn visit_rows<E: From<SqlError>>(
    query: &Compiled,
    item: &Value,
    runtime: &mut Runtime<'_>,
    visit_row: &mut VisitRow<'_, E>,
) -> Visited<E> {
    let frame = Frame::item(item);
    runtime.made = 0;
    visit(query, &frame, runtime, visit_row)
}

/// True when the item has a row that meets the condition.
pub fn matches_item(query: &Compiled, item: &Value, runtime: &mut Runtime<'_>) -> Result<bool> {
    let flow = visit_rows(query, item, runtime, &mut |_, _| Visited::Ok(ControlFlow::Break(())))?;
    Ok(flow.is_break())
}

pub(super) fn visit<'v, E: From<SqlError>>(
    query: &'v Compiled,
    base: &'v Frame<'v>,
    runtime: &mut Runtime<'_>,
    visit_row: &mut VisitRow<'_, E>,
) -> Visited<E> {
    expand(&query.checks, &query.sources, base, runtime, visit_row)
}

fn expand<'v, E: From<SqlError>>(
    checks: &'v [Option<CompiledExpr>],
    sources: &'v [Source],
    frame: &'v Frame<'v>,
    runtime: &mut Runtime<'_>,
    visit_row: &mut VisitRow<'_, E>,
) -> Visited<E> {
    runtime.count_frame(sources.is_empty())?;
    let (check, later) =
        checks.split_first().map_or((None, checks), |(check, later)| (check.as_ref(), later));
    if let Some(check) = check
        && truth(check, frame, runtime)? != Some(true)
    {
        return Ok(ControlFlow::Continue(()));
    }
    let Some((source, rest)) = sources.split_first() else {
        return visit_row(frame, runtime);
    };
    let mut bind = |value: &Value, runtime: &mut Runtime<'_>| -> Visited<E> {
        if value.is_undefined() {
            return Ok(ControlFlow::Continue(()));
        }
        let inner = Frame::on(frame, value);
        expand(later, rest, &inner, runtime, visit_row)
    };
    match source {
        Source::One(expr) => {
            let value = evaluate(expr, frame, runtime)?;
            bind(&value, runtime)
        }
        Source::Each(expr) => {
            let value = evaluate(expr, frame, runtime)?;
            each(value.as_array().unwrap_or_default(), runtime, &mut bind)
        }
        Source::Rows(rows) => {
            let rows = computed_rows(rows, frame, runtime)?;
            each(&rows, runtime, &mut bind)
        }
        Source::EachOfRows(rows) => {
            for row in computed_rows(rows, frame, runtime)? {
                let elements = row.as_array().unwrap_or_default();
                if each(elements, runtime, &mut bind)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            Ok(ControlFlow::Continue(()))
        }
    }
}

/// The rows of a sub-query, none of them so large that using it often would be a danger: each level
/// of sub-queries could multiply what the one below it made.
fn computed_rows<'v>(
    query: &'v Compiled,
    frame: &'v Frame<'v>,
    runtime: &mut Runtime<'_>,
) -> Result<Vec<Value>> {
    let rows = sink::collect(query, frame, runtime)?;
    rows.iter().try_for_each(check_weight)?;
    Ok(rows)
}

fn each<E>(
    values: &[Value],
    runtime: &mut Runtime<'_>,
    bind: &mut dyn FnMut(&Value, &mut Runtime<'_>) -> Visited<E>,
) -> Visited<E> {
    for value in values {
        if bind(value, runtime)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// `ALL(q)`: no row fails the filter of the sub-query.
pub(super) fn all_pass<'v>(
    query: &'v Compiled,
    frame: &'v Frame<'v>,
    runtime: &mut Runtime<'_>,
) -> Result<bool> {
    let Some(filter) = &query.filter else { return Ok(true) };
    let mut pass = true;
    let _stopped = expand(&[], &query.sources, frame, runtime, &mut |row, runtime| {
        pass = truth(filter, row, runtime)? == Some(true);
        Visited::Ok(if pass { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    Ok(pass)
}

/// The output of a row, or `None` when the row yields nothing. For queries without aggregation;
/// with one see [`project_group`].
pub fn project(
    query: &Compiled,
    frame: &Frame<'_>,
    runtime: &mut Runtime<'_>,
) -> Result<Option<Value>> {
    let value = match &query.projection {
        Projection::Star => frame.value().clone(),
        Projection::Value(expr) => evaluate_owned(expr, frame, runtime)?,
        Projection::Object(members) => build_object(members, frame, runtime)?,
    };
    Ok(Some(value).filter(Value::is_defined))
}

/// The output of a finished group, whose slots are given.
pub fn project_group(
    query: &Compiled,
    slots: &Value,
    runtime: &mut Runtime<'_>,
) -> Result<Option<Value>> {
    let base = Frame::item(&UNDEFINED);
    project(query, &Frame::on(&base, slots), runtime)
}

fn evaluate_owned(
    expr: &CompiledExpr,
    frame: &Frame<'_>,
    runtime: &mut Runtime<'_>,
) -> Result<Value> {
    Ok(evaluate(expr, frame, runtime)?.into_owned())
}

/// The ORDER BY keys of a row. A key that the row lacks is undefined, the smallest of all values.
pub fn order_keys(
    query: &Compiled,
    frame: &Frame<'_>,
    runtime: &mut Runtime<'_>,
) -> Result<Vec<Value>> {
    let Order::Keys { keys } = &query.order else { return Ok(Vec::new()) };
    keys.iter().map(|key| evaluate_owned(&key.expr, frame, runtime)).collect()
}
