//! `cargo xtask cluster --failover`: the database's primary is lost and its replica promoted, under nodes that name both in their address.
//!
//! * With synchronous replication nothing that was acknowledged may be missing.
//! * With asynchronous replication the last rows can be lost: here they are, because the way of the replica is cut before they are written. The nodes that
//!   know of them must stop and say so. They must never go on as if nothing had been there.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::history::{History, REGISTERS};
use super::nodes::{Nodes, Ways};
use super::way::Way;
use crate::Outcome;
use crate::postgres::Postgres;

/// The name under which the replica follows.
const REPLICA: &str = "second";
/// Nodes of the trial.
const NODES: usize = 2;
const WRITERS: usize = 4;
/// Writing before the primary is lost, and after its replica was promoted.
const WRITING: Duration = Duration::from_secs(2);
/// Within so long the account must be writable again.
const WRITABLE_WITHIN: Duration = Duration::from_secs(30);
/// Writes that are lost.
const LOST_WRITES: u64 = 20;
const STATE: &str = "select sync_state from pg_stat_replication";

/// A primary, its replica, and the way between them.
struct Pair {
    replica: Postgres,
    way: Way,
    nodes: Nodes,
    history: History,
}

impl Pair {
    /// Starts both, and two nodes that know both.
    fn start(binary: &Path, synchronous: bool) -> Outcome<Self> {
        let primary = Postgres::start()?;
        let way = Way::open(primary.socket_address())?;
        let replica = Postgres::replica_of(&primary, way.port(), REPLICA)?;
        primary.wait_for(STATE, "async")?;
        if synchronous {
            primary.set("synchronous_standby_names", REPLICA)?;
            primary.wait_for(STATE, "sync")?;
        }
        let (first, second) = (primary.socket_address(), replica.socket_address());
        let store = format!("postgres://postgres@{first},{second}/failover");
        let nodes = Nodes::lay_out_over(binary, primary, ("failover", Some(store)), Vec::new())?;
        let mut nodes = nodes.by(Ways::Straight);
        for node in 0..NODES {
            nodes.start_node(node)?;
            nodes.wait_until_ready(node)?;
        }
        let history = History::default();
        history.prepare(&nodes.client(1)?)?;
        Ok(Self { replica, way, nodes, history })
    }

    /// The primary is lost at once, and its replica takes its place.
    fn fail_over(&self) -> Outcome<()> {
        self.nodes.postgres.crash()?;
        self.replica.promote()
    }
}

/// Both ways; answers what happened.
pub(super) fn trial(binary: &Path, seed: u64) -> Outcome<String> {
    let kept = synchronous(binary, seed).map_err(|error| format!("synchronous: {error}"))?;
    let noticed = asynchronous(binary).map_err(|error| format!("asynchronous: {error}"))?;
    Ok(format!("{kept}; {noticed}"))
}

fn synchronous(binary: &Path, seed: u64) -> Outcome<String> {
    let mut pair = Pair::start(binary, true)?;
    let clients = (0..NODES).map(|node| pair.nodes.client(node)).collect::<Outcome<Vec<_>>>()?;
    let (over, history) = (AtomicBool::new(false), &pair.history);
    let write = |number: usize| -> Outcome<()> {
        let mut random = fastrand::Rng::with_seed(seed * 100 + number as u64);
        while !over.load(Ordering::SeqCst) {
            let client = &clients[random.usize(0..clients.len())];
            let register = random.usize(0..REGISTERS / WRITERS) * WRITERS + number;
            match random.u8(0..4) {
                0 => history.count(client, random.usize(..))?,
                1 => history.read(client, random.usize(0..REGISTERS))?,
                _ => history.write(client, register)?,
            }
        }
        Ok(())
    };
    let away = thread::scope(|scope| -> Outcome<Duration> {
        let write = &write;
        let writing: Vec<_> =
            (0..WRITERS).map(|number| scope.spawn(move || write(number))).collect();
        let happened = (|| {
            thread::sleep(WRITING);
            let lost = Instant::now();
            pair.fail_over()?;
            let before = history.writes();
            while history.writes() == before && lost.elapsed() < WRITABLE_WITHIN {
                thread::sleep(Duration::from_millis(5));
            }
            let away = lost.elapsed();
            thread::sleep(WRITING);
            if history.writes() > before { Ok(away) } else { Err("not writable again".into()) }
        })();
        over.store(true, Ordering::SeqCst);
        for writer in writing {
            writer.join().map_err(|_| "a writer panicked")??;
        }
        happened
    })?;
    pair.nodes.revive_first(NODES)?;
    for node in 0..NODES {
        pair.nodes.wait_until_ready(node)?;
        pair.history.judge(&pair.nodes.client(node)?)?;
    }
    pair.nodes.command(&["verify"], "failover")?;
    Ok(format!(
        "synchronous: {} writes acknowledged, none lost, writable again after {} ms",
        pair.history.writes(),
        away.as_millis()
    ))
}

fn asynchronous(binary: &Path) -> Outcome<String> {
    let mut pair = Pair::start(binary, false)?;
    let owner = pair.nodes.owner().ok_or("nobody owns the account")?;
    pair.history.write_some(&pair.nodes.client(owner)?, LOST_WRITES)?;
    pair.way.set_open(false);
    pair.history.write_some(&pair.nodes.client(owner)?, LOST_WRITES)?;
    pair.nodes.wait_until_first_followed(NODES)?;
    pair.fail_over()?;
    // Whoever writes next finds it out; nobody may be told that a write was done.
    let before = pair.history.writes();
    let client = pair.nodes.client(owner)?;
    let end = Instant::now() + WRITABLE_WITHIN;
    let mut others = vec![owner, 1 - owner];
    while !others.is_empty() && Instant::now() < end {
        // No answer is what is wanted.
        let _answered = pair.history.write(&client, 0);
        others.retain(|node| !pair.nodes.has_ended(*node));
    }
    if pair.history.writes() > before {
        return Err("a write was acknowledged on top of a database that had lost others".into());
    }
    if !others.is_empty() {
        return Err(format!("nodes {others:?} went on over a database that lost writes").into());
    }
    pair.nodes.expect_refusal_of(NODES, "lost acknowledged writes")?;
    Ok(format!(
        "asynchronous: {LOST_WRITES} writes lost by the database, all nodes stopped and said so"
    ))
}
