//! Commands on a data folder: backup, restore, verify, merge.

use crate::config::{BackupOptions, MergeOptions, RestoreOptions, VerifyOptions};
use crate::control;
use crate::terminal::{note, say};
use armilla_engine::{Account, Options};
use armilla_storage::disk::{Disk, FolderDisk};
use armilla_storage::{EmbeddedOptions, EmbeddedStore, Store, StoreError};
use std::path::{Path, absolute};
use std::sync::Arc;

/// Copies a data folder, through the server that has it open if there is one.
pub(crate) fn backup(options: &BackupOptions) -> Result<(), String> {
    let to = absolute(&options.to).map_err(|error| error.to_string())?;
    match open(&options.data) {
        Ok(store) => {
            let manifest = armilla_storage::backup::backup(&*store.snapshot(), &to);
            manifest.map_err(|error| error.to_string())?;
        }
        Err(locked @ StoreError::Locked { .. }) => {
            match control::ask(&options.data, &format!("backup {}", to.display())) {
                Some(outcome) => drop(outcome?),
                None => return Err(locked.to_string()),
            }
        }
        Err(error) => return Err(error.to_string()),
    }
    say(&format!("backup written to {}", to.display()));
    Ok(())
}

/// Has the running server merge the partitions of a container.
pub(crate) fn merge(options: &MergeOptions) -> Result<(), String> {
    let MergeOptions { data, database, container } = options;
    // Names hold no slash, so one separates them.
    let command = format!("merge {database}/{container}");
    let count = control::ask(data, &command).unwrap_or_else(|| {
        Err(format!("no server has {} open; a merge is done by a running one", data.display()))
    })?;
    say(&format!("{database}/{container} has {count} physical partition(s)"));
    Ok(())
}

/// Fills a new data folder.
pub(crate) fn restore(options: &RestoreOptions) -> Result<(), String> {
    if options.data.exists()
        && std::fs::read_dir(&options.data).is_ok_and(|mut entries| entries.next().is_some())
    {
        return Err(format!(
            "{} is not empty; a restore needs a new folder",
            options.data.display()
        ));
    }
    armilla_storage::backup::check(&options.from).map_err(|error| error.to_string())?;
    let store = EmbeddedStore::open(&options.data, &EmbeddedOptions::default())
        .map_err(|error| error.to_string())?;
    armilla_storage::backup::restore(&options.from, &store).map_err(|error| error.to_string())?;
    armilla_engine::restore::raise_heads(&store).map_err(|error| error.to_string())?;
    store.close().map_err(|error| error.to_string())?;
    say(&format!("{} restored from {}", options.data.display(), options.from.display()));
    Ok(())
}

/// Walks everything and compares.
pub(crate) fn verify(options: &VerifyOptions) -> Result<(), String> {
    let store = open(&options.data).map_err(|error| error.to_string())?;
    let damage = armilla_storage::verify::verify(&*store.snapshot());
    armilla_storage::verify::first_damage(&damage).map_err(|error| error.to_string())?;
    let disk = FolderDisk::new(&options.data).map_err(|error| error.to_string())?;
    let disk: Option<Arc<dyn Disk>> = Some(Arc::new(disk));
    let options = Options { background: false, disk, ..Options::default() };
    let account = Account::open(Arc::new(store), options).map_err(|error| error.to_string())?;
    let report = account.verify().map_err(|error| error.to_string())?;
    account.close().map_err(|error| error.to_string())?;
    if report.findings.is_empty() {
        say(&format!("{} items in {} containers agree", report.items, report.containers));
        return Ok(());
    }
    for finding in &report.findings {
        note(finding);
    }
    Err(format!("{} findings", report.findings.len()))
}

fn open(folder: &Path) -> Result<EmbeddedStore, StoreError> {
    if !folder.exists() {
        return Err(StoreError::io(
            format!("open {}", folder.display()),
            std::io::Error::from(std::io::ErrorKind::NotFound),
        ));
    }
    EmbeddedStore::open(folder, &EmbeddedOptions::default())
}
