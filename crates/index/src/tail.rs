//! The tail: the newest documents, in small immutable chunks.
//!
//! Every published group of writes becomes one chunk; chunks of a size are gathered in fours, so
//! a tail has about fifteen of them however many groups wrote into it. A chunk has a document
//! table like any part. Its terms are only grouped by path: the block of a path (sorted values,
//! lists, column) is made when a query first asks for it and kept as long as the chunk lives.
//! So a write pays for copying only, and a query sees the same form as in a segment.

use std::{borrow::Cow, ops::Range, sync::OnceLock};

use crate::{
    deleted::DeadSet,
    document::Document,
    documents::{Documents, DocumentsBuilder},
    layout::narrow,
    merge::{DROPPED, merge_documents},
    path_builder::{PathBuilder, join},
    path_index::PathIndex,
    terms::{Terms, Value},
};

/// An immutable run of the newest documents.
pub(crate) struct Chunk {
    documents: Documents,
    /// Grouped by path, ascending.
    terms: Vec<Term>,
    bytes: Vec<u8>,
    paths: Vec<ChunkPath>,
}

struct ChunkPath {
    path: u32,
    terms: Range<usize>,
    block: OnceLock<Vec<u8>>,
}

#[derive(Clone, Copy)]
struct Term {
    path: u32,
    local: u32,
    start: u32,
    length: u16,
    cut: bool,
}

impl Chunk {
    /// Makes a chunk of documents that are in any order.
    pub(crate) fn new(rows: &[(Document, Terms)]) -> Self {
        let mut order: Vec<&(Document, Terms)> = rows.iter().collect();
        order.sort_by(|(a, _), (b, _)| (&a.epk, a.docno, a.lsn).cmp(&(&b.epk, b.docno, b.lsn)));
        let mut documents = DocumentsBuilder::with_capacity(rows.len());
        let sizes = rows.iter().map(|(_, terms)| (terms.len(), terms.bytes_len()));
        let mut gathered = Gathered::with_room_for(sizes);
        for (document, terms) in order {
            let local = documents.push(document.as_ref());
            for (path, value) in terms.iter() {
                gathered.push(path, local, value);
            }
        }
        gathered.finish(documents.finish())
    }

    /// Makes one chunk of several, leaving out the dead. The maps give for each chunk the new
    /// local numbers of its documents.
    pub(crate) fn combine(chunks: &[(&Self, &DeadSet)]) -> (Self, Vec<Vec<u32>>) {
        let tables: Vec<_> = chunks.iter().map(|(chunk, dead)| (&chunk.documents, *dead)).collect();
        let (documents, maps) = merge_documents(&tables);
        let sizes = chunks.iter().map(|(chunk, _)| (chunk.terms.len(), chunk.bytes.len()));
        let mut gathered = Gathered::with_room_for(sizes);
        for ((chunk, _), map) in chunks.iter().zip(&maps) {
            for term in &chunk.terms {
                let local = map[term.local as usize];
                if local != DROPPED {
                    gathered.push(term.path, local, chunk.value(term));
                }
            }
        }
        (gathered.finish(documents), maps)
    }

    pub(crate) fn documents(&self) -> &Documents {
        &self.documents
    }

    /// Roughly how much memory the terms take.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len() + self.terms.len() * size_of::<Term>()
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = u32> + '_ {
        self.paths.iter().map(|entry| entry.path)
    }

    pub(crate) fn path(&self, path: u32) -> Option<PathIndex<'_>> {
        let position = self.paths.binary_search_by_key(&path, |entry| entry.path).ok()?;
        let entry = &self.paths[position];
        let block = entry.block.get_or_init(|| {
            let mut builder = PathBuilder::new(self.documents.len());
            self.build(&entry.terms, &mut builder);
            builder.finish(join).unwrap_or_default()
        });
        PathIndex::read(block)
    }

    /// Calls `visit` with the block of every path, in order and in pieces. Nothing is kept.
    pub(crate) fn visit_blocks<E>(
        &self,
        mut visit: impl FnMut(u32, &[Cow<'_, [u8]>]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut builder = PathBuilder::new(self.documents.len());
        for entry in &self.paths {
            self.build(&entry.terms, &mut builder);
            builder.finish(|pieces| visit(entry.path, pieces)).transpose()?;
        }
        Ok(())
    }

    /// Gives the builder all terms of a path.
    fn build(&self, terms: &Range<usize>, builder: &mut PathBuilder) {
        let terms = &self.terms[terms.clone()];
        let mut previous: Option<Value<'_>> = None;
        for key in self.sorted(terms) {
            let term = &terms[index_of(key)];
            let value = self.value(term);
            if previous != Some(value) {
                if previous.is_some() {
                    builder.end();
                }
                builder.begin(value);
                previous = Some(value);
            }
            builder.push(term.local);
        }
        if previous.is_some() {
            builder.end();
        }
    }

    /// The terms of one path in the order of (value, local), as numbers that end in their index.
    ///
    /// The eight bytes behind what all values have in common, the local number and the index make
    /// one integer; whole values are compared only where those bytes do not decide.
    fn sorted(&self, terms: &[Term]) -> Vec<u128> {
        let shared = self.shared_prefix(terms);
        let key = |(index, term): (usize, &Term)| {
            let prefix = u128::from(eight_bytes(self.value(term).bytes, shared));
            prefix << 64 | u128::from(term.local) << 32 | index as u128
        };
        let mut keys: Vec<u128> = terms.iter().enumerate().map(key).collect();
        keys.sort_unstable();
        for group in keys.chunk_by_mut(|a, b| a >> 64 == b >> 64) {
            let first = &terms[index_of(group[0])];
            let decided = usize::from(first.length) <= shared + 8
                && group
                    .iter()
                    .map(|key| &terms[index_of(*key)])
                    .all(|term| term.length == first.length && term.cut == first.cut);
            if !decided {
                let whole = |key: &u128| self.value(&terms[index_of(*key)]);
                group.sort_by(|a, b| (whole(a), a).cmp(&(whole(b), b)));
            }
        }
        keys
    }

    fn shared_prefix(&self, terms: &[Term]) -> usize {
        let Some(first) = terms.first() else { return 0 };
        let first = self.value(first).bytes;
        terms.iter().fold(first.len(), |shared, term| {
            let bytes = self.value(term).bytes;
            if bytes.len() >= shared && bytes[..shared] == first[..shared] {
                return shared;
            }
            first[..shared].iter().zip(bytes).take_while(|(a, b)| a == b).count()
        })
    }

    fn value(&self, term: &Term) -> Value<'_> {
        let start = term.start as usize;
        Value { bytes: &self.bytes[start..start + usize::from(term.length)], cut: term.cut }
    }
}

/// Terms on their way into a chunk.
struct Gathered {
    terms: Vec<Term>,
    bytes: Vec<u8>,
}

impl Gathered {
    /// Room for terms and bytes, by their numbers: a chunk is made for every group of writes, and takes no more than it holds.
    fn with_room_for(sizes: impl Iterator<Item = (usize, usize)>) -> Self {
        let (terms, bytes) = sizes
            .fold((0, 0), |(terms, bytes), (more, more_bytes)| (terms + more, bytes + more_bytes));
        Self { terms: Vec::with_capacity(terms), bytes: Vec::with_capacity(bytes) }
    }

    fn push(&mut self, path: u32, local: u32, value: Value<'_>) {
        let length = u16::try_from(value.bytes.len()).expect("`Terms` shortened the value");
        let start = narrow(self.bytes.len());
        self.bytes.extend_from_slice(value.bytes);
        self.terms.push(Term { path, local, start, length, cut: value.cut });
    }

    fn finish(mut self, documents: Documents) -> Chunk {
        self.terms.sort_by_key(|term| term.path);
        let groups = || self.terms.chunk_by(|a, b| a.path == b.path);
        let mut paths = Vec::with_capacity(groups().count());
        let mut start = 0;
        for group in groups() {
            let terms = start..start + group.len();
            start = terms.end;
            paths.push(ChunkPath { path: group[0].path, terms, block: OnceLock::new() });
        }
        Chunk { documents, terms: self.terms, bytes: self.bytes, paths }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the low 32 bits are the index")]
fn index_of(key: u128) -> usize {
    (key as u32) as usize
}

/// Eight bytes from a position on as one number that sorts like them; missing ones are zero.
pub(crate) fn eight_bytes(bytes: &[u8], from: usize) -> u64 {
    let rest = bytes.get(from..).unwrap_or_default();
    match rest.first_chunk::<8>() {
        Some(eight) => u64::from_be_bytes(*eight),
        None => {
            let mut eight = [0; 8];
            eight[..rest.len()].copy_from_slice(rest);
            u64::from_be_bytes(eight)
        }
    }
}
