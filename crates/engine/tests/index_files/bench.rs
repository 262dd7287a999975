//! A container whose store and disk can be left as a crash would leave them.

use crate::support;
use armilla_engine::Account;
use armilla_engine::items::WriteOptions;
use armilla_engine::query::Access;
use armilla_index::Limits;
use armilla_model::Value;
use armilla_model::partition_key::PartitionKey;
use armilla_storage::disk::{Disk, MemoryDisk};
use armilla_storage::{MemoryStore, StoreError};
use std::ops::Deref;
use std::sync::Arc;

pub(crate) struct Bench {
    bench: support::Bench,
    pub(crate) disk: MemoryDisk,
}

impl Deref for Bench {
    type Target = support::Bench;

    fn deref(&self) -> &support::Bench {
        &self.bench
    }
}

/// Limits so small that a few writes make segments, merges and files.
pub(crate) fn small() -> Limits {
    Limits {
        tail_documents_max: 4,
        tier_fan_in: 3,
        tail_fan_in: 2,
        file_documents_min: 8,
        manifest_changes_max: 40,
        ..Limits::default()
    }
}

impl Bench {
    pub(crate) fn new(index_limits: Limits) -> Self {
        let disk = MemoryDisk::new();
        let bench = support::Bench::new(&definition(""), |options| {
            options.disk = Some(Arc::new(disk.clone()));
            options.index_limits = index_limits;
        });
        Self { bench, disk }
    }

    /// From the next start on a server does what servers do beside requests.
    pub(crate) fn run_background(&mut self) {
        self.bench.options.background = true;
    }

    /// Kills the server at this moment and starts another on what is left.
    pub(crate) fn crash(&mut self) {
        // The disk first: an index never knows more than the store.
        let disk = self.disk.after_crash();
        self.reopen(disk, Arc::new(self.store.fork()));
    }

    /// Stops the server properly and starts it again.
    pub(crate) fn restart(&mut self) {
        self.account.close().unwrap();
        self.reopen(self.disk.after_crash(), Arc::new(self.store.fork()));
    }

    /// Starts on this disk with a store of before.
    pub(crate) fn reopen(&mut self, disk: MemoryDisk, store: Arc<MemoryStore>) {
        self.bench.options.disk = Some(Arc::new(disk.clone()));
        self.bench.reopen(store);
        self.disk = disk;
    }

    /// As [`Bench::reopen`], where the start may be refused.
    pub(crate) fn try_reopen(
        &mut self,
        disk: MemoryDisk,
        store: Arc<MemoryStore>,
    ) -> Result<(), StoreError> {
        self.bench.options.disk = Some(Arc::new(disk));
        Account::open(store, self.options.clone()).map(drop)
    }

    pub(crate) fn store(&self) -> &Arc<MemoryStore> {
        &self.store
    }

    /// Changes a byte of a file, or cuts it.
    pub(crate) fn damage(&self, path: &std::path::Path, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.disk.read(path).unwrap().unwrap().to_vec();
        change(&mut bytes);
        let mut file = self.disk.create(path).unwrap();
        file.write(&bytes).unwrap();
        file.sync().unwrap();
        self.disk.sync_folder(path.parent().unwrap()).unwrap();
    }

    pub(crate) fn redefine(&self, policy: &str) {
        self.bench.redefine(&definition(policy));
    }

    pub(crate) fn put(&self, id: u64, pk: u64, members: &str) {
        let text = format!(r#"{{"id":"{id}","pk":{pk}{members}}}"#);
        self.change(&key(pk), |txn| {
            txn.upsert_item(text.as_bytes(), &WriteOptions::default()).unwrap();
        });
    }

    pub(crate) fn delete(&self, id: u64, pk: u64) {
        self.change(&key(pk), |txn| {
            txn.delete_item(&id.to_string(), &WriteOptions::default()).unwrap();
        });
    }

    /// Deletes an item and makes another with its id, in one transaction.
    pub(crate) fn recreate(&self, id: u64, pk: u64, members: &str) {
        let text = format!(r#"{{"id":"{id}","pk":{pk}{members}}}"#);
        self.change(&key(pk), |txn| {
            txn.delete_item(&id.to_string(), &WriteOptions::default()).unwrap();
            txn.create_item(text.as_bytes(), &WriteOptions::default()).unwrap();
        });
    }

    pub(crate) fn rows(&self, text: &str, access: Access) -> Vec<Value> {
        self.rows_of(text, 50, access)
    }
}

pub(crate) fn key(pk: u64) -> PartitionKey {
    PartitionKey::parse(&format!("[{pk}]")).unwrap()
}

fn definition(policy: &str) -> String {
    format!(r#"{{"id":"c","partitionKey":{{"paths":["/pk"]}},"defaultTtl":-1{policy}}}"#)
}
