//! A container whose throughput is turned up and down.

use armilla_engine::account::{NewContainer, OfferChange};
use armilla_engine::items::{WriteOptions, Written};
use armilla_engine::offers::Throughput;
use armilla_engine::query::{Limit, Options as PageOptions, Query, Request, Scope};
use armilla_engine::ranges::EpkSpan;
use armilla_engine::txn::Committed;
use armilla_engine::{Account, Container, Options, Txn};
use armilla_model::clock::ManualClock;
use armilla_model::partition_key::PartitionKey;
use armilla_model::{Result, Value, json};
use armilla_storage::{MemoryStore, Store};
use std::sync::{Arc, mpsc};

/// Request units per second of one partition.
pub(crate) const PARTITION_RUS: u32 = 1000;

/// A generator small enough to read: splitmix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// A setting from the environment.
pub(crate) fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

pub(crate) struct Bench {
    pub(crate) account: Arc<Account>,
    pub(crate) container: Arc<Container>,
    pub(crate) clock: Arc<ManualClock>,
    store: Arc<dyn Store>,
    options: Options,
}

impl Bench {
    /// A container with this definition; it begins with one partition.
    pub(crate) fn new(definition: &str, change: impl FnOnce(&mut Options)) -> Self {
        let clock = Arc::new(ManualClock::at_seconds(1_700_000_000));
        let mut options = Options {
            clock: clock.clone(),
            partition_rus: PARTITION_RUS,
            background: false,
            ..Options::default()
        };
        change(&mut options);
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let account = Account::open(store.clone(), options.clone()).unwrap();
        account.create_database("d", None).unwrap();
        let definition = json::parse(definition.as_bytes()).unwrap();
        let new = NewContainer { definition: &definition, throughput: None };
        let container = account.create_container("d", &new).unwrap();
        Self { account, container, clock, store, options }
    }

    /// The same data behind a fresh start.
    pub(crate) fn restart(&mut self) {
        self.account = Account::open(self.store.clone(), self.options.clone()).unwrap();
        self.container = self.account.container("d", "c").unwrap();
    }

    /// Sets the throughput to that of so many partitions and splits.
    pub(crate) fn scale_to(&self, partitions: u32) {
        let offer = self.account.catalog().offer_of(&self.container.self_link).unwrap().clone();
        let units = (partitions * PARTITION_RUS).max(400).max(offer.minimum());
        let wanted = OfferChange::Set(Throughput::Manual(units));
        self.account.replace_offer(offer.number, wanted, None).unwrap();
        self.account.split_partitions();
        assert!(!self.account.is_scaling(&offer));
    }

    pub(crate) fn merge(&self) -> usize {
        self.account.merge_partitions("d", "c").unwrap()
    }

    pub(crate) fn begin(&self, key: &PartitionKey) -> Txn {
        begin(&self.container, key)
    }

    pub(crate) fn check(&self) {
        let report = self.account.verify().unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
    }

    pub(crate) fn rows(&self, text: &str, page_size: usize) -> Vec<Value> {
        rows(&self.container, text, page_size, |_| {})
    }
}

pub(crate) fn begin(container: &Arc<Container>, key: &PartitionKey) -> Txn {
    let epk = container.settings().policy.partition_key.epk(key);
    Txn::begin(container.clone(), key.clone(), container.lock_and_wait(&epk)).unwrap()
}

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

/// Every row of a query over the whole container; `between` is called between two pages.
pub(crate) fn rows(
    container: &Arc<Container>,
    text: &str,
    page_size: usize,
    mut between: impl FnMut(usize),
) -> Vec<Value> {
    let scope = Scope { span: EpkSpan::all(), limit: Limit::Container, cross_partition: true };
    let (mut rows, mut continuation) = (Vec::new(), None::<String>);
    for page in 0.. {
        let query = Query::new(container.clone(), Request::of_text(text), &scope).unwrap();
        let options = PageOptions {
            count_max: page_size,
            continuation: continuation.as_deref(),
            range_by_range: false,
        };
        let answer = query.page(options).unwrap();
        rows.extend(answer.rows.iter().map(|row| json::parse(row).unwrap()));
        continuation = answer.continuation;
        if continuation.is_none() {
            break;
        }
        between(page);
    }
    rows
}
