//! A place in the queue for the lock of a key, for threads that must not wait.
//!
//! One thread keeps all views up and one runs all subscriptions, and a procedure that a client runs holds the
//! lock of its key for seconds. So such a thread waits a moment only and goes on with other views or
//! subscriptions. The place in the queue stays, else a busy key would never have its turn.

use super::{ContainerView, Signal};
use crate::container::Container;
use crate::limits::{VIEW_LOCK_WAIT, VIEW_RETRY_MIN};
use crate::locks::PartitionLock;
use armilla_model::error::{Error, Result};
use armilla_model::partition_key::Epk;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

/// The key of a container that is waited for, if one is.
#[derive(Default)]
pub(crate) struct LockTurn(Mutex<Option<(u32, Epk, Receiver<PartitionLock>)>>);

impl LockTurn {
    /// The lock of a key, if it is had within a moment. Else the signal is raised when its turn has come.
    ///
    /// # Errors
    ///
    /// [`Error::Overloaded`] when somebody else has it for longer.
    pub(crate) fn lock(
        &self,
        target: &Container,
        epk: &Epk,
        signal: &Arc<Signal>,
    ) -> Result<PartitionLock> {
        let mut turn = self.0.lock();
        target.check_alive()?;
        let queued = turn.take().filter(|(of, key, _)| *of == target.number && key == epk);
        // Whoever is in the queue already is woken by the signal and does not wait again.
        let (receiver, wait) = match queued {
            Some((_, _, receiver)) => (receiver, Duration::ZERO),
            None => (queue(target, epk, signal), VIEW_LOCK_WAIT),
        };
        match receiver.recv_timeout(wait) {
            Ok(lock) => Ok(lock),
            Err(_) => {
                *turn = Some((target.number, epk.clone(), receiver));
                Err(Error::Overloaded { retry_after: VIEW_RETRY_MIN })
            }
        }
    }

    /// Gives up the place in the queue: others may wait behind it.
    pub(crate) fn leave(&self) {
        *self.0.lock() = None;
    }
}

impl ContainerView {
    /// The lock of a key of this view, if it is had within a moment.
    pub(super) fn lock(&self, target: &Container, epk: &Epk) -> Result<PartitionLock> {
        self.turn.lock(target, epk, &target.core.followers)
    }

    /// Gives up the place in the queue, for a view that was deleted.
    pub(crate) fn leave_queue(&self) {
        self.turn.leave();
    }
}

/// Asks for the lock. Granted after nobody waits any more, it goes to the next in the queue.
fn queue(target: &Container, epk: &Epk, signal: &Arc<Signal>) -> Receiver<PartitionLock> {
    let (sender, receiver) = sync_channel(1);
    let signal = signal.clone();
    target.core.locks.lock_always(target.number, epk, move |lock| {
        let unsent = sender.send(lock).err().map(|unsent| unsent.0);
        signal.wake();
        unsent
    });
    receiver
}
