//! Items that queries come back to: those that stand first in some order, and those that were searched for twice.
//!
//! They lie anywhere in the store, a search for each. What is kept is a version of an item, named by
//! the item's ordinal and the version's LSN, so nothing here can be out of date; versions that were
//! replaced are simply not asked for any more.
//!
//! Copying an item and making room for it costs a good part of a search. Where it is not known that an item will be
//! wanted again, the first search leaves a fingerprint in a small table, and only one that finds its own
//! fingerprint keeps the item: queries that go through everything once cost and push out nothing.

use crate::limits::{
    ITEM_CACHE_BYTES_MAX, ITEM_CACHE_ITEM_MAX, ITEM_CACHE_ITEMS_ESTIMATED, ITEM_CACHE_SIGHTINGS_MAX,
};
use crate::record::Record;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use std::sync::atomic::{AtomicU32, Ordering};

/// What an entry weighs besides the item, roughly.
const ENTRY_WEIGHT: u64 = 96;

/// A version of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ItemVersion {
    /// The container's number.
    pub(crate) container: u32,
    pub(crate) docno: u64,
    pub(crate) lsn: u64,
}

/// When an item that was read is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeping {
    /// At once: it will be wanted again.
    AtOnce,
    /// When it is read for the second time within a while.
    OnReturn,
}

/// Fingerprints of what was read lately. They may be lost or, rarely, mistaken for another one's; both
/// only decide whether an item is kept.
struct Sightings(Box<[AtomicU32]>);

impl Default for Sightings {
    fn default() -> Self {
        Self((0..ITEM_CACHE_SIGHTINGS_MAX).map(|_| AtomicU32::new(0)).collect())
    }
}

impl Sightings {
    /// Notes a version; true when it was noted before.
    fn is_return(&self, version: ItemVersion) -> bool {
        let ItemVersion { container, docno, lsn } = version;
        let mixed = (docno ^ lsn.rotate_left(24) ^ (u64::from(container) << 40))
            .wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let (slot, fingerprint) = ((mixed >> 32) as usize, mixed as u32 | 1);
        let seen = self.0[slot % self.0.len()].swap(fingerprint, Ordering::Relaxed);
        seen == fingerprint
    }
}

#[derive(Clone)]
struct BySize;

impl Weighter<ItemVersion, Record> for BySize {
    fn weight(&self, _: &ItemVersion, record: &Record) -> u64 {
        record.size() as u64 + ENTRY_WEIGHT
    }
}

/// The items of one account that queries come back to.
pub(crate) struct ItemCache {
    items: Cache<ItemVersion, Record, BySize>,
    sightings: Sightings,
}

impl Default for ItemCache {
    fn default() -> Self {
        Self {
            items: Cache::with_weighter(ITEM_CACHE_ITEMS_ESTIMATED, ITEM_CACHE_BYTES_MAX, BySize),
            sightings: Sightings::default(),
        }
    }
}

impl ItemCache {
    /// An item, kept from the last time or read now.
    pub(crate) fn find_or_read<E>(
        &self,
        version: ItemVersion,
        keeping: Keeping,
        read: impl FnOnce() -> Result<Record, E>,
    ) -> Result<Record, E> {
        if let Some(record) = self.find(version) {
            return Ok(record);
        }
        let record = read()?;
        self.note(version, keeping, &record);
        Ok(record)
    }

    /// An item, if it was kept.
    pub(crate) fn find(&self, version: ItemVersion) -> Option<Record> {
        self.items.get(&version)
    }

    /// Notes that an item was not here and had to be read; it may be kept now.
    pub(crate) fn note(&self, version: ItemVersion, keeping: Keeping, record: &Record) {
        let same = (record.docno(), record.lsn().0) == (version.docno, version.lsn);
        let wanted = || keeping == Keeping::AtOnce || self.sightings.is_return(version);
        if same && record.size() <= ITEM_CACHE_ITEM_MAX && wanted() {
            // What the store gives shares the memory of much more.
            self.items.insert(version, record.detached());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{RecordHead, header, set_position};
    use armilla_model::etag::ETag;
    use armilla_model::lsn::Lsn;

    fn record(docno: u64, lsn: u64, text: &[u8]) -> Record {
        let head =
            RecordHead { docno, ts: 1, ttl: 0, etag: ETag([7; 16]), id_at: 0, indexed: true };
        let mut bytes = header(&head).to_vec();
        bytes.extend_from_slice(text);
        set_position(&mut bytes, Lsn(lsn), 0, 0);
        Record::new(bytes.into()).unwrap()
    }

    #[test]
    fn a_version_is_read_once_and_another_one_is_another() {
        let hot = ItemCache::default();
        let mut reads = 0;
        for (lsn, text) in [(5, "old"), (6, "new"), (5, "old"), (6, "new")] {
            let version = ItemVersion { container: 1, docno: 3, lsn };
            let mut read = || {
                reads += 1;
                Ok::<_, ()>(record(3, lsn, text.as_bytes()))
            };
            let found = hot.find_or_read(version, Keeping::AtOnce, &mut read).unwrap();
            assert_eq!(found.text(), text.as_bytes());
        }
        assert_eq!(reads, 2);
    }

    #[test]
    fn what_may_not_be_wanted_again_is_kept_when_it_is_read_twice() {
        let hot = ItemCache::default();
        let reads_of = |docno: u64| {
            let version = ItemVersion { container: 1, docno, lsn: 5 };
            let mut reads = 0;
            for _ in 0..4 {
                let read = || {
                    reads += 1;
                    Ok::<_, ()>(record(docno, 5, b"text"))
                };
                hot.find_or_read(version, Keeping::OnReturn, read).unwrap();
            }
            reads
        };
        assert_eq!((0..1000).map(reads_of).sum::<i32>(), 2000);
        let once = |docno: u64| {
            let version = ItemVersion { container: 1, docno, lsn: 5 };
            let read = || Ok::<_, ()>(record(docno, 5, b"text"));
            hot.find_or_read(version, Keeping::OnReturn, read).unwrap();
        };
        let kept = hot.items.len();
        (2000..3000).for_each(once);
        assert_eq!(hot.items.len(), kept, "what is read once pushes nothing out");
    }

    #[test]
    fn what_is_not_that_version_or_too_large_is_not_kept() {
        let hot = ItemCache::default();
        let large = vec![b'x'; ITEM_CACHE_ITEM_MAX + 1];
        for (lsn, text) in [(9, &b"other"[..]), (5, &large)] {
            let version = ItemVersion { container: 1, docno: 3, lsn: 5 };
            for _ in 0..2 {
                let mut read = false;
                let found = hot.find_or_read(version, Keeping::AtOnce, || {
                    read = true;
                    Ok::<_, ()>(record(3, lsn, text))
                });
                assert_eq!(found.unwrap().text(), text);
                assert!(read);
            }
        }
    }
}
