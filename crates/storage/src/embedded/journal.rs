//! Looks at the engine's journals before the engine does.
//!
//! The engine replays its journals at start, and stops quietly at the first bytes it cannot
//! understand. That is right for the end of the newest journal, where a loss of power may cut a
//! batch that nobody was told about. It is wrong anywhere else: damage in the middle would drop
//! every acknowledged batch behind it without a word. And one kind of cut the engine does not
//! survive: when the end of the last batch reached the disk but a page before it did not, it refuses
//! to open. So, before each start:
//!
//! * whole batches, then nothing but zeros: as it should be;
//! * whole batches, then bytes in which no whole batch can be found: the torn end of the newest
//!   journal; it is cut off;
//! * whole batches, damage, and whole batches again: corruption, and the store is not opened.
//!
//! The engine's checksum does not cover the sequence number of a batch, which decides whether a batch is
//! replayed or taken for old. They rise strictly from batch to batch over all journals, by small steps;
//! anything else is corruption. So is a gap in the numbers of the journals.
//!
//! With synced commits at most one batch is on its way to the disk, so a torn end is never
//! followed by a whole batch. After a clean stop the journal is empty and this costs nothing;
//! otherwise it reads what the engine is about to read anyway.
//!
//! The layout, of the pinned version of the engine (numbers little-endian):
//!
//! ```text
//! batch  = 01 items:u32 sequence:u64  item…  03 xxh3(items):u64 "FJL" 03
//! item   = 02 kind:u8 compression:u8 tree:u64 key:u16 value:u32 stored:u32  key  stored value
//!        | 04 tree:u64
//! ```

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use super::fields::Fields;
use super::tree_files::{damaged, names};
use crate::StoreError;

const EXTENSION: &str = "jnl";

const TAG_START: u8 = 1;
const TAG_ITEM: u8 = 2;
const TAG_END: u8 = 3;
const TAG_CLEAR: u8 = 4;
/// An item that gives its key a value; other kinds remove it.
const KIND_VALUE: u8 = 0;
const TRAILER: &[u8; 4] = b"FJL\x03";

/// What a preallocated journal holds behind its last batch.
const ZEROS: [u8; 4096] = [0; 4096];

/// The most by which a sequence number rises from one batch to the next: flushes and merges take some
/// in between, a changed bit takes more.
const SEQUENCE_STEP_MAX: u64 = 1 << 32;

/// The engine has no sequence numbers from here on.
const SEQUENCE_END: u64 = 1 << 63;

/// A journal, looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Journal {
    pub(super) number: u64,
    /// The sequence numbers of its first and last whole batch, if it has one.
    pub(super) sequences: Option<(u64, u64)>,
    /// Every tree that a batch names.
    pub(super) trees: BTreeSet<u64>,
    /// Where its whole batches end.
    pub(super) end: u64,
    /// Whether bytes of a batch follow that is not whole.
    pub(super) is_torn: bool,
}

/// Looks at every journal in the engine's folder, oldest first; changes nothing.
pub(super) fn survey(engine: &Path) -> Result<Vec<Journal>, StoreError> {
    let numbers = numbers(engine)?;
    let mut journals = Vec::with_capacity(numbers.len());
    let mut order = Order::default();
    for (index, number) in numbers.iter().enumerate() {
        if let Some(missing) =
            number.checked_sub(1).filter(|before| index > 0 && !numbers.contains(before))
        {
            return Err(damaged(
                &path(engine, missing),
                "the journal is missing: there is an older and a newer one",
            ));
        }
        let newest = index + 1 == numbers.len();
        journals.push(survey_file(engine, *number, newest, &mut order)?);
    }
    Ok(journals)
}

/// Cuts the torn end of the newest journal, which nobody was told about.
pub(super) fn cut_torn_end(engine: &Path, journals: &[Journal]) -> Result<(), StoreError> {
    let Some(newest) = journals.last() else { return Ok(()) };
    if newest.is_torn { cut(&path(engine, newest.number), newest.end) } else { Ok(()) }
}

/// Empties the newest journal of a stopped engine whose every write is in sorted files.
///
/// The engine would otherwise read it through at the next start only to skip all of it. An empty
/// journal is what it expects right after beginning a new one.
pub(super) fn empty_newest(engine: &Path) -> Result<(), StoreError> {
    numbers(engine)?.last().map_or(Ok(()), |number| cut(&path(engine, *number), 0))
}

/// The numbers of the journals, oldest first.
pub(super) fn numbers(engine: &Path) -> Result<Vec<u64>, StoreError> {
    let mut found = Vec::new();
    for name in names(engine)? {
        let path = Path::new(&name);
        if path.extension() != Some(OsStr::new(EXTENSION)) {
            continue;
        }
        let number = path.file_stem().and_then(OsStr::to_str).and_then(|stem| stem.parse().ok());
        // The engine refuses it too, without a name.
        found.push(number.ok_or_else(|| damaged(&engine.join(path), "this is no journal's name"))?);
    }
    found.sort_unstable();
    Ok(found)
}

/// The file of a journal.
pub(super) fn path(engine: &Path, number: u64) -> PathBuf {
    engine.join(format!("{number}.{EXTENSION}"))
}

fn survey_file(
    engine: &Path,
    number: u64,
    newest: bool,
    order: &mut Order,
) -> Result<Journal, StoreError> {
    let path = path(engine, number);
    // Read, not mapped: a file with holes on a full disk would end the process.
    let bytes = fs::read(&path).map_err(|error| StoreError::file("read", &path, error))?;
    let (sequences, trees) = (None, BTreeSet::new());
    let mut journal = Journal { number, sequences, trees, end: 0, is_torn: false };
    let mut batches = Batches::new(&bytes);
    for batch in &mut batches {
        order.follow(&path, &batch)?;
        let first = journal.sequences.map_or(batch.sequence, |(first, _)| first);
        journal.sequences = Some((first, batch.sequence));
        journal.trees.extend(batch.items().map(|item| item.tree));
    }
    journal.end = batches.at as u64;
    match batches.end() {
        End::Clean => {}
        End::Torn { .. } if newest => journal.is_torn = true,
        End::Torn { at } | End::Damaged { at } => {
            let reason = format!("acknowledged writes after byte {at} cannot be replayed");
            return Err(damaged(&path, &reason));
        }
    }
    Ok(journal)
}

/// Sequence numbers, which rise.
#[derive(Default)]
struct Order {
    last: Option<u64>,
}

impl Order {
    fn follow(&mut self, path: &Path, batch: &BatchBytes<'_>) -> Result<(), StoreError> {
        let (at, found) = (batch.at, batch.sequence);
        let last = self.last.replace(found);
        let rises = |last| {
            found.checked_sub(last).is_some_and(|step| (1..SEQUENCE_STEP_MAX).contains(&step))
        };
        if last.is_none_or(rises) && found < SEQUENCE_END {
            return Ok(());
        }
        let last = last.map_or("none".to_owned(), |last| last.to_string());
        let reason = format!(
            "the batch at byte {at} has sequence number {found} and the one before it {last}; \
             acknowledged writes would be lost"
        );
        Err(damaged(path, &reason))
    }
}

fn cut(path: &Path, length: u64) -> Result<(), StoreError> {
    let cut = || {
        let file = OpenOptions::new().write(true).open(path)?;
        file.set_len(length)?;
        file.sync_all()
    };
    cut().map_err(|error| StoreError::file("cut", path, error))
}

/// How the whole batches of a journal end.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// With the file, or with zeros up to its end.
    Clean,
    /// With bytes that belong to no whole batch.
    Torn { at: usize },
    /// With bytes after which whole batches follow.
    Damaged { at: usize },
}

/// The whole batches at the beginning of a journal.
pub(super) struct Batches<'bytes> {
    bytes: &'bytes [u8],
    at: usize,
}

impl<'bytes> Batches<'bytes> {
    pub(super) fn new(bytes: &'bytes [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Where the next batch would begin.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// Whether nothing but zeros follows.
    pub(super) fn is_at_clean_end(&self) -> bool {
        is_zero(self.tail())
    }

    fn tail(&self) -> &'bytes [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// What follows the last whole batch.
    fn end(&self) -> End {
        let at = self.at;
        if self.is_at_clean_end() {
            return End::Clean;
        }
        let mut later = Self { bytes: self.bytes, at };
        if later.skip_damage() { End::Damaged { at } } else { End::Torn { at } }
    }

    /// Goes on with the next whole batch behind bytes that are none; false when there is none.
    pub(super) fn skip_damage(&mut self) -> bool {
        let tail = self.tail();
        let mut starts = tail.iter().enumerate().filter(|(_, byte)| **byte == TAG_START);
        let whole = |start: &usize| tail.get(*start..).and_then(parse_batch).is_some();
        let next = starts.find_map(|(start, _)| Some(start).filter(whole));
        self.at += next.unwrap_or(tail.len());
        next.is_some()
    }
}

impl<'bytes> Iterator for Batches<'bytes> {
    type Item = BatchBytes<'bytes>;

    fn next(&mut self) -> Option<Self::Item> {
        let (batch, length) = parse_batch(self.tail())?;
        let at = self.at;
        self.at += length;
        Some(BatchBytes { at, ..batch })
    }
}

/// A whole batch in a journal.
#[derive(Clone, Copy)]
pub(super) struct BatchBytes<'bytes> {
    at: usize,
    pub(super) sequence: u64,
    items: &'bytes [u8],
}

/// One change of a batch.
pub(super) struct ItemBytes<'bytes> {
    pub(super) tree: u64,
    pub(super) key: &'bytes [u8],
    /// `None` for a removed key.
    pub(super) value: Option<&'bytes [u8]>,
}

impl<'bytes> BatchBytes<'bytes> {
    /// Its changes, without those that empty a whole tree, which we never write.
    pub(super) fn items(&self) -> impl Iterator<Item = ItemBytes<'bytes>> + use<'bytes> {
        let mut fields = Fields(self.items);
        std::iter::from_fn(move || parse_item(&mut fields)).flatten()
    }
}

/// Compared in blocks, since this is the longest part of most journals.
fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(ZEROS.len()).all(|chunk| Some(chunk) == ZEROS.get(..chunk.len()))
}

/// The whole batch at the beginning of the bytes, if there is one, and its length.
fn parse_batch(bytes: &[u8]) -> Option<(BatchBytes<'_>, usize)> {
    let mut fields = Fields(bytes);
    let start = fields.take::<1>()? == [TAG_START];
    let count = u32::from_le_bytes(fields.take()?);
    let sequence = u64::from_le_bytes(fields.take()?);
    if !start || count == 0 {
        return None;
    }
    let items = fields.0;
    for _ in 0..count {
        parse_item(&mut fields)?;
    }
    let items = items.get(..items.len() - fields.0.len())?;
    let end = fields.take::<1>()? == [TAG_END];
    let checksum = u64::from_le_bytes(fields.take()?);
    let trailer = fields.take()? == *TRAILER;
    let length = bytes.len() - fields.0.len();
    let whole = end && trailer && checksum == xxh3_64(items);
    whole.then_some((BatchBytes { at: 0, sequence, items }, length))
}

/// One item; the inner `None` is a whole tree emptied.
fn parse_item<'bytes>(fields: &mut Fields<'bytes>) -> Option<Option<ItemBytes<'bytes>>> {
    match fields.take()? {
        [TAG_ITEM] => {
            let [kind, _compression] = fields.take()?;
            let tree = u64::from_le_bytes(fields.take()?);
            let key = u16::from_le_bytes(fields.take()?);
            let _length_before_compression = fields.take::<4>()?;
            let value = u32::from_le_bytes(fields.take()?);
            let key = fields.slice(usize::from(key))?;
            let value = fields.slice(value as usize)?;
            Some(Some(ItemBytes { tree, key, value: (kind == KIND_VALUE).then_some(value) }))
        }
        [TAG_CLEAR] => fields.take::<8>().map(|_| None),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
