//! Many operations in one request: a transactional batch is one transaction of one logical partition;
//! operations that stand alone go to [`bulk`]. Both come as JSON or, from .NET, as HybridRow, and are answered
//! in the form they came in.

mod rows;

pub(super) use rows::Rows;

use super::addressed::ItemTarget;
use super::placement::{self, Place};
use super::transaction::{Queued, begin, finish, queue};
use super::{EngineService, bulk, metered};
use crate::limits::INLINE_STAGING_MAX;
use crate::wire::{self, hybrid_row};
use crate::{Call, Reply};
use armilla_engine::items::batch::{Failure, Operation, Outcome};
use armilla_engine::partition::Partition;
use armilla_engine::{Container, Txn};
use armilla_model::charge::{Rates, RequestCharge};
use armilla_model::{Error, Result};

/// Transactional batches and bulk.
pub(super) async fn run(
    service: &EngineService,
    call: &Call<'_>,
    target: ItemTarget,
) -> Result<Reply> {
    let body = call.body.clone();
    let is_bulk = is_bulk(call);
    let prefer_minimal = call.context.prefer_minimal;
    let read_factor = metered::read_factor(service, call, &target.container.dials());
    if !is_bulk && placement::of_staging(body.len()) == Place::Pool {
        return large_transaction(service, call, target, read_factor).await;
    }
    let operations =
        service.staging(body.len(), move || parse(&body, is_bulk, prefer_minimal)).await?;
    if is_bulk {
        bulk::run(service, call, target, operations, read_factor).await
    } else {
        transaction(service, call, target, operations, read_factor).await
    }
}

/// True when the operations of a batch request stand alone.
pub(super) fn is_bulk(call: &Call<'_>) -> bool {
    matches!(call.operation, crate::routes::Operation::ExecuteBatch(_)) && call.context.is_bulk()
}

/// Reads the operations in whichever form they came. What cannot be read of one JSON operation refuses the
/// whole transaction; rows are told apart by their own statuses.
fn parse(body: &[u8], is_bulk: bool, prefer_minimal: bool) -> Result<Vec<Operation>> {
    let mut operations = if hybrid_row::is_hybrid_row(body) {
        hybrid_row::parse_operations(body)
    } else if is_bulk {
        wire::batch::parse_each(body)
    } else {
        wire::batch::parse(body)
    }?;
    for operation in &mut operations {
        operation.options.minimal |= prefer_minimal;
    }
    Ok(operations)
}

/// Operations that were run and whose commit is queued, or which of them failed.
type StagedBatch = Result<(Vec<Outcome>, Queued), Failure>;

/// What became of a large batch on the pool.
enum Visit {
    StagedBatch(Vec<bool>, StagedBatch),
    /// Somebody has the lock of its key.
    Waits(Vec<Operation>),
}

/// A batch that is read on the pool. Unless somebody has the lock of its key it is staged in the same visit: each costs two threads a
/// wake-up.
async fn large_transaction(
    service: &EngineService,
    call: &Call<'_>,
    target: ItemTarget,
    read_factor: u64,
) -> Result<Reply> {
    let (body, prefer_minimal) = (call.body.clone(), call.context.prefer_minimal);
    let address = target.address()?.clone();
    let partition = target.container.partition_of(&address.epk);
    let visit = service.pools.writes.run(move || {
        let operations = parse(&body, false, prefer_minimal)?;
        let Some(lock) = address.try_lock() else { return Ok(Visit::Waits(operations)) };
        let minimal = minimal_of(&operations);
        Ok(Visit::StagedBatch(minimal, run_and_queue(Txn::at(address, lock)?, operations)))
    });
    match visit.await? {
        Visit::Waits(operations) => {
            transaction(service, call, target, operations, read_factor).await
        }
        Visit::StagedBatch(minimal, staged) => {
            answer(call, target, (&partition, &minimal, read_factor), staged).await
        }
    }
}

async fn transaction(
    service: &EngineService,
    call: &Call<'_>,
    target: ItemTarget,
    operations: Vec<Operation>,
    read_factor: u64,
) -> Result<Reply> {
    let txn = begin(target.address()?.clone()).await?;
    let partition = target.container.partition_of(txn.epk());
    let minimal = minimal_of(&operations);
    let staged = stage(service, call, txn, operations).await?;
    answer(call, target, (&partition, &minimal, read_factor), staged).await
}

fn minimal_of(operations: &[Operation]) -> Vec<bool> {
    operations.iter().map(|operation| operation.minimal).collect()
}

/// Waits for the commit and answers.
async fn answer(
    call: &Call<'_>,
    target: ItemTarget,
    (partition, minimal, read_factor): (&Partition, &[bool], u64),
    staged: StagedBatch,
) -> Result<Reply> {
    let container = &target.container;
    match staged {
        Ok((outcomes, queued)) => {
            let committed = finish(queued).await?;
            let mut rows = Rows::new(call, container, size_of(&outcomes), read_factor);
            for (outcome, minimal) in outcomes.iter().zip(minimal) {
                rows.success(outcome, *minimal);
            }
            Ok(target.with_commit(rows.reply(), committed))
        }
        Err(failure) => {
            let reply = failed_transaction(call, container, &failure, minimal.len()).reply();
            Ok(target.with_position_of(reply, partition))
        }
    }
}

fn run_and_queue(mut txn: Txn, operations: Vec<Operation>) -> StagedBatch {
    let outcomes = txn.run_batch(operations)?;
    Ok((outcomes, queue(txn)))
}

/// Runs the operations where they belong and queues their commit, or says which of them failed.
async fn stage(
    service: &EngineService,
    call: &Call<'_>,
    mut txn: Txn,
    operations: Vec<Operation>,
) -> Result<StagedBatch> {
    if placement::of_batch(call.body.len(), operations.len()) == Place::Pool {
        return service.pools.writes.run(move || Ok(run_and_queue(txn, operations))).await;
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
    let prefer_minimal = call.context.prefer_minimal;
    service
        .pools
        .writes
        .run(move || Ok(run_and_queue(txn, parse(&body, false, prefer_minimal)?)))
        .await
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
    rows.charged(failure.charge)
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
    outcomes.iter().map(|outcome| outcome.text_length() + ROW_ROOM).sum()
}
