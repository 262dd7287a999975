//! Reading what is left of a damaged store, without its engine and without writing.
//!
//! The engine opens a whole folder or nothing. This reads each sorted file and each journal by itself, from
//! both ends where its middle is damaged, and lets the entry with the highest sequence number of a key
//! win. What could not be read is listed. Two passes: the first remembers for each key where its newest
//! entry lies (a few dozen bytes per key), the second shows those entries.
//!
//! Where a tree's list of files is lost, all files in its folder are read; then entries that a merge had
//! replaced or removed may come back.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_128;

use super::folder::engine_path;
use super::journal::{self, Batches};
use super::manifest::Manifest;
use super::tree_files::{self, NAMES_TREE, TableFile, TreeFiles};
use super::trees::MAKING_ORDER;
use crate::disk::FolderLock;
use crate::{Keyspace, StoreError};

/// Something that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The file or folder.
    pub place: String,
    /// What is wrong with it, and what that means.
    pub reason: String,
}

/// A damaged store, to be read.
pub struct Salvage {
    engine: PathBuf,
    /// The tree of each keyspace.
    trees: BTreeMap<Keyspace, u64>,
    losses: Vec<Loss>,
    _lock: Option<FolderLock>,
}

/// Shown a key and its value.
type Visit<'a> = &'a mut dyn FnMut(&[u8], Bytes);

impl Salvage {
    /// Looks at a data folder; nothing in it is changed.
    ///
    /// # Errors
    ///
    /// [`StoreError::Locked`] when a server has it open; otherwise when there is no engine's folder.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let lock = FolderLock::acquire_existing(folder)?;
        let engine = engine_path(folder);
        if !engine.is_dir() {
            let nothing = std::io::Error::other("the folder is missing; there is nothing to read");
            return Err(StoreError::file("read", &engine, nothing));
        }
        let mut salvage = Self { engine, trees: BTreeMap::new(), losses: Vec::new(), _lock: lock };
        salvage.find_trees(folder);
        Ok(salvage)
    }

    /// What could not be read so far.
    #[must_use]
    pub fn losses(&self) -> &[Loss] {
        &self.losses
    }

    /// Shows every entry of a keyspace that can be read, in no order.
    pub fn read(&mut self, keyspace: Keyspace, visit: Visit<'_>) {
        let Some(tree) = self.trees.get(&keyspace).copied() else {
            let place = tree_files::trees_path(&self.engine).display().to_string();
            let reason = format!("no folder was found that holds '{keyspace}'");
            self.losses.push(Loss { place, reason });
            return;
        };
        let sources = self.sources(tree);
        let mut newest: HashMap<u128, (u64, usize)> = HashMap::new();
        for (index, source) in sources.iter().enumerate() {
            source.read(tree, &mut self.losses, &mut |key, sequence, _| {
                let known = newest.entry(xxh3_128(key)).or_insert((sequence, index));
                if sequence >= known.0 {
                    *known = (sequence, index);
                }
            });
        }
        for (index, source) in sources.iter().enumerate() {
            // The same losses a second time.
            source.read(tree, &mut Vec::new(), &mut |key, sequence, value| {
                let is_newest = newest.get(&xxh3_128(key)) == Some(&(sequence, index));
                if let Some(value) = value.filter(|_| is_newest) {
                    // Once, also when a file was read from both ends.
                    newest.remove(&xxh3_128(key));
                    visit(key, value);
                }
            });
        }
    }

    /// Which tree holds which keyspace: by the engine's names, else by the manifest, else by the order in
    /// which a new store makes its trees.
    fn find_trees(&mut self, folder: &Path) {
        let named = TreeFiles::read(&self.engine, NAMES_TREE)
            .and_then(|files| tree_files::tree_names(&files))
            .map_err(|error| self.lose(&error));
        let mut names: BTreeMap<u64, String> = named.unwrap_or_default().into_iter().collect();
        match Manifest::read(folder) {
            Ok(manifest) => names.extend(manifest.unwrap_or_default().keyspaces),
            Err(error) => self.lose(&error),
        }
        for (tree, name) in names {
            if let Some(keyspace) = Keyspace::from_name(&name) {
                self.trees.insert(keyspace, tree);
            }
        }
        if self.trees.is_empty() {
            let found = tree_files::trees(&self.engine).unwrap_or_default();
            let found = found.into_iter().filter(|tree| *tree != NAMES_TREE);
            self.trees = MAKING_ORDER.into_iter().zip(found).collect();
            let place = tree_files::tree_path(&self.engine, NAMES_TREE).display().to_string();
            let reason =
                "the names of the trees are lost; they were guessed by their order".to_owned();
            self.losses.push(Loss { place, reason });
        }
    }

    fn sources(&mut self, tree: u64) -> Vec<Source> {
        let tables = match TreeFiles::read_list(&self.engine, tree) {
            Ok(files) => files.tables,
            Err(error) => {
                self.lose(&error);
                self.all_tables(tree)
            }
        };
        let mut sources: Vec<Source> = tables.into_iter().map(Source::Table).collect();
        match journal::numbers(&self.engine) {
            Ok(numbers) => {
                let paths = numbers.into_iter().map(|number| journal::path(&self.engine, number));
                sources.extend(paths.map(Source::Journal));
            }
            Err(error) => self.lose(&error),
        }
        sources
    }

    /// Every sorted file of a tree whose list is lost.
    fn all_tables(&mut self, tree: u64) -> Vec<TableFile> {
        let folder = tree_files::tree_path(&self.engine, tree).join("tables");
        let names = tree_files::names(&folder).unwrap_or_default();
        let paths = names.into_iter().map(|name| folder.join(name));
        let tables: Vec<TableFile> = paths.map(TableFile::unlisted).collect();
        let reason = format!(
            "its list of files is lost, so all {} files were read; replaced and deleted items may come back",
            tables.len()
        );
        self.losses.push(Loss { place: folder.display().to_string(), reason });
        tables
    }

    fn lose(&mut self, error: &StoreError) {
        self.losses.push(Loss::of(error));
    }
}

impl Loss {
    fn of(error: &StoreError) -> Self {
        match error {
            StoreError::Corruption { place, reason } => {
                Self { place: place.clone(), reason: reason.clone() }
            }
            other => Self { place: "the data folder".to_owned(), reason: other.to_string() },
        }
    }
}

enum Source {
    Table(TableFile),
    Journal(PathBuf),
}

type VisitEntry<'a> = &'a mut dyn FnMut(&[u8], u64, Option<Bytes>);

impl Source {
    fn read(&self, tree: u64, losses: &mut Vec<Loss>, visit: VisitEntry<'_>) {
        match self {
            Self::Table(table) => {
                // The engine's reader expects its own files; what a damaged one makes it do is unknown.
                let read = catch_unwind(AssertUnwindSafe(|| read_table(table, losses, visit)));
                if read.is_err() {
                    let place = table.path.display().to_string();
                    let reason = "the rest of this sorted file cannot be read".to_owned();
                    losses.push(Loss { place, reason });
                }
            }
            Self::Journal(path) => read_journal(path, tree, losses, visit),
        }
    }
}

fn read_table(table: &TableFile, losses: &mut Vec<Loss>, visit: VisitEntry<'_>) {
    let mut last = None;
    let forward = table.open().and_then(|mut entries| {
        entries.try_for_each(|entry| {
            let entry = entry?;
            visit(&entry.key, entry.sequence, entry.value);
            last = Some(entry.key);
            Ok(())
        })
    });
    let Err(error) = forward else { return };
    // Then from the other end, up to the damage or to what was seen.
    let mut backward = 0;
    if let Ok(entries) = table.open() {
        for entry in entries.rev().map_while(Result::ok) {
            if last.as_ref().is_some_and(|last| entry.key <= *last) {
                break;
            }
            visit(&entry.key, entry.sequence, entry.value);
            backward += 1;
        }
    }
    let mut loss = Loss::of(&error);
    loss.reason = format!("{}; {backward} entries behind the damage were read", loss.reason);
    losses.push(loss);
}

fn read_journal(path: &Path, tree: u64, losses: &mut Vec<Loss>, visit: VisitEntry<'_>) {
    let place = path.display().to_string();
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) => return losses.push(Loss { place, reason: error.to_string() }),
    };
    let mut batches = Batches::new(&bytes);
    loop {
        for batch in &mut batches {
            for item in batch.items().filter(|item| item.tree == tree) {
                visit(item.key, batch.sequence, item.value.map(Bytes::copy_from_slice));
            }
        }
        let at = batches.position();
        let is_clean = batches.is_at_clean_end();
        if is_clean || !batches.skip_damage() {
            if !is_clean {
                let reason = format!("nothing behind byte {at} can be read");
                push_once(losses, Loss { place, reason });
            }
            return;
        }
        let reason = format!("bytes {at} to {} cannot be read", batches.position());
        push_once(losses, Loss { place: place.clone(), reason });
    }
}

/// Journals are read for every keyspace; their damage is told once.
fn push_once(losses: &mut Vec<Loss>, loss: Loss) {
    if !losses.contains(&loss) {
        losses.push(loss);
    }
}

#[cfg(test)]
mod tests;
