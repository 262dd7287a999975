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
use super::plan::{Operator, Plan};
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
