//! A segment: one immutable block of bytes, the same in memory and on disk.
//!
//! ```text
//! head       16 bytes: magic, format version
//! sections   each at a multiple of eight: the document table, then one per path
//! directory  32 bytes per section: kind, path, position, length, checksum
//! foot       32 bytes: position, length and checksum of the directory, version, magic
//! ```
//!
//! Sections are written one behind the other and the directory last, so a segment of any size
//! streams to disk. A reader skips kinds of sections it does not know.

use std::{borrow::Cow, io, ops::Range};

use bytes::Bytes;

use crate::{
    documents::Documents,
    error::{Error, Result},
    layout::{ALIGNMENT, Block, Cursor, padding},
    path_index::PathIndex,
};

/// The version of the format this code writes, and the only one it reads.
pub const SEGMENT_FORMAT: u32 = 1;

const HEAD_MAGIC: &[u8; 8] = b"ARMILLAs";
const FOOT_MAGIC: &[u8; 8] = b"sALLIMRA";
const HEAD_LENGTH: usize = 16;
const FOOT_LENGTH: usize = 32;
const ENTRY_LENGTH: usize = 32;

const KIND_DOCUMENTS: u32 = 1;
const KIND_PATH: u32 = 2;

/// An opened segment.
#[derive(Debug)]
pub(crate) struct Segment {
    bytes: Bytes,
    documents: Documents,
    /// Position of each path's block, by path.
    paths: Vec<(u32, Range<usize>)>,
    check: u32,
}

/// Whether the bytes of a segment are checked when it is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// They were written by this process just now.
    Written,
    /// They come from a disk, and what was written there made sense: checksums are checked.
    Checksums,
    /// Nothing: checksums and all inner references are checked.
    Nothing,
}

impl Segment {
    /// Opens a segment. Bytes that are not a whole, unchanged segment give an error.
    pub(crate) fn open(bytes: Bytes, trust: Trust) -> Result<Self> {
        let foot = Foot::read(&bytes).ok_or_else(|| Error::damaged("foot of a segment"))?;
        let mut documents = None;
        let mut paths = vec![];
        for entry in foot.entries(&bytes).ok_or_else(|| Error::damaged("segment directory"))? {
            let section = entry.section(&bytes, trust)?;
            match entry.kind {
                KIND_DOCUMENTS => documents = Some(Documents::open(bytes.slice(section))?),
                KIND_PATH => paths.push((entry.path, section)),
                _ => {}
            }
        }
        let documents = documents.ok_or_else(|| Error::damaged("segment without documents"))?;
        let segment = Self { bytes, documents, paths, check: foot.check };
        segment.check_paths(trust)?;
        Ok(segment)
    }

    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub(crate) fn documents(&self) -> &Documents {
        &self.documents
    }

    /// The checksum over the directory, which holds the checksums of all sections: it names the
    /// content.
    pub(crate) fn check(&self) -> u32 {
        self.check
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = u32> + '_ {
        self.paths.iter().map(|(path, _)| *path)
    }

    pub(crate) fn path(&self, path: u32) -> Option<PathIndex<'_>> {
        let position = self.paths.binary_search_by_key(&path, |(path, _)| *path).ok()?;
        PathIndex::read(&self.bytes[self.paths[position].1.clone()])
    }

    fn check_paths(&self, trust: Trust) -> Result<()> {
        if !self.paths.is_sorted_by(|(a, _), (b, _)| a < b) {
            return Err(Error::damaged("order of paths"));
        }
        for (path, section) in &self.paths {
            let index = PathIndex::read(&self.bytes[section.clone()]);
            let holds = |index: PathIndex<'_>| {
                trust != Trust::Nothing || index.is_consistent(self.documents.len())
            };
            if !index.is_some_and(holds) {
                return Err(Error::damaged(format!("block of path {path}")));
            }
        }
        Ok(())
    }
}

struct Foot {
    directory: Range<usize>,
    check: u32,
}

struct Entry {
    kind: u32,
    path: u32,
    position: usize,
    length: usize,
    check: u32,
}

impl Foot {
    fn read(bytes: &[u8]) -> Option<Self> {
        let mut head = Cursor::new(bytes);
        let magic = head.take(HEAD_MAGIC.len())?;
        let version = head.u32()?;
        let start = bytes.len().checked_sub(FOOT_LENGTH)?;
        let mut foot = Cursor::new(bytes.get(start..)?);
        let position = foot.length()?;
        let length = foot.length()?;
        let check = foot.u32()?;
        let same_version = foot.u32()? == version && version == SEGMENT_FORMAT;
        let magics = magic == HEAD_MAGIC && foot.take(FOOT_MAGIC.len())? == FOOT_MAGIC;
        let directory = position..position.checked_add(length)?;
        (same_version && magics && directory.end == start).then_some(Self { directory, check })
    }

    fn entries(&self, bytes: &[u8]) -> Option<Vec<Entry>> {
        let directory = bytes.get(self.directory.clone())?;
        let whole = directory.len().is_multiple_of(ENTRY_LENGTH);
        if !whole || crc32c::crc32c(directory) != self.check {
            return None;
        }
        directory.chunks_exact(ENTRY_LENGTH).map(Entry::read).collect()
    }
}

impl Entry {
    fn read(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(bytes);
        Some(Self {
            kind: cursor.u32()?,
            path: cursor.u32()?,
            position: cursor.length()?,
            length: cursor.length()?,
            check: cursor.u32()?,
        })
    }

    fn section(&self, bytes: &[u8], trust: Trust) -> Result<Range<usize>> {
        let damaged = || Error::damaged(format!("section {} of path {}", self.kind, self.path));
        let end = self.position.checked_add(self.length).ok_or_else(damaged)?;
        let section = bytes.get(self.position..end).ok_or_else(damaged)?;
        if trust != Trust::Written && crc32c::crc32c(section) != self.check {
            return Err(damaged());
        }
        Ok(self.position..end)
    }
}

/// Writes a segment section by section.
pub(crate) struct SegmentWriter<W: io::Write> {
    out: W,
    position: usize,
    directory: Block,
}

impl<W: io::Write> SegmentWriter<W> {
    pub(crate) fn new(mut out: W) -> io::Result<Self> {
        let mut head = Block::with_capacity(HEAD_LENGTH);
        head.raw(HEAD_MAGIC);
        head.u32(SEGMENT_FORMAT);
        head.u32(0);
        out.write_all(&head.finish())?;
        Ok(Self { out, position: HEAD_LENGTH, directory: Block::default() })
    }

    pub(crate) fn documents(&mut self, documents: &Documents) -> io::Result<()> {
        self.section(KIND_DOCUMENTS, 0, &[Cow::Borrowed(documents.bytes())])
    }

    /// Adds the block of a path, in pieces; paths come in ascending order.
    pub(crate) fn path(&mut self, path: u32, pieces: &[Cow<'_, [u8]>]) -> io::Result<()> {
        self.section(KIND_PATH, path, pieces)
    }

    /// Writes directory and foot.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        let directory = self.directory.finish();
        let mut foot = Block::with_capacity(FOOT_LENGTH);
        foot.length(self.position);
        foot.length(directory.len());
        foot.u32(crc32c::crc32c(&directory));
        foot.u32(SEGMENT_FORMAT);
        foot.raw(FOOT_MAGIC);
        self.out.write_all(&directory)?;
        self.out.write_all(&foot.finish())?;
        Ok(self.out)
    }

    /// Writes the pieces of a section, each with its padding.
    fn section(&mut self, kind: u32, path: u32, pieces: &[Cow<'_, [u8]>]) -> io::Result<()> {
        const ZEROS: [u8; ALIGNMENT] = [0; ALIGNMENT];
        let (mut length, mut check) = (0, 0);
        for piece in pieces {
            let padding = &ZEROS[..padding(piece.len())];
            for bytes in [piece.as_ref(), padding] {
                check = crc32c::crc32c_append(check, bytes);
                self.out.write_all(bytes)?;
                length += bytes.len();
            }
        }
        self.directory.u32(kind);
        self.directory.u32(path);
        self.directory.length(self.position);
        self.directory.length(length);
        self.directory.u32(check);
        self.directory.u32(0);
        self.position += length;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        document::Document,
        path_index::Direction,
        range::{EpkRange, ValueRange},
        tail::Chunk,
        terms::Terms,
    };
    use proptest::prelude::*;

    fn segment(documents: u8) -> Vec<u8> {
        let rows: Vec<_> = (0..documents).map(row).collect();
        let chunk = Chunk::new(&rows);
        let mut writer = SegmentWriter::new(vec![]).unwrap();
        writer.documents(chunk.documents()).unwrap();
        chunk.visit_blocks(|path, block| writer.path(path, block)).unwrap();
        writer.finish().unwrap()
    }

    fn row(number: u8) -> (Document, Terms) {
        let mut terms = Terms::new();
        terms.push(1, &[number % 3]);
        terms.push(2, &vec![7; usize::from(number % 5)]);
        terms.push_cut(2, &[number]);
        let epk = vec![number % 7; usize::from(number % 2) + 1];
        let docno = u64::from(number) << (number % 40);
        (
            Document { epk, docno, lsn: 5, hash: 6, ts: 7, ttl: i32::from(number % 2), size: 8 },
            terms,
        )
    }

    fn use_all(segment: &Segment) {
        let documents = segment.documents();
        for local in 0..documents.len() {
            let document = documents.get(local);
            documents.find(document.epk, document.docno);
        }
        documents.locals_of(&EpkRange::prefix(&[1]));
        for path in segment.paths() {
            let Some(index) = segment.path(path) else { continue };
            for step in index.walk(index.ordinals(&ValueRange::all()), Direction::Descending) {
                assert!(step.locals.iter().all(|local| local.get() < documents.len()));
            }
            assert!(
                (0..documents.len()).all(|l| index.value_of(l).is_none_or(|v| v.bytes.len() < 99))
            );
        }
    }

    /// The directory and the foot with checksums that fit, whatever they say.
    fn with_right_checksums(mut bytes: Vec<u8>) -> Vec<u8> {
        let Some(foot) = Foot::read(&bytes) else { return bytes };
        let Some(directory) = bytes.get(foot.directory.clone()) else { return bytes };
        let mut directory = directory.to_vec();
        for entry in directory.chunks_exact_mut(ENTRY_LENGTH) {
            let parsed = Entry::read(entry).unwrap();
            let end = parsed.position.saturating_add(parsed.length);
            if let Some(section) = bytes.get(parsed.position..end) {
                entry[24..28].copy_from_slice(&crc32c::crc32c(section).to_le_bytes());
            }
        }
        let check_at = bytes.len() - FOOT_LENGTH + 16;
        bytes[check_at..check_at + 4].copy_from_slice(&crc32c::crc32c(&directory).to_le_bytes());
        bytes[foot.directory].copy_from_slice(&directory);
        bytes
    }

    #[test]
    fn a_segment_opens() {
        let segment = Segment::open(segment(100).into(), Trust::Nothing).unwrap();
        assert_eq!(segment.documents().len(), 100);
        assert_eq!(segment.paths().collect::<Vec<_>>(), [1, 2]);
        use_all(&segment);
    }

    #[test]
    fn another_version_is_refused() {
        let mut bytes = segment(3);
        let version_at = bytes.len() - 12;
        bytes[version_at] = 2;
        bytes[8] = 2;
        assert!(Segment::open(bytes.into(), Trust::Nothing).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
            prop_assert!(Segment::open(bytes.into(), Trust::Nothing).is_err());
        }

        #[test]
        fn a_changed_or_missing_byte_is_refused(at: prop::sample::Index, flip in 1u8..=255) {
            let bytes = segment(60);
            let at = at.index(bytes.len());
            let mut changed = bytes.clone();
            changed[at] ^= flip;
            if let Ok(segment) = Segment::open(changed.into(), Trust::Nothing) {
                // Four bytes of the head mean nothing yet.
                use_all(&segment);
            }
            prop_assert!(Segment::open(bytes[..at].to_vec().into(), Trust::Nothing).is_err());
        }

        #[test]
        fn a_forged_segment_is_refused_or_read_without_panic(
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        ) {
            let mut bytes = segment(60);
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if let Ok(segment) = Segment::open(with_right_checksums(bytes).into(), Trust::Nothing) {
                use_all(&segment);
            }
        }
    }
}
