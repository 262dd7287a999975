//! Views of the container that is written to: once a restarted server has caught up, each shows the
//! projection of the source, item by item.
//!
//! One has the writers' changing marker for its key, one the steps of the event writers' lives, so that nearly every write moves an item; one copies
//! everything; one keeps the newest few of each logical partition.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::CONTAINER;
use crate::Outcome;
use crate::rest::Client;

/// Name and key of the views, with what they copy.
const VIEWS: [(&str, &str, &[&str]); 4] = [
    ("by-marker", "/marker", &["id", "pk", "marker", "patches"]),
    ("by-step", "/step", &["id", "pk", "step"]),
    ("copies", "/id", &[]),
    (NEWEST, "/pk", &["id", "pk", "marker"]),
];
/// The view that keeps so many items with the highest markers of each logical partition.
const NEWEST: &str = "newest";
const NEWEST_ITEMS: usize = 5;
/// How long views may take to catch up.
const CAUGHT_UP_WITHIN: Duration = Duration::from_secs(60);
const PAGES_MAX: usize = 10_000;
/// What every item has of its own.
const SYSTEM: [&str; 5] = ["_rid", "_self", "_etag", "_attachments", "_ts"];

/// Creates the views.
pub(crate) fn create(client: &Client) -> Outcome<()> {
    for (name, key, paths) in VIEWS {
        let columns: Vec<String> = paths.iter().map(|path| format!("c.{path}")).collect();
        let columns = if columns.is_empty() { "*".to_owned() } else { columns.join(", ") };
        let body = json!({
            "id": name,
            "partitionKey": {"paths": [key], "kind": "Hash", "version": 2},
            "materializedViewDefinition":
                {"sourceCollectionId": "items", "definition": definition(name, &columns)},
        });
        let extended = [("x-armilla-views", "extended")];
        let answer = client.send("POST", "/dbs/crash/colls", &extended, Some(&body))?;
        if answer.status != 201 {
            return Err(format!("the view {name} was refused: {}", answer.body).into());
        }
    }
    Ok(())
}

fn definition(name: &str, columns: &str) -> String {
    if name == NEWEST {
        return format!(
            "SELECT TOP {NEWEST_ITEMS} {columns} FROM c WHERE IS_DEFINED(c.marker) ORDER BY c.marker DESC"
        );
    }
    format!("SELECT {columns} FROM c")
}

/// Of each logical partition the items with the highest markers.
fn newest(items: Vec<Value>) -> Vec<Value> {
    let mut by_key: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for item in items.into_iter().filter(|item| item["marker"].is_u64()) {
        by_key.entry(item["pk"].to_string()).or_default().push(item);
    }
    let first = |mut items: Vec<Value>| {
        items.sort_by_key(|item| std::cmp::Reverse((item["marker"].as_u64(), ordinal(item))));
        items.truncate(NEWEST_ITEMS);
        items
    };
    by_key.into_values().flat_map(first).collect()
}

/// The number behind the container's in an item's `_rid`: of equal markers the newest item counts.
fn ordinal(item: &Value) -> u64 {
    let rid = item["_rid"].as_str().unwrap_or_default().replace('-', "/");
    let bytes = STANDARD.decode(rid).unwrap_or_default();
    bytes.get(8..16).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// Waits until every view shows its source. Nobody writes meanwhile, but items may expire.
pub(crate) fn check(client: &Client) -> Outcome<()> {
    let deadline = Instant::now() + CAUGHT_UP_WITHIN;
    for (name, _, paths) in VIEWS {
        loop {
            let stored = items(client, CONTAINER)?;
            let stored = if name == NEWEST { newest(stored) } else { stored };
            let expected = expected(stored, paths);
            let shown = shown(items(client, &format!("/dbs/crash/colls/{name}"))?)?;
            let Some(difference) = difference(&expected, &shown) else { break };
            if Instant::now() > deadline {
                return Err(
                    format!("the view {name} does not show its source: {difference}").into()
                );
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
    Ok(())
}

fn difference(
    expected: &BTreeMap<String, Value>,
    shown: &BTreeMap<String, Value>,
) -> Option<String> {
    let wrong = expected.iter().find(|(id, item)| shown.get(*id) != Some(item));
    let extra = shown.keys().find(|id| !expected.contains_key(*id));
    match (wrong, extra) {
        (Some((id, item)), _) => Some(format!("{item} shall be, {:?} is", shown.get(id))),
        (None, Some(id)) => Some(format!("{} is of no item", shown[id])),
        (None, None) => None,
    }
}

/// What a view shall hold, by id.
fn expected(items: Vec<Value>, paths: &[&str]) -> BTreeMap<String, Value> {
    let project = |mut item: Value| {
        let id = item["_rid"].as_str().unwrap_or_default().trim_end_matches('=').to_owned();
        let mut copy = if paths.is_empty() {
            stripped(item)
        } else {
            let copied = paths.iter().map(|path| ((*path).to_owned(), item[*path].take()));
            Value::Object(copied.collect())
        };
        copy["_id"] = copy["id"].take();
        copy["id"] = json!(id);
        (id, copy)
    };
    items.into_iter().map(project).collect()
}

/// What a view holds, by id.
fn shown(items: Vec<Value>) -> Outcome<BTreeMap<String, Value>> {
    let mut shown = BTreeMap::new();
    for item in items {
        let item = stripped(item);
        let id = item["id"].as_str().unwrap_or_default().to_owned();
        if let Some(other) = shown.insert(id, item) {
            // A moved item is in two places for an instant; the caller looks again.
            shown.insert(format!("{} twice", other["id"]), other);
        }
    }
    Ok(shown)
}

fn stripped(mut item: Value) -> Value {
    if let Some(members) = item.as_object_mut() {
        members.retain(|name, _| !SYSTEM.contains(&name.as_str()));
    }
    item
}

/// Every item of a container.
fn items(client: &Client, container: &str) -> Outcome<Vec<Value>> {
    let mut rows = Vec::new();
    let mut continuation: Option<String> = None;
    for _ in 0..PAGES_MAX {
        let mut headers = vec![("x-ms-max-item-count", "1000")];
        headers.extend(continuation.iter().map(|token| ("x-ms-continuation", token.as_str())));
        let answer = client.send("GET", &format!("{container}/docs"), &headers, None)?;
        if answer.status != 200 {
            return Err(format!(
                "GET {container}/docs answered {}: {}",
                answer.status, answer.body
            )
            .into());
        }
        rows.extend(answer.body["Documents"].as_array().cloned().unwrap_or_default());
        continuation = answer.header("x-ms-continuation").map(str::to_owned);
        if continuation.is_none() {
            return Ok(rows);
        }
    }
    Err(format!("the items of {container} do not end").into())
}
