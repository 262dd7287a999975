//! Client encryption policies: which top-level properties clients encrypt, and with which keys.
//!
//! The server never sees a plain value. It checks what clients check (`docs/protocol/encryption-keys.md#policy`),
//! so that a client which does not cannot leave a policy that others refuse.

use super::{list, refuse, text};
use crate::error::Result;
use crate::partition_key::Definition;
use crate::path::Path;
use crate::value::{Object, Value};
use std::borrow::Cow;

/// The only algorithm there is.
pub const ENCRYPTION_ALGORITHM: &str = "AEAD_AES_256_CBC_HMAC_SHA256";

/// The member of a definition.
pub(super) const MEMBER: &str = "clientEncryptionPolicy";

/// Checks the policy of a new container.
pub(super) fn check(body: &Value, key: &Definition) -> Result<()> {
    let Some(policy) = body.get(MEMBER).filter(|policy| !matches!(policy, Value::Null)) else {
        return Ok(());
    };
    if policy.as_object().is_none() {
        return refuse(format!("'{MEMBER}' must be an object, and is {policy}."));
    }
    let version = match policy.get("policyFormatVersion") {
        None | Some(Value::Null) => 1,
        Some(version) => match version.as_i64() {
            Some(version @ (1 | 2)) => version,
            _ => {
                return refuse(format!("'policyFormatVersion' must be 1 or 2, and is {version}."));
            }
        },
    };
    let mut seen = Vec::new();
    for included in list(policy, "includedPaths")? {
        let path = check_path(included, version, key)?;
        if seen.contains(&path) {
            return refuse(format!("The path '{path}' is in 'includedPaths' twice."));
        }
        seen.push(path);
    }
    Ok(())
}

/// Checks one element of `includedPaths`; its path.
fn check_path<'v>(included: &'v Value, version: i64, key: &Definition) -> Result<&'v str> {
    let path = text(included, "path")?;
    let name = path.strip_prefix('/').filter(|name| !name.is_empty() && !name.contains('/'));
    let Some(name) = name else {
        return refuse(format!(
            "The path '{path}' of an encrypted property must name a property at the top, like '/name'."
        ));
    };
    if text(included, "clientEncryptionKeyId")?.is_empty() {
        return refuse(format!("The path '{path}' has an empty 'clientEncryptionKeyId'."));
    }
    let kind = text(included, "encryptionType")?;
    if !matches!(kind, "Deterministic" | "Randomized") {
        return refuse(format!(
            "The encryption type '{kind}' of the path '{path}' is not one of Deterministic, Randomized."
        ));
    }
    let algorithm = text(included, "encryptionAlgorithm")?;
    if algorithm != ENCRYPTION_ALGORITHM {
        return refuse(format!(
            "The encryption algorithm '{algorithm}' of the path '{path}' must be {ENCRYPTION_ALGORITHM}."
        ));
    }
    let in_key = key.paths.iter().any(|path| path.0.first().is_some_and(|first| first == name));
    if (name == "id" || in_key) && (version != 2 || kind != "Deterministic") {
        return refuse(format!(
            "The path '{path}' is the id or in the partition key: it can be encrypted with 'policyFormatVersion' 2 \
             and the type Deterministic only."
        ));
    }
    Ok(path)
}

/// Gives a partition key that clients encrypt the second hash, where the definition names none: the first takes values of
/// 101 bytes, and an encrypted one has 88 and more, 132 for a GUID. Clients read the version back and hash alike.
pub(super) fn with_wide_key(body: &Value) -> Cow<'_, Value> {
    let encrypted: Vec<_> = key_paths(body.get(MEMBER)).collect();
    let key = body.get("partitionKey").and_then(Value::as_object);
    let (Some(key), Some(members)) = (key, body.as_object()) else { return Cow::Borrowed(body) };
    let is_given = |name: &str| key.get(name).is_some_and(|value| !matches!(value, Value::Null));
    let paths = key.get("paths").and_then(Value::as_array).unwrap_or_default();
    let is_encrypted = |path: &Value| {
        let path = path.as_str().and_then(|text| Path::parse(text).ok());
        let first = path.as_ref().and_then(|path| path.0.first());
        first.is_some_and(|first| encrypted.contains(&first.as_str()))
    };
    if is_given("version") || is_given("kind") && key.get("kind") != Some(&"Hash".into()) {
        return Cow::Borrowed(body);
    }
    if !paths.iter().any(is_encrypted) {
        return Cow::Borrowed(body);
    }
    let (mut key, mut members) = (key.clone(), members.clone());
    key.insert("version", 2.into());
    members.insert("partitionKey", Value::object(key));
    Cow::Owned(Value::object(members))
}

/// The names of the properties that a policy encrypts.
fn key_paths(policy: Option<&Value>) -> impl Iterator<Item = &str> {
    let included = policy.and_then(|policy| policy.get("includedPaths"));
    let included = included.and_then(Value::as_array).unwrap_or_default();
    included.iter().filter_map(|path| path.get("path")?.as_str()?.strip_prefix('/'))
}

/// The ids of the keys that a definition's policy names.
pub(super) fn key_ids(definition: &Object) -> impl Iterator<Item = &str> {
    let included = definition.get(MEMBER).and_then(|policy| policy.get("includedPaths"));
    let included = included.and_then(Value::as_array).unwrap_or_default();
    included.iter().filter_map(|path| path.get("clientEncryptionKeyId")?.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(kind: &str, encrypted: &str) -> Option<i64> {
        let text = format!(
            r#"{{"partitionKey":{{"paths":["/pk/a"]{kind}}},"{MEMBER}":{{"includedPaths":[{{"path":"{encrypted}"}}]}}}}"#
        );
        let body = crate::json::parse(text.as_bytes()).unwrap();
        with_wide_key(&body).get("partitionKey")?.get("version")?.as_i64()
    }

    #[test]
    fn an_encrypted_key_has_the_second_hash_unless_it_says_otherwise() {
        assert_eq!(version("", "/pk"), Some(2));
        assert_eq!(version(r#","kind":"Hash","version":null"#, "/pk"), Some(2));
        assert_eq!(version("", "/other"), None);
        assert_eq!(version(r#","version":1"#, "/pk"), Some(1));
        assert_eq!(version(r#","kind":"MultiHash""#, "/pk"), None);
    }
}
