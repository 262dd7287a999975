//! The two waits of a transaction, each turned from a callback into a future: for the lock of its
//! logical partition, and for its commit to be durable.

use armilla_engine::locks::PartitionLock;
use armilla_engine::txn::Committed;
use armilla_engine::{Container, Txn};
use armilla_model::partition_key::{Epk, PartitionKey};
use armilla_model::{Error, Result};
use std::sync::Arc;
use tokio::sync::oneshot;

/// Waits for the lock of a logical partition and opens a transaction under it.
pub(super) async fn begin(container: &Arc<Container>, key: PartitionKey) -> Result<Txn> {
    let (key, epk) = address(container, key)?;
    let lock = match container.try_lock(&epk) {
        Some(lock) => lock,
        None => wait_for_lock(container, &epk).await?,
    };
    Txn::begin(container.clone(), key, lock)
}

/// Opens a transaction if nobody has the lock of its logical partition.
pub(super) fn try_begin(container: &Arc<Container>, key: PartitionKey) -> Result<Option<Txn>> {
    let (key, epk) = address(container, key)?;
    let lock = container.try_lock(&epk);
    lock.map(|lock| Txn::begin(container.clone(), key, lock)).transpose()
}

fn address(container: &Container, key: PartitionKey) -> Result<(PartitionKey, Epk)> {
    let definition = &container.settings().policy.partition_key;
    let key = match key.0.is_empty() {
        true => armilla_engine::account::undefined_key(definition.levels()),
        false => key,
    };
    definition.check_full(&key)?;
    let epk = definition.epk(&key);
    Ok((key, epk))
}

async fn wait_for_lock(container: &Container, epk: &Epk) -> Result<PartitionLock> {
    let (sender, receiver) = oneshot::channel();
    // A client that went away has dropped the receiver: the lock goes to the next one.
    container.lock(epk, move |lock| sender.send(lock).err())?;
    receiver.await.map_err(|_| Error::Internal("The server stopped while this write waited for its partition key. Nothing was written; send it again.".to_owned()))
}

/// A transaction on its way to the disk.
pub(super) type Queued = oneshot::Receiver<Result<Committed>>;

/// Queues a transaction for its commit.
pub(super) fn queue(txn: Txn) -> Queued {
    let (sender, receiver) = oneshot::channel();
    txn.commit(move |outcome| {
        // A client that went away does not hear of it.
        let _ = sender.send(outcome);
    });
    receiver
}

/// Waits until a queued transaction is durable.
pub(super) async fn finish(queued: Queued) -> Result<Committed> {
    queued.await.map_err(|_| Error::Internal("The server stopped before this write was confirmed. It may be durable: read before you repeat it.".to_owned()))?
}

/// The thread of a script ended without an answer: it panicked, or the server stops.
pub(super) fn script_ended() -> Error {
    Error::Internal(
        "The thread that ran the script ended without an answer; the log has the reason. Its transaction was \
         dropped, so the call may be repeated."
            .to_owned(),
    )
}

/// Commits and waits until the transaction is durable.
pub(super) async fn commit(txn: Txn) -> Result<Committed> {
    finish(queue(txn)).await
}
