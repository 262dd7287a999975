//! A rule broken on purpose: an account taken from an owner that lives. The registers must notice, or they would prove nothing.
//!
//! The owner is cut off from the database, and at once the database is told that nobody owns the account: nobody waits for the end of its lease. So for a
//! moment two nodes answer, and the one of before does not know what the other one was told.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::history::History;
use super::nodes::{Encryption, LEASE, Nodes};
use super::storm::{self, Failure};
use crate::Outcome;
use crate::rest::Client;

/// What a take that asks nobody would do.
const THEFT: &str = "update armilla.shards set epoch = epoch + 1, owner = null";
/// How often it is tried: the machine may be too slow to have two owners at once.
const TRIES: usize = 4;
/// Writing before it happens.
const BEFORE: Duration = Duration::from_millis(300);

/// Steals the account until an old value is read.
pub(super) fn trial(binary: &Path, seed: u64) -> Outcome<String> {
    let mut nodes = Nodes::start(binary, "control", Encryption::None, Vec::new())?;
    let history = History::default();
    history.prepare(&nodes.client(0)?)?;
    for round in 0..TRIES {
        let owner = nodes.owner().ok_or("nobody owns the account")?;
        let clients =
            (0..nodes.len()).map(|node| nodes.client(node)).collect::<Outcome<Vec<Client>>>()?;
        let (over, failure) = (AtomicBool::new(false), Failure::default());
        let stolen = thread::scope(|scope| {
            let (clients, over, failure, history) = (&clients, &over, &failure, &history);
            for number in 0..storm::WRITERS + storm::READERS {
                let seed = seed + round as u64;
                scope.spawn(move || storm::ask(number, (history, clients, seed), over, failure));
            }
            thread::sleep(BEFORE);
            nodes.way(owner).set_open(false);
            let stolen = nodes.postgres.sql_in("control", THEFT);
            let end = Instant::now() + LEASE;
            while failure.found().is_none() && Instant::now() < end {
                thread::sleep(Duration::from_millis(10));
            }
            over.store(true, Ordering::SeqCst);
            stolen
        });
        stolen?;
        if let Some(found) = failure.found() {
            return Ok(format!(
                "an account was stolen from an owner that lives, and found out: {found}"
            ));
        }
        nodes.mend_all()?;
    }
    Err("two nodes owned the account and the check did not notice".into())
}
