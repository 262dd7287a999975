//! Item writes: create, upsert, replace, patch, delete, delete by partition key.
//!
//! Each takes the lock of its logical partition, stages on the connection's task or, where that may
//! take its time, on the pool of writes, and awaits one notification: that the commit is durable and
//! visible.

use super::placement::{self, Place};
use super::transaction::{Queued, begin, commit, finish, queue};
use super::{EngineService, addressed};
use crate::headers::{IndexingDirective, RequestContext};
use crate::limits::INLINE_STAGING_MAX;
use crate::routes::{ContainerPath, ItemPath};
use crate::wire::container::with_quota;
use crate::{Call, Reply};
use armilla_engine::items::patch::Patch;
use armilla_engine::items::{WriteOptions, Written};
use armilla_engine::scripts::{TriggeredVerb, TriggeredWrite};
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
    let container = addressed::container(service, call, path)?;
    let key = key_of_body(service, call, &container).await?;
    write(service, call, container, key, Verb::Create(call.body.clone())).await
}

pub(super) async fn upsert(
    service: &EngineService,
    call: &Call<'_>,
    path: ContainerPath<'_>,
) -> Result<Reply> {
    let container = addressed::container(service, call, path)?;
    let key = key_of_body(service, call, &container).await?;
    write(service, call, container, key, Verb::Upsert(call.body.clone())).await
}

pub(super) async fn replace(
    service: &EngineService,
    call: &Call<'_>,
    path: ItemPath<'_>,
) -> Result<Reply> {
    let container = addressed::container(service, call, path.container)?;
    let key = key_of_body(service, call, &container).await?;
    let id = id_of(&container, &key, path.item)?.into_owned();
    write(service, call, container, key, Verb::Replace(id, call.body.clone())).await
}

pub(super) async fn patch(
    service: &EngineService,
    call: &Call<'_>,
    path: ItemPath<'_>,
) -> Result<Reply> {
    let container = addressed::container(service, call, path.container)?;
    let key = addressed::full_key(call, &container)?;
    let body = call.body.clone();
    let patch = service.staging(body.len(), move || Patch::parse(&body)).await?;
    let id = id_of(&container, &key, path.item)?.into_owned();
    write(service, call, container, key, Verb::Patch(id, patch)).await
}

pub(super) async fn delete(
    service: &EngineService,
    call: &Call<'_>,
    path: ItemPath<'_>,
) -> Result<Reply> {
    let container = addressed::container(service, call, path.container)?;
    let key = addressed::full_key(call, &container)?;
    let id = id_of(&container, &key, path.item)?.into_owned();
    write(service, call, container, key, Verb::Delete(id)).await
}

/// What a write does, with all that it needs on whichever thread it is staged.
enum Verb {
    Create(Bytes),
    Upsert(Bytes),
    Replace(String, Bytes),
    Patch(String, Patch),
    Delete(String),
}

impl Verb {
    fn stage(&self, txn: &mut Txn, options: &WriteOptions) -> Result<Written> {
        match self {
            Self::Create(body) => txn.create_item(body, options),
            Self::Upsert(body) => txn.upsert_item(body, options),
            Self::Replace(id, body) => txn.replace_item(id, body, options),
            Self::Patch(id, patch) => txn.patch_item(id, patch, options),
            Self::Delete(id) => txn.delete_item(id, options),
        }
    }

    /// The same for a write with triggers; patches have none.
    fn triggered(self) -> Result<TriggeredVerb, Self> {
        match self {
            Self::Create(body) => Ok(TriggeredVerb::Create(body)),
            Self::Upsert(body) => Ok(TriggeredVerb::Upsert(body)),
            Self::Replace(id, body) => Ok(TriggeredVerb::Replace(id, body)),
            Self::Delete(id) => Ok(TriggeredVerb::Delete(id)),
            Self::Patch(..) => Err(self),
        }
    }
}

/// The key of a write that may name it in its body only.
async fn key_of_body(
    service: &EngineService,
    call: &Call<'_>,
    container: &Arc<Container>,
) -> Result<PartitionKey> {
    if call.context.partition_key.is_some() {
        return addressed::full_key(call, container);
    }
    let (container, body) = (container.clone(), call.body.clone());
    service.staging(body.len(), move || addressed::key_in_body(&container, &body)).await
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
    let staging = move || txn.delete_partition().map(|cost| (txn, cost));
    let (txn, cost) = service.pools.writes.run(staging).await?;
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
    service: &EngineService,
    call: &Call<'_>,
    container: Arc<Container>,
    key: PartitionKey,
    verb: Verb,
) -> Result<Reply> {
    let verb = match names_triggers(call) {
        false => verb,
        true => match verb.triggered() {
            Ok(verb) => return triggered(call, container, key, verb).await,
            Err(verb) => verb,
        },
    };
    let txn = begin(&container, key).await?;
    match stage(service, txn, verb, write_options(call), call.body.len()).await? {
        Staged::Queued(written, queued) => {
            let committed = finish(queued).await?;
            let reply = written_reply(call, &container, &written).charge(written.charge);
            Ok(addressed::from_commit(reply, &container, committed))
        }
        Staged::Refused(error, txn) => {
            let partition = container.partition_of(txn.epk());
            Ok(addressed::refusal(error, &container, &partition))
        }
    }
}

/// A write that was staged and queued, or refused.
enum Staged {
    Queued(Written, Queued),
    Refused(Error, Box<Txn>),
}

/// Stages a write where it belongs: a large one on the pool, and also a small one that turns out to be
/// about a large item.
async fn stage(
    service: &EngineService,
    mut txn: Txn,
    verb: Verb,
    options: WriteOptions,
    body_bytes: usize,
) -> Result<Staged> {
    let staged = |txn: Txn, outcome| match outcome {
        Ok(written) => Staged::Queued(written, queue(txn)),
        Err(error) => Staged::Refused(error, Box::new(txn)),
    };
    if placement::of_staging(body_bytes) == Place::Here {
        txn.limit_loading(Some(INLINE_STAGING_MAX));
        let outcome = verb.stage(&mut txn, &options);
        if !txn.is_heavy() {
            return Ok(staged(txn, outcome));
        }
        txn.limit_loading(None);
    }
    let work = move || {
        let outcome = verb.stage(&mut txn, &options);
        Ok(staged(txn, outcome))
    };
    service.pools.writes.run(work).await
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
    let outcome = receiver.await.map_err(|_| super::transaction::script_ended())?;
    drop(here);
    let charge = outcome.charge;
    Ok(match outcome.result {
        Ok((written, committed)) => {
            let reply = written_reply(call, &container, &written).charge(charge);
            addressed::from_commit(reply, &container, committed)
        }
        Err(error) => {
            let reply = Reply::error(error).charge(charge);
            addressed::from_partition(reply, &container, &partition, partition.lsn())
        }
    })
}

fn written_reply(call: &Call<'_>, container: &Container, written: &Written) -> Reply {
    let Some(etag) = written.etag else { return Reply::no_content() };
    let status = if written.created { StatusCode::CREATED } else { StatusCode::OK };
    let reply = Reply::json(status, written.text.clone());
    let reply = if call.context.prefer_minimal { reply.minimal() } else { reply };
    with_quota(reply.etag(etag.to_string()), container)
}
