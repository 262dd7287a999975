//! One slice at one node, over and over: follow, take over, serve, hand over, follow. An heir makes its indexes ready before it takes over, as
//! [`crate::cluster::heir`] says.
//!
//! What belongs to an ownership (the account, the service, the owner's store) is made when the slice is taken and gone when it is
//! handed over. Nothing of it is used again: the service of the next ownership is another one, and an answer that the old one still
//! makes counts no more than that of a node without its lease. The copy stays, and is followed from where it is.

use super::{SliceWatcher, SlicedNode};
use crate::advise::Watching;
use crate::cluster::node::{LOST_STATUS, OUTRUN, REFUSED_STATUS, complain, end};
use crate::control::Control;
use armilla_engine::Account;
use armilla_gateway::cluster::{LateService, SlicedService};
use armilla_gateway::ops::EngineService;
use armilla_model::clock::monotonic;
use armilla_storage::Store;
use armilla_storage::disk::Disk;
use armilla_storage::ledger::{
    Epoch, Followed, KeptOpen, Ledger, LedgerStore, NodeRow, Place, Position, Replica,
};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// How often a copy reads its journal.
const FOLLOW_EVERY: Duration = Duration::from_millis(100);
/// The same for the copy of the first slice, which has the catalog that others adopt.
const FOLLOW_FIRST_EVERY: Duration = Duration::from_millis(25);
/// How often the owner of a slice looks whether the catalog has changed, or the slice is to be handed over.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Pause after the ledger failed.
const FAILED_PAUSE: Duration = Duration::from_millis(200);
/// How long requests that are being answered are waited for.
const INSIDE_WAIT_MAX: Duration = Duration::from_secs(6);
/// How long the heir is waited for before this node may take the slice again.
const HEIR_WAIT_MAX: Duration = Duration::from_secs(10);

/// An open account of a slice, with what hangs on it.
pub(super) struct OpenSlice {
    pub(super) account: Arc<Account>,
    pub(super) service: EngineService,
    pub(super) _control: Control,
    pub(super) _watching: Option<Arc<Watching>>,
}

/// Makes an account of the store of a slice that this node owns, by a number that no other ownership of the slice has.
pub(super) type OpenTerm =
    Arc<dyn Fn(u32, LedgerStore, u64) -> Result<OpenSlice, String> + Send + Sync>;

/// Makes the indexes of a slice that this node will own soon.
pub(super) type Rehearse = Arc<dyn Fn(u32) -> Result<bool, String> + Send + Sync>;

/// What the thread of a slice works with.
pub(super) struct SliceWork {
    pub(super) node: Arc<SlicedNode>,
    pub(super) number: u32,
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) retention: Duration,
    pub(super) service: SlicedService<EngineService>,
    pub(super) told: mpsc::Receiver<NodeRow>,
    /// Where the index files of the slice lie.
    pub(super) disk: Option<Arc<dyn Disk>>,
    pub(super) open: OpenTerm,
    pub(super) rehearse: Rehearse,
}

/// Starts the thread of a slice. It ends when the node stops.
pub(super) fn start(work: SliceWork) -> thread::JoinHandle<()> {
    spawn(&format!("slice {}", work.number), move || {
        // A node that beats and does not serve would keep the slice from all others.
        if catch_unwind(AssertUnwindSafe(|| work.run())).is_err() {
            end(REFUSED_STATUS, "this node stops: a slice could not be followed or opened");
        }
    })
}

impl SliceWork {
    fn run(&self) {
        while !self.node.is_stopping() {
            self.retain_index_files();
            let kept: Arc<dyn Store> = Arc::new(KeptOpen::new(self.slice().store.clone()));
            let replica = Replica::of_journal(self.slice().at, kept, self.ledger.clone());
            let replica = replica.unwrap_or_else(|error| end(REFUSED_STATUS, &error.to_string()));
            let followed = thread::scope(|scope| self.follow_until_owner(scope, replica));
            let Some((store, epoch)) = followed else { return };
            match (self.open)(self.number, store, epoch.0) {
                Ok(opened) => self.own(opened),
                Err(_) if self.node.is_stopping() => return,
                Err(error) => {
                    end(REFUSED_STATUS, &format!("slice {} cannot be opened: {error}", self.number))
                }
            }
        }
    }

    /// What is left of an index that was being built may not be taken for one that the next owner builds under the same name.
    fn retain_index_files(&self) {
        let Some(disk) = &self.disk else { return };
        if let Err(error) = Account::retain_index_files(&*self.slice().store, disk.clone()) {
            end(REFUSED_STATUS, &error.to_string());
        }
    }

    fn slice(&self) -> &super::SliceState {
        &self.node.slices[self.number as usize]
    }

    /// Follows until this node owns the slice; nothing when it is told to stop before.
    fn follow_until_owner<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        mut replica: Replica,
    ) -> Option<(LedgerStore, Epoch)> {
        let every = if self.number == 0 { FOLLOW_FIRST_EVERY } else { FOLLOW_EVERY };
        let mut rehearsal: Option<ScopedJoinHandle<'_, ()>> = None;
        while !self.node.is_stopping() {
            let followed = replica.follow();
            let place = replica.position().map_or(Place(0), |position: Position| position.place);
            self.slice().place.store(place.0, Ordering::Release);
            let is_complete = matches!(followed, Ok(Followed::UpToDate));
            self.slice().is_complete.store(is_complete, Ordering::Release);
            match followed {
                Ok(Followed::Behind) => continue,
                Ok(Followed::Outrun) => {
                    tracing::warn!(slice = self.number, "{OUTRUN}");
                    continue;
                }
                Ok(Followed::UpToDate) => {}
                Err(error) => {
                    complain(&error);
                    thread::sleep(FAILED_PAUSE);
                    continue;
                }
            }
            if let Some(ended) = rehearsal.take_if(|rehearsal| rehearsal.is_finished()) {
                ended.join().unwrap_or_else(|panic| resume_unwind(panic));
            }
            // The slice is not taken while its index files are being made. The copy is followed: the other slices adopt the catalog of the first one.
            if rehearsal.is_some() {
                thread::sleep(every);
                continue;
            }
            if let Some(epoch) = self.node.wants_rehearsal(self.slice()) {
                let (node, rehearse, number) = (&*self.node, &self.rehearse, self.number);
                rehearsal = Some(scope.spawn(move || make_ready(node, number, epoch, rehearse)));
                continue;
            }
            let Some(epoch) = self.node.free_epoch(self.number) else {
                thread::sleep(every);
                continue;
            };
            let watcher = SliceWatcher { node: self.node.clone(), number: self.number };
            match replica.take(epoch, self.retention, Arc::new(watcher)) {
                Ok(store) => {
                    self.node.gauges.takes.fetch_add(1, Ordering::Relaxed);
                    return Some((store, epoch));
                }
                Err((again, error)) => {
                    error.iter().for_each(complain);
                    replica = again;
                    thread::sleep(every);
                }
            }
        }
        None
    }

    /// Serves the slice until it is handed over or the node stops.
    fn own(&self, opened: OpenSlice) {
        let OpenSlice { account, service, _control, _watching } = opened;
        let is_over = Arc::new(AtomicBool::new(false));
        let (node, over) = (self.node.clone(), is_over.clone());
        let holds = move || node.holds_lease() && !over.load(Ordering::Acquire);
        let late = LateService::new();
        late.begin(service, Arc::new(holds));
        // What was heard while the slice was not this node's is about an earlier ownership.
        while self.told.try_recv().is_ok() {}
        // Before the first request: what clients were told of the catalog must be known here.
        self.adopt(&account);
        self.service.replace(self.number, late.clone());
        self.slice().serve();
        tracing::warn!(slice = self.number, "this node owns the slice");
        let heir = self.wait_for_successor(&account);
        self.slice().pause_serving();
        late.shut();
        if let Some(heir) = &heir {
            tracing::warn!(slice = self.number, heir = heir.card.name, "the slice is handed over");
            wait(INSIDE_WAIT_MAX, || late.inside() == 0);
        }
        is_over.store(true, Ordering::Release);
        // A database that is away is not waited for: what was not answered may be done or not.
        account.store().end_waits();
        if let Err(error) = account.close() {
            end(LOST_STATUS, &format!("this node gave a slice up, not in order: {error}"));
        }
        // The account goes with the last request that still has it.
        self.service.replace(self.number, LateService::new());
        if heir.is_some() {
            wait(HEIR_WAIT_MAX, || self.slice().is_elsewhere() || self.node.is_stopping());
        }
    }

    /// Waits for the word to hand over; nothing when the node stops before. Meanwhile changes of the catalog are taken over.
    fn wait_for_successor(&self, account: &Account) -> Option<NodeRow> {
        while !self.node.is_stopping() {
            match self.told.recv_timeout(LOOK_EVERY) {
                Ok(heir) => return Some(heir),
                Err(mpsc::RecvTimeoutError::Timeout) => self.adopt(account),
                Err(mpsc::RecvTimeoutError::Disconnected) => thread::sleep(LOOK_EVERY),
            }
        }
        None
    }

    /// Takes over the catalog of the first slice as the local copy of it has it, if that copy is complete.
    fn adopt(&self, account: &Account) {
        if self.number == 0 {
            return;
        }
        let first = self.node.slices[0].store.snapshot();
        match Position::read(&*first) {
            Ok(Some(_)) => {}
            Ok(None) => return,
            Err(error) => end(REFUSED_STATUS, &error.to_string()),
        }
        if Account::edition_of(&*first).is_ok_and(|edition| edition <= account.edition()) {
            return;
        }
        // Whoever reads the journal may know of it before this account shows it.
        self.slice().adopting.store(true, Ordering::SeqCst);
        let adopted = account.adopt_catalog(&*first);
        self.slice().adopting.store(false, Ordering::SeqCst);
        if let Err(error) = adopted
            && !self.node.is_stopping()
        {
            tracing::warn!(%error, slice = self.number, "the catalog could not be taken over; it is tried again");
        }
    }
}

/// Makes ready for a slice that another node owns in this epoch.
fn make_ready(node: &SlicedNode, slice: u32, epoch: Epoch, rehearse: &Rehearse) {
    let begun = monotonic();
    let rehearsed = rehearse(slice);
    let took_ms = begun.elapsed().as_millis();
    tracing::info!(slice, ?rehearsed, took_ms, "the indexes of the slice are made ready");
    node.slices[slice as usize].rehearsed.store(epoch.0 + 1, Ordering::Release);
}

fn wait(at_most: Duration, is_over: impl Fn() -> bool) {
    let end: Instant = monotonic() + at_most;
    while !is_over() && monotonic() < end {
        thread::sleep(Duration::from_millis(5));
    }
}

pub(super) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> thread::JoinHandle<()> {
    let spawned = thread::Builder::new().name(name.to_owned()).spawn(run);
    spawned.expect("a thread can be started while the node starts")
}
