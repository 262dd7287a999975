//! Clients that ask random nodes, and what happens to the nodes and to the database meanwhile.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::history::{Ask, History, REGISTERS};
use super::nodes::{LEASE, Nodes};
use super::reshape::Reshaped;
use crate::Outcome;
use crate::rest::Client;

pub(super) const WRITERS: usize = 6;
pub(super) const READERS: usize = 4;
/// Between two misfortunes.
const CALM: Duration = Duration::from_millis(1500);
/// How long a node is away before it is started again.
const AWAY: Duration = Duration::from_millis(500);

/// In a storm that is longer, partitions must have been split.
const SPLIT_WITHIN: Duration = Duration::from_secs(15);

/// What may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Misfortune {
    OwnerKilled,
    StandbyKilled,
    OwnerStopped,
    OwnerPaused,
    OwnerCutOff,
    ConnectionsKilled,
    DatabaseCrashed,
    /// The account is moved to another node.
    OwnerMoved,
    /// The owner is drained, stopped, and started again.
    OwnerDrained,
}

const MISFORTUNES: [Misfortune; 9] = [
    Misfortune::OwnerKilled,
    Misfortune::OwnerMoved,
    Misfortune::OwnerPaused,
    Misfortune::DatabaseCrashed,
    Misfortune::OwnerStopped,
    Misfortune::ConnectionsKilled,
    Misfortune::OwnerDrained,
    Misfortune::OwnerCutOff,
    Misfortune::StandbyKilled,
];

/// Lets clients ask while things go wrong; answers what happened.
pub(super) fn rage(
    nodes: &mut Nodes,
    history: &History,
    time: Duration,
    seed: u64,
) -> Outcome<String> {
    let clients: Vec<Client> =
        (0..nodes.len()).map(|node| nodes.client(node)).collect::<Outcome<_>>()?;
    let over = AtomicBool::new(false);
    let failure = Failure::default();
    let mut happened = BTreeMap::new();
    let (commands, reshaped) = (nodes.commands(), Reshaped::default());
    let raged = thread::scope(|scope| {
        let (ours, commands, told, over_now) = (&clients, &commands, &reshaped, &over);
        scope.spawn(move || told.run((ours, commands), seed, over_now));
        for number in 0..WRITERS + READERS {
            let (clients, over, failure) = (&clients, &over, &failure);
            scope.spawn(move || ask(number, (history, clients, seed), over, failure));
        }
        let raged = misfortunes(nodes, (time, seed), &failure, &mut happened);
        over.store(true, Ordering::SeqCst);
        raged
    });
    raged?;
    if let Some(found) = failure.found() {
        return Err(found.into());
    }
    if reshaped.splits.load(Ordering::Relaxed) == 0 && time > SPLIT_WITHIN {
        return Err("nothing was split all the while".into());
    }
    let count = |number: &AtomicU64| number.load(Ordering::Relaxed);
    let happened: Vec<String> =
        happened.iter().map(|(what, times)| format!("{times} {what:?}")).collect();
    Ok(format!(
        "{} writes acknowledged, {} reads, {} told to come back, {} unknown; {}; {}",
        history.writes(),
        count(&history.reads),
        count(&history.throttled),
        count(&history.unknown),
        reshaped.told(),
        happened.join(", ")
    ))
}

/// One client: the first write registers of their own and counters, the others read.
pub(super) fn ask(
    number: usize,
    (history, clients, seed): (&History, &[impl Ask], u64),
    over: &AtomicBool,
    failure: &Failure,
) {
    let mut random = fastrand::Rng::with_seed(seed * 100 + number as u64);
    while !over.load(Ordering::SeqCst) {
        let client = &clients[random.usize(0..clients.len())];
        let asked = if number >= WRITERS {
            history.read(client, random.usize(0..REGISTERS))
        } else if random.u8(0..3) == 0 {
            history.count(client, random.usize(..))
        } else {
            history.write(client, random.usize(0..REGISTERS / WRITERS) * WRITERS + number)
        };
        if let Err(error) = asked {
            failure.tell(&error.to_string());
            return;
        }
    }
}

fn misfortunes(
    nodes: &mut Nodes,
    (time, seed): (Duration, u64),
    failure: &Failure,
    happened: &mut BTreeMap<Misfortune, u64>,
) -> Outcome<()> {
    let mut random = fastrand::Rng::with_seed(seed);
    let end = Instant::now() + time;
    let first = random.usize(0..MISFORTUNES.len());
    let mut next = 0;
    while Instant::now() < end && failure.found().is_none() {
        thread::sleep(CALM);
        nodes.revive()?;
        let Some(owner) = nodes.owner() else { continue };
        let other = (owner + random.usize(1..nodes.len())) % nodes.len();
        // Each once before any comes again, in an order of the seed's.
        let what = MISFORTUNES[(first + next) % MISFORTUNES.len()];
        next += 1;
        println!("    {what:?}, owner {owner}");
        strike(nodes, what, (owner, other))?;
        *happened.entry(what).or_default() += 1;
    }
    Ok(())
}

fn strike(nodes: &mut Nodes, what: Misfortune, (owner, other): (usize, usize)) -> Outcome<()> {
    match what {
        Misfortune::OwnerKilled | Misfortune::StandbyKilled => {
            let node = if what == Misfortune::OwnerKilled { owner } else { other };
            nodes.signal(node, "-KILL")?;
            nodes.wait_for_end(node)?;
            thread::sleep(AWAY);
            nodes.start_node(node)
        }
        Misfortune::OwnerStopped => {
            nodes.signal(owner, "-TERM")?;
            let status = nodes.wait_for_end(owner)?;
            if !status.success() {
                return Err(format!("a node that was told to stop ended with {status}").into());
            }
            nodes.start_node(owner)
        }
        Misfortune::OwnerMoved => nodes.operate("move", other),
        Misfortune::OwnerDrained => {
            nodes.drain(owner)?;
            strike(nodes, Misfortune::OwnerStopped, (owner, other))
        }
        Misfortune::OwnerPaused => {
            nodes.signal(owner, "-STOP")?;
            thread::sleep(LEASE * 5 / 2);
            nodes.signal(owner, "-CONT")
        }
        Misfortune::OwnerCutOff => {
            nodes.way(owner).set_open(false);
            thread::sleep(LEASE * 5 / 2);
            nodes.way(owner).set_open(true);
            Ok(())
        }
        Misfortune::ConnectionsKilled => nodes.postgres.kill_connections(),
        Misfortune::DatabaseCrashed => {
            nodes.postgres.crash()?;
            nodes.postgres.resume()
        }
    }
}

/// The first thing that was found wrong.
#[derive(Default)]
pub(super) struct Failure(Mutex<Option<String>>);

impl Failure {
    pub(super) fn tell(&self, what: &str) {
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        found.get_or_insert_with(|| what.to_owned());
    }

    pub(super) fn found(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
