//! From a source item to the item of a view.
//!
//! | property | value |
//! |---|---|
//! | `id` | the source item's `_rid` without padding: unique, and the same for the item's life |
//! | `_id` | the source item's `id`, with `SELECT *` or where `id` is listed |
//! | a listed path | its value under its last name; null where the source has none |
//!
//! `_rid`, `_etag`, `_ts` and `_self` are the view's own and are written with the item.

use super::definition::{Columns, ViewDefinition};
use armilla_model::value::{Object, Value};
use armilla_sql::Schema;
use armilla_sql::eval::matches_item;
use armilla_sql::reference::{Options, with_runtime};
use std::sync::Arc;

/// What the source item's `id` is called in the view.
pub const SOURCE_ITEM_ID: &str = "_id";
/// Properties of the source that the view has of its own.
const SYSTEM: [&str; 5] = ["_rid", "_self", "_etag", "_attachments", "_ts"];

/// The id of a view's item, given the `_rid` of its source item.
pub fn id_of(source_rid: &str) -> &str {
    source_rid.trim_end_matches('=')
}

impl ViewDefinition {
    /// The item of the view, or nothing where the definition leaves the source item out.
    pub fn project(&self, id: &str, source: &Value) -> Option<Value> {
        if !self.takes(source) {
            return None;
        }
        // Names of an item and of columns are unique, and there may be many.
        let mut members: Vec<(Arc<str>, Value)> = vec![("id".into(), id.into())];
        match &self.columns {
            Columns::All => {
                for (name, value) in source.as_object().into_iter().flat_map(Object::iter) {
                    if &**name == "id" {
                        members.push((SOURCE_ITEM_ID.into(), value.clone()));
                    } else if !SYSTEM.contains(&&**name) && &**name != SOURCE_ITEM_ID {
                        members.push((name.clone(), value.clone()));
                    }
                }
            }
            Columns::Listed(columns) => {
                let copied = columns.iter().map(|one| (one.name.clone(), find(source, &one.steps)));
                members.extend(copied);
            }
        }
        Some(Value::object(Object::from_unique(members)))
    }

    /// Whether an item meets the condition. One on which it fails does not.
    fn takes(&self, source: &Value) -> bool {
        let Some(filter) = &self.filter else { return true };
        let schema = Schema::none();
        let met = with_runtime(Options::bounded(&schema), |runtime| {
            matches_item(filter, source, runtime)
        });
        met.unwrap_or(false)
    }
}

fn find(source: &Value, steps: &[Arc<str>]) -> Value {
    let found = steps.iter().try_fold(source, |value, name| value.get(name));
    found.filter(|value| value.is_defined()).cloned().unwrap_or(Value::Null)
}
