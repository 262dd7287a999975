//! A backup cut into slices: each entry goes to the slice of its key.
//!
//! A range that lies in one slice and has an id of that slice stays as it is. Every other one becomes what a split would make of it: ranges with fresh
//! ids inside slices, which have the old one as their ancestor and read its log. That log is cut with its entries, so each slice has the part
//! that is its own. Items, and everything that clients hold, stay what they are.
//!
//! Views come empty: each slice builds its part anew, and keeps notes of its own.

use super::joined::{container_of, is_of};
use crate::catalog::stored::{StoredContainer, StoredEntry};
use crate::feed::lineage::lineage_of;
use crate::feed_entry::FeedEntry;
use crate::keys::{self, Meta};
use crate::ordinals::Marks;
use crate::ranges::{self, Range, cut};
use crate::slice::{Slice, SliceBounds};
use crate::versions;
use crate::views::definition::{MEMBER, QUERY};
use crate::views::rekey::REKEY;
use armilla_model::lsn::Lsn;
use armilla_model::partition_key::{Definition, Epk};
use armilla_model::policy::ContainerPolicy;
use armilla_model::value::Value;
use armilla_storage::{Keyspace, StoreError};
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Entries of `meta` that every slice has.
const EVERYWHERE: [Meta; 8] = [
    Meta::Account,
    Meta::Database,
    Meta::User,
    Meta::Permission,
    Meta::EncryptionKey,
    Meta::Offer,
    Meta::Script,
    Meta::Dials,
];

/// Entries of what an account in slices does not have.
const REFUSED: [Meta; 2] = [Meta::Subscription, Meta::Rekeyed];

/// How a backup is cut.
pub struct CutAccount {
    count: u32,
    containers: HashMap<u32, CutContainer>,
    meta: Vec<BTreeMap<Vec<u8>, Bytes>>,
}

struct CutContainer {
    definition: Definition,
    bounds: SliceBounds,
}

impl CutAccount {
    /// Plans how the account with these entries of `meta` is cut into so many slices.
    ///
    /// # Errors
    ///
    /// When an entry is damaged, or the account has something that an account in slices does not have.
    pub fn plan(
        entries: impl IntoIterator<Item = (Vec<u8>, Bytes)>,
        count: u32,
    ) -> Result<Self, StoreError> {
        let entries: BTreeMap<Vec<u8>, Bytes> = entries.into_iter().collect();
        if entries.keys().any(|key| is_of(&REFUSED, key)) {
            return Err(refused());
        }
        let everywhere = entries.iter().filter(|(key, _)| is_of(&EVERYWHERE, key));
        let everywhere: BTreeMap<_, _> =
            everywhere.map(|(key, value)| (key.clone(), value.clone())).collect();
        let meta = vec![everywhere; count as usize];
        let mut cut = Self { count, containers: HashMap::new(), meta };
        for (key, value) in entries.iter().filter(|(key, _)| is_of(&[Meta::Container], key)) {
            let number = key.get(5..9).and_then(|bytes| bytes.try_into().ok());
            let number = number.map(u32::from_be_bytes).ok_or_else(malformed)?;
            let stored = StoredContainer::read(&StoredEntry::read(value)?)?;
            cut.add_container(&entries, (key, number), stored)?;
        }
        Ok(cut)
    }

    fn add_container(
        &mut self,
        entries: &BTreeMap<Vec<u8>, Bytes>,
        (key, number): (&[u8], u32),
        stored: StoredContainer,
    ) -> Result<(), StoreError> {
        let view = stored.definition.get(MEMBER);
        if view.and_then(|view| view.get(QUERY)).and_then(Value::as_str) == Some(REKEY) {
            return Err(refused());
        }
        let is_view = view.is_some();
        let policy = ContainerPolicy::parse_stored(&stored.definition).map_err(|_| malformed())?;
        let definition = policy.partition_key;
        let bounds = SliceBounds::new(definition.hashing, self.count);
        let mut ordinals = CutOrdinals::of(entries, number, &stored.ranges);
        let mut fresh = FreshIds::behind(&stored.ranges, self.count);
        let mut slices = vec![Vec::new(); self.count as usize];
        for old in &stored.ranges {
            for part in cut(&old.span(), bounds.iter().cloned()) {
                let slice = bounds.slice_of(&part.min);
                let stays = part == old.span() && Slice::of_range(old.id, self.count) == slice;
                let range = match stays {
                    true => old.clone(),
                    false => {
                        let mut parents = old.parents.clone();
                        parents.push(old.id);
                        Range { id: fresh.next(slice), min: part.min, max: part.max, parents }
                    }
                };
                let marks = ordinals.marks(&definition, (old, &range), slice)?;
                let numbers = [number, range.id];
                let meta = &mut self.meta[slice as usize];
                meta.insert(keys::meta(Meta::DocumentNumber, &numbers), marks.encode().into());
                let head = entries.get(&keys::meta(Meta::Head, &[number, old.id]));
                if let Some(head) = head {
                    meta.insert(keys::meta(Meta::Head, &numbers), head.clone());
                }
                for (kind, log) in [Meta::Trimmed, Meta::VersionsFloor]
                    .into_iter()
                    .flat_map(|kind| lineage_of(&range).map(move |log| (kind, log)))
                {
                    let noted = keys::meta(kind, &[number, log]);
                    if let Some(value) = entries.get(&noted) {
                        meta.insert(noted, value.clone());
                    }
                }
                slices[slice as usize].push(range);
            }
        }
        for (meta, ranges) in self.meta.iter_mut().zip(slices) {
            let own = StoredContainer { ranges, ..stored.clone() };
            meta.insert(key.to_vec(), own.write().into());
        }
        if !is_view {
            self.containers.insert(number, CutContainer { definition, bounds });
        }
        Ok(())
    }

    /// The entries of `meta` of each slice.
    pub fn take_meta(&mut self) -> Vec<BTreeMap<Vec<u8>, Bytes>> {
        std::mem::take(&mut self.meta)
    }

    /// The slice of an entry beside those of `meta`; nothing for one of a view, or of a container that was dropped.
    ///
    /// # Errors
    ///
    /// When the entry is damaged.
    pub fn slice_of(
        &self,
        keyspace: Keyspace,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<u32>, StoreError> {
        let number = container_of(keyspace, key).ok_or_else(malformed)?;
        let Some(container) = self.containers.get(&number) else { return Ok(None) };
        let definition = &container.definition;
        let epk: Epk = match keyspace {
            Keyspace::Meta => return Ok(None),
            Keyspace::Items => keys::read_item(key, definition).map_err(|_| malformed())?.epk,
            Keyspace::Unique => keys::read_unique(key, definition).map_err(|_| malformed())?,
            Keyspace::Expiry => {
                keys::read_item_tail(&key[8..], definition).map_err(|_| malformed())?.epk
            }
            Keyspace::Feed | Keyspace::Gone => FeedEntry::decode(value)?.item.epk,
            Keyspace::Versions => versions::decode(Lsn(0), &Bytes::copy_from_slice(value))?.0,
        };
        Ok(Some(container.bounds.slice_of(&epk)))
    }
}

fn refused() -> StoreError {
    let reason = "it has subscriptions or re-keys, which an account in slices does not have: remove them and back up \
                  again, or restore into an account that is not cut";
    StoreError::io("cut the backup", std::io::Error::other(reason))
}

fn malformed() -> StoreError {
    StoreError::corruption("the backup", "an entry is malformed")
}

/// Ids of ranges that no range of a container has or had.
struct FreshIds {
    next: Vec<u32>,
    step: u32,
}

impl FreshIds {
    fn behind(ranges: &[Range], count: u32) -> Self {
        let newest = ranges.iter().flat_map(lineage_of).max().unwrap_or(0);
        let turn = newest / count + 1;
        Self { next: (0..count).map(|slice| turn * count + slice).collect(), step: count }
    }

    fn next(&mut self, slice: u32) -> u32 {
        let next = &mut self.next[slice as usize];
        *next += self.step;
        *next - self.step
    }
}

/// Where ordinals of items go on. Each slice counts by itself, so no two may count in one series from the same number.
struct CutOrdinals {
    /// What was reserved in the whole container.
    all: Marks,
    of_ranges: HashMap<u32, Marks>,
    /// Which slices count in a series.
    counted: HashMap<u16, HashSet<u32>>,
}

/// How far apart slices begin that count in one series.
const APART: u64 = 1 << (armilla_model::rid::NUMBER_BITS - 7);

impl CutOrdinals {
    fn of(entries: &BTreeMap<Vec<u8>, Bytes>, number: u32, ranges: &[Range]) -> Self {
        let noted = |range: &Range| {
            let noted = entries.get(&keys::meta(Meta::DocumentNumber, &[number, range.id]));
            (range.id, noted.map(|value| Marks::decode(value)).unwrap_or_default())
        };
        let of_ranges: HashMap<_, _> = ranges.iter().map(noted).collect();
        let mut all = Marks::default();
        of_ranges.values().for_each(|marks| all.raise_all(marks));
        Self { all, of_ranges, counted: HashMap::new() }
    }

    /// What a range of a slice, which comes from an old one, may not give out.
    fn marks(
        &mut self,
        definition: &Definition,
        (old, range): (&Range, &Range),
        slice: u32,
    ) -> Result<Marks, StoreError> {
        let position = ranges::series(definition.hashing, &range.min);
        let before = ranges::series(definition.hashing, &old.min);
        let noted = self.of_ranges.get(&old.id).map_or(0, Marks::series_max);
        let series = position.max(before).max(noted);
        let mut marks = self.all.up_to(series);
        let slices = self.counted.entry(series).or_default();
        slices.insert(slice);
        if slices.iter().any(|other| *other < slice) {
            marks.move_on(series, APART * u64::from(slice)).ok_or_else(|| {
                StoreError::corruption(
                    "the backup",
                    "a container has given so many numbers to its items that it cannot be cut; use armilla export and import",
                )
            })?;
        }
        Ok(marks)
    }
}
