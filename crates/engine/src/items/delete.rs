//! Delete: the item must exist.

use super::{WriteOptions, Written};
use crate::txn::Txn;
use armilla_model::error::{Error, Result};

impl Txn {
    /// Stages the removal of an item.
    pub fn delete_item(&mut self, id: &str, options: &WriteOptions) -> Result<Written> {
        self.check_writable()?;
        let current = self.find(id)?.ok_or_else(Error::not_found)?;
        current.check(options)?;
        let (docno, size_before) = (current.docno(), current.size());
        let charge = self.stage_removal(id)?;
        Ok(Written {
            created: false,
            text: bytes::Bytes::new(),
            etag: None,
            charge,
            id: id.into(),
            docno,
            size_before,
            replaced: None,
        })
    }
}
