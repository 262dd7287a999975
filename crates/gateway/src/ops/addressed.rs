//! What a request on items addresses: the container, the partition key or the part of the key space.
//!
//! A [`ItemTarget`] is found once, before the request is let in; throughput is asked of its partitions and the
//! operation works on it. Nothing behind this looks up the container, checks or hashes the key, or reads
//! the session token again.

use super::EngineService;
use super::batch::is_bulk;
use crate::auth::Principal;
use crate::reply::Session;
use crate::routes::{ContainerPath, Operation};
use crate::{Call, Reply};
use armilla_engine::ContainerSettings as Settings;
use armilla_engine::items::body::UncheckedBody;
use armilla_engine::partition::Partition;
use armilla_engine::ranges::EpkSpan;
use armilla_engine::txn::Committed;
use armilla_engine::{Container, ItemAddress};
use armilla_model::charge::RequestCharge;
use armilla_model::partition_key::{Epk, PartitionKey};
use armilla_model::session_token::SessionToken;
use armilla_model::{Error, Result};
use std::sync::Arc;

/// What a request on items addresses.
pub(super) struct ItemTarget {
    /// The container.
    pub(super) container: Arc<Container>,
    /// Its settings when the request came.
    pub(super) settings: Arc<Settings>,
    /// What the client has seen.
    session: Vec<SessionToken>,
    /// How far it reaches, or why that cannot be said: told when the operation asks for it.
    reach: Result<TargetReach>,
    /// The body of a write, where it was parsed to find the key in it.
    body: Option<UncheckedBody>,
}

/// How far a request reaches into its container.
enum TargetReach {
    /// Its items are not asked for by their keys.
    Container,
    /// The items of one partition key.
    Key(ItemAddress),
    /// The items of the key that the body of a write names, which is not read yet.
    KeyInBody,
    /// The items of a part of the key space.
    Span(Scope),
}

/// The part of the key space that a feed or query addresses, and the range it was sent to.
pub(super) struct Scope {
    /// The keys.
    pub span: EpkSpan,
    /// The range that the client named.
    pub range: Option<Arc<Partition>>,
    /// The ranges that the keys are in.
    pub partitions: Vec<Arc<Partition>>,
    /// True when a key or range limits the request; false when it is for the whole container.
    pub limited: bool,
    /// True when it is limited by a key.
    pub has_key: bool,
}

/// The container of a request, and the session that the client is in. A client that cached another
/// container of the same name is told.
fn find(
    service: &EngineService,
    call: &Call<'_>,
    path: ContainerPath<'_>,
) -> Result<(Arc<Container>, Vec<SessionToken>)> {
    let container = service.account.container(path.database, path.container)?;
    let session = match call.context.session_token {
        Some(list) => SessionToken::parse_list(list)?,
        None => Vec::new(),
    };
    if let Principal::Resource(grant) = call.principal
        && grant.container_rid != *container.rid_text
    {
        // The name has come to mean another container since the token was looked at.
        return Err(Error::Forbidden("The resource token is for another resource.".to_owned()));
    }
    match call.context.intended_container_rid {
        Some(rid) if rid != &*container.rid_text => Err(Error::ContainerRecreated),
        _ => Ok((container, session)),
    }
}

/// The container of a request that is not about items.
pub(super) fn container(
    service: &EngineService,
    call: &Call<'_>,
    path: ContainerPath<'_>,
) -> Result<Arc<Container>> {
    find(service, call, path).map(|(container, _)| container)
}

impl ItemTarget {
    /// Finds what a request on items addresses; nothing where it is about something else.
    pub(super) fn find(service: &EngineService, call: &Call<'_>) -> Option<Result<Self>> {
        let path = call.operation.items_of()?;
        Some(find(service, call, path).map(|(container, session)| {
            let settings = container.settings();
            let reach = reach(call, &container, &settings);
            Self { container, settings, session, reach, body: None }
        }))
    }

    /// True when the key has to be found in the body: [`read_body`](Self::read_body) does it.
    pub(super) fn is_in_body(&self) -> bool {
        matches!(self.reach, Ok(TargetReach::KeyInBody))
    }

    /// Parses the body of a write, which is the only one to name the key.
    pub(super) async fn read_body(&mut self, service: &EngineService, call: &Call<'_>) {
        let text = call.body.clone();
        let parsed = service.staging(text.len(), move || Ok(UncheckedBody::read(&text)?)).await;
        self.reach = parsed.and_then(|body| {
            let key = PartitionKey::of_item(body.value(), self.container.key_definition());
            self.body = Some(body);
            ItemAddress::new(self.container.clone(), self.settings.clone(), key)
                .map(TargetReach::Key)
        });
    }

    /// The body, where it was parsed already.
    pub(super) fn take_body(&mut self) -> Option<UncheckedBody> {
        self.body.take()
    }

    /// The address of the one partition key that a point operation needs.
    pub(super) fn address(&self) -> Result<&ItemAddress> {
        match &self.reach {
            Ok(TargetReach::Key(address)) => Ok(address),
            Ok(_) => Err(key_is_missing()),
            Err(error) => Err(error.clone()),
        }
    }

    /// The part of the key space that a feed or query needs.
    pub(super) fn scope(&self) -> Result<&Scope> {
        match &self.reach {
            Ok(TargetReach::Span(scope)) => Ok(scope),
            Ok(_) => Err(Error::Internal("a feed has no part of the key space".to_owned())),
            Err(error) => Err(error.clone()),
        }
    }

    /// The partitions that are addressed; none where that cannot be said.
    pub(super) fn partitions(&self) -> &[Arc<Partition>] {
        match &self.reach {
            Ok(TargetReach::Key(address)) => std::slice::from_ref(&address.partition),
            Ok(TargetReach::Span(scope)) => &scope.partitions,
            Ok(TargetReach::Container | TargetReach::KeyInBody) | Err(_) => &[],
        }
    }

    /// The refusal of a client that has seen a later state of a partition than this server has.
    pub(super) fn session_refusal(&self) -> Option<Reply> {
        self.partitions().iter().find_map(|partition| {
            let error = self.container.check_session(&self.session, partition).err()?;
            Some(self.refusal(error, partition))
        })
    }

    /// Says which container answered.
    pub(super) fn with_owner(&self, reply: Reply) -> Reply {
        reply.owner(self.settings.alt_link.clone(), self.container.rid_text.clone())
    }

    /// Says which container and partition answered, and how far its log is.
    pub(super) fn with_position_of(&self, reply: Reply, partition: &Partition) -> Reply {
        self.with_owner(reply).position(position_of(partition))
    }

    /// Says which container and partition took a write: the one that was asked at first may have been
    /// split meanwhile.
    pub(super) fn with_commit(&self, reply: Reply, committed: Committed) -> Reply {
        let Committed { partition: range, lsn, wrote } = committed;
        self.with_owner(reply).position(SessionToken { range, lsn }).wrote(wrote)
    }

    /// The answer to a refusal after routing: it carries the partition's position too.
    pub(super) fn refusal(&self, error: Error, partition: &Partition) -> Reply {
        self.with_position_of(Reply::error(error).charge(RequestCharge::ONE), partition)
    }

    /// Says which partition answered, or all of them where several did.
    pub(super) fn with_positions(&self, reply: Reply) -> Reply {
        match self.partitions() {
            [only] => self.with_position_of(reply, only),
            _ => self.with_owner(reply).session(Session::Several(self.container.session_tokens())),
        }
    }

    /// The same with the position of one range, where it stands for all: Java and .NET cannot read a list
    /// of positions in answers that no range id goes with.
    pub(super) fn with_one_position(&self, reply: Reply) -> Reply {
        match self.partitions() {
            [only] => self.with_position_of(reply, only),
            [first, ..] => self.with_owner(reply).session(Session::One(position_of(first))),
            [] => self.with_owner(reply),
        }
    }
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

/// How far an operation on items reaches.
fn reach(
    call: &Call<'_>,
    container: &Arc<Container>,
    settings: &Arc<Settings>,
) -> Result<TargetReach> {
    use Operation as O;
    match call.operation {
        O::PlanQuery(_) => Ok(TargetReach::Container),
        O::ExecuteBatch(_) if is_bulk(call) => Ok(TargetReach::Container),
        O::CreateItem(_) | O::UpsertItem(_) | O::ReplaceItem(_)
            if call.context.partition_key.is_none() =>
        {
            Ok(TargetReach::KeyInBody)
        }
        O::ExecuteProcedure(_) if call.context.for_each_partition => {
            scope(call, container, settings).map(TargetReach::Span)
        }
        O::ListItems(_) | O::ReadChangeFeed(_) | O::QueryItems(_) | O::ListAttachments(_) => {
            scope(call, container, settings).map(TargetReach::Span)
        }
        _ => {
            let key = full_key(call, settings)?;
            ItemAddress::new(container.clone(), settings.clone(), key).map(TargetReach::Key)
        }
    }
}

/// The key that a point operation names; empty for the undefined one.
fn full_key(call: &Call<'_>, settings: &Settings) -> Result<PartitionKey> {
    match call.context.key() {
        // `[]` is how clients of migrated containers say "none".
        Some(key) => Ok(key),
        None if settings.policy.has_system_key() => Ok(PartitionKey::default()),
        None => Err(key_is_missing()),
    }
}

fn key_is_missing() -> Error {
    Error::bad_request(
        "PartitionKey value must be supplied for this operation, in the header x-ms-documentdb-partitionkey.",
    )
}

/// Reads the part of the key space from key, range and bounds.
fn scope(call: &Call<'_>, container: &Container, settings: &Settings) -> Result<Scope> {
    let context = call.context;
    if let Some(key) = key_of_scope(call, settings) {
        let definition = container.key_definition();
        if key.0.len() > definition.levels() {
            definition.check_full(&key)?;
        }
        definition.check_lengths(&key)?;
        let epk = definition.epk(&key);
        container.check_slice(&epk)?;
        let span = EpkSpan::of_prefix(&epk);
        let partitions = touched(container, &span);
        return Ok(Scope { span, range: None, partitions, limited: true, has_key: true });
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
    let partitions = match &range {
        Some(range) => vec![range.clone()],
        None => touched(container, &span),
    };
    Ok(Scope { span, range, partitions, limited, has_key: false })
}

fn touched(container: &Container, span: &EpkSpan) -> Vec<Arc<Partition>> {
    let touched = container.partitions_in(span).into_iter();
    touched.map(|(partition, _)| partition).collect()
}

/// The key that limits a feed or query, if one does. In a container without a partition key, clients name
/// the one key of all items by `[]`.
fn key_of_scope(call: &Call<'_>, settings: &Settings) -> Option<PartitionKey> {
    let key = call.context.key()?;
    if !key.0.is_empty() {
        return Some(key);
    }
    let policy = &settings.policy;
    let levels = policy.partition_key.levels();
    policy.has_system_key().then(|| PartitionKey::undefined(levels))
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

pub(super) fn position_of(partition: &Partition) -> SessionToken {
    SessionToken { range: partition.range.id, lsn: partition.lsn() }
}

/// Says which container answered, where no partition did. One range's position stands for all, see
/// [`ItemTarget::with_one_position`].
pub(super) fn from_container(reply: Reply, container: &Container) -> Reply {
    let reply = owned_by(reply, container);
    match container.partitions().first() {
        Some(first) => reply.session(Session::One(position_of(first))),
        None => reply,
    }
}

/// Says which container answered.
pub(super) fn owned_by(reply: Reply, container: &Container) -> Reply {
    reply.owner(container.alt_link(), container.rid_text.clone())
}
