//! The owner's store: every commit is a row of the journal first, then a change of the local copy.
//!
//! ```text
//!   Committer ── group ──► LedgerStore::commit ── append ──► journal
//!                               │   accepted                    │ fold
//!                               └──────────► local copy         ▼
//!                                 (with its position)          base
//! ```
//!
//! Nothing is applied locally before it was accepted, so a crash between the two is the crash of a follower: the row is in the journal. Reads
//! never ask the ledger. The local copy is not synced commit by commit: after a loss of power it is an older prefix of the journal.
//!
//! When an answer does not come, the shard is taken again. That waits for whatever the database is still doing for the old connection
//! and fences it; the newest row then says whether the batch is in. A shard that somebody else has is [lost](OwnershipWatcher::lost): this
//! process may answer nothing more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{io, thread};

use armilla_model::clock::monotonic;
use parking_lot::Mutex;

use super::folding::Folding;
use super::position::Position;
use super::{Entry, Epoch, Ledger, LedgerError, Place, ShardAt, Verdict, encode_batch};
use crate::{Batch, Durability, Pressure, Room, Snapshot, Store, StoreError, StoreStats};

/// How long the lane waits before it asks an unreachable ledger again; doubled each time, up to [`RETRY_PAUSE_MAX`].
const RETRY_PAUSE: Duration = Duration::from_millis(1);
/// The longest pause.
const RETRY_PAUSE_MAX: Duration = Duration::from_millis(200);
/// No transaction is longer in the journal: with the group it is committed in, a statement has five seconds for it.
const TRANSACTION_BYTES_MAX: usize = 64 << 20;
/// Nor longer before it is compressed: followers hold it in their memory whole.
const TRANSACTION_RAW_BYTES_MAX: usize = 512 << 20;

/// Who hears what becomes of an ownership.
pub trait OwnershipWatcher: Send + Sync {
    /// This node does not own the account any more, or cannot know: it must answer nothing from now on. The process should end here; if
    /// this returns, the commit fails.
    fn lost(&self, reason: &str);

    /// The ledger does not answer; writes wait. Told once, until [`OwnershipWatcher::recovered`].
    fn failing(&self, error: &LedgerError);

    /// The ledger answers again.
    fn recovered(&self);

    /// The local copy has everything up to here.
    fn reached(&self, place: Place);

    /// Whether this node ends: what waits for the ledger while it takes a journal over is given up.
    fn is_ending(&self) -> bool {
        false
    }

    /// The ledger has taken a row, after so long.
    fn appended(&self, took: Duration) {
        let _ = took;
    }
}

/// What an owner starts with.
pub(super) struct Owned {
    pub(super) at: ShardAt,
    pub(super) epoch: Epoch,
    pub(super) position: Position,
    pub(super) folded: Place,
    /// Rows above `folded`.
    pub(super) unfolded: Vec<(Place, Batch)>,
    pub(super) retention: Duration,
}

/// The store of a node that owns the account.
pub struct LedgerStore {
    /// The journal that is owned.
    at: ShardAt,
    local: Arc<dyn Store>,
    ledger: Arc<dyn Ledger>,
    lane: Mutex<Lane>,
    folding: Folding,
    watcher: Arc<dyn OwnershipWatcher>,
    failing: AtomicBool,
    /// Nobody waits for the ledger any more.
    ending: AtomicBool,
}

/// Where the next row goes.
struct Lane {
    epoch: Epoch,
    position: Position,
    /// Before the ledger is asked again.
    pause: Duration,
    closed: bool,
}

impl LedgerStore {
    pub(super) fn new(
        local: Arc<dyn Store>,
        ledger: Arc<dyn Ledger>,
        watcher: Arc<dyn OwnershipWatcher>,
        owned: Owned,
    ) -> Self {
        let Owned { at, epoch, position, folded, unfolded, retention } = owned;
        let folding = Folding::start(Arc::clone(&ledger), (at, epoch), folded, retention);
        for (place, batch) in &unfolded {
            folding.add(*place, batch);
        }
        Self {
            at,
            local,
            ledger,
            lane: Mutex::new(Lane { epoch, position, pause: RETRY_PAUSE, closed: false }),
            folding,
            watcher,
            failing: AtomicBool::new(false),
            ending: AtomicBool::new(false),
        }
    }

    /// Makes an entry a row of the journal; returns when it is one.
    fn append(&self, lane: &mut Lane, mut entry: Entry) -> Result<(), StoreError> {
        let next = Position { place: entry.place, chain: entry.chain };
        let mut is_last = false;
        loop {
            match self.send(&entry) {
                Ok(Verdict::Accepted) => return Ok(()),
                Ok(Verdict::Refused) => {}
                Err(error) => self.note_failure(&error),
            }
            if self.settle(lane, next)? {
                return Ok(());
            }
            // Once more: what failed may have been the connection.
            let is_ending = self.ending.load(Ordering::Relaxed);
            if is_ending && is_last {
                return Err(self.lose(
                    "the ledger did not take a write while the node stopped; it is not done",
                ));
            }
            is_last = is_ending;
            Self::pause(lane);
            entry.epoch = lane.epoch;
        }
    }

    fn send(&self, entry: &Entry) -> Result<Verdict, LedgerError> {
        let verdicts = self.ledger.append(std::slice::from_ref(entry))?;
        let unanswered = || LedgerError::Damage("an append without an answer".into());
        verdicts.first().copied().ok_or_else(unanswered)
    }

    /// Takes the journal again and looks whether the row is in it.
    fn settle(&self, lane: &mut Lane, next: Position) -> Result<bool, StoreError> {
        loop {
            match self.ledger.take(self.at, lane.epoch) {
                Ok(Some(taken)) => {
                    lane.epoch = taken.epoch;
                    self.folding.set_epoch(taken.epoch);
                    let tip = Position { place: taken.place, chain: taken.chain };
                    if tip == next || tip == lane.position {
                        return Ok(tip == next);
                    }
                    return Err(self.lose(&format!(
                        "the ledger ends at place {} and this owner has written up to {}: the database has lost \
                         acknowledged writes, or others wrote to it",
                        tip.place, lane.position.place
                    )));
                }
                Ok(None) => self.learn_epoch(lane)?,
                Err(error) => self.wait(lane, &error)?,
            }
        }
    }

    /// A take that found nothing: one of before may have happened without an answer, or somebody else has the account.
    fn learn_epoch(&self, lane: &mut Lane) -> Result<(), StoreError> {
        let shards = match self.ledger.shards() {
            Ok(shards) => shards,
            Err(error) => return self.wait(lane, &error),
        };
        let row = shards.into_iter().find(|row| row.at == self.at);
        let me = self.ledger.me();
        match row {
            Some(row) if row.owner.is_some() && row.owner == me && row.epoch > lane.epoch => {
                lane.epoch = row.epoch;
                Ok(())
            }
            _ => Err(self.lose("another node owns the account now")),
        }
    }

    /// Waits a moment before the ledger is asked again.
    fn wait(&self, lane: &mut Lane, error: &LedgerError) -> Result<(), StoreError> {
        self.note_failure(error);
        if self.ending.load(Ordering::Relaxed) {
            return Err(self.lose("the ledger could not be reached while the node stopped; writes that were not answered may be done or not"));
        }
        Self::pause(lane);
        Ok(())
    }

    fn pause(lane: &mut Lane) {
        thread::sleep(lane.pause);
        lane.pause = (lane.pause * 2).min(RETRY_PAUSE_MAX);
    }

    fn note_failure(&self, error: &LedgerError) {
        if !self.failing.swap(true, Ordering::Relaxed) {
            self.watcher.failing(error);
        }
    }

    fn lose(&self, reason: &str) -> StoreError {
        self.watcher.lost(reason);
        StoreError::io("append to the ledger", io::Error::other(reason.to_owned()))
    }
}

impl Store for LedgerStore {
    fn snapshot(&self) -> Arc<dyn Snapshot> {
        self.local.snapshot()
    }

    fn commit(&self, mut batch: Batch, _durability: Durability) -> Result<(), StoreError> {
        let mut lane = self.lane.lock();
        if lane.closed {
            let reason = io::Error::other("the node has given the account up");
            return Err(StoreError::io("append to the ledger", reason));
        }
        self.folding.wait_for_room();
        let bytes = encode_batch(&batch);
        let next = lane.position.with(&bytes);
        let Position { place, chain } = next;
        let entry =
            Entry { at: self.at, epoch: lane.epoch, place, lsn: place.0, chain, batch: bytes };
        let begun = monotonic();
        self.append(&mut lane, entry)?;
        self.watcher.appended(begun.elapsed());
        if self.failing.swap(false, Ordering::Relaxed) {
            self.watcher.recovered();
        }
        lane.pause = RETRY_PAUSE;
        lane.position = next;
        self.folding.add(place, &batch);
        next.note(&mut batch);
        self.local.commit(batch, Durability::Relaxed)?;
        self.watcher.reached(place);
        Ok(())
    }

    /// Gives the account up at once: what is not folded stays in the journal, from which the next owner has it.
    fn give_up(&self) {
        self.end_waits();
        let mut lane = self.lane.lock();
        if !lane.closed {
            lane.closed = true;
            self.folding.abandon();
            // Without an answer the node is evicted after its lease, and the next owner takes the journal as it is.
            let _released = self.ledger.release(self.at, lane.epoch);
        }
    }

    /// Folds what is left, gives the account up, and closes the local copy.
    fn close(&self) -> Result<(), StoreError> {
        self.end_waits();
        let mut lane = self.lane.lock();
        if !lane.closed {
            lane.closed = true;
            self.folding.end();
            // Without an answer the node is evicted after its lease, and the next owner takes the journal as it is.
            let _released = self.ledger.release(self.at, lane.epoch);
        }
        drop(lane);
        self.folding.end();
        self.local.close()
    }

    fn stats(&self) -> StoreStats {
        self.local.stats()
    }

    fn pressure(&self) -> Pressure {
        if self.failing.load(Ordering::Relaxed) {
            return Pressure::Stalled;
        }
        let local = self.local.pressure();
        if self.folding.is_behind() { local.max(Pressure::High) } else { local }
    }

    fn is_remote(&self) -> bool {
        true
    }

    /// A statement that never ends in time would be tried for ever, and everything behind it would wait.
    fn takes(&self, batch: &Batch) -> bool {
        let raw = batch.bytes();
        raw <= TRANSACTION_BYTES_MAX
            || (raw <= TRANSACTION_RAW_BYTES_MAX
                && encode_batch(batch).len() <= TRANSACTION_BYTES_MAX)
    }

    fn room(&self) -> Room {
        self.local.room()
    }

    fn end_waits(&self) {
        self.ending.store(true, Ordering::Relaxed);
        self.folding.end_waits();
        self.local.end_waits();
    }
}
