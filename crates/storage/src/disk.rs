//! The one door to files.
//!
//! Everything that reads or writes a data file goes through a [`Disk`], except the embedded
//! engine, which keeps its own files in its own folder. That makes crashes and failures something
//! a test can order:
//!
//! * [`FolderDisk`]: real files below one folder, read through memory maps;
//! * [`MemoryDisk`]: files in memory, which knows what would survive a loss of power;
//! * [`OverlayDisk`]: a folder that is only read, with changes in memory;
//! * [`FailingDisk`]: any disk, until it has used up its operations.
//!
//! Paths are relative to the disk's root. What is assumed of a disk: bytes are durable after
//! [`DiskFile::sync`], names (created, renamed, removed) after [`Disk::sync_folder`], a rename
//! replaces its target in one step, and a file that is mapped is never changed in place.

mod failing;
mod folder;
mod lock;
mod make;
mod memory;
mod overlay;

use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::StoreError;

pub use failing::FailingDisk;
pub use folder::FolderDisk;
pub use lock::FolderLock;
pub(crate) use make::{create_folder, sync_names};
pub use memory::MemoryDisk;
pub use overlay::OverlayDisk;

/// A tree of files.
pub trait Disk: Send + Sync {
    /// Creates a file for writing, emptying one that is there, with the folders above it.
    ///
    /// # Errors
    ///
    /// When the system refuses; so for every other operation.
    fn create(&self, path: &Path) -> Result<Box<dyn DiskFile>, StoreError>;

    /// Opens a file to write at its end, creating it when absent.
    ///
    /// # Errors
    ///
    /// As [`Disk::create`].
    fn append(&self, path: &Path) -> Result<Box<dyn DiskFile>, StoreError>;

    /// The bytes of a file as they are now, without reading them first: they are mapped, and stay
    /// valid after the file is removed. The file must not be changed while the bytes are held.
    ///
    /// # Errors
    ///
    /// As [`Disk::create`]; an absent file is an error too.
    fn map(&self, path: &Path) -> Result<Bytes, StoreError>;

    /// Gives memory of mapped files back when this process has more than so many bytes of files in memory. The bytes
    /// stay valid: they are read again, mostly from the system's cache, when somebody wants them.
    fn trim_maps(&self, most: u64) {
        let _nothing_is_mapped = most;
    }

    /// The bytes of a file, read into memory; `None` when there is no such file.
    ///
    /// # Errors
    ///
    /// As [`Disk::create`].
    fn read(&self, path: &Path) -> Result<Option<Bytes>, StoreError>;

    /// Gives a file another name, replacing what has that name.
    ///
    /// # Errors
    ///
    /// As [`Disk::create`].
    fn rename(&self, from: &Path, to: &Path) -> Result<(), StoreError>;

    /// Removes a file; one that is not there is fine.
    ///
    /// # Errors
    ///
    /// As [`Disk::create`].
    fn remove(&self, path: &Path) -> Result<(), StoreError>;

    /// Removes a folder and everything in it; one that is not there is fine.
    ///
    /// # Errors
    ///
    /// As [`Disk::create`].
    fn remove_folder(&self, path: &Path) -> Result<(), StoreError>;

    /// The names of the files and folders directly inside a folder, sorted; none when it is absent.
    ///
    /// # Errors
    ///
    /// As [`Disk::create`].
    fn list(&self, folder: &Path) -> Result<Vec<String>, StoreError>;

    /// Makes the names inside a folder durable.
    ///
    /// # Errors
    ///
    /// As [`Disk::create`].
    fn sync_folder(&self, folder: &Path) -> Result<(), StoreError>;

    /// Writes a whole file so that after a crash either the old or the new one is there: written
    /// aside, synced, renamed.
    ///
    /// # Errors
    ///
    /// As [`Disk::create`].
    fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
        let mut aside = path.as_os_str().to_owned();
        aside.push(".new");
        let aside = PathBuf::from(aside);
        let mut file = self.create(&aside)?;
        file.write(bytes)?;
        file.sync()?;
        drop(file);
        self.rename(&aside, path)?;
        self.sync_folder(path.parent().unwrap_or_else(|| Path::new("")))
    }
}

/// A file that is being written.
pub trait DiskFile: Send {
    /// Adds bytes at the end.
    ///
    /// # Errors
    ///
    /// When the disk refuses; the file then ends anywhere inside the bytes.
    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError>;

    /// Makes everything written so far durable.
    ///
    /// # Errors
    ///
    /// When the disk refuses; nobody knows then what it holds.
    fn sync(&mut self) -> Result<(), StoreError>;
}

#[cfg(test)]
mod tests;
