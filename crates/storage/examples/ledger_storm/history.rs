//! Everything that was tried, and what must be true of it at the end.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};

use armilla_storage::Keyspace;
use armilla_storage::ledger::{Chain, Epoch, Place, Shard, ShardAt, Taken, decode_batch};
use bytes::Bytes;
use parking_lot::Mutex;

use super::HOME;

/// The state of a shard's keys.
pub(super) type State = BTreeMap<(Keyspace, Vec<u8>), Bytes>;

pub(super) fn at(shard: u64) -> ShardAt {
    ShardAt { home: HOME, shard: Shard(shard) }
}

/// A row that somebody tried to append.
#[derive(Clone)]
struct Attempt {
    epoch: Epoch,
    place: Place,
    before: Chain,
    batch: Bytes,
}

#[derive(Default)]
struct ShardHistory {
    attempts: HashMap<Chain, Attempt>,
    acknowledged: Vec<(Place, Chain)>,
    takes: Vec<(Epoch, Place, Chain)>,
}

/// What all nodes did.
#[derive(Default)]
pub(super) struct History {
    shards: Mutex<HashMap<u64, ShardHistory>>,
    copies: AtomicU64,
}

impl History {
    /// Notes a row before it is sent.
    pub(super) fn tries(
        &self,
        shard: u64,
        epoch: Epoch,
        place: Place,
        before: Chain,
        batch: Bytes,
    ) {
        let attempt = Attempt { epoch, place, before, batch };
        let chain = before.with(&attempt.batch);
        self.shards.lock().entry(shard).or_default().attempts.insert(chain, attempt);
    }

    pub(super) fn acknowledges(&self, shard: u64, place: Place, chain: Chain) {
        self.shards.lock().entry(shard).or_default().acknowledged.push((place, chain));
    }

    pub(super) fn took(&self, shard: u64, taken: &Taken) {
        let take = (taken.epoch, taken.place, taken.chain);
        self.shards.lock().entry(shard).or_default().takes.push(take);
    }

    /// A copy that claims to be the state of a shard at a row.
    pub(super) fn copied(&self, shard: u64, chain: Chain, copy: &State) {
        let mut state = State::new();
        for (_, attempt) in self.path(shard, chain).iter().rev() {
            for operation in decode_batch(&attempt.batch).unwrap().into_operations() {
                let key = (operation.keyspace, operation.key.to_vec());
                match operation.value {
                    Some(value) => state.insert(key, value),
                    None => state.remove(&key),
                };
            }
        }
        assert!(state == *copy, "a copy of shard {shard} is not the state at its place");
        self.copies.fetch_add(1, Ordering::Relaxed);
    }

    /// The rows from the newest back to the first, by their chains.
    fn path(&self, shard: u64, tip: Chain) -> Vec<(Chain, Attempt)> {
        let shards = self.shards.lock();
        let Some(known) = shards.get(&shard) else { return Vec::new() };
        let (mut path, mut chain) = (Vec::new(), tip);
        while chain != Chain::START {
            let attempt = known.attempts.get(&chain);
            let attempt = attempt.unwrap_or_else(|| panic!("shard {shard}: nobody wrote {chain}"));
            path.push((chain, attempt.clone()));
            chain = attempt.before;
        }
        for (index, (_, attempt)) in path.iter().rev().enumerate() {
            assert_eq!(attempt.place.0, index as u64 + 1, "shard {shard}: places have a gap");
        }
        path
    }

    /// Holds what was promised against what is there.
    pub(super) fn judge(&self, shard: u64, place: Place, tip: Chain) {
        let path = self.path(shard, tip);
        assert_eq!(path.len() as u64, place.0, "shard {shard}: the newest row is not at its place");
        let by_place: HashMap<Place, &(Chain, Attempt)> =
            path.iter().map(|row| (row.1.place, row)).collect();
        let shards = self.shards.lock();
        let Some(known) = shards.get(&shard) else { return };
        for (place, chain) in &known.acknowledged {
            let found = by_place.get(place).map(|row| row.0);
            assert_eq!(found, Some(*chain), "shard {shard}: acknowledged row {place} is missing");
        }
        for (epoch, place, chain) in &known.takes {
            let found = by_place.get(place).map_or(Chain::START, |row| row.0);
            assert_eq!(found, *chain, "shard {shard}: what a take saw at {place} is gone");
            for (_, attempt) in &path {
                let fenced = attempt.epoch < *epoch && attempt.place > *place;
                assert!(!fenced, "shard {shard}: row {} came after its fence", attempt.place);
            }
        }
    }

    pub(super) fn acknowledged(&self) -> usize {
        self.shards.lock().values().map(|known| known.acknowledged.len()).sum()
    }

    pub(super) fn takes(&self) -> usize {
        self.shards.lock().values().map(|known| known.takes.len()).sum()
    }

    pub(super) fn copies(&self) -> u64 {
        self.copies.load(Ordering::Relaxed)
    }
}
