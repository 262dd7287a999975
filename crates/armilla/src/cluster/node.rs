//! A node's life: it joins, follows the owner with a copy of its own, takes the account over when nobody has it, and then serves until
//! it is stopped or loses it.
//!
//! Two threads. The one of the *beats* tells the ledger that this node lives, looks after the others, and tells the front who owns the
//! account. The other *follows*, takes over, and opens the account. A node that loses the account ends its process with
//! [`LOST_STATUS`]: whatever it still had in its memory belongs to a life that is over, and a supervisor starts a fresh one.

use crate::terminal::note;
use armilla_gateway::cluster::{NodeFacts, NodeRole, Nodes, OwnerPlace, OwnerPlaces};
use armilla_model::clock::monotonic;
use armilla_storage::ledger::{
    Beat, Followed, LedgerError, LedgerStore, Member, Ownership, OwnershipWatcher, Place, Position,
    Replica, ReplicaError,
};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// The exit status of a node that was evicted or has lost the account.
const LOST_STATUS: i32 = 3;
/// The exit status of a node whose copy or database is not what it must be.
const REFUSED_STATUS: i32 = 1;
/// How often a standby reads the journal.
const FOLLOW_EVERY: Duration = Duration::from_millis(100);
/// Pause after the ledger failed.
const FAILED_PAUSE: Duration = Duration::from_millis(200);

/// What the threads of a node share.
pub(super) struct NodeState {
    pub(super) member: Member,
    places: OwnerPlaces,
    /// The newest row that is in the local copy, as far as this thread knows.
    place: AtomicU64,
    ownership: Mutex<Option<Ownership>>,
    serving: AtomicBool,
    /// Set when the process is told to stop: nothing is answered and nothing is taken any more.
    stopping: AtomicBool,
    /// Set when beats are to end.
    leaving: AtomicBool,
}

impl NodeState {
    pub(super) fn new(member: Member, places: OwnerPlaces) -> Self {
        Self {
            member,
            places,
            place: AtomicU64::new(0),
            ownership: Mutex::new(None),
            serving: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            leaving: AtomicBool::new(false),
        }
    }

    /// Whether answers of this node count.
    pub(super) fn holds_lease(&self) -> bool {
        self.member.lease().is_held() && !self.stopping.load(Ordering::Acquire)
    }

    /// Says that this node answers requests from now on.
    pub(super) fn serve(&self) {
        self.serving.store(true, Ordering::Release);
        self.places.send_replace(OwnerPlace::Here);
    }

    /// Answers nothing any more and takes nothing.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Ends the beats, and tells the others not to wait.
    pub(super) fn leave(&self, beats: thread::JoinHandle<()>) {
        self.leaving.store(true, Ordering::Release);
        // It never panics, and ends after its last statement.
        let _ended = beats.join();
        if let Err(error) = self.member.leave() {
            note(&format!("the others wait for the end of this node's lease: {error}"));
        }
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Tells the front who serves the account.
    fn publish(&self, ownership: &Ownership) {
        let place = match &ownership.owner {
            None => OwnerPlace::Nobody,
            Some(owner) if owner.incarnation == self.member.incarnation() => {
                match self.serving.load(Ordering::Acquire) {
                    true => OwnerPlace::Here,
                    false => OwnerPlace::HereSoon,
                }
            }
            Some(owner) => {
                let address = owner.card.address.strip_prefix("http://").unwrap_or_default();
                address.parse().map_or(OwnerPlace::Nobody, OwnerPlace::Elsewhere)
            }
        };
        self.places.send_if_modified(|known| {
            let changes = *known != place;
            *known = place;
            changes
        });
    }
}

/// What the explorer shows: as the last beat has seen it.
impl Nodes for NodeState {
    fn nodes(&self) -> Vec<NodeFacts> {
        let ownership = self.ownership.lock();
        let Some(ownership) = &*ownership else { return Vec::new() };
        let others = ownership.others.iter().map(|node| (node, NodeRole::Standby));
        let owner = ownership.owner.iter().map(|node| (node, NodeRole::Owner));
        let newest = ownership.owner.as_ref().map_or(0, |owner| owner.catalog.0);
        let facts = owner.chain(others).map(|(node, role)| NodeFacts {
            name: node.card.name.clone(),
            address: node.card.address.clone(),
            version: node.card.version.clone(),
            role,
            rows_behind: newest.saturating_sub(node.catalog.0),
        });
        facts.collect()
    }
}

impl OwnershipWatcher for NodeState {
    fn lost(&self, reason: &str) {
        end(LOST_STATUS, &format!("this node stops: {reason}"));
    }

    fn failing(&self, error: &LedgerError) {
        tracing::warn!(%error, "writes wait for the ledger");
    }

    fn recovered(&self) {
        tracing::warn!("the ledger answers again");
    }

    fn reached(&self, place: Place) {
        self.place.store(place.0, Ordering::Release);
    }
}

/// Ends the process at once: nothing that is still under way may be answered.
pub(super) fn end(status: i32, line: &str) -> ! {
    note(line);
    std::process::exit(status)
}

/// Starts the thread of the beats.
pub(super) fn start_beats(node: Arc<NodeState>) -> thread::JoinHandle<()> {
    spawn("beats", move || {
        let every = node.member.lease().beat_every();
        while !node.leaving.load(Ordering::Acquire) {
            let begun = monotonic();
            beat(&node);
            thread::sleep(every.saturating_sub(begun.elapsed()));
        }
    })
}

fn beat(node: &NodeState) {
    match node.member.beat(Place(node.place.load(Ordering::Acquire))) {
        Beat::Heard => {}
        Beat::Gone => end(
            LOST_STATUS,
            "this node was silent for longer than its lease and was replaced; start it again, it will follow",
        ),
        Beat::Unknown(error) => tracing::warn!(%error, "a beat was not heard"),
    }
    match node.member.look() {
        Ok(ownership) => {
            node.publish(&ownership);
            *node.ownership.lock() = Some(ownership);
        }
        Err(error) => tracing::warn!(%error, "the other nodes could not be looked at"),
    }
}

/// Starts the thread that follows; `open` makes an account of the store once this node owns it.
pub(super) fn start_following(
    node: Arc<NodeState>,
    replica: Replica,
    retention: Duration,
    open: impl FnOnce(LedgerStore) -> Result<(), String> + Send + 'static,
) {
    spawn("following", move || {
        let Some(store) = follow_until_owner(&node, replica, retention) else { return };
        match open(store) {
            Ok(()) => node.serve(),
            Err(_) if node.is_stopping() => {}
            Err(error) => end(REFUSED_STATUS, &format!("the account cannot be opened: {error}")),
        }
    });
}

/// Follows until this node owns the account; nothing when it is told to stop before.
fn follow_until_owner(
    node: &Arc<NodeState>,
    mut replica: Replica,
    retention: Duration,
) -> Option<LedgerStore> {
    while !node.is_stopping() {
        let followed = replica.follow();
        let place = replica.position().map_or(Place(0), |position: Position| position.place);
        node.place.store(place.0, Ordering::Release);
        match followed {
            Ok(Followed::Behind) => continue,
            Ok(Followed::UpToDate) => {}
            Err(error) => {
                complain(&error);
                thread::sleep(FAILED_PAUSE);
                continue;
            }
        }
        let Some(epoch) = free_epoch(node) else {
            thread::sleep(FOLLOW_EVERY);
            continue;
        };
        match replica.take(epoch, retention, node.clone()) {
            Ok(store) => return Some(store),
            Err((again, error)) => {
                error.iter().for_each(complain);
                replica = again;
                thread::sleep(FOLLOW_EVERY);
            }
        }
    }
    None
}

/// The epoch of an account that nobody owns, or that this very life owns without knowing.
fn free_epoch(node: &NodeState) -> Option<armilla_storage::ledger::Epoch> {
    let ownership = node.ownership.lock().clone()?;
    let is_free =
        ownership.owner.as_ref().is_none_or(|owner| owner.incarnation == node.member.incarnation());
    (is_free && node.holds_lease()).then_some(ownership.epoch)
}

/// A ledger that is away comes back; anything else does not mend itself.
fn complain(error: &ReplicaError) {
    match error {
        ReplicaError::Ledger(LedgerError::Unreachable(_) | LedgerError::OutcomeUnknown(_)) => {
            tracing::warn!(%error, "the copy waits for the ledger");
        }
        ReplicaError::Ledger(_) | ReplicaError::Store(_) | ReplicaError::Ahead { .. } => {
            end(REFUSED_STATUS, &error.to_string());
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> thread::JoinHandle<()> {
    let spawned = thread::Builder::new().name(name.to_owned()).spawn(run);
    spawned.expect("a thread can be started while the node starts")
}
