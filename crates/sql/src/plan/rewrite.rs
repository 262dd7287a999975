//! The rewritten texts of ordinary queries.

use super::{DistinctKind, FILTER_PLACEHOLDER, QueryInfo};
use crate::aggregate::AggregateKind;
use crate::ast::{Collection, Expr, Name, Query, Selection};
use crate::bind::{aggregate_of, contains_aggregate, is_aggregated, output_names};
use crate::compiled::{Compiled, Expr as CompiledExpr, Input, Order};
use crate::error::{Code, Result, SqlError};
use crate::print;

/// Plans a query that is no ranked one. `pins_one`: it reads a single logical partition.
pub(super) fn plan(query: &Query, compiled: &Compiled, pins_one: bool) -> Result<QueryInfo> {
    let mut info = QueryInfo {
        top: compiled.top,
        offset: compiled.limit.map(|_| compiled.offset),
        limit: compiled.limit,
        has_select_value: matches!(query.select, Selection::Value(_)),
        ..QueryInfo::default()
    };
    if query.distinct {
        info.distinct = DistinctKind::Unordered;
    }
    if let Input::Query(inner) = &compiled.input
        && is_distinct_count(compiled, inner)
    {
        return Ok(distinct_count(query, info));
    }
    if is_aggregated(query) {
        aggregated(query, &mut info)?;
    } else if !query.order_by.is_empty() {
        ordered(query, compiled, &mut info);
    } else {
        plain(query, pins_one, &mut info);
    }
    Ok(info)
}

/// Filters and projections, DISTINCT, TOP, OFFSET LIMIT.
fn plain(query: &Query, pins_one: bool, info: &mut QueryInfo) {
    if query.distinct {
        // The client removes duplicates over all ranges, then skips and takes.
        if info.top.is_some() || info.limit.is_some() {
            let text = Query { top: None, offset_limit: None, ..query.clone() };
            info.rewritten = print::query(&text);
        }
    } else if pins_one && info.top.is_none() {
        (info.offset, info.limit) = (None, None);
    } else if let (Some(offset), Some(limit)) = (info.offset, info.limit) {
        let text = Query { offset_limit: None, ..query.clone() };
        info.rewritten = print::query(&text) + &first_rows(offset, limit);
    }
}

/// Every range hands out what the client might skip, too.
pub(super) fn first_rows(offset: u64, limit: u64) -> String {
    format!(" OFFSET 0 LIMIT {}", offset.saturating_add(limit).min(crate::limits::COUNT_MAX))
}

/// ORDER BY: every row carries its keys and its `_rid`.
fn ordered(query: &Query, compiled: &Compiled, info: &mut QueryInfo) {
    let keys = match &compiled.order {
        Order::Keys { keys, .. } => keys.as_slice(),
        _ => &[],
    };
    let texts = query.order_by.iter().map(|item| print::expression(&item.expr));
    info.order_by = texts.zip(keys.iter().map(|key| key.descending)).collect();
    info.non_streaming_order = keys.iter().any(|key| matches!(key.expr, CompiledExpr::Call(..)));
    if query.distinct && key_is_projection(query) {
        info.distinct = DistinctKind::Ordered;
    }
    // Duplicates are removed by the client: before that, no range may cut its rows.
    let cut = !query.distinct;
    let top = match info.top {
        Some(top) if cut => format!("TOP {top} "),
        _ => String::new(),
    };
    let limit = match (info.offset, info.limit) {
        (Some(offset), Some(limit)) if cut => first_rows(offset, limit),
        _ => String::new(),
    };
    info.rewritten = format!(
        "SELECT {top}{rid}, {items} AS orderByItems, {payload} AS payload{from} WHERE {filter} \
         ORDER BY {order}{limit}",
        rid = rid(query),
        items = items(query.order_by.iter().map(|item| &item.expr)),
        payload = payload(query),
        from = print::from_clause(&query.from),
        filter = filter(query),
        order = print::order_list(&query.order_by),
    );
}

/// `c._rid` of the alias that stands for the item.
pub(super) fn rid(query: &Query) -> String {
    format!("{}._rid", item_alias(query))
}

pub(super) fn item_alias(query: &Query) -> Name {
    let alias = query.from.first().and_then(|source| source.effective_alias());
    alias.cloned().unwrap_or_else(|| "c".into())
}

/// `[{"item": a}, {"item": b}]`
fn items<'e>(exprs: impl Iterator<Item = &'e Expr>) -> String {
    let items: Vec<_> =
        exprs.map(|expr| format!("{{\"item\": {}}}", print::expression(expr))).collect();
    format!("[{}]", items.join(", "))
}

/// What the query selects, as one value.
pub(super) fn payload(query: &Query) -> String {
    match &query.select {
        Selection::Star(_) => item_alias(query).to_string(),
        Selection::Value(expr) => print::expression(expr),
        Selection::List(items) => {
            let members: Vec<_> = output_names(items)
                .iter()
                .zip(items)
                .map(|(name, item)| member(name, &print::expression(&item.expr)))
                .collect();
            format!("{{{}}}", members.join(", "))
        }
    }
}

fn member(name: &str, text: &str) -> String {
    format!("{}: {text}", print::string_literal(name))
}

/// The condition, the rule that undefined rows vanish, and the client's placeholder.
pub(super) fn filter(query: &Query) -> String {
    let own = query.filter.as_ref().map(|filter| format!("({})", print::expression(filter)));
    let defined = match &query.select {
        Selection::Value(expr) => Some(format!("IS_DEFINED({})", print::expression(expr))),
        _ => None,
    };
    let mut parts: Vec<String> = own.into_iter().chain(defined).collect();
    if parts.is_empty() {
        return format!("({FILTER_PLACEHOLDER})");
    }
    parts.push(format!("({FILTER_PLACEHOLDER})"));
    format!("({})", parts.join(" AND "))
}

/// True when the rows of a DISTINCT are the values they are sorted by, so that equal ones are
/// neighbours. Of `SELECT DISTINCT c.a … ORDER BY c.a` that is true as well, but clients that resume
/// such a query by its last row hand out rows twice; duplicates that may be anywhere they get right.
fn key_is_projection(query: &Query) -> bool {
    match (&query.select, query.order_by.as_slice()) {
        (Selection::Value(expr), [key]) => key.expr == *expr,
        _ => false,
    }
}

/// Aggregates in the partial forms clients add up.
fn aggregated(query: &Query, info: &mut QueryInfo) -> Result<()> {
    let payload = match &query.select {
        Selection::Star(_) => item_alias(query).to_string(),
        Selection::Value(expr) => match aggregate_of(expr) {
            Some((kind, arguments)) => {
                info.aggregates.push(kind);
                format!("[{}]", partial(kind, arguments))
            }
            None => {
                refuse_composition(expr)?;
                print::expression(expr)
            }
        },
        Selection::List(items) => {
            let mut members = Vec::with_capacity(items.len());
            for (name, item) in output_names(items).into_iter().zip(items) {
                let (text, kind) = match aggregate_of(&item.expr) {
                    Some((kind, arguments)) => (partial(kind, arguments), Some(kind)),
                    None => {
                        refuse_composition(&item.expr)?;
                        (print::expression(&item.expr), None)
                    }
                };
                members.push(member(&name, &text));
                info.group_aliases.push((name, kind));
            }
            format!("{{{}}}", members.join(", "))
        }
    };
    info.group_by = query.group_by.iter().map(print::expression).collect();
    let selection = if !query.group_by.is_empty() {
        format!("{} AS groupByItems, {payload} AS payload", items(query.group_by.iter()))
    } else if info.has_select_value {
        format!("VALUE {payload}")
    } else {
        format!("{payload} AS payload")
    };
    info.rewritten =
        format!("SELECT {selection}{}{}", print::from_clause(&query.from), tail(query));
    Ok(())
}

/// WHERE, GROUP BY and ORDER BY as they were.
fn tail(query: &Query) -> String {
    let mut text = String::new();
    if let Some(filter) = &query.filter {
        text.push_str(" WHERE ");
        text.push_str(&print::expression(filter));
    }
    if !query.group_by.is_empty() {
        text.push_str(" GROUP BY ");
        text.push_str(&print::expression_list(&query.group_by));
    }
    if !query.order_by.is_empty() {
        text.push_str(" ORDER BY ");
        text.push_str(&print::order_list(&query.order_by));
    }
    text
}

/// The partial form of an aggregate.
fn partial(kind: AggregateKind, arguments: &[Expr]) -> String {
    let argument = print::expression_list(arguments);
    let name = kind.name();
    match kind {
        AggregateKind::Average => {
            format!("{{\"item\": {{\"sum\": SUM({argument}), \"count\": COUNT({argument})}}}}")
        }
        AggregateKind::Min | AggregateKind::Max => {
            let member = name.to_ascii_lowercase();
            format!(
                "{{\"item\": {name}({argument}), \"item2\": {{\"{member}\": {name}({argument}), \
                 \"count\": COUNT({argument})}}}}"
            )
        }
        _ => format!("{{\"item\": {name}({argument})}}"),
    }
}

fn refuse_composition(expr: &Expr) -> Result<()> {
    if contains_aggregate(expr) {
        let message = "Compositions of aggregates and other expressions are not allowed.";
        return Err(SqlError::compile(Code::Unsupported, message, expr.location));
    }
    Ok(())
}

/// `SELECT VALUE COUNT(1) FROM (SELECT DISTINCT …)`: the client counts distinct rows.
pub(super) fn is_distinct_count(query: &Compiled, inner: &Compiled) -> bool {
    let counts_rows = query.aggregation.as_ref().is_some_and(|aggregation| {
        !aggregation.grouped
            && aggregation.aggregates.len() == 1
            && aggregation.aggregates.iter().all(|aggregate| {
                aggregate.kind == AggregateKind::Count
                    && aggregate.argument.constant().is_some_and(|value| value.is_defined())
            })
    });
    let selects_count = match &query.projection {
        crate::compiled::Projection::Value(expr) => matches!(expr, CompiledExpr::Slot(0)),
        crate::compiled::Projection::Object(members) => {
            matches!(members.as_slice(), [(_, CompiledExpr::Slot(0))])
        }
        crate::compiled::Projection::Star => false,
    };
    let rows_as_they_are = query.sources.is_empty()
        && query.filter.is_none()
        && matches!(query.order, Order::None)
        && !query.distinct;
    let inner_is_plain = inner.distinct
        && inner.aggregation.is_none()
        && matches!(inner.order, Order::None)
        && matches!(inner.input, Input::Items)
        && inner.window() == (0, u64::MAX);
    counts_rows && selects_count && rows_as_they_are && inner_is_plain
}

fn distinct_count(query: &Query, mut info: QueryInfo) -> QueryInfo {
    if let Some(Collection::Query(inner)) = query.from.first().map(|source| &source.collection) {
        info.rewritten = print::query(inner);
    }
    let alias = match &query.select {
        Selection::List(items) => output_names(items).into_iter().next(),
        _ => None,
    };
    info.distinct = DistinctKind::Unordered;
    info.distinct_count_alias = Some(alias.map(|alias| alias.to_string()).unwrap_or_default());
    info
}
