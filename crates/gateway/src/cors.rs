//! Browsers: which pages of other origins may talk to this server.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS, VARY,
};
use http::{HeaderMap, HeaderValue};

/// Which origins are allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CorsPolicy {
    /// Every origin: a request still needs credentials.
    #[default]
    AnyOrigin,
    /// These origins, as `https://app.example`.
    Origins(Vec<String>),
    /// None.
    Off,
}

impl CorsPolicy {
    fn allows(&self, origin: &HeaderValue) -> bool {
        match self {
            Self::AnyOrigin => true,
            Self::Origins(list) => list.iter().any(|one| one.as_bytes() == origin.as_bytes()),
            Self::Off => false,
        }
    }

    /// Headers of the answer to a preflight (`OPTIONS`).
    pub(crate) fn preflight(&self, request: &HeaderMap, answer: &mut HeaderMap) {
        let Some(origin) = request.get(http::header::ORIGIN).filter(|one| self.allows(one)) else {
            return;
        };
        self.decorate(origin, answer);
        // The wanted names are repeated, because `*` does not cover `authorization`.
        let wanted = request.get(ACCESS_CONTROL_REQUEST_HEADERS).cloned();
        let wanted = wanted.unwrap_or(HeaderValue::from_static("*"));
        answer.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted);
        answer.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        answer.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("3600"));
    }

    /// Headers of every answer to a request with an origin.
    pub(crate) fn decorate(&self, origin: &HeaderValue, answer: &mut HeaderMap) {
        if self.allows(origin) {
            answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            answer.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("*"));
            answer.insert(VARY, HeaderValue::from_static("origin"));
        }
    }
}

const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE");
