//! Transactional batches, and bulk: many operations in one request.
//!
//! A batch is one transaction of one logical partition. Bulk operations stand alone; they are staged
//! one after the other and their commits awaited together, so that a request shares a few syncs. Each
//! asks for throughput by itself: a bulk request that runs into its limit is served as far as it goes.

use super::writes::{begin, commit};
use super::{EngineService, addressed, metered};
use crate::routes::ContainerPath;
use crate::{Call, Reply};
use armilla_engine::Container;
use armilla_engine::items::batch::{self, Failure, Operation, Outcome};
use armilla_engine::partition::Partition;
use armilla_engine::throttle::{Admission, Ask};
use armilla_engine::txn::Committed;
use armilla_model::charge::{Rates, RequestCharge};
use armilla_model::{Error, Result, json};
use http::StatusCode;
use std::io::Write as _;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Transactional batches and bulk.
pub(super) async fn run(
    service: &EngineService,
    call: &Call<'_>,
    path: ContainerPath<'_>,
) -> Result<Reply> {
    /// How the body of a .NET batch begins.
    const HYBRID_ROW: u8 = 0x81;
    if call.body.first() == Some(&HYBRID_ROW) {
        return Err(Error::bad_request(
            "Batches in the HybridRow format are not supported by this server; nothing was written.",
        ));
    }
    let container = addressed::container(service, call, path)?;
    let operations = batch::parse(&call.body)?;
    let read_factor = metered::read_factor(service, call, &container.dials());
    if is_bulk(call) {
        bulk(call, container, operations, read_factor).await
    } else {
        transaction(call, container, operations, read_factor).await
    }
}

/// True when the operations of a batch request stand alone.
pub(super) fn is_bulk(call: &Call<'_>) -> bool {
    matches!(call.operation, crate::routes::Operation::ExecuteBatch(_))
        && !call.context.batch_atomic
        && call.context.range_id.is_some()
}

async fn transaction(
    call: &Call<'_>,
    container: Arc<Container>,
    operations: Vec<Operation>,
    read_factor: u64,
) -> Result<Reply> {
    let key = addressed::full_key(call, &container)?;
    let mut txn = begin(&container, key).await?;
    let partition = container.partition_of(txn.epk());
    let count = operations.len();
    match txn.run_batch(operations) {
        Ok(outcomes) => {
            let committed = commit(txn).await?;
            let mut rows = Rows::new(call, &container, size_of(&outcomes), read_factor);
            outcomes.iter().for_each(|outcome| rows.success(outcome));
            Ok(addressed::from_commit(rows.reply(), &container, committed))
        }
        Err(failure) => {
            drop(txn);
            let reply = failed_transaction(call, &container, &failure, count).reply();
            Ok(addressed::from_partition(reply, &container, &partition, partition.lsn()))
        }
    }
}

fn failed_transaction<'c>(
    call: &'c Call<'c>,
    container: &Container,
    failure: &Failure,
    count: usize,
) -> Rows<'c> {
    let mut rows = Rows::new(call, container, 0, 1);
    for position in 0..count {
        rows.failure(if position == failure.position {
            &failure.error
        } else {
            &Error::FailedDependency
        });
    }
    rows.charge = failure.charge;
    rows
}

/// Bulk: every operation stands alone, so they run side by side.
async fn bulk(
    call: &Call<'_>,
    container: Arc<Container>,
    operations: Vec<Operation>,
    read_factor: u64,
) -> Result<Reply> {
    let range = call.context.range_id.as_ref().and_then(|range| range.id.parse().ok());
    let partition = container.partition(range.ok_or(Error::PartitionGone)?)?;
    let mut pending = Vec::with_capacity(operations.len());
    let stops_at_error = !call.context.batch_continue_on_error;
    let mut stopped = false;
    let rates = container.rates();
    let mut meter = Meter::new(call, &container, &partition);
    for operation in operations {
        if stopped {
            pending.push(Err(Error::FailedDependency));
            continue;
        }
        let started = match meter.admit() {
            Ok(()) => {
                let started = start_bulk(&container, &partition, operation).await;
                meter.spend(match &started {
                    Ok((outcome, _)) => charge_of(outcome, &rates, read_factor),
                    Err(_) => rates.failure,
                });
                started
            }
            Err(throttled) => Err(throttled),
        };
        stopped = stops_at_error && started.is_err();
        pending.push(started);
    }
    let mut rows = Rows::new(call, &container, call.body.len(), read_factor);
    for started in pending {
        match finish_bulk(started).await {
            Ok(outcome) => rows.success(&outcome),
            Err(error) => rows.failure(&error),
        }
    }
    let reply = metered::with_report(rows.reply(), meter.reported);
    Ok(addressed::from_partition(reply, &container, &partition, partition.lsn()))
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

/// What an operation costs: reads by their consistency too.
fn charge_of(outcome: &Outcome, rates: &Rates, read_factor: u64) -> RequestCharge {
    let charge = outcome.charge(rates);
    match outcome {
        Outcome::Read(_) | Outcome::NotModified(_) => charge * read_factor,
        Outcome::Written(_) | Outcome::Deleted(_) => charge,
    }
}

type Started = Result<(Outcome, Option<oneshot::Receiver<Result<Committed>>>)>;

/// Stages one operation and queues its commit without waiting for it, so that a whole bulk request
/// shares a few syncs.
async fn start_bulk(
    container: &Arc<Container>,
    partition: &Partition,
    operation: Operation,
) -> Started {
    let key = operation.partition_key.clone();
    let key =
        key.ok_or_else(|| Error::bad_request("A bulk operation needs its 'partitionKey'."))?;
    let mut txn = begin(container, key).await?;
    if !partition.range.contains(txn.epk()) {
        return Err(Error::PartitionGone);
    }
    let outcome = txn.run_operation(operation)?;
    if txn.is_clean() {
        return Ok((outcome, None));
    }
    let (sender, receiver) = oneshot::channel();
    txn.commit(move |committed| {
        let _ = sender.send(committed);
    });
    Ok((outcome, Some(receiver)))
}

async fn finish_bulk(started: Started) -> Result<Outcome> {
    let (outcome, receiver) = started?;
    if let Some(receiver) = receiver {
        receiver
            .await
            .map_err(|_| Error::Internal("the commit was never answered".to_owned()))??;
    }
    Ok(outcome)
}

/// About as many bytes as the answer to a batch will have.
fn size_of(outcomes: &[Outcome]) -> usize {
    const ROW_ROOM: usize = 160;
    let text = |outcome: &Outcome| match outcome {
        Outcome::Written(written) => written.text.len(),
        Outcome::Read(item) => item.text.len(),
        Outcome::Deleted(_) | Outcome::NotModified(_) => 0,
    };
    outcomes.iter().map(|outcome| text(outcome) + ROW_ROOM).sum()
}

/// The answer: one row for each operation, written behind one another.
struct Rows<'c> {
    call: &'c Call<'c>,
    rates: Arc<Rates>,
    read_factor: u64,
    body: Vec<u8>,
    charge: RequestCharge,
    failed: bool,
}

impl<'c> Rows<'c> {
    fn new(call: &'c Call<'c>, container: &Container, capacity: usize, read_factor: u64) -> Self {
        let mut body = Vec::with_capacity(capacity + 2);
        body.push(b'[');
        let rates = container.rates();
        Self { call, rates, read_factor, body, charge: RequestCharge::ZERO, failed: false }
    }

    fn success(&mut self, outcome: &Outcome) {
        let minimal = self.call.context.prefer_minimal;
        let (status, etag, text) = match outcome {
            Outcome::Written(written) => {
                let status = if written.created { 201 } else { 200 };
                (status, written.etag, (!minimal).then_some(&written.text))
            }
            Outcome::Deleted(_) => (204, None, None),
            Outcome::Read(item) => (200, Some(item.etag), Some(&item.text)),
            Outcome::NotModified(item) => (304, Some(item.etag), None),
        };
        self.begin(status, charge_of(outcome, &self.rates, self.read_factor));
        let row = &mut self.body;
        if let Some(etag) = etag {
            row.extend_from_slice(b",\"eTag\":\"\\\"");
            etag.write_unquoted(row);
            row.extend_from_slice(b"\\\"\"");
        }
        if let Some(text) = text {
            row.extend_from_slice(b",\"resourceBody\":");
            row.extend_from_slice(text);
        }
        row.push(b'}');
    }

    fn failure(&mut self, error: &Error) {
        let found = crate::error::status_of(error);
        let dependent = *error == Error::FailedDependency;
        let retry_after = crate::error::retry_after(error);
        let free = dependent || retry_after.is_some();
        let charge = if free { RequestCharge::ZERO } else { self.rates.failure };
        self.failed = true;
        self.begin(found.status.as_u16(), charge);
        let row = &mut self.body;
        if found.substatus != 0 {
            let _ = write!(row, ",\"subStatusCode\":{}", found.substatus);
        }
        if let Some(wait) = retry_after {
            let millis = wait.as_micros().div_ceil(1000);
            let _ = write!(row, ",\"retryAfterMilliseconds\":{millis}");
        }
        if !dependent {
            row.extend_from_slice(b",\"message\":");
            json::write_string(error.message(), row);
        }
        row.push(b'}');
    }

    /// Begins a row with what every row has. Writing to memory cannot fail.
    fn begin(&mut self, status: u16, charge: RequestCharge) {
        if self.body.len() > 1 {
            self.body.push(b',');
        }
        self.charge += charge;
        let _ = write!(self.body, "{{\"statusCode\":{status},\"requestCharge\":{charge}");
    }

    fn reply(mut self) -> Reply {
        self.body.push(b']');
        let status = if self.failed { StatusCode::MULTI_STATUS } else { StatusCode::OK };
        Reply::json(status, self.body).charge(self.charge)
    }
}
