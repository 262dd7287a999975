//! ORDER BY RANK: FullTextScore, VectorDistance, and RRF of these.

use super::Binder;
use super::order::largest_first;
use crate::ast::{self, ExprKind, Name, Query};
use crate::compiled::{CompiledExpr, Order, Rank, RankComponent};
use crate::error::{Code, Location};
use armilla_model::Value;

/// How scores of several components become one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fusion {
    /// One component only.
    None,
    /// By reciprocal ranks.
    Rrf,
    /// Of full-text scores only. Clients fuse it by ranks as well.
    Combined,
}

impl Binder<'_> {
    pub(super) fn rank(&mut self, query: &Query) -> Order {
        let Some(item) = query.order_by.first() else { return Order::None };
        let place = query.places.order_by;
        if item.directed {
            let message =
                "Specifying a sort order (ASC or DESC) in the ORDER BY RANK clause is not allowed.";
            self.error(Code::RankDirection, message, place);
        }
        let (fusion, calls) = rank_calls(&item.expr);
        let weights = self.weights(&item.expr, fusion, calls.len(), place);
        let errors = self.errors.len();
        let components: Vec<_> =
            calls.iter().map(|call| self.rank_component(call, fusion, place)).collect();
        if fusion != Fusion::None && calls.len() < 2 && self.errors.len() == errors {
            let message =
                "A score fusion function requires at least two component score functions.";
            self.error(Code::RankComponents, message, place);
        }
        let components: Option<Vec<_>> = components.into_iter().collect();
        components.map_or(Order::None, |components| Order::Rank(Rank { components, weights }))
    }

    /// One weight for each component; none at all when the query has none.
    fn weights(
        &mut self,
        expr: &ast::Expr,
        fusion: Fusion,
        count: usize,
        place: Location,
    ) -> Vec<f64> {
        let ExprKind::Call { arguments, .. } = &expr.kind else { return Vec::new() };
        let last = arguments.last().filter(|last| fusion == Fusion::Rrf && !is_call(last));
        let Some(last) = last else { return Vec::new() };
        let bound = self.expression(last);
        let Some(list) = bound.constant().and_then(Value::as_array) else { return Vec::new() };
        let numbers: Option<Vec<f64>> = list.iter().map(Value::as_f64).collect();
        numbers.filter(|numbers| numbers.len() == count).unwrap_or_else(|| {
            let message = "The last parameter of the RRF function is an optional array of weights. \
                           When present, it must be a literal array of numbers, one for each of the \
                           component scores used for the RRF function. The length of this array \
                           must be the same as the number of the component scores.";
            self.error(Code::RankWeights, message, place);
            Vec::new()
        })
    }

    fn rank_component(
        &mut self,
        expr: &ast::Expr,
        fusion: Fusion,
        place: Location,
    ) -> Option<RankComponent> {
        let errors = self.errors.len();
        let component = match &expr.kind {
            ExprKind::Call { name, user: false, arguments, .. } if is_full_text(name) => {
                return self.full_text(name, arguments, expr.location);
            }
            ExprKind::Call { name, user: false, .. } if is_vector(name) => {
                let distance = self.expression(expr);
                match &distance {
                    CompiledExpr::Call(_, arguments) => {
                        let largest_first = largest_first(arguments);
                        Some(RankComponent::Vector { distance, largest_first })
                    }
                    // What can be no distance is undefined for every item.
                    CompiledExpr::Constant(_) => {
                        Some(RankComponent::Vector { distance, largest_first: true })
                    }
                    _ => None,
                }
            }
            _ => {
                let _bound = self.expression(expr);
                None
            }
        };
        let refused = if fusion == Fusion::Combined {
            let message =
                "The COMBINEDSCORE function only supports FullTextScore component scores.";
            Some((Code::CombinedScore, message))
        } else if component.is_none() {
            let message = "The ORDER BY RANK clause must be followed by a VectorDistance and/or a \
                           FullTextScore function call.";
            Some((Code::RankFunction, message))
        } else {
            None
        };
        if let Some((code, message)) = refused {
            if self.errors.len() == errors {
                self.error(code, message, place);
            }
            return None;
        }
        component
    }

    fn full_text(
        &mut self,
        name: &Name,
        arguments: &[ast::Expr],
        location: Location,
    ) -> Option<RankComponent> {
        let [text, terms @ ..] = arguments else {
            return self.too_few_terms(name, location);
        };
        if terms.is_empty() {
            return self.too_few_terms(name, location);
        }
        let text = self.expression(text);
        let mut found = Vec::with_capacity(terms.len());
        for term in terms {
            let is_literal = matches!(
                term.kind,
                ExprKind::String(_) | ExprKind::Object(_) | ExprKind::Parameter(_)
            );
            let bound = self.expression(term);
            match bound.constant().filter(|value| is_literal && is_term(value)) {
                Some(value) => found.push(value.clone()),
                None => {
                    let message = "The second through last arguments of the 'FullTextScore' \
                                   function must be literals of type string or object specifying \
                                   the fuzzy search argument containing a 'term' property which is \
                                   a string and a 'distance' property which is a number between 0 \
                                   and 2 (inclusive).";
                    self.error(Code::FullTextTerms, message, term.location);
                }
            }
        }
        Some(RankComponent::FullText { text, terms: found })
    }

    fn too_few_terms(&mut self, name: &Name, location: Location) -> Option<RankComponent> {
        let message = format!("The {name} function requires at least 2 argument(s).");
        self.error(Code::ArgumentCount, message, location);
        None
    }
}

/// The ranked calls: those of RRF or COMBINEDSCORE, or the single call itself.
fn rank_calls(expr: &ast::Expr) -> (Fusion, Vec<&ast::Expr>) {
    let ExprKind::Call { name, user: false, arguments, .. } = &expr.kind else {
        return (Fusion::None, vec![expr]);
    };
    let is_rrf = name.eq_ignore_ascii_case("RRF");
    if !is_rrf && !name.eq_ignore_ascii_case("COMBINEDSCORE") {
        return (Fusion::None, vec![expr]);
    }
    let mut calls: Vec<_> = arguments.iter().collect();
    if is_rrf {
        calls.pop_if(|last| !is_call(last));
    }
    (if is_rrf { Fusion::Rrf } else { Fusion::Combined }, calls)
}

fn is_call(expr: &ast::Expr) -> bool {
    matches!(expr.kind, ExprKind::Call { .. })
}

fn is_full_text(name: &str) -> bool {
    name.eq_ignore_ascii_case("FULLTEXTSCORE")
}

fn is_vector(name: &str) -> bool {
    name.eq_ignore_ascii_case("VECTORDISTANCE")
}

/// A word or phrase, or one with the number of letters that may differ. What a parameter without a value
/// stands for is not known.
fn is_term(value: &Value) -> bool {
    match value {
        Value::String(_) | Value::Undefined => true,
        Value::Object(object) => {
            let distance = object.get("distance").and_then(Value::as_f64);
            object.get("term").is_some_and(|term| term.as_str().is_some())
                && distance.is_some_and(|distance| (0.0..=2.0).contains(&distance))
        }
        _ => false,
    }
}
