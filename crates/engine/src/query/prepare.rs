//! Preparing: from text to a compiled query, and what can be said of it without looking at data.

mod cache;
mod feedback;
mod pure;
mod raw_projection;
mod references;
mod required_text;

pub use cache::ClientPlan;
pub(crate) use cache::QueryCache;
pub(in crate::query) use cache::{parsed, prepare};
pub(in crate::query) use feedback::ExecutionFeedback;
pub(crate) use pure::is_pure;
pub(in crate::query) use raw_projection::RawProjection;
pub(in crate::query) use references::References;
pub(in crate::query) use required_text::RequiredText;

use armilla_model::partition_key::Definition;
use armilla_sql::access::{self, KeyConstraint, Node, OrderPath, PathStep};
use armilla_sql::aggregate::AggregateKind;
use armilla_sql::compiled::{CompiledExpr, Input, Order, Step};
use armilla_sql::{Compiled, Schema};
use std::sync::{Arc, OnceLock};

/// A query ready to be planned, and what it was compiled for.
pub(in crate::query) struct Prepared {
    pub(in crate::query) compiled: Compiled,
    pub(in crate::query) schema: Arc<Schema>,
    pub(in crate::query) shape: Shape,
    /// The condition, as the index sees it.
    pub(in crate::query) node: Node,
    /// Every path of the item that the query reads. Looked for when first wanted, as those below: a query whose matches the index
    /// knows and whose rows are copies wants neither.
    references: OnceLock<References>,
    /// Those that it reads before it makes rows, where that is a step of its own (ORDER BY, copies of
    /// items): for its condition and its order.
    deciding: OnceLock<References>,
    decides: bool,
    /// The partition keys that the condition pins.
    pub(in crate::query) constraint: KeyConstraint,
    /// What the text of every item contains that meets the condition, if that is known.
    required: OnceLock<Option<RequiredText>>,
    /// How rows are made of the texts of items, if they are.
    pub(in crate::query) raw: Option<RawProjection>,
    /// The paths of ORDER BY, where all keys are paths.
    pub(in crate::query) order_paths: Option<Vec<OrderPath>>,
    /// What the query asks for if it asks for MIN and MAX of paths only.
    pub(in crate::query) extremes: Option<Vec<Extreme>>,
    /// The query without its condition, where equal values give equal rows.
    pub(in crate::query) countable: Option<Unfiltered>,
    /// What was learnt by running it.
    pub(in crate::query) feedback: Arc<ExecutionFeedback>,
    is_pure: OnceLock<bool>,
}

/// How the rows of a query come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::query) enum Shape {
    /// One by one, as items go by.
    Stream,
    /// In an order of their own.
    Ordered,
    /// From groups: aggregates, GROUP BY, DISTINCT.
    Grouped,
    /// From all items at once.
    Whole,
}

/// MIN or MAX of a path.
pub(in crate::query) struct Extreme {
    pub(in crate::query) path: Vec<PathStep>,
    pub(in crate::query) largest: bool,
}

/// A query without its condition: for items that the index knows to match.
pub(in crate::query) struct Unfiltered {
    pub(in crate::query) compiled: Compiled,
    pub(in crate::query) references: Vec<Vec<PathStep>>,
}

impl Prepared {
    fn new(
        compiled: Compiled,
        schema: Arc<Schema>,
        definition: &Definition,
        feedback: Arc<ExecutionFeedback>,
    ) -> Self {
        let inner = innermost(&compiled);
        let node = access::analyse(inner);
        let constraint = match inner.input {
            Input::Items => access::pinned_keys(&node, &definition.paths),
            _ => access::partition_keys(inner, &definition.paths),
        };
        let raw = RawProjection::of(&compiled);
        let has_keys = matches!(compiled.order, Order::Keys { .. });
        let decides = has_keys || (raw.is_some() && matches!(compiled.order, Order::None));
        let shape = shape(&compiled);
        let is_grouped = shape == Shape::Grouped;
        Self {
            shape,
            node,
            references: OnceLock::new(),
            deciding: OnceLock::new(),
            decides,
            constraint,
            required: OnceLock::new(),
            raw,
            order_paths: if has_keys { access::order_paths(&compiled) } else { None },
            extremes: if is_grouped { extremes(&compiled) } else { None },
            countable: (is_grouped && is_countable(&compiled)).then(|| Unfiltered::of(&compiled)),
            feedback,
            is_pure: OnceLock::new(),
            schema,
            compiled,
        }
    }

    /// Every path of the item that the query reads.
    pub(in crate::query) fn references(&self) -> &References {
        let find = || References::new(access::referenced_paths(&self.compiled));
        self.references.get_or_init(find)
    }

    /// The paths that are read before rows are made.
    pub(in crate::query) fn deciding(&self) -> &References {
        if !self.decides {
            return self.references();
        }
        self.deciding.get_or_init(|| References::new(access::deciding_paths(&self.compiled)))
    }

    /// What the text of every item contains that meets the condition, if that is known. Looked for when the first item is tested.
    pub(in crate::query) fn required(&self) -> Option<&RequiredText> {
        let find = || RequiredText::of(innermost(&self.compiled));
        self.required.get_or_init(find).as_ref()
    }

    /// True when rows depend on nothing but the items they are made of.
    pub(in crate::query) fn is_pure(&self) -> bool {
        *self.is_pure.get_or_init(|| is_pure(&self.compiled))
    }
}

impl Unfiltered {
    fn of(compiled: &Compiled) -> Self {
        let checks = vec![None; compiled.checks.len()];
        let compiled = Compiled { filter: None, checks, ..compiled.clone() };
        Self { references: access::referenced_paths(&compiled), compiled }
    }
}

/// Of a query over another query's rows, the innermost one is about items.
fn innermost(compiled: &Compiled) -> &Compiled {
    let mut inner = compiled;
    while let Input::Query(query) = &inner.input {
        inner = query;
    }
    inner
}

fn shape(compiled: &Compiled) -> Shape {
    if compiled.is_streaming() && starts_from_items(compiled) {
        return Shape::Stream;
    }
    let aggregation = compiled.aggregation.as_ref();
    match (&compiled.input, &compiled.order) {
        // Groups in an order of their own are all made before the first is handed out.
        (Input::Items, _) if aggregation.is_some_and(|all| !all.order.is_empty()) => Shape::Whole,
        (Input::Items, _) if aggregation.is_some() && !compiled.distinct => Shape::Grouped,
        (Input::Items, Order::Keys { .. }) if aggregation.is_none() => Shape::Ordered,
        (Input::Items, Order::None) if compiled.distinct && aggregation.is_none() => Shape::Grouped,
        _ => Shape::Whole,
    }
}

fn starts_from_items(compiled: &Compiled) -> bool {
    match &compiled.input {
        Input::Items => true,
        Input::Single => false,
        Input::Query(inner) => starts_from_items(inner),
    }
}

/// True when equal values give equal rows, in whatever order they come.
fn is_countable(compiled: &Compiled) -> bool {
    let listed = |kind| matches!(kind, AggregateKind::MakeList | AggregateKind::MakeSet);
    let lists = compiled.aggregation.iter().flat_map(|aggregation| &aggregation.aggregates);
    compiled.sources.is_empty()
        && !lists.into_iter().any(|aggregate| listed(aggregate.kind))
        && is_pure(compiled)
}

/// The paths of a query that asks for MIN and MAX only.
fn extremes(compiled: &Compiled) -> Option<Vec<Extreme>> {
    let aggregation = compiled.aggregation.as_ref().filter(|aggregation| !aggregation.grouped)?;
    if !compiled.sources.is_empty() || !matches!(compiled.order, Order::None) {
        return None;
    }
    let aggregates = aggregation.aggregates.iter();
    aggregates
        .map(|aggregate| {
            let largest = match aggregate.kind {
                AggregateKind::Min => false,
                AggregateKind::Max => true,
                _ => return None,
            };
            let CompiledExpr::Path(path) = &aggregate.argument else { return None };
            let name = |step: &Step| match step {
                Step::Member(name) => Some(PathStep::Name(name.clone())),
                Step::Element(_) => None,
            };
            let steps: Option<Vec<_>> = path.steps.iter().map(name).collect();
            let path = steps.filter(|steps| !steps.is_empty() && path.hops == 0)?;
            Some(Extreme { path, largest })
        })
        .collect()
}
