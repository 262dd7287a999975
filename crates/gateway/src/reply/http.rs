//! An answer as headers: facts by the names that HTTP has for them, in whichever form a version of HTTP wants them.

use super::numbers::{write_charge, write_decimal, write_millis};
use super::{API_VERSION, Answer, Fact, Facts, Reply, Session, Usage};
use crate::headers::{encode_non_ascii, names};
use armilla_model::session_token::SessionToken;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, ETAG};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use http_body_util::Full;
use std::time::Duration;

/// Places for the headers of an ordinary answer, so that the map is made once.
const HEADERS_EXPECTED: usize = 20;

/// Where the headers of an answer go.
pub(super) trait HeaderSink {
    /// Takes a header. Its value is written as printable ASCII behind what is there.
    fn put(&mut self, name: HeaderName, write: impl FnOnce(&mut Vec<u8>));
}

/// Headers as a map.
struct HeadersInMap {
    headers: HeaderMap,
    value: Vec<u8>,
}

impl HeaderSink for HeadersInMap {
    fn put(&mut self, name: HeaderName, write: impl FnOnce(&mut Vec<u8>)) {
        self.value.clear();
        write(&mut self.value);
        let value = HeaderValue::from_bytes(&self.value).expect("values are printable ASCII");
        self.headers.insert(name, value);
    }
}

impl Reply {
    /// Adds what every response carries and hands the whole to HTTP.
    pub(crate) fn into_http(
        self,
        method: &Method,
        activity_id: &HeaderValue,
        duration: Duration,
    ) -> Response<Full<Bytes>> {
        let headers = HeaderMap::with_capacity(HEADERS_EXPECTED);
        let mut sink = HeadersInMap { headers, value: Vec::with_capacity(128) };
        let answer = self.into_answer(activity_id.as_bytes());
        let Answer { status, body, .. } = answer.write(activity_id.as_bytes(), duration, &mut sink);
        // A body after 204, 304 or HEAD would be taken for the next answer.
        let bodyless = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
            || *method == Method::HEAD;
        let mut response = Response::new(Full::new(if bodyless { Bytes::new() } else { body }));
        *response.status_mut() = status;
        *response.headers_mut() = sink.headers;
        response
    }
}

impl Answer {
    /// Writes the headers; what is left are status and body.
    pub(super) fn write(
        self,
        activity_id: &[u8],
        duration: Duration,
        headers: &mut impl HeaderSink,
    ) -> Self {
        self.facts.write(headers);
        if let Some(content_type) = &self.content_type {
            headers.put(CONTENT_TYPE, |out| out.extend_from_slice(content_type.as_bytes()));
        }
        headers.put(names::ACTIVITY_ID, |out| out.extend_from_slice(activity_id));
        headers.put(names::REQUEST_CHARGE, |out| write_charge(self.charge, out));
        headers.put(names::REQUEST_DURATION, |out| write_millis(duration, out));
        headers.put(names::VERSION, |out| out.extend_from_slice(API_VERSION.as_bytes()));
        self
    }
}

impl Facts {
    fn write(&self, headers: &mut impl HeaderSink) {
        let mut number = |name: HeaderName, number: Option<u64>| {
            if let Some(number) = number {
                headers.put(name, |out| write_decimal(number, out));
            }
        };
        number(names::SUBSTATUS, self.substatus.map(u64::from));
        number(names::RETRY_AFTER, self.retry_after.map(whole_millis));
        number(names::RANGE_ID, self.range.map(u64::from));
        number(names::ITEM_COUNT, self.item_count.map(|count| count as u64));
        // The headers that clients look at. The others of the family speak of replicas, which only
        // clients in Direct mode follow; each header costs both sides time on every answer.
        number(names::ITEM_LSN, self.item_lsn.or(self.lsn));
        number(names::LOCAL_LSN, self.lsn);
        number(names::GLOBAL_COMMITTED_LSN, self.lsn);
        number(names::LSN, self.lsn);
        match &self.session {
            Session::Untold => {}
            Session::One(token) => headers.put(names::SESSION_TOKEN, |out| {
                write_session(*token, out);
            }),
            Session::Several(tokens) => headers.put(names::SESSION_TOKEN, |out| {
                write_text(tokens, out);
            }),
        }
        if let Some(etag) = &self.etag {
            headers.put(ETAG, |out| write_text(etag, out));
        }
        if let Some(owner) = &self.owner {
            headers.put(names::ALT_CONTENT_PATH, |out| write_text(&owner.path, out));
            headers.put(names::CONTENT_PATH, |out| write_text(&owner.rid, out));
        }
        if let Some(token) = &self.continuation {
            headers.put(names::CONTINUATION, |out| write_text(token, out));
        }
        if let Some(usage) = &self.usage {
            headers.put(names::RESOURCE_QUOTA, |out| {
                out.extend_from_slice(Usage::quota().as_bytes());
            });
            headers.put(names::RESOURCE_USAGE, |out| usage.write(out));
        }
        for (fact, text) in &self.more {
            headers.put(fact.header(), |out| write_text(text, out));
        }
    }
}

impl Fact {
    fn header(self) -> HeaderName {
        match self {
            Self::QueryMetrics => names::QUERY_METRICS,
            Self::IndexUtilization => names::INDEX_UTILIZATION,
            Self::QueryAdvice => names::QUERY_ADVICE,
            Self::QueryExecutionInfo => names::QUERY_EXECUTION_INFO,
            Self::RequiresDistribution => names::REQUIRES_DISTRIBUTION,
            Self::Explain => names::EXPLAIN,
            Self::ScriptLog => names::SCRIPT_LOG,
            Self::IndexProgress => names::INDEX_PROGRESS,
            Self::MinThroughput => names::MIN_THROUGHPUT,
            Self::OfferReplacePending => names::OFFER_REPLACE_PENDING,
            Self::ShareThroughput => names::SHARE_THROUGHPUT,
            Self::WouldThrottle => names::WOULD_THROTTLE,
            Self::OtherSlice => names::OTHER_SLICE,
            Self::Part => names::PART,
            Self::Turn => names::TURN,
            Self::MediaStorageMax => names::MEDIA_STORAGE_MAX,
            Self::MediaStorage => names::MEDIA_STORAGE,
        }
    }
}

/// Rounded up: a client that comes too early is sent away again.
fn whole_millis(wait: Duration) -> u64 {
    u64::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(u64::MAX)
}

/// As [`SessionToken`] writes itself, without the detour through the formatter.
fn write_session(token: SessionToken, out: &mut Vec<u8>) {
    write_decimal(u64::from(token.range), out);
    out.extend_from_slice(b":-1#");
    write_decimal(token.lsn.0, out);
}

/// Text whose bytes that a header cannot hold are percent-encoded.
fn write_text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(encode_non_ascii(text).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_model::Error;
    use armilla_model::charge::RequestCharge;
    use armilla_model::lsn::Lsn;

    fn finish(reply: Reply) -> Response<Full<Bytes>> {
        let id = HeaderValue::from_static("an-id");
        reply.into_http(&Method::GET, &id, Duration::from_micros(1234))
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
            .position(SessionToken { range: 0, lsn: Lsn(13) })
            .etag("\"e\"")
            .owner("dbs/ü/colls/c", "uQEAAIAAAAE=")
            .continuation(None)
            .fact(Fact::ScriptLog, "a%20b");
        let response = finish(reply);
        assert_eq!(response.status(), 201);
        assert_eq!(header(&response, "x-ms-session-token"), "0:-1#13");
        assert_eq!(header(&response, "x-ms-documentdb-partitionkeyrangeid"), "0");
        assert_eq!(header(&response, "etag"), "\"e\"");
        for name in ["lsn", "x-ms-item-lsn", "x-ms-cosmos-llsn", "x-ms-global-committed-lsn"] {
            assert_eq!(header(&response, name), "13");
        }
        assert_eq!(header(&response, "x-ms-alt-content-path").as_bytes(), b"dbs/%C3%BC/colls/c");
        assert_eq!(header(&response, "content-type"), "application/json");
        assert_eq!(header(&response, "x-ms-documentdb-script-log-results"), "a%20b");
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
}
