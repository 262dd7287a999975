//! Users.

use super::{EngineService, databases};
use crate::reply::FeedKind;
use crate::routes::{Operation, UserPath, WriteMode};
use crate::wire::{self, database, page, user};
use crate::{Call, Reply};
use armilla_engine::catalog::Database;
use armilla_engine::users::User;
use armilla_model::value::Object;
use armilla_model::{Error, Result};
use http::StatusCode;
use std::sync::Arc;

pub(super) async fn answer(service: &EngineService, call: &Call<'_>) -> Result<Reply> {
    match call.operation {
        Operation::ListUsers { database } => {
            let database = databases::parent(service, database)?;
            let rid = database.rid_text();
            let reply = page::list(
                service.authenticator.seal(),
                call,
                FeedKind::Users,
                &rid,
                rows(&database),
            )?;
            Ok(database::owned_by(reply, &database))
        }
        Operation::QueryUsers { database } => {
            let database = databases::parent(service, database)?;
            let (kind, rid) = (FeedKind::Users, database.rid_text());
            let reply = databases::query(service, call, kind, &rid, rows(&database)).await?;
            Ok(database::owned_by(reply, &database))
        }
        Operation::CreateUser { database, mode } => create(service, call, database, mode).await,
        Operation::ReadUser(path) => {
            let database = databases::parent(service, path.database)?;
            let found = find(&database, path)?;
            let reply = wire::read_reply(call, found.etag, &user::shape(&database, &found));
            Ok(database::owned_by(reply, &database))
        }
        Operation::ReplaceUser(path) => replace(service, call, path).await,
        Operation::DeleteUser(path) => delete(service, call, path).await,
        _ => Err(wire::misrouted(call)),
    }
}

fn rows(database: &Database) -> Vec<(u32, Object)> {
    let row = |found: &Arc<User>| (found.number, user::shape(database, found));
    database.users.values().map(row).collect()
}

/// A user of a database.
fn find(database: &Database, path: UserPath<'_>) -> Result<Arc<User>> {
    database.user(path.user).cloned().ok_or_else(Error::not_found)
}

async fn create(
    service: &EngineService,
    call: &Call<'_>,
    database: &str,
    mode: WriteMode,
) -> Result<Reply> {
    let database = databases::parent(service, database)?;
    let body = wire::object(&call.body)?;
    let [name] = wire::required(&body, ["id"])?;
    let (owner, name) = (database.name.clone(), name.to_owned());
    let upsert = mode == WriteMode::Upsert;
    let (written, created) =
        service.blocking(move |account| account.create_user(&owner, &name, upsert)).await?;
    Ok(reply(wire::status_of_upsert(created), &database, &written))
}

async fn replace(service: &EngineService, call: &Call<'_>, path: UserPath<'_>) -> Result<Reply> {
    let database = databases::parent(service, path.database)?;
    let body = wire::object(&call.body)?;
    let [name] = wire::required(&body, ["id"])?;
    let (owner, user, name) = (database.name.clone(), path.user.to_owned(), name.to_owned());
    let if_match = call.context.if_match.map(str::to_owned);
    let replaced = service
        .blocking(move |account| account.replace_user(&owner, &user, &name, if_match.as_deref()))
        .await?;
    Ok(reply(StatusCode::OK, &database, &replaced))
}

async fn delete(service: &EngineService, call: &Call<'_>, path: UserPath<'_>) -> Result<Reply> {
    let database = databases::parent(service, path.database)?;
    let (owner, user) = (database.name.clone(), path.user.to_owned());
    let if_match = call.context.if_match.map(str::to_owned);
    service
        .blocking(move |account| account.delete_user(&owner, &user, if_match.as_deref()))
        .await?;
    Ok(database::owned_by(wire::delete_reply(), &database))
}

fn reply(status: StatusCode, database: &Database, written: &User) -> Reply {
    let reply = wire::write_reply(status, written.etag, &user::shape(database, written));
    database::owned_by(reply, database)
}
