//! A folder that is only read, with changes on top of it in memory.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::{Disk, DiskFile, FolderDisk, MemoryDisk};
use crate::StoreError;

/// Shows a folder and never writes to it: what is written lives in memory, what is removed is hidden.
///
/// For looking at data that must not change, with code that may want to repair what it finds.
#[derive(Clone)]
pub struct OverlayDisk {
    below: FolderDisk,
    above: MemoryDisk,
    /// Files and folders below that count as removed.
    hidden: Arc<Mutex<BTreeSet<PathBuf>>>,
}

impl OverlayDisk {
    /// A disk that shows this folder, which may be absent.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        let below = FolderDisk::existing(folder);
        Self { below, above: MemoryDisk::new(), hidden: Arc::default() }
    }

    fn is_hidden(&self, path: &Path) -> bool {
        let hidden = self.hidden.lock();
        path.ancestors().any(|path| hidden.contains(path))
    }

    fn hide(&self, path: &Path) {
        self.hidden.lock().insert(path.into());
    }

    /// Brings a file of the folder up, so that it can be changed.
    fn lift(&self, path: &Path) -> Result<(), StoreError> {
        if self.above.read(path)?.is_none()
            && let Some(bytes) = self.read(path)?
        {
            self.above.create(path)?.write(&bytes)?;
        }
        Ok(())
    }
}

impl Disk for OverlayDisk {
    fn create(&self, path: &Path) -> Result<Box<dyn DiskFile>, StoreError> {
        self.above.create(path)
    }

    fn append(&self, path: &Path) -> Result<Box<dyn DiskFile>, StoreError> {
        self.lift(path)?;
        self.above.append(path)
    }

    fn map(&self, path: &Path) -> Result<Bytes, StoreError> {
        match self.above.read(path)? {
            Some(bytes) => Ok(bytes),
            None if self.is_hidden(path) => self.above.map(path),
            None => self.below.map(path),
        }
    }

    fn trim_maps(&self, most: u64) {
        self.below.trim_maps(most);
    }

    fn read(&self, path: &Path) -> Result<Option<Bytes>, StoreError> {
        match self.above.read(path)? {
            None if !self.is_hidden(path) => self.below.read(path),
            found => Ok(found),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), StoreError> {
        self.lift(from)?;
        self.above.rename(from, to)?;
        self.hide(from);
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<(), StoreError> {
        self.above.remove(path)?;
        self.hide(path);
        Ok(())
    }

    fn remove_folder(&self, path: &Path) -> Result<(), StoreError> {
        self.above.remove_folder(path)?;
        self.hide(path);
        Ok(())
    }

    fn list(&self, folder: &Path) -> Result<Vec<String>, StoreError> {
        let mut names: BTreeSet<String> = self.above.list(folder)?.into_iter().collect();
        let below = self.below.list(folder)?.into_iter();
        names.extend(below.filter(|name| !self.is_hidden(&folder.join(name))));
        Ok(names.into_iter().collect())
    }

    fn sync_folder(&self, folder: &Path) -> Result<(), StoreError> {
        self.above.sync_folder(folder)
    }
}
