//! A container whose store and disk can be left as a crash would leave them.

use armilla_engine::account::{NewContainer, OfferChange};
use armilla_engine::items::WriteOptions;
use armilla_engine::offers::Throughput;
use armilla_engine::query::{Access, Limit, Options as PageOptions, Query, Request, Scope};
use armilla_engine::ranges::EpkSpan;
use armilla_engine::{Account, Container, Options, Txn};
use armilla_index::Limits;
use armilla_model::clock::ManualClock;
use armilla_model::partition_key::PartitionKey;
use armilla_model::{Value, json};
use armilla_storage::disk::{Disk, MemoryDisk};
use armilla_storage::{MemoryStore, StoreError};
use std::sync::{Arc, mpsc};

/// Request units per second of one partition.
const PARTITION_RUS: u32 = 1000;

pub(crate) struct Bench {
    pub(crate) account: Arc<Account>,
    pub(crate) container: Arc<Container>,
    pub(crate) disk: MemoryDisk,
    pub(crate) clock: Arc<ManualClock>,
    store: Arc<MemoryStore>,
    options: Options,
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
        let (disk, store) = (MemoryDisk::new(), Arc::new(MemoryStore::new()));
        let clock = Arc::new(ManualClock::at_seconds(1_700_000_000));
        let options = Options {
            clock: clock.clone(),
            partition_rus: PARTITION_RUS,
            background: false,
            disk: Some(Arc::new(disk.clone())),
            index_limits,
            ..Options::default()
        };
        let account = Account::open(store.clone(), options.clone()).unwrap();
        account.create_database("d", None).unwrap();
        let definition = json::parse(definition("").as_bytes()).unwrap();
        let new = NewContainer { definition: &definition, throughput: None };
        let container = account.create_container("d", &new).unwrap();
        Self { account, container, disk, clock, store, options }
    }

    /// From the next start on a server does what servers do beside requests.
    pub(crate) fn run_background(&mut self) {
        self.options.background = true;
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
        self.options.disk = Some(Arc::new(disk.clone()));
        self.account = Account::open(store.clone(), self.options.clone()).unwrap();
        self.container = self.account.container("d", "c").unwrap();
        (self.disk, self.store) = (disk, store);
    }

    /// As [`Bench::reopen`], where the start may be refused.
    pub(crate) fn try_reopen(
        &mut self,
        disk: MemoryDisk,
        store: Arc<MemoryStore>,
    ) -> Result<(), StoreError> {
        self.options.disk = Some(Arc::new(disk));
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
        let definition = json::parse(definition(policy).as_bytes()).unwrap();
        self.account.replace_container("d", "c", &definition, None).unwrap();
    }

    pub(crate) fn scale_to(&self, partitions: u32) {
        let offer = self.account.catalog().offer_of(&self.container.self_link).unwrap().clone();
        let units = (partitions * PARTITION_RUS).max(400).max(offer.minimum());
        let wanted = OfferChange::Set(Throughput::Manual(units));
        self.account.replace_offer(offer.number, wanted, None).unwrap();
        self.account.split_partitions();
    }

    pub(crate) fn merge(&self) {
        self.account.merge_partitions("d", "c").unwrap();
    }

    fn write(&self, pk: u64, change: impl FnOnce(&mut Txn)) {
        let key = PartitionKey::parse(&format!("[{pk}]")).unwrap();
        let epk = self.container.settings().policy.partition_key.epk(&key);
        let lock = self.container.lock_and_wait(&epk);
        let mut txn = Txn::begin(self.container.clone(), key, lock).unwrap();
        change(&mut txn);
        let (sender, receiver) = mpsc::sync_channel(1);
        txn.commit(move |outcome| sender.send(outcome).unwrap());
        receiver.recv().unwrap().unwrap();
    }

    pub(crate) fn put(&self, id: u64, pk: u64, members: &str) {
        let text = format!(r#"{{"id":"{id}","pk":{pk}{members}}}"#);
        self.write(pk, |txn| {
            txn.upsert_item(text.as_bytes(), &WriteOptions::default()).unwrap();
        });
    }

    pub(crate) fn delete(&self, id: u64, pk: u64) {
        self.write(pk, |txn| {
            txn.delete_item(&id.to_string(), &WriteOptions::default()).unwrap();
        });
    }

    /// Deletes an item and makes another with its id, in one transaction.
    pub(crate) fn recreate(&self, id: u64, pk: u64, members: &str) {
        let text = format!(r#"{{"id":"{id}","pk":{pk}{members}}}"#);
        self.write(pk, |txn| {
            txn.delete_item(&id.to_string(), &WriteOptions::default()).unwrap();
            txn.create_item(text.as_bytes(), &WriteOptions::default()).unwrap();
        });
    }

    pub(crate) fn rows(&self, text: &str, access: Access) -> Vec<Value> {
        let scope = Scope { span: EpkSpan::all(), limit: Limit::Container, cross_partition: true };
        let (mut rows, mut continuation) = (Vec::new(), None::<String>);
        loop {
            let query = Query::new(self.container.clone(), Request::of_text(text), &scope);
            let options = PageOptions {
                count_max: 50,
                continuation: continuation.as_deref(),
                range_by_range: false,
            };
            let page = query.unwrap().by(access).page(options).unwrap();
            rows.extend(page.rows.iter().map(|row| json::parse(row).unwrap()));
            continuation = page.continuation;
            if continuation.is_none() {
                return rows;
            }
        }
    }

    /// Items, logs, index files and index content agree.
    pub(crate) fn verify(&self) {
        assert_eq!(self.account.verify().unwrap().findings, [""; 0]);
    }
}

fn definition(policy: &str) -> String {
    format!(r#"{{"id":"c","partitionKey":{{"paths":["/pk"]}},"defaultTtl":-1{policy}}}"#)
}
