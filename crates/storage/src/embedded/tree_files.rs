//! The files of one tree of the engine, looked at without the engine.
//!
//! The engine trusts its folders: where a list of files is missing it begins a new, empty tree, and
//! removes what no list names. So the lists are read here first, with their checksums, which the engine
//! writes and does not compare. Nothing here writes.
//!
//! The layout, of the pinned version of the engine (numbers little-endian):
//!
//! ```text
//! keyspaces/<tree>/current    version:u64 xxh3(v<version>):u128 00
//! keyspaces/<tree>/v<version> an archive; its section `tables`: levels:u8, per level runs:u8, per run
//!                             tables:u32, per table id:u64 00 xxh3(file):u128 sequence:u64
//! keyspaces/<tree>/tables/<table>
//! ```

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lsm_tree::{Cache, Checksum, Table, ValueType};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_128};

use super::fields::Fields;
use crate::StoreError;

const CURRENT: &str = "current";
const TABLES: &str = "tables";

/// The tree in which the engine keeps the names of the others.
pub(super) const NAMES_TREE: u64 = 0;

/// What the engine's list says about one tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TreeFiles {
    folder: PathBuf,
    /// Raised with every change of the list.
    pub(super) version: u64,
    pub(super) tables: Vec<TableFile>,
}

/// One sorted file of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TableFile {
    pub(super) path: PathBuf,
    checksum: u128,
    /// Added to the sequence number of every entry.
    sequence: u64,
    /// The engine reads more of the upper levels when it opens.
    level: u8,
}

/// One entry of a sorted file; a removed key has no value.
pub(super) struct TableEntry {
    pub(super) key: Vec<u8>,
    pub(super) sequence: u64,
    pub(super) value: Option<bytes::Bytes>,
}

/// The folder of the trees.
pub(super) fn trees_path(engine: &Path) -> PathBuf {
    engine.join("keyspaces")
}

/// The folder of one tree.
pub(super) fn tree_path(engine: &Path, tree: u64) -> PathBuf {
    trees_path(engine).join(tree.to_string())
}

/// The numbers of the trees that have a folder.
pub(super) fn trees(engine: &Path) -> Result<Vec<u64>, StoreError> {
    let folder = trees_path(engine);
    let mut found = Vec::new();
    for name in names(&folder)? {
        let path = folder.join(&name);
        match name.parse() {
            Ok(tree) if path.is_dir() => found.push(tree),
            _ if is_foreign(&name) || path.is_file() => {}
            // The engine would end the process.
            _ => return Err(damaged(&path, "this folder is not the engine's; move it away")),
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Whether a tree's folder holds sorted files, named by a list or not.
pub(super) fn has_tables(engine: &Path, tree: u64) -> Result<bool, StoreError> {
    let tables = tree_path(engine, tree).join(TABLES);
    Ok(names(&tables)?.iter().any(|name| !is_foreign(name)))
}

impl TreeFiles {
    /// Reads the list of a tree and checks that every file it names is there.
    pub(super) fn read(engine: &Path, tree: u64) -> Result<Self, StoreError> {
        let found = Self::read_list(engine, tree)?;
        found.check_names()?;
        Ok(found)
    }

    /// Reads the list of a tree.
    pub(super) fn read_list(engine: &Path, tree: u64) -> Result<Self, StoreError> {
        let folder = tree_path(engine, tree);
        let current = folder.join(CURRENT);
        let bytes = must_read(&current, "it names the tree's list of files")?;
        let (version, checksum) = parse_current(&bytes)
            .ok_or_else(|| damaged(&current, "it does not name a list of files"))?;
        let list = folder.join(format!("v{version}"));
        let bytes = must_read(&list, "it is the tree's list of files")?;
        if xxh3_128(&bytes) != checksum {
            return Err(damaged(&list, "its checksum is not the one in `current`"));
        }
        let tables = parse_list(&folder, &list)?;
        Ok(Self { folder, version, tables })
    }

    /// Every file of the list is there, and nothing the engine would stumble over.
    fn check_names(&self) -> Result<(), StoreError> {
        for table in &self.tables {
            let metadata =
                fs::metadata(&table.path).map_err(|error| missing(&table.path, &error))?;
            if metadata.len() == 0 {
                return Err(damaged(&table.path, "the sorted file is empty"));
            }
            // What the engine reads of it when it opens; the rest is checked as it is read.
            table.recover(table.level == 0, table.level <= 1)?;
        }
        let folder = self.folder.join(TABLES);
        for name in names(&folder)? {
            let path = folder.join(&name);
            if !is_foreign(&name) && (name.parse::<u64>().is_err() || !path.is_file()) {
                return Err(damaged(&path, "this is not the engine's; move it away"));
            }
        }
        Ok(())
    }

    /// Reads every sorted file and compares its checksum; the first one that differs.
    pub(super) fn first_damage(&self) -> Option<StoreError> {
        self.tables.iter().find_map(|table| table.check().err())
    }

    /// The tree's own folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl TableFile {
    /// A sorted file that no list names, so that nothing is known about it.
    pub(super) fn unlisted(path: PathBuf) -> Self {
        Self { path, checksum: 0, sequence: 0, level: u8::MAX }
    }

    /// Whether the whole file has the checksum that the list says.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        let hash = || -> io::Result<u128> {
            let mut file = fs::File::open(&self.path)?;
            let (mut hasher, mut buffer) = (Xxh3Default::new(), vec![0; 1 << 16]);
            loop {
                match file.read(&mut buffer)? {
                    0 => return Ok(hasher.digest128()),
                    read => hasher.update(buffer.get(..read).unwrap_or_default()),
                }
            }
        };
        match hash() {
            Ok(found) if found == self.checksum => Ok(()),
            Ok(_) => Err(damaged(&self.path, "its checksum is not the one in its list")),
            Err(error) => Err(missing(&self.path, &error)),
        }
    }

    /// Opens the file alone, to be read from either end.
    pub(super) fn open(
        &self,
    ) -> Result<impl DoubleEndedIterator<Item = Result<TableEntry, StoreError>>, StoreError> {
        let path = self.path.clone();
        Ok(self.recover(false, false)?.iter().map(move |entry| {
            let entry = entry.map_err(|error| damaged(&path, &format!("{error:?}")))?;
            let value = match entry.key.value_type {
                ValueType::Value => Some(bytes::Bytes::from(entry.value)),
                _ => None,
            };
            Ok(TableEntry { key: entry.key.user_key.to_vec(), sequence: entry.key.seqno, value })
        }))
    }

    /// Opens the file as the engine does.
    fn recover(&self, pin_filter: bool, pin_index: bool) -> Result<Table, StoreError> {
        let cache = Arc::new(Cache::with_capacity_bytes(1 << 20));
        let checksum = Checksum::from_raw(self.checksum);
        let (path, sequence) = (self.path.clone(), self.sequence);
        Table::recover(path, checksum, sequence, 0, cache, None, pin_filter, pin_index)
            .map_err(|error| damaged(&self.path, &format!("{error:?}")))
    }
}

/// The names of the trees, as the engine keeps them in a tree of its own: by number.
pub(super) fn tree_names(files: &TreeFiles) -> Result<Vec<(u64, String)>, StoreError> {
    let mut newest = std::collections::BTreeMap::<Vec<u8>, (u64, Option<bytes::Bytes>)>::new();
    for table in &files.tables {
        // Small files, on which everything depends.
        table.check()?;
        for entry in table.open()? {
            let entry = entry?;
            let known = newest.entry(entry.key).or_insert((0, None));
            if entry.sequence >= known.0 {
                *known = (entry.sequence, entry.value);
            }
        }
    }
    let name = |(key, (_, value)): (Vec<u8>, (u64, Option<bytes::Bytes>))| {
        let tree = u64::from_be_bytes(key.strip_prefix(b"n")?.try_into().ok()?);
        Some((tree, String::from_utf8(value?.to_vec()).ok()?))
    };
    Ok(newest.into_iter().filter_map(name).collect())
}

fn parse_current(bytes: &[u8]) -> Option<(u64, u128)> {
    let mut fields = Fields(bytes);
    let version = u64::from_le_bytes(fields.take()?);
    let checksum = u128::from_le_bytes(fields.take()?);
    (fields.0 == [0]).then_some((version, checksum))
}

fn parse_list(folder: &Path, list: &Path) -> Result<Vec<TableFile>, StoreError> {
    let unreadable = |error: &dyn std::fmt::Debug| damaged(list, &format!("{error:?}"));
    let archive = sfa::Reader::new(list).map_err(|error| unreadable(&error))?;
    let section = archive.toc().section(b"tables");
    let section = section.ok_or_else(|| damaged(list, "it has no section `tables`"))?;
    let mut bytes = Vec::new();
    let mut reader = section.buf_reader(list).map_err(|error| unreadable(&error))?;
    reader.read_to_end(&mut bytes).map_err(|error| unreadable(&error))?;
    parse_tables(&folder.join(TABLES), &bytes)
        .ok_or_else(|| damaged(list, "its section `tables` is cut short"))
}

fn parse_tables(folder: &Path, bytes: &[u8]) -> Option<Vec<TableFile>> {
    let mut fields = Fields(bytes);
    let mut tables = Vec::new();
    let [levels] = fields.take()?;
    for level in 0..levels {
        let [runs] = fields.take()?;
        for _ in 0..runs {
            for _ in 0..u32::from_le_bytes(fields.take()?) {
                let id = u64::from_le_bytes(fields.take()?);
                let [_kind_of_checksum] = fields.take()?;
                let checksum = u128::from_le_bytes(fields.take()?);
                let sequence = u64::from_le_bytes(fields.take()?);
                let path = folder.join(id.to_string());
                tables.push(TableFile { path, checksum, sequence, level });
            }
        }
    }
    Some(tables)
}

/// Names that systems leave in every folder; the engine passes over them too.
fn is_foreign(name: &str) -> bool {
    name == ".DS_Store" || name.starts_with("._")
}

pub(super) fn names(folder: &Path) -> Result<Vec<String>, StoreError> {
    let list = || -> io::Result<Vec<String>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(folder)? {
            found.push(entry?.file_name().to_string_lossy().into_owned());
        }
        found.sort_unstable();
        Ok(found)
    };
    match list() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        other => other.map_err(|error| StoreError::file("list", folder, error)),
    }
}

fn must_read(path: &Path, what: &str) -> Result<Vec<u8>, StoreError> {
    match fs::read(path) {
        Ok(bytes) => Ok(bytes),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(damaged(path, &format!("the file is missing; {what}")))
        }
        Err(error) => Err(StoreError::file("read", path, error)),
    }
}

fn missing(path: &Path, error: &io::Error) -> StoreError {
    match error.kind() {
        ErrorKind::NotFound => damaged(path, "the file is missing"),
        _ => damaged(path, &error.to_string()),
    }
}

pub(super) fn damaged(path: &Path, reason: &str) -> StoreError {
    StoreError::corruption(path.display().to_string(), reason)
}
