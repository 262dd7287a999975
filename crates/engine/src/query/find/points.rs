//! Conditions that name items by partition key and id: read like point reads, without the index.
//!
//! This is how clients ask for many items at once: `(c.id = 'a' AND c.pk = 'x') OR (…) OR …`.

use crate::query::plan::costs::POINTS_MAX;
use armilla_model::number::INTEGER_EXACT_MAX;
use armilla_model::partition_key::{Component, Definition, Epk, PartitionKey};
use armilla_model::path::Path;
use armilla_model::value::Value;
use armilla_sql::access::{Node, PathStep, Test};

/// An item's partition and id.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::query) struct Point {
    pub(in crate::query) epk: Epk,
    pub(in crate::query) id: Box<str>,
    /// The partition key, when an item with this id and key is all that the condition asks for.
    pub(in crate::query) key: Option<PartitionKey>,
}

/// The only items a condition can match, if it names them. `scope` is the full key that the query
/// is limited to, if it is.
pub(in crate::query) fn find(
    node: &Node,
    definition: &Definition,
    scope: Option<&Epk>,
) -> Option<Vec<Point>> {
    let mut points = match node {
        Node::Or(branches) => {
            let mut points = Vec::new();
            for branch in branches {
                points.extend(of_branch(branch, definition, scope)?);
                if points.len() > POINTS_MAX {
                    return None;
                }
            }
            points
        }
        other => of_branch(other, definition, scope)?,
    };
    points.sort_by(|left, right| (&left.epk, &left.id).cmp(&(&right.epk, &right.id)));
    points.dedup_by(|right, left| {
        let same = (&left.epk, &left.id) == (&right.epk, &right.id);
        if same {
            left.key = left.key.take().or(right.key.take());
        }
        same
    });
    Some(points)
}

fn of_branch(node: &Node, definition: &Definition, scope: Option<&Epk>) -> Option<Vec<Point>> {
    let parts = match node {
        Node::And(parts) => parts.as_slice(),
        other => std::slice::from_ref(other),
    };
    let id = Path(vec!["id".to_owned()]);
    let ids: Vec<&str> = values_at(parts, &id)?.into_iter().filter_map(Value::as_str).collect();
    let by_id = definition.paths == [id.clone()];
    // Every part is one of those that were used, and each was used once.
    let used = if by_id { 1 } else { 1 + definition.paths.len() };
    let complete = scope.is_none() && parts.len() == used;
    let point = |key: &PartitionKey, text: &str| Point {
        epk: definition.epk(key),
        id: text.into(),
        key: (complete && key.0.iter().all(is_one_value)).then(|| key.clone()),
    };
    let points: Vec<Point> = match scope {
        Some(epk) => ids
            .iter()
            .map(|text| Point { epk: epk.clone(), id: (*text).into(), key: None })
            .collect(),
        None if by_id => {
            let key = |text: &str| PartitionKey(vec![Component::String(text.into())]);
            ids.iter().map(|text| point(&key(text), text)).collect()
        }
        None => {
            let keys = keys(parts, definition)?;
            if ids.len().saturating_mul(keys.len()) > POINTS_MAX {
                return None;
            }
            let of_key =
                |key: &PartitionKey| ids.iter().map(|text| point(key, text)).collect::<Vec<_>>();
            keys.iter().flat_map(of_key).collect()
        }
    };
    (points.len() <= POINTS_MAX).then_some(points)
}

/// False for numbers that are one key value and several values.
fn is_one_value(component: &Component) -> bool {
    !matches!(component, Component::Number(number) if number.abs() >= INTEGER_EXACT_MAX)
}

/// The keys that the parts pin completely.
fn keys(parts: &[Node], definition: &Definition) -> Option<Vec<PartitionKey>> {
    let mut keys = vec![Vec::new()];
    for path in &definition.paths {
        let values = values_at(parts, path)?;
        if values.len().saturating_mul(keys.len()) > POINTS_MAX {
            return None;
        }
        keys = keys
            .into_iter()
            .flat_map(|key: Vec<Component>| {
                values.iter().map(move |value| {
                    let mut key = key.clone();
                    key.push(Component::from_value(Some(value)));
                    key
                })
            })
            .collect();
    }
    Some(keys.into_iter().map(PartitionKey).collect())
}

/// The values that one of the parts leaves at a path.
fn values_at<'n>(parts: &'n [Node], path: &Path) -> Option<Vec<&'n Value>> {
    parts.iter().find_map(|part| {
        let Node::Atom(atom) = part else { return None };
        if atom.computed || !is_path(&atom.path, path) {
            return None;
        }
        match &atom.test {
            Test::Equal(value) => Some(vec![value]),
            Test::In(set) => Some(set.values().iter().collect()),
            _ => None,
        }
    })
}

fn is_path(steps: &[PathStep], path: &Path) -> bool {
    steps.len() == path.0.len()
        && steps
            .iter()
            .zip(&path.0)
            .all(|(step, name)| matches!(step, PathStep::Name(step) if **step == **name))
}
