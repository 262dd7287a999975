//! `cargo xtask cluster --matrix`: every blow to every node at every moment, one cell after the other, in an order of the seed's.
//!
//! Each cell: something goes on (writes, a copy, a split, …), a blow falls in the middle of it, everything is mended, and the registers and counters
//! are judged through every node. Nodes that do not own the account both follow it and pass requests on; the *standby* is the one that is
//! next in turn, the *forwarder* the one after it, through which clients ask.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::history::History;
use super::nodes::{Commands, LEASE, Nodes};
use super::reshape::Reshaped;
use super::storm::{self, Failure};
use crate::Outcome;
use crate::rest::{Answer, Client};

/// How long something goes on before the blow falls, at most.
const BEFORE_MAX_MS: u64 = 500;
/// How long it goes on after everything stands again.
const AFTER: Duration = Duration::from_millis(300);
/// A database that says nothing for a while.
const SILENCE: Duration = Duration::from_secs(2);
/// How long a killed node is away.
const AWAY: Duration = Duration::from_millis(300);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Owner,
    Standby,
    Forwarder,
    Database,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blow {
    Killed,
    Stopped,
    Paused,
    CutOffFromLedger,
    CutOffFromNodes,
    BackendsKilled,
    LedgerCrashed,
    LedgerSilent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    Idle,
    Writes,
    Copy,
    Split,
    Containers,
    Handover,
    Backup,
}

const NODE_BLOWS: [Blow; 5] =
    [Blow::Killed, Blow::Stopped, Blow::Paused, Blow::CutOffFromLedger, Blow::CutOffFromNodes];
const DATABASE_BLOWS: [Blow; 3] = [Blow::BackendsKilled, Blow::LedgerCrashed, Blow::LedgerSilent];
const MOMENTS: [Moment; 7] = [
    Moment::Idle,
    Moment::Writes,
    Moment::Copy,
    Moment::Split,
    Moment::Containers,
    Moment::Handover,
    Moment::Backup,
];

type Cell = (Victim, Blow, Moment);

/// Every cell there is.
fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for moment in MOMENTS {
        for victim in [Victim::Owner, Victim::Standby, Victim::Forwarder] {
            cells.extend(NODE_BLOWS.map(|blow| (victim, blow, moment)));
        }
        cells.extend(DATABASE_BLOWS.map(|blow| (Victim::Database, blow, moment)));
    }
    cells
}

/// Goes through so many cells; answers how many there were and what was written meanwhile.
pub(super) fn go_through(
    nodes: &mut Nodes,
    history: &History,
    many: usize,
    seed: u64,
) -> Outcome<String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut cells = cells();
    let all = cells.len();
    random.shuffle(&mut cells);
    cells.truncate(many);
    let reshaped = Reshaped::default();
    for (number, cell) in cells.iter().enumerate() {
        let begun = Instant::now();
        let (victim, blow, moment) = cell;
        let name = format!("{victim:?} {blow:?}, {moment:?}");
        run(nodes, history, *cell, &mut random, &reshaped)
            .map_err(|error| format!("cell {number} ({name}): {error}"))?;
        println!("    {number}: {name}: {:.1} s", begun.elapsed().as_secs_f64());
    }
    let (ran, writes) = (cells.len(), history.writes());
    Ok(format!("{ran} of {all} cells, {writes} writes acknowledged, {}", reshaped.told()))
}

fn run(
    nodes: &mut Nodes,
    history: &History,
    (victim, blow, moment): Cell,
    random: &mut fastrand::Rng,
    reshaped: &Reshaped,
) -> Outcome<()> {
    let owner = nodes.owner().ok_or("nobody owns the account")?;
    let (standby, forwarder) = ((owner + 1) % nodes.len(), (owner + 2) % nodes.len());
    let struck = match victim {
        Victim::Owner | Victim::Database => owner,
        Victim::Standby => standby,
        Victim::Forwarder => forwarder,
    };
    let clients = (0..nodes.len()).map(|node| nodes.client(node)).collect::<Outcome<Vec<_>>>()?;
    let commands = nodes.commands();
    let (over, failure, seed) =
        (AtomicBool::new(false), Failure::default(), random.u64(0..1 << 40));
    let before = Duration::from_millis(random.u64(0..BEFORE_MAX_MS));
    let happened = thread::scope(|scope| {
        let (clients, over, failure, commands) = (&clients, &over, &failure, &commands);
        if moment != Moment::Idle {
            for number in 0..storm::WRITERS + storm::READERS {
                scope.spawn(move || storm::ask(number, (history, clients, seed), over, failure));
            }
        }
        match moment {
            Moment::Split => {
                scope.spawn(move || reshaped.run((clients, commands), seed, over));
            }
            Moment::Containers => {
                scope.spawn(move || make_and_drop(clients, forwarder, over, failure));
            }
            Moment::Handover => {
                scope.spawn(move || commands.hand_to(standby));
            }
            Moment::Backup => {
                scope.spawn(move || commands.back_up());
            }
            Moment::Idle | Moment::Writes | Moment::Copy => {}
        }
        let happened = (|| {
            if moment == Moment::Copy {
                // The one that is struck, if it is no owner.
                nodes.copy_anew(if struck == owner { standby } else { struck })?;
            }
            thread::sleep(before);
            strike(nodes, blow, (owner, struck))?;
            thread::sleep(AFTER);
            nodes.mend_all()
        })();
        over.store(true, Ordering::SeqCst);
        happened
    });
    happened?;
    if let Some(found) = failure.found() {
        return Err(found.into());
    }
    (0..nodes.len()).try_for_each(|node| history.judge(&nodes.client(node)?))
}

fn strike(nodes: &mut Nodes, blow: Blow, (owner, struck): (usize, usize)) -> Outcome<()> {
    match blow {
        Blow::Killed => {
            nodes.signal(struck, "-KILL")?;
            nodes.wait_for_end(struck)?;
            thread::sleep(AWAY);
            nodes.start_node(struck)
        }
        Blow::Stopped => {
            nodes.signal(struck, "-TERM")?;
            nodes.wait_for_end(struck)?;
            nodes.start_node(struck)
        }
        Blow::Paused => {
            nodes.signal(struck, "-STOP")?;
            thread::sleep(LEASE * 2);
            nodes.signal(struck, "-CONT")
        }
        Blow::CutOffFromLedger => {
            nodes.way(struck).set_open(false);
            thread::sleep(LEASE * 2);
            nodes.way(struck).set_open(true);
            Ok(())
        }
        Blow::CutOffFromNodes => {
            // Whoever does not own the account is cut off when it cannot reach the owner.
            nodes.door(owner).set_open(false);
            nodes.door(struck).set_open(false);
            thread::sleep(LEASE);
            nodes.door(owner).set_open(true);
            nodes.door(struck).set_open(true);
            Ok(())
        }
        Blow::BackendsKilled => nodes.postgres.kill_connections(),
        Blow::LedgerCrashed => {
            nodes.postgres.crash()?;
            nodes.postgres.resume()
        }
        Blow::LedgerSilent => {
            let all = |is_open| (0..nodes.len()).for_each(|node| nodes.way(node).set_open(is_open));
            all(false);
            thread::sleep(SILENCE);
            all(true);
            Ok(())
        }
    }
}

/// Makes containers with an item and drops them again. What is answered success must be so.
fn make_and_drop(clients: &[Client], forwarder: usize, over: &AtomicBool, failure: &Failure) {
    let definition = json!({ "id": "brief", "partitionKey": { "paths": ["/pk"], "kind": "Hash" } });
    let (path, client) = ("/dbs/cluster/colls/brief", &clients[forwarder]);
    let other = &clients[(forwarder + 1) % clients.len()];
    let status = |answer: Outcome<Answer>| answer.map_or(0, |answer| answer.status);
    // What was not answered may still come true.
    let mut is_known = true;
    while !over.load(Ordering::SeqCst) {
        let made = status(client.send("POST", "/dbs/cluster/colls", &[], Some(&definition)));
        is_known &= matches!(made, 201 | 409 | 429);
        if is_known && made == 201 && status(other.send("GET", path, &[], None)) == 404 {
            failure.tell("a container that was made is not there");
        }
        let dropped = status(client.send("DELETE", path, &[], None));
        is_known &= matches!(dropped, 204 | 404 | 429);
        if is_known && dropped == 204 && status(other.send("GET", path, &[], None)) == 200 {
            failure.tell("a container that was dropped is still there");
        }
    }
}

impl Commands {
    fn hand_to(&self, node: usize) {
        // The node may be gone, or the owner.
        let _told = self.run(&["cluster", "move", &format!("node{node}"), "--wait", "10"]);
    }

    fn back_up(&self) {
        let Ok(folder) = tempfile::tempdir() else { return };
        let to = folder.path().join("backup").display().to_string();
        // The database may be away.
        let _made = self.run(&["backup", "--to", &to]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_is_there_once() {
        let cells = cells();
        assert_eq!(cells.len(), 7 * (3 * 5 + 3));
        for (number, cell) in cells.iter().enumerate() {
            assert!(!cells[..number].contains(cell), "{cell:?}");
        }
    }
}
