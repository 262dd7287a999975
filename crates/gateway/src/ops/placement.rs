//! Where work runs: on the network thread that took the request, or on a pool.
//!
//! A network thread serves many connections, so what it does must be over in well under a millisecond.
//! This is the one place that judges that, by bytes and counts that are known before the work is done.
//! Point reads and small writes stay where they are: a hop to another thread would cost them more than
//! their work. Queries are judged by the cost of their plan.

use crate::limits::{
    INLINE_ITEMS_MAX, INLINE_OPERATIONS_MAX, INLINE_READING_MAX, INLINE_STAGING_MAX,
};
use armilla_engine::partition::Partition;
use armilla_engine::query::Cost;
use std::sync::Arc;

/// Where a piece of work runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// On the thread that took the request.
    Here,
    /// On a thread that may be kept busy.
    Pool,
}

/// Parsing a body and staging what it says. What is stored under the same id counts too, but is
/// known only on the way; see `Txn::limit_loading`.
pub(super) fn of_staging(body_bytes: usize) -> Place {
    here_if(body_bytes <= INLINE_STAGING_MAX)
}

/// Staging a transactional batch.
pub(super) fn of_batch(body_bytes: usize, operations: usize) -> Place {
    here_if(body_bytes <= INLINE_STAGING_MAX && operations <= INLINE_OPERATIONS_MAX)
}

/// Reading up to so many items of these partitions, each as it is stored.
pub(super) fn of_list(partitions: &[Arc<Partition>], count_max: usize) -> Place {
    of_reading(partitions, count_max as u64, 1)
}

/// Reading a page of changes: `behind` transactions may have to be walked through.
pub(super) fn of_feed(
    partitions: &[Arc<Partition>],
    count_max: usize,
    behind: u64,
    is_parsed: bool,
) -> Place {
    /// Rows that say more than the item are made from its parsed text.
    const PARSING: u64 = 4;
    if behind > 4 * INLINE_ITEMS_MAX {
        return Place::Pool;
    }
    of_reading(partitions, (count_max as u64).min(behind), if is_parsed { PARSING } else { 1 })
}

/// Making a page of a query by its plan.
pub(super) fn of_query(cost: Cost) -> Place {
    here_if(cost.is_small())
}

/// Items are judged by the average of their partitions; how wrong that can be is bounded by the
/// size of a page.
fn of_reading(partitions: &[Arc<Partition>], count_max: u64, effort: u64) -> Place {
    let (mut items, mut bytes) = (0, 0);
    for partition in partitions {
        items += partition.document_count();
        bytes += partition.size();
    }
    here_if(is_quick_reading(items, bytes, count_max, effort))
}

fn is_quick_reading(items: u64, bytes: u64, count_max: u64, effort: u64) -> bool {
    let count = items.min(count_max);
    let average = bytes / items.max(1);
    count <= INLINE_ITEMS_MAX
        && count.saturating_mul(average).saturating_mul(effort) <= INLINE_READING_MAX
}

fn here_if(is_quick: bool) -> Place {
    if is_quick { Place::Here } else { Place::Pool }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_writes_stay_and_large_ones_go() {
        assert_eq!(of_staging(0), Place::Here);
        assert_eq!(of_staging(2_000), Place::Here);
        assert_eq!(of_staging(60_000), Place::Pool);
        assert_eq!(of_batch(2_000, 10), Place::Here);
        assert_eq!(of_batch(2_000, 100), Place::Pool);
        assert_eq!(of_batch(100_000, 1), Place::Pool);
    }

    #[test]
    fn bytes_and_items_decide_about_reading() {
        // Few items of a large container, all of a small one, the page that clients ask for.
        assert!(is_quick_reading(1_000_000, 1_000_000_000, 100, 1));
        assert!(is_quick_reading(20, 20_000, usize::MAX as u64, 1));
        assert!(!is_quick_reading(1_000_000, 1_000_000_000, 1_000, 1));
        assert!(!is_quick_reading(1_000_000, 1_000_000_000, 100, 4));
        // A few large items.
        assert!(!is_quick_reading(10, 10_000_000, 10, 1));
        assert!(is_quick_reading(0, 0, 100, 4));
    }
}
