//! The list of files that make up an index on disk.
//!
//! The manifest is one small file, written aside, synced and renamed, so there is always a whole
//! one or none. It names the segments in the order of their age with the dead of each, and the
//! *covered* LSN: all that was written at or below it is in these segments, so what has to be
//! replayed after a crash is all above it. The dead may be newer than the covered LSN; replaying
//! a death twice does no harm. The *applied* LSN is the newest of which anything is in here: an
//! owner whose data ends before it has lost writes that the index remembers.
//!
//! ```text
//! magic 8, version u32, number of segments u32, generation u64, covered LSN u64, applied LSN u64, next id u64
//! per segment: id u64, documents u32, checksum of its directory u32,
//!              dead u32, form u32 (0 list, 1 bitmap), u32 per dead or per 32 documents
//! checksum u32 over all of the above
//! ```

use crate::{
    deleted::DeadSet,
    error::{Error, Result},
    files::Files,
    job::write_file,
    layout::{Block, Cursor, U32, narrow},
};

/// The name of the manifest.
pub(crate) const MANIFEST: &str = "MANIFEST";
const MANIFEST_ASIDE: &str = "MANIFEST.new";

/// The version of the format this code writes, and the only one it reads.
pub const MANIFEST_FORMAT: u32 = 3;

const MAGIC: &[u8; 8] = b"ARMILLAm";
const DEAD_AS_LIST: u32 = 0;
const DEAD_AS_BITMAP: u32 = 1;

/// What the manifest says.
#[derive(Debug, Clone)]
pub(crate) struct Manifest {
    pub(crate) generation: u64,
    pub(crate) covered: u64,
    pub(crate) applied: u64,
    pub(crate) next_id: u64,
    pub(crate) segments: Vec<Listed>,
}

/// A segment in the manifest.
#[derive(Debug, Clone)]
pub(crate) struct Listed {
    pub(crate) id: u64,
    pub(crate) documents: u32,
    pub(crate) check: u32,
    pub(crate) dead: DeadSet,
}

/// The name of a segment's file.
pub(crate) fn file_name(id: u64) -> String {
    format!("{id:016x}.segment")
}

impl Manifest {
    /// Reads the manifest; nothing when there is none.
    pub(crate) fn load(files: &dyn Files, names: &[String]) -> Result<Option<Self>> {
        if !names.iter().any(|name| name == MANIFEST) {
            return Ok(None);
        }
        let bytes = files.map(MANIFEST).map_err(Error::io(MANIFEST))?;
        Self::decode(&bytes).map(Some).ok_or_else(|| Error::damaged(MANIFEST))
    }

    /// Puts this manifest in the place of the one before.
    pub(crate) fn store(&self, files: &dyn Files) -> Result<()> {
        let bytes = self.encode();
        write_file(files, MANIFEST_ASIDE, |out| out.write_all(&bytes))?;
        files.rename(MANIFEST_ASIDE, MANIFEST).map_err(Error::io(MANIFEST))
    }

    fn encode(&self) -> Vec<u8> {
        let mut block = Block::default();
        block.raw(MAGIC);
        block.u32(MANIFEST_FORMAT);
        block.u32(narrow(self.segments.len()));
        block.u64(self.generation);
        block.u64(self.covered);
        block.u64(self.applied);
        block.u64(self.next_id);
        for segment in &self.segments {
            segment.encode(&mut block);
        }
        let mut bytes = block.finish();
        let check = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&check.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (content, check) = bytes.split_last_chunk::<4>()?;
        if crc32c::crc32c(content) != u32::from_le_bytes(*check) {
            return None;
        }
        let mut cursor = Cursor::new(content);
        let head = cursor.take(MAGIC.len())? == MAGIC && cursor.u32()? == MANIFEST_FORMAT;
        let count = cursor.u32()?;
        let (generation, covered) = (cursor.u64()?, cursor.u64()?);
        let (applied, next_id) = (cursor.u64()?, cursor.u64()?);
        let segments =
            (0..count).map(|_| Listed::decode(&mut cursor)).collect::<Option<Vec<_>>>()?;
        let manifest = Self { generation, covered, applied, next_id, segments };
        (head && cursor.is_at_end()).then_some(manifest)
    }
}

impl Listed {
    fn encode(&self, block: &mut Block) {
        block.u64(self.id);
        block.u32(self.documents);
        block.u32(self.check);
        block.u32(self.dead.len());
        let words = self.documents.div_ceil(u32::BITS);
        if self.dead.len() <= words {
            block.u32(DEAD_AS_LIST);
            self.dead.iter().for_each(|local| block.u32(local));
            return;
        }
        block.u32(DEAD_AS_BITMAP);
        let mut bitmap = vec![0u32; words as usize];
        for local in self.dead.iter() {
            bitmap[(local / u32::BITS) as usize] |= 1 << (local % u32::BITS);
        }
        bitmap.into_iter().for_each(|word| block.u32(word));
    }

    fn decode(cursor: &mut Cursor<'_>) -> Option<Self> {
        let id = cursor.u64()?;
        let (documents, check, count, form) =
            (cursor.u32()?, cursor.u32()?, cursor.u32()?, cursor.u32()?);
        let dead: DeadSet = match form {
            DEAD_AS_LIST => numbers(cursor, count)?.iter().map(|local| local.get()).collect(),
            DEAD_AS_BITMAP => {
                let words = numbers(cursor, documents.div_ceil(u32::BITS))?;
                let set = |local: &u32| {
                    words[(*local / u32::BITS) as usize].get() & (1 << (local % u32::BITS)) != 0
                };
                (0..documents).filter(set).collect()
            }
            _ => return None,
        };
        let fits = dead.len() == count && dead.iter().last().is_none_or(|last| last < documents);
        fits.then_some(Self { id, documents, check, dead })
    }
}

fn numbers<'a>(cursor: &mut Cursor<'a>, count: u32) -> Option<&'a [U32]> {
    let bytes = cursor.take((count as usize).checked_mul(4)?)?;
    zerocopy::FromBytes::ref_from_bytes(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn manifest() -> impl Strategy<Value = Manifest> {
        let listed =
            (any::<u64>(), 1u32..2000, any::<u32>()).prop_flat_map(|(id, documents, check)| {
                let dead = proptest::collection::btree_set(0..documents, 0..100);
                dead.prop_map(move |dead| Listed {
                    id,
                    documents,
                    check,
                    dead: dead.into_iter().collect(),
                })
            });
        (any::<[u64; 4]>(), proptest::collection::vec(listed, 0..5)).prop_map(
            |(numbers, segments)| {
                let [generation, covered, applied, next_id] = numbers;
                Manifest { generation, covered, applied, next_id, segments }
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(manifest in manifest()) {
            let read = Manifest::decode(&manifest.encode()).unwrap();
            prop_assert_eq!(format!("{read:?}"), format!("{manifest:?}"));
        }

        #[test]
        fn a_changed_byte_is_refused(manifest in manifest(), at: prop::sample::Index, flip in 1u8..=255) {
            let mut bytes = manifest.encode();
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            prop_assert!(Manifest::decode(&bytes).is_none());
            prop_assert!(Manifest::decode(&bytes[..at]).is_none());
        }

        #[test]
        fn any_bytes_with_a_right_checksum_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut all = MAGIC.to_vec();
            all.extend_from_slice(&MANIFEST_FORMAT.to_le_bytes());
            all.extend_from_slice(&1u32.to_le_bytes());
            all.extend_from_slice(&bytes);
            let check = crc32c::crc32c(&all);
            all.extend_from_slice(&check.to_le_bytes());
            let _ = Manifest::decode(&all);
        }
    }
}
