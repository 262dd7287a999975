//! A physical partition: a range of effective keys with one log and one index.
//!
//! The *sequencer* is the only order there is: under its short lock a write gets its LSN, its keys
//! are completed and its batch is queued, in one step. So the committer's queue holds each
//! partition's batches in LSN order, and LSN order, commit order and visible order are one.
//!
//! The index belongs to the committer's thread. A view that it publishes says which definition its
//! index was built for; that changes only while the sequencer is held, so a writer that holds it
//! knows which terms the index wants.

use crate::core::Root;
use crate::generation::IndexDefinition;
use crate::limits::INDEX_MEMORY_AT_REST_MAX;
use crate::ordinals::Marks;
use crate::ranges::{self, Range};
use crate::ranked::{Rank, RankedGuard, RankedLock};
use crate::txn::IndexChange;
use arc_swap::ArcSwap;
use armilla_index::{Change, Index, Job, JobResult, Part, Version, View};
use armilla_model::lsn::Lsn;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A merge of a container's partitions.
#[derive(Debug)]
pub struct PartitionMerge {
    /// How many there were.
    pub from: usize,
    /// How many the throughput asks for; the data may need more.
    pub wanted: usize,
    end: OnceLock<Result<usize, String>>,
}

impl PartitionMerge {
    pub(crate) fn new(from: usize, wanted: usize) -> Self {
        Self { from, wanted, end: OnceLock::new() }
    }

    /// How many were left, or why it stopped; nothing while it is under way.
    pub fn end(&self) -> Option<&Result<usize, String>> {
        self.end.get()
    }

    /// Says how it ended. Only the first word counts.
    pub(crate) fn finish(&self, end: Result<usize, String>) {
        let _later = self.end.set(end);
    }
}

/// A physical partition.
pub struct Partition {
    /// Its bounds and id.
    pub range: Range,
    /// From which series new items get their ordinals.
    pub(crate) series: u16,
    sequencer: RankedLock<Sequencer>,
    visible: AtomicU64,
    // Where its log stood when it was made or opened.
    begun: Lsn,
    documents: AtomicI64,
    bytes: AtomicI64,
    /// Removals up to here are forgotten in `gone`.
    pub(crate) trimmed: AtomicU64,
    // Only the committer's thread (and the opening and closing of the account) takes this lock for
    // longer than a number is read.
    serving: RankedLock<Serving>,
    view: ArcSwap<PublishedView>,
    // Up to where it had come when the janitor looked last, and when its index became files last.
    looked_at: AtomicU64,
    filed_at: AtomicU64,
    // What its index has in memory is to become files.
    flush_wanted: AtomicBool,
    // The size at which it was found to be one logical partition.
    unsplittable: AtomicU64,
    // A split of it was announced.
    splitting: AtomicBool,
    merging: AtomicBool,
    // What readers saw when the partition was split or merged.
    last_root: OnceLock<Arc<Root>>,
    // Where stored data was first found to be damaged.
    damage: OnceLock<String>,
}

/// The index that serves, as its writer sees it.
struct Serving {
    index: Index,
    definition: Arc<IndexDefinition>,
    /// Counts switches, so that results of jobs for an index of before are thrown away.
    build: u64,
}

/// The index as of one group of commits.
pub struct PublishedView {
    /// Number of the group; a reader's root must be at least as new.
    pub group: u64,
    /// The index.
    pub view: Arc<View>,
    /// What the index was built for.
    pub definition: Arc<IndexDefinition>,
    /// Whether some documents of some part have no value at a path, once that was asked.
    bare: OnceLock<(u32, bool)>,
}

impl PublishedView {
    fn new(group: u64, view: Arc<View>, definition: Arc<IndexDefinition>) -> Self {
        Self { group, view, definition, bare: OnceLock::new() }
    }

    /// True when some documents of some part have no value at this path. It is mostly asked for one path, and kept for that.
    pub(crate) fn is_any_bare(&self, path: u32) -> bool {
        let lacks =
            |part: &Part| part.path(path).is_none_or(|index| index.documents_with() < part.len());
        let find = || (path, self.view.parts().iter().any(lacks));
        match *self.bare.get_or_init(find) {
            (known, is_bare) if known == path => is_bare,
            _ => find().1,
        }
    }
}

/// What the next write of a partition gets.
#[derive(Debug)]
pub struct Sequencer {
    /// LSN of the last queued transaction.
    pub last: Lsn,
    /// Its commit second, which never goes back.
    pub second: u32,
    /// The ordinals that this partition's batches have reserved.
    pub(crate) reserved: Marks,
    /// The partition was split or merged: nothing is written to it any more.
    pub closed: bool,
}

impl Sequencer {
    /// A log that goes on after a transaction.
    pub fn at(last: Lsn) -> Self {
        Self { last, second: 0, reserved: Marks::default(), closed: false }
    }

    /// Goes on to the transaction that is about to be queued.
    pub(crate) fn advance(&mut self, lsn: Lsn, second: u32) {
        assert!(!self.closed, "a partition that was split or merged is written to");
        assert!(lsn > self.last, "LSN {} follows {}", lsn.0, self.last.0);
        assert!(second >= self.second, "the second of a commit goes back");
        (self.last, self.second) = (lsn, second);
    }
}

/// A job for the index of a partition.
pub(crate) struct Assignment {
    pub(crate) partition: Arc<Partition>,
    build: u64,
    pub(crate) job: Job,
}

/// What became of an assignment.
pub(crate) struct Done {
    pub(crate) partition: Arc<Partition>,
    build: u64,
    result: JobResult,
}

impl Assignment {
    /// Does the work.
    pub(crate) fn run(self) -> Done {
        Done { partition: self.partition, build: self.build, result: self.job.run() }
    }
}

impl Partition {
    /// A partition whose log goes on as the sequencer says, with an index that holds everything up
    /// to there.
    pub fn new(
        range: Range,
        sequencer: Sequencer,
        mut index: Index,
        definition: Arc<IndexDefinition>,
    ) -> Self {
        let head = sequencer.last;
        let hashing = definition.policy.partition_key.hashing;
        let series = ranges::series(hashing, &range.min).max(sequencer.reserved.series_max());
        index.advance(head.0);
        let view = index.publish();
        let count = |number: u64| AtomicI64::new(i64::try_from(number).unwrap_or(i64::MAX));
        Self {
            range,
            series,
            sequencer: RankedLock::new(Rank::Sequencer, sequencer),
            visible: AtomicU64::new(head.0),
            begun: head,
            documents: count(view.live_count()),
            bytes: count(view.live_bytes()),
            trimmed: AtomicU64::new(0),
            view: ArcSwap::from_pointee(PublishedView::new(0, view, definition.clone())),
            serving: RankedLock::new(Rank::Index, Serving { index, definition, build: 0 }),
            looked_at: AtomicU64::new(0),
            filed_at: AtomicU64::new(0),
            flush_wanted: AtomicBool::new(false),
            unsplittable: AtomicU64::new(0),
            splitting: AtomicBool::new(false),
            merging: AtomicBool::new(false),
            last_root: OnceLock::new(),
            damage: OnceLock::new(),
        }
    }

    /// Takes changes of one transaction into the index; the next published view shows them.
    pub fn apply(&self, changes: Vec<IndexChange>, lsn: Lsn) {
        debug_assert!(lsn > self.lsn(), "transaction {} is applied after it was visible", lsn.0);
        let index = &mut self.serving.lock().index;
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

    /// Publishes what was applied, and hands out a job if one is wanted and there is one to do.
    pub(crate) fn publish_view(
        self: &Arc<Self>,
        group: u64,
        job_wanted: bool,
    ) -> Option<Assignment> {
        let mut serving = self.serving.lock();
        let (view, definition) = (serving.index.publish(), serving.definition.clone());
        assert!(group >= self.view.load().group, "the view of an older group is published");
        self.view.store(Arc::new(PublishedView::new(group, view, definition)));
        let index = &mut serving.index;
        let flush = |index: &mut Index| {
            let is_wanted = self.flush_wanted.load(Ordering::Relaxed);
            let job = if is_wanted { index.take_flush_job() } else { None };
            self.flush_wanted.fetch_and(job.is_none(), Ordering::Relaxed);
            job
        };
        let job = if job_wanted { index.take_job().or_else(|| flush(index)) } else { None }?;
        Some(Assignment { partition: self.clone(), build: serving.build, job })
    }

    /// Whether its index is to give memory back: nothing was written since the last look, and much of it is in no file. Asked once for
    /// each state.
    pub(crate) fn holds_much_at_rest(&self) -> bool {
        let lsn = self.visible.load(Ordering::Relaxed);
        let is_resting = self.looked_at.swap(lsn, Ordering::Relaxed) == lsn;
        is_resting
            && self.filed_at.load(Ordering::Relaxed) != lsn
            && self.serving.lock().index.bytes_without_file() > INDEX_MEMORY_AT_REST_MAX
            && self.filed_at.swap(lsn, Ordering::Relaxed) != lsn
    }

    /// Asks for files in place of what its index has in memory, made behind the next publication; false where no index serves any more.
    pub(crate) fn flush_index(&self) -> bool {
        self.flush_wanted.store(true, Ordering::Relaxed);
        self.last_root.get().is_none()
    }

    /// Puts the result of a job in place, unless another index serves meanwhile. Says whether there is
    /// something new to publish; a failed job comes again with the next write.
    pub(crate) fn install(done: Done) -> bool {
        // Of a partition that was split or merged meanwhile even the files are gone.
        if done.partition.last_root.get().is_some() {
            return false;
        }
        let mut serving = done.partition.serving.lock();
        if done.build != serving.build {
            return false;
        }
        match serving.index.install(done.result) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(%error, "an index job failed and will be tried again");
                false
            }
        }
    }

    /// Puts another index in the place of the serving one. On the committer's thread, with the
    /// sequencer held: the index holds everything that was ever queued.
    pub(crate) fn serve(&self, index: Index, definition: Arc<IndexDefinition>) {
        let mut serving = self.serving.lock();
        let build = serving.build + 1;
        *serving = Serving { index, definition, build };
    }

    /// Makes the index durable: for a clean stop, when nobody writes any more.
    pub(crate) fn checkpoint(&self) -> armilla_index::Result<()> {
        let index = &mut self.serving.lock().index;
        if index.unsaved_changes() > 0 { index.checkpoint() } else { Ok(()) }
    }

    /// Everything up to this transaction survives a crash inside the index.
    pub(crate) fn covered(&self) -> Lsn {
        Lsn(self.serving.lock().index.covered_lsn())
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

    /// Says whether the partition is about to be split.
    pub(crate) fn announce_split(&self, splitting: bool) {
        self.splitting.store(splitting, Ordering::Relaxed);
    }

    /// Says whether the partition is being merged with a neighbour.
    pub(crate) fn announce_merge(&self, merging: bool) {
        self.merging.store(merging, Ordering::Relaxed);
    }

    /// True while the index of the partition that takes over from this one and a neighbour is built.
    pub fn is_merging(&self) -> bool {
        self.merging.load(Ordering::Relaxed)
    }

    /// True from the moment a split is planned until the children take over.
    pub fn is_splitting(&self) -> bool {
        self.splitting.load(Ordering::Relaxed)
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

    /// Notes that stored data is damaged; true for the first time.
    pub(crate) fn note_damage(&self, place: String) -> bool {
        self.damage.set(place).is_ok()
    }

    /// Where stored data was found to be damaged.
    pub fn damage(&self) -> Option<&str> {
        self.damage.get().map(String::as_str)
    }

    /// The index as of the last group.
    pub fn view(&self) -> Arc<PublishedView> {
        self.view.load_full()
    }

    /// Takes the sequencer; hold it only to number and queue one batch.
    pub(crate) fn sequence(&self) -> RankedGuard<'_, Sequencer> {
        self.sequencer.lock()
    }

    /// The last transaction that readers see.
    pub fn lsn(&self) -> Lsn {
        Lsn(self.visible.load(Ordering::Acquire))
    }

    /// True when it holds nothing and nobody has written to it since it was made or opened.
    pub fn is_untouched(&self) -> bool {
        self.lsn() == self.begun && self.document_count() == 0
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
