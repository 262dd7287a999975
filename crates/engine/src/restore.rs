//! After a restore: every log goes on far ahead of where the backup ended.
//!
//! Clients may hold session tokens and feed positions from after the backup was taken. Raising the
//! heads keeps those satisfied instead of refusing them for ever.

use crate::keys::{self, Meta};
use armilla_storage::{
    Batch, Direction, Durability, KeyRange, Keyspace, Snapshot, Store, StoreError,
};

/// By how much the heads are raised.
const RAISE: u64 = 1 << 32;

/// Raises the log head of every partition of every container.
pub fn raise_heads(store: &dyn Store) -> Result<(), StoreError> {
    let snapshot = store.snapshot();
    let mut batch = Batch::new();
    let prefix = KeyRange::prefix(&keys::meta(Meta::Container, &[]));
    for (key, value) in snapshot.page(Keyspace::Meta, &prefix, Direction::Forward, usize::MAX)? {
        let number = key.get(5..9).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes);
        let Some(container) = number else { continue };
        let entry = crate::catalog::stored::StoredEntry::read(&value)?;
        for range in crate::catalog::stored::StoredContainer::read(&entry)?.ranges {
            let head = head_of(&*snapshot, container, range.id)?;
            let key = keys::meta(Meta::Head, &[container, range.id]);
            batch.put(Keyspace::Meta, key, (head + RAISE).to_be_bytes().to_vec());
        }
    }
    if batch.is_empty() { Ok(()) } else { store.commit(batch, Durability::Synced) }
}

fn head_of(snapshot: &dyn Snapshot, container: u32, partition: u32) -> Result<u64, StoreError> {
    let noted = snapshot.get(Keyspace::Meta, &keys::meta(Meta::Head, &[container, partition]))?;
    let noted = noted.as_deref().and_then(|bytes| bytes.try_into().ok());
    let mut head = noted.map_or(0, u64::from_be_bytes);
    for log in [Keyspace::Feed, Keyspace::Gone] {
        let last = snapshot.first(log, &keys::log_of(container, partition), Direction::Backward)?;
        let lsn = last
            .and_then(|(key, _)| keys::read_log(&key).ok())
            .map_or(0, |position| position.lsn.0);
        head = head.max(lsn);
    }
    Ok(head)
}
