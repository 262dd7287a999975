//! From a frame to the typed request that every wire makes: method, path, context.

use super::frame::RequestFrame;
use super::ids::request as id;
use super::token::Tokens;
use crate::headers::{Consistency, IndexingDirective, RangeId, RequestContext, token_over_limit};
use crate::limits::DIRECT_PAGE_TIME_MAX;
use crate::routes::{Segments, hex_digit};
use armilla_engine::throttle::SHARES_MAX;
use armilla_model::{Error, Result, rid};
use http::Method;
use std::borrow::Cow;

/// Bytes of a database's `_rid`.
const DATABASE_RID: usize = 4;
/// Bytes of a container's and of a user's.
const CONTAINER_RID: usize = 8;
/// Bytes of what is below those.
const CHILD_RID: usize = 16;

/// What an operation does, as far as the wire knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DirectVerb {
    Create,
    Patch,
    Read,
    ReadFeed,
    Delete,
    Replace,
    Execute,
    Query,
    Head,
    HeadFeed,
    Upsert,
    Batch,
}

impl DirectVerb {
    fn of(number: u16) -> Option<Self> {
        Some(match number {
            1 => Self::Create,
            2 => Self::Patch,
            3 => Self::Read,
            4 => Self::ReadFeed,
            5 => Self::Delete,
            6 => Self::Replace,
            8 => Self::Execute,
            9 | 15 => Self::Query,
            17 => Self::Head,
            18 => Self::HeadFeed,
            19 => Self::Upsert,
            37 => Self::Batch,
            _ => return None,
        })
    }

    /// The method that the client signed.
    fn method(self) -> Method {
        match self {
            Self::Create | Self::Upsert | Self::Query | Self::Batch | Self::Execute => Method::POST,
            Self::Read | Self::ReadFeed => Method::GET,
            Self::Replace => Method::PUT,
            Self::Patch => Method::PATCH,
            Self::Delete => Method::DELETE,
            Self::Head | Self::HeadFeed => Method::HEAD,
        }
    }

    /// Whether the path ends with the resource itself, not with the list it is in.
    fn is_on_resource(self) -> bool {
        matches!(
            self,
            Self::Read | Self::Replace | Self::Patch | Self::Delete | Self::Head | Self::Execute
        )
    }

    /// Whether it may change anything.
    pub(super) fn is_write(self) -> bool {
        match self {
            Self::Read | Self::ReadFeed | Self::Query | Self::Head | Self::HeadFeed => false,
            Self::Create | Self::Patch | Self::Delete | Self::Replace | Self::Upsert => true,
            // A batch may hold reads alone, and is then sent to any replica.
            Self::Batch | Self::Execute => false,
        }
    }

    /// Whether the answer is a page.
    pub(super) fn is_feed(self) -> bool {
        matches!(self, Self::ReadFeed | Self::Query)
    }
}

/// Kinds of resources that are served, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResourceKind {
    Database,
    Container,
    Item,
    User,
    Permission,
    Procedure,
    Conflict,
}

impl ResourceKind {
    fn of(number: u16) -> Option<Self> {
        Some(match number {
            1 => Self::Database,
            2 => Self::Container,
            3 => Self::Item,
            5 => Self::User,
            6 => Self::Permission,
            7 => Self::Procedure,
            8 => Self::Conflict,
            _ => return None,
        })
    }

    /// The operations of this kind that clients send this way.
    fn serves(self, verb: DirectVerb) -> bool {
        use DirectVerb as V;
        match self {
            Self::Database => matches!(verb, V::Read | V::ReadFeed | V::Query | V::HeadFeed),
            Self::Container => matches!(verb, V::Read | V::ReadFeed | V::Query | V::Head),
            Self::Item => !matches!(verb, V::Execute | V::Head | V::HeadFeed),
            Self::User => matches!(verb, V::Read | V::Replace | V::ReadFeed | V::Query),
            Self::Permission => {
                matches!(verb, V::Read | V::Replace | V::Delete | V::ReadFeed | V::Query)
            }
            Self::Procedure => verb == V::Execute,
            Self::Conflict => matches!(verb, V::Read | V::Delete | V::ReadFeed | V::Query),
        }
    }

    /// The segment of its list.
    fn segment(self) -> &'static str {
        match self {
            Self::Database => "dbs",
            Self::Container => "colls",
            Self::Item => "docs",
            Self::User => "users",
            Self::Permission => "permissions",
            Self::Procedure => "sprocs",
            Self::Conflict => "conflicts",
        }
    }

    /// The token with its name.
    fn name(self) -> u16 {
        match self {
            Self::Database => id::DATABASE_NAME,
            Self::Container => id::COLLECTION_NAME,
            Self::Item => id::DOCUMENT_NAME,
            Self::User => id::USER_NAME,
            Self::Permission => id::PERMISSION_NAME,
            Self::Procedure => id::PROCEDURE_NAME,
            Self::Conflict => id::CONFLICT_NAME,
        }
    }

    fn parent(self) -> Option<Self> {
        match self {
            Self::Database => None,
            Self::Container | Self::User => Some(Self::Database),
            Self::Permission => Some(Self::User),
            Self::Item | Self::Procedure | Self::Conflict => Some(Self::Container),
        }
    }

    /// How many bytes its `_rid` has.
    fn rid_length(self) -> usize {
        match self {
            Self::Database => DATABASE_RID,
            Self::Container | Self::User => CONTAINER_RID,
            Self::Item | Self::Permission | Self::Procedure | Self::Conflict => CHILD_RID,
        }
    }

    /// Whether a container's partition serves it, not the catalog.
    pub(super) fn is_in_container(self, verb: DirectVerb) -> bool {
        match self {
            Self::Item | Self::Procedure | Self::Conflict => true,
            Self::Container => verb == DirectVerb::Head,
            Self::Database | Self::User | Self::Permission => false,
        }
    }
}

/// What a frame asks for.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    pub(super) kind: ResourceKind,
    pub(super) verb: DirectVerb,
    pub(super) method: Method,
    pub(super) segments: Segments<'a>,
}

/// The operation and its path; nothing of the partition yet.
pub(super) fn asked<'a>(frame: &RequestFrame, tokens: &Tokens<'a>) -> Result<Asked<'a>> {
    let (kind, verb) = (ResourceKind::of(frame.resource), DirectVerb::of(frame.operation));
    let (Some(kind), Some(verb)) = (kind, verb) else { return Err(unserved(frame)) };
    if !kind.serves(verb) {
        return Err(unserved(frame));
    }
    let segments = match tokens.text(id::DATABASE_NAME) {
        Some(_) => by_names(kind, verb, tokens)?,
        None => by_rid(kind, verb, tokens.bytes(id::RESOURCE_ID).unwrap_or_default())?,
    };
    Ok(Asked { kind, verb, method: verb.method(), segments: Segments::of(segments)? })
}

fn unserved(frame: &RequestFrame) -> Error {
    Error::bad_request(format!(
        "Operation {} on resource {} is not served in Direct mode; ask the gateway over HTTPS.",
        frame.operation, frame.resource
    ))
}

fn by_names<'a>(
    kind: ResourceKind,
    verb: DirectVerb,
    tokens: &Tokens<'a>,
) -> Result<Vec<Cow<'a, str>>> {
    let mut segments = Vec::with_capacity(6);
    let named = verb.is_on_resource().then_some(kind);
    let mut above = Some(kind);
    // From the resource upwards; turned round below.
    while let Some(kind) = above {
        if named == Some(kind) || !segments.is_empty() {
            let name = tokens.text(kind.name()).filter(|name| !name.is_empty());
            let missing = || Error::bad_request("The request does not name its resource.");
            segments.push(Cow::Borrowed(name.ok_or_else(missing)?));
        }
        segments.push(Cow::Borrowed(kind.segment()));
        above = kind.parent();
    }
    segments.reverse();
    Ok(segments)
}

/// The path by `_rid`: that of the resource, or for a list of the parent, whose bytes begin it.
fn by_rid<'a>(kind: ResourceKind, verb: DirectVerb, bytes: &[u8]) -> Result<Vec<Cow<'a, str>>> {
    let owner = if verb.is_on_resource() { Some(kind) } else { kind.parent() };
    let expected = owner.map_or(0, ResourceKind::rid_length);
    if bytes.len() != expected {
        return Err(Error::bad_request(
            "The request names its resource neither by names nor by a valid resource id.",
        ));
    }
    let mut chain = Vec::with_capacity(4);
    let mut above = Some(kind);
    while let Some(kind) = above {
        chain.push(kind);
        above = kind.parent();
    }
    let mut segments = Vec::with_capacity(6);
    for kind in chain.into_iter().rev() {
        segments.push(Cow::Borrowed(kind.segment()));
        if let Some(own) = bytes.get(..kind.rid_length()) {
            segments.push(Cow::Owned(rid::encode(own)));
        }
    }
    Ok(segments)
}

/// Texts that HTTP has as headers, by their tokens.
const HEADERS: [(u16, &str); 14] = [
    (id::AUTHORIZATION, "authorization"),
    (id::DATE, "x-ms-date"),
    (id::SESSION_TOKEN, "x-ms-session-token"),
    (id::CONTINUATION, "x-ms-continuation"),
    (id::PRE_TRIGGERS, "x-ms-documentdb-pre-trigger-include"),
    (id::POST_TRIGGERS, "x-ms-documentdb-post-trigger-include"),
    (id::CLIENT_VERSION, "x-ms-version"),
    (id::PARTITION_KEY, "x-ms-documentdb-partitionkey"),
    (id::A_IM, "a-im"),
    (id::IF_MODIFIED_SINCE, "if-modified-since"),
    (id::FEED_WIRE_FORMAT, "x-ms-cosmos-changefeed-wire-format-version"),
    (id::INTENDED_COLLECTION_RID, "x-ms-cosmos-intended-collection-rid"),
    (id::RANGE_ID, "x-ms-documentdb-partitionkeyrangeid"),
    // Read once more below, where the operation says which of two headers it is.
    (id::MATCH, ""),
];

/// The context of a request, and the first token that cannot be read.
pub(super) fn context<'a>(
    asked: &Asked<'_>,
    tokens: &Tokens<'a>,
    is_master: bool,
) -> (RequestContext<'a>, Result<()>) {
    let page_time_max = Some(DIRECT_PAGE_TIME_MAX);
    let mut context = RequestContext { page_time_max, ..RequestContext::default() };
    let mut readable = Ok(());
    let mut note = |outcome: Result<()>| {
        if readable.is_ok() {
            readable = outcome;
        }
    };
    for (token, name) in HEADERS {
        let Some(text) = tokens.text(token) else { continue };
        let name = match (token, asked.verb) {
            (id::MATCH, DirectVerb::Read | DirectVerb::ReadFeed) => "if-none-match",
            (id::MATCH, _) => "if-match",
            _ => name,
        };
        note(context.set(name, text.as_bytes()));
    }
    context.intent.query = asked.verb == DirectVerb::Query;
    context.intent.batch = asked.verb == DirectVerb::Batch;
    context.intent.upsert = asked.verb == DirectVerb::Upsert;
    note(set_numbers(&mut context, tokens));
    note(set_bounds(&mut context, tokens));
    set_flags(&mut context, tokens);
    // Clients put level 0 on every read of the catalog, whatever the account's is.
    if !is_master && let Some(level) = tokens.byte(id::CONSISTENCY_LEVEL) {
        note(level_of(level).map(|level| context.consistency = Some(level)));
    }
    (context, readable)
}

fn set_numbers(context: &mut RequestContext<'_>, tokens: &Tokens<'_>) -> Result<()> {
    match tokens.number(id::PAGE_SIZE) {
        Some(u32::MAX) => context.any_item_count = true,
        Some(0) | None => {}
        Some(size) => context.max_item_count = Some(size),
    }
    match tokens.number(id::CONTINUATION_LIMIT) {
        Some(0) => return Err(token_over_limit()),
        limit => context.continuation_limit_kb = limit,
    }
    context.token_expiry_seconds = tokens.number(id::TOKEN_EXPIRY);
    context.indexing_directive = match tokens.byte(id::INDEXING_DIRECTIVE) {
        None => None,
        Some(0) => Some(IndexingDirective::Default),
        Some(1) => Some(IndexingDirective::Include),
        Some(2) => Some(IndexingDirective::Exclude),
        Some(_) => return Err(Error::bad_request("The indexing directive is not known.")),
    };
    match tokens.byte(id::THROUGHPUT_BUCKET) {
        Some(bucket) if !(1..=SHARES_MAX).contains(&bucket) => {
            Err(Error::bad_request("A throughput bucket from 1 to 5 is expected."))
        }
        bucket => {
            context.throughput_bucket = bucket;
            Ok(())
        }
    }
}

/// Bounds of effective keys: as hexadecimal text, or where the key type says so as bytes.
fn set_bounds(context: &mut RequestContext<'_>, tokens: &Tokens<'_>) -> Result<()> {
    /// Key type of bounds that are bytes.
    const RAW: u8 = 2;
    let is_raw = tokens.byte(id::READ_FEED_KEY_TYPE) == Some(RAW);
    for (token, bound) in
        [(id::START_EPK, &mut context.start_epk), (id::END_EPK, &mut context.end_epk)]
    {
        let Some(bytes) = tokens.bytes(token) else { continue };
        let malformed = || Error::bad_request("A bound of effective keys is not hexadecimal text.");
        *bound = match is_raw {
            true => Some(bytes.to_vec()),
            false => Some(from_hex(bytes).ok_or_else(malformed)?),
        };
    }
    Ok(())
}

/// Pairs of hexadecimal digits as bytes.
fn from_hex(text: &[u8]) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_chunks::<2>();
    let byte = |&[high, low]: &[u8; 2]| Some(hex_digit(high)? << 4 | hex_digit(low)?);
    pairs.iter().map(byte).collect::<Option<Vec<u8>>>().filter(|_| rest.is_empty())
}

fn set_flags(context: &mut RequestContext<'_>, tokens: &Tokens<'_>) {
    /// `SupportedSerializationFormats` of a client that takes binary JSON and nothing else.
    const BINARY_ONLY: u8 = 2;
    let flag = |id: u16| tokens.flag(id);
    context.enable_scan = flag(id::ENABLE_SCAN) || flag(id::FORCE_QUERY_SCAN);
    context.script_logging = flag(id::ENABLE_LOGGING);
    context.populate_quota_info = flag(id::POPULATE_QUOTA_INFO);
    context.populate_query_metrics = flag(id::POPULATE_QUERY_METRICS);
    context.populate_partition_statistics = flag(id::POPULATE_PARTITION_STATISTICS);
    context.populate_index_metrics = flag(id::POPULATE_INDEX_METRICS);
    context.populate_index_metrics_v2 = flag(id::POPULATE_INDEX_METRICS_V2);
    context.populate_query_advice = flag(id::POPULATE_QUERY_ADVICE);
    context.batch_atomic = flag(id::BATCH_ATOMIC);
    context.batch_continue_on_error = flag(id::BATCH_CONTINUE_ON_ERROR);
    context.prefer_minimal = flag(id::RETURN_PREFERENCE);
    context.low_priority = tokens.byte(id::PRIORITY_LEVEL) == Some(2);
    context.binary_only = tokens.byte(id::SUPPORTED_FORMATS) == Some(BINARY_ONLY)
        || tokens.byte(id::CONTENT_FORMAT) == Some(1);
}

fn level_of(number: u8) -> Result<Consistency> {
    Ok(match number {
        0 => Consistency::Strong,
        1 => Consistency::BoundedStaleness,
        2 => Consistency::Session,
        3 => Consistency::Eventual,
        4 => Consistency::ConsistentPrefix,
        _ => return Err(Error::bad_request("The consistency level is not known.")),
    })
}

/// Limits a request to the range of its path: that of a list or query without a key, and that of bulk.
pub(super) fn limit_to_range<'a>(
    context: &mut RequestContext<'a>,
    asked: &Asked<'_>,
    range: &'a str,
) {
    let is_bulk = asked.verb == DirectVerb::Batch && !context.batch_atomic;
    let is_list = asked.verb.is_feed() && context.partition_key.is_none();
    context.range_id = (is_bulk || is_list).then_some(RangeId { container_rid: None, id: range });
}
