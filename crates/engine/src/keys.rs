//! The keys of every keyspace, built and taken apart in one place.
//!
//! `docs/format.md` lists them byte by byte. All numbers are big-endian, so bytes sort as values
//! sort; an effective partition key stands as it is where its length is fixed by the container's
//! definition, and escaped with an end mark where it is not (Hash V1).

use armilla_model::lsn::Lsn;
use armilla_model::partition_key::{Definition, Epk, Hashing};
use armilla_storage::KeyRange;
use armilla_storage::keycode::{KeyError, KeyReader, KeyWriter};
use std::ops::Bound;

/// Bytes of one level of a hashed partition key.
const LEVEL_LENGTH: usize = 16;

/// Bytes of an item's key beside its effective key: container, hash and probe.
const ITEM_KEY_FIXED: usize = 4 + 8 + 1;

/// Bytes of a key of a log: container, partition, LSN and sequence.
pub(crate) const LOG_KEY_LENGTH: usize = 4 + 4 + 8 + 4;

/// The place of an item inside its container.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ItemKey {
    /// Effective partition key.
    pub epk: Epk,
    /// Keyed hash of the id.
    pub hash: u64,
    /// Number of items before it with the same hash.
    pub probe: u8,
}

/// A position in a partition's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogPosition {
    /// Physical partition.
    pub partition: u32,
    /// Transaction.
    pub lsn: Lsn,
    /// Entry inside the transaction.
    pub sequence: u32,
}

fn write_epk(key: KeyWriter, definition: &Definition, epk: &Epk) -> KeyWriter {
    match definition.hashing {
        Hashing::V1 => key.bytes(epk.as_bytes()),
        Hashing::V2 | Hashing::MultiHash => key.raw(epk.as_bytes()),
    }
}

fn read_epk(key: &mut KeyReader<'_>, definition: &Definition) -> Result<Epk, KeyError> {
    match definition.hashing {
        Hashing::V1 => key.bytes().map(|bytes| Epk::from_bytes(&bytes)),
        Hashing::V2 => key.raw(LEVEL_LENGTH).map(Epk::from_bytes),
        Hashing::MultiHash => key.raw(LEVEL_LENGTH * definition.levels()).map(Epk::from_bytes),
    }
}

/// Key of an item in `items`.
pub(crate) fn item(container: u32, definition: &Definition, item: &ItemKey) -> Vec<u8> {
    // As long as it becomes: bytes that are shared fit without room to spare, else they need a counter of their own.
    let key = KeyWriter::with_capacity(ITEM_KEY_FIXED + item.epk.as_bytes().len());
    finish_item(key, container, definition, item)
}

/// The same in memory that an earlier key had.
pub(crate) fn item_in(
    memory: Vec<u8>,
    container: u32,
    definition: &Definition,
    item: &ItemKey,
) -> Vec<u8> {
    finish_item(KeyWriter::reusing(memory), container, definition, item)
}

/// Bytes of the key of an item with this effective key; more where that is escaped.
pub(crate) fn item_length(epk: &Epk) -> usize {
    ITEM_KEY_FIXED + epk.as_bytes().len()
}

fn finish_item(key: KeyWriter, container: u32, definition: &Definition, item: &ItemKey) -> Vec<u8> {
    let key = write_epk(key.u32(container), definition, &item.epk);
    let key = key.u64(item.hash).u8(item.probe).finish();
    debug_assert!(read_item(&key, definition).is_ok_and(|read| read == *item));
    key
}

/// Takes a key of `items` apart, without its container.
pub(crate) fn read_item(key: &[u8], definition: &Definition) -> Result<ItemKey, KeyError> {
    let mut key = KeyReader::new(key);
    key.u32()?;
    let epk = read_epk(&mut key, definition)?;
    Ok(ItemKey { epk, hash: key.u64()?, probe: key.u8()? })
}

/// All items of a container.
pub(crate) fn items_of(container: u32) -> KeyRange {
    KeyRange::prefix(&container.to_be_bytes())
}

/// Items whose effective key lies between two bounds; no upper bound means to the end.
pub(crate) fn items_between(
    container: u32,
    definition: &Definition,
    min: Bound<&Epk>,
    max: Option<&Epk>,
) -> KeyRange {
    let prefix = |epk: &Epk| {
        let key = KeyWriter::with_capacity(48).u32(container);
        match definition.hashing {
            // A bound need not be a whole key, so it is written without its end mark.
            Hashing::V1 => key.bytes_prefix(epk.as_bytes()).finish(),
            Hashing::V2 | Hashing::MultiHash => key.raw(epk.as_bytes()).finish(),
        }
    };
    let whole = items_of(container);
    let start = match min {
        Bound::Unbounded => whole.start.clone(),
        Bound::Included(epk) => Bound::Included(prefix(epk)),
        Bound::Excluded(epk) => {
            KeyRange::prefix(&write_epk(KeyWriter::new().u32(container), definition, epk).finish())
                .end
                .map_or_excluded()
        }
    };
    let end = match max {
        None => whole.end,
        Some(epk) => Bound::Excluded(prefix(epk)),
    };
    KeyRange { start, end }
}

trait MapOrExcluded {
    fn map_or_excluded(self) -> Bound<Vec<u8>>;
}

impl MapOrExcluded for Bound<Vec<u8>> {
    /// The end of one range as the start of the next.
    fn map_or_excluded(self) -> Bound<Vec<u8>> {
        match self {
            Self::Excluded(key) => Self::Included(key),
            other => other,
        }
    }
}

/// Items of one logical partition.
pub(crate) fn items_of_partition(container: u32, definition: &Definition, epk: &Epk) -> KeyRange {
    KeyRange::prefix(&write_epk(KeyWriter::new().u32(container), definition, epk).finish())
}

/// Key of an entry in `feed`, `gone` and `versions`.
pub(crate) fn log(container: u32, position: LogPosition) -> Vec<u8> {
    finish_log(KeyWriter::with_capacity(LOG_KEY_LENGTH), container, position)
}

/// The same in memory that an earlier key had.
pub(crate) fn log_in(memory: Vec<u8>, container: u32, position: LogPosition) -> Vec<u8> {
    finish_log(KeyWriter::reusing(memory), container, position)
}

fn finish_log(key: KeyWriter, container: u32, position: LogPosition) -> Vec<u8> {
    let key = key
        .u32(container)
        .u32(position.partition)
        .u64(position.lsn.0)
        .u32(position.sequence)
        .finish();
    debug_assert!(read_log(&key).is_ok_and(|read| read == position));
    key
}

/// Takes a key of a log apart, without its container.
pub(crate) fn read_log(key: &[u8]) -> Result<LogPosition, KeyError> {
    let mut key = KeyReader::new(key);
    key.u32()?;
    Ok(LogPosition { partition: key.u32()?, lsn: Lsn(key.u64()?), sequence: key.u32()? })
}

/// The whole log of a partition.
pub(crate) fn log_of(container: u32, partition: u32) -> KeyRange {
    KeyRange::prefix(&KeyWriter::new().u32(container).u32(partition).finish())
}

/// The log of a partition after a position.
pub(crate) fn log_after(container: u32, partition: u32, lsn: Lsn) -> KeyRange {
    let whole = log_of(container, partition);
    let start =
        KeyWriter::new().u32(container).u32(partition).u64(lsn.0.saturating_add(1)).finish();
    KeyRange { start: Bound::Included(start), end: whole.end }
}

/// Key of an entry in `unique`.
pub(crate) fn unique(
    container: u32,
    definition: &Definition,
    epk: &Epk,
    constraint: u8,
    hash: [u8; 16],
) -> Vec<u8> {
    let key = KeyWriter::with_capacity(48).u32(container);
    write_epk(key, definition, epk).u8(constraint).raw(&hash).finish()
}

/// The effective key of an entry in `unique`.
pub(crate) fn read_unique(key: &[u8], definition: &Definition) -> Result<Epk, KeyError> {
    let mut key = KeyReader::new(key);
    key.u32()?;
    read_epk(&mut key, definition)
}

/// Key of an entry in `expiry`.
pub(crate) fn expiry(
    second: u32,
    container: u32,
    definition: &Definition,
    item: &ItemKey,
) -> Vec<u8> {
    let key = KeyWriter::with_capacity(48).u32(second).u32(container);
    let key = write_epk(key, definition, &item.epk).u64(item.hash).u8(item.probe).finish();
    debug_assert!(
        read_expiry(&key).is_ok_and(|(read, of, tail)| {
            (read, of) == (second, container)
                && read_item_tail(tail, definition).is_ok_and(|read| read == *item)
        }),
        "an expiry key reads back as it was written"
    );
    key
}

/// Second and container of an entry in `expiry`, and the rest: the item's key without container.
pub(crate) fn read_expiry(key: &[u8]) -> Result<(u32, u32, &[u8]), KeyError> {
    let mut fields = KeyReader::new(key);
    let (second, container) = (fields.u32()?, fields.u32()?);
    Ok((second, container, &key[8..]))
}

/// Takes the tail of an `expiry` key apart.
pub(crate) fn read_item_tail(tail: &[u8], definition: &Definition) -> Result<ItemKey, KeyError> {
    let mut key = KeyReader::new(tail);
    let epk = read_epk(&mut key, definition)?;
    Ok(ItemKey { epk, hash: key.u64()?, probe: key.u8()? })
}

/// What an entry of `meta` is about; the first byte of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Meta {
    /// Counters of the account.
    Account = b'A',
    /// A database.
    Database = b'D',
    /// A container.
    Container = b'C',
    /// A script: container, number.
    Script = b'S',
    /// A user: database, number.
    User = b'U',
    /// A permission: database, user, number.
    Permission = b'P',
    /// A client encryption key: database, number.
    EncryptionKey = b'K',
    /// An offer.
    Offer = b'O',
    /// First docno that was not reserved: container, partition.
    DocumentNumber = b'N',
    /// Head of a partition's log: container, partition.
    Head = b'H',
    /// How far a partition's log of versions was trimmed: container, partition.
    VersionsFloor = b'V',
    /// A dropped container whose data is still to be removed.
    Garbage = b'G',
    /// Dials of a container.
    Dials = b'L',
    /// An indexed path: container, path; its value is the path's number.
    IndexPath = b'I',
    /// Which index of a container serves: container.
    Index = b'X',
    /// Up to which transaction removals are forgotten: container, partition.
    Trimmed = b'T',
    /// How far a view has come: container.
    View = b'W',
    /// Where a view has the copy of a source item: container, ordinal in two numbers.
    ViewPlacement = b'Y',
    /// The order of a key in a capped view: container, key, rank.
    ViewOrder = b'Z',
    /// A subscription: container, number.
    Subscription = b'B',
    /// How far a subscription has come: container, number.
    SubscriptionState = b'Q',
    /// An entry whose effect a procedure has committed: container, subscription, log, LSN in two numbers,
    /// sequence.
    SubscriptionDone = b'J',
    /// The same for a dead letter that was delivered again.
    SubscriptionRedriven = b'R',
    /// Which state of the catalog the slices of an account have.
    Edition = b'E',
    /// A container whose place another one has taken under another key: container; its value is the other's number.
    Rekeyed = b'M',
}

/// Key of an entry in `meta`.
pub(crate) fn meta(kind: Meta, numbers: &[u32]) -> Vec<u8> {
    let key = KeyWriter::new().u8(kind as u8);
    numbers.iter().fold(key, |key, &number| key.u32(number)).finish()
}

/// Key of an indexed path.
pub(crate) fn index_path(container: u32, path: &[u8]) -> Vec<u8> {
    KeyWriter::new().u8(Meta::IndexPath as u8).u32(container).raw(path).finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_model::partition_key::PartitionKey;
    use armilla_model::path::Path;

    fn definition(hashing: Hashing, paths: &[&str]) -> Definition {
        let paths = paths.iter().map(|path| Path::parse(path).unwrap()).collect();
        Definition { paths, hashing }
    }

    #[test]
    fn item_keys_come_back_whatever_the_hashing() {
        for (definition, key) in [
            (definition(Hashing::V1, &["/a"]), r#"["p"]"#),
            (definition(Hashing::V2, &["/a"]), r#"["p"]"#),
            (definition(Hashing::MultiHash, &["/a", "/b"]), r#"["p",1]"#),
        ] {
            let epk = definition.epk(&PartitionKey::parse(key).unwrap());
            let place = ItemKey { epk, hash: 7, probe: 1 };
            assert_eq!(read_item(&item(9, &definition, &place), &definition).unwrap(), place);
            let expiry = expiry(5, 9, &definition, &place);
            let (second, container, tail) = read_expiry(&expiry).unwrap();
            assert_eq!((second, container), (5, 9));
            assert_eq!(read_item_tail(tail, &definition).unwrap(), place);
            let unique = unique(9, &definition, &place.epk, 1, [7; 16]);
            assert_eq!(read_unique(&unique, &definition).unwrap(), place.epk);
        }
    }
}
