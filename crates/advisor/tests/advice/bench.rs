//! An account in memory whose requests are told to an observer, as a server would.

use armilla_advisor::observe::{Observer, Seen, Verb};
use armilla_advisor::{advise, prove_with, report};
use armilla_engine::account::NewContainer;
use armilla_engine::dials::Dials;
use armilla_engine::items::WriteOptions;
use armilla_engine::offers::Throughput;
use armilla_engine::query::{Limit, PageOptions, Query, Request, Scope};
use armilla_engine::ranges::EpkSpan;
use armilla_engine::{Account, Container, ItemAddress, Options, Txn};
use armilla_model::json;
use armilla_model::partition_key::PartitionKey;
use armilla_model::value::Value;
use armilla_storage::{Durability, MemoryStore};
use std::cell::Cell;
use std::sync::{Arc, mpsc};

const DATABASE: &str = "shop";
const RANGE_UNITS: u32 = 10_000;

pub(crate) struct Bench {
    pub(crate) account: Arc<Account>,
    pub(crate) observer: Observer,
    at_millis: Cell<u64>,
    activity: Cell<u64>,
}

pub(crate) fn value(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap()
}

impl Bench {
    pub(crate) fn new() -> Self {
        let options = Options {
            durability: Durability::Relaxed,
            dials: Dials { partitions: None, partition_rus: RANGE_UNITS, ..Dials::default() },
            background: false,
            ..Options::default()
        };
        let account = Account::open(Arc::new(MemoryStore::new()), options).unwrap();
        account.create_database(DATABASE, None).unwrap();
        let (at_millis, activity) = (Cell::new(1_000_000), Cell::new(1));
        Self { account, observer: Observer::default(), at_millis, activity }
    }

    /// A container with a key, so many ranges, and more members of its definition.
    pub(crate) fn container(
        &self,
        name: &str,
        key: &str,
        ranges: u32,
        more: &str,
    ) -> Arc<Container> {
        let paths: Vec<String> = key.split(',').map(|path| format!("\"{path}\"")).collect();
        let kind = if paths.len() > 1 { "MultiHash" } else { "Hash" };
        let definition = value(&format!(
            r#"{{"id":"{name}","partitionKey":{{"paths":[{}],"kind":"{kind}","version":2}}{more}}}"#,
            paths.join(",")
        ));
        let throughput = Some(Throughput::Manual(ranges * RANGE_UNITS));
        let new = NewContainer { definition: &definition, throughput };
        self.account.create_container(DATABASE, &new).unwrap()
    }

    /// Writes an item that nobody is told of; what it cost, and what it replaced.
    pub(crate) fn put(
        &self,
        container: &Arc<Container>,
        item: &str,
    ) -> (f64, Option<bytes::Bytes>) {
        let key = PartitionKey::of_item(&value(item), container.key_definition());
        let address = ItemAddress::of(container, key).unwrap();
        let lock = container.lock_and_wait(&address.epk);
        let mut txn = Txn::at(address, lock).unwrap();
        let written = txn.upsert_item(item.as_bytes(), &WriteOptions::default()).unwrap();
        let (sender, receiver) = mpsc::sync_channel(1);
        txn.commit(move |outcome| sender.send(outcome.map(|_| ())).unwrap());
        receiver.recv().unwrap().unwrap();
        (written.charge.units(), written.replaced)
    }

    /// Lets time pass.
    pub(crate) fn pass(&self, millis: u64) {
        self.at_millis.set(self.at_millis.get() + millis);
    }

    /// A request of an activity of its own.
    pub(crate) fn seen(&self, container: &Container, verb: Verb) -> Seen {
        self.activity.set(self.activity.get() + 1);
        self.pass(10);
        Seen {
            at_millis: self.at_millis.get(),
            agent: 1,
            activity: self.activity.get(),
            verb,
            container: Some(container.number),
            status: 200,
            units: 1.0,
            range: Some(0),
            partitions: 1,
            rows: 1,
            ..Seen::default()
        }
    }

    pub(crate) fn tell(&self, seen: Seen) {
        let now = self.at_millis.get();
        self.observer.take(&self.account, vec![seen], now);
    }

    /// Writes an item as a client does.
    pub(crate) fn write(&self, container: &Arc<Container>, verb: Verb, item: &str) {
        let (units, replaced) = self.put(container, item);
        let parsed = value(item);
        let key = PartitionKey::of_item(&parsed, container.key_definition()).to_header();
        self.tell(Seen {
            key: Some(key.to_string()),
            item: parsed.get("id").and_then(Value::as_str).map(str::to_owned),
            written: Some(item.to_owned().into()),
            replaced,
            units,
            ..self.seen(container, verb)
        });
    }

    pub(crate) fn read(&self, container: &Container, key: &str, id: &str) {
        let seen = self.seen(container, Verb::Read);
        self.tell(Seen { key: Some(key.to_owned()), item: Some(id.to_owned()), ..seen });
    }

    /// Asks a query as a client does, of one key or of every range; the rows.
    pub(crate) fn query(
        &self,
        container: &Arc<Container>,
        key: Option<&str>,
        body: &str,
    ) -> Vec<Value> {
        let request = Request::parse(body.as_bytes()).unwrap();
        let parsed = key.map(|key| PartitionKey::parse(key).unwrap());
        let spans: Vec<(EpkSpan, Limit)> = match &parsed {
            Some(key) => {
                let epk = container.key_definition().epk(key);
                vec![(EpkSpan::of_prefix(&epk), Limit::Key)]
            }
            None => container
                .partitions()
                .iter()
                .map(|one| {
                    let (min, max) = (one.range.min.clone(), one.range.max.clone());
                    (EpkSpan { min, max }, Limit::Range)
                })
                .collect(),
        };
        let (mut rows, mut units, partitions) = (Vec::new(), 0.0, spans.len());
        for (span, limit) in spans {
            let scope = Scope { span, limit, cross_partition: true };
            let query = Query::new(container.clone(), request.clone(), &scope).unwrap();
            let options =
                PageOptions { count_max: 1_000, continuation: None, range_by_range: false };
            let page = query.page(options).unwrap();
            units += page.charge.units();
            rows.extend(page.rows.iter().map(|row| json::parse(row).unwrap()));
        }
        self.tell(Seen {
            key: key.map(str::to_owned),
            query: Some(body.to_owned()),
            units,
            partitions,
            range: (partitions == 1).then_some(0),
            rows: rows.len(),
            ..self.seen(container, Verb::Query)
        });
        rows
    }

    fn told(&self, advice: &report::Advice) -> Value {
        value(&report::advice_json(advice))
    }

    /// The advice as of now.
    pub(crate) fn advice(&self) -> Value {
        self.observer.close();
        self.told(&advise(&self.account, &self.observer.workload(), None).unwrap())
    }

    /// The same, proved on so many items at most.
    pub(crate) fn proved(&self, items_max: usize) -> Value {
        self.observer.close();
        self.told(&prove_with(&self.account, &self.observer.workload(), None, items_max).unwrap())
    }
}

/// Rules of the findings of a kind.
pub(crate) fn rules(advice: &Value, kind: &str) -> Vec<String> {
    let findings = advice.get("findings").and_then(Value::as_array).unwrap();
    let of = |finding: &&Value| finding.get("kind").and_then(Value::as_str) == Some(kind);
    let rule = |finding: &Value| finding.get("rule").and_then(Value::as_str).unwrap().to_owned();
    findings.iter().filter(of).map(rule).collect()
}

/// The finding of a rule.
pub(crate) fn finding(advice: &Value, rule: &str) -> Value {
    let findings = advice.get("findings").and_then(Value::as_array).unwrap();
    let of = |finding: &&Value| finding.get("rule").and_then(Value::as_str) == Some(rule);
    findings.iter().find(of).unwrap_or_else(|| panic!("no {rule} in {}", advice.to_json())).clone()
}

pub(crate) fn number(value: &Value, name: &str) -> f64 {
    value.get(name).and_then(Value::as_f64).unwrap()
}

/// What was predicted is what was measured, but for a tenth.
pub(crate) fn assert_proved(advice: &Value, rule: &str) {
    let found = finding(advice, rule);
    let (saved, proved) = (number(&found, "savedUnits"), number(&found, "provedUnits"));
    assert!((saved - proved).abs() <= 0.1 * proved.abs(), "{rule}: {saved} and {proved}");
    let apply = found.get("apply").and_then(Value::as_array).unwrap();
    for what in ["backfill", "check", "undo"] {
        let has = |one: &Value| one.get("what").and_then(Value::as_str) == Some(what);
        assert!(apply.iter().any(has), "{rule} has no {what}");
    }
}
