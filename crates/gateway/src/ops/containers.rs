//! Containers, and the conflicts that a server with one write region never has.

use super::{EngineService, addressed, databases};
use crate::headers::Client;
use crate::reply::{Fact, FeedKind};
use crate::routes::{ContainerPath, Operation};
use crate::wire::{self, container, database, offer, page};
use crate::{Call, Reply};
use armilla_engine::Container;
use armilla_engine::account::NewContainer;
use armilla_engine::catalog::Database;
use armilla_engine::dials::Turned;
use armilla_model::value::{Object, Value};
use armilla_model::{Error, Result};
use http::StatusCode;
use std::sync::Arc;

pub(super) async fn answer(service: &EngineService, call: &Call<'_>) -> Result<Reply> {
    match call.operation {
        Operation::ListContainers { database } => {
            let database = databases::parent(service, database)?;
            let rid = database.rid_text();
            let reply = page::list(
                service.authenticator.seal(),
                call,
                FeedKind::Containers,
                &rid,
                rows(&database),
            )?;
            Ok(database::owned_by(reply, &database))
        }
        Operation::QueryContainers { database } => {
            let database = databases::parent(service, database)?;
            let (kind, rid) = (FeedKind::Containers, database.rid_text());
            let reply = databases::query(service, call, kind, &rid, rows(&database)).await?;
            Ok(database::owned_by(reply, &database))
        }
        Operation::CreateContainer { database } => create(service, call, database).await,
        Operation::ReadContainer(path) => read(service, call, path),
        Operation::ReplaceContainer(path) => replace(service, call, path).await,
        Operation::DeleteContainer(path) => delete(service, call, path).await,
        Operation::ListConflicts(path) => {
            let container = addressed::container(service, call, path)?;
            let reply = page::list(
                service.authenticator.seal(),
                call,
                FeedKind::Conflicts,
                &container.rid_text,
                Vec::new(),
            )?;
            Ok(addressed::owned_by(reply, &container))
        }
        Operation::QueryConflicts(path) => {
            let container = addressed::container(service, call, path)?;
            if call.context.partition_key.is_none() && !call.context.enable_cross_partition {
                return Err(Error::bad_request(
                    "Cross partition query is required but disabled. Set x-ms-documentdb-query-enablecrosspartition to true, or name the partition key.",
                ));
            }
            let (kind, rid) = (FeedKind::Conflicts, &container.rid_text);
            let reply = databases::query(service, call, kind, rid, Vec::new()).await?;
            Ok(addressed::owned_by(reply, &container))
        }
        Operation::ReadConflict { container, .. } | Operation::DeleteConflict { container, .. } => {
            addressed::container(service, call, container)?;
            Err(Error::not_found())
        }
        _ => Err(wire::misrouted(call)),
    }
}

fn rows(database: &Database) -> Vec<(u32, Object)> {
    let row = |found: &Arc<Container>| (found.number, container::shape(found));
    database.containers.values().map(row).collect()
}

/// A container as a resource of its database: plain 404 when only it is missing.
fn find(service: &EngineService, path: ContainerPath<'_>) -> Result<Arc<Container>> {
    let database = databases::parent(service, path.database)?;
    database.container(path.container).cloned().ok_or_else(Error::not_found)
}

/// The protocol's version from which on every container has a partition key.
const PARTITION_KEY_VERSION: &str = "2018-12-31";

/// A definition as it is sent; where an old client leaves out the partition key, with the key that
/// newer clients are told of.
fn with_partition_key(call: &Call<'_>, definition: Value) -> Value {
    let is_old = call.context.api_version.is_some_and(|version| version < PARTITION_KEY_VERSION);
    if !is_old || definition.get("partitionKey").is_some() {
        return definition;
    }
    let key = Value::object(Object::of([
        ("paths", Value::array(vec!["/_partitionKey".into()])),
        ("kind", "Hash".into()),
        ("systemKey", true.into()),
    ]));
    let mut members = definition.as_object().cloned().unwrap_or_default();
    members.insert("partitionKey", key);
    Value::object(members)
}

/// A definition without what only the client's way of writing put into it: `automatic: false` is no wish of
/// somebody who uses the Rust SDK, which cannot leave it out, and the service does not answer it.
fn as_meant(call: &Call<'_>, definition: Value) -> Value {
    if call.context.client != Client::Rust {
        return definition;
    }
    let mut members = definition.as_object().cloned().unwrap_or_default();
    let policy = members.get("indexingPolicy").and_then(Value::as_object).cloned();
    let Some(mut policy) = policy else { return definition };
    policy.remove("automatic");
    members.insert("indexingPolicy", Value::object(policy));
    Value::object(members)
}

async fn create(service: &EngineService, call: &Call<'_>, database: &str) -> Result<Reply> {
    let definition = with_partition_key(call, as_meant(call, wire::object(&call.body)?));
    wire::required(&definition, ["id"])?;
    let throughput = offer::wanted(call.context)?;
    let mut turned = Turned::default();
    for (name, text) in &call.context.dials {
        turned.turn(name, text)?;
    }
    let database = database.to_owned();
    let created = service
        .blocking(move |account| {
            let new = NewContainer { definition: &definition, throughput };
            account.create_container_with(&database, &new, turned)
        })
        .await?;
    let reply = written(StatusCode::CREATED, &created);
    Ok(with_sharing(service, reply, &created))
}

fn read(service: &EngineService, call: &Call<'_>, path: ContainerPath<'_>) -> Result<Reply> {
    let found = find(service, path)?;
    let mut shape = container::shape(&found);
    if call.context.populate_partition_statistics {
        shape.insert("statistics", container::statistics(&found));
    }
    let reply = wire::read_reply(call, found.settings().etag, &shape);
    Ok(with_sharing(service, about(reply, &found), &found))
}

async fn replace(
    service: &EngineService,
    call: &Call<'_>,
    path: ContainerPath<'_>,
) -> Result<Reply> {
    let definition = as_meant(call, wire::object(&call.body)?);
    wire::required(&definition, ["id"])?;
    let found = find(service, path)?;
    let if_match = call.context.if_match.map(str::to_owned);
    let replaced = found.clone();
    service
        .blocking(move |account| {
            account.replace_container(&found, &definition, if_match.as_deref())
        })
        .await?;
    Ok(written(StatusCode::OK, &replaced))
}

async fn delete(
    service: &EngineService,
    call: &Call<'_>,
    path: ContainerPath<'_>,
) -> Result<Reply> {
    let found = find(service, path)?;
    let if_match = call.context.if_match.map(str::to_owned);
    let owner = found.clone();
    service.blocking(move |account| account.delete_container(&found, if_match.as_deref())).await?;
    Ok(owned_by_database(wire::delete_reply(), &owner))
}

fn written(status: StatusCode, written: &Container) -> Reply {
    let etag = written.settings().etag;
    about(wire::write_reply(status, etag, &container::shape(written)), written)
}

/// Adds what every answer about one container carries.
fn about(reply: Reply, found: &Container) -> Reply {
    owned_by_database(container::with_progress(reply, found), found)
}

/// Says that a container draws on its database's throughput, where it does.
fn with_sharing(service: &EngineService, reply: Reply, found: &Container) -> Reply {
    let catalog = service.account.catalog();
    let shares = catalog.offer_of(&found.self_link).is_none()
        && catalog
            .database(&found.settings().database)
            .is_some_and(|database| catalog.offer_of(&database.self_link()).is_some());
    if !shares {
        return reply;
    }
    reply.fact(Fact::ShareThroughput, "True")
}

fn owned_by_database(reply: Reply, found: &Container) -> Reply {
    let rid = armilla_model::rid::encode(&armilla_model::rid::database(found.database));
    reply.owner(format!("dbs/{}", found.settings().database), rid)
}
