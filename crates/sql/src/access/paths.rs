//! The paths a query refers to: for covering answers, index metrics and ORDER BY.

use super::{PathStep, Scope};
use crate::ast::Name;
use crate::compiled::{
    Compiled, CompiledExpr, Input, Order, Projection, RankComponent, Source, Step,
};
use std::collections::HashSet;

/// One ORDER BY key that is a path of the item.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderPath {
    /// The names from the item.
    pub path: Vec<Name>,
    /// The first name is a computed property.
    pub computed: bool,
    /// From large to small.
    pub descending: bool,
}

/// The ORDER BY keys as paths of the item; `None` when one of them is something else, or there is
/// no order.
pub fn order_paths(query: &Compiled) -> Option<Vec<OrderPath>> {
    let Order::Keys { keys, .. } = &query.order else { return None };
    let scope = scope_of(query);
    keys.iter()
        .map(|key| {
            let found = scope.find(&key.expr).filter(|found| found.precise)?;
            let name = |step: PathStep| match step {
                PathStep::Name(name) => Some(name),
                PathStep::Element => None,
            };
            let path: Option<Vec<_>> = found.path.into_iter().map(name).collect();
            let path = path.filter(|path| !path.is_empty())?;
            Some(OrderPath { path, computed: found.computed, descending: key.descending })
        })
        .collect()
}

/// Every path of the item the query reads, once each. An empty path is the whole item. Computed
/// properties count with the paths their definitions read.
pub fn referenced_paths(query: &Compiled) -> Vec<Vec<PathStep>> {
    let mut paths = Paths::default();
    collect_query(query, &Scope::of(query), &mut paths);
    paths.list
}

/// The same without what only the projection reads: what decides which rows there are, and their
/// order.
pub fn deciding_paths(query: &Compiled) -> Vec<Vec<PathStep>> {
    let mut paths = Paths::default();
    collect_rows(query, &Scope::of(query), &mut paths);
    paths.list
}

fn scope_of(query: &Compiled) -> Scope {
    let mut scope = Scope::of(query);
    query.sources.iter().for_each(|source| {
        scope.source(source);
    });
    scope
}

fn collect_query(query: &Compiled, outer: &Scope, paths: &mut Paths) {
    let (scope, behind) = collect_rows(query, outer, paths);
    match &query.projection {
        Projection::Star => {
            if query.aggregation.is_none()
                && let Some(Some(path)) = scope.frames.last()
            {
                add(path.clone(), paths);
            }
        }
        Projection::Value(expr) => collect_expr(expr, &behind, paths),
        Projection::Object(members) => {
            members.iter().for_each(|(_, expr)| collect_expr(expr, &behind, paths));
        }
    }
}

/// Collects all but the projection; gives the frames of a row, and those that the projection sees.
fn collect_rows(query: &Compiled, outer: &Scope, paths: &mut Paths) -> (Scope, Scope) {
    if let Input::Query(inner) = &query.input {
        collect_query(inner, &Scope::of(inner), paths);
    }
    let mut scope = outer.clone();
    for source in &query.sources {
        match source {
            // The frame stands for the path; what is read below it is collected where it is read.
            Source::One(expr) | Source::Each(expr) => {
                collect_source(expr, &scope, paths, matches!(source, Source::Each(_)));
            }
            Source::Rows(rows) | Source::EachOfRows(rows) => collect_query(rows, &scope, paths),
        }
        scope.source(source);
    }
    let mut collect = |expr: &CompiledExpr, scope: &Scope| collect_expr(expr, scope, paths);
    query.filter.iter().for_each(|filter| collect(filter, &scope));
    match &query.order {
        Order::None => {}
        Order::Keys { keys, .. } => keys.iter().for_each(|key| collect(&key.expr, &scope)),
        Order::Rank(rank) => rank.components.iter().for_each(|component| match component {
            RankComponent::FullText { text, .. } => collect(text, &scope),
            RankComponent::Vector { distance, .. } => collect(distance, &scope),
        }),
    }
    let mut behind = scope.clone();
    if let Some(aggregation) = &query.aggregation {
        aggregation.keys.iter().for_each(|key| collect(key, &scope));
        aggregation.aggregates.iter().for_each(|aggregate| collect(&aggregate.argument, &scope));
        behind = outer.clone();
        behind.frames.push(None);
    }
    (scope, behind)
}

/// Paths in the order they were met, each once.
#[derive(Default)]
struct Paths {
    list: Vec<Vec<PathStep>>,
    known: HashSet<Vec<PathStep>>,
}

fn add(path: Vec<PathStep>, paths: &mut Paths) {
    if paths.known.insert(path.clone()) {
        paths.list.push(path);
    }
}

fn collect_source(expr: &CompiledExpr, scope: &Scope, paths: &mut Paths, each: bool) {
    match scope.find(expr) {
        Some(mut found) => {
            if each {
                found.path.push(PathStep::Element);
            }
            add(found.path, paths);
        }
        None => collect_expr(expr, scope, paths),
    }
}

fn collect_expr(expr: &CompiledExpr, scope: &Scope, paths: &mut Paths) {
    match expr {
        CompiledExpr::Constant(_) | CompiledExpr::Slot(_) | CompiledExpr::DocumentId => {}
        CompiledExpr::Path(path) => {
            if let Some(Some(base)) = scope
                .frames
                .len()
                .checked_sub(path.hops + 1)
                .and_then(|depth| scope.frames.get(depth))
            {
                let step = |step: &Step| match step {
                    Step::Member(name) => PathStep::Name(name.clone()),
                    Step::Element(_) => PathStep::Element,
                };
                add(base.iter().cloned().chain(path.steps.iter().map(step)).collect(), paths);
            }
        }
        CompiledExpr::Computed { definition, .. } => {
            collect_expr(definition, &Scope { frames: vec![Some(Vec::new())] }, paths);
        }
        CompiledExpr::Subquery(_, query) => collect_query(query, scope, paths),
        other => {
            other.operands().into_iter().for_each(|operand| collect_expr(operand, scope, paths));
        }
    }
}
