//! The column of a path: for each document the ordinal of its value.
//!
//! Written where a path has one value per document and at least an eighth of the documents have
//! it. A predicate becomes a range of ordinals once, then one array read and two comparisons per
//! document.

use std::ops::Range;

use zerocopy::FromBytes;

use crate::layout::U32;

type U16 = zerocopy::little_endian::U16;

/// The value ordinals of one path, by local document number.
#[derive(Debug, Clone, Copy)]
pub struct Column<'a> {
    cells: Cells<'a>,
}

/// Ordinal + 1 per document, 0 where the path is undefined.
#[derive(Debug, Clone, Copy)]
enum Cells<'a> {
    One(&'a [u8]),
    Two(&'a [U16]),
    Four(&'a [U32]),
}

impl<'a> Column<'a> {
    /// Reads cells of `width` bytes.
    pub(crate) fn new(width: u32, bytes: &'a [u8]) -> Option<Self> {
        let cells = match width {
            1 => Cells::One(bytes),
            2 => Cells::Two(<[U16]>::ref_from_bytes(bytes).ok()?),
            4 => Cells::Four(<[U32]>::ref_from_bytes(bytes).ok()?),
            _ => return None,
        };
        Some(Self { cells })
    }

    /// The ordinal of the document's value, or nothing where the path is undefined.
    #[inline]
    #[must_use]
    pub fn ordinal(&self, local: u32) -> Option<u32> {
        self.cell(local).checked_sub(1)
    }

    /// Whether the document has a value with an ordinal in the range.
    #[inline]
    #[must_use]
    pub fn matches(&self, local: u32, ordinals: &Range<u32>) -> bool {
        // Undefined wraps around to the highest number, which no range contains.
        let ordinal = self.cell(local).wrapping_sub(1);
        ordinals.start <= ordinal && ordinal < ordinals.end
    }

    /// Whether the document has any value at this path.
    #[inline]
    #[must_use]
    pub fn is_defined(&self, local: u32) -> bool {
        self.cell(local) != 0
    }

    /// How many documents the column speaks of.
    #[must_use]
    pub fn len(&self) -> usize {
        match self.cells {
            Cells::One(cells) => cells.len(),
            Cells::Two(cells) => cells.len(),
            Cells::Four(cells) => cells.len(),
        }
    }

    /// Whether there is no document.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether every ordinal is below `values`. Written without early exit, which is faster.
    pub(crate) fn is_below(&self, values: u32) -> bool {
        let highest = match self.cells {
            Cells::One(cells) => cells.iter().copied().max().map(u32::from),
            Cells::Two(cells) => cells.iter().map(|cell| cell.get()).max().map(u32::from),
            Cells::Four(cells) => cells.iter().map(|cell| cell.get()).max(),
        };
        highest.is_none_or(|highest| highest <= values)
    }

    #[inline]
    fn cell(&self, local: u32) -> u32 {
        let local = local as usize;
        match self.cells {
            Cells::One(cells) => cells[local].into(),
            Cells::Two(cells) => cells[local].get().into(),
            Cells::Four(cells) => cells[local].get(),
        }
    }
}

/// The narrowest cell that holds ordinals + 1 of so many values.
pub(crate) fn width_for(values: u32) -> u32 {
    match values {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        _ => 4,
    }
}

/// The bytes of a column with cells of `width` bytes.
pub(crate) fn encode(width: u32, cells: &[u32]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(cells.len() * width as usize);
    match width {
        1 => bytes.extend(cells.iter().map(|cell| cell.to_le_bytes()[0])),
        2 => cells.iter().for_each(|cell| bytes.extend_from_slice(&cell.to_le_bytes()[..2])),
        _ => cells.iter().for_each(|cell| bytes.extend_from_slice(&cell.to_le_bytes())),
    }
    bytes
}
