//! ORDER BY: keys that are paths, and ranks.

use super::{Binder, Place, is_aggregated};
use crate::ast::{self, ExprKind, Name, OrderItem, Query};
use crate::compiled::{Expr, Order, OrderKey, Rank, RankComponent, Step};
use crate::error::{Code, Location};
use armilla_model::Value;

impl Binder<'_> {
    pub(super) fn order_by(&mut self, query: &Query, place: Place) -> Order {
        if query.rank {
            return self.rank(&query.order_by, place);
        }
        let mut keys = Vec::with_capacity(query.order_by.len());
        let mut paths = Vec::with_capacity(query.order_by.len());
        for item in &query.order_by {
            let (key, path) = self.order_key(item);
            keys.push(key);
            paths.push(path);
        }
        if place == Place::Top {
            self.check_index(query, &keys, &paths);
        }
        Order::Keys { keys }
    }

    fn order_key(&mut self, item: &OrderItem) -> (OrderKey, Option<Vec<Name>>) {
        let expr = self.expression(&item.expr);
        let mut descending = item.descending;
        let path = match &expr {
            Expr::Path(path) => {
                let names = self.document_path(path.hops, &path.steps);
                if path.steps.is_empty() && names.is_some() {
                    self.not_a_path(item.expr.location);
                }
                names
            }
            Expr::Computed { name, steps, .. } => {
                let rest = member_names(steps);
                rest.map(|rest| std::iter::once(name.clone()).chain(rest).collect())
            }
            // Similarity always goes from the best match to the worst.
            Expr::Call(function, arguments) if function.name == "VECTORDISTANCE" => {
                descending = largest_first(arguments);
                None
            }
            Expr::Call(function, _) if function.name == "_FULLTEXTSCORE" => None,
            Expr::Constant(_) if !self.errors.is_empty() => None,
            _ => {
                self.not_a_path(item.expr.location);
                None
            }
        };
        (OrderKey { expr, descending }, path)
    }

    fn not_a_path(&mut self, location: Location) {
        let message = "Unsupported ORDER BY clause. ORDER BY item expression could not be mapped \
                       to a document path.";
        self.error(Code::OrderByNotPath, message, location);
    }

    /// The names from the item to a path in a frame, when the frame is the item.
    fn document_path(&self, hops: usize, steps: &[Step]) -> Option<Vec<Name>> {
        let depth = self.depth.checked_sub(hops)?;
        let is_item = self.bindings.iter().any(|binding| binding.depth == depth && binding.is_item);
        if is_item { member_names(steps) } else { None }
    }

    /// Refuses what no index serves.
    fn check_index(&mut self, query: &Query, keys: &[OrderKey], paths: &[Option<Vec<Name>>]) {
        let schema = self.schema;
        if schema.indexing.is_none() {
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

    fn rank(&mut self, items: &[OrderItem], place: Place) -> Order {
        let [item] = items else {
            let message = "ORDER BY RANK takes exactly one function; use RRF to combine several.";
            self.error(Code::Unsupported, message, items[1].expr.location);
            return Order::None;
        };
        if place != Place::Top {
            let message = "ORDER BY RANK is not allowed in a subquery.";
            self.error(Code::Unsupported, message, item.expr.location);
            return Order::None;
        }
        let (calls, weights) = self.rank_parts(&item.expr);
        let components: Option<Vec<_>> =
            calls.iter().map(|call| self.rank_component(call)).collect();
        components.map_or(Order::None, |components| Order::Rank(Rank { components, weights }))
    }

    /// The ranked calls and their weights: those of RRF, or the single call itself.
    fn rank_parts<'e>(&mut self, expr: &'e ast::Expr) -> (Vec<&'e ast::Expr>, Vec<f64>) {
        let arguments = match &expr.kind {
            ExprKind::Call { name, user: false, arguments, .. }
                if name.eq_ignore_ascii_case("RRF") =>
            {
                arguments
            }
            _ => return (vec![expr], vec![1.0]),
        };
        let mut calls: Vec<_> = arguments.iter().collect();
        let is_call = |expr: &ast::Expr| matches!(expr.kind, ExprKind::Call { .. });
        let weights = calls.pop_if(|last| !is_call(last)).map(|last| self.expression(last));
        if calls.len() < 2 {
            let message = "The RRF function requires at least 2 argument(s).";
            self.error(Code::ArgumentCount, message, expr.location);
        }
        let weights = match weights {
            None => vec![1.0; calls.len()],
            Some(weights) => {
                let list = weights.constant().and_then(Value::as_array).unwrap_or_default();
                let numbers: Option<Vec<f64>> = list.iter().map(Value::as_f64).collect();
                numbers.filter(|numbers| numbers.len() == calls.len()).unwrap_or_else(|| {
                    let message = "The weights of RRF must be one number for each function.";
                    self.error(Code::Unsupported, message, expr.location);
                    vec![1.0; calls.len()]
                })
            }
        };
        (calls, weights)
    }

    fn rank_component(&mut self, expr: &ast::Expr) -> Option<RankComponent> {
        let ExprKind::Call { name, user: false, arguments, .. } = &expr.kind else {
            return self.not_a_rank(expr.location);
        };
        if name.eq_ignore_ascii_case("FULLTEXTSCORE") {
            return self.full_text(arguments, expr.location);
        }
        if !name.eq_ignore_ascii_case("VECTORDISTANCE") {
            return self.not_a_rank(expr.location);
        }
        let distance = self.expression(expr);
        let Expr::Call(_, arguments) = &distance else { return None };
        let largest_first = largest_first(arguments);
        Some(RankComponent::Vector { distance, largest_first })
    }

    fn full_text(&mut self, arguments: &[ast::Expr], location: Location) -> Option<RankComponent> {
        let compiled = self.list(arguments);
        let Some((Expr::Path(path), terms)) = compiled.split_first() else {
            let message = "The first argument of FullTextScore must be a path of the item.";
            self.error(Code::Unsupported, message, location);
            return None;
        };
        let mut flat = Vec::new();
        for term in terms {
            match term.constant() {
                Some(Value::Array(list)) => flat.extend(list.iter().cloned()),
                Some(value) => flat.push(value.clone()),
                None => {
                    let message = "The terms of FullTextScore must be constants.";
                    self.error(Code::Unsupported, message, location);
                }
            }
        }
        if flat.is_empty() {
            let message = "The FullTextScore function requires at least 2 argument(s).";
            self.error(Code::ArgumentCount, message, location);
        }
        Some(RankComponent::FullText { path: path.clone(), terms: flat })
    }

    fn not_a_rank(&mut self, location: Location) -> Option<RankComponent> {
        let message = "ORDER BY RANK takes FullTextScore, VectorDistance or RRF of these.";
        self.error(Code::Unsupported, message, location);
        None
    }
}

fn member_names(steps: &[Step]) -> Option<Vec<Name>> {
    let name = |step: &Step| if let Step::Member(name) = step { Some(name.clone()) } else { None };
    steps.iter().map(name).collect()
}

/// True unless the distance is Euclidean, where the smallest is the best.
fn largest_first(arguments: &[Expr]) -> bool {
    let options = arguments.get(3).and_then(Expr::constant);
    let function = options.and_then(|options| options.get("distanceFunction"));
    !function.and_then(Value::as_str).is_some_and(|name| name.eq_ignore_ascii_case("euclidean"))
}
