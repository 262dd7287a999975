//! Dry runs: what condition and projection make of an item, or of the last entries. No target is called.

use super::entry::EntryOperation;
use super::members::{Members, refuse};
use super::read::Reading;
use super::selection::Selected;
use super::{Definition, Subscription};
use crate::container::Container;
use crate::limits::SUBSCRIPTION_TRIAL_MAX;
use armilla_model::error::Result;
use armilla_model::value::{Object, Value};
use std::cmp::Reverse;

impl Subscription {
    /// What would be delivered of `{"item": {…}}`, or of the last entries with `{"last": 5}`.
    pub fn try_out(&self, container: &Container, asked: &Value) -> Result<Object> {
        let members = Members::new(asked, "a dry run")?;
        members.only(["item", "last"].iter())?;
        let definition = self.version().definition.clone();
        if let Some(item) = members.get("item") {
            let selected = definition.selection.judge(EntryOperation::Create, Some(item), None);
            let row = shown(None, selected);
            return Ok(Object::of([("entries", Value::array(vec![row]))]));
        }
        if members.get("last").is_none() {
            return refuse("A dry run takes 'item', or 'last' with a number of entries.");
        }
        let count = members.whole("last", (1, SUBSCRIPTION_TRIAL_MAX), 1)?;
        let rows = self.last(container, &definition, count as usize)?;
        Ok(Object::of([("entries", Value::array(rows))]))
    }

    fn last(
        &self,
        container: &Container,
        definition: &Definition,
        count: usize,
    ) -> Result<Vec<Value>> {
        let mut found = Vec::new();
        for partition in container.partitions().iter() {
            let reading = Reading { container, partition, definition, number: self.number };
            for (key, change) in reading.last(count)? {
                let row = shown(Some(key.to_string()), reading.select(&change));
                found.push((change.second, key, row));
            }
        }
        found.sort_by_key(|(second, key, _)| Reverse((*second, *key)));
        Ok(found.into_iter().take(count).map(|(_, _, row)| row).collect())
    }
}

fn shown(key: Option<String>, selected: Result<Selected>) -> Value {
    let mut row = Object::new();
    if let Some(key) = key {
        row.insert("key", key.into());
    }
    row.insert("delivered", matches!(selected, Ok(Selected::As(_))).into());
    match selected {
        Ok(Selected::As(Some(item))) => row.insert("item", item),
        Ok(_) => {}
        Err(error) => row.insert("error", error.to_string().into()),
    }
    Value::object(row)
}
