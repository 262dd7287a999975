//! The rewritten texts of ordinary queries.

use super::rewritten::{GROUP_ITEMS, ORDER_ITEMS, PAYLOAD};
use super::{DistinctKind, FILTER_PLACEHOLDER, QueryInfo};
use crate::aggregate::AggregateKind;
use crate::ast::{Collection, Expr, ExprKind, Name, OrderItem, Query, Selection};
use crate::bind::{aggregate_of, contains_aggregate, is_path, output_names};
use crate::compiled::{Compiled, CompiledExpr, Input, Order};
use crate::error::{Result, SqlError};
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
    let selects_aggregates = selects_aggregates(query);
    if !query.order_by.is_empty() && !query.group_by.is_empty() && !selects_aggregates {
        ordered_groups(query, compiled, &mut info);
    } else if selects_aggregates || !query.group_by.is_empty() {
        aggregated(query, &mut info)?;
    } else if !query.order_by.is_empty() {
        ordered(query, compiled, &mut info);
    } else {
        plain(query, pins_one, &mut info);
    }
    Ok(info)
}

/// True when the select list aggregates.
fn selects_aggregates(query: &Query) -> bool {
    match &query.select {
        Selection::Star(_) => false,
        Selection::Value(expr) => contains_aggregate(expr),
        Selection::List(items) => items.iter().any(|item| contains_aggregate(&item.expr)),
    }
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
    format!(" OFFSET 0 LIMIT {}", offset.saturating_add(limit))
}

/// ORDER BY: every row carries its keys and its `_rid`.
fn ordered(query: &Query, compiled: &Compiled, info: &mut QueryInfo) {
    order_info(query, compiled, info);
    let rewritten = ordered_text(query, info, &payload(query), &filter(query, true), "");
    info.rewritten = rewritten;
}

/// GROUP BY and ORDER BY without aggregates: every row carries its groups, too.
fn ordered_groups(query: &Query, compiled: &Compiled, info: &mut QueryInfo) {
    order_info(query, compiled, info);
    info.group_by = query.group_by.iter().map(print::expression).collect();
    if let Selection::List(items) = &query.select {
        info.group_aliases = output_names(items).into_iter().map(|name| (name, None)).collect();
    }
    let payload = format!(
        "{{\"{GROUP_ITEMS}\": {}, \"{PAYLOAD}\": {}}}",
        items(query.group_by.iter()),
        payload(query)
    );
    let groups = format!(" GROUP BY {}", print::expression_list(&query.group_by));
    info.rewritten = ordered_text(query, info, &payload, &filter(query, false), &groups);
}

fn order_info(query: &Query, compiled: &Compiled, info: &mut QueryInfo) {
    let keys = match (&compiled.order, &compiled.aggregation) {
        (Order::Keys { keys, .. }, _) => keys.as_slice(),
        (_, Some(aggregation)) => &aggregation.order,
        _ => &[],
    };
    let descending = |(position, item): (usize, &OrderItem)| {
        keys.get(position).map_or(item.descending, |key| key.descending)
    };
    let texts = query.order_by.iter().map(|item| print::expression(&item.expr));
    info.order_by = texts.zip(query.order_by.iter().enumerate().map(descending)).collect();
    info.non_streaming_order = query.order_by.iter().any(|item| is_computed(&item.expr));
    if query.distinct && key_is_projection(query) {
        info.distinct = DistinctKind::Ordered;
    }
}

/// True for a key that no index has in order.
fn is_computed(key: &Expr) -> bool {
    let is_score = matches!(
        &key.kind,
        ExprKind::Call { name, user: false, .. } if name.eq_ignore_ascii_case("_FULLTEXTSCORE")
    );
    !is_path(key) && !is_score
}

fn ordered_text(
    query: &Query,
    info: &QueryInfo,
    payload: &str,
    filter: &str,
    groups: &str,
) -> String {
    // Duplicates and groups are made one by the client: before that, no range may cut its rows.
    let cut = !query.distinct && groups.is_empty();
    let top =
        count_text(query.top.as_ref().filter(|_| cut), |top| format!("TOP {} ", print::count(top)));
    let limit = match (info.offset, info.limit) {
        (Some(offset), Some(limit)) if cut => first_rows(offset, limit),
        _ => String::new(),
    };
    format!(
        "SELECT {top}{rid}, {items} AS {ORDER_ITEMS}, {payload} AS {PAYLOAD}{from} WHERE {filter}\
         {groups} ORDER BY {order}{limit}",
        rid = rid(query),
        items = items(query.order_by.iter().map(|item| &item.expr)),
        from = print::from_clause(&query.from),
        order = print::order_list(&query.order_by),
    )
}

/// The text of something that may be missing.
pub(super) fn count_text<T>(part: Option<T>, write: impl FnOnce(T) -> String) -> String {
    part.map(write).unwrap_or_default()
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
pub(super) fn filter(query: &Query, drops_undefined: bool) -> String {
    let own = query.filter.as_ref().map(|filter| format!("({})", print::expression(filter)));
    let defined = match &query.select {
        Selection::Value(expr) if drops_undefined => {
            Some(format!("IS_DEFINED({})", print::expression(expr)))
        }
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
    info.non_streaming_order = query.order_by.iter().any(|item| is_computed(&item.expr));
    if query.distinct && key_is_projection(query) {
        info.distinct = DistinctKind::Ordered;
    }
    let distinct = if query.distinct { "DISTINCT " } else { "" };
    // One value per range is never cut, and neither are groups that ranges share.
    let cut = !query.distinct && !info.has_select_value && query.group_by.is_empty();
    let top =
        count_text(query.top.as_ref().filter(|_| cut), |top| format!("TOP {} ", print::count(top)));
    let selection = if !query.group_by.is_empty() {
        format!("{} AS {GROUP_ITEMS}, {payload} AS {PAYLOAD}", items(query.group_by.iter()))
    } else if info.has_select_value {
        format!("VALUE {payload}")
    } else {
        format!("{payload} AS {PAYLOAD}")
    };
    let from = print::from_clause(&query.from);
    let limit = match (info.offset, info.limit) {
        (Some(offset), Some(limit)) if cut => first_rows(offset, limit),
        _ => String::new(),
    };
    info.rewritten = format!("SELECT {distinct}{top}{selection}{from}{}{limit}", tail(query));
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
        return Err(SqlError::refused(message));
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
