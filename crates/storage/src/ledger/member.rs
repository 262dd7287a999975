//! A node's membership: its name in the ledger, its lease, and its watch over the others.
//!
//! Only one's own monotonic clock is read, and no clock is compared with another one. A node says that it lives by *beats*. It holds its
//! *lease* until three quarters of the lease's length after it sent its last successful beat. Others declare it gone when they have
//! seen its beats unchanged over the whole length, and the eviction excludes a beat that comes in that moment. So whoever takes over can
//! be sure that the lease of the node before has ended; a quarter of it is the margin for clocks that run unevenly.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use armilla_model::clock::monotonic;
use parking_lot::Mutex;

use super::position::ACCOUNT;
use super::{
    Epoch, Incarnation, Ledger, LedgerError, NodeCard, NodeRow, NodeState, Place, ShardAt, ShardRow,
};

/// A node beats so many times in the length of a lease.
const BEATS_IN_LEASE: u32 = 10;
/// So many reads in a row must have seen a node without a beat.
const SILENT_READS_MIN: u32 = 5;

/// The right to answer, which ends by itself.
#[derive(Debug)]
pub struct Lease {
    length: Duration,
    origin: Instant,
    /// Microseconds after the origin; 0 when there never was a beat.
    held_until: AtomicU64,
}

impl Lease {
    /// A lease of this length that is not held.
    #[must_use]
    pub fn new(length: Duration) -> Self {
        Self { length, origin: monotonic(), held_until: AtomicU64::new(0) }
    }

    /// Whether it is held at this moment.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.micros(monotonic()) < self.held_until.load(Ordering::Acquire)
    }

    /// For how long it is still held, if no beat is heard.
    #[must_use]
    pub fn left(&self) -> Duration {
        let until = self.held_until.load(Ordering::Acquire);
        Duration::from_micros(until.saturating_sub(self.micros(monotonic())))
    }

    /// How long it is.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.length
    }

    /// How often a node beats.
    #[must_use]
    pub fn beat_every(&self) -> Duration {
        self.length / BEATS_IN_LEASE
    }

    /// Holds it for three quarters of its length from the moment a successful beat was sent.
    fn renew(&self, sent: Instant) {
        let until = self.micros(sent + self.length * 3 / 4);
        self.held_until.fetch_max(until, Ordering::AcqRel);
    }

    fn micros(&self, moment: Instant) -> u64 {
        u64::try_from(moment.duration_since(self.origin).as_micros()).unwrap_or(u64::MAX)
    }
}

/// Why a node could not join.
#[derive(Debug)]
pub enum JoinError {
    /// The ledger failed.
    Ledger(LedgerError),
    /// A node of this name is up.
    NameTaken {
        /// The name.
        name: String,
        /// Where that node says it is.
        address: String,
    },
}

impl fmt::Display for JoinError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ledger(error) => error.fmt(formatter),
            Self::NameTaken { name, address } => write!(
                formatter,
                "a node of the name '{name}' is up at {address}: stop it, or give this one another --node-name"
            ),
        }
    }
}

impl std::error::Error for JoinError {}

impl From<LedgerError> for JoinError {
    fn from(error: LedgerError) -> Self {
        Self::Ledger(error)
    }
}

/// What became of a beat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Beat {
    /// The lease goes on.
    Heard,
    /// This incarnation was evicted: the process must answer nothing more.
    Gone,
    /// Nobody knows.
    Unknown(LedgerError),
}

/// Who owns the account, as the ledger says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ownership {
    /// The present epoch.
    pub epoch: Epoch,
    /// The owner, if it lives.
    pub owner: Option<NodeRow>,
    /// The other nodes that live.
    pub others: Vec<NodeRow>,
    /// The node that shall own it next, if one was named and that life of it takes part.
    pub heir: Option<NodeRow>,
    /// Whether this node is being drained.
    pub is_draining: bool,
    /// The nodes other than this one that may own the account, the one whose copy is newest first.
    pub candidates: Vec<NodeRow>,
}

impl Ownership {
    /// Whom the owner, this node, shall hand the account to: who was named, or, when this node is drained, the best of the others.
    #[must_use]
    pub fn successor(&self, own: Incarnation) -> Option<&NodeRow> {
        let named = self.heir.as_ref().filter(|heir| heir.incarnation != own);
        named.or_else(|| if self.is_draining { self.candidates.first() } else { None })
    }

    /// Whether the account is to change its owner.
    #[must_use]
    pub fn is_moving(&self) -> bool {
        let owner = self.owner.as_ref().map(|owner| owner.incarnation);
        self.heir.as_ref().is_some_and(|heir| owner != Some(heir.incarnation))
    }
}

/// A node that has joined.
pub struct Member {
    ledger: Arc<dyn Ledger>,
    card: NodeCard,
    incarnation: Incarnation,
    lease: Arc<Lease>,
    watch: Mutex<SilenceWatch>,
}

impl Member {
    /// Joins. `before` is the incarnation that the data folder remembers: its process is dead, because this one has the folder. Another
    /// node of the same name is waited for over the length of a lease.
    ///
    /// # Errors
    ///
    /// [`JoinError`].
    pub fn join(
        ledger: Arc<dyn Ledger>,
        card: NodeCard,
        before: Option<Incarnation>,
        lease: Duration,
    ) -> Result<Self, JoinError> {
        let lease = Arc::new(Lease::new(lease));
        let mut watch = SilenceWatch::new(lease.length);
        let started = monotonic();
        // A node that starts again by itself is still what the operator wanted it to be.
        let mut is_draining = false;
        let incarnation = loop {
            let sent = monotonic();
            if let Some(incarnation) = ledger.join(&card)? {
                lease.renew(sent);
                break incarnation;
            }
            let nodes = ledger.nodes()?;
            let namesake = nodes.iter().find(|node| node.card.name == card.name);
            let Some(namesake) = namesake.filter(|node| node.state != NodeState::Gone) else {
                continue;
            };
            let is_own = before == Some(namesake.incarnation);
            let is_silent = watch.see(&nodes).iter().any(|node| node.card.name == card.name);
            if is_own || is_silent {
                is_draining = is_own && namesake.state == NodeState::Draining;
                ledger.evict(namesake)?;
                continue;
            }
            if started.elapsed() > lease.length * 2 {
                let (name, address) = (card.name, namesake.card.address.clone());
                return Err(JoinError::NameTaken { name, address });
            }
            thread::sleep(lease.beat_every());
        };
        let watch = Mutex::new(SilenceWatch::new(lease.length));
        let member = Self { ledger, card, incarnation, watch, lease };
        if is_draining {
            member.drain()?;
        }
        Ok(member)
    }

    /// Takes no part from now on, as an operator wanted of a life of this node before.
    ///
    /// # Errors
    ///
    /// When the ledger fails.
    pub fn drain(&self) -> Result<(), LedgerError> {
        let nodes = self.ledger.nodes()?;
        let own = nodes.iter().find(|node| node.incarnation == self.incarnation);
        own.map_or(Ok(false), |own| self.ledger.drain(own)).map(drop)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.card.name
    }

    /// This life of it.
    #[must_use]
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Its right to answer.
    #[must_use]
    pub fn lease(&self) -> &Arc<Lease> {
        &self.lease
    }

    /// Says that this node lives, and how far its copy is.
    #[must_use]
    pub fn beat(&self, place: Place) -> Beat {
        let sent = monotonic();
        match self.ledger.beat(place) {
            Ok(Some(_)) => {
                self.lease.renew(sent);
                Beat::Heard
            }
            Ok(None) => Beat::Gone,
            Err(error) => Beat::Unknown(error),
        }
    }

    /// Looks at the others, evicts who has been silent for too long, and says who owns the account.
    ///
    /// # Errors
    ///
    /// When the ledger fails; the watch begins anew then, because who cannot read cannot tell who is silent.
    pub fn look(&self) -> Result<Ownership, LedgerError> {
        let mut looked = self.look_at(&[ACCOUNT])?;
        looked.pop().ok_or_else(|| LedgerError::Damage("it has no journal".into()))
    }

    /// As [`Member::look`], for several journals: one answer each, in their order.
    ///
    /// # Errors
    ///
    /// As [`Member::look`].
    pub fn look_at(&self, journals: &[ShardAt]) -> Result<Vec<Ownership>, LedgerError> {
        let looked = self.look_once(journals);
        if looked.is_err() {
            self.watch.lock().begin_anew();
        }
        looked
    }

    fn look_once(&self, journals: &[ShardAt]) -> Result<Vec<Ownership>, LedgerError> {
        let mut nodes = self.ledger.nodes()?;
        let silent = self.watch.lock().see(&nodes);
        for node in silent.iter().filter(|node| node.incarnation != self.incarnation) {
            if self.ledger.evict(node)? {
                nodes.retain(|other| other.incarnation != node.incarnation);
            }
        }
        let shards = self.ledger.shards()?;
        nodes.retain(|node| node.state != NodeState::Gone);
        let ownership = |at: &ShardAt| {
            let row = shards.iter().find(|row| row.at == *at);
            let row = row.ok_or_else(|| LedgerError::Damage("it has no journal".into()))?;
            Ok(self.ownership(row, nodes.clone()))
        };
        journals.iter().map(ownership).collect()
    }

    /// What a journal's row says, given the nodes that live.
    fn ownership(&self, row: &ShardRow, mut nodes: Vec<NodeRow>) -> Ownership {
        let is_owner = |node: &NodeRow| {
            let life = (node.card.name.clone(), node.incarnation);
            row.owner.as_ref() == Some(&life)
        };
        let (owner, others) = nodes.iter().cloned().partition::<Vec<_>, _>(is_owner);
        let owner = owner.into_iter().next();
        let is_own = |node: &NodeRow| node.incarnation == self.incarnation;
        let is_draining =
            nodes.iter().any(|node| is_own(node) && node.state == NodeState::Draining);
        nodes.retain(|node| node.state == NodeState::Up);
        let is_heir = |node: &&NodeRow| {
            row.heir.as_ref() == Some(&(node.card.name.clone(), node.incarnation))
        };
        let heir = nodes.iter().find(is_heir).cloned();
        nodes.retain(|node| !is_own(node));
        nodes.sort_by_key(|node| std::cmp::Reverse(node.catalog));
        let candidates = nodes;
        Ownership { epoch: row.epoch, owner, others, heir, is_draining, candidates }
    }

    /// Says who shall own the account next, if `epoch` is still its epoch.
    ///
    /// # Errors
    ///
    /// When the ledger fails.
    pub fn name_heir(&self, epoch: Epoch, heir: &NodeRow) -> Result<bool, LedgerError> {
        self.name_heir_at(ACCOUNT, epoch, heir)
    }

    /// Says who shall own a journal next, if `epoch` is still its epoch.
    ///
    /// # Errors
    ///
    /// When the ledger fails.
    pub fn name_heir_at(
        &self,
        at: ShardAt,
        epoch: Epoch,
        heir: &NodeRow,
    ) -> Result<bool, LedgerError> {
        self.ledger.name_heir(at, epoch, heir)
    }

    /// Leaves: others need not wait for the end of the lease. Beats must have ended.
    ///
    /// # Errors
    ///
    /// When the ledger fails; this node is evicted after its lease then.
    pub fn leave(&self) -> Result<(), LedgerError> {
        let nodes = self.ledger.nodes()?;
        let own = nodes.iter().find(|node| node.incarnation == self.incarnation);
        if let Some(own) = own.filter(|own| own.state != NodeState::Gone) {
            self.ledger.evict(own)?;
        }
        Ok(())
    }
}

/// Since when each node is silent.
struct SilenceWatch {
    length: Duration,
    seen: HashMap<String, SeenNode>,
}

struct SeenNode {
    incarnation: Incarnation,
    beats: u64,
    since: Instant,
    reads: u32,
}

impl SilenceWatch {
    fn new(length: Duration) -> Self {
        Self { length, seen: HashMap::new() }
    }

    fn begin_anew(&mut self) {
        self.seen.clear();
    }

    /// Notes what was read; answers who has been silent over the whole length of a lease.
    fn see(&mut self, nodes: &[NodeRow]) -> Vec<NodeRow> {
        let now = monotonic();
        let mut silent = Vec::new();
        for node in nodes.iter().filter(|node| node.state != NodeState::Gone) {
            let life = (node.incarnation, node.beats);
            let seen = self.seen.entry(node.card.name.clone());
            let fresh = || SeenNode { incarnation: life.0, beats: life.1, since: now, reads: 0 };
            let seen = seen.or_insert_with(fresh);
            if (seen.incarnation, seen.beats) != life {
                *seen = fresh();
            }
            seen.reads += 1;
            let is_long = now.duration_since(seen.since) >= self.length;
            if is_long && seen.reads > SILENT_READS_MIN {
                silent.push(node.clone());
            }
        }
        silent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_by_itself_before_others_may_act() {
        let lease = Lease::new(Duration::from_millis(80));
        assert!(!lease.is_held(), "nobody has beaten");
        let sent = monotonic();
        lease.renew(sent);
        assert!(lease.is_held());
        while lease.is_held() {
            // Pause: until the lease ends, which is what is looked at.
            thread::sleep(Duration::from_millis(1));
        }
        let held = sent.elapsed();
        assert!(held >= Duration::from_millis(60), "{held:?}");
        lease.renew(sent);
        assert!(!lease.is_held(), "an old beat that is heard late brings nothing back");
    }

    fn node(beats: u64) -> NodeRow {
        let card = NodeCard { name: "a".into(), address: String::new(), version: String::new() };
        let (incarnation, state) = (Incarnation(1), NodeState::Up);
        NodeRow { card, incarnation, beats, state, catalog: Place(0) }
    }

    #[test]
    fn who_is_silent_for_a_lease_is_told_and_a_failed_read_begins_anew() {
        let length = Duration::from_millis(20);
        let mut watch = SilenceWatch::new(length);
        for _ in 0..SILENT_READS_MIN {
            assert!(watch.see(&[node(1)]).is_empty());
        }
        // Pause: a lease of silence is what is tried.
        thread::sleep(length);
        assert!(watch.see(&[node(2)]).is_empty(), "it has beaten");
        // Pause: and another one.
        thread::sleep(length);
        for _ in 0..SILENT_READS_MIN - 1 {
            assert!(watch.see(&[node(2)]).is_empty(), "too few reads");
        }
        assert_eq!(watch.see(&[node(2)]).len(), 1);
        watch.begin_anew();
        assert!(watch.see(&[node(2)]).is_empty());
    }
}
