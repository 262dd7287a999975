//! Client encryption keys (`docs/protocol/encryption-keys.md#the-resource`).

use super::{etag_member, required, ts_member};
use armilla_engine::catalog::Database;
use armilla_engine::encryption::{EncryptionKey, NewEncryptionKey};
use armilla_model::limits::WRAPPED_KEY_LENGTH_MAX;
use armilla_model::policy::ENCRYPTION_ALGORITHM;
use armilla_model::rid;
use armilla_model::value::{Object, Value};
use armilla_model::{Error, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Members that are the server's, or kept beside the definition.
const NOT_KEPT: [&str; 6] = ["id", "_rid", "_self", "_etag", "_ts", "_cts"];

/// What a client sends to create or replace a key.
pub(crate) fn read(body: &Value) -> Result<NewEncryptionKey> {
    let [name, algorithm, wrapped] =
        required(body, ["id", "encryptionAlgorithm", "wrappedDataEncryptionKey"])?;
    if algorithm != ENCRYPTION_ALGORITHM {
        return Err(Error::bad_request(format!(
            "The encryption algorithm '{algorithm}' must be {ENCRYPTION_ALGORITHM}."
        )));
    }
    if wrapped.is_empty()
        || wrapped.len() > WRAPPED_KEY_LENGTH_MAX
        || STANDARD.decode(wrapped).is_err()
    {
        return Err(Error::bad_request(format!(
            "'wrappedDataEncryptionKey' must be base64 of 1 to {WRAPPED_KEY_LENGTH_MAX} characters."
        )));
    }
    if body.get("keyWrapMetadata").and_then(Value::as_object).is_none() {
        return Err(Error::bad_request(
            "The input content is invalid because the required properties - 'keyWrapMetadata; ' - are missing: it must be an object.",
        ));
    }
    let members = body.as_object().map(Object::iter).into_iter().flatten();
    let kept = members.filter(|(member, _)| !NOT_KEPT.contains(&&***member));
    let definition = kept.map(|(member, value)| (member.clone(), value.clone())).collect();
    Ok(NewEncryptionKey { name: name.to_owned(), definition })
}

/// The resource.
pub(crate) fn shape(database: &Database, key: &EncryptionKey) -> Object {
    let rid = rid::encode(&rid::encryption_key(database.number, key.number));
    let mut shape = Object::of([("id", Value::String(key.name.clone()))]);
    for (name, value) in key.definition.iter() {
        shape.insert(name.clone(), value.clone());
    }
    let link = format!("{}clientencryptionkeys/{rid}/", database.self_link());
    shape.insert("_rid", rid.into());
    shape.insert("_self", link.into());
    shape.insert("_etag", etag_member(key.etag));
    shape.insert("_ts", ts_member(key.ts));
    shape.insert("_cts", ts_member(key.created));
    shape
}
