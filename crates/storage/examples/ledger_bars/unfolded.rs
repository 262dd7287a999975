//! A ledger whose owner never folds: states stay in the owner's memory, and no byte of them is sent.

use std::sync::Arc;

use armilla_storage::ledger::{
    Entry, Epoch, Home, Incarnation, JournalRow, KeyStates, Ledger, LedgerError, NodeCard, NodeRow,
    Place, PostgresLedger, Reshape, Shard, ShardAt, ShardRow, Taken, Verdict,
};
use armilla_storage::{KeyRange, Keyspace};
use bytes::Bytes;

type Answer<T> = Result<T, LedgerError>;

/// As the ledger in PostgreSQL, but for folds.
pub(super) struct Unfolded(pub(super) Arc<PostgresLedger>);

impl Ledger for Unfolded {
    fn fold(&self, _shard: ShardAt, _epoch: Epoch, _states: KeyStates) -> Answer<bool> {
        Ok(true)
    }

    fn join(&self, node: &NodeCard) -> Answer<Option<Incarnation>> {
        self.0.join(node)
    }

    fn me(&self) -> Option<(String, Incarnation)> {
        self.0.me()
    }

    fn beat(&self, catalog: Place) -> Answer<Option<u64>> {
        self.0.beat(catalog)
    }

    fn nodes(&self) -> Answer<Vec<NodeRow>> {
        self.0.nodes()
    }

    fn evict(&self, node: &NodeRow) -> Answer<bool> {
        self.0.evict(node)
    }

    fn drain(&self, node: &NodeRow) -> Answer<bool> {
        self.0.drain(node)
    }

    fn forget(&self, node: &NodeRow) -> Answer<bool> {
        self.0.forget(node)
    }

    fn name_heir(&self, at: ShardAt, epoch: Epoch, heir: &NodeRow) -> Answer<bool> {
        self.0.name_heir(at, epoch, heir)
    }

    fn shards(&self) -> Answer<Vec<ShardRow>> {
        self.0.shards()
    }

    fn open(&self, home: Home, shards: &[(Shard, u64)]) -> Answer<()> {
        self.0.open(home, shards)
    }

    fn drop_shards(&self, home: Home, shards: &[Shard]) -> Answer<()> {
        self.0.drop_shards(home, shards)
    }

    fn take(&self, shard: ShardAt, seen: Epoch) -> Answer<Option<Taken>> {
        self.0.take(shard, seen)
    }

    fn release(&self, shard: ShardAt, epoch: Epoch) -> Answer<bool> {
        self.0.release(shard, epoch)
    }

    fn append(&self, entries: &[Entry]) -> Answer<Vec<Verdict>> {
        self.0.append(entries)
    }

    fn cut(&self, shard: ShardAt, epoch: Epoch, upto: Place) -> Answer<u64> {
        self.0.cut(shard, epoch, upto)
    }

    fn reshape(&self, reshape: Reshape) -> Answer<bool> {
        self.0.reshape(reshape)
    }

    fn journal(&self, after: &[(ShardAt, Place)], bytes_max: usize) -> Answer<Vec<JournalRow>> {
        self.0.journal(after, bytes_max)
    }

    fn base(
        &self,
        home: Home,
        space: Keyspace,
        range: &KeyRange,
        rows: usize,
    ) -> Answer<Vec<(Vec<u8>, Bytes)>> {
        self.0.base(home, space, range, rows)
    }

    fn reserve(&self, name: &str, many: u64) -> Answer<u64> {
        self.0.reserve(name, many)
    }
}
