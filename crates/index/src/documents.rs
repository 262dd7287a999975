//! The document table of a part: a block of bytes, sorted by (epk, docno).
//!
//! ```text
//! header    64 bytes: counts, widths, bases, lowest and highest LSN
//! offsets   u32 per distinct epk + 1   only when epks differ in length
//! firsts    u32 per distinct epk + 1   first local number; left out when every epk is unique
//! hints     u32 per 64 documents       ordinal of the epk there; left out with firsts
//! docnos    u32 or u64 per document    above the lowest
//! lsns      u32 or u64 per document    above the lowest
//! hashes    u64 per document
//! ts        u32 per document
//! sizes     u32 per document           bytes of the items' texts
//! ttl       i32 per document           only when one of them is not 0
//! epks      the distinct epks, one behind the other
//! ```
//!
//! A logical partition is a run of local numbers; so is every range of epks.

mod builder;

use std::{
    cmp::Ordering,
    ops::{Bound, Range},
    sync::atomic::{AtomicU64, Ordering as Memory},
};

use bytes::Bytes;
use zerocopy::FromBytes;

use crate::{
    document::DocumentRef,
    error::{Error, Result},
    layout::{Cursor, U32, U64, narrow},
    range::EpkRange,
};

pub(crate) use builder::DocumentsBuilder;

const HEADER_LENGTH: usize = 64;
const HINT_EVERY: usize = 64;

/// The document table, checked once and read in place.
#[derive(Debug, Clone)]
pub(crate) struct Documents {
    bytes: Bytes,
    layout: Layout,
    serial: u64,
}

/// Where things are in the block, and how wide.
#[derive(Debug, Clone, Copy)]
struct Layout {
    count: u32,
    epk_count: u32,
    /// 0 when epks differ in length.
    epk_width: u32,
    docno_wide: bool,
    lsn_wide: bool,
    docno_low: u64,
    docno_high: u64,
    lsn_low: u64,
    lsn_high: u64,
    epks_length: usize,
    offsets: usize,
    firsts: usize,
    hints: usize,
    docnos: usize,
    lsns: usize,
    hashes: usize,
    ts: usize,
    sizes: usize,
    ttl: Option<usize>,
    epks: usize,
}

const DOCNO_WIDE: u32 = 1;
const LSN_WIDE: u32 = 2;
const WITH_TTL: u32 = 4;

impl Documents {
    fn new(bytes: Bytes, layout: Layout) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { bytes, layout, serial: NEXT.fetch_add(1, Memory::Relaxed) }
    }

    /// Checks a block and keeps it.
    pub(crate) fn open(bytes: Bytes) -> Result<Self> {
        let layout = Layout::read(&bytes).ok_or_else(|| Error::damaged("document table"))?;
        let documents = Self::new(bytes, layout);
        if documents.is_consistent() { Ok(documents) } else { Err(Error::damaged("epk table")) }
    }

    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// A number that no other table of this process has, but for its clones.
    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    pub(crate) fn len(&self) -> u32 {
        self.layout.count
    }

    pub(crate) fn lsn_low(&self) -> u64 {
        self.layout.lsn_low
    }

    pub(crate) fn lsn_high(&self) -> u64 {
        self.layout.lsn_high
    }

    pub(crate) fn get(&self, local: u32) -> DocumentRef<'_> {
        self.with_epk(local, self.epk(self.epk_ordinal(local)))
    }

    pub(crate) fn docno(&self, local: u32) -> u64 {
        let layout = &self.layout;
        layout.docno_low.wrapping_add(self.relative(layout.docnos, layout.docno_wide, local))
    }

    pub(crate) fn lsn(&self, local: u32) -> u64 {
        let layout = &self.layout;
        layout.lsn_low.wrapping_add(self.relative(layout.lsns, layout.lsn_wide, local))
    }

    pub(crate) fn hash(&self, local: u32) -> u64 {
        self.u64s(self.layout.hashes, self.len())[local as usize].get()
    }

    pub(crate) fn ts(&self, local: u32) -> u32 {
        self.u32s(self.layout.ts, self.len())[local as usize].get()
    }

    pub(crate) fn size(&self, local: u32) -> u32 {
        self.u32s(self.layout.sizes, self.len())[local as usize].get()
    }

    pub(crate) fn ttl(&self, local: u32) -> i32 {
        match self.layout.ttl {
            Some(at) => self.u32s(at, self.len())[local as usize].get().cast_signed(),
            None => 0,
        }
    }

    /// The local numbers of a range of epks: always one run.
    pub(crate) fn locals_of(&self, range: &EpkRange) -> Range<u32> {
        if let Some(only) = range.as_exact().or_else(|| self.only_epk(range)) {
            let start = self.epk_lower_bound(only);
            let is_there = start < self.epk_count() && self.epk(start) == only;
            return match is_there {
                true => self.locals_of_epk(start),
                false => 0..0,
            };
        }
        if self.is_inside(range) {
            return 0..self.len();
        }
        let start = self.epk_search(|epk| range.starts_after(epk));
        let end = self.epk_search_from(start, |epk| !range.ends_before(epk));
        self.first(start)..self.first(end)
    }

    /// The only epk of the table's width that a range may hold: queries of one logical partition address it with all that begins with it.
    fn only_epk<'r>(&self, range: &'r EpkRange) -> Option<&'r [u8]> {
        let (Bound::Included(start), Bound::Excluded(end)) = (&range.start, &range.end) else {
            return None;
        };
        let is_of_width = start.len() == self.layout.epk_width as usize && !start.is_empty();
        let is_only = is_of_width && end.len() == start.len() + 1 && end.starts_with(start);
        is_only.then_some(start)
    }

    /// The first epk that is not below this one.
    fn epk_lower_bound(&self, wanted: &[u8]) -> u32 {
        let Layout { epk_width, epks, epks_length, .. } = self.layout;
        let (16, Ok(wanted)) = (epk_width, <[u8; 16]>::try_from(wanted)) else {
            return self.epk_search(|epk| epk < wanted);
        };
        // Hashes: compared as numbers.
        let wanted = u128::from_be_bytes(wanted);
        let (all, _) = self.bytes[epks..epks + epks_length].as_chunks::<16>();
        let below = |ordinal: u32| u128::from_be_bytes(all[ordinal as usize]) < wanted;
        partition_point(0..self.layout.epk_count, below)
    }

    /// True when no document lies outside of a range of epks. Most queries ask for a whole partition.
    fn is_inside(&self, range: &EpkRange) -> bool {
        let Some(last) = self.epk_count().checked_sub(1) else { return true };
        !range.starts_after(self.epk(0)) && !range.ends_before(self.epk(last))
    }

    /// The versions of one document; more than one only if its owner forgot to replace.
    pub(crate) fn find(&self, epk: &[u8], docno: u64) -> Range<u32> {
        if docno < self.layout.docno_low || docno > self.layout.docno_high {
            return 0..0;
        }
        let ordinal = self.epk_lower_bound(epk);
        if ordinal >= self.epk_count() || self.epk(ordinal) != epk {
            return 0..0;
        }
        let run = self.locals_of_epk(ordinal);
        let start = partition_point(run.clone(), |local| self.docno(local) < docno);
        let end = partition_point(start..run.end, |local| self.docno(local) <= docno);
        start..end
    }

    /// The first local number whose (epk, docno) is not below the given one.
    pub(crate) fn lower_bound(&self, epk: &[u8], docno: u64) -> u32 {
        let ordinal = self.epk_lower_bound(epk);
        if ordinal >= self.epk_count() || self.epk(ordinal) != epk {
            return self.first(ordinal);
        }
        partition_point(self.locals_of_epk(ordinal), |local| self.docno(local) < docno)
    }

    pub(crate) fn epk_count(&self) -> u32 {
        self.layout.epk_count
    }

    pub(crate) fn epk(&self, ordinal: u32) -> &[u8] {
        let Layout { epk_width, epks, epks_length, offsets, epk_count, .. } = self.layout;
        let all = &self.bytes[epks..epks + epks_length];
        if epk_width > 0 {
            let start = ordinal as usize * epk_width as usize;
            return &all[start..start + epk_width as usize];
        }
        let offsets = self.u32s(offsets, epk_count + 1);
        &all[offsets[ordinal as usize].get() as usize..offsets[ordinal as usize + 1].get() as usize]
    }

    /// The local numbers of one distinct epk.
    pub(crate) fn locals_of_epk(&self, ordinal: u32) -> Range<u32> {
        self.first(ordinal)..self.first(ordinal + 1)
    }

    /// The ordinal of a document's epk among the distinct ones.
    pub(crate) fn epk_ordinal(&self, local: u32) -> u32 {
        if self.layout.epk_count == self.layout.count {
            return local;
        }
        let hints = self.u32s(self.layout.hints, self.hint_count());
        let hint = local as usize / HINT_EVERY;
        let low = hints[hint].get();
        let high = hints.get(hint + 1).map_or(self.layout.epk_count, |next| next.get() + 1);
        let firsts = self.u32s(self.layout.firsts, self.layout.epk_count + 1);
        partition_point(low..high, |ordinal| firsts[ordinal as usize].get() <= local) - 1
    }

    /// A document whose epk is known already.
    pub(crate) fn with_epk<'a>(&self, local: u32, epk: &'a [u8]) -> DocumentRef<'a> {
        DocumentRef {
            epk,
            docno: self.docno(local),
            lsn: self.lsn(local),
            hash: self.hash(local),
            ts: self.ts(local),
            ttl: self.ttl(local),
            size: self.size(local),
        }
    }

    fn first(&self, ordinal: u32) -> u32 {
        if self.layout.epk_count == self.layout.count {
            return ordinal;
        }
        self.u32s(self.layout.firsts, self.layout.epk_count + 1)[ordinal as usize].get()
    }

    fn epk_search(&self, below: impl Fn(&[u8]) -> bool) -> u32 {
        partition_point(0..self.layout.epk_count, |ordinal| below(self.epk(ordinal)))
    }

    /// The same from an ordinal on, quickest when it is near.
    fn epk_search_from(&self, start: u32, below: impl Fn(&[u8]) -> bool) -> u32 {
        let (mut low, mut step) = (start, 1);
        loop {
            let high = low.saturating_add(step);
            if high >= self.layout.epk_count {
                return partition_point(low..self.layout.epk_count, |at| below(self.epk(at)));
            }
            if !below(self.epk(high)) {
                return partition_point(low..high, |at| below(self.epk(at)));
            }
            (low, step) = (high + 1, step.saturating_mul(2));
        }
    }

    fn relative(&self, at: usize, wide: bool, local: u32) -> u64 {
        if wide {
            self.u64s(at, self.len())[local as usize].get()
        } else {
            self.u32s(at, self.len())[local as usize].get().into()
        }
    }

    fn hint_count(&self) -> u32 {
        narrow((self.layout.count as usize).div_ceil(HINT_EVERY))
    }

    fn u32s(&self, at: usize, count: u32) -> &[U32] {
        let bytes = &self.bytes[at..at + count as usize * 4];
        <[U32]>::ref_from_bytes(bytes).expect("the length is a multiple of four")
    }

    fn u64s(&self, at: usize, count: u32) -> &[U64] {
        let bytes = &self.bytes[at..at + count as usize * 8];
        <[U64]>::ref_from_bytes(bytes).expect("the length is a multiple of eight")
    }

    /// Whether offsets, first numbers and hints stay inside what they point into.
    fn is_consistent(&self) -> bool {
        let Layout { count, epk_count, epk_width, epks_length, .. } = self.layout;
        let offsets_hold = epk_width > 0
            || ascends(self.u32s(self.layout.offsets, epk_count + 1), epks_length, true);
        if epk_count == count {
            return offsets_hold;
        }
        let firsts = self.u32s(self.layout.firsts, epk_count + 1);
        let hints = self.u32s(self.layout.hints, self.hint_count());
        let hints_hold = hints.iter().enumerate().all(|(number, hint)| {
            let (hint, local) = (hint.get() as usize, number * HINT_EVERY);
            hint < epk_count as usize
                && firsts[hint].get() as usize <= local
                && local < firsts[hint + 1].get() as usize
        });
        offsets_hold && ascends(firsts, count as usize, false) && hints_hold
    }
}

/// Whether a list begins with 0, ends with `end` and never falls (or stays, unless it may).
fn ascends(list: &[U32], end: usize, may_stay: bool) -> bool {
    let ordered = |pair: &[U32]| match pair[0].get().cmp(&pair[1].get()) {
        Ordering::Less => true,
        Ordering::Equal => may_stay,
        Ordering::Greater => false,
    };
    list.first().is_some_and(|first| first.get() == 0)
        && list.last().is_some_and(|last| last.get() as usize == end)
        && list.windows(2).all(ordered)
}

/// Binary search over numbers.
pub(crate) fn partition_point(range: Range<u32>, below: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (range.start, range.end.max(range.start));
    while low < high {
        let middle = low + (high - low) / 2;
        if below(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

impl Layout {
    fn read(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(bytes);
        let count = cursor.u32()?;
        let epk_count = cursor.u32()?;
        let epk_width = cursor.u32()?;
        let flags = cursor.u32()?;
        let docno_low = cursor.u64()?;
        let docno_high = cursor.u64()?;
        let lsn_low = cursor.u64()?;
        let lsn_high = cursor.u64()?;
        let epks_length = cursor.length()?;
        cursor.u64()?;
        if epk_count > count || (count > 0 && epk_count == 0) {
            return None;
        }
        let (documents, epks) = (count as usize, epk_count as usize);
        if epk_width > 0 && epks.checked_mul(epk_width as usize)? != epks_length {
            return None;
        }
        let grouped = epk_count < count;
        let offsets = cursor.skip(if epk_width == 0 { (epks + 1) * 4 } else { 0 })?;
        let firsts = cursor.skip(if grouped { (epks + 1) * 4 } else { 0 })?;
        let hints = cursor.skip(if grouped { documents.div_ceil(HINT_EVERY) * 4 } else { 0 })?;
        let wide = |flag| if flags & flag != 0 { 8 } else { 4 };
        let docnos = cursor.skip(documents * wide(DOCNO_WIDE))?;
        let lsns = cursor.skip(documents * wide(LSN_WIDE))?;
        let hashes = cursor.skip(documents * 8)?;
        let ts = cursor.skip(documents * 4)?;
        let sizes = cursor.skip(documents * 4)?;
        let ttl = if flags & WITH_TTL != 0 { Some(cursor.skip(documents * 4)?) } else { None };
        let epks = cursor.skip(epks_length)?;
        cursor.is_at_end().then_some(Self {
            count,
            epk_count,
            epk_width,
            docno_wide: flags & DOCNO_WIDE != 0,
            lsn_wide: flags & LSN_WIDE != 0,
            docno_low,
            docno_high,
            lsn_low,
            lsn_high,
            epks_length,
            offsets,
            firsts,
            hints,
            docnos,
            lsns,
            hashes,
            ts,
            sizes,
            ttl,
            epks,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;
    use proptest::prelude::*;

    fn document(epk: Vec<u8>, docno: u64, lsn: u64, ttl: i32) -> Document {
        Document { epk, docno, lsn, hash: docno ^ lsn, ts: 7, ttl, size: 9 }
    }

    fn documents() -> impl Strategy<Value = Vec<Document>> {
        let one = (
            proptest::collection::vec(0u8..3, 0..4),
            prop_oneof![0u64..50, Just(u64::MAX >> 12)],
            prop_oneof![100u64..200, Just(u64::MAX >> 1)],
            prop_oneof![Just(0), Just(-1), 1i32..100],
        );
        proptest::collection::vec(one, 0..200).prop_map(|all| {
            let mut all: Vec<_> = all
                .into_iter()
                .map(|(epk, docno, lsn, ttl)| document(epk, docno, lsn, ttl))
                .collect();
            all.sort_by(|a, b| (&a.epk, a.docno).cmp(&(&b.epk, b.docno)));
            all.dedup_by(|a, b| (&a.epk, a.docno) == (&b.epk, b.docno));
            all
        })
    }

    fn build(all: &[Document]) -> Documents {
        let mut builder = DocumentsBuilder::default();
        for document in all {
            builder.push(document.as_ref());
        }
        builder.finish()
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(all in documents(), epk in proptest::collection::vec(0u8..3, 0..4)) {
            let table = Documents::open(build(&all).bytes().clone()).unwrap();
            prop_assert_eq!(table.len() as usize, all.len());
            for (local, document) in all.iter().enumerate() {
                let local = narrow(local);
                prop_assert_eq!(table.get(local), document.as_ref());
                prop_assert_eq!(table.find(&document.epk, document.docno), local..local + 1);
                prop_assert_eq!(table.lower_bound(&document.epk, document.docno), local);
            }
            let behind = [&epk[..], &[0xff]].concat();
            let partition = EpkRange::half_open(epk.clone(), behind);
            for range in [EpkRange::exact(epk.clone()), partition, EpkRange::prefix(&epk), EpkRange::below(epk)] {
                let run = table.locals_of(&range);
                let inside = all.iter().filter(|document| range.contains(&document.epk)).count();
                prop_assert_eq!(run.len(), inside);
                prop_assert!(run.into_iter().all(|local| range.contains(table.get(local).epk)));
            }
        }

        #[test]
        fn hashes_are_found_as_numbers(
            mut epks in proptest::collection::vec((0u8..3, 0u8..3), 1..40), wanted in (0u8..3, 0u8..3),
        ) {
            // The first and the last byte differ.
            let epk = |(first, last)| {
                let mut epk = vec![7; 16];
                (epk[0], epk[15]) = (first, last);
                epk
            };
            epks.sort_unstable();
            let numbered = epks.iter().enumerate();
            let all: Vec<_> = numbered.map(|(at, &it)| document(epk(it), at as u64, 1, 0)).collect();
            let (table, wanted) = (build(&all), epk(wanted));
            let run = all.partition_point(|it| it.epk < wanted)..all.partition_point(|it| it.epk <= wanted);
            let partition = EpkRange::half_open(wanted.clone(), [&wanted[..], &[0xff]].concat());
            for range in [EpkRange::exact(wanted.clone()), partition] {
                let found = table.locals_of(&range);
                prop_assert_eq!(found.len(), run.len());
                prop_assert!(run.is_empty() || found.start as usize == run.start);
            }
            prop_assert_eq!(table.lower_bound(&wanted, 0) as usize, run.start);
        }

        #[test]
        fn any_bytes_are_refused_or_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(table) = Documents::open(bytes.into()) {
                (0..table.len()).for_each(|local| { table.get(local); });
            }
        }

        #[test]
        fn a_changed_byte_is_refused_or_read_without_panic(all in documents(), at: prop::sample::Index, byte: u8) {
            let mut bytes = build(&all).bytes().to_vec();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if let Ok(table) = Documents::open(bytes.into()) {
                (0..table.len()).for_each(|local| { table.get(local); });
                table.locals_of(&EpkRange::all());
                table.find(b"\x01", 3);
            }
        }
    }
}
