//! One document by its address, again and again, without credentials.

use super::connect::{Endpoint, Transport, transport};
use super::{ClientError, Outcome};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};

/// Fetches the document at one address.
pub(crate) struct Fetcher {
    url: String,
    transport: Transport,
}

impl Fetcher {
    /// Reads the system's certificate authorities, which takes its time: on a thread for that.
    pub(crate) async fn new(url: &str) -> Outcome<Self> {
        let url = url.to_owned();
        let endpoint = Endpoint { base: url.clone(), key: String::new(), insecure: false };
        let made = tokio::task::spawn_blocking(move || transport(&endpoint)).await;
        let transport = made.map_err(|error| ClientError::Unusable(error.to_string()))??;
        Ok(Self { url, transport })
    }

    /// The document, of at most so many bytes. Redirects are not followed.
    pub(crate) async fn fetch(&self, size_max: usize) -> Outcome<Bytes> {
        let url = &self.url;
        let failed =
            |error: &dyn std::fmt::Display| ClientError::Unusable(format!("{url}: {error}"));
        let request = http::Request::get(url).body(Full::default());
        let request = request.map_err(|error| failed(&error))?;
        let answer = self.transport.request(request).await.map_err(|error| failed(&error))?;
        if !answer.status().is_success() {
            return Err(failed(&format!("answered {}", answer.status())));
        }
        let body = Limited::new(answer.into_body(), size_max).collect().await;
        body.map(|body| body.to_bytes()).map_err(|error| failed(&error))
    }
}
