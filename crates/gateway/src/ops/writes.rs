//! Item writes: create, upsert, replace, patch, delete, delete by partition key.
//!
//! Each takes the lock of its logical partition, stages on the connection's task or, where that may
//! take its time, on the pool of writes, and awaits one notification: that the commit is durable and
//! visible.

use super::EngineService;
use super::addressed::ItemTarget;
use super::placement::{self, Place};
use super::transaction::{Queued, begin, commit, finish, queue, queue_alone};
use crate::headers::{IndexingDirective, RequestContext};
use crate::limits::INLINE_STAGING_MAX;
use crate::wire::{self, container::with_quota};
use crate::{Call, Reply};
use armilla_engine::items::body::UncheckedBody;
use armilla_engine::items::patch::Patch;
use armilla_engine::items::{WriteOptions, Written};
use armilla_engine::scripts::{TriggeredVerb, TriggeredWrite};
use armilla_engine::{Container, ItemAddress, Txn};
use armilla_model::charge::RequestCharge;
use armilla_model::{Error, Result};
use bytes::Bytes;
use http::StatusCode;
use std::sync::Arc;
use tokio::sync::oneshot;

pub(super) async fn create(
    service: &EngineService,
    call: &Call<'_>,
    mut target: ItemTarget,
) -> Result<Reply> {
    let body = ItemBody::of(call, &mut target);
    write(service, call, &target, ItemWrite::Create(body)).await
}

pub(super) async fn upsert(
    service: &EngineService,
    call: &Call<'_>,
    mut target: ItemTarget,
) -> Result<Reply> {
    let body = ItemBody::of(call, &mut target);
    write(service, call, &target, ItemWrite::Upsert(body)).await
}

pub(super) async fn replace(
    service: &EngineService,
    call: &Call<'_>,
    mut target: ItemTarget,
    segment: &str,
) -> Result<Reply> {
    let body = ItemBody::of(call, &mut target);
    let id = id_of(target.address()?, segment)?;
    write(service, call, &target, ItemWrite::Replace(id, body)).await
}

pub(super) async fn patch(
    service: &EngineService,
    call: &Call<'_>,
    target: ItemTarget,
    segment: &str,
) -> Result<Reply> {
    let address = target.address()?;
    let body = call.body.clone();
    let patch = service.staging(body.len(), move || wire::patch::parse(&body)).await?;
    let id = id_of(address, segment)?;
    write(service, call, &target, ItemWrite::Patch(id, patch)).await
}

pub(super) async fn delete(
    service: &EngineService,
    call: &Call<'_>,
    target: ItemTarget,
    segment: &str,
) -> Result<Reply> {
    let id = id_of(target.address()?, segment)?;
    write(service, call, &target, ItemWrite::Delete(id)).await
}

/// What a write does, with all that it needs on whichever thread it is staged.
enum ItemWrite {
    Create(ItemBody),
    Upsert(ItemBody),
    Replace(String, ItemBody),
    Patch(String, Patch),
    Delete(String),
}

/// The body of a write: as it came, or parsed, which is done once.
enum ItemBody {
    Text(Bytes),
    Parsed(Result<UncheckedBody>),
}

impl ItemBody {
    /// The body of a call, parsed where its key had to be found in it.
    fn of(call: &Call<'_>, target: &mut ItemTarget) -> Self {
        match target.take_body() {
            Some(body) => Self::Parsed(Ok(body)),
            None => Self::Text(call.body.clone()),
        }
    }

    fn parse(&mut self) {
        if let Self::Text(text) = self {
            *self = Self::Parsed(UncheckedBody::parse(text));
        }
    }

    fn id(&self) -> Option<&str> {
        match self {
            Self::Parsed(Ok(body)) => body.id(),
            Self::Parsed(Err(_)) | Self::Text(_) => None,
        }
    }

    fn parsed(self) -> Result<UncheckedBody> {
        match self {
            Self::Text(text) => UncheckedBody::parse(&text),
            Self::Parsed(outcome) => outcome,
        }
    }
}

impl ItemWrite {
    fn parse(&mut self) {
        if let Self::Create(body) | Self::Upsert(body) | Self::Replace(_, body) = self {
            body.parse();
        }
    }

    /// The items it is about: one, or two where a replacement gives another id.
    fn ids(&self) -> impl Iterator<Item = &str> {
        let (id, body) = match self {
            Self::Create(body) | Self::Upsert(body) => (None, Some(body)),
            Self::Replace(id, body) => (Some(id), Some(body)),
            Self::Patch(id, _) | Self::Delete(id) => (Some(id), None),
        };
        id.map(String::as_str).into_iter().chain(body.and_then(ItemBody::id))
    }

    fn stage(self, txn: &mut Txn, options: &WriteOptions) -> Result<Written> {
        match self {
            Self::Create(body) => txn.create_parsed(body.parsed()?, options),
            Self::Upsert(body) => txn.upsert_parsed(body.parsed()?, options),
            Self::Replace(id, body) => txn.replace_parsed(&id, body.parsed(), options),
            Self::Patch(id, patch) => txn.patch_item(&id, &patch, options),
            Self::Delete(id) => txn.delete_item(&id, options),
        }
    }

    /// The same for a write with triggers, which take the text; patches have none.
    fn triggered(self, text: &Bytes) -> Result<TriggeredVerb, Self> {
        match self {
            Self::Create(_) => Ok(TriggeredVerb::Create(text.clone())),
            Self::Upsert(_) => Ok(TriggeredVerb::Upsert(text.clone())),
            Self::Replace(id, _) => Ok(TriggeredVerb::Replace(id, text.clone())),
            Self::Delete(id) => Ok(TriggeredVerb::Delete(id)),
            Self::Patch(..) => Err(self),
        }
    }
}

pub(super) async fn delete_partition(service: &EngineService, target: ItemTarget) -> Result<Reply> {
    let address = target.address()?;
    let container = &target.container;
    let mut txn = begin(address.clone()).await?;
    let partition = container.partition_of(txn.epk());
    let staging = move || txn.delete_partition().map(|cost| (txn, cost));
    let (txn, cost) = service.pools.writes.run(staging).await?;
    let committed = commit(txn).await?;
    // The removals are the container's to pay, not the request's.
    container.charge_background(&partition, cost);
    let reply = Reply::new(StatusCode::OK).charge(RequestCharge::ONE);
    Ok(target.with_commit(reply, committed))
}

/// The id that a path segment names: itself, unless it is the rid of an item.
fn id_of(address: &ItemAddress, segment: &str) -> Result<String> {
    const RID_LENGTH: usize = 24;
    if segment.len() == RID_LENGTH
        && segment.ends_with("==")
        && address.read_item(segment)?.is_none()
        && let Some(id) = address.id_of_rid(segment)?
    {
        return Ok(id);
    }
    Ok(segment.to_owned())
}

/// One write: lock, stage, commit, answer.
async fn write(
    service: &EngineService,
    call: &Call<'_>,
    target: &ItemTarget,
    verb: ItemWrite,
) -> Result<Reply> {
    let address = target.address()?.clone();
    let verb = match names_triggers(call) {
        false => verb,
        true => match verb.triggered(&call.body) {
            Ok(verb) => return triggered(call, target, address, verb).await,
            Err(verb) => verb,
        },
    };
    let txn = begin(address).await?;
    match stage(service, txn, verb, write_options(call), call.body.len()).await? {
        Staged::Queued(written, queued) => {
            let committed = finish(queued).await?;
            let reply = written_reply(call, &target.container, written);
            Ok(target.with_commit(reply, committed))
        }
        Staged::Refused(error, txn) => {
            let partition = target.container.partition_of(txn.epk());
            Ok(target.refusal(error, &partition))
        }
    }
}

/// A write that was staged and queued, or refused.
enum Staged {
    Queued(Written, Queued),
    Refused(Error, Box<Txn>),
}

impl Staged {
    fn of(mut txn: Txn, verb: ItemWrite, options: &WriteOptions, is_alone: bool) -> Self {
        match verb.stage(&mut txn, options) {
            Ok(written) if is_alone => Self::Queued(written, queue_alone(txn)),
            Ok(written) => Self::Queued(written, queue(txn)),
            Err(error) => Self::Refused(error, Box::new(txn)),
        }
    }
}

/// Stages a write where it belongs: a large one on the pool, and also a small one that turns out to be
/// about a large item.
async fn stage(
    service: &EngineService,
    mut txn: Txn,
    mut verb: ItemWrite,
    options: WriteOptions,
    body_bytes: usize,
) -> Result<Staged> {
    if placement::of_staging(body_bytes) == Place::Here {
        verb.parse();
        txn.limit_loading(Some(INLINE_STAGING_MAX));
        let is_light = match txn.look_ahead(verb.ids()) {
            Ok(is_light) => is_light,
            Err(error) => return Ok(Staged::Refused(error, Box::new(txn))),
        };
        txn.limit_loading(None);
        if is_light {
            // A network thread waits for the disk only if nobody else is there, and watched; for another machine it never does.
            let is_alone = service.presence.is_alone() && txn.is_lone_at_disk();
            let watched = is_alone.then(|| service.lone.begin()).flatten();
            return Ok(Staged::of(txn, verb, &options, watched.is_some()));
        }
    }
    let is_alone = service.presence.is_alone();
    service.pools.writes.run(move || Ok(Staged::of(txn, verb, &options, is_alone))).await
}

fn write_options(call: &Call<'_>) -> WriteOptions {
    WriteOptions {
        minimal: false,
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
    target: &ItemTarget,
    address: ItemAddress,
    verb: TriggeredVerb,
) -> Result<Reply> {
    let container = &target.container;
    let names = RequestContext::trigger_names;
    let triggers =
        container.triggers(names(call.context.pre_triggers), names(call.context.post_triggers))?;
    let txn = begin(address).await?;
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
            let reply = written_reply(call, container, written).charge(charge);
            target.with_commit(reply, committed)
        }
        Err(error) => target.with_position_of(Reply::error(error).charge(charge), &partition),
    })
}

fn written_reply(call: &Call<'_>, container: &Container, written: Written) -> Reply {
    let Some(etag) = written.etag else { return Reply::no_content().charge(written.charge) };
    let status = if written.created { StatusCode::CREATED } else { StatusCode::OK };
    let reply = Reply::json(status, written.text).charge(written.charge);
    let reply = if call.context.prefer_minimal { reply.minimal() } else { reply };
    with_quota(reply.etag(etag.to_string()).replaced(written.replaced), container)
}
