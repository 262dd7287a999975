//! Where requests of one kind are counted, looked up once and kept at hand.
//!
//! Counters are found by their labels, which are texts: making and hashing them for every request
//! would cost more than the counting.

use super::{Served, Units};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

/// Kinds that are kept at hand; others are looked up each time.
const KINDS_MAX: usize = 4096;

/// What requests have in common that are counted in the same places.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Kind {
    operation: &'static str,
    container: Option<u32>,
    range: Option<u32>,
    status: u16,
}

impl Kind {
    fn of(served: &Served<'_>) -> Self {
        let Served { operation, range, status, .. } = *served;
        let container = served.container.map(|container| container.number);
        Self { operation, container, range, status }
    }
}

/// The places where requests of a kind are counted.
pub(super) struct Places {
    pub(super) requests: Counter,
    pub(super) units: Units,
    pub(super) latency: Histogram,
    /// Those of the range that answered, if it was one.
    pub(super) partition_units: Option<Units>,
}

impl Places {
    /// Counts a request.
    pub(super) fn count(&self, served: &Served<'_>) {
        let units = served.charge.units();
        self.requests.inc();
        self.units.inc_by(units);
        self.latency.observe(served.took.as_secs_f64());
        if let Some(of_partition) = &self.partition_units {
            of_partition.inc_by(units);
        }
    }
}

/// The places of all kinds that came so far.
#[derive(Default)]
pub(super) struct Kinds(RwLock<HashMap<Kind, Places>>);

impl Kinds {
    /// Counts a request whose kind is known; false when it is not.
    pub(super) fn count(&self, served: &Served<'_>) -> bool {
        let kinds = self.0.read().unwrap_or_else(PoisonError::into_inner);
        kinds.get(&Kind::of(served)).map(|places| places.count(served)).is_some()
    }

    /// Keeps the places of a request's kind, while there is room.
    pub(super) fn keep(&self, served: &Served<'_>, places: Places) {
        let mut kinds = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if kinds.len() < KINDS_MAX {
            kinds.insert(Kind::of(served), places);
        }
    }
}
