//! Tokens of Entra ID in development: any well-formed JWT whose time is right, its signature unchecked.
//!
//! This is what the official emulator does. Whoever can reach the server can write one, so it counts as
//! no more than the published key; where it is accepted is decided in [`super::Authenticator`].

use super::{CLOCK_SKEW_MAX_SECONDS, Denied, expired, unauthorized};
use armilla_model::{Value, json};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Refuses what is not a JWT, or not one for now.
pub(super) fn check(token: &str, now_seconds: u64) -> Result<(), Denied> {
    let claims = claims(token).ok_or_else(|| unauthorized("The AAD token is not a JWT."))?;
    let second = |name: &str| claims.get(name).and_then(Value::as_f64);
    let now = now_seconds as f64;
    if second("exp").is_some_and(|exp| exp <= now) {
        return Err(expired("The AAD token has expired."));
    }
    if second("nbf").is_some_and(|nbf| nbf > now + CLOCK_SKEW_MAX_SECONDS as f64) {
        return Err(unauthorized("The AAD token is not valid yet."));
    }
    Ok(())
}

/// The claims of a JWT, whoever wrote it.
pub(super) fn claims(token: &str) -> Option<Value> {
    let mut parts = token.split('.');
    let (header, claims, _signature) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    decode(header)?;
    decode(claims)
}

fn decode(part: &str) -> Option<Value> {
    let bytes = URL_SAFE_NO_PAD.decode(part.trim_end_matches('=')).ok()?;
    json::parse(&bytes).ok().filter(|value| value.as_object().is_some())
}
