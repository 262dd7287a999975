//! A small signing REST client: what the chores need without an SDK.
//!
//! Blocking, one agent per client with keep-alive. Names used with it are plain ASCII, so paths need
//! no escaping and the signed resource link is the path itself.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::Value;
use sha2::Sha256;
use ureq::Agent;
use ureq::http::{HeaderMap, Request};

use crate::Outcome;

/// The published key of local emulators; on loopback the server accepts it by default.
pub(crate) const WELL_KNOWN_KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

/// No single answer of a healthy local server takes longer.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// The version of the protocol that requests name.
const VERSION: &str = "2020-07-15";
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// An answer in full.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    /// A header as text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Whether the request was done.
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// Sends signed requests to one server.
#[derive(Clone)]
pub(crate) struct Client {
    agent: Agent,
    base: String,
    key: Vec<u8>,
}

impl Client {
    /// A client for the server at `base` (no slash at the end), with the well-known key.
    pub(crate) fn new(base: &str) -> Self {
        let key = STANDARD.decode(WELL_KNOWN_KEY).expect("the published key is base64");
        Self { agent: agent(ANSWER_WITHIN), base: base.to_owned(), key }
    }

    /// The same client with another account key, in base64.
    pub(crate) fn with_key(self, key: &str) -> Outcome<Self> {
        Ok(Self { key: STANDARD.decode(key)?, ..self })
    }

    /// Whether the server says that it is ready to serve.
    pub(crate) fn is_ready(&self) -> bool {
        let answer = self.agent.get(format!("{}/ready", self.base)).call();
        answer.is_ok_and(|answer| answer.status() == 200)
    }

    /// The certificate of the server's authority, in PEM.
    pub(crate) fn certificate(&self) -> Outcome<String> {
        let mut answer = self.agent.get(format!("{}/_explorer/emulator.pem", self.base)).call()?;
        Ok(answer.body_mut().read_to_string()?)
    }

    /// Sends one signed request. An error means that no whole answer came back.
    pub(crate) fn send(
        &self,
        verb: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Outcome<Answer> {
        self.send_signed(self.signed(verb, path), (verb, path), headers, body)
    }

    /// Where the owner of a range of a container is, or of the catalog, as clients in Direct mode ask for it: by the path of the items in
    /// `_rid`s, or `dbs`.
    pub(crate) fn addresses(&self, resolve_for: &str, range: &str) -> Outcome<Answer> {
        let items = percent_encoded(resolve_for);
        let path = format!("/addresses/?$resolveFor={items}&$partitionKeyRangeIds={range}");
        let mut segments = resolve_for.rsplit('/');
        let kind = segments.next().unwrap_or_default();
        let rid = segments.next().unwrap_or_default().to_lowercase();
        self.send_signed(self.signed_as("GET", (kind, &rid)), ("GET", &path), &[], None)
    }

    fn send_signed(
        &self,
        signed: [(&'static str, String); 3],
        (verb, path): (&str, &str),
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Outcome<Answer> {
        let mut request = Request::builder()
            .method(verb)
            .uri(format!("{}{path}", self.base))
            .header("content-type", "application/json");
        for (name, value) in signed {
            request = request.header(name, value);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let bytes = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let mut answer = if matches!(verb, "GET" | "DELETE") {
            self.agent.run(request.body(())?)?
        } else {
            self.agent.run(request.body(bytes)?)?
        };
        let text = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec()?;
        let body = if text.is_empty() { Value::Null } else { serde_json::from_slice(&text)? };
        Ok(Answer { status: answer.status().as_u16(), headers: answer.headers().clone(), body })
    }

    /// The same client, which waits longer for an answer.
    pub(crate) fn patient(&self, within: Duration) -> Self {
        Self { agent: agent(within), ..self.clone() }
    }

    /// The headers that sign a request, for those who send it by themselves.
    pub(crate) fn signed(&self, verb: &str, path: &str) -> [(&'static str, String); 3] {
        let (kind, link) = signed_resource(path);
        self.signed_as(verb, (kind, &link))
    }

    fn signed_as(&self, verb: &str, resource: (&str, &str)) -> [(&'static str, String); 3] {
        let date = http_date();
        [
            ("authorization", self.authorization(verb, resource, &date)),
            ("x-ms-date", date),
            ("x-ms-version", VERSION.to_owned()),
        ]
    }

    fn authorization(&self, verb: &str, (kind, link): (&str, &str), date: &str) -> String {
        let text = format!("{}\n{kind}\n{link}\n{}\n\n", verb.to_lowercase(), date.to_lowercase());
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("any key length will do");
        mac.update(text.as_bytes());
        let signature = STANDARD.encode(mac.finalize().into_bytes());
        percent_encoded(&format!("type=master&ver=1.0&sig={signature}"))
    }
}

fn agent(within: Duration) -> Agent {
    Agent::config_builder()
        .http_status_as_error(false)
        .proxy(None)
        .timeout_global(Some(within))
        .max_idle_connections_per_host(64)
        .max_idle_connections(64)
        .build()
        .new_agent()
}

/// The resource type and link that are signed: for a feed its kind and its parent, else the resource.
fn signed_resource(path: &str) -> (&str, Cow<'_, str>) {
    let path = path.trim_matches('/');
    let segments: Vec<&str> = path.split('/').collect();
    if let ["offers", rid] = segments[..] {
        // An offer is signed by its rid alone, in lower case.
        return ("offers", rid.to_lowercase().into());
    }
    if let ["_armilla", "subs", link @ ..] = &segments[..]
        && let Some((container, rest)) = link.split_at_checked(4)
    {
        // As if subscriptions lay beside scripts.
        let link = container.iter().copied();
        let own = rest.first().into_iter().flat_map(|id| ["subs", *id]);
        return ("subs", link.chain(own).collect::<Vec<_>>().join("/").into());
    }
    let (last, before) = (segments.len() - 1, segments.len().saturating_sub(2));
    if segments.len().is_multiple_of(2) {
        (segments[before], path.into())
    } else {
        let parent = path.rfind('/').map_or("", |end| &path[..end]);
        (segments[last], parent.into())
    }
}

fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[expect(clippy::disallowed_methods, reason = "the server compares it with the real time")]
fn http_date() -> String {
    httpdate::fmt_http_date(SystemTime::now())
}

/// Now, as the server's items are stamped.
#[expect(clippy::disallowed_methods, reason = "it is compared with the server's real time")]
pub(crate) fn unix_seconds() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feeds_sign_their_parent_and_resources_themselves() {
        assert_eq!(signed_resource("/"), ("", "".into()));
        assert_eq!(signed_resource("/offers/Xk3c"), ("offers", "xk3c".into()));
        assert_eq!(signed_resource("/dbs"), ("dbs", "".into()));
        let (container, one) = ("dbs/d/colls/c", "dbs/d/colls/c/subs/s");
        assert_eq!(signed_resource("/_armilla/subs/dbs/d/colls/c"), ("subs", container.into()));
        assert_eq!(signed_resource("/_armilla/subs/dbs/d/colls/c/s/status"), ("subs", one.into()));
        assert_eq!(signed_resource("/dbs/d"), ("dbs", "dbs/d".into()));
        assert_eq!(signed_resource("/dbs/d/colls/c/docs"), ("docs", "dbs/d/colls/c".into()));
        assert_eq!(
            signed_resource("/dbs/d/colls/c/docs/i"),
            ("docs", "dbs/d/colls/c/docs/i".into())
        );
    }

    #[test]
    fn signature_matches_one_computed_by_the_python_sdk() {
        let client = Client::new("http://localhost");
        assert_eq!(client.authorization("GET", ("docs", "dbs/d1/colls/c1/docs/a"), DATE), EXPECTED);
    }

    const DATE: &str = "Sun, 15 Nov 2026 19:24:19 GMT";
    const EXPECTED: &str =
        "type%3Dmaster%26ver%3D1.0%26sig%3Da4VjIIhhSYRhfmPtm6WDiOBvl0jrPRlv85pR0K%2FfkpE%3D";
}
