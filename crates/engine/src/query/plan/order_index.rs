//! The index that has the order of a query, and how its values are grouped. Whether it is walked or the matches are sorted is
//! decided in `query::plan::choose`.

use crate::indexing::write_joined;
use crate::query::Query;
use crate::query::find::{computed_number, path_number};
use crate::query::view::{RangeView, View};
use armilla_index::{ByteRange, Direction, ValueRange};
use armilla_model::ordered::{CUT, is_cut, tag, term};
use armilla_model::policy::CompositePath;
use armilla_model::value::{Type, Value};
use armilla_sql::access::{OrderPath, PathStep};
use std::ops::Bound;

/// The index that has the order of a query.
pub(in crate::query) struct OrderIndex {
    pub(in crate::query) path: Option<u32>,
    pub(in crate::query) direction: Direction,
    /// Which members of a composite are encoded descending; nothing for a single path.
    pub(in crate::query) members: Option<Vec<bool>>,
    /// Documents without a value come too, as undefined.
    pub(in crate::query) keeps_undefined: bool,
    /// The first key descends, and with it the ordinals of equal documents.
    pub(in crate::query) descending: bool,
}

impl OrderIndex {
    /// The index for the order of a query, if there is one.
    pub(in crate::query) fn find(query: &Query, view: &View) -> Option<Self> {
        let keys = query.prepared.order_paths.as_deref()?;
        if keys.len() > 1 && keys.iter().any(|key| key.computed) {
            return None;
        }
        if view.is_any_bare() {
            return None;
        }
        let (container, policy) = (&*query.container, &view.definition.policy);
        if let [key] = keys {
            let steps: Vec<_> = key.path.iter().cloned().map(PathStep::Name).collect();
            let number = if key.computed { computed_number } else { path_number };
            return Some(Self {
                path: number(&steps, container, policy)?,
                direction: direction(key.descending),
                members: None,
                keeps_undefined: true,
                descending: key.descending,
            });
        }
        let composites = policy.indexing.composites.iter().enumerate();
        let (number, opposite) =
            composites.filter_map(|(n, composite)| Some((n, matches(composite, keys)?))).next()?;
        let members = policy.indexing.composites[number].iter().map(|member| member.descending);
        Some(Self {
            path: container.paths.find_composite(number),
            direction: direction(opposite),
            members: Some(members.collect()),
            keeps_undefined: false,
            descending: keys.first().is_some_and(|key| key.descending),
        })
    }

    /// The index of a single path.
    pub(in crate::query) fn of_path(path: Option<u32>, descending: bool) -> Self {
        let direction = direction(descending);
        Self { path, direction, members: None, keeps_undefined: false, descending }
    }

    /// How many documents of a target have a place in the order.
    pub(in crate::query) fn documents(&self, range: &RangeView) -> u64 {
        let Some(path) = self.path else { return 0 };
        let parts = range.parts().iter();
        parts
            .filter_map(|part| part.path(path))
            .map(|index| u64::from(index.documents_with()))
            .sum()
    }

    /// The values from a position on. A value that is not wholly known stands for all of its kind.
    pub(in crate::query) fn range_from(&self, values: &[Option<Value>]) -> ValueRange {
        let mut prefix = Vec::new();
        for (position, value) in values.iter().enumerate() {
            let Some(value) = value else { break };
            let bytes = term(value);
            let known =
                !is_cut(&bytes) && bytes.first().is_none_or(|first| *first < tag(Type::Array));
            match &self.members {
                None => prefix = bytes,
                Some(members) if known => {
                    write_joined(
                        &bytes,
                        members.get(position).copied().unwrap_or(false),
                        &mut prefix,
                    );
                }
                Some(_) => break,
            }
        }
        match self.direction {
            Direction::Ascending => ByteRange::at_least(prefix),
            Direction::Descending => {
                ByteRange::new(Bound::Unbounded, ByteRange::prefix(&prefix).end)
            }
        }
    }

    /// The encoding of a position whose values are all known; `Some(None)` is undefined.
    pub(in crate::query) fn position_bytes(
        &self,
        values: &[Option<Value>],
    ) -> Option<Option<Vec<u8>>> {
        if values.is_empty() {
            return None;
        }
        let mut joined = Vec::new();
        for (position, value) in values.iter().enumerate() {
            let value = value.as_ref()?;
            match &self.members {
                None if value.is_undefined() => return Some(None),
                None => joined = term(value),
                Some(members) => {
                    let descending = members.get(position).copied().unwrap_or(false);
                    write_joined(&term(value), descending, &mut joined);
                }
            }
        }
        Some(Some(joined))
    }

    /// The bytes of a value that decide its group, and whether only the items have the order inside.
    pub(in crate::query) fn group_of(&self, value: armilla_index::Value<'_>) -> (usize, bool) {
        let bytes = value.bytes;
        let Some(members) = &self.members else {
            let is_marker = bytes.first().is_some_and(|first| *first >= tag(Type::Array));
            return (bytes.len(), is_marker || is_cut(bytes));
        };
        let mut at = 0;
        for descending in members {
            let flip = |byte: u8| if *descending { !byte } else { byte };
            let first = bytes.get(at).map(|byte| flip(*byte));
            let start = at;
            loop {
                match (
                    bytes.get(at).map(|byte| flip(*byte)),
                    bytes.get(at + 1).map(|byte| flip(*byte)),
                ) {
                    (Some(0), Some(0)) => {
                        // An escaped zero is followed by FF, the end mark by another zero.
                        break;
                    }
                    (Some(0), Some(_)) => at += 2,
                    (Some(_), _) => at += 1,
                    (None, _) => return (bytes.len(), true),
                }
            }
            let last = bytes.get(at.wrapping_sub(1)).map(|byte| flip(*byte));
            at += 2;
            let is_marker = first.is_some_and(|first| first >= tag(Type::Array));
            let is_cut =
                first == Some(tag(Type::String)) && at - 2 > start + 1 && last == Some(CUT);
            if is_marker || is_cut {
                return (at, true);
            }
        }
        (bytes.len(), false)
    }
}

fn direction(descending: bool) -> Direction {
    if descending { Direction::Descending } else { Direction::Ascending }
}

/// Whether a composite serves the keys: `Some(true)` when it is read backwards.
fn matches(composite: &[CompositePath], keys: &[OrderPath]) -> Option<bool> {
    let same = composite.len() == keys.len()
        && composite.iter().zip(keys).all(|(member, key)| {
            member.path.0.len() == key.path.len()
                && member.path.0.iter().zip(&key.path).all(|(left, right)| **left == **right)
        });
    let opposite = composite.iter().zip(keys).filter(|(m, key)| m.descending != key.descending);
    match opposite.count() {
        _ if !same => None,
        0 => Some(false),
        count if count == keys.len() => Some(true),
        _ => None,
    }
}
