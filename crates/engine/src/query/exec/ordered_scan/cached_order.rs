//! Cached orders: the candidates of a part in the order of a path, kept for the next query (decision 0014).
//!
//! Which documents of a part a condition leaves, and in which order of a path they come, never
//! changes: parts are immutable. The first query that ranks leaves a note; the next one sorts all
//! candidates once and keeps them, and from then on a page touches the documents it hands out.
//! Which of them are dead, expired or out of scope by now is asked when they come up.

use crate::query::plan::costs::{
    CACHED_ORDER_MIN, CACHED_ORDER_SCOPE_SHARE, CACHED_ORDERS_BYTES, CACHED_ORDERS_ESTIMATED,
};
use crate::query::plan::{PartPlan, Plan};
use armilla_index::{Column, Direction};
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use std::ops::Range;
use std::sync::Arc;

/// What an entry weighs besides its candidates, roughly.
const ENTRY_WEIGHT: u64 = 128;

/// What an order is of: a part's serial, the path of the order, the condition's fingerprint.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(in crate::query) struct OrderCacheKey {
    part: u64,
    path: u32,
    condition: Box<[u32]>,
}

/// Orders of an account's queries.
pub(crate) struct CachedOrders(Cache<OrderCacheKey, CachedOrder, ByCandidates>);

impl Default for CachedOrders {
    fn default() -> Self {
        // In one piece: of a cache that is divided by cores, no part could hold a large order.
        let options = OptionsBuilder::new()
            .shards(1)
            .estimated_items_capacity(CACHED_ORDERS_ESTIMATED)
            .weight_capacity(CACHED_ORDERS_BYTES)
            .build()
            .expect("all that must be given is given");
        let (hashing, life) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
        Self(Cache::with_options(options, ByCandidates, hashing, life))
    }
}

#[derive(Clone)]
enum CachedOrder {
    /// A query has asked once.
    Asked,
    Sorted(Arc<Order>),
}

/// All candidates of a part, dead ones included, by the ordinal of their value, then by number.
struct Order {
    locals: Box<[u32]>,
    /// All of them match.
    exact: bool,
}

#[derive(Clone)]
struct ByCandidates;

impl Weighter<OrderCacheKey, CachedOrder> for ByCandidates {
    fn weight(&self, _: &OrderCacheKey, cached: &CachedOrder) -> u64 {
        match cached {
            CachedOrder::Asked => ENTRY_WEIGHT,
            CachedOrder::Sorted(order) => ENTRY_WEIGHT + size_of_val(&*order.locals) as u64,
        }
    }
}

/// A way through an order.
pub(in crate::query) struct Ranking<'s> {
    order: Arc<Order>,
    column: Column<'s>,
    direction: Direction,
    /// The candidates that are left, by position.
    rest: Range<usize>,
}

impl OrderCacheKey {
    /// The order of a plan's candidates by a path, if it is worth keeping.
    pub(super) fn of(part: &PartPlan<'_>, plan: &Plan, path: u32) -> Option<Self> {
        let few = plan.threshold(CACHED_ORDER_MIN);
        let narrow =
            part.scope().saturating_mul(CACHED_ORDER_SCOPE_SHARE) < part.part.len() as usize;
        if (part.size() as u64) < few || narrow {
            return None;
        }
        let condition = part.selector.fingerprint()?;
        Some(Self { part: part.part.serial(), path, condition })
    }
}

impl<'s> Ranking<'s> {
    /// The order, if it is kept.
    pub(in crate::query) fn find(
        orders: &CachedOrders,
        key: &OrderCacheKey,
        column: Column<'s>,
        direction: Direction,
        values: &Range<u32>,
    ) -> Option<Self> {
        match orders.0.get(key)? {
            CachedOrder::Asked => None,
            CachedOrder::Sorted(order) => Some(Self::new(order, column, direction, values)),
        }
    }

    /// The order if it was asked for before; if not, only that is remembered.
    pub(in crate::query) fn make(
        orders: &CachedOrders,
        key: OrderCacheKey,
        part: &PartPlan<'_>,
        column: Column<'s>,
        direction: Direction,
        values: &Range<u32>,
    ) -> Option<Self> {
        if orders.0.get(&key).is_none() {
            orders.0.insert(key, CachedOrder::Asked);
            return None;
        }
        let (locals, exact) = part.selector.candidates(part.part);
        let ordinal = |local: u32| Some((column.ordinal(local)?, local));
        let mut places: Vec<(u32, u32)> = locals.into_iter().filter_map(ordinal).collect();
        places.sort_unstable();
        let locals = places.into_iter().map(|(_, local)| local).collect();
        let order = Arc::new(Order { locals, exact });
        orders.0.insert(key, CachedOrder::Sorted(order.clone()));
        Some(Self::new(order, column, direction, values))
    }

    fn new(
        order: Arc<Order>,
        column: Column<'s>,
        direction: Direction,
        values: &Range<u32>,
    ) -> Self {
        let before = |end: u32| {
            let is_before = |local: &u32| column.ordinal(*local).is_some_and(|at| at < end);
            match order.locals.last() {
                // Most orders are asked for from end to end.
                _ if end == 0 => 0,
                Some(last) if is_before(last) => order.locals.len(),
                _ => order.locals.partition_point(is_before),
            }
        };
        let rest = before(values.start)..before(values.end);
        Self { order, column, direction, rest }
    }

    /// True when all candidates surely match.
    pub(in crate::query) fn is_exact(&self) -> bool {
        self.order.exact
    }

    /// The next candidate that passes, and the ordinal of its value; those that do not are done with.
    pub(in crate::query) fn peek(&mut self, passes: impl Fn(u32) -> bool) -> Option<(u32, u32)> {
        while let Some(local) = self.first() {
            if passes(local) {
                return Some((self.column.ordinal(local)?, local));
            }
            self.skip();
        }
        None
    }

    /// Goes on to the candidate behind the next one.
    pub(in crate::query) fn skip(&mut self) {
        match self.direction {
            Direction::Ascending => self.rest.next(),
            Direction::Descending => self.rest.next_back(),
        };
    }

    fn first(&self) -> Option<u32> {
        let at = match self.direction {
            Direction::Ascending => self.rest.clone().next(),
            Direction::Descending => self.rest.clone().next_back(),
        };
        at.and_then(|at| self.order.locals.get(at).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::plan::costs::RANK_MAX;

    #[test]
    fn the_largest_order_is_kept() {
        let orders = CachedOrders::default();
        let key = OrderCacheKey { part: u64::MAX, path: 0, condition: Box::default() };
        let locals = vec![0; usize::try_from(RANK_MAX).unwrap()].into();
        orders.0.insert(key.clone(), CachedOrder::Sorted(Arc::new(Order { locals, exact: true })));
        assert!(matches!(orders.0.get(&key), Some(CachedOrder::Sorted(_))));
    }
}
