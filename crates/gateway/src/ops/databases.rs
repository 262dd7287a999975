//! Databases.

use super::EngineService;
use crate::reply::FeedKind;
use crate::routes::Operation;
use crate::wire::{self, database, offer, page};
use crate::{Call, Reply};
use armilla_engine::catalog::Database;
use armilla_model::value::{Object, Value};
use armilla_model::{Error, Result};
use http::StatusCode;
use std::sync::Arc;

pub(super) async fn answer(service: &EngineService, call: &Call<'_>) -> Result<Reply> {
    match call.operation {
        Operation::ListDatabases => {
            page::list(service.authenticator.seal(), call, FeedKind::Databases, "", rows(service))
        }
        Operation::QueryDatabases => {
            query(service, call, FeedKind::Databases, "", rows(service)).await
        }
        Operation::CreateDatabase => create(service, call).await,
        Operation::ReadDatabase { database: segment } => {
            let found = service.account.database(segment)?;
            Ok(wire::read_reply(call, found.etag, &database::shape(&found)))
        }
        Operation::DeleteDatabase { database } => delete(service, call, database).await,
        _ => Err(wire::misrouted(call)),
    }
}

fn rows(service: &EngineService) -> Vec<(u32, Object)> {
    let row = |found: &Arc<Database>| (found.number, database::shape(found));
    service.account.catalog().databases.values().map(row).collect()
}

async fn create(service: &EngineService, call: &Call<'_>) -> Result<Reply> {
    let body = wire::object(&call.body)?;
    let [name] = wire::required(&body, ["id"])?;
    let (name, throughput) = (name.to_owned(), offer::wanted(call.context)?);
    let created =
        service.blocking(move |account| account.create_database(&name, throughput)).await?;
    Ok(wire::write_reply(StatusCode::CREATED, created.etag, &database::shape(&created)))
}

async fn delete(service: &EngineService, call: &Call<'_>, segment: &str) -> Result<Reply> {
    let (segment, if_match) = (segment.to_owned(), call.context.if_match.map(str::to_owned));
    service.blocking(move |account| account.delete_database(&segment, if_match.as_deref())).await?;
    Ok(wire::delete_reply())
}

/// The database that something else is in: 404/1003 when it does not exist.
pub(super) fn parent(service: &EngineService, segment: &str) -> Result<Arc<Database>> {
    service.account.database(segment).map_err(|_| Error::parent_not_found())
}

/// Answers a query over a list of resources, with the first of them first.
pub(super) async fn query(
    service: &EngineService,
    call: &Call<'_>,
    kind: FeedKind,
    rid: &str,
    rows: Vec<(u32, Object)>,
) -> Result<Reply> {
    let rows = select(service, call, rows).await?;
    page::query(service.authenticator.seal(), call, kind, rid, &rows)
}

/// The rows that a query over a list of resources selects. The language bounds what it is given,
/// not how long it takes, so it runs where waiting harms nobody.
pub(super) async fn select(
    service: &EngineService,
    call: &Call<'_>,
    mut rows: Vec<(u32, Object)>,
) -> Result<Vec<Value>> {
    let body = call.body.clone();
    rows.sort_by_key(|(number, _)| *number);
    let rows = rows.into_iter().map(|(_, row)| Value::object(row)).collect();
    let select = move || armilla_engine::query::over_list(&wire::query::parse(&body)?, rows);
    service.reading(select).await
}
