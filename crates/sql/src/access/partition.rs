//! Which logical partitions a condition leaves: the partition keys it pins.

use super::{Node, PathStep, Test};
use crate::compiled::{Compiled, Input};
use crate::limits::PARTITION_KEYS_PINNED_MAX;
use armilla_model::Value;
use armilla_model::partition_key::{Component, PartitionKey};
use armilla_model::path::Path;

/// What a condition says about the partition key.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyConstraint {
    /// Any key.
    Any,
    /// Only these keys, or prefixes of keys with several levels. None at all when the condition
    /// cannot be met.
    Keys(Vec<PartitionKey>),
}

/// A key of which some levels are known.
type Partial = Vec<Option<Component>>;

/// The partition keys a query can find items in.
pub fn partition_keys(query: &Compiled, paths: &[Path]) -> KeyConstraint {
    match &query.input {
        Input::Single => KeyConstraint::Keys(Vec::new()),
        Input::Query(inner) => partition_keys(inner, paths),
        Input::Items => pinned_keys(&super::analyse(query), paths),
    }
}

/// The partition keys that a condition on items leaves.
pub fn pinned_keys(condition: &Node, paths: &[Path]) -> KeyConstraint {
    partials(condition, paths).map_or(KeyConstraint::Any, prefixes)
}

fn prefixes(partials: Vec<Partial>) -> KeyConstraint {
    let mut keys: Vec<PartitionKey> = Vec::with_capacity(partials.len());
    for partial in partials {
        let known: Vec<Component> = partial.into_iter().map_while(|component| component).collect();
        if known.is_empty() {
            return KeyConstraint::Any;
        }
        let key = PartitionKey(known);
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    KeyConstraint::Keys(keys)
}

/// The keys of a set of items; `None` is any key.
fn partials(node: &Node, paths: &[Path]) -> Option<Vec<Partial>> {
    match node {
        Node::All | Node::Unknown => None,
        Node::Nothing => Some(Vec::new()),
        Node::Atom(atom) => {
            let level = paths.iter().position(|path| is_path(&atom.path, path));
            let level = level.filter(|_| !atom.computed)?;
            let values: Vec<&Value> = match &atom.test {
                Test::Equal(value) => vec![value],
                Test::In(set) => set.values().iter().collect(),
                // A key that is no scalar sits where missing ones do; the service asks everywhere.
                _ => return None,
            };
            let is_infinite =
                |value: &&Value| value.as_f64().is_some_and(|number| !number.is_finite());
            if values.iter().any(is_infinite) {
                return None;
            }
            let partial = |value: &Value| {
                let mut partial: Partial = vec![None; paths.len()];
                partial[level] = Some(Component::from_value(Some(value)));
                partial
            };
            (values.len() <= PARTITION_KEYS_PINNED_MAX)
                .then(|| values.into_iter().map(partial).collect())
        }
        Node::And(parts) => parts
            .iter()
            .filter_map(|part| partials(part, paths))
            .reduce(|left, right| combine(&left, &right)),
        Node::Or(parts) => {
            let mut all = Vec::new();
            for part in parts {
                all.extend(partials(part, paths)?);
            }
            (all.len() <= PARTITION_KEYS_PINNED_MAX).then_some(all)
        }
    }
}

/// Keys in both sets: every pair that does not contradict.
fn combine(left: &[Partial], right: &[Partial]) -> Vec<Partial> {
    if left.len().saturating_mul(right.len()) > PARTITION_KEYS_PINNED_MAX {
        // Either set alone is a correct answer; the smaller one leaves less to do.
        return if left.len() <= right.len() { left.to_vec() } else { right.to_vec() };
    }
    let merge = |left: &Partial, right: &Partial| -> Option<Partial> {
        left.iter()
            .zip(right)
            .map(|pair| match pair {
                (Some(left), Some(right)) if left != right => None,
                (Some(known), _) | (None, Some(known)) => Some(Some(known.clone())),
                (None, None) => Some(None),
            })
            .collect()
    };
    left.iter().flat_map(|left| right.iter().filter_map(move |right| merge(left, right))).collect()
}

fn is_path(steps: &[PathStep], path: &Path) -> bool {
    steps.len() == path.0.len()
        && steps
            .iter()
            .zip(&path.0)
            .all(|(step, name)| matches!(step, PathStep::Name(step) if **step == **name))
}
