//! Who is asking, and whether they may.
//!
//! Three kinds of credentials arrive in `authorization`: a signature made with an account key, a
//! resource token that this server issued for a permission, and an AAD token, which a development
//! server accepts without checking its signature. [`Authenticator::authenticate`] turns the header
//! into a [`Principal`]; [`Principal::check`] holds it against the operation.

mod aad;
mod grant;
mod header;
mod master;
mod signed;
mod signer;

pub use grant::{Grant, PermissionMode, TOKEN_LIFE_DEFAULT_SECONDS, TOKEN_LIFE_MAX_SECONDS};
pub use master::{Access, MasterKeys, WELL_KNOWN_KEY, WellKnownKey};
pub use signed::string_to_sign;
pub use signer::Signer;

use crate::error::AAD_TOKEN_EXPIRED;
use crate::headers::RequestContext;
use crate::routes::{Operation, Segments};
use armilla_model::{Error, Result};
use header::{Credentials, parse_credentials};
use http::{HeaderValue, Method};
use ring::hmac;
use std::time::{Duration, UNIX_EPOCH};

/// How far a request's date may be from the server's clock, either way.
pub const CLOCK_SKEW_MAX_SECONDS: u64 = 15 * 60;

/// A refusal of credentials.
#[derive(Clone, Debug, PartialEq)]
pub struct Denied {
    /// What the client is told.
    pub error: Error,
    /// The substatus where it is not the table's.
    pub substatus: Option<u32>,
}

impl From<Error> for Denied {
    fn from(error: Error) -> Self {
        Self { error, substatus: None }
    }
}

/// Whom the credentials stand for.
#[derive(Clone, Debug)]
pub enum Principal {
    /// The holder of an account key.
    Account(Access),
    /// The holder of a resource token.
    Resource(Box<Grant>),
    /// The holder of an AAD token.
    Directory,
}

/// One request as authentication sees it.
#[derive(Clone, Copy, Debug)]
pub struct Presented<'a> {
    /// The method that was signed.
    pub method: &'a Method,
    /// The path that was signed.
    pub segments: &'a Segments<'a>,
    /// Where the credentials and dates are.
    pub context: &'a RequestContext<'a>,
    /// The connection comes from this machine, with no proxy between.
    pub is_loopback: bool,
}

/// Verifies credentials. Key state is kept, so a verification is one HMAC.
#[derive(Debug)]
pub struct Authenticator {
    keys: MasterKeys,
    token_key: hmac::Key,
    accept_aad: bool,
}

impl Authenticator {
    /// Accepts the given keys and tokens sealed with the given secret.
    ///
    /// The secret is the server's own, random and kept: were it derived from an account key, the
    /// published key would let anybody issue tokens.
    pub fn new(keys: MasterKeys, token_secret: &[u8; 32]) -> Self {
        let token_key = hmac::Key::new(hmac::HMAC_SHA256, token_secret);
        Self { keys, token_key, accept_aad: false }
    }

    /// Accepts AAD tokens too, without checking their signatures: for development only.
    pub fn accepting_aad(mut self) -> Self {
        self.accept_aad = true;
        self
    }

    /// True when everybody on this machine can sign, because the published key is accepted there.
    pub fn trusts_loopback(&self) -> bool {
        self.keys.accepts_well_known()
    }

    /// Turns the `authorization` header into a principal.
    pub fn authenticate(
        &self,
        presented: &Presented<'_>,
        now_seconds: u64,
    ) -> Result<Principal, Denied> {
        let context = presented.context;
        let header = context.authorization.ok_or_else(|| {
            unauthorized("Required Header authorization is missing. Ensure a valid Authorization token is passed.")
        })?;
        match parse_credentials(header.as_bytes())? {
            Credentials::Master(signature) => {
                let date = signing_date(context)?;
                check_skew(date, now_seconds)?;
                let access = self.keys.verify(presented, date, &signature)?;
                Ok(Principal::Account(access))
            }
            Credentials::Resource(token) => {
                let grant = grant::verify(&self.token_key, &token, now_seconds)?;
                Ok(Principal::Resource(Box::new(grant)))
            }
            Credentials::Aad(token) if self.accept_aad => {
                aad::check(&token, now_seconds)?;
                Ok(Principal::Directory)
            }
            Credentials::Aad(_) => Err(unauthorized("AAD tokens are not accepted here.")),
        }
    }

    /// Issues the `_token` of a permission.
    pub fn issue_token(&self, grant: &Grant) -> String {
        grant::issue(&self.token_key, grant)
    }
}

impl Principal {
    /// Refuses what the credentials do not allow.
    pub fn check(&self, operation: &Operation<'_>, context: &RequestContext<'_>) -> Result<()> {
        match self {
            Self::Directory | Self::Account(Access::ReadWrite) => Ok(()),
            Self::Account(Access::ReadOnly) if operation.is_read() => Ok(()),
            Self::Account(Access::ReadOnly) => Err(Error::Forbidden(
                "The authorization token was made with a read-only key; the operation writes."
                    .to_owned(),
            )),
            Self::Resource(grant) => grant.check(operation, context),
        }
    }
}

/// The date that was signed: `x-ms-date`, else `date`.
#[derive(Clone, Copy, Debug)]
pub struct SigningDate<'a> {
    pub(crate) text: &'a str,
    pub(crate) is_ms_date: bool,
}

fn signing_date<'a>(context: &RequestContext<'a>) -> Result<SigningDate<'a>, Denied> {
    let missing = || unauthorized("The request has neither an 'x-ms-date' nor a 'date' header.");
    let (value, is_ms_date) = match (context.ms_date, context.date) {
        (Some(value), _) => (value, true),
        (None, Some(value)) => (value, false),
        (None, None) => return Err(missing()),
    };
    let text = header_text(value).ok_or_else(missing)?;
    Ok(SigningDate { text, is_ms_date })
}

fn header_text(value: &HeaderValue) -> Option<&str> {
    std::str::from_utf8(value.as_bytes()).ok()
}

fn check_skew(date: SigningDate<'_>, now_seconds: u64) -> Result<(), Denied> {
    let signed = parse_http_date(date.text).ok_or_else(|| {
        unauthorized("The date of the request is not in the form 'Sun, 15 Nov 2026 19:24:19 GMT'.")
    })?;
    if signed.abs_diff(now_seconds) <= CLOCK_SKEW_MAX_SECONDS {
        return Ok(());
    }
    let server = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(now_seconds));
    Err(Denied::from(Error::Forbidden(format!(
        "The authorization token is not valid at the current time. Request time: {}. Server time: {server}.",
        date.text
    ))))
}

/// An RFC 1123 date as seconds since 1970.
pub(crate) fn parse_http_date(text: &str) -> Option<u64> {
    // Clients lower-case what they sign, and some send that text.
    let parsed = httpdate::parse_http_date(text).ok().or_else(|| {
        let title: String = title_case(text);
        httpdate::parse_http_date(&title).ok()
    })?;
    parsed.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

/// `sun, 15 nov … gmt` as `Sun, 15 Nov … GMT`.
fn title_case(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (position, word) in text.split(' ').enumerate() {
        if position > 0 {
            out.push(' ');
        }
        if word.eq_ignore_ascii_case("gmt") {
            out.push_str("GMT");
            continue;
        }
        let mut letters = word.chars();
        out.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        out.extend(letters.map(|letter| letter.to_ascii_lowercase()));
    }
    out
}

fn unauthorized(message: impl Into<String>) -> Denied {
    Error::Unauthorized(message.into()).into()
}

fn expired(message: impl Into<String>) -> Denied {
    Denied { error: Error::Unauthorized(message.into()), substatus: Some(AAD_TOKEN_EXPIRED) }
}

#[cfg(test)]
mod tests;
