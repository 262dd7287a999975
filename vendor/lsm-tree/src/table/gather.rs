// armilla: the whole file.

//! Values of neighbouring keys of one table, read together.
//!
//! The index is asked for all blocks first. Those that are not in the cache are read with one call where they lie close together,
//! and unpacked into memory that the thread uses again: nothing is made for a block, and a full cache takes few of them.

use super::{
    block::{
        binary_index::Reader as BinaryIndex, Block, BlockType, Header, TRAILER_SIZE,
        TRAILER_START_MARKER,
    },
    block_index::{BlockIndex, BlockIndexIterImpl},
    cursor::{fields, head_key, open, read_exact, take_u8, take_varint},
    BlockHandle, KeyedBlockHandle, Table,
};
use crate::{SeqNo, Slice, ValueType};
use std::{cell::Cell, cmp::Ordering, ops::Range};

/// Bytes of one read at most, but for a single block.
const READ_MAX: usize = 128 << 10;

/// Bytes between two blocks that are read with them rather than with another call.
const GAP_MAX: u64 = 8 << 10;

/// Blocks that are passed over before the index is searched anew.
const STEPS_MAX: usize = 8;

/// A full cache takes the blocks of one pass in so many. What is asked for again and again gets there; what is not costs
/// little and pushes little out.
const KEPT_SHARE: u32 = 8;

/// Bytes of memory that a thread keeps, for each of its two uses.
const KEPT_MEMORY_MAX: usize = 256 << 10;

/// Memory that the passes of a thread use one after the other.
#[derive(Default)]
struct Memory {
    read: Vec<u8>,
    block: Vec<u8>,
    wanted: Vec<WantedBlock>,
    passes: u32,
}

thread_local! {
    static MEMORY: Cell<Memory> = Cell::default();
}

/// A block, and which of the keys are in it if they are anywhere in the table.
struct WantedBlock {
    handle: BlockHandle,
    keys: Range<usize>,
}

/// Who is shown what there is of a key: which of the keys, and its value, or nothing where it was deleted.
pub type Show<'f> = dyn FnMut(usize, Option<ShownValue<'_>>) + 'f;

/// A value that is shown.
pub struct ShownValue<'a> {
    bytes: &'a [u8],
    /// What it lies in, where that has memory of its own.
    memory: Option<&'a Slice>,
}

impl<'a> ShownValue<'a> {
    pub(crate) fn whole(value: &'a Slice) -> Self {
        Self { bytes: value, memory: Some(value) }
    }

    /// The value.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The value, sharing the memory of its block; nothing where that is used again for the next one.
    #[must_use]
    pub fn share(&self) -> Option<Slice> {
        let memory = self.memory?;
        let from = (self.bytes.as_ptr() as usize).checked_sub(memory.as_ptr() as usize)?;
        Some(memory.slice(from..from + self.bytes.len()))
    }
}

/// Shows the newest visible entry of each of these keys, which are in ascending order, in no particular order.
pub fn gather<'k>(
    table: &Table,
    count: usize,
    key: &dyn Fn(usize) -> &'k [u8],
    seqno: SeqNo,
    show: &mut Show<'_>,
) -> crate::Result<()> {
    let Some(seqno) = seqno.checked_sub(table.global_seqno()) else { return Ok(()) };
    if table.metadata.seqnos.0 >= seqno {
        return Ok(());
    }
    let mut memory = MEMORY.take();
    memory.passes = memory.passes.wrapping_add(1);
    memory.wanted.clear();
    let gathered = find_blocks(table, count, key, seqno, &mut memory.wanted)
        .and_then(|()| Pass { table, key, seqno, show }.run(&mut memory));
    if memory.read.len() > KEPT_MEMORY_MAX || memory.block.len() > KEPT_MEMORY_MAX {
        memory = Memory { passes: memory.passes, ..Memory::default() };
    }
    MEMORY.set(memory);
    gathered
}

/// Asks the index where the keys lie.
fn find_blocks<'k>(
    table: &Table,
    count: usize,
    key: &dyn Fn(usize) -> &'k [u8],
    seqno: SeqNo,
    wanted: &mut Vec<WantedBlock>,
) -> crate::Result<()> {
    // The first block that does not end before the newest visible version of a key.
    let is_in = |block: &KeyedBlockHandle, key: &[u8]| match (**block.end_key()).cmp(key) {
        Ordering::Less => false,
        Ordering::Equal => block.seqno() < seqno,
        Ordering::Greater => true,
    };
    let mut index: Option<BlockIndexIterImpl> = None;
    let mut last: Option<KeyedBlockHandle> = None;
    for at in 0..count {
        let key = key(at);
        if last.as_ref().is_some_and(|last| is_in(last, key)) {
            if let Some(block) = wanted.last_mut() {
                block.keys.end = at + 1;
            }
            continue;
        }
        let mut found = None;
        if let Some(index) = &mut index {
            for _ in 0..STEPS_MAX {
                let Some(next) = index.next() else { return Ok(()) };
                let next = next?;
                if is_in(&next, key) {
                    found = Some(next);
                    break;
                }
            }
        }
        if found.is_none() {
            index = table.block_index.forward_reader(key, seqno);
            let Some(next) = index.as_mut().and_then(Iterator::next) else { return Ok(()) };
            found = Some(next?);
        }
        wanted.extend(found.iter().map(|found| WantedBlock {
            handle: BlockHandle::new(found.offset(), found.size()),
            keys: at..at + 1,
        }));
        last = found;
    }
    Ok(())
}

struct Pass<'p, 'k, 's> {
    table: &'p Table,
    key: &'p dyn Fn(usize) -> &'k [u8],
    seqno: SeqNo,
    show: &'p mut Show<'s>,
}

impl Pass<'_, '_, '_> {
    fn run(mut self, memory: &mut Memory) -> crate::Result<()> {
        let Memory { read, block, wanted, passes } = memory;
        let (table, cache, id) = (self.table, &self.table.cache, self.table.global_id());
        let mut failed = None;
        wanted.retain(|wanted| match cache.get_block(id, wanted.handle.offset()) {
            Some(block) => {
                if let Err(error) = self.block(&block.data, Some(&block.data), &wanted.keys) {
                    failed.get_or_insert(error);
                }
                false
            }
            None => true,
        });
        if let Some(error) = failed {
            return Err(error);
        }
        if wanted.is_empty() {
            return Ok(());
        }
        // Its parts are full one by one: all of it never is, to the last block. Asked once: it adds up all parts.
        let is_full = cache.size() >= cache.capacity() / 8 * 7;
        let is_kept = !is_full || passes.is_multiple_of(KEPT_SHARE);
        let mut rest = wanted.as_slice();
        while let Some(first) = rest.first() {
            let from = *first.handle.offset();
            let mut to = from + u64::from(first.handle.size());
            let joined = 1 + rest[1..]
                .iter()
                .take_while(|next| {
                    let begin = *next.handle.offset();
                    let end = begin + u64::from(next.handle.size());
                    let is_near = begin >= to && begin - to <= GAP_MAX && end - from <= READ_MAX as u64;
                    if is_near {
                        to = end;
                    }
                    is_near
                })
                .count();
            let length = usize::try_from(to - from).unwrap_or(usize::MAX);
            // It is never made shorter: what is there is written over.
            if read.len() < length {
                read.resize(length, 0);
            }
            let read = &mut read[..length];
            read_exact(&*open(table)?, read, from)?;
            for wanted in &rest[..joined] {
                let at = (*wanted.handle.offset() - from) as usize;
                let bytes = &read[at..at + wanted.handle.size() as usize];
                self.read_block(bytes, wanted, block, is_kept)?;
            }
            rest = &rest[joined..];
        }
        Ok(())
    }

    fn read_block(
        &mut self,
        bytes: &[u8],
        wanted: &WantedBlock,
        memory: &mut Vec<u8>,
        is_kept: bool,
    ) -> crate::Result<()> {
        let (table, handle) = (self.table, wanted.handle);
        let (cache, compression) = (&table.cache, table.metadata.data_block_compression);
        if is_kept {
            let block = Block::from_bytes(bytes, handle, compression)?;
            check_type(&block.header)?;
            cache.insert_block(table.global_id(), handle.offset(), block.clone());
            return self.block(&block.data, Some(&block.data), &wanted.keys);
        }
        let (header, data) = Block::unpack(bytes, handle, compression, memory)?;
        check_type(&header)?;
        self.block(data, None, &wanted.keys)
    }

    /// Shows those of the keys that are in a block.
    fn block(
        &mut self,
        data: &[u8],
        memory: Option<&Slice>,
        keys: &Range<usize>,
    ) -> crate::Result<()> {
        let mut search = BlockSearch::new(data).ok_or(crate::Error::InvalidTrailer)?;
        for at in keys.clone() {
            let found = search.find((self.key)(at), self.seqno);
            if let Some(value) = found.ok_or(crate::Error::InvalidTrailer)? {
                (self.show)(at, value.map(|bytes| ShownValue { bytes, memory }));
            }
        }
        Ok(())
    }
}

fn check_type(header: &Header) -> crate::Result<()> {
    match header.block_type {
        BlockType::Data => Ok(()),
        other => Err(crate::Error::InvalidTag(("BlockType", other.into()))),
    }
}

/// A search for keys of one block, which are in ascending order.
struct BlockSearch<'d> {
    data: &'d [u8],
    index: BinaryIndex<'d>,
    interval: usize,
    /// The restart points before this one have keys below the last that was looked for.
    passed: usize,
}

impl<'d> BlockSearch<'d> {
    fn new(data: &'d [u8]) -> Option<Self> {
        let trailer = data.get(data.len().checked_sub(TRAILER_SIZE)?..)?;
        let (interval, (step, length, offset)) = fields(trailer)?;
        let index = BinaryIndex::new(data, offset, length, step);
        Some(Self { data, index, interval, passed: 0 })
    }

    /// The first restart point whose key is not below this one, and whether it is this one: in steps that double, as the keys that are
    /// looked for mostly lie close together, then by halving.
    fn seek(&mut self, needle: &[u8]) -> Option<(usize, bool)> {
        let (mut left, mut right, mut step) = (self.passed, self.index.len(), 1);
        let mut is_equal = false;
        let mut is_bounded = false;
        while left < right {
            let probe = match is_bounded {
                true => usize::midpoint(left, right),
                false => (left + step - 1).min(right - 1),
            };
            match head_key(self.data, self.index.get(probe))?.cmp(needle) {
                Ordering::Less => left = probe + 1,
                order => (right, is_equal, is_bounded) = (probe, order.is_eq(), true),
            }
            step *= 2;
        }
        self.passed = left;
        Some((left, is_equal))
    }

    /// The newest version of a key that is visible, nothing for its value where it was deleted; nothing at all where the block cannot be read.
    #[expect(clippy::option_option)]
    fn find(&mut self, needle: &[u8], seqno: SeqNo) -> Option<Option<Option<&'d [u8]>>> {
        let (data, (head, is_equal)) = (self.data, self.seek(needle)?);
        let is_whole = self.interval == 1;
        // Where all keys are restart points, none lies between two of them.
        if is_whole && !is_equal {
            return Some(None);
        }
        let begin = match is_whole {
            true => self.index.get(head),
            false if head == 0 => 0,
            false => self.index.get(head - 1),
        };
        let mut rest = data.get(begin..)?;
        let (mut remaining, mut base) = (0, rest);
        let mut is_known = is_whole;
        loop {
            let value_type = take_u8(&mut rest)?;
            if value_type == TRAILER_START_MARKER {
                return Some(None);
            }
            let value_type = ValueType::try_from(value_type).ok()?;
            let version = take_varint(&mut rest)?;
            let shared = if remaining == 0 { 0 } else { take_varint(&mut rest)? as usize };
            let length = take_varint(&mut rest)? as usize;
            let key = rest.get(..length)?;
            if remaining == 0 {
                (base, remaining) = (key, self.interval);
            }
            remaining -= 1;
            rest = &rest[length..];
            let length = match value_type.is_tombstone() {
                true => 0,
                false => take_varint(&mut rest)? as usize,
            };
            let value = rest.get(..length)?;
            rest = &rest[length..];
            // The part of the key that it has in common with the first of its interval, then its own.
            let order = match needle.get(..shared) {
                _ if std::mem::take(&mut is_known) => Ordering::Equal,
                Some(head) => base.get(..shared)?.cmp(head).then_with(|| key.cmp(&needle[shared..])),
                None => base.get(..shared)?.cmp(needle),
            };
            if order.is_gt() {
                return Some(None);
            }
            if order.is_eq() && version < seqno {
                return Some(Some((!value_type.is_tombstone()).then_some(value)));
            }
        }
    }
}
