//! A node's life: it joins, follows the owner with a copy of its own, takes the account over when nobody has it, and then serves until
//! it is stopped or loses it.
//!
//! Two threads. The one of the *beats* tells the ledger that this node lives, looks after the others, and tells the front who owns the
//! account. The other *follows*, takes over, and opens the account. A node that loses the account ends its process with
//! [`LOST_STATUS`]: whatever it still had in its memory belongs to a life that is over, and a supervisor starts a fresh one. A node that
//! hands the account over ([`super::handover`]) begins another life in the same process, once nothing of the account is left ([`super::life`]).

use super::folder::{Joined, NodeNotes};
use super::heir::{HeirSeen, epoch_as_heir};
use super::pace::Pace;
use crate::terminal::note;
use armilla_gateway::cluster::{NodeFacts, NodeGauges, NodeRole, Nodes, OwnerPlace, OwnerPlaces};
use armilla_model::clock::monotonic;
use armilla_storage::ledger::{
    Beat, Epoch, Followed, LedgerError, LedgerStore, Member, NodeRow, Ownership, OwnershipWatcher,
    Place, Position, Replica, ReplicaError,
};
use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// The exit status of a node that was evicted or has lost the account.
pub(super) const LOST_STATUS: i32 = 3;
/// The exit status of a node whose copy or database is not what it must be.
pub(super) const REFUSED_STATUS: i32 = 1;
/// How often a standby reads the journal.
const FOLLOW_EVERY: Duration = Duration::from_millis(100);
/// How often nodes look at each other while the account moves: requests are held meanwhile.
const MOVING_LOOK_EVERY: Duration = Duration::from_millis(10);
/// Pause after the ledger failed.
const FAILED_PAUSE: Duration = Duration::from_millis(200);

/// What is told of a copy that was too slow.
pub(super) const OUTRUN: &str = "rows of the journal were removed before this copy had them, and it is made anew: if that comes again, give all nodes a --retention that is longer than a copy takes";

/// What the threads of a node share.
pub(super) struct NodeState {
    pub(super) member: Member,
    notes: NodeNotes,
    places: OwnerPlaces,
    gauges: Arc<NodeGauges>,
    /// The newest row that is in the local copy, as far as this thread knows.
    place: AtomicU64,
    /// What that was at the look before.
    place_before: AtomicU64,
    ownership: Mutex<Option<Ownership>>,
    /// Since when the account is free in an epoch and left to a named heir.
    left_to_heir: Mutex<Option<(Epoch, Instant)>>,
    heir_seen: Mutex<HeirSeen>,
    /// As heir of the account in this epoch, this node has its indexes ready. One more, so that nothing is 0.
    rehearsed: AtomicU64,
    /// Who is told to hand the account over.
    successors: mpsc::Sender<NodeRow>,
    serving: AtomicBool,
    /// Set when the process is told to stop: nothing is answered and nothing is taken any more.
    stopping: AtomicBool,
    /// Set when beats are to end.
    leaving: AtomicBool,
}

impl NodeState {
    /// The state of a node that has joined, and whom it shall hand the account over to, once it shall.
    pub(super) fn new(
        joined: Joined,
        places: OwnerPlaces,
        gauges: Arc<NodeGauges>,
    ) -> (Self, mpsc::Receiver<NodeRow>) {
        let (successors, told) = mpsc::channel();
        let Joined { member, notes } = joined;
        let state = Self {
            member,
            notes,
            places,
            gauges,
            place: AtomicU64::new(0),
            place_before: AtomicU64::new(0),
            ownership: Mutex::new(None),
            left_to_heir: Mutex::new(None),
            heir_seen: Mutex::default(),
            rehearsed: AtomicU64::new(0),
            successors,
            serving: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            leaving: AtomicBool::new(false),
        };
        (state, told)
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

    /// Takes no more requests: those that come are held until another node owns the account. False when it did not take any.
    pub(super) fn pause_serving(&self) -> bool {
        let was_serving = self.serving.swap(false, Ordering::AcqRel);
        self.places.send_replace(OwnerPlace::HereSoon);
        was_serving
    }

    /// Another node owns the account, as far as this one knows.
    pub(super) fn is_elsewhere(&self) -> bool {
        matches!(*self.places.borrow(), OwnerPlace::Elsewhere(_))
    }

    /// Answers nothing any more and takes nothing.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Ends the beats.
    pub(super) fn end_beats(&self, beats: thread::JoinHandle<()>) {
        self.leaving.store(true, Ordering::Release);
        // It never panics, and ends after its last statement.
        let _ended = beats.join();
    }

    /// Ends the beats, and tells the others not to wait.
    pub(super) fn leave(&self, beats: thread::JoinHandle<()>) {
        self.end_beats(beats);
        self.notes.note_draining(false);
        if let Err(error) = self.member.leave() {
            note(&format!("the others wait for the end of this node's lease: {error}"));
        }
    }

    /// Writes down what the metrics tell.
    fn measure(&self, ownership: &Ownership) {
        let is_owned = self.serving.load(Ordering::Acquire);
        let place = self.place.load(Ordering::Acquire);
        let owner = ownership.owner.as_ref().map_or(0, |owner| owner.catalog.0);
        let set = |gauge: &AtomicU64, value| gauge.store(value, Ordering::Relaxed);
        set(&self.gauges.owned, u64::from(is_owned));
        set(&self.gauges.following, u64::from(!is_owned));
        set(&self.gauges.place, place);
        set(&self.gauges.lag, owner.saturating_sub(place));
    }

    /// The epoch in which another node owns an account that this one shall have, and has not made ready for.
    fn wants_rehearsal(&self) -> Option<Epoch> {
        let ownership = self.ownership.lock();
        let epoch = epoch_as_heir(ownership.as_ref()?, self.member.incarnation())?;
        (self.rehearsed.load(Ordering::Acquire) != epoch.0 + 1).then_some(epoch)
    }

    /// How far this node's copy is, for others to know. An heir that is not ready says that it has nothing: the owner waits for it.
    fn told_place(&self) -> Place {
        match self.wants_rehearsal() {
            Some(_) => Place(0),
            None => Place(self.place.load(Ordering::Acquire)),
        }
    }

    /// The account is to change its owner.
    fn is_moving(&self) -> bool {
        self.ownership.lock().as_ref().is_some_and(Ownership::is_moving)
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
                owner.card.address.parse().map_or(OwnerPlace::Nobody, OwnerPlace::Elsewhere)
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
        self.gauges.ledger_errors.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(%error, "writes wait for the ledger");
    }

    fn recovered(&self) {
        tracing::warn!("the ledger answers again");
    }

    fn reached(&self, place: Place) {
        self.place.store(place.0, Ordering::Release);
    }

    fn is_ending(&self) -> bool {
        self.is_stopping()
    }

    fn appended(&self, took: Duration) {
        self.gauges.note_append(took);
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
        let mut pace = Pace::new(node.member.lease(), MOVING_LOOK_EVERY, monotonic());
        while !node.leaving.load(Ordering::Acquire) {
            let begun = monotonic();
            if pace.is_beat_due(begun, node.is_moving()) {
                beat(&node);
            }
            look(&node);
            thread::sleep(pace.pause(begun, monotonic(), node.is_moving()));
        }
    })
}

/// Begins to hand the account over, when this node owns it, somebody else shall, and that one's copy has everything but the last moment.
fn consider_successor(node: &NodeState, ownership: &Ownership) {
    let place = node.place.load(Ordering::Acquire);
    let before = node.place_before.swap(place, Ordering::AcqRel);
    let own = node.member.incarnation();
    let is_owner = ownership.owner.as_ref().is_some_and(|owner| owner.incarnation == own);
    let may_hand_over = is_owner && node.serving.load(Ordering::Acquire) && !node.is_stopping();
    let Some(successor) = ownership.successor(own).filter(|_| may_hand_over) else { return };
    if ownership.heir.as_ref() != Some(successor) {
        // So that no other node is faster than the best one. The next look finds it.
        if let Err(error) = node.member.name_heir(ownership.epoch, successor) {
            tracing::warn!(%error, "the node that shall own the account could not be named");
        }
    } else if node.heir_seen.lock().is_told(ownership.epoch, successor)
        && successor.catalog.0 >= before
    {
        // Nobody hears it only when the account is being handed over already.
        let _ = node.successors.send(successor.clone());
    }
}

fn beat(node: &NodeState) {
    match node.member.beat(node.told_place()) {
        Beat::Heard => {}
        Beat::Gone => end(
            LOST_STATUS,
            "this node was silent for longer than its lease and was replaced; start it again, it will follow",
        ),
        Beat::Unknown(error) => {
            node.gauges.ledger_errors.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(%error, "a beat was not heard");
        }
    }
}

/// Sees who owns the account, and tells the front.
fn look(node: &NodeState) {
    match node.member.look() {
        Ok(ownership) => {
            node.publish(&ownership);
            node.measure(&ownership);
            consider_successor(node, &ownership);
            if ownership.is_draining {
                node.notes.note_draining(true);
            }
            *node.ownership.lock() = Some(ownership);
        }
        Err(error) => {
            node.gauges.ledger_errors.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(%error, "the other nodes could not be looked at");
        }
    }
    node.gauges.note_lease(node.member.lease().left());
}

/// Starts the thread that follows; `rehearse` makes its indexes ready when it shall own the account, `open` makes an account of the store once it does.
pub(super) fn start_following(
    node: Arc<NodeState>,
    (replica, retention): (Replica, Duration),
    rehearse: impl Fn() -> Result<bool, String> + Send + 'static,
    open: impl FnOnce(LedgerStore) -> Result<(), String> + Send + 'static,
) {
    let follow = move || {
        let followed = follow_until_owner(&node, replica, retention, &rehearse);
        let Some(store) = followed else { return };
        let begun = monotonic();
        match open(store) {
            Ok(()) => {
                node.serve();
                let opening_ms = begun.elapsed().as_millis();
                tracing::warn!(opening_ms, "this node owns the account");
            }
            Err(_) if node.is_stopping() => {}
            Err(error) => end(REFUSED_STATUS, &format!("the account cannot be opened: {error}")),
        }
    };
    spawn("following", move || {
        // A node that beats and does not serve would keep the account from all others.
        if catch_unwind(AssertUnwindSafe(follow)).is_err() {
            end(REFUSED_STATUS, "this node stops: the account could not be followed or opened");
        }
    });
}

/// Follows until this node owns the account; nothing when it is told to stop before.
fn follow_until_owner(
    node: &Arc<NodeState>,
    mut replica: Replica,
    retention: Duration,
    rehearse: &impl Fn() -> Result<bool, String>,
) -> Option<LedgerStore> {
    while !node.is_stopping() {
        let followed = replica.follow();
        let place = replica.position().map_or(Place(0), |position: Position| position.place);
        node.place.store(place.0, Ordering::Release);
        match followed {
            Ok(Followed::Behind) => continue,
            Ok(Followed::Outrun) => {
                tracing::warn!("{OUTRUN}");
                continue;
            }
            Ok(Followed::UpToDate) => {}
            Err(error) => {
                complain(&error);
                thread::sleep(FAILED_PAUSE);
                continue;
            }
        }
        if let Some(epoch) = node.wants_rehearsal() {
            let begun = monotonic();
            let rehearsed = rehearse();
            let took_ms = begun.elapsed().as_millis();
            tracing::info!(?rehearsed, took_ms, "the indexes of the account are made ready");
            node.rehearsed.store(epoch.0 + 1, Ordering::Release);
            continue;
        }
        let Some(epoch) = free_epoch(node) else {
            thread::sleep(if node.is_moving() { MOVING_LOOK_EVERY } else { FOLLOW_EVERY });
            continue;
        };
        match replica.take(epoch, retention, node.clone()) {
            Ok(store) => {
                node.gauges.takes.fetch_add(1, Ordering::Relaxed);
                return Some(store);
            }
            Err((again, error)) => {
                error.iter().for_each(complain);
                replica = again;
                thread::sleep(FOLLOW_EVERY);
            }
        }
    }
    None
}

/// The epoch of an account that nobody owns, or that this very life owns without knowing, unless it is another node's turn.
fn free_epoch(node: &NodeState) -> Option<Epoch> {
    let ownership = node.ownership.lock().clone()?;
    let own = node.member.incarnation();
    let is_free = ownership.owner.as_ref().is_none_or(|owner| owner.incarnation == own);
    // Better a node that is drained than none.
    let is_out = ownership.is_draining && !ownership.candidates.is_empty();
    if !is_free || is_out || !node.holds_lease() {
        return None;
    }
    let heir = ownership.heir.as_ref().filter(|heir| heir.incarnation != own);
    let has_waited = || {
        let mut left = node.left_to_heir.lock();
        let fresh = (ownership.epoch, monotonic());
        let kept = left.filter(|left| left.0 == fresh.0).unwrap_or(fresh);
        *left = Some(kept);
        kept.1.elapsed() >= node.member.lease().length()
    };
    (heir.is_none() || has_waited()).then_some(ownership.epoch)
}

/// A ledger that is away comes back; anything else does not mend itself.
pub(super) fn complain(error: &ReplicaError) {
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
