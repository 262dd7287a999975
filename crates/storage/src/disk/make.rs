//! New folders, durable by name.

use std::fs::{DirBuilder, File};
use std::io;
use std::path::Path;

/// Creates a folder with the folders above it, and makes every new name durable: without that a loss
/// of power could take the whole folder, however well its files were synced.
pub(crate) fn create_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let above = above(folder);
    create_folder(above)?;
    match make(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    sync_names(above)
}

/// Makes one folder, which is its owner's alone.
fn make(folder: &Path) -> io::Result<()> {
    #[cfg_attr(not(unix), allow(unused_mut, reason = "elsewhere there are no modes"))]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// The folder that holds this name.
pub(crate) fn above(path: &Path) -> &Path {
    match path.parent() {
        Some(above) if !above.as_os_str().is_empty() => above,
        Some(_) => Path::new("."),
        None => path,
    }
}

/// Makes the names inside a folder durable.
#[cfg(unix)]
pub(crate) fn sync_names(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Elsewhere folders cannot be opened as files; the file system journals names by itself.
#[cfg(not(unix))]
pub(crate) fn sync_names(_folder: &Path) -> io::Result<()> {
    Ok(())
}
