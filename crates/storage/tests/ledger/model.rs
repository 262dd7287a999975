//! A plain model of the ledger, and nodes that try whatever may be refused.
//!
//! The model is the rules of the ledger written down once more, as directly as possible: what a call must answer is decided
//! before the ledger is asked.

use std::collections::BTreeMap;

use armilla_storage::ledger::{
    Chain, Entry, Epoch, Incarnation, KeyStates, Ledger, NodeState, Place, PostgresLedger, Shard,
    StoreAddress, Verdict,
};
use armilla_storage::{KeyRange, Keyspace};
use bytes::Bytes;

use super::{HOME, append, at, batch, card};

const SHARDS: u64 = 3;

/// An empty ledger in the database that the environment names, if it names one.
pub(crate) fn fresh_database() -> Option<String> {
    use std::sync::atomic::{AtomicU64, Ordering};
    static MADE: AtomicU64 = AtomicU64::new(0);
    let server = std::env::var("ARMILLA_TEST_STORE").ok()?;
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let name = format!("ledger_test_{}_{number}", std::process::id());
    execute(&server, &format!("create database {name}"));
    let url = format!("{server} dbname={name}");
    PostgresLedger::create(&StoreAddress::new(&url), 1, b"settings").unwrap();
    let opened = PostgresLedger::open(&StoreAddress::new(&url)).unwrap();
    assert_eq!(opened.settings().unwrap(), b"settings");
    assert!(
        PostgresLedger::create(&StoreAddress::new(&url), 2, b"").is_err(),
        "there is one already"
    );
    Some(url)
}

/// The same as earlier versions made it: without the function that appends a single row.
pub(crate) fn earlier_database() -> Option<String> {
    let url = fresh_database()?;
    execute(&url, "drop function armilla.append_one");
    Some(url)
}

/// Has the database close the connections of appends, and waits until they are gone; how many there were.
pub(crate) fn close_lanes(url: &str) -> usize {
    let close = "select count(pg_terminate_backend(pid, 60000)) from pg_stat_activity \
         where application_name = 'armilla lane' and datname = current_database()";
    let closed = with_client(url, async |client| client.query_one(close, &[]).await.unwrap());
    usize::try_from(closed.get::<_, i64>(0)).unwrap()
}

/// Does something while a connection of its own has a shard's row locked as an append locks it.
pub(crate) fn while_appending<T>(url: &str, shard: u64, act: impl FnOnce() -> T) -> T {
    with_client(url, async |client| {
        let lock =
            format!("begin; select 1 from armilla.shards where shard = {shard} for no key update");
        client.batch_execute(&lock).await.unwrap();
        let acted = act();
        client.batch_execute("rollback").await.unwrap();
        acted
    })
}

fn execute(url: &str, statement: &str) {
    with_client(url, async |client| client.batch_execute(statement).await.unwrap());
}

fn with_client<T>(url: &str, ask: impl AsyncFnOnce(tokio_postgres::Client) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let connected = tokio_postgres::connect(url, tokio_postgres::NoTls).await;
        let (client, connection) = connected.unwrap();
        tokio::spawn(connection);
        ask(client).await
    })
}

/// What is known of one shard.
#[derive(Clone, Default)]
struct Known {
    epoch: u64,
    owner: Option<(usize, Incarnation)>,
    rows: Vec<(Chain, Bytes)>,
    folded: u64,
    first: u64,
}

impl Known {
    fn tip(&self) -> u64 {
        self.rows.len() as u64
    }

    fn chain(&self) -> Chain {
        self.rows.last().map_or(Chain::START, |row| row.0)
    }
}

/// Four nodes over one ledger, and what must be true of it.
pub(crate) struct Trial {
    nodes: [Box<dyn Ledger>; 4],
    lives: [Option<Incarnation>; 4],
    shards: BTreeMap<u64, Known>,
    base: BTreeMap<Vec<u8>, Bytes>,
    random: u64,
    seed: u64,
}

impl Trial {
    pub(crate) fn new(nodes: [Box<dyn Ledger>; 4], seed: u64) -> Self {
        nodes[0]
            .open(HOME, &(0..SHARDS).map(|shard| (Shard(shard), 0)).collect::<Vec<_>>())
            .unwrap();
        let shards = (0..SHARDS).map(|shard| (shard, Known::default())).collect();
        let random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        Self { nodes, lives: [None; 4], shards, base: BTreeMap::new(), random, seed }
    }

    pub(crate) fn run(mut self, steps: usize) {
        for _ in 0..steps {
            self.step();
        }
        self.compare();
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % bound
    }

    fn step(&mut self) {
        let node = usize::try_from(self.below(4)).unwrap();
        let shard = self.below(SHARDS);
        if self.lives[node].is_none() {
            return self.join(node);
        }
        match self.below(12) {
            0 => self.evict(node),
            1 | 2 => self.take(node, shard),
            3 => self.release(node, shard),
            4 | 5 => self.fold(node, shard),
            6 => self.cut(node, shard),
            7 => self.beat(node),
            _ => self.append(node, shard),
        }
    }

    fn join(&mut self, node: usize) {
        let joined = self.nodes[node].join(&card(&format!("n{node}"))).unwrap();
        assert!(joined.is_some(), "seed {}: a name that is gone is free", self.seed);
        self.lives[node] = joined;
    }

    fn beat(&mut self, node: usize) {
        assert!(self.nodes[node].beat(Place(0)).unwrap().is_some(), "seed {}", self.seed);
    }

    fn evict(&mut self, by: usize) {
        let victim = usize::try_from(self.below(4)).unwrap();
        let name = format!("n{victim}");
        let rows = self.nodes[by].nodes().unwrap();
        let Some(row) = rows.into_iter().find(|row| row.card.name == name) else { return };
        let mut seen = row.clone();
        if self.below(3) == 0 {
            // Somebody who has looked away too long.
            seen.beats += 1;
        }
        let expected = row.state != NodeState::Gone && seen == row;
        assert_eq!(self.nodes[by].evict(&seen).unwrap(), expected, "seed {}", self.seed);
        if expected {
            assert_eq!(self.nodes[victim].beat(Place(0)).unwrap(), None, "seed {}", self.seed);
            self.lives[victim] = None;
        }
    }

    /// The epoch a node believes in: mostly the true one.
    fn believed(&mut self, shard: u64) -> Epoch {
        let epoch = self.shards[&shard].epoch;
        Epoch(if self.below(6) == 0 { epoch.saturating_sub(1) } else { epoch })
    }

    fn take(&mut self, node: usize, shard: u64) {
        let seen = self.believed(shard);
        let me = (node, self.lives[node].unwrap());
        let known = self.shards[&shard].clone();
        let free = known
            .owner
            .is_none_or(|(owner, life)| (owner, life) == me || self.lives[owner] != Some(life));
        let taken = self.nodes[node].take(at(shard), seen).unwrap();
        assert_eq!(taken.is_some(), free && seen.0 == known.epoch, "seed {}: take", self.seed);
        let Some(taken) = taken else { return };
        let found = (taken.epoch.0, taken.folded.0, taken.place.0, taken.chain);
        let expected = (known.epoch + 1, known.folded, known.tip(), known.chain());
        assert_eq!(found, expected, "seed {}: what a take found", self.seed);
        let known = self.shards.get_mut(&shard).unwrap();
        (known.epoch, known.owner) = (taken.epoch.0, Some(me));
    }

    fn release(&mut self, node: usize, shard: u64) {
        let epoch = self.believed(shard);
        let known = self.shards.get_mut(&shard).unwrap();
        let expected = epoch.0 == known.epoch;
        if expected {
            known.epoch += 1;
            known.owner = None;
        }
        let released = self.nodes[node].release(at(shard), epoch).unwrap();
        assert_eq!(released, expected, "seed {}: release", self.seed);
    }

    fn append(&mut self, node: usize, shard: u64) {
        let epoch = self.believed(shard);
        let place = match self.below(8) {
            0 => self.shards[&shard].tip(),
            1 => self.shards[&shard].tip() + 2,
            _ => self.shards[&shard].tip() + 1,
        };
        let batch = batch(&self.random.to_string());
        let known = self.shards.get_mut(&shard).unwrap();
        let chain = known.chain().with(&batch);
        let accepted = epoch.0 == known.epoch && place == known.tip() + 1;
        let entry = Entry { at: at(shard), epoch, place: Place(place), lsn: place, chain, batch };
        if accepted {
            known.rows.push((chain, entry.batch.clone()));
        }
        let expected = if accepted { Verdict::Accepted } else { Verdict::Refused };
        let found = append(&*self.nodes[node], vec![entry]).unwrap();
        assert_eq!(found, [expected], "seed {}: append", self.seed);
    }

    fn fold(&mut self, node: usize, shard: u64) {
        let (epoch, tip) = (self.believed(shard), self.shards[&shard].tip());
        let upto = self.below(tip + 1);
        let key = vec![b'k', u8::try_from(shard).unwrap(), u8::try_from(self.below(4)).unwrap()];
        let value = (self.below(3) > 0).then(|| Bytes::from(upto.to_string()));
        let keys = vec![(Keyspace::Items, key.clone(), value.clone())];
        let states = KeyStates { upto: Place(upto), lsn: upto, keys };
        let known = self.shards.get_mut(&shard).unwrap();
        let expected = epoch.0 == known.epoch && upto >= known.folded;
        if expected {
            known.folded = upto;
            match value {
                Some(value) => self.base.insert(key, value),
                None => self.base.remove(&key),
            };
        }
        let folded = self.nodes[node].fold(at(shard), epoch, states).unwrap();
        assert_eq!(folded, expected, "seed {}: fold", self.seed);
    }

    fn cut(&mut self, node: usize, shard: u64) {
        let (epoch, tip) = (self.believed(shard), self.shards[&shard].tip());
        let upto = self.below(tip + 3);
        let known = self.shards.get_mut(&shard).unwrap();
        let mut expected = 0;
        if epoch.0 == known.epoch {
            let first = known.first.max(upto.min(known.folded));
            (expected, known.first) = (first - known.first, first);
        }
        let cut = self.nodes[node].cut(at(shard), epoch, Place(upto)).unwrap();
        assert_eq!(cut, expected, "seed {}: cut", self.seed);
    }

    /// Everything that lies in the ledger is what the model says, row by row.
    fn compare(&self) {
        for (shard, known) in &self.shards {
            let after = Place(known.first.max(1) - 1);
            let rows = self.nodes[0].journal(&[(at(*shard), after)], usize::MAX).unwrap();
            let found: Vec<_> = rows.into_iter().map(|row| (row.chain, row.batch)).collect();
            let from = usize::try_from(after.0).unwrap();
            assert_eq!(found, known.rows[from..], "seed {}: shard {shard}", self.seed);
        }
        let base = self.nodes[0].base(HOME, Keyspace::Items, &KeyRange::all(), 1000).unwrap();
        assert_eq!(base, self.base.clone().into_iter().collect::<Vec<_>>(), "seed {}", self.seed);
    }
}
