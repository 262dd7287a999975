//! Everything a part knows about one path: its sorted values, who has them, and a column.
//!
//! One block of bytes per path:
//!
//! ```text
//! header   40 bytes: counts, widths, flags
//! offsets  u32 per value + 1     only when values differ in length
//! starts   u32 per value + 1     only when some value has more than one document
//! lists    u32 local numbers, grouped by value, ascending inside a value
//! column   ordinal + 1 per document, 1, 2 or 4 bytes wide; see `column`
//! cuts     one bit per value     only when some value is cut
//! values   the distinct values in order, one behind the other
//! ```
//!
//! The whole array of lists is the ORDER BY order of the path.

use std::ops::Range;

use crate::{
    column::Column,
    documents::partition_point,
    layout::{Cursor, U32},
    locals::{Local, LocalSet},
    range::ValueRange,
    terms::Value,
};

pub(crate) const FLAG_MULTI_VALUED: u32 = 1;
pub(crate) const FLAG_WITHOUT_STARTS: u32 = 2;
pub(crate) const FLAG_WITH_CUTS: u32 = 4;

/// The order in which values or documents are walked through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the lowest to the highest.
    Ascending,
    /// From the highest to the lowest.
    Descending,
}

/// What one part knows about one path, read in place.
///
/// Values are spoken of by their *ordinal*, their position in the part's dictionary; ordinals of
/// different parts have nothing to do with each other. Lists contain dead documents: test each
/// with [`crate::Part::is_dead`], or count with [`crate::Part::count`].
#[derive(Debug, Clone, Copy)]
pub struct PathIndex<'a> {
    documents: u32,
    value_count: u32,
    value_width: u32,
    documents_with: u32,
    flags: u32,
    offsets: &'a [U32],
    starts: &'a [U32],
    lists: &'a [Local],
    column: Option<Column<'a>>,
    cuts: &'a [u8],
    values: &'a [u8],
}

/// One distinct value of a path and the documents that have it.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// The value's position in the part's dictionary.
    pub ordinal: u32,
    /// The value.
    pub value: Value<'a>,
    /// The documents, ascending, dead ones included.
    pub locals: &'a [Local],
}

impl<'a> PathIndex<'a> {
    /// Reads a block; nothing when its arrays do not fit.
    pub(crate) fn read(block: &'a [u8]) -> Option<Self> {
        let mut cursor = Cursor::new(block);
        let documents = cursor.u32()?;
        let value_count = cursor.u32()?;
        let posting_count = cursor.u32()?;
        let documents_with = cursor.u32()?;
        let value_width = cursor.u32()?;
        let column_width = cursor.u32()?;
        let flags = cursor.u32()?;
        cursor.u32()?;
        let values_length = cursor.length()?;
        let count = value_count as usize;
        let offsets = cursor.array(if value_width == 0 { count + 1 } else { 0 })?;
        let without_starts = flags & FLAG_WITHOUT_STARTS != 0;
        let starts = cursor.array(if without_starts { 0 } else { count + 1 })?;
        let lists = cursor.array(posting_count as usize)?;
        let cells = cursor.array((documents as usize).checked_mul(column_width as usize)?)?;
        let column = if column_width == 0 { None } else { Some(Column::new(column_width, cells)?) };
        let with_cuts = flags & FLAG_WITH_CUTS != 0;
        let cuts = cursor.array(if with_cuts { count.div_ceil(8) } else { 0 })?;
        let values = cursor.array(values_length)?;
        let fixed_fits =
            value_width == 0 || count.checked_mul(value_width as usize)? == values_length;
        let unique_fits = !without_starts || value_count == posting_count;
        (cursor.is_at_end() && fixed_fits && unique_fits).then_some(Self {
            documents,
            value_count,
            value_width,
            documents_with,
            flags,
            offsets,
            starts,
            lists,
            column,
            cuts,
            values,
        })
    }

    /// Whether everything inside stays inside: no accessor of a block that passed can panic.
    pub(crate) fn is_consistent(&self, documents: u32) -> bool {
        let highest = self.lists.iter().map(|local| local.get()).max();
        self.documents == documents
            && ascends(self.offsets, self.values.len())
            && ascends(self.starts, self.lists.len())
            && highest.is_none_or(|highest| highest < documents)
            && self.column.is_none_or(|column| column.is_below(self.value_count))
    }

    /// How many distinct values there are.
    #[must_use]
    pub fn value_count(&self) -> u32 {
        self.value_count
    }

    /// How many documents have at least one value here, dead ones included.
    #[must_use]
    pub fn documents_with(&self) -> u32 {
        self.documents_with
    }

    /// Whether some document has more than one value here. Such a path has no column, and a
    /// document may stand in several lists.
    #[must_use]
    pub fn is_multi_valued(&self) -> bool {
        self.flags & FLAG_MULTI_VALUED != 0
    }

    /// The ordinals of all values in a range.
    ///
    /// Only bytes are compared. A cut value stands for all that begin like it, so whoever looks
    /// for a value that may have been cut asks for the shortened bytes, bound included, and checks
    /// the cut ones on the item.
    #[must_use]
    pub fn ordinals(&self, range: &ValueRange) -> Range<u32> {
        let all = 0..self.value_count;
        let start = partition_point(all.clone(), |ordinal| range.starts_after(self.bytes(ordinal)));
        if let Some(exact) = range.as_exact() {
            let equal = (start..all.end).take_while(|ordinal| self.bytes(*ordinal) == exact);
            return start..start + crate::layout::narrow(equal.count());
        }
        start..partition_point(start..all.end, |ordinal| !range.ends_before(self.bytes(ordinal)))
    }

    /// The same where this document may have the only value that is looked for: then one look shows it.
    #[must_use]
    pub fn ordinals_by(&self, range: &ValueRange, local: u32) -> Range<u32> {
        let at = self.column.filter(|column| (local as usize) < column.len());
        let at = at.and_then(|column| column.ordinal(local));
        let (Some(exact), Some(at)) = (range.as_exact(), at) else { return self.ordinals(range) };
        let is_equal = |ordinal: &u32| self.bytes(*ordinal) == exact;
        if !is_equal(&at) {
            return self.ordinals(range);
        }
        // A value and what is cut to the same bytes are neighbours.
        let before = (0..at).rev().take_while(is_equal).count();
        let behind = (at + 1..self.value_count).take_while(is_equal).count();
        at - crate::layout::narrow(before)..at + 1 + crate::layout::narrow(behind)
    }

    /// The value with this ordinal.
    #[must_use]
    pub fn value(&self, ordinal: u32) -> Value<'a> {
        Value { bytes: self.bytes(ordinal), cut: self.is_cut(ordinal) }
    }

    /// Whether the value with this ordinal is cut.
    #[must_use]
    pub fn is_cut(&self, ordinal: u32) -> bool {
        self.cuts.get(ordinal as usize / 8).is_some_and(|byte| byte & (1 << (ordinal % 8)) != 0)
    }

    /// The documents with this value, ascending, dead ones included.
    #[must_use]
    pub fn list(&self, ordinal: u32) -> &'a [Local] {
        self.lists(&(ordinal..ordinal + 1))
    }

    /// The documents with values in a range of ordinals: the lists of the values one behind the
    /// other, so ascending only if the range has one value. Dead ones included.
    #[must_use]
    pub fn lists(&self, ordinals: &Range<u32>) -> &'a [Local] {
        if ordinals.is_empty() {
            return &[];
        }
        &self.lists[self.start(ordinals.start)..self.start(ordinals.end)]
    }

    /// The documents with values in a range of ordinals, as a set. Dead ones included.
    #[must_use]
    pub fn set(&self, ordinals: &Range<u32>) -> LocalSet {
        let mut set = LocalSet::none(self.documents);
        set.extend(self.lists(ordinals));
        set
    }

    /// The values of a range with their documents, in value order.
    pub fn walk(
        &self,
        ordinals: Range<u32>,
        direction: Direction,
    ) -> impl DoubleEndedIterator<Item = Step<'a>> + use<'a> {
        let index = *self;
        let (start, count) = (ordinals.start, ordinals.len());
        (0..count).map(move |position| {
            let position = match direction {
                Direction::Ascending => position,
                Direction::Descending => count - 1 - position,
            };
            index.step(start + crate::layout::narrow(position))
        })
    }

    /// One value with its documents.
    #[must_use]
    pub fn step(&self, ordinal: u32) -> Step<'a> {
        Step { ordinal, value: self.value(ordinal), locals: self.list(ordinal) }
    }

    /// The column, where the path has one.
    #[must_use]
    pub fn column(&self) -> Option<Column<'a>> {
        self.column
    }

    /// The value of a document through the column; nothing where it is undefined or there is no
    /// column.
    #[must_use]
    pub fn value_of(&self, local: u32) -> Option<Value<'a>> {
        Some(self.value(self.column?.ordinal(local)?))
    }

    /// Whether a document has a value in a range of ordinals: by column, or by looking into the
    /// lists one value after the other.
    #[must_use]
    pub fn contains(&self, local: u32, ordinals: &Range<u32>) -> bool {
        match self.column {
            Some(column) => column.matches(local, ordinals),
            None => ordinals.clone().any(|ordinal| {
                self.list(ordinal).binary_search_by_key(&local, |found| found.get()).is_ok()
            }),
        }
    }

    fn bytes(&self, ordinal: u32) -> &'a [u8] {
        let ordinal = ordinal as usize;
        if self.value_width > 0 {
            let width = self.value_width as usize;
            return &self.values[ordinal * width..(ordinal + 1) * width];
        }
        &self.values[self.offsets[ordinal].get() as usize..self.offsets[ordinal + 1].get() as usize]
    }

    fn start(&self, ordinal: u32) -> usize {
        match self.starts.get(ordinal as usize) {
            Some(start) => start.get() as usize,
            None => ordinal as usize,
        }
    }
}

/// Whether a list begins with 0, ends with `end` and never falls. No early exit: this is faster.
fn ascends(list: &[U32], end: usize) -> bool {
    let rises =
        list.windows(2).fold(true, |so_far, pair| so_far & (pair[0].get() <= pair[1].get()));
    let first = list.first().is_none_or(|first| first.get() == 0);
    rises && first && list.last().is_none_or(|last| last.get() as usize == end)
}
