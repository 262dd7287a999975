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

pub(in crate::query) mod context;
mod cursor;
mod functions;
pub(in crate::query) mod group;
mod heap;
mod index_aggregate;
mod min_max;
mod ordered_scan;
mod parallel_filter;
pub(in crate::query) mod stream;
pub(in crate::query) mod top_k;
pub(in crate::query) mod whole;
pub(in crate::query) mod workers;
