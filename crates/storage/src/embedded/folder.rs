//! What lies in the data folder beside the engine's own files.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::StoreError;
use crate::disk::{Disk, FolderDisk};

/// The version of the data folder: keyspaces, keys, values, backups. Raised with every change that
/// an older program would misread.
pub const FORMAT_VERSION: u32 = 1;

const FORMAT_FILE: &str = "format";
const FORMAT_WORD: &str = "armilla-format";
const ENGINE_FOLDER: &str = "engine";
const JOURNAL_EXTENSION: &str = "jnl";

/// Where the engine keeps its files.
pub(super) fn engine_path(folder: &Path) -> PathBuf {
    folder.join(ENGINE_FOLDER)
}

/// Writes the version into a new folder; refuses a folder of another version.
pub(super) fn check_format(folder: &Path) -> Result<(), StoreError> {
    let disk = FolderDisk::new(folder)?;
    let file = Path::new(FORMAT_FILE);
    let Some(text) = disk.read(file)? else {
        // Without its version an existing store is not touched.
        if !disk.list(Path::new(ENGINE_FOLDER))?.is_empty() {
            let place = folder.join(FORMAT_FILE).display().to_string();
            return Err(StoreError::corruption(place, "the file is missing"));
        }
        return disk.replace(file, format!("{FORMAT_WORD} {FORMAT_VERSION}\n").as_bytes());
    };
    let found = parse_format(&text).ok_or_else(|| {
        let place = folder.join(FORMAT_FILE).display().to_string();
        StoreError::corruption(place, "the file does not name a format version")
    })?;
    if found == FORMAT_VERSION {
        return Ok(());
    }
    Err(StoreError::FormatVersion { found, expected: FORMAT_VERSION })
}

fn parse_format(text: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(text).ok()?;
    text.trim_end().strip_prefix(FORMAT_WORD)?.trim_start().parse().ok()
}

/// Empties the newest journal of a stopped engine whose every write is in sorted files.
///
/// The engine would otherwise read it through at the next start only to skip all of it. An empty
/// journal is what the engine itself leaves behind when it begins a new one.
pub(super) fn empty_journal(folder: &Path) -> Result<(), StoreError> {
    let engine = engine_path(folder);
    let newest = newest_journal(&engine).map_err(|e| StoreError::file("list", &engine, e))?;
    let Some(path) = newest else { return Ok(()) };
    let empty = || {
        let file = OpenOptions::new().write(true).open(&path)?;
        file.set_len(0)?;
        file.sync_all()
    };
    empty().map_err(|error| StoreError::file("empty", &path, error))
}

fn newest_journal(engine: &Path) -> io::Result<Option<PathBuf>> {
    let mut newest: Option<(u64, PathBuf)> = None;
    for entry in fs::read_dir(engine)? {
        let path = entry?.path();
        if path.extension() != Some(OsStr::new(JOURNAL_EXTENSION)) {
            continue;
        }
        let number = path.file_stem().and_then(OsStr::to_str).and_then(|stem| stem.parse().ok());
        if let Some(number) = number
            && newest.as_ref().is_none_or(|(highest, _)| number > *highest)
        {
            newest = Some((number, path));
        }
    }
    Ok(newest.map(|(_, path)| path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_parsed_strictly() {
        assert_eq!(parse_format(b"armilla-format 1\n"), Some(1));
        assert_eq!(parse_format(b"armilla-format 42"), Some(42));
        for bad in [&b""[..], b"armilla-format", b"armilla-format x", b"other 1", b"\xff"] {
            assert_eq!(parse_format(bad), None);
        }
    }
}
