//! Plans for ORDER BY RANK: one query for statistics, one per component, fused by the client.

use super::rewrite::{filter, payload, rid};
use crate::ast::{ExprKind, Query};
use crate::compiled::{Compiled, Rank, RankComponent};
use crate::error::Result;
use crate::print;
use armilla_model::Value;

/// Rows per component for every row the client wants: deeper ranks still move the fused order.
const COMPONENT_DEPTH: u64 = 12;

/// How a client runs and fuses a ranked query.
#[derive(Clone, Debug, PartialEq)]
pub struct HybridInfo {
    /// Counts documents, words and hits over all ranges.
    pub statistics_query: String,
    /// One query per component.
    pub components: Vec<ComponentInfo>,
    /// One weight per component.
    pub weights: Vec<f64>,
    /// Fused rows left out at the start.
    pub skip: u64,
    /// Fused rows handed out, if the query says.
    pub take: Option<u64>,
    /// Some component needs the statistics.
    pub requires_statistics: bool,
}

/// One component of a ranked query.
#[derive(Clone, Debug, PartialEq)]
pub struct ComponentInfo {
    /// The text of its score.
    pub score: String,
    /// The best match has the largest score.
    pub descending: bool,
    /// Rows of the component, if bounded.
    pub limit: Option<u64>,
    /// The text to send to each range.
    pub rewritten: String,
}

/// How well a row matches, as one component sees it.
struct Score {
    text: String,
    /// The best match has the largest score.
    descending: bool,
    /// The direction to ask for: the language refuses one where it knows the best itself.
    direction: &'static str,
}

pub(super) fn plan(query: &Query, compiled: &Compiled, rank: &Rank) -> Result<HybridInfo> {
    let calls = rank_calls(query);
    let mut full_text = 0;
    let mut scores = Vec::with_capacity(calls.len());
    for (component, call) in rank.components.iter().zip(&calls) {
        scores.push(match component {
            RankComponent::FullText { terms, .. } => {
                full_text += 1;
                let text = full_text_score(call, terms, full_text - 1);
                Score { text, descending: true, direction: " DESC" }
            }
            RankComponent::Vector { largest_first, .. } => {
                let text = print::expression(call);
                Score { text, descending: *largest_first, direction: "" }
            }
        });
    }
    let (skip, take) = compiled.window();
    let take = Some(take).filter(|take| *take != u64::MAX);
    let limit = take.map(|take| COMPONENT_DEPTH.saturating_mul(skip.saturating_add(take)));
    let limit = limit.map(|limit| limit.min(crate::limits::COUNT_MAX));
    let components =
        (0..scores.len()).map(|component| component_info(query, &scores, component, limit));
    Ok(HybridInfo {
        statistics_query: statistics_query(query, rank, &calls),
        components: components.collect(),
        weights: rank.weights.clone(),
        skip,
        take,
        requires_statistics: full_text > 0,
    })
}

/// The ranked calls as they were written.
fn rank_calls(query: &Query) -> Vec<&crate::ast::Expr> {
    let Some(item) = query.order_by.first() else { return Vec::new() };
    match &item.expr.kind {
        ExprKind::Call { name, arguments, .. } if name.eq_ignore_ascii_case("RRF") => {
            let is_call =
                |argument: &&crate::ast::Expr| matches!(argument.kind, ExprKind::Call { .. });
            arguments.iter().filter(is_call).collect()
        }
        _ => vec![&item.expr],
    }
}

/// The text a full-text call looks into.
fn searched(call: &crate::ast::Expr) -> String {
    match &call.kind {
        ExprKind::Call { arguments, .. } => {
            arguments.first().map(print::expression).unwrap_or_default()
        }
        _ => String::new(),
    }
}

fn full_text_score(call: &crate::ast::Expr, terms: &[Value], position: usize) -> String {
    const PREFIX: &str = "documentdb-formattablehybridsearchquery";
    format!(
        "_FullTextScore({}, {}, {{{PREFIX}-totaldocumentcount}}, \
         {{{PREFIX}-totalwordcount-{position}}}, {{{PREFIX}-hitcountsarray-{position}}})",
        searched(call),
        Value::array(terms.to_vec()).to_json(),
    )
}

fn statistics_query(query: &Query, rank: &Rank, calls: &[&crate::ast::Expr]) -> String {
    let statistics: Vec<_> = rank
        .components
        .iter()
        .zip(calls)
        .filter_map(|(component, call)| match component {
            RankComponent::FullText { terms, .. } => Some((searched(call), terms)),
            RankComponent::Vector { .. } => None,
        })
        .map(|(text, terms)| {
            let hits: Vec<_> = terms
                .iter()
                .map(|term| format!("COUNTIF(FullTextContains({text}, {}))", term.to_json()))
                .collect();
            format!(
                "{{\"totalWordCount\": SUM(_FullTextWordCount({text})), \"hitCounts\": [{}]}}",
                hits.join(", ")
            )
        })
        .collect();
    format!(
        "SELECT COUNT(1) AS documentCount, [{}] AS fullTextStatistics{}",
        statistics.join(", "),
        print::from_clause(query.from.get(..1).unwrap_or_default())
    )
}

fn component_info(
    query: &Query,
    scores: &[Score],
    component: usize,
    limit: Option<u64>,
) -> ComponentInfo {
    let Score { text: score, descending, direction } = &scores[component];
    // A row without a score must still be ranked, behind all others.
    let all: Vec<_> = scores
        .iter()
        .map(|score| {
            let worst = if score.descending { "-1" } else { "999999" };
            format!("({} ?? {worst})", score.text)
        })
        .collect();
    let bounded = limit.map(|limit| format!(" OFFSET 0 LIMIT {limit}")).unwrap_or_default();
    let rewritten = format!(
        "SELECT {rid}, [{{\"item\": {score}}}] AS orderByItems, {{\"payload\": {payload}, \
         \"componentScores\": [{all}]}} AS payload{from} WHERE {filter} ORDER BY {score}{direction}\
         {bounded}",
        rid = rid(query),
        payload = payload(query),
        all = all.join(", "),
        from = print::from_clause(&query.from),
        filter = filter(query),
    );
    ComponentInfo { score: score.clone(), descending: *descending, limit, rewritten }
}
