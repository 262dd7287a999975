//! The nouns of the ledger: shards, epochs, places, and the rows that hold them.

use std::fmt;

use bytes::Bytes;

use super::Chain;
use crate::Keyspace;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(formatter)
            }
        }
    };
}

number! {
    /// Where the rows of a shard lie: what a distributed ledger places and moves as one.
    Home(u32)
}
number! {
    /// What has one owner: a physical partition, or the catalog (0).
    Shard(u64)
}
number! {
    /// Which ownership of a shard this is. Epochs only grow.
    Epoch(u64)
}
number! {
    /// Position of a row in the journal of a shard, without gaps.
    Place(u64)
}
number! {
    /// Which life of a node this is; no two lives of any nodes share one.
    Incarnation(u64)
}

impl Place {
    /// The position of the next row.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// A shard and where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShardAt {
    /// Where its rows lie.
    pub home: Home,
    /// Which one it is.
    pub shard: Shard,
}

/// What a node says of itself when it joins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeCard {
    /// Its name, unique in the account.
    pub name: String,
    /// Where other nodes reach it.
    pub address: String,
    /// The version of its program.
    pub version: String,
}

/// Whether a node takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// It serves.
    Up,
    /// It hands its shards over.
    Draining,
    /// This incarnation never comes back.
    Gone,
}

/// A node as the ledger knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRow {
    /// What it said of itself.
    pub card: NodeCard,
    /// Its present life.
    pub incarnation: Incarnation,
    /// How often it said that it lives.
    pub beats: u64,
    /// Whether it takes part.
    pub state: NodeState,
    /// How far it knows the catalog.
    pub catalog: Place,
}

/// Whether a shard takes rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardState {
    /// It does.
    Open,
    /// Others took its place.
    Reshaped,
    /// Its container is gone.
    Dropped,
}

/// A shard as the ledger knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardRow {
    /// Which one.
    pub at: ShardAt,
    /// Its present ownership.
    pub epoch: Epoch,
    /// Who owns it, with the life in which it took it.
    pub owner: Option<(String, Incarnation)>,
    /// Whether it takes rows.
    pub state: ShardState,
    /// Everything up to here is in the base.
    pub folded: Place,
    /// The LSN at that place.
    pub lsn: u64,
    /// The life of a node that shall own it next, if one was named. It means nothing once that life is over.
    pub heir: Option<(String, Incarnation)>,
}

/// What a take found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The epoch that began.
    pub epoch: Epoch,
    /// Everything up to here is in the base.
    pub folded: Place,
    /// The newest row of the journal.
    pub place: Place,
    /// Its LSN.
    pub lsn: u64,
    /// Its chain.
    pub chain: Chain,
}

/// A row to be added to the journal of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Whose journal.
    pub at: ShardAt,
    /// Under which ownership.
    pub epoch: Epoch,
    /// Which position it must get.
    pub place: Place,
    /// The LSN of the last transaction in the batch.
    pub lsn: u64,
    /// The chain up to and with this row.
    pub chain: Chain,
    /// The batch, as [`encode_batch`](super::encode_batch) writes it.
    pub batch: Bytes,
}

/// What became of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is in the journal.
    Accepted,
    /// It is not and will not be: another epoch, or not the next place.
    Refused,
}

/// A row of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalRow {
    /// Whose journal.
    pub at: ShardAt,
    /// Its position.
    pub place: Place,
    /// The LSN of the last transaction in the batch.
    pub lsn: u64,
    /// The chain up to and with this row.
    pub chain: Chain,
    /// The batch.
    pub batch: Bytes,
}

/// The last state of every key that changed up to a place: what a fold writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyStates {
    /// The place up to which these are the states.
    pub upto: Place,
    /// The LSN at that place.
    pub lsn: u64,
    /// Keys with their values, or nothing where the key is gone; each key once.
    pub keys: Vec<(Keyspace, Vec<u8>, Option<Bytes>)>,
}

/// Shards that end, and those that begin in their place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reshape {
    /// Where all of them lie.
    pub home: Home,
    /// The shards that end: each with its epoch and its newest place, which must be folded.
    pub old: Vec<(Shard, Epoch, Place)>,
    /// The shards that begin, owned by this node in epoch 1.
    pub new: Vec<ReshapedShard>,
}

/// A shard that begins in the place of others, with its first row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReshapedShard {
    /// Which one.
    pub shard: Shard,
    /// The LSN it begins with.
    pub lsn: u64,
    /// Its first row, at place 1.
    pub batch: Bytes,
}
