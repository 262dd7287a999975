//! A node of an account that is cut into slices: it follows all of them, and owns some.
//!
//! Each slice has a journal, a local copy, and at one node an open account ([`term`]). One thread of *beats* for the whole node tells the ledger that it
//! lives and looks who owns which slice; one thread per slice follows it, takes it over, opens its account, has it adopt the catalog of the
//! first slice, and hands it over while the process and the other slices go on. A node that *loses* a slice ends its process, as
//! [`super::node`] says.

mod balance;
pub(super) mod operations;
pub(super) mod serve;
mod term;

use super::folder::{Joined, NodeNotes};
use super::heir::{HeirSeen, epoch_as_heir};
use super::node::{LOST_STATUS, end};
use super::pace::Pace;
use crate::terminal::note;
use armilla_engine::Account;
use armilla_engine::views::{SliceCopies, SliceCopy};
use armilla_gateway::cluster::{
    Editions, NodeFacts, NodeGauges, NodeRole, Nodes, OwnerPlace, OwnerPlaces,
};
use armilla_model::clock::monotonic;
use armilla_storage::Store;
use armilla_storage::ledger::{
    Beat, Epoch, Incarnation, LedgerError, Member, NodeRow, Ownership, OwnershipWatcher, Place,
    Position, ShardAt, slice_journal,
};
use balance::Balance;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// How often nodes look at each other while a slice moves: requests are held meanwhile.
const MOVING_LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long a free slice is left to the node whose turn it is, so that slices spread over the nodes.
const TURN_WAIT: Duration = Duration::from_secs(1);

/// What the threads of a node share.
pub(super) struct SlicedNode {
    pub(super) member: Member,
    notes: NodeNotes,
    pub(super) slices: Vec<SliceState>,
    gauges: Arc<NodeGauges>,
    balance: Balance,
    /// Set when the process is told to stop: nothing is answered and nothing is taken any more.
    stopping: AtomicBool,
    /// Set when beats are to end.
    leaving: AtomicBool,
}

/// One slice, as this node has it.
pub(super) struct SliceState {
    pub(super) at: ShardAt,
    /// The local copy.
    pub(super) store: Arc<dyn Store>,
    places: OwnerPlaces,
    /// The newest row that is in the copy.
    place: AtomicU64,
    /// The copy had everything when its journal was last read.
    is_complete: AtomicBool,
    ownership: Mutex<Option<Ownership>>,
    heir_seen: Mutex<HeirSeen>,
    /// As heir of the slice in this epoch, this node has its indexes ready. One more, so that nothing is 0.
    rehearsed: AtomicU64,
    /// Since when the slice is free in an epoch and left to another node.
    left_to_other: Mutex<Option<(Epoch, Instant)>>,
    /// Who is told to hand the slice over.
    successors: mpsc::Sender<NodeRow>,
    serving: AtomicBool,
    /// The account of the slice is taking over another catalog.
    adopting: AtomicBool,
}

impl SlicedNode {
    /// The state of a node that has joined, and for each slice whom it shall be handed over to, once it shall.
    pub(super) fn new(
        joined: Joined,
        copies: Vec<(Arc<dyn Store>, OwnerPlaces)>,
        (gauges, balance_after): (Arc<NodeGauges>, Option<Duration>),
    ) -> (Self, Vec<mpsc::Receiver<NodeRow>>) {
        let mut told = Vec::new();
        let slice = |(number, (store, places)): (u32, (Arc<dyn Store>, OwnerPlaces))| {
            let (successors, receiver) = mpsc::channel();
            told.push(receiver);
            SliceState {
                at: slice_journal(number),
                store,
                places,
                place: AtomicU64::new(0),
                is_complete: AtomicBool::new(false),
                ownership: Mutex::new(None),
                heir_seen: Mutex::default(),
                rehearsed: AtomicU64::new(0),
                left_to_other: Mutex::new(None),
                successors,
                serving: AtomicBool::new(false),
                adopting: AtomicBool::new(false),
            }
        };
        let slices = (0..).zip(copies).map(slice).collect();
        let Joined { member, notes } = joined;
        let state = Self {
            member,
            notes,
            slices,
            gauges,
            balance: Balance::new(balance_after),
            stopping: AtomicBool::new(false),
            leaving: AtomicBool::new(false),
        };
        (state, told)
    }

    /// Whether answers of this node count.
    pub(super) fn holds_lease(&self) -> bool {
        self.member.lease().is_held() && !self.is_stopping()
    }

    /// A slice is to change its owner.
    fn is_moving(&self) -> bool {
        let is_moving =
            |slice: &SliceState| slice.ownership.lock().as_ref().is_some_and(Ownership::is_moving);
        self.slices.iter().any(is_moving)
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
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
        self.notes.note_draining(false);
        if let Err(error) = self.member.leave() {
            note(&format!("the others wait for the end of this node's lease: {error}"));
        }
    }

    /// The copies of all slices that this node has.
    pub(super) fn copies(&self) -> NodeCopies {
        NodeCopies(self.slices.iter().map(|slice| slice.store.clone()).collect())
    }

    fn places(&self) -> u64 {
        self.slices.iter().map(|slice| slice.place.load(Ordering::Acquire)).sum()
    }

    /// The epoch in which another node owns a slice that this one shall have, and has not made ready for.
    fn wants_rehearsal(&self, slice: &SliceState) -> Option<Epoch> {
        let epoch = slice.epoch_as_heir(self.member.incarnation())?;
        (slice.rehearsed.load(Ordering::Acquire) != epoch.0 + 1).then_some(epoch)
    }

    /// How far this node's copies are, for others to know: the sum of their places. An heir of any slice says that it has nothing until all its copies
    /// are complete and it has made ready: a sum does not tell which copy lacks something.
    fn told_places(&self) -> Place {
        let own = self.member.incarnation();
        let is_heir = self.slices.iter().any(|slice| slice.epoch_as_heir(own).is_some());
        let is_ready = |slice: &SliceState| {
            slice.is_complete.load(Ordering::Acquire) && self.wants_rehearsal(slice).is_none()
        };
        match is_heir && !self.slices.iter().all(is_ready) {
            true => Place(0),
            false => Place(self.places()),
        }
    }

    /// Whether it is this node's turn to take a free slice, so that slices spread.
    fn is_own_turn(&self, number: u32, ownership: &Ownership) -> bool {
        let others = ownership.candidates.iter().map(|node| &*node.card.name);
        let mut names: Vec<&str> = others.chain([self.member.name()]).collect();
        names.sort_unstable();
        names.get(number as usize % names.len()) == Some(&self.member.name())
    }

    /// The epoch of a slice that nobody owns, or that this very life owns without knowing, unless it is another node's turn.
    fn free_epoch(&self, number: u32) -> Option<Epoch> {
        let slice = &self.slices[number as usize];
        let ownership = slice.ownership.lock().clone()?;
        let own = self.member.incarnation();
        let is_free = ownership.owner.as_ref().is_none_or(|owner| owner.incarnation == own);
        // Better a node that is drained than none.
        let is_out = ownership.is_draining && !ownership.candidates.is_empty();
        if !is_free || is_out || !self.holds_lease() {
            return None;
        }
        let heir = ownership.heir.as_ref().map(|heir| heir.incarnation);
        let wait = match heir {
            Some(heir) if heir == own => Duration::ZERO,
            Some(_) => self.member.lease().length(),
            None if self.is_own_turn(number, &ownership) => Duration::ZERO,
            None => TURN_WAIT,
        };
        let mut left = slice.left_to_other.lock();
        let fresh = (ownership.epoch, monotonic());
        let kept = left.filter(|left| left.0 == fresh.0).unwrap_or(fresh);
        *left = Some(kept);
        (kept.1.elapsed() >= wait).then_some(ownership.epoch)
    }
}

impl SliceState {
    /// Says that this node answers requests for the slice from now on.
    fn serve(&self) {
        self.serving.store(true, Ordering::Release);
        self.places.send_replace(OwnerPlace::Here);
    }

    /// Takes no more requests: those that come are held until another node owns the slice.
    fn pause_serving(&self) {
        self.serving.store(false, Ordering::Release);
        self.places.send_replace(OwnerPlace::HereSoon);
    }

    fn epoch_as_heir(&self, own: Incarnation) -> Option<Epoch> {
        epoch_as_heir(self.ownership.lock().as_ref()?, own)
    }

    fn is_elsewhere(&self) -> bool {
        matches!(*self.places.borrow(), OwnerPlace::Elsewhere(_))
    }

    /// Tells the front who serves the slice.
    fn publish(&self, ownership: &Ownership, own: Incarnation) {
        let place = match &ownership.owner {
            None => OwnerPlace::Nobody,
            Some(owner) if owner.incarnation == own => match self.serving.load(Ordering::Acquire) {
                true => OwnerPlace::Here,
                false => OwnerPlace::HereSoon,
            },
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
impl Nodes for SlicedNode {
    fn nodes(&self) -> Vec<NodeFacts> {
        let seen: Vec<_> =
            self.slices.iter().filter_map(|slice| slice.ownership.lock().clone()).collect();
        let Some(first) = seen.first() else { return Vec::new() };
        let all = first.owner.iter().chain(&first.others);
        let newest = all.clone().map(|node| node.catalog.0).max().unwrap_or(0);
        let owns = |node: &NodeRow| {
            let owner = |seen: &Ownership| seen.owner.as_ref().map(|owner| owner.incarnation);
            seen.iter().any(|seen| owner(seen) == Some(node.incarnation))
        };
        let facts = all.map(|node| NodeFacts {
            name: node.card.name.clone(),
            address: node.card.address.clone(),
            version: node.card.version.clone(),
            role: if owns(node) { NodeRole::Owner } else { NodeRole::Standby },
            rows_behind: newest.saturating_sub(node.catalog.0),
        });
        facts.collect()
    }
}

/// What the account of one slice reads of the others.
pub(super) struct NodeCopies(Vec<Arc<dyn Store>>);

impl SliceCopies for NodeCopies {
    fn copy(&self, slice: u32) -> Option<SliceCopy> {
        let snapshot = self.0.get(slice as usize)?.snapshot();
        // A copy that is being made has no position. One that cannot be read ends the node where it is followed.
        let place = Position::read(&*snapshot).ok()??.place.0;
        Some(SliceCopy { place, snapshot })
    }
}

impl Editions for SlicedNode {
    fn first(&self) -> u64 {
        edition(&self.slices[0])
    }

    fn everywhere(&self) -> u64 {
        self.slices.iter().map(edition).min().unwrap_or(0)
    }

    fn is_adopting(&self, slice: u32) -> bool {
        let slice = self.slices.get(slice as usize);
        slice.is_some_and(|slice| slice.adopting.load(Ordering::SeqCst))
    }
}

/// The edition of the catalog in a copy; 0 where it cannot be read, which whoever follows it finds out.
fn edition(slice: &SliceState) -> u64 {
    Account::edition_of(&*slice.store.snapshot()).unwrap_or(0)
}

/// Hears what becomes of the ownership of one slice.
struct SliceWatcher {
    node: Arc<SlicedNode>,
    number: u32,
}

impl OwnershipWatcher for SliceWatcher {
    fn lost(&self, reason: &str) {
        end(LOST_STATUS, &format!("this node stops, slice {}: {reason}", self.number));
    }

    fn failing(&self, error: &LedgerError) {
        self.node.gauges.ledger_errors.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(%error, slice = self.number, "writes wait for the ledger");
    }

    fn recovered(&self) {
        tracing::warn!(slice = self.number, "the ledger answers again");
    }

    fn reached(&self, place: Place) {
        self.node.slices[self.number as usize].place.store(place.0, Ordering::Release);
    }

    fn is_ending(&self) -> bool {
        self.node.is_stopping()
    }

    fn appended(&self, took: Duration) {
        self.node.gauges.note_append(took);
    }
}

/// Starts the thread of the beats.
pub(super) fn start_beats(node: Arc<SlicedNode>) -> thread::JoinHandle<()> {
    term::spawn("beats", move || {
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

fn beat(node: &SlicedNode) {
    match node.member.beat(node.told_places()) {
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

/// Sees who owns which slice, and tells the fronts.
fn look(node: &SlicedNode) {
    let journals: Vec<_> = node.slices.iter().map(|slice| slice.at).collect();
    match node.member.look_at(&journals) {
        Ok(seen) => {
            balance::consider(node, &seen);
            let own = node.member.incarnation();
            measure(node, &seen);
            if seen.iter().any(|ownership| ownership.is_draining) {
                node.notes.note_draining(true);
            }
            for (number, (slice, ownership)) in (0..).zip(node.slices.iter().zip(seen)) {
                slice.publish(&ownership, own);
                consider_successor(node, (number, slice), &ownership);
                *slice.ownership.lock() = Some(ownership);
            }
        }
        Err(error) => {
            node.gauges.ledger_errors.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(%error, "the other nodes could not be looked at");
        }
    }
    node.gauges.note_lease(node.member.lease().left());
}

/// Begins to hand a slice over, when this node owns it, somebody else shall, and that one says that it is ready ([`SlicedNode::told_places`]).
fn consider_successor(
    node: &SlicedNode,
    (number, slice): (usize, &SliceState),
    ownership: &Ownership,
) {
    let own = node.member.incarnation();
    let is_owner = ownership.owner.as_ref().is_some_and(|owner| owner.incarnation == own);
    if !is_owner || !slice.serving.load(Ordering::Acquire) || node.is_stopping() {
        return;
    }
    let named = ownership.heir.as_ref().filter(|heir| heir.incarnation != own);
    let drained = || {
        let candidates = &ownership.candidates;
        let turn = number.checked_rem(candidates.len())?;
        candidates.get(turn).filter(|_| ownership.is_draining)
    };
    let Some(successor) = named.or_else(drained) else { return };
    if named.is_none() {
        // The next look finds it.
        if let Err(error) = node.member.name_heir_at(slice.at, ownership.epoch, successor) {
            tracing::warn!(%error, "the node that shall own the slice could not be named");
        }
    } else if slice.heir_seen.lock().is_told(ownership.epoch, successor)
        && (successor.catalog.0 > 0 || node.places() == 0)
    {
        // Nobody hears it only when the slice is being handed over already.
        let _ = slice.successors.send(successor.clone());
    }
}

/// Writes down what the metrics tell.
fn measure(node: &SlicedNode, seen: &[Ownership]) {
    let places = node.places();
    let living = seen.first().into_iter().flat_map(|first| first.owner.iter().chain(&first.others));
    let newest = living.map(|node| node.catalog.0).max().unwrap_or(0);
    let owned = node.slices.iter().filter(|slice| slice.serving.load(Ordering::Acquire)).count();
    let set = |gauge: &AtomicU64, value| gauge.store(value, Ordering::Relaxed);
    set(&node.gauges.owned, owned as u64);
    set(&node.gauges.following, (node.slices.len() - owned) as u64);
    set(&node.gauges.place, places);
    set(&node.gauges.lag, newest.saturating_sub(places));
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_storage::MemoryStore;
    use armilla_storage::ledger::{Ledger as _, MemoryLedger, NodeCard};
    use tokio::sync::watch;

    /// A node of two slices, whose copies are complete and at these places.
    fn node(
        ledger: &MemoryLedger,
        name: &str,
        places: [u64; 2],
    ) -> (SlicedNode, Vec<mpsc::Receiver<NodeRow>>) {
        let (address, version) = ("http://127.0.0.1:1".to_owned(), String::new());
        let card = NodeCard { name: name.to_owned(), address, version };
        let lease = Duration::from_secs(60);
        let member = Member::join(Arc::new(ledger.clone()), card, None, lease).unwrap();
        let joined = Joined { member, notes: NodeNotes::default() };
        let copy = || -> (Arc<dyn Store>, OwnerPlaces) {
            (Arc::new(MemoryStore::new()), watch::Sender::new(OwnerPlace::Nobody))
        };
        let (node, told) = SlicedNode::new(joined, vec![copy(), copy()], (Arc::default(), None));
        for (slice, place) in node.slices.iter().zip(places) {
            slice.place.store(place, Ordering::Release);
            slice.is_complete.store(true, Ordering::Release);
        }
        (node, told)
    }

    /// The owner `a` of the second slice, and `b`, which was just named its heir.
    fn owner_and_heir(
        places: [u64; 2],
        heir_places: [u64; 2],
    ) -> (SlicedNode, Vec<mpsc::Receiver<NodeRow>>, SlicedNode) {
        let ledger = MemoryLedger::new();
        let journals = [slice_journal(0), slice_journal(1)];
        journals.iter().for_each(|at| ledger.open(at.home, &[(at.shard, 0)]).unwrap());
        let (a, told) = node(&ledger, "a", places);
        let (b, _) = node(&ledger.another_node(), "b", heir_places);
        ledger.take(journals[1], Epoch(0)).unwrap().unwrap();
        a.slices[1].serve();
        meet(&a, &b, 1);
        let ownership = a.slices[1].ownership.lock().clone().unwrap();
        let heir = ownership.others.first().unwrap();
        assert!(a.member.name_heir_at(journals[1], ownership.epoch, heir).unwrap());
        (a, told, b)
    }

    fn meet(owner: &SlicedNode, heir: &SlicedNode, times: u32) {
        for _ in 0..times {
            for node in [heir, owner] {
                beat(node);
                look(node);
            }
        }
    }

    fn make_ready(heir: &SlicedNode) {
        let epoch = heir.wants_rehearsal(&heir.slices[1]).expect("it is an heir");
        heir.slices[1].rehearsed.store(epoch.0 + 1, Ordering::Release);
    }

    #[test]
    fn a_slice_is_handed_over_when_its_heir_has_made_ready() {
        let (a, told, b) = owner_and_heir([5, 5], [5, 5]);
        meet(&a, &b, 5);
        assert!(told[1].try_recv().is_err(), "it has no indexes yet");
        make_ready(&b);
        meet(&a, &b, 1);
        assert_eq!(told[1].try_recv().unwrap().card.name, "b");
        assert!(told[0].try_recv().is_err());
    }

    #[test]
    fn rows_of_other_slices_do_not_stand_for_a_copy_that_is_being_made() {
        // The owner lags far behind in the first slice, and the heir has nothing of the second.
        let (a, told, b) = owner_and_heir([10, 500], [9_000, 0]);
        b.slices[1].is_complete.store(false, Ordering::Release);
        meet(&a, &b, 3);
        make_ready(&b);
        meet(&a, &b, 3);
        assert!(told[1].try_recv().is_err());
        b.slices[1].place.store(500, Ordering::Release);
        b.slices[1].is_complete.store(true, Ordering::Release);
        meet(&a, &b, 1);
        assert_eq!(told[1].try_recv().unwrap().card.name, "b");
    }

    #[test]
    fn the_lag_of_a_node_is_what_the_newest_one_has_more() {
        let (a, _told, b) = owner_and_heir([5, 5], [2, 0]);
        meet(&b, &a, 1);
        let lag = |node: &SlicedNode| node.gauges.lag.load(Ordering::Relaxed);
        assert_eq!((lag(&a), lag(&b)), (0, 8));
    }
}
