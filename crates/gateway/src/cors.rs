//! Browsers: which pages of other origins may talk to this server. Those of this machine may, and those
//! that the operator names.

use crate::locality::is_near_origin;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS, ORIGIN,
    VARY,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};

/// Which origins are allowed beside this server's own and those of this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CorsPolicy {
    origins: Vec<String>,
    any: bool,
}

impl CorsPolicy {
    /// Allows these origins too, each as `https://app.example`; `*` allows all.
    ///
    /// # Errors
    ///
    /// When a text is no origin.
    pub fn new(origins: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut policy = Self::default();
        for origin in origins {
            let rest = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
            let is_origin = rest.is_some_and(|rest| !rest.is_empty() && !rest.contains('/'));
            match origin.as_str() {
                "*" => policy.any = true,
                _ if is_origin => policy.origins.push(origin.to_ascii_lowercase()),
                _ => return Err(format!("'{origin}' is no origin such as https://app.example")),
            }
        }
        Ok(policy)
    }

    fn allows(&self, origin: &HeaderValue, request: &Parts) -> bool {
        let text = String::from_utf8_lossy(origin.as_bytes());
        self.any
            || self.origins.iter().any(|one| one.eq_ignore_ascii_case(&text))
            || is_near_origin(&text, request)
    }

    /// Whether a page of another origin sent a request that pages of that origin may not send. They can, only
    /// not read the answer.
    pub(crate) fn refuses(&self, request: &Parts) -> bool {
        request.headers.get(ORIGIN).is_some_and(|origin| !self.allows(origin, request))
    }

    /// Headers of the answer to a preflight (`OPTIONS`).
    pub(crate) fn preflight(&self, request: &Parts, answer: &mut HeaderMap) {
        if !self.decorate(request, answer) {
            return;
        }
        // The wanted names are repeated, because `*` does not cover `authorization`.
        let wanted = request.headers.get(ACCESS_CONTROL_REQUEST_HEADERS).cloned();
        let wanted = wanted.unwrap_or(HeaderValue::from_static("*"));
        answer.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted);
        answer.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        answer.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("3600"));
    }

    /// Headers of every answer to a request with an origin; true when it is allowed.
    pub(crate) fn decorate(&self, request: &Parts, answer: &mut HeaderMap) -> bool {
        let Some(origin) = request.headers.get(ORIGIN) else { return false };
        answer.insert(VARY, HeaderValue::from_static("origin"));
        let allowed = self.allows(origin, request);
        if allowed {
            answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            answer.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("*"));
        }
        allowed
    }
}

const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE");

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(policy: &CorsPolicy, origin: &'static str) -> bool {
        let request = http::Request::builder().header("host", "db.example:8081");
        let parts = request.body(()).unwrap().into_parts().0;
        policy.allows(&HeaderValue::from_static(origin), &parts)
    }

    #[test]
    fn pages_of_this_machine_and_named_ones_are_allowed() {
        let policy = CorsPolicy::new(["https://app.example".to_owned()]).unwrap();
        for origin in ["https://app.example", "http://localhost:3000", "https://db.example:8081"] {
            assert!(allows(&policy, origin), "{origin}");
        }
        for origin in ["https://evil.example", "null", "https://app.example.evil", ""] {
            assert!(!allows(&policy, origin), "{origin}");
        }
        assert!(!allows(&CorsPolicy::default(), "https://app.example"));
        let any = CorsPolicy::new(["*".to_owned()]).unwrap();
        assert!(allows(&any, "https://evil.example") && allows(&any, "null"));
    }

    #[test]
    fn what_is_no_origin_is_refused() {
        for text in ["app.example", "https://", "https://a/b", "", "ftp://x"] {
            assert!(CorsPolicy::new([text.to_owned()]).is_err(), "{text}");
        }
    }
}
