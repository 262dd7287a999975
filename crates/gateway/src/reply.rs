//! Answers: status, body, and facts by name.
//!
//! An operation builds a [`Reply`] by naming [`Facts`] (`session`, `etag`, `position`); it knows no wire.
//! HTTP writes them as headers (`reply/http.rs`; HTTP/1.1 straight into bytes, `reply/http1.rs`); another wire takes the [`Answer`] of the reply apart.
//! Bodies pass through as shared bytes, and nothing on this path formats.

mod facts;
mod feed;
mod http;
mod http1;
mod numbers;

pub use facts::{Fact, Facts, Owner, Session, Usage};
pub use feed::{FeedBody, FeedKind};
pub(crate) use http1::{Http1Answer, PassedHead, SentHead};

use crate::cluster::slices::SliceHint;
use crate::error::{self, status_of};
use ::http::{HeaderValue, StatusCode};
use armilla_model::charge::RequestCharge;
use armilla_model::session_token::SessionToken;
use armilla_model::{Error, binary_json};
use bytes::Bytes;
use std::borrow::Cow;
use std::sync::Arc;

/// The version of the protocol that answers name.
pub const API_VERSION: &str = "2020-07-15";

/// An answer in the making.
#[derive(Clone, Debug)]
pub struct Reply {
    status: StatusCode,
    /// Apart, because an answer is handed on many times.
    facts: Box<Facts>,
    charge: RequestCharge,
    /// How the charge is spread over ranges, where several answered.
    shares: Vec<(u32, RequestCharge)>,
    /// Operations of a bulk request that were throttled.
    throttled: u64,
    /// What a refused request was about.
    subject: Option<Subject>,
    /// Nothing was done, because another node has the account by now.
    is_elsewhere: bool,
    /// Whether the transaction that it tells of changed anything; nothing where it tells of no transaction, or of several.
    wrote: Option<bool>,
    payload: ReplyBody,
}

/// What a request is about, in the service's words: some clients tell a missing item from a missing
/// container by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    /// `Document`, `StoredProcedure`.
    pub resource: &'static str,
    /// `Read`, `Replace`.
    pub operation: &'static str,
}

/// A finished answer, ready to be written to any wire.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status, which all wires share with HTTP.
    pub status: StatusCode,
    /// What is told beside the body.
    pub facts: Box<Facts>,
    /// Request units.
    pub charge: RequestCharge,
    /// The body; nothing where there is none.
    pub body: Bytes,
    /// Its type; nothing where there is no body.
    pub content_type: Option<HeaderValue>,
}

#[derive(Clone, Debug)]
enum ReplyBody {
    Empty,
    Json(Bytes),
    Other(Bytes, HeaderValue),
    Failure(Box<Error>),
}

impl Reply {
    /// An answer without a body.
    pub fn new(status: StatusCode) -> Self {
        Self {
            status,
            facts: Box::default(),
            charge: RequestCharge::ZERO,
            shares: Vec::new(),
            throttled: 0,
            subject: None,
            is_elsewhere: false,
            wrote: None,
            payload: ReplyBody::Empty,
        }
    }

    /// An answer with a JSON body, passed on as it is.
    pub fn json(status: StatusCode, body: impl Into<Bytes>) -> Self {
        Self { payload: ReplyBody::Json(body.into()), ..Self::new(status) }
    }

    /// 200 with a JSON body.
    pub fn ok(body: impl Into<Bytes>) -> Self {
        Self::json(StatusCode::OK, body)
    }

    /// 201 with a JSON body.
    pub fn created(body: impl Into<Bytes>) -> Self {
        Self::json(StatusCode::CREATED, body)
    }

    /// 204.
    pub fn no_content() -> Self {
        Self::new(StatusCode::NO_CONTENT)
    }

    /// 304.
    pub fn not_modified() -> Self {
        Self::new(StatusCode::NOT_MODIFIED)
    }

    /// A page of a feed or query: the envelope as body and the number of its rows.
    pub fn feed(page: FeedBody) -> Self {
        let (body, count) = page.finish();
        Self::ok(body).item_count(count)
    }

    /// An answer with a body of another type than JSON.
    pub fn other(status: StatusCode, body: impl Into<Bytes>, content_type: HeaderValue) -> Self {
        Self { payload: ReplyBody::Other(body.into(), content_type), ..Self::new(status) }
    }

    /// The answer to a failure, with status and substatus from the table.
    pub fn error(failure: Error) -> Self {
        let found = status_of(&failure);
        let mut reply = Self::new(found.status).substatus(found.substatus);
        reply.facts.retry_after = error::retry_after(&failure);
        if let Error::InOtherSlice { slice, hashing, levels } = failure {
            let hint = SliceHint { slice, hashing, levels };
            reply.facts.more.push((Fact::OtherSlice, hint.write().into()));
        }
        reply.payload = ReplyBody::Failure(Box::new(failure));
        reply
    }

    /// The answer of a node that has just given the account up: nothing was done, and a gateway that can asks the node that has it.
    pub(crate) fn elsewhere(failure: Error) -> Self {
        Self { is_elsewhere: true, ..Self::error(failure) }
    }

    /// Whether another node has to be asked.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.is_elsewhere
    }

    /// Says whether the one transaction that was committed changed anything.
    #[must_use]
    pub fn wrote(self, wrote: bool) -> Self {
        Self { wrote: Some(wrote), ..self }
    }

    /// Whether the transaction that it tells of changed anything; nothing where that is not known.
    pub(crate) fn has_written(&self) -> Option<bool> {
        self.wrote
    }

    /// Says what a refused request was about. Where the resource's parent is missing, it was never looked
    /// for.
    pub(crate) fn about(mut self, subject: Option<Subject>) -> Self {
        self.subject = match self.failure() {
            Some(Error::ParentNotFound(_)) | None => None,
            Some(_) => subject,
        };
        self
    }

    /// The status so far.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// What was said so far.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Replaces the substatus of the table.
    pub fn substatus(mut self, substatus: u32) -> Self {
        self.facts.substatus = Some(substatus);
        self
    }

    /// Request units.
    pub fn charge(mut self, charge: RequestCharge) -> Self {
        self.charge = charge;
        self
    }

    /// What it costs so far.
    pub(crate) fn charged(&self) -> RequestCharge {
        self.charge
    }

    /// How the charge is spread over the ranges that answered together.
    pub(crate) fn shared(mut self, shares: Vec<(u32, RequestCharge)>) -> Self {
        self.shares = shares;
        self
    }

    /// How the charge is spread over ranges; empty where one answered.
    pub(crate) fn shares(&self) -> &[(u32, RequestCharge)] {
        &self.shares
    }

    /// Counts operations of a bulk request that were throttled.
    pub(crate) fn with_throttled(mut self, operations: u64) -> Self {
        self.throttled = operations;
        self
    }

    /// What was throttled: the request, or so many of its operations.
    pub(crate) fn throttled(&self) -> u64 {
        self.throttled + u64::from(self.status == StatusCode::TOO_MANY_REQUESTS)
    }

    /// The range that answered, and how far its log was: as session token and as LSN.
    pub fn position(mut self, position: SessionToken) -> Self {
        self.facts.session = Session::One(position);
        self.facts.range = Some(position.range);
        self.lsn(position.lsn.0)
    }

    /// The position that a session goes on from, where no range or more than one answered.
    pub fn session(mut self, session: Session) -> Self {
        self.facts.session = session;
        self
    }

    /// The etag, quotes included.
    pub fn etag(mut self, etag: impl Into<String>) -> Self {
        self.facts.etag = Some(etag.into());
        self
    }

    /// The owner of the resource, by names (`dbs/d1/colls/c1`) and by `_rid`.
    pub fn owner(mut self, path: impl Into<Arc<str>>, rid: impl Into<Arc<str>>) -> Self {
        self.facts.owner = Some(Owner { path: path.into(), rid: rid.into() });
        self
    }

    /// Rows in the page.
    pub fn item_count(mut self, count: usize) -> Self {
        self.facts.item_count = Some(count);
        self
    }

    /// The version that a write took the place of.
    pub(crate) fn replaced(mut self, text: Option<Bytes>) -> Self {
        self.facts.replaced = text;
        self
    }

    /// Where the next page begins; nothing on the last one.
    pub fn continuation(mut self, token: Option<String>) -> Self {
        self.facts.continuation = token;
        self
    }

    /// The partition's LSN after the operation.
    pub fn lsn(mut self, lsn: u64) -> Self {
        self.facts.lsn = Some(lsn);
        self
    }

    /// The LSN of the transaction that wrote the item, where the partition's is beside it.
    pub fn item_lsn(mut self, lsn: u64) -> Self {
        self.facts.item_lsn = Some(lsn);
        self
    }

    /// What the container holds.
    pub fn usage(mut self, usage: Usage) -> Self {
        self.facts.usage = Some(usage);
        self
    }

    /// Any other fact. A second text takes the place of the first.
    pub fn fact(mut self, fact: Fact, text: impl Into<Cow<'static, str>>) -> Self {
        self.facts.more.retain(|(known, _)| *known != fact);
        self.facts.more.push((fact, text.into()));
        self
    }

    /// Drops the body of a success: `Prefer: return=minimal`.
    pub fn minimal(mut self) -> Self {
        if matches!(self.payload, ReplyBody::Json(_)) {
            self.payload = ReplyBody::Empty;
        }
        self
    }

    /// The same with its JSON body in binary. Errors stay text, and so does what cannot be written otherwise.
    pub(crate) fn in_binary(mut self) -> Self {
        if let ReplyBody::Json(body) = &mut self.payload
            && let Ok(binary) = binary_json::from_text(body)
        {
            *body = binary.into();
        }
        self
    }

    /// The error this answer tells of.
    pub fn failure(&self) -> Option<&Error> {
        match &self.payload {
            ReplyBody::Failure(failure) => Some(failure),
            _ => None,
        }
    }

    /// The answer as a wire writes it. The document of a failure names the request's activity id.
    pub fn into_answer(self, activity_id: &[u8]) -> Answer {
        let Self { status, facts, charge, subject, payload, .. } = self;
        let (body, content_type) = match payload {
            ReplyBody::Empty => (Bytes::new(), None),
            ReplyBody::Json(body) => (body, Some(APPLICATION_JSON)),
            ReplyBody::Other(body, content_type) => (body, Some(content_type)),
            ReplyBody::Failure(failure) => {
                let activity_id = String::from_utf8_lossy(activity_id);
                let document = error::write_document(&failure, subject, &activity_id);
                (document.into(), Some(APPLICATION_JSON))
            }
        };
        Answer { status, facts, charge, body, content_type }
    }
}

impl From<Error> for Reply {
    fn from(failure: Error) -> Self {
        Self::error(failure)
    }
}

const APPLICATION_JSON: HeaderValue = HeaderValue::from_static("application/json");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_text_replaces_an_earlier_one() {
        let reply = Reply::ok("{}").fact(Fact::OfferReplacePending, "false");
        let reply = reply.fact(Fact::OfferReplacePending, "true");
        assert_eq!(reply.facts().more, [(Fact::OfferReplacePending, "true".into())]);
    }

    #[test]
    fn minimal_answers_keep_errors() {
        let body = |reply: Reply| reply.minimal().into_answer(b"an-id").body;
        assert!(body(Reply::ok("{}")).is_empty());
        assert!(!body(Reply::error(Error::conflict())).is_empty());
    }
}
