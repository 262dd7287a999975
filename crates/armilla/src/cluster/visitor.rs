//! A command that visits an account in a database: it copies the account into a temporary folder, and may own the account for a while.
//!
//! The copy is made as a node makes its own, from base and journal, with every checksum looked at. It disturbs nobody: nodes go on
//! serving, and the copy is exactly the account as it was at one place of the journal. A command that must write takes the account as a node
//! does, which only works while no node owns it.

use super::StoreOptions;
use super::record::AccountRecord;
use crate::offline::refusal;
use armilla_storage::ledger::{
    Beat, Epoch, Followed, LedgerError, LedgerStore, Member, NodeCard, NodeRow, OwnershipWatcher,
    Place, PostgresLedger, Replica, slice_journal,
};
use armilla_storage::{EmbeddedOptions, EmbeddedStore, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tempfile::TempDir;

/// How long rows stay for followers that a command has written. It ends before it would cut one.
const RETENTION: Duration = Duration::from_secs(600);

/// A copy of an account.
pub(super) struct Visitor {
    pub(super) ledger: Arc<PostgresLedger>,
    pub(super) record: AccountRecord,
    pub(super) store: Arc<dyn Store>,
    replica: Replica,
    folder: TempDir,
}

impl Visitor {
    /// Copies the account as it is now.
    pub(super) fn copy(store: &StoreOptions) -> Result<Self, String> {
        let copy = Self::copy_slice(store, 0)?;
        copy.record.require_one_journal("this command")?;
        Ok(copy)
    }

    /// Copies one slice of the account; the first is everything where it is not cut.
    pub(super) fn copy_slice(store: &StoreOptions, slice: u32) -> Result<Self, String> {
        let ledger = PostgresLedger::open(&store.address()?).map_err(|error| error.to_string())?;
        let ledger = Arc::new(ledger);
        let record = AccountRecord::read(&ledger)?;
        let folder = tempfile::tempdir()
            .map_err(|error| format!("no temporary folder could be made: {error}"))?;
        let local = EmbeddedStore::open(folder.path().join("copy"), &EmbeddedOptions::default());
        let store: Arc<dyn Store> = Arc::new(local.map_err(refusal)?);
        let at = slice_journal(slice);
        let replica = Replica::of_journal(at, store.clone(), ledger.clone());
        let mut replica = replica.map_err(refusal)?;
        while replica.follow().map_err(|error| error.to_string())? == Followed::Behind {}
        Ok(Self { ledger, record, store, replica, folder })
    }

    /// The last row of the journal that is in the copy.
    pub(super) fn place(&self) -> Place {
        self.replica.position().map_or(Place(0), |position| position.place)
    }

    /// Owns the account while `change` runs, if no node does.
    pub(super) fn own(
        self,
        name: &str,
        change: impl FnOnce(&dyn Store) -> Result<(), String>,
    ) -> Result<(Arc<PostgresLedger>, AccountRecord), String> {
        let Self { ledger, record, replica, folder, store: _store } = self;
        let card = NodeCard {
            name: format!("{name}-{}", std::process::id()),
            address: "none: a command".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let member = Member::join(ledger.clone(), card, None, record.lease());
        let member = Arc::new(member.map_err(|error| error.to_string())?);
        let beats = Beats::start(member.clone());
        let changed = take(&member, replica).and_then(|owned| {
            let changed = change(&owned);
            let closed = owned.close().map_err(refusal);
            changed.and(closed)
        });
        beats.end();
        // What is not told is noticed after a lease.
        let left = member.leave();
        drop(folder);
        changed?;
        left.map_err(|error| error.to_string())?;
        Ok((ledger, record))
    }
}

fn take(member: &Member, replica: Replica) -> Result<LedgerStore, String> {
    let epoch = free_epoch(member)?;
    match replica.take(epoch, RETENTION, Arc::new(Alone::default())) {
        Ok(owned) => Ok(owned),
        Err((_, Some(error))) => Err(error.to_string()),
        Err((_, None)) => Err("a node has just taken the account: stop all nodes first".to_owned()),
    }
}

/// Waits until nobody owns the account. An owner that ended without a word is silent for a lease, and is declared gone.
fn free_epoch(member: &Member) -> Result<Epoch, String> {
    let mut heard: Option<NodeRow> = None;
    loop {
        let seen = member.look().map_err(|error| error.to_string())?;
        let Some(owner) = seen.owner else { return Ok(seen.epoch) };
        let is_same_life = |before: &NodeRow| before.incarnation == owner.incarnation;
        if heard.as_ref().is_some_and(|before| is_same_life(before) && before.beats != owner.beats)
        {
            let name = &owner.card.name;
            return Err(format!("the node '{name}' owns the account: stop all nodes first"));
        }
        heard = Some(owner);
        thread::sleep(member.lease().beat_every());
    }
}

/// Nobody is served by a command, so nobody has to be told.
#[derive(Default)]
struct Alone {
    is_failing: AtomicBool,
}

impl OwnershipWatcher for Alone {
    fn lost(&self, _reason: &str) {}

    fn failing(&self, error: &LedgerError) {
        if !self.is_failing.swap(true, Ordering::Relaxed) {
            tracing::warn!(%error, "the database does not answer");
        }
    }

    fn recovered(&self) {
        self.is_failing.store(false, Ordering::Relaxed);
    }

    fn reached(&self, _place: Place) {}
}

/// The thread that says that the command lives.
struct Beats {
    over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Beats {
    fn start(member: Arc<Member>) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&over);
        let thread = thread::spawn(move || {
            while !is_over.load(Ordering::Acquire) {
                // A command that was replaced learns it from its next write.
                let _heard: Beat = member.beat(Place(0));
                thread::sleep(member.lease().beat_every());
            }
        });
        Self { over, thread }
    }

    fn end(self) {
        self.over.store(true, Ordering::Release);
        // It never panics, and ends after its last statement.
        let _ended = self.thread.join();
    }
}
