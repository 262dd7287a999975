//! Somebody who splits and merges the partitions of the registers' container while everything else goes wrong. Whatever it is told, it tries
//! again: what must hold is that no register and no counter ever notices.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::json;

use super::history::CONTAINER;
use super::nodes::Commands;
use crate::Outcome;
use crate::rest::Client;

/// What nodes are told, so that partitions are small.
pub(super) const OPTIONS: [&str; 2] = ["--partition-rus", "1000"];
const PARTITION_RUS: u32 = 1000;
/// Partitions at most.
const PARTITIONS_MAX: u32 = 4;
/// Between two wishes.
const PAUSE: Duration = Duration::from_millis(150);

/// How often it was seen to have happened.
#[derive(Default)]
pub(super) struct Reshaped {
    pub(super) splits: AtomicU64,
    pub(super) merges: AtomicU64,
}

impl Reshaped {
    /// Splits and merges until it is over.
    pub(super) fn run(
        &self,
        (clients, commands): (&[Client], &Commands),
        seed: u64,
        over: &AtomicBool,
    ) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut before = 1;
        while !over.load(Ordering::SeqCst) {
            let client = &clients[random.usize(0..clients.len())];
            // It fails whenever the account is between two owners.
            if let Ok(now) = step(client, commands, random.u32(1..=PARTITIONS_MAX)) {
                self.splits.fetch_add(u64::from(now > before), Ordering::Relaxed);
                self.merges.fetch_add(u64::from(now < before), Ordering::Relaxed);
                before = now;
            }
            thread::sleep(PAUSE);
        }
    }

    pub(super) fn told(&self) -> String {
        let count = |number: &AtomicU64| number.load(Ordering::Relaxed);
        format!("{} splits, {} merges", count(&self.splits), count(&self.merges))
    }
}

fn step(client: &Client, commands: &Commands, wanted: u32) -> Outcome<u32> {
    let before = partitions(client)?;
    scale(client, wanted * PARTITION_RUS)?;
    if wanted < before {
        commands.merge("cluster", "items");
    }
    partitions(client)
}

fn partitions(client: &Client) -> Outcome<u32> {
    let answer = client.send("GET", &format!("{CONTAINER}/pkranges"), &[], None)?;
    let ranges = answer.body["PartitionKeyRanges"].as_array().ok_or("no ranges came")?;
    Ok(u32::try_from(ranges.len())?)
}

fn scale(client: &Client, units: u32) -> Outcome<()> {
    let container = client.send("GET", CONTAINER, &[], None)?;
    let rid = container.body["_rid"].as_str().ok_or("no container came")?.to_owned();
    let offers = client.send("GET", "/offers", &[], None)?;
    let offers = offers.body["Offers"].as_array().ok_or("no offers came")?;
    let own = offers.iter().find(|offer| offer["offerResourceId"] == rid.as_str());
    let mut offer = own.ok_or("the container has no offer")?.clone();
    let link =
        offer["_self"].as_str().ok_or("an offer without a link")?.trim_matches('/').to_owned();
    offer["content"] = json!({ "offerThroughput": units });
    let answer = client.send("PUT", &format!("/{link}"), &[], Some(&offer))?;
    if answer.is_success() { Ok(()) } else { Err(format!("answered {}", answer.status).into()) }
}
