//! Writes the block of one path; see `path_index` for its form.

use std::borrow::Cow;

use zerocopy::IntoBytes;

use crate::{
    column,
    deleted::bits,
    layout::{ALIGNMENT, Block, U32, narrow},
    locals::Local,
    path_index::{FLAG_MULTI_VALUED, FLAG_WITH_CUTS, FLAG_WITHOUT_STARTS},
    terms::Value,
};

/// A path gets a column when at least one document in so many has it.
const COLUMN_SHARE: u32 = 8;

/// Long lists are put in order through a bitmap: one in so many documents makes a list long.
const BITMAP_SHARE: usize = 32;

/// Builds one path after the other for a part of a given size, reusing its memory.
///
/// Values come in order; the documents of one value may come in any order, and twice.
pub(crate) struct PathBuilder {
    documents: u32,
    documents_with: u32,
    multi_valued: bool,
    offsets: Vec<U32>,
    starts: Vec<U32>,
    lists: Vec<Local>,
    cuts: Vec<bool>,
    values: Vec<u8>,
    /// Ordinal + 1 per document; all zero between paths.
    cells: Vec<u32>,
    /// All zero between values.
    bitmap: Vec<u64>,
    /// Whether the list being written is ascending so far.
    in_order: bool,
}

impl PathBuilder {
    pub(crate) fn new(documents: u32) -> Self {
        Self {
            documents,
            documents_with: 0,
            multi_valued: false,
            offsets: vec![],
            starts: vec![],
            lists: vec![],
            cuts: vec![],
            values: vec![],
            cells: vec![0; documents as usize],
            bitmap: vec![],
            in_order: true,
        }
    }

    /// Begins the next value.
    pub(crate) fn begin(&mut self, value: Value<'_>) {
        self.offsets.push(U32::new(narrow(self.values.len())));
        self.starts.push(U32::new(narrow(self.lists.len())));
        self.cuts.push(value.cut);
        self.values.extend_from_slice(value.bytes);
        self.in_order = true;
    }

    /// Adds a document to the value.
    #[inline]
    pub(crate) fn push(&mut self, local: u32) {
        let start = self.starts.last().map_or(0, |start| start.get() as usize);
        if let Some(last) = self.lists.get(start..).and_then(<[Local]>::last) {
            if last.get() == local {
                return;
            }
            self.in_order &= last.get() < local;
        }
        self.lists.push(Local::new(local));
    }

    /// Ends the value; one without documents leaves no trace.
    pub(crate) fn end(&mut self) {
        let start = self.starts.last().map_or(0, |start| start.get() as usize);
        if self.lists.len() == start {
            self.take_back();
            return;
        }
        if !self.in_order {
            self.put_in_order(start);
        }
        let cell = narrow(self.starts.len());
        for local in &self.lists[start..] {
            let slot = &mut self.cells[local.get() as usize];
            if *slot == 0 {
                self.documents_with += 1;
            } else {
                self.multi_valued = true;
            }
            *slot = cell;
        }
    }

    /// Hands over the block of the path in pieces, unless it has no value. The builder is ready
    /// for the next path.
    pub(crate) fn finish<T>(&mut self, visit: impl FnOnce(&[Cow<'_, [u8]>]) -> T) -> Option<T> {
        let result = (!self.starts.is_empty()).then(|| visit(&self.encode()));
        for local in &self.lists {
            self.cells[local.get() as usize] = 0;
        }
        self.documents_with = 0;
        self.multi_valued = false;
        self.offsets.clear();
        self.starts.clear();
        self.lists.clear();
        self.cuts.clear();
        self.values.clear();
        result
    }

    fn take_back(&mut self) {
        let begun = self.offsets.pop().map_or(0, |offset| offset.get() as usize);
        self.values.truncate(begun);
        self.starts.pop();
        self.cuts.pop();
    }

    fn put_in_order(&mut self, start: usize) {
        let list = &mut self.lists[start..];
        if list.len() * BITMAP_SHARE < self.documents as usize {
            list.sort_by_key(|local| local.get());
            let mut kept = start;
            for position in start..self.lists.len() {
                if position == start || self.lists[position] != self.lists[kept - 1] {
                    self.lists[kept] = self.lists[position];
                    kept += 1;
                }
            }
            self.lists.truncate(kept);
            return;
        }
        self.bitmap.resize((self.documents as usize).div_ceil(64), 0);
        for local in self.lists.drain(start..) {
            self.bitmap[local.get() as usize / 64] |= 1 << (local.get() % 64);
        }
        self.lists.extend(bits(&self.bitmap).map(Local::new));
        self.bitmap.fill(0);
    }

    /// The pieces of the block: each is followed by padding.
    fn encode(&mut self) -> Vec<Cow<'_, [u8]>> {
        let value_count = narrow(self.starts.len());
        let without_starts = self.lists.len() == self.starts.len();
        let with_cuts = self.cuts.iter().any(|cut| *cut);
        let value_width = self.common_width();
        let with_column =
            !self.multi_valued && self.documents_with >= self.documents / COLUMN_SHARE;
        let column_width = if with_column { column::width_for(value_count) } else { 0 };
        self.offsets.push(U32::new(narrow(self.values.len())));
        self.starts.push(U32::new(narrow(self.lists.len())));

        let flag = |set: bool, flag: u32| if set { flag } else { 0 };
        let mut header = Block::default();
        header.u32(self.documents);
        header.u32(value_count);
        header.u32(narrow(self.lists.len()));
        header.u32(self.documents_with);
        header.u32(value_width);
        header.u32(column_width);
        header.u32(
            flag(self.multi_valued, FLAG_MULTI_VALUED)
                | flag(without_starts, FLAG_WITHOUT_STARTS)
                | flag(with_cuts, FLAG_WITH_CUTS),
        );
        header.u32(0);
        header.length(self.values.len());

        let mut pieces = vec![Cow::Owned(header.finish())];
        if value_width == 0 {
            pieces.push(Cow::Borrowed(self.offsets.as_bytes()));
        }
        if !without_starts {
            pieces.push(Cow::Borrowed(self.starts.as_bytes()));
        }
        pieces.push(Cow::Borrowed(self.lists.as_bytes()));
        if with_column {
            pieces.push(Cow::Owned(column::encode(column_width, &self.cells)));
        }
        if with_cuts {
            pieces.push(Cow::Owned(pack(&self.cuts)));
        }
        pieces.push(Cow::Borrowed(&self.values));
        pieces
    }

    /// The length all values share, or 0.
    fn common_width(&self) -> u32 {
        let length = narrow(self.values.len());
        let count = narrow(self.offsets.len());
        let width = length / count.max(1);
        let position = |ordinal: usize| width * narrow(ordinal);
        let fixed = self.offsets.iter().enumerate().all(|(o, offset)| offset.get() == position(o));
        if fixed && width * count == length { width } else { 0 }
    }
}

/// The pieces of a block put together, with their padding.
pub(crate) fn join(pieces: &[Cow<'_, [u8]>]) -> Vec<u8> {
    let length = pieces.iter().map(|piece| piece.len() + ALIGNMENT).sum();
    let mut block = Block::with_capacity(length);
    pieces.iter().for_each(|piece| block.array(piece.as_ref()));
    block.finish()
}

fn pack(flags: &[bool]) -> Vec<u8> {
    let byte = |eight: &[bool]| {
        eight.iter().enumerate().fold(0u8, |byte, (bit, set)| byte | (u8::from(*set) << bit))
    };
    flags.chunks(8).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::{
        path_index::{Direction, PathIndex},
        range::ValueRange,
    };
    use proptest::prelude::*;

    type Plain = BTreeMap<(Vec<u8>, bool), BTreeSet<u32>>;

    fn plain(documents: u32) -> impl Strategy<Value = Plain> {
        let value = (proptest::collection::vec(0u8..4, 0..4), proptest::bool::weighted(0.2));
        let list = proptest::collection::btree_set(0..documents, 1..20);
        proptest::collection::btree_map(value, list, 0..30)
    }

    fn build(builder: &mut PathBuilder, plain: &Plain, reverse: bool) -> Option<Vec<u8>> {
        for ((bytes, cut), list) in plain {
            builder.begin(Value { bytes, cut: *cut });
            let mut list: Vec<u32> = list.iter().copied().collect();
            if reverse {
                list.reverse();
            }
            list.iter().for_each(|local| builder.push(*local));
            builder.end();
        }
        builder.finish(join)
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            first in plain(100), second in plain(100), reverse: bool,
            from in proptest::collection::vec(0u8..4, 0..4),
        ) {
            let mut builder = PathBuilder::new(100);
            build(&mut builder, &first, reverse);
            let Some(block) = build(&mut builder, &second, reverse) else {
                prop_assert!(second.is_empty());
                return Ok(());
            };
            let index = PathIndex::read(&block).unwrap();
            prop_assert!(index.is_consistent(100));
            prop_assert_eq!(index.value_count() as usize, second.len());
            let with: BTreeSet<u32> = second.values().flatten().copied().collect();
            prop_assert_eq!(index.documents_with() as usize, with.len());
            let postings: usize = second.values().map(BTreeSet::len).sum();
            prop_assert_eq!(index.is_multi_valued(), postings > with.len());
            for (step, ((bytes, cut), list)) in
                index.walk(0..index.value_count(), Direction::Ascending).zip(&second)
            {
                prop_assert_eq!(step.value, Value { bytes, cut: *cut });
                prop_assert!(step.locals.iter().map(|l| l.get()).eq(list.iter().copied()));
                for local in list {
                    prop_assert!(index.contains(*local, &(step.ordinal..step.ordinal + 1)));
                    if index.column().is_some() {
                        prop_assert_eq!(index.value_of(*local), Some(step.value));
                    }
                }
            }
            for range in [ValueRange::exact(from.clone()), ValueRange::prefix(&from), ValueRange::at_least(from.clone()), ValueRange::below(from)] {
                let ordinals = index.ordinals(&range);
                let by_document = |local| index.ordinals_by(&range, local);
                prop_assert!((0..100).all(|local| by_document(local) == ordinals));
                let expected = second.keys().filter(|(bytes, _)| range.contains(bytes)).count();
                prop_assert_eq!(ordinals.len(), expected);
                prop_assert!(ordinals.into_iter().all(|o| range.contains(index.value(o).bytes)));
            }
        }

        #[test]
        fn a_changed_byte_is_refused_or_read_without_panic(plain in plain(50), at: prop::sample::Index, byte: u8) {
            let Some(mut block) = build(&mut PathBuilder::new(50), &plain, false) else { return Ok(()) };
            let at = at.index(block.len());
            block[at] = byte;
            if let Some(index) = PathIndex::read(&block).filter(|index| index.is_consistent(50)) {
                index.walk(index.ordinals(&ValueRange::all()), Direction::Descending).for_each(drop);
                assert!((0..50).all(|local| index.value_of(local).is_none_or(|value| value.bytes.len() < 9)));
            }
        }
    }
}
