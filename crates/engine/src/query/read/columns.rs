//! Reading what a query needs of an item: from the index where it has all of it, else the item.
//!
//! When every path that a query refers to is indexed, its values are put together from the columns
//! of the index into an item with just those properties. Values that the index holds only in part
//! (long strings, large integers, arrays, objects) send the reader to the item itself.

use crate::query::exec::context::Work;
use crate::query::find::{known_value, path_number};
use crate::query::plan::costs::COVERED_PATHS_MAX;
use crate::query::read::items::{Certainty, Found, Source};
use crate::record::Record;
use armilla_index::{Column, Part, PathIndex};
use armilla_model::error::Result;
use armilla_model::json::Wanted;
use armilla_model::partition_key::PartitionKey;
use armilla_model::value::{Object, Value};
use armilla_sql::access::PathStep;
use std::sync::Arc;

/// An item, or what the query needs of it.
pub(in crate::query) struct Loaded {
    /// The item as it is stored, if it was read.
    pub(in crate::query) record: Option<Record>,
    pub(in crate::query) value: Value,
    /// The item's size, or the mean of its range when it was not read.
    pub(in crate::query) size: usize,
}

/// Reads items for one page.
pub(in crate::query) struct Reader<'s> {
    source: &'s Source<'s>,
    cover: Option<Cover>,
    /// The members of an item that are read; nothing for all of them.
    names: Option<Wanted>,
    /// Per target and part, made when first needed.
    columns: Vec<Vec<Option<PartColumns<'s>>>>,
    mean_sizes: Vec<usize>,
}

/// The properties a query needs, and the numbers of their paths.
pub(in crate::query) struct Cover {
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
type PartColumns<'s> = Option<Vec<PathColumn<'s>>>;

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

impl Cover {
    /// The properties of a query, if the index has all of them.
    pub(in crate::query) fn new(source: &Source<'_>, references: &[Vec<PathStep>]) -> Option<Self> {
        if references.len() > COVERED_PATHS_MAX {
            return None;
        }
        let mut cover = Self { members: Vec::new(), paths: Vec::new() };
        for (position, path) in references.iter().enumerate() {
            let number = path_number(path, source.container, &source.index.policy)?;
            cover.paths.push(number);
            insert(&mut cover.members, path, position)?;
        }
        Some(cover)
    }

    /// The columns of a part.
    pub(in crate::query) fn columns<'s>(
        &self,
        source: &Source<'_>,
        part: &'s Part,
    ) -> PartColumns<'s> {
        if source.is_bare(part) && !self.paths.is_empty() {
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

/// The members that paths begin with; nothing when one is the whole item, or there are too many.
fn names_of(source: &Source<'_>, references: &[Vec<PathStep>]) -> Option<Wanted> {
    if references.len() > COVERED_PATHS_MAX {
        return None;
    }
    let mut names: Vec<Arc<str>> = Vec::with_capacity(references.len());
    let mut add = |name: &str| {
        if names.iter().all(|known| **known != *name) {
            names.push(name.into());
        }
    };
    for path in references {
        match path.first()? {
            PathStep::Name(name) => add(name),
            // An item has no elements.
            PathStep::Element => {}
        }
    }
    // Items that were found by their ids may match by their key.
    if source.has_points() {
        let keys = source.settings.policy.partition_key.paths.iter();
        keys.filter_map(|path| path.0.first()).for_each(|name| add(name));
    }
    Some(Wanted::new(names))
}

impl<'s> Reader<'s> {
    /// A reader of these paths.
    pub(in crate::query) fn new(source: &'s Source<'s>, references: &[Vec<PathStep>]) -> Self {
        let parts = |target: &crate::query::view::Target| target.published.view.parts().len();
        let columns =
            source.targets.iter().map(|target| (0..parts(target)).map(|_| None).collect());
        let mean = |target: &crate::query::view::Target| {
            let documents = target.partition.document_count().max(1);
            usize::try_from(target.partition.size() / documents).unwrap_or(usize::MAX)
        };
        Self {
            cover: if source.is_plain() { Cover::new(source, references) } else { None },
            names: names_of(source, references),
            columns: columns.collect(),
            mean_sizes: source.targets.iter().map(mean).collect(),
            source,
        }
    }

    /// What is read from.
    pub(in crate::query) fn source(&self) -> &'s Source<'s> {
        self.source
    }

    /// What an item of a target costs to read when it is not read.
    pub(in crate::query) fn mean_size(&self, target: usize) -> usize {
        self.mean_sizes.get(target).copied().unwrap_or_default()
    }

    /// True when an item is known to match because it has the right partition key.
    pub(in crate::query) fn has_key(&self, found: &Found<'_>, item: &Value) -> bool {
        let Certainty::ByKey(key) = found.certainty else { return false };
        PartitionKey::of_item(item, &self.source.settings.policy.partition_key) == *key
    }

    /// Reads an item as it is stored.
    pub(in crate::query) fn record(&self, found: &Found<'_>, work: &mut Work) -> Result<Record> {
        self.source.record(found, work)
    }

    /// Reads an item, or what the query needs of it.
    pub(in crate::query) fn load(&mut self, found: &Found<'_>, work: &mut Work) -> Result<Loaded> {
        if let Some(value) = self.covered(found) {
            let size = self.mean_size(found.target);
            return Ok(Loaded { record: None, value, size });
        }
        let record = self.source.record(found, work)?;
        let value = match &self.names {
            Some(names) => record.members(names)?,
            None => crate::txn::parse_stored(&record.text())?,
        };
        let size = record.size();
        Ok(Loaded { record: Some(record), value, size })
    }

    fn covered(&mut self, found: &Found<'_>) -> Option<Value> {
        let cover = self.cover.as_ref()?;
        let (part, local) = found.at?;
        let view: &'s armilla_index::View = &self.source.targets[found.target].published.view;
        let columns = self.columns.get_mut(found.target)?.get_mut(part)?;
        let columns =
            columns.get_or_insert_with(|| cover.columns(self.source, &view.parts()[part]));
        let columns = columns.as_ref()?;
        cover.item(&mut |position| {
            let column = columns.get(position)?;
            column.value(column.ordinal(local))
        })
    }
}
