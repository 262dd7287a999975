//! The slices of an account as one: what a backup of them holds is what one machine would have.
//!
//! Items, logs, unique keys and expiries of two slices never have a key in common. Of `meta` the catalog is that of the first slice; ranges of a
//! container are put together, and what belongs to a range is taken from where the range is. Numbers of indexed paths and the choice of an
//! index are each slice's own and are left out: whoever opens the result builds its indexes from the items.
//!
//! Each slice has its part of a view, of a moment of its own: views come empty, and are built anew where they are restored.
//!
//! The snapshot of the first slice must not be older than the others, so that its catalog is the newest: a container that another slice does not
//! know yet has nothing there, and one that only another slice still has is dropped.

use crate::account::Account;
use crate::catalog::stored::{StoredContainer, StoredEntry};
use crate::keys::{self, Meta};
use crate::slice::Slice;
use crate::views::definition::MEMBER;
use armilla_model::policy::ContainerPolicy;
use armilla_storage::{Direction, KeyRange, Keyspace, Snapshot, StoreError};
use bytes::Bytes;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

/// Entries that are fetched from a slice at a time.
const FETCHED_ENTRIES: usize = 500;

/// Entries of `meta` that belong to a range, and lie in its slice.
const OF_RANGES: [Meta; 4] = [Meta::Head, Meta::DocumentNumber, Meta::VersionsFloor, Meta::Trimmed];

/// Entries of `meta` that belong to one slice and say nothing about the account.
const OF_SLICES: [Meta; 6] =
    [Meta::IndexPath, Meta::Index, Meta::Edition, Meta::View, Meta::ViewPlacement, Meta::ViewOrder];

/// Whether an entry of `meta` is of one of these kinds.
pub(super) fn is_of(kinds: &[Meta], key: &[u8]) -> bool {
    key.first().is_some_and(|first| kinds.iter().any(|kind| *kind as u8 == *first))
}

/// All entries of `meta`.
fn meta_of(snapshot: &dyn Snapshot) -> Result<Vec<(Vec<u8>, Bytes)>, StoreError> {
    snapshot.page(Keyspace::Meta, &KeyRange::all(), Direction::Forward, usize::MAX)
}

/// Snapshots of all slices as one.
pub struct JoinedSlices {
    slices: Vec<Arc<dyn Snapshot>>,
    meta: BTreeMap<Vec<u8>, Bytes>,
    views: HashSet<u32>,
}

impl JoinedSlices {
    /// Puts the snapshots of all slices together, in their order.
    ///
    /// # Errors
    ///
    /// When a snapshot cannot be read, or the first is older than another.
    pub fn new(slices: Vec<Arc<dyn Snapshot>>) -> Result<Self, StoreError> {
        let Some(first) = slices.first() else {
            return Ok(Self { slices, meta: BTreeMap::new(), views: HashSet::new() });
        };
        let edition = Account::edition_of(&**first)?;
        let mut meta = BTreeMap::new();
        let is_shared = |key: &[u8]| !is_of(&OF_SLICES, key) && !is_of(&[Meta::Garbage], key);
        meta.extend(meta_of(&**first)?.into_iter().filter(|(key, _)| is_shared(key)));
        for slice in &slices {
            if Account::edition_of(&**slice)? > edition {
                let reason = "a slice is newer than the first, which has the catalog";
                return Err(StoreError::corruption("meta", reason));
            }
            for (key, value) in meta_of(&**slice)? {
                if is_of(&OF_RANGES, &key) || is_of(&[Meta::Garbage], &key) {
                    // Slices that were cut out of one range share its log, and each forgets its part of it: the furthest counts.
                    let known = meta.entry(key).or_default();
                    *known = value.max(std::mem::take(known));
                } else if is_of(&[Meta::Container], &key) && !meta.contains_key(&key) {
                    // Dropped, and not yet gone from this slice.
                    let number = key.get(5..9).unwrap_or_default();
                    let garbage = [keys::meta(Meta::Garbage, &[]), number.to_vec()].concat();
                    meta.insert(garbage, Bytes::new());
                }
            }
        }
        let views = join_ranges(&slices, &mut meta)?;
        Ok(Self { slices, meta, views })
    }

    /// Whether an entry beside those of `meta` is of a view.
    fn is_of_view(&self, keyspace: Keyspace, key: &[u8]) -> bool {
        container_of(keyspace, key).is_some_and(|number| self.views.contains(&number))
    }
}

/// The container of an entry beside those of `meta`.
pub(super) fn container_of(keyspace: Keyspace, key: &[u8]) -> Option<u32> {
    let at = if keyspace == Keyspace::Expiry { 4 } else { 0 };
    key.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}

/// Gives every container the ranges of all slices; answers which are views.
fn join_ranges(
    slices: &[Arc<dyn Snapshot>],
    meta: &mut BTreeMap<Vec<u8>, Bytes>,
) -> Result<HashSet<u32>, StoreError> {
    let mut views = HashSet::new();
    let count = u32::try_from(slices.len()).unwrap_or(u32::MAX);
    for (key, value) in meta.iter_mut().filter(|(key, _)| is_of(&[Meta::Container], key)) {
        let mut joined = StoredContainer::read(&StoredEntry::read(value)?)?;
        let policy = ContainerPolicy::parse_stored(&joined.definition).map_err(|error| {
            let reason = format!("a container's definition is malformed: {error}");
            StoreError::corruption("meta", reason)
        })?;
        if joined.definition.get(MEMBER).is_some() {
            let number = key.get(5..9).and_then(|bytes| bytes.try_into().ok());
            views.extend(number.map(u32::from_be_bytes));
        }
        let share = u32::try_from(joined.ranges.len()).unwrap_or(u32::MAX);
        for (index, slice) in (1..count).zip(slices.iter().skip(1)) {
            let own = slice.get(Keyspace::Meta, key)?;
            joined.ranges.extend(match own {
                Some(own) => StoredContainer::read(&StoredEntry::read(&own)?)?.ranges,
                // As the slice would make it when it takes the catalog over.
                None => Slice::new(index, count).map_or_else(Vec::new, |slice| {
                    slice.ranges(&policy.partition_key, share.saturating_mul(count))
                }),
            });
        }
        *value = joined.write().into();
    }
    Ok(views)
}

impl Snapshot for JoinedSlices {
    fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        if keyspace == Keyspace::Meta {
            return Ok(self.meta.get(key).cloned());
        }
        if self.is_of_view(keyspace, key) {
            return Ok(None);
        }
        for slice in &self.slices {
            if let Some(found) = slice.get(keyspace, key)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn scan(
        &self,
        keyspace: Keyspace,
        range: &KeyRange,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], Bytes) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        if keyspace == Keyspace::Meta {
            let inside = self.meta.range::<[u8], (Bound<&[u8]>, Bound<&[u8]>)>(range.as_bounds());
            let mut show = |(key, value): (&Vec<u8>, &Bytes)| visit(key, value.clone());
            let _all_or_enough = match direction {
                Direction::Forward => { inside }.try_for_each(&mut show),
                Direction::Backward => inside.rev().try_for_each(&mut show),
            };
            return Ok(());
        }
        let mut sources: Vec<_> =
            self.slices.iter().map(|slice| Source::new(slice, range)).collect();
        loop {
            for source in &mut sources {
                source.fetch(keyspace, direction)?;
            }
            let waiting = sources.iter_mut().filter(|source| !source.fetched.is_empty());
            let key = |source: &&mut Source| source.fetched.front().map(|(key, _)| key.clone());
            let next = match direction {
                Direction::Forward => waiting.min_by_key(key),
                Direction::Backward => waiting.max_by_key(key),
            };
            let Some((key, value)) = next.and_then(|source| source.fetched.pop_front()) else {
                return Ok(());
            };
            if !self.is_of_view(keyspace, &key) && visit(&key, value).is_break() {
                return Ok(());
            }
        }
    }
}

/// The entries of one slice, some at a time.
struct Source<'s> {
    slice: &'s Arc<dyn Snapshot>,
    rest: Option<KeyRange>,
    fetched: VecDeque<(Vec<u8>, Bytes)>,
}

impl<'s> Source<'s> {
    fn new(slice: &'s Arc<dyn Snapshot>, range: &KeyRange) -> Self {
        Self { slice, rest: Some(range.clone()), fetched: VecDeque::new() }
    }

    /// Has the next entry at the front, if there is one.
    fn fetch(&mut self, keyspace: Keyspace, direction: Direction) -> Result<(), StoreError> {
        if !self.fetched.is_empty() {
            return Ok(());
        }
        let Some(rest) = self.rest.take() else { return Ok(()) };
        self.fetched = self.slice.page(keyspace, &rest, direction, FETCHED_ENTRIES)?.into();
        if let Some((last, _)) =
            self.fetched.back().filter(|_| self.fetched.len() == FETCHED_ENTRIES)
        {
            let last = last.clone();
            self.rest = Some(match direction {
                Direction::Forward => rest.starting_after(last),
                Direction::Backward => rest.ending_before(last),
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_storage::{Batch, Durability, MemoryStore, Store};

    fn store(entries: &[(Vec<u8>, u64)]) -> Arc<dyn Snapshot> {
        let store = MemoryStore::new();
        let mut batch = Batch::new();
        for (key, value) in entries {
            batch.put(Keyspace::Meta, key.clone(), value.to_be_bytes().to_vec());
        }
        store.commit(batch, Durability::Synced).unwrap();
        store.snapshot()
    }

    #[test]
    fn of_a_log_that_slices_share_the_furthest_that_was_forgotten_counts() {
        for kind in [Meta::Head, Meta::VersionsFloor, Meta::Trimmed] {
            let key = keys::meta(kind, &[1, 7]);
            for places in [[300, 5], [5, 300]] {
                let slices = places.map(|place| store(&[(key.clone(), place)])).to_vec();
                let joined = JoinedSlices::new(slices).unwrap();
                let found = joined.get(Keyspace::Meta, &key).unwrap();
                assert_eq!(found.as_deref(), Some(&300_u64.to_be_bytes()[..]), "{kind:?}");
            }
        }
    }

    #[test]
    fn a_slice_that_is_newer_than_the_first_is_refused() {
        let edition = |edition: u64| store(&[(keys::meta(Meta::Edition, &[]), edition)]);
        assert!(JoinedSlices::new(vec![edition(4), edition(3)]).is_ok());
        let refused = JoinedSlices::new(vec![edition(3), edition(4)]).err().unwrap().to_string();
        assert!(refused.contains("newer than the first"), "{refused}");
    }
}
