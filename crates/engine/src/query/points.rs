//! Conditions that name items by partition key and id: read like point reads, without the index.
//!
//! This is how clients ask for many items at once: `(c.id = 'a' AND c.pk = 'x') OR (…) OR …`.

use armilla_model::partition_key::{Component, Definition, Epk, PartitionKey};
use armilla_model::path::Path;
use armilla_model::value::Value;
use armilla_sql::access::{Node, PathStep, Test};

/// More items than this are looked for through the index.
const POINTS_MAX: usize = 2000;

/// An item's partition and id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Point {
    pub(super) epk: Epk,
    pub(super) id: Box<str>,
}

/// The only items a condition can match, if it names them. `scope` is the full key that the query
/// is limited to, if it is.
pub(super) fn find(
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
    points.sort();
    points.dedup();
    Some(points)
}

fn of_branch(node: &Node, definition: &Definition, scope: Option<&Epk>) -> Option<Vec<Point>> {
    let parts = match node {
        Node::And(parts) => parts.as_slice(),
        other => std::slice::from_ref(other),
    };
    let id = Path(vec!["id".to_owned()]);
    let ids: Vec<&str> = values_at(parts, &id)?.into_iter().filter_map(Value::as_str).collect();
    let epks = match scope {
        Some(epk) => vec![epk.clone()],
        None if definition.paths == [id] => {
            let point = |text: &&str| Point {
                epk: definition.epk(&PartitionKey(vec![Component::String((*text).into())])),
                id: (*text).into(),
            };
            return (ids.len() <= POINTS_MAX).then(|| ids.iter().map(point).collect());
        }
        None => keys(parts, definition)?,
    };
    if ids.len().saturating_mul(epks.len()) > POINTS_MAX {
        return None;
    }
    let of_key = |epk: &Epk| {
        let epk = epk.clone();
        ids.iter().map(move |id| Point { epk: epk.clone(), id: (*id).into() }).collect::<Vec<_>>()
    };
    Some(epks.iter().flat_map(of_key).collect())
}

/// The keys that the parts pin completely.
fn keys(parts: &[Node], definition: &Definition) -> Option<Vec<Epk>> {
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
    Some(keys.into_iter().map(|key| definition.epk(&PartitionKey(key))).collect())
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
