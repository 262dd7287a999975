//! One process per folder.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::Path;

use super::make::create_folder;
use crate::StoreError;

/// The name of the locked file inside the folder.
const LOCK_FILE: &str = "lock";

/// Keeps other processes, and other openings in this one, out of a folder while it lives.
///
/// The system gives the lock back when the process ends, however it ends, so a lock file that
/// is left behind means nothing.
#[derive(Debug)]
pub struct FolderLock {
    _file: File,
}

impl FolderLock {
    /// Locks the folder, creating it when absent, without waiting.
    ///
    /// # Errors
    ///
    /// [`StoreError::Locked`] when somebody else has it.
    pub fn acquire(folder: &Path) -> Result<Self, StoreError> {
        create_folder(folder).map_err(|e| StoreError::file("create folder", folder, e))?;
        let path = folder.join(LOCK_FILE);
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(|error| StoreError::file("open", &path, error))?;
        Self::lock(file, folder, &path)
    }

    /// Locks a folder that is only read, and creates nothing: where no lock file is, no process has
    /// the folder open, and there is nothing to hold.
    ///
    /// # Errors
    ///
    /// [`StoreError::Locked`] when somebody else has it.
    pub fn acquire_existing(folder: &Path) -> Result<Option<Self>, StoreError> {
        let path = folder.join(LOCK_FILE);
        match File::open(&path) {
            Ok(file) => Self::lock(file, folder, &path).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::file("open", &path, error)),
        }
    }

    fn lock(file: File, folder: &Path, path: &Path) -> Result<Self, StoreError> {
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(StoreError::Locked { path: folder.into() }),
            Err(TryLockError::Error(error)) => Err(StoreError::file("lock", path, error)),
        }
    }
}
