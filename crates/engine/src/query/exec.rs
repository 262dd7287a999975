//! Operators: each answers a page as its plan says.
//!
//! ```text
//! stream           rows as items go by, in the order of (effective key, ordinal)
//! ordered_scan     ORDER BY from an index that is read in order, merged over the ranges
//! top_k            ORDER BY from a bounded heap of all candidates
//! group            aggregates, GROUP BY and DISTINCT: the next groups behind a key
//! index_aggregate  the same from the columns of the index alone
//! min_max          MIN and MAX from the ends of an index
//! whole            everything at once: ORDER BY RANK, queries over such queries
//! ```

mod context;
mod cursor;
mod documents;
mod functions;
mod group;
mod heap;
mod index_aggregate;
mod min_max;
mod ordered_scan;
mod parallel_filter;
mod stream;
mod top_k;
mod whole;
mod work;
mod workers;

pub(crate) use ordered_scan::CachedOrders;
pub(crate) use work::ScriptDeadline;
pub(in crate::query) use work::Work;

use super::Query;
use super::page::Page;
use super::part::{PartContent, unreadable};
use super::plan::{Operator, Plan};
use super::prepare::Shape;
use armilla_model::error::Result;
use context::PageRun;

/// Answers a page by the operator of its plan.
pub(in crate::query) fn run(query: &Query, plan: &Plan, work: &mut Work) -> Result<Page> {
    let run = PageRun::new(query, plan);
    work.bill.over(plan);
    if !matches!(plan.operator, Operator::Stream) {
        workers::try_values(&run.items, 0..plan.view.ranges.len());
    }
    match plan.operator {
        Operator::Stream => stream::run(&run, work),
        Operator::OrderedScan(_) | Operator::TopK => top_k::run(&run, work),
        Operator::MinMax { .. } | Operator::IndexAggregate(_) | Operator::Group => {
            group::run(&run, work)
        }
        Operator::Whole => whole::run(&run, work),
    }
}

/// What this account has for a page that is put together of parts.
pub(in crate::query) fn part(query: &Query, plan: &Plan, work: &mut Work) -> Result<PartContent> {
    let run = PageRun::new(query, plan);
    work.bill.over(plan);
    workers::try_values(&run.items, 0..plan.view.ranges.len());
    Ok(match plan.operator {
        Operator::Stream => return Err(unreadable()),
        Operator::OrderedScan(_) | Operator::TopK => PartContent::Rows(top_k::part(&run, work)?),
        Operator::MinMax { .. } | Operator::IndexAggregate(_) | Operator::Group => {
            PartContent::Groups(group::part(&run, work)?)
        }
        Operator::Whole => PartContent::Items(whole::part(&run, work)?),
    })
}

/// Puts a page together of the parts of all slices, which are in the order of their keys.
pub(in crate::query) fn merge(
    query: &Query,
    plan: &Plan,
    parts: Vec<PartContent>,
    work: &mut Work,
) -> Result<Page> {
    let run = PageRun::new(query, plan);
    let (mut rows, mut groups, mut items) = (Vec::new(), Vec::new(), Vec::new());
    let count = parts.len();
    for part in parts {
        match part {
            PartContent::Rows(part) => rows.push(part),
            PartContent::Groups(part) => groups.push(part),
            PartContent::Items(part) => items.push(part),
        }
    }
    match query.prepared.shape {
        Shape::Ordered if rows.len() == count => top_k::merge(&run, rows, work),
        Shape::Grouped if groups.len() == count => group::merge(&run, groups, work),
        Shape::Whole if items.len() == count => whole::merge(&run, items, work),
        _ => Err(unreadable()),
    }
}
