//! What a reader sees of a store into which nothing was ever written.
//!
//! fjall takes a snapshot of number zero for no snapshot at all when it looks for the oldest one that
//! is still held, and then forgets versions that *other* snapshots need: reading through those panics.
//! Such a snapshot shows nothing in any case, so this one is handed out in its place.

use super::{Direction, KeyRange, Keyspace, Snapshot, StoreError};
use bytes::Bytes;
use std::ops::ControlFlow;

/// A snapshot without entries.
pub(super) struct Nothing;

impl Snapshot for Nothing {
    fn get(&self, _keyspace: Keyspace, _key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        Ok(None)
    }

    fn scan(
        &self,
        _keyspace: Keyspace,
        _range: &KeyRange,
        _direction: Direction,
        _visit: &mut dyn FnMut(&[u8], Bytes) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        Ok(())
    }
}
