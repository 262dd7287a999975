// armilla: the whole file.

//! Visits: entries of a range, in order, without an object for each.
//!
//! An iterator makes a key, a value and a few counted references for every entry, puts it on a heap, and reads a block
//! at a time. A visit goes through blocks where they lie: it reads several at once, takes entries apart by their offsets, and
//! compares keys of different runs only where one run gives way to another.

use crate::{
    memtable::Memtable,
    table::{BlockCursor, Table},
    tree::Tree,
    version::{run::Run, SuperVersion},
    key::InternalKey,
    InternalValue, SeqNo, Slice, ValueType,
};
use std::{
    cmp::Ordering,
    ops::{Bound, ControlFlow},
    sync::Arc,
};

/// Both ends of a range.
pub type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// The value of an entry, inside what it was read with.
pub struct EntryValue<'a> {
    memory: &'a Slice,
    from: usize,
    to: usize,
}

impl EntryValue<'_> {
    /// The value, sharing the memory of its block.
    #[must_use]
    pub fn share(&self) -> Slice {
        self.memory.slice(self.from..self.to)
    }
}

/// Who is shown entries: key and value.
pub type Visitor<'f> = dyn FnMut(&[u8], EntryValue<'_>) -> ControlFlow<()> + 'f;

/// What entries come from, one after the other.
enum Source<'v> {
    Run(RunSource<'v>),
    Memory(MemorySource<'v>),
}

impl Source<'_> {
    fn key(&self) -> &[u8] {
        match self {
            Self::Run(run) => run.cursor.key(),
            Self::Memory(memory) => &memory.entry.key.user_key,
        }
    }

    fn seqno(&self) -> SeqNo {
        match self {
            Self::Run(run) => run.cursor.seqno(),
            Self::Memory(memory) => memory.entry.key.seqno,
        }
    }

    fn is_tombstone(&self) -> bool {
        match self {
            Self::Run(run) => run.cursor.is_tombstone(),
            Self::Memory(memory) => memory.entry.is_tombstone(),
        }
    }

    fn value(&self) -> EntryValue<'_> {
        match self {
            Self::Run(run) => {
                let (memory, from, to) = run.cursor.value();
                EntryValue { memory, from, to }
            }
            Self::Memory(memory) => {
                let memory = &memory.entry.value;
                EntryValue { memory, from: 0, to: memory.len() }
            }
        }
    }

    /// Smaller keys first, of one key the newest first.
    fn order(&self, other: &Self) -> Ordering {
        self.key().cmp(other.key()).then_with(|| other.seqno().cmp(&self.seqno()))
    }

    /// Goes to the next entry that the snapshot sees; false at the end.
    fn advance(&mut self, seqno: SeqNo) -> crate::Result<bool> {
        match self {
            Self::Run(run) => run.advance(seqno),
            Self::Memory(memory) => Ok(memory.advance(seqno)),
        }
    }
}

/// The tables of a run that a range touches.
struct RunSource<'v> {
    /// Those behind the one at hand.
    tables: &'v [Table],
    cursor: BlockCursor<'v>,
    bounds: Bounds<'v>,
}

impl<'v> RunSource<'v> {
    fn new(run: &'v Run<Table>, bounds: Bounds<'v>) -> Option<Self> {
        let (first, last) = run.range_overlap_indexes::<&[u8], _>(&bounds)?;
        let (table, tables) = run.get(first..=last)?.split_first()?;
        Some(Self { tables, cursor: BlockCursor::new(table, bounds), bounds })
    }

    fn advance(&mut self, seqno: SeqNo) -> crate::Result<bool> {
        loop {
            while self.cursor.advance()? {
                if self.cursor.seqno() < seqno {
                    return Ok(true);
                }
            }
            let Some((table, tables)) = self.tables.split_first() else {
                return Ok(false);
            };
            self.tables = tables;
            self.cursor = BlockCursor::new(table, self.bounds);
        }
    }
}

/// The entries of a write buffer.
struct MemorySource<'v> {
    entries: Box<dyn Iterator<Item = InternalValue> + 'v>,
    entry: InternalValue,
}

impl<'v> MemorySource<'v> {
    /// A source that is at its first visible entry already.
    fn new(memtable: &'v Memtable, (lo, hi): Bounds<'v>, seqno: SeqNo) -> Option<Self> {
        if memtable.is_empty() {
            return None;
        }
        let lo = match lo {
            Bound::Included(key) => {
                Bound::Included(InternalKey::new(key, SeqNo::MAX, ValueType::Tombstone))
            }
            Bound::Excluded(key) => Bound::Excluded(InternalKey::new(key, 0, ValueType::Tombstone)),
            Bound::Unbounded => Bound::Unbounded,
        };
        let hi = match hi {
            Bound::Included(key) => Bound::Included(InternalKey::new(key, 0, ValueType::Value)),
            Bound::Excluded(key) => {
                Bound::Excluded(InternalKey::new(key, SeqNo::MAX, ValueType::Value))
            }
            Bound::Unbounded => Bound::Unbounded,
        };
        let mut entries = Box::new(memtable.range((lo, hi)));
        let entry = entries.find(|entry| entry.key.seqno < seqno)?;
        Some(Self { entries, entry })
    }

    fn advance(&mut self, seqno: SeqNo) -> bool {
        match self.entries.find(|entry| entry.key.seqno < seqno) {
            Some(entry) => {
                self.entry = entry;
                true
            }
            None => false,
        }
    }
}

/// Shows the newest version of each key that the sources have, in order, until nobody wants more. False when it was broken off.
fn merge(
    mut sources: Vec<Source<'_>>,
    hi: Bound<&[u8]>,
    seqno: SeqNo,
    visit: &mut Visitor<'_>,
) -> crate::Result<bool> {
    let mut last: Vec<u8> = Vec::with_capacity(64);
    while !sources.is_empty() {
        let mut least = 0;
        for (at, source) in sources.iter().enumerate().skip(1) {
            if source.order(&sources[least]).is_lt() {
                least = at;
            }
        }
        sources.swap(0, least);
        let Some((first, others)) = sources.split_first_mut() else { break };
        let next = others.iter().min_by(|left, right| left.order(right));
        // Entries of this source, as long as they come before those of all others.
        let is_exhausted = loop {
            let key = first.key();
            if is_behind(key, hi) {
                return Ok(true);
            }
            // No key is empty: behind nothing every key is a new one.
            if key != last.as_slice() {
                last.clear();
                last.extend_from_slice(key);
                if !first.is_tombstone() && visit(&last, first.value()).is_break() {
                    return Ok(false);
                }
            }
            if !first.advance(seqno)? {
                break true;
            }
            if next.is_some_and(|next| first.order(next).is_gt()) {
                break false;
            }
        };
        if is_exhausted {
            sources.swap_remove(0);
        }
    }
    Ok(true)
}

pub(crate) fn is_behind(key: &[u8], hi: Bound<&[u8]>) -> bool {
    match hi {
        Bound::Included(hi) => key > hi,
        Bound::Excluded(hi) => key >= hi,
        Bound::Unbounded => false,
    }
}

pub(crate) fn runs(version: &SuperVersion) -> impl Iterator<Item = &Arc<Run<Table>>> {
    version.version.iter_levels().flat_map(|level| level.iter())
}

impl Tree {
    /// Shows every entry of a range, in order, until nobody wants more.
    ///
    /// # Errors
    ///
    /// Will return `Err` if a block cannot be read.
    pub fn visit(
        &self,
        bounds: Bounds<'_>,
        seqno: SeqNo,
        visit: &mut Visitor<'_>,
    ) -> crate::Result<()> {
        let version = self.get_version_for_snapshot(seqno);
        let mut sources = Vec::with_capacity(8);
        for run in runs(&version) {
            if let Some(mut source) = RunSource::new(run, bounds) {
                if source.advance(seqno)? {
                    sources.push(Source::Run(source));
                }
            }
        }
        let sealed = version.sealed_memtables.iter().map(|memtable| &**memtable);
        for memtable in sealed.chain([&*version.active_memtable]) {
            sources.extend(MemorySource::new(memtable, bounds, seqno).map(Source::Memory));
        }
        merge(sources, bounds.1, seqno, visit)?;
        Ok(())
    }
}
