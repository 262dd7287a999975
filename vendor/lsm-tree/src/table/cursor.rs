// armilla: the whole file.

//! A cursor over the entries of a table, which reads several blocks at a time.

use super::{
    block::{binary_index::Reader as BinaryIndex, Block, BlockType, Header, Trailer, TRAILER_START_MARKER},
    block_index::{BlockIndex, BlockIndexIterImpl},
    BlockHandle, Table,
};
use crate::{
    visit::{is_behind, Bounds},
    SeqNo, Slice, ValueType,
};
use std::{fs::File, ops::Bound, sync::Arc};

/// Bytes of the first read; each further one is twice as long.
const READ_MIN: usize = 16 << 10;

/// Bytes of one read at most, but for a single block.
const READ_MAX: usize = 128 << 10;

/// Blocks of one cursor that are kept in the cache; more of them only where there is room. Who goes through
/// everything does not push out what others come back to.
const KEPT_MAX: usize = 32;

/// Goes through the entries of one table from a bound on.
pub struct BlockCursor<'t> {
    table: &'t Table,
    bounds: Bounds<'t>,
    /// Where blocks lie; looked up when the first entry is wanted.
    index: Option<BlockIndexIterImpl>,
    is_begun: bool,
    /// The block that ends behind the upper bound is among `handles`, or there are no more.
    is_last: bool,
    /// Blocks to come, the next one at `next`.
    handles: Vec<BlockHandle>,
    next: usize,
    /// Bytes of the file, from an offset on.
    read: Vec<u8>,
    read_at: u64,
    read_max: usize,
    blocks: usize,

    /// The block at hand.
    block: Slice,
    /// Where its next entry begins.
    offset: usize,
    restart_interval: usize,
    binary_index: (u8, u32, u32),
    /// Entries of the restart interval to come, and where its first key is.
    remaining: usize,
    base: usize,

    /// The entry at hand.
    key: Key,
    /// A key that is not written whole.
    joined: Vec<u8>,
    seqno: SeqNo,
    value_type: ValueType,
    value: (usize, usize),
}

enum Key {
    InBlock(usize, usize),
    Joined,
}

impl<'t> BlockCursor<'t> {
    pub fn new(table: &'t Table, bounds: Bounds<'t>) -> Self {
        Self {
            table,
            bounds,
            index: None,
            is_begun: false,
            is_last: false,
            handles: Vec::new(),
            next: 0,
            read: Vec::new(),
            read_at: 0,
            read_max: READ_MIN,
            blocks: 0,
            block: Slice::empty(),
            offset: 0,
            restart_interval: 1,
            binary_index: (2, 0, 0),
            remaining: 0,
            base: 0,
            key: Key::InBlock(0, 0),
            joined: Vec::new(),
            seqno: 0,
            value_type: ValueType::Value,
            value: (0, 0),
        }
    }

    pub fn key(&self) -> &[u8] {
        match self.key {
            Key::InBlock(from, to) => &self.block[from..to],
            Key::Joined => &self.joined,
        }
    }

    pub fn seqno(&self) -> SeqNo {
        self.seqno
    }

    pub fn is_tombstone(&self) -> bool {
        self.value_type.is_tombstone()
    }

    /// The block's bytes, and where the value is in them.
    pub fn value(&self) -> (&Slice, usize, usize) {
        (&self.block, self.value.0, self.value.1)
    }

    /// Goes to the next entry, at first to the first one inside the lower bound; false at the end. Entries behind the upper bound
    /// may come too.
    pub fn advance(&mut self) -> crate::Result<bool> {
        if !self.is_begun {
            self.is_begun = true;
            return self.begin();
        }
        loop {
            if self.block.is_empty() && !self.next_block()? {
                return Ok(false);
            }
            if self.parse().ok_or(crate::Error::InvalidTrailer)? {
                return Ok(true);
            }
            self.block = Slice::empty();
        }
    }

    fn begin(&mut self) -> crate::Result<bool> {
        let index = &self.table.block_index;
        let lo = self.bounds.0;
        self.index = match lo {
            Bound::Included(key) | Bound::Excluded(key) => index.forward_reader(key, SeqNo::MAX),
            Bound::Unbounded => Some(index.iter()),
        };
        if !self.next_block()? {
            return Ok(false);
        }
        if let Bound::Included(key) | Bound::Excluded(key) = lo {
            self.seek(key).ok_or(crate::Error::InvalidTrailer)?;
        }
        loop {
            if !self.advance()? {
                return Ok(false);
            }
            let is_before = match lo {
                Bound::Included(lo) => self.key() < lo,
                Bound::Excluded(lo) => self.key() <= lo,
                Bound::Unbounded => false,
            };
            if !is_before {
                return Ok(true);
            }
        }
    }

    /// Takes up the next block; false when there is none inside the bounds.
    fn next_block(&mut self) -> crate::Result<bool> {
        if self.next == self.handles.len() && !self.look_ahead()? {
            return Ok(false);
        }
        let handle = self.handles[self.next];
        let block = match self.table.cache.get_block(self.table.global_id(), handle.offset()) {
            Some(block) => block,
            None => self.load(handle)?,
        };
        self.next += 1;
        self.blocks += 1;
        let trailer = Trailer::new(&block);
        let fields = fields(trailer.as_slice()).ok_or(crate::Error::InvalidTrailer)?;
        (self.restart_interval, self.binary_index) = fields;
        self.block = block.data;
        self.offset = 0;
        self.remaining = 0;
        Ok(true)
    }

    /// Finds out where the next blocks lie: as many as one read brings.
    fn look_ahead(&mut self) -> crate::Result<bool> {
        self.handles.clear();
        self.next = 0;
        let Some(index) = self.index.as_mut().filter(|_| !self.is_last) else {
            return Ok(false);
        };
        let mut bytes = 0;
        while bytes < self.read_max {
            let Some(handle) = index.next() else {
                self.is_last = true;
                break;
            };
            let handle = handle?;
            // Versions of one key may go on in the next block.
            self.is_last = is_behind(handle.end_key(), self.bounds.1);
            bytes += handle.size() as usize;
            self.handles.push(handle.into_inner());
            if self.is_last {
                break;
            }
        }
        self.read_max = (self.read_max * 2).min(READ_MAX);
        Ok(!self.handles.is_empty())
    }

    /// A block that is not in the cache, read with those behind it.
    fn load(&mut self, handle: BlockHandle) -> crate::Result<Block> {
        let (offset, size) = (*handle.offset(), handle.size() as usize);
        let is_read = offset >= self.read_at
            && offset + size as u64 <= self.read_at + self.read.len() as u64;
        if !is_read {
            let mut length = 0;
            for ahead in &self.handles[self.next..] {
                if *ahead.offset() != offset + length as u64 {
                    break;
                }
                length += ahead.size() as usize;
            }
            self.read.resize(length.max(size), 0);
            self.read_at = offset;
            let file = open(self.table)?;
            if read_exact(&file, &mut self.read, offset).is_err() {
                // What is wrong with a block behind this one is for those to know who come to it.
                self.read.truncate(size);
                if let Err(error) = read_exact(&file, &mut self.read, offset) {
                    self.read.clear();
                    return Err(error.into());
                }
            }
        }
        let from = usize::try_from(offset - self.read_at).unwrap_or(usize::MAX);
        let bytes = self.read.get(from..from.saturating_add(size));
        let bytes = bytes.ok_or(crate::Error::InvalidTrailer)?;
        let table = self.table;
        let block = Block::from_bytes(bytes, handle, table.metadata.data_block_compression)?;
        if block.header.block_type != BlockType::Data {
            return Err(crate::Error::InvalidTag(("BlockType", block.header.block_type.into())));
        }
        let cache = &table.cache;
        let weight = (Header::serialized_len() + block.size()) as u64;
        if self.blocks < KEPT_MAX || cache.size() + weight <= cache.capacity() {
            cache.insert_block(table.global_id(), handle.offset(), block.clone());
        }
        Ok(block)
    }

    /// Goes to the last restart point before a key.
    fn seek(&mut self, needle: &[u8]) -> Option<()> {
        let (step, length, offset) = self.binary_index;
        let index = BinaryIndex::new(&self.block, offset, length, step);
        let (mut left, mut right) = (0, index.len());
        while left < right {
            let middle = usize::midpoint(left, right);
            if head_key(&self.block, index.get(middle))? < needle {
                left = middle + 1;
            } else {
                right = middle;
            }
        }
        self.offset = if left == 0 { 0 } else { index.get(left - 1) };
        Some(())
    }

    /// Takes the next entry of the block apart; false at its end, nothing where it cannot be read.
    fn parse(&mut self) -> Option<bool> {
        let data: &[u8] = &self.block;
        let mut rest = data.get(self.offset..)?;
        let value_type = take_u8(&mut rest)?;
        if value_type == TRAILER_START_MARKER {
            return Some(false);
        }
        self.value_type = ValueType::try_from(value_type).ok()?;
        self.seqno = take_varint(&mut rest)? + self.table.global_seqno();
        let shared = if self.remaining == 0 { None } else { Some(take_varint(&mut rest)? as usize) };
        let key_length = take_varint(&mut rest)? as usize;
        let key_at = data.len() - rest.len();
        rest = rest.get(key_length..)?;
        match shared {
            None => {
                self.key = Key::InBlock(key_at, key_at + key_length);
                self.base = key_at;
                self.remaining = self.restart_interval;
            }
            Some(shared) => {
                self.joined.clear();
                self.joined.extend_from_slice(data.get(self.base..self.base + shared)?);
                self.joined.extend_from_slice(&data[key_at..key_at + key_length]);
                self.key = Key::Joined;
            }
        }
        self.remaining -= 1;
        let length = match self.value_type.is_tombstone() {
            true => 0,
            false => take_varint(&mut rest)? as usize,
        };
        let from = data.len() - rest.len();
        rest.get(..length)?;
        self.value = (from, from + length);
        self.offset = from + length;
        Some(true)
    }
}

/// The table's file.
pub(super) fn open(table: &Table) -> crate::Result<Arc<File>> {
    let id = table.global_id();
    if let Some(file) = table.file_accessor.access_for_table(&id) {
        return Ok(file);
    }
    let file = Arc::new(File::open(&*table.path)?);
    table.file_accessor.insert_for_table(id, file.clone());
    Ok(file)
}

/// The first fields of a block's trailer: its restart interval, and step, length and offset of its binary index.
pub(super) fn fields(mut trailer: &[u8]) -> Option<(usize, (u8, u32, u32))> {
    let interval = usize::from(take_u8(&mut trailer)?);
    let step = take_u8(&mut trailer)?;
    let length = u32::from_le_bytes(trailer.get(..4)?.try_into().ok()?);
    if interval == 0 {
        return None;
    }
    let offset = u32::from_le_bytes(trailer.get(4..8)?.try_into().ok()?);
    Some((interval, (step, length, offset)))
}

/// The key of an entry at a restart point.
#[inline]
pub(super) fn head_key(data: &[u8], at: usize) -> Option<&[u8]> {
    let mut rest = data.get(at..)?.get(1..)?;
    take_varint(&mut rest)?;
    let length = take_varint(&mut rest)? as usize;
    rest.get(..length)
}

#[inline]
pub(crate) fn take_u8(bytes: &mut &[u8]) -> Option<u8> {
    let (first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(*first)
}

#[inline]
pub(crate) fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let first = take_u8(bytes)?;
    if first < 0x80 {
        return Some(u64::from(first));
    }
    let mut number = u64::from(first & 0x7f);
    let mut shift = 7;
    loop {
        let byte = take_u8(bytes)?;
        number |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte < 0x80 {
            return Some(number);
        }
        shift += 7;
    }
}

#[cfg(unix)]
pub(super) fn read_exact(file: &File, bytes: &mut [u8], offset: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

#[cfg(windows)]
pub(super) fn read_exact(file: &File, mut bytes: &mut [u8], mut offset: u64) -> std::io::Result<()> {
    use std::os::windows::fs::FileExt;
    while !bytes.is_empty() {
        let read = file.seek_read(bytes, offset)?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        bytes = &mut bytes[read..];
        offset += read as u64;
    }
    Ok(())
}
