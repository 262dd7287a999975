//! Commands on a data folder: backup, restore, verify, merge.
//!
//! Backup and verify never write into the folder, and need no right to.

use crate::cluster::keeping;
use crate::config::{BackupOptions, MergeOptions, RestoreOptions, VerifyOptions};
use crate::control;
use crate::terminal::{note, say};
use armilla_engine::limits::SLICES_MAX;
use armilla_engine::{Account, Options};
use armilla_storage::disk::{Disk, OverlayDisk};
use armilla_storage::{EmbeddedOptions, EmbeddedStore, Store, StoreError};
use std::path::{Path, absolute};
use std::sync::Arc;
use tempfile::TempDir;

/// Copies a data folder, through the server that has it open if there is one.
pub(crate) fn backup(options: &BackupOptions) -> Result<(), String> {
    if let Some(store) = options.ledger.given() {
        return keeping::backup(&store, &options.to);
    }
    let to = absolute(&options.to).map_err(|error| error.to_string())?;
    refuse_slices(&options.data, "backup")?;
    let scratch = scratch()?;
    match open(&options.data, &scratch) {
        Ok(store) => {
            let manifest = armilla_storage::backup::backup(&*store.snapshot(), &to);
            manifest.map_err(refusal)?;
        }
        Err(locked @ StoreError::Locked { .. }) => {
            match control::ask(&options.data, &format!("backup {}", to.display())) {
                Some(outcome) => drop(outcome?),
                None => return Err(locked.to_string()),
            }
        }
        Err(error) => return Err(refusal(error)),
    }
    say(&format!("backup written to {}", to.display()));
    Ok(())
}

/// Has the running server merge the partitions of a container.
pub(crate) fn merge(options: &MergeOptions) -> Result<(), String> {
    let MergeOptions { data, database, container } = options;
    // Names hold no slash, so one separates them.
    let command = format!("merge {database}/{container}");
    // A node of an account in slices listens in the folder of every slice that it owns, the first one's being the node's.
    let mut folders = vec![data.clone()];
    folders.extend((1..SLICES_MAX).map(|slice| keeping::folder_of_slice(data, slice)));
    let mut count = None;
    for folder in folders {
        let Some(merged) = control::ask(&folder, &command) else { continue };
        let merged = merged?.parse::<usize>().map_err(|error| error.to_string())?;
        count = Some(count.unwrap_or(0) + merged);
    }
    let Some(count) = count else {
        return Err(format!(
            "no server has {} open; a merge is done by a running one",
            data.display()
        ));
    };
    let here = if keeping::holds_slices(data) { " in the slices of this node" } else { "" };
    say(&format!("{database}/{container} has {count} physical partition(s){here}"));
    Ok(())
}

/// Fills a new data folder.
pub(crate) fn restore(options: &RestoreOptions) -> Result<(), String> {
    if let Some(store) = options.ledger.given() {
        return keeping::restore(&store, &options.from);
    }
    armilla_storage::backup::restore_into(
        &options.from,
        &options.data,
        &EmbeddedOptions::default(),
        armilla_engine::restore::raise_heads,
    )
    .map_err(|error| error.to_string())?;
    say(&format!("{} restored from {}", options.data.display(), options.from.display()));
    Ok(())
}

/// Walks everything and compares.
pub(crate) fn verify(options: &VerifyOptions) -> Result<(), String> {
    if let Some(store) = options.ledger.given() {
        return keeping::verify(&store, &options.against);
    }
    refuse_slices(&options.data, "verify")?;
    let scratch = scratch()?;
    let store = open(&options.data, &scratch).map_err(refusal)?;
    verify_store(Arc::new(store), Some(Arc::new(OverlayDisk::new(&options.data))))
}

/// Refuses the folder of a node whose account is cut: it holds copies of slices, each of which may be behind.
fn refuse_slices(folder: &Path, command: &str) -> Result<(), String> {
    if !keeping::holds_slices(folder) {
        return Ok(());
    }
    Err(format!(
        "{} holds a node's copies of the slices of an account: use armilla {command} --store URL, which reads the database",
        folder.display()
    ))
}

/// Walks everything in a store, with the index files of a disk.
pub(crate) fn verify_store(
    store: Arc<dyn Store>,
    disk: Option<Arc<dyn Disk>>,
) -> Result<(), String> {
    let damage = armilla_storage::verify::verify(&*store.snapshot());
    armilla_storage::verify::first_damage(&damage).map_err(refusal)?;
    let options = Options { background: false, disk, ..Options::default() };
    let account = Account::open(store, options).map_err(refusal)?;
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

/// An error of the store with what to do about it.
pub(crate) fn refusal(error: StoreError) -> String {
    match error.advice() {
        Some(advice) => format!("{error}\n  {advice}"),
        None => error.to_string(),
    }
}

fn open(folder: &Path, scratch: &TempDir) -> Result<EmbeddedStore, StoreError> {
    EmbeddedStore::open_read_only(folder, scratch.path(), &EmbeddedOptions::default())
}

/// Where the store's engine may write while the data folder is only read.
pub(crate) fn scratch() -> Result<TempDir, String> {
    tempfile::tempdir().map_err(|error| format!("no temporary folder could be made: {error}"))
}

#[cfg(test)]
mod tests;
