//! Where requests of one kind are counted, looked up once and kept at hand.
//!
//! Counters are found by their labels, which are texts, in maps with locks: making and hashing labels for
//! every request would cost more than the counting, and all threads would meet at the locks. What is kept
//! here is read without one: a map is never changed, but replaced by one that has a kind more.

use super::durations::Durations;
use super::{Served, Units};
use crate::word_hash::WordHash;
use arc_swap::ArcSwap;
use prometheus_client::metrics::counter::Counter;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Kinds that are kept at hand; others are looked up each time.
const KINDS_MAX: usize = 4096;

/// What requests have in common that are counted in the same places. Containers that share their labels
/// share their kinds.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RequestKind {
    pub(super) operation: &'static str,
    pub(super) owner: CountedFor,
    pub(super) range: Option<u32>,
    pub(super) status: u16,
}

/// Whose requests they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum CountedFor {
    /// No container's.
    Nobody,
    /// Of a container with labels of its own.
    Container(u32),
    /// Of one of those that share theirs.
    Other,
}

/// The places where requests of a kind are counted.
pub(super) struct Places {
    pub(super) requests: Counter,
    pub(super) units: Units,
    pub(super) throttled: Counter,
    pub(super) latency: Durations,
    /// Those of the range that answered, if it was one.
    pub(super) partition_units: Option<Units>,
    /// Refusals of this kind alone, so that they are known by range.
    pub(super) refused: AtomicU64,
}

impl Places {
    /// Counts a request.
    pub(super) fn count(&self, served: &Served<'_>) {
        let units = served.charge.units();
        self.requests.inc();
        self.units.inc_by(units);
        self.latency.observe(served.took);
        if served.throttled > 0 {
            self.throttled.inc_by(served.throttled);
            self.refused.fetch_add(served.throttled, Ordering::Relaxed);
        }
        if let Some(of_partition) = &self.partition_units {
            of_partition.inc_by(units);
        }
    }
}

/// Values that are made once for each key, and then found without a lock.
pub(super) struct KeptCounters<K, V>(ArcSwap<HashMap<K, Arc<V>, WordHash>>);

impl<K, V> Default for KeptCounters<K, V> {
    fn default() -> Self {
        Self(ArcSwap::from_pointee(HashMap::default()))
    }
}

impl<K: Copy + Eq + Hash, V> KeptCounters<K, V> {
    /// Visits everything that is kept.
    pub(super) fn each(&self, mut visit: impl FnMut(&K, &V)) {
        self.0.load().iter().for_each(|(key, value)| visit(key, value));
    }

    /// Drops what is kept for other keys than these.
    pub(super) fn retain(&self, wanted: impl Fn(&K) -> bool) {
        self.0.rcu(|kept| {
            let mut kept = HashMap::clone(kept);
            kept.retain(|key, _| wanted(key));
            kept
        });
    }

    /// Uses the value of a key, which is made if it is new, and kept while there is room.
    pub(super) fn with(&self, key: K, make: impl FnOnce() -> V, use_it: impl FnOnce(&V)) {
        if let Some(value) = self.0.load().get(&key) {
            return use_it(value);
        }
        let value = Arc::new(make());
        use_it(&value);
        self.0.rcu(|kept| {
            let mut kept = HashMap::clone(kept);
            if kept.len() < KINDS_MAX {
                // Whoever was quicker made it of the same counters.
                kept.entry(key).or_insert_with(|| value.clone());
            }
            kept
        });
    }
}
