//! Item writes: create, upsert, replace, patch, delete, delete by partition key.
//!
//! Each takes the lock of its logical partition, stages on the connection's task, and awaits one
//! notification: that the commit is durable and visible.

use super::EngineService;
use super::addressed;
use crate::headers::{IndexingDirective, RequestContext};
use crate::routes::{ContainerPath, ItemPath};
use crate::{Call, Reply};
use armilla_engine::items::patch::Patch;
use armilla_engine::items::{WriteOptions, Written};
use armilla_engine::locks::PartitionLock;
use armilla_engine::scripts::{TriggeredVerb, TriggeredWrite};
use armilla_engine::txn::Committed;
use armilla_engine::{Container, Txn};
use armilla_model::charge::RequestCharge;
use armilla_model::partition_key::PartitionKey;
use armilla_model::{Error, Result};
use bytes::Bytes;
use http::StatusCode;
use std::sync::Arc;
use tokio::sync::oneshot;

pub(super) async fn create(
    service: &EngineService,
    call: &Call<'_>,
    path: ContainerPath<'_>,
) -> Result<Reply> {
    put(service, call, path, TriggeredVerb::Create, Txn::create_item).await
}

pub(super) async fn upsert(
    service: &EngineService,
    call: &Call<'_>,
    path: ContainerPath<'_>,
) -> Result<Reply> {
    put(service, call, path, TriggeredVerb::Upsert, Txn::upsert_item).await
}

/// A write that names no item: its body does. `verb` is for triggers, `stage` for the rest.
async fn put(
    service: &EngineService,
    call: &Call<'_>,
    path: ContainerPath<'_>,
    verb: fn(Bytes) -> TriggeredVerb,
    stage: fn(&mut Txn, &[u8], &WriteOptions) -> Result<Written>,
) -> Result<Reply> {
    let container = addressed::container(service, call, path)?;
    let key = addressed::key_of_write(call, &container, &call.body)?;
    if names_triggers(call) {
        return triggered(call, container, key, verb(call.body.clone())).await;
    }
    write(call, container, key, |txn, options| stage(txn, &call.body, options)).await
}

pub(super) async fn replace(
    service: &EngineService,
    call: &Call<'_>,
    path: ItemPath<'_>,
) -> Result<Reply> {
    let container = addressed::container(service, call, path.container)?;
    let key = match call.context.partition_key {
        Some(_) => addressed::full_key(call, &container)?,
        None => addressed::key_of_write(call, &container, &call.body)?,
    };
    let id = id_of(&container, &key, path.item)?;
    if names_triggers(call) {
        let verb = TriggeredVerb::Replace(id.into_owned(), call.body.clone());
        return triggered(call, container, key, verb).await;
    }
    write(call, container, key, |txn, options| txn.replace_item(&id, &call.body, options)).await
}

pub(super) async fn patch(
    service: &EngineService,
    call: &Call<'_>,
    path: ItemPath<'_>,
) -> Result<Reply> {
    let container = addressed::container(service, call, path.container)?;
    let key = addressed::full_key(call, &container)?;
    let patch = Patch::parse(&call.body)?;
    let id = id_of(&container, &key, path.item)?;
    write(call, container, key, |txn, options| txn.patch_item(&id, &patch, options)).await
}

pub(super) async fn delete(
    service: &EngineService,
    call: &Call<'_>,
    path: ItemPath<'_>,
) -> Result<Reply> {
    let container = addressed::container(service, call, path.container)?;
    let key = addressed::full_key(call, &container)?;
    let id = id_of(&container, &key, path.item)?;
    if names_triggers(call) {
        return triggered(call, container, key, TriggeredVerb::Delete(id.into_owned())).await;
    }
    write(call, container, key, |txn, options| txn.delete_item(&id, options)).await
}

pub(super) async fn delete_partition(
    service: &EngineService,
    call: &Call<'_>,
    path: ContainerPath<'_>,
) -> Result<Reply> {
    let container = addressed::container(service, call, path)?;
    let key = addressed::full_key(call, &container)?;
    let mut txn = begin(&container, key).await?;
    let partition = container.partition_of(txn.epk());
    let staged =
        tokio::task::spawn_blocking(move || txn.delete_partition().map(|cost| (txn, cost)));
    let (txn, cost) = staged
        .await
        .map_err(|error| Error::Internal(format!("the work was cut short: {error}")))??;
    let committed = commit(txn).await?;
    // The removals are the container's to pay, not the request's.
    container.charge_background(&partition, cost);
    let reply = Reply::new(StatusCode::OK).charge(RequestCharge::ONE);
    Ok(addressed::from_commit(reply, &container, committed))
}

/// The id that a path segment names: itself, unless it is the rid of an item.
fn id_of<'s>(
    container: &Container,
    key: &PartitionKey,
    segment: &'s str,
) -> Result<std::borrow::Cow<'s, str>> {
    const RID_LENGTH: usize = 24;
    if segment.len() == RID_LENGTH
        && segment.ends_with("==")
        && container.read_item(key, segment)?.is_none()
        && let Some(id) = container.id_of_rid(key, segment)?
    {
        return Ok(id.into());
    }
    Ok(segment.into())
}

/// One write: lock, stage, commit, answer.
async fn write(
    call: &Call<'_>,
    container: Arc<Container>,
    key: PartitionKey,
    stage: impl FnOnce(&mut Txn, &WriteOptions) -> Result<Written>,
) -> Result<Reply> {
    let options = write_options(call);
    let mut txn = begin(&container, key).await?;
    let written = match stage(&mut txn, &options) {
        Ok(written) => written,
        Err(error) => {
            let partition = container.partition_of(txn.epk());
            return Ok(addressed::refusal(error, &container, &partition));
        }
    };
    let committed = commit(txn).await?;
    let reply = written_reply(call, &written).charge(written.charge);
    Ok(addressed::from_commit(reply, &container, committed))
}

fn write_options(call: &Call<'_>) -> WriteOptions {
    WriteOptions {
        if_match: call.context.if_match.map(str::to_owned),
        // On writes this header is redundant at best; clients send it out of habit.
        if_none_match: None,
        exclude_from_index: call.context.indexing_directive == Some(IndexingDirective::Exclude),
    }
}

fn names_triggers(call: &Call<'_>) -> bool {
    call.context.pre_triggers.is_some() || call.context.post_triggers.is_some()
}

/// One write with the triggers it names: all of it runs on the scripts' threads.
async fn triggered(
    call: &Call<'_>,
    container: Arc<Container>,
    key: PartitionKey,
    verb: TriggeredVerb,
) -> Result<Reply> {
    let names = RequestContext::trigger_names;
    let triggers =
        container.triggers(names(call.context.pre_triggers), names(call.context.post_triggers))?;
    let txn = begin(&container, key).await?;
    let partition = container.partition_of(txn.epk());
    let (sender, receiver) = oneshot::channel();
    let here = Arc::new(());
    let (options, client) = (write_options(call), Arc::downgrade(&here));
    txn.write_triggered(TriggeredWrite { verb, options, triggers, client }, move |outcome| {
        let _ = sender.send(outcome);
    });
    let outcome = receiver.await.map_err(|_| Error::Internal("the script broke off".to_owned()))?;
    drop(here);
    let charge = outcome.charge;
    Ok(match outcome.result {
        Ok((written, committed)) => {
            let reply = written_reply(call, &written).charge(charge);
            addressed::from_commit(reply, &container, committed)
        }
        Err(error) => {
            let reply = Reply::error(error).charge(charge);
            addressed::from_partition(reply, &container, &partition, partition.lsn())
        }
    })
}

fn written_reply(call: &Call<'_>, written: &Written) -> Reply {
    let Some(etag) = written.etag else { return Reply::no_content() };
    let status = if written.created { StatusCode::CREATED } else { StatusCode::OK };
    let reply = Reply::json(status, written.text.clone());
    let reply = if call.context.prefer_minimal { reply.minimal() } else { reply };
    reply.etag(&etag.to_string())
}

/// Waits for the lock of a logical partition and opens a transaction under it.
pub(super) async fn begin(container: &Arc<Container>, key: PartitionKey) -> Result<Txn> {
    let settings = container.settings();
    let key = match key.0.is_empty() {
        true => armilla_engine::account::undefined_key(settings.policy.partition_key.levels()),
        false => key,
    };
    settings.policy.partition_key.check_full(&key)?;
    let epk = settings.policy.partition_key.epk(&key);
    let lock = match container.try_lock(&epk) {
        Some(lock) => lock,
        None => wait_for_lock(container, &epk).await?,
    };
    Txn::begin(container.clone(), key, lock)
}

async fn wait_for_lock(
    container: &Container,
    epk: &armilla_model::partition_key::Epk,
) -> Result<PartitionLock> {
    let (sender, receiver) = oneshot::channel();
    container.lock(epk, move |lock| {
        // A client that went away drops the receiver, and the lock with it.
        let _ = sender.send(lock);
    });
    receiver.await.map_err(|_| Error::Internal("the lock was never handed over".to_owned()))
}

/// Commits and waits until the transaction is durable.
pub(super) async fn commit(txn: Txn) -> Result<Committed> {
    let (sender, receiver) = oneshot::channel();
    txn.commit(move |outcome| {
        let _ = sender.send(outcome);
    });
    receiver.await.map_err(|_| Error::Internal("the commit was never answered".to_owned()))?
}
