//! Items that live for a second or three, one logical partition of them beside each writer's own.
//!
//! When such an item goes is the server's second to choose, so the model knows what may be there and
//! what must not: an item before its end is there as it was acknowledged, one behind its end is gone.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::CONTAINER;
use super::check::{query, read_item};
use super::model::user_part;
use crate::Outcome;
use crate::rest::{Client, unix_seconds};

/// How the keys of these partitions begin.
pub(crate) const PREFIX: &str = "brief-";
/// Few ids, so that items are written again before and after their end.
pub(crate) const IDS: u64 = 6;
/// Seconds, and for ever.
pub(crate) const LIVES: [i64; 5] = [1, 1, 2, 3, -1];
/// Clocks are read in whole seconds, and not at the same moment.
const SLACK_SECONDS: i64 = 1;

/// What is known of one item.
#[derive(Default)]
struct Known {
    /// As it was acknowledged last; nothing when it was deleted or never written.
    last: Option<Value>,
    /// A write that was cut off, and when it was sent: the content, or nothing for a delete.
    doubt: Option<(Option<Value>, i64)>,
}

/// One partition of items that come and go.
pub(crate) struct Brief {
    pub(crate) key: String,
    items: BTreeMap<String, Known>,
    marker: u64,
}

impl Brief {
    pub(crate) fn new(number: u64) -> Self {
        Self { key: format!("{PREFIX}{number}"), items: BTreeMap::new(), marker: 0 }
    }

    /// A new content for an item, with its life.
    pub(crate) fn content(&mut self, id: &str, life: i64) -> Value {
        self.marker += 1;
        json!({"id": id, "pk": self.key, "marker": self.marker, "ttl": life})
    }

    /// True when a delete of it is worth sending.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.items.get(id).is_some_and(|known| known.last.is_some())
    }

    /// A write was acknowledged; nothing is a delete.
    pub(crate) fn acknowledge(&mut self, id: &str, item: Option<Value>) {
        *self.items.entry(id.to_owned()).or_default() = Known { last: item, doubt: None };
    }

    /// A delete found nothing: the item must have come to its end.
    pub(crate) fn acknowledge_absence(&mut self, id: &str) -> Result<(), String> {
        let known = self.items.entry(id.to_owned()).or_default();
        if let Some(item) = known.last.take().filter(|item| !may_be_over(item, unix_seconds())) {
            return Err(format!("{}/{id} is gone before its end: {item}", self.key));
        }
        Ok(())
    }

    /// A write was cut off.
    pub(crate) fn doubt(&mut self, id: &str, content: Option<Value>, sent: i64) {
        self.items.entry(id.to_owned()).or_default().doubt = Some((content, sent));
    }

    /// Compares what the server shows, and learns how writes in doubt ended.
    pub(crate) fn check(&mut self, client: &Client) -> Outcome<()> {
        let rows = query(client, &self.key, "SELECT * FROM c")?;
        for row in &rows {
            let id = row["id"].as_str().unwrap_or_default();
            if !self.items.get(id).is_some_and(|known| known.allows(row)) {
                return Err(format!("{} shows what nobody wrote: {row}", self.key).into());
            }
        }
        for (id, known) in &mut self.items {
            let before = unix_seconds();
            let shown = read_item(client, &self.key, id)?;
            let queried = rows.iter().find(|row| row["id"] == **id);
            known.check(shown.as_ref(), queried, before).map_err(|error| {
                format!("{}/{id}: {error}; it is {shown:?}, known as {:?}", self.key, known.last)
            })?;
            *known = Known { last: shown, doubt: None };
        }
        Ok(())
    }

    /// What is alive at this moment.
    pub(crate) fn alive(&self, client: &Client) -> Outcome<Vec<(String, Value)>> {
        let mut alive = Vec::new();
        for id in self.items.keys() {
            if let Some(item) = read_item(client, &self.key, id)? {
                alive.push((id.clone(), item));
            }
        }
        Ok(alive)
    }
}

impl Known {
    /// True when an item that is shown is one that was written.
    fn allows(&self, shown: &Value) -> bool {
        let doubted = self.doubt.as_ref().and_then(|(content, _)| content.as_ref());
        self.last.as_ref() == Some(shown) || doubted.is_some_and(|known| *known == user_part(shown))
    }

    fn check(
        &self,
        shown: Option<&Value>,
        queried: Option<&Value>,
        before: i64,
    ) -> Result<(), &'static str> {
        let now = unix_seconds();
        match shown {
            Some(item) if !self.allows(item) => Err("nobody wrote this"),
            Some(item) if end_of(item).is_some_and(|end| end + SLACK_SECONDS < before) => {
                Err("its time is over")
            }
            Some(item) if queried.is_some_and(|queried| queried != item) => {
                Err("a query shows another version")
            }
            Some(_) if queried.is_none() => Err("a query does not show it"),
            Some(_) => Ok(()),
            None => {
                let was_over = self.last.as_ref().is_none_or(|item| may_be_over(item, now));
                let by_doubt = self.doubt.as_ref().is_some_and(|(content, sent)| match content {
                    None => true,
                    Some(content) => content["ttl"]
                        .as_i64()
                        .is_some_and(|life| life > 0 && sent + life <= now + SLACK_SECONDS),
                });
                if was_over || by_doubt { Ok(()) } else { Err("it is gone before its end") }
            }
        }
    }
}

/// The second at which an item ends, if it does.
pub(crate) fn end_of(item: &Value) -> Option<i64> {
    let life = item["ttl"].as_i64().filter(|life| *life > 0)?;
    Some(item["_ts"].as_i64()? + life)
}

fn may_be_over(item: &Value, now: i64) -> bool {
    end_of(item).is_some_and(|end| end <= now + SLACK_SECONDS)
}

/// Where an item is written.
pub(crate) fn path_of(id: &str) -> String {
    format!("{CONTAINER}/docs/{id}")
}
