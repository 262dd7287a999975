//! Create: the id must be free in its logical partition.

use super::body::{Body, UncheckedBody};
use super::{WriteOptions, Written};
use crate::txn::Txn;
use armilla_model::error::Result;

impl Txn {
    /// Stages a new item.
    pub fn create_item(&mut self, body: &[u8], options: &WriteOptions) -> Result<Written> {
        self.create_parsed(UncheckedBody::parse(body)?, options)
    }

    /// The same with a body that was parsed before.
    pub fn create_parsed(
        &mut self,
        body: UncheckedBody,
        options: &WriteOptions,
    ) -> Result<Written> {
        self.create_from(body.check()?, options)
    }

    pub(crate) fn create_from(&mut self, body: Body, options: &WriteOptions) -> Result<Written> {
        self.check_writable()?;
        self.check_key_of(&body.value)?;
        self.stage_new(body, options)
    }
}
