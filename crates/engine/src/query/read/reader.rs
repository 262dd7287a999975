//! Reader: what a query needs of an item, from the index where it has all of it, else from the item.

use super::{Certainty, Found, Items, Loads};
use crate::query::find::{CoveringColumns, PartColumns};
use crate::query::prepare::{Prepared, References, RequiredText};
use crate::record::Record;
use armilla_model::error::Result;
use armilla_model::json::Wanted;
use armilla_model::partition_key::PartitionKey;
use armilla_model::value::{Object, Value};

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
    /// Which paths are read.
    references: fn(&Prepared) -> &References,
    /// Where the columns of the index have all paths; looked up when the first item is wanted.
    cover: Option<Option<CoveringColumns>>,
    /// The members to read of items that were found by their ids: they may match by their key.
    with_key: Option<Option<Wanted>>,
    /// Per range and part, made when first needed.
    columns: Vec<Vec<Option<PartColumns<'s>>>>,
    /// An object without members, made when first needed; each thread counts the uses of its own.
    nothing: Option<Value>,
}

impl<'s> Reader<'s> {
    /// A reader of these paths.
    pub(super) fn new(items: &'s Items<'s>, references: fn(&Prepared) -> &References) -> Self {
        Self { items, references, cover: None, with_key: None, columns: Vec::new(), nothing: None }
    }

    fn references(&self) -> &'s References {
        (self.references)(&self.items.query.prepared)
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
        self.load_unless(found, loads, None)
    }

    /// The same for whoever only wants the rows that meet the condition: an item whose text shows that none does is not parsed, and an
    /// object without members, which does not meet it either, stands for it.
    pub(in crate::query) fn load_to_test(
        &mut self,
        found: &Found<'_>,
        loads: &mut Loads,
    ) -> Result<Loaded> {
        let required = self.items.query.prepared.required();
        self.load_unless(found, loads, required.filter(|_| found.certainty == Certainty::Open))
    }

    fn load_unless(
        &mut self,
        found: &Found<'_>,
        loads: &mut Loads,
        required: Option<&RequiredText>,
    ) -> Result<Loaded> {
        if let Some(value) = self.covered(found) {
            let size = self.items.plan.view.mean_size(found.target);
            return Ok(Loaded { record: None, value, size });
        }
        let record = self.items.record(found, loads)?;
        let value = match required {
            Some(required) if !required.is_in(record.as_text()) => {
                self.nothing.get_or_insert_with(|| Value::object(Object::new())).clone()
            }
            _ => self.value_of(&record)?,
        };
        let size = record.size();
        Ok(Loaded { record: Some(record), value, size })
    }

    fn value_of(&mut self, record: &Record) -> Result<Value> {
        match self.members() {
            Some(members) => record.members(members),
            None => crate::txn::parse_stored(&record.text()),
        }
    }

    /// The members of an item that are read; nothing for all of them.
    fn members(&mut self) -> Option<&Wanted> {
        if !self.items.plan.has_points() {
            return self.references().members();
        }
        let keys = &self.items.query.settings.policy.partition_key.paths;
        let names = keys.iter().filter_map(|path| path.0.first()).map(|name| name.as_str().into());
        let references = self.references();
        self.with_key.get_or_insert_with(|| references.members_and(names)).as_ref()
    }

    fn covered(&mut self, found: &Found<'_>) -> Option<Value> {
        let (plan, container) = (self.items.plan, &self.items.query.container);
        let (find, query) = (self.references, self.items.query);
        let cover = self.cover.get_or_insert_with(|| match plan.is_plain() {
            true => CoveringColumns::new(
                &find(&query.prepared).paths,
                container,
                &plan.view.definition.policy,
            ),
            false => None,
        });
        let cover = cover.as_ref()?;
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
