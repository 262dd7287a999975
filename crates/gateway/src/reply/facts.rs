//! Facts of an answer, each under its name: what is told beside the body, for any wire to write.

use armilla_model::limits::{FUNCTIONS_MAX, PROCEDURES_MAX, TRIGGERS_MAX};
use armilla_model::session_token::SessionToken;
use bytes::Bytes;
use std::borrow::Cow;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// Kilobytes of items that a container may hold, as the service says it: 10 GB.
const SIZE_QUOTA_KB: u64 = 10_485_760;
/// Size of one item in the service's quota text.
const ITEM_QUOTA_KB: u64 = 10_240;

/// What is told beside the body. What nobody named is not told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Substatus of an error.
    pub substatus: Option<u32>,
    /// When to try again.
    pub retry_after: Option<Duration>,
    /// Where the client's session goes on.
    pub session: Session,
    /// The range that answered, if it was one.
    pub range: Option<u32>,
    /// LSN of the partition after the operation.
    pub lsn: Option<u64>,
    /// LSN of the transaction that wrote the item, where it is not the partition's.
    pub item_lsn: Option<u64>,
    /// The version, quotes included.
    pub etag: Option<String>,
    /// The owner of the resource.
    pub owner: Option<Owner>,
    /// Rows in the page.
    pub item_count: Option<usize>,
    /// The version that a write took the place of, for whoever observes; clients are not told.
    pub(crate) replaced: Option<Bytes>,
    /// Where the next page begins.
    pub continuation: Option<String>,
    /// What the container holds.
    pub usage: Option<Usage>,
    /// The rarer ones, as texts.
    pub more: Vec<(Fact, Cow<'static, str>)>,
}

/// Where a client's session goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Session {
    /// Not told.
    #[default]
    Untold,
    /// At the position of one range.
    One(SessionToken),
    /// At the positions of several: their tokens, joined by commas.
    Several(String),
}

/// The owner of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// By names: `dbs/d1/colls/c1`.
    pub path: Arc<str>,
    /// By `_rid`.
    pub rid: Arc<str>,
}

/// Facts that are told as texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fact {
    /// Times and counts of a query.
    QueryMetrics,
    /// Indexes that a query used or could use.
    IndexUtilization,
    /// Numbers of the rules that would make a query better, percent-encoded.
    QueryAdvice,
    /// How ORDER BY ties run.
    QueryExecutionInfo,
    /// Whether a client that hoped to do without a plan needs one.
    RequiresDistribution,
    /// How a query found its items, percent-encoded.
    Explain,
    /// Lines that a script logged, percent-encoded.
    ScriptLog,
    /// Percent of an index rebuild.
    IndexProgress,
    /// Least throughput an offer can be set to.
    MinThroughput,
    /// Whether a throughput change is under way.
    OfferReplacePending,
    /// A container draws on its database's throughput.
    ShareThroughput,
    /// How long a request would have had to wait, were the throttle on: milliseconds.
    WouldThrottle,
    /// In which slice of the account a key lies that is not here, for the node that sent it.
    OtherSlice,
    /// The body is the part of one slice, for the node that asked for it.
    Part,
    /// Which slice goes on, for the node that asked: `next` or `end`.
    Turn,
    /// Attachments, of which there are none: megabytes allowed.
    MediaStorageMax,
    /// Attachments: megabytes used.
    MediaStorage,
}

/// What a container holds, beside what it may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Kilobytes of items.
    pub kilobytes: u64,
    /// Items.
    pub items: u64,
    /// User functions.
    pub functions: usize,
    /// Stored procedures.
    pub procedures: usize,
    /// Triggers.
    pub triggers: usize,
}

impl Usage {
    /// What any container may hold, as clients split it.
    pub fn quota() -> &'static str {
        static QUOTA: LazyLock<String> = LazyLock::new(|| {
            format!(
                "documentSize={ITEM_QUOTA_KB};documentsSize={SIZE_QUOTA_KB};documentsCount=-1;collectionSize={SIZE_QUOTA_KB};functions={FUNCTIONS_MAX};storedProcedures={PROCEDURES_MAX};triggers={TRIGGERS_MAX};"
            )
        });
        &QUOTA
    }

    /// What this one holds, in the same form. Every read of an item carries it, so it is put together
    /// without the formatter.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        for (name, number) in [
            ("documentSize=", 0),
            (";documentsSize=", self.kilobytes),
            (";documentsCount=", self.items),
            (";collectionSize=", self.kilobytes),
            (";functions=", self.functions as u64),
            (";storedProcedures=", self.procedures as u64),
            (";triggers=", self.triggers as u64),
        ] {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        }
        out.push(b';');
    }

    /// The same as text.
    pub fn text(&self) -> String {
        let mut text = Vec::with_capacity(128);
        self.write(&mut text);
        String::from_utf8(text).expect("names and digits")
    }
}
