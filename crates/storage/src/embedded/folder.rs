//! What lies in the data folder beside the engine's own files.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::covered::COVERED_FILE;
use super::manifest::MANIFEST_FILE;
use super::tree_files::{damaged, names};
use crate::StoreError;
use crate::disk::{Disk, FolderDisk};

/// The version of the data folder: keyspaces, keys, values, backups. Raised with every change that
/// an older program would misread.
pub const FORMAT_VERSION: u32 = 1;

const FORMAT_FILE: &str = "format";
const FORMAT_WORD: &str = "armilla-format";
const ENGINE_FOLDER: &str = "engine";
const UNFINISHED_FOLDER: &str = "engine.new";

/// Lies in a folder that a restore has not finished.
pub(crate) const RESTORING_FILE: &str = "restoring";

/// Names that only a store leaves in its folder.
const TRACES: [&str; 4] = [MANIFEST_FILE, COVERED_FILE, "index", "token-secret"];

/// Names that may lie in a folder before a store is made there.
const NEIGHBOURS: [&str; 4] = ["lock", UNFINISHED_FOLDER, "tls", "lost+found"];

/// Keys and certificates may lie there too; larger files are somebody else's.
const NEIGHBOUR_BYTES_MAX: u64 = 64 * 1024;

/// Where the engine keeps its files.
pub(super) fn engine_path(folder: &Path) -> PathBuf {
    folder.join(ENGINE_FOLDER)
}

/// What a data folder is, judged by names alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A store, with its version.
    Store,
    /// The beginning of one: its maker was stopped before the version was written.
    Unfinished,
    /// Nothing of ours.
    Nothing,
}

/// Looks at a folder; an error names what is missing where something is.
pub(super) fn look(folder: &Path) -> Result<Found, StoreError> {
    let format = read_format(folder)?;
    let has_engine = !names(&engine_path(folder))?.is_empty();
    let missing = |name: &str, why: &str| Err(damaged(&folder.join(name), why));
    if let Some(text) = format {
        check_format(folder, &text)?;
        if has_engine {
            return Ok(Found::Store);
        }
        // An older version wrote the format first.
        let unfinished = folder.join(UNFINISHED_FOLDER).exists() && trace(folder).is_none();
        let why = "the folder is missing; is the volume mounted?";
        return if unfinished { Ok(Found::Nothing) } else { missing(ENGINE_FOLDER, why) };
    }
    if has_engine {
        return Ok(Found::Unfinished);
    }
    match trace(folder) {
        Some(trace) => {
            let why = format!("the file is missing, and {trace} shows that a store was here");
            missing(FORMAT_FILE, &why)
        }
        None => Ok(Found::Nothing),
    }
}

/// Refuses the remains of a restore.
pub(super) fn check_restored(folder: &Path) -> Result<(), StoreError> {
    let path = folder.join(RESTORING_FILE);
    if !path.exists() {
        return Ok(());
    }
    Err(damaged(
        &path,
        "a restore into this folder did not end; remove the folder and restore again",
    ))
}

/// What only a store leaves behind.
fn trace(folder: &Path) -> Option<&'static str> {
    TRACES.into_iter().find(|name| folder.join(name).exists())
}

/// Refuses to make a store among things of somebody else.
pub(super) fn require_room(folder: &Path) -> Result<(), StoreError> {
    for name in names(folder)? {
        let path = folder.join(&name);
        let small_file = fs::metadata(&path)
            .is_ok_and(|metadata| metadata.is_file() && metadata.len() <= NEIGHBOUR_BYTES_MAX);
        if !small_file && !name.starts_with('.') && !NEIGHBOURS.contains(&&*name) {
            let reason = format!(
                "the folder holds no store and is not empty ({name}); give a new or an empty folder"
            );
            let refused = std::io::Error::other(reason);
            return Err(StoreError::file("make a store in", folder, refused));
        }
    }
    Ok(())
}

/// Makes the engine's folder: elsewhere first, then renamed, since an engine that was killed while it
/// made its first files would never open again. The version comes last and makes it a store.
pub(super) fn make_engine(
    folder: &Path,
    make: impl FnOnce(&Path) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let disk = FolderDisk::new(folder)?;
    let unfinished = Path::new(UNFINISHED_FOLDER);
    disk.remove_folder(unfinished)?;
    make(&folder.join(unfinished))?;
    disk.rename(unfinished, Path::new(ENGINE_FOLDER))?;
    disk.sync_folder(Path::new(""))?;
    write_format(folder)
}

/// Writes the version.
pub(super) fn write_format(folder: &Path) -> Result<(), StoreError> {
    let text = format!("{FORMAT_WORD} {FORMAT_VERSION}\n");
    FolderDisk::new(folder)?.replace(Path::new(FORMAT_FILE), text.as_bytes())
}

/// The engine's own lock: an empty file that means nothing while nobody holds it, and without which the
/// engine does not open.
pub(super) fn make_engine_lock(engine: &Path) -> Result<(), StoreError> {
    let path = engine.join("lock");
    let made = fs::OpenOptions::new().write(true).create(true).truncate(false).open(&path);
    made.map(|_| ()).map_err(|error| StoreError::file("open", &path, error))
}

/// The refusal of a store without its version.
pub(super) fn format_is_missing(folder: &Path) -> StoreError {
    damaged(&folder.join(FORMAT_FILE), "the file is missing")
}

fn read_format(folder: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    let path = folder.join(FORMAT_FILE);
    match fs::read(&path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::file("read", &path, error)),
    }
}

fn check_format(folder: &Path, text: &[u8]) -> Result<(), StoreError> {
    let found = parse_format(text).ok_or_else(|| {
        damaged(&folder.join(FORMAT_FILE), "the file does not name a format version")
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
