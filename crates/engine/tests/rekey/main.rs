//! Re-keys: what they copy and what goes with the name, what stands against them, random histories with cuts, and writers during
//! a swap.
//!
//! One seed reproduces one history: `ARMILLA_REKEY_SEED=… ARMILLA_REKEY_STEPS=… cargo test -p armilla-engine --test
//! rekey`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]
#![allow(clippy::print_stdout, reason = "a failing test must tell its seed")]

mod histories;
mod rules;
#[path = "../support/mod.rs"]
mod support;

use armilla_engine::account::NewRekey;
use armilla_engine::views::Followed;
use armilla_engine::{Account, Container};
use armilla_model::{Result, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::{Bench, rows, value};

const SOURCE: &str = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},"defaultTtl":-1,
    "uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]}}"#;
const PATIENCE: Duration = Duration::from_secs(120);

fn bench() -> Bench {
    Bench::new(SOURCE, |options| options.background = false)
}

/// The key `/k`, with every other default.
fn wish() -> NewRekey {
    let partition_key = value(r#"{"paths":["/k"],"kind":"Hash","version":2}"#);
    NewRekey { partition_key, name: None, throughput: None }
}

fn begin(bench: &Bench) -> Arc<Container> {
    bench.account.begin_rekey(&bench.container, &wish()).unwrap()
}

/// Follows until nothing is left to follow.
fn follow(account: &Account) {
    let begun = Instant::now();
    while account.follow_views() != Followed::Everything {
        assert!(begun.elapsed() < PATIENCE, "the re-key does not come to an end");
    }
}

/// Every item of a container by key and id, with its version and time, without what belongs to the container.
fn items(container: &Arc<Container>) -> BTreeMap<String, String> {
    const OWN: [&str; 3] = ["_rid", "_self", "_attachments"];
    let shown = |item: Value| {
        let members = item.as_object().unwrap().iter();
        let members = members.filter(|(name, _)| !OWN.contains(&&***name));
        let text: Vec<String> =
            members.map(|(name, value)| format!("{name}: {}", value.to_json())).collect();
        let part = |name: &str| item.get(name).map(Value::to_json).unwrap_or_default();
        (format!("{} {}", part("pk"), part("id")), text.join(", "))
    };
    rows(container, "SELECT * FROM c", 1000, |_| {}).into_iter().map(shown).collect()
}

/// Compares every item with its copy, page by page.
fn check(account: &Account, source: &Arc<Container>) -> Result<(u64, u64, Vec<String>)> {
    let (mut compared, mut behind, mut different, mut after) = (0, 0, Vec::new(), None::<Vec<u8>>);
    loop {
        let page = account.check_rekey(source, after.as_deref())?;
        compared += page.compared;
        behind += page.behind;
        different.extend(page.different);
        after = page.next;
        if after.is_none() {
            return Ok((compared, behind, different));
        }
    }
}
