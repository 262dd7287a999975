//! The store of an owner and the copies that follow it, over a ledger that fails in every way it may: nothing acknowledged is ever missing, nothing
//! that was refused appears, and every copy is exactly the owner's state.
#![allow(clippy::unwrap_used, reason = "every function here is part of a test")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use armilla_storage::ledger::{
    ACCOUNT, Entry, Epoch, Followed, Home, Incarnation, JournalRow, KeyStates, Ledger, LedgerError,
    LedgerStore, Member, MemoryLedger, NodeCard, NodeRow, OwnershipWatcher, Place, Position,
    Replica, ReplicaError, Reshape, Shard, ShardAt, ShardRow, Taken, Verdict,
};
use armilla_storage::{
    Batch, Direction, Durability, KeyRange, Keyspace, MemoryStore, Snapshot, Store, StoreError,
    StoreStats,
};
use bytes::Bytes;
use parking_lot::Mutex;

const RETENTION: Duration = Duration::from_millis(1);

/// A ledger whose answers are lost, before or after it did what it was asked.
struct Flaky {
    inner: MemoryLedger,
    random: Mutex<fastrand::Rng>,
    /// Of a hundred calls, so many fail.
    percent: AtomicUsize,
    /// So many of the next folds are not done.
    folds_lost: AtomicUsize,
    /// Rows are not taken, as by a database whose disk is full; all else works.
    takes_no_rows: AtomicBool,
    /// How often rows were sent.
    sent: AtomicUsize,
    /// What the journal is read as.
    reading: Mutex<Reading>,
}

#[derive(Clone, Copy, Default)]
enum Reading {
    #[default]
    Works,
    /// Its rows are gone.
    Empty,
    Unreachable,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Works,
    /// Nothing is done, and that is told.
    Unreachable,
    /// Nothing is done, and nobody knows.
    LostBefore,
    /// It is done, and nobody knows.
    LostAfter,
}

impl Flaky {
    fn new(inner: MemoryLedger, seed: u64) -> Arc<Self> {
        let random = Mutex::new(fastrand::Rng::with_seed(seed));
        Arc::new(Self {
            inner,
            random,
            percent: AtomicUsize::new(0),
            folds_lost: AtomicUsize::new(0),
            takes_no_rows: AtomicBool::new(false),
            sent: AtomicUsize::new(0),
            reading: Mutex::default(),
        })
    }

    fn fate(&self) -> Fate {
        let mut random = self.random.lock();
        if random.usize(0..100) >= self.percent.load(Ordering::Relaxed) {
            return Fate::Works;
        }
        [Fate::Unreachable, Fate::LostBefore, Fate::LostAfter][random.usize(0..3)]
    }

    fn meet<T>(&self, act: impl FnOnce() -> Result<T, LedgerError>) -> Result<T, LedgerError> {
        let lost = || Err(LedgerError::OutcomeUnknown("test".into()));
        match self.fate() {
            Fate::Works => act(),
            Fate::Unreachable => Err(LedgerError::Unreachable("test".into())),
            Fate::LostBefore => lost(),
            Fate::LostAfter => act().and_then(|_| lost()),
        }
    }
}

impl Ledger for Flaky {
    fn join(&self, node: &NodeCard) -> Result<Option<Incarnation>, LedgerError> {
        self.inner.join(node)
    }

    fn me(&self) -> Option<(String, Incarnation)> {
        self.inner.me()
    }

    fn beat(&self, catalog: Place) -> Result<Option<u64>, LedgerError> {
        self.inner.beat(catalog)
    }

    fn nodes(&self) -> Result<Vec<NodeRow>, LedgerError> {
        self.inner.nodes()
    }

    fn evict(&self, node: &NodeRow) -> Result<bool, LedgerError> {
        self.inner.evict(node)
    }

    fn drain(&self, node: &NodeRow) -> Result<bool, LedgerError> {
        self.inner.drain(node)
    }

    fn forget(&self, node: &NodeRow) -> Result<bool, LedgerError> {
        self.inner.forget(node)
    }

    fn name_heir(&self, at: ShardAt, epoch: Epoch, heir: &NodeRow) -> Result<bool, LedgerError> {
        self.inner.name_heir(at, epoch, heir)
    }

    fn shards(&self) -> Result<Vec<ShardRow>, LedgerError> {
        self.meet(|| self.inner.shards()).map_err(|_| LedgerError::Unreachable("test".into()))
    }

    fn open(&self, home: Home, shards: &[(Shard, u64)]) -> Result<(), LedgerError> {
        self.inner.open(home, shards)
    }

    fn drop_shards(&self, home: Home, shards: &[Shard]) -> Result<(), LedgerError> {
        self.inner.drop_shards(home, shards)
    }

    fn take(&self, shard: ShardAt, seen: Epoch) -> Result<Option<Taken>, LedgerError> {
        self.meet(|| self.inner.take(shard, seen))
    }

    fn release(&self, shard: ShardAt, epoch: Epoch) -> Result<bool, LedgerError> {
        self.inner.release(shard, epoch)
    }

    fn append(&self, entries: &[Entry]) -> Result<Vec<Verdict>, LedgerError> {
        self.sent.fetch_add(1, Ordering::SeqCst);
        if self.takes_no_rows.load(Ordering::SeqCst) {
            return Err(LedgerError::OutcomeUnknown("permission denied (42501)".into()));
        }
        self.meet(|| self.inner.append(entries))
    }

    fn fold(&self, shard: ShardAt, epoch: Epoch, states: KeyStates) -> Result<bool, LedgerError> {
        let one_less = |left: usize| left.checked_sub(1);
        if self.folds_lost.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok() {
            return Err(LedgerError::Unreachable("test".into()));
        }
        self.meet(|| self.inner.fold(shard, epoch, states))
    }

    fn cut(&self, shard: ShardAt, epoch: Epoch, upto: Place) -> Result<u64, LedgerError> {
        self.inner.cut(shard, epoch, upto)
    }

    fn reshape(&self, reshape: Reshape) -> Result<bool, LedgerError> {
        self.inner.reshape(reshape)
    }

    fn journal(
        &self,
        after: &[(ShardAt, Place)],
        bytes_max: usize,
    ) -> Result<Vec<JournalRow>, LedgerError> {
        match *self.reading.lock() {
            Reading::Works => self.inner.journal(after, bytes_max),
            Reading::Empty => Ok(Vec::new()),
            Reading::Unreachable => Err(LedgerError::Unreachable("test".into())),
        }
    }

    fn base(
        &self,
        home: Home,
        space: Keyspace,
        range: &KeyRange,
        rows: usize,
    ) -> Result<Vec<(Vec<u8>, Bytes)>, LedgerError> {
        self.inner.base(home, space, range, rows.min(3))
    }

    fn reserve(&self, name: &str, many: u64) -> Result<u64, LedgerError> {
        self.inner.reserve(name, many)
    }
}

#[derive(Default)]
struct Ears {
    lost: AtomicBool,
    ending: AtomicBool,
}

impl OwnershipWatcher for Ears {
    fn lost(&self, _reason: &str) {
        self.lost.store(true, Ordering::Relaxed);
    }

    fn failing(&self, _error: &LedgerError) {}

    fn recovered(&self) {}

    fn reached(&self, _place: Place) {}

    fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }
}

/// A node: its member, its local store, and who hears of its losses.
struct Node {
    ledger: Arc<Flaky>,
    member: Member,
    local: Arc<MemoryStore>,
    ears: Arc<Ears>,
}

fn card(name: &str) -> NodeCard {
    NodeCard { name: name.into(), address: format!("http://{name}"), version: "1".into() }
}

impl Node {
    fn join(tables: &MemoryLedger, name: &str, seed: u64) -> Self {
        Self::join_with(tables, name, seed, Arc::new(MemoryStore::new()))
    }

    fn join_with(tables: &MemoryLedger, name: &str, seed: u64, local: Arc<MemoryStore>) -> Self {
        let ledger = Flaky::new(tables.another_node(), seed);
        ledger.open(ACCOUNT.home, &[(ACCOUNT.shard, 0)]).unwrap();
        let lease = Duration::from_secs(10);
        let member = Member::join(ledger.clone(), card(name), None, lease).unwrap();
        Self { ledger, member, local, ears: Arc::default() }
    }

    fn replica(&self) -> Replica {
        Replica::new(self.local.clone(), self.ledger.clone()).unwrap()
    }

    /// Owns the account, whatever it takes.
    fn own(&self) -> LedgerStore {
        let mut replica = self.replica();
        loop {
            let Ok(ownership) = self.member.look() else { continue };
            match replica.take(ownership.epoch, RETENTION, self.ears.clone()) {
                Ok(store) => return store,
                Err((again, None | Some(ReplicaError::Ledger(_)))) => replica = again,
                Err((_, Some(error))) => panic!("{error}"),
            }
        }
    }

    /// Declares another node gone.
    fn evict(&self, name: &str) {
        let nodes = self.ledger.nodes().unwrap();
        let node = nodes.iter().find(|node| node.card.name == name).unwrap();
        assert!(self.ledger.evict(node).unwrap());
    }

    /// Follows to the end.
    fn follow(&self) -> Position {
        let mut replica = self.replica();
        loop {
            match replica.follow() {
                Ok(Followed::UpToDate) => return replica.position().unwrap(),
                Ok(Followed::Behind | Followed::Outrun) | Err(ReplicaError::Ledger(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

type State = BTreeMap<(Keyspace, Vec<u8>), Bytes>;

/// What a store holds, but for its position.
fn content(snapshot: &dyn Snapshot) -> State {
    let mut state = State::new();
    for keyspace in Keyspace::ALL {
        let page =
            snapshot.page(keyspace, &KeyRange::all(), Direction::Forward, usize::MAX).unwrap();
        state.extend(page.into_iter().map(|(key, value)| ((keyspace, key), value)));
    }
    state.remove(&(Keyspace::Meta, b"!".to_vec()));
    state
}

/// A random batch, applied to the model too.
fn write(random: &mut fastrand::Rng, model: &mut State) -> Batch {
    let mut batch = Batch::new();
    for _ in 0..random.usize(1..5) {
        let keyspace = Keyspace::ALL[random.usize(0..Keyspace::ALL.len())];
        let key = format!("k{}", random.u32(0..20)).into_bytes();
        if random.u32(0..4) == 0 {
            batch.delete(keyspace, key.clone());
            model.remove(&(keyspace, key));
        } else {
            let value = Bytes::from(format!("v{}", random.u64(..)));
            batch.put(keyspace, key.clone(), value.clone());
            model.insert((keyspace, key), value);
        }
    }
    batch
}

/// Owners come and go while answers are lost: each finds exactly what was acknowledged, and so does whoever follows or copies anew.
#[test]
fn owners_and_copies_agree_whatever_the_ledger_loses() {
    for seed in 0..12 {
        let mut random = fastrand::Rng::with_seed(seed);
        let tables = MemoryLedger::new();
        let mut model = State::new();
        let follower = Node::join(&tables, "follower", seed);
        let mut before: Option<Node> = None;
        for round in 0..5 {
            let name = format!("owner{round}");
            let node = Node::join(&tables, &name, seed * 100 + round);
            if let Some(before) = &before {
                node.evict(before.member.name());
            }
            node.ledger.percent.store(random.usize(0..40), Ordering::Relaxed);
            let store = node.own();
            assert_eq!(content(&*store.snapshot()), model, "seed {seed}, round {round}");
            for _ in 0..random.usize(1..30) {
                let batch = write(&mut random, &mut model);
                store.commit(batch, Durability::Synced).unwrap();
                if random.u32(0..6) == 0 {
                    follower.follow();
                    assert_eq!(content(&*follower.local.snapshot()), model, "seed {seed}");
                }
            }
            assert!(!node.ears.lost.load(Ordering::Relaxed));
            if random.bool() {
                // A clean stop folds what it can and gives the account up.
                store.close().unwrap();
            }
            let copier = Node::join(&tables, &format!("copier{round}"), seed);
            let position = copier.follow();
            assert_eq!(position, Position::read(&*node.local.snapshot()).unwrap().unwrap());
            assert_eq!(content(&*copier.local.snapshot()), model, "seed {seed}, copy");
            before = Some(node);
        }
    }
}

/// A fold that failed is made again, and the last of what was written since counts.
#[test]
fn states_of_a_fold_that_failed_give_way_to_later_rows() {
    let tables = MemoryLedger::new();
    let node = Node::join(&tables, "owner", 1);
    let store = node.own();
    node.ledger.folds_lost.store(1, Ordering::SeqCst);
    // So many bytes are folded at once, without a wait for the next second.
    let large = Bytes::from(vec![1; 9 << 20]);
    let mut first = Batch::new();
    first.put(Keyspace::Items, b"replaced".to_vec(), large);
    first.put(Keyspace::Items, b"deleted".to_vec(), Bytes::from_static(b"old"));
    first.put(Keyspace::Items, b"kept".to_vec(), Bytes::from_static(b"old"));
    store.commit(first, Durability::Synced).unwrap();
    while node.ledger.folds_lost.load(Ordering::SeqCst) > 0 {
        std::thread::yield_now();
    }
    let mut second = Batch::new();
    second.put(Keyspace::Items, b"replaced".to_vec(), Bytes::from_static(b"older"));
    second.delete(Keyspace::Items, b"deleted".to_vec());
    store.commit(second, Durability::Synced).unwrap();
    let mut third = Batch::new();
    third.put(Keyspace::Items, b"replaced".to_vec(), Bytes::from_static(b"new"));
    store.commit(third, Durability::Synced).unwrap();
    store.close().unwrap();
    let base = tables.base(ACCOUNT.home, Keyspace::Items, &KeyRange::all(), usize::MAX).unwrap();
    let expected = [("kept", "old"), ("replaced", "new")]
        .map(|(key, value)| (key.as_bytes().to_vec(), Bytes::from_static(value.as_bytes())));
    assert_eq!(base, expected);
}

#[test]
fn an_owner_that_was_evicted_writes_nothing_and_is_told() {
    let tables = MemoryLedger::new();
    let old = Node::join(&tables, "old", 1);
    let store = old.own();
    let (mut random, mut model) = (fastrand::Rng::with_seed(1), State::new());
    store.commit(write(&mut random, &mut model), Durability::Synced).unwrap();
    let new = Node::join(&tables, "new", 2);
    new.evict("old");
    let taken = new.own();
    let refused = write(&mut random, &mut model.clone());
    assert!(store.commit(refused, Durability::Synced).is_err());
    assert!(old.ears.lost.load(Ordering::Relaxed));
    assert_eq!(content(&*old.local.snapshot()), model, "nothing is applied that was not accepted");
    assert_eq!(content(&*taken.snapshot()), model);
    assert_eq!(old.member.beat(Place(0)), armilla_storage::ledger::Beat::Gone);
}

#[test]
fn a_released_account_is_taken_at_once_and_nobody_takes_one_that_is_owned() {
    let tables = MemoryLedger::new();
    let (a, b) = (Node::join(&tables, "a", 1), Node::join(&tables, "b", 2));
    let store = a.own();
    let ownership = b.member.look().unwrap();
    assert_eq!(ownership.owner.unwrap().card.name, "a");
    let refused = b.replica().take(ownership.epoch, RETENTION, b.ears.clone());
    assert!(matches!(refused, Err((_, None))));
    store.close().unwrap();
    a.member.leave().unwrap();
    let ownership = b.member.look().unwrap();
    assert_eq!(ownership.owner, None);
    assert!(b.replica().take(ownership.epoch, RETENTION, b.ears.clone()).is_ok());
}

#[test]
fn an_owner_knows_its_successor_and_a_drained_node_stays_drained_when_it_starts_again() {
    let tables = MemoryLedger::new();
    let [a, b, c] = ["a", "b", "c"].map(|name| Node::join(&tables, name, 1));
    let _store = a.own();
    let own = a.member.incarnation();
    let row = |name: &str| {
        a.ledger.nodes().unwrap().into_iter().find(|node| node.card.name == name).unwrap()
    };
    let name = |node: Option<&NodeRow>| node.map(|node| node.card.name.clone());
    let seen = a.member.look().unwrap();
    assert!(seen.successor(own).is_none() && !seen.is_moving());
    assert!(a.member.name_heir(seen.epoch, &row("b")).unwrap());
    let seen = c.member.look().unwrap();
    assert!(seen.is_moving());
    assert_eq!(name(a.member.look().unwrap().successor(own)).as_deref(), Some("b"));
    a.ledger.drain(&row("b")).unwrap();
    assert!(a.member.look().unwrap().successor(own).is_none(), "it takes no part");
    // Who is drained itself hands over to the newest copy of those that take part.
    assert_eq!(c.member.beat(Place(0)), armilla_storage::ledger::Beat::Heard);
    a.ledger.drain(&row("a")).unwrap();
    let seen = a.member.look().unwrap();
    assert_eq!(name(seen.successor(own)).as_deref(), Some("c"));
    assert!(seen.is_draining);
    let again = Member::join(
        Flaky::new(tables.another_node(), 2),
        card("b"),
        Some(b.member.incarnation()),
        Duration::from_secs(10),
    );
    assert!(again.unwrap().look().unwrap().is_draining, "it has only started again");
    b.ledger.evict(&row("b")).unwrap();
    let anew = Node::join(&tables, "b", 3);
    assert!(!anew.member.look().unwrap().is_draining, "it had left");
}

#[test]
fn a_row_that_is_never_taken_is_sent_with_pauses_and_given_up_when_the_node_stops() {
    let tables = MemoryLedger::new();
    let node = Node::join(&tables, "a", 1);
    let store = node.own();
    let (mut random, mut model) = (fastrand::Rng::with_seed(1), State::new());
    node.ledger.takes_no_rows.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let first = write(&mut random, &mut model);
        let writing = scope.spawn(|| store.commit(first, Durability::Synced));
        // Pause: in so long a row without pauses would be sent thousands of times.
        std::thread::sleep(Duration::from_millis(300));
        let sent = node.ledger.sent.load(Ordering::SeqCst);
        node.ledger.takes_no_rows.store(false, Ordering::SeqCst);
        writing.join().unwrap().unwrap();
        assert!((2..30).contains(&sent), "sent {sent} times");
        node.ledger.takes_no_rows.store(true, Ordering::SeqCst);
        let second = write(&mut random, &mut model.clone());
        let (send, ended) = std::sync::mpsc::channel();
        let store = &store;
        scope.spawn(move || send.send(store.commit(second, Durability::Synced)));
        store.end_waits();
        let ended = ended.recv_timeout(Duration::from_secs(10));
        // Whoever still tries comes to an end.
        node.ledger.takes_no_rows.store(false, Ordering::SeqCst);
        assert!(ended.unwrap().is_err());
    });
    assert!(node.ears.lost.load(Ordering::Relaxed));
    assert_eq!(content(&*node.local.snapshot()), model, "nothing is applied that was not accepted");
}

#[test]
fn a_transaction_that_a_statement_has_no_time_for_is_not_taken() {
    const LARGE: usize = 70 << 20;
    let tables = MemoryLedger::new();
    let node = Node::join(&tables, "a", 1);
    let store = node.own();
    let batch = |value: Vec<u8>| {
        let mut batch = Batch::new();
        batch.put(Keyspace::Items, b"key".to_vec(), value);
        batch
    };
    assert!(store.takes(&batch(vec![7; LARGE])), "it is short once it is compressed");
    let mut noise = vec![0; LARGE];
    fastrand::Rng::with_seed(1).fill(&mut noise);
    assert!(store.takes(&batch(noise[..LARGE / 2].to_vec())));
    assert!(!store.takes(&batch(noise)));
    let mut long = Batch::new();
    for number in 0..9u8 {
        long.put(Keyspace::Items, vec![b'k', number], vec![7; LARGE]);
    }
    assert!(!store.takes(&long), "followers would hold it whole");
}

/// A database that lost rows is not followed, by nobody who knows better.
#[test]
fn a_copy_that_knows_more_than_the_ledger_refuses() {
    let tables = MemoryLedger::new();
    let a = Node::join(&tables, "a", 1);
    let store = a.own();
    let (mut random, mut model) = (fastrand::Rng::with_seed(1), State::new());
    for _ in 0..3 {
        store.commit(write(&mut random, &mut model), Durability::Synced).unwrap();
    }
    // The same nodes meet another database, where one row less was written.
    let lost = MemoryLedger::new();
    let shorter = Node::join(&lost, "a", 1);
    let store = shorter.own();
    let (mut random, mut model) = (fastrand::Rng::with_seed(1), State::new());
    for _ in 0..2 {
        store.commit(write(&mut random, &mut model), Durability::Synced).unwrap();
    }
    let wiser = Node::join_with(&lost, "wiser", 2, a.local.clone());
    wiser.evict("a");
    let epoch = wiser.member.look().unwrap().epoch;
    let refused = wiser.replica().take(epoch, RETENTION, wiser.ears.clone());
    assert!(matches!(
        refused,
        Err((_, Some(ReplicaError::Ahead { copy: Place(3), ledger: Place(2) })))
    ));
}

/// Rows that were cut before a follower read them: it copies anew.
#[test]
fn a_follower_that_missed_rows_copies_anew() {
    let tables = MemoryLedger::new();
    let (owner, follower) = (Node::join(&tables, "a", 1), Node::join(&tables, "b", 2));
    let store = owner.own();
    let (mut random, mut model) = (fastrand::Rng::with_seed(1), State::new());
    store.commit(write(&mut random, &mut model), Durability::Synced).unwrap();
    follower.follow();
    for _ in 0..5 {
        store.commit(write(&mut random, &mut model), Durability::Synced).unwrap();
    }
    store.close().unwrap();
    owner.member.leave().unwrap();
    let next = Node::join(&tables, "c", 3);
    let epoch = next.member.look().unwrap().epoch;
    let taken = next.ledger.take(ACCOUNT, epoch).unwrap().unwrap();
    assert_eq!(next.ledger.cut(ACCOUNT, taken.epoch, taken.folded).unwrap(), taken.folded.0);
    assert_eq!(follower.replica().follow().unwrap(), Followed::Outrun, "and that is told");
    follower.follow();
    assert_eq!(content(&*follower.local.snapshot()), model);
}

/// Rows that vanish while a node takes the account, and a ledger that is away then: the take ends.
#[test]
fn a_take_waits_for_no_rows_that_are_gone_and_for_nothing_when_the_node_stops() {
    let tables = MemoryLedger::new();
    let owner = Node::join(&tables, "a", 1);
    owner.ledger.folds_lost.store(usize::MAX, Ordering::SeqCst);
    let store = owner.own();
    let (mut random, mut model) = (fastrand::Rng::with_seed(1), State::new());
    for _ in 0..3 {
        store.commit(write(&mut random, &mut model), Durability::Synced).unwrap();
    }
    store.give_up();
    owner.evict("a");
    // What the next owner knows, and whether it has all rows that are not folded.
    for (name, follows) in [("knows nothing", false), ("knows all", true)] {
        let node = Node::join(&tables, name, 2);
        let mut replica = node.replica();
        while follows && replica.follow().unwrap() != Followed::UpToDate {}
        *node.ledger.reading.lock() = Reading::Empty;
        let epoch = node.member.look().unwrap().epoch;
        let (replica, error) = replica.take(epoch, RETENTION, node.ears.clone()).err().unwrap();
        let error = error.unwrap().to_string();
        assert!(error.contains("the journal lacks place 1"), "{name}: {error}");
        *node.ledger.reading.lock() = Reading::Unreachable;
        let epoch = node.member.look().unwrap().epoch;
        let ears = node.ears.clone();
        let (send, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || send.send(replica.take(epoch, RETENTION, ears).err()));
        node.ears.ending.store(true, Ordering::Relaxed);
        let (_, error) = ended.recv_timeout(Duration::from_secs(10)).unwrap().unwrap();
        assert!(matches!(error, Some(ReplicaError::Ledger(LedgerError::Unreachable(_)))));
        node.evict(name);
    }
}

/// A local store on a disk that fails.
struct Full(MemoryStore);

impl Store for Full {
    fn snapshot(&self) -> Arc<dyn Snapshot> {
        self.0.snapshot()
    }

    fn commit(&self, _batch: Batch, _durability: Durability) -> Result<(), StoreError> {
        Err(StoreError::io("commit", std::io::Error::other("the disk is full")))
    }

    fn close(&self) -> Result<(), StoreError> {
        self.0.close()
    }

    fn stats(&self) -> StoreStats {
        self.0.stats()
    }
}

/// Pages of the base are read ahead; a copy of several pages is whole, and one that cannot be applied ends all the same.
#[test]
fn a_copy_of_many_pages_is_whole_and_ends_when_the_store_fails() {
    const ROWS: u32 = 22_000;
    let tables = MemoryLedger::new();
    let owner = Node::join(&tables, "a", 1);
    let epoch = owner.member.look().unwrap().epoch;
    let taken = owner.ledger.take(ACCOUNT, epoch).unwrap().unwrap();
    let mut model = State::new();
    for number in 0..ROWS {
        let space = if number % 3 == 0 { Keyspace::Feed } else { Keyspace::Items };
        let value = Bytes::from(number.to_le_bytes().to_vec());
        model.insert((space, number.to_be_bytes().to_vec()), value);
    }
    let keys = model.iter().map(|((space, key), value)| (*space, key.clone(), Some(value.clone())));
    let states = KeyStates { upto: taken.place, lsn: taken.lsn, keys: keys.collect() };
    assert!(owner.ledger.fold(ACCOUNT, taken.epoch, states).unwrap());
    let other = Node::join(&tables, "b", 2);
    other.follow();
    assert_eq!(content(&*other.local.snapshot()), model);
    let full = Arc::new(Full(MemoryStore::new()));
    let mut replica = Replica::new(full, other.ledger.clone()).unwrap();
    assert!(matches!(replica.follow(), Err(ReplicaError::Store(_))));
    assert_eq!(replica.position(), None);
}
