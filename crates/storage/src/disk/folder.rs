//! Real files below one folder.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::{Disk, DiskFile};
use crate::StoreError;

/// The files below one folder of the system.
#[derive(Clone, Debug)]
pub struct FolderDisk {
    root: PathBuf,
}

impl FolderDisk {
    /// The disk whose root is this folder, which is created when absent.
    ///
    /// # Errors
    ///
    /// When the folder cannot be created.
    pub fn new(root: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let root = root.into();
        super::create_folder(&root).map_err(|e| StoreError::file("create folder", &root, e))?;
        Ok(Self { root })
    }

    /// The disk whose root is this folder, which is not created; one that is absent reads as empty.
    #[must_use]
    pub fn existing(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn open(&self, path: &Path, options: &OpenOptions) -> Result<Box<dyn DiskFile>, StoreError> {
        let path = self.root.join(path);
        let file = match options.open(&path) {
            // Folders are made on demand, so the usual case costs one call.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let folder = path.parent().unwrap_or(&self.root);
                fs::create_dir_all(folder).and_then(|()| options.open(&path))
            }
            other => other,
        };
        let file = file.map_err(|error| StoreError::file("open", &path, error))?;
        Ok(Box::new(FolderFile { file, path }))
    }
}

impl Disk for FolderDisk {
    fn create(&self, path: &Path) -> Result<Box<dyn DiskFile>, StoreError> {
        self.open(path, OpenOptions::new().write(true).create(true).truncate(true))
    }

    fn append(&self, path: &Path) -> Result<Box<dyn DiskFile>, StoreError> {
        self.open(path, OpenOptions::new().append(true).create(true))
    }

    fn map(&self, path: &Path) -> Result<Bytes, StoreError> {
        let path = self.root.join(path);
        let fail = |error| StoreError::file("map", &path, error);
        let file = File::open(&path).map_err(fail)?;
        // The system refuses to map nothing.
        if file.metadata().map_err(fail)?.len() == 0 {
            return Ok(Bytes::new());
        }
        map_file(&file).map(Bytes::from_owner).map_err(fail)
    }

    fn read(&self, path: &Path) -> Result<Option<Bytes>, StoreError> {
        let path = self.root.join(path);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes.into())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::file("read", &path, error)),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), StoreError> {
        let (from, to) = (self.root.join(from), self.root.join(to));
        fs::rename(&from, &to).map_err(|error| StoreError::file("rename", &from, error))
    }

    fn remove(&self, path: &Path) -> Result<(), StoreError> {
        let path = self.root.join(path);
        absent_is_fine(fs::remove_file(&path))
            .map_err(|error| StoreError::file("remove", &path, error))
    }

    fn remove_folder(&self, path: &Path) -> Result<(), StoreError> {
        let path = self.root.join(path);
        absent_is_fine(fs::remove_dir_all(&path))
            .map_err(|error| StoreError::file("remove folder", &path, error))
    }

    fn list(&self, folder: &Path) -> Result<Vec<String>, StoreError> {
        let folder = self.root.join(folder);
        names(&folder).map_err(|error| StoreError::file("list", &folder, error))
    }

    fn sync_folder(&self, folder: &Path) -> Result<(), StoreError> {
        let folder = self.root.join(folder);
        super::sync_names(&folder).map_err(|error| StoreError::file("sync folder", &folder, error))
    }
}

struct FolderFile {
    file: File,
    path: PathBuf,
}

impl DiskFile for FolderFile {
    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.file.write_all(bytes).map_err(|error| StoreError::file("write", &self.path, error))
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.file.sync_data().map_err(|error| StoreError::file("sync", &self.path, error))
    }
}

#[allow(unsafe_code, reason = "mapping is unsafe because a file could shrink under the map")]
fn map_file(file: &File) -> io::Result<memmap2::Mmap> {
    // SAFETY: mapped files are immutable by contract of `Disk::map`: ours are written aside, synced
    // and renamed, never changed in place, and removal leaves the mapped pages valid. The folder is
    // locked, so no second server writes here. Somebody else who truncates a file under us can
    // make a read fault; no API can prevent that.
    unsafe { memmap2::Mmap::map(file) }
}

fn names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in entries {
        // Names that are not text are not ours.
        if let Ok(name) = entry?.file_name().into_string() {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
