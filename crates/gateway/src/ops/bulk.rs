//! Bulk: operations on one physical range in one request, each of which stands alone.
//!
//! A logical partition takes one transaction at a time, and hands over only when the one before is
//! durable. So the operations of one partition key share a transaction: what is refused leaves no
//! trace in it, and the rest commits together. Commits are queued without waiting, so a whole
//! request shares a few syncs. Staging runs on the pool of writes, and comes back only to wait for the
//! lock of a partition that somebody else has. Each operation asks for throughput by itself: a request that runs into
//! its limit is served as far as it goes.

use super::addressed::ItemTarget;
use super::batch::{Rows, charge_of};
use super::transaction::{Queued, begin, finish, queue};
use super::{EngineService, metered};
use crate::auth::Principal;
use crate::{Call, Reply};
use armilla_engine::ContainerSettings as Settings;
use armilla_engine::dials::Throttling;
use armilla_engine::items::batch::{Operation, Outcome};
use armilla_engine::partition::Partition;
use armilla_engine::throttle::{Admission, Ask};
use armilla_engine::{Container, ItemAddress, Txn};
use armilla_model::charge::RequestCharge;
use armilla_model::partition_key::PartitionKey;
use armilla_model::{Error, Result};
use std::collections::VecDeque;
use std::sync::Arc;

/// Runs the operations and answers with a row for each.
pub(super) async fn run(
    service: &EngineService,
    call: &Call<'_>,
    target: ItemTarget,
    operations: Vec<Operation>,
    read_factor: u64,
) -> Result<Reply> {
    let container = &target.container;
    let range = call.context.range_id.as_ref().and_then(|range| range.id.parse().ok());
    let partition = container.partition(range.ok_or(Error::PartitionGone)?)?;
    let stops_at_error = !call.context.batch_continue_on_error;
    let minimal: Vec<bool> = operations.iter().map(|operation| operation.minimal).collect();
    let mut started = Vec::new();
    started.resize_with(operations.len(), || Err(Error::FailedDependency));
    // Where not everything may be served, what comes first goes first.
    let in_order = stops_at_error || container.dials().throttle != Throttling::Off;
    let work = Work {
        principal: call.principal.clone(),
        meter: Meter::new(call, container.clone(), partition.clone()),
        container: container.clone(),
        settings: target.settings.clone(),
        partition: partition.clone(),
        read_factor,
        stops_at_error,
        groups: groups(operations, in_order),
        open: None,
        admitted: false,
        started,
        commits: Vec::new(),
    };
    let advance = |mut work: Work| {
        let waits_for = work.advance();
        Ok((work, waits_for))
    };
    let (mut work, mut waits_for) = service.pools.writes.run(move || advance(work)).await?;
    while let Some(address) = waits_for {
        work.open = Some(begin(address).await);
        // What was queued will be written: this must not be refused any more.
        let resumed = service.pools.writes.resume(move || advance(work));
        (work, waits_for) = resumed.await?;
    }
    let reported = work.meter.reported;
    let rows = work.rows(call, &minimal).await;
    let reply = metered::with_report(rows.reply(), reported);
    Ok(target.with_position_of(reply, &partition))
}

/// Operations of one partition key in their order, each with its number in the request.
struct Group {
    key: Option<PartitionKey>,
    operations: VecDeque<(usize, Operation)>,
}

/// Sorts operations by their keys. Where their order counts, only neighbours come together.
fn groups(operations: Vec<Operation>, in_order: bool) -> VecDeque<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (number, mut operation) in operations.into_iter().enumerate() {
        let key = operation.partition_key.take();
        let seen = if in_order { groups.len().saturating_sub(1) } else { 0 };
        match groups[seen..].iter_mut().rev().find(|group| group.key == key) {
            Some(group) => group.operations.push_back((number, operation)),
            None => groups.push(Group { key, operations: [(number, operation)].into() }),
        }
    }
    groups.into()
}

/// An operation that was staged, and the commit it waits for if it wrote.
type Started = Result<(Outcome, Option<usize>)>;

/// A request under way.
struct Work {
    /// Who asks: a token may be for one partition key, and operations bring theirs.
    principal: Principal,
    container: Arc<Container>,
    settings: Arc<Settings>,
    partition: Arc<Partition>,
    meter: Meter,
    read_factor: u64,
    stops_at_error: bool,
    /// What is still to be done, the group in hand first.
    groups: VecDeque<Group>,
    /// The transaction of the group in hand, or why it could not be begun.
    open: Option<Result<Txn>>,
    /// The operation in hand has asked for throughput.
    admitted: bool,
    /// By the operations' numbers; what is never reached counts as left out after an error.
    started: Vec<Started>,
    commits: Vec<Queued>,
}

/// Somebody else has the lock of this partition key.
struct Contended(Box<ItemAddress>);

impl Work {
    /// Stages operations until all are staged, or until one has to wait for the lock of its key:
    /// then its address is returned, and `open` must be filled before the next call.
    fn advance(&mut self) -> Option<ItemAddress> {
        while let Some(mut group) = self.groups.pop_front() {
            while let Some((number, operation)) = group.operations.pop_front() {
                match self.metered(group.key.as_ref(), operation) {
                    Ok(started) => {
                        let stops = self.stops_at_error && started.is_err();
                        self.started[number] = started;
                        if stops {
                            self.groups.clear();
                            group.operations.clear();
                        }
                    }
                    Err((Contended(address), operation)) => {
                        group.operations.push_front((number, *operation));
                        self.groups.push_front(group);
                        return Some(*address);
                    }
                }
            }
            self.commit();
        }
        None
    }

    /// Stages an operation within its throughput.
    fn metered(
        &mut self,
        key: Option<&PartitionKey>,
        operation: Operation,
    ) -> Result<Started, (Contended, Box<Operation>)> {
        if !self.admitted
            && let Err(error) = self.meter.admit()
        {
            return Ok(Err(error));
        }
        self.admitted = true;
        // Every version of an item is a change of its own, for those who read all of them.
        let changed = |txn: &Txn| operation.ids().any(|id| txn.has_changed(id));
        if matches!(&self.open, Some(Ok(txn)) if changed(txn)) {
            self.commit();
        }
        let started = match self.begin(key) {
            Err(contended) => return Err((contended, Box::new(operation))),
            Ok(Err(error)) => Err(error),
            Ok(Ok(txn)) => {
                let writes = operation.writes();
                txn.run_operation(operation).map(|outcome| (outcome, writes))
            }
        };
        self.admitted = false;
        let rates = self.container.rates();
        self.meter.spend(match &started {
            Ok((outcome, _)) => charge_of(outcome, &rates, self.read_factor),
            Err(_) => rates.failure,
        });
        let commit = self.commits.len();
        Ok(started.map(|(outcome, writes)| (outcome, writes.then_some(commit))))
    }

    /// The open transaction, begun if there is none.
    fn begin(&mut self, key: Option<&PartitionKey>) -> Result<Result<&mut Txn>, Contended> {
        if self.open.is_none() {
            let Some(key) = key else {
                let missing = "A bulk operation needs its 'partitionKey'.";
                return Ok(Err(Error::bad_request(missing)));
            };
            if !self.principal.covers_key(key) {
                let message = "The resource token is for another partition key.";
                return Ok(Err(Error::Forbidden(message.to_owned())));
            }
            match self.try_begin(key) {
                Ok(Err(contended)) => return Err(contended),
                Ok(Ok(txn)) => self.open = Some(Ok(txn)),
                Err(error) => return Ok(Err(error)),
            }
        }
        match self.open.take() {
            Some(Ok(txn)) if !self.partition.range.contains(txn.epk()) => {
                Ok(Err(Error::PartitionGone))
            }
            Some(Ok(txn)) => match self.open.insert(Ok(txn)) {
                Ok(txn) => Ok(Ok(txn)),
                Err(error) => Ok(Err(error.clone())),
            },
            Some(Err(error)) => Ok(Err(error)),
            None => Ok(Err(Error::PartitionGone)),
        }
    }

    /// Opens a transaction, unless somebody has the lock of its key.
    fn try_begin(&self, key: &PartitionKey) -> Result<Result<Txn, Contended>> {
        let (container, settings) = (self.container.clone(), self.settings.clone());
        let address = ItemAddress::new(container, settings, key.clone())?;
        match address.try_lock() {
            Some(lock) => Txn::at(address, lock).map(Ok),
            None => Ok(Err(Contended(Box::new(address)))),
        }
    }

    /// Queues the commit of what is open, without waiting for it.
    fn commit(&mut self) {
        if let Some(Ok(txn)) = self.open.take() {
            self.commits.push(queue(txn));
        }
    }

    /// The answer, once everything is durable.
    async fn rows<'c>(self, call: &'c Call<'c>, minimal: &[bool]) -> Rows<'c> {
        let mut commits = Vec::with_capacity(self.commits.len());
        for queued in self.commits {
            commits.push(finish(queued).await);
        }
        let size = call.body.len();
        let mut rows = Rows::new(call, &self.container, size, self.read_factor).bounded();
        for (started, minimal) in self.started.into_iter().zip(minimal) {
            let failed = |commit: usize| commits.get(commit).and_then(|done| done.as_ref().err());
            match &started {
                Err(error) => rows.failure(error),
                Ok((outcome, commit)) => match commit.and_then(failed) {
                    Some(error) => rows.failure(error),
                    None => rows.success(outcome, *minimal),
                },
            }
        }
        rows
    }
}

/// The throughput that the operations of one bulk request draw on.
struct Meter {
    container: Arc<Container>,
    partition: Arc<Partition>,
    share: Option<u8>,
    ask: Ask,
    /// The longest wait of an operation that would have been refused.
    reported: Admission,
}

impl Meter {
    fn new(call: &Call<'_>, container: Arc<Container>, partition: Arc<Partition>) -> Self {
        let ask = Ask { low_priority: call.context.low_priority, ..Ask::default() };
        let share = call.context.throughput_bucket;
        Self { container, partition, share, ask, reported: Admission::Free }
    }

    fn admit(&mut self) -> Result<()> {
        match self.container.admit(&self.partition, &mut self.ask, self.share) {
            Admission::Refused(retry_after) => Err(Error::TooManyRequests { retry_after }),
            admission => {
                self.reported = metered::later(self.reported, admission);
                Ok(())
            }
        }
    }

    fn spend(&self, charge: RequestCharge) {
        self.container.spend(&self.partition, &self.ask, charge);
    }
}
