//! `engine.covered`: how far the newest journal was filled with durable batches.
//!
//! A journal that ends early looks like one that was never longer, so a cut file would lose
//! acknowledged writes without a word. While commits come, a line is written over and over, a fraction
//! of a second behind them: *while journal n is there, the journals hold a batch with at least this
//! sequence number*. It is not synced, since it must only survive the process: it names batches that
//! are synced themselves, so an older line after a loss of power is still true, and a torn one says
//! nothing. A clean stop takes the line back before it empties the journal.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::StoreError;

pub(super) const COVERED_FILE: &str = "engine.covered";
const HEAD: &str = "armilla-covered 1";

/// What the journals hold at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Covered {
    /// The claim holds while this journal is there.
    pub(super) journal: u64,
    /// Zero claims nothing.
    pub(super) sequence: u64,
}

impl Covered {
    /// The line of a folder, if there is a whole one.
    pub(super) fn read(folder: &Path) -> Option<Self> {
        Self::decode(&std::fs::read(folder.join(COVERED_FILE)).ok()?)
    }

    /// Always of one length, so that writing it anew replaces all of it.
    fn encode(self) -> String {
        let body = format!("{HEAD} journal {:020} sequence {:020}", self.journal, self.sequence);
        format!("{body} crc32c {:08x}\n", crc32c::crc32c(body.as_bytes()))
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (body, checksum) = std::str::from_utf8(bytes).ok()?.split_once(" crc32c ")?;
        let checksum = u32::from_str_radix(checksum.trim_end(), 16).ok()?;
        let (journal, sequence) =
            body.strip_prefix(HEAD)?.strip_prefix(" journal ")?.split_once(" sequence ")?;
        let found = Self { journal: journal.parse().ok()?, sequence: sequence.parse().ok()? };
        (checksum == crc32c::crc32c(body.as_bytes())).then_some(found)
    }
}

/// The file of an open store.
pub(super) struct CoveredFile {
    file: File,
    path: PathBuf,
}

impl CoveredFile {
    pub(super) fn open(folder: &Path) -> Result<Self, StoreError> {
        let path = folder.join(COVERED_FILE);
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(|error| StoreError::file("open", &path, error))?;
        Ok(Self { file, path })
    }

    /// Writes the line over the last one.
    pub(super) fn write(&mut self, covered: Covered) -> Result<(), StoreError> {
        let mut write = || -> io::Result<()> {
            self.file.seek(SeekFrom::Start(0))?;
            self.file.write_all(covered.encode().as_bytes())
        };
        write().map_err(|error| StoreError::file("write", &self.path, error))
    }

    /// Takes the claim back, durably.
    pub(super) fn clear(&mut self) -> Result<(), StoreError> {
        self.write(Covered { journal: 0, sequence: 0 })?;
        self.file.sync_all().map_err(|error| StoreError::file("sync", &self.path, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_back_and_a_changed_one_says_nothing() {
        let covered = Covered { journal: 3, sequence: u64::MAX };
        let text = covered.encode().into_bytes();
        assert_eq!(Covered::decode(&text), Some(covered));
        assert_eq!(text.len(), Covered { journal: 0, sequence: 0 }.encode().len());
        for at in 0..text.len() - 9 {
            let mut changed = text.clone();
            changed[at] ^= 1;
            assert_eq!(Covered::decode(&changed), None, "at {at}");
        }
    }
}
