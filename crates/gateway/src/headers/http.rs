//! What only HTTP says: who stands between, how the body comes, where the request was sent.

use super::RequestContext;
use armilla_model::Result;
use http::{HeaderMap, HeaderValue};

/// The headers that belong to the transport, not to the operation.
#[derive(Clone, Debug, Default)]
pub struct HttpContext<'a> {
    /// `x-ms-activity-id`, to be echoed.
    pub activity_id: Option<&'a HeaderValue>,
    /// `host`; HTTP/2 requests have it in the URI instead.
    pub host: Option<&'a HeaderValue>,
    /// `x-forwarded-proto`.
    pub forwarded_proto: Option<&'a HeaderValue>,
    /// `x-forwarded-host`.
    pub forwarded_host: Option<&'a HeaderValue>,
    /// `forwarded`, `x-forwarded-…`, `via` or `x-real-ip` is there: a proxy stands between, or another node.
    pub forwarded: bool,
    /// `x-armilla-from`: another node of the account has passed the request on, or somebody says so.
    pub from_node: bool,
    /// `expect`: the client waits for a word before it sends the body.
    pub expects_continue: bool,
}

impl<'a> HttpContext<'a> {
    /// Reads all headers in one walk. The last part is the first refusal, naming the header.
    pub fn read(headers: &'a HeaderMap) -> (Self, RequestContext<'a>, Result<()>) {
        let (mut http, mut context) = (Self::default(), RequestContext::default());
        let mut outcome = Ok(());
        for (name, value) in headers {
            if http.takes(name.as_str(), value) {
                continue;
            }
            if let Err(error) = context.set(name.as_str(), value.as_bytes())
                && outcome.is_ok()
            {
                outcome = Err(error);
            }
        }
        (http, context, outcome)
    }

    /// Takes up a header of the transport; false when it is not one.
    fn takes(&mut self, name: &str, value: &'a HeaderValue) -> bool {
        match name {
            "x-ms-activity-id" => self.activity_id = Some(value),
            "host" => self.host = Some(value),
            "expect" => self.expects_continue = true,
            "forwarded" | "via" | "x-real-ip" => self.forwarded = true,
            "x-armilla-from" => (self.forwarded, self.from_node) = (true, true),
            _ => {
                let Some(rest) = name.strip_prefix("x-forwarded-") else { return false };
                self.forwarded = true;
                match rest {
                    "proto" => self.forwarded_proto = Some(value),
                    "host" => self.forwarded_host = Some(value),
                    _ => {}
                }
            }
        }
        true
    }
}
