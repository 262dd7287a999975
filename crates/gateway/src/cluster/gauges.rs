//! What a node tells of itself in `/metrics`, beside what every server does (`docs/metrics.md`).

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

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
    /// Milliseconds for which it may still answer.
    pub lease_millis: AtomicU64,
    /// How often it took the account.
    pub takes: AtomicU64,
    /// Statements of beats and of the owner's lane that failed.
    pub ledger_errors: AtomicU64,
    forwarded: [AtomicU64; 3],
}

impl NodeGauges {
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
        let lease = read(&self.lease_millis);
        head(&mut text, "lease_seconds", "Time for which this node may still answer", "gauge");
        line(&mut text, "lease_seconds", "", &format!("{}.{:03}", lease / 1000, lease % 1000));
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
        gauges.lease_millis.store(7_050, Ordering::Relaxed);
        gauges.count(ForwardOutcome::Answered);
        gauges.count(ForwardOutcome::Unknown);
        let text = gauges.text(Some(format!("armilla_requests_total 3\n{END}")), 2);
        assert!(text.starts_with("armilla_requests_total 3\n# HELP armilla_cluster_owned "));
        assert_eq!(text.matches("# EOF").count(), 1);
        for line in [
            "armilla_cluster_lease_seconds 7.050",
            "armilla_cluster_held 2",
            "armilla_cluster_forwarded_total{outcome=\"answered\"} 1",
            "armilla_cluster_forwarded_total{outcome=\"not_done\"} 0",
            "armilla_cluster_forwarded_total{outcome=\"unknown\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(gauges.text(None, 0).ends_with(END));
    }
}
