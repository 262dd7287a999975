//! The two waits of a transaction, each turned from a callback into a future: for the lock of its
//! logical partition, and for its commit to be durable.

use armilla_engine::locks::PartitionLock;
use armilla_engine::txn::Committed;
use armilla_engine::{ItemAddress, Txn};
use armilla_model::{Error, Result};
use tokio::sync::oneshot;

/// Waits for the lock of a logical partition and opens a transaction under it.
pub(super) async fn begin(address: ItemAddress) -> Result<Txn> {
    match address.try_lock() {
        Some(lock) => Txn::at(address, lock),
        None => {
            let lock = wait_for_lock(&address).await?;
            Txn::at(address.renewed(), lock)
        }
    }
}

async fn wait_for_lock(address: &ItemAddress) -> Result<PartitionLock> {
    let (sender, receiver) = oneshot::channel();
    // A client that went away has dropped the receiver: the lock goes to the next one.
    address.lock(move |lock| sender.send(lock).err())?;
    receiver.await.map_err(|_| Error::Internal("The server stopped while this write waited for its partition key. Nothing was written; send it again.".to_owned()))
}

/// A transaction on its way to the disk.
pub(super) type Queued = oneshot::Receiver<Result<Committed>>;

/// Queues a transaction for its commit.
pub(super) fn queue(txn: Txn) -> Queued {
    let (sender, receiver) = oneshot::channel();
    txn.commit(tell(sender));
    receiver
}

/// The same for a request that nobody is beside: a writer who has been alone commits here, and no thread is woken for it.
pub(super) fn queue_alone(txn: Txn) -> Queued {
    let (sender, receiver) = oneshot::channel();
    txn.commit_here(tell(sender));
    receiver
}

fn tell(sender: oneshot::Sender<Result<Committed>>) -> impl FnOnce(Result<Committed>) {
    move |outcome| {
        // A client that went away does not hear of it.
        let _ = sender.send(outcome);
    }
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
