//! Stored procedures, triggers and user functions as resources.

use super::addressed::ItemTarget;
use super::{EngineService, addressed, databases, for_each, transaction};
use crate::reply::Fact;
use crate::routes::{ContainerPath, Operation, ScriptPath, WriteMode};
use crate::wire::container::with_quota;
use crate::wire::{self, page, script};
use crate::{Call, Reply};
use armilla_engine::partition::Partition;
use armilla_engine::scripts::{self, Executed, Kind, Procedure, Script};
use armilla_engine::{Container, ItemAddress, Txn};
use armilla_model::value::Object;
use armilla_model::{Error, Result};
use http::StatusCode;
use std::sync::Arc;
use tokio::sync::oneshot;

pub(super) async fn answer(service: &EngineService, call: &Call<'_>) -> Result<Reply> {
    match call.operation {
        Operation::ListScripts { container, kind } => {
            let container = addressed::container(service, call, container)?;
            let kind = script::kind(kind);
            let rows = rows(&container, kind);
            let reply = page::list(
                service.authenticator.seal(),
                call,
                script::feed_kind(kind),
                &container.rid_text,
                rows,
            )?;
            Ok(about(reply, &container))
        }
        Operation::QueryScripts { container, kind } => {
            let container = addressed::container(service, call, container)?;
            let kind = script::kind(kind);
            let (rows, rid) = (rows(&container, kind), &container.rid_text);
            let feed = script::feed_kind(kind);
            let reply = databases::query(service, call, feed, rid, rows).await?;
            Ok(about(reply, &container))
        }
        Operation::CreateScript { container, kind, mode } => {
            create(service, call, container, script::kind(kind), mode).await
        }
        Operation::ReadScript(path) => {
            let container = addressed::container(service, call, path.container)?;
            let found = container.script(script::kind(path.kind), path.script)?;
            let reply = wire::read_reply(call, found.etag, &script::shape(&container, &found));
            Ok(about(with_quota(reply, &container), &container))
        }
        Operation::ReplaceScript(path) => replace(service, call, path).await,
        Operation::DeleteScript(path) => delete(service, call, path).await,
        _ => Err(wire::misrouted(call)),
    }
}

/// Runs a procedure in the logical partition that the request names.
pub(super) async fn execute(
    service: &EngineService,
    call: &Call<'_>,
    target: ItemTarget,
    segment: &str,
) -> Result<Reply> {
    let script = target.container.script(Kind::Procedure, segment)?;
    if call.context.for_each_partition {
        return for_each::execute(service, call, &target.container, script).await;
    }
    if call.context.partition_key.is_none() {
        return Err(Error::PartitionKeyMismatch(
            "PartitionKey value must be supplied for this operation, in the header x-ms-documentdb-partitionkey.".to_owned(),
        ));
    }
    let address = target.address()?.clone();
    let arguments = scripts::arguments(&call.body)?;
    let logging = call.context.script_logging;
    let (executed, partition) = run(Some(service), address, script, arguments, logging).await?;
    let (reply, committed) = match executed.result {
        Ok((body, committed)) => (Reply::ok(body), Some(committed)),
        Err(error) => (Reply::error(error), None),
    };
    let reply = reply.charge(executed.charge);
    let reply = match &executed.log {
        Some(log) => reply.fact(Fact::ScriptLog, crate::wire::diagnostics::script_log(log)),
        None => reply,
    };
    Ok(match committed {
        Some(committed) => target.with_commit(reply, committed),
        None => target.with_position_of(reply, &partition),
    })
}

/// Runs a procedure in one logical partition, and says which physical one that is in. A quick one runs on this thread, if it is one of the service's
/// network threads and nobody else is being answered.
pub(super) async fn run(
    service: Option<&EngineService>,
    address: ItemAddress,
    script: Arc<Script>,
    arguments: String,
    logging: bool,
) -> Result<(Executed, Arc<Partition>)> {
    let container = address.container.clone();
    let txn = transaction::begin(address).await?;
    let partition = container.partition_of(txn.epk());
    let (sender, receiver) = oneshot::channel();
    let here = Arc::new(());
    let procedure = Procedure { script, arguments, logging, client: Arc::downgrade(&here) };
    begin(service, txn, procedure, move |executed| {
        let _ = sender.send(executed);
    });
    let executed = receiver.await.map_err(|_| super::transaction::script_ended())?;
    drop(here);
    Ok((executed, partition))
}

/// Runs a procedure here or hands it to a script's thread.
fn begin(
    service: Option<&EngineService>,
    txn: Txn,
    procedure: Procedure,
    done: impl FnOnce(Executed) + Send + 'static,
) {
    // Beside others nothing is gained: script threads work side by side.
    let alone = service.filter(|service| service.presence.is_alone());
    let quick = alone.filter(|_| scripts::is_quick(txn.container(), &procedure.script));
    // Watched, and one at a time: all network threads but one serve whatever scripts do.
    let watched = quick.and_then(|service| service.lone.begin());
    let Some(watched) = watched else { return txn.execute_procedure(procedure, done) };
    let tried = txn.execute_procedure_here(procedure, done);
    drop(watched);
    if let Err(left) = tried {
        left.txn.execute_procedure(left.procedure, left.done);
    }
}

fn rows(container: &Container, kind: Kind) -> Vec<(u32, Object)> {
    let row = |found: &Arc<Script>| (found.number, script::shape(container, found));
    container.scripts().of(kind).values().map(row).collect()
}

async fn create(
    service: &EngineService,
    call: &Call<'_>,
    path: ContainerPath<'_>,
    kind: Kind,
    mode: WriteMode,
) -> Result<Reply> {
    let container = addressed::container(service, call, path)?;
    let (owner, body) = (container.clone(), wire::object(&call.body)?);
    let upsert = mode == WriteMode::Upsert;
    let (written, created) = service
        .blocking(move |account| account.create_script(&owner, &script::read(kind, &body)?, upsert))
        .await?;
    Ok(reply(wire::status_of_upsert(created), &container, &written))
}

async fn replace(service: &EngineService, call: &Call<'_>, path: ScriptPath<'_>) -> Result<Reply> {
    let container = addressed::container(service, call, path.container)?;
    let (owner, body) = (container.clone(), wire::object(&call.body)?);
    let (kind, segment) = (script::kind(path.kind), path.script.to_owned());
    let if_match = call.context.if_match.map(str::to_owned);
    let replaced = service
        .blocking(move |account| {
            let new = script::read(kind, &body)?;
            account.replace_script(&owner, &segment, &new, if_match.as_deref())
        })
        .await?;
    Ok(reply(StatusCode::OK, &container, &replaced))
}

async fn delete(service: &EngineService, call: &Call<'_>, path: ScriptPath<'_>) -> Result<Reply> {
    let container = addressed::container(service, call, path.container)?;
    let (owner, segment) = (container.clone(), path.script.to_owned());
    let kind = script::kind(path.kind);
    let if_match = call.context.if_match.map(str::to_owned);
    service
        .blocking(move |account| account.delete_script(&owner, kind, &segment, if_match.as_deref()))
        .await?;
    Ok(about(wire::delete_reply(), &container))
}

fn reply(status: StatusCode, container: &Container, written: &Script) -> Reply {
    let shape = script::shape(container, written);
    about(with_quota(wire::write_reply(status, written.etag, &shape), container), container)
}

/// Says which container answered. Scripts are in no partition.
fn about(reply: Reply, container: &Container) -> Reply {
    addressed::from_container(reply, container)
}
