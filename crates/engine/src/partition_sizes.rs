//! The size of logical partitions, which has a limit.
//!
//! A logical partition cannot be larger than the physical one that holds it, so most writes need no
//! look at all. Beyond that the size is counted from the stored items once, and then kept up with
//! every write: its writers come one at a time, since they hold its lock.

use crate::container::Container;
use crate::keys;
use crate::limits::LOGICAL_SIZES_KNOWN_MAX;
use crate::partition::Partition;
use crate::record::Record;
use armilla_model::error::{Error, Result};
use armilla_model::partition_key::Epk;
use armilla_storage::{Direction, Keyspace, Snapshot};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Sizes that were counted, by effective key.
#[derive(Default)]
pub(crate) struct LogicalSizes {
    known: Mutex<HashMap<Epk, u64>>,
    count: AtomicUsize,
}

impl LogicalSizes {
    fn get(&self, epk: &Epk) -> Option<u64> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.known.lock().get(epk).copied()
    }

    fn set(&self, epk: &Epk, size: u64) {
        let mut known = self.known.lock();
        if known.len() >= LOGICAL_SIZES_KNOWN_MAX && !known.contains_key(epk) {
            known.clear();
        }
        known.insert(epk.clone(), size);
        self.count.store(known.len(), Ordering::Relaxed);
    }
}

impl Container {
    /// Refuses growth beyond the limit of a logical partition, and keeps count. Called with the
    /// partition's lock held, for a transaction that will commit; the snapshot has everything that
    /// was written to it before.
    pub(crate) fn take_room(
        &self,
        partition: &Partition,
        epk: &Epk,
        snapshot: &dyn Snapshot,
        growth: i64,
    ) -> Result<()> {
        let limit = self.core.logical_partition_size();
        let known = self.sizes.get(epk);
        if known.is_none()
            && (growth <= 0 || partition.size().saturating_add_signed(growth) <= limit)
        {
            return Ok(());
        }
        let before = match known {
            Some(size) => size,
            None => self.count_logical(snapshot, epk)?,
        };
        let after = before.saturating_add_signed(growth);
        if growth > 0 && after > limit {
            self.sizes.set(epk, before);
            return Err(Error::PartitionFull(format!(
                "Partition key reached its maximum size: the logical partition would have {after} bytes, and its limit is {limit}."
            )));
        }
        self.sizes.set(epk, after);
        Ok(())
    }

    /// Bytes of the item texts of a logical partition: as they are kept, or counted from its items while no more of them have to
    /// be looked at than are left. Nothing where there are more.
    ///
    /// # Errors
    ///
    /// When the items cannot be read.
    pub fn logical_size(&self, epk: &Epk, items_left: &mut usize) -> Result<Option<u64>> {
        if let Some(size) = self.sizes.get(epk) {
            return Ok(Some(size));
        }
        let settings = self.settings();
        let range = keys::items_of_partition(self.number, &settings.policy.partition_key, epk);
        let mut size = Some(0);
        let mut look = |_: &[u8], value: Bytes| {
            let Some(left) = items_left.checked_sub(1) else {
                size = None;
                return ControlFlow::Break(());
            };
            *items_left = left;
            size = size.map(|size| size + size_of(value));
            ControlFlow::Continue(())
        };
        let snapshot = self.core.snapshot();
        snapshot
            .scan(Keyspace::Items, &range, Direction::Forward, &mut look)
            .map_err(|error| self.failed_at(epk, error))?;
        Ok(size)
    }

    /// Bytes of the item texts of a logical partition.
    fn count_logical(&self, snapshot: &dyn Snapshot, epk: &Epk) -> Result<u64> {
        let settings = self.settings();
        let range = keys::items_of_partition(self.number, &settings.policy.partition_key, epk);
        let mut size = 0;
        snapshot
            .scan(Keyspace::Items, &range, Direction::Forward, &mut |_, value| {
                size += size_of(value);
                ControlFlow::Continue(())
            })
            .map_err(|error| self.failed_at(epk, error))?;
        Ok(size)
    }
}

/// Bytes of an item's text; none of one that is gone.
fn size_of(stored: Bytes) -> u64 {
    let record = Record::new(stored).ok().filter(|record| !record.is_tombstone());
    record.map_or(0, |record| record.size() as u64)
}
