//! The ledger: where the truth of a cluster lies, in an existing replicated database.
//!
//! A cluster keeps no replicated log of its own. Every physical partition (a *shard*) has one *owner* among the nodes; the owner's
//! commits are rows of a *journal* in the ledger, and rows are *folded* into an ordered *base* table behind the
//! writers' backs:
//!
//! ```text
//!   owner ── append (epoch, place, chain) ──► journal ── fold ──► base
//!                                               │                  │
//!   standby ◄──────────── journal ──────────────┘                  │
//!   new node ◄─────────── base, then the journal above `folded` ───┘
//! ```
//!
//! What the ledger promises, whatever the nodes do:
//!
//! * Only the current *epoch* of a shard can append, fold, cut or reshape: each [`Ledger::take`] begins a new epoch, and that fences
//!   every earlier owner.
//! * The *places* of a shard are 0, 1, 2 … without gaps and without forks, and each row carries the [`Chain`] of all
//!   rows before it, so that a database that lost rows is recognised.
//! * A take waits for an append that is under way and then sees it, or makes it fail.
//! * From an owner that is not gone nobody can take, and a node that was evicted can take nothing.
//!
//! Built on these promises, for an account whose journal is one ([`ACCOUNT`]): [`Member`] is a node with its lease and its watch over
//! the others, [`Replica`] a local copy that follows, [`LedgerStore`] the store of the node that owns the account.
//!
//! [`PostgresLedger`] is the real one, [`MemoryLedger`] the one of tests. This module knows batches, shards and places; it
//! knows no items. Nothing asynchronous leaves it.

mod batch_codec;
mod chain;
mod error;
mod folding;
mod kept;
mod kept_rows;
mod member;
mod memory;
mod owned;
mod position;
mod postgres;
mod replica;
mod rows;

pub use batch_codec::{decode_batch, encode_batch};
pub use chain::Chain;
pub use error::LedgerError;
pub use kept::KeptOpen;
pub use member::{Beat, JoinError, Lease, Member, Ownership};
pub use memory::MemoryLedger;
pub use owned::{LedgerStore, OwnershipWatcher};
pub use position::{ACCOUNT, Position, slice_journal};
pub use postgres::{
    LedgerFacts, PostgresLedger, Protection, Replication, SCHEMA, StoreAddress, UnfoldedRows,
};
pub use replica::{Followed, Replica, ReplicaError};
pub use rows::{
    Entry, Epoch, Home, Incarnation, JournalRow, KeyStates, NodeCard, NodeRow, NodeState, Place,
    Reshape, ReshapedShard, Shard, ShardAt, ShardRow, ShardState, Taken, Verdict,
};

use bytes::Bytes;

use crate::{KeyRange, Keyspace};

/// The version of the tables and functions in the ledger.
pub const LEDGER_FORMAT: u32 = 1;

/// A database that keeps the journals and the base of an account, as one node sees it.
///
/// Every change of a shard is one fenced statement. A method that changes something and fails with
/// [`LedgerError::OutcomeUnknown`] may have happened or not: the caller takes the shard again and looks.
pub trait Ledger: Send + Sync {
    /// Enters this node under its name and remembers it for all later calls; nothing if a node of this name is up.
    ///
    /// # Errors
    ///
    /// When the database cannot be reached, or the outcome is unknown.
    fn join(&self, node: &NodeCard) -> Result<Option<Incarnation>, LedgerError>;

    /// The name and the life under which this node has joined.
    fn me(&self) -> Option<(String, Incarnation)>;

    /// Says that this node is alive and how far it knows the catalog; nothing when its incarnation was evicted.
    ///
    /// # Errors
    ///
    /// As [`Ledger::join`].
    fn beat(&self, catalog: Place) -> Result<Option<u64>, LedgerError>;

    /// Every node that ever joined.
    ///
    /// # Errors
    ///
    /// As [`Ledger::join`].
    fn nodes(&self) -> Result<Vec<NodeRow>, LedgerError>;

    /// Declares a node gone if it has not beaten since `node` was read.
    ///
    /// # Errors
    ///
    /// As [`Ledger::join`].
    fn evict(&self, node: &NodeRow) -> Result<bool, LedgerError>;

    /// Has a node hand over what it owns and take nothing any more; false when that life is not [up](NodeState::Up).
    ///
    /// # Errors
    ///
    /// As [`Ledger::join`].
    fn drain(&self, node: &NodeRow) -> Result<bool, LedgerError>;

    /// Strikes a node that is gone from the list; false when it is not there or not gone.
    ///
    /// # Errors
    ///
    /// As [`Ledger::join`].
    fn forget(&self, node: &NodeRow) -> Result<bool, LedgerError>;

    /// Names the life of a node that shall own a shard next; false when `epoch` is not the shard's epoch any more or that life is not
    /// [up](NodeState::Up).
    ///
    /// # Errors
    ///
    /// As [`Ledger::join`].
    fn name_heir(&self, at: ShardAt, epoch: Epoch, heir: &NodeRow) -> Result<bool, LedgerError>;

    /// Every shard.
    ///
    /// # Errors
    ///
    /// As [`Ledger::join`].
    fn shards(&self) -> Result<Vec<ShardRow>, LedgerError>;

    /// Makes shards that are not there yet, each with an empty row at place 0.
    ///
    /// # Errors
    ///
    /// As [`Ledger::join`].
    fn open(&self, home: Home, shards: &[(Shard, u64)]) -> Result<(), LedgerError>;

    /// Closes shards for good.
    ///
    /// # Errors
    ///
    /// As [`Ledger::join`].
    fn drop_shards(&self, home: Home, shards: &[Shard]) -> Result<(), LedgerError>;

    /// Begins a new epoch of a shard with this node as its owner, if `seen` is still its epoch and its owner is this node, gone, or nobody.
    ///
    /// # Errors
    ///
    /// As [`Ledger::join`].
    fn take(&self, shard: ShardAt, seen: Epoch) -> Result<Option<Taken>, LedgerError>;

    /// Gives a shard up, if `epoch` is still its epoch.
    ///
    /// # Errors
    ///
    /// As [`Ledger::join`].
    fn release(&self, shard: ShardAt, epoch: Epoch) -> Result<bool, LedgerError>;

    /// Adds rows to journals, at most one per shard, in one statement; answers what became of each, in the order of the entries.
    ///
    /// The calling thread waits for the database, and may be the one that moves the bytes: never a thread that runs other tasks.
    ///
    /// # Errors
    ///
    /// As [`Ledger::join`].
    fn append(&self, entries: &[Entry]) -> Result<Vec<Verdict>, LedgerError>;

    /// Brings the state of keys up to a place into the base.
    ///
    /// # Errors
    ///
    /// As [`Ledger::join`].
    fn fold(&self, shard: ShardAt, epoch: Epoch, states: KeyStates) -> Result<bool, LedgerError>;

    /// Removes rows below `upto` that are folded; the newest row always stays. Answers how many went. Appends do not wait for it.
    ///
    /// # Errors
    ///
    /// As [`Ledger::join`].
    fn cut(&self, shard: ShardAt, epoch: Epoch, upto: Place) -> Result<u64, LedgerError>;

    /// Closes shards and opens others in their place, in one moment.
    ///
    /// # Errors
    ///
    /// As [`Ledger::join`].
    fn reshape(&self, reshape: Reshape) -> Result<bool, LedgerError>;

    /// Rows behind the given places, in the order of shards and places, until `bytes_max` is reached.
    ///
    /// # Errors
    ///
    /// As [`Ledger::join`].
    fn journal(
        &self,
        after: &[(ShardAt, Place)],
        bytes_max: usize,
    ) -> Result<Vec<JournalRow>, LedgerError>;

    /// Up to `rows` entries of the base, in the order of keys: fewer where they are large, none only behind the last.
    ///
    /// # Errors
    ///
    /// As [`Ledger::join`].
    fn base(
        &self,
        home: Home,
        space: Keyspace,
        range: &KeyRange,
        rows: usize,
    ) -> Result<Vec<(Vec<u8>, Bytes)>, LedgerError>;

    /// The first of `many` numbers that nobody else gets under this name.
    ///
    /// # Errors
    ///
    /// As [`Ledger::join`].
    fn reserve(&self, name: &str, many: u64) -> Result<u64, LedgerError>;
}
