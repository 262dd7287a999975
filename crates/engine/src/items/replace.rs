//! Replace: the item must exist; its partition key stays. Its id may change.

use super::body::{Body, UncheckedBody};
use super::{WriteOptions, Written};
use crate::txn::Txn;
use armilla_model::error::{Error, Result};

impl Txn {
    /// Stages a new version of an existing item.
    pub fn replace_item(
        &mut self,
        id: &str,
        body: &[u8],
        options: &WriteOptions,
    ) -> Result<Written> {
        self.replace_parsed(id, UncheckedBody::parse(body), options)
    }

    /// The same with a body that was parsed before, or could not be.
    pub fn replace_parsed(
        &mut self,
        id: &str,
        body: Result<UncheckedBody>,
        options: &WriteOptions,
    ) -> Result<Written> {
        self.check_writable()?;
        let body = match body.and_then(UncheckedBody::check) {
            Ok(body) => body,
            // Of an item that is missing nothing else is said.
            Err(_) if self.look_up(id)?.is_none() => return Err(Error::not_found()),
            Err(error) => return Err(error),
        };
        self.replace_with(id, body, options)
    }

    pub(crate) fn replace_with(
        &mut self,
        id: &str,
        body: Body,
        options: &WriteOptions,
    ) -> Result<Written> {
        self.check_writable()?;
        let current = self.look_up(id)?.ok_or_else(Error::not_found)?;
        current.check(options)?;
        self.check_key_of(&body.value)?;
        if &*body.id == id {
            return self.stage(body, options);
        }
        // A replace may rename: the item keeps its ordinal and `_rid`, only its key moves.
        if self.find(&body.id)?.is_some() {
            return Err(Error::conflict());
        }
        self.stage_renamed(id, body, options)
    }
}
