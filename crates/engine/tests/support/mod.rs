//! The test bench of the engine's integration tests: an account on a store in memory, one container in it,
//! and what tests do with them: write, query, split, start anew, check.
//!
//! What only one target needs (pages of queries, disks that crash, scripts) is added there, in a type
//! that derefs to [`Bench`].

#![allow(dead_code, reason = "every target uses its own share")]
#![allow(unused_imports, reason = "every target uses its own share")]

mod random;

use armilla_engine::account::{NewContainer, OfferChange};
use armilla_engine::items::{WriteOptions, Written};
use armilla_engine::offers::Throughput;
use armilla_engine::query::{Access, Limit, PageOptions, Query, Request, Scope};
use armilla_engine::ranges::EpkSpan;
use armilla_engine::txn::Committed;
use armilla_engine::{Account, Container, Options, Txn};
use armilla_model::clock::ManualClock;
use armilla_model::partition_key::PartitionKey;
use armilla_model::{Result, Value, json};
use armilla_storage::{MemoryStore, Store};
pub(crate) use random::{Random, setting};
use std::sync::{Arc, mpsc};

/// Request units per second of one partition.
pub(crate) const PARTITION_RUS: u32 = 1000;
/// The second at which the clock of a bench stands at first.
pub(crate) const FIRST_SECOND: u64 = 1_700_000_000;

/// A container, `dbs/d/colls/c`, of its own account.
pub(crate) struct Bench {
    pub(crate) account: Arc<Account>,
    pub(crate) container: Arc<Container>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) options: Options,
}

impl Bench {
    /// A container with this definition; it begins with one partition unless the options say otherwise.
    pub(crate) fn new(definition: &str, change: impl FnOnce(&mut Options)) -> Self {
        let clock = Arc::new(ManualClock::at_seconds(FIRST_SECOND));
        let mut options = Options {
            clock: clock.clone(),
            partition_rus: PARTITION_RUS,
            background: false,
            ..Options::default()
        };
        change(&mut options);
        let store = Arc::new(MemoryStore::new());
        let account = Account::open(store.clone(), options.clone()).unwrap();
        account.create_database("d", None).unwrap();
        let container = create_container(&account, definition);
        Self { account, container, clock, store, options }
    }

    /// The same data behind a fresh start.
    pub(crate) fn restart(&mut self) {
        self.reopen(self.store.clone());
    }

    /// Starts on another store.
    pub(crate) fn reopen(&mut self, store: Arc<MemoryStore>) {
        self.account = Account::open(store.clone(), self.options.clone()).unwrap();
        self.container = self.account.container("d", "c").unwrap();
        self.store = store;
    }

    /// Another container of the same account.
    pub(crate) fn beside(&self, container: Arc<Container>) -> Self {
        Self {
            account: self.account.clone(),
            container,
            clock: self.clock.clone(),
            store: self.store.clone(),
            options: self.options.clone(),
        }
    }

    /// Replaces the definition.
    pub(crate) fn redefine(&self, definition: &str) {
        self.account.replace_container(&self.container, &value(definition), None).unwrap();
    }

    /// Sets the throughput to that of so many partitions and splits.
    pub(crate) fn scale_to(&self, partitions: u32) {
        let offer = self.account.catalog().offer_of(&self.container.self_link).unwrap().clone();
        let units = (partitions * PARTITION_RUS).max(400).max(offer.minimum());
        let wanted = OfferChange::Set(Throughput::Manual(units));
        self.account.replace_offer(offer.number, wanted, None, None).unwrap();
        self.account.split_partitions();
        assert!(!self.account.is_scaling(&offer));
    }

    pub(crate) fn merge(&self) -> usize {
        self.account.merge_partitions("d", "c").unwrap()
    }

    pub(crate) fn begin(&self, key: &PartitionKey) -> Txn {
        begin(&self.container, key)
    }

    /// The partition key of an item.
    pub(crate) fn key_of(&self, item: &Value) -> PartitionKey {
        PartitionKey::of_item(item, &self.container.settings().policy.partition_key)
    }

    /// Changes a logical partition in one transaction.
    pub(crate) fn change<T>(&self, key: &PartitionKey, change: impl FnOnce(&mut Txn) -> T) -> T {
        let mut txn = self.begin(key);
        let changed = change(&mut txn);
        commit(txn).unwrap();
        changed
    }

    /// Stores an item.
    pub(crate) fn upsert(&self, text: &str) -> Written {
        let key = self.key_of(&value(text));
        upsert(&self.container, &key, text).unwrap()
    }

    /// Every row of a query over the whole container.
    pub(crate) fn rows_of(&self, text: &str, page_size: usize, access: Access) -> Vec<Value> {
        try_rows(&self.container, text, page_size, access, |_| {}).unwrap()
    }

    /// Items, logs, index files and index content agree.
    pub(crate) fn verify(&self) {
        assert_eq!(self.account.verify().unwrap().findings, [""; 0]);
    }
}

/// JSON text as a value.
pub(crate) fn value(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap()
}

/// A new container of the database `d`.
pub(crate) fn create_container(account: &Arc<Account>, definition: &str) -> Arc<Container> {
    let definition = value(definition);
    let new = NewContainer { definition: &definition, throughput: None };
    account.create_container("d", &new).unwrap()
}

/// An open transaction of a logical partition.
pub(crate) fn begin(container: &Arc<Container>, key: &PartitionKey) -> Txn {
    let epk = container.settings().policy.partition_key.epk(key);
    Txn::begin(container.clone(), key.clone(), container.lock_and_wait(&epk)).unwrap()
}

/// Commits and waits until it is durable.
pub(crate) fn commit(txn: Txn) -> Result<Committed> {
    let (sender, receiver) = mpsc::sync_channel(1);
    txn.commit(move |outcome| sender.send(outcome).unwrap());
    receiver.recv().unwrap()
}

pub(crate) fn upsert(
    container: &Arc<Container>,
    key: &PartitionKey,
    text: &str,
) -> Result<Written> {
    let mut txn = begin(container, key);
    let written = txn.upsert_item(text.as_bytes(), &WriteOptions::default())?;
    commit(txn).map(|_| written)
}

/// The scope of a query over the whole container.
pub(crate) fn everything() -> Scope {
    Scope { span: EpkSpan::all(), limit: Limit::Container, cross_partition: true }
}

/// Every row of a query over the whole container; `between` is called between two pages.
pub(crate) fn rows(
    container: &Arc<Container>,
    text: &str,
    page_size: usize,
    between: impl FnMut(usize),
) -> Vec<Value> {
    try_rows(container, text, page_size, Access::ByCost, between).unwrap()
}

/// The same with the index or without, where the query may be refused.
pub(crate) fn try_rows(
    container: &Arc<Container>,
    text: &str,
    page_size: usize,
    access: Access,
    mut between: impl FnMut(usize),
) -> Result<Vec<Value>> {
    let (mut rows, mut continuation) = (Vec::new(), None::<String>);
    for page in 0.. {
        let query = Query::new(container.clone(), Request::of_text(text), &everything())?;
        let options = PageOptions {
            count_max: page_size,
            continuation: continuation.as_deref(),
            range_by_range: false,
        };
        let answer = query.by(access).page(options)?;
        rows.extend(answer.rows.iter().map(|row| json::parse(row).unwrap()));
        continuation = answer.continuation;
        if continuation.is_none() {
            break;
        }
        between(page);
    }
    Ok(rows)
}
