//! Transactional batches: up to 100 operations in one logical partition, all or none.

use super::body::UncheckedBody;
use super::patch::Patch;
use super::read::Item;
use super::{WriteOptions, Written};
use crate::limits::BATCH_ANSWER_MAX;
use crate::txn::Txn;
use armilla_model::charge::{Rates, RequestCharge};
use armilla_model::error::{Error, Result};
use armilla_model::partition_key::PartitionKey;

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
                item.etag.check(options.if_match.as_deref())?;
                let known = options.if_none_match.as_deref();
                let known = known.is_some_and(|etag| item.etag.matches(etag));
                Ok(if known { Outcome::NotModified(item) } else { Outcome::Read(item) })
            }
        }
    }

    /// Runs a whole batch; at the first failure nothing of it counts.
    pub fn run_batch(&mut self, operations: Vec<Operation>) -> Result<Vec<Outcome>, Failure> {
        let mut outcomes = Vec::with_capacity(operations.len());
        self.reserve(operations.len());
        let created =
            operations.iter().filter(|operation| matches!(operation.verb, Verb::Create(_)));
        // A failure is met again by the operation that it concerns, which says so.
        let _unknown = self.find_absent(created.flat_map(Operation::ids));
        let mut size = 0;
        for (position, operation) in operations.into_iter().enumerate() {
            let is_wanted = !operation.minimal;
            let outcome = self.run_operation(operation).and_then(|outcome| {
                size += if is_wanted { outcome.text_length() } else { 0 };
                if size <= BATCH_ANSWER_MAX { Ok(outcome) } else { Err(answer_too_large()) }
            });
            match outcome {
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

fn answer_too_large() -> Error {
    Error::TooLarge(format!(
        "The items that the batch would answer with have more than {BATCH_ANSWER_MAX} bytes. Read them one by one, or in several batches."
    ))
}

impl Outcome {
    /// Bytes of the item that the operation answers with.
    pub fn text_length(&self) -> usize {
        match self {
            Self::Written(written) => written.text.len(),
            Self::Read(item) => item.text.len(),
            Self::Deleted(_) | Self::NotModified(_) => 0,
        }
    }

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
