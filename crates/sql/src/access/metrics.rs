//! Which indexes a query uses or could use, as the index metrics of an answer list them.

use super::{Node, OrderPath, PathStep, Test, analyse, order_paths};
use crate::ast::Name;
use crate::compiled::{Compiled, CompiledExpr, Projection, Step};
use crate::lexer::is_plain_name;
use crate::schema::Schema;
use std::collections::HashSet;

/// The indexes a query uses, and those that would help it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexUsage {
    /// Single paths in use, such as `/likes/?`.
    pub utilized: Vec<String>,
    /// Single paths that the policy leaves out.
    pub potential: Vec<String>,
    /// Composite indexes in use, such as `/a ASC`, `/b DESC`.
    pub utilized_composites: Vec<Vec<String>>,
    /// Composite indexes that would serve the query better than single paths.
    pub potential_composites: Vec<Vec<String>>,
}

/// What the policy of the container has for a query, and what it lacks. The rules are read from the service's answers in
/// the index metrics baselines of the .NET SDK: the last condition comes first; a filter on the path of the order is
/// not listed beside other filters.
pub fn index_usage(query: &Compiled, schema: &Schema) -> IndexUsage {
    let mut usage = IndexUsage::default();
    let node = analyse(query);
    let order = order_paths(query).unwrap_or_default();
    if order.len() > 1 {
        let keys = order.iter().map(|key| key_text(&key.path, key.descending));
        usage.utilized_composites.push(keys.collect());
    } else {
        composite_for_filters(query, &node, order.first(), schema, &mut usage);
    }
    let mut known = HashSet::new();
    for path in single_paths(query, &node, &order, &usage) {
        if !known.insert(path.clone()) {
            continue;
        }
        let list = if schema.indexes(&path) { &mut usage.utilized } else { &mut usage.potential };
        let text = path_text(&path) + "/?";
        list.push(text);
    }
    usage
}

/// The single paths that a query asks for: of its filters, its order and a predicate it selects.
fn single_paths(
    query: &Compiled,
    node: &Node,
    order: &[OrderPath],
    usage: &IndexUsage,
) -> Vec<Vec<PathStep>> {
    let mut filtered: Vec<_> = node.atoms().into_iter().map(|atom| atom.path.clone()).collect();
    filtered.extend(selected_predicate(query));
    filtered.reverse();
    let [only] = order else { return filtered };
    let ordered: Vec<_> = only.path.iter().cloned().map(PathStep::Name).collect();
    let has_composite = !usage.potential_composites.is_empty();
    let is_filtered = filtered.contains(&ordered);
    if !is_filtered {
        filtered.push(ordered);
    } else if !has_composite && filtered.iter().any(|path| *path != ordered) {
        filtered.retain(|path| *path != ordered);
    }
    filtered
}

/// The paths of `SELECT VALUE STARTSWITH(…)` and other predicates that are selected.
fn selected_predicate(query: &Compiled) -> Vec<Vec<PathStep>> {
    let Projection::Value(call @ CompiledExpr::Call(..)) = &query.projection else {
        return Vec::new();
    };
    if query.aggregation.is_some() {
        return Vec::new();
    }
    let asked = Compiled { filter: Some(call.clone()), ..query.clone() };
    analyse(&asked).atoms().into_iter().map(|atom| atom.path.clone()).collect()
}

/// Equalities and one range (or order) over several paths are what a composite index is for, and
/// equalities on all of several GROUP BY keys.
fn composite_for_filters(
    query: &Compiled,
    node: &Node,
    order: Option<&OrderPath>,
    schema: &Schema,
    usage: &mut IndexUsage,
) {
    let parts = match node {
        Node::And(parts) => parts.as_slice(),
        other => std::slice::from_ref(other),
    };
    let (mut equal, mut ranged): (Vec<Vec<Name>>, Vec<Vec<Name>>) = (Vec::new(), Vec::new());
    for part in parts {
        let Node::Atom(atom) = part else { continue };
        let Some(names) = names(&atom.path) else { continue };
        match &atom.test {
            Test::Equal(_) | Test::In(_) => equal.push(names),
            Test::Range { .. } | Test::StartsWith(_) => ranged.push(names),
            _ => {}
        }
    }
    equal.dedup();
    ranged.dedup();
    let last = match (ranged.as_slice(), order) {
        ([only], _) if !equal.contains(only) => Some((only.clone(), false)),
        ([], Some(key)) if !equal.contains(&key.path) => Some((key.path.clone(), key.descending)),
        _ => None,
    };
    let keys = group_paths(query);
    let is_grouped = keys.len() > 1 && keys.iter().all(|key| equal.contains(key));
    if equal.is_empty() || (last.is_none() && !is_grouped) {
        return;
    }
    let keys: Vec<_> = equal.into_iter().map(|path| (path, false)).chain(last).collect();
    let texts = keys.iter().map(|(path, descending)| key_text(path, *descending)).collect();
    let paths: Vec<_> = keys.into_iter().map(|(path, _)| path).collect();
    if schema.has_composite_over(&paths) {
        usage.utilized_composites.push(texts);
    } else {
        usage.potential_composites.push(texts);
    }
}

/// The paths of GROUP BY; empty when a key is not a path of the item.
fn group_paths(query: &Compiled) -> Vec<Vec<Name>> {
    let path = |key: &CompiledExpr| {
        let CompiledExpr::Path(path) = key else { return None };
        let name = |step: &Step| match step {
            Step::Member(name) => Some(name.clone()),
            Step::Element(_) => None,
        };
        path.steps.iter().map(name).collect::<Option<Vec<Name>>>()
    };
    let keys = query.aggregation.iter().flat_map(|aggregation| &aggregation.keys);
    keys.map(path).collect::<Option<Vec<_>>>().unwrap_or_default()
}

fn names(path: &[PathStep]) -> Option<Vec<Name>> {
    let name = |step: &PathStep| match step {
        PathStep::Name(name) => Some(name.clone()),
        PathStep::Element => None,
    };
    path.iter().map(name).collect()
}

/// A path as policies write it: `/a/[]/"odd name"`.
pub fn path_text(path: &[PathStep]) -> String {
    let step = |step: &PathStep| match step {
        PathStep::Element => "/[]".to_owned(),
        PathStep::Name(name) if is_plain_name(name) => format!("/{name}"),
        PathStep::Name(name) => format!("/{}", crate::print::string_literal(name)),
    };
    path.iter().map(step).collect()
}

fn key_text(path: &[Name], descending: bool) -> String {
    let steps: Vec<_> = path.iter().cloned().map(PathStep::Name).collect();
    path_text(&steps) + if descending { " DESC" } else { " ASC" }
}
