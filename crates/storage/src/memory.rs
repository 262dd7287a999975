//! A store that forgets: persistent trees in memory, for tests and `--in-memory`.
//!
//! The whole state is one reference-counted value of seven persistent trees. A snapshot clones
//! that reference; a commit copies only the paths it changes, and swaps the value under a short
//! lock. Readers never wait for writers.

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use rpds::RedBlackTreeMapSync;

use crate::{
    Batch, Direction, Durability, KeyRange, Keyspace, Operation, Snapshot, Store, StoreError,
    StoreStats,
};

/// A [`Store`] without files.
#[derive(Default)]
pub struct MemoryStore {
    current: RwLock<Arc<MemoryState>>,
    /// Held for a whole commit, so that changes see one state.
    writer: Mutex<()>,
}

#[derive(Clone, Default)]
struct MemoryState {
    maps: [RedBlackTreeMapSync<Vec<u8>, Bytes>; Keyspace::ALL.len()],
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A store with the same content that goes its own way: what a crash at this moment leaves.
    #[must_use]
    pub fn fork(&self) -> Self {
        let current = RwLock::new(Arc::clone(&self.current.read()));
        Self { current, writer: Mutex::new(()) }
    }
}

impl Store for MemoryStore {
    fn snapshot(&self) -> Arc<dyn Snapshot> {
        Arc::clone(&*self.current.read()) as Arc<dyn Snapshot>
    }

    fn commit(&self, batch: Batch, _durability: Durability) -> Result<(), StoreError> {
        let _writer = self.writer.lock();
        let before = Arc::clone(&*self.current.read());
        let mut next = MemoryState::clone(&before);
        batch.into_operations().for_each(|operation| next.apply(operation));
        *self.current.write() = Arc::new(next);
        Ok(())
    }

    fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn stats(&self) -> StoreStats {
        StoreStats::default()
    }
}

impl MemoryState {
    fn map(&self, keyspace: Keyspace) -> &RedBlackTreeMapSync<Vec<u8>, Bytes> {
        self.maps.get(keyspace.index()).expect("there is one map per keyspace")
    }

    fn apply(&mut self, operation: Operation) {
        let Operation { keyspace, key, value, is_shared } = operation;
        // What stays for good does not hold what it shares memory with.
        let value =
            if is_shared { value.map(|value| Bytes::copy_from_slice(&value)) } else { value };
        let map = self.maps.get_mut(keyspace.index()).expect("there is one map per keyspace");
        match value {
            Some(value) => map.insert_mut(key.into(), value),
            None => {
                map.remove_mut(&key[..]);
            }
        }
    }
}

impl Snapshot for MemoryState {
    fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        Ok(self.map(keyspace).get(key).cloned())
    }

    fn scan(
        &self,
        keyspace: Keyspace,
        range: &KeyRange,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], Bytes) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        if range.is_empty() {
            return Ok(());
        }
        let entries = self.map(keyspace).range::<[u8], _>(range.as_bounds());
        let mut show = |(key, value): (&Vec<u8>, &Bytes)| visit(key, value.clone());
        // Stopping early is a success like running to the end.
        let _stopped = match direction {
            Direction::Forward => { entries }.try_for_each(&mut show),
            Direction::Backward => entries.rev().try_for_each(&mut show),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(store: &MemoryStore, key: &str, value: &'static str) {
        let mut batch = Batch::new();
        batch.put(Keyspace::Items, key.into(), value);
        store.commit(batch, Durability::Relaxed).unwrap();
    }

    #[test]
    fn a_snapshot_does_not_see_later_commits() {
        let store = MemoryStore::new();
        put(&store, "a", "1");
        let before = store.snapshot();
        put(&store, "a", "2");
        assert_eq!(before.get(Keyspace::Items, b"a").unwrap().unwrap(), "1");
        assert_eq!(store.snapshot().get(Keyspace::Items, b"a").unwrap().unwrap(), "2");
    }

    #[test]
    fn scans_run_both_ways_and_stop_early() {
        let store = MemoryStore::new();
        ["a", "b", "c", "d"].into_iter().for_each(|key| put(&store, key, "v"));
        let snapshot = store.snapshot();
        let keys = |range: &KeyRange, direction, limit| -> Vec<Vec<u8>> {
            let page = snapshot.page(Keyspace::Items, range, direction, limit).unwrap();
            page.into_iter().map(|(key, _)| key).collect()
        };
        assert_eq!(keys(&KeyRange::all(), Direction::Forward, 2), [b"a", b"b"]);
        assert_eq!(keys(&KeyRange::before(*b"d"), Direction::Backward, 2), [b"c", b"b"]);
        assert_eq!(keys(&KeyRange::between(*b"d", *b"a"), Direction::Forward, 9).len(), 0);
        let first = snapshot.first(Keyspace::Items, &KeyRange::after(*b"a"), Direction::Forward);
        assert_eq!(first.unwrap().unwrap().0, b"b");
    }
}
