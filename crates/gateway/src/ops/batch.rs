//! Many operations in one request: a transactional batch is one transaction of one logical partition;
//! operations that stand alone go to [`bulk`].

use super::placement::{self, Place};
use super::transaction::{Queued, begin, finish, queue};
use super::{EngineService, addressed, bulk, metered};
use crate::limits::INLINE_STAGING_MAX;
use crate::routes::ContainerPath;
use crate::{Call, Reply};
use armilla_engine::items::batch::{self, Failure, Operation, Outcome};
use armilla_engine::{Container, Txn};
use armilla_model::charge::{Rates, RequestCharge};
use armilla_model::{Error, Result, json};
use http::StatusCode;
use std::io::Write as _;
use std::sync::Arc;

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
    let body = call.body.clone();
    let parse = if is_bulk(call) { batch::parse_each } else { batch::parse };
    let operations = service.staging(body.len(), move || parse(&body)).await?;
    let read_factor = metered::read_factor(service, call, &container.dials());
    if is_bulk(call) {
        bulk::run(service, call, container, operations, read_factor).await
    } else {
        transaction(service, call, container, operations, read_factor).await
    }
}

/// True when the operations of a batch request stand alone.
pub(super) fn is_bulk(call: &Call<'_>) -> bool {
    matches!(call.operation, crate::routes::Operation::ExecuteBatch(_)) && call.context.is_bulk()
}

async fn transaction(
    service: &EngineService,
    call: &Call<'_>,
    container: Arc<Container>,
    operations: Vec<Operation>,
    read_factor: u64,
) -> Result<Reply> {
    let key = addressed::full_key(call, &container)?;
    let txn = begin(&container, key).await?;
    let partition = container.partition_of(txn.epk());
    let minimal: Vec<bool> = operations.iter().map(|operation| operation.minimal).collect();
    match stage(service, call, txn, operations).await? {
        Ok((outcomes, queued)) => {
            let committed = finish(queued).await?;
            let mut rows = Rows::new(call, &container, size_of(&outcomes), read_factor);
            for (outcome, minimal) in outcomes.iter().zip(minimal) {
                rows.success(outcome, minimal);
            }
            Ok(addressed::from_commit(rows.reply(), &container, committed))
        }
        Err(failure) => {
            let reply = failed_transaction(call, &container, &failure, minimal.len()).reply();
            Ok(addressed::from_partition(reply, &container, &partition, partition.lsn()))
        }
    }
}

/// Runs the operations where they belong and queues their commit, or says which of them failed.
async fn stage(
    service: &EngineService,
    call: &Call<'_>,
    mut txn: Txn,
    operations: Vec<Operation>,
) -> Result<Result<(Vec<Outcome>, Queued), Failure>> {
    let run = |mut txn: Txn, operations| {
        let outcomes = txn.run_batch(operations)?;
        Ok((outcomes, queue(txn)))
    };
    if placement::of_batch(call.body.len(), operations.len()) == Place::Pool {
        return service.pools.writes.run(move || Ok(run(txn, operations))).await;
    }
    txn.limit_loading(Some(INLINE_STAGING_MAX));
    let failure = match txn.run_batch(operations) {
        Ok(outcomes) => return Ok(Ok((outcomes, queue(txn)))),
        Err(failure) => failure,
    };
    if !txn.is_heavy() {
        return Ok(Err(failure));
    }
    // The items it is about are large. It begins again elsewhere, as if nothing had been staged.
    let (txn, body) = (txn.restarted(), call.body.clone());
    service.pools.writes.run(move || Ok(run(txn, batch::parse(&body)?))).await
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

/// What an operation costs: reads by their consistency too.
pub(super) fn charge_of(outcome: &Outcome, rates: &Rates, read_factor: u64) -> RequestCharge {
    let charge = outcome.charge(rates);
    match outcome {
        Outcome::Read(_) | Outcome::NotModified(_) => charge * read_factor,
        Outcome::Written(_) | Outcome::Deleted(_) => charge,
    }
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
pub(super) struct Rows<'c> {
    call: &'c Call<'c>,
    rates: Arc<Rates>,
    read_factor: u64,
    body: Vec<u8>,
    charge: RequestCharge,
    failed: bool,
    throttled: u64,
}

impl<'c> Rows<'c> {
    pub(super) fn new(
        call: &'c Call<'c>,
        container: &Container,
        capacity: usize,
        read_factor: u64,
    ) -> Self {
        let mut body = Vec::with_capacity(capacity + 2);
        body.push(b'[');
        let rates = container.rates();
        Self {
            call,
            rates,
            read_factor,
            body,
            charge: RequestCharge::ZERO,
            failed: false,
            throttled: 0,
        }
    }

    /// A row of an operation that succeeded, without the item where either the operation or the whole
    /// request asks for little.
    pub(super) fn success(&mut self, outcome: &Outcome, minimal: bool) {
        let minimal = minimal || self.call.context.prefer_minimal;
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

    pub(super) fn failure(&mut self, error: &Error) {
        let found = crate::error::status_of(error);
        let dependent = *error == Error::FailedDependency;
        let retry_after = crate::error::retry_after(error);
        let free = dependent || retry_after.is_some();
        let charge = if free { RequestCharge::ZERO } else { self.rates.failure };
        self.failed = true;
        self.throttled += u64::from(retry_after.is_some());
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

    pub(super) fn reply(mut self) -> Reply {
        self.body.push(b']');
        let status = if self.failed { StatusCode::MULTI_STATUS } else { StatusCode::OK };
        Reply::json(status, self.body).charge(self.charge).with_throttled(self.throttled)
    }
}
