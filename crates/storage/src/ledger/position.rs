//! How far a local copy has come along the journal of its account.

use bytes::Bytes;

use super::{Chain, Home, Place, Shard, ShardAt};
use crate::{Batch, Keyspace, Snapshot, StoreError};

/// The one journal of an account that has one owner for everything.
pub const ACCOUNT: ShardAt = ShardAt { home: Home(0), shard: Shard(0) };

/// The journal of one slice of an account that is cut into several: each has a home of its own, with its base. The first is [`ACCOUNT`].
#[must_use]
pub const fn slice_journal(slice: u32) -> ShardAt {
    ShardAt { home: Home(slice), shard: Shard(0) }
}

/// The key in `meta` under which a copy notes its position. It is never shipped. Keys of the engine begin with a letter.
const POSITION_KEY: &[u8] = b"!";
/// Place and chain.
const POSITION_LENGTH: usize = 16;

/// A row of the journal, and with it the state of a copy that has applied all rows up to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The row's place.
    pub place: Place,
    /// Its chain.
    pub chain: Chain,
}

impl Position {
    /// The position of an empty journal.
    pub const START: Self = Self { place: Place(0), chain: Chain::START };

    /// The position behind one more row.
    pub(super) fn with(self, batch: &[u8]) -> Self {
        Self { place: self.place.next(), chain: self.chain.with(batch) }
    }

    /// The position that a copy has noted; nothing where it is not complete.
    ///
    /// # Errors
    ///
    /// When the copy cannot be read.
    pub fn read(snapshot: &dyn Snapshot) -> Result<Option<Self>, StoreError> {
        let Some(value) = snapshot.get(Keyspace::Meta, POSITION_KEY)? else { return Ok(None) };
        let bytes: [u8; POSITION_LENGTH] = value[..].try_into().map_err(|_| {
            StoreError::corruption("meta", "the noted position in the ledger is malformed")
        })?;
        let (place, chain) = bytes.split_at(8);
        let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        Ok(Some(Self { place: Place(number(place)), chain: Chain(number(chain)) }))
    }

    /// Whether an entry is the note of a position: it belongs to one copy, and goes into no backup.
    pub(crate) fn is_noted_at(keyspace: Keyspace, key: &[u8]) -> bool {
        keyspace == Keyspace::Meta && key == POSITION_KEY
    }

    /// Notes the position in the batch that brings a copy there.
    pub(super) fn note(self, batch: &mut Batch) {
        let bytes = [self.place.0.to_be_bytes(), self.chain.0.to_be_bytes()].concat();
        batch.put(Keyspace::Meta, POSITION_KEY.to_vec(), Bytes::from(bytes));
    }

    /// Says that a copy is not complete.
    pub(super) fn forget(batch: &mut Batch) {
        batch.delete(Keyspace::Meta, POSITION_KEY.to_vec());
    }
}
