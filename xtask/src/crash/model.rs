//! What must be on disk: for each writer the exact state of its logical partition, with at most one
//! operation in doubt; for the journal the entries that were acknowledged.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::brief::Brief;

/// The header that names the logical partition.
pub(crate) const KEY_HEADER: &str = "x-ms-documentdb-partitionkey";
/// The logical partition shared by all writers.
pub(crate) const JOURNAL: &str = "journal";
/// Each writer works on this many ids, so that replaces and deletes are as common as creates.
pub(crate) const IDS_PER_WRITER: u64 = 24;
/// Properties the server adds; an acknowledged item is compared with them, one in doubt without.
const SYSTEM: [&str; 5] = ["_rid", "_self", "_etag", "_attachments", "_ts"];

/// The value of the partition key header for one key.
pub(crate) fn key_header(key: &str) -> String {
    json!([key]).to_string()
}

/// The item that counts the journal's entries.
pub(crate) fn journal_counter() -> Value {
    json!({"id": "counter", "pk": JOURNAL, "kind": "counter", "count": 0})
}

/// What one operation makes of each item it touches; nothing means deleted.
pub(crate) type Effect = Vec<(String, Option<Value>)>;

/// One writer's logical partition.
pub(crate) struct Partition {
    /// The partition key value.
    pub(crate) key: String,
    /// Live items as the server acknowledged or last showed them, system properties included.
    pub(crate) items: BTreeMap<String, Value>,
    doubt: Option<Effect>,
    acknowledged: u64,
    /// Grows with each operation, so that no two contents are alike.
    pub(crate) marker: u64,
    /// Items that come to an end by themselves, in a partition of their own.
    pub(crate) brief: Brief,
}

impl Partition {
    pub(crate) fn new(number: u64) -> Self {
        Self {
            key: format!("writer-{number}"),
            items: BTreeMap::new(),
            doubt: None,
            acknowledged: 0,
            marker: 0,
            brief: Brief::new(number),
        }
    }

    /// The operation was answered with success; `items` are the contents the server sent back.
    pub(crate) fn acknowledge(&mut self, effect: Effect) {
        self.acknowledged += 1;
        self.apply(effect);
    }

    /// The operation was cut off: it may have happened, whole, or not at all.
    pub(crate) fn doubt(&mut self, effect: Effect) {
        self.doubt = Some(effect);
    }

    pub(crate) fn is_in_doubt(&self) -> bool {
        self.doubt.is_some()
    }

    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Compares what the server shows now, and learns from it how the operation in doubt ended.
    pub(crate) fn compare(&mut self, found: &BTreeMap<String, Value>) -> Result<(), String> {
        let Some(effect) = self.doubt.take() else {
            return same(&self.key, &self.items, found);
        };
        let without = same(&self.key, &self.items, found);
        let Err(as_if_not_done) = without else { return Ok(()) };
        let mut expected = self.items.clone();
        for (id, content) in &effect {
            match (content, found.get(id)) {
                // The server's own properties of an unacknowledged write are not known beforehand.
                (Some(content), Some(shown)) if *content == user_part(shown) => {
                    expected.insert(id.clone(), shown.clone());
                }
                (Some(content), _) => drop(expected.insert(id.clone(), content.clone())),
                (None, _) => drop(expected.remove(id)),
            }
        }
        same(&self.key, &expected, found).map_err(|as_if_done| {
            format!(
                "an interrupted operation is neither absent ({as_if_not_done}) nor whole ({as_if_done})"
            )
        })?;
        self.items = expected;
        Ok(())
    }

    fn apply(&mut self, effect: Effect) {
        for (id, content) in effect {
            match content {
                Some(content) => drop(self.items.insert(id, content)),
                None => drop(self.items.remove(&id)),
            }
        }
    }
}

/// What a writer did to the journal in one round.
#[derive(Default)]
pub(crate) struct JournalReport {
    pub(crate) acknowledged: Vec<String>,
    pub(crate) doubt: Option<String>,
}

/// The shared partition: which entries must be there, and which may.
#[derive(Default)]
pub(crate) struct Journal {
    entries: BTreeSet<String>,
    doubt: BTreeSet<String>,
}

impl Journal {
    pub(crate) fn take_over(&mut self, report: JournalReport) {
        self.entries.extend(report.acknowledged);
        self.doubt.extend(report.doubt);
    }

    pub(crate) fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    pub(crate) fn in_doubt(&self) -> usize {
        self.doubt.len()
    }

    /// Every acknowledged entry is there, none was invented, and the counter agrees.
    pub(crate) fn compare(&mut self, found: &BTreeSet<String>, count: u64) -> Result<(), String> {
        if let Some(lost) = self.entries.difference(found).next() {
            return Err(format!("journal entry {lost} was acknowledged and is gone"));
        }
        let extra = found.difference(&self.entries).find(|id| !self.doubt.contains(*id));
        if let Some(extra) = extra {
            return Err(format!("journal entry {extra} was never written"));
        }
        if count != found.len() as u64 {
            return Err(format!(
                "the journal counts {count} entries and holds {}: a batch was torn",
                found.len()
            ));
        }
        self.entries.clone_from(found);
        self.doubt.clear();
        Ok(())
    }
}

/// An item without the properties the server adds.
pub(crate) fn user_part(item: &Value) -> Value {
    let mut item = item.clone();
    if let Some(object) = item.as_object_mut() {
        object.retain(|name, _| !SYSTEM.contains(&name.as_str()));
    }
    item
}

fn same(
    key: &str,
    expected: &BTreeMap<String, Value>,
    found: &BTreeMap<String, Value>,
) -> Result<(), String> {
    for (id, content) in expected {
        match found.get(id) {
            None => return Err(format!("{key}/{id} is gone")),
            Some(shown) if shown != content => {
                return Err(format!("{key}/{id} is {}, not {}", brief(shown), brief(content)));
            }
            Some(_) => {}
        }
    }
    match found.keys().find(|id| !expected.contains_key(*id)) {
        Some(id) => Err(format!("{key}/{id} should not exist")),
        None => Ok(()),
    }
}

/// Enough of an item to recognise it in a message.
fn brief(item: &Value) -> String {
    const CHARACTERS: usize = 240;
    let mut item = item.clone();
    if let Some(object) = item.as_object_mut() {
        object.remove("filler");
    }
    item.to_string().chars().take(CHARACTERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(marker: u64) -> Value {
        json!({"id": "a", "marker": marker, "_etag": format!("e{marker}")})
    }

    fn shown(items: &[(&str, Value)]) -> BTreeMap<String, Value> {
        items.iter().map(|(id, item)| ((*id).to_owned(), item.clone())).collect()
    }

    #[test]
    fn a_lost_or_changed_item_is_noticed() {
        let mut partition = Partition::new(0);
        partition.acknowledge(vec![("a".into(), Some(item(1)))]);
        assert!(partition.compare(&shown(&[("a", item(1))])).is_ok());
        assert!(partition.compare(&shown(&[("a", item(2))])).is_err());
        assert!(partition.compare(&shown(&[])).is_err());
        assert!(partition.compare(&shown(&[("a", item(1)), ("b", item(1))])).is_err());
    }

    #[test]
    fn an_operation_in_doubt_may_be_whole_or_absent_but_not_torn() {
        let doubtful = || {
            let mut partition = Partition::new(0);
            partition.acknowledge(vec![("a".into(), Some(item(1)))]);
            let new = json!({"id": "x", "marker": 2});
            partition.doubt(vec![("a".into(), None), ("b".into(), Some(new))]);
            partition
        };
        let new = json!({"id": "x", "marker": 2, "_etag": "unknown before"});
        assert!(doubtful().compare(&shown(&[("a", item(1))])).is_ok());
        assert!(doubtful().compare(&shown(&[("b", new.clone())])).is_ok());
        assert!(doubtful().compare(&shown(&[("a", item(1)), ("b", new)])).is_err());
        assert!(doubtful().compare(&shown(&[])).is_err());
    }

    #[test]
    fn journal_and_counter_must_agree() {
        let found = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<BTreeSet<_>>();
        let mut journal = Journal::default();
        journal
            .take_over(JournalReport { acknowledged: vec!["1".into()], doubt: Some("2".into()) });
        assert!(journal.compare(&found(&[]), 0).is_err());
        assert!(journal.compare(&found(&["1", "3"]), 2).is_err());
        assert!(journal.compare(&found(&["1", "2"]), 1).is_err());
        assert!(journal.compare(&found(&["1", "2"]), 2).is_ok());
        assert!(journal.compare(&found(&["1"]), 1).is_err(), "2 has been seen since");
    }
}
