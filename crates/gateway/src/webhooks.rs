//! Webhooks: the calls that the server itself makes, for subscriptions.
//!
//! Off unless whoever starts the server names the hosts. What a definition says is never enough to reach an
//! address: the host must be named, the address that its name stands for is checked after it was looked up, and
//! the connection goes to the very address that was checked.
//!
//! - [`hosts`]: who may be called.
//! - `call`: one call, and what its answer means.

mod call;
pub mod hosts;

use crate::limits::{WEBHOOK_CALLS_MAX, WEBHOOK_HEADER_MAX};
use armilla_engine::subscriptions::target::Webhook;
use armilla_engine::subscriptions::{Courier, DeliveryOutcome, Parcel};
use armilla_model::{Error, Result};
use hosts::{AllowedHosts, Destination};
use http::{HeaderName, HeaderValue};
use ring::hmac;
use rustls::ClientConfig;
use std::fmt::Write;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// Headers that the server writes, or that belong to the connection.
const OWN_HEADERS: [&str; 9] = [
    "content-length",
    "content-type",
    "connection",
    "expect",
    "host",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
const OWN_PREFIX: &str = "x-armilla-";

/// Calls webhooks on a runtime.
pub struct Webhooks {
    hosts: Arc<AllowedHosts>,
    tls: Arc<ClientConfig>,
    runtime: Handle,
    places: Arc<Semaphore>,
}

impl Webhooks {
    /// Calls these hosts only, with these authorities for TLS.
    pub fn new(hosts: AllowedHosts, tls: Arc<ClientConfig>, runtime: Handle) -> Self {
        let places = Arc::new(Semaphore::new(WEBHOOK_CALLS_MAX));
        Self { hosts: Arc::new(hosts), tls, runtime, places }
    }
}

impl Courier for Webhooks {
    fn check(&self, webhook: &Webhook) -> Result<()> {
        Destination::parse(&webhook.url, &self.hosts)?;
        for (name, value) in &webhook.headers {
            let lower = name.to_ascii_lowercase();
            if OWN_HEADERS.contains(&lower.as_str()) || lower.starts_with(OWN_PREFIX) {
                return Err(Error::bad_request(format!(
                    "The header '{name}' is the server's own."
                )));
            }
            let is_readable = HeaderName::from_bytes(lower.as_bytes()).is_ok()
                && HeaderValue::from_str(value).is_ok()
                && value.len() <= WEBHOOK_HEADER_MAX;
            if !is_readable {
                return Err(Error::bad_request(format!(
                    "The header '{name}' or its value cannot be sent."
                )));
            }
        }
        Ok(())
    }

    fn send(&self, parcel: Parcel, done: Box<dyn FnOnce(DeliveryOutcome) + Send>) {
        let (hosts, tls, places) = (self.hosts.clone(), self.tls.clone(), self.places.clone());
        self.runtime.spawn(async move {
            // Closed never; without a place the call simply waits for one.
            let _place = places.acquire().await;
            done(call::outcome(&parcel, &hosts, tls).await);
        });
    }
}

/// The signature of a body: `v1=` and the HMAC-SHA256 of `timestamp.body` in hexadecimal.
pub fn signature(secret: &str, timestamp: u64, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let mut context = hmac::Context::with_key(&key);
    context.update(timestamp.to_string().as_bytes());
    context.update(b".");
    context.update(body);
    let mut text = "v1=".to_owned();
    for byte in context.sign().as_ref() {
        let _never = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_model::Value;

    #[test]
    fn signatures_are_those_of_the_vectors() {
        let vectors = include_bytes!("../../engine/tests/views/views.json");
        let vectors = armilla_model::json::parse(vectors).unwrap();
        let cases = vectors.get("signatures").and_then(Value::as_array).unwrap();
        assert!(!cases.is_empty());
        for case in cases {
            let text = |name: &str| case.get(name).and_then(Value::as_str).unwrap();
            let timestamp = case.get("timestamp").and_then(Value::as_i64).unwrap() as u64;
            let made = signature(text("secret"), timestamp, text("body").as_bytes());
            assert_eq!(made, text("signature"));
        }
    }
}
