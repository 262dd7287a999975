//! Opening an account that another node owns, to have its indexes ready: whoever takes it over then only brings them up to date.
//!
//! Nothing is written to the store. What the indexes leave on disk is what an owner would have left that opened the account at this place and was killed
//! before its first commit. If opening wanted to commit something, that would not be so, and all index files are thrown away again.

use super::{Account, Options, open};
use crate::index_files::IndexFolders;
use armilla_storage::{Batch, Durability, Snapshot, Store, StoreError, StoreStats};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

impl Account {
    /// Opens the account as a copy has it now, saves its indexes, and closes it. The copy may be written to meanwhile, the index files are nobody else's. False
    /// when there was nothing to be won.
    ///
    /// # Errors
    ///
    /// When the copy cannot be read.
    pub fn rehearse(copy: &Arc<dyn Store>, options: Options) -> Result<bool, StoreError> {
        let store = Arc::new(Untouched::new(copy));
        let folders = IndexFolders::new(options.disk.clone(), options.index_limits);
        let rehearsed = Self::open(store.clone(), Options { background: false, ..options })
            .and_then(|account| account.close());
        let is_kept = rehearsed.is_ok() && !store.is_touched.load(Ordering::SeqCst);
        let kept = if is_kept { open::serving_indexes(&*store.snapshot)? } else { HashSet::new() };
        folders.retain(&kept);
        rehearsed.map(|()| is_kept)
    }
}

/// A store that takes nothing in.
struct Untouched {
    copy: Arc<dyn Store>,
    /// What the copy held in the beginning.
    snapshot: Arc<dyn Snapshot>,
    /// Somebody wanted to commit something.
    is_touched: AtomicBool,
}

impl Untouched {
    fn new(copy: &Arc<dyn Store>) -> Self {
        let (snapshot, is_touched) = (copy.snapshot(), AtomicBool::new(false));
        Self { copy: Arc::clone(copy), snapshot, is_touched }
    }
}

impl Store for Untouched {
    fn snapshot(&self) -> Arc<dyn Snapshot> {
        Arc::clone(&self.snapshot)
    }

    fn commit(&self, batch: Batch, _durability: Durability) -> Result<(), StoreError> {
        if !batch.is_empty() {
            self.is_touched.store(true, Ordering::SeqCst);
        }
        Ok(())
    }

    fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn stats(&self) -> StoreStats {
        self.copy.stats()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_model::clock::ManualClock;
    use armilla_storage::disk::MemoryDisk;
    use armilla_storage::{Keyspace, MemoryStore};

    #[test]
    fn who_wants_to_commit_leaves_no_index_behind() {
        let copy: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let store = Untouched::new(&copy);
        store.commit(Batch::new(), Durability::Synced).unwrap();
        assert!(!store.is_touched.load(Ordering::SeqCst));
        let mut batch = Batch::new();
        batch.put(Keyspace::Meta, b"k".to_vec(), b"v".to_vec());
        store.commit(batch, Durability::Synced).unwrap();
        assert!(store.is_touched.load(Ordering::SeqCst));
        assert!(copy.snapshot().get(Keyspace::Meta, b"k").unwrap().is_none());
    }

    #[test]
    fn a_copy_that_goes_on_meanwhile_is_opened_as_it_was() {
        let copy: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let store = Untouched::new(&copy);
        let mut batch = Batch::new();
        batch.put(Keyspace::Meta, b"k".to_vec(), b"v".to_vec());
        copy.commit(batch, Durability::Synced).unwrap();
        assert!(copy.snapshot().get(Keyspace::Meta, b"k").unwrap().is_some());
        assert!(store.snapshot().get(Keyspace::Meta, b"k").unwrap().is_none());
        assert!(!store.is_touched.load(Ordering::SeqCst));
    }

    #[test]
    fn an_empty_account_can_be_rehearsed() {
        let copy: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let clock = Arc::new(ManualClock::at_seconds(1));
        let disk = Arc::new(MemoryDisk::new());
        let options = Options { clock, disk: Some(disk), ..Options::default() };
        assert!(Account::rehearse(&copy, options).unwrap());
    }
}
