//! The guard: everything the engine needs is there, or it is not opened.
//!
//! The engine opens what it finds: it makes a new tree where a list of files is missing, removes trees
//! that nothing names, and begins at sequence number zero where there is no journal. Each of these
//! turns a missing file into lost data. So before each opening the folder is compared with
//! [`engine.manifest`](super::manifest), with [`engine.covered`](super::covered), and with itself. The
//! guard only reads; what it refuses stays as it is.

use std::collections::BTreeMap;
use std::path::Path;

use super::covered::{COVERED_FILE, Covered};
use super::folder::engine_path;
use super::journal::{self, Journal};
use super::manifest::{JournalNote, Manifest};
use super::tree_files::{self, NAMES_TREE, TreeFiles, damaged, tree_path};
use crate::{Keyspace, StoreError};

/// What every folder of the engine begins with.
const ENGINE_VERSION: &[u8] = b"FJL\x03";

/// An engine's folder in which nothing is missing.
#[derive(Clone, Debug)]
pub(super) struct Survey {
    /// The journals, oldest first.
    pub(super) journals: Vec<Journal>,
    /// The files of every tree that is complete, by number.
    pub(super) trees: BTreeMap<u64, TreeFiles>,
    /// Names of trees by number, without the one that holds the names.
    pub(super) names: BTreeMap<u64, String>,
}

impl Survey {
    /// Whether no entry was ever written.
    pub(super) fn is_new(&self) -> bool {
        self.names.is_empty() && self.journals.iter().all(|journal| journal.sequences.is_none())
    }
}

/// Looks at the engine's files in a data folder; an error names what is missing or damaged.
pub(super) fn survey(folder: &Path) -> Result<Survey, StoreError> {
    let engine = engine_path(folder);
    let manifest = Manifest::read(folder)?;
    check_version(&engine)?;
    let names_files = TreeFiles::read(&engine, NAMES_TREE)?;
    let names: BTreeMap<u64, String> = tree_files::tree_names(&names_files)?.into_iter().collect();
    if let Some(manifest) = &manifest {
        check_names(&engine, manifest, &names)?;
    }
    let mut trees = BTreeMap::from([(NAMES_TREE, names_files)]);
    for (tree, name) in &names {
        if Keyspace::from_name(name).is_none() {
            let reason = format!("it names a tree '{name}' that this program does not know");
            return Err(damaged(&tree_path(&engine, NAMES_TREE), &reason));
        }
        let files = TreeFiles::read(&engine, *tree)?;
        // The catalog is read whole right after the engine has been opened, which writes. Damage in it is found before.
        let damage = (name == Keyspace::Meta.name()).then(|| files.first_damage()).flatten();
        damage.map_or(Ok(()), Err)?;
        trees.insert(*tree, files);
    }
    for tree in tree_files::trees(&engine)? {
        // A tree without a name was being made when the process ended. It has no entry yet: the first
        // commit comes after the name.
        if !trees.contains_key(&tree) && tree_files::has_tables(&engine, tree)? {
            let reason = "it holds sorted files, and no name leads to them";
            return Err(damaged(&tree_path(&engine, tree), reason));
        }
    }
    let journals = journal::survey(&engine)?;
    check_journals(&engine, &journals, &names)?;
    check_notes(&engine, &journals, &trees, manifest.as_ref())?;
    check_covered(folder, &engine, &journals)?;
    Ok(Survey { journals, trees, names })
}

/// Without this file the engine would begin anew over what is there.
fn check_version(engine: &Path) -> Result<(), StoreError> {
    let path = engine.join("version");
    match std::fs::read(&path) {
        Ok(bytes) if bytes.starts_with(ENGINE_VERSION) => Ok(()),
        Ok(_) => Err(damaged(&path, "it does not name the engine's version")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(damaged(&path, "the file is missing"))
        }
        Err(error) => Err(StoreError::file("read", &path, error)),
    }
}

/// What was noted is still named.
fn check_names(
    engine: &Path,
    manifest: &Manifest,
    names: &BTreeMap<u64, String>,
) -> Result<(), StoreError> {
    for (tree, name) in &manifest.keyspaces {
        if names.get(tree) != Some(name) {
            let reason = format!("it no longer names tree {tree}, which holds '{name}'");
            return Err(damaged(&tree_path(engine, NAMES_TREE), &reason));
        }
    }
    Ok(())
}

fn check_journals(
    engine: &Path,
    journals: &[Journal],
    names: &BTreeMap<u64, String>,
) -> Result<(), StoreError> {
    if journals.is_empty() {
        let reason =
            "every journal (*.jnl) is missing; the newest one is needed even when it is empty";
        return Err(damaged(engine, reason));
    }
    for journal in journals {
        if let Some(tree) = journal.trees.iter().find(|tree| !names.contains_key(tree)) {
            let reason = format!("it has writes for tree {tree}, which nothing names any more");
            return Err(damaged(&journal::path(engine, journal.number), &reason));
        }
    }
    Ok(())
}

/// Journals that were noted are there, or were flushed since.
fn check_notes(
    engine: &Path,
    journals: &[Journal],
    trees: &BTreeMap<u64, TreeFiles>,
    manifest: Option<&Manifest>,
) -> Result<(), StoreError> {
    let (Some(manifest), Some(oldest), Some(newest)) =
        (manifest, journals.first(), journals.last())
    else {
        return Ok(());
    };
    for (number, note) in &manifest.journals {
        let path = journal::path(engine, *number);
        if *number > newest.number {
            return Err(damaged(&path, "the newest journal is missing"));
        }
        if *number < oldest.number
            && let Some(tree) = unflushed(note, trees)
        {
            let reason = format!(
                "the journal is missing, and writes in it were not yet in the files of tree {tree}"
            );
            return Err(damaged(&path, &reason));
        }
        if let Some((first, _)) = oldest.sequences.filter(|_| *number == oldest.number)
            && first < note.floor
        {
            let floor = note.floor;
            let reason = format!(
                "its first batch has sequence number {first} and none below {floor} was written"
            );
            return Err(damaged(&path, &reason));
        }
    }
    Ok(())
}

/// A tree whose list of files is still the one from when the journal was noted.
fn unflushed(note: &JournalNote, trees: &BTreeMap<u64, TreeFiles>) -> Option<u64> {
    let same = |(tree, version): &&(u64, u64)| {
        trees.get(tree).is_none_or(|files| files.version <= *version)
    };
    note.unflushed.iter().find(same).map(|(tree, _)| *tree)
}

fn check_covered(folder: &Path, engine: &Path, journals: &[Journal]) -> Result<(), StoreError> {
    let Some(covered) = Covered::read(folder) else { return Ok(()) };
    let last = journals.iter().filter_map(|journal| Some(journal.sequences?.1)).max();
    let is_there = journals.iter().any(|journal| journal.number == covered.journal);
    if !is_there || last.unwrap_or(0) >= covered.sequence {
        return Ok(());
    }
    let last = last.map_or("none".to_owned(), |last| last.to_string());
    let reason = format!(
        "the journal was cut: acknowledged writes up to sequence number {} were in it, the last one \
         found is {last} (see {})",
        covered.sequence,
        folder.join(COVERED_FILE).display()
    );
    Err(damaged(&journal::path(engine, covered.journal), &reason))
}

/// Reads every sorted file of every tree and compares checksums; names the first damaged file. For
/// when the engine refused to open and did not say why.
pub(super) fn find_damage(survey: &Survey) -> Option<StoreError> {
    survey.trees.values().find_map(TreeFiles::first_damage)
}

#[cfg(test)]
mod tests;
