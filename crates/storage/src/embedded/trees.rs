//! One tree of the engine per keyspace, made when it is first needed.
//!
//! Making a tree takes the engine some twenty syncs, so a new store would take a hundred before it
//! could answer. Instead it opens with none, a thread makes them one after the other, and a commit
//! that comes first makes what it needs itself. A tree that does not exist reads as empty. In a
//! store that was opened before all of them are there from the start.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use fjall::{AbstractTree, Database};
use parking_lot::Mutex;

use super::EmbeddedOptions;
use super::manifest::ManifestFile;
use crate::disk::{FolderLock, sync_names};
use crate::{Keyspace, StoreError};

/// The order in which a new store gets its trees: first what the first requests write.
pub(super) const MAKING_ORDER: [Keyspace; Keyspace::ALL.len()] = [
    Keyspace::Meta,
    Keyspace::Items,
    Keyspace::Feed,
    Keyspace::Gone,
    Keyspace::Expiry,
    Keyspace::Unique,
    Keyspace::Versions,
];

/// The trees, and the lock of the folder: what a snapshot needs to stay readable, also after the
/// store was closed.
pub(super) struct Trees {
    trees: [OnceLock<fjall::Keyspace>; Keyspace::ALL.len()],
    making: Mutex<()>,
    options: EmbeddedOptions,
    /// Where a new tree is noted before it is used; a copy that is only read has none.
    manifest: Option<Arc<ManifestFile>>,
    _lock: Option<FolderLock>,
}

impl Trees {
    /// The trees that are there already.
    pub(super) fn open(
        database: &Database,
        options: &EmbeddedOptions,
        manifest: Option<Arc<ManifestFile>>,
        lock: Option<FolderLock>,
    ) -> Result<Self, fjall::Error> {
        let trees = [const { OnceLock::new() }; Keyspace::ALL.len()];
        let making = Mutex::new(());
        let trees = Self { trees, making, options: options.clone(), manifest, _lock: lock };
        for keyspace in Keyspace::ALL {
            if database.keyspace_exists(keyspace.name()) {
                let tree = database.keyspace(keyspace.name(), || options.keyspace(keyspace))?;
                trees.slot(keyspace).get_or_init(|| tree);
            }
        }
        Ok(trees)
    }

    /// The tree of a keyspace, if anything was ever written to it.
    pub(super) fn find(&self, keyspace: Keyspace) -> Option<&fjall::Keyspace> {
        self.slot(keyspace).get()
    }

    /// The tree of a keyspace, made on demand.
    pub(super) fn find_or_make(
        &self,
        database: &Database,
        keyspace: Keyspace,
    ) -> Result<&fjall::Keyspace, fjall::Error> {
        if let Some(tree) = self.find(keyspace) {
            return Ok(tree);
        }
        let _making = self.making.lock();
        let tree = match self.find(keyspace) {
            Some(tree) => tree.clone(),
            None => {
                let tree =
                    database.keyspace(keyspace.name(), || self.options.keyspace(keyspace))?;
                self.note(keyspace, &tree)?;
                tree
            }
        };
        Ok(self.slot(keyspace).get_or_init(|| tree))
    }

    fn note(&self, keyspace: Keyspace, tree: &fjall::Keyspace) -> Result<(), fjall::Error> {
        let Some(manifest) = &self.manifest else { return Ok(()) };
        // A note must not survive a loss of power that takes the tree's name; the engine syncs what is
        // in the tree's folder, not the folder above.
        if let Some(above) = tree.path().parent() {
            sync_names(above)?;
        }
        let noted = manifest.change(|manifest| {
            manifest.keyspaces.insert(tree.id(), keyspace.name().to_owned());
        });
        noted.map_err(|error| fjall::Error::Io(std::io::Error::other(error)))
    }

    /// The names of the trees that are there, by number.
    pub(super) fn names(&self) -> BTreeMap<u64, String> {
        self.all().map(|tree| (tree.id(), tree.name().to_string())).collect()
    }

    /// Every tree that is there.
    pub(super) fn all(&self) -> impl Iterator<Item = &fjall::Keyspace> {
        self.trees.iter().filter_map(OnceLock::get)
    }

    /// Whether no tree holds anything that is not in sorted files.
    pub(super) fn all_flushed(&self) -> bool {
        let flushed = |tree: &fjall::AnyTree| {
            tree.sealed_memtable_count() == 0 && tree.active_memtable().is_empty()
        };
        self.all().all(|keyspace| flushed(&keyspace.tree))
    }

    /// Begins to flush write buffers of at least so many bytes.
    pub(super) fn flush_larger(&self, bytes_min: u64) {
        for keyspace in self.all() {
            if keyspace.tree.active_memtable().size() >= bytes_min {
                // A journal that fails will be met again, and reported, by the next commit.
                let _begun = keyspace.rotate_memtable();
            }
        }
    }

    /// The most write buffers any tree has waiting to be flushed.
    pub(super) fn flushes_waiting(&self) -> usize {
        self.all().map(|keyspace| keyspace.tree.sealed_memtable_count()).max().unwrap_or(0)
    }

    /// The most overlapping files any tree has waiting to be merged.
    pub(super) fn files_unmerged(&self) -> usize {
        self.all().map(|keyspace| keyspace.tree.l0_run_count()).max().unwrap_or(0)
    }

    /// The bytes of all sorted files.
    pub(super) fn disk_bytes(&self) -> u64 {
        self.all().map(|keyspace| keyspace.tree.disk_space()).sum()
    }

    fn slot(&self, keyspace: Keyspace) -> &OnceLock<fjall::Keyspace> {
        self.trees.get(keyspace.index()).expect("there is one slot per keyspace")
    }
}

/// The thread that makes the trees of a new store; ends with the last one, or when dropped.
pub(super) struct TreeMaker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl TreeMaker {
    /// Starts the thread, unless every tree is there.
    pub(super) fn start(trees: &Arc<Trees>, database: &Database) -> Result<Self, StoreError> {
        let stop = Arc::new(AtomicBool::new(false));
        if trees.all().count() == Keyspace::ALL.len() {
            return Ok(Self { stop, thread: None });
        }
        let (trees, database, stopping) = (Arc::clone(trees), database.clone(), Arc::clone(&stop));
        let make_all = move || {
            for keyspace in MAKING_ORDER {
                // A failure will be met again, and reported, by the commit that needs the tree.
                if stopping.load(Ordering::Relaxed)
                    || trees.find_or_make(&database, keyspace).is_err()
                {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("tree maker".into()).spawn(make_all);
        let thread = thread.map_err(|error| StoreError::io("start a thread", error))?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for TreeMaker {
    /// Waits for the thread, which holds the engine and with it the folder.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}
