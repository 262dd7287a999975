//! Reader: what a query needs of an item, from the index where it has all of it, else from the item.

use super::{Certainty, Found, Items, Loads};
use crate::query::find::{CoveringColumns, PartColumns};
use crate::query::plan::costs::COVERED_PATHS_MAX;
use crate::record::Record;
use armilla_model::error::Result;
use armilla_model::json::Wanted;
use armilla_model::partition_key::PartitionKey;
use armilla_model::value::Value;
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
    items: &'s Items<'s>,
    cover: Option<CoveringColumns>,
    /// The members of an item that are read; nothing for all of them.
    names: Option<Wanted>,
    /// Per range and part, made when first needed.
    columns: Vec<Vec<Option<PartColumns<'s>>>>,
}

impl<'s> Reader<'s> {
    /// A reader of these paths.
    pub(super) fn new(items: &'s Items<'s>, references: &[Vec<PathStep>]) -> Self {
        let (plan, container) = (items.plan, &items.query.container);
        let cover = match plan.is_plain() {
            true => CoveringColumns::new(references, container, &plan.view.definition.policy),
            false => None,
        };
        Self { cover, names: names_of(items, references), columns: Vec::new(), items }
    }

    /// What is read from.
    pub(in crate::query) fn items(&self) -> &'s Items<'s> {
        self.items
    }

    /// True when an item is known to match because it has the right partition key.
    pub(in crate::query) fn has_key(&self, found: &Found<'_>, item: &Value) -> bool {
        let Certainty::ByKey(key) = found.certainty else { return false };
        PartitionKey::of_item(item, &self.items.query.settings.policy.partition_key) == *key
    }

    /// Reads an item as it is stored.
    pub(in crate::query) fn record(&self, found: &Found<'_>, loads: &mut Loads) -> Result<Record> {
        self.items.record(found, loads)
    }

    /// Reads an item, or what the query needs of it.
    pub(in crate::query) fn load(
        &mut self,
        found: &Found<'_>,
        loads: &mut Loads,
    ) -> Result<Loaded> {
        if let Some(value) = self.covered(found) {
            let size = self.items.plan.view.mean_size(found.target);
            return Ok(Loaded { record: None, value, size });
        }
        let record = self.items.record(found, loads)?;
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
        let view = &self.items.plan.view;
        let parts = view.ranges[found.target].parts();
        if self.columns.len() <= found.target {
            self.columns.resize_with(view.ranges.len(), Vec::new);
        }
        let columns = &mut self.columns[found.target];
        if columns.len() <= part {
            columns.resize_with(parts.len(), || None);
        }
        let columns = columns[part].get_or_insert_with(|| {
            let part = &parts[part];
            cover.columns(part, view.is_bare(part))
        });
        let columns = columns.as_ref()?;
        cover.item(&mut |position| {
            let column = columns.get(position)?;
            column.value(column.ordinal(local))
        })
    }
}

/// The members that paths begin with; nothing when one is the whole item, or there are too many.
fn names_of(items: &Items<'_>, references: &[Vec<PathStep>]) -> Option<Wanted> {
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
    if items.plan.has_points() {
        let keys = items.query.settings.policy.partition_key.paths.iter();
        keys.filter_map(|path| path.0.first()).for_each(|name| add(name));
    }
    Some(Wanted::new(names))
}
