//! Items that queries come back to: those that stand first in some order.
//!
//! They lie anywhere in the store, a search for each. What is kept is a version of an item, named by
//! the item's ordinal and the version's LSN, so nothing here can be out of date; versions that were
//! replaced are simply not asked for any more.

use crate::limits::{ITEM_CACHE_BYTES_MAX, ITEM_CACHE_ITEM_MAX, ITEM_CACHE_ITEMS_ESTIMATED};
use crate::record::Record;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

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
}

impl Default for ItemCache {
    fn default() -> Self {
        Self {
            items: Cache::with_weighter(ITEM_CACHE_ITEMS_ESTIMATED, ITEM_CACHE_BYTES_MAX, BySize),
        }
    }
}

impl ItemCache {
    /// An item, kept from the last time or read now.
    pub(crate) fn find_or_read<E>(
        &self,
        version: ItemVersion,
        read: impl FnOnce() -> Result<Record, E>,
    ) -> Result<Record, E> {
        if let Some(record) = self.items.get(&version) {
            return Ok(record);
        }
        let record = read()?;
        let same = (record.docno(), record.lsn().0) == (version.docno, version.lsn);
        if same && record.size() <= ITEM_CACHE_ITEM_MAX {
            // What the store gives shares the memory of much more.
            self.items.insert(version, record.detached());
        }
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{RecordHead, begin, set_position};
    use armilla_model::etag::ETag;
    use armilla_model::lsn::Lsn;

    fn record(docno: u64, lsn: u64, text: &[u8]) -> Record {
        let head =
            RecordHead { docno, ts: 1, ttl: 0, etag: ETag([7; 16]), id_at: 0, indexed: true };
        let mut bytes = Vec::new();
        begin(&head, &mut bytes);
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
            assert_eq!(hot.find_or_read(version, &mut read).unwrap().text(), text.as_bytes());
        }
        assert_eq!(reads, 2);
    }

    #[test]
    fn what_is_not_that_version_or_too_large_is_not_kept() {
        let hot = ItemCache::default();
        let large = vec![b'x'; ITEM_CACHE_ITEM_MAX + 1];
        for (lsn, text) in [(9, &b"other"[..]), (5, &large)] {
            let version = ItemVersion { container: 1, docno: 3, lsn: 5 };
            for _ in 0..2 {
                let mut read = false;
                let found = hot.find_or_read(version, || {
                    read = true;
                    Ok::<_, ()>(record(3, lsn, text))
                });
                assert_eq!(found.unwrap().text(), text);
                assert!(read);
            }
        }
    }
}
