//! Request headers as typed values, whichever wire they came by.
//!
//! [`RequestContext::set`] sorts a header into its field; text stays borrowed from the request. HTTP walks
//! its headers once ([`HttpContext::read`]); a wire with other names for them hands in the same names and
//! values, or sets the fields itself. The first bad value is remembered, not raised, so that
//! authentication can be judged before anything else is said to a stranger.

mod http;
pub mod names;
mod partition_key;
mod values;

pub use http::HttpContext;
pub use partition_key::PartitionKeyHeader;
pub(crate) use partition_key::parse_key;
pub(crate) use values::token_over_limit;
pub use values::{
    Consistency, ExplainForm, FeedMode, IndexingDirective, RangeId, encode_non_ascii,
};

use crate::routes::Intent;
use ::http::HeaderMap;
use armilla_engine::dials::NAMES as DIALS;
use armilla_engine::throttle::SHARES_MAX;
use armilla_model::partition_key::PartitionKey;
use armilla_model::{Error, Result};
use bytes::Bytes;
use std::time::Duration;
use values::{flag, hex_bytes, integer, page_size, text};

/// What a request's headers say. Absent headers are `None`, `false` or the protocol's default.
#[derive(Clone, Debug, Default)]
pub struct RequestContext<'a> {
    /// `authorization`, as sent.
    pub authorization: Option<&'a [u8]>,
    /// `user-agent`, or `x-ms-useragent` of clients in browsers.
    pub agent: Option<&'a [u8]>,
    /// `x-ms-activity-id`, where the client gave one.
    pub activity: Option<&'a [u8]>,
    /// What stands behind the question mark; only the views of the explorer read it.
    pub query_string: Option<&'a str>,
    /// The slice of the account that is meant, where it is cut into slices.
    pub slice: u32,
    /// What is wanted is a part, where pages are put together of the parts of all slices.
    pub part: bool,
    /// The parts of all slices, in their order, where a page is to be put together here.
    pub gathered: &'a [Bytes],
    /// `x-ms-date`.
    pub ms_date: Option<&'a [u8]>,
    /// `date`.
    pub date: Option<&'a [u8]>,
    /// `x-ms-version`.
    pub api_version: Option<&'a str>,
    /// What the headers make of a `POST`.
    pub intent: Intent,

    /// `x-ms-session-token`.
    pub session_token: Option<&'a str>,
    /// `x-ms-consistency-level`.
    pub consistency: Option<Consistency>,
    /// `x-ms-documentdb-partitionkey`.
    pub partition_key: Option<PartitionKeyHeader<'a>>,
    /// `x-ms-documentdb-partitionkeyrangeid`, in either form.
    pub range_id: Option<RangeId<'a>>,
    /// `x-ms-start-epk` as bytes.
    pub start_epk: Option<Vec<u8>>,
    /// `x-ms-end-epk` as bytes; `FF` is the end of everything.
    pub end_epk: Option<Vec<u8>>,
    /// `x-ms-max-item-count`; nothing when the choice is the server's.
    pub max_item_count: Option<u32>,
    /// The choice was left to the server by `-1`.
    pub any_item_count: bool,
    /// `x-ms-continuation`.
    pub continuation: Option<&'a str>,
    /// `x-ms-documentdb-responsecontinuationtokenlimitinkb`.
    pub continuation_limit_kb: Option<u32>,

    /// `if-match`.
    pub if_match: Option<&'a str>,
    /// `if-none-match`.
    pub if_none_match: Option<&'a str>,
    /// `if-modified-since`, in seconds since 1970.
    pub if_modified_since: Option<u64>,
    /// `a-im`.
    pub feed_mode: Option<FeedMode>,
    /// `x-ms-cosmos-changefeed-wire-format-version`.
    pub feed_wire_format: Option<&'a str>,
    /// `prefer: return=minimal`.
    pub prefer_minimal: bool,
    /// `x-ms-cosmos-supported-serialization-formats` and its older name: binary JSON and nothing else.
    pub binary_only: bool,

    /// `x-ms-cosmos-intended-collection-rid`.
    pub intended_container_rid: Option<&'a str>,
    /// `x-ms-documentdb-pre-trigger-include`, a comma-separated list.
    pub pre_triggers: Option<&'a str>,
    /// `x-ms-documentdb-post-trigger-include`, a comma-separated list.
    pub post_triggers: Option<&'a str>,
    /// `x-ms-indexing-directive`.
    pub indexing_directive: Option<IndexingDirective>,
    /// `x-ms-documentdb-script-enable-logging`.
    pub script_logging: bool,
    /// `x-armilla-for-each-partition`: run a procedure in all logical partitions that a query finds.
    pub for_each_partition: bool,
    /// `x-armilla-explain`: tell how a query is answered.
    pub explain: Option<ExplainForm>,

    /// `x-ms-documentdb-query-enablecrosspartition`.
    pub enable_cross_partition: bool,
    /// `x-ms-documentdb-query-enable-scan`, or Go's spelling of it.
    pub enable_scan: bool,
    /// `x-ms-cosmos-query-optimisticdirectexecute`: the client has not asked for a plan, and hopes that it
    /// needs none.
    pub optimistic: bool,
    /// `x-ms-cosmos-query-version`.
    pub query_version: Option<&'a str>,
    /// `x-ms-cosmos-supported-query-features`, a comma-separated list.
    pub query_features: Option<&'a str>,
    /// `x-ms-documentdb-populatequerymetrics`.
    pub populate_query_metrics: bool,
    /// `x-ms-cosmos-populateindexmetrics`: answer in base64.
    pub populate_index_metrics: bool,
    /// `x-ms-cosmos-populateindexmetrics-V2`: answer percent-encoded.
    pub populate_index_metrics_v2: bool,
    /// `x-ms-cosmos-populatequeryadvice`: name patterns that could be written better.
    pub populate_query_advice: bool,

    /// `x-ms-cosmos-batch-atomic`.
    pub batch_atomic: bool,
    /// `x-ms-cosmos-batch-continue-on-error`.
    pub batch_continue_on_error: bool,

    /// `x-ms-offer-throughput`.
    pub offer_throughput: Option<u32>,
    /// `x-ms-cosmos-offer-autopilot-settings`: a JSON document.
    pub autopilot_settings: Option<&'a str>,
    /// `x-ms-cosmos-migrate-offer-to-autopilot`.
    pub migrate_to_autopilot: bool,
    /// `x-ms-cosmos-migrate-offer-to-manual-throughput`.
    pub migrate_to_manual: bool,
    /// `x-ms-documentdb-populatequotainfo`.
    pub populate_quota_info: bool,
    /// `x-ms-documentdb-populatepartitionstatistics`.
    pub populate_partition_statistics: bool,
    /// `x-ms-documentdb-expiry-seconds`: how long a permission's token is to live.
    pub token_expiry_seconds: Option<u32>,
    /// `x-ms-cosmos-priority-level: Low`.
    pub low_priority: bool,
    /// `x-ms-cosmos-throughput-bucket`.
    pub throughput_bucket: Option<u8>,
    /// Dials for a new container: names behind `x-armilla-`, and their texts.
    pub dials: Vec<(&'a str, &'a str)>,
    /// Which SDK asks, where that matters.
    pub client: Client,
    /// How long clients of this wire wait for a page, where that is less than the engine gives it.
    pub page_time_max: Option<Duration>,
}

/// Clients with ways of their own: two merge queries across partitions by themselves, once they are told to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Client {
    /// `azure-cosmos` for Python, which cannot merge GROUP BY.
    Python,
    /// `@azure/cosmos`.
    JavaScript,
    /// `azure_data_cosmos`, which merges nothing unless it asks for a plan, and writes `automatic: false` into an
    /// indexing policy whose author said nothing of it.
    Rust,
    /// Everybody else takes what the server merges, or asks for a plan first.
    #[default]
    Other,
}

impl Client {
    fn of(agent: &[u8]) -> Self {
        let Ok(agent) = std::str::from_utf8(agent) else { return Self::Other };
        if agent.contains("azsdk-python-cosmos") {
            Self::Python
        } else if agent.contains("azure-cosmos-js") {
            Self::JavaScript
        } else if agent.contains("azsdk-rust-cosmos") {
            Self::Rust
        } else {
            Self::Other
        }
    }
}

impl<'a> RequestContext<'a> {
    /// Reads all headers of an HTTP request. The second part is the first refusal, naming the header.
    pub fn read(headers: &'a HeaderMap) -> (Self, Result<()>) {
        let (_, context, outcome) = HttpContext::read(headers);
        (context, outcome)
    }

    /// Names in a trigger header, without blanks and empty entries.
    pub fn trigger_names(list: Option<&'a str>) -> impl Iterator<Item = &'a str> {
        list.unwrap_or_default().split(',').map(str::trim).filter(|name| !name.is_empty())
    }

    /// True when the operations of a batch request stand alone, each with its own partition key.
    pub fn is_bulk(&self) -> bool {
        self.intent.batch && !self.batch_atomic && self.range_id.is_some()
    }

    /// The partition key of the header.
    pub fn key(&self) -> Option<PartitionKey> {
        self.partition_key.as_ref().map(|header| header.key.clone())
    }

    /// Takes up one header, by its name in small letters. Names that mean nothing here are passed over.
    // They are grouped by prefix only to compare each with few others.
    pub fn set(&mut self, name: &'a str, value: &'a [u8]) -> Result<()> {
        if let Some(dial) = name.strip_prefix("x-armilla-")
            && DIALS.contains(&dial)
        {
            self.dials.push((dial, text(name, value)?));
            return Ok(());
        }
        let Some(rest) = name.strip_prefix("x-ms-") else {
            return self.read_standard(name, value);
        };
        if let Some(rest) = rest.strip_prefix("documentdb-") {
            return self.read_documentdb(name, rest, value);
        }
        if let Some(rest) = rest.strip_prefix("cosmos-") {
            return self.read_cosmos(name, rest, value);
        }
        match rest {
            "date" => self.ms_date = Some(value),
            "version" => self.api_version = present(values::version(name, value)?),
            "useragent" => self.read_agent(value, true),
            "session-token" => self.session_token = present(text(name, value)?),
            "consistency-level" => self.consistency = Consistency::parse(name, value)?,
            "continuation" => self.continuation = present(text(name, value)?),
            "max-item-count" => {
                self.max_item_count = page_size(name, value)?;
                self.any_item_count = value.trim_ascii() == b"-1";
            }
            "start-epk" => self.start_epk = Some(hex_bytes(name, value)?),
            "end-epk" => self.end_epk = Some(hex_bytes(name, value)?),
            "indexing-directive" => {
                self.indexing_directive = IndexingDirective::parse(name, value)?;
            }
            "offer-throughput" => self.offer_throughput = Some(integer(name, value)?),
            _ => {}
        }
        Ok(())
    }

    /// Pages cannot set `user-agent`; what they say instead counts for more.
    fn read_agent(&mut self, value: &'a [u8], is_said_instead: bool) {
        if self.client == Client::Other {
            self.client = Client::of(value);
        }
        if is_said_instead || self.agent.is_none() {
            self.agent = Some(value);
        }
    }

    fn read_standard(&mut self, name: &str, value: &'a [u8]) -> Result<()> {
        match name {
            "authorization" => self.authorization = Some(value),
            "date" => self.date = Some(value),
            "if-match" => self.if_match = present(text(name, value)?),
            "if-none-match" => self.if_none_match = present(text(name, value)?),
            "if-modified-since" => {
                self.if_modified_since = Some(values::moment(name, text(name, value)?)?);
            }
            "a-im" => {
                self.feed_mode = Some(FeedMode::parse(name, value)?);
                self.intent.change_feed = true;
            }
            "prefer" => self.prefer_minimal |= values::prefers_minimal(value),
            "content-type" => self.intent.query |= values::is_query_type(value),
            "user-agent" => self.read_agent(value, false),
            "x-armilla-for-each-partition" => self.for_each_partition = flag(name, value)?,
            "x-armilla-part" => self.part = flag(name, value)?,
            "x-armilla-explain" => self.explain = values::explain_form(name, value)?,
            _ => {}
        }
        Ok(())
    }

    fn read_documentdb(&mut self, name: &str, rest: &str, value: &'a [u8]) -> Result<()> {
        match rest {
            "partitionkey" => self.partition_key = Some(PartitionKeyHeader::parse(name, value)?),
            "partitionkeyrangeid" => self.range_id = Some(RangeId::parse(name, value)?),
            "isquery" | "query" => self.intent.query |= flag(name, value)?,
            "is-upsert" => self.intent.upsert = flag(name, value)?,
            "query-enablecrosspartition" => self.enable_cross_partition = flag(name, value)?,
            "query-enable-scan" | "force-query-scan" => self.enable_scan |= flag(name, value)?,
            "populatequerymetrics" => self.populate_query_metrics = flag(name, value)?,
            "populatequotainfo" => self.populate_quota_info = flag(name, value)?,
            "populatepartitionstatistics" => {
                self.populate_partition_statistics = flag(name, value)?;
            }
            "pre-trigger-include" => self.pre_triggers = present(text(name, value)?),
            "post-trigger-include" => self.post_triggers = present(text(name, value)?),
            "script-enable-logging" => self.script_logging = flag(name, value)?,
            "responsecontinuationtokenlimitinkb" => {
                self.continuation_limit_kb = Some(values::token_limit(value)?);
            }
            "content-serialization-format" => {
                self.binary_only = values::formats(name, value, false)?;
            }
            "expiry-seconds" => self.token_expiry_seconds = Some(integer(name, value)?),
            _ => {}
        }
        Ok(())
    }

    fn read_cosmos(&mut self, name: &str, rest: &str, value: &'a [u8]) -> Result<()> {
        match rest {
            "intended-collection-rid" => self.intended_container_rid = present(text(name, value)?),
            "is-query-plan-request" => self.intent.query_plan = flag(name, value)?,
            "is-batch-request" => self.intent.batch = flag(name, value)?,
            "batch-atomic" => self.batch_atomic = flag(name, value)?,
            "batch-continue-on-error" => self.batch_continue_on_error = flag(name, value)?,
            "supported-serialization-formats" => {
                self.binary_only = values::formats(name, value, true)?;
            }
            "query-optimisticdirectexecute" => self.optimistic = flag(name, value)?,
            "query-version" => self.query_version = Some(text(name, value)?),
            "supported-query-features" => self.query_features = Some(text(name, value)?),
            "populateindexmetrics" => self.populate_index_metrics = flag(name, value)?,
            "populatequeryadvice" => self.populate_query_advice = flag(name, value)?,
            "populateindexmetrics-v2" => self.populate_index_metrics_v2 = flag(name, value)?,
            "changefeed-wire-format-version" => self.feed_wire_format = Some(text(name, value)?),
            "offer-autopilot-settings" => self.autopilot_settings = Some(text(name, value)?),
            "migrate-offer-to-autopilot" => self.migrate_to_autopilot = flag(name, value)?,
            "migrate-offer-to-manual-throughput" => self.migrate_to_manual = flag(name, value)?,
            "priority-level" => self.low_priority = value.eq_ignore_ascii_case(b"low"),
            "throughput-bucket" => {
                let number = integer(name, value)?;
                let number = u8::try_from(number).ok();
                let number = number.filter(|number| (1..=SHARES_MAX).contains(number));
                let expected = "a throughput bucket from 1 to 5 is expected";
                self.throughput_bucket = Some(number.ok_or_else(|| bad_header(name, expected))?);
            }
            _ => {}
        }
        Ok(())
    }
}

/// An empty header is an absent one: some clients send both.
fn present(text: &str) -> Option<&str> {
    if text.is_empty() { None } else { Some(text) }
}

/// The refusal of a header's value.
pub(crate) fn bad_header(name: &str, expected: &str) -> Error {
    Error::BadRequest(format!("The value of the header '{name}' is not valid: {expected}."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::http::HeaderValue;
    use armilla_model::partition_key::Component;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        map
    }

    #[test]
    fn a_python_query_is_read() {
        let map = headers(&[
            ("x-ms-documentdb-isquery", "True"),
            ("x-ms-documentdb-query-enablecrosspartition", "True"),
            ("x-ms-documentdb-partitionkey", "[\"p\\u00e9\", 5, {}, null]"),
            ("x-ms-max-item-count", "-1"),
            ("x-ms-session-token", "0:-1#13"),
            ("x-ms-consistency-level", "Session"),
            ("x-ms-documentdb-partitionkeyrangeid", "uQEAAIAAAAE=,3"),
            ("x-ms-start-epk", "1D1c"),
            ("x-ms-end-epk", "FF"),
            ("x-ms-continuation", ""),
        ]);
        let (context, outcome) = RequestContext::read(&map);
        outcome.unwrap();
        assert!(context.intent.query && context.enable_cross_partition);
        assert_eq!(context.max_item_count, None);
        assert_eq!(context.continuation, None);
        assert_eq!(context.consistency, Some(Consistency::Session));
        assert_eq!(context.start_epk.as_deref(), Some(&[0x1D, 0x1C][..]));
        let range = context.range_id.unwrap();
        assert_eq!((range.container_rid, range.id), (Some("uQEAAIAAAAE="), "3"));
        let key = context.partition_key.unwrap().key.0;
        assert_eq!(key.len(), 4);
        assert_eq!(key[0], Component::String("pé".into()));
        assert_eq!(key[2], Component::Undefined);
    }

    #[test]
    fn content_type_alone_makes_a_query() {
        for value in ["application/query+json", "Application/Query+JSON; charset=utf-8"] {
            let map = headers(&[("content-type", value)]);
            assert!(RequestContext::read(&map).0.intent.query, "{value}");
        }
        let map = headers(&[("content-type", "application/json")]);
        assert!(!RequestContext::read(&map).0.intent.query);
    }

    #[test]
    fn bad_values_name_their_header() {
        for (name, value) in [
            ("x-ms-max-item-count", "many"),
            ("x-ms-max-item-count", "-2"),
            ("x-ms-documentdb-partitionkey", "[1"),
            ("x-ms-documentdb-partitionkey", "\"p\""),
            ("x-ms-documentdb-partitionkey", "[[1]]"),
            ("x-ms-documentdb-partitionkeyrangeid", "-1"),
            ("x-ms-start-epk", "1D1"),
            ("x-ms-consistency-level", "Perfect"),
            ("x-ms-documentdb-is-upsert", "perhaps"),
            ("x-ms-indexing-directive", "Sometimes"),
            ("x-ms-offer-throughput", "-400"),
            ("if-modified-since", "yesterday"),
            ("a-im", "Everything"),
        ] {
            let map = headers(&[(name, value)]);
            let error = RequestContext::read(&map).1.unwrap_err();
            assert!(error.message().contains(name), "{name}: {value}: {error}");
        }
    }

    #[test]
    fn preferences_and_dates() {
        let map = headers(&[
            ("prefer", "respond-async, return=minimal"),
            ("if-modified-since", "Sun, 15 Nov 2026 19:24:19 GMT"),
            ("a-im", "Incremental feed"),
            ("x-ms-documentdb-pre-trigger-include", "a, ,b"),
        ]);
        let (context, outcome) = RequestContext::read(&map);
        outcome.unwrap();
        assert!(context.prefer_minimal);
        assert_eq!(context.if_modified_since, Some(1_794_770_659));
        let go = headers(&[("if-modified-since", "Sun, 15 Nov 2026 19:24:19 UTC")]);
        assert_eq!(RequestContext::read(&go).0.if_modified_since, Some(1_794_770_659));
        assert_eq!(context.feed_mode, Some(FeedMode::LatestVersion));
        let names: Vec<_> = RequestContext::trigger_names(context.pre_triggers).collect();
        assert_eq!(names, ["a", "b"]);
    }
}
