//! The other end of a signature: what a client of this server writes.

use super::signed;
use crate::routes::Segments;
use armilla_model::{Error, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use ring::hmac;

/// Signs requests with an account key.
#[derive(Clone, Debug)]
pub struct Signer {
    key: hmac::Key,
}

impl Signer {
    /// A signer with a key in base64.
    pub fn new(key_base64: &str) -> Result<Self> {
        let bytes = STANDARD.decode(key_base64.trim()).ok().filter(|bytes| !bytes.is_empty());
        let bytes = bytes.ok_or_else(|| Error::bad_request("The account key is not base64."))?;
        Ok(Self { key: hmac::Key::new(hmac::HMAC_SHA256, &bytes) })
    }

    /// The `authorization` header of a request to an encoded path, sent with this `x-ms-date`.
    pub fn authorization(&self, method: &Method, path: &str, ms_date: &str) -> Result<String> {
        let path = path.split('?').next().unwrap_or_default();
        let text = signed::string_to_sign(method, &Segments::parse(path)?, ms_date);
        let signature = STANDARD.encode(hmac::sign(&self.key, text.as_bytes()));
        let encoded = signature.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
        Ok(format!("type%3Dmaster%26ver%3D1.0%26sig%3D{encoded}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::WELL_KNOWN_KEY;

    #[test]
    fn signature_matches_one_computed_by_the_python_sdk() {
        let signer = Signer::new(WELL_KNOWN_KEY).unwrap();
        let date = "Sun, 15 Nov 2026 19:24:19 GMT";
        assert_eq!(
            signer.authorization(&Method::GET, "/dbs/d1/colls/c1/docs/a", date).unwrap(),
            "type%3Dmaster%26ver%3D1.0%26sig%3Da4VjIIhhSYRhfmPtm6WDiOBvl0jrPRlv85pR0K%2FfkpE%3D"
        );
    }

    #[test]
    fn keys_that_are_not_base64_are_refused() {
        assert!(Signer::new("").is_err());
        assert!(Signer::new("ä").is_err());
    }
}
