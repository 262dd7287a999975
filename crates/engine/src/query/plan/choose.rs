//! The choice of a plan: which operator answers a page, and by which condition items are found.

use super::costs::{RANK_MAX, SMALL_COPIES_MAX, SMALL_ITEMS_MAX, SORT_MAX};
use super::{
    IndexAggregate, Operator, OrderIndex, Overlay, PartPlan, Plan, PlanningTime, nanoseconds,
};
use crate::container::Container;
use crate::indexing::ROOT;
use crate::query::find::{Condition, CoveringColumns, path_number, points};
use crate::query::prepare::{ExecutionFeedback, Shape};
use crate::query::token::{self, Place, Position, Window};
use crate::query::view::View;
use crate::query::{Access, PageOptions, Query};
use armilla_model::clock::monotonic;
use armilla_model::error::Result;
use armilla_model::path::Path;
use armilla_model::policy::ContainerPolicy;
use armilla_sql::access::{KeyConstraint, OrderPath, PathStep};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

/// What a page may take at most, as far as that is known before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Items that may have to be looked at; nothing when that cannot be said without doing the work.
    pub items: Option<u64>,
    /// Items up to which the page counts as small.
    items_max: u64,
}

impl Cost {
    /// True when the page is made in a moment, on whichever thread.
    pub fn is_small(&self) -> bool {
        self.items.is_some_and(|items| items <= self.items_max)
    }
}

/// How the candidates of a range are brought into the order of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::query) enum ScanPolicy {
    /// By walking the index. Ranking is not allowed: there are too many candidates.
    Walk,
    /// By walking; where that tests many documents in vain, by ranking the candidates.
    WalkThenRank,
    /// By ranking, where the order has a column.
    Rank,
}

impl Plan {
    /// Chooses how a page is answered, as an open transaction sees its items if there is one.
    pub(in crate::query) fn choose(
        query: &Query,
        options: PageOptions<'_>,
        overlay: Option<Overlay>,
    ) -> Result<Self> {
        let begun = query.is_measured.then(monotonic);
        let read = |text| token::read(text, query.binding);
        let position = options.continuation.map(read).transpose()?.flatten();
        let view = View::take(&query.container, &query.settings, &query.spans);
        let overlay = overlay.filter(|overlay| !overlay.is_empty());
        let prepared = &query.prepared;
        let policy = &query.settings.policy;
        let key = query.scope_key.as_ref();
        let named = points::find(&prepared.node, &policy.partition_key, key);
        let is_named = named.is_some();
        let points = named.filter(|_| query.access != Access::Items && overlay.is_none());
        let condition = if view.is_indexed && points.is_none() {
            Condition::resolve(&prepared.node, &query.container, &view.definition.policy)
        } else {
            Condition::Unknown
        };
        let pinned = key.is_some() || matches!(prepared.constraint, KeyConstraint::Keys(_));
        let key_paths = if pinned { key_paths(&query.container, policy) } else { Vec::new() };
        let mut plan = Self {
            operator: Operator::Whole,
            searches: !is_named && query.access != Access::Items,
            seeks: condition.seeks(&key_paths),
            ranges: view.ranges.iter().map(|_| OnceLock::new()).collect(),
            start: start(&prepared.shape, position.as_ref()),
            position,
            count_max: options.count_max,
            part: None,
            range_by_range: options.range_by_range,
            pays_by_row: false,
            overlay,
            access: query.access,
            threads: query.threads,
            estimate: OnceLock::new(),
            cost: cost(query),
            planned_in: None,
            points,
            condition,
            view,
        };
        plan.operator = plan.operator_for(query);
        plan.pays_by_row = plan.is_order_indexed(query);
        plan.planned_in = begun.map(|begun| PlanningTime {
            chosen: nanoseconds(begun.elapsed()),
            looked_up: AtomicU64::default(),
        });
        Ok(plan)
    }

    /// What the page may take at most.
    pub fn cost(&self) -> Cost {
        let items = match self.cost.items {
            None => None,
            // Pages like it took no time lately.
            Some(0) => Some(0),
            Some(_) => {
                let scope = self.view.scope();
                match scope <= self.cost.items_max {
                    true => Some(scope),
                    false if self.tries_values() => None,
                    false => Some(self.estimate()),
                }
            }
        };
        Cost { items, ..self.cost }
    }

    fn operator_for(&self, query: &Query) -> Operator {
        match query.prepared.shape {
            Shape::Stream => Operator::Stream,
            Shape::Ordered => self.order_index(query).map_or(Operator::TopK, Operator::OrderedScan),
            Shape::Grouped => self.aggregate(query),
            Shape::Whole => Operator::Whole,
        }
    }

    /// The index to read in order, when that is better than sorting.
    fn order_index(&self, query: &Query) -> Option<OrderIndex> {
        let compiled = &query.prepared.compiled;
        if !self.is_plain() || compiled.distinct || self.has_points() {
            return None;
        }
        let window = match &self.position {
            Some(Position::Ordered(_, window)) => *window,
            _ => Window::of(compiled),
        };
        let few = self.threshold((window.wanted(self.count_max) as u64).max(SORT_MAX));
        // Where values must be tried to know the candidates, the scope stands for them.
        let candidates = if self.tries_values() { self.view.scope() } else { self.estimate() };
        if candidates <= few {
            return None;
        }
        OrderIndex::find(query, &self.view)
    }

    fn aggregate(&self, query: &Query) -> Operator {
        if !self.is_plain() || self.has_points() {
            return Operator::Group;
        }
        let (container, policy) = (&*query.container, &self.view.definition.policy);
        let covered = query.prepared.countable.as_ref().and_then(|countable| {
            let references = &query.prepared.references().paths;
            let filtered = CoveringColumns::new(references, container, policy)?;
            let unfiltered = CoveringColumns::new(&countable.references, container, policy)?;
            Some(IndexAggregate { filtered, unfiltered })
        });
        let ends = query.prepared.extremes.iter().flatten().map(|extreme| {
            let path = path_number(&extreme.path, container, policy)?;
            Some(OrderIndex::of_path(path, extreme.largest))
        });
        let ends: Option<Vec<OrderIndex>> = ends.collect();
        match ends.filter(|ends| !ends.is_empty() && !self.view.is_any_bare()) {
            Some(ends) => Operator::MinMax { ends, fallback: covered },
            None => covered.map_or(Operator::Group, Operator::IndexAggregate),
        }
    }

    /// True when all paths of the order are indexed.
    fn is_order_indexed(&self, query: &Query) -> bool {
        let policy = &self.view.definition.policy;
        let indexed = |names: &[Arc<str>]| {
            let steps: Vec<_> = names.iter().cloned().map(PathStep::Name).collect();
            path_number(&steps, &query.container, policy).is_some()
        };
        let is_indexed = |key: &OrderPath| key.computed || indexed(&key.path);
        matches!(query.prepared.shape, Shape::Ordered)
            && !query.prepared.compiled.distinct
            && query.prepared.order_paths.as_ref().is_some_and(|keys| keys.iter().all(is_indexed))
    }

    /// How the candidates of a range are brought into order: by ranking when walking is expected to test more
    /// documents than there are candidates, or did so the last time.
    pub(in crate::query) fn scan_policy<'p>(
        parts: impl Iterator<Item = PartPlan<'p>>,
        documents: u64,
        wanted: u64,
        feedback: &ExecutionFeedback,
    ) -> ScanPolicy {
        let candidates: u64 = parts.map(|part| part.size() as u64).sum();
        let tested = wanted.saturating_mul(documents) / candidates.max(1);
        match candidates {
            RANK_MAX.. => ScanPolicy::Walk,
            few if tested > few || feedback.ranks() => ScanPolicy::Rank,
            _ => ScanPolicy::WalkThenRank,
        }
    }
}

/// What is known of a page's cost before its view is looked at: nothing at all, or that it will be quick.
fn cost(query: &Query) -> Cost {
    let compiled = &query.prepared.compiled;
    let copies = query.prepared.raw.is_some();
    let items_max = if copies { SMALL_COPIES_MAX } else { SMALL_ITEMS_MAX };
    let items = match query.is_habitual && query.prepared.feedback.is_quick() {
        _ if compiled.calls_user_functions || compiled.multiplies => None,
        true => Some(0),
        false => Some(u64::MAX),
    };
    Cost { items, items_max }
}

/// The last item that earlier pages of a stream are done with.
fn start(shape: &Shape, position: Option<&Position>) -> Option<Place> {
    match (shape, position) {
        (Shape::Stream, Some(Position::Item { place, rows, .. })) => {
            // A begun item comes once more: what lies strictly before it is done.
            Some(if rows.is_some() { place.before() } else { place.clone() })
        }
        _ => None,
    }
}

/// The numbers of the paths of the partition key.
fn key_paths(container: &Container, policy: &ContainerPolicy) -> Vec<u32> {
    let number = |path: &Path| {
        path.0.iter().try_fold(ROOT, |parent, name| container.paths.find_name(parent, name))
    };
    policy.partition_key.paths.iter().filter_map(number).collect()
}
