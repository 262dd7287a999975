//! Item writes: create, upsert, replace, patch, delete, batches, delete by partition key.
//!
//! Each takes the lock of its logical partition, stages on the connection's task, and awaits one
//! notification: that the commit is durable and visible.

use super::EngineService;
use super::addressed;
use crate::headers::{IndexingDirective, RequestContext};
use crate::routes::{ContainerPath, ItemPath};
use crate::{Call, Reply};
use armilla_engine::items::batch::{self, Failure, Outcome};
use armilla_engine::items::patch::Patch;
use armilla_engine::items::{WriteOptions, Written};
use armilla_engine::locks::PartitionLock;
use armilla_engine::partition::Partition;
use armilla_engine::scripts::{TriggeredVerb, TriggeredWrite};
use armilla_engine::txn::Committed;
use armilla_engine::{Container, Txn};
use armilla_model::charge::RequestCharge;
use armilla_model::partition_key::PartitionKey;
use armilla_model::{Error, Result, json};
use http::StatusCode;
use std::sync::Arc;
use tokio::sync::oneshot;

pub(super) async fn create(
    service: &EngineService,
    call: &Call<'_>,
    path: ContainerPath<'_>,
) -> Result<Reply> {
    let container = addressed::container(service, call, path)?;
    let key = addressed::key_of_write(call, &container, &call.body)?;
    if names_triggers(call) {
        return triggered(call, container, key, TriggeredVerb::Create(call.body.clone())).await;
    }
    write(call, container, key, |txn, options| txn.create_item(&call.body, options)).await
}

pub(super) async fn upsert(
    service: &EngineService,
    call: &Call<'_>,
    path: ContainerPath<'_>,
) -> Result<Reply> {
    let container = addressed::container(service, call, path)?;
    let key = addressed::key_of_write(call, &container, &call.body)?;
    if names_triggers(call) {
        return triggered(call, container, key, TriggeredVerb::Upsert(call.body.clone())).await;
    }
    write(call, container, key, |txn, options| txn.upsert_item(&call.body, options)).await
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
    let removed = tokio::task::spawn_blocking(move || txn.delete_partition().map(|_| txn))
        .await
        .map_err(|error| Error::Internal(format!("the work was cut short: {error}")))??;
    let committed = commit(removed).await?;
    let reply = Reply::new(StatusCode::OK).charge(1.0);
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
    {
        if let Some(id) = container.id_of_rid(key, segment)? {
            return Ok(id.into());
        }
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
    let reply = written_reply(call, &written).charge(written.charge.units());
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
    let charge = outcome.charge.units();
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

/// Transactional batches and bulk.
pub(super) async fn batch(
    service: &EngineService,
    call: &Call<'_>,
    path: ContainerPath<'_>,
) -> Result<Reply> {
    /// How the body of a .NET batch begins.
    const HYBRID_ROW: u8 = 0x81;
    if call.body.first() == Some(&HYBRID_ROW) {
        return Err(Error::bad_request(
            "Batches in the HybridRow format are not supported by this server; nothing was written.",
        ));
    }
    let container = addressed::container(service, call, path)?;
    let operations = batch::parse(&call.body)?;
    if call.context.batch_atomic || call.context.range_id.is_none() {
        transaction(call, container, operations).await
    } else {
        bulk(call, container, operations).await
    }
}

async fn transaction(
    call: &Call<'_>,
    container: Arc<Container>,
    operations: Vec<batch::Operation>,
) -> Result<Reply> {
    let key = addressed::full_key(call, &container)?;
    let mut txn = begin(&container, key).await?;
    let partition = container.partition_of(txn.epk());
    let reply = match txn.run_batch(&operations) {
        Ok(outcomes) => {
            let committed = commit(txn).await?;
            let rows = outcomes.iter().map(|outcome| success_row(call, outcome)).collect();
            let charge = outcomes.iter().map(Outcome::charge).sum::<RequestCharge>();
            let reply = batch_reply(StatusCode::OK, rows, charge);
            return Ok(addressed::from_commit(reply, &container, committed));
        }
        Err(failure) => {
            drop(txn);
            failed_transaction(&failure, operations.len())
        }
    };
    let (rows, charge) = reply;
    let reply = batch_reply(StatusCode::MULTI_STATUS, rows, charge);
    Ok(addressed::from_partition(reply, &container, &partition, partition.lsn()))
}

fn failed_transaction(failure: &Failure, count: usize) -> (Vec<Vec<u8>>, RequestCharge) {
    let row = |position: usize| {
        if position == failure.position {
            failure_row(&failure.error)
        } else {
            failure_row(&Error::FailedDependency)
        }
    };
    ((0..count).map(row).collect(), failure.charge)
}

/// Bulk: every operation stands alone, so they run side by side.
async fn bulk(
    call: &Call<'_>,
    container: Arc<Container>,
    operations: Vec<batch::Operation>,
) -> Result<Reply> {
    let range = call.context.range_id.as_ref().and_then(|range| range.id.parse().ok());
    let partition = container.partition(range.ok_or(Error::PartitionGone)?)?;
    let mut rows = Vec::with_capacity(operations.len());
    let (mut charge, mut failed) = (RequestCharge::ZERO, false);
    let mut pending = Vec::with_capacity(operations.len());
    let stops_at_error = !call.context.batch_continue_on_error;
    let mut stopped = false;
    for operation in &operations {
        if stopped {
            pending.push(Err(Error::FailedDependency));
            continue;
        }
        let started = start_bulk(&container, &partition, operation).await;
        stopped = stops_at_error && started.is_err();
        pending.push(started);
    }
    for started in pending {
        match finish_bulk(started).await {
            Ok(outcome) => {
                charge += outcome.charge();
                rows.push(success_row(call, &outcome));
            }
            Err(error) => {
                charge += RequestCharge::ONE;
                failed = true;
                rows.push(failure_row(&error));
            }
        }
    }
    let status = if failed { StatusCode::MULTI_STATUS } else { StatusCode::OK };
    let reply = batch_reply(status, rows, charge);
    Ok(addressed::from_partition(reply, &container, &partition, partition.lsn()))
}

type Started = Result<(Outcome, Option<oneshot::Receiver<Result<Committed>>>)>;

/// Stages one operation and queues its commit without waiting for it, so that a whole bulk request
/// shares a few syncs.
async fn start_bulk(
    container: &Arc<Container>,
    partition: &Partition,
    operation: &batch::Operation,
) -> Started {
    let key = operation.partition_key.clone();
    let key =
        key.ok_or_else(|| Error::bad_request("A bulk operation needs its 'partitionKey'."))?;
    let mut txn = begin(container, key).await?;
    if !partition.range.contains(txn.epk()) {
        return Err(Error::PartitionGone);
    }
    let outcome = txn.run_operation(operation)?;
    if txn.is_clean() {
        return Ok((outcome, None));
    }
    let (sender, receiver) = oneshot::channel();
    txn.commit(move |committed| {
        let _ = sender.send(committed);
    });
    Ok((outcome, Some(receiver)))
}

async fn finish_bulk(started: Started) -> Result<Outcome> {
    let (outcome, receiver) = started?;
    if let Some(receiver) = receiver {
        receiver
            .await
            .map_err(|_| Error::Internal("the commit was never answered".to_owned()))??;
    }
    Ok(outcome)
}

fn success_row(call: &Call<'_>, outcome: &Outcome) -> Vec<u8> {
    let minimal = call.context.prefer_minimal;
    let (status, etag, body) = match outcome {
        Outcome::Written(written) => {
            let status = if written.created { 201 } else { 200 };
            (status, written.etag, (!minimal).then(|| written.text.clone()))
        }
        Outcome::Deleted(_) => (204, None, None),
        Outcome::Read(item) => (200, Some(item.etag), Some(item.text.clone())),
        Outcome::NotModified(item) => (304, Some(item.etag), None),
    };
    let mut row = row_head(status, outcome.charge());
    if let Some(etag) = etag {
        row.extend_from_slice(b",\"eTag\":");
        json::write_string(&etag.to_string(), &mut row);
    }
    if let Some(body) = body {
        row.extend_from_slice(b",\"resourceBody\":");
        row.extend_from_slice(&body);
    }
    row.push(b'}');
    row
}

fn failure_row(error: &Error) -> Vec<u8> {
    let found = crate::error::status_of(error);
    let charge =
        if *error == Error::FailedDependency { RequestCharge::ZERO } else { RequestCharge::ONE };
    let mut row = row_head(found.status.as_u16(), charge);
    if found.substatus != 0 {
        row.extend_from_slice(format!(",\"subStatusCode\":{}", found.substatus).as_bytes());
    }
    if *error != Error::FailedDependency {
        row.extend_from_slice(b",\"message\":");
        json::write_string(error.message(), &mut row);
    }
    row.push(b'}');
    row
}

fn row_head(status: u16, charge: RequestCharge) -> Vec<u8> {
    format!("{{\"statusCode\":{status},\"requestCharge\":{charge}").into_bytes()
}

fn batch_reply(status: StatusCode, rows: Vec<Vec<u8>>, charge: RequestCharge) -> Reply {
    let mut body = Vec::with_capacity(rows.iter().map(|row| row.len() + 1).sum::<usize>() + 2);
    body.push(b'[');
    for (position, row) in rows.iter().enumerate() {
        if position > 0 {
            body.push(b',');
        }
        body.extend_from_slice(row);
    }
    body.push(b']');
    Reply::json(status, body).charge(charge.units())
}
