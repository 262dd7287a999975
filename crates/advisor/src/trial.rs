//! A throw-away account in memory, in which a proposal is built of real items and charged by the same rates.

use crate::limits::ROWS_MAX;
use crate::live::{scope_of, without_system};
use armilla_engine::account::{NewContainer, NewScript};
use armilla_engine::items::WriteOptions;
use armilla_engine::offers::Throughput;
use armilla_engine::query::{self, Limit, PageOptions, Query, Request, Scope};
use armilla_engine::ranges::EpkSpan;
use armilla_engine::scripts::{Kind, Procedure};
use armilla_engine::{Account, Container, ItemAddress, Options, Txn};
use armilla_model::partition_key::PartitionKey;
use armilla_model::value::{Object, Value};
use armilla_model::{Error, Result, json};
use armilla_sql::plan::PlanKind;
use armilla_storage::{Durability, MemoryStore};
use std::cell::Cell;
use std::sync::{Arc, mpsc};

/// Where an order-by query takes its resume condition.
const RESUME_FILTER: &str = "{documentdb-formattableorderbyquery-filter}";
/// The database of a trial.
const DATABASE: &str = "trial";
/// Throughput that gives a container one range.
const RANGE_UNITS: u32 = 10_000;

/// An account that nobody else sees.
pub(crate) struct Trial {
    account: Arc<Account>,
    made: Cell<u32>,
}

/// How a container of a trial is defined.
pub(crate) struct Design<'a> {
    pub(crate) key: &'a [String],
    pub(crate) ranges: u32,
    /// The container whose indexing policy it has.
    pub(crate) like: &'a Container,
    /// Another indexing policy.
    pub(crate) indexing: Option<Value>,
}

impl Trial {
    /// A trial that charges as the account does.
    pub(crate) fn new(source: &Account) -> Result<Self> {
        let options = Options {
            clock: source.clock().clone(),
            durability: Durability::Relaxed,
            dials: armilla_engine::dials::Dials {
                throttle: armilla_engine::dials::Throttling::Off,
                partitions: None,
                partition_rus: RANGE_UNITS,
                ..(*source.dials()).clone()
            },
            background: false,
            ..Options::default()
        };
        let account = Account::open(Arc::new(MemoryStore::new()), options)
            .map_err(|error| Error::Internal(error.to_string()))?;
        account.create_database(DATABASE, None)?;
        Ok(Self { account, made: Cell::new(0) })
    }

    /// A new container.
    pub(crate) fn container(&self, design: &Design<'_>) -> Result<Arc<Container>> {
        self.made.set(self.made.get() + 1);
        let paths = design.key.iter().map(|path| Value::from(path.as_str())).collect();
        let kind = if design.key.len() > 1 { "MultiHash" } else { "Hash" };
        let key = Object::of([
            ("paths", Value::array(paths)),
            ("kind", kind.into()),
            ("version", 2.into()),
        ]);
        let name = format!("c{}", self.made.get());
        let mut definition =
            Object::of([("id", name.as_str().into()), ("partitionKey", Value::object(key))]);
        let settings = design.like.settings();
        let indexing = settings.policy.definition.get("indexingPolicy").cloned();
        if let Some(policy) = design.indexing.clone().or(indexing) {
            definition.insert("indexingPolicy", policy);
        }
        let definition = Value::object(definition);
        let throughput = Some(Throughput::Manual(design.ranges.max(1) * RANGE_UNITS));
        self.account
            .create_container(DATABASE, &NewContainer { definition: &definition, throughput })
    }

    fn transaction(container: &Arc<Container>, key: PartitionKey) -> Result<Txn> {
        let address = ItemAddress::of(container, key)?;
        let lock = container.lock_and_wait(&address.epk);
        Txn::at(address, lock)
    }

    fn commit(txn: Txn) -> Result<()> {
        let (sender, receiver) = mpsc::sync_channel(1);
        txn.commit(move |outcome| {
            let _ = sender.send(outcome.map(|_| ()));
        });
        receiver.recv().map_err(|_| gone())?
    }

    /// Writes an item, new or in the place of another; tells what it cost.
    pub(crate) fn put(&self, container: &Arc<Container>, item: &Value) -> Result<f64> {
        let item = without_system(item);
        let key = PartitionKey::of_item(&item, container.key_definition());
        let mut txn = Self::transaction(container, key)?;
        let written = txn.upsert_item(item.to_json().as_bytes(), &WriteOptions::default())?;
        Self::commit(txn)?;
        Ok(written.charge.units())
    }

    /// Removes an item; tells what it cost.
    pub(crate) fn remove(&self, container: &Arc<Container>, item: &Value) -> Result<f64> {
        let key = PartitionKey::of_item(item, container.key_definition());
        let mut txn = Self::transaction(container, key)?;
        let id = item.get("id").and_then(Value::as_str).unwrap_or_default();
        let written = txn.delete_item(id, &WriteOptions::default())?;
        Self::commit(txn)?;
        Ok(written.charge.units())
    }

    /// Reads an item that was put.
    pub(crate) fn read(&self, container: &Arc<Container>, item: &Value) -> Result<f64> {
        let key = PartitionKey::of_item(item, container.key_definition());
        let id = item.get("id").and_then(Value::as_str).unwrap_or_default();
        let found = ItemAddress::of(container, key)?.read_item(id)?;
        let found = found.ok_or_else(Error::not_found)?;
        Ok(found.read_charge(&container.rates()).units())
    }

    /// Asks a query; tells what it cost in all its pages, and the rows.
    pub(crate) fn query(
        &self,
        container: &Arc<Container>,
        request: &Request,
        key: Option<&PartitionKey>,
    ) -> Result<(f64, Vec<Value>)> {
        let scope = scope_of(container, key);
        let (mut rows, mut units, mut continuation) = (Vec::new(), 0.0, None::<String>);
        loop {
            let query = Query::new(container.clone(), request.clone(), &scope)?;
            let options = PageOptions {
                count_max: armilla_model::limits::QUERY_PAGE_DEFAULT,
                continuation: continuation.as_deref(),
                range_by_range: false,
            };
            let page = query.page(options)?;
            units += page.charge.units();
            rows.extend(page.rows.iter().filter_map(|row| json::parse(row).ok()));
            continuation = page.continuation;
            if continuation.is_none() || rows.len() >= ROWS_MAX {
                return Ok((units, rows));
            }
        }
    }

    /// Asks a query of every range, in the form that clients send; tells what it cost.
    pub(crate) fn fan_out(&self, container: &Arc<Container>, request: &Request) -> Result<f64> {
        let plan = query::plan(container, request, None, false)?;
        let PlanKind::Query(info) = &plan.plan.kind else {
            return self.query(container, request, None).map(|(units, _)| units);
        };
        let text = if info.rewritten.is_empty() { &request.text } else { &info.rewritten };
        let sent = Request { text: text.replace(RESUME_FILTER, "true"), ..request.clone() };
        let mut units = 0.0;
        for partition in container.partitions().iter() {
            let range = &partition.range;
            let span = EpkSpan { min: range.min.clone(), max: range.max.clone() };
            let scope = Scope { span, limit: Limit::Range, cross_partition: true };
            let query = Query::new(container.clone(), sent.clone(), &scope)?;
            let count_max = armilla_model::limits::QUERY_PAGE_DEFAULT;
            let options = PageOptions { count_max, continuation: None, range_by_range: false };
            units += query.page(options)?.charge.units();
        }
        Ok(units)
    }

    /// Makes a stored procedure.
    pub(crate) fn procedure(&self, container: &Container, name: &str, body: &str) -> Result<()> {
        let new = NewScript { kind: Kind::Procedure, name, body, trigger: None };
        self.account.create_script(container, &new, true).map(|_| ())
    }

    /// Runs a stored procedure; tells what it cost.
    pub(crate) fn execute(
        &self,
        container: &Arc<Container>,
        name: &str,
        key: PartitionKey,
        arguments: Vec<Value>,
    ) -> Result<f64> {
        let script = container.script(Kind::Procedure, name)?;
        let txn = Self::transaction(container, key)?;
        let (sender, receiver) = mpsc::sync_channel(1);
        let here = Arc::new(());
        let arguments = Value::array(arguments).to_json();
        let client = Arc::downgrade(&here);
        let procedure = Procedure { script, arguments, logging: false, client };
        txn.execute_procedure(procedure, move |executed| {
            let _ = sender.send((executed.result.map(|_| ()), executed.charge));
        });
        let (result, charge) = receiver.recv().map_err(|_| gone())?;
        result.map(|()| charge.units())
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        if let Err(error) = self.account.close() {
            tracing::warn!(%error, "an account of the advisor's own did not close cleanly");
        }
    }
}

fn gone() -> Error {
    Error::Internal("The advisor's own account ended early.".to_owned())
}
