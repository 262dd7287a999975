//! Upsert: create, or replace what is there.

use super::body::{Body, UncheckedBody};
use super::{WriteOptions, Written};
use crate::txn::Txn;
use armilla_model::error::Result;

impl Txn {
    /// Stages an item whether or not it exists. `If-Match` counts only when it does.
    pub fn upsert_item(&mut self, body: &[u8], options: &WriteOptions) -> Result<Written> {
        self.upsert_parsed(UncheckedBody::parse(body)?, options)
    }

    /// The same with a body that was parsed before.
    pub fn upsert_parsed(
        &mut self,
        body: UncheckedBody,
        options: &WriteOptions,
    ) -> Result<Written> {
        self.upsert_from(body.check()?, options)
    }

    pub(crate) fn upsert_from(&mut self, body: Body, options: &WriteOptions) -> Result<Written> {
        self.check_writable()?;
        self.check_key_of(&body.value)?;
        if let Some(current) = self.look_up(&body.id)? {
            current.check(options)?;
        }
        self.stage(body, options)
    }
}
