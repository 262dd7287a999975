//! Replace: the item must exist; its id and partition key stay.

use super::body::Body;
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
        let body = self.parse_body(body)?;
        self.replace_with(id, body, options)
    }

    pub(crate) fn replace_with(
        &mut self,
        id: &str,
        body: Body,
        options: &WriteOptions,
    ) -> Result<Written> {
        let current = self.find(id)?.ok_or_else(Error::not_found)?;
        current.check(options)?;
        self.check_key_of(&body.value)?;
        if &*body.id != id {
            return Err(Error::bad_request(format!(
                "The id of an item cannot be changed: the path says '{id}', the body '{}'.",
                body.id
            )));
        }
        self.stage(body, options)
    }
}
