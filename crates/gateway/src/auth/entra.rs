//! Tokens of Microsoft Entra ID, checked: signature, issuer, audience, time, and a role.
//!
//! The directory publishes the keys it signs with as a JWKS document. Whoever runs the server hands the
//! document in ([`Entra::set_keys`]), from a file or, again and again, from a URL; nothing here waits for a
//! network. A token signed with a key that is not in it is refused, and
//! [somebody is told](Entra::keys_wanted) that the document may be old.
//!
//! There is no store of role assignments as the service has one: who may read and who may write is told
//! by the token's own application roles, scopes or groups, or by the principal's id.

use super::aad::claims;
use super::jwt;
use super::{Access, Denied, expired, not_authorized, unauthorized};
use armilla_model::Value;
use jsonwebtoken::jwk::{Jwk, JwkSet};
use jsonwebtoken::{DecodingKey, Validation, decode, decode_header};
use serde::de::IgnoredAny;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::Notify;

/// Bytes of a JWKS document.
pub const JWKS_SIZE_MAX: usize = 1 << 20;
/// Keys of a JWKS document.
const KEYS_MAX: usize = 256;
/// How far the directory's clock may be from this server's.
const SKEW_MAX_SECONDS: f64 = 300.0;

/// Roles that always read and write, and roles that always read: the names and numbers of the service's
/// own, and the names as application roles, which have no blanks.
const CONTRIBUTOR: [&str; 3] = [
    "Cosmos DB Built-in Data Contributor",
    "00000000-0000-0000-0000-000000000002",
    "CosmosDBDataContributor",
];
const READER: [&str; 3] = [
    "Cosmos DB Built-in Data Reader",
    "00000000-0000-0000-0000-000000000001",
    "CosmosDBDataReader",
];

/// Whose tokens are accepted, and what they allow.
#[derive(Clone, Debug, Default)]
pub struct EntraSettings {
    /// Values of `iss`.
    pub issuers: Vec<String>,
    /// Values of `aud`.
    pub audiences: Vec<String>,
    /// Further roles, scopes, groups and ids of principals that may read and write.
    pub read_write: Vec<String>,
    /// Further ones that may read.
    pub read_only: Vec<String>,
}

/// Verifies tokens with the keys it was given last.
#[derive(Debug)]
pub struct Entra {
    settings: EntraSettings,
    keys: RwLock<Arc<Keys>>,
    wanted: Notify,
}

/// The keys of a document by their ids.
#[derive(Default)]
struct Keys(HashMap<String, DecodingKey>);

impl std::fmt::Debug for Keys {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}

impl Entra {
    /// No keys yet: every token is refused until [`set_keys`](Self::set_keys).
    pub fn new(settings: EntraSettings) -> Self {
        jwt::install();
        Self { settings, keys: RwLock::default(), wanted: Notify::new() }
    }

    /// Takes the keys of a JWKS document in place of those before. A document without a usable key
    /// changes nothing.
    ///
    /// # Errors
    ///
    /// A sentence that says what is wrong with the document.
    pub fn set_keys(&self, document: &[u8]) -> Result<usize, String> {
        if document.len() > JWKS_SIZE_MAX {
            return Err(format!("the JWKS document has more than {JWKS_SIZE_MAX} bytes"));
        }
        let set: JwkSet = serde_json::from_slice(document)
            .map_err(|error| format!("this is not a JWKS document: {error}"))?;
        if set.keys.len() > KEYS_MAX {
            return Err(format!("the JWKS document has more than {KEYS_MAX} keys"));
        }
        let keys: HashMap<_, _> = set.keys.iter().filter_map(usable).collect();
        if keys.is_empty() {
            return Err("the JWKS document has no public key with an id (kid)".to_owned());
        }
        let count = keys.len();
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(Keys(keys));
        Ok(count)
    }

    /// Waits until a token came whose key is not known.
    pub async fn keys_wanted(&self) {
        self.wanted.notified().await;
    }

    /// What the holder of a token may do.
    pub(super) fn verify(&self, token: &str, now_seconds: u64) -> Result<Access, Denied> {
        let refused = |why: &str| unauthorized(format!("The Entra ID token is refused: {why}."));
        let header = decode_header(token).map_err(|_| refused("it is not a signed JWT"))?;
        if !jwt::ALGORITHMS.contains(&header.alg) {
            return Err(refused("it is not signed with a public key"));
        }
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner).clone();
        let key = header.kid.and_then(|id| keys.0.get(&id)).ok_or_else(|| {
            self.wanted.notify_one();
            refused("it is signed with a key that is not in the directory's document")
        })?;
        let mut validation = Validation::new(header.alg);
        validation.set_audience(&self.settings.audiences);
        validation.set_issuer(&self.settings.issuers);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        // Times are compared below, with the server's clock and not with the system's.
        (validation.validate_exp, validation.validate_nbf) = (false, false);
        decode::<IgnoredAny>(token, key, &validation)
            .map_err(|error| refused(reason(error.kind())))?;
        let claims = claims(token).ok_or_else(|| refused("its claims are no object"))?;
        check_times(&claims, now_seconds as f64)?;
        self.access(&claims)
    }

    fn access(&self, claims: &Value) -> Result<Access, Denied> {
        let names = names(claims);
        let has = |fixed: &[&str], given: &[String]| {
            names.iter().any(|name| fixed.contains(name) || given.iter().any(|one| one == name))
        };
        if has(&CONTRIBUTOR, &self.settings.read_write) {
            return Ok(Access::ReadWrite);
        }
        if has(&READER, &self.settings.read_only) {
            return Ok(Access::ReadOnly);
        }
        let principal = claims.get("oid").or_else(|| claims.get("sub")).and_then(Value::as_str);
        Err(not_authorized(format!(
            "Request is blocked because principal [{}] has neither a role that reads nor one that \
             writes here. Give it the application role CosmosDBDataReader or \
             CosmosDBDataContributor, or name its id, role, scope or group to the server with \
             --entra-reader or --entra-contributor.",
            principal.unwrap_or("unknown")
        )))
    }
}

/// A key that tokens may be signed with. Others are passed over: directories publish keys for other
/// purposes in the same document.
fn usable(key: &Jwk) -> Option<(String, DecodingKey)> {
    let signs = key.common.public_key_use.as_ref();
    let signs = signs.is_none_or(|purpose| *purpose == jsonwebtoken::jwk::PublicKeyUse::Signature);
    let is_public = matches!(
        key.algorithm,
        jsonwebtoken::jwk::AlgorithmParameters::RSA(_)
            | jsonwebtoken::jwk::AlgorithmParameters::EllipticCurve(_)
    );
    if !signs || !is_public {
        return None;
    }
    Some((key.common.key_id.clone()?, DecodingKey::from_jwk(key).ok()?))
}

/// Everything in a token that a role may be given by.
fn names(claims: &Value) -> Vec<&str> {
    let mut names = Vec::new();
    for list in ["roles", "groups"] {
        let list = claims.get(list).and_then(Value::as_array);
        names.extend(list.into_iter().flatten().filter_map(Value::as_str));
    }
    let scopes = claims.get("scp").and_then(Value::as_str).unwrap_or_default();
    names.extend(scopes.split(' ').filter(|scope| !scope.is_empty()));
    for id in ["oid", "appid", "azp"] {
        names.extend(claims.get(id).and_then(Value::as_str));
    }
    names
}

fn check_times(claims: &Value, now: f64) -> Result<(), Denied> {
    let second = |name: &str| claims.get(name).and_then(Value::as_f64);
    let Some(expires) = second("exp") else {
        return Err(unauthorized(
            "The Entra ID token is refused: it does not say when it expires.",
        ));
    };
    if expires + SKEW_MAX_SECONDS <= now {
        return Err(expired("The Entra ID token has expired."));
    }
    match claims.get("nbf").map(Value::as_f64) {
        None => Ok(()),
        Some(Some(begins)) if begins <= now + SKEW_MAX_SECONDS => Ok(()),
        Some(_) => Err(unauthorized("The Entra ID token is refused: it is not valid yet.")),
    }
}

fn reason(kind: &jsonwebtoken::errors::ErrorKind) -> &'static str {
    use jsonwebtoken::errors::ErrorKind as E;
    match kind {
        E::InvalidSignature => "its signature is not the directory's",
        E::InvalidAudience => "it was issued for another audience",
        E::InvalidIssuer => "it was issued by somebody else",
        E::MissingRequiredClaim(_) => "it lacks one of exp, iss and aud",
        E::InvalidAlgorithm | E::InvalidAlgorithmName => "its algorithm is not that of its key",
        _ => "it is not a JWT of the directory",
    }
}

#[cfg(test)]
mod tests;
