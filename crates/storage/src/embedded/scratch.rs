//! A copy of the engine's folder that may be opened without touching the original.
//!
//! The engine cannot open a folder and only read: it cuts journals, removes files that no list names,
//! and flushes. So whoever must not write opens this copy, which holds the lists of files, the whole
//! batches of the journals, and links to the sorted files, which never change. Whatever the engine then
//! removes or makes, it removes links and makes files here.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use super::folder::engine_path;
use super::guard::Survey;
use super::journal;
use super::tree_files::{TreeFiles, tree_path};
use crate::StoreError;

/// Copies the engine of a data folder, whose path is absolute, into another, empty folder.
pub(super) fn copy_engine(folder: &Path, survey: &Survey, to: &Path) -> Result<(), StoreError> {
    let (from, to) = (engine_path(folder), engine_path(to));
    let copy = || -> io::Result<()> {
        for (tree, files) in &survey.trees {
            copy_tree(files, &tree_path(&to, *tree))?;
        }
        for journal in &survey.journals {
            let mut whole = File::open(journal::path(&from, journal.number))?.take(journal.end);
            io::copy(&mut whole, &mut File::create(journal::path(&to, journal.number))?)?;
        }
        File::create(to.join("lock"))?;
        fs::copy(from.join("version"), to.join("version")).map(|_| ())
    };
    copy().map_err(|error| StoreError::file("copy the engine's files to", &to, error))
}

fn copy_tree(files: &TreeFiles, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to.join("tables"))?;
    let list = format!("v{}", files.version);
    for name in ["current", &list] {
        fs::copy(files.folder().join(name), to.join(name))?;
    }
    for table in &files.tables {
        if let Some(name) = table.path.file_name() {
            link(&table.path, &to.join("tables").join(name))?;
        }
    }
    Ok(())
}

#[cfg(unix)]
fn link(from: &Path, to: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(from, to)
}

#[cfg(not(unix))]
fn link(from: &Path, to: &Path) -> io::Result<()> {
    fs::hard_link(from, to).or_else(|_| fs::copy(from, to).map(|_| ()))
}
