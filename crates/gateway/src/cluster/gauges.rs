//! What a node tells of itself in `/metrics`, beside what every server does (`docs/metrics.md`).

use armilla_model::clock::monotonic;
use parking_lot::Mutex;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The end of a text in the OpenMetrics format.
const END: &str = "# EOF\n";

/// What became of a request that was passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ForwardOutcome {
    /// The owner answered.
    Answered,
    /// It was surely not done: nobody there, or not the owner.
    NotDone,
    /// Nobody knows.
    Unknown,
}

/// Numbers of one node.
#[derive(Debug, Default)]
pub struct NodeGauges {
    /// 1 while this node owns the account and serves it.
    pub owned: AtomicU64,
    /// 1 while it follows another one with a copy.
    pub following: AtomicU64,
    /// The newest row of the journal in its copy.
    pub place: AtomicU64,
    /// So many rows the owner was ahead, when it told its place last.
    pub lag: AtomicU64,
    /// Until when it may answer.
    lease_ends: Mutex<Option<Instant>>,
    /// How often it took the account.
    pub takes: AtomicU64,
    /// Statements of beats and of the owner's lane that failed.
    pub ledger_errors: AtomicU64,
    /// Rows that the ledger has taken, and the microseconds that took.
    appends: AtomicU64,
    append_micros: AtomicU64,
    forwarded: [AtomicU64; 3],
}

impl NodeGauges {
    /// Notes for how long this node may still answer if the ledger hears nothing more of it.
    pub fn note_lease(&self, left: Duration) {
        *self.lease_ends.lock() = Some(monotonic() + left);
    }

    /// Notes that the ledger has taken a row, after so long.
    pub fn note_append(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.appends.fetch_add(1, Ordering::Relaxed);
        self.append_micros.fetch_add(micros, Ordering::Relaxed);
    }

    fn lease_left(&self) -> Duration {
        let ends = *self.lease_ends.lock();
        ends.map_or(Duration::ZERO, |ends| ends.saturating_duration_since(monotonic()))
    }

    pub(super) fn holds_lease(&self) -> bool {
        !self.lease_left().is_zero()
    }

    pub(super) fn count(&self, outcome: ForwardOutcome) {
        self.forwarded[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Adds the node's numbers to those of the account, if it serves one.
    pub(super) fn text(&self, account: Option<String>, held: usize) -> String {
        let mut text = account.unwrap_or_default();
        if text.ends_with(END) {
            text.truncate(text.len() - END.len());
        }
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        gauge(&mut text, "owned", "This node owns the account and serves it", read(&self.owned));
        gauge(&mut text, "following", "This node follows the owner", read(&self.following));
        gauge(&mut text, "place", "Newest row of the journal in the copy", read(&self.place));
        gauge(&mut text, "follow_lag_places", "Rows that the owner is ahead", read(&self.lag));
        gauge(&mut text, "held", "Requests held or being passed on", held as u64);
        let lease = format!("{:.3}", self.lease_left().as_secs_f64());
        head(&mut text, "lease_seconds", "Time for which this node may still answer", "gauge");
        line(&mut text, "lease_seconds", "", &lease);
        let help = "Time from the sending of a group of writes until the database had it";
        let seconds = read(&self.append_micros) as f64 / 1e6;
        head(&mut text, "append_seconds", help, "summary");
        line(&mut text, "append_seconds_count", "", &read(&self.appends).to_string());
        line(&mut text, "append_seconds_sum", "", &seconds.to_string());
        head(&mut text, "takes", "How often this node took the account", "counter");
        line(&mut text, "takes_total", "", &read(&self.takes).to_string());
        head(&mut text, "ledger_errors", "Statements to the database that failed", "counter");
        line(&mut text, "ledger_errors_total", "", &read(&self.ledger_errors).to_string());
        head(&mut text, "forwarded", "Attempts to pass a request on to the owner", "counter");
        for (outcome, count) in ["answered", "not_done", "unknown"].iter().zip(&self.forwarded) {
            let label = format!("{{outcome=\"{outcome}\"}}");
            line(&mut text, "forwarded_total", &label, &read(count).to_string());
        }
        text.push_str(END);
        text
    }
}

fn gauge(text: &mut String, name: &str, help: &str, value: u64) {
    head(text, name, help, "gauge");
    line(text, name, "", &value.to_string());
}

fn head(text: &mut String, name: &str, help: &str, kind: &str) {
    // Writing to a text cannot fail.
    let _ = writeln!(text, "# HELP armilla_cluster_{name} {help}.");
    let _ = writeln!(text, "# TYPE armilla_cluster_{name} {kind}");
}

fn line(text: &mut String, name: &str, label: &str, value: &str) {
    let _ = writeln!(text, "armilla_cluster_{name}{label} {value}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nodes_numbers_come_behind_the_accounts_and_before_the_end() {
        let gauges = NodeGauges::default();
        gauges.note_lease(Duration::from_secs(3600));
        gauges.note_append(Duration::from_micros(1_500));
        gauges.note_append(Duration::from_micros(2_500));
        gauges.count(ForwardOutcome::Answered);
        gauges.count(ForwardOutcome::Unknown);
        let text = gauges.text(Some(format!("armilla_requests_total 3\n{END}")), 2);
        assert!(text.starts_with("armilla_requests_total 3\n# HELP armilla_cluster_owned "));
        assert_eq!(text.matches("# EOF").count(), 1);
        for line in [
            "armilla_cluster_held 2",
            "armilla_cluster_append_seconds_count 2",
            "armilla_cluster_append_seconds_sum 0.004",
            "armilla_cluster_forwarded_total{outcome=\"answered\"} 1",
            "armilla_cluster_forwarded_total{outcome=\"not_done\"} 0",
            "armilla_cluster_forwarded_total{outcome=\"unknown\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        let lease =
            text.lines().find_map(|line| line.strip_prefix("armilla_cluster_lease_seconds "));
        assert!((3_500.0..=3_600.0).contains(&lease.unwrap().parse::<f64>().unwrap()));
        assert!(gauges.text(None, 0).ends_with(END));
    }

    #[test]
    fn a_lease_that_nobody_renews_ends() {
        let gauges = NodeGauges::default();
        assert!(!gauges.holds_lease(), "before it was ever held");
        gauges.note_lease(Duration::from_secs(3600));
        assert!(gauges.holds_lease());
        gauges.note_lease(Duration::ZERO);
        assert!(!gauges.holds_lease());
    }
}
