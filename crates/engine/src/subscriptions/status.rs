//! What is told of a subscription: whether it runs, how far it has come, what became of its entries.

use super::entry::json_of;
use super::members::number;
use super::position::KeyPositions;
use super::read::Reading;
use super::runner::{RangeRunner, Runner, SubscriptionRound};
use crate::partition::Partition;
use crate::ranges::EpkSpan;
use armilla_model::clock::monotonic;
use armilla_model::value::{Object, Value};
use armilla_storage::StoreError;
use std::sync::Arc;

/// Whether a subscription runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// It does.
    Running,
    /// Somebody has paused it.
    Paused,
    /// It stopped, for this reason.
    Stopped(&'static str),
}

/// Why subscriptions stop.
const REASONS: [&str; 4] = ["exhausted", "gone", "targetMissing", "feedLost"];

/// What became of entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Delivered.
    pub delivered: u64,
    /// Left out by the definition.
    pub filtered: u64,
    /// Attempts that failed and were followed by another.
    pub retried: u64,
    /// Kept as dead letters.
    pub dead_lettered: u64,
    /// Given up and forgotten.
    pub skipped: u64,
}

impl Counts {
    /// Names and numbers.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        let Self { delivered, filtered, retried, dead_lettered, skipped } = *self;
        [
            ("delivered", delivered),
            ("filtered", filtered),
            ("retried", retried),
            ("deadLettered", dead_lettered),
            ("skipped", skipped),
        ]
        .into_iter()
    }
}

/// The last failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LastError {
    pub(super) second: u64,
    pub(super) status: Option<u16>,
    pub(super) message: String,
}

/// Counts, and the age of what waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// What became of entries.
    pub counts: Counts,
    /// Commit second of the oldest entry that is not delivered.
    pub oldest_second: Option<u32>,
}

impl Runner {
    /// The stored form.
    pub(super) fn write(&self) -> Vec<u8> {
        let mut stored = self.positions.members();
        let (run, reason) = match self.run {
            Run::Running => ("running", Value::Null),
            Run::Paused => ("paused", Value::Null),
            Run::Stopped(reason) => ("stopped", reason.into()),
        };
        stored.insert("run", run.into());
        stored.insert("reason", reason);
        stored.insert("since", number(self.since));
        let counts = self.counts.iter().map(|(name, count)| (name.into(), number(count)));
        stored.insert("counts", Value::object(counts.collect()));
        let mut out = Vec::new();
        stored.write_json(&mut out);
        out
    }

    /// A new subscription's stored form.
    pub(crate) fn stored_new(positions: &KeyPositions, now: u64) -> Vec<u8> {
        Self::new(positions.clone(), Run::Running, now, Counts::default()).write()
    }

    /// The stored form of one whose parts slices had, each for its keys.
    pub(crate) fn stored_joined(parts: Vec<(EpkSpan, &[u8])>) -> Result<Vec<u8>, StoreError> {
        let mut runs = Vec::with_capacity(parts.len());
        for (span, bytes) in parts {
            runs.push((span, Self::read(bytes)?));
        }
        let corrupt = || StoreError::corruption("meta", "a subscription has no state");
        let (run, since) =
            runs.first().map(|(_, first)| (first.run, first.since)).ok_or_else(corrupt)?;
        let mut counts = Counts::default();
        for (_, part) in &runs {
            counts.delivered += part.counts.delivered;
            counts.filtered += part.counts.filtered;
            counts.retried += part.counts.retried;
            counts.dead_lettered += part.counts.dead_lettered;
            counts.skipped += part.counts.skipped;
        }
        let positions = runs.into_iter().map(|(span, part)| (span, part.positions));
        Ok(Self::new(KeyPositions::joined(positions), run, since, counts).write())
    }

    /// The stored form of the same, which has not counted anything.
    pub(crate) fn stored_uncounted(bytes: &[u8]) -> Result<Vec<u8>, StoreError> {
        let Self { positions, run, since, .. } = Self::read(bytes)?;
        Ok(Self::new(positions, run, since, Counts::default()).write())
    }

    /// Reads the stored form.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, StoreError> {
        let corrupt = || StoreError::corruption("meta", "the state of a subscription is malformed");
        let stored = armilla_model::json::parse(bytes).map_err(|_| corrupt())?;
        let positions = KeyPositions::read(&stored)?;
        let reason = stored.get("reason").and_then(Value::as_str);
        let known = REASONS.into_iter().find(|known| Some(*known) == reason);
        let run = match (stored.get("run").and_then(Value::as_str), known) {
            (Some("running"), _) => Run::Running,
            (Some("paused"), _) => Run::Paused,
            (Some("stopped"), Some(reason)) => Run::Stopped(reason),
            _ => return Err(corrupt()),
        };
        let whole = |value: Option<&Value>| {
            let number = value.and_then(Value::as_i64);
            number.and_then(|number| u64::try_from(number).ok()).ok_or_else(corrupt)
        };
        let counts = stored.get("counts").ok_or_else(corrupt)?;
        let count = |name: &str| whole(counts.get(name));
        let counts = Counts {
            delivered: count("delivered")?,
            filtered: count("filtered")?,
            retried: count("retried")?,
            dead_lettered: count("deadLettered")?,
            skipped: count("skipped")?,
        };
        Ok(Self::new(positions, run, whole(stored.get("since"))?, counts))
    }
}

impl SubscriptionRound<'_> {
    /// The members of a status.
    pub(crate) fn status(&self, runner: &Runner) -> Object {
        let partitions = self.container.partitions();
        let ranges = partitions.iter().map(|partition| self.range_status(runner, partition));
        let is_held = runner.ranges.values().any(|range| !range.queue.held().is_empty());
        let state = match runner.run {
            Run::Stopped(_) => "stopped",
            Run::Paused => "paused",
            Run::Running if !self.definition.enabled => "paused",
            Run::Running if is_held => "retrying",
            Run::Running => "running",
        };
        let mut status = Object::of([("state", state.into()), ("since", number(runner.since))]);
        if let Run::Stopped(reason) = runner.run {
            status.insert("reason", reason.into());
        }
        status.insert("ranges", Value::array(ranges.collect()));
        for (name, count) in runner.counts.iter() {
            status.insert(name, number(count));
        }
        if let Some(error) = &runner.last_error {
            let mut told = Object::of([("time", number(error.second))]);
            if let Some(status) = error.status {
                told.insert("status", number(status));
            }
            told.insert("message", error.message.as_str().into());
            status.insert("lastError", Value::object(told));
        }
        status
    }

    fn range_status(&self, runner: &Runner, partition: &Arc<Partition>) -> Value {
        let now = self.container.core.clock.now_seconds();
        let (position, head) = (runner.positions.of(&partition.range), partition.lsn());
        let oldest = self.oldest(runner, partition);
        let age = oldest.map_or(0, |second| now.saturating_sub(u64::from(second)));
        let range = runner.ranges.get(&partition.range.id);
        let held = |range: &RangeRunner| {
            let held = range.queue.held().into_iter().map(|(group, attempts, due)| {
                let key = group.entries.first().map(|entry| json_of(&entry.partition_key));
                let pause = due.saturating_duration_since(monotonic()).as_secs();
                Value::object(Object::of([
                    ("partitionKey", key.unwrap_or(Value::Null)),
                    ("attempts", number(attempts)),
                    ("nextAttempt", number(now + pause)),
                ]))
            });
            held.collect()
        };
        Value::object(Object::of([
            ("id", partition.range.id.to_string().into()),
            ("lsn", number(position.0)),
            ("headLsn", number(head.0)),
            ("pending", number(head.0.saturating_sub(position.0))),
            ("oldestPendingSeconds", number(age)),
            ("underWay", number(range.map_or(0, |range| range.queue.under_way()))),
            ("held", Value::array(range.map(held).unwrap_or_default())),
        ]))
    }

    /// Commit second of the oldest entry of a range that is not delivered.
    fn oldest(&self, runner: &Runner, partition: &Arc<Partition>) -> Option<u32> {
        let range = runner.ranges.get(&partition.range.id);
        if let Some(second) = range.and_then(|range| range.queue.oldest_second()) {
            return Some(second);
        }
        let read_to = range.map(|range| range.read_to);
        let position = read_to.unwrap_or_else(|| runner.positions.of(&partition.range));
        if position >= partition.lsn() {
            return None;
        }
        let (container, definition) = (&**self.container, &*self.definition);
        let reading =
            Reading { container, partition, definition, number: self.subscription.number };
        reading.first_second(position).ok().flatten()
    }

    pub(super) fn figures(&self, runner: &Runner) -> Figures {
        let partitions = self.container.partitions();
        let oldest = partitions.iter().filter_map(|partition| self.oldest(runner, partition));
        Figures { counts: runner.counts, oldest_second: oldest.min() }
    }
}
