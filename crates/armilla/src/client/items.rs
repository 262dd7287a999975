//! Items: one by one, in transactions, and in bulk.

use super::{Answer, Call, Client, ClientError, Outcome};
use bytes::Bytes;
use http::Method;
use serde::Deserialize;
use serde_json::Value;

pub(super) const PARTITION_KEY: &str = "x-ms-documentdb-partitionkey";
pub(super) const RANGE_ID: &str = "x-ms-documentdb-partitionkeyrangeid";

/// Properties that the server adds; they mean nothing elsewhere.
pub(crate) const SYSTEM_PROPERTIES: [&str; 6] =
    ["_rid", "_self", "_etag", "_attachments", "_ts", "_lsn"];

/// A container by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ContainerName<'a> {
    /// The database.
    pub(crate) database: &'a str,
    /// The container in it.
    pub(crate) container: &'a str,
}

/// A partition key as its header: the JSON array of its values, in ASCII.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key(String);

/// What a write does when there is an item already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnConflict {
    /// It is refused with 409.
    Refuse,
    /// It is refused with 409 unless the very same item is there; known to bulk loading alone.
    RefuseOther,
    /// It replaces.
    Replace,
}

/// One line of a bulk answer.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BulkResult {
    /// Status of this operation.
    pub(crate) status_code: u16,
    /// What the server said when it was refused.
    #[serde(default)]
    pub(crate) message: Option<String>,
}

impl<'a> ContainerName<'a> {
    /// A container by both names.
    pub(crate) fn new(database: &'a str, container: &'a str) -> Self {
        Self { database, container }
    }

    pub(super) fn call(&self, method: Method, rest: &[&str]) -> Call {
        let mut segments = vec!["dbs", self.database, "colls", self.container];
        segments.extend_from_slice(rest);
        Call::new(method, &segments)
    }
}

impl Key {
    /// A key of one string.
    #[cfg(test)]
    pub(crate) fn of(text: &str) -> Self {
        Self::of_values(&[Value::from(text)])
    }

    /// A key of several levels; an empty object stands for an undefined one.
    pub(crate) fn of_values(values: &[Value]) -> Self {
        Self(ascii(&Value::from(values.to_vec()).to_string()))
    }

    /// A key from the text of its header.
    pub(crate) fn from_header(text: &str) -> Self {
        Self(ascii(text))
    }

    /// The text of the header.
    pub(crate) fn header(&self) -> &str {
        &self.0
    }
}

impl Client {
    /// Reads an item.
    pub(crate) async fn read_item(
        &self,
        container: ContainerName<'_>,
        id: &str,
        key: &Key,
    ) -> Outcome<Answer> {
        let call = container.call(Method::GET, &["docs", id]);
        self.send(call.header(PARTITION_KEY, key.header())).await
    }

    /// Creates or upserts an item from its JSON text.
    pub(crate) async fn write_item(
        &self,
        container: ContainerName<'_>,
        key: &Key,
        on_conflict: OnConflict,
        body: impl Into<Bytes>,
    ) -> Outcome<Answer> {
        let upsert = (on_conflict == OnConflict::Replace).then_some("True");
        let call = container.call(Method::POST, &["docs"]);
        let call = call.header(PARTITION_KEY, key.header());
        self.send(call.header_if("x-ms-documentdb-is-upsert", upsert).body(body)).await
    }

    /// Creates an item whose post-trigger is named.
    pub(crate) async fn create_item_with_trigger(
        &self,
        container: ContainerName<'_>,
        key: &Key,
        post_trigger: &str,
        body: impl Into<Bytes>,
    ) -> Outcome<Answer> {
        let call = container.call(Method::POST, &["docs"]);
        let call = call.header(PARTITION_KEY, key.header());
        let call = call.header("x-ms-documentdb-post-trigger-include", post_trigger);
        self.send(call.body(body)).await
    }

    /// Replaces an item.
    pub(crate) async fn replace_item(
        &self,
        container: ContainerName<'_>,
        id: &str,
        key: &Key,
        body: impl Into<Bytes>,
    ) -> Outcome<Answer> {
        let call = container.call(Method::PUT, &["docs", id]);
        self.send(call.header(PARTITION_KEY, key.header()).body(body)).await
    }

    /// Deletes an item.
    #[cfg(test)]
    pub(crate) async fn delete_item(
        &self,
        container: ContainerName<'_>,
        id: &str,
        key: &Key,
    ) -> Outcome<Answer> {
        let call = container.call(Method::DELETE, &["docs", id]);
        self.send(call.header(PARTITION_KEY, key.header())).await
    }

    /// Runs a bulk request: operations on one range, each on its own. The body is the JSON array of
    /// the operations, see [`bulk_operation`].
    pub(crate) async fn bulk(
        &self,
        container: ContainerName<'_>,
        range: &str,
        body: impl Into<Bytes>,
    ) -> Outcome<(Answer, Vec<BulkResult>)> {
        let call = container.call(Method::POST, &["docs"]);
        let call = call
            .header("x-ms-cosmos-is-batch-request", "True")
            .header("x-ms-cosmos-batch-atomic", "False")
            .header("x-ms-cosmos-batch-continue-on-error", "True")
            .header("prefer", "return=minimal")
            .header(RANGE_ID, range)
            .body(body);
        let answer = self.send(call).await?.success()?;
        let results = serde_json::from_slice(&answer.body).map_err(ClientError::unreadable)?;
        Ok((answer, results))
    }
}

/// Appends one operation to the body of a bulk request.
pub(crate) fn bulk_operation(body: &mut Vec<u8>, key: &Key, on_conflict: OnConflict, item: &[u8]) {
    body.push(if body.is_empty() { b'[' } else { b',' });
    let verb = match on_conflict {
        OnConflict::Refuse | OnConflict::RefuseOther => "Create",
        OnConflict::Replace => "Upsert",
    };
    body.extend_from_slice(b"{\"operationType\":\"");
    body.extend_from_slice(verb.as_bytes());
    body.extend_from_slice(b"\",\"partitionKey\":");
    body.extend_from_slice(Value::from(key.header()).to_string().as_bytes());
    body.extend_from_slice(b",\"resourceBody\":");
    body.extend_from_slice(item);
    body.push(b'}');
}

/// The same JSON with everything beyond ASCII escaped, as headers need it.
fn ascii(text: &str) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() * 2);
    for character in text.chars() {
        if character.is_ascii() {
            out.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    out
}
