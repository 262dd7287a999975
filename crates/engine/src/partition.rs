//! A physical partition: a range of effective keys with one log and one index.
//!
//! The *sequencer* is the only order there is: under its short lock a write gets its LSN, its keys
//! are completed and its batch is queued, in one step. So the committer's queue holds each
//! partition's batches in LSN order, and LSN order, commit order and visible order are one.

use crate::core::Root;
use crate::ranges::Range;
use crate::txn::IndexChange;
use arc_swap::ArcSwap;
use armilla_index::{Change, Index, Job, JobResult, Limits, Version, View};
use armilla_model::lsn::Lsn;
use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Ordinals are reserved in `meta` in blocks of this many.
pub const DOCNO_BLOCK: u64 = 4096;

/// Items taken into the index at a time while the account opens.
const LOAD_PIECE: u64 = 1024;

/// A physical partition.
pub struct Partition {
    /// Its bounds and id.
    pub range: Range,
    sequencer: Mutex<Sequencer>,
    visible: AtomicU64,
    documents: AtomicI64,
    bytes: AtomicI64,
    loaded: AtomicU64,
    // Counts how often the index was built, so that results for an old one are thrown away.
    build: AtomicU64,
    // Generation of the settings that the published view was built for.
    indexed: AtomicU64,
    // Only the committer's thread (and the opening of the account) takes this lock.
    index: Mutex<Index>,
    view: ArcSwap<PublishedView>,
    // The size at which it was found to be one logical partition.
    unsplittable: AtomicU64,
    // What readers saw when the partition was split or merged.
    last_root: OnceLock<Arc<Root>>,
}

/// The index as of one group of commits.
pub struct PublishedView {
    /// Number of the group; a reader's root must be at least as new.
    pub group: u64,
    /// The index.
    pub view: Arc<View>,
}

/// What the next write of a partition gets.
#[derive(Debug)]
pub struct Sequencer {
    /// LSN of the last queued transaction.
    pub last: Lsn,
    /// Its commit second, which never goes back.
    pub second: u32,
    /// First ordinal that is not yet reserved by this partition's batches.
    pub docno_reserved: u64,
    /// The partition was split or merged: nothing is written to it any more.
    pub closed: bool,
}

impl Partition {
    /// A partition whose log ends at this position.
    pub fn new(range: Range, head: Lsn, second: u32, docno_reserved: u64) -> Self {
        Self {
            range,
            sequencer: Mutex::new(Sequencer { last: head, second, docno_reserved, closed: false }),
            visible: AtomicU64::new(head.0),
            documents: AtomicI64::new(0),
            bytes: AtomicI64::new(0),
            loaded: AtomicU64::new(0),
            build: AtomicU64::new(0),
            indexed: AtomicU64::new(u64::MAX),
            view: ArcSwap::from_pointee(PublishedView {
                group: 0,
                view: Index::in_memory(Limits::default()).publish(),
            }),
            index: Mutex::new(Index::in_memory(Limits::default())),
            unsplittable: AtomicU64::new(0),
            last_root: OnceLock::new(),
        }
    }

    /// Takes changes of one transaction into the index; the next published view shows them.
    pub fn apply(&self, changes: Vec<IndexChange>, lsn: Lsn) {
        let mut index = self.index.lock();
        for IndexChange { removed, added, epk } in changes {
            let version = removed.map(|(docno, lsn)| Version {
                epk: epk.as_bytes().to_vec(),
                docno,
                lsn: Some(lsn.0),
            });
            match (added, version) {
                (Some((document, terms)), replaces) => {
                    index.apply(Change::Upsert { document, terms, replaces });
                }
                (None, Some(version)) => {
                    index.apply(Change::Delete { lsn: lsn.0, version });
                }
                (None, None) => {}
            }
        }
        index.advance(lsn.0);
    }

    /// Takes a stored item into the index while the account opens. Pieces are published as they
    /// fill, so that opening a large container does not hold all of its terms at once.
    pub fn load(&self, document: armilla_index::Document, terms: armilla_index::Terms) {
        let mut index = self.index.lock();
        index.apply(Change::Upsert { document, terms, replaces: None });
        let loaded = self.loaded.fetch_add(1, Ordering::Relaxed) + 1;
        if loaded.is_multiple_of(LOAD_PIECE) {
            index.publish();
            if let Err(error) = index.run_jobs() {
                tracing::warn!(%error, "an index job failed and will be tried again");
            }
        }
    }

    /// Empties the index that is being built; the published view stays until the next one.
    pub(crate) fn reset_index(&self) {
        let mut index = self.index.lock();
        *index = Index::in_memory(Limits::default());
        self.build.fetch_add(1, Ordering::Relaxed);
        self.loaded.store(0, Ordering::Relaxed);
        self.documents.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
    }

    /// Publishes what was applied, and hands out a job if the index has one to do.
    pub fn publish_view(&self, group: u64) -> Option<(u64, Job)> {
        let mut index = self.index.lock();
        self.view.store(Arc::new(PublishedView { group, view: index.publish() }));
        let build = self.build.load(Ordering::Relaxed);
        index.take_job().map(|job| (build, job))
    }

    /// Puts the result of a job in place, unless the index was built anew meanwhile. A failed job
    /// comes again by itself.
    pub fn install(&self, build: u64, result: JobResult) {
        let mut index = self.index.lock();
        if build != self.build.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = index.install(result) {
            tracing::warn!(%error, "an index job failed and will be tried again");
        }
    }

    /// Finishes all jobs at once: while the account opens nobody waits for the index yet.
    pub fn settle(&self) {
        let mut index = self.index.lock();
        if let Err(error) = index.run_jobs() {
            tracing::warn!(%error, "an index job failed and will be tried again");
        }
        index.advance(self.lsn().0);
        let group = self.view.load().group;
        self.view.store(Arc::new(PublishedView { group, view: index.publish() }));
    }

    /// Says which settings the index was built for; `u64::MAX` while it is being built.
    pub(crate) fn set_indexed(&self, generation: u64) {
        self.indexed.store(generation, Ordering::SeqCst);
    }

    /// True when the published view belongs to these settings. A reader that asks before and after
    /// it takes a view knows it of that view.
    pub(crate) fn is_indexed_for(&self, generation: u64) -> bool {
        self.indexed.load(Ordering::SeqCst) == generation
    }

    /// Remembers that the data cannot be cut: it is one logical partition.
    pub(crate) fn set_unsplittable(&self) {
        self.unsplittable.store(self.size(), Ordering::Relaxed);
    }

    /// False until a partition that could not be cut has grown by a tenth.
    pub(crate) fn may_be_split(&self) -> bool {
        let size = self.unsplittable.load(Ordering::Relaxed);
        size == 0 || self.size() > size + size / 10
    }

    /// Ends the partition: its children go on from this root. Readers that still have it see this
    /// moment. Called with the sequencer held and closed, before any child is written to.
    pub(crate) fn retire(&self, root: Arc<Root>) {
        let _first = self.last_root.set(root);
    }

    /// What readers see of a partition that was split or merged.
    pub(crate) fn last_root(&self) -> Option<&Arc<Root>> {
        self.last_root.get()
    }

    /// The index as of the last group.
    pub fn view(&self) -> Arc<PublishedView> {
        self.view.load_full()
    }

    /// Takes the sequencer; hold it only to number and queue one batch.
    pub fn sequence(&self) -> MutexGuard<'_, Sequencer> {
        self.sequencer.lock()
    }

    /// The last transaction that readers see.
    pub fn lsn(&self) -> Lsn {
        Lsn(self.visible.load(Ordering::Acquire))
    }

    /// Makes a transaction the last visible one.
    pub fn set_visible(&self, lsn: Lsn) {
        self.visible.fetch_max(lsn.0, Ordering::AcqRel);
    }

    /// Counts items that came (or went) with their bytes.
    pub fn count(&self, documents: i64, bytes: i64) {
        self.documents.fetch_add(documents, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Items in this partition.
    pub fn document_count(&self) -> u64 {
        self.documents.load(Ordering::Relaxed).max(0) as u64
    }

    /// Bytes of their texts.
    pub fn size(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed).max(0) as u64
    }
}
