//! Files in memory, and what would be left of them after a loss of power.
//!
//! Every file exists twice: as its writers see it, and as far as it was synced. Names exist twice
//! too. [`MemoryDisk::crash`] throws the first of each away, which is the harshest thing an
//! honest disk may do.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::{Disk, DiskFile};
use crate::StoreError;

/// A disk without files; clones share their contents.
#[derive(Clone, Default)]
pub struct MemoryDisk {
    names: Arc<Mutex<Names>>,
}

#[derive(Default)]
struct Names {
    live: BTreeMap<PathBuf, Contents>,
    durable: BTreeMap<PathBuf, Contents>,
}

impl Names {
    /// What was made durable, as new contents: writers from before reach nothing of it.
    fn survivors(&self) -> Self {
        let survivor = |(path, content): (&PathBuf, &Contents)| {
            let bytes = content.lock().durable.clone();
            let content = Content { live: bytes.clone(), durable: bytes };
            (path.clone(), Arc::new(Mutex::new(content)))
        };
        let durable: BTreeMap<PathBuf, Contents> = self.durable.iter().map(survivor).collect();
        Self { live: durable.clone(), durable }
    }
}

type Contents = Arc<Mutex<Content>>;

#[derive(Default)]
struct Content {
    live: Vec<u8>,
    durable: Vec<u8>,
}

impl MemoryDisk {
    /// An empty disk.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Loses everything that was not made durable. Files that are open for writing are lost.
    pub fn crash(&self) {
        let mut names = self.names.lock();
        *names = names.survivors();
    }

    /// A disk with what a crash at this moment would leave; this one goes on.
    #[must_use]
    pub fn after_crash(&self) -> Self {
        Self { names: Arc::new(Mutex::new(self.names.lock().survivors())) }
    }

    /// The paths of all files.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        self.names.lock().live.keys().cloned().collect()
    }

    fn find(&self, path: &Path) -> Option<Bytes> {
        let names = self.names.lock();
        names.live.get(path).map(|content| Bytes::copy_from_slice(&content.lock().live))
    }
}

impl Disk for MemoryDisk {
    fn create(&self, path: &Path) -> Result<Box<dyn DiskFile>, StoreError> {
        let content = Contents::default();
        self.names.lock().live.insert(path.into(), Arc::clone(&content));
        Ok(Box::new(MemoryFile { content }))
    }

    fn append(&self, path: &Path) -> Result<Box<dyn DiskFile>, StoreError> {
        let content = Arc::clone(self.names.lock().live.entry(path.into()).or_default());
        Ok(Box::new(MemoryFile { content }))
    }

    fn map(&self, path: &Path) -> Result<Bytes, StoreError> {
        self.find(path).ok_or_else(|| not_found("map", path))
    }

    fn read(&self, path: &Path) -> Result<Option<Bytes>, StoreError> {
        Ok(self.find(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), StoreError> {
        let mut names = self.names.lock();
        if let Some(content) = names.live.remove(from) {
            names.live.insert(to.into(), content);
            return Ok(());
        }
        let inside: Vec<PathBuf> =
            names.live.keys().filter(|path| path.starts_with(from)).cloned().collect();
        if inside.is_empty() {
            return Err(not_found("rename", from));
        }
        for path in inside {
            let target = path.strip_prefix(from).map(|rest| to.join(rest));
            if let (Ok(target), Some(content)) = (target, names.live.remove(&path)) {
                names.live.insert(target, content);
            }
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<(), StoreError> {
        self.names.lock().live.remove(path);
        Ok(())
    }

    fn remove_folder(&self, path: &Path) -> Result<(), StoreError> {
        self.names.lock().live.retain(|file, _| !file.starts_with(path));
        Ok(())
    }

    fn list(&self, folder: &Path) -> Result<Vec<String>, StoreError> {
        let names = self.names.lock();
        let inside = names.live.keys().filter_map(|path| path.strip_prefix(folder).ok());
        let first = inside.filter_map(|path| path.iter().next()?.to_str());
        let unique: BTreeSet<&str> = first.collect();
        Ok(unique.into_iter().map(str::to_owned).collect())
    }

    /// Makes everything below the folder durable by name, which is kinder than a real disk: a
    /// folder in a folder would need a sync of its own.
    fn sync_folder(&self, folder: &Path) -> Result<(), StoreError> {
        let mut names = self.names.lock();
        let Names { live, durable } = &mut *names;
        durable.retain(|path, _| !path.starts_with(folder));
        let inside = live.iter().filter(|(path, _)| path.starts_with(folder));
        durable.extend(inside.map(|(path, content)| (path.clone(), Arc::clone(content))));
        Ok(())
    }
}

struct MemoryFile {
    content: Contents,
}

impl DiskFile for MemoryFile {
    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.content.lock().live.extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        let mut content = self.content.lock();
        let Content { live, durable } = &mut *content;
        durable.clone_from(live);
        Ok(())
    }
}

fn not_found(action: &str, path: &Path) -> StoreError {
    StoreError::file(action, path, io::Error::from(ErrorKind::NotFound))
}
