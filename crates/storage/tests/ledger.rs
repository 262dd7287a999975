//! What a ledger promises, tried by four nodes that do as they please, against a plain model.
//!
//! The same test runs on the ledger in memory and, where `ARMILLA_TEST_STORE` names an empty database of a PostgreSQL, on that.
#![allow(clippy::unwrap_used, reason = "every function here is part of a test")]

#[path = "ledger/model.rs"]
mod model;

use armilla_storage::ledger::{
    Chain, Entry, Epoch, Home, Incarnation, KeyStates, Ledger, LedgerError, MemoryLedger, NodeCard,
    NodeRow, NodeState, Place, PostgresLedger, Reshape, ReshapedShard, Shard, ShardAt, ShardState,
    StoreAddress, UnfoldedRows, Verdict, decode_batch, encode_batch,
};
use armilla_storage::{Batch, KeyRange, Keyspace};
use bytes::Bytes;

const HOME: Home = Home(0);

fn at(shard: u64) -> ShardAt {
    ShardAt { home: HOME, shard: Shard(shard) }
}

fn card(name: &str) -> NodeCard {
    NodeCard { name: name.into(), address: format!("http://{name}"), version: "1".into() }
}

fn append(ledger: &dyn Ledger, entries: Vec<Entry>) -> Result<Vec<Verdict>, LedgerError> {
    ledger.append(&entries)
}

/// Four shards of a ledger in PostgreSQL are appended to by a thread each, and now and then the database closes all connections of
/// the lane between two appends.
#[test]
fn threads_that_append_at_once_share_a_lane_which_is_opened_again() {
    let Some(url) = model::fresh_database() else { return };
    let ledger = PostgresLedger::open(&StoreAddress::new(&url)).unwrap();
    ledger.join(&card("a")).unwrap().unwrap();
    let shards: Vec<(Shard, u64)> = (1..=4).map(|shard| (Shard(shard), 0)).collect();
    Ledger::open(&ledger, HOME, &shards).unwrap();
    let mut tips: Vec<_> = shards
        .iter()
        .map(|(shard, _)| {
            let taken = ledger.take(at(shard.0), Epoch(0)).unwrap().unwrap();
            (at(shard.0), taken.epoch, taken.place, taken.chain)
        })
        .collect();
    for round in 0..3 {
        std::thread::scope(|scope| {
            for (at, epoch, place, chain) in &mut tips {
                let ledger = &ledger;
                scope.spawn(move || {
                    for number in 0..50 {
                        let batch = batch(&format!("{round} {number}"));
                        (*place, *chain) = (place.next(), chain.with(&batch));
                        let (at, epoch, place, chain) = (*at, *epoch, *place, *chain);
                        let entry = Entry { at, epoch, place, lsn: place.0, chain, batch };
                        assert_eq!(append(ledger, vec![entry]).unwrap(), [Verdict::Accepted]);
                    }
                });
            }
        });
        assert_eq!(model::close_lanes(&url), 1, "one connection for all threads");
    }
    assert_eq!(ledger.take(at(1), tips[0].1).unwrap().unwrap().place, Place(150));
}

/// What operators are told is what is there.
#[test]
fn a_database_tells_what_is_not_folded_and_who_confirms() {
    let Some(url) = model::fresh_database() else { return };
    let ledger = PostgresLedger::open(&StoreAddress::new(&url)).unwrap();
    ledger.join(&card("a")).unwrap().unwrap();
    Ledger::open(&ledger, HOME, &[(Shard(1), 0), (Shard(2), 0)]).unwrap();
    let taken = ledger.take(at(1), Epoch(0)).unwrap().unwrap();
    let (mut chain, mut bytes) = (taken.chain, 0);
    for place in 1..=3 {
        let batch = batch(&place.to_string());
        (chain, bytes) = (chain.with(&batch), bytes + batch.len() as u64);
        let (place, lsn) = (Place(place), place);
        let entry = Entry { at: at(1), epoch: taken.epoch, place, lsn, chain, batch };
        assert_eq!(append(&ledger, vec![entry]).unwrap(), [Verdict::Accepted]);
    }
    let unfolded = |rows, bytes| {
        [UnfoldedRows { at: at(1), rows, bytes }, UnfoldedRows { at: at(2), rows: 0, bytes: 0 }]
    };
    let facts = ledger.facts().unwrap();
    assert_eq!(facts.unfolded, unfolded(3, bytes));
    assert!(facts.journal_bytes > 0 && facts.base_bytes > 0);
    assert_eq!(facts.replication, ledger.replication().unwrap());
    let states = KeyStates { upto: Place(3), lsn: 3, keys: vec![] };
    assert!(ledger.fold(at(1), taken.epoch, states).unwrap());
    assert_eq!(ledger.facts().unwrap().unfolded, unfolded(0, 0));
}

fn batch(value: &str) -> Bytes {
    let mut batch = Batch::new();
    batch.put(Keyspace::Items, b"key".to_vec(), value.to_owned());
    encode_batch(&batch)
}

/// Two nodes of one ledger, the first of which owns shard 1.
struct Pair {
    a: Box<dyn Ledger>,
    b: Box<dyn Ledger>,
    epoch: Epoch,
}

impl Pair {
    fn new([a, b]: [Box<dyn Ledger>; 2]) -> Self {
        a.join(&card("a")).unwrap().unwrap();
        b.join(&card("b")).unwrap().unwrap();
        a.open(HOME, &[(Shard(1), 7), (Shard(2), 0)]).unwrap();
        let taken = a.take(at(1), Epoch(0)).unwrap().unwrap();
        assert_eq!((taken.place, taken.lsn, taken.chain), (Place(0), 7, Chain::START));
        Self { a, b, epoch: taken.epoch }
    }

    fn entry(&self, place: u64, before: Chain, value: &str) -> Entry {
        let batch = batch(value);
        let chain = before.with(&batch);
        Entry { at: at(1), epoch: self.epoch, place: Place(place), lsn: 7 + place, chain, batch }
    }

    fn evict_a(&self) {
        let rows = self.b.nodes().unwrap();
        let a = rows.iter().find(|node| node.card.name == "a").unwrap();
        assert!(self.b.evict(a).unwrap());
    }
}

/// The ledgers that are there to be tested, each with two nodes.
fn pairs() -> Vec<Pair> {
    let memory = MemoryLedger::new();
    let another = memory.another_node();
    let mut all = vec![Pair::new([Box::new(memory), Box::new(another)])];
    for url in [model::fresh_database(), model::earlier_database()].into_iter().flatten() {
        let open =
            || Box::new(PostgresLedger::open(&StoreAddress::new(&url)).unwrap()) as Box<dyn Ledger>;
        all.push(Pair::new([open(), open()]));
    }
    all
}

#[test]
fn only_the_next_place_of_the_current_epoch_is_appended() {
    for pair in pairs() {
        let first = pair.entry(1, Chain::START, "1");
        let chain = first.chain;
        assert_eq!(append(&*pair.a, vec![first.clone()]).unwrap(), [Verdict::Accepted]);
        assert_eq!(append(&*pair.a, vec![first]).unwrap(), [Verdict::Refused], "a fork");
        let gap = pair.entry(3, chain, "3");
        assert_eq!(append(&*pair.a, vec![gap]).unwrap(), [Verdict::Refused], "a gap");
        let other = Entry { epoch: Epoch(pair.epoch.0 + 1), ..pair.entry(2, chain, "2") };
        assert_eq!(append(&*pair.a, vec![other]).unwrap(), [Verdict::Refused], "not this epoch");
    }
}

#[test]
fn nobody_takes_from_an_owner_that_lives() {
    for pair in pairs() {
        assert_eq!(pair.b.take(at(1), pair.epoch).unwrap(), None);
        pair.evict_a();
        assert_eq!(pair.b.take(at(1), Epoch(pair.epoch.0 - 1)).unwrap(), None, "an old epoch");
        let taken = pair.b.take(at(1), pair.epoch).unwrap().unwrap();
        assert_eq!(taken.epoch, Epoch(pair.epoch.0 + 1));
        let late = pair.entry(1, Chain::START, "late");
        assert_eq!(append(&*pair.a, vec![late]).unwrap(), [Verdict::Refused]);
        assert_eq!(pair.a.take(at(2), Epoch(0)).unwrap(), None, "who is gone takes nothing");
        assert_eq!(pair.a.beat(Place(0)).unwrap(), None, "and is told so");
    }
}

#[test]
fn a_node_that_beats_in_time_is_not_evicted() {
    for pair in pairs() {
        let before =
            pair.b.nodes().unwrap().into_iter().find(|node| node.card.name == "a").unwrap();
        assert_eq!(pair.a.beat(Place(3)).unwrap(), Some(before.beats + 1));
        assert!(!pair.b.evict(&before).unwrap());
        let now = pair.b.nodes().unwrap().into_iter().find(|node| node.card.name == "a").unwrap();
        assert_eq!((now.state, now.catalog), (NodeState::Up, Place(3)));
        assert_eq!(pair.a.join(&card("b")).unwrap(), None, "a name that is up is taken");
    }
}

#[test]
fn a_released_shard_is_free() {
    for pair in pairs() {
        assert!(!pair.a.release(at(1), Epoch(pair.epoch.0 + 1)).unwrap());
        assert!(pair.a.release(at(1), pair.epoch).unwrap());
        let late = pair.entry(1, Chain::START, "late");
        assert_eq!(append(&*pair.a, vec![late]).unwrap(), [Verdict::Refused]);
        assert!(pair.b.take(at(1), Epoch(pair.epoch.0 + 1)).unwrap().is_some());
    }
}

#[test]
fn an_heir_is_named_under_the_present_epoch_and_only_while_its_life_takes_part() {
    for pair in pairs() {
        let b = || pair.a.nodes().unwrap().into_iter().find(|node| node.card.name == "b").unwrap();
        let heir = || {
            let shards = pair.b.shards().unwrap();
            shards.into_iter().find(|row| row.at == at(1)).unwrap().heir
        };
        assert_eq!(heir(), None);
        assert!(!pair.a.name_heir(at(1), Epoch(pair.epoch.0 + 1), &b()).unwrap(), "another epoch");
        assert!(pair.a.name_heir(at(1), pair.epoch, &b()).unwrap());
        assert_eq!(heir(), Some(("b".to_owned(), b().incarnation)));
        let entry = pair.entry(1, Chain::START, "an heir changes nothing for the owner");
        assert_eq!(append(&*pair.a, vec![entry]).unwrap(), [Verdict::Accepted]);
        assert_eq!(pair.b.take(at(1), pair.epoch).unwrap(), None, "nor for itself");
        let other = NodeRow { incarnation: Incarnation(b().incarnation.0 + 1), ..b() };
        assert!(!pair.a.name_heir(at(1), pair.epoch, &other).unwrap(), "another life");
        assert!(!pair.a.drain(&other).unwrap(), "another life");
        assert!(pair.a.drain(&b()).unwrap());
        assert_eq!(b().state, NodeState::Draining);
        assert!(!pair.a.drain(&b()).unwrap(), "it is already");
        assert!(!pair.a.name_heir(at(1), pair.epoch, &b()).unwrap(), "it is being drained");
        assert!(pair.b.beat(Place(1)).unwrap().is_some(), "it lives");
    }
}

#[test]
fn only_a_node_that_is_gone_can_be_forgotten() {
    for pair in pairs() {
        let a = || pair.b.nodes().unwrap().into_iter().find(|node| node.card.name == "a");
        assert!(!pair.b.forget(&a().unwrap()).unwrap(), "it is up");
        pair.evict_a();
        assert!(pair.b.forget(&a().unwrap()).unwrap());
        assert_eq!(a(), None);
        assert_eq!(pair.a.beat(Place(0)).unwrap(), None, "its life is over all the same");
        assert_eq!(pair.a.take(at(2), Epoch(0)).unwrap(), None);
        assert!(pair.b.take(at(1), pair.epoch).unwrap().is_some(), "what it had is free");
    }
}

#[test]
fn what_is_folded_is_in_the_base_and_may_be_cut() {
    for pair in pairs() {
        let mut chain = Chain::START;
        for place in 1..=3 {
            let entry = pair.entry(place, chain, &place.to_string());
            chain = entry.chain;
            assert_eq!(append(&*pair.a, vec![entry]).unwrap(), [Verdict::Accepted]);
        }
        assert_eq!(pair.a.cut(at(1), pair.epoch, Place(3)).unwrap(), 0, "nothing is folded");
        let states = |upto, keys| KeyStates { upto: Place(upto), lsn: 9, keys };
        let keys = vec![
            (Keyspace::Items, b"key".to_vec(), Some(Bytes::from_static(b"2"))),
            (Keyspace::Items, b"other".to_vec(), Some(Bytes::from_static(b"x"))),
        ];
        assert!(pair.a.fold(at(1), pair.epoch, states(2, keys)).unwrap());
        assert!(!pair.a.fold(at(1), pair.epoch, states(1, vec![])).unwrap(), "never back");
        assert!(!pair.b.fold(at(1), Epoch(0), states(3, vec![])).unwrap(), "another epoch");
        let gone = vec![(Keyspace::Items, b"other".to_vec(), None)];
        assert!(pair.a.fold(at(1), pair.epoch, states(3, gone)).unwrap());
        let base = pair.b.base(HOME, Keyspace::Items, &KeyRange::all(), 10).unwrap();
        assert_eq!(base, [(b"key".to_vec(), Bytes::from_static(b"2"))]);
        let behind = KeyRange::after(b"key".to_vec());
        assert_eq!(pair.b.base(HOME, Keyspace::Items, &behind, 10).unwrap(), []);
        assert_eq!(pair.a.cut(at(1), pair.epoch, Place(9)).unwrap(), 3, "the newest row stays");
        let rows = pair.b.journal(&[(at(1), Place(2))], usize::MAX).unwrap();
        assert_eq!(rows.iter().map(|row| row.place.0).collect::<Vec<_>>(), [3]);
        assert_eq!(rows[0].chain, chain);
        assert_eq!(decode_batch(&rows[0].batch).unwrap().len(), 1);
    }
}

/// A database that takes connections, answers what the driver asks first, and then nothing.
#[test]
fn a_database_that_falls_silent_while_a_session_is_opened_is_given_up() {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut read = [0; 1024];
        assert!(stream.read(&mut read).unwrap() > 0);
        // Authenticated, ready.
        stream.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").unwrap();
        assert!(stream.read(&mut read).unwrap() > 0);
        // `show transaction_read_only` has one column and one row, "off".
        let column = b"T\0\0\0\x1a\0\x01x\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0";
        let row = b"D\0\0\0\x0d\0\x01\0\0\0\x03off";
        let end = b"C\0\0\0\x09SHOW\0Z\0\0\0\x05I";
        stream.write_all(&[&column[..], row, end].concat()).unwrap();
        while stream.read(&mut read).is_ok_and(|length| length > 0) {}
    });
    let url = format!("host=127.0.0.1 port={port} user=x sslmode=disable");
    let (send, opened) = std::sync::mpsc::channel();
    std::thread::spawn(move || send.send(PostgresLedger::open(&StoreAddress::new(&url)).err()));
    let error = opened.recv_timeout(std::time::Duration::from_secs(20)).unwrap();
    assert_eq!(error, Some(LedgerError::Unreachable("no session in 6 s".into())));
}

/// The longest transaction that an owner lets in, with as much of a group before it as may be.
#[test]
fn the_longest_row_is_appended_in_the_time_of_a_statement() {
    let Some(url) = model::fresh_database() else { return };
    let open =
        || Box::new(PostgresLedger::open(&StoreAddress::new(&url)).unwrap()) as Box<dyn Ledger>;
    let pair = Pair::new([open(), open()]);
    let mut noise = vec![0; (64 + 16) << 20];
    fastrand::Rng::with_seed(1).fill(&mut noise);
    let batch = Bytes::from(noise);
    let chain = Chain::START.with(&batch);
    let entry = Entry { batch, chain, ..pair.entry(1, Chain::START, "1") };
    assert_eq!(append(&*pair.a, vec![entry]).unwrap(), [Verdict::Accepted]);
}

#[test]
fn a_cut_and_an_append_do_not_wait_for_each_other() {
    let Some(url) = model::fresh_database() else { return };
    let open =
        || Box::new(PostgresLedger::open(&StoreAddress::new(&url)).unwrap()) as Box<dyn Ledger>;
    let pair = Pair::new([open(), open()]);
    let first = pair.entry(1, Chain::START, "1");
    assert_eq!(append(&*pair.a, vec![first]).unwrap(), [Verdict::Accepted]);
    let states = KeyStates { upto: Place(1), lsn: 8, keys: vec![] };
    assert!(pair.a.fold(at(1), pair.epoch, states).unwrap());
    let cut = || pair.a.cut(at(1), pair.epoch, Place(1));
    assert_eq!(model::while_appending(&url, 1, cut).unwrap(), 1);
}

#[test]
fn a_reshape_closes_and_opens_in_one_moment() {
    for pair in pairs() {
        let new = |shard| ReshapedShard { shard: Shard(shard), lsn: 8, batch: batch("child") };
        let reshape = |place| Reshape {
            home: HOME,
            old: vec![(Shard(1), pair.epoch, Place(place))],
            new: vec![new(11), new(12)],
        };
        let first = pair.entry(1, Chain::START, "1");
        assert_eq!(append(&*pair.a, vec![first]).unwrap(), [Verdict::Accepted]);
        assert!(!pair.a.reshape(reshape(1)).unwrap(), "not folded to its tip");
        let states = KeyStates { upto: Place(1), lsn: 8, keys: vec![] };
        assert!(pair.a.fold(at(1), pair.epoch, states).unwrap());
        assert!(!pair.a.reshape(reshape(2)).unwrap(), "not its tip");
        assert!(pair.a.reshape(reshape(1)).unwrap());
        let shards = pair.b.shards().unwrap();
        let state = |shard| shards.iter().find(|row| row.at == at(shard)).unwrap();
        assert_eq!(state(1).state, ShardState::Reshaped);
        assert_eq!((state(11).state, state(11).epoch), (ShardState::Open, Epoch(1)));
        assert_eq!(state(12).owner.as_ref().unwrap().0, "a");
        let (batch, before) = (batch("next"), Chain::START.with(&new(11).batch));
        let chain = before.with(&batch);
        let entry = Entry { at: at(11), epoch: Epoch(1), place: Place(2), lsn: 9, chain, batch };
        assert_eq!(append(&*pair.a, vec![entry]).unwrap(), [Verdict::Accepted]);
    }
}

#[test]
fn a_dropped_shard_takes_nothing_more() {
    for pair in pairs() {
        pair.b.drop_shards(HOME, &[Shard(1)]).unwrap();
        let late = pair.entry(1, Chain::START, "late");
        assert_eq!(append(&*pair.a, vec![late]).unwrap(), [Verdict::Refused]);
        assert_eq!(pair.a.take(at(1), Epoch(pair.epoch.0 + 1)).unwrap(), None);
    }
}

#[test]
fn reserved_numbers_are_given_once() {
    for pair in pairs() {
        let first = pair.a.reserve("docno:1", 10).unwrap();
        let second = pair.b.reserve("docno:1", 5).unwrap();
        assert_eq!((first, second), (1, 11));
        assert_eq!(pair.a.reserve("docno:1", 1).unwrap(), 16);
        assert_eq!(pair.a.reserve("docno:2", 1).unwrap(), 1);
    }
}

#[test]
fn a_page_of_the_journal_ends_at_its_bytes() {
    for pair in pairs() {
        let mut chain = Chain::START;
        for place in 1..=4 {
            let entry = pair.entry(place, chain, &place.to_string());
            chain = entry.chain;
            assert_eq!(append(&*pair.a, vec![entry]).unwrap(), [Verdict::Accepted]);
        }
        let page = pair.b.journal(&[(at(1), Place(0)), (at(2), Place(0))], 1).unwrap();
        assert_eq!(page.len(), 1, "one row at least");
        let all = pair.b.journal(&[(at(1), Place(1))], usize::MAX).unwrap();
        assert_eq!(all.iter().map(|row| row.place.0).collect::<Vec<_>>(), [2, 3, 4]);
    }
}

#[test]
fn four_nodes_in_any_order_agree_with_the_model() {
    for seed in 0..200 {
        let first = MemoryLedger::new();
        let others = [first.another_node(), first.another_node(), first.another_node()];
        let [b, c, d] = others;
        let nodes: [Box<dyn Ledger>; 4] = [Box::new(first), Box::new(b), Box::new(c), Box::new(d)];
        model::Trial::new(nodes, seed).run(400);
    }
    if let Some(url) = model::fresh_database() {
        let open = |_| {
            Box::new(PostgresLedger::open(&StoreAddress::new(&url)).unwrap()) as Box<dyn Ledger>
        };
        model::Trial::new([0, 1, 2, 3].map(open), 1).run(3_000);
    }
}
