//! A query over every range, the way the official SDKs do it: ask for the plan, send the rewritten
//! query to each range that the plan names, merge what comes back.
//!
//! Rows are merged by order keys or put one behind the other, and cut at TOP. What needs more than
//! that (aggregates, GROUP BY, DISTINCT, OFFSET) is left to the server, in one request.

use super::run::Tally;
use crate::client::items::ContainerName;
use crate::client::query::{Page, QueryText, Range, Scope};
use crate::client::{Answer, Client};
use futures_util::stream::{StreamExt as _, TryStreamExt as _, iter};
use serde_json::Value;
use std::cmp::Ordering;

/// Ranges asked at once.
const RANGES_IN_FLIGHT: usize = 16;
/// Where an order-by query takes its resume condition; at the start there is none.
const RESUME_FILTER: &str = "{documentdb-formattableorderbyquery-filter}";

/// A query's rows from wherever they are.
pub(crate) async fn query(
    client: &Client,
    container: ContainerName<'_>,
    ranges: &[Range],
    sql: &str,
    parameters: &[(String, Value)],
    tally: &Tally,
) -> Result<Vec<Value>, String> {
    let text = QueryText::new(sql, parameters);
    let plan = client.query_plan(container, &text).await?;
    tally.count(container.container, &plan);
    let plan = plan.success()?.json()?;
    let info = &plan["queryInfo"];
    if needs_the_server(info) {
        return pages(client, container, Scope::Everywhere, &text, None, tally).await;
    }
    let rewritten = info["rewrittenQuery"].as_str().filter(|text| !text.is_empty()).unwrap_or(sql);
    let text = QueryText::new(&rewritten.replace(RESUME_FILTER, "true"), parameters);
    let top = info["top"].as_u64().map(|top| top as usize);
    let asked: Vec<&Range> = ranges.iter().filter(|range| is_named(&plan, range)).collect();
    let found: Vec<Vec<Value>> = iter(asked)
        .map(|range| pages(client, container, Scope::Range(&range.id), &text, top, tally))
        .buffered(RANGES_IN_FLIGHT)
        .try_collect()
        .await?;
    let mut rows: Vec<Value> = found.into_iter().flatten().collect();
    let directions = info["orderBy"].as_array().cloned().unwrap_or_default();
    if !directions.is_empty() {
        rows.sort_by(|left, right| by_order(left, right, &directions));
        rows = rows.into_iter().map(|mut row| row["payload"].take()).collect();
    }
    if let Some(top) = top {
        rows.truncate(top);
    }
    Ok(rows)
}

/// Every page of a query in one scope, up to a number of rows.
pub(crate) async fn pages(
    client: &Client,
    container: ContainerName<'_>,
    scope: Scope<'_>,
    text: &QueryText,
    enough: Option<usize>,
    tally: &Tally,
) -> Result<Vec<Value>, String> {
    let mut rows = Vec::new();
    let mut continuation: Option<String> = None;
    loop {
        let wanted = Page { continuation: continuation.as_deref(), ..Page::default() };
        let page = client.query_page(container, scope, text, wanted).await?;
        tally.count(container.container, &page);
        let page: Answer = page.success()?;
        continuation = page.continuation();
        if let Value::Array(found) = page.json()?["Documents"].take() {
            rows.extend(found);
        }
        if continuation.is_none() || enough.is_some_and(|enough| rows.len() >= enough) {
            return Ok(rows);
        }
    }
}

fn needs_the_server(info: &Value) -> bool {
    let filled = |name: &str| info[name].as_array().is_some_and(|list| !list.is_empty());
    filled("aggregates")
        || filled("groupByExpressions")
        || info["groupByAliasToAggregateType"].as_object().is_some_and(|map| !map.is_empty())
        || !matches!(info["distinctType"].as_str(), None | Some("None"))
        || !info["offset"].is_null()
        || !info["limit"].is_null()
}

/// Whether the plan wants this range asked.
fn is_named(plan: &Value, range: &Range) -> bool {
    let Some(wanted) = plan["queryRanges"].as_array().filter(|list| !list.is_empty()) else {
        return true;
    };
    wanted.iter().any(|wanted| {
        let (min, max) =
            (wanted["min"].as_str().unwrap_or(""), wanted["max"].as_str().unwrap_or("FF"));
        let inclusive = wanted["isMaxInclusive"].as_bool().unwrap_or(false);
        let begins = range.min_inclusive.as_str() < max
            || (inclusive && range.min_inclusive.as_str() == max);
        begins && (min < range.max_exclusive.as_str())
    })
}

fn by_order(left: &Value, right: &Value, directions: &[Value]) -> Ordering {
    for (position, direction) in directions.iter().enumerate() {
        let key = |row: &Value| row["orderByItems"][position].get("item").cloned();
        let order = compare(key(left).as_ref(), key(right).as_ref());
        let order = if direction == "Descending" { order.reverse() } else { order };
        if order != Ordering::Equal {
            return order;
        }
    }
    Ordering::Equal
}

/// The order across types: nothing, null, booleans, numbers, strings, the rest.
fn compare(left: Option<&Value>, right: Option<&Value>) -> Ordering {
    let rank = |value: Option<&Value>| match value {
        None => 0,
        Some(Value::Null) => 1,
        Some(Value::Bool(_)) => 2,
        Some(Value::Number(_)) => 3,
        Some(Value::String(_)) => 4,
        Some(_) => 5,
    };
    match (left, right) {
        (Some(Value::Bool(left)), Some(Value::Bool(right))) => left.cmp(right),
        (Some(Value::Number(left)), Some(Value::Number(right))) => {
            let (left, right) = (left.as_f64().unwrap_or(0.0), right.as_f64().unwrap_or(0.0));
            left.total_cmp(&right)
        }
        (Some(Value::String(left)), Some(Value::String(right))) => left.cmp(right),
        _ => rank(left).cmp(&rank(right)),
    }
}
