//! Real files below one folder. What is made here only its owner may read: folders have mode 0700 and
//! files 0600, from their first byte on and whatever the umask says. Elsewhere than on Unix the
//! folder's own access list decides.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use memmap2::Mmap;
use parking_lot::Mutex;

use super::{Disk, DiskFile};
use crate::StoreError;

/// The files below one folder of the system.
#[derive(Clone, Debug)]
pub struct FolderDisk {
    root: PathBuf,
    maps: Maps,
}

impl FolderDisk {
    /// The disk whose root is this folder, which is created when absent. One that is there keeps its
    /// mode: it may be somebody else's, such as the folder a key file lies in.
    ///
    /// # Errors
    ///
    /// When the folder cannot be created.
    pub fn new(root: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let root = root.into();
        super::create_folder(&root).map_err(|e| StoreError::file("create folder", &root, e))?;
        Ok(Self { root, maps: Maps::default() })
    }

    /// The disk whose root is this folder, which is not created; one that is absent reads as empty.
    #[must_use]
    pub fn existing(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), maps: Maps::default() }
    }

    /// Takes reading and writing from everybody but the owner, for the folder itself or something
    /// in it that an older version or somebody else has made.
    ///
    /// # Errors
    ///
    /// When the mode cannot be changed, because this process is not the owner.
    pub fn make_private(&self, path: &Path) -> Result<(), StoreError> {
        let path = self.root.join(path);
        restrict(&path).map_err(|error| StoreError::file("restrict the mode of", &path, error))
    }

    /// The folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn open(
        &self,
        path: &Path,
        options: &mut OpenOptions,
    ) -> Result<Box<dyn DiskFile>, StoreError> {
        let path = self.root.join(path);
        let options = for_owner_alone(options);
        let file = match options.open(&path) {
            // Folders are made on demand, so the usual case costs one call.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let folder = path.parent().unwrap_or(&self.root);
                super::create_folder(folder).and_then(|()| options.open(&path))
            }
            other => other,
        };
        let file = file.map_err(|error| StoreError::file("open", &path, error))?;
        // A file that was left behind keeps its mode when it is opened again.
        restrict(&path).map_err(|error| StoreError::file("restrict the mode of", &path, error))?;
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
        map_file(&file).map(|map| self.maps.share(map)).map_err(fail)
    }

    fn trim_maps(&self, most: u64) {
        if resident_file_bytes().is_some_and(|resident| resident > most) {
            self.maps.give_back();
        }
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
fn map_file(file: &File) -> io::Result<Mmap> {
    // SAFETY: mapped files are immutable by contract of `Disk::map`: ours are written aside, synced
    // and renamed, never changed in place, and removal leaves the mapped pages valid. The folder is
    // locked, so no second server writes here. Somebody else who truncates a file under us can
    // make a read fault; no API can prevent that.
    unsafe { Mmap::map(file) }
}

/// The maps of a disk that somebody holds.
#[derive(Clone, Debug, Default)]
struct Maps(Arc<Mutex<Vec<Weak<Mmap>>>>);

/// A map that is also known to its disk.
struct HeldMap(Arc<Mmap>);

impl AsRef<[u8]> for HeldMap {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Maps {
    fn share(&self, map: Mmap) -> Bytes {
        let map = Arc::new(map);
        let mut maps = self.0.lock();
        maps.retain(|map| map.strong_count() > 0);
        maps.push(Arc::downgrade(&map));
        Bytes::from_owner(HeldMap(map))
    }

    fn give_back(&self) {
        let held: Vec<Arc<Mmap>> = self.0.lock().iter().filter_map(Weak::upgrade).collect();
        for map in held {
            // A system that refuses keeps what it has.
            let _refused = give_back(&map);
        }
    }
}

#[cfg(unix)]
#[allow(unsafe_code, reason = "advice that forgets what was written to a map is unsafe")]
fn give_back(map: &Mmap) -> io::Result<()> {
    // SAFETY: nothing is written to these maps, and their files do not change (see `map_file`): what is read
    // again afterwards, also by somebody who reads at this moment, are the same bytes.
    unsafe { map.unchecked_advise(memmap2::UncheckedAdvice::DontNeed) }
}

#[cfg(not(unix))]
fn give_back(_map: &Mmap) -> io::Result<()> {
    Ok(())
}

/// Bytes of files that this process has in memory by maps, its program included; only Linux says so.
pub(super) fn resident_file_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssFile:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
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

/// Files that these options make are the owner's alone.
#[cfg(unix)]
fn for_owner_alone(options: &mut OpenOptions) -> &OpenOptions {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600)
}

#[cfg(not(unix))]
fn for_owner_alone(options: &mut OpenOptions) -> &OpenOptions {
    options
}

#[cfg(unix)]
fn restrict(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = fs::metadata(path)?.permissions().mode();
    if mode & 0o077 == 0 {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o700))
}

#[cfg(not(unix))]
fn restrict(path: &Path) -> io::Result<()> {
    fs::metadata(path).map(|_| ())
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn folders_and_files_are_their_owners_alone() {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path().join("data");
        let disk = FolderDisk::new(&root).unwrap();
        disk.replace(Path::new("token-secret"), b"secret").unwrap();
        disk.create(Path::new("tls/authority.key")).unwrap().write(b"k").unwrap();
        disk.append(Path::new("log/one")).unwrap().write(b"l").unwrap();
        for folder in ["", "tls", "log"] {
            assert_eq!(mode(&root.join(folder)), 0o700, "{folder}");
        }
        for file in ["token-secret", "tls/authority.key", "log/one"] {
            assert_eq!(mode(&root.join(file)), 0o600, "{file}");
        }
    }

    #[test]
    fn folders_that_were_there_keep_their_mode_until_they_are_made_private() {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path().join("shared");
        fs::create_dir(&root).unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
        let disk = FolderDisk::new(&root).unwrap();
        assert_eq!(mode(&root), 0o755);
        disk.make_private(Path::new("")).unwrap();
        assert_eq!(mode(&root), 0o700);
        assert!(disk.make_private(Path::new("absent")).is_err());
    }
}
