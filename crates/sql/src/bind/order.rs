//! ORDER BY: keys that are paths, and distances.

use super::{Binder, Clause, Mapping, Place, Purpose, contains_let, is_aggregated, is_path};
use crate::ast::{Name, OrderItem, Query};
use crate::compiled::{CompiledExpr, Order, OrderKey, Step};
use crate::error::Code;
use armilla_model::Value;

impl Binder<'_> {
    /// The order of a query that is not aggregated.
    pub(super) fn order(&mut self, query: &Query, place: Place, nested: bool) -> Order {
        if query.order_by.is_empty() {
            return Order::None;
        }
        self.check_order_place(query, nested);
        if query.rank { self.rank(query) } else { self.order_by(query, &query.order_by, place) }
    }

    /// The order of rows that become one: only paths say anything about rows.
    pub(super) fn order_of_rows(&mut self, query: &Query, place: Place, nested: bool) -> Order {
        self.check_order_place(query, nested);
        let paths: Vec<_> =
            query.order_by.iter().filter(|item| is_path(&item.expr)).cloned().collect();
        if paths.is_empty() { Order::None } else { self.order_by(query, &paths, place) }
    }

    /// Refuses ORDER BY in sub-queries.
    pub(super) fn check_order_place(&mut self, query: &Query, nested: bool) {
        let location = query.places.order_by;
        if nested && query.rank {
            let message = "The ORDER BY RANK clause is not supported in subqueries.";
            self.error(Code::RankInSubquery, message, location);
        } else if nested && !query.order_by.is_empty() {
            let message = "'ORDER BY' is not supported in subqueries.";
            self.error(Code::OrderInSubquery, message, location);
        }
    }

    fn order_by(&mut self, query: &Query, items: &[OrderItem], place: Place) -> Order {
        let mut keys = Vec::with_capacity(items.len());
        let mut paths = Vec::with_capacity(items.len());
        for item in items {
            let (key, path) = self.order_key(item);
            keys.push(key);
            paths.push(path);
        }
        if place == Place::Top {
            self.check_index(query, &keys, &paths);
        }
        Order::Keys { keys }
    }

    pub(super) fn order_key(&mut self, item: &OrderItem) -> (OrderKey, Option<Vec<Name>>) {
        let mut descending = item.descending;
        if contains_let(&item.expr) {
            let message = "LET expressions are not allowed in the ORDER BY clause.";
            let expr = self.wrong(Code::LetInOrderBy, message, item.expr.location);
            return (OrderKey { expr, descending }, None);
        }
        let errors = self.errors.len();
        let expr = self.expression(&item.expr);
        let mut path = None;
        match &expr {
            CompiledExpr::Path(found) => {
                if self.is_mapped(found.hops, &found.steps) {
                    self.check_correlation(found.hops);
                    path = self.document_path(found.hops, &found.steps);
                } else {
                    self.orders_by_no_path = true;
                }
            }
            CompiledExpr::Computed { name, steps, .. } => {
                let rest = member_names(steps);
                path = rest.map(|rest| std::iter::once(name.clone()).chain(rest).collect());
            }
            // Similarity goes from the best match to the worst.
            CompiledExpr::Call(function, arguments) if function.name == "VECTORDISTANCE" => {
                if item.directed {
                    let message = "Specifying a sorting order (ASC or DESC) with VectorDistance \
                                   function is not supported. VectorDistance will always sort in \
                                   the order of most similar (first) to least similar (last).";
                    let location = item.expr.location;
                    self.error(Code::VectorOption, message, location);
                }
                self.orders_by_no_path |= !compares_with_vector(arguments);
                descending = largest_first(arguments);
            }
            // The planner's own, which may be turned round.
            CompiledExpr::Call(function, arguments) if function.name == "_VECTORSCORE" => {
                if !item.directed {
                    descending = largest_first(arguments);
                }
            }
            CompiledExpr::Call(function, _) if function.name == "_FULLTEXTSCORE" => {}
            CompiledExpr::Call(function, arguments) if function.name == "ST_DISTANCE" => {
                self.orders_by_no_path |= !measures_from_constant(arguments);
            }
            _ if self.errors.len() > errors => {}
            // Behind an aggregation a path is a slot, or a part of one.
            _ if self.grouping.is_some() && is_path(&item.expr) => {}
            _ => self.orders_by_no_path = true,
        }
        (OrderKey { expr, descending }, path)
    }

    /// Refuses to run an order by what a JOIN made. It is planned all the same.
    fn check_correlation(&mut self, hops: usize) {
        let depth = self.depth.saturating_sub(hops);
        let joined = self.bindings.iter().any(|binding| binding.depth == depth && binding.joined);
        if joined && self.purpose == Purpose::Run && self.grouping.is_none() {
            self.refuse("Order-by over correlated collections is not supported.");
        }
    }

    /// True when a path into a frame is one into a document.
    fn is_mapped(&self, hops: usize, steps: &[Step]) -> bool {
        let depth = self.depth.saturating_sub(hops);
        let Some(binding) = self.bindings.iter().rev().find(|binding| binding.depth == depth)
        else {
            return true;
        };
        match (&binding.mapping, steps.first()) {
            (Mapping::Document, _) => true,
            (Mapping::Members(names), Some(Step::Member(name))) => names.contains(name),
            _ => false,
        }
    }

    /// The names from the item to a path in a frame, when the frame is the item.
    fn document_path(&self, hops: usize, steps: &[Step]) -> Option<Vec<Name>> {
        let depth = self.depth.checked_sub(hops)?;
        let is_item = self.bindings.iter().any(|binding| binding.depth == depth && binding.is_item);
        if is_item && !steps.is_empty() { member_names(steps) } else { None }
    }

    /// Refuses what no index serves.
    fn check_index(&mut self, query: &Query, keys: &[OrderKey], paths: &[Option<Vec<Name>>]) {
        let schema = self.schema;
        if schema.indexing.is_none() || self.purpose == Purpose::Plan {
            return;
        }
        let named: Option<Vec<_>> = paths.iter().cloned().collect();
        let Some(named) = named else { return };
        // A composite index may name a path that is excluded otherwise.
        if let [only] = named.as_slice() {
            if !schema.is_indexed(only) {
                self.refuse(
                    "The index path corresponding to the specified order-by item is excluded.",
                );
            }
            return;
        }
        let directed: Vec<_> =
            named.into_iter().zip(keys.iter().map(|key| key.descending)).collect();
        // Nothing is sorted where all rows become one.
        if !is_aggregated(query) && !schema.has_composite(&directed) {
            self.refuse(
                "The order by query does not have a corresponding composite index that it can be \
                 served from.",
            );
        }
    }

    /// The text of a clause, for errors that name it.
    pub(super) fn clause_words(&self) -> (Code, &'static str) {
        match self.clause {
            Clause::Order => (Code::NotGroupedInOrder, "ORDER BY clause"),
            _ => (Code::NotGrouped, "select list"),
        }
    }
}

fn member_names(steps: &[Step]) -> Option<Vec<Name>> {
    let name = |step: &Step| if let Step::Member(name) = step { Some(name.clone()) } else { None };
    steps.iter().map(name).collect()
}

/// True when one argument is a constant list of numbers, or is made one only when the query runs.
fn compares_with_vector(arguments: &[CompiledExpr]) -> bool {
    let is_vector = |expr: &CompiledExpr| match expr {
        CompiledExpr::Constant(Value::Array(elements)) => {
            elements.iter().all(|element| element.as_number().is_some())
        }
        CompiledExpr::User(..) => true,
        _ => false,
    };
    arguments.iter().take(2).any(is_vector)
}

fn measures_from_constant(arguments: &[CompiledExpr]) -> bool {
    matches!(
        arguments,
        [CompiledExpr::Path(_) | CompiledExpr::Computed { .. }, CompiledExpr::Constant(_)]
            | [CompiledExpr::Constant(_), CompiledExpr::Path(_) | CompiledExpr::Computed { .. }]
    )
}

/// True unless the distance is Euclidean, where the smallest is the best.
pub(super) fn largest_first(arguments: &[CompiledExpr]) -> bool {
    let options = arguments.get(3).and_then(CompiledExpr::constant);
    let function = options.and_then(|options| options.get("distanceFunction"));
    !function.and_then(Value::as_str).is_some_and(|name| name.eq_ignore_ascii_case("euclidean"))
}
