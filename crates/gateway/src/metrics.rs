//! Counters for `/metrics`, in the text format that Prometheus reads.
//!
//! Every label comes from a bounded set: operations and statuses are words of fixed lists, and
//! containers beyond a number go by the name `other`. What changes by itself (sizes, throughput) is
//! read when somebody asks. Counting a request takes no lock.

mod durations;
mod kinds;
mod names;
mod release;
mod seconds;
mod subscriptions;

pub(crate) use seconds::{RangeRates, Second, Seconds, Series};

use crate::service::DirectEvent;
use armilla_engine::admission::Load;
use armilla_engine::observe::Observer;
use armilla_engine::{Account, Container};
use armilla_model::charge::RequestCharge;
use durations::Durations;
use kinds::{CountedFor, KeptCounters, Places, RequestKind};
use names::Names;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use seconds::{Look, Totals};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Partitions that are listed, over all containers.
const PARTITIONS_MAX: usize = 2048;
/// The name of all others, and of what belongs to no container.
const OTHER: &str = "other";
const NONE: &str = "";

type Units = Counter<f64, AtomicU64>;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    operation: &'static str,
    database: String,
    container: String,
    status: u32,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OperationLabels {
    operation: &'static str,
    database: String,
    container: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PartitionLabels {
    database: String,
    container: String,
    partition: u32,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ViewLabels {
    database: String,
    container: String,
    status: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ContainerLabels {
    database: String,
    container: String,
}

/// One request that was answered.
pub(crate) struct Served<'a> {
    pub(crate) operation: &'static str,
    pub(crate) container: Option<&'a Container>,
    /// The range that answered, if it was one.
    pub(crate) range: Option<u32>,
    /// How the charge is spread over ranges, where several answered.
    pub(crate) shares: &'a [(u32, RequestCharge)],
    pub(crate) status: u16,
    /// Refusals with 429: the request, or operations of a bulk request.
    pub(crate) throttled: u64,
    pub(crate) charge: RequestCharge,
    pub(crate) took: Duration,
}

/// Everything that is counted.
pub struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    units: Family<OperationLabels, Units>,
    throttled: Family<OperationLabels, Counter>,
    latency: Family<OperationLabels, Durations>,
    partition_units: Family<PartitionLabels, Units>,
    background_units: Family<PartitionLabels, Units>,
    commits: Durations,
    compactions: Durations,
    direct_connections: Counter,
    direct_refused: Counter,
    names: Names,
    kinds: KeptCounters<RequestKind, Places>,
    /// By container and range.
    partitions: KeptCounters<(u32, u32), Units>,
    background: Arc<KeptCounters<(u32, u32), Units>>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("armilla");
        let metrics = Self {
            requests: Family::default(),
            units: Family::default(),
            throttled: Family::default(),
            latency: Family::default(),
            partition_units: Family::default(),
            background_units: Family::default(),
            commits: Durations::default(),
            compactions: Durations::default(),
            direct_connections: Counter::default(),
            direct_refused: Counter::default(),
            names: Names::default(),
            kinds: KeptCounters::default(),
            partitions: KeptCounters::default(),
            background: Arc::default(),
            registry: Registry::default(),
        };
        registry.register("requests", "Requests answered", metrics.requests.clone());
        registry.register("request_units", "Request units charged", metrics.units.clone());
        registry.register("throttled", "Requests refused with 429", metrics.throttled.clone());
        registry.register_with_unit(
            "request_duration",
            "Time from a request's headers to its answer",
            Unit::Seconds,
            metrics.latency.clone(),
        );
        registry.register(
            "partition_request_units",
            "Request units charged, by physical partition",
            metrics.partition_units.clone(),
        );
        registry.register(
            "background_request_units",
            "Request units charged to physical partitions for work that no request asked for",
            metrics.background_units.clone(),
        );
        registry.register_with_unit(
            "commit_duration",
            "Time from the queueing of a transaction until it is durable and visible",
            Unit::Seconds,
            metrics.commits.clone(),
        );
        registry.register_with_unit(
            "compaction_duration",
            "Time for sealing or merging segments of the index",
            Unit::Seconds,
            metrics.compactions.clone(),
        );
        metrics.register_direct(&mut registry);
        Self { registry, ..metrics }
    }
}

impl Metrics {
    fn register_direct(&self, registry: &mut Registry) {
        registry.register(
            "direct_connections",
            "Connections in Direct mode that were negotiated",
            self.direct_connections.clone(),
        );
        registry.register(
            "direct_refused_frames",
            "Connections in Direct mode that were closed because of a frame that could not be read",
            self.direct_refused.clone(),
        );
    }

    /// Counts what happens to connections in Direct mode.
    pub(crate) fn count_direct(&self, event: DirectEvent) {
        match event {
            DirectEvent::Connected => self.direct_connections.inc(),
            DirectEvent::Refused => self.direct_refused.inc(),
        };
    }

    /// Counts an answered request.
    pub(crate) fn count(&self, served: &Served<'_>) {
        let owner = self.names.owner(served.container);
        let Served { operation, status, .. } = *served;
        // Ranges are told apart for containers with labels of their own.
        let range = served.range.filter(|_| matches!(owner, CountedFor::Container(_)));
        let kind = RequestKind { operation, owner, range, status };
        self.kinds.with(kind, || self.places_of(served, range), |places| places.count(served));
        if let (Some(container), CountedFor::Container(number)) = (served.container, owner) {
            for &(partition, charge) in served.shares {
                let make = || self.units_of(container, partition);
                self.partitions.with((number, partition), make, |units| {
                    units.inc_by(charge.units());
                });
            }
        }
    }

    /// Where a request is counted.
    fn places_of(&self, served: &Served<'_>, range: Option<u32>) -> Places {
        let (database, container) = self.names.of(served.container);
        let labels = OperationLabels { operation: served.operation, database, container };
        let OperationLabels { operation, database, container } = labels.clone();
        let status = u32::from(served.status);
        let request = RequestLabels { operation, database, container, status };
        let partition_units =
            served.container.zip(range).map(|(container, range)| self.units_of(container, range));
        Places {
            requests: self.requests.get_or_create(&request).clone(),
            units: self.units.get_or_create(&labels).clone(),
            throttled: self.throttled.get_or_create(&labels).clone(),
            latency: self.latency.get_or_create(&labels).clone(),
            partition_units,
            refused: AtomicU64::new(0),
        }
    }

    /// Where the units of a range are counted.
    fn units_of(&self, container: &Container, partition: u32) -> Units {
        let (database, container) = self.names.of(Some(container));
        let labels = PartitionLabels { database, container, partition };
        self.partition_units.get_or_create(&labels).clone()
    }

    /// What the counters say now.
    fn look(&self) -> Look {
        let mut look = Look {
            commits: self.commits.snapshot().count(),
            compactions: self.compactions.snapshot().count(),
            ..Look::default()
        };
        self.kinds.each(|kind, places| {
            // Kinds that differ in status or range alone share these counters.
            look.kinds.entry((kind.operation, kind.owner)).or_insert_with(|| Totals {
                units: places.units.get(),
                throttled: places.throttled.get(),
                durations: places.latency.snapshot(),
            });
            if let (CountedFor::Container(number), Some(range), Some(units)) =
                (kind.owner, kind.range, &places.partition_units)
            {
                look.ranges.insert((number, range), units.get());
                let refused = places.refused.load(Ordering::Relaxed);
                if refused > 0 {
                    *look.refusals.entry((number, range)).or_default() += refused;
                }
            }
        });
        self.partitions.each(|of, units| {
            look.ranges.insert(*of, units.get());
        });
        look
    }

    /// Who hears of commits, compactions and background work.
    pub(crate) fn observer(&self) -> Box<dyn Observer> {
        Box::new(Heard {
            commits: self.commits.clone(),
            compactions: self.compactions.clone(),
            background_units: self.background_units.clone(),
            background: self.background.clone(),
            names: self.names.clone(),
        })
    }

    /// Whether requests of a container are counted under its own name, so that figures of it are known.
    pub(crate) fn counts(&self, container: u32) -> bool {
        self.names.counts(container)
    }

    /// Everything as text.
    pub(crate) fn text(&self, account: &Account) -> String {
        self.release(account);
        let mut text = String::with_capacity(16 * 1024);
        let written = encode_registry(&mut text, &self.registry)
            .and_then(|()| encode_registry(&mut text, &self.now(account)))
            .and_then(|()| encode_eof(&mut text));
        written.map_or_else(|_| String::new(), |()| text)
    }

    /// What is read when somebody asks.
    fn now(&self, account: &Account) -> Registry {
        let mut registry = Registry::with_prefix("armilla");
        let sizes = Family::<PartitionLabels, Gauge>::default();
        let items = Family::<PartitionLabels, Gauge>::default();
        let throughput = Family::<ContainerLabels, Gauge>::default();
        let catalog = account.catalog();
        let mut listed = 0;
        for container in catalog.databases.values().flat_map(|all| all.containers.values()) {
            let (database, name) = self.names.of(Some(container));
            if name == OTHER {
                continue;
            }
            let labels = ContainerLabels { database: database.clone(), container: name.clone() };
            throughput.get_or_create(&labels).set(i64::from(container.budget().units()));
            for partition in container.partitions().iter() {
                listed += 1;
                if listed > PARTITIONS_MAX {
                    break;
                }
                let (database, container) = (database.clone(), name.clone());
                let labels = PartitionLabels { database, container, partition: partition.range.id };
                let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
                sizes.get_or_create(&labels).set(whole(partition.size()));
                items.get_or_create(&labels).set(whole(partition.document_count()));
            }
        }
        registry.register_with_unit(
            "partition_size",
            "Bytes of items, by physical partition",
            Unit::Bytes,
            sizes,
        );
        let damaged = Gauge::<i64>::default();
        damaged.set(i64::try_from(account.damaged_partitions()).unwrap_or(i64::MAX));
        let help = "Partitions whose stored data is damaged; they take no writes";
        registry.register("partitions_damaged", help, damaged);
        let given_up = Counter::<u64>::default();
        given_up.inc_by(account.scripts_given_up());
        let help = "Scripts that did not end in time and whose threads were given up";
        registry.register("scripts_given_up", help, given_up);
        register_load(&mut registry, &account.load());
        register_views(&mut registry, account, &self.names);
        subscriptions::register(&mut registry, account, &self.names);
        registry.register("partition_items", "Items, by physical partition", items);
        registry.register(
            "throughput",
            "Request units per second that a container draws on",
            throughput,
        );
        registry
    }
}

/// How far views are behind their sources.
fn register_views(registry: &mut Registry, account: &Account, names: &Names) {
    let seconds = Family::<ViewLabels, Gauge>::default();
    let transactions = Family::<ViewLabels, Gauge>::default();
    let catalog = account.catalog();
    for source in catalog.databases.values().flat_map(|all| all.containers.values()) {
        for target in source.views().iter() {
            let (database, container) = names.of(Some(target));
            let Some(view) = target.view().filter(|_| container != OTHER) else { continue };
            let status = view.status().word();
            let labels = ViewLabels { database, container, status };
            let lag = source.view_lag(view);
            let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
            seconds.get_or_create(&labels).set(whole(lag.seconds));
            transactions.get_or_create(&labels).set(whole(lag.transactions));
        }
    }
    let help = "Age of the oldest change of the source that is not in the view";
    registry.register_with_unit("view_lag", help, Unit::Seconds, seconds);
    let help = "Transactions of the source that are not in the view";
    registry.register("view_pending_transactions", help, transactions);
}

/// What is under way: the numbers that back-pressure goes by.
fn register_load(registry: &mut Registry, load: &Load) {
    let gauge = |number: usize| {
        let gauge = Gauge::<i64>::default();
        gauge.set(i64::try_from(number).unwrap_or(i64::MAX));
        gauge
    };
    let help = "Transactions that wait for their commit";
    registry.register("commit_queue", help, gauge(load.commits_queued));
    for (name, help, bytes) in [
        ("commit_queue", "Bytes that wait for their commit", load.commit_bytes_queued),
        ("writes_under_way", "Bytes of writes between admission and answer", load.write_bytes),
        ("query_memory", "Bytes that queries hold to sort, group or gather", load.query_bytes),
    ] {
        registry.register_with_unit(name, help, Unit::Bytes, gauge(bytes));
    }
}

/// What the engine tells by itself.
struct Heard {
    commits: Durations,
    compactions: Durations,
    background_units: Family<PartitionLabels, Units>,
    background: Arc<KeptCounters<(u32, u32), Units>>,
    names: Names,
}

impl Observer for Heard {
    fn committed(&self, took: Duration) {
        self.commits.observe(took);
    }

    fn compacted(&self, took: Duration) {
        self.compactions.observe(took);
    }

    fn charged_in_background(&self, container: &Container, partition: u32, charge: RequestCharge) {
        let CountedFor::Container(number) = self.names.owner(Some(container)) else { return };
        let make = || {
            let (database, container) = self.names.of(Some(container));
            let labels = PartitionLabels { database, container, partition };
            self.background_units.get_or_create(&labels).clone()
        };
        self.background.with((number, partition), make, |units| {
            units.inc_by(charge.units());
        });
    }
}
