//! Views: the vectors, the rules of their containers, and random histories in which every
//! view must equal the projection of its source once it has followed.
//!
//! One seed reproduces one history: `ARMILLA_VIEWS_SEED=… ARMILLA_VIEWS_STEPS=… cargo test -p
//! armilla-engine --test views`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]
#![allow(clippy::print_stdout, reason = "a failing test must tell its seed")]

mod histories;
mod rules;
mod slices;
#[path = "../support/mod.rs"]
mod support;
mod vectors;

use armilla_engine::account::NewContainer;
use armilla_engine::views::Followed;
use armilla_engine::views::definition::{Dialect, ViewDefinition};
use armilla_engine::views::project::id_of;
use armilla_engine::{Account, Container};
use armilla_model::partition_key::PartitionKey;
use armilla_model::{Result, Value, ordered, rid};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::{Bench, rows, value};

/// Properties that the server writes.
const SYSTEM: [&str; 5] = ["_rid", "_self", "_etag", "_attachments", "_ts"];

/// A view of `dbs/d/colls/{source}`.
fn create_view(
    account: &Arc<Account>,
    (name, key): (&str, &str),
    source: &str,
    definition: &str,
) -> Result<Arc<Container>> {
    let body = value(&format!(
        r#"{{"id":"{name}","partitionKey":{{"paths":["{key}"],"kind":"Hash","version":2}},
            "materializedViewDefinition":{{"sourceCollectionId":"{source}","definition":"{definition}"}}}}"#
    ));
    account.create_container("d", &NewContainer { definition: &body, throughput: None })
}

/// Follows until every view shows its source.
fn follow(bench: &Bench) {
    let begun = Instant::now();
    while bench.account.follow_views() != Followed::Everything {
        assert!(begun.elapsed() < Duration::from_secs(300), "the views do not come to an end");
    }
}

/// Whether a view holds exactly the projections of its source.
fn check_equal(source: &Arc<Container>, view: &Arc<Container>) {
    check_parts(std::slice::from_ref(source), std::slice::from_ref(view));
}

/// The same of a source and a view that lie in slices.
fn check_parts(sources: &[Arc<Container>], views: &[Arc<Container>]) {
    let view = &views[0];
    let members = view.view().unwrap().members();
    let query = members.get("definition").unwrap().as_str().unwrap();
    let definition = ViewDefinition::parse(query, Dialect::Extended).unwrap();
    let project = |item: Value| {
        let rid = item.get("_rid").unwrap().as_str().unwrap().to_owned();
        let item = definition.project(id_of(&rid), &item)?;
        // What is too long to be a key is in no view that has it for one.
        let key = PartitionKey::of_item(&item, view.key_definition());
        view.key_definition().check_full(&key).is_ok().then_some(item)
    };
    let all = |parts: &[Arc<Container>]| -> Vec<Value> {
        parts.iter().flat_map(|part| rows(part, "SELECT * FROM c", 1000, |_| {})).collect()
    };
    let items = all(sources);
    let items = capped(items, view, &definition);
    let mut expected: Vec<_> = items.into_iter().filter_map(project).map(sorted).collect();
    let mut found: Vec<_> = all(views).into_iter().map(sorted).collect();
    expected.sort();
    found.sort();
    assert_eq!(found, expected, "the view '{}' of {query}", view.settings().name);
    let count: u64 = views.iter().map(|view| view.document_count()).sum();
    assert_eq!(count, expected.len() as u64);
}

/// The items that a capped view shall show: of each key the first few.
fn capped(items: Vec<Value>, view: &Container, definition: &ViewDefinition) -> Vec<Value> {
    let Some(cap) = &definition.cap else { return items };
    let mut by_key: BTreeMap<String, Vec<(Vec<u8>, u64, Value)>> = BTreeMap::new();
    for item in items {
        let rid = item.get("_rid").unwrap().as_str().unwrap();
        let Some(copy) = definition.project(id_of(rid), &item) else { continue };
        let key = PartitionKey::of_item(&copy, view.key_definition());
        if view.key_definition().check_full(&key).is_err() {
            continue;
        }
        let by = cap.by.iter().try_fold(&item, |value, name| value.get(name));
        let term = ordered::term(by.unwrap_or(&Value::Undefined));
        let docno = rid::split_document(&rid::decode(rid).unwrap()).unwrap().1;
        by_key.entry(key.to_header()).or_default().push((term, docno, item));
    }
    let mut first = Vec::new();
    for mut items in by_key.into_values() {
        items.sort_by(|left, right| (&right.0, right.1).cmp(&(&left.0, left.1)));
        first.extend(items.into_iter().take(cap.count).map(|(_, _, item)| item));
    }
    first
}

/// An item as text, without what the server writes, its members in the order of their names.
fn sorted(item: Value) -> String {
    let object = item.as_object().unwrap();
    let mut members: Vec<_> = object
        .iter()
        .filter(|(name, _)| !SYSTEM.contains(&&***name))
        .map(|(name, value)| format!("{name}: {}", value.to_json()))
        .collect();
    members.sort();
    members.join(", ")
}
