//! A command that visits an account in a database: it copies the account into a temporary folder, and may own the account for a while.
//!
//! The copy is made as a node makes its own, from base and journal, with every checksum looked at. It disturbs nobody: nodes go on
//! serving, and the copy is exactly the account as it was at one place of the journal, or each slice of it at a place of its own. A
//! command that must write takes the account as a node does, which only works while no node owns it.

use super::StoreOptions;
use super::record::AccountRecord;
use crate::offline::refusal;
use armilla_storage::ledger::{
    Beat, Epoch, Followed, LedgerError, LedgerStore, Member, NodeCard, NodeRow, OwnershipWatcher,
    Place, PostgresLedger, Replica, ShardAt, slice_journal,
};
use armilla_storage::{EmbeddedOptions, EmbeddedStore, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tempfile::TempDir;

/// How long rows stay for followers that a command has written. It ends before it would cut one.
const RETENTION: Duration = Duration::from_secs(600);

/// How often a copy is made anew because rows were cut before it had them.
const OUTRUN_MAX: u32 = 1;

/// A copy of an account, or of one slice of it.
pub(super) struct Visitor {
    pub(super) ledger: Arc<PostgresLedger>,
    pub(super) record: AccountRecord,
    /// In the order of the slices.
    copies: Vec<Copied>,
    folder: TempDir,
}

/// The copy of one slice; of everything where the account is not cut.
struct Copied {
    at: ShardAt,
    store: Arc<dyn Store>,
    replica: Replica,
}

impl Visitor {
    /// Copies the account as it is now: each slice at a place of its own journal, the first one last. So no slice knows a newer catalog than the first.
    pub(super) fn copy(store: &StoreOptions) -> Result<Self, String> {
        let mut visitor = Self::enter(store)?;
        for slice in (0..visitor.record.slices()).rev() {
            visitor.add_slice(slice)?;
        }
        visitor.copies.reverse();
        Ok(visitor)
    }

    /// Copies one slice of the account; the first is everything where it is not cut.
    pub(super) fn copy_slice(store: &StoreOptions, slice: u32) -> Result<Self, String> {
        let mut visitor = Self::enter(store)?;
        visitor.add_slice(slice)?;
        Ok(visitor)
    }

    fn enter(store: &StoreOptions) -> Result<Self, String> {
        let ledger = PostgresLedger::open(&store.address()?).map_err(|error| error.to_string())?;
        let ledger = Arc::new(ledger);
        let record = AccountRecord::read(&ledger)?;
        let folder = tempfile::tempdir()
            .map_err(|error| format!("no temporary folder could be made: {error}"))?;
        Ok(Self { ledger, record, copies: Vec::new(), folder })
    }

    fn add_slice(&mut self, slice: u32) -> Result<(), String> {
        let place = self.folder.path().join(format!("copy-{slice}"));
        let local = EmbeddedStore::open(place, &EmbeddedOptions::default());
        let store: Arc<dyn Store> = Arc::new(local.map_err(refusal)?);
        let at = slice_journal(slice);
        let replica = Replica::of_journal(at, store.clone(), self.ledger.clone());
        let mut replica = replica.map_err(refusal)?;
        follow_to_the_end(|| replica.follow().map_err(|error| error.to_string()))?;
        self.copies.push(Copied { at, store, replica });
        Ok(())
    }

    /// The stores of the copies, in the order of the slices.
    pub(super) fn stores(&self) -> impl Iterator<Item = &Arc<dyn Store>> {
        self.copies.iter().map(|copy| &copy.store)
    }

    /// The last row of each journal that is in the copy.
    pub(super) fn places(&self) -> Vec<Place> {
        let place = |copy: &Copied| copy.replica.position().map_or(Place(0), |found| found.place);
        self.copies.iter().map(place).collect()
    }

    /// Owns all that is copied while `change` runs, if no node owns any of it.
    pub(super) fn own(
        self,
        name: &str,
        change: impl FnOnce(&[LedgerStore]) -> Result<(), String>,
    ) -> Result<(Arc<PostgresLedger>, AccountRecord), String> {
        let Self { ledger, record, copies, folder } = self;
        let card = NodeCard {
            name: format!("{name}-{}", std::process::id()),
            address: "none: a command".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let member = Member::join(ledger.clone(), card, None, record.lease());
        let member = Arc::new(member.map_err(|error| error.to_string())?);
        let beats = Beats::start(member.clone());
        let changed = own_all(&member, copies, change);
        beats.end();
        // What is not told is noticed after a lease.
        let left = member.leave();
        drop(folder);
        changed?;
        left.map_err(|error| error.to_string())?;
        Ok((ledger, record))
    }
}

/// Follows until a copy has everything. One that was outrun is made anew once: the first may have begun just before rows were removed.
fn follow_to_the_end(mut follow: impl FnMut() -> Result<Followed, String>) -> Result<(), String> {
    let mut outrun = 0;
    loop {
        match follow()? {
            Followed::UpToDate => return Ok(()),
            Followed::Behind => {}
            Followed::Outrun if outrun < OUTRUN_MAX => outrun += 1,
            Followed::Outrun => {
                return Err("rows of the journal were removed twice before the copy had them: give all nodes a --retention that is \
                            longer than a copy takes, and try again"
                    .to_owned());
            }
        }
    }
}

fn own_all(
    member: &Member,
    copies: Vec<Copied>,
    change: impl FnOnce(&[LedgerStore]) -> Result<(), String>,
) -> Result<(), String> {
    let mut owned = Vec::new();
    let mut taken = Ok(());
    for copy in copies {
        match take(member, copy) {
            Ok(store) => owned.push(store),
            Err(error) => {
                taken = Err(error);
                break;
            }
        }
    }
    let changed = taken.and_then(|()| change(&owned));
    let closed: Vec<_> = owned.iter().map(|owned| owned.close().map_err(refusal)).collect();
    changed.and(closed.into_iter().collect())
}

fn take(member: &Member, copy: Copied) -> Result<LedgerStore, String> {
    let epoch = free_epoch(member, copy.at)?;
    match copy.replica.take(epoch, RETENTION, Arc::new(Alone::default())) {
        Ok(owned) => Ok(owned),
        Err((_, Some(error))) => Err(error.to_string()),
        Err((_, None)) => Err("a node has just taken the account: stop all nodes first".to_owned()),
    }
}

/// Waits until nobody owns a journal. An owner that ended without a word is silent for a lease, and is declared gone.
fn free_epoch(member: &Member, at: ShardAt) -> Result<Epoch, String> {
    let mut heard: Option<NodeRow> = None;
    loop {
        let mut seen = member.look_at(&[at]).map_err(|error| error.to_string())?;
        let seen = seen.pop().ok_or("the account has no such journal")?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use Followed::{Behind, Outrun, UpToDate};

    #[test]
    fn a_copy_that_is_outrun_twice_is_given_up_and_names_the_option() {
        let follow = |steps: &[Followed]| {
            let mut steps = steps.iter().copied();
            follow_to_the_end(|| steps.next().ok_or_else(|| "it went on".to_owned()))
        };
        assert_eq!(follow(&[Behind, Outrun, Behind, UpToDate]), Ok(()));
        let refused = follow(&[Outrun, Behind, Outrun, Behind]).unwrap_err();
        assert!(refused.contains("--retention"), "{refused}");
    }
}
