//! Golden scripts: queries with their rows, continuations, charges and plans, text in and text out.
//!
//! A script in `scripts/` holds commands and, behind `---`, what they print. `cargo xtask golden` runs
//! all of them and shows what differs; `cargo xtask golden --update` writes down what was printed, to be
//! reviewed as a diff. Every query is asked of one range and of four, in all ways of access and on one
//! thread and many: the rows are the same in all of them, the charges on any number of threads.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod answer;
mod runner;
mod script;
#[allow(dead_code, reason = "shared with the tests of queries, which use more of it")]
#[path = "../query/support.rs"]
mod support;
mod template;

use std::collections::BTreeSet;
use std::path::PathBuf;

/// Set to anything: scripts are written anew instead of compared.
const UPDATE: &str = "ARMILLA_GOLDEN_UPDATE";

/// A test per script, so that they run side by side and fail by name.
macro_rules! scripts {
    ($($name:ident),* $(,)?) => {
        const NAMES: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() {
                check(stringify!($name));
            }
        )*
    };
}

scripts! {
    aggregates,
    composite_indexes,
    computed_properties,
    distinct,
    filters,
    groups,
    hierarchical_keys,
    joins,
    no_index,
    orders,
    pages,
    partition_keys,
    spatial,
    strings_and_arrays,
    subqueries,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/scripts")
}

/// Runs a script; what it prints must be what it says, or becomes what it says.
fn check(name: &str) {
    let path = folder().join(format!("{name}.txt"));
    let text = std::fs::read_to_string(&path).unwrap();
    let mut blocks = script::parse(&text).unwrap_or_else(|problem| panic!("{name}: {problem}"));
    let mut stage = runner::Stage::default();
    let mut failures = Vec::new();
    for block in &mut blocks {
        let printed = stage.run(&block.commands());
        if printed != block.output {
            failures.push(block.difference(&printed));
            block.output = printed;
        }
    }
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, script::render(&blocks)).unwrap();
        return;
    }
    assert!(
        failures.is_empty(),
        "{} block(s) of {name}.txt print something else (- expected, + printed).\n\
         `cargo xtask golden --update` writes it down for review.\n\n{}",
        failures.len(),
        failures.join("\n")
    );
    assert_eq!(script::render(&blocks), text, "{name}.txt is not in the form it would be written");
}

#[test]
fn every_script_is_run() {
    let files = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let stem = |path: PathBuf| path.file_stem().unwrap().to_string_lossy().into_owned();
    let found: BTreeSet<String> = files.map(stem).collect();
    assert_eq!(found, NAMES.iter().map(|name| (*name).to_owned()).collect());
}

#[test]
fn there_are_enough_shapes() {
    /// Queries that the scripts hold at least.
    const SHAPES_MIN: usize = 80;
    let mut shapes = BTreeSet::new();
    for name in NAMES {
        let text = std::fs::read_to_string(folder().join(format!("{name}.txt"))).unwrap();
        for block in script::parse(&text).unwrap() {
            shapes.extend(block.commands().into_iter().filter(|line| line.contains("> SELECT")));
        }
    }
    assert!(shapes.len() >= SHAPES_MIN, "{} shapes", shapes.len());
}
