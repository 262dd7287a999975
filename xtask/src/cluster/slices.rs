//! An account that is cut into slices: several nodes own parts of it at a time, while they are killed, stopped, paused and cut off, and slices move.
//!
//! The registers and counters of the [storm](super::storm) lie in different slices. Beside them, containers are made and dropped through random nodes: what was
//! acknowledged must be known for every key, through every node. At the end a list goes through all slices, and every copy verifies.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::direct::{DirectClient, Met, ask_either_way};
use super::history::{CONTAINER, History, ITEMS, KEY_HEADER};
use super::nodes::{LEASE, Nodes};
use super::storm::{Failure, READERS, WRITERS};
use crate::Outcome;
use crate::processes::announce;
use crate::rest::Client;

/// Between two misfortunes.
const CALM: Duration = Duration::from_millis(1500);
/// How long a node is away before it is started again.
const AWAY: Duration = Duration::from_millis(500);
/// Keys that are written to each container that is made meanwhile.
const KEYS: u32 = 8;

/// Writes to an account that was restored.
const WRITES_AFTER: u64 = 20;

/// What may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SliceMisfortune {
    SliceMoved,
    NodeKilled,
    Rebalanced,
    NodePaused,
    DatabaseCrashed,
    NodeStopped,
    ConnectionsKilled,
    NodeDrained,
    NodeCutOff,
}

const ALL: [SliceMisfortune; 9] = [
    SliceMisfortune::SliceMoved,
    SliceMisfortune::NodeKilled,
    SliceMisfortune::Rebalanced,
    SliceMisfortune::NodePaused,
    SliceMisfortune::DatabaseCrashed,
    SliceMisfortune::NodeStopped,
    SliceMisfortune::ConnectionsKilled,
    SliceMisfortune::NodeDrained,
    SliceMisfortune::NodeCutOff,
];

/// The whole trial.
pub(super) fn trial(binary: &Path, slices: u32, seconds: u64, seed: u64) -> Outcome<String> {
    announce(&format!("cluster: a storm of {seconds} s over {slices} slices, seed {seed}"));
    let mut nodes = Nodes::start_sliced(binary, "slices", slices)?;
    nodes.command(&["cluster", "rebalance"], nodes.database())?;
    let owners: HashSet<_> = nodes.slice_owners().into_iter().flatten().collect();
    if owners.len() < nodes.len().min(slices as usize) {
        return Err(format!("only the nodes {owners:?} own slices").into());
    }
    let clients: Vec<Client> =
        (0..nodes.len()).map(|node| nodes.client(node)).collect::<Outcome<_>>()?;
    super::sliced_requests::check(&clients)?;
    check_merges(&nodes, slices)?;
    let history = History::default();
    history.prepare(&nodes.client(1)?)?;
    super::direct::check(&nodes)?;
    let note = rage(&mut nodes, &history, (Duration::from_secs(seconds), seed))?;
    nodes.mend_all()?;
    for node in 0..nodes.len() {
        let client = nodes.client(node)?;
        history.judge(&client).map_err(|error| format!("through node {node}: {error}"))?;
        list_all(&client)?;
    }
    let met = Met::default();
    let judged = history.judge(&DirectClient::new(&clients, CONTAINER, &met)?);
    judged.map_err(|error| format!("in Direct mode: {error}"))?;
    let backup = nodes.backup()?;
    verify(&mut nodes)?;
    restored(&mut nodes, (&history, &backup), slices)?;
    Ok(note)
}

/// A merge at every node reaches all slices, each of which has one range of the container.
fn check_merges(nodes: &Nodes, slices: u32) -> Outcome<()> {
    let mut ranges = 0;
    for node in 0..nodes.len() {
        let told = nodes.at_node(node, &["merge", "sliced", "items"])?;
        let count = told.split_once("has ").and_then(|(_, rest)| rest.split(' ').next());
        ranges += count.ok_or_else(|| format!("a merge says {told}"))?.parse::<u32>()?;
    }
    if ranges == slices { Ok(()) } else { Err(format!("merges reach {ranges} ranges").into()) }
}

/// A backup that was made of the slices while nodes served them holds everything, in an account that is not cut; and that one's in an account that is cut
/// otherwise. Then a loss is accepted in slices, which loses nothing here, and the nodes throw their copies away.
fn restored(nodes: &mut Nodes, (history, backup): (&History, &Path), slices: u32) -> Outcome<()> {
    let mut backup = backup.to_owned();
    for (database, slices) in [("restored1", 1), ("restored2", slices * 2)] {
        nodes.restore(&backup, (database, slices))?;
        let client = nodes.client(2)?;
        history.judge(&client).map_err(|error| format!("{slices} slices, restored: {error}"))?;
        list_all(&client)?;
        history.write_some(&client, WRITES_AFTER)?;
        backup = nodes.backup()?;
        nodes.stop_all()?;
    }
    nodes.command(&["cluster", "accept-loss", "--yes"], nodes.database())?;
    nodes.start_all()?;
    let client = nodes.client(0)?;
    history.judge(&client).map_err(|error| format!("after a loss was accepted: {error}"))?;
    history.write_some(&client, WRITES_AFTER)?;
    Ok(())
}

fn rage(nodes: &mut Nodes, history: &History, (time, seed): (Duration, u64)) -> Outcome<String> {
    let clients: Vec<Client> =
        (0..nodes.len()).map(|node| nodes.client(node)).collect::<Outcome<_>>()?;
    let over = AtomicBool::new(false);
    let failure = Failure::default();
    let made = AtomicU64::new(0);
    let met = Met::default();
    let mut happened = BTreeMap::new();
    thread::scope(|scope| {
        for number in 0..WRITERS + READERS {
            let (clients, over, failure, met) = (&clients, &over, &failure, &met);
            let asked = (history, &clients[..], seed);
            scope.spawn(move || ask_either_way(number, asked, met, (over, failure)));
        }
        scope.spawn(|| make_containers(&clients, seed, &over, (&failure, &made)));
        let raged = misfortunes(nodes, (time, seed), &failure, &mut happened);
        over.store(true, Ordering::SeqCst);
        raged
    })?;
    if let Some(found) = failure.found() {
        return Err(found.into());
    }
    let count = |number: &AtomicU64| number.load(Ordering::Relaxed);
    let happened: Vec<String> =
        happened.iter().map(|(what, times)| format!("{times} {what:?}")).collect();
    Ok(format!(
        "{} writes acknowledged, {} reads, {}, {} containers made and dropped, {} told to come back, {} unknown; {}",
        history.writes(),
        count(&history.reads),
        met.told(),
        count(&made),
        count(&history.throttled),
        count(&history.unknown),
        happened.join(", ")
    ))
}

/// Makes containers and drops them: what was acknowledged is known for all keys through all nodes.
fn make_containers(
    clients: &[Client],
    seed: u64,
    over: &AtomicBool,
    (failure, made): (&Failure, &AtomicU64),
) {
    let mut random = fastrand::Rng::with_seed(seed + 7);
    let mut number = 0;
    while !over.load(Ordering::SeqCst) {
        number += 1;
        match make_one(clients, &mut random, number) {
            Ok(true) => drop(made.fetch_add(1, Ordering::Relaxed)),
            Ok(false) => {}
            Err(error) => return failure.tell(&error.to_string()),
        }
    }
}

/// One container; false when something did not work that may fail.
fn make_one(clients: &[Client], random: &mut fastrand::Rng, number: u64) -> Outcome<bool> {
    let mut any = || &clients[random.usize(0..clients.len())];
    let name = format!("made{number}");
    // Another definition each time, so that nodes remember the wrong one now and then.
    let version = 1 + number % 2;
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": version });
    let definition = json!({ "id": name, "partitionKey": key });
    let created = any().send("POST", "/dbs/cluster/colls", &[], Some(&definition));
    if !created.is_ok_and(|answer| answer.status == 201) {
        return Ok(false);
    }
    let path = format!("/dbs/cluster/colls/{name}");
    let mut written = 0;
    for key in 0..KEYS {
        let item = json!({ "id": key.to_string(), "pk": key.to_string() });
        let header = format!("[\"{key}\"]");
        let headers = [(KEY_HEADER, &*header)];
        let Ok(answer) = any().send("POST", &format!("{path}/docs"), &headers, Some(&item)) else {
            continue;
        };
        match answer.status {
            201 => written += 1,
            408 | 409 | 429 => {}
            other => {
                return Err(format!("a write to a new container: {other}: {}", answer.body).into());
            }
        }
    }
    let dropped = any().send("DELETE", &path, &[], None);
    if !dropped.is_ok_and(|answer| answer.status == 204) {
        return Ok(false);
    }
    let header = format!("[\"{}\"]", random_key(random));
    let answer = clients[random.usize(0..clients.len())].send(
        "GET",
        &format!("{path}/docs/1"),
        &[(KEY_HEADER, &*header)],
        None,
    );
    match answer {
        Ok(answer) if answer.status == 200 => Err("a container that is dropped is read".into()),
        _ => Ok(written > 0),
    }
}

fn random_key(random: &mut fastrand::Rng) -> u32 {
    random.u32(0..KEYS)
}

fn misfortunes(
    nodes: &mut Nodes,
    (time, seed): (Duration, u64),
    failure: &Failure,
    happened: &mut BTreeMap<SliceMisfortune, u64>,
) -> Outcome<()> {
    let mut random = fastrand::Rng::with_seed(seed);
    let end = Instant::now() + time;
    let first = random.usize(0..ALL.len());
    let mut next = 0;
    while Instant::now() < end && failure.found().is_none() {
        thread::sleep(CALM);
        nodes.revive()?;
        let node = random.usize(0..nodes.len());
        let owners = nodes.slice_owners();
        // Each once before any comes again, in an order of the seed's.
        let what = ALL[(first + next) % ALL.len()];
        next += 1;
        println!("    {what:?}, node {node}, slices of {owners:?}");
        let slice = random.usize(0..owners.len().max(1));
        strike(nodes, what, node, slice)?;
        *happened.entry(what).or_default() += 1;
    }
    Ok(())
}

fn strike(nodes: &mut Nodes, what: SliceMisfortune, node: usize, slice: usize) -> Outcome<()> {
    match what {
        SliceMisfortune::SliceMoved => {
            let (name, slice) = (nodes.place(node).0.to_owned(), slice.to_string());
            let words = ["cluster", "move", &name, "--slice", &slice];
            on_living(nodes, node, |nodes| nodes.command(&words, nodes.database()))
        }
        SliceMisfortune::Rebalanced => nodes.command(&["cluster", "rebalance"], nodes.database()),
        SliceMisfortune::NodeKilled => {
            nodes.signal(node, "-KILL")?;
            nodes.wait_for_end(node)?;
            thread::sleep(AWAY);
            nodes.start_node(node)
        }
        SliceMisfortune::NodeStopped => {
            nodes.signal(node, "-TERM")?;
            let status = nodes.wait_for_end(node)?;
            if !status.success() {
                return Err(format!("a node that was told to stop ended with {status}").into());
            }
            nodes.start_node(node)
        }
        SliceMisfortune::NodeDrained => {
            on_living(nodes, node, |nodes| nodes.operate("drain", node))?;
            strike(nodes, SliceMisfortune::NodeStopped, node, slice)
        }
        SliceMisfortune::NodePaused => {
            nodes.signal(node, "-STOP")?;
            thread::sleep(LEASE * 5 / 2);
            nodes.signal(node, "-CONT")
        }
        SliceMisfortune::NodeCutOff => {
            nodes.way(node).set_open(false);
            thread::sleep(LEASE * 5 / 2);
            nodes.way(node).set_open(true);
            Ok(())
        }
        SliceMisfortune::ConnectionsKilled => nodes.postgres.kill_connections(),
        SliceMisfortune::DatabaseCrashed => {
            nodes.postgres.crash()?;
            nodes.postgres.resume()
        }
    }
}

/// Does something with a node that is there. One that was paused or cut off may be evicted at any moment, and is then started again.
fn on_living(nodes: &mut Nodes, node: usize, act: impl Fn(&Nodes) -> Outcome<()>) -> Outcome<()> {
    const TRIES_MAX: usize = 3;
    let mut done = Ok(());
    for _ in 0..TRIES_MAX {
        nodes.revive()?;
        done = nodes.wait_until_ready(node).and_then(|()| act(nodes));
        let is_evicted = |error: &str| error.contains("is gone") || error.contains("status: 3");
        if !done.as_ref().is_err_and(|error| is_evicted(&error.to_string())) {
            break;
        }
    }
    done
}

/// A list of the container, page by page through all slices: every item is there once.
fn list_all(client: &Client) -> Outcome<()> {
    let mut found = Vec::new();
    let mut continuation = None::<String>;
    loop {
        let mut headers = vec![("x-ms-max-item-count", "5")];
        headers.extend(continuation.as_deref().map(|token| ("x-ms-continuation", token)));
        let answer = client.send("GET", &format!("{CONTAINER}/docs"), &headers, None)?;
        if answer.status != 200 {
            return Err(format!("a list was answered {}: {}", answer.status, answer.body).into());
        }
        let page = answer.body["Documents"].as_array().cloned().unwrap_or_default();
        found.extend(page.iter().map(|item| item["id"].to_string()));
        continuation = answer.header("x-ms-continuation").map(str::to_owned);
        if continuation.is_none() {
            break;
        }
    }
    let distinct: HashSet<_> = found.iter().collect();
    if distinct.len() != found.len() || found.len() > ITEMS {
        return Err(format!("a list shows items twice: {found:?}").into());
    }
    let ranges = client.send("GET", &format!("{CONTAINER}/pkranges"), &[], None)?;
    let ranges = ranges.body["PartitionKeyRanges"].as_array().cloned().unwrap_or_default();
    let is_joined =
        ranges.windows(2).all(|pair| pair[0]["maxExclusive"] == pair[1]["minInclusive"]);
    if !is_joined || ranges.last().is_none_or(|last| last["maxExclusive"] != "FF") {
        return Err(format!("the ranges do not cover the keys: {ranges:?}").into());
    }
    Ok(())
}

/// Every copy of every slice is whole, and byte for byte what the database holds. The nodes are killed when all have everything: who stops in
/// order lets another one take over, which may write.
pub(super) fn verify(nodes: &mut Nodes) -> Outcome<()> {
    nodes.wait_until_slices_rest()?;
    for node in 0..nodes.len() {
        nodes.signal(node, "-KILL")?;
    }
    for node in 0..nodes.len() {
        nodes.wait_for_end(node)?;
        let folder = nodes.place(node).1.display().to_string();
        nodes.command(&["verify", "--against", &folder], nodes.database())?;
    }
    Ok(())
}
