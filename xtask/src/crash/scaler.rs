//! Somebody who turns the throughput up and down while others write: partitions split and merge, and
//! queries over all of them are answered meanwhile.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::CONTAINER;
use crate::Outcome;
use crate::rest::Client;

/// Request units per second of one partition, told to the server.
pub(crate) const PARTITION_RUS: u32 = 1000;
/// Partitions at most.
const PARTITIONS_MAX: u32 = 5;
const PAUSE_MS: std::ops::Range<u64> = 10..150;

/// How often the partitions were changed.
#[derive(Default)]
pub(crate) struct Changes {
    pub(crate) splits: u64,
    pub(crate) merges: u64,
}

/// Scales and merges until the server is killed.
pub(crate) fn run(
    client: &Client,
    binary: &Path,
    data: &Path,
    random: &mut fastrand::Rng,
    killed: &AtomicBool,
) -> Outcome<Changes> {
    let mut changes = Changes::default();
    while !killed.load(Ordering::SeqCst) {
        thread::sleep(Duration::from_millis(random.u64(PAUSE_MS)));
        let wanted = random.u32(1..=PARTITIONS_MAX);
        match step(client, binary, data, wanted, &mut changes) {
            Err(_) if killed.load(Ordering::SeqCst) => return Ok(changes),
            outcome => outcome?,
        }
    }
    Ok(changes)
}

fn step(
    client: &Client,
    binary: &Path,
    data: &Path,
    wanted: u32,
    changes: &mut Changes,
) -> Outcome<()> {
    let before = partitions(client)?;
    scale(client, 0, wanted * PARTITION_RUS)?;
    if wanted < before {
        let mut merge = Command::new(binary);
        let output = merge.args(["merge", "--data"]).arg(data).args(["crash", "items"]).output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("`armilla merge` failed: {said}").into());
        }
    }
    let after = partitions(client)?;
    changes.splits += u64::from(after > before);
    changes.merges += u64::from(after < before);
    count(client)
}

/// How many ranges the container has.
pub(crate) fn partitions(client: &Client) -> Outcome<u32> {
    let answer = client.send("GET", &format!("{CONTAINER}/pkranges"), &[], None)?;
    let ranges = answer.body["PartitionKeyRanges"].as_array().ok_or("no ranges came")?;
    Ok(u32::try_from(ranges.len())?)
}

/// Sets the throughput of one of the offers: the first is the container's, then come its views'.
pub(crate) fn scale(client: &Client, number: usize, units: u32) -> Outcome<()> {
    let offers = client.send("GET", "/offers", &[], None)?;
    let mut offer = offers.body["Offers"][number].clone();
    let link = offer["_self"].as_str().ok_or("no offer came")?.trim_matches('/').to_owned();
    offer["content"] = json!({"offerThroughput": units});
    let answer = client.send("PUT", &format!("/{link}"), &[], Some(&offer))?;
    if answer.is_success() {
        return Ok(());
    }
    Err(format!("the offer of {units} was refused: {} {}", answer.status, answer.body).into())
}

/// A query over all ranges is answered whatever happens to them.
fn count(client: &Client) -> Outcome<()> {
    let body = json!({"query": "SELECT VALUE COUNT(1) FROM c", "parameters": []});
    let headers = [
        ("x-ms-documentdb-isquery", "True"),
        ("x-ms-documentdb-query-enablecrosspartition", "True"),
    ];
    let answer = client.send("POST", &format!("{CONTAINER}/docs"), &headers, Some(&body))?;
    match answer.body["Documents"][0] {
        Value::Number(_) if answer.status == 200 => Ok(()),
        _ => Err(format!("COUNT answered {}: {}", answer.status, answer.body).into()),
    }
}
