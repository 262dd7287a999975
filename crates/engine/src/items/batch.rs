//! Transactional batches: up to 100 operations in one logical partition, all or none.

use super::patch::Patch;
use super::read::Item;
use super::{WriteOptions, Written};
use crate::txn::Txn;
use armilla_model::charge::RequestCharge;
use armilla_model::error::{Error, Result};
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
}

/// What a batch can do.
#[derive(Clone, Debug)]
pub enum Verb {
    /// Create this body.
    Create(Value),
    /// Create or replace this body.
    Upsert(Value),
    /// Read this id.
    Read(String),
    /// Replace this id by this body.
    Replace(String, Value),
    /// Patch this id.
    Patch(String, Patch),
    /// Delete this id.
    Delete(String),
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

/// Reads the array of operations.
pub fn parse(body: &[u8]) -> Result<Vec<Operation>> {
    let body = armilla_model::json::parse(body)?;
    let Some(operations) = body.as_array() else {
        return Err(Error::bad_request("A batch is a JSON array of operations."));
    };
    if operations.is_empty() {
        return Err(Error::bad_request("Batch request has no operations."));
    }
    if operations.len() > BATCH_OPERATIONS_MAX {
        return Err(Error::bad_request(format!(
            "Batch request has more operations than what is supported. It has {}, and may have {BATCH_OPERATIONS_MAX}.",
            operations.len()
        )));
    }
    operations.iter().map(parse_operation).collect()
}

fn parse_operation(value: &Value) -> Result<Operation> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let id = || {
        text("id").ok_or_else(|| {
            Error::bad_request(format!("The batch operation needs an 'id': {value}"))
        })
    };
    let body = || match value.get("resourceBody") {
        Some(body) => Ok(body.clone()),
        None => Err(Error::bad_request("The batch operation needs a 'resourceBody'.")),
    };
    let verb = match text("operationType").unwrap_or_default().to_ascii_lowercase().as_str() {
        "create" => Verb::Create(body()?),
        "upsert" => Verb::Upsert(body()?),
        "read" => Verb::Read(id()?),
        "replace" => Verb::Replace(id()?, body()?),
        "patch" => Verb::Patch(id()?, Patch::from_value(&body()?)?),
        "delete" => Verb::Delete(id()?),
        other => {
            return Err(Error::bad_request(format!(
                "The batch operation type '{other}' is not known."
            )));
        }
    };
    let exclude = text("indexingDirective")
        .is_some_and(|directive| directive.eq_ignore_ascii_case("exclude"));
    let options = WriteOptions {
        if_match: text("ifMatch"),
        if_none_match: text("ifNoneMatch"),
        exclude_from_index: exclude,
    };
    // Bulk carries the key as a JSON array inside a string.
    let partition_key = match value.get("partitionKey") {
        Some(Value::String(header)) => Some(PartitionKey::parse(header)?),
        Some(array @ Value::Array(_)) => Some(PartitionKey::parse(&array.to_json())?),
        _ => None,
    };
    Ok(Operation { verb, options, partition_key })
}

impl Txn {
    /// Runs one operation on this transaction.
    pub fn run_operation(&mut self, operation: &Operation) -> Result<Outcome> {
        let options = &operation.options;
        match &operation.verb {
            Verb::Create(body) => {
                self.create_item(body.to_json().as_bytes(), options).map(Outcome::Written)
            }
            Verb::Upsert(body) => {
                self.upsert_item(body.to_json().as_bytes(), options).map(Outcome::Written)
            }
            Verb::Replace(id, body) => {
                self.replace_item(id, body.to_json().as_bytes(), options).map(Outcome::Written)
            }
            Verb::Patch(id, patch) => self.patch_item(id, patch, options).map(Outcome::Written),
            Verb::Delete(id) => {
                self.delete_item(id, options).map(|written| Outcome::Deleted(written.charge))
            }
            Verb::Read(id) => {
                let item = Self::read_item(self, id)?.ok_or_else(Error::not_found)?;
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
    pub fn run_batch(&mut self, operations: &[Operation]) -> Result<Vec<Outcome>, Failure> {
        let mut outcomes = Vec::with_capacity(operations.len());
        for (position, operation) in operations.iter().enumerate() {
            match self.run_operation(operation) {
                Ok(outcome) => outcomes.push(outcome),
                Err(error) => {
                    let charge = RequestCharge::ONE * (position as u64 + 1);
                    return Err(Failure { position, error, charge });
                }
            }
        }
        Ok(outcomes)
    }
}

impl Outcome {
    /// What the operation costs.
    pub fn charge(&self) -> RequestCharge {
        match self {
            Self::Written(written) => written.charge,
            Self::Deleted(charge) => *charge,
            Self::Read(item) => item.read_charge(),
            Self::NotModified(_) => RequestCharge::ONE,
        }
    }
}
