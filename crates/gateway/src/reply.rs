//! Answers: status, body and the headers that SDKs rely on.
//!
//! An operation builds a [`Reply`] by naming facts (`session_token`, `etag`, `lsn`); the gateway
//! finishes it with what every response carries. Bodies pass through as shared bytes. Header
//! names are static, numbers go through `itoa`, and nothing on this path formats.

mod feed;
mod numbers;

pub use feed::{FeedBody, FeedKind};

use crate::error::{self, status_of};
use crate::headers::{encode_non_ascii, names};
use armilla_model::charge::RequestCharge;
use armilla_model::{Error, binary_json};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, ETAG};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use http_body_util::Full;
use numbers::{charge_value, decimal_value, millis_value};
use std::time::Duration;

/// The version of the protocol that answers name.
pub const API_VERSION: &str = "2020-07-15";

/// Places for the headers of an ordinary answer, so that the map is made once.
const HEADERS_EXPECTED: usize = 20;

/// An answer in the making.
#[derive(Clone, Debug)]
pub struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    charge: RequestCharge,
    /// How the charge is spread over ranges, where several answered.
    shares: Vec<(u32, RequestCharge)>,
    /// Operations of a bulk request that were throttled.
    throttled: u64,
    /// What a refused request was about.
    subject: Option<Subject>,
    payload: Payload,
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

#[derive(Clone, Debug)]
enum Payload {
    Empty,
    Json(Bytes),
    Other(Bytes, HeaderValue),
    Failure(Box<Error>),
}

impl Reply {
    /// An answer without a body.
    pub fn new(status: StatusCode) -> Self {
        let headers = HeaderMap::with_capacity(HEADERS_EXPECTED);
        let (charge, shares) = (RequestCharge::ZERO, Vec::new());
        Self {
            status,
            headers,
            charge,
            shares,
            throttled: 0,
            subject: None,
            payload: Payload::Empty,
        }
    }

    /// An answer with a JSON body, passed on as it is.
    pub fn json(status: StatusCode, body: impl Into<Bytes>) -> Self {
        Self { payload: Payload::Json(body.into()), ..Self::new(status) }
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
        Self { payload: Payload::Other(body.into(), content_type), ..Self::new(status) }
    }

    /// The answer to a failure, with status and substatus from the table.
    pub fn error(failure: Error) -> Self {
        let found = status_of(&failure);
        let mut reply = Self::new(found.status).substatus(found.substatus);
        if let Some(wait) = error::retry_after(&failure) {
            // Rounded up: a client that comes too early is sent away again.
            let millis = u64::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(u64::MAX);
            reply = reply.header(names::RETRY_AFTER, decimal_value(millis));
        }
        reply.payload = Payload::Failure(Box::new(failure));
        reply
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

    /// Replaces the status: a batch in which something failed is 207.
    pub fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// Replaces the substatus of the table.
    pub fn substatus(self, substatus: u32) -> Self {
        self.header(names::SUBSTATUS, decimal_value(u64::from(substatus)))
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

    /// The range that answered, if it was one.
    pub(crate) fn answered_by(&self) -> Option<u32> {
        self.headers.get(names::RANGE_ID)?.to_str().ok()?.parse().ok()
    }

    /// Leaves a header out.
    pub(crate) fn without(mut self, name: &HeaderName) -> Self {
        self.headers.remove(name);
        self
    }

    /// `{range}:-1#{lsn}`, several joined by commas.
    pub fn session_token(self, token: &str) -> Self {
        self.text_header(names::SESSION_TOKEN, token)
    }

    /// The range that served the request.
    pub fn range_id(self, id: &str) -> Self {
        self.text_header(names::RANGE_ID, id)
    }

    /// The etag, quotes included.
    pub fn etag(self, etag: &str) -> Self {
        self.text_header(ETAG, etag)
    }

    /// The owner of the resource, by names (`dbs/d1/colls/c1`) and by `_rid`.
    pub fn owner(self, names_path: &str, rid: &str) -> Self {
        self.text_header(names::ALT_CONTENT_PATH, names_path).text_header(names::CONTENT_PATH, rid)
    }

    /// Rows in the page.
    pub fn item_count(self, count: usize) -> Self {
        self.header(names::ITEM_COUNT, decimal_value(count as u64))
    }

    /// Where the next page begins; nothing on the last one.
    pub fn continuation(self, token: Option<&str>) -> Self {
        match token {
            Some(token) => self.text_header(names::CONTINUATION, token),
            None => self,
        }
    }

    /// The partition's LSN after the operation, in the headers that clients look at. The others of
    /// the family speak of replicas, which only clients in Direct mode follow; each header costs
    /// both sides time on every answer.
    pub fn lsn(mut self, lsn: u64) -> Self {
        let value = decimal_value(lsn);
        for name in [names::ITEM_LSN, names::LOCAL_LSN, names::GLOBAL_COMMITTED_LSN] {
            self.headers.insert(name, value.clone());
        }
        self.header(names::LSN, value)
    }

    /// The LSN of the transaction that wrote the item, where the partition's is beside it.
    pub fn item_lsn(self, lsn: u64) -> Self {
        self.header(names::ITEM_LSN, decimal_value(lsn))
    }

    /// Any other header.
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// A header from text; bytes that a header cannot hold are percent-encoded.
    pub fn text_header(self, name: HeaderName, text: &str) -> Self {
        let value = HeaderValue::from_str(&encode_non_ascii(text))
            .expect("percent-encoded text is printable ASCII");
        self.header(name, value)
    }

    /// Drops the body of a success: `Prefer: return=minimal`.
    pub fn minimal(mut self) -> Self {
        if matches!(self.payload, Payload::Json(_)) {
            self.payload = Payload::Empty;
        }
        self
    }

    /// The same with its JSON body in binary. Errors stay text, and so does what cannot be written otherwise.
    pub(crate) fn in_binary(mut self) -> Self {
        if let Payload::Json(body) = &mut self.payload
            && let Ok(binary) = binary_json::from_text(body)
        {
            *body = binary.into();
        }
        self
    }

    /// The error this answer tells of.
    pub fn failure(&self) -> Option<&Error> {
        match &self.payload {
            Payload::Failure(failure) => Some(failure),
            _ => None,
        }
    }

    /// Adds what every response carries and hands the whole to HTTP.
    pub(crate) fn finish(
        self,
        method: &Method,
        activity_id: HeaderValue,
        duration: Duration,
    ) -> Response<Full<Bytes>> {
        let Self { status, mut headers, charge, subject, payload, .. } = self;
        let (body, content_type) = match payload {
            Payload::Empty => (Bytes::new(), None),
            Payload::Json(body) => (body, Some(APPLICATION_JSON)),
            Payload::Other(body, content_type) => (body, Some(content_type)),
            Payload::Failure(failure) => {
                let activity_id = String::from_utf8_lossy(activity_id.as_bytes());
                let document = error::write_document(&failure, subject, &activity_id);
                (document.into(), Some(APPLICATION_JSON))
            }
        };
        if let Some(content_type) = content_type {
            headers.insert(CONTENT_TYPE, content_type);
        }
        headers.insert(names::ACTIVITY_ID, activity_id);
        headers.insert(names::REQUEST_CHARGE, charge_value(charge));
        headers.insert(names::REQUEST_DURATION, millis_value(duration));
        headers.insert(names::VERSION, VERSION_VALUE);
        // A body after 204, 304 or HEAD would be taken for the next answer.
        let bodyless = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
            || *method == Method::HEAD;
        let mut response = Response::new(Full::new(if bodyless { Bytes::new() } else { body }));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }
}

impl From<Error> for Reply {
    fn from(failure: Error) -> Self {
        Self::error(failure)
    }
}

const APPLICATION_JSON: HeaderValue = HeaderValue::from_static("application/json");
const VERSION_VALUE: HeaderValue = HeaderValue::from_static(API_VERSION);

#[cfg(test)]
mod tests {
    use super::*;

    fn finish(reply: Reply) -> Response<Full<Bytes>> {
        let id = HeaderValue::from_static("an-id");
        reply.finish(&Method::GET, id, Duration::from_micros(1234))
    }

    fn header<'a>(response: &'a Response<Full<Bytes>>, name: &str) -> &'a str {
        response.headers().get(name).map_or("", |value| value.to_str().unwrap())
    }

    #[test]
    fn every_answer_has_the_common_headers() {
        for reply in [Reply::ok("{}"), Reply::no_content(), Reply::error(Error::not_found())] {
            let response = finish(reply.charge(RequestCharge::from_21sts(120)));
            assert_eq!(header(&response, "x-ms-request-charge"), "5.71");
            assert_eq!(header(&response, "x-ms-activity-id"), "an-id");
            assert_eq!(header(&response, "x-ms-version"), API_VERSION);
            assert_eq!(header(&response, "x-ms-request-duration-ms"), "1.234");
        }
    }

    #[test]
    fn facts_become_headers() {
        let reply = Reply::created("{}")
            .session_token("0:-1#13")
            .range_id("0")
            .etag("\"e\"")
            .owner("dbs/ü/colls/c", "uQEAAIAAAAE=")
            .continuation(None)
            .lsn(13);
        let response = finish(reply);
        assert_eq!(response.status(), 201);
        assert_eq!(header(&response, "x-ms-session-token"), "0:-1#13");
        assert_eq!(header(&response, "etag"), "\"e\"");
        assert_eq!(header(&response, "lsn"), "13");
        assert_eq!(header(&response, "x-ms-alt-content-path").as_bytes(), b"dbs/%C3%BC/colls/c");
        assert_eq!(header(&response, "content-type"), "application/json");
        assert!(!response.headers().contains_key("x-ms-continuation"));
    }

    #[test]
    fn throttling_says_when_to_come_back() {
        let failure = Error::TooManyRequests { retry_after: Duration::from_micros(10_001) };
        let response = finish(Reply::error(failure));
        assert_eq!(response.status(), 429);
        assert_eq!(header(&response, "x-ms-substatus"), "3200");
        assert_eq!(header(&response, "x-ms-retry-after-ms"), "11");
    }

    #[test]
    fn minimal_answers_keep_errors() {
        use http_body::Body as _;
        assert!(finish(Reply::ok("{}").minimal()).body().is_end_stream());
        assert!(!finish(Reply::error(Error::conflict()).minimal()).body().is_end_stream());
    }
}
