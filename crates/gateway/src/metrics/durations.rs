//! A histogram of durations without a lock: one atomic per bucket. (That of the metrics' crate takes a
//! mutex for every observation.)

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::{MetricType, TypedMetric};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets in nanoseconds: from 50 µs to 26 s, each three times the one before.
const BOUNDS: [u64; 13] = {
    let mut bounds = [50_000; 13];
    let mut at = 1;
    while at < bounds.len() {
        bounds[at] = bounds[at - 1] * 3;
        at += 1;
    }
    bounds
};

/// Durations, counted by their length.
#[derive(Clone, Debug, Default)]
pub(super) struct Durations(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    nanoseconds: AtomicU64,
    /// One for each bound, and one for what is longer.
    buckets: [AtomicU64; BOUNDS.len() + 1],
}

impl Durations {
    /// Counts one.
    pub(super) fn observe(&self, took: Duration) {
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.partition_point(|bound| *bound < nanoseconds);
        self.0.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.0.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }
}

/// Counts at one moment, or between two.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot([u64; BOUNDS.len() + 1]);

impl Durations {
    /// The counts now.
    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot(std::array::from_fn(|at| self.0.buckets[at].load(Ordering::Relaxed)))
    }
}

impl Snapshot {
    /// What came in since an earlier moment.
    pub(super) fn since(&self, before: Option<&Self>) -> Self {
        let earlier = |at: usize| before.map_or(0, |before| before.0[at]);
        Self(std::array::from_fn(|at| self.0[at].saturating_sub(earlier(at))))
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Milliseconds below which this part of the durations lies, taken evenly inside a bucket.
    pub(super) fn quantile(&self, part: f64) -> f64 {
        let wanted = self.count() as f64 * part;
        let mut below = 0.0;
        for (at, count) in self.0.iter().enumerate() {
            let count = *count as f64;
            let (low, high) = (at.checked_sub(1).map_or(0, |at| BOUNDS[at]), BOUNDS.get(at));
            if count > 0.0 && below + count >= wanted {
                let (low, high) = (low as f64, high.map_or(low as f64, |high| *high as f64));
                return (low + (high - low) * (wanted - below) / count) / 1e6;
            }
            below += count;
        }
        0.0
    }
}

impl TypedMetric for Durations {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for Durations {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
        let bounds = BOUNDS.iter().map(|bound| seconds(*bound)).chain([f64::INFINITY]);
        let counts = self.0.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed));
        let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum = seconds(self.0.nanoseconds.load(Ordering::Relaxed));
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    #[test]
    fn quantiles_lie_in_their_bucket() {
        let durations = Durations::default();
        let before = durations.snapshot();
        (0..99).for_each(|_| durations.observe(Duration::from_micros(100)));
        durations.observe(Duration::from_millis(10));
        let gained = durations.snapshot().since(Some(&before));
        assert_eq!(gained.count(), 100);
        assert!((0.05..=0.15).contains(&gained.quantile(0.5)), "{}", gained.quantile(0.5));
        assert!((0.1..=12.2).contains(&gained.quantile(0.999)), "{}", gained.quantile(0.999));
        assert_eq!(Snapshot::default().quantile(0.5), 0.0);
    }

    #[test]
    fn durations_are_counted_by_their_length() {
        let durations = Durations::default();
        for micros in [10, 50, 51, 2_000_000, 100_000_000] {
            durations.observe(Duration::from_micros(micros));
        }
        let mut registry = Registry::default();
        registry.register("took", "How long", durations);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let has = |line: &str| assert!(text.lines().any(|found| found == line), "{line}: {text}");
        has("took_count 5");
        has("took_bucket{le=\"0.00005\"} 2");
        has("took_bucket{le=\"0.00015\"} 3");
        has("took_bucket{le=\"+Inf\"} 5");
        has("took_sum 102.000111");
    }
}
