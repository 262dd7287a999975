//! Copies of one snapshot in plain, checksummed files.
//!
//! A backup is a folder:
//!
//! ```text
//!   manifest            text: versions, and each file with its entries, bytes and checksum
//!   meta-0000.records   the entries of a keyspace in key order, cut into files
//!   items-0000.records
//!   items-0001.records …
//! ```
//!
//! It is taken from a snapshot while the server goes on, written to a folder beside its place and
//! renamed when complete, so a folder with the wanted name is a whole backup. It holds only what
//! cannot be rebuilt: no index segments.
//!
//! [`restore`] reads the whole backup and checks every checksum before it writes the first entry,
//! and only into an empty store. [`restore_into`] makes a whole data folder of it, which bears its name only
//! when it is complete. What a restore means for LSNs is the engine's business.

mod into_folder;
mod manifest;
mod records;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::disk::{Disk, FolderDisk};
use crate::ledger::Position;
use crate::{
    Batch, Direction, Durability, FORMAT_VERSION, KeyRange, Keyspace, Snapshot, Store, StoreError,
};

pub use into_folder::restore_into;
pub use manifest::{BackupFile, BackupManifest};
use records::RecordWriter;

/// A restore commits when it has gathered this many bytes.
const RESTORE_BATCH_BYTES: usize = 4 * 1024 * 1024;

const MANIFEST_FILE: &str = "manifest";

/// Copies the snapshot into a new folder.
///
/// # Errors
///
/// When the folder is there already, or something cannot be read or written; then no folder with
/// that name appears, but its unfinished neighbour `<name>.partial` may stay behind.
pub fn backup(snapshot: &dyn Snapshot, folder: &Path) -> Result<BackupManifest, StoreError> {
    let (above, name) = split(folder)?;
    let disk = FolderDisk::new(above)?;
    backup_on(&disk, snapshot, &name)
}

/// As [`backup`], on any disk.
///
/// # Errors
///
/// As [`backup`].
pub fn backup_on(
    disk: &dyn Disk,
    snapshot: &dyn Snapshot,
    folder: &Path,
) -> Result<BackupManifest, StoreError> {
    if !disk.list(folder)?.is_empty() {
        return Err(refusal("back up", folder, "the folder is not empty"));
    }
    let mut partial = folder.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    disk.remove_folder(&partial)?;

    let mut manifest = BackupManifest { format_version: FORMAT_VERSION, files: Vec::new() };
    for keyspace in Keyspace::ALL {
        manifest.files.extend(write_keyspace(disk, snapshot, &partial, keyspace)?);
    }
    let mut file = disk.create(&partial.join(MANIFEST_FILE))?;
    file.write(manifest.to_text().as_bytes())?;
    file.sync()?;
    disk.sync_folder(&partial)?;
    disk.rename(&partial, folder)?;
    disk.sync_folder(folder.parent().unwrap_or_else(|| Path::new("")))?;
    Ok(manifest)
}

/// Reads a whole backup and checks everything that can be checked.
///
/// # Errors
///
/// [`StoreError::Corruption`] names the first file that is not as it was written.
pub fn check(folder: &Path) -> Result<BackupManifest, StoreError> {
    let (above, name) = split(folder)?;
    let disk = FolderDisk::existing(above);
    check_on(&disk, &name)
}

/// As [`check`], on any disk.
///
/// # Errors
///
/// As [`check`].
pub fn check_on(disk: &dyn Disk, folder: &Path) -> Result<BackupManifest, StoreError> {
    let manifest = manifest_on(disk, folder)?;
    for file in &manifest.files {
        records::check(disk, folder, file)?;
    }
    Ok(manifest)
}

fn manifest_on(disk: &dyn Disk, folder: &Path) -> Result<BackupManifest, StoreError> {
    let path = folder.join(MANIFEST_FILE);
    let Some(text) = disk.read(&path)? else {
        return Err(refusal("read", &path, "this is not a backup"));
    };
    let manifest = BackupManifest::parse(&text)
        .map_err(|reason| StoreError::corruption(path.display().to_string(), reason))?;
    if manifest.format_version != FORMAT_VERSION {
        let found = manifest.format_version;
        return Err(StoreError::FormatVersion { found, expected: FORMAT_VERSION });
    }
    Ok(manifest)
}

/// Writes a backup's entries into an empty store.
///
/// # Errors
///
/// When the store is not empty or the backup is damaged, before anything is written. When the
/// store fails on the way it holds a part of the backup and must be thrown away.
pub fn restore(folder: &Path, store: &dyn Store) -> Result<BackupManifest, StoreError> {
    let (above, name) = split(folder)?;
    let disk = FolderDisk::existing(above);
    restore_on(&disk, &name, store)
}

/// As [`restore`], from any disk.
///
/// # Errors
///
/// As [`restore`].
pub fn restore_on(
    disk: &dyn Disk,
    folder: &Path,
    store: &dyn Store,
) -> Result<BackupManifest, StoreError> {
    require_empty(&*store.snapshot(), folder)?;
    let manifest = check_on(disk, folder)?;
    let mut writer = RestoreWriter::new(store);
    let mut put = |keyspace, key: &[u8], value: &[u8]| writer.put(keyspace, key, value);
    read_on(disk, folder, (&manifest, &Keyspace::ALL), &mut put)?;
    writer.finish()?;
    Ok(manifest)
}

/// Sees an entry: its keyspace, key and value.
pub type VisitBackup<'v> = dyn FnMut(Keyspace, &[u8], &[u8]) -> Result<(), StoreError> + 'v;

/// Shows the entries of some keyspaces of a backup to `visit`. What [`check`] checks is not checked again.
///
/// # Errors
///
/// When something cannot be read, or `visit` fails.
pub fn read(
    folder: &Path,
    keyspaces: &[Keyspace],
    visit: &mut VisitBackup<'_>,
) -> Result<(), StoreError> {
    let (above, name) = split(folder)?;
    let disk = FolderDisk::existing(above);
    let manifest = manifest_on(&disk, &name)?;
    read_on(&disk, &name, (&manifest, keyspaces), visit)
}

fn read_on(
    disk: &dyn Disk,
    folder: &Path,
    (manifest, keyspaces): (&BackupManifest, &[Keyspace]),
    visit: &mut VisitBackup<'_>,
) -> Result<(), StoreError> {
    for file in manifest.files.iter().filter(|file| keyspaces.contains(&file.keyspace)) {
        records::read(disk, folder, file, &mut |key, value| {
            // A node's backup of an earlier version has its place in the journal.
            match Position::is_noted_at(file.keyspace, key) {
                true => Ok(()),
                false => visit(file.keyspace, key, value),
            }
        })?;
    }
    Ok(())
}

/// Writes entries into a store, many at a time.
pub struct RestoreWriter<'s> {
    store: &'s dyn Store,
    batch: Batch,
}

impl<'s> RestoreWriter<'s> {
    /// Begins to write into a store.
    pub fn new(store: &'s dyn Store) -> Self {
        Self { store, batch: Batch::new() }
    }

    /// Writes an entry, now or with those that follow.
    ///
    /// # Errors
    ///
    /// When the store fails.
    pub fn put(&mut self, keyspace: Keyspace, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.batch.put(keyspace, key.to_vec(), Bytes::copy_from_slice(value));
        if self.batch.bytes() < RESTORE_BATCH_BYTES {
            return Ok(());
        }
        self.store.commit(std::mem::take(&mut self.batch), Durability::Synced)
    }

    /// Writes what is left.
    ///
    /// # Errors
    ///
    /// When the store fails.
    pub fn finish(self) -> Result<(), StoreError> {
        if self.batch.is_empty() {
            Ok(())
        } else {
            self.store.commit(self.batch, Durability::Synced)
        }
    }
}

fn require_empty(snapshot: &dyn Snapshot, folder: &Path) -> Result<(), StoreError> {
    for keyspace in Keyspace::ALL {
        let first = snapshot.page(keyspace, &KeyRange::all(), Direction::Forward, 2)?;
        if first.iter().any(|(key, _)| !Position::is_noted_at(keyspace, key)) {
            return Err(refusal("restore", folder, "the store is not empty"));
        }
    }
    Ok(())
}

fn write_keyspace(
    disk: &dyn Disk,
    snapshot: &dyn Snapshot,
    folder: &Path,
    keyspace: Keyspace,
) -> Result<Vec<BackupFile>, StoreError> {
    let mut writer = RecordWriter::new(disk, folder, keyspace);
    let mut failure = None;
    snapshot.scan(keyspace, &KeyRange::all(), Direction::Forward, &mut |key, value| {
        if Position::is_noted_at(keyspace, key) {
            return ControlFlow::Continue(());
        }
        match writer.write(key, &value) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    match failure {
        Some(error) => Err(error),
        None => writer.finish(),
    }
}

/// The folder that contains `folder`, and the name of `folder` in it.
fn split(folder: &Path) -> Result<(&Path, PathBuf), StoreError> {
    let Some(name) = folder.file_name() else {
        return Err(refusal("use", folder, "this is not the name of a folder"));
    };
    let above = folder.parent().filter(|above| !above.as_os_str().is_empty());
    Ok((above.unwrap_or_else(|| Path::new(".")), name.into()))
}

fn refusal(action: &str, path: &Path, reason: &'static str) -> StoreError {
    StoreError::file(action, path, std::io::Error::other(reason))
}

#[cfg(test)]
mod tests;
