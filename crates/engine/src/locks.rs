//! One lock per logical partition, made on demand.
//!
//! Locks are by key, not by stripe: a five-second script in one logical partition delays nobody
//! outside it. Nobody waits on a thread; who cannot have the lock leaves a callback, which gets the
//! lock from whoever lets go of it. Waiters are served in the order they came.
//!
//! A waiter whose client has gone hands the lock back, and the next one is asked in a loop: with
//! recursion, a client that abandons tens of thousands of writes would overflow the stack of
//! whoever lets go. The waiters of one key are bounded ([`WAITERS_MAX`]).

use crate::limits::{LOCK_RETRY_AFTER, WAITERS_MAX};
use crate::quick_hash::QuickHash;
use armilla_model::error::{Error, Result};
use armilla_model::partition_key::Epk;
use parking_lot::Mutex;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::Arc;

const SHARDS: usize = 64;

type LockKey = (u32, Epk);
/// Takes the lock, or hands it back because nobody wants it any more.
type Waiter = Box<dyn FnOnce(PartitionLock) -> Option<PartitionLock> + Send>;
type Waiters = VecDeque<Waiter>;
type Shard = HashMap<LockKey, Waiters, QuickHash>;

/// All locks of an account.
#[derive(Default)]
pub struct LockTable {
    shards: Vec<Mutex<Shard>>,
    hash: QuickHash,
}

/// The right to write in one logical partition; let go when dropped.
pub struct PartitionLock {
    /// Nothing once the lock was handed on.
    table: Option<Arc<LockTable>>,
    key: LockKey,
}

impl LockTable {
    /// A table without locks.
    pub fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, hash: QuickHash::default() }
    }

    /// Takes the lock at once, if nobody has it.
    pub fn try_lock(self: &Arc<Self>, container: u32, epk: &Epk) -> Option<PartitionLock> {
        let key = (container, epk.clone());
        match self.shard(&key).lock().entry(key.clone()) {
            Entry::Occupied(_) => None,
            Entry::Vacant(entry) => {
                entry.insert(VecDeque::new());
                Some(PartitionLock::new(self, key))
            }
        }
    }

    /// Hands the lock to the callback: now, or when it is this caller's turn. The callback runs on
    /// the thread that lets go, so it should only pass the lock on; what it returns goes to the next
    /// waiter.
    ///
    /// # Errors
    ///
    /// [`Error::Overloaded`] when as many wait for this key as may; the callback is dropped.
    pub fn lock(
        self: &Arc<Self>,
        container: u32,
        epk: &Epk,
        granted: impl FnOnce(PartitionLock) -> Option<PartitionLock> + Send + 'static,
    ) -> Result<()> {
        self.lock_among(container, epk, WAITERS_MAX, granted)
    }

    /// As [`LockTable::lock`], however many wait. For the server's own work, which comes once per
    /// key at most.
    pub(crate) fn lock_always(
        self: &Arc<Self>,
        container: u32,
        epk: &Epk,
        granted: impl FnOnce(PartitionLock) -> Option<PartitionLock> + Send + 'static,
    ) {
        // Cannot be refused: no queue is as long as that.
        let _ = self.lock_among(container, epk, usize::MAX, granted);
    }

    fn lock_among(
        self: &Arc<Self>,
        container: u32,
        epk: &Epk,
        waiters_max: usize,
        granted: impl FnOnce(PartitionLock) -> Option<PartitionLock> + Send + 'static,
    ) -> Result<()> {
        let key = (container, epk.clone());
        {
            let mut shard = self.shard(&key).lock();
            if let Some(waiters) = shard.get_mut(&key) {
                if waiters.len() >= waiters_max {
                    return Err(Error::Overloaded { retry_after: LOCK_RETRY_AFTER });
                }
                waiters.push_back(Box::new(granted));
                return Ok(());
            }
            shard.insert(key.clone(), Waiters::new());
        }
        drop(granted(PartitionLock::new(self, key)));
        Ok(())
    }

    fn shard(&self, key: &LockKey) -> &Mutex<Shard> {
        // The map inside goes by the last bits and the first seven.
        &self.shards[(self.hash.hash_one(key) >> 32) as usize % SHARDS]
    }

    /// Hands the lock of a key to the first waiter that takes it.
    fn release(self: &Arc<Self>, key: &LockKey) {
        while let Some(granted) = self.next(key) {
            match granted(PartitionLock::new(self, key.clone())) {
                None => return,
                Some(unwanted) => unwanted.forget(),
            }
        }
    }

    /// The next waiter of a key; without one the lock is free.
    fn next(&self, key: &LockKey) -> Option<Waiter> {
        let mut shard = self.shard(key).lock();
        let next = shard.get_mut(key).and_then(Waiters::pop_front);
        if next.is_none() {
            shard.remove(key);
        }
        next
    }
}

impl PartitionLock {
    fn new(table: &Arc<LockTable>, key: LockKey) -> Self {
        Self { table: Some(table.clone()), key }
    }

    /// Ends the value without letting go: the caller hands the lock on by itself.
    fn forget(mut self) {
        self.table = None;
    }
}

impl Drop for PartitionLock {
    fn drop(&mut self) {
        if let Some(table) = self.table.take() {
            table.release(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn waiters_are_served_in_order_and_strangers_never_wait() {
        let table = Arc::new(LockTable::new());
        let (here, there) = (Epk::from_bytes(&[1]), Epk::from_bytes(&[2]));
        let first = table.try_lock(1, &here).unwrap();
        assert!(table.try_lock(1, &here).is_none());
        assert!(table.try_lock(1, &there).is_some() && table.try_lock(2, &here).is_some());
        let (sender, receiver) = mpsc::channel();
        for number in 0..3 {
            let sender = sender.clone();
            let granted = move |lock| sender.send((number, lock)).err().map(|unsent| unsent.0.1);
            table.lock(1, &here, granted).unwrap();
        }
        assert!(receiver.try_recv().is_err());
        drop(first);
        for expected in 0..3 {
            let (number, lock) = receiver.try_recv().unwrap();
            assert_eq!(number, expected);
            drop(lock);
        }
        assert!(table.try_lock(1, &here).is_some());
    }

    /// Whoever lets go may have a small stack, and waiters may all have gone.
    #[test]
    fn a_lock_passes_tens_of_thousands_of_abandoned_waiters() {
        const ABANDONED: usize = 50_000;
        const STACK: usize = 64 << 10;
        let table = Arc::new(LockTable::new());
        let key = Epk::from_bytes(&[1]);
        let held = table.try_lock(1, &key).unwrap();
        let (sender, receiver) = mpsc::channel();
        for _ in 0..ABANDONED {
            let (gone, client) = mpsc::channel();
            drop(client);
            table.lock_always(1, &key, move |lock| gone.send(lock).err().map(|unsent| unsent.0));
        }
        table.lock_always(1, &key, move |lock| sender.send(lock).err().map(|unsent| unsent.0));
        let letting_go = std::thread::Builder::new().stack_size(STACK).spawn(move || drop(held));
        letting_go.unwrap().join().unwrap();
        let lock = receiver.try_recv().expect("the one who still waits gets the lock");
        assert!(table.try_lock(1, &key).is_none());
        drop(lock);
        assert!(table.try_lock(1, &key).is_some());
    }

    #[test]
    fn waiters_of_one_key_are_bounded() {
        let table = Arc::new(LockTable::new());
        let (here, there) = (Epk::from_bytes(&[1]), Epk::from_bytes(&[2]));
        let held = table.try_lock(1, &here).unwrap();
        for _ in 0..WAITERS_MAX {
            table.lock(1, &here, Some).unwrap();
        }
        let refused = table.lock(1, &here, Some);
        assert!(matches!(refused, Err(Error::Overloaded { .. })), "{refused:?}");
        table.lock(1, &there, Some).unwrap();
        table.lock_always(1, &here, Some);
        drop(held);
        assert!(table.try_lock(1, &here).is_some(), "nobody kept it");
        table.lock(1, &here, Some).unwrap();
    }
}
