//! Writes the document table; see the module above for its form.

use bytes::Bytes;

use super::{DOCNO_WIDE, Documents, HEADER_LENGTH, HINT_EVERY, LSN_WIDE, Layout, WITH_TTL};
use crate::{
    document::DocumentRef,
    layout::{Block, U32, U64, narrow},
};

/// Room is made at once for the keys of so many documents, as the chunks of writes have them.
const EPKS_EXPECTED_MAX: usize = 64;
/// The length of most keys.
const EPK_EXPECTED: usize = 16;

/// Makes the block from documents that come in the order of (epk, docno).
#[derive(Default)]
pub(crate) struct DocumentsBuilder {
    offsets: Vec<U32>,
    firsts: Vec<U32>,
    hints: Vec<U32>,
    epks: Vec<u8>,
    docnos: Vec<U64>,
    lsns: Vec<U64>,
    hashes: Vec<U64>,
    ts: Vec<U32>,
    sizes: Vec<U32>,
    ttl: Vec<U32>,
}

impl DocumentsBuilder {
    pub(crate) fn with_capacity(documents: usize) -> Self {
        // What there is once for each epk and no more: how many there are is not known.
        let epks = documents.min(EPKS_EXPECTED_MAX);
        Self {
            offsets: Vec::with_capacity(epks + 1),
            firsts: Vec::with_capacity(epks + 1),
            hints: Vec::with_capacity(documents / HINT_EVERY + 1),
            epks: Vec::with_capacity(epks * EPK_EXPECTED),
            docnos: Vec::with_capacity(documents),
            lsns: Vec::with_capacity(documents),
            hashes: Vec::with_capacity(documents),
            ts: Vec::with_capacity(documents),
            sizes: Vec::with_capacity(documents),
            ttl: Vec::with_capacity(documents),
        }
    }

    /// Adds a document and returns its local number.
    pub(crate) fn push(&mut self, document: DocumentRef<'_>) -> u32 {
        let local = self.docnos.len();
        debug_assert!(
            self.docnos.last().is_none_or(|docno| {
                (self.last_epk(), docno.get()) <= (document.epk, document.docno)
            }),
            "documents come in the order of the table"
        );
        if self.offsets.is_empty() || self.last_epk() != document.epk {
            self.offsets.push(U32::new(narrow(self.epks.len())));
            self.firsts.push(U32::new(narrow(local)));
            self.epks.extend_from_slice(document.epk);
        }
        if local.is_multiple_of(HINT_EVERY) {
            self.hints.push(U32::new(narrow(self.offsets.len() - 1)));
        }
        self.docnos.push(U64::new(document.docno));
        self.lsns.push(U64::new(document.lsn));
        self.hashes.push(U64::new(document.hash));
        self.ts.push(U32::new(document.ts));
        self.sizes.push(U32::new(document.size));
        self.ttl.push(U32::new(document.ttl.cast_unsigned()));
        narrow(local)
    }

    pub(crate) fn finish(mut self) -> Documents {
        let (count, epk_count) = (self.docnos.len(), self.offsets.len());
        self.offsets.push(U32::new(narrow(self.epks.len())));
        self.firsts.push(U32::new(narrow(count)));
        let (docno_low, docno_high) = span(&self.docnos);
        let (lsn_low, lsn_high) = span(&self.lsns);
        let epk_width = self.common_width();
        let with_ttl = self.ttl.iter().any(|ttl| ttl.get() != 0);
        let wide = |low: u64, high: u64| high - low > u64::from(u32::MAX);
        let flag = |set: bool, flag: u32| if set { flag } else { 0 };

        let mut block = Block::with_capacity(HEADER_LENGTH + count * 36 + self.epks.len());
        block.u32(narrow(count));
        block.u32(narrow(epk_count));
        block.u32(epk_width);
        block.u32(
            flag(wide(docno_low, docno_high), DOCNO_WIDE)
                | flag(wide(lsn_low, lsn_high), LSN_WIDE)
                | flag(with_ttl, WITH_TTL),
        );
        block.u64(docno_low);
        block.u64(docno_high);
        block.u64(lsn_low);
        block.u64(lsn_high);
        block.length(self.epks.len());
        block.u64(0);
        if epk_width == 0 {
            block.array(&self.offsets);
        }
        if epk_count < count {
            block.array(&self.firsts);
            block.array(&self.hints);
        }
        relative(&mut block, &self.docnos, docno_low, wide(docno_low, docno_high));
        relative(&mut block, &self.lsns, lsn_low, wide(lsn_low, lsn_high));
        block.array(&self.hashes);
        block.array(&self.ts);
        block.array(&self.sizes);
        if with_ttl {
            block.array(&self.ttl);
        }
        block.array(&self.epks);
        let bytes = Bytes::from(block.finish());
        let layout = Layout::read(&bytes).expect("the block was written just above");
        Documents::new(bytes, layout)
    }

    fn last_epk(&self) -> &[u8] {
        let start = self.offsets.last().map_or(0, |offset| offset.get() as usize);
        &self.epks[start..]
    }

    /// The length all epks share, or 0.
    fn common_width(&self) -> u32 {
        let lengths = || self.offsets.windows(2).map(|pair| pair[1].get() - pair[0].get());
        let first = lengths().next().unwrap_or(0);
        if lengths().all(|length| length == first) { first } else { 0 }
    }
}

fn span(numbers: &[U64]) -> (u64, u64) {
    let all = || numbers.iter().map(|number| number.get());
    (all().min().unwrap_or(0), all().max().unwrap_or(0))
}

fn relative(block: &mut Block, numbers: &[U64], low: u64, wide: bool) {
    let above = numbers.iter().map(|number| number.get() - low);
    if wide {
        block.array(&above.map(U64::new).collect::<Vec<_>>());
    } else {
        let narrowed = above.map(|number| U32::new(u32::try_from(number).unwrap_or(u32::MAX)));
        block.array(&narrowed.collect::<Vec<_>>());
    }
}
