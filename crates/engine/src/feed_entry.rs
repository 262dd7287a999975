//! The value of a change-feed entry: which item changed, and how.

use crate::keys::ItemKey;
use armilla_model::partition_key::Epk;
use armilla_storage::StoreError;

/// What happened to an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FeedOperation {
    /// It was made.
    Create,
    /// It was changed.
    Replace,
    /// It was removed.
    Delete,
    /// Its time to live ran out.
    Expire,
}

/// Who wrote something: a client, or the server for a view or a subscription.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Number of the view or subscription; 0 for a client.
    pub(crate) number: u32,
    /// How many subscriptions caused one another until this was written.
    pub(crate) depth: u8,
}

/// The number has the lower bits of the stored word, the depth those above.
const NUMBER_BITS: u32 = 28;

impl Origin {
    /// The stored word.
    pub(crate) fn encode(self) -> u32 {
        debug_assert!(self.number >> NUMBER_BITS == 0 && self.depth < 16, "{self:?} fits a word");
        (u32::from(self.depth) << NUMBER_BITS) | (self.number & ((1 << NUMBER_BITS) - 1))
    }

    /// Reads the stored word.
    pub(crate) fn decode(word: u32) -> Self {
        Self { number: word & ((1 << NUMBER_BITS) - 1), depth: (word >> NUMBER_BITS) as u8 }
    }
}

/// An entry of `feed` or `gone`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FeedEntry {
    /// The item.
    pub(crate) item: ItemKey,
    /// What happened.
    pub(crate) operation: FeedOperation,
    /// Second of the commit; never goes back inside a partition.
    pub(crate) second: u32,
    /// Who wrote.
    pub(crate) origin: Origin,
    /// Ordinal of the item (in `gone`: of the removed version).
    pub(crate) docno: u64,
}

const FIXED_LENGTH: usize = 8 + 1 + 1 + 4 + 4 + 8;

impl FeedEntry {
    /// The stored form.
    pub(crate) fn encode(&self) -> Vec<u8> {
        self.encode_in(Vec::with_capacity(Self::length(&self.item.epk)))
    }

    /// Bytes of the stored form of an entry about an item with this effective key.
    pub(crate) fn length(epk: &Epk) -> usize {
        FIXED_LENGTH + epk.as_bytes().len()
    }

    /// The stored form in memory that an earlier one had.
    pub(crate) fn encode_in(&self, mut out: Vec<u8>) -> Vec<u8> {
        out.clear();
        out.extend_from_slice(&self.item.hash.to_be_bytes());
        out.push(self.item.probe);
        out.push(self.operation as u8);
        out.extend_from_slice(&self.second.to_be_bytes());
        out.extend_from_slice(&self.origin.encode().to_be_bytes());
        out.extend_from_slice(&self.docno.to_be_bytes());
        out.extend_from_slice(self.item.epk.as_bytes());
        debug_assert!(
            Self::decode(&out).is_ok_and(|read| read == *self),
            "a feed entry reads back as it was written"
        );
        out
    }

    /// Reads the stored form.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        let corrupt = || StoreError::corruption("feed", "a feed entry is malformed");
        if bytes.len() < FIXED_LENGTH {
            return Err(corrupt());
        }
        let operation = match bytes[9] {
            0 => FeedOperation::Create,
            1 => FeedOperation::Replace,
            2 => FeedOperation::Delete,
            3 => FeedOperation::Expire,
            _ => return Err(corrupt()),
        };
        let word = |at: usize| {
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let long = |at: usize| (u64::from(word(at)) << 32) | u64::from(word(at + 4));
        Ok(Self {
            item: ItemKey {
                epk: Epk::from_bytes(&bytes[FIXED_LENGTH..]),
                hash: long(0),
                probe: bytes[8],
            },
            operation,
            second: word(10),
            origin: Origin::decode(word(14)),
            docno: long(18),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_reads_back() {
        let item = ItemKey { epk: Epk::from_bytes(b"0123456789abcdef"), hash: 1 << 40, probe: 3 };
        let entry = FeedEntry {
            item,
            operation: FeedOperation::Delete,
            second: 9,
            origin: Origin { number: 2, depth: 7 },
            docno: 1 << 33,
        };
        assert_eq!(FeedEntry::decode(&entry.encode()).unwrap(), entry);
        assert!(FeedEntry::decode(&[1, 2]).is_err());
    }
}
