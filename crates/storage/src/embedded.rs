//! The embedded store: fjall's log-structured trees in a folder.
//!
//! The folder holds:
//!
//! ```text
//!   lock             one process at a time
//!   format           the version of everything in the folder, checked before anything is read
//!   engine/          fjall's own files: journals, and one tree of sorted files per keyspace
//!                    (engine.new/ while it is being made)
//!   engine.manifest  what must be in engine/
//!   engine.covered   how far the newest journal was filled
//! ```
//!
//! Before fjall sees the folder the [guard] compares it with the last two: what is missing or out of order
//! is refused by name, and nothing is changed.
//!
//! A commit writes the whole batch to the journal, syncs it, and only then shows it to readers.
//! What is in the journal but not yet in sorted files is replayed at start; journals are bounded
//! ([`EmbeddedOptions::journal_bytes_max`]) and emptied by a clean stop, so starts stay quick.
//!
//! Values leave the engine as [`Bytes`] that share the memory of the engine's block cache.

mod covered;
mod fields;
mod folder;
mod guard;
mod journal;
mod manifest;
mod merges;
mod nothing;
mod options;
mod room_waits;
mod salvage;
mod scratch;
mod space;
mod tree_files;
mod trees;
mod watch;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use fjall::{Database, Guard, PersistMode, Readable};
use lsm_tree::gather::ShownValue;
use lsm_tree::visit::EntryValue;
use parking_lot::RwLock;

use crate::disk::FolderLock;
use crate::{
    Batch, Direction, Durability, KeyRange, Keyspace, Pressure, Room, Shown, Snapshot, Store,
    StoreError, StoreStats,
};

use covered::CoveredFile;
pub use folder::FORMAT_VERSION;
use folder::Found;
pub(crate) use folder::RESTORING_FILE;
use guard::Survey;
use manifest::{Manifest, ManifestFile};
pub use options::EmbeddedOptions;
use room_waits::{RoomWaits, WaitsEnd};
pub use salvage::{Loss, Salvage};
use space::{Reserve, SharedRoom, Space};
use trees::{TreeMaker, Trees};
use watch::{Opened, Progress, Watcher};

/// How long a clean stop waits for write buffers to reach sorted files. Beyond it the journal
/// simply stays as it is, and the next start replays it.
const FLUSH_WAIT_MAX: Duration = Duration::from_secs(20);

/// How often a clean stop looks whether the write buffers are gone.
const FLUSH_WAIT_STEP: Duration = Duration::from_millis(2);

/// A [`Store`] in a folder.
pub struct EmbeddedStore {
    trees: Arc<Trees>,
    engine: RwLock<Engine>,
    /// Its lock is held for a whole commit, so that changes see one state.
    progress: Arc<Progress>,
    room: Arc<SharedRoom>,
    waits: Arc<RoomWaits>,
    path: PathBuf,
}

enum Engine {
    Open(Running),
    Closed(fjall::Snapshot),
}

/// An open engine. Threads end before the database does.
struct Running {
    /// What only a store that may write has.
    _maker: Option<TreeMaker>,
    watcher: Option<Watcher>,
    _waits: Option<WaitsEnd>,
    database: Database,
}

impl EmbeddedStore {
    /// Opens the store in this folder, or creates it where nothing is.
    ///
    /// # Errors
    ///
    /// [`StoreError::Locked`] when another process has it open, [`StoreError::FormatVersion`] when
    /// another version wrote it, [`StoreError::Corruption`] when something is missing or damaged
    /// (nothing was changed then), otherwise what the disk or the engine says.
    pub fn open(path: impl Into<PathBuf>, options: &EmbeddedOptions) -> Result<Self, StoreError> {
        let path = path.into();
        folder::check_restored(&path)?;
        Self::open_any(path, options)
    }

    /// Whether a folder holds a store, whole or damaged. Changes nothing.
    #[must_use]
    pub fn is_at(path: &Path) -> bool {
        !matches!(folder::look(path), Ok(Found::Nothing))
    }

    /// As [`EmbeddedStore::open`], also where a restore has not finished.
    pub(crate) fn open_any(path: PathBuf, options: &EmbeddedOptions) -> Result<Self, StoreError> {
        // Looked at twice: a folder that is refused does not even get a lock file.
        if folder::look(&path)? == Found::Nothing {
            folder::require_room(&path)?;
        }
        let lock = FolderLock::acquire(&path)?;
        if folder::look(&path)? == Found::Nothing {
            folder::make_engine(&path, |path| make_engine(path, options))?;
        }
        let survey = guard::survey(&path)?;
        if folder::look(&path)? == Found::Unfinished {
            // Only a store that never had an entry is finished by a second start.
            if !survey.is_new() {
                return Err(folder::format_is_missing(&path));
            }
            folder::write_format(&path)?;
        }
        Self::open_engine(path, options, lock, &survey)
    }

    fn open_engine(
        path: PathBuf,
        options: &EmbeddedOptions,
        lock: FolderLock,
        survey: &Survey,
    ) -> Result<Self, StoreError> {
        let engine_path = folder::engine_path(&path);
        journal::cut_torn_end(&engine_path, &survey.journals)?;
        folder::make_engine_lock(&engine_path)?;
        let fail =
            |error| guard::find_damage(survey).unwrap_or_else(|| translate(&engine_path, error));
        let (probe, reserve) = (space::probe_of(path.clone()), Reserve::new(options.reserve_bytes));
        let (progress, room) = (Arc::<Progress>::default(), Arc::<SharedRoom>::default());
        let waits = RoomWaits::new(Arc::clone(&probe), reserve, &room, &progress);
        let database = options.waiting(&engine_path, &waits).open().map_err(fail)?;
        let manifest = Manifest::read(&path)?.unwrap_or_default();
        let manifest = Arc::new(ManifestFile::new(&path, manifest)?);
        let counter = database.seqno();
        let trees = Trees::open(&database, options, Some(Arc::clone(&manifest)), Some(lock));
        let trees = Arc::new(trees.map_err(fail)?);
        let space = Space::new(probe, reserve, &room);
        let opened = Opened { survey, counter };
        let watcher = Watcher::start(&path, &trees, &manifest, &progress, &opened, space)?;
        let maker = TreeMaker::start(&trees, &database)?;
        let end = Some(WaitsEnd(Arc::clone(&waits)));
        let running =
            Running { _maker: Some(maker), watcher: Some(watcher), _waits: end, database };
        Ok(Self { trees, engine: RwLock::new(Engine::Open(running)), progress, room, waits, path })
    }

    /// Opens the store in a folder that must not be changed, not even by its engine: what it would
    /// write goes to `scratch`, an empty folder that the caller removes afterwards.
    ///
    /// # Errors
    ///
    /// As [`EmbeddedStore::open`]; a folder without a store is an error too.
    pub fn open_read_only(
        path: &Path,
        scratch: &Path,
        options: &EmbeddedOptions,
    ) -> Result<Self, StoreError> {
        // Links lead to the files from another folder.
        let absolute =
            std::path::absolute(path).map_err(|error| StoreError::file("find", path, error))?;
        let path = absolute.as_path();
        folder::check_restored(path)?;
        let lock = FolderLock::acquire_existing(path)?;
        if folder::look(path)? != Found::Store {
            let nothing = std::io::Error::other("there is no store in this folder");
            return Err(StoreError::file("open", path, nothing));
        }
        let survey = guard::survey(path)?;
        scratch::copy_engine(path, &survey, scratch)?;
        let engine_path = folder::engine_path(scratch);
        let fail =
            |error| guard::find_damage(&survey).unwrap_or_else(|| translate(&engine_path, error));
        // Without workers nothing is flushed or merged.
        let database = options.database(&engine_path).worker_threads_unchecked(0);
        let database = database.open().map_err(fail)?;
        let trees = Arc::new(Trees::open(&database, options, None, lock).map_err(fail)?);
        let running = Running { _maker: None, watcher: None, _waits: None, database };
        let engine = RwLock::new(Engine::Open(running));
        let (progress, room) = (Arc::default(), Arc::default());
        let (probe, reserve) = (space::probe_of(path.into()), Reserve::new(options.reserve_bytes));
        let waits = RoomWaits::new(probe, reserve, &room, &progress);
        Ok(Self { trees, engine, progress, room, waits, path: path.into() })
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves every write buffer into sorted files and waits until that is done, so that a start
    /// has nothing to replay; false when it took too long, or the disk is full.
    ///
    /// # Errors
    ///
    /// When the engine refuses.
    pub fn flush(&self) -> Result<bool, StoreError> {
        for keyspace in self.trees.all() {
            keyspace.rotate_memtable().map_err(|error| self.fail(error))?;
        }
        let mut waited = Duration::ZERO;
        while !self.trees.all_flushed() {
            if waited >= FLUSH_WAIT_MAX || self.waits.is_waiting() {
                return Ok(false);
            }
            thread::sleep(FLUSH_WAIT_STEP);
            waited += FLUSH_WAIT_STEP;
        }
        Ok(true)
    }

    /// Returns a sequence number that the batch has at least.
    fn write(
        &self,
        database: &Database,
        batch: Batch,
        durability: Durability,
    ) -> Result<u64, StoreError> {
        let mode = match durability {
            Durability::Synced => PersistMode::SyncData,
            Durability::Relaxed => PersistMode::Buffer,
        };
        let writes = fjall::OwnedWriteBatch::with_capacity(database.clone(), batch.len());
        let mut writes = writes.durability(Some(mode));
        for operation in batch.into_operations() {
            let tree = self.trees.find_or_make(database, operation.keyspace);
            let tree = tree.map_err(|error| self.fail(error))?;
            match operation.value {
                Some(value) => writes.insert(tree, operation.key, value),
                None => writes.remove(tree, operation.key),
            }
        }
        // Trees that were made for it have taken numbers of their own by now.
        let counter = database.seqno();
        writes.commit().map_err(|error| self.fail(error))?;
        Ok(counter)
    }

    /// The state of now.
    fn view(&self, database: &Database) -> Arc<dyn Snapshot> {
        if database.visible_seqno() == 0 {
            return Arc::new(nothing::Nothing);
        }
        self.share(database.snapshot())
    }

    fn share(&self, engine: fjall::Snapshot) -> Arc<dyn Snapshot> {
        Arc::new(EmbeddedSnapshot { trees: Arc::clone(&self.trees), engine })
    }

    fn fail(&self, error: fjall::Error) -> StoreError {
        translate(&self.path, error)
    }
}

impl Store for EmbeddedStore {
    fn snapshot(&self) -> Arc<dyn Snapshot> {
        match &*self.engine.read() {
            Engine::Open(running) => self.view(&running.database),
            Engine::Closed(last) => self.share(last.clone()),
        }
    }

    fn commit(&self, batch: Batch, durability: Durability) -> Result<(), StoreError> {
        let mut writer = self.progress.writer.lock();
        let engine = self.engine.read();
        let Engine::Open(Running { database, .. }) = &*engine else {
            let closed = std::io::Error::other("the store is closed");
            return Err(StoreError::io("commit", closed));
        };
        self.progress.committing(&mut writer, database.active_journal());
        let counter = self.write(database, batch, durability)?;
        if durability == Durability::Synced {
            self.progress.committed(counter, &mut writer);
        }
        Ok(())
    }

    fn close(&self) -> Result<(), StoreError> {
        let (running, flushed) = {
            let _writer = self.progress.writer.lock();
            let mut engine = self.engine.write();
            let Engine::Open(Running { database, watcher, .. }) = &*engine else { return Ok(()) };
            let flushed = if watcher.is_some() {
                database.persist(PersistMode::SyncAll).map_err(|error| self.fail(error))?;
                self.flush()?
            } else {
                false
            };
            let last = database.snapshot();
            (std::mem::replace(&mut *engine, Engine::Closed(last)), flushed)
        };
        // Ends the threads and waits for them; no lock is held that they may need.
        drop(running);
        if flushed {
            CoveredFile::open(&self.path)?.clear()?;
            journal::empty_newest(&folder::engine_path(&self.path))?;
        }
        Ok(())
    }

    fn stats(&self) -> StoreStats {
        let disk_bytes = self.trees.disk_bytes();
        let flushes_waiting = self.trees.flushes_waiting();
        let files_unmerged = self.trees.files_unmerged();
        let mut stats =
            StoreStats { disk_bytes, flushes_waiting, files_unmerged, ..StoreStats::default() };
        if let Engine::Open(Running { database, .. }) = &*self.engine.read() {
            stats.journal_bytes = database.journal_disk_space().unwrap_or(0);
            stats.disk_bytes += stats.journal_bytes;
            stats.write_buffer_bytes = database.write_buffer_size();
            stats.cache_bytes = database.cache_size();
            stats.merges_active = database.active_compactions();
        }
        stats
    }

    fn pressure(&self) -> Pressure {
        Pressure::of(self.trees.flushes_waiting(), self.trees.files_unmerged())
    }

    fn room(&self) -> Room {
        self.room.get()
    }

    fn end_waits(&self) {
        self.waits.end_commits();
    }
}

struct EmbeddedSnapshot {
    trees: Arc<Trees>,
    engine: fjall::Snapshot,
}

impl Snapshot for EmbeddedSnapshot {
    fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let Some(tree) = self.trees.find(keyspace) else { return Ok(None) };
        let found = self.engine.get(tree, key);
        found.map(|value| value.map(Bytes::from)).map_err(|error| damage(keyspace, error))
    }

    fn contains(&self, keyspace: Keyspace, key: &[u8]) -> Result<bool, StoreError> {
        let Some(tree) = self.trees.find(keyspace) else { return Ok(false) };
        self.engine.contains_key(tree, key).map_err(|error| damage(keyspace, error))
    }

    fn scan(
        &self,
        keyspace: Keyspace,
        range: &KeyRange,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], Bytes) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let Some(tree) = self.trees.find(keyspace).filter(|_| !range.is_empty()) else {
            return Ok(());
        };
        match direction {
            Direction::Forward => {
                let visit =
                    &mut |key: &[u8], value: EntryValue<'_>| visit(key, value.share().into());
                self.engine.visit(tree, range.as_bounds(), visit)
            }
            Direction::Backward => {
                show(self.engine.range::<&[u8], _>(tree, range.as_bounds()).rev(), visit)
            }
        }
        .map_err(|error| damage(keyspace, error))
    }

    fn get_beside(
        &self,
        keyspace: Keyspace,
        keys: &[&[u8]],
        take: &mut dyn FnMut(usize, &Shown<'_>) -> bool,
    ) -> Result<(), StoreError> {
        let Some(tree) = self.trees.find(keyspace) else { return Ok(()) };
        let take = &mut |position: usize, value: &ShownValue<'_>| {
            take(position, &Shown::new(value.bytes(), &|| value.share().map(Bytes::from)))
        };
        self.engine.get_beside(tree, keys, take).map_err(|error| damage(keyspace, error))
    }

    fn absent_beside(
        &self,
        keyspace: Keyspace,
        keys: &[&[u8]],
        absent: &mut dyn FnMut(usize),
    ) -> Result<(), StoreError> {
        let Some(tree) = self.trees.find(keyspace) else {
            (0..keys.len()).for_each(absent);
            return Ok(());
        };
        self.engine.absent_beside(tree, keys, absent).map_err(|error| damage(keyspace, error))
    }
}

fn show(
    entries: impl Iterator<Item = Guard>,
    visit: &mut dyn FnMut(&[u8], Bytes) -> ControlFlow<()>,
) -> Result<(), fjall::Error> {
    for entry in entries {
        let (key, value) = entry.into_inner()?;
        if visit(&key, Bytes::from(value)).is_break() {
            break;
        }
    }
    Ok(())
}

/// The first files of an engine.
fn make_engine(path: &Path, options: &EmbeddedOptions) -> Result<(), StoreError> {
    drop(options.database(path).open().map_err(|error| translate(path, error))?);
    // The engine begins its journal with many megabytes of zeros, which would be read now.
    journal::empty_newest(path)
}

fn damage(keyspace: Keyspace, error: fjall::Error) -> StoreError {
    translate(Path::new(keyspace.name()), error)
}

/// The engine's error in our two kinds: the disk failed, or what it holds is damaged.
fn translate(place: &Path, error: fjall::Error) -> StoreError {
    use std::io::ErrorKind::{InvalidData, UnexpectedEof};
    let place_text = place.display().to_string();
    match error {
        fjall::Error::Locked => StoreError::Locked { path: place.into() },
        fjall::Error::Poisoned => {
            let reason = "an earlier write failed; nothing more is accepted until a restart";
            StoreError::io(place_text, std::io::Error::other(reason))
        }
        fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error)) => {
            // A file that ends too early is damage, not a failing disk.
            match error.kind() {
                InvalidData | UnexpectedEof => {
                    StoreError::corruption(place_text, error.to_string())
                }
                _ => StoreError::io(place_text, error),
            }
        }
        other => StoreError::corruption(place_text, format!("{other:?}")),
    }
}

#[cfg(test)]
mod tests;
