//! The live data as the advisor reads it: single items, rows of recorded queries, samples. Nothing is written and
//! nobody is charged.

use crate::kinds::KindRule;
use crate::limits::{ROWS_MAX, SAMPLE_MAX};
use crate::observe::{Asked, Verb, Workload};
use armilla_engine::query::{Limit, PageOptions, Query, Request, Scope};
use armilla_engine::ranges::EpkSpan;
use armilla_engine::{Account, Container, ItemAddress};
use armilla_model::partition_key::{Component, PartitionKey};
use armilla_model::value::{Object, Value};
use armilla_model::{Result, json};
use std::collections::HashSet;
use std::sync::Arc;

/// Items that are looked at to find out how kinds are told apart.
const KIND_SAMPLE: usize = 96;
/// Levels of an item that are looked into for values.
const DEPTH_MAX: usize = 4;

/// A container of the account.
#[derive(Clone)]
pub(crate) struct Live {
    pub(crate) container: Arc<Container>,
}

/// A container by its number.
pub(crate) fn by_number(account: &Account, number: u32) -> Option<Arc<Container>> {
    let catalog = account.catalog();
    let mut all = catalog.databases.values().flat_map(|database| database.containers.values());
    all.find(|container| container.number == number).cloned()
}

/// How the items of a container are told apart.
pub(crate) fn kind_rule(container: &Arc<Container>) -> Option<KindRule> {
    let key: Vec<String> =
        container.key_definition().paths.iter().map(ToString::to_string).collect();
    KindRule::of(&Live::new(container).sample(KIND_SAMPLE), &key)
}

/// The texts and numbers in what a recorded request brings, as of now.
pub(crate) fn values_of(account: &Account, workload: &Workload, asked: &Asked) -> HashSet<String> {
    let mut found = HashSet::new();
    for row in rows_of(account, workload, asked) {
        visit(&row, "", 0, &mut |_, value| {
            if let Some(text) = text_of(value) {
                found.insert(text);
            }
        });
    }
    found
}

/// What a recorded request brings, as of now: items and rows, not what it counts.
pub(crate) fn rows_of(account: &Account, workload: &Workload, asked: &Asked) -> Vec<Value> {
    let Some(shape) = workload.shapes.get(asked.shape) else { return Vec::new() };
    let Ok(container) = account.container(&shape.database, &shape.container) else {
        return Vec::new();
    };
    let live = Live::new(&container);
    match shape.verb {
        Verb::Read => {
            let key = asked.key.as_deref().zip(asked.item.as_deref());
            key.and_then(|(key, id)| live.read(key, id)).into_iter().collect()
        }
        Verb::Query => {
            let request =
                asked.query.as_deref().and_then(|body| Request::parse(body.as_bytes()).ok());
            let rows = request.and_then(|request| live.rows(request, asked.key.as_deref()).ok());
            rows.unwrap_or_default()
        }
        _ => {
            let item = asked.written.as_deref().and_then(|text| json::parse(text.as_bytes()).ok());
            item.into_iter().collect()
        }
    }
}

/// The values that a recorded request asks by: its id, its key, its parameters.
pub(crate) fn used_values(asked: &Asked) -> Vec<String> {
    let mut found: Vec<String> = asked.item.iter().cloned().collect();
    if asked.item.is_none() {
        if let Some(key) = asked.key.as_deref().and_then(|key| PartitionKey::parse(key).ok()) {
            found.extend(key.0.iter().filter_map(|component| text_of(&component.to_value())));
        }
        if let Some(Ok(request)) =
            asked.query.as_deref().map(|body| Request::parse(body.as_bytes()))
        {
            found.extend(request.parameters.iter().filter_map(|(_, value)| text_of(value)));
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// A text or number as text.
pub(crate) fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.to_string()),
        Value::Number(_) => Some(value.to_json()),
        _ => None,
    }
}

/// Visits everything below a value with its path; elements of lists have `[]`.
pub(crate) fn visit(value: &Value, path: &str, depth: usize, look: &mut dyn FnMut(&str, &Value)) {
    if !path.is_empty() {
        look(path, value);
    }
    if depth >= DEPTH_MAX {
        return;
    }
    match value {
        Value::Object(members) => {
            for (name, member) in members.iter().filter(|(name, _)| !is_system(name)) {
                visit(member, &format!("{path}/{name}"), depth + 1, look);
            }
        }
        Value::Array(elements) => {
            for element in elements.iter() {
                visit(element, &format!("{path}/[]"), depth + 1, look);
            }
        }
        _ => {}
    }
}

/// Properties that the server adds.
pub(crate) fn is_system(name: &str) -> bool {
    matches!(name, "_rid" | "_self" | "_etag" | "_attachments" | "_ts" | "_lsn")
}

/// An item as an application wrote it.
pub(crate) fn without_system(item: &Value) -> Value {
    let Some(members) = item.as_object() else { return item.clone() };
    let mut own = Object::new();
    for (name, value) in members.iter().filter(|(name, _)| !is_system(name)) {
        own.insert(name.clone(), value.clone());
    }
    Value::object(own)
}

/// The scope of a query: a key, or everything.
pub(crate) fn scope_of(container: &Container, key: Option<&PartitionKey>) -> Scope {
    let definition = container.key_definition();
    match key {
        Some(key) => {
            let epk = definition.epk(key);
            Scope { span: EpkSpan::of_prefix(&epk), limit: Limit::Key, cross_partition: true }
        }
        None => Scope { span: EpkSpan::all(), limit: Limit::Container, cross_partition: true },
    }
}

impl Live {
    pub(crate) fn new(container: &Arc<Container>) -> Self {
        Self { container: container.clone() }
    }

    /// An item by a key as a header has it.
    pub(crate) fn read(&self, key: &str, id: &str) -> Option<Value> {
        self.read_at(PartitionKey::parse(key).ok()?, id)
    }

    /// An item by its key.
    pub(crate) fn read_at(&self, key: PartitionKey, id: &str) -> Option<Value> {
        let address = ItemAddress::of(&self.container, key).ok()?;
        let item = address.read_item(id).ok().flatten()?;
        json::parse(&item.text).ok()
    }

    /// An item of which only the id is known.
    pub(crate) fn by_id(&self, id: &str) -> Option<Value> {
        let key = &self.container.key_definition().paths;
        if key.len() == 1 {
            let key = PartitionKey(vec![Component::String(id.into())]);
            if let Some(found) = self.read_at(key, id) {
                return Some(found);
            }
        }
        if key.first().is_some_and(|path| path.to_string() == "/id") {
            return None;
        }
        let parameter = (Arc::from("@id"), Value::from(id));
        let request = Request::new("SELECT * FROM c WHERE c.id = @id", vec![parameter]).ok()?;
        self.rows(request, None).ok()?.into_iter().next()
    }

    /// Rows of a query, up to a limit.
    pub(crate) fn rows(&self, request: Request, key: Option<&str>) -> Result<Vec<Value>> {
        let key = key.map(PartitionKey::parse).transpose()?;
        let scope = scope_of(&self.container, key.as_ref());
        let (mut rows, mut continuation) = (Vec::new(), None::<String>);
        loop {
            let query = Query::new(self.container.clone(), request.clone(), &scope)?;
            let options = PageOptions {
                count_max: ROWS_MAX,
                continuation: continuation.as_deref(),
                range_by_range: false,
            };
            let page = query.page(options)?;
            rows.extend(page.rows.iter().filter_map(|row| json::parse(row).ok()));
            continuation = page.continuation;
            if continuation.is_none() || rows.len() >= ROWS_MAX {
                return Ok(rows);
            }
        }
    }

    /// So many items, from every range as many; all of them, if there are no more.
    pub(crate) fn spread(&self, wanted: usize) -> Vec<Value> {
        let partitions = self.container.partitions();
        let share = wanted.div_ceil(partitions.len().max(1));
        let mut found = Vec::new();
        for partition in partitions.iter() {
            let range = &partition.range;
            let span = EpkSpan { min: range.min.clone(), max: range.max.clone() };
            let (mut left, mut next) = (share, None::<String>);
            while left > 0 {
                let count = left.min(ROWS_MAX);
                let Ok(page) = self.container.list_items(&span, next.as_deref(), count) else {
                    break;
                };
                left = left.saturating_sub(page.items.len());
                found.extend(page.items.iter().filter_map(|item| json::parse(&item.text).ok()));
                next = page.continuation;
                if next.is_none() {
                    break;
                }
            }
        }
        found
    }

    /// Items from all over the container.
    pub(crate) fn sample(&self, wanted: usize) -> Vec<Value> {
        let wanted = wanted.min(SAMPLE_MAX);
        let partitions = self.container.partitions();
        let share = wanted.div_ceil(partitions.len().max(1)).max(1);
        let mut found = Vec::new();
        for partition in partitions.iter() {
            let range = &partition.range;
            let span = EpkSpan { min: range.min.clone(), max: range.max.clone() };
            let Ok(page) = self.container.list_items(&span, None, share) else { continue };
            found.extend(page.items.iter().filter_map(|item| json::parse(&item.text).ok()));
        }
        found.truncate(wanted);
        found
    }
}
