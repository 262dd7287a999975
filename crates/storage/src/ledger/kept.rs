//! A local copy that outlives the ownership of its journal.
//!
//! A node that gives one of its journals up goes on following it with the same copy. Closing the [`LedgerStore`](super::LedgerStore) of an ownership closes the
//! store below it; this one stays open until its own handle is closed.

use std::sync::Arc;

use crate::{Batch, Durability, Keyspace, Pressure, Room, Snapshot, Store, StoreError, StoreStats};

/// A key that nothing has: keys of the engine begin with a letter.
const NO_KEY: &[u8] = b"!-";

/// A store that stays open when it is closed.
pub struct KeptOpen(Arc<dyn Store>);

impl KeptOpen {
    /// The same store, for one ownership.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self(store)
    }
}

impl Store for KeptOpen {
    fn snapshot(&self) -> Arc<dyn Snapshot> {
        self.0.snapshot()
    }

    fn commit(&self, batch: Batch, durability: Durability) -> Result<(), StoreError> {
        self.0.commit(batch, durability)
    }

    /// Makes everything durable, and leaves the store open.
    fn close(&self) -> Result<(), StoreError> {
        // Whatever is synced, syncs all before it.
        let mut nothing = Batch::new();
        nothing.delete(Keyspace::Meta, NO_KEY.to_vec());
        self.0.commit(nothing, Durability::Synced)
    }

    fn stats(&self) -> StoreStats {
        self.0.stats()
    }

    fn pressure(&self) -> Pressure {
        self.0.pressure()
    }

    fn room(&self) -> Room {
        self.0.room()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryStore;

    #[test]
    fn it_can_be_written_to_after_it_was_closed() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let kept = KeptOpen::new(Arc::clone(&store));
        kept.close().unwrap();
        let mut batch = Batch::new();
        batch.put(Keyspace::Meta, b"k".to_vec(), b"v".to_vec());
        kept.commit(batch, Durability::Relaxed).unwrap();
        assert!(store.snapshot().contains(Keyspace::Meta, b"k").unwrap());
        assert_eq!((kept.pressure(), kept.room()), (store.pressure(), store.room()));
        assert_eq!(kept.stats(), store.stats());
    }
}
