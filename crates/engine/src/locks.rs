//! One lock per logical partition, made on demand.
//!
//! Locks are by key, not by stripe: a five-second script in one logical partition delays nobody
//! outside it. Nobody waits on a thread; who cannot have the lock leaves a callback, which gets the
//! lock from whoever lets go of it. Waiters are served in the order they came.

use armilla_model::partition_key::Epk;
use parking_lot::Mutex;
use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

const SHARDS: usize = 64;

type Key = (u32, Epk);
type Waiter = Box<dyn FnOnce(PartitionLock) + Send>;

/// All locks of an account.
#[derive(Default)]
pub struct LockTable {
    shards: Vec<Mutex<HashMap<Key, VecDeque<Waiter>>>>,
}

/// The right to write in one logical partition; let go when dropped.
pub struct PartitionLock {
    table: Arc<LockTable>,
    key: Key,
}

impl LockTable {
    /// A table without locks.
    pub fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }

    /// Takes the lock at once, if nobody has it.
    pub fn try_lock(self: &Arc<Self>, container: u32, epk: &Epk) -> Option<PartitionLock> {
        let key = (container, epk.clone());
        match self.shard(&key).lock().entry(key.clone()) {
            Entry::Occupied(_) => None,
            Entry::Vacant(entry) => {
                entry.insert(VecDeque::new());
                Some(PartitionLock { table: self.clone(), key })
            }
        }
    }

    /// Hands the lock to the callback: now, or when it is this caller's turn. The callback runs on
    /// the thread that lets go, so it should only pass the lock on.
    pub fn lock(
        self: &Arc<Self>,
        container: u32,
        epk: &Epk,
        granted: impl FnOnce(PartitionLock) + Send + 'static,
    ) {
        let key = (container, epk.clone());
        {
            let mut shard = self.shard(&key).lock();
            if let Some(waiters) = shard.get_mut(&key) {
                waiters.push_back(Box::new(granted));
                return;
            }
            shard.insert(key.clone(), VecDeque::new());
        }
        granted(PartitionLock { table: self.clone(), key });
    }

    fn shard(&self, key: &Key) -> &Mutex<HashMap<Key, VecDeque<Waiter>>> {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        &self.shards[hasher.finish() as usize % SHARDS]
    }

    fn release(self: &Arc<Self>, key: Key) {
        let next = {
            let mut shard = self.shard(&key).lock();
            let next = shard.get_mut(&key).and_then(VecDeque::pop_front);
            if next.is_none() {
                shard.remove(&key);
            }
            next
        };
        if let Some(granted) = next {
            granted(PartitionLock { table: self.clone(), key });
        }
    }
}

impl Drop for PartitionLock {
    fn drop(&mut self) {
        self.table.clone().release(self.key.clone());
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
            table.lock(1, &here, move |lock| sender.send((number, lock)).unwrap());
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
}
