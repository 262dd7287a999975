//! What a request on items addresses: the container, the partition key, the part of the key space.

use super::EngineService;
use crate::auth::Principal;
use crate::reply::Session;
use crate::routes::ContainerPath;
use crate::{Call, Reply};
use armilla_engine::Container;
use armilla_engine::partition::Partition;
use armilla_engine::ranges::EpkSpan;
use armilla_engine::txn::Committed;
use armilla_model::charge::RequestCharge;
use armilla_model::lsn::Lsn;
use armilla_model::partition_key::{Epk, PartitionKey};
use armilla_model::session_token::SessionToken;
use armilla_model::{Error, Result};
use std::sync::Arc;

/// The container of a request. A client that cached another container of the same name is told.
pub(super) fn container(
    service: &EngineService,
    call: &Call<'_>,
    path: ContainerPath<'_>,
) -> Result<Arc<Container>> {
    let container = service.account.container(path.database, path.container)?;
    if let Some(token) = call.context.session_token {
        SessionToken::check_list(token)?;
    }
    if let Principal::Resource(grant) = call.principal
        && grant.container_rid != *container.rid_text
    {
        // The name has come to mean another container since the token was looked at.
        return Err(Error::Forbidden("The resource token is for another resource.".to_owned()));
    }
    match call.context.intended_container_rid {
        Some(rid) if rid != &*container.rid_text => Err(Error::ContainerRecreated),
        _ => Ok(container),
    }
}

/// The full key that a point operation needs.
pub(super) fn full_key(call: &Call<'_>, container: &Container) -> Result<PartitionKey> {
    let settings = container.settings();
    let levels = settings.policy.partition_key.levels();
    match call.context.key() {
        // `[]` is how clients of migrated containers say "none".
        Some(key) if key.0.is_empty() => Ok(armilla_engine::account::undefined_key(levels)),
        Some(key) => settings.policy.partition_key.check_full(&key).map(|()| key),
        None if settings.policy.has_system_key() => {
            Ok(armilla_engine::account::undefined_key(levels))
        }
        None => Err(Error::bad_request(
            "PartitionKey value must be supplied for this operation, in the header x-ms-documentdb-partitionkey.",
        )),
    }
}

/// The key of a write, taken from the item when the header says nothing.
pub(super) fn key_of_write(
    call: &Call<'_>,
    container: &Container,
    body: &[u8],
) -> Result<PartitionKey> {
    if call.context.partition_key.is_some() {
        return full_key(call, container);
    }
    key_in_body(container, body)
}

/// The key that an item has.
pub(super) fn key_in_body(container: &Container, body: &[u8]) -> Result<PartitionKey> {
    let item = armilla_model::json::parse(body)?;
    Ok(PartitionKey::of_item(&item, &container.settings().policy.partition_key))
}

/// The part of the key space that a feed or query addresses, and the range it was sent to.
pub(super) struct Scope {
    /// The keys.
    pub span: EpkSpan,
    /// The range that the client named.
    pub range: Option<Arc<Partition>>,
    /// True when a key or range limits the request; false when it is for the whole container.
    pub limited: bool,
}

impl Scope {
    /// The effective key, where the request is for the items of one key or prefix: named by the key or by
    /// the bounds around it.
    pub(super) fn one_key(&self) -> Option<&[u8]> {
        let min = &self.span.min;
        let is_one = !min.as_bytes().is_empty() && EpkSpan::of_prefix(min) == self.span;
        is_one.then(|| min.as_bytes())
    }
}

/// Reads the scope from key, range and bounds.
pub(super) fn scope(call: &Call<'_>, container: &Container) -> Result<Scope> {
    let context = &call.context;
    let definition = container.settings().policy.partition_key.clone();
    if let Some(key) = key_of_scope(call, container) {
        if key.0.len() > definition.levels() {
            definition.check_full(&key)?;
        }
        definition.check_lengths(&key)?;
        let span = EpkSpan::of_prefix(&definition.epk(&key));
        return Ok(Scope { span, range: None, limited: true });
    }
    let range = match &context.range_id {
        Some(range) => {
            Some(container.partition(range.id.parse().map_err(|_| Error::PartitionGone)?)?)
        }
        None => None,
    };
    let bounds = match (&context.start_epk, &context.end_epk) {
        (None, None) => None,
        (start, end) => Some(bounds(start.as_deref(), end.as_deref())?),
    };
    let limited = range.is_some() || bounds.is_some();
    let span = match (&range, bounds) {
        (Some(range), Some(bounds)) => range.range.overlap(&bounds).ok_or(Error::PartitionGone)?,
        (Some(range), None) => {
            EpkSpan { min: range.range.min.clone(), max: range.range.max.clone() }
        }
        (None, Some(bounds)) => bounds,
        (None, None) => EpkSpan::all(),
    };
    Ok(Scope { span, range, limited })
}

/// The key that limits a feed or query, if one does. In a container without a partition key, clients name
/// the one key of all items by `[]`.
pub(super) fn key_of_scope(call: &Call<'_>, container: &Container) -> Option<PartitionKey> {
    let key = call.context.key()?;
    if !key.0.is_empty() {
        return Some(key);
    }
    let policy = &container.settings().policy;
    let levels = policy.partition_key.levels();
    policy.has_system_key().then(|| armilla_engine::account::undefined_key(levels))
}

/// The part of the key space between two bounds. A part without keys is refused as such: were it "gone",
/// clients would read the ranges anew and ask again for ever.
fn bounds(start: Option<&[u8]>, end: Option<&[u8]>) -> Result<EpkSpan> {
    let span = EpkSpan {
        min: Epk::from_bytes(start.unwrap_or_default()),
        max: end.filter(|end| *end != [0xff]).map(Epk::from_bytes),
    };
    if span.max.as_ref().is_some_and(|max| *max <= span.min) {
        return Err(Error::bad_request(
            "The key range of x-ms-start-epk and x-ms-end-epk is empty: its end does not lie behind its start.",
        ));
    }
    Ok(span)
}

/// Checks the client's session token against the partition that serves it.
pub(super) fn check_session(
    call: &Call<'_>,
    container: &Container,
    partition: &Partition,
) -> Result<()> {
    match call.context.session_token {
        Some(text) => container.check_session(&SessionToken::parse_list(text)?, partition),
        None => Ok(()),
    }
}

/// Says which container and partition answered, and how far its log was.
pub(super) fn from_partition(
    reply: Reply,
    container: &Container,
    partition: &Partition,
    lsn: Lsn,
) -> Reply {
    at_position(owned_by(reply, container), partition.range.id, lsn)
}

/// Names a range and its position: in the session token, by themselves, and in the LSN headers.
fn at_position(reply: Reply, range: u32, lsn: Lsn) -> Reply {
    reply.position(SessionToken { range, lsn })
}

/// Says which container and partition took a write: the one that was asked at first may have been
/// split meanwhile.
pub(super) fn from_commit(reply: Reply, container: &Container, committed: Committed) -> Reply {
    at_position(owned_by(reply, container), committed.partition, committed.lsn)
}

/// Says which partition answered, or all of them where the request was not limited to one.
pub(super) fn from_scope(reply: Reply, container: &Container, scope: &Scope) -> Reply {
    match container.partitions_in(&scope.span).as_slice() {
        [(partition, _)] => from_partition(reply, container, partition, partition.lsn()),
        _ => owned_by(reply, container).session(Session::Several(container.session_tokens())),
    }
}

/// The same with the position of one range, where it stands for all: Java and .NET cannot read a list
/// of positions in answers that no range id goes with.
pub(super) fn from_one_of(reply: Reply, container: &Container, scope: &Scope) -> Reply {
    match container.partitions_in(&scope.span).as_slice() {
        [(partition, _)] => from_partition(reply, container, partition, partition.lsn()),
        [(first, _), ..] => owned_by(reply, container).session(at(first)),
        [] => owned_by(reply, container),
    }
}

/// Says which container answered, where no partition did. One range's position stands for all, see
/// [`from_one_of`].
pub(super) fn from_container(reply: Reply, container: &Container) -> Reply {
    let reply = owned_by(reply, container);
    match container.partitions().first() {
        Some(first) => reply.session(at(first)),
        None => reply,
    }
}

fn at(partition: &Partition) -> Session {
    Session::One(SessionToken { range: partition.range.id, lsn: partition.lsn() })
}

/// Says which container answered.
pub(super) fn owned_by(reply: Reply, container: &Container) -> Reply {
    reply.owner(container.alt_link(), container.rid_text.clone())
}

/// The answer to a refusal after routing: it carries the partition's position too.
pub(super) fn refusal(error: Error, container: &Container, partition: &Partition) -> Reply {
    let reply = Reply::error(error).charge(RequestCharge::ONE);
    from_partition(reply, container, partition, partition.lsn())
}
