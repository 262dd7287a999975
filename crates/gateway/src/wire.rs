//! The JSON shapes of the catalog: how databases, containers, ranges, offers, users, permissions
//! and scripts look to clients, and what clients may send of them.
//!
//! Batches also come and go in binary, see [`hybrid_row`].
//!
//! Members stand in the order in which the service writes them. What is read from a body is
//! checked here; what it means is the engine's business.

pub(crate) mod batch;
mod casing;
pub(crate) mod container;
pub(crate) mod database;
pub(crate) mod diagnostics;
pub(crate) mod encryption_key;
pub(crate) mod explain;
pub mod hybrid_row;
pub(crate) mod offer;
pub(crate) mod page;
pub mod patch;
pub(crate) mod permission;
pub mod query;
pub(crate) mod range;
pub(crate) mod script;
pub(crate) mod subscription;
pub(crate) mod user;

use crate::{Call, Reply};
use armilla_model::charge::RequestCharge;
use armilla_model::etag::ETag;
use armilla_model::json;
use armilla_model::value::{Object, Value};
use armilla_model::{Error, Result};
use http::StatusCode;

/// A body that must be a JSON object.
pub(crate) fn object(body: &[u8]) -> Result<Value> {
    let value = json::parse(body)?;
    if value.as_object().is_some() {
        return Ok(value);
    }
    Err(Error::bad_request("The request body must be a JSON object."))
}

/// Members that must be there and be text. All that are missing are named together, in the words
/// that a test of the .NET SDK looks for.
pub(crate) fn required<'v, const N: usize>(
    body: &'v Value,
    names: [&str; N],
) -> Result<[&'v str; N]> {
    let mut missing = String::new();
    let mut texts = [""; N];
    for (name, text) in names.iter().zip(&mut texts) {
        match body.get(name) {
            Some(Value::String(found)) => *text = found,
            None | Some(Value::Null) => missing.push_str(&format!("{name}; ")),
            Some(other) => {
                return Err(Error::bad_request(format!(
                    "The input content is invalid because '{name}' must be a string, and is {other}."
                )));
            }
        }
    }
    if missing.is_empty() {
        return Ok(texts);
    }
    Err(Error::bad_request(format!(
        "The input content is invalid because the required properties - '{missing}' - are missing."
    )))
}

/// `_etag` as a member.
pub(crate) fn etag_member(etag: ETag) -> Value {
    etag.to_string().into()
}

/// `_ts` as a member.
pub(crate) fn ts_member(ts: u64) -> Value {
    i64::try_from(ts).unwrap_or(i64::MAX).into()
}

/// An object as its JSON text.
pub(crate) fn text(object: &Object) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    object.write_json(&mut out);
    out
}

/// The answer to the read of one resource: 304 when the client has this version already.
pub(crate) fn read_reply(call: &Call<'_>, etag: ETag, document: &Object) -> Reply {
    let known = call.context.if_none_match.is_some_and(|known| etag.matches(known));
    let reply = if known { Reply::not_modified() } else { Reply::ok(text(document)) };
    reply.etag(etag.to_string()).charge(RequestCharge::ONE)
}

/// The answer to a write of one resource.
pub(crate) fn write_reply(status: StatusCode, etag: ETag, document: &Object) -> Reply {
    let reply = Reply::json(status, text(document)).etag(etag.to_string());
    reply.charge(RequestCharge::from_micros(4_950_000))
}

/// The status of a write that may have made something new.
pub(crate) fn status_of_upsert(created: bool) -> StatusCode {
    if created { StatusCode::CREATED } else { StatusCode::OK }
}

/// The answer to a deletion.
pub(crate) fn delete_reply() -> Reply {
    Reply::no_content().charge(RequestCharge::from_micros(4_950_000))
}

/// An operation that came to the wrong family: a defect of this server.
pub(crate) fn misrouted(call: &Call<'_>) -> Error {
    Error::Internal(format!(
        "This server has a route for {:?} and no code that serves it, which is a defect.",
        call.operation
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_missing_is_named_at_once() {
        let body = object(br#"{"id":"t","triggerType":null}"#).unwrap();
        assert_eq!(required(&body, ["id"]).unwrap(), ["t"]);
        let error = required(&body, ["id", "body"]).unwrap_err();
        assert!(error.message().contains("required properties - 'body; '"), "{error}");
        let error = required(&body, ["body", "triggerType"]).unwrap_err();
        assert!(error.message().contains("'body; triggerType; '"), "{error}");
    }

    #[test]
    fn bodies_are_objects_and_texts_are_texts() {
        for body in ["", "[]", "\"a\"", "null", "{"] {
            assert!(object(body.as_bytes()).is_err(), "{body}");
        }
        let error = required(&object(br#"{"id":7}"#).unwrap(), ["id"]).unwrap_err();
        assert!(error.message().contains("'id' must be a string"), "{error}");
    }
}
