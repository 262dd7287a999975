//! Requests for whoever observes the workload: the request log, read by another hand.
//!
//! Beyond the log's own note a request leaves its activity and the body of a small write, and both only while the reader wants them
//! ([`RequestFeed::open`], [`RequestFeed::close`]). The reader comes by now and then and takes what is there; of more requests than
//! the log holds it is told how many it missed.

use crate::request_log::{Entry, LoggedText, LoggedTexts, RequestLog};
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
#[derive(Clone, Default)]
pub struct ObservedRequest {
    /// Running number.
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub at_millis: u64,
    /// The client's activity, hashed; 0 when it named none.
    pub activity: u64,
    /// What it did, as metrics call it.
    pub operation: &'static str,
    /// The number of the container.
    pub container: Option<u32>,
    texts: LoggedTexts,
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
        log.observe(true);
        Self { log }
    }

    /// False when no request is kept at all.
    pub fn is_kept(&self) -> bool {
        self.log.capacity() > 0
    }

    /// Requests leave activities and bodies from now on.
    pub fn open(&self) {
        self.log.observe(true);
    }

    /// Requests leave neither until the feed is opened again.
    pub fn close(&self) {
        self.log.observe(false);
    }

    /// The number of the newest request.
    pub fn newest(&self) -> u64 {
        self.log.newest()
    }

    /// What came behind a number.
    pub fn after(&self, number: u64) -> ObservedPage {
        let page = self.log.take_after(number, observed);
        ObservedPage { requests: page.entries, newest: page.newest, dropped: page.dropped }
    }
}

/// A request with its texts copied; bodies leave the log.
fn observed(entry: &mut Entry) -> ObservedRequest {
    let (written, replaced) = entry.bodies.take();
    ObservedRequest {
        number: entry.number,
        at_millis: entry.at_millis,
        activity: entry.activity,
        operation: entry.operation,
        container: entry.container,
        texts: entry.texts.clone(),
        written,
        replaced,
        continues: entry.continues,
        status: entry.status,
        units: entry.charge.units(),
        micros: entry.micros,
        range: entry.range,
        partitions: entry.partitions,
        rows: entry.rows,
    }
}

impl ObservedRequest {
    /// Who: the SDK and its version.
    pub fn agent(&self) -> Option<&str> {
        self.texts.get(LoggedText::Agent)
    }

    /// The partition key as the header has it.
    pub fn key(&self) -> Option<&str> {
        self.texts.get(LoggedText::Key)
    }

    /// The item or procedure of the path.
    pub fn item(&self) -> Option<&str> {
        self.texts.get(LoggedText::Item)
    }

    /// The body of a query, cut if it is long.
    pub fn query(&self) -> Option<&str> {
        self.texts.get(LoggedText::Query)
    }

    /// Bytes that it holds.
    pub fn bytes(&self) -> usize {
        let bodies = [&self.written, &self.replaced];
        let bodies = bodies.into_iter().flatten().map(Bytes::len).sum::<usize>();
        size_of::<Self>() + self.texts.len() + bodies
    }
}
