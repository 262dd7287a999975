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

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use crate::StoreError;
use crate::disk::{Disk, FolderDisk};

const EXTENSION: &str = "jnl";

const TAG_START: u8 = 1;
const TAG_ITEM: u8 = 2;
const TAG_END: u8 = 3;
const TAG_CLEAR: u8 = 4;
const TRAILER: &[u8; 4] = b"FJL\x03";

/// What a preallocated journal holds behind its last batch.
const ZEROS: [u8; 4096] = [0; 4096];

/// Checks every journal in the engine's folder and cuts the torn end of the newest one.
pub(super) fn check(engine: &Path) -> Result<(), StoreError> {
    if !engine.exists() {
        return Ok(());
    }
    let disk = FolderDisk::new(engine)?;
    let names = names(&disk)?;
    for (index, name) in names.iter().enumerate() {
        let newest = index + 1 == names.len();
        check_file(&disk, name, newest)?;
    }
    Ok(())
}

/// Empties the newest journal of a stopped engine whose every write is in sorted files.
///
/// The engine would otherwise read it through at the next start only to skip all of it. An empty
/// journal is what it expects right after beginning a new one.
pub(super) fn empty_newest(engine: &Path) -> Result<(), StoreError> {
    let disk = FolderDisk::new(engine)?;
    names(&disk)?.last().map_or(Ok(()), |name| cut(&disk, name, 0))
}

/// The names of the journals, oldest first.
fn names(disk: &FolderDisk) -> Result<Vec<String>, StoreError> {
    let number = |name: &str| {
        let path = Path::new(name);
        let stem = path.file_stem().and_then(OsStr::to_str)?;
        stem.parse::<u64>().ok().filter(|_| path.extension() == Some(OsStr::new(EXTENSION)))
    };
    let mut names = disk.list(Path::new(""))?;
    names.retain(|name| number(name).is_some());
    names.sort_by_key(|name| number(name));
    Ok(names)
}

fn check_file(disk: &FolderDisk, name: &str, newest: bool) -> Result<(), StoreError> {
    let bytes = disk.map(Path::new(name))?;
    let end = match examine(&bytes) {
        End::Clean => return Ok(()),
        End::Torn { at } if newest => at,
        End::Torn { at } | End::Damaged { at } => {
            let place = disk.root().join(name).display().to_string();
            let reason = format!("acknowledged writes after byte {at} cannot be replayed");
            return Err(StoreError::corruption(place, reason));
        }
    };
    // A mapped file must not be cut.
    drop(bytes);
    cut(disk, name, end as u64)
}

fn cut(disk: &FolderDisk, name: &str, length: u64) -> Result<(), StoreError> {
    let path = disk.root().join(name);
    let cut = || {
        let file = OpenOptions::new().write(true).open(&path)?;
        file.set_len(length)?;
        file.sync_all()
    };
    cut().map_err(|error| StoreError::file("cut", &path, error))
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

fn examine(bytes: &[u8]) -> End {
    let mut at = 0;
    while let Some(length) = bytes.get(at..).and_then(batch_length) {
        at += length;
    }
    let tail = bytes.get(at..).unwrap_or_default();
    if is_zero(tail) {
        return End::Clean;
    }
    let mut starts = tail.iter().enumerate().filter(|(_, byte)| **byte == TAG_START);
    let whole = |start| tail.get(start..).and_then(batch_length).is_some();
    if starts.any(|(start, _)| whole(start)) { End::Damaged { at } } else { End::Torn { at } }
}

/// Compared in blocks, since this is the longest part of most journals.
fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(ZEROS.len()).all(|chunk| Some(chunk) == ZEROS.get(..chunk.len()))
}

/// The length of the whole batch at the beginning of the bytes, if there is one.
///
/// The engine's checksum covers the items and not the sequence number before them, so a sequence
/// number that changed is not noticed here.
fn batch_length(bytes: &[u8]) -> Option<usize> {
    let mut fields = Fields(bytes);
    let start = fields.take::<1>()? == [TAG_START];
    let count = u32::from_le_bytes(fields.take()?);
    let _sequence = fields.take::<8>()?;
    if !start || count == 0 {
        return None;
    }
    let items = fields.0;
    for _ in 0..count {
        skip_item(&mut fields)?;
    }
    let items = items.get(..items.len() - fields.0.len())?;
    let end = fields.take::<1>()? == [TAG_END];
    let checksum = u64::from_le_bytes(fields.take()?);
    let trailer = fields.take()? == *TRAILER;
    let length = bytes.len() - fields.0.len();
    (end && trailer && checksum == xxh3_64(items)).then_some(length)
}

fn skip_item(fields: &mut Fields<'_>) -> Option<()> {
    match fields.take()? {
        [TAG_ITEM] => {
            let _kind_compression_and_tree = fields.take::<10>()?;
            let key = u16::from_le_bytes(fields.take()?);
            let _length_before_compression = fields.take::<4>()?;
            let value = u32::from_le_bytes(fields.take()?);
            fields.skip(usize::from(key).checked_add(value as usize)?)
        }
        [TAG_CLEAR] => fields.skip(8),
        _ => None,
    }
}

struct Fields<'bytes>(&'bytes [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn skip(&mut self, length: usize) -> Option<()> {
        self.0 = self.0.get(length..)?;
        Some(())
    }
}

#[cfg(test)]
mod tests;
