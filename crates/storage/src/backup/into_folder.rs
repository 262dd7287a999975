//! A backup made into a data folder that appears whole or not at all.
//!
//! The folder is filled beside its place, as `<name>.partial`, read through once, synced, and renamed. An
//! empty folder that is there already (a mounted volume cannot be renamed) is filled in place. Either
//! way a file `restoring` lies in it until the end, and a store that has this file is refused.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{BackupManifest, check, refusal, restore, split};
use crate::disk::{Disk, FolderDisk, sync_names};
use crate::embedded::RESTORING_FILE;
use crate::{EmbeddedOptions, EmbeddedStore, Keyspace, Store, StoreError, verify};

/// Makes a data folder of a backup; `finish` adds what the engine wants to the restored entries.
///
/// # Errors
///
/// When the backup is damaged or the folder is not new, before anything is written. When it fails on
/// the way, no folder with this name appears, and what was begun is refused by every opening.
pub fn restore_into(
    from: &Path,
    folder: &Path,
    options: &EmbeddedOptions,
    finish: impl FnOnce(&dyn Store) -> Result<(), StoreError>,
) -> Result<BackupManifest, StoreError> {
    let in_place = is_empty_folder(folder)?;
    let (above, name) = split(folder)?;
    let mut partial = name.into_os_string();
    partial.push(".partial");
    let target = if in_place { folder.to_path_buf() } else { above.join(&partial) };
    if !in_place && target.exists() {
        let reason = "an earlier restore did not end; remove this folder and try again";
        return Err(refusal("restore into", &target, reason));
    }
    let manifest = check(from)?;
    fill(from, &target, options, finish, &manifest)?;
    if !in_place {
        fs::rename(&target, folder).map_err(|error| StoreError::file("rename", &target, error))?;
        sync_names(above).map_err(|error| StoreError::file("sync folder", above, error))?;
    }
    Ok(manifest)
}

/// Whether the folder is there and empty; an error when it is not empty.
fn is_empty_folder(folder: &Path) -> Result<bool, StoreError> {
    let mut entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        entries => entries.map_err(|error| StoreError::file("list", folder, error))?,
    };
    let usual = |name: &str| name == "lost+found";
    if entries.all(|entry| entry.is_ok_and(|entry| entry.file_name().to_str().is_some_and(usual))) {
        return Ok(true);
    }
    if folder.join(RESTORING_FILE).exists() {
        let reason = "an earlier restore did not end; remove what is in this folder and try again";
        return Err(refusal("restore into", folder, reason));
    }
    Err(refusal("restore into", folder, "the folder is not empty; a restore needs a new one"))
}

fn fill(
    from: &Path,
    target: &Path,
    options: &EmbeddedOptions,
    finish: impl FnOnce(&dyn Store) -> Result<(), StoreError>,
    manifest: &BackupManifest,
) -> Result<(), StoreError> {
    let disk = FolderDisk::new(target)?;
    disk.replace(Path::new(RESTORING_FILE), b"a restore into this folder has not ended\n")?;
    let target = PathBuf::from(target);
    let store = EmbeddedStore::open_any(target.clone(), options)?;
    restore(from, &store)?;
    compare(&store, manifest, &target)?;
    finish(&store)?;
    store.close()?;
    drop(store);
    // Read back from the files, as the first start will.
    let store = EmbeddedStore::open_any(target, options)?;
    verify::first_damage(&verify::verify(&*store.snapshot()))?;
    store.close()?;
    drop(store);
    disk.remove(Path::new(RESTORING_FILE))?;
    disk.sync_folder(Path::new(""))
}

fn compare(store: &dyn Store, manifest: &BackupManifest, target: &Path) -> Result<(), StoreError> {
    let reports = verify::verify(&*store.snapshot());
    verify::first_damage(&reports)?;
    for keyspace in Keyspace::ALL {
        let found = reports.iter().find(|report| report.keyspace == keyspace);
        let (found, wanted) =
            (found.map_or(0, |report| report.entries), manifest.entries(keyspace));
        if found != wanted {
            let reason = format!("{found} of {wanted} entries of '{keyspace}' were restored");
            return Err(StoreError::corruption(target.display().to_string(), reason));
        }
    }
    Ok(())
}
