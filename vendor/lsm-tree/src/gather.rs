// armilla: the whole file.

//! Values of neighbouring keys, looked for where one of them lies.

use crate::{
    memtable::Memtable,
    table::{filter::standard_bloom::Builder, gather},
    tree::Tree,
    version::run::Run,
    visit::runs,
    SeqNo, Table,
};

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
}
