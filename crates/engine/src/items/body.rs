//! From a client's body to the text that is stored: checked, without insignificant whitespace,
//! incoming system properties left out and the server's own written behind.

use crate::names::check_id;
use crate::record::HEADER_LENGTH;
use armilla_model::error::{Error, Result};
use armilla_model::etag::ETag;
use armilla_model::json::{self, JsonError, MemberReader};
use armilla_model::limits::ITEM_SIZE_MAX;
use armilla_model::value::Value;
use std::sync::Arc;

/// Properties the server writes; what clients send under these names is ignored.
pub(crate) const SYSTEM: [&str; 6] = ["_rid", "_self", "_etag", "_attachments", "_ts", "_lsn"];

/// Room for the server's properties and the closing brace.
const SYSTEM_ROOM: usize = 256;

/// Room for the text of an item whose length is not known beforehand.
const MEMBER_ROOM: usize = 256;

/// A checked body: room for the header, then the text without its closing brace.
#[derive(Debug)]
pub struct Body {
    /// Header room and text; the closing brace is missing.
    pub bytes: Vec<u8>,
    /// The document.
    pub value: Value,
    /// Its id.
    pub id: Arc<str>,
    /// Where the id's value begins in the text.
    pub id_at: u32,
    /// Its own time to live; 0 is none.
    pub ttl: i32,
}

/// A body that is JSON; whether it is an item is not yet known.
#[derive(Clone, Debug)]
pub struct UncheckedBody {
    bytes: Vec<u8>,
    parsed: json::ParsedItem,
    size: usize,
}

impl UncheckedBody {
    /// Reads a client's text.
    pub fn read(text: &[u8]) -> Result<Self, JsonError> {
        let mut bytes = Vec::with_capacity(HEADER_LENGTH + text.len() + SYSTEM_ROOM);
        bytes.resize(HEADER_LENGTH, 0);
        let parsed = json::parse_item(text, &SYSTEM, &mut bytes)?;
        Ok(Self { bytes, parsed, size: text.len() })
    }

    /// Reads the value of a member that is an item.
    pub fn read_member(member: &mut MemberReader<'_>) -> Result<Self, JsonError> {
        let mut bytes = Vec::with_capacity(HEADER_LENGTH + MEMBER_ROOM + SYSTEM_ROOM);
        bytes.resize(HEADER_LENGTH, 0);
        let (parsed, size) = member.item(&SYSTEM, &mut bytes)?;
        Ok(Self { bytes, parsed, size })
    }

    /// Reads a client's text, unless it is too large for an item.
    pub fn parse(text: &[u8]) -> Result<Self> {
        check_size(text.len())?;
        Ok(Self::read(text)?)
    }

    /// The document.
    pub fn value(&self) -> &Value {
        &self.parsed.value
    }

    /// Its id, where it has one.
    pub fn id(&self) -> Option<&str> {
        self.parsed.value.get("id").and_then(Value::as_str)
    }

    /// Checks what an item must have.
    pub fn check(self) -> Result<Body> {
        check_size(self.size)?;
        let id_at = self.parsed.id_at.map(|at| at - HEADER_LENGTH);
        Body::finish(self.bytes, self.parsed.value, id_at)
    }
}

impl Body {
    /// Checks a client's text.
    pub fn parse(text: &[u8]) -> Result<Self> {
        UncheckedBody::parse(text)?.check()
    }

    /// Makes the body of a document that was built here, as patches and triggers do.
    pub fn from_value(value: &Value) -> Result<Self> {
        let mut text = Vec::new();
        value.write_kept(&mut text);
        Self::parse(&text)
    }

    /// Makes the body of a view's item. Its expiry is that of the source, so a property `ttl` is a value
    /// like any other; and it may be somewhat larger than what a client may send.
    pub(crate) fn of_view(value: &Value) -> Result<Self> {
        let mut text = Vec::new();
        value.write_kept(&mut text);
        let UncheckedBody { bytes, parsed, .. } = UncheckedBody::read(&text)?;
        let id_at = parsed.id_at.map(|at| at - HEADER_LENGTH);
        Self::assemble(bytes, parsed.value, id_at, 0)
    }

    /// Makes the body of an item that is copied as it is stored. With its system properties it may be somewhat larger than
    /// what a client may send.
    pub(crate) fn of_copy(text: &[u8]) -> Result<Self> {
        let UncheckedBody { bytes, parsed, .. } = UncheckedBody::read(text)?;
        let id_at = parsed.id_at.map(|at| at - HEADER_LENGTH);
        Self::finish(bytes, parsed.value, id_at)
    }

    fn finish(bytes: Vec<u8>, value: Value, id_at: Option<usize>) -> Result<Self> {
        if value.as_object().is_none() {
            return Err(Error::bad_request("An item must be a JSON object."));
        }
        check_id(value.get("id"))?;
        let ttl = own_ttl(value.get("ttl"))?;
        Self::assemble(bytes, value, id_at, ttl)
    }

    fn assemble(mut bytes: Vec<u8>, value: Value, id_at: Option<usize>, ttl: i32) -> Result<Self> {
        bytes.pop();
        let id = check_id(value.get("id"))?;
        let id_at = id_at.and_then(|at| u32::try_from(at).ok());
        let id_at = id_at.ok_or_else(|| Error::Internal("The parser found an id but not its place in the text, which is a defect of this server. Nothing was written.".to_owned()))?;
        Ok(Self { bytes, value, id, id_at, ttl })
    }

    /// Writes the system properties and the closing brace.
    pub fn close(&mut self, rid: &str, docs_link: &str, etag: ETag, ts: u32) {
        let out = &mut self.bytes;
        out.extend_from_slice(b",\"_rid\":\"");
        out.extend_from_slice(rid.as_bytes());
        out.extend_from_slice(b"\",\"_self\":\"");
        out.extend_from_slice(docs_link.as_bytes());
        out.extend_from_slice(rid.as_bytes());
        out.extend_from_slice(b"/\",\"_etag\":\"\\\"");
        etag.write_unquoted(out);
        out.extend_from_slice(b"\\\"\",\"_attachments\":\"attachments/\",\"_ts\":");
        armilla_model::Number::Int(i64::from(ts)).write(out);
        out.push(b'}');
    }
}

/// Refuses bodies over the item limit.
pub fn check_size(size: usize) -> Result<()> {
    if size <= ITEM_SIZE_MAX {
        return Ok(());
    }
    Err(Error::TooLarge(format!(
        "Request size is too large: an item may have at most {ITEM_SIZE_MAX} bytes, this one has {size}."
    )))
}

fn own_ttl(ttl: Option<&Value>) -> Result<i32> {
    let seconds = match ttl {
        None => return Ok(0),
        Some(value) => value.as_i64().and_then(|seconds| i32::try_from(seconds).ok()),
    };
    match seconds {
        Some(seconds) if seconds == -1 || seconds > 0 => Ok(seconds),
        _ => Err(Error::bad_request(format!(
            "The input ttl '{}' is invalid. Ensure to provide a nonzero positive integer, or -1.",
            ttl.map(ToString::to_string).unwrap_or_default()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_properties_stand_behind_the_clients() {
        let text = br#"{ "_ts": 1, "id": "a", "n": 1.0, "_etag": "old" }"#;
        let mut body = Body::parse(text).unwrap();
        body.close("RID", "dbs/d/colls/c/docs/", ETag([0; 16]), 7);
        assert_eq!(
            std::str::from_utf8(&body.bytes[HEADER_LENGTH..]).unwrap(),
            r#"{"id":"a","n":1.0,"_rid":"RID","_self":"dbs/d/colls/c/docs/RID/","_etag":"\"00000000-0000-0000-0000-000000000000\"","_attachments":"attachments/","_ts":7}"#
        );
        assert_eq!(body.id_at, 6);
    }

    #[test]
    fn what_is_refused() {
        for text in ["[]", "{}", r#"{"id":1}"#, r#"{"id":""}"#, r#"{"id":"a","ttl":0}"#] {
            assert!(Body::parse(text.as_bytes()).is_err(), "{text} was accepted");
        }
        assert!(Body::parse(br#"{"id":"a","ttl":"soon"}"#).is_err());
    }
}
