//! Containers, scripts and items of a model onto a server, with a progress bar.

use super::data::Data;
use super::model::Container;
use crate::bulk::{Item, Loader};
use crate::client::Client;
use crate::client::items::{ContainerName, OnConflict};
use crate::progress;
use armilla_model::partition_key::{Component, Definition, Hashing, PartitionKey};
use armilla_model::path::Path;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Items handed over at once between the maker and the loader.
const HANDED_OVER: usize = 500;
/// Such bundles that may wait.
const BUNDLES_MAX: usize = 8;
/// How often a view is asked whether it is built.
const BUILD_LOOK_EVERY: Duration = Duration::from_millis(50);
/// Throughput that gives a container one range.
const RANGE_THROUGHPUT: u32 = 10_000;

/// What was loaded, and how long it took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) items: u64,
    pub(crate) bytes: u64,
    pub(crate) took: Duration,
    pub(crate) charge: f64,
}

/// Makes the database new and fills it.
pub(crate) async fn load(client: &Client, database: &str, data: &Data) -> Result<Loaded, String> {
    let started = Instant::now();
    client.delete_database(database).await?;
    client.ensure_database(database).await?;
    let mut total = 0;
    let (views, filled): (Vec<_>, Vec<_>) =
        data.model.containers.iter().partition(|container| container.view.is_some());
    for container in &filled {
        total += data.items(container)?;
        create(client, database, container).await?;
    }
    let bar = progress::items(total, "loading");
    let mut loaded = Loaded::default();
    for container in &filled {
        bar.set_message(format!("loading {}", container.name));
        let (items, bytes, charge) = fill(client, database, data, container, &bar).await?;
        loaded.items += items;
        loaded.bytes += bytes;
        loaded.charge += charge;
    }
    // Behind the items: a new view says when it shows all that its source held then.
    for view in &views {
        bar.set_message(format!("building {}", view.name));
        create(client, database, view).await?;
        built(client, database, view).await?;
    }
    bar.finish_and_clear();
    loaded.took = started.elapsed();
    Ok(loaded)
}

async fn create(client: &Client, database: &str, container: &Container) -> Result<(), String> {
    let mut definition = json!({
        "id": container.name,
        "partitionKey": { "paths": [container.key], "kind": "Hash", "version": 2 },
    });
    if let Some(policy) = &container.indexing {
        definition["indexingPolicy"] = policy.clone();
    }
    if let Some(view) = &container.view {
        definition["materializedViewDefinition"] =
            json!({ "sourceCollectionId": view.of, "definition": view.definition });
    }
    let throughput = container.ranges.map(|ranges| ranges.max(1) * RANGE_THROUGHPUT);
    client.create_container(database, &definition, throughput).await?.success()?;
    let name = ContainerName::new(database, &container.name);
    for (procedure, code) in &container.procedures {
        client.put_procedure(name, procedure, code).await?;
    }
    for (trigger, code) in &container.post_triggers {
        client.put_post_trigger(name, trigger, code).await?;
    }
    Ok(())
}

/// Waits until a new view shows everything.
async fn built(client: &Client, database: &str, view: &Container) -> Result<(), String> {
    let name = ContainerName::new(database, &view.name);
    loop {
        let definition = client.read_container(name).await?.json()?;
        if definition["materializedViewDefinition"]["status"] == "Active" {
            return Ok(());
        }
        tokio::time::sleep(BUILD_LOOK_EVERY).await;
    }
}

async fn fill(
    client: &Client,
    database: &str,
    data: &Data,
    container: &Container,
    bar: &indicatif::ProgressBar,
) -> Result<(u64, u64, f64), String> {
    let name = ContainerName::new(database, &container.name);
    let path = Path::parse(&container.key).map_err(|error| error.message().to_owned())?;
    let definition = Definition { paths: vec![path], hashing: Hashing::V2 };
    let mut loader = Loader::new(client, name, definition, OnConflict::Refuse).await?;
    let (sender, mut receiver) = mpsc::channel(BUNDLES_MAX);
    let maker = {
        let (data, container) = (data.clone(), container.clone());
        tokio::task::spawn_blocking(move || make(&data, &container, &sender))
    };
    let mut shown = 0;
    while let Some(bundle) = receiver.recv().await {
        let bundle: Vec<Item> = bundle;
        for item in bundle {
            loader.add(item).await?;
        }
        let stored = loader.progress().stored;
        bar.inc(stored - shown);
        shown = stored;
    }
    maker.await.map_err(|error| error.to_string())??;
    loader.finish().await?;
    let done = loader.progress();
    bar.inc(done.stored - shown);
    match done.rejections.first() {
        Some(refused) => Err(format!(
            "{} of the items of '{}' were refused; item {}: {} {}",
            done.refused, container.name, refused.line, refused.status, refused.message
        )),
        None => Ok((done.stored, done.bytes, done.charge)),
    }
}

fn make(
    data: &Data,
    container: &Container,
    sender: &mpsc::Sender<Vec<Item>>,
) -> Result<(), String> {
    let gone = "the load ended early";
    let property = &container.key[1..];
    let mut bundle = Vec::with_capacity(HANDED_OVER);
    let mut line = 0;
    data.make(container, &mut |item| {
        line += 1;
        let key = PartitionKey(vec![component(item.get(property))]);
        bundle.push(Item { line, key, body: item.to_string().into_bytes() });
        if bundle.len() == HANDED_OVER {
            let full = std::mem::replace(&mut bundle, Vec::with_capacity(HANDED_OVER));
            sender.blocking_send(full).map_err(|_| gone.to_owned())?;
        }
        Ok(())
    })?;
    sender.blocking_send(bundle).map_err(|_| gone.to_owned())
}

fn component(value: Option<&Value>) -> Component {
    match value {
        Some(Value::Null) => Component::Null,
        Some(Value::Bool(bool)) => Component::Bool(*bool),
        Some(Value::Number(number)) => Component::Number(number.as_f64().unwrap_or(0.0)),
        Some(Value::String(text)) => Component::String(text.as_str().into()),
        _ => Component::Undefined,
    }
}
