//! Client encryption keys.

use super::{EngineService, databases};
use crate::reply::FeedKind;
use crate::routes::Operation;
use crate::wire::{self, database, encryption_key, page};
use crate::{Call, Reply};
use armilla_engine::catalog::Database;
use armilla_engine::encryption::EncryptionKey;
use armilla_model::value::Object;
use armilla_model::{Error, Result};
use http::StatusCode;
use std::sync::Arc;

pub(super) async fn answer(service: &EngineService, call: &Call<'_>) -> Result<Reply> {
    let kind = FeedKind::EncryptionKeys;
    match call.operation {
        Operation::ListEncryptionKeys { database } => {
            let owner = databases::parent(service, database)?;
            let seal = service.authenticator.seal();
            let reply = page::list(seal, call, kind, &owner.rid_text(), rows(&owner))?;
            Ok(database::owned_by(reply, &owner))
        }
        Operation::QueryEncryptionKeys { database } => {
            let owner = databases::parent(service, database)?;
            let rid = owner.rid_text();
            let reply = databases::query(service, call, kind, &rid, rows(&owner)).await?;
            Ok(database::owned_by(reply, &owner))
        }
        Operation::CreateEncryptionKey { database } => create(service, call, database).await,
        Operation::ReadEncryptionKey { database, key } => {
            let owner = databases::parent(service, database)?;
            let found = owner.encryption_key(key).ok_or_else(Error::not_found)?;
            let shape = encryption_key::shape(&owner, found);
            Ok(database::owned_by(wire::read_reply(call, found.etag, &shape), &owner))
        }
        Operation::ReplaceEncryptionKey { database, key } => {
            replace(service, call, database, key).await
        }
        _ => Err(wire::misrouted(call)),
    }
}

fn rows(database: &Database) -> Vec<(u32, Object)> {
    let row = |found: &Arc<EncryptionKey>| (found.number, encryption_key::shape(database, found));
    database.encryption_keys.values().map(row).collect()
}

async fn create(service: &EngineService, call: &Call<'_>, database: &str) -> Result<Reply> {
    let database = databases::parent(service, database)?;
    let new = encryption_key::read(&wire::object(&call.body)?)?;
    let owner = database.name.clone();
    let created =
        service.blocking(move |account| account.create_encryption_key(&owner, new)).await?;
    Ok(reply(StatusCode::CREATED, &database, &created))
}

async fn replace(
    service: &EngineService,
    call: &Call<'_>,
    database: &str,
    key: &str,
) -> Result<Reply> {
    let database = databases::parent(service, database)?;
    let new = encryption_key::read(&wire::object(&call.body)?)?;
    let (owner, key) = (database.name.clone(), key.to_owned());
    let if_match = call.context.if_match.map(str::to_owned);
    let replaced = service
        .blocking(move |account| {
            account.replace_encryption_key(&owner, &key, new, if_match.as_deref())
        })
        .await?;
    Ok(reply(StatusCode::OK, &database, &replaced))
}

fn reply(status: StatusCode, database: &Database, written: &EncryptionKey) -> Reply {
    let shape = encryption_key::shape(database, written);
    database::owned_by(wire::write_reply(status, written.etag, &shape), database)
}
