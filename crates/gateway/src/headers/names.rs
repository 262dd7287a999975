//! Names of response headers, made once.

use http::HeaderName;

macro_rules! names {
    ($($(#[$about:meta])* $constant:ident = $text:literal;)*) => {
        $($(#[$about])* pub const $constant: HeaderName = HeaderName::from_static($text);)*
    };
}

names! {
    /// Echo of the client's id, or a new one.
    ACTIVITY_ID = "x-ms-activity-id";
    /// Request units.
    REQUEST_CHARGE = "x-ms-request-charge";
    /// Milliseconds spent in the server.
    REQUEST_DURATION = "x-ms-request-duration-ms";
    /// Version of the protocol.
    VERSION = "x-ms-version";
    /// Substatus of an error.
    SUBSTATUS = "x-ms-substatus";
    /// When to try again.
    RETRY_AFTER = "x-ms-retry-after-ms";
    /// `{range}:-1#{lsn}`.
    SESSION_TOKEN = "x-ms-session-token";
    /// The range that served the request.
    RANGE_ID = "x-ms-documentdb-partitionkeyrangeid";
    /// The owner by names.
    ALT_CONTENT_PATH = "x-ms-alt-content-path";
    /// The owner by `_rid`.
    CONTENT_PATH = "x-ms-content-path";
    /// Rows in the page.
    ITEM_COUNT = "x-ms-item-count";
    /// Where the next page begins.
    CONTINUATION = "x-ms-continuation";
    /// LSN of the partition after the operation.
    LSN = "lsn";
    /// LSN of the item.
    ITEM_LSN = "x-ms-item-lsn";
    /// Local LSN.
    LOCAL_LSN = "x-ms-cosmos-llsn";
    /// LSN that every region has.
    GLOBAL_COMMITTED_LSN = "x-ms-global-committed-lsn";
    /// Limits of a container.
    RESOURCE_QUOTA = "x-ms-resource-quota";
    /// What a container uses of them.
    RESOURCE_USAGE = "x-ms-resource-usage";
    /// Times and counts of a query.
    QUERY_METRICS = "x-ms-documentdb-query-metrics";
    /// Indexes that a query used or could use.
    INDEX_UTILIZATION = "x-ms-cosmos-index-utilization";
    /// Numbers of the rules that would make a query better, percent-encoded.
    QUERY_ADVICE = "x-ms-cosmos-query-advice";
    /// How ORDER BY ties run.
    QUERY_EXECUTION_INFO = "x-ms-cosmos-query-execution-info";
    /// Whether a client that hoped to do without a plan needs one.
    REQUIRES_DISTRIBUTION = "x-ms-cosmos-query-requiresdistribution";
    /// How a query found its items, percent-encoded.
    EXPLAIN = "x-armilla-explain";
    /// Lines that a script logged.
    SCRIPT_LOG = "x-ms-documentdb-script-log-results";
    /// Percent of an index rebuild.
    INDEX_PROGRESS = "x-ms-documentdb-collection-index-transformation-progress";
    /// Least throughput an offer can be set to.
    MIN_THROUGHPUT = "x-ms-cosmos-min-throughput";
    /// How long a request would have had to wait, were the throttle on.
    WOULD_THROTTLE = "x-armilla-would-throttle";
    /// In which slice of the account a key lies that is not here.
    OTHER_SLICE = "x-armilla-other-slice";
    /// An answer, or what is wanted: the part of one slice for a page that is put together of all of them.
    PART = "x-armilla-part";
    /// Which slice goes on with a query whose rows come slice by slice: `next` or `end`.
    TURN = "x-armilla-turn";
    /// A container draws on its database's throughput.
    SHARE_THROUGHPUT = "x-ms-share-throughput";
    /// Attachments, of which there are none: megabytes allowed.
    MEDIA_STORAGE_MAX = "x-ms-max-media-storage-usage-mb";
    /// Attachments: megabytes used.
    MEDIA_STORAGE = "x-ms-media-storage-usage-mb";
    /// Whether a throughput change is under way.
    OFFER_REPLACE_PENDING = "x-ms-offer-replace-pending";
}
