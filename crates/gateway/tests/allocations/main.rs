//! A guard of speed that counts instead of timing: allocations per request on the hot paths, from the
//! bytes of the request on a socket to those of its answer, compared with a baseline in the repository.
//!
//! Counts do not depend on the machine or on what else it does, so a few percent can be told. A number that
//! rises says that a request got work to do; one that falls is written down, so that it stays. After a
//! change that is meant: `ARMILLA_BASELINE_UPDATE=1 cargo test -p armilla-gateway --test allocations`.

#![allow(clippy::unwrap_used, reason = "this whole target is a test")]

mod counting;
mod server;

use server::{Client, Server, requests};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Set to write the baseline instead of comparing with it.
const UPDATE: &str = "ARMILLA_BASELINE_UPDATE";
/// Requests of a path that are counted: what grows now and then is spread over them.
const COUNTED: usize = 200;
/// Requests before those, so that what is kept between requests is there.
const WARM_UP: usize = 50;
/// Hundredths by which a path may differ from its baseline.
const TOLERANCE_PERCENT: f64 = 5.0;
/// Paths that are watched at least.
const PATHS_MIN: usize = 10;

fn baseline_file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/allocations/baseline.txt")
}

/// Allocations per request, by path.
fn count() -> BTreeMap<String, f64> {
    let server = Server::start();
    let mut client = Client::connect(server.address);
    server::fill(&mut client);
    let mut counts = BTreeMap::new();
    for (name, all) in requests(WARM_UP + COUNTED) {
        let (warm_up, counted) = all.split_at(WARM_UP);
        warm_up.iter().for_each(|request| client.ask(request));
        let before = counting::allocations();
        counted.iter().for_each(|request| client.ask(request));
        let made = counting::allocations() - before;
        counts.insert(name.to_owned(), made as f64 / COUNTED as f64);
    }
    counts
}

fn read_baseline() -> BTreeMap<String, f64> {
    let text = std::fs::read_to_string(baseline_file()).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (number, name) = line.trim().split_once("  ").unwrap();
            (name.to_owned(), number.parse().unwrap())
        })
        .collect()
}

fn write_baseline(counts: &BTreeMap<String, f64>) {
    let mut text = "# Allocations per request, whole process, unoptimised build.\n".to_owned();
    for (name, count) in counts {
        writeln!(text, "{count:>8.1}  {name}").unwrap();
    }
    std::fs::write(baseline_file(), text).unwrap();
}

#[test]
fn hot_paths_allocate_as_often_as_written_down() {
    // An optimised build leaves allocations out, and has no baseline.
    if !cfg!(debug_assertions) {
        return;
    }
    let counts = count();
    assert!(counts.len() >= PATHS_MIN, "{counts:?}");
    if std::env::var_os(UPDATE).is_some() {
        return write_baseline(&counts);
    }
    let baseline = read_baseline();
    let names = |all: &BTreeMap<String, f64>| all.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&counts), names(&baseline), "{UPDATE}=1 writes the baseline anew");
    let differing: Vec<String> = counts
        .iter()
        .filter_map(|(name, count)| {
            let expected = baseline[name];
            let percent = (count - expected) / expected * 100.0;
            let differs = percent.abs() > TOLERANCE_PERCENT;
            differs.then(|| {
                format!("{name}: {count:.1}, written down {expected:.1} ({percent:+.1} %)")
            })
        })
        .collect();
    assert!(
        differing.is_empty(),
        "allocations per request differ from the baseline; if that is meant, {UPDATE}=1 writes it \
         anew:\n{}",
        differing.join("\n")
    );
}
