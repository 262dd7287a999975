//! Who is asking, and whether they may.
//!
//! Four kinds of credentials arrive in `authorization`: a signature made with an account key, a
//! resource token that this server issued for a permission, a token of Microsoft Entra ID
//! (`aad`), and a session of the explorer. [`Authenticator::authenticate`] turns the header into a [`Principal`];
//! [`Principal::check`] holds it against the operation. What needs no secret (the published key, tokens
//! without a signature) counts only for this machine's own user ([`crate::locality`]).

mod aad;
mod again;
mod date;
mod entra;
mod header;
mod jwt;
mod master;
mod resource_token;
mod seal;
mod sessions;
mod signed;
mod signer;

pub(crate) use again::ShownBefore;
pub use entra::{Entra, EntraSettings, JWKS_SIZE_MAX};
pub use master::{Access, MasterKeys, WELL_KNOWN_KEY, WellKnownKey};
pub use resource_token::{
    Grant, Leaf, PermissionId, PermissionMode, Standing, TOKEN_LIFE_DEFAULT_SECONDS,
    TOKEN_LIFE_MAX_SECONDS,
};
pub use seal::{Belongs, SEAL_LENGTH, Seal};
pub use sessions::{Opened, Sessions};
pub use signed::string_to_sign;
pub use signer::Signer;

use crate::error::{AAD_NOT_AUTHORIZED, AAD_TOKEN_EXPIRED};
use crate::headers::RequestContext;
use crate::locality::Stranger;
use crate::routes::{Operation, Segments};
use armilla_model::{Error, Result};
use header::{Credentials, parse_credentials};
use http::Method;
use ring::hmac;
use std::sync::Arc;
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

/// Whether an `authorization` header shows a session of the explorer.
pub(crate) fn is_session(header: Option<&[u8]>) -> bool {
    matches!(header.map(parse_credentials), Some(Ok(Credentials::Session(_))))
}

/// Whom the credentials stand for.
#[derive(Clone, Debug)]
pub enum Principal {
    /// The holder of an account key.
    Account(Access),
    /// The holder of a resource token.
    Resource(Box<Grant>),
    /// The holder of a token of Entra ID.
    Directory(Access),
}

/// Where tokens of Entra ID are accepted although nobody has checked their signature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DevelopmentTokens {
    /// Nowhere.
    #[default]
    Refused,
    /// From this machine's own user.
    Local,
    /// From everywhere; somebody asked for it by name.
    Everywhere,
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
    /// Whether the request is this machine's own user's, or why not.
    pub locality: &'a Result<(), Stranger>,
}

/// Verifies credentials. Key state is kept, so a verification is one HMAC.
#[derive(Debug)]
pub struct Authenticator {
    keys: MasterKeys,
    token_key: hmac::Key,
    seal: Seal,
    development: DevelopmentTokens,
    entra: Option<Arc<Entra>>,
    sessions: Sessions,
}

impl Authenticator {
    /// Accepts the given keys and tokens sealed with the given secret.
    ///
    /// The secret is the server's own, random and kept: were it derived from an account key, the
    /// published key would let anybody issue tokens.
    pub fn new(keys: MasterKeys, token_secret: &[u8; 32]) -> Self {
        let token_key = hmac::Key::new(hmac::HMAC_SHA256, token_secret);
        let seal = Seal::new(token_secret);
        let (development, sessions) = (DevelopmentTokens::Refused, Sessions::default());
        Self { keys, token_key, seal, development, entra: None, sessions }
    }

    /// Accepts tokens of Entra ID without checking their signatures: for development.
    #[must_use]
    pub fn accepting_development_tokens(mut self, accepted: DevelopmentTokens) -> Self {
        self.development = accepted;
        self
    }

    /// Accepts tokens of Entra ID that hold up to these rules.
    #[must_use]
    pub fn with_entra(mut self, entra: Arc<Entra>) -> Self {
        self.entra = Some(entra);
        self
    }

    /// True when this machine's user needs no key, because the published one is accepted.
    pub fn trusts_loopback(&self) -> bool {
        self.keys.accepts_well_known()
    }

    /// True for the text of an account key itself, which whoever cannot sign may show for metrics.
    pub fn knows_key(&self, base64: &str) -> bool {
        self.keys.contains(base64)
    }

    /// What the text of an account key allows whoever shows it; nothing when it is no key.
    pub fn access_of_key(
        &self,
        base64: &str,
        locality: &Result<(), Stranger>,
    ) -> Option<Result<Access, Denied>> {
        self.keys.access_of(base64, locality)
    }

    /// The sessions of the explorer.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// When the session of an `authorization` header ends; nothing for other credentials.
    pub(crate) fn session_end(
        &self,
        header: &[u8],
        locality: &Result<(), Stranger>,
        now_seconds: u64,
    ) -> Option<u64> {
        match parse_credentials(header) {
            Ok(Credentials::Session(token)) => {
                self.sessions.find(&token, locality, now_seconds).ok().map(|(_, ends)| ends)
            }
            _ => None,
        }
    }

    /// Ends the session of an `authorization` header; false when it is none.
    pub(crate) fn end_session(&self, header: Option<&[u8]>) -> bool {
        match header.map(parse_credentials) {
            Some(Ok(Credentials::Session(token))) => self.sessions.close(&token),
            _ => false,
        }
    }

    /// Signs and verifies continuation tokens.
    pub fn seal(&self) -> &Seal {
        &self.seal
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
        match parse_credentials(header)? {
            Credentials::Master(signature) => {
                let date = signing_date(context)?;
                check_skew(date, now_seconds)?;
                let access = self.keys.verify(presented, date, &signature)?;
                Ok(Principal::Account(access))
            }
            Credentials::Resource(token) => {
                let grant = resource_token::verify(&self.token_key, &token, now_seconds)?;
                Ok(Principal::Resource(Box::new(grant)))
            }
            Credentials::Aad(token) => {
                self.directory(&token, presented.locality, now_seconds).map(Principal::Directory)
            }
            Credentials::Session(token) => {
                let (access, _) = self.sessions.find(&token, presented.locality, now_seconds)?;
                Ok(Principal::Account(access))
            }
        }
    }

    /// A token of Entra ID: by its signature, or where that is allowed without.
    fn directory(
        &self,
        token: &str,
        locality: &Result<(), Stranger>,
        now_seconds: u64,
    ) -> Result<Access, Denied> {
        if let Some(entra) = &self.entra {
            let verified = entra.verify(token, now_seconds);
            if verified.is_ok() || self.development == DevelopmentTokens::Refused {
                return verified;
            }
        }
        let refused = |why: &str| {
            Err(unauthorized(format!(
                "Tokens of Entra ID are not accepted without a check of their signature: {why}."
            )))
        };
        match (self.development, locality) {
            (DevelopmentTokens::Refused, _) => refused(
                "give the server --entra-issuer, --entra-audience and --entra-jwks for real ones, or \
                 --accept-development-tokens to let everybody in who can write one",
            ),
            (DevelopmentTokens::Local, Err(stranger)) => refused(&stranger.to_string()),
            (DevelopmentTokens::Local, Ok(())) | (DevelopmentTokens::Everywhere, _) => {
                aad::check(token, now_seconds)?;
                Ok(Access::ReadWrite)
            }
        }
    }

    /// Issues the `_token` of a permission.
    pub fn issue_token(&self, grant: &Grant) -> String {
        resource_token::issue(&self.token_key, grant)
    }
}

impl Principal {
    /// Refuses credentials that were good once: a permission that is gone ends its tokens.
    pub fn check_standing(&self, standing: &impl Standing) -> Result<()> {
        match self {
            Self::Resource(grant) => grant.check_standing(standing),
            Self::Account(_) | Self::Directory(_) => Ok(()),
        }
    }

    /// Refuses what the credentials do not allow.
    pub fn check(
        &self,
        operation: &Operation<'_>,
        context: &RequestContext<'_>,
        standing: &impl Standing,
    ) -> Result<(), Denied> {
        let access = match self {
            Self::Resource(grant) => return Ok(grant.check(operation, context, standing)?),
            Self::Account(access) | Self::Directory(access) => *access,
        };
        if access == Access::ReadWrite || operation.is_read() {
            return Ok(());
        }
        match self {
            Self::Directory(_) => Err(not_authorized(
                "The principal of the token has a role that reads; the operation writes.",
            )),
            _ => Err(Error::Forbidden(
                "The authorization token was made with a read-only key; the operation writes."
                    .to_owned(),
            )
            .into()),
        }
    }

    /// Whether the credentials allow reading the account's figures: a key or a role does, a resource
    /// token does not.
    pub(crate) fn reads_account(&self) -> bool {
        matches!(self, Self::Account(_) | Self::Directory(_))
    }

    /// What a key or a role allows; a resource token is refused.
    pub(crate) fn account_access(&self) -> Result<Access, Denied> {
        match self {
            Self::Account(access) | Self::Directory(access) => Ok(*access),
            Self::Resource(_) => {
                let message = "A resource token does not allow reading the account.";
                Err(Error::Forbidden(message.to_owned()).into())
            }
        }
    }

    /// Whether items of this partition key may be worked on.
    pub(crate) fn covers_key(&self, key: &armilla_model::partition_key::PartitionKey) -> bool {
        match self {
            Self::Resource(grant) => grant.covers_key(key),
            Self::Account(_) | Self::Directory(_) => true,
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
    let text = std::str::from_utf8(value).map_err(|_| missing())?;
    Ok(SigningDate { text, is_ms_date })
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
    if let Some(seconds) = date::usual(text.as_bytes()) {
        return Some(seconds);
    }
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

/// A principal of a directory that is known and may not do this.
fn not_authorized(message: impl Into<String>) -> Denied {
    Denied { error: Error::Forbidden(message.into()), substatus: Some(AAD_NOT_AUTHORIZED) }
}

#[cfg(test)]
mod tests;
