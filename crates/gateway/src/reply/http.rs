//! An answer as an HTTP response: facts become headers. Names are static, numbers go through `itoa`.

use super::numbers::{charge_value, decimal_value, millis_value};
use super::{API_VERSION, Answer, Fact, Facts, Reply, Session, Usage};
use crate::headers::{encode_non_ascii, names};
use armilla_model::session_token::SessionToken;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, ETAG};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use http_body_util::Full;
use std::borrow::Cow;
use std::sync::LazyLock;
use std::time::Duration;

/// Places for the headers of an ordinary answer, so that the map is made once.
const HEADERS_EXPECTED: usize = 20;

const VERSION_VALUE: HeaderValue = HeaderValue::from_static(API_VERSION);

impl Reply {
    /// Adds what every response carries and hands the whole to HTTP.
    pub(crate) fn into_http(
        self,
        method: &Method,
        activity_id: HeaderValue,
        duration: Duration,
    ) -> Response<Full<Bytes>> {
        let answer = self.into_answer(activity_id.as_bytes());
        let Answer { status, facts, charge, body, content_type } = answer;
        let mut headers = HeaderMap::with_capacity(HEADERS_EXPECTED);
        facts.write(&mut headers);
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

impl Facts {
    fn write(self, headers: &mut HeaderMap) {
        let mut number = |name: HeaderName, number: Option<u64>| {
            if let Some(number) = number {
                headers.insert(name, decimal_value(number));
            }
        };
        number(names::SUBSTATUS, self.substatus.map(u64::from));
        number(names::RETRY_AFTER, self.retry_after.map(whole_millis));
        number(names::RANGE_ID, self.range.map(u64::from));
        number(names::ITEM_COUNT, self.item_count.map(|count| count as u64));
        // The headers that clients look at. The others of the family speak of replicas, which only
        // clients in Direct mode follow; each header costs both sides time on every answer.
        number(names::ITEM_LSN, self.item_lsn.or(self.lsn));
        if let Some(value) = self.lsn.map(decimal_value) {
            headers.insert(names::LOCAL_LSN, value.clone());
            headers.insert(names::GLOBAL_COMMITTED_LSN, value.clone());
            headers.insert(names::LSN, value);
        }
        match self.session {
            Session::Untold => {}
            Session::One(token) => {
                headers.insert(names::SESSION_TOKEN, session_value(token));
            }
            Session::Several(tokens) => {
                headers.insert(names::SESSION_TOKEN, text_value(tokens.into()));
            }
        }
        if let Some(etag) = self.etag {
            headers.insert(ETAG, text_value(etag.into()));
        }
        if let Some(owner) = self.owner {
            headers.insert(names::ALT_CONTENT_PATH, text_value(owner.path.as_ref().into()));
            headers.insert(names::CONTENT_PATH, text_value(owner.rid.as_ref().into()));
        }
        if let Some(token) = self.continuation {
            headers.insert(names::CONTINUATION, text_value(token.into()));
        }
        if let Some(usage) = self.usage {
            headers.insert(names::RESOURCE_QUOTA, QUOTA.clone());
            headers.insert(names::RESOURCE_USAGE, text_value(usage.text().into()));
        }
        for (fact, text) in self.more {
            headers.insert(fact.header(), text_value(text));
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
            Self::MediaStorageMax => names::MEDIA_STORAGE_MAX,
            Self::MediaStorage => names::MEDIA_STORAGE,
        }
    }
}

static QUOTA: LazyLock<HeaderValue> = LazyLock::new(|| text_value(Usage::quota().into()));

/// Rounded up: a client that comes too early is sent away again.
fn whole_millis(wait: Duration) -> u64 {
    u64::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(u64::MAX)
}

/// As [`SessionToken`] writes itself, without the detour through the formatter.
fn session_value(token: SessionToken) -> HeaderValue {
    let (mut range, mut lsn) = (itoa::Buffer::new(), itoa::Buffer::new());
    text_value([range.format(token.range), ":-1#", lsn.format(token.lsn.0)].concat().into())
}

/// A header from text, uncopied where the text is owned; bytes that a header cannot hold are
/// percent-encoded.
fn text_value(text: Cow<'_, str>) -> HeaderValue {
    let text = match encode_non_ascii(&text) {
        Cow::Owned(encoded) => encoded,
        Cow::Borrowed(_) => text.into_owned(),
    };
    HeaderValue::from_maybe_shared(Bytes::from(text))
        .expect("percent-encoded text is printable ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_model::Error;
    use armilla_model::charge::RequestCharge;
    use armilla_model::lsn::Lsn;

    fn finish(reply: Reply) -> Response<Full<Bytes>> {
        let id = HeaderValue::from_static("an-id");
        reply.into_http(&Method::GET, id, Duration::from_micros(1234))
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
