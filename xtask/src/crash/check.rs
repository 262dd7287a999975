//! The look at a restarted server: every partition by point reads, by queries through the index and
//! by the change feed must show what the model says.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use serde_json::{Value, json};

use super::model::{IDS_PER_WRITER, JOURNAL, Journal, KEY_HEADER, Partition, key_header};
use super::{CONTAINER, brief, events};
use crate::Outcome;
use crate::rest::Client;

const PAGE_ITEMS: &str = "500";
/// No walk over pages of this test's small data needs more.
const PAGES_MAX: usize = 10_000;

/// How keys begin that nobody writes to after the start.
pub(crate) const STILL: &str = "still-";

/// Compares the server with the model; the model learns how operations in doubt ended.
pub(crate) fn check(
    client: &Client,
    partitions: &mut [Partition],
    journal: &mut Journal,
) -> Outcome<()> {
    thread::scope(|scope| {
        let running: Vec<_> = partitions
            .iter_mut()
            .map(|partition| scope.spawn(move || check_partition(client, partition)))
            .collect();
        running
            .into_iter()
            .try_for_each(|check| check.join().unwrap_or_else(|_| Err("a check panicked".into())))
    })?;
    check_journal(client, journal)?;
    check_change_feed(client, partitions, journal)
}

fn check_partition(client: &Client, partition: &mut Partition) -> Outcome<()> {
    let mut found = BTreeMap::new();
    for number in 0..IDS_PER_WRITER {
        let id = format!("item-{number}");
        if let Some(item) = read_item(client, &partition.key, &id)? {
            found.insert(id, item);
        }
    }
    partition.compare(&found)?;
    partition.brief.check(client)?;
    // The same items again, now found by scan, by index and by count.
    let all = query(client, &partition.key, "SELECT * FROM c")?;
    let indexed = query(client, &partition.key, "SELECT * FROM c WHERE c.marker >= 0")?;
    for (how, rows) in [("query", all), ("indexed query", indexed)] {
        let shown = by_id(rows);
        if shown != partition.items {
            let (rows, items) = (shown.len(), partition.items.len());
            return Err(format!(
                "{}: the {how} shows {rows} items that differ from the {items} read",
                partition.key
            )
            .into());
        }
    }
    let count = query(client, &partition.key, "SELECT VALUE COUNT(1) FROM c")?;
    if count != [json!(partition.items.len())] {
        let items = partition.items.len();
        return Err(format!("{}: COUNT is {count:?}, items are {items}", partition.key).into());
    }
    Ok(())
}

fn check_journal(client: &Client, journal: &mut Journal) -> Outcome<()> {
    let rows = query(client, JOURNAL, "SELECT VALUE c.id FROM c WHERE c.kind = 'entry'")?;
    let found: BTreeSet<String> =
        rows.iter().filter_map(|row| row.as_str().map(str::to_owned)).collect();
    if found.len() != rows.len() {
        return Err("the journal's query shows an entry twice".into());
    }
    let counter = read_item(client, JOURNAL, "counter")?.ok_or("the journal's counter is gone")?;
    let count = counter["count"].as_u64().ok_or("the journal's counter is no number")?;
    Ok(journal.compare(&found, count)?)
}

/// From the beginning, the feed shows every live item once, in its last state, and nothing else.
fn check_change_feed(client: &Client, partitions: &[Partition], journal: &Journal) -> Outcome<()> {
    let mut shown: BTreeMap<(String, String), Value> = BTreeMap::new();
    let mut position: Option<String> = None;
    for _ in 0..PAGES_MAX {
        let mut headers = vec![("a-im", "Incremental Feed"), ("x-ms-max-item-count", PAGE_ITEMS)];
        if let Some(position) = &position {
            headers.push(("if-none-match", position));
        }
        let answer = client.send("GET", &format!("{CONTAINER}/docs"), &headers, None)?;
        if answer.status == 304 {
            return compare_change_feed(&shown, partitions, journal);
        }
        if answer.status != 200 {
            return Err(
                format!("the change feed answered {}: {}", answer.status, answer.body).into()
            );
        }
        for mut row in rows_of(&answer.body)? {
            row.as_object_mut().map(|row| row.remove("_lsn"));
            let name = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
            let key = (name("pk"), name("id"));
            // These come and go, or are looked at elsewhere.
            let elsewhere = [brief::PREFIX, events::PREFIX, STILL];
            if elsewhere.iter().any(|prefix| key.0.starts_with(prefix)) {
                continue;
            }
            if shown.insert(key, row.clone()).is_some() {
                return Err(format!("the change feed shows {} twice", row["id"]).into());
            }
        }
        position = Some(answer.header("etag").ok_or("a feed page has no etag")?.to_owned());
    }
    Err("the change feed does not end".into())
}

fn compare_change_feed(
    shown: &BTreeMap<(String, String), Value>,
    partitions: &[Partition],
    journal: &Journal,
) -> Outcome<()> {
    let mut expected = 0;
    for partition in partitions {
        for (id, item) in &partition.items {
            expected += 1;
            if shown.get(&(partition.key.clone(), id.clone())) != Some(item) {
                return Err(format!(
                    "the change feed lacks {}/{id} in its last state",
                    partition.key
                )
                .into());
            }
        }
    }
    // The journal's entries were compared by query; here their number is enough, with the counter.
    let (rows, expected) = (shown.len() as u64, expected + journal.len() + 1);
    if rows == expected {
        Ok(())
    } else {
        Err(format!("the change feed shows {rows} items, {expected} are alive").into())
    }
}

/// An item, if it is there.
pub(crate) fn read_item(client: &Client, key: &str, id: &str) -> Outcome<Option<Value>> {
    let key = key_header(key);
    let path = format!("{CONTAINER}/docs/{id}");
    let answer = client.send("GET", &path, &[(KEY_HEADER, &key)], None)?;
    match answer.status {
        200 => Ok(Some(answer.body)),
        404 => Ok(None),
        status => Err(format!("GET {path} answered {status}: {}", answer.body).into()),
    }
}

/// All rows of a query over one logical partition.
pub(crate) fn query(client: &Client, key: &str, text: &str) -> Outcome<Vec<Value>> {
    let key = key_header(key);
    let body = json!({"query": text, "parameters": []});
    let mut rows = Vec::new();
    let mut continuation: Option<String> = None;
    for _ in 0..PAGES_MAX {
        let mut headers = vec![
            (KEY_HEADER, key.as_str()),
            ("x-ms-documentdb-isquery", "True"),
            ("x-ms-max-item-count", PAGE_ITEMS),
        ];
        if let Some(continuation) = &continuation {
            headers.push(("x-ms-continuation", continuation));
        }
        let answer = client.send("POST", &format!("{CONTAINER}/docs"), &headers, Some(&body))?;
        if answer.status != 200 {
            return Err(format!("`{text}` answered {}: {}", answer.status, answer.body).into());
        }
        rows.extend(rows_of(&answer.body)?);
        continuation = answer.header("x-ms-continuation").map(str::to_owned);
        if continuation.is_none() {
            return Ok(rows);
        }
    }
    Err(format!("`{text}` does not end").into())
}

fn rows_of(body: &Value) -> Outcome<Vec<Value>> {
    body["Documents"].as_array().cloned().ok_or_else(|| format!("no rows in {body}").into())
}

fn by_id(rows: Vec<Value>) -> BTreeMap<String, Value> {
    rows.into_iter().map(|row| (row["id"].as_str().unwrap_or_default().to_owned(), row)).collect()
}
