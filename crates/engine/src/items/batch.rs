//! Transactional batches: up to 100 operations in one logical partition, all or none.

use super::body::UncheckedBody;
use super::patch::Patch;
use super::read::Item;
use super::{WriteOptions, Written};
use crate::txn::Txn;
use armilla_model::charge::{Rates, RequestCharge};
use armilla_model::error::{Error, Result};
use armilla_model::json::{self, JsonError, RawMembers};
use armilla_model::limits::BATCH_OPERATIONS_MAX;
use armilla_model::partition_key::PartitionKey;
use armilla_model::value::Value;

/// One operation of a batch.
#[derive(Clone, Debug)]
pub struct Operation {
    /// What to do.
    pub verb: Verb,
    /// Under which conditions.
    pub options: WriteOptions,
    /// The key, where each operation names its own (bulk).
    pub partition_key: Option<PartitionKey>,
    /// The caller does not want the written item back.
    pub minimal: bool,
}

/// What a batch can do.
#[derive(Clone, Debug)]
pub enum Verb {
    /// Create this body.
    Create(UncheckedBody),
    /// Create or replace this body.
    Upsert(UncheckedBody),
    /// Read this id.
    Read(String),
    /// Replace this id by this body.
    Replace(String, UncheckedBody),
    /// Patch this id.
    Patch(String, Patch),
    /// Delete this id.
    Delete(String),
    /// Nothing: the operation could not be read.
    Unreadable(Error),
}

impl Operation {
    /// The items it is about: one, or two where a replacement gives another id.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        let (id, body) = match &self.verb {
            Verb::Create(body) | Verb::Upsert(body) => (None, Some(body)),
            Verb::Replace(id, body) => (Some(id), Some(body)),
            Verb::Read(id) | Verb::Patch(id, _) | Verb::Delete(id) => (Some(id), None),
            Verb::Unreadable(_) => (None, None),
        };
        id.map(String::as_str).into_iter().chain(body.and_then(UncheckedBody::id))
    }

    /// Whether it changes anything when it succeeds.
    pub fn writes(&self) -> bool {
        !matches!(self.verb, Verb::Read(_) | Verb::Unreadable(_))
    }
}

/// The outcome of one operation.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// A write, by the verb that made it.
    Written(Written),
    /// A delete.
    Deleted(RequestCharge),
    /// A read.
    Read(Item),
    /// A read whose version the client already has.
    NotModified(Item),
}

/// Why a batch failed as a whole.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Number of the operation that failed.
    pub position: usize,
    /// What failed.
    pub error: Error,
    /// What the batch costs all the same.
    pub charge: RequestCharge,
}

/// Reads the array of operations. Bodies are parsed once, straight from the client's text.
pub fn parse(body: &[u8]) -> Result<Vec<Operation>> {
    parse_each(body)?
        .into_iter()
        .map(|operation| match operation.verb {
            Verb::Unreadable(error) => Err(error),
            _ => Ok(operation),
        })
        .collect()
}

/// The same for operations that stand alone: one that cannot be read is refused when its turn comes, and its
/// neighbours are none the worse for it. Clients do not show what a whole request is refused for.
pub fn parse_each(body: &[u8]) -> Result<Vec<Operation>> {
    let operations = json::raw_objects(body)?;
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

/// An operation as the client wrote it.
struct RawOperation<'b> {
    members: &'b RawMembers<'b>,
    /// The text of the whole batch, to say where in it something is wrong.
    batch: &'b [u8],
}

impl RawOperation<'_> {
    fn parse(&self) -> Result<Operation> {
        let kind = self.text("operationType")?.unwrap_or_default();
        let verb = match kind.to_ascii_lowercase().as_str() {
            "create" => Verb::Create(self.body()?),
            "upsert" => Verb::Upsert(self.body()?),
            "read" => Verb::Read(self.id()?),
            "replace" => Verb::Replace(self.id()?, self.body()?),
            "patch" => Verb::Patch(self.id()?, Patch::from_value(&self.patch()?)?),
            "delete" => Verb::Delete(self.id()?),
            other => {
                return Err(Error::bad_request(format!(
                    "The batch operation type '{other}' is not known."
                )));
            }
        };
        let directive = self.text("indexingDirective")?;
        let options = WriteOptions {
            if_match: self.text("ifMatch")?,
            if_none_match: self.text("ifNoneMatch")?,
            exclude_from_index: directive.is_some_and(|text| text.eq_ignore_ascii_case("exclude")),
        };
        let minimal = self.value("minimalReturnPreference")?;
        let minimal = minimal.and_then(|value| value.as_bool()).unwrap_or(false);
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
        let text = self.raw("resourceBody").ok_or_else(no_body)?;
        UncheckedBody::read(text).map_err(|error| self.located(error))
    }

    fn patch(&self) -> Result<Value> {
        self.value("resourceBody")?.ok_or_else(no_body)
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

impl Txn {
    /// Runs one operation on this transaction.
    pub fn run_operation(&mut self, operation: Operation) -> Result<Outcome> {
        let options = &operation.options;
        match operation.verb {
            Verb::Create(body) => self.create_parsed(body, options).map(Outcome::Written),
            Verb::Upsert(body) => self.upsert_parsed(body, options).map(Outcome::Written),
            Verb::Replace(id, body) => {
                self.replace_with(&id, body.check()?, options).map(Outcome::Written)
            }
            Verb::Patch(id, patch) => self.patch_item(&id, &patch, options).map(Outcome::Written),
            Verb::Delete(id) => {
                self.delete_item(&id, options).map(|written| Outcome::Deleted(written.charge))
            }
            Verb::Unreadable(error) => Err(error),
            Verb::Read(id) => {
                let item = Self::read_item(self, &id)?.ok_or_else(Error::not_found)?;
                if options.if_match.as_deref().is_some_and(|etag| !item.etag.matches(etag)) {
                    return Err(Error::precondition_failed());
                }
                let known = options.if_none_match.as_deref();
                let known = known.is_some_and(|etag| item.etag.matches(etag));
                Ok(if known { Outcome::NotModified(item) } else { Outcome::Read(item) })
            }
        }
    }

    /// Runs a whole batch; at the first failure nothing of it counts.
    pub fn run_batch(&mut self, operations: Vec<Operation>) -> Result<Vec<Outcome>, Failure> {
        let mut outcomes = Vec::with_capacity(operations.len());
        for (position, operation) in operations.into_iter().enumerate() {
            match self.run_operation(operation) {
                Ok(outcome) => outcomes.push(outcome),
                Err(error) => {
                    let failure = self.container().rates().failure;
                    let charge = failure * (position as u64 + 1);
                    return Err(Failure { position, error, charge });
                }
            }
        }
        Ok(outcomes)
    }
}

impl Outcome {
    /// What the operation costs.
    pub fn charge(&self, rates: &Rates) -> RequestCharge {
        match self {
            Self::Written(written) => written.charge,
            Self::Deleted(charge) => *charge,
            Self::Read(item) => item.read_charge(rates),
            Self::NotModified(_) => rates.failure,
        }
    }
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
