//! What the rows of a request mean: operations of the engine.

use super::operation::OperationRow;
use crate::wire::patch;
use armilla_engine::items::WriteOptions;
use armilla_engine::items::batch::{Operation, Verb};
use armilla_engine::items::body::UncheckedBody;
use armilla_model::partition_key::PartitionKey;
use armilla_model::{Error, Result, binary_json};
use std::borrow::Cow;

/// The resource type of items, the only one that is batched.
const DOCUMENT: i32 = 2;

impl<'b> OperationRow<'b> {
    /// The operation, or one that is refused when its turn comes.
    pub(super) fn operation(&self) -> Operation {
        let key = self.partition_key.map(PartitionKey::parse).transpose();
        let verb = self.verb();
        let (partition_key, verb) = match key {
            Ok(key) => (key, verb.unwrap_or_else(Verb::Unreadable)),
            Err(error) => (None, Verb::Unreadable(error)),
        };
        let excluded = |text: &str| text.eq_ignore_ascii_case("exclude");
        Operation {
            verb,
            options: WriteOptions {
                minimal: false,
                if_match: self.if_match.map(str::to_owned),
                if_none_match: self.if_none_match.map(str::to_owned),
                exclude_from_index: self.indexing_directive.is_some_and(excluded),
            },
            partition_key,
            minimal: self.minimal == Some(true),
        }
    }

    fn verb(&self) -> Result<Verb> {
        if self.resource_type != Some(DOCUMENT) {
            return Err(Error::bad_request("Only items can be batched: resource type 2."));
        }
        Ok(match self.operation_type {
            Some(0) => Verb::Create(self.item()?),
            Some(1) => Verb::Patch(self.id()?, patch::parse(self.body()?)?),
            Some(2) => Verb::Read(self.id()?),
            Some(4) => Verb::Delete(self.id()?),
            Some(5) => Verb::Replace(self.id()?, self.item()?),
            Some(20) => Verb::Upsert(self.item()?),
            Some(other) => {
                return Err(Error::bad_request(format!(
                    "The batch operation type '{other}' is not known."
                )));
            }
            None => return Err(Error::bad_request("The batch operation has no type.")),
        })
    }

    fn id(&self) -> Result<String> {
        let id = self.id.map(str::to_owned);
        id.ok_or_else(|| Error::bad_request("The batch operation needs an 'id'."))
    }

    fn body(&self) -> Result<&'b [u8]> {
        let missing = || Error::bad_request("The batch operation needs a 'resourceBody'.");
        self.resource_body.ok_or_else(missing)
    }

    /// The item of the row's body, in text or in binary JSON.
    fn item(&self) -> Result<UncheckedBody> {
        let body = self.body()?;
        let text = match binary_json::is_binary(body) {
            true => Cow::Owned(binary_json::to_text(body)?),
            false => Cow::Borrowed(body),
        };
        Ok(UncheckedBody::read(&text)?)
    }
}
