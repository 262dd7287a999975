//! Where index files lie: one folder per index, below `index/` of the data folder.
//!
//! ```text
//! index/<container>/<partition>-<index id>/MANIFEST, *.segment
//! ```
//!
//! The index crate declares the files it needs and the store has the one door to them; this is
//! the adapter between the two. Everything here is derived: a folder that is lost, or that nobody
//! names any more, costs time and never data. Whether files are whole is found out by `Index::open`; what is
//! done with damaged ones is decided in `generation::open`.

use crate::limits::INDEX_RESIDENT_MAX;
use armilla_index::{Files, Limits, Output};
use armilla_storage::StoreError;
use armilla_storage::disk::{Disk, DiskFile};
use bytes::Bytes;
use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const ROOT: &str = "index";

/// Which index: container, physical partition, id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct IndexName {
    pub(crate) container: u32,
    pub(crate) partition: u32,
    pub(crate) id: u64,
}

impl IndexName {
    fn folder(self) -> PathBuf {
        container_folder(self.container).join(format!("{:08x}-{:x}", self.partition, self.id))
    }
}

fn container_folder(container: u32) -> PathBuf {
    Path::new(ROOT).join(format!("{container:08x}"))
}

/// The folders of all indexes, where there is a disk; without one every index lives in memory.
#[derive(Clone, Default)]
pub(crate) struct IndexFolders {
    disk: Option<Arc<dyn Disk>>,
    /// The limits that every index works with.
    pub(crate) limits: Limits,
}

impl IndexFolders {
    pub(crate) fn new(disk: Option<Arc<dyn Disk>>, limits: Limits) -> Self {
        Self { disk, limits }
    }

    /// The files of one index.
    pub(crate) fn files(&self, name: IndexName) -> Option<Arc<dyn Files>> {
        let disk = self.disk.clone()?;
        Some(Arc::new(Folder { disk, path: name.folder() }))
    }

    /// Gives memory of index files back where they have more than their share.
    pub(crate) fn trim_memory(&self) {
        if let Some(disk) = &self.disk {
            disk.trim_maps(INDEX_RESIDENT_MAX);
        }
    }

    /// Removes the files of one index. Readers that still hold them keep what they have mapped.
    pub(crate) fn remove(&self, name: IndexName) {
        self.remove_folder(&name.folder());
    }

    /// Removes the files of a dropped container.
    pub(crate) fn remove_container(&self, container: u32) {
        self.remove_folder(&container_folder(container));
    }

    /// Removes what nobody names: left by a crash, or by a job that outlived its index. Only while
    /// the account opens.
    pub(crate) fn retain(&self, known: &HashSet<IndexName>) {
        let Some(disk) = &self.disk else { return };
        let containers: HashSet<PathBuf> =
            known.iter().map(|name| container_folder(name.container)).collect();
        let indexes: HashSet<PathBuf> = known.iter().map(|name| name.folder()).collect();
        for container in self.list(disk, Path::new(ROOT)) {
            if !containers.contains(&container) {
                self.remove_folder(&container);
                continue;
            }
            let unknown = self.list(disk, &container).into_iter();
            unknown
                .filter(|folder| !indexes.contains(folder))
                .for_each(|folder| self.remove_folder(&folder));
        }
    }

    fn list(&self, disk: &Arc<dyn Disk>, folder: &Path) -> Vec<PathBuf> {
        let names = disk.list(folder).unwrap_or_default();
        names.into_iter().map(|name| folder.join(name)).collect()
    }

    fn remove_folder(&self, folder: &Path) {
        let Some(disk) = &self.disk else { return };
        if let Err(error) = disk.remove_folder(folder) {
            tracing::warn!(%error, "index files that nobody needs any more could not be removed");
        }
    }
}

/// One folder, as the index wants it.
struct Folder {
    disk: Arc<dyn Disk>,
    path: PathBuf,
}

impl Files for Folder {
    fn create(&self, name: &str) -> io::Result<Box<dyn Output>> {
        let file = self.disk.create(&self.path.join(name)).map_err(io::Error::other)?;
        Ok(Box::new(WrittenFile(file)))
    }

    fn map(&self, name: &str) -> io::Result<Bytes> {
        self.disk.map(&self.path.join(name)).map_err(io::Error::other)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let renamed = self.disk.rename(&self.path.join(from), &self.path.join(to));
        renamed.and_then(|()| self.disk.sync_folder(&self.path)).map_err(io::Error::other)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(&self.path.join(name)).map_err(io::Error::other)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list(&self.path).map_err(io::Error::other)
    }
}

struct WrittenFile(Box<dyn DiskFile>);

impl io::Write for WrittenFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Output for WrittenFile {
    fn sync(&mut self) -> io::Result<()> {
        self.0.sync().map_err(io::Error::other)
    }
}

/// An index that could not be built is the store's failure to its callers.
pub(crate) fn index_failure(error: armilla_index::Error) -> StoreError {
    StoreError::io("write index files", io::Error::other(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_storage::disk::MemoryDisk;

    #[test]
    fn only_named_folders_stay() {
        let disk = MemoryDisk::new();
        let folders = IndexFolders::new(Some(Arc::new(disk.clone())), Limits::default());
        let name = |container, partition, id| IndexName { container, partition, id };
        for name in [name(1, 0, 0), name(1, 0, 4), name(2, 0, 0)] {
            folders.files(name).unwrap().create("x").unwrap();
        }
        folders.retain(&HashSet::from([name(1, 0, 4)]));
        assert!(folders.files(name(1, 0, 0)).unwrap().list().unwrap().is_empty());
        assert_eq!(folders.files(name(1, 0, 4)).unwrap().list().unwrap(), ["x"]);
        assert!(folders.files(name(2, 0, 0)).unwrap().list().unwrap().is_empty());
    }
}
