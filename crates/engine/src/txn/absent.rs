//! Ids of a batch that nobody has: asked for together, since a logical partition's items are neighbours in the store.

use super::{MANY_ITEMS, Txn};
use crate::container::Slot;
use crate::keys::{self, ItemKey};
use armilla_model::error::Result;
use armilla_storage::Keyspace;

/// Hashes of ids that are absent, in order.
#[derive(Default)]
pub(super) struct Absent(Vec<u64>);

impl Txn {
    /// Finds out which of these ids are absent where there are many, so that they are not looked for one by one. Some that are absent may
    /// not be found out.
    pub(crate) fn find_absent<'i>(&mut self, ids: impl Iterator<Item = &'i str>) -> Result<()> {
        let mut hashes: Vec<u64> = ids.map(|id| self.container.hash_of(id)).collect();
        if hashes.len() < MANY_ITEMS {
            return Ok(());
        }
        hashes.sort_unstable();
        hashes.dedup();
        let (number, definition) = (self.container.number, &self.policy().partition_key);
        let key = |&hash| ItemKey { epk: self.epk.clone(), hash, probe: 0 };
        let (mut memory, mut ends, mut place) = (Vec::new(), Vec::new(), Vec::new());
        memory.reserve_exact(hashes.len() * keys::item_length(&self.epk));
        ends.reserve_exact(hashes.len());
        for hash in &hashes {
            place = keys::item_in(place, number, definition, &key(hash));
            memory.extend_from_slice(&place);
            ends.push(memory.len());
        }
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let places: Vec<&[u8]> =
            starts.zip(&ends).map(|(start, &end)| &memory[start..end]).collect();
        debug_assert!(places.is_sorted(), "keys of one logical partition order by their hashes");
        let mut absent = Vec::with_capacity(hashes.len());
        self.snapshot
            .absent_beside(Keyspace::Items, &places, &mut |at| absent.push(hashes[at]))
            .map_err(|error| self.container.failed_at(&self.epk, error))?;
        absent.sort_unstable();
        self.absent = Absent(absent);
        Ok(())
    }

    /// The place of an id that is known to be absent.
    pub(super) fn place_of_absent(&self, id: &str) -> Option<Slot> {
        if self.absent.0.is_empty() {
            return None;
        }
        let hash = self.container.hash_of(id);
        // The first place of its hash is free, so no other item with that hash is anywhere.
        self.absent.0.binary_search(&hash).ok()?;
        Some(Slot { key: ItemKey { epk: self.epk.clone(), hash, probe: 0 }, record: None })
    }
}
