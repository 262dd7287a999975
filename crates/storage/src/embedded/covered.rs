//! `engine.covered`: how far the newest journal was filled with durable batches.
//!
//! A journal that ends early looks like one that was never longer, so a cut file would lose
//! acknowledged writes without a word. So each synced commit writes a line over the last one before it
//! is acknowledged: *while journal n is there, the journals hold a batch with at least this sequence
//! number*. The line is not synced. A killed process leaves it behind, since the system has it; a loss of
//! power may bring an older one back, which is still true of the batches it names, and a torn one says
//! nothing. A clean stop takes the line back before it empties the journal.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::journal;
use crate::StoreError;

pub(super) const COVERED_FILE: &str = "engine.covered";
const HEAD: &str = "armilla-covered 1";

/// A whole line; digits come in the place of zeros.
const LINE: &[u8; 93] = b"armilla-covered 1 journal 00000000000000000000 sequence 00000000000000000000 crc32c 00000000\n";
const DIGITS: usize = 20;
const JOURNAL_AT: usize = HEAD.len() + " journal ".len();
const SEQUENCE_AT: usize = JOURNAL_AT + DIGITS + " sequence ".len();
const CHECKSUM_AT: usize = SEQUENCE_AT + DIGITS + " crc32c ".len();
const HEX: &[u8; 16] = b"0123456789abcdef";

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

    /// Always of one length, so that writing it anew replaces all of it. Digits are put where they belong: every commit writes a line.
    fn encode(self) -> [u8; LINE.len()] {
        let mut line = *LINE;
        write_decimal(&mut line[JOURNAL_AT..][..DIGITS], self.journal);
        write_decimal(&mut line[SEQUENCE_AT..][..DIGITS], self.sequence);
        let checksum = crc32c::crc32c(&line[..SEQUENCE_AT + DIGITS]);
        for (place, digit) in line[CHECKSUM_AT..].iter_mut().zip((0..8).rev()) {
            *place = HEX[(checksum >> (4 * digit)) as usize & 15];
        }
        line
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
        let written = write_at_start(&mut self.file, &covered.encode());
        written.map_err(|error| StoreError::file("write", &self.path, error))
    }

    /// Takes the claim back, durably.
    pub(super) fn clear(&mut self) -> Result<(), StoreError> {
        self.write(Covered { journal: 0, sequence: 0 })?;
        self.file.sync_all().map_err(|error| StoreError::file("sync", &self.path, error))
    }
}

/// The last digits of a number, as many as there is room for.
fn write_decimal(room: &mut [u8], mut number: u64) {
    for place in room.iter_mut().rev() {
        *place = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// One call of the system where it has one for it: this is done for every commit.
#[cfg(unix)]
fn write_at_start(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, 0)
}

#[cfg(not(unix))]
fn write_at_start(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    use std::io::{Seek, SeekFrom, Write};
    file.seek(SeekFrom::Start(0))?;
    file.write_all(bytes)
}

/// The line of a store that commits. Used under the lock of commits.
pub(super) struct Claims {
    file: CoveredFile,
    engine: PathBuf,
    /// The newest journal that was seen.
    journal: u64,
    /// Batches behind this sequence number are in that journal, or in a newer one.
    since: u64,
}

impl Claims {
    pub(super) fn open(folder: &Path, engine: &Path, journal: u64) -> Result<Self, StoreError> {
        let file = CoveredFile::open(folder)?;
        Ok(Self { file, engine: engine.into(), journal, since: 0 })
    }

    /// What the journals held when the store was opened.
    pub(super) fn begin(&mut self, covered: Covered) -> Result<(), StoreError> {
        self.file.write(covered)
    }

    /// The engine's newest journal, with what was durable by then.
    pub(super) fn saw(&mut self, newest: u64, durable: u64) {
        if newest != self.journal {
            (self.journal, self.since) = (newest, durable);
        }
    }

    /// Before a batch is written, to this journal as far as is known. A claim says nothing once its journal was flushed and removed.
    pub(super) fn before_commit(&mut self, durable: u64, active: Option<u64>) {
        // The one that is written to is there: nobody has to look.
        if active == Some(self.journal) {
            return;
        }
        if !journal::path(&self.engine, self.journal).exists()
            && let Ok(numbers) = journal::numbers(&self.engine)
        {
            self.saw(numbers.last().copied().unwrap_or(0), durable);
        }
    }

    /// A batch with at least this sequence number is durable.
    pub(super) fn committed(&mut self, sequence: u64) {
        if sequence > self.since {
            // A line that cannot be written leaves an older one, which is still true.
            let _written = self.file.write(Covered { journal: self.journal, sequence });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_name_the_journal_that_holds_the_batch() {
        let folder = tempfile::tempdir().unwrap();
        let journal = |number| journal::path(folder.path(), number);
        std::fs::write(journal(1), "").unwrap();
        let mut claims = Claims::open(folder.path(), folder.path(), 1).unwrap();
        let commit = |claims: &mut Claims, durable, sequence| {
            claims.before_commit(durable, None);
            claims.committed(sequence);
            Covered::read(folder.path()).map(|covered| (covered.journal, covered.sequence))
        };
        assert_eq!(commit(&mut claims, 0, 5), Some((1, 5)));
        // While the first journal is there it stands for newer ones.
        std::fs::write(journal(2), "").unwrap();
        assert_eq!(commit(&mut claims, 5, 6), Some((1, 6)));
        std::fs::remove_file(journal(1)).unwrap();
        assert_eq!(commit(&mut claims, 6, 7), Some((2, 7)));
        // What was durable when a journal was first seen may lie in an older one.
        claims.saw(3, 7);
        std::fs::write(journal(3), "").unwrap();
        assert_eq!(commit(&mut claims, 7, 7), Some((2, 7)));
        assert_eq!(commit(&mut claims, 7, 8), Some((3, 8)));
    }

    #[test]
    fn a_line_is_read_back_and_a_changed_one_says_nothing() {
        let covered = Covered { journal: 3, sequence: u64::MAX };
        let text = covered.encode().to_vec();
        assert_eq!(Covered::decode(&text), Some(covered));
        let digits = format!("{HEAD} journal {:020} sequence {:020}", 3, u64::MAX);
        let whole = format!("{digits} crc32c {:08x}\n", crc32c::crc32c(digits.as_bytes()));
        assert_eq!(text, whole.as_bytes());
        for at in 0..text.len() - 9 {
            let mut changed = text.clone();
            changed[at] ^= 1;
            assert_eq!(Covered::decode(&changed), None, "at {at}");
        }
    }
}
