//! Slices spread over the nodes by themselves, and stay where they are when they shall.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::history::History;
use super::nodes::Nodes;
use crate::Outcome;
use crate::processes::announce;

/// How long nodes must have stayed before slices move.
const AFTER_SECONDS: &str = "2";
/// How long moves may take to come, and to end.
const WITHIN: Duration = Duration::from_secs(60);
/// How long a placement that shall last is looked at: several times as long as moves take to come.
const WATCHED: Duration = Duration::from_secs(8);
const POLL: Duration = Duration::from_millis(200);

/// A node alone takes all slices; others come, one is drained and comes back, one is killed and comes back.
pub(super) fn trial(binary: &Path, slices: u32) -> Outcome<String> {
    announce(&format!("cluster: {slices} slices spread over three nodes by themselves"));
    let options = ["--balance-after", AFTER_SECONDS].map(str::to_owned).to_vec();
    let mut nodes = Nodes::lay_out_sliced(binary, "balance", slices, options)?;
    nodes.start_node(0)?;
    nodes.wait_until_ready(0)?;
    expect(&nodes, "one node alone", |counts| counts[0] == slices)?;
    let history = History::default();
    history.prepare(&nodes.client(0)?)?;
    nodes.start_node(1)?;
    nodes.start_node(2)?;
    let share = slices / 3;
    let is_spread = |counts: [u32; 3]| {
        counts.iter().sum::<u32>() == slices && counts.iter().all(|count| *count >= share)
    };
    expect(&nodes, "two came", is_spread)?;
    nodes.operate("drain", 1)?;
    let is_without = |counts: [u32; 3]| counts[1] == 0 && counts.iter().sum::<u32>() == slices;
    expect(&nodes, "one is drained", is_without)?;
    let end = Instant::now() + WATCHED;
    while Instant::now() < end {
        let counts = counts(&nodes);
        if counts[1] != 0 {
            return Err(format!("a node that is drained was given slices: {counts:?}").into());
        }
        thread::sleep(POLL);
    }
    nodes.signal(1, "-TERM")?;
    nodes.wait_for_end(1)?;
    nodes.start_node(1)?;
    expect(&nodes, "it came back", is_spread)?;
    let steward = nodes.owner().ok_or("nobody has the first slice")?;
    nodes.signal(steward, "-KILL")?;
    nodes.wait_for_end(steward)?;
    let is_replaced =
        |counts: [u32; 3]| counts[steward] == 0 && counts.iter().sum::<u32>() == slices;
    expect(&nodes, "the steward was killed", is_replaced)?;
    nodes.start_node(steward)?;
    expect(&nodes, "it is a node like others now", is_spread)?;
    history.write_some(&nodes.client(2)?, 24)?;
    history.judge(&nodes.client(1)?)?;
    nodes.stop_all()?;
    Ok("a node alone, two that came, one drained, one back, the steward killed".to_owned())
}

/// How many slices each node owns.
fn counts(nodes: &Nodes) -> [u32; 3] {
    let mut owned: BTreeMap<usize, u32> = BTreeMap::new();
    for owner in nodes.slice_owners().into_iter().flatten() {
        *owned.entry(owner).or_default() += 1;
    }
    [0, 1, 2].map(|node| owned.get(&node).copied().unwrap_or(0))
}

fn expect(nodes: &Nodes, when: &str, is_so: impl Fn([u32; 3]) -> bool) -> Outcome<()> {
    let end = Instant::now() + WITHIN;
    while !is_so(counts(nodes)) {
        if Instant::now() > end {
            let owners = nodes.slice_owners();
            return Err(format!("{when}: slices are not spread but {owners:?}").into());
        }
        thread::sleep(POLL);
    }
    println!("    {when}: {:?}", counts(nodes));
    Ok(())
}
