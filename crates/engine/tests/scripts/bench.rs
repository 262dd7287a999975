//! A container in memory, and scripts run on it.

use crate::support;
pub(crate) use crate::support::value;
use armilla_engine::account::NewScript;
use armilla_engine::items::{WriteOptions, Written};
use armilla_engine::query::Access;
use armilla_engine::ranges::EpkSpan;
use armilla_engine::scripts::{
    self, Executed, Kind, Procedure, Trigger, TriggerOperation, Triggered, TriggeredVerb,
    TriggeredWrite,
};
use armilla_engine::{Container, Txn};
use armilla_model::partition_key::PartitionKey;
use armilla_model::{Result, Value, json};
use armilla_script::Limits;
use std::ops::Deref;
use std::sync::{Arc, mpsc};

/// A container, and a client that waits for its scripts.
pub(crate) struct Bench {
    bench: support::Bench,
    waiting: Arc<()>,
    verified: bool,
}

impl Deref for Bench {
    type Target = support::Bench;

    fn deref(&self) -> &support::Bench {
        &self.bench
    }
}

impl Bench {
    /// A container with this definition.
    pub(crate) fn new(definition: &str, limits: Limits) -> Self {
        let bench = support::Bench::new(definition, |options| options.partitions = Some(2));
        bench.account.set_script_limits(limits);
        Self { bench, waiting: Arc::default(), verified: true }
    }

    /// Another container of the same account; nobody checks the account after it.
    pub(crate) fn beside(&self, container: Arc<Container>) -> Self {
        let bench = self.bench.beside(container);
        Self { bench, waiting: Arc::default(), verified: false }
    }

    /// A container by the key path `/pk`.
    pub(crate) fn plain() -> Self {
        Self::new(r#"{"id":"c","partitionKey":{"paths":["/pk"]}}"#, Limits::default())
    }

    /// An open transaction of a logical partition, given as a header.
    pub(crate) fn begin(&self, key: &str) -> Txn {
        self.bench.begin(&PartitionKey::parse(key).unwrap())
    }

    /// Stores an item.
    pub(crate) fn put(&self, text: &str) -> Written {
        self.upsert(text)
    }

    /// The stored item.
    pub(crate) fn item(&self, key: &str, id: &str) -> Option<Value> {
        let key = PartitionKey::parse(key).unwrap();
        let item = self.container.read_item(&key, id).unwrap()?;
        Some(json::parse(&item.text).unwrap())
    }

    /// All stored items.
    pub(crate) fn items(&self) -> Vec<Value> {
        let page = self.container.list_items(&EpkSpan::all(), None, 100_000).unwrap();
        assert!(page.continuation.is_none(), "tests hold little");
        page.items.iter().map(|item| json::parse(&item.text).unwrap()).collect()
    }

    /// The rows of a query over everything.
    pub(crate) fn query(&self, text: &str) -> Result<Vec<Value>> {
        support::try_rows(&self.container, text, 10_000, Access::ByCost, |_| {})
    }

    /// Registers a script.
    pub(crate) fn register(&self, new: &NewScript<'_>) -> Result<()> {
        self.account.create_script(&self.container, new, true).map(drop)
    }

    /// Registers a procedure.
    pub(crate) fn procedure(&self, name: &str, body: &str) -> Result<()> {
        self.register(&NewScript { kind: Kind::Procedure, name, body, trigger: None })
    }

    /// Registers a trigger.
    pub(crate) fn trigger(&self, name: &str, before: bool, operation: &str, body: &str) {
        let operation = TriggerOperation::parse(operation).unwrap();
        let trigger = Some(Trigger { before, operation, spelling: operation.text().into() });
        self.register(&NewScript { kind: Kind::Trigger, name, body, trigger }).unwrap();
    }

    /// Runs a registered procedure.
    pub(crate) fn execute(&self, name: &str, key: &str, arguments: &str) -> Executed {
        self.execute_logged(name, key, arguments, false)
    }

    pub(crate) fn execute_logged(
        &self,
        name: &str,
        key: &str,
        arguments: &str,
        logging: bool,
    ) -> Executed {
        let script = self.container.script(Kind::Procedure, name).unwrap();
        let arguments = scripts::arguments(arguments.as_bytes()).unwrap();
        let (sender, receiver) = mpsc::sync_channel(1);
        let client = Arc::downgrade(&self.waiting);
        let procedure = Procedure { script, arguments, logging, client };
        self.begin(key).execute_procedure(procedure, move |executed| {
            sender.send(executed).unwrap();
        });
        receiver.recv().unwrap()
    }

    /// Registers a procedure and runs it; its answer.
    pub(crate) fn run(&self, key: &str, body: &str) -> Result<Value> {
        self.procedure("p", body)?;
        self.execute("p", key, "").result.map(|(body, _)| value(&body))
    }

    /// A write with triggers.
    pub(crate) fn write(
        &self,
        key: &str,
        verb: TriggeredVerb,
        pre: &[&str],
        post: &[&str],
    ) -> Result<Triggered> {
        let triggers = self.container.triggers(pre.iter().copied(), post.iter().copied())?;
        let (sender, receiver) = mpsc::sync_channel(1);
        let (options, client) = (WriteOptions::default(), Arc::downgrade(&self.waiting));
        let write = TriggeredWrite { verb, options, triggers, client };
        self.begin(key).write_triggered(write, move |outcome| sender.send(outcome).unwrap());
        Ok(receiver.recv().unwrap())
    }
}

impl Drop for Bench {
    /// Whatever a test did, what is stored must agree with itself.
    fn drop(&mut self) {
        if self.verified && !std::thread::panicking() {
            self.verify();
        }
    }
}
