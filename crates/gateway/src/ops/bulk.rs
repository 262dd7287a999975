//! Bulk: operations on one physical range in one request, each of which stands alone.
//!
//! A logical partition takes one transaction at a time, and hands over only when the one before is
//! durable. So the operations of one partition key share a transaction: what is refused leaves no
//! trace in it, and the rest commits together. Commits are queued without waiting, so a whole
//! request shares a few syncs. Each operation asks for throughput by itself: a request that runs into
//! its limit is served as far as it goes.

use super::batch::{Rows, charge_of};
use super::writes::begin;
use super::{addressed, metered};
use crate::{Call, Reply};
use armilla_engine::dials::Throttling;
use armilla_engine::items::batch::{Operation, Outcome};
use armilla_engine::partition::Partition;
use armilla_engine::throttle::{Admission, Ask};
use armilla_engine::txn::Committed;
use armilla_engine::{Container, Txn};
use armilla_model::charge::RequestCharge;
use armilla_model::partition_key::PartitionKey;
use armilla_model::{Error, Result};
use std::sync::Arc;
use tokio::sync::oneshot;

/// Runs the operations and answers with a row for each.
pub(super) async fn run(
    call: &Call<'_>,
    container: Arc<Container>,
    operations: Vec<Operation>,
    read_factor: u64,
) -> Result<Reply> {
    let range = call.context.range_id.as_ref().and_then(|range| range.id.parse().ok());
    let partition = container.partition(range.ok_or(Error::PartitionGone)?)?;
    let stops_at_error = !call.context.batch_continue_on_error;
    let mut work = Work {
        container: &container,
        partition: &partition,
        meter: Meter::new(call, &container, &partition),
        read_factor,
        stops_at_error,
        stopped: false,
        started: Vec::new(),
        commits: Vec::new(),
    };
    work.started.resize_with(operations.len(), || Err(Error::FailedDependency));
    // Where not everything may be served, what comes first goes first.
    let in_order = stops_at_error || container.dials().throttle != Throttling::Off;
    for group in groups(operations, in_order) {
        work.group(group).await;
    }
    let reported = work.meter.reported;
    let rows = work.rows(call).await;
    let reply = metered::with_report(rows.reply(), reported);
    Ok(addressed::from_partition(reply, &container, &partition, partition.lsn()))
}

/// Operations of one partition key in their order, each with its number in the request.
struct Group {
    key: Option<PartitionKey>,
    operations: Vec<(usize, Operation)>,
}

/// Sorts operations by their keys. Where their order counts, only neighbours come together.
fn groups(operations: Vec<Operation>, in_order: bool) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (number, mut operation) in operations.into_iter().enumerate() {
        let key = operation.partition_key.take();
        let seen = if in_order { groups.len().saturating_sub(1) } else { 0 };
        match groups[seen..].iter_mut().rev().find(|group| group.key == key) {
            Some(group) => group.operations.push((number, operation)),
            None => groups.push(Group { key, operations: vec![(number, operation)] }),
        }
    }
    groups
}

/// An operation that was staged, and the commit it waits for if it wrote.
type Started = Result<(Outcome, Option<usize>)>;

/// A request under way.
struct Work<'r> {
    container: &'r Arc<Container>,
    partition: &'r Partition,
    meter: Meter<'r>,
    read_factor: u64,
    stops_at_error: bool,
    stopped: bool,
    /// By the operations' numbers; what is never reached counts as left out after an error.
    started: Vec<Started>,
    commits: Vec<oneshot::Receiver<Result<Committed>>>,
}

impl Work<'_> {
    /// Stages the operations of one key and queues their commit.
    async fn group(&mut self, group: Group) {
        let Group { key, operations } = group;
        let mut open: Option<Txn> = None;
        for (number, operation) in operations {
            if self.stopped {
                break;
            }
            let started = self.metered(&mut open, key.as_ref(), operation).await;
            self.stopped = self.stops_at_error && started.is_err();
            self.started[number] = started;
        }
        self.commit(&mut open);
    }

    /// Stages an operation within its throughput.
    async fn metered(
        &mut self,
        open: &mut Option<Txn>,
        key: Option<&PartitionKey>,
        operation: Operation,
    ) -> Started {
        self.meter.admit()?;
        let started = self.stage(open, key, operation).await;
        let rates = self.container.rates();
        self.meter.spend(match &started {
            Ok((outcome, _)) => charge_of(outcome, &rates, self.read_factor),
            Err(_) => rates.failure,
        });
        started
    }

    async fn stage(
        &mut self,
        open: &mut Option<Txn>,
        key: Option<&PartitionKey>,
        operation: Operation,
    ) -> Started {
        // Every version of an item is a change of its own, for those who read all of them.
        if open.as_ref().is_some_and(|txn| operation.ids().any(|id| txn.has_changed(id))) {
            self.commit(open);
        }
        let txn = match open {
            Some(txn) => txn,
            None => {
                let key = key.cloned().ok_or_else(|| {
                    Error::bad_request("A bulk operation needs its 'partitionKey'.")
                })?;
                let txn = begin(self.container, key).await?;
                if !self.partition.range.contains(txn.epk()) {
                    return Err(Error::PartitionGone);
                }
                open.insert(txn)
            }
        };
        let writes = operation.writes();
        let outcome = txn.run_operation(operation)?;
        Ok((outcome, writes.then_some(self.commits.len())))
    }

    /// Queues the commit of what is open, without waiting for it.
    fn commit(&mut self, open: &mut Option<Txn>) {
        let Some(txn) = open.take() else { return };
        let (sender, receiver) = oneshot::channel();
        txn.commit(move |committed| {
            // A client that went away does not hear of it.
            let _ = sender.send(committed);
        });
        self.commits.push(receiver);
    }

    /// The answer, once everything is durable.
    async fn rows<'c>(self, call: &'c Call<'c>) -> Rows<'c> {
        let mut commits = Vec::with_capacity(self.commits.len());
        for receiver in self.commits {
            let lost = |_| Error::Internal("the commit was never answered".to_owned());
            commits.push(receiver.await.map_err(lost).and_then(|committed| committed));
        }
        let mut rows = Rows::new(call, self.container, call.body.len(), self.read_factor);
        for started in self.started {
            let failed = |commit: usize| commits.get(commit).and_then(|done| done.as_ref().err());
            match &started {
                Err(error) => rows.failure(error),
                Ok((outcome, commit)) => match commit.and_then(failed) {
                    Some(error) => rows.failure(error),
                    None => rows.success(outcome),
                },
            }
        }
        rows
    }
}

/// The throughput that the operations of one bulk request draw on.
struct Meter<'m> {
    container: &'m Container,
    partition: &'m Partition,
    share: Option<u8>,
    ask: Ask,
    /// The longest wait of an operation that would have been refused.
    reported: Admission,
}

impl<'m> Meter<'m> {
    fn new(call: &Call<'_>, container: &'m Container, partition: &'m Partition) -> Self {
        let ask = Ask { low_priority: call.context.low_priority, ..Ask::default() };
        let share = call.context.throughput_bucket;
        Self { container, partition, share, ask, reported: Admission::Free }
    }

    fn admit(&mut self) -> Result<()> {
        match self.container.admit(self.partition, &mut self.ask, self.share) {
            Admission::Refused(retry_after) => Err(Error::TooManyRequests { retry_after }),
            admission => {
                self.reported = metered::later(self.reported, admission);
                Ok(())
            }
        }
    }

    fn spend(&self, charge: RequestCharge) {
        self.container.spend(self.partition, &self.ask, charge);
    }
}
