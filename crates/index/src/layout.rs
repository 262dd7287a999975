//! How blocks of bytes are laid out: little-endian integers, every array padded to eight bytes.
//!
//! A block is a fixed header followed by arrays whose lengths the header gives. [`Cursor`] walks
//! over a block and refuses whatever does not fit, so a decoder written with it cannot read past
//! the end; [`Block`] is the writing side.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A little-endian number of four bytes, at any alignment.
pub(crate) type U32 = zerocopy::little_endian::U32;
/// A little-endian number of eight bytes, at any alignment.
pub(crate) type U64 = zerocopy::little_endian::U64;

/// Arrays begin at multiples of this.
pub(crate) const ALIGNMENT: usize = 8;

/// Reads a block from its beginning; `None` means that the block is shorter than it says.
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The next bytes, without padding.
    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(length)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        let bytes = self.take(4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        let bytes = self.take(8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    /// A number that is used as a length or a position in memory.
    pub(crate) fn length(&mut self) -> Option<usize> {
        usize::try_from(self.u64()?).ok()
    }

    /// The next array of `count` elements, and the padding behind it.
    pub(crate) fn array<T: FromBytes + Immutable + KnownLayout>(
        &mut self,
        count: usize,
    ) -> Option<&'a [T]> {
        let length = count.checked_mul(size_of::<T>())?;
        let taken = self.take(length)?;
        self.take(padding(length))?;
        <[T]>::ref_from_bytes(taken).ok()
    }

    /// The position of the next array of `length` bytes, which is skipped with its padding.
    pub(crate) fn skip(&mut self, length: usize) -> Option<usize> {
        let at = self.at;
        self.take(length)?;
        self.take(padding(length))?;
        Some(at)
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }
}

/// Writes a block: numbers of the header first, then padded arrays.
#[derive(Default)]
pub(crate) struct Block {
    bytes: Vec<u8>,
}

impl Block {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self { bytes: Vec::with_capacity(capacity) }
    }

    pub(crate) fn u32(&mut self, number: u32) {
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, number: u64) {
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }

    pub(crate) fn length(&mut self, length: usize) {
        self.u64(length as u64);
    }

    /// Bytes without padding.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// An array and its padding.
    pub(crate) fn array<T: IntoBytes + Immutable>(&mut self, elements: &[T]) {
        let bytes = elements.as_bytes();
        self.bytes.extend_from_slice(bytes);
        let padded = self.bytes.len() + padding(bytes.len());
        self.bytes.resize(padded, 0);
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// The zero bytes that follow an array of `length` bytes.
pub(crate) fn padding(length: usize) -> usize {
    length.next_multiple_of(ALIGNMENT) - length
}

/// A count that is known to fit: parts are limited to fewer documents and postings than this.
pub(crate) fn narrow(count: usize) -> u32 {
    u32::try_from(count).expect("a part is sealed long before it has 2^32 of anything")
}
