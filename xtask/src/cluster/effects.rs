//! Views and subscriptions while the account changes its owner: they run at the owner, and the next one goes on where the last one was.
//!
//! The checks are those of the crash test: every view shows its source item by item, what procedures do happens exactly once, and what
//! webhooks are sent comes at least once, under one key, in order.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::nodes::{Encryption, Nodes};
use crate::Outcome;
use crate::crash::events::Events;
use crate::crash::{create_container, scaler, views};
use std::path::Path;

/// How long events are written before the owner changes.
const WRITING: Duration = Duration::from_millis(900);

/// Partitions that each slice shall have of what is split, in turn.
const SLICE_PARTITIONS: [u32; 5] = [2, 2, 3, 3, 4];
/// Offers that are changed in turn: the container's and those of two views.
const SCALED_OFFERS: usize = 3;

/// How the owners of slices change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SliceEnd {
    NodeKilled,
    SliceMoved,
    NodeStopped,
    Rebalanced,
}

/// The same in an account that is cut into slices, where views and their sources lie at different nodes: slices change their owners. At the end a backup is
/// restored into an account that is not cut, and that one's into another number of slices: subscriptions go on, and views are built anew.
pub(super) fn trial_in_slices(
    binary: &Path,
    slices: u32,
    rounds: usize,
    seed: u64,
) -> Outcome<String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut events = Events::new(&mut random)?;
    let mut options = events.options().to_vec();
    options.push("--no-balance".to_owned());
    options.extend(["--partition-rus".to_owned(), scaler::PARTITION_RUS.to_string()]);
    let mut nodes = Nodes::lay_out_sliced(binary, "effects", slices, options)?;
    nodes.start_all()?;
    nodes.command(&["cluster", "rebalance"], nodes.database())?;
    let client = nodes.client(1)?;
    create_container(&client)?;
    views::create(&client)?;
    events.subscribe(&client)?;
    let ends =
        [SliceEnd::NodeKilled, SliceEnd::SliceMoved, SliceEnd::NodeStopped, SliceEnd::Rebalanced];
    for (round, end) in (0..rounds).zip(ends.into_iter().cycle()) {
        let owners = nodes.slice_owners();
        let slice = random.usize(0..owners.len().max(1));
        let owner = owners.get(slice).copied().flatten().unwrap_or(0);
        println!("    {end:?}, node {owner}, slices of {owners:?}");
        change_slices(&mut nodes, &mut events, (owner, slice), (round, end))?;
        nodes.mend_all()?;
        let client = nodes.client((owner + 1) % nodes.len())?;
        events.check(&client)?;
        views::check(&client)?;
    }
    events.rest(&nodes.client(2)?)?;
    let ranges = scaler::partitions(&nodes.client(2)?)?;
    if ranges <= slices {
        return Err(format!("the container has {ranges} ranges: nothing was split").into());
    }
    let mut backup = nodes.backup()?;
    super::slices::verify(&mut nodes)?;
    for (database, slices) in [("restored1", 1), ("restored2", slices * 2)] {
        nodes.restore(&backup, (database, slices))?;
        let client = nodes.client(2)?;
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let writing = scope.spawn(|| events.write(&client, &over));
            thread::sleep(WRITING);
            over.store(true, Ordering::SeqCst);
            writing.join().map_err(|_| "the event writers panicked")?
        })?;
        let told = |error| format!("{slices} slices, restored: {error}");
        events.check(&client).map_err(told)?;
        views::check(&client).map_err(told)?;
        backup = nodes.backup()?;
        nodes.stop_all()?;
    }
    Ok(format!(
        "{rounds} changes of owners of slices, splits into {ranges} ranges, two restores; {}",
        events.told()
    ))
}

/// Lets events be written through a node that owns slices, splits what they are written to or one of its views, and changes owners under them.
fn change_slices(
    nodes: &mut Nodes,
    events: &mut Events,
    (owner, slice): (usize, usize),
    (round, end): (usize, SliceEnd),
) -> Outcome<()> {
    let client = nodes.client(owner)?;
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let writing = scope.spawn(|| events.write(&client, &over));
        let partitions = SLICE_PARTITIONS[round % SLICE_PARTITIONS.len()];
        let scaled = scaler::scale(
            &client,
            round % SCALED_OFFERS,
            partitions * nodes.slice_owners().len() as u32 * scaler::PARTITION_RUS,
        );
        thread::sleep(WRITING);
        over.store(true, Ordering::SeqCst);
        let ended = match end {
            SliceEnd::NodeKilled => nodes.signal(owner, "-KILL"),
            SliceEnd::NodeStopped => nodes.signal(owner, "-TERM"),
            SliceEnd::Rebalanced => nodes.command(&["cluster", "rebalance"], nodes.database()),
            SliceEnd::SliceMoved => {
                let heir = nodes.place((owner + 1) % nodes.len()).0.to_owned();
                let words = ["cluster", "move", &heir, "--slice", &slice.to_string()];
                nodes.command(&words, nodes.database())
            }
        };
        let written = writing.join().map_err(|_| "the event writers panicked")?;
        scaled.and(written).and(ended)
    })?;
    if matches!(end, SliceEnd::NodeKilled | SliceEnd::NodeStopped) {
        nodes.wait_for_end(owner)?;
    }
    Ok(())
}

/// How an owner comes to its end.
#[derive(Clone, Copy, Debug)]
enum OwnerEnd {
    Killed,
    Moved,
    Stopped,
}

/// Changes the owner again and again under event writers; answers what had its effect.
pub(super) fn trial(binary: &Path, rounds: usize, seed: u64) -> Outcome<String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut events = Events::new(&mut random)?;
    let options = events.options().to_vec();
    let mut nodes = Nodes::start(binary, "effects", Encryption::None, options)?;
    let client = nodes.client(1)?;
    create_container(&client)?;
    views::create(&client)?;
    events.subscribe(&client)?;
    let ends = [OwnerEnd::Killed, OwnerEnd::Moved, OwnerEnd::Stopped];
    for end in ends.into_iter().cycle().take(rounds) {
        let owner = nodes.owner().ok_or("nobody owns the account")?;
        println!("    {end:?}, owner {owner}");
        change_owner(&mut nodes, &mut events, owner, end)?;
        nodes.mend_all()?;
        let now = nodes.owner().ok_or("nobody owns the account")?;
        // Through a node that does not own it.
        let client = nodes.client((now + 1) % nodes.len())?;
        events.check(&client)?;
        views::check(&client)?;
        if now == owner && !matches!(end, OwnerEnd::Killed) {
            return Err(format!("node {owner} owns the account still: {end:?}").into());
        }
    }
    nodes.stop_all()?;
    nodes.verify_all()?;
    Ok(format!("{rounds} changes of the owner; {}", events.told()))
}

/// Lets events be written at the owner, and ends its ownership under them.
fn change_owner(
    nodes: &mut Nodes,
    events: &mut Events,
    owner: usize,
    end: OwnerEnd,
) -> Outcome<()> {
    let client = nodes.client(owner)?;
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let writing = scope.spawn(|| events.write(&client, &over));
        thread::sleep(WRITING);
        over.store(true, Ordering::SeqCst);
        let ended = match end {
            OwnerEnd::Killed => nodes.signal(owner, "-KILL"),
            OwnerEnd::Moved => nodes.operate("move", (owner + 1) % nodes.len()),
            OwnerEnd::Stopped => nodes.signal(owner, "-TERM"),
        };
        let written = writing.join().map_err(|_| "the event writers panicked")?;
        written.and(ended)
    })?;
    if !matches!(end, OwnerEnd::Moved) {
        nodes.wait_for_end(owner)?;
    }
    Ok(())
}
