//! A disk that works for a while.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::{Disk, DiskFile};
use crate::StoreError;

/// Passes everything to another disk until its operations are used up; then everything fails.
///
/// A test runs its subject once with plenty to learn how many operations it takes, then once for
/// every smaller number, and looks at what is left each time.
#[derive(Clone)]
pub struct FailingDisk {
    inner: Arc<dyn Disk>,
    left: Arc<AtomicU64>,
}

impl FailingDisk {
    /// A disk that fails after this many operations.
    pub fn new(inner: Arc<dyn Disk>, operations: u64) -> Self {
        Self { inner, left: Arc::new(AtomicU64::new(operations)) }
    }

    /// How many operations are left.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    fn spend(&self, action: &str, path: &Path) -> Result<(), StoreError> {
        spend(&self.left).map_err(|error| StoreError::file(action, path, error))
    }

    fn wrap(&self, file: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(FailingFile { inner: file, left: Arc::clone(&self.left) })
    }
}

impl Disk for FailingDisk {
    fn create(&self, path: &Path) -> Result<Box<dyn DiskFile>, StoreError> {
        self.spend("create", path)?;
        self.inner.create(path).map(|file| self.wrap(file))
    }

    fn append(&self, path: &Path) -> Result<Box<dyn DiskFile>, StoreError> {
        self.spend("append to", path)?;
        self.inner.append(path).map(|file| self.wrap(file))
    }

    fn map(&self, path: &Path) -> Result<Bytes, StoreError> {
        self.spend("map", path)?;
        self.inner.map(path)
    }

    fn trim_maps(&self, most: u64) {
        self.inner.trim_maps(most);
    }

    fn read(&self, path: &Path) -> Result<Option<Bytes>, StoreError> {
        self.spend("read", path)?;
        self.inner.read(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), StoreError> {
        self.spend("rename", from)?;
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> Result<(), StoreError> {
        self.spend("remove", path)?;
        self.inner.remove(path)
    }

    fn remove_folder(&self, path: &Path) -> Result<(), StoreError> {
        self.spend("remove folder", path)?;
        self.inner.remove_folder(path)
    }

    fn list(&self, folder: &Path) -> Result<Vec<String>, StoreError> {
        self.spend("list", folder)?;
        self.inner.list(folder)
    }

    fn sync_folder(&self, folder: &Path) -> Result<(), StoreError> {
        self.spend("sync folder", folder)?;
        self.inner.sync_folder(folder)
    }
}

struct FailingFile {
    inner: Box<dyn DiskFile>,
    left: Arc<AtomicU64>,
}

impl DiskFile for FailingFile {
    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        if let Err(error) = spend(&self.left) {
            // A failed write may leave any part of it behind.
            let torn = bytes.get(..bytes.len() / 2).unwrap_or(bytes);
            self.inner.write(torn)?;
            return Err(StoreError::io("write", error));
        }
        self.inner.write(bytes)
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        spend(&self.left).map_err(|error| StoreError::io("sync", error))?;
        self.inner.sync()
    }
}

fn spend(left: &AtomicU64) -> io::Result<()> {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
        .map(|_| ())
        .map_err(|_| io::Error::other("the disk fails on demand"))
}
