//! Notes what the engine does with its journals, a fraction of a second behind it.
//!
//! The engine begins and removes journals on its own threads. This one looks at them while commits come
//! (an idle store costs nothing), keeps [`engine.manifest`](super::manifest) up to date and tells commits
//! the newest journal for [`engine.covered`](super::covered). What it notes was true when it looked and
//! says nothing about later, so being late is never wrong. It looks at the disk's free space too, and goes on looking
//! while there is too little of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fjall::AbstractTree;
use parking_lot::{Condvar, Mutex};

use super::covered::{Claims, Covered};
use super::folder::engine_path;
use super::guard::Survey;
use super::journal;
use super::manifest::{JournalNote, Manifest, ManifestFile};
use super::merges;
use super::space::Space;
use super::trees::Trees;
use crate::disk::sync_names;
use crate::{Room, StoreError};

/// How far the notes may be behind.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How often a full disk is looked at again when nobody writes.
const LOOK_FOR_ROOM_EVERY: Duration = Duration::from_millis(500);

/// Behind so much time without a commit the store rests.
const RESTS_AFTER: Duration = Duration::from_millis(1500);

/// Write buffers of at least so many bytes become sorted files when the store rests, which frees their memory. Smaller ones would leave many
/// small files behind.
const FLUSHED_AT_REST_MIN: u64 = 16 << 20;

/// What commits and the watcher share.
#[derive(Default)]
pub(super) struct Progress {
    /// Some durable batch has at least this sequence number.
    durable: AtomicU64,
    /// Held by each commit, and while the watcher lists the journals: a batch that is committed
    /// after the list was made is in its newest journal, or in a newer one. A store that is only read
    /// claims nothing.
    pub(super) writer: Mutex<Option<Claims>>,
    state: Mutex<WatchState>,
    wake: Condvar,
}

#[derive(Default)]
struct WatchState {
    active: bool,
    stop: bool,
}

impl Progress {
    /// A batch is about to be written, to this journal as far as is known.
    pub(super) fn committing(&self, claims: &mut Option<Claims>, active: Option<u64>) {
        if let Some(claims) = claims {
            claims.before_commit(self.durable.load(Ordering::Relaxed), active);
        }
    }

    /// A batch that took its number from a counter that stood at `counter` is durable.
    pub(super) fn committed(&self, counter: u64, claims: &mut Option<Claims>) {
        self.durable.store(counter, Ordering::Relaxed);
        if let Some(claims) = claims {
            claims.committed(counter);
        }
        self.look_now();
    }

    /// Wakes the watcher.
    pub(super) fn look_now(&self) {
        let mut state = self.state.lock();
        if !state.active {
            state.active = true;
            self.wake.notify_one();
        }
    }
}

/// The thread; ends when dropped.
pub(super) struct Watcher {
    progress: Arc<Progress>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Writes the first notes of an opened store, then watches.
    pub(super) fn start(
        folder: &Path,
        trees: &Arc<Trees>,
        manifest: &Arc<ManifestFile>,
        progress: &Arc<Progress>,
        opened: &Opened<'_>,
        space: Space,
    ) -> Result<Self, StoreError> {
        let mut watch = Watch {
            engine: engine_path(folder),
            trees: Arc::clone(trees),
            manifest: Arc::clone(manifest),
            progress: Arc::clone(progress),
            numbers: Vec::new(),
            unflushed: Vec::new(),
            durable: 0,
            space,
        };
        let claims = watch.begin(folder, opened)?;
        *progress.writer.lock() = Some(claims);
        let ours = Arc::clone(progress);
        let thread = thread::Builder::new().name("journal watch".into()).spawn(move || watch.run());
        let thread = thread.map_err(|error| StoreError::io("start a thread", error))?;
        Ok(Self { progress: ours, thread: Some(thread) })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.progress.state.lock().stop = true;
        self.progress.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

/// What is known of a store that was just opened.
pub(super) struct Opened<'a> {
    pub(super) survey: &'a Survey,
    /// The next sequence number.
    pub(super) counter: u64,
}

struct Watch {
    engine: PathBuf,
    trees: Arc<Trees>,
    manifest: Arc<ManifestFile>,
    progress: Arc<Progress>,
    /// The journals at the last look.
    numbers: Vec<u64>,
    /// Trees with writes that were in journals alone at the last look, with the version of their list.
    unflushed: Vec<(u64, u64)>,
    /// What was durable at the last look.
    durable: u64,
    space: Space,
}

impl Watch {
    /// The notes of the start. Also what makes a folder without a manifest one with a manifest.
    fn begin(&mut self, folder: &Path, opened: &Opened<'_>) -> Result<Claims, StoreError> {
        self.look_at_space();
        let journals = &opened.survey.journals;
        let before: Vec<u64> = journals.iter().map(|journal| journal.number).collect();
        // The engine replays older journals into buffers that it closes at once, and the newest one
        // into those that stay open.
        let (open, closed) = (self.unflushed(Buffers::Open), self.unflushed(Buffers::Closed));
        self.numbers = journal::numbers(&self.engine)?;
        let mut notes = BTreeMap::new();
        for journal in journals.iter().filter(|journal| self.numbers.contains(&journal.number)) {
            let floor = journal.sequences.map_or(opened.counter, |(first, _)| first);
            notes.insert(journal.number, JournalNote { floor, unflushed: Vec::new() });
        }
        if self.numbers == before {
            let mut newest = notes.values_mut().rev();
            if let Some(note) = newest.next() {
                note.unflushed = open;
            }
            if let Some(note) = newest.next() {
                note.unflushed = closed;
            }
        }
        let keyspaces = self.trees.names();
        self.manifest.begin(Manifest { keyspaces, journals: notes })?;
        let newest = self.numbers.last().copied().unwrap_or(0);
        let mut claims = Claims::open(folder, &self.engine, newest)?;
        if let Some(newest) = journals.last()
            && let Some((_, last)) = newest.sequences
        {
            claims.begin(Covered { journal: newest.number, sequence: last })?;
        }
        Ok(claims)
    }

    fn run(mut self) {
        let mut room = self.look_at_space();
        let mut is_resting = false;
        loop {
            let mut state = self.progress.state.lock();
            while !state.active && !state.stop {
                if room == Room::Plenty && is_resting {
                    self.progress.wake.wait(&mut state);
                } else if room == Room::Plenty {
                    is_resting = self.progress.wake.wait_for(&mut state, RESTS_AFTER).timed_out();
                    if is_resting && !state.active && !state.stop {
                        drop(state);
                        self.trees.flush_larger(FLUSHED_AT_REST_MIN);
                        state = self.progress.state.lock();
                    }
                } else if self.progress.wake.wait_for(&mut state, LOOK_FOR_ROOM_EVERY).timed_out() {
                    break;
                }
            }
            // One look sees all commits of a while. They stay marked until it begins, so that none of them wakes this thread.
            while !state.stop && !self.progress.wake.wait_for(&mut state, LOOK_EVERY).timed_out() {}
            state.active = false;
            is_resting = false;
            let stop = state.stop;
            drop(state);
            room = self.look_at_space();
            // A note that cannot be written is an older note, which is still true.
            let _noted = self.look();
            if stop {
                return;
            }
        }
    }

    fn look_at_space(&self) -> Room {
        self.space.look(merges::largest(self.trees.all()))
    }

    fn look(&mut self) -> Result<(), StoreError> {
        let unflushed = self.unflushed(Buffers::All);
        // A commit that waits for room has no news.
        let Some(mut writer) = self.progress.writer.try_lock_for(LOOK_EVERY) else {
            return Ok(());
        };
        let durable = self.progress.durable.load(Ordering::Relaxed);
        let numbers = journal::numbers(&self.engine)?;
        if let Some(claims) = &mut *writer {
            claims.saw(numbers.last().copied().unwrap_or(0), durable);
        }
        drop(writer);
        if numbers == self.numbers {
            self.unflushed = unflushed;
        } else {
            self.note(&numbers)?;
            self.numbers = numbers;
        }
        self.durable = durable;
        Ok(())
    }

    /// Journals were begun or removed since the last look.
    fn note(&mut self, numbers: &[u64]) -> Result<(), StoreError> {
        // A note must not survive a loss of power that takes the journal's name.
        sync_names(&self.engine).map_err(|e| StoreError::file("sync folder", &self.engine, e))?;
        let was_newest = self.numbers.last().copied();
        let (floor, unflushed) = (self.durable, std::mem::take(&mut self.unflushed));
        self.manifest.change(|manifest| {
            if let Some(note) = was_newest.and_then(|number| manifest.journals.get_mut(&number)) {
                note.unflushed = unflushed;
            }
            // A journal that is gone was flushed; so its note has done its work.
            manifest.journals.retain(|number, _| numbers.contains(number));
            for number in numbers {
                // Batches of a new journal come behind all that was durable before it was seen.
                let note = JournalNote { floor, unflushed: Vec::new() };
                manifest.journals.entry(*number).or_insert(note);
            }
        })
    }

    /// Trees with writes that are in these buffers and in no sorted file, with the version of their
    /// list from before.
    fn unflushed(&self, buffers: Buffers) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        for keyspace in self.trees.all() {
            // Of memory, not of the disk: there the list that names a flushed buffer is before the buffer is let go of.
            let version = keyspace.tree.current_version().id();
            let closed = keyspace.tree.sealed_memtable_count() > 0;
            let open = !keyspace.tree.active_memtable().is_empty();
            let has_some = match buffers {
                Buffers::Open => open,
                Buffers::Closed => closed,
                Buffers::All => open || closed,
            };
            if has_some {
                found.push((keyspace.id(), version));
            }
        }
        found
    }
}

#[derive(Clone, Copy)]
enum Buffers {
    Open,
    Closed,
    All,
}
