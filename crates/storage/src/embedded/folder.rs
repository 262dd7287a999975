//! What lies in the data folder beside the engine's own files.

use std::path::{Path, PathBuf};

use crate::StoreError;
use crate::disk::{Disk, FolderDisk};

/// The version of the data folder: keyspaces, keys, values, backups. Raised with every change that
/// an older program would misread.
pub const FORMAT_VERSION: u32 = 1;

const FORMAT_FILE: &str = "format";
const FORMAT_WORD: &str = "armilla-format";
const ENGINE_FOLDER: &str = "engine";
const UNFINISHED_FOLDER: &str = "engine.new";

/// Where the engine keeps its files.
pub(super) fn engine_path(folder: &Path) -> PathBuf {
    folder.join(ENGINE_FOLDER)
}

/// Makes the engine's folder when there is none: elsewhere first, then renamed, since an engine that
/// was killed while it made its first files would never open again.
pub(super) fn make_engine(
    folder: &Path,
    make: impl FnOnce(&Path) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let disk = FolderDisk::new(folder)?;
    let unfinished = Path::new(UNFINISHED_FOLDER);
    disk.remove_folder(unfinished)?;
    if !disk.list(Path::new(ENGINE_FOLDER))?.is_empty() {
        return Ok(());
    }
    make(&folder.join(unfinished))?;
    disk.rename(unfinished, Path::new(ENGINE_FOLDER))?;
    disk.sync_folder(Path::new(""))
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
