//! Covering columns: an item put together from the columns of the index, where they have all that a query needs.
//!
//! Values that the index holds only in part (long strings, large integers, arrays, objects) are unknown here and send
//! the reader to the item itself.

use crate::container::Container;
use crate::query::find::condition::known_value;
use crate::query::find::leaf::path_number;
use crate::query::plan::costs::COVERED_PATHS_MAX;
use armilla_index::{Column, Part, PathIndex};
use armilla_model::policy::ContainerPolicy;
use armilla_model::value::{Object, Value};
use armilla_sql::access::PathStep;
use std::sync::Arc;

/// The properties a query needs, and the numbers of their paths.
pub(in crate::query) struct CoveringColumns {
    members: Vec<Member>,
    pub(in crate::query) paths: Vec<Option<u32>>,
}

struct Member {
    name: Arc<str>,
    /// Which of the paths is this property itself.
    path: Option<usize>,
    members: Vec<Self>,
}

/// The columns of one part for the paths of a cover; nothing when items must be read.
pub(in crate::query) type PartColumns<'s> = Option<Vec<PathColumn<'s>>>;

/// How a path's values are found by document.
pub(in crate::query) enum PathColumn<'s> {
    /// No document of the part has it.
    Absent,
    /// In a column.
    Dense(PathIndex<'s>, Column<'s>),
    /// So few have it that there is no column: (document, ordinal), ascending.
    Sparse(PathIndex<'s>, Vec<(u32, u32)>),
}

impl<'s> PathColumn<'s> {
    pub(in crate::query) fn new(path: Option<u32>, part: &'s Part) -> Option<Self> {
        let Some(index) = path.and_then(|path| part.path(path)) else { return Some(Self::Absent) };
        if index.is_multi_valued() {
            return None;
        }
        if let Some(column) = index.column() {
            return Some(Self::Dense(index, column));
        }
        let mut pairs = Vec::with_capacity(index.documents_with() as usize);
        for ordinal in 0..index.value_count() {
            pairs.extend(index.list(ordinal).iter().map(|local| (local.get(), ordinal)));
        }
        pairs.sort_unstable();
        Some(Self::Sparse(index, pairs))
    }

    /// The ordinal of a document's value.
    pub(in crate::query) fn ordinal(&self, local: u32) -> Option<u32> {
        match self {
            Self::Absent => None,
            Self::Dense(_, column) => column.ordinal(local),
            Self::Sparse(_, pairs) => {
                let at = pairs.binary_search_by_key(&local, |(local, _)| *local).ok()?;
                pairs.get(at).map(|(_, ordinal)| *ordinal)
            }
        }
    }

    /// The value of an ordinal; nothing when only the item knows it.
    pub(in crate::query) fn value(&self, ordinal: Option<u32>) -> Option<Value> {
        let Some(ordinal) = ordinal else { return Some(Value::Undefined) };
        match self {
            Self::Absent => Some(Value::Undefined),
            Self::Dense(index, _) | Self::Sparse(index, _) => known_value(index.value(ordinal)),
        }
    }

    /// The same as the index has it.
    pub(in crate::query) fn encoded(&self, ordinal: u32) -> Option<armilla_index::Value<'s>> {
        match self {
            Self::Absent => None,
            Self::Dense(index, _) | Self::Sparse(index, _) => Some(index.value(ordinal)),
        }
    }

    /// How many values there are.
    pub(in crate::query) fn value_count(&self) -> u32 {
        match self {
            Self::Absent => 0,
            Self::Dense(index, _) | Self::Sparse(index, _) => index.value_count(),
        }
    }
}

impl CoveringColumns {
    /// The properties of a query, if the index has all of them.
    pub(in crate::query) fn new(
        references: &[Vec<PathStep>],
        container: &Container,
        policy: &ContainerPolicy,
    ) -> Option<Self> {
        if references.len() > COVERED_PATHS_MAX {
            return None;
        }
        let mut cover = Self { members: Vec::new(), paths: Vec::new() };
        for (position, path) in references.iter().enumerate() {
            let number = path_number(path, container, policy)?;
            cover.paths.push(number);
            insert(&mut cover.members, path, position)?;
        }
        Some(cover)
    }

    /// The columns of a part; `bare` says that some of its documents have no terms.
    pub(in crate::query) fn columns<'s>(&self, part: &'s Part, bare: bool) -> PartColumns<'s> {
        if bare && !self.paths.is_empty() {
            return None;
        }
        self.paths.iter().map(|path| PathColumn::new(*path, part)).collect()
    }

    /// An item of these values; nothing when one is unknown.
    pub(in crate::query) fn item(
        &self,
        value: &mut dyn FnMut(usize) -> Option<Value>,
    ) -> Option<Value> {
        Some(build(&self.members, value)?.unwrap_or_else(|| Value::object(Object::new())))
    }
}

fn insert(members: &mut Vec<Member>, path: &[PathStep], position: usize) -> Option<()> {
    let (PathStep::Name(name), rest) = path.split_first()? else { return None };
    let at = match members.iter().position(|member| member.name == *name) {
        Some(at) => at,
        None => {
            members.push(Member { name: name.clone(), path: None, members: Vec::new() });
            members.len() - 1
        }
    };
    if rest.is_empty() {
        members[at].path = Some(position);
        return Some(());
    }
    insert(&mut members[at].members, rest, position)
}

/// An object of the defined members, or nothing at all; the outer option is nothing when a value is
/// not known.
fn build(
    members: &[Member],
    value: &mut dyn FnMut(usize) -> Option<Value>,
) -> Option<Option<Value>> {
    let mut defined = Vec::with_capacity(members.len());
    for member in members {
        let own = match member.path {
            Some(position) => value(position)?,
            None => Value::Undefined,
        };
        if own.is_defined() {
            defined.push((member.name.clone(), own));
        } else if !member.members.is_empty()
            && let Some(below) = build(&member.members, value)?
        {
            defined.push((member.name.clone(), below));
        }
    }
    let any = !defined.is_empty();
    Some(any.then(|| Value::object(Object::from_unique(defined))))
}
