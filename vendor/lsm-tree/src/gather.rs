// armilla: the whole file.

//! Values of neighbouring keys, looked for where one of them lies.

use crate::{
    key::InternalKey,
    memtable::Memtable,
    table::{filter::standard_bloom::Builder, gather},
    tree::Tree,
    version::run::Run,
    visit::runs,
    SeqNo, Table, ValueType,
};
use std::ops::Bound;

/// Write buffers and runs that are gone through for the keys of one call.
const PLACES_MAX: usize = 4;

/// Who is shown values: which of the keys, and a value it has or had. True when that is the one that was looked for.
pub type Take<'f> = dyn FnMut(usize, &ShownValue<'_>) -> bool + 'f;

pub use crate::table::gather::ShownValue;

/// The keys that are still looked for.
struct Open<'a, 'f> {
    keys: &'a [&'a [u8]],
    numbers: Vec<usize>,
    is_done: Vec<bool>,
    take: &'a mut Take<'f>,
}

impl Open<'_, '_> {
    fn show(&mut self, number: usize, value: Option<ShownValue<'_>>) {
        if value.is_some_and(|value| (self.take)(number, &value)) {
            self.is_done[number] = true;
        }
    }

    fn in_memory(&mut self, memtable: &Memtable, seqno: SeqNo) {
        for at in 0..self.numbers.len() {
            let number = self.numbers[at];
            if let Some(entry) = memtable.get(self.keys[number], seqno) {
                let value = ShownValue::whole(&entry.value);
                self.show(number, (!entry.is_tombstone()).then_some(value));
            }
        }
    }

    /// True when the first key is there. Those that are found here are not looked for any more.
    fn in_run(&mut self, run: &Run<Table>, seqno: SeqNo) -> crate::Result<bool> {
        let (keys, numbers) = (self.keys, std::mem::take(&mut self.numbers));
        let first = numbers.first().copied();
        let (mut rest, mut is_there, mut gathered) = (numbers.as_slice(), false, Ok(()));
        while let Some((&next, behind)) = rest.split_first() {
            let Some(table) = run.get_for_key(keys[next]) else {
                rest = behind;
                continue;
            };
            let max = table.metadata.key_range.max();
            let (inside, outside) = rest.split_at(rest.partition_point(|&at| keys[at] <= &**max));
            let show = &mut |at: usize, value: Option<ShownValue<'_>>| {
                is_there |= Some(inside[at]) == first;
                self.show(inside[at], value);
            };
            gathered = gather::gather(table, inside.len(), &|at| keys[inside[at]], seqno, show);
            if gathered.is_err() {
                break;
            }
            rest = outside;
        }
        self.numbers = numbers;
        let Self { numbers, is_done, .. } = self;
        numbers.retain(|&number| !is_done[number]);
        gathered.map(|()| is_there)
    }
}

impl Tree {
    /// Shows values of keys, which are in ascending order. Where the first of them lies is found as a point read finds it, and all
    /// are looked for in that write buffer or run; then the first of those that are left, up to [`PLACES_MAX`] times. Some may not be
    /// shown, or a version that was replaced or deleted since: it is for those who can tell by the value. Neighbours mostly lie in one place.
    ///
    /// # Errors
    ///
    /// Will return `Err` if a block cannot be read.
    pub fn get_beside(&self, keys: &[&[u8]], seqno: SeqNo, take: &mut Take<'_>) -> crate::Result<()> {
        let version = self.get_version_for_snapshot(seqno);
        let (numbers, is_done) = ((0..keys.len()).collect(), vec![false; keys.len()]);
        let mut open = Open { keys, numbers, is_done, take };
        for _ in 0..PLACES_MAX {
            let Some(&first) = open.numbers.first() else { break };
            let key = keys[first];
            let sealed = version.sealed_memtables.iter().map(|memtable| &**memtable);
            let mut memtables = [&*version.active_memtable].into_iter().chain(sealed.rev());
            let has_it =
                |memtable: &&Memtable| !memtable.is_empty() && memtable.get(key, seqno).is_some();
            if let Some(memtable) = memtables.find(has_it) {
                open.in_memory(memtable, seqno);
            } else {
                let hash = Builder::get_hash(key);
                for run in runs(&version) {
                    let Some(table) = run.get_for_key(key) else { continue };
                    if table.may_contain(key, seqno, hash)? && open.in_run(run, seqno)? {
                        break;
                    }
                }
            }
            let Open { numbers, is_done, .. } = &mut open;
            numbers.retain(|&number| number != first && !is_done[number]);
        }
        Ok(())
    }

    /// Tells which of the keys, in ascending order, were never written or long since forgotten, as far as write buffers and filters
    /// know: some that are not there may not be told. No block of entries is read.
    ///
    /// # Errors
    ///
    /// Will return `Err` if a block cannot be read.
    pub fn absent_beside(
        &self,
        keys: &[&[u8]],
        seqno: SeqNo,
        absent: &mut dyn FnMut(usize),
    ) -> crate::Result<()> {
        let (Some(&first), Some(&last)) = (keys.first(), keys.last()) else { return Ok(()) };
        let version = self.get_version_for_snapshot(seqno);
        let mut is_open = vec![true; keys.len()];
        version.active_memtable.note(keys, &mut is_open);
        for memtable in version.sealed_memtables.iter() {
            memtable.note(keys, &mut is_open);
        }
        let mut hashes = Vec::new();
        for run in runs(&version) {
            let Some((from, to)) = run.range_overlap_indexes::<&[u8], _>(&(first..=last)) else {
                continue;
            };
            if hashes.is_empty() {
                hashes.extend(keys.iter().map(|key| Builder::get_hash(key)));
            }
            for table in run.get(from..=to).into_iter().flatten() {
                let range = &table.metadata.key_range;
                for ((key, &hash), is_open) in keys.iter().zip(&hashes).zip(&mut is_open) {
                    *is_open = *is_open
                        && !(**range.min() <= **key
                            && **key <= **range.max()
                            && table.may_contain(key, seqno, hash)?);
                }
            }
        }
        is_open.iter().enumerate().filter(|(_, is_open)| **is_open).for_each(|(at, _)| absent(at));
        Ok(())
    }
}

impl Memtable {
    /// Notes which of the keys, in ascending order, are here in any version. One search tells of all keys up to what it finds.
    fn note(&self, keys: &[&[u8]], is_open: &mut [bool]) {
        let mut at = 0;
        while let Some(key) = keys.get(at).filter(|_| !self.is_empty()) {
            let from = InternalKey::new(*key, SeqNo::MAX, ValueType::Value);
            let Some(entry) = self.items.lower_bound(Bound::Included(&from)) else { return };
            let here = &*entry.key().user_key;
            at += keys.get(at..).unwrap_or_default().iter().take_while(|key| **key < here).count();
            if keys.get(at).is_some_and(|key| *key == here) {
                is_open[at] = false;
                at += 1;
            }
        }
    }
}
