//! Files that somebody names on the command line: certificates, keys of a directory.

use armilla_storage::disk::{Disk, FolderDisk};
use std::path::Path;

/// Reads a file; one that is not there is an error that names it, and nothing is made.
pub(crate) fn read(file: &Path) -> Result<Vec<u8>, String> {
    let missing = || format!("{} is no file", file.display());
    let name = file.file_name().ok_or_else(missing)?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(missing());
    }
    let disk = FolderDisk::new(folder).map_err(|error| error.to_string())?;
    let bytes = disk.read(Path::new(name)).map_err(|error| error.to_string())?;
    bytes.map(|bytes| bytes.to_vec()).ok_or_else(missing)
}
