//! Which indexes a query uses or could use, as the index metrics of an answer list them.

use super::{Node, PathStep, Test, analyse, order_paths};
use crate::ast::Name;
use crate::compiled::Compiled;
use crate::lexer::is_plain_name;
use crate::schema::Schema;

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

/// What the policy of the container has for a query, and what it lacks.
pub fn index_usage(query: &Compiled, schema: &Schema) -> IndexUsage {
    let mut usage = IndexUsage::default();
    let node = analyse(query);
    let order = order_paths(query).unwrap_or_default();
    let ordered = order.iter().map(|key| key.path.iter().cloned().map(PathStep::Name).collect());
    let filtered = node.atoms().into_iter().map(|atom| atom.path.clone());
    for path in filtered.chain(if order.len() == 1 { ordered.collect() } else { Vec::new() }) {
        let list = if schema.indexes(&path) { &mut usage.utilized } else { &mut usage.potential };
        let text = path_text(&path) + "/?";
        if !list.contains(&text) {
            list.push(text);
        }
    }
    if order.len() > 1 {
        let keys = order.iter().map(|key| key_text(&key.path, key.descending));
        usage.utilized_composites.push(keys.collect());
    } else {
        composite_for_filters(&node, &order, schema, &mut usage);
    }
    usage
}

/// Equalities and one range (or order) over several paths are what a composite index is for.
fn composite_for_filters(
    node: &Node,
    order: &[super::OrderPath],
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
    let mut paths = equal;
    paths.extend(order.first().map(|key| key.path.clone()).or_else(|| ranged.into_iter().next()));
    paths.dedup();
    if paths.len() < 2 {
        return;
    }
    let texts = paths.iter().map(|path| key_text(path, false)).collect();
    if schema.has_composite_over(&paths) {
        usage.utilized_composites.push(texts);
    } else {
        usage.potential_composites.push(texts);
    }
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
