//! Query plans: what a client needs to run a query over several ranges and merge the rows itself.
//!
//! Clients ask for a plan, send its rewritten text to every range and merge: they sort by
//! `orderByItems`, add up aggregates from their partial forms, remove duplicates, skip and take.
//! The rewritten text is ordinary SQL that [`crate::parse`] accepts once the client has replaced
//! the placeholders. The shapes are those of
//! `docs/protocol/query-plans.md#rewritten-queries`.

mod document;
mod features;
mod hybrid;
mod rewrite;
mod rewritten;

pub use features::Features;
pub use hybrid::HybridInfo;
pub use rewritten::{is_rewritten_order, payload_size};

use crate::access::{KeyConstraint, partition_keys};
use crate::aggregate::AggregateKind;
use crate::ast::{Name, Query, Selection};
use crate::bind::{Parameters, Purpose, compile_for};
use crate::compiled::{Compiled, Input, Order};
use crate::error::Result;
use crate::possible;
use crate::schema::Schema;
use armilla_model::partition_key::PartitionKey;
use armilla_model::path::Path;

/// What the client puts a resume condition in the place of, or `true`.
pub const FILTER_PLACEHOLDER: &str = "{documentdb-formattableorderbyquery-filter}";

/// A query plan.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryPlan {
    /// How to merge.
    pub kind: PlanKind,
    /// The ranges to ask, sorted and without overlaps.
    pub ranges: Vec<PlanRange>,
}

impl QueryPlan {
    /// True when the rows of ranges must be sorted, cut, freed of duplicates or added up to be those of
    /// the query; filters and projections need none of it.
    pub fn needs_merging(&self) -> bool {
        let PlanKind::Query(info) = &self.kind else { return true };
        let cut = [info.top, info.offset, info.limit].iter().any(Option::is_some);
        info.distinct != DistinctKind::None
            || !info.order_by.is_empty()
            || !info.aggregates.is_empty()
            || !info.group_by.is_empty()
            || !info.group_aliases.is_empty()
            || info.distinct_count_alias.is_some()
            || cut
    }

    /// True when the groups of ranges must be made one.
    pub fn regroups(&self) -> bool {
        matches!(&self.kind, PlanKind::Query(info) if !info.group_by.is_empty())
    }
}

/// The two kinds of plans.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanKind {
    /// An ordinary query.
    Query(QueryInfo),
    /// ORDER BY RANK.
    Hybrid(HybridInfo),
}

/// How the rows of the ranges become the rows of the query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueryInfo {
    /// How duplicates come.
    pub distinct: DistinctKind,
    /// TOP.
    pub top: Option<u64>,
    /// OFFSET, for the client to skip.
    pub offset: Option<u64>,
    /// LIMIT, for the client to take.
    pub limit: Option<u64>,
    /// The keys of ORDER BY: text, and whether it descends.
    pub order_by: Vec<(String, bool)>,
    /// The texts of the GROUP BY keys.
    pub group_by: Vec<String>,
    /// Output names and their aggregates, for GROUP BY and aggregates without VALUE.
    pub group_aliases: Vec<(Name, Option<AggregateKind>)>,
    /// The aggregate of `SELECT VALUE agg(…)`.
    pub aggregates: Vec<AggregateKind>,
    /// The text to send to each range; empty for the original.
    pub rewritten: String,
    /// SELECT VALUE.
    pub has_select_value: bool,
    /// The output name of a count of distinct rows; empty with SELECT VALUE.
    pub distinct_count_alias: Option<String>,
    /// The rows of one range are not in their final order.
    pub non_streaming_order: bool,
}

/// Whether the client must remove duplicates, and whether equal rows are neighbours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DistinctKind {
    /// No DISTINCT.
    #[default]
    None,
    /// Equal rows are neighbours.
    Ordered,
    /// Equal rows may be anywhere.
    Unordered,
}

/// A range of effective partition keys, as hexadecimal texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlanRange {
    /// Lower bound, inclusive.
    pub min: String,
    /// Upper bound.
    pub max: String,
    /// The upper bound is part of the range.
    pub max_inclusive: bool,
}

impl PlanRange {
    /// All keys.
    pub fn full() -> Self {
        Self { min: String::new(), max: "FF".to_owned(), max_inclusive: false }
    }

    /// No key at all, in the form clients understand.
    pub fn empty() -> Self {
        Self { min: String::new(), max: String::new(), max_inclusive: true }
    }
}

/// What a plan is asked for.
#[derive(Clone, Copy)]
pub struct PlanRequest<'p> {
    /// The query.
    pub query: &'p Query,
    /// Its parameters.
    pub parameters: &'p Parameters,
    /// The container.
    pub schema: &'p Schema,
    /// The paths of its partition key.
    pub partition_key: &'p [Path],
    /// What the client can merge.
    pub features: &'p Features,
    /// The range of a partition key or a prefix of one.
    pub range_of: &'p dyn Fn(&PartitionKey) -> PlanRange,
    /// The client names one partition key beside the query: a single range answers, and skips by itself.
    pub for_one_key: bool,
}

/// Plans a query for a client that merges itself.
pub fn partitioned_plan(request: PlanRequest<'_>) -> Result<QueryPlan> {
    let PlanRequest { query, parameters, schema, features, .. } = request;
    let compiled = compile_for(Purpose::Plan, query, parameters, schema)?;
    let constraint = planned_keys(&compiled, request.partition_key);
    if let Order::Rank(rank) = &compiled.order {
        let skips_rewrite = features.has("HybridSearchSkipOrderByRewrite");
        let info = hybrid::plan(query, &compiled, rank, skips_rewrite)?;
        features::check_hybrid(&info, rank, features)?;
        let ranges = ranges(&constraint, request.range_of);
        return Ok(QueryPlan { kind: PlanKind::Hybrid(info), ranges });
    }
    // What no item can have a row of needs no merging: any one range has the answer.
    let has_rows = possible::has_rows(&compiled);
    let merges_groups = query.distinct && !query.group_by.is_empty();
    if matches!(compiled.input, Input::Single) || (!has_rows && !merges_groups) {
        let kept = query.distinct && !matches!(compiled.input, Input::Single);
        let info = QueryInfo {
            distinct: if kept { DistinctKind::Unordered } else { DistinctKind::None },
            has_select_value: matches!(query.select, Selection::Value(_)),
            ..QueryInfo::default()
        };
        return Ok(QueryPlan { kind: PlanKind::Query(info), ranges: vec![PlanRange::empty()] });
    }
    let pins_one = request.for_one_key
        || match &constraint {
            KeyConstraint::Any => false,
            KeyConstraint::Keys(keys) => match keys.as_slice() {
                [] => true,
                [key] => key.0.len() == request.partition_key.len(),
                _ => false,
            },
        };
    let info = rewrite::plan(query, &compiled, pins_one)?;
    features::check(&info, features)?;
    Ok(QueryPlan { kind: PlanKind::Query(info), ranges: ranges(&constraint, request.range_of) })
}

/// The keys a query can find items in. A sub-query that reads no items is asked of every range, as
/// the service does.
fn planned_keys(query: &Compiled, paths: &[Path]) -> KeyConstraint {
    match &query.input {
        Input::Query(inner) => match inner.input {
            Input::Single => KeyConstraint::Any,
            _ => planned_keys(inner, paths),
        },
        _ => partition_keys(query, paths),
    }
}

fn ranges(
    constraint: &KeyConstraint,
    range_of: &dyn Fn(&PartitionKey) -> PlanRange,
) -> Vec<PlanRange> {
    let keys = match constraint {
        KeyConstraint::Any => return vec![PlanRange::full()],
        KeyConstraint::Keys(keys) if keys.is_empty() => return vec![PlanRange::empty()],
        KeyConstraint::Keys(keys) => keys,
    };
    let mut ranges: Vec<_> = keys.iter().map(range_of).collect();
    ranges.sort();
    let mut merged: Vec<PlanRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        // A prefix and a key below it: the prefix has it all.
        let inside = merged.last().is_some_and(|last| range.min < last.max || range == *last);
        if !inside {
            merged.push(range);
        }
    }
    merged
}
