//! What operators do to the slices of an account: hand one over, spread them over the nodes.

use super::balance::next_move;
use crate::cluster::operations::{Seen, name_heir, open};
use crate::cluster::record::AccountRecord;
use crate::cluster::{MoveOptions, RebalanceOptions};
use crate::terminal::say;
use armilla_model::clock::monotonic;
use armilla_storage::ledger::{Ledger as _, NodeState, PostgresLedger};
use std::thread;
use std::time::{Duration, Instant};

/// Between two looks whether it is done.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Hands one slice, or all of them, to a node.
pub(in crate::cluster) fn hand_to(
    options: &MoveOptions,
    ledger: &PostgresLedger,
    count: u32,
) -> Result<(), String> {
    let name = &options.choice.node;
    let slices = match options.slice {
        Some(slice) if slice >= count => {
            return Err(format!("there is no slice {slice}: the account has {count}, from 0"));
        }
        Some(slice) => slice..slice + 1,
        None => 0..count,
    };
    let end = monotonic() + Duration::from_secs(options.wait);
    for slice in slices {
        give(ledger, slice, name, end)?;
    }
    Ok(())
}

/// Writes down who shall own a slice, and waits until it does.
fn give(ledger: &PostgresLedger, slice: u32, name: &str, end: Instant) -> Result<(), String> {
    name_heir(ledger, slice, name)?;
    while owner(ledger, slice).as_deref() != Some(name) {
        if monotonic() > end {
            return Err(format!(
                "slice {slice} was not handed over in time. The wish stands: its owner hands over when '{name}' has caught up"
            ));
        }
        thread::sleep(LOOK_EVERY);
    }
    say(&format!("the node '{name}' owns slice {slice}"));
    Ok(())
}

/// The name of who owns a slice; nothing while nobody does or the database does not answer.
fn owner(ledger: &PostgresLedger, slice: u32) -> Option<String> {
    let seen = Seen::read_slice(ledger, slice).ok()?;
    seen.owner().map(|owner| owner.card.name.clone())
}

/// Waits until a node that is drained owns no slice.
pub(in crate::cluster) fn wait_for_drain(
    ledger: &PostgresLedger,
    options: &MoveOptions,
    count: u32,
) -> Result<(), String> {
    let name = &options.choice.node;
    let end = monotonic() + Duration::from_secs(options.wait);
    let is_elsewhere =
        |slice| owner(ledger, slice).is_some_and(|owner| owner != *options.choice.node);
    while !(0..count).all(is_elsewhere) {
        if monotonic() > end {
            return Err(format!(
                "'{name}' still owns slices: it hands them over when others have caught up"
            ));
        }
        thread::sleep(LOOK_EVERY);
    }
    say(&format!(
        "the node '{name}' owns nothing and takes nothing; it passes requests on until you stop it"
    ));
    Ok(())
}

/// Moves slices, one at a time, from the node that has most to the one that has fewest.
pub(in crate::cluster) fn rebalance(options: &RebalanceOptions) -> Result<(), String> {
    let ledger = open(&options.store)?;
    let count = AccountRecord::read(&ledger)?.slices();
    let end = monotonic() + Duration::from_secs(options.wait);
    loop {
        let nodes = ledger.nodes().map_err(|error| error.to_string())?;
        let up = nodes.iter().filter(|node| node.state == NodeState::Up);
        let names: Vec<String> = up.map(|node| node.card.name.clone()).collect();
        let owners: Vec<_> = (0..count).map(|slice| owner(&ledger, slice)).collect();
        let Some(next) = next_move(&owners, &vec![1; owners.len()], &names) else { break };
        let slice = u32::try_from(next.slice).map_err(|error| error.to_string())?;
        give(&ledger, slice, &next.to, end)?;
    }
    say("the slices are spread evenly");
    Ok(())
}
