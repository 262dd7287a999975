//! A small client of the REST protocol, for the commands that talk to a server.
//!
//! [`Client::send`] does one signed request and repeats it as long as the server says "later";
//! around it stand one short file per kind of operation: [`items`], [`query`], [`scripts`],
//! [`resources`]. An [`Answer`] keeps everything that came back, because most commands show what a
//! request cost. [`connect`] says which server, with which key, over which transport.

pub(crate) mod connect;
pub(crate) mod error;
pub(crate) mod fetch;
pub(crate) mod items;
pub(crate) mod query;
pub(crate) mod resources;
pub(crate) mod scripts;

pub(crate) use connect::{ConnectOptions, Endpoint};
pub(crate) use error::{ClientError, Outcome};

use armilla_gateway::auth::Signer;
use armilla_model::clock::Clock;
use bytes::Bytes;
use connect::Transport;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt as _, Full, Limited};
use serde_json::Value;
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

/// Version of the protocol that is spoken.
const API_VERSION: &str = "2020-07-15";
/// No single answer takes longer; scripts and scans of other servers may take their time.
const ANSWER_WITHIN: Duration = Duration::from_secs(300);
/// Largest answer: a full page with room for its envelope.
const ANSWER_SIZE_MAX: usize = 64 * 1024 * 1024;
/// How often a request is repeated because the server said "later".
const RETRIES_MAX: u32 = 200;
/// Pause when the server does not say how long.
const RETRY_PAUSE: Duration = Duration::from_millis(5);
/// Longest pause that is believed.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(30);

/// Sends signed requests to one server; clones share its connections.
#[derive(Clone)]
pub(crate) struct Client {
    transport: Transport,
    base: Arc<str>,
    signer: Signer,
    clock: Arc<dyn Clock>,
    /// The activity that all its requests belong to.
    activity: Option<Arc<str>>,
}

/// One request before it is signed.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    method: Method,
    path: String,
    query: String,
    headers: Vec<(&'static str, String)>,
    body: Bytes,
}

/// Everything that came back.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// How often the server said "later" before.
    pub(crate) throttled: u32,
}

impl Call {
    /// A request to the path of these segments, which are encoded here.
    pub(crate) fn new(method: Method, segments: &[&str]) -> Self {
        let mut path = String::with_capacity(64);
        for segment in segments {
            path.push('/');
            percent_encode(segment, &mut path);
        }
        if path.is_empty() {
            path.push('/');
        }
        Self { method, path, query: String::new(), headers: Vec::new(), body: Bytes::new() }
    }

    /// Adds what stands behind the question mark, which is not signed.
    pub(crate) fn query(mut self, pairs: &[(&str, &str)]) -> Self {
        for (at, (name, value)) in pairs.iter().enumerate() {
            self.query.push(if at == 0 { '?' } else { '&' });
            self.query.push_str(name);
            self.query.push('=');
            percent_encode(value, &mut self.query);
        }
        self
    }

    /// Adds a header.
    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Adds a header when there is a value for it.
    pub(crate) fn header_if(self, name: &'static str, value: Option<impl Into<String>>) -> Self {
        match value {
            Some(value) => self.header(name, value),
            None => self,
        }
    }

    /// Sets the body.
    pub(crate) fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }
}

impl Client {
    /// A client for a server. Nothing is sent yet.
    pub(crate) fn new(endpoint: &Endpoint, clock: Arc<dyn Clock>) -> Outcome<Self> {
        let signer = Signer::new(&endpoint.key)
            .map_err(|error| ClientError::Unusable(error.message().to_owned()))?;
        let transport = connect::transport(endpoint)?;
        let base = endpoint.base.as_str().into();
        Ok(Self { transport, base, signer, clock, activity: None })
    }

    /// The same client, whose requests belong to one activity: an observer takes them together.
    #[must_use]
    pub(crate) fn within(&self, activity: &str) -> Self {
        Self { activity: Some(activity.into()), ..self.clone() }
    }

    /// Sends a request; one that the server puts off (429, 449) is sent again when it says.
    /// Every other status is an answer.
    pub(crate) async fn send(&self, call: Call) -> Outcome<Answer> {
        let mut throttled = 0;
        loop {
            let mut answer = self.send_once(&call).await?;
            if !matches!(answer.status, 429 | 449) || throttled == RETRIES_MAX {
                answer.throttled = throttled;
                return Ok(answer);
            }
            throttled += 1;
            let pause = answer.number("x-ms-retry-after-ms").map_or(RETRY_PAUSE, |millis| {
                Duration::from_millis(millis.max(1.0) as u64).min(RETRY_PAUSE_MAX)
            });
            tokio::time::sleep(pause).await;
        }
    }

    async fn send_once(&self, call: &Call) -> Outcome<Answer> {
        let request = self.signed(call)?;
        let exchange = async {
            let response = self.transport.request(request).await.map_err(|error| {
                ClientError::Unreachable { base: self.base.to_string(), why: chain(&error) }
            })?;
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, ANSWER_SIZE_MAX).collect().await;
            let body = body.map_err(|error| ClientError::Unreachable {
                base: self.base.to_string(),
                why: format!("the connection ended in the middle of the answer: {error}"),
            })?;
            Ok(Answer {
                status: parts.status.as_u16(),
                headers: parts.headers,
                body: body.to_bytes(),
                throttled: 0,
            })
        };
        let timed_out = || ClientError::Unreachable {
            base: self.base.to_string(),
            why: format!("no answer within {} seconds", ANSWER_WITHIN.as_secs()),
        };
        tokio::time::timeout(ANSWER_WITHIN, exchange).await.map_err(|_| timed_out())?
    }

    fn signed(&self, call: &Call) -> Outcome<Request<Full<Bytes>>> {
        let now = UNIX_EPOCH + Duration::from_secs(self.clock.now_seconds());
        let date = httpdate::fmt_http_date(now);
        let authorization = self
            .signer
            .authorization(&call.method, &call.path, &date)
            .map_err(|error| ClientError::Unusable(error.message().to_owned()))?;
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(format!("{}{}{}", self.base, call.path, call.query))
            .header("authorization", authorization)
            .header("x-ms-date", date)
            .header("x-ms-version", API_VERSION)
            .header("accept", "application/json")
            .header("user-agent", concat!("armilla/", env!("CARGO_PKG_VERSION")));
        if let Some(activity) = &self.activity {
            request = request.header("x-ms-activity-id", &**activity);
        }
        let typed = call.headers.iter().any(|(name, _)| *name == "content-type");
        if !call.body.is_empty() && !typed {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in &call.headers {
            request = request.header(*name, value);
        }
        request
            .body(Full::new(call.body.clone()))
            .map_err(|error| ClientError::Unusable(format!("the request cannot be sent: {error}")))
    }
}

impl Answer {
    /// A header as text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    fn number(&self, name: &str) -> Option<f64> {
        self.header(name).and_then(|text| text.parse().ok())
    }

    /// Request units.
    pub(crate) fn charge(&self) -> f64 {
        self.number("x-ms-request-charge").unwrap_or(0.0)
    }

    /// Where the next page begins.
    pub(crate) fn continuation(&self) -> Option<String> {
        self.header("x-ms-continuation").filter(|token| !token.is_empty()).map(str::to_owned)
    }

    /// Whether the request was done.
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The answer when the request was done, else its status and message as an error.
    pub(crate) fn success(self) -> Outcome<Self> {
        if self.is_success() { Ok(self) } else { Err(ClientError::refused(&self)) }
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Outcome<Value> {
        serde_json::from_slice(&self.body).map_err(ClientError::unreadable)
    }

    /// The rows of a page, each as the text it was sent in.
    pub(crate) fn rows(&self) -> Outcome<Vec<Box<RawValue>>> {
        #[derive(serde::Deserialize)]
        struct Page {
            #[serde(rename = "Documents")]
            documents: Vec<Box<RawValue>>,
        }
        let page: Page = serde_json::from_slice(&self.body).map_err(ClientError::unreadable)?;
        Ok(page.documents)
    }
}

/// Writes one segment of a path.
fn percent_encode(text: &str, out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
}

/// An error with the reasons below it, which transports hide.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(below) = source {
        text.push_str(": ");
        text.push_str(&below.to_string());
        source = below.source();
    }
    text
}

#[cfg(test)]
mod tests;
