//! A node's local copy of the account: made from base and journal, then kept up by following the journal.
//!
//! Batches hold final states of keys. So a base that is read page by page while its owner folds, plus every row of the journal since before
//! the first page, is exactly the state at the last row. The position of the copy is noted in the batch that brings it there; while a copy is
//! being made it has none, so one that was interrupted begins anew.

use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::time::Duration;
use std::{fmt, thread};

use super::owned::{LedgerStore, Owned, OwnershipWatcher};
use super::position::{ACCOUNT, Position};
use super::{
    Epoch, JournalRow, Ledger, LedgerError, Place, ShardAt, ShardRow, Taken, decode_batch,
};
use crate::{Batch, Direction, Durability, KeyRange, Keyspace, Store, StoreError};

/// Rows of one page of the base.
const PAGE_ROWS: usize = 5000;
/// Pages of the base that wait to be applied.
const PAGES_AHEAD: usize = 1;
/// Bytes of the journal in one answer.
const JOURNAL_BYTES: usize = 4 << 20;
/// An answer with fewer rows and bytes has reached the end of the journal.
const SHORT_ROWS: usize = 1000;
/// A batch of the copy is committed when it has so many bytes.
const BATCH_BYTES: usize = 4 << 20;
/// So much of a copy may wait for the disk. Syncing while pages come is quicker than syncing all at the end.
const SYNC_BYTES: usize = 16 << 20;
/// How long a new owner waits before it asks an unreachable ledger again.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Why a copy cannot go on.
#[derive(Debug)]
pub enum ReplicaError {
    /// The ledger failed; the copy is as it was, or not complete, and can be asked to go on.
    Ledger(LedgerError),
    /// The local store failed.
    Store(StoreError),
    /// The copy knows rows that the ledger does not have.
    Ahead {
        /// What the copy has applied.
        copy: Place,
        /// Where the journal ends, or differs.
        ledger: Place,
    },
}

impl fmt::Display for ReplicaError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ledger(error) => error.fmt(formatter),
            Self::Store(error) => error.fmt(formatter),
            Self::Ahead { copy, ledger } => write!(
                formatter,
                "this node's copy has the journal up to place {copy}, the ledger continues differently from place {ledger}: the \
                 database has lost acknowledged writes (a failover to a replica that was behind, or a restored backup?). Bring \
                 the lost rows back, or accept the loss: armilla cluster accept-loss"
            ),
        }
    }
}

impl std::error::Error for ReplicaError {}

impl From<LedgerError> for ReplicaError {
    fn from(error: LedgerError) -> Self {
        Self::Ledger(error)
    }
}

impl From<StoreError> for ReplicaError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// A copy that follows.
pub struct Replica {
    at: ShardAt,
    store: Arc<dyn Store>,
    ledger: Arc<dyn Ledger>,
    position: Option<Position>,
}

/// What a step has brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Followed {
    /// The copy had reached the newest row when it asked.
    UpToDate,
    /// There is more to apply.
    Behind,
    /// Rows were cut before the copy had them: it is made anew, and must be quicker than rows are cut.
    Outrun,
}

impl Replica {
    /// The copy in a local store, complete or not.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub fn new(store: Arc<dyn Store>, ledger: Arc<dyn Ledger>) -> Result<Self, StoreError> {
        Self::of_journal(ACCOUNT, store, ledger)
    }

    /// The copy of one journal of several in a local store of its own, complete or not.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub fn of_journal(
        at: ShardAt,
        store: Arc<dyn Store>,
        ledger: Arc<dyn Ledger>,
    ) -> Result<Self, StoreError> {
        let position = Position::read(&*store.snapshot())?;
        Ok(Self { at, store, ledger, position })
    }

    /// How far the copy has come; nothing while it is being made.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        self.position
    }

    /// Makes the copy, or applies the next rows of the journal.
    ///
    /// # Errors
    ///
    /// [`ReplicaError`]; after a failure of the ledger the next call goes on.
    pub fn follow(&mut self) -> Result<Followed, ReplicaError> {
        let Some(position) = self.position else {
            return Ok(if self.copy()? { Followed::Behind } else { Followed::Outrun });
        };
        let rows = self.ledger.journal(&[(self.at, position.place)], JOURNAL_BYTES)?;
        if rows.first().is_some_and(|row| row.place != position.place.next()) {
            self.position = None;
            return Ok(Followed::Outrun);
        }
        let is_short = is_short(&rows);
        self.position = Some(self.apply(position, &rows, Noted::EachBatch)?);
        Ok(if is_short { Followed::UpToDate } else { Followed::Behind })
    }

    /// Takes the account, if nobody has it whose epoch is not `seen`, and brings the copy to the newest row.
    ///
    /// # Errors
    ///
    /// [`ReplicaError`] and the copy itself, when the account was not taken or the copy is not what it must be.
    pub fn take(
        mut self,
        seen: Epoch,
        retention: Duration,
        watcher: Arc<dyn OwnershipWatcher>,
    ) -> Result<LedgerStore, (Self, Option<ReplicaError>)> {
        let taken = match self.ledger.take(self.at, seen) {
            Ok(Some(taken)) => taken,
            Ok(None) => return Err((self, None)),
            Err(error) => return Err((self, Some(error.into()))),
        };
        let reached = self.reach(taken, &*watcher);
        let unfolded = match reached.and_then(|()| self.unfolded(taken)) {
            Ok(unfolded) => unfolded,
            Err(error) => return Err((self, Some(error))),
        };
        let position = Position { place: taken.place, chain: taken.chain };
        let owned = Owned {
            at: self.at,
            epoch: taken.epoch,
            position,
            folded: taken.folded,
            unfolded,
            retention,
        };
        Ok(LedgerStore::new(self.store, self.ledger, watcher, owned))
    }

    /// Follows to the newest row. Nobody adds one meanwhile.
    fn reach(&mut self, taken: Taken, watcher: &dyn OwnershipWatcher) -> Result<(), ReplicaError> {
        let tip = Position { place: taken.place, chain: taken.chain };
        loop {
            if let Some(position) = self.position
                && position.place >= tip.place
            {
                if position == tip {
                    return Ok(());
                }
                return Err(ReplicaError::Ahead { copy: position.place, ledger: tip.place });
            }
            if watcher.is_ending() {
                return Err(LedgerError::Unreachable("the node stops".into()).into());
            }
            let before = self.position;
            match self.follow() {
                Err(ReplicaError::Ledger(LedgerError::Unreachable(_))) => {
                    thread::sleep(RETRY_PAUSE);
                }
                Err(error) => return Err(error),
                Ok(_) if self.position != before => {}
                // Nothing was there that could be applied.
                Ok(_) => return Err(self.missing(taken, before.map_or(Place(0), |at| at.place))),
            }
        }
    }

    /// The rows that are not in the base yet. They are never cut.
    fn unfolded(&self, taken: Taken) -> Result<Vec<(Place, Batch)>, ReplicaError> {
        let mut unfolded = Vec::new();
        let mut place = taken.folded;
        while place < taken.place {
            let rows = self.ledger.journal(&[(self.at, place)], JOURNAL_BYTES)?;
            if rows.is_empty() {
                return Err(self.missing(taken, place));
            }
            for row in rows {
                if row.place != place.next() {
                    return Err(self.missing(taken, place));
                }
                place = row.place;
                unfolded.push((place, decode_batch(&row.batch)?));
            }
        }
        Ok(unfolded)
    }

    /// Why rows behind a place are not there while this node owns the journal. Whoever has taken it from this node may have folded and cut them.
    fn missing(&self, taken: Taken, place: Place) -> ReplicaError {
        match self.row() {
            Ok(row) if row.epoch == taken.epoch => {
                LedgerError::Damage(format!("the journal lacks place {}", place.next())).into()
            }
            Ok(_) => LedgerError::Unreachable("another node has taken the journal".into()).into(),
            Err(error) => error,
        }
    }

    /// Makes the copy from base and journal; false when rows that it needs were cut before it had them.
    fn copy(&mut self) -> Result<bool, ReplicaError> {
        self.clear()?;
        // Before the first page: what is folded meanwhile is in the journal above this place, too.
        let folded = self.row()?.folded;
        self.copy_base()?;
        let Some(mut position) = self.position_at(folded)? else { return Ok(false) };
        loop {
            let rows = self.ledger.journal(&[(self.at, position.place)], JOURNAL_BYTES)?;
            if rows.first().is_some_and(|row| row.place != position.place.next()) {
                return Ok(false);
            }
            position = self.apply(position, &rows, Noted::Never)?;
            if is_short(&rows) {
                let mut batch = Batch::new();
                position.note(&mut batch);
                self.store.commit(batch, Durability::Synced)?;
                self.position = Some(position);
                return Ok(true);
            }
        }
    }

    /// The journal as the ledger knows it.
    fn row(&self) -> Result<ShardRow, ReplicaError> {
        let row = self.ledger.shards()?.into_iter().find(|row| row.at == self.at);
        Ok(row.ok_or_else(|| LedgerError::Damage("it has no journal".into()))?)
    }

    /// The position at a place that is folded: its row is the oldest that is never cut, until a later one is folded. Nothing when it was cut all the
    /// same, because of that.
    fn position_at(&self, place: Place) -> Result<Option<Position>, ReplicaError> {
        let Some(before) = place.0.checked_sub(1) else { return Ok(Some(Position::START)) };
        let rows = self.ledger.journal(&[(self.at, Place(before))], 1)?;
        let row = rows.into_iter().next().filter(|row| row.place == place);
        Ok(row.map(|row| Position { place, chain: row.chain }))
    }

    /// Copies the base into the local store. The next page is read while the last one is applied.
    fn copy_base(&self) -> Result<(), ReplicaError> {
        let (send, pages) = mpsc::sync_channel(PAGES_AHEAD);
        thread::scope(|scope| {
            let reader = thread::Builder::new()
                .name("ledger copy".into())
                .spawn_scoped(scope, move || self.read_base(&send))
                .map_err(|error| StoreError::io("start a thread", error))?;
            let mut unsynced = 0;
            for batch in pages {
                unsynced += batch.bytes();
                let is_due = unsynced >= SYNC_BYTES;
                if is_due {
                    unsynced = 0;
                }
                let durability = if is_due { Durability::Synced } else { Durability::Relaxed };
                self.store.commit(batch, durability)?;
            }
            // The channel has ended, and with it the reader.
            Ok(reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?)
        })
    }

    /// Reads the base page by page, until its end or until nobody wants more.
    fn read_base(&self, pages: &SyncSender<Batch>) -> Result<(), LedgerError> {
        for keyspace in Keyspace::ALL {
            let mut range = KeyRange::all();
            loop {
                let page = self.ledger.base(self.at.home, keyspace, &range, PAGE_ROWS)?;
                let Some((last, _)) = page.last() else { break };
                range = KeyRange::all().starting_after(last.clone());
                let mut batch = Batch::with_capacity(page.len());
                for (key, value) in page {
                    batch.put(keyspace, key, value);
                }
                if pages.send(batch).is_err() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Empties the local store. The position goes first; a new store has none.
    fn clear(&self) -> Result<(), StoreError> {
        if self.is_empty()? {
            return Ok(());
        }
        let mut first = Batch::new();
        Position::forget(&mut first);
        self.store.commit(first, Durability::Synced)?;
        for keyspace in Keyspace::ALL {
            loop {
                let snapshot = self.store.snapshot();
                let page =
                    snapshot.page(keyspace, &KeyRange::all(), Direction::Forward, PAGE_ROWS)?;
                if page.is_empty() {
                    break;
                }
                let mut batch = Batch::with_capacity(page.len());
                page.into_iter().for_each(|(key, _)| batch.delete(keyspace, key));
                self.store.commit(batch, Durability::Relaxed)?;
            }
        }
        Ok(())
    }

    fn is_empty(&self) -> Result<bool, StoreError> {
        let snapshot = self.store.snapshot();
        for keyspace in Keyspace::ALL {
            if !snapshot.page(keyspace, &KeyRange::all(), Direction::Forward, 1)?.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Applies rows in order, each checked against the chain of all before it.
    fn apply(
        &self,
        mut position: Position,
        rows: &[JournalRow],
        noted: Noted,
    ) -> Result<Position, ReplicaError> {
        let mut batch = Batch::new();
        for row in rows {
            let next = position.with(&row.batch);
            if (row.place, row.chain) != (next.place, next.chain) {
                return Err(ReplicaError::Ahead { copy: position.place, ledger: row.place });
            }
            batch.append(decode_batch(&row.batch)?);
            position = next;
            if batch.bytes() >= BATCH_BYTES {
                self.commit(std::mem::take(&mut batch), position, noted)?;
            }
        }
        if !batch.is_empty() {
            self.commit(batch, position, noted)?;
        }
        Ok(position)
    }

    fn commit(&self, mut batch: Batch, position: Position, noted: Noted) -> Result<(), StoreError> {
        if noted == Noted::EachBatch {
            position.note(&mut batch);
        }
        self.store.commit(batch, Durability::Relaxed)
    }
}

/// Whether applied rows make the copy complete.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Noted {
    /// Each batch notes how far the copy is.
    EachBatch,
    /// The copy is not complete yet.
    Never,
}

fn is_short(rows: &[JournalRow]) -> bool {
    let bytes: usize = rows.iter().map(|row| row.batch.len()).sum();
    rows.len() < SHORT_ROWS && bytes < JOURNAL_BYTES / 2
}
