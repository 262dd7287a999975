//! Requests for whoever observes the workload: the request log, read by another hand.
//!
//! Observing costs a request nothing beyond the log's own note. The reader comes by now and then and takes what
//! is there; of more requests than the log holds it is told how many it missed.

use crate::request_log::{Entry, LoggedText, RequestLog};
use bytes::Bytes;
use std::sync::Arc;

/// Reads the request log for an observer.
pub struct RequestFeed {
    log: Arc<RequestLog>,
}

/// Requests behind a number.
pub struct ObservedPage {
    /// Oldest first.
    pub requests: Vec<ObservedRequest>,
    /// Where to go on.
    pub newest: u64,
    /// Requests that are no longer there.
    pub dropped: u64,
}

/// One request that was answered.
#[derive(Clone, Debug, Default)]
pub struct ObservedRequest {
    /// Running number.
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub at_millis: u64,
    /// Who: the SDK and its version.
    pub agent: Option<String>,
    /// The client's activity, hashed; 0 when it named none.
    pub activity: u64,
    /// What it did, as metrics call it.
    pub operation: &'static str,
    /// The number of the container.
    pub container: Option<u32>,
    /// The partition key as the header has it.
    pub key: Option<String>,
    /// The item or procedure of the path.
    pub item: Option<String>,
    /// The body of a query, cut if it is long.
    pub query: Option<String>,
    /// The body of a small write.
    pub written: Option<Bytes>,
    /// The version before it, of some writes.
    pub replaced: Option<Bytes>,
    /// It goes on from a page before.
    pub continues: bool,
    /// The status of the answer.
    pub status: u16,
    /// What it cost.
    pub units: f64,
    /// How long it took.
    pub micros: u64,
    /// The range that answered, where it was one.
    pub range: Option<u32>,
    /// How many ranges answered.
    pub partitions: usize,
    /// Rows or items of the answer.
    pub rows: Option<usize>,
}

impl RequestFeed {
    pub(crate) fn new(log: Arc<RequestLog>) -> Self {
        log.observe();
        Self { log }
    }

    /// False when no request is kept at all.
    pub fn is_kept(&self) -> bool {
        self.log.capacity() > 0
    }

    /// What came behind a number.
    pub fn after(&self, number: u64) -> ObservedPage {
        let page = self.log.take_after(number);
        let requests = page.entries.into_iter().map(observed).collect();
        ObservedPage { requests, newest: page.newest, dropped: page.dropped }
    }
}

fn observed(entry: Entry) -> ObservedRequest {
    ObservedRequest {
        number: entry.number,
        at_millis: entry.at_millis,
        agent: entry.texts.get(LoggedText::Agent).map(str::to_owned),
        activity: entry.activity,
        operation: entry.operation,
        container: entry.container,
        key: entry.texts.get(LoggedText::Key).map(str::to_owned),
        item: entry.texts.get(LoggedText::Item).map(str::to_owned),
        query: entry.texts.get(LoggedText::Query).map(str::to_owned),
        written: entry.written,
        replaced: entry.replaced,
        continues: entry.continues,
        status: entry.status,
        units: entry.charge.units(),
        micros: entry.micros,
        range: entry.range,
        partitions: entry.partitions,
        rows: entry.rows,
    }
}
