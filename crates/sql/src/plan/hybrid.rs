//! Plans for ORDER BY RANK: one query for statistics, one per component, fused by the client.
//!
//! A component has two forms. In the older one every row carries its score as `orderByItems`, and the
//! client sorts; clients with the feature `HybridSearchSkipOrderByRewrite` take the rows of several
//! components as they come and read the scores beside the payload. A component with a negative weight
//! is turned round: its worst matches come first, and the client gets the size of the weight.

use super::rewrite::{count_text, filter, payload, rid};
use super::rewritten::{ORDER_ITEMS, PAYLOAD};
use crate::ast::{Expr, ExprKind, Query};
use crate::compiled::{Compiled, Rank, RankComponent};
use crate::error::Result;
use crate::print;
use std::collections::HashSet;

/// Fewest rows of a component: deeper ranks still move the fused order.
const COMPONENT_DEPTH_MIN: u64 = 120;
/// Rows of a component for every row the client wants, beyond those.
const COMPONENT_DEPTH: u64 = 2;
/// What a row without a score has instead, so that it is ranked behind all others.
const WORST: &str = "1.7976900000000001e+308";
const PLACEHOLDER: &str = "documentdb-formattablehybridsearchquery";

/// How a client runs and fuses a ranked query.
#[derive(Clone, Debug, PartialEq)]
pub struct HybridInfo {
    /// Counts documents, words and hits over all ranges.
    pub statistics_query: String,
    /// One query per component.
    pub components: Vec<ComponentInfo>,
    /// The size of each component's weight; none for equal ones.
    pub weights: Vec<f64>,
    /// Fused rows left out at the start, if the query has an OFFSET.
    pub skip: Option<u64>,
    /// Fused rows handed out, if the query says.
    pub take: Option<u64>,
    /// Some component needs the statistics.
    pub requires_statistics: bool,
}

/// One component of a ranked query.
#[derive(Clone, Debug, PartialEq)]
pub struct ComponentInfo {
    /// The text of its score and whether the best match has the largest; nothing in the newer form.
    pub order: Option<(String, bool)>,
    /// Rows of the component, when TOP says how many are wanted.
    pub top: Option<u64>,
    /// Rows of the component, when LIMIT does.
    pub limit: Option<u64>,
    /// The text to send to each range.
    pub rewritten: String,
}

/// How well a row matches, as one component sees it.
struct Score {
    text: String,
    /// The largest score comes first.
    descending: bool,
    /// The direction to ask for: the language refuses one where it knows the best itself.
    direction: &'static str,
    /// The score of a row without one.
    missing: String,
}

impl Score {
    fn or_missing(&self) -> String {
        format!("({} ?? {})", self.text, self.missing)
    }
}

pub(super) fn plan(
    query: &Query,
    compiled: &Compiled,
    rank: &Rank,
    skips_rewrite: bool,
) -> Result<HybridInfo> {
    let calls = rank_calls(query);
    // Components that look for the same in the same text share their statistics.
    let mut searches: Vec<String> = Vec::new();
    let mut scores = Vec::with_capacity(calls.len());
    for (position, (component, call)) in rank.components.iter().zip(&calls).enumerate() {
        let turned = rank.weights.get(position).is_some_and(|weight| *weight < 0.0);
        scores.push(match component {
            RankComponent::FullText { .. } => {
                let search = print::expression(call);
                let known = searches.iter().position(|known| *known == search);
                let position = known.unwrap_or_else(|| {
                    searches.push(search);
                    searches.len() - 1
                });
                full_text_score(call, position, turned)
            }
            RankComponent::Vector { largest_first, .. } => {
                vector_score(call, *largest_first, turned)
            }
        });
    }
    let (skip, take) = compiled.window();
    let take = Some(take).filter(|take| *take != u64::MAX);
    let depth = take.map(|take| {
        COMPONENT_DEPTH_MIN.max(COMPONENT_DEPTH.saturating_mul(skip.saturating_add(take)))
    });
    let is_new_form = skips_rewrite && scores.len() > 1;
    let component = |component: usize| {
        if is_new_form {
            new_component(query, &scores, component, depth)
        } else {
            // The score of the only component is what its rows are sorted by.
            let listed: &[Score] = if skips_rewrite { &[] } else { &scores };
            component_info(query, &scores[component], listed, depth)
        }
    };
    Ok(HybridInfo {
        statistics_query: statistics_query(query, rank, &calls),
        components: (0..scores.len()).map(component).collect(),
        weights: rank.weights.iter().map(|weight| weight.abs()).collect(),
        skip: query.offset_limit.as_ref().map(|_| skip),
        take,
        requires_statistics: !searches.is_empty(),
    })
}

/// The ranked calls as they were written.
fn rank_calls(query: &Query) -> Vec<&Expr> {
    let Some(item) = query.order_by.first() else { return Vec::new() };
    match &item.expr.kind {
        ExprKind::Call { name, arguments, .. }
            if name.eq_ignore_ascii_case("RRF") || name.eq_ignore_ascii_case("COMBINEDSCORE") =>
        {
            let is_call = |argument: &&Expr| matches!(argument.kind, ExprKind::Call { .. });
            arguments.iter().filter(is_call).collect()
        }
        _ => vec![&item.expr],
    }
}

/// The text a full-text call looks into, and its terms.
fn searched(call: &Expr) -> (String, &[Expr]) {
    match &call.kind {
        ExprKind::Call { arguments, .. } => match arguments.split_first() {
            Some((text, terms)) => (print::expression(text), terms),
            None => (String::new(), &[]),
        },
        _ => (String::new(), &[]),
    }
}

fn full_text_score(call: &Expr, position: usize, turned: bool) -> Score {
    let (text, terms) = searched(call);
    let text = format!(
        "_FullTextScore({text}, [{}], {{{PLACEHOLDER}-totaldocumentcount}}, \
         {{{PLACEHOLDER}-totalwordcount-{position}}}, {{{PLACEHOLDER}-hitcountsarray-{position}}})",
        print::expression_list(terms),
    );
    if turned {
        return Score { text, descending: false, direction: " ASC", missing: WORST.to_owned() };
    }
    Score { text, descending: true, direction: " DESC", missing: "-1".to_owned() }
}

fn vector_score(call: &Expr, largest_first: bool, turned: bool) -> Score {
    let arguments = match &call.kind {
        ExprKind::Call { arguments, .. } => print::expression_list(arguments),
        _ => String::new(),
    };
    let descending = largest_first != turned;
    let direction = match (turned, descending) {
        (false, _) => "",
        (true, true) => " DESC",
        (true, false) => " ASC",
    };
    let missing = if descending { format!("-{WORST}") } else { WORST.to_owned() };
    Score { text: format!("_VectorScore({arguments})"), descending, direction, missing }
}

fn statistics_query(query: &Query, rank: &Rank, calls: &[&Expr]) -> String {
    let mut seen = HashSet::new();
    let statistics: Vec<_> = rank
        .components
        .iter()
        .zip(calls)
        .filter(|(component, call)| {
            matches!(component, RankComponent::FullText { .. })
                && seen.insert(print::expression(call))
        })
        .map(|(_, call)| {
            let (text, terms) = searched(call);
            let hits: Vec<_> = terms
                .iter()
                .map(|term| {
                    format!("COUNTIF(FullTextContains({text}, {}))", print::expression(term))
                })
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

/// `TOP n ` or ` OFFSET 0 LIMIT n`, whichever the query has.
fn bounds(query: &Query, depth: Option<u64>) -> (String, String) {
    match depth {
        Some(depth) if query.top.is_some() => (format!("TOP {depth} "), String::new()),
        Some(depth) => (String::new(), format!(" OFFSET 0 LIMIT {depth}")),
        None => (String::new(), String::new()),
    }
}

fn component_info(
    query: &Query,
    score: &Score,
    listed: &[Score],
    depth: Option<u64>,
) -> ComponentInfo {
    let all: Vec<_> = listed.iter().map(Score::or_missing).collect();
    let (top, limit) = bounds(query, depth);
    let Score { text, descending, direction, .. } = score;
    let rewritten = format!(
        "SELECT {top}{rid}, [{{\"item\": {text}}}] AS {ORDER_ITEMS}, {{\"{PAYLOAD}\": {payload}, \
         \"componentScores\": [{all}]}} AS {PAYLOAD}{from} WHERE {filter} ORDER BY \
         {text}{direction}{limit}",
        rid = rid(query),
        payload = payload(query),
        all = all.join(", "),
        from = print::from_clause(&query.from),
        filter = filter(query, false),
    );
    let by_top = query.top.is_some();
    ComponentInfo {
        order: Some((text.clone(), *descending)),
        top: depth.filter(|_| by_top),
        limit: depth.filter(|_| !by_top),
        rewritten,
    }
}

fn new_component(
    query: &Query,
    scores: &[Score],
    component: usize,
    depth: Option<u64>,
) -> ComponentInfo {
    let all: Vec<_> = scores.iter().map(Score::or_missing).collect();
    let (top, limit) = bounds(query, depth);
    let Score { text, direction, .. } = &scores[component];
    let filter =
        count_text(query.filter.as_ref(), |filter| format!(" WHERE {}", print::expression(filter)));
    let rewritten = format!(
        "SELECT {top}{rid}, {payload} AS payload, [{all}] AS componentScores{from}{filter} ORDER BY \
         {text}{direction}{limit}",
        rid = rid(query),
        payload = payload(query),
        all = all.join(", "),
        from = print::from_clause(&query.from),
    );
    ComponentInfo { order: None, top: None, limit: None, rewritten }
}
