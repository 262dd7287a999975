//! A part of a view: a segment or a chunk of the tail, and which of its documents are dead.

use std::{ops::Range, sync::Arc};

use crate::{
    column::Column,
    deleted::DeadSet,
    document::DocumentRef,
    documents::Documents,
    layout::narrow,
    locals::{Local, LocalSet, within},
    path_index::{Direction, PathIndex, Step},
    range::{EpkRange, ValueRange},
    segment::Segment,
    tail::Chunk,
};

/// Some documents of an index with their terms, immutable, under local numbers 0, 1, 2 … in the
/// order of (epk, docno). Segments and the chunks of the tail look the same from here.
#[derive(Clone)]
pub struct Part {
    pub(crate) data: Arc<PartData>,
    pub(crate) dead: DeadSet,
}

/// What a part holds.
pub(crate) enum PartData {
    Chunk(Chunk),
    Segment(Segment),
}

impl PartData {
    pub(crate) fn documents(&self) -> &Documents {
        match self {
            Self::Chunk(chunk) => chunk.documents(),
            Self::Segment(segment) => segment.documents(),
        }
    }

    pub(crate) fn as_chunk(&self) -> Option<&Chunk> {
        match self {
            Self::Chunk(chunk) => Some(chunk),
            Self::Segment(_) => None,
        }
    }

    pub(crate) fn path(&self, path: u32) -> Option<PathIndex<'_>> {
        match self {
            Self::Chunk(chunk) => chunk.path(path),
            Self::Segment(segment) => segment.path(path),
        }
    }

    pub(crate) fn paths(&self) -> Box<dyn Iterator<Item = u32> + '_> {
        match self {
            Self::Chunk(chunk) => Box::new(chunk.paths()),
            Self::Segment(segment) => Box::new(segment.paths()),
        }
    }

    /// Roughly how many bytes the part takes.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Chunk(chunk) => chunk.size() + chunk.documents().bytes().len(),
            Self::Segment(segment) => segment.bytes().len(),
        }
    }
}

impl Part {
    /// How many documents there are, dead ones included: local numbers are below this.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.data.documents().len()
    }

    /// Whether there is no document at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many documents live.
    #[must_use]
    pub fn live_count(&self) -> u32 {
        self.len() - self.dead.len()
    }

    /// Roughly how many bytes the part takes, in memory or as a file.
    #[must_use]
    pub fn size(&self) -> usize {
        self.data.size()
    }

    /// Names the part's documents and terms for as long as the process lives: two parts with one
    /// serial differ in their dead at most.
    #[must_use]
    pub fn serial(&self) -> u64 {
        self.data.documents().serial()
    }

    /// Whether the document was replaced or deleted.
    #[inline]
    #[must_use]
    pub fn is_dead(&self, local: u32) -> bool {
        self.dead.contains(local)
    }

    /// The dead documents.
    #[must_use]
    pub fn dead(&self) -> &DeadSet {
        &self.dead
    }

    /// All that is known of a document besides its terms. Like all that take a local number, this
    /// panics for numbers that are not below [`Part::len`].
    #[must_use]
    pub fn document(&self, local: u32) -> DocumentRef<'_> {
        self.data.documents().get(local)
    }

    /// The effective partition key of a document, and the run of local numbers that have the same.
    #[must_use]
    pub fn epk_run(&self, local: u32) -> (&[u8], Range<u32>) {
        let documents = self.data.documents();
        let ordinal = documents.epk_ordinal(local);
        (documents.epk(ordinal), documents.locals_of_epk(ordinal))
    }

    /// A document whose effective partition key is known already; cheaper than looking for it.
    #[must_use]
    pub fn document_with<'e>(&self, local: u32, epk: &'e [u8]) -> DocumentRef<'e> {
        self.data.documents().with_epk(local, epk)
    }

    /// Bytes of a document's text; cheaper than the whole document.
    #[inline]
    #[must_use]
    pub fn document_size(&self, local: u32) -> u32 {
        self.data.documents().size(local)
    }

    /// A document's number; cheaper than the whole document.
    #[inline]
    #[must_use]
    pub fn docno(&self, local: u32) -> u64 {
        self.data.documents().docno(local)
    }

    /// A document's hash; cheaper than the whole document.
    #[inline]
    #[must_use]
    pub fn hash(&self, local: u32) -> u64 {
        self.data.documents().hash(local)
    }

    /// The LSN of a document's version; cheaper than the whole document.
    #[inline]
    #[must_use]
    pub fn lsn(&self, local: u32) -> u64 {
        self.data.documents().lsn(local)
    }

    /// A document's `_ts` and own time to live; cheaper than the whole document.
    #[inline]
    #[must_use]
    pub fn ts_and_ttl(&self, local: u32) -> (u32, i32) {
        (self.data.documents().ts(local), self.data.documents().ttl(local))
    }

    /// The local numbers of a range of effective partition keys: always one run.
    #[must_use]
    pub fn locals_of(&self, range: &EpkRange) -> Range<u32> {
        self.data.documents().locals_of(range)
    }

    /// How many live documents a run of local numbers has.
    #[must_use]
    pub fn live_count_in(&self, locals: &Range<u32>) -> u32 {
        narrow(locals.len()) - self.dead.count_in(locals)
    }

    /// How many bytes the texts of the live documents have.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        let live = (0..self.len()).filter(|local| !self.is_dead(*local));
        live.map(|local| u64::from(self.data.documents().size(local))).sum()
    }

    /// The live version of a document.
    #[must_use]
    pub fn find(&self, epk: &[u8], docno: u64) -> Option<u32> {
        self.data.documents().find(epk, docno).find(|local| !self.is_dead(*local))
    }

    /// Everything about one path; nothing when no document of the part has it.
    ///
    /// In a chunk of the tail the first call for a path sorts the path's terms; the result is
    /// kept with the chunk.
    #[must_use]
    pub fn path(&self, path: u32) -> Option<PathIndex<'_>> {
        self.data.path(path)
    }

    /// The paths that documents of the part have, ascending.
    pub fn paths(&self) -> impl Iterator<Item = u32> + '_ {
        self.data.paths()
    }

    /// The documents with values in a range, value by value: ascending only if the range has one
    /// value, once per value where the path is multi-valued. Dead ones included.
    #[must_use]
    pub fn postings(&self, path: u32, range: &ValueRange) -> &[Local] {
        let Some(index) = self.path(path) else { return &[] };
        index.lists(&index.ordinals(range))
    }

    /// The live documents with values in a range, as a set.
    #[must_use]
    pub fn set(&self, path: u32, range: &ValueRange) -> LocalSet {
        let mut set = LocalSet::none(self.len());
        set.extend(self.postings(path, range));
        set.subtract_dead(&self.dead);
        set
    }

    /// How many live documents have a value in a range. Exact, and mostly a subtraction.
    #[must_use]
    pub fn count(&self, path: u32, range: &ValueRange) -> u32 {
        let Some(index) = self.path(path) else { return 0 };
        self.count_ordinals(&index, &index.ordinals(range))
    }

    /// How many live documents have a value in a range of ordinals of this part's path.
    #[must_use]
    pub fn count_ordinals(&self, index: &PathIndex<'_>, ordinals: &Range<u32>) -> u32 {
        let list = index.lists(ordinals);
        if index.is_multi_valued() && ordinals.len() > 1 {
            let mut set = index.set(ordinals);
            set.subtract_dead(&self.dead);
            return set.len();
        }
        narrow(list.len() - self.dead_in(index, ordinals, list))
    }

    /// How many live documents in a run of local numbers have a value in a range: COUNT inside
    /// one logical partition.
    #[must_use]
    pub fn count_within(&self, path: u32, range: &ValueRange, locals: &Range<u32>) -> u32 {
        let Some(index) = self.path(path) else { return 0 };
        let ordinals = index.ordinals(range);
        if locals.len() >= self.len() as usize {
            return self.count_ordinals(&index, &ordinals);
        }
        if ordinals.len() == 1 {
            let list = within(index.list(ordinals.start), locals).iter();
            return narrow(list.filter(|local| !self.is_dead(local.get())).count());
        }
        let list = index.lists(&ordinals);
        if index.column().is_none() || list.len() < locals.len() {
            let mut set = LocalSet::none(self.len());
            let inside =
                list.iter().map(|local| local.get()).filter(|local| locals.contains(local));
            inside.filter(|local| !self.is_dead(*local)).for_each(|local| set.insert(local));
            return set.len();
        }
        let matching = locals.clone().filter(|local| index.contains(*local, &ordinals));
        narrow(matching.filter(|local| !self.is_dead(*local)).count())
    }

    /// The values of a range with their documents, in value order. Dead documents included.
    pub fn walk(
        &self,
        path: u32,
        range: &ValueRange,
        direction: Direction,
    ) -> impl Iterator<Item = Step<'_>> {
        let walk = self.path(path).map(|index| index.walk(index.ordinals(range), direction));
        walk.into_iter().flatten()
    }

    /// The column of a path, where it has one.
    #[must_use]
    pub fn column(&self, path: u32) -> Option<Column<'_>> {
        self.path(path)?.column()
    }

    /// The dead in a list without repetitions, through whichever of list and dead is smaller.
    fn dead_in(&self, index: &PathIndex<'_>, ordinals: &Range<u32>, list: &[Local]) -> usize {
        if self.dead.is_empty() {
            return 0;
        }
        let by_dead = index.column().is_some() || ordinals.len() == 1;
        if by_dead && (self.dead.len() as usize) < list.len() {
            return self.dead.iter().filter(|local| index.contains(*local, ordinals)).count();
        }
        list.iter().filter(|local| self.is_dead(local.get())).count()
    }
}

impl std::fmt::Debug for Part {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match &*self.data {
            PartData::Chunk(_) => "chunk",
            PartData::Segment(_) => "segment",
        };
        write!(formatter, "{kind} of {} documents, {} dead", self.len(), self.dead.len())
    }
}
