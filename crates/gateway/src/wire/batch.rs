//! Batches as clients write them in JSON: an array of operations.

use super::patch;
use armilla_engine::items::WriteOptions;
use armilla_engine::items::batch::{Operation, Verb};
use armilla_engine::items::body::UncheckedBody;
use armilla_model::json::{self, JsonError, RawMembers};
use armilla_model::limits::BATCH_OPERATIONS_MAX;
use armilla_model::partition_key::PartitionKey;
use armilla_model::value::Value;
use armilla_model::{Error, Result};

const KIND: &str = "operationType";
const BODY: &str = "resourceBody";
const CREATE: &[u8] = b"\"Create\"";
const UPSERT: &[u8] = b"\"Upsert\"";

/// What operations say of themselves.
const MEMBERS: [&str; 8] = [
    KIND,
    BODY,
    "id",
    "partitionKey",
    "ifMatch",
    "ifNoneMatch",
    "indexingDirective",
    "minimalReturnPreference",
];

/// Reads the array of operations. Bodies are parsed once, straight from the client's text.
pub(crate) fn parse(body: &[u8]) -> Result<Vec<Operation>> {
    let mut operations = parse_each(body)?;
    let is_unreadable = |operation: &Operation| matches!(operation.verb, Verb::Unreadable(_));
    match operations.iter().position(is_unreadable) {
        None => Ok(operations),
        Some(first) => match operations.swap_remove(first).verb {
            Verb::Unreadable(error) => Err(error),
            _ => Ok(operations),
        },
    }
}

/// The same for operations that stand alone: one that cannot be read is refused when its turn comes, and its
/// neighbours are none the worse for it. Clients do not show what a whole request is refused for.
pub(crate) fn parse_each(body: &[u8]) -> Result<Vec<Operation>> {
    if let Some(operations) = parse_usual(body) {
        return Ok(operations);
    }
    let operations = json::raw_objects(body, &MEMBERS)?;
    if operations.is_empty() {
        return Err(Error::bad_request("Batch request has no operations."));
    }
    if operations.len() > BATCH_OPERATIONS_MAX {
        return Err(Error::bad_request(format!(
            "Batch request has more operations than what is supported. It has {}, and may have {BATCH_OPERATIONS_MAX}.",
            operations.len()
        )));
    }
    let parse = |members: &RawMembers<'_>| {
        let raw = RawOperation { members, batch: body };
        raw.parse().unwrap_or_else(|error| raw.unreadable(error))
    };
    Ok(operations.iter().map(parse).collect())
}

/// The same for operations as nearly all are, each read in one go: the kind comes before the item, no member twice, and nothing is wrong.
/// All others are read again, to find out what is.
fn parse_usual(body: &[u8]) -> Option<Vec<Operation>> {
    let mut count = 0;
    let unusual = || JsonError { message: String::new(), line: 0, column: 0 };
    let mut members = RawMembers::new();
    let operations = json::read_objects(body, |object| {
        members.clear();
        let mut item = None;
        while let Some(name) = object.next_name(&MEMBERS)? {
            let is_twice = members.iter().any(|member| member.0 == name);
            let is_item = name == BODY && item.is_none();
            if is_twice || (name == BODY && !is_item) {
                return Err(unusual());
            }
            match members.first() {
                Some((first, kind)) if is_item && *first == KIND && has_item(kind) => {
                    item = Some(UncheckedBody::read_member(object)?);
                }
                _ => members.push((name, object.raw()?)),
            }
        }
        count += 1;
        if count > BATCH_OPERATIONS_MAX {
            return Err(unusual());
        }
        let item = item.ok_or_else(unusual)?;
        let raw = RawOperation { members: &members, batch: body };
        let verb = match raw.raw(KIND) {
            Some(CREATE) => Verb::Create(item),
            _ => Verb::Upsert(item),
        };
        raw.with_options(verb).map_err(|_| unusual())
    });
    operations.ok().filter(|operations| !operations.is_empty())
}

/// Whether an operation of this kind, as most clients write it, comes with a whole item.
fn has_item(kind: &[u8]) -> bool {
    kind == CREATE || kind == UPSERT
}

/// An operation as the client wrote it.
struct RawOperation<'b> {
    members: &'b RawMembers<'b>,
    /// The text of the whole batch, to say where in it something is wrong.
    batch: &'b [u8],
}

impl RawOperation<'_> {
    fn parse(&self) -> Result<Operation> {
        let kind = self.text(KIND)?.unwrap_or_default();
        let verb = match kind.to_ascii_lowercase().as_str() {
            "create" => Verb::Create(self.body()?),
            "upsert" => Verb::Upsert(self.body()?),
            "read" => Verb::Read(self.id()?),
            "replace" => Verb::Replace(self.id()?, self.body()?),
            "patch" => Verb::Patch(self.id()?, patch::from_value(&self.patch()?)?),
            "delete" => Verb::Delete(self.id()?),
            other => {
                return Err(Error::bad_request(format!(
                    "The batch operation type '{other}' is not known."
                )));
            }
        };
        self.with_options(verb)
    }

    fn with_options(&self, verb: Verb) -> Result<Operation> {
        let directive = self.text("indexingDirective")?;
        let minimal = self.value("minimalReturnPreference")?;
        let minimal = minimal.and_then(|value| value.as_bool()).unwrap_or(false);
        let options = WriteOptions {
            if_match: self.text("ifMatch")?,
            if_none_match: self.text("ifNoneMatch")?,
            exclude_from_index: directive.is_some_and(|text| text.eq_ignore_ascii_case("exclude")),
            minimal,
        };
        Ok(Operation { verb, options, partition_key: self.partition_key()?, minimal })
    }

    fn unreadable(&self, error: Error) -> Operation {
        Operation {
            verb: Verb::Unreadable(error),
            options: WriteOptions::default(),
            partition_key: self.partition_key().ok().flatten(),
            minimal: false,
        }
    }

    fn raw(&self, name: &str) -> Option<&[u8]> {
        self.members.iter().find(|member| &*member.0 == name).map(|member| member.1)
    }

    fn value(&self, name: &str) -> Result<Option<Value>> {
        self.raw(name).map(json::parse).transpose().map_err(|error| self.located(error))
    }

    fn text(&self, name: &str) -> Result<Option<String>> {
        Ok(self.value(name)?.and_then(|value| value.as_str().map(str::to_owned)))
    }

    fn id(&self) -> Result<String> {
        self.text("id")?.ok_or_else(|| Error::bad_request("The batch operation needs an 'id'."))
    }

    fn body(&self) -> Result<UncheckedBody> {
        let text = self.raw(BODY).ok_or_else(no_body)?;
        UncheckedBody::read(text).map_err(|error| self.located(error))
    }

    fn patch(&self) -> Result<Value> {
        self.value(BODY)?.ok_or_else(no_body)
    }

    /// Bulk carries the key as a JSON array inside a string.
    fn partition_key(&self) -> Result<Option<PartitionKey>> {
        match self.value("partitionKey")? {
            Some(Value::String(header)) => PartitionKey::parse(&header).map(Some),
            Some(array @ Value::Array(_)) => PartitionKey::parse(&array.to_json()).map(Some),
            _ => Ok(None),
        }
    }

    /// An error in a part of the batch, with its line and column in the whole of it.
    fn located(&self, error: JsonError) -> Error {
        json::parse(self.batch).err().unwrap_or(error).into()
    }
}

fn no_body() -> Error {
    Error::bad_request("The batch operation needs a 'resourceBody'.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_keep_their_numbers_as_written() {
        let text = br#"[{"operationType":"Create","resourceBody":{"id":"a", "n":1.50}}]"#;
        let Verb::Create(body) = parse(text).unwrap().remove(0).verb else {
            panic!("not a create");
        };
        let body = body.check().unwrap();
        assert!(body.bytes.ends_with(br#"{"id":"a","n":1.50"#));
    }

    #[test]
    fn operations_are_read_alike_in_whatever_order_their_members_come() {
        let read = |text: &str| parse(text.as_bytes()).map(|operations| format!("{operations:?}"));
        let usual =
            r#"[{"operationType":"Upsert","ifMatch":"\"x\"","resourceBody":{"id":"a","n":1}}]"#;
        for text in [
            r#"[{"resourceBody":{"id":"a","n":1},"ifMatch":"\"x\"","operationType":"Upsert"}]"#,
            r#"[{"operationType":"upsert","ifMatch":"\"x\"","resourceBody":{"id":"a","n":1}}]"#,
            r#"[{"operationType":"Delete","ifMatch":"\"x\"","resourceBody":{"id":"b"},"resourceBody":{"id":"a","n":1},"operationType":"Upsert"}]"#,
            r#"[{"operationType":"Create","operationType":"Upsert","ifMatch":"\"x\"","resourceBody":{"id":"a","n":1}}]"#,
        ] {
            assert!(parse_usual(text.as_bytes()).is_none(), "{text} is read as usual");
            assert_eq!(read(text), read(usual), "{text}");
        }
        assert!(parse_usual(usual.as_bytes()).is_some());
    }

    #[test]
    fn errors_name_the_place_in_the_whole_batch() {
        let text = b"[{\"operationType\":\"Create\",\n\"resourceBody\":{\"a\":1,\"a\" 2}}]";
        let message = parse(text).unwrap_err().message().to_owned();
        assert!(message.contains("line 2"), "{message}");
    }

    #[test]
    fn what_is_no_batch_is_refused() {
        for text in
            ["{}", "[]", "[1]", r#"[{"operationType":"Sing"}]"#, r#"[{"operationType":"Create"}]"#]
        {
            assert!(parse(text.as_bytes()).is_err(), "{text} was accepted");
        }
    }
}
