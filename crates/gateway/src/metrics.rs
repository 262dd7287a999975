//! Counters for `/metrics`, in the text format that Prometheus reads.
//!
//! Every label comes from a bounded set: operations and statuses are words of fixed lists, and
//! containers beyond a number go by the name `other`. What changes by itself (sizes, throughput) is
//! read when somebody asks.

mod kinds;

use crate::service::DirectEvent;
use armilla_engine::admission::Load;
use armilla_engine::observe::Observer;
use armilla_engine::{Account, Container};
use armilla_model::charge::RequestCharge;
use kinds::{Kinds, Places};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use std::collections::HashSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, RwLock};
use std::time::Duration;

/// Containers with labels of their own.
const CONTAINERS_MAX: usize = 64;
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
    latency: Family<OperationLabels, Histogram, fn() -> Histogram>,
    partition_units: Family<PartitionLabels, Units>,
    background_units: Family<PartitionLabels, Units>,
    commits: Histogram,
    compactions: Histogram,
    direct_connections: Counter,
    direct_refused: Counter,
    names: Names,
    kinds: Kinds,
}

/// Containers that have labels of their own.
#[derive(Clone, Default)]
struct Names(Arc<RwLock<HashSet<u32>>>);

/// From 50 µs to 26 s.
fn durations() -> Histogram {
    Histogram::new(exponential_buckets(0.000_05, 3.0, 13))
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("armilla");
        let metrics = Self {
            requests: Family::default(),
            units: Family::default(),
            throttled: Family::default(),
            latency: Family::new_with_constructor(durations as fn() -> Histogram),
            partition_units: Family::default(),
            background_units: Family::default(),
            commits: durations(),
            compactions: durations(),
            direct_connections: Counter::default(),
            direct_refused: Counter::default(),
            names: Names::default(),
            kinds: Kinds::default(),
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
        if !self.kinds.count(served) {
            let (places, shared) = self.places_of(served);
            places.count(served);
            if !shared {
                self.kinds.keep(served, places);
            }
        }
        if served.throttled > 0 {
            let (database, container) = self.names.of(served.container);
            let labels = OperationLabels { operation: served.operation, database, container };
            self.throttled.get_or_create(&labels).inc_by(served.throttled);
        }
        if let Some(container) = served.container {
            for &(partition, charge) in served.shares {
                self.charge_partition(container, partition, charge);
            }
        }
    }

    /// Where a request is counted, and whether that is where containers without names of their own
    /// are, of which there may be any number.
    fn places_of(&self, served: &Served<'_>) -> (Places, bool) {
        let (database, container) = self.names.of(served.container);
        let shared = container == OTHER;
        let labels = OperationLabels { operation: served.operation, database, container };
        let OperationLabels { operation, database, container } = labels.clone();
        let status = u32::from(served.status);
        let request = RequestLabels { operation, database, container, status };
        let range = served.range.filter(|_| served.container.is_some() && !shared);
        let partition_units = range.map(|partition| {
            let OperationLabels { database, container, .. } = labels.clone();
            let labels = PartitionLabels { database, container, partition };
            self.partition_units.get_or_create(&labels).clone()
        });
        let places = Places {
            requests: self.requests.get_or_create(&request).clone(),
            units: self.units.get_or_create(&labels).clone(),
            latency: self.latency.get_or_create(&labels).clone(),
            partition_units,
        };
        (places, shared)
    }

    fn charge_partition(&self, container: &Container, partition: u32, charge: RequestCharge) {
        let (database, container) = self.names.of(Some(container));
        if container != OTHER {
            let labels = PartitionLabels { database, container, partition };
            self.partition_units.get_or_create(&labels).inc_by(charge.units());
        }
    }

    /// Who hears of commits, compactions and background work.
    pub(crate) fn observer(&self) -> Box<dyn Observer> {
        Box::new(Heard {
            commits: self.commits.clone(),
            compactions: self.compactions.clone(),
            background_units: self.background_units.clone(),
            names: self.names.clone(),
        })
    }

    /// Everything as text.
    pub(crate) fn text(&self, account: &Account) -> String {
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
        registry.register("partition_items", "Items, by physical partition", items);
        registry.register(
            "throughput",
            "Request units per second that a container draws on",
            throughput,
        );
        registry
    }
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

impl Names {
    /// The labels of a container: its own while there are few.
    fn of(&self, container: Option<&Container>) -> (String, String) {
        let Some(container) = container else { return (NONE.to_owned(), NONE.to_owned()) };
        if !self.is_known(container.number) {
            return (OTHER.to_owned(), OTHER.to_owned());
        }
        let settings = container.settings();
        (settings.database.to_string(), settings.name.to_string())
    }

    fn is_known(&self, number: u32) -> bool {
        use std::sync::PoisonError;
        if self.0.read().unwrap_or_else(PoisonError::into_inner).contains(&number) {
            return true;
        }
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() < CONTAINERS_MAX {
            known.insert(number);
        }
        known.contains(&number)
    }
}

/// What the engine tells by itself.
struct Heard {
    commits: Histogram,
    compactions: Histogram,
    background_units: Family<PartitionLabels, Units>,
    names: Names,
}

impl Observer for Heard {
    fn committed(&self, took: Duration) {
        self.commits.observe(took.as_secs_f64());
    }

    fn compacted(&self, took: Duration) {
        self.compactions.observe(took.as_secs_f64());
    }

    fn charged_in_background(&self, container: &Container, partition: u32, charge: RequestCharge) {
        let (database, container) = self.names.of(Some(container));
        if container != OTHER {
            let labels = PartitionLabels { database, container, partition };
            self.background_units.get_or_create(&labels).inc_by(charge.units());
        }
    }
}
