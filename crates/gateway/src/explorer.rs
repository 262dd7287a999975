//! The files of the data explorer, below `/_explorer/`.
//!
//! They need no credentials and reveal nothing but the version. Every answer forbids what the page does not
//! need: scripts and styles of elsewhere, frames, forms, cookies do not exist. The index has a nonce of
//! its own in each answer, for the styles that its editor makes. Files whose names carry a hash are kept by browsers for
//! good. Compressed forms are made once, when first asked for, beside the threads of the network.

mod folder;

use crate::handle::Peer;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
    LOCATION, VARY,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use http_body_util::Full;
use ring::rand::{SecureRandom as _, SystemRandom};
use std::path::PathBuf;

/// Where the explorer's files come from, and where else it is served.
#[derive(Clone, Debug, Default)]
pub struct ExplorerSettings {
    /// The files.
    pub source: ExplorerSource,
    /// A port of its own: the same gateway, but a browser that asks for `/` is sent to the explorer.
    pub port: Option<u16>,
}

/// Where the explorer's files come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ExplorerSource {
    /// From this binary.
    #[default]
    Embedded,
    /// From a folder: another build.
    Folder(PathBuf),
    /// Nothing is served.
    Off,
}

/// A file that is to be answered.
struct Found {
    bytes: Bytes,
    /// The compressed form, where the client takes it and it is smaller.
    gzip: Option<Bytes>,
    media_type: HeaderValue,
    etag: String,
    immutable: bool,
    is_index: bool,
}

impl ExplorerSettings {
    /// Whether a request may be for the explorer: a quick look, since every request is looked at.
    pub(crate) fn may_be_meant(&self, parts: &Parts) -> bool {
        let path = parts.uri.path();
        path.starts_with("/_explorer") || (path == "/" && self.port.is_some())
    }

    /// The answer to a request for the explorer; nothing when it is for something else.
    pub(crate) async fn answer(&self, peer: &Peer, parts: &Parts) -> Option<Response<Full<Bytes>>> {
        let path = parts.uri.path();
        if path == "/" && self.is_browser_at_own_port(peer, parts) {
            return Some(redirect());
        }
        let rest = path.strip_prefix("/_explorer")?;
        if rest == "/emulator.pem" || !(rest.is_empty() || rest.starts_with('/')) {
            return None;
        }
        Some(match parts.method {
            Method::GET | Method::HEAD if self.source == ExplorerSource::Off => refused(
                StatusCode::NOT_FOUND,
                "The data explorer of this server is switched off (--no-explorer).",
            ),
            Method::GET | Method::HEAD if rest.is_empty() => redirect(),
            Method::GET | Method::HEAD => self.file(rest.trim_start_matches('/'), parts).await,
            _ => refused(StatusCode::METHOD_NOT_ALLOWED, "The explorer's files can only be read."),
        })
    }

    fn is_browser_at_own_port(&self, peer: &Peer, parts: &Parts) -> bool {
        let accepts_html = || {
            let accepted = parts.headers.get(ACCEPT).map(HeaderValue::as_bytes);
            accepted.is_some_and(|accepted| String::from_utf8_lossy(accepted).contains("text/html"))
        };
        self.port == Some(peer.local_address.port())
            && self.source != ExplorerSource::Off
            && parts.method == Method::GET
            && accepts_html()
    }

    async fn file(&self, path: &str, parts: &Parts) -> Response<Full<Bytes>> {
        let takes_gzip = takes_gzip(&parts.headers);
        let found = match &self.source {
            ExplorerSource::Off => None,
            ExplorerSource::Embedded => embedded(path, takes_gzip).await,
            ExplorerSource::Folder(folder) => folder::find(folder.clone(), path.to_owned()).await,
        };
        match found {
            Some(found) => respond(found, parts),
            None => refused(StatusCode::NOT_FOUND, "The explorer has no such file."),
        }
    }
}

/// A file of this binary.
#[cfg(feature = "explorer")]
async fn embedded(path: &str, takes_gzip: bool) -> Option<Found> {
    let (at, file) = armilla_explorer::find(path)?;
    let is_index = file.path == armilla_explorer::INDEX;
    // The index differs in each answer, and is small.
    let gzip = if takes_gzip && !is_index { compressed(at, file).await } else { None };
    Some(Found {
        bytes: Bytes::from_static(file.bytes),
        gzip,
        media_type: HeaderValue::from_static(file.media_type),
        etag: file.etag.to_owned(),
        immutable: file.immutable,
        is_index,
    })
}

#[cfg(not(feature = "explorer"))]
async fn embedded(_path: &str, _takes_gzip: bool) -> Option<Found> {
    None
}

/// The compressed form of a file, made once; nothing when it is not smaller.
#[cfg(feature = "explorer")]
async fn compressed(at: usize, file: &'static armilla_explorer::File) -> Option<Bytes> {
    use std::sync::{LazyLock, OnceLock};
    static KEPT: LazyLock<Vec<OnceLock<Option<Bytes>>>> =
        LazyLock::new(|| armilla_explorer::all().iter().map(|_| OnceLock::new()).collect());
    let kept = KEPT.get(at)?;
    if let Some(known) = kept.get() {
        return known.clone();
    }
    // There are few files, and each is compressed once: this cannot fill the threads.
    let made = tokio::task::spawn_blocking(move || kept.get_or_init(|| gzip(file.bytes)).clone());
    made.await.ok().flatten()
}

#[cfg(feature = "explorer")]
fn gzip(bytes: &[u8]) -> Option<Bytes> {
    use std::io::Write as _;
    let best = flate2::Compression::best();
    let mut encoder = flate2::write::GzEncoder::new(Vec::with_capacity(bytes.len() / 3), best);
    encoder.write_all(bytes).ok()?;
    let made = encoder.finish().ok()?;
    (made.len() < bytes.len()).then(|| made.into())
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    accepted.unwrap_or_default().split(',').any(|one| {
        let mut parts = one.trim().split(';');
        parts.next() == Some("gzip") && !parts.any(|weight| weight.trim() == "q=0")
    })
}

fn respond(found: Found, parts: &Parts) -> Response<Full<Bytes>> {
    let Some(nonce) = nonce() else {
        return refused(StatusCode::INTERNAL_SERVER_ERROR, "The system has no random numbers.");
    };
    let mut response = Response::new(Full::default());
    let headers = response.headers_mut();
    protect(headers, &nonce);
    headers.insert(CONTENT_TYPE, found.media_type);
    if found.is_index {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        let text = String::from_utf8_lossy(&found.bytes).replace(NONCE_PLACE, &nonce);
        return with_body(response, text.into(), parts);
    }
    let cache = if found.immutable { "public, max-age=31536000, immutable" } else { "no-cache" };
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(cache));
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    if let Ok(etag) = HeaderValue::from_str(&found.etag) {
        headers.insert(ETAG, etag);
    }
    let known = parts.headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let is_known = |one: &str| {
        matches!(one.trim().trim_start_matches("W/"), "*")
            || one.trim().trim_start_matches("W/") == found.etag
    };
    if known.is_some_and(|known| known.split(',').any(is_known)) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return response;
    }
    match found.gzip {
        Some(gzip) => {
            response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            with_body(response, gzip, parts)
        }
        None => with_body(response, found.bytes, parts),
    }
}

/// Stands in the index where the nonce of an answer belongs.
const NONCE_PLACE: &str = "__NONCE__";

fn with_body(
    mut response: Response<Full<Bytes>>,
    body: Bytes,
    parts: &Parts,
) -> Response<Full<Bytes>> {
    if parts.method != Method::HEAD {
        *response.body_mut() = Full::new(body);
    }
    response
}

/// What every answer forbids.
fn protect(headers: &mut HeaderMap, nonce: &str) {
    let policy = format!(
        "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data:; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types svelte-trusted-html"
    );
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        headers.insert("content-security-policy", policy);
    }
    for (name, value) in PROTECTION {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
}

const PROTECTION: [(&str, &str); 5] = [
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), microphone=(), geolocation=()"),
];

fn nonce() -> Option<String> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(URL_SAFE_NO_PAD.encode(bytes))
}

/// To the explorer, by a path that is right behind any prefix.
fn redirect() -> Response<Full<Bytes>> {
    let mut response = refused(StatusCode::PERMANENT_REDIRECT, "The explorer is at /_explorer/.");
    response.headers_mut().insert(LOCATION, HeaderValue::from_static("_explorer/"));
    response
}

fn refused(status: StatusCode, sentence: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(sentence.as_bytes())));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for (name, value) in PROTECTION {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
