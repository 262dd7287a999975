//! `cargo xtask cluster`: three nodes over a real PostgreSQL, under everything that goes wrong.
//!
//! Writers and readers ask random nodes while nodes are killed, stopped, paused and cut off from the database, and the database crashes. What
//! must hold, whatever happens:
//!
//! * A value that is read is never older than one that was acknowledged before the read began, through any node (registers).
//! * An acknowledged increment is there once, never twice (counters).
//! * At the end every node shows the same, every copy verifies, the owner's is byte for byte what the database holds, and a backup
//!   that was made of the database meanwhile, restored into another one, holds all of it.
//!
//! Views and subscriptions run at the owner, or at the owners of slices, and have their effects once over every change of them ([`effects`]).
//!
//! Then what must be noticed. A database that was put back to an earlier state is refused by the nodes that know better. When an operator
//! has accepted the loss they serve it, and then the registers must find what is missing: that is the negative control.

mod balance;
mod bars;
mod blog;
mod control;
mod direct;
mod effects;
mod failover;
mod history;
mod matrix;
mod nodes;
mod pictured;
mod queries;
mod reshape;
mod serve;
mod sliced_requests;
mod slices;
mod storm;
mod way;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::arguments::{Arguments, Choice};
use crate::processes::announce;
use crate::summary::{Row, Summary};
use crate::workspace::{self, Profile};

pub(crate) use pictured::{ClusterPlaces, show};

use bars::Effort;
use history::History;
use nodes::{Encryption, Nodes};

const SECONDS_DEFAULT: u64 = 180;
/// Rounds of a measurement, and how long each side of one is asked.
const ROUNDS_DEFAULT: u64 = 5;
const MILLIS_DEFAULT: u64 = 2_000;
/// How long the storm rages as part of all tests.
const SECONDS_IN_TEST: u64 = 25;
/// How often the owner changes under views and subscriptions.
const EFFECT_ROUNDS: usize = 9;
const EFFECT_ROUNDS_IN_TEST: usize = 2;
/// Slices of the account that is cut.
const SLICES: u32 = 4;
const SLICE_EFFECTS: &str = "cluster slices: views and subscriptions";
/// Items that are written before the database is put back, and after.
const CONTROL_WRITES: u64 = 20;

const ABOUT: &str = "\
Three nodes serve one account over a PostgreSQL while they are killed, stopped, paused and cut off, and the database crashes. Nothing
acknowledged may be missing, nothing may be done twice, no old value may be read. A database that was put back must be noticed.";

const CHOICES: &[Choice] = &[
    Choice { name: "seconds", value: "N", meaning: "How long the storm rages (default 180)" },
    Choice { name: "seed", value: "N", meaning: "Repeat the choices of an earlier run" },
    Choice { name: "blog", value: "", meaning: "Run the example blog on three nodes instead" },
    Choice {
        name: "slices",
        value: "N",
        meaning: "An account that is cut into so many slices instead",
    },
    Choice { name: "effects", value: "", meaning: "Of --slices: views and subscriptions alone" },
    Choice {
        name: "balance",
        value: "",
        meaning: "See slices spread over nodes that come and go by themselves instead",
    },
    Choice {
        name: "failover",
        value: "",
        meaning: "Lose the database's primary under two nodes instead, with and without synchronous replication",
    },
    Choice {
        name: "queries",
        value: "",
        meaning: "Ask the metamorphic corpus through a second node instead, beside a server alone; with --slices over slices",
    },
    Choice {
        name: "controls",
        value: "",
        meaning: "Run the negative control alone: a rule is broken on purpose and must be noticed",
    },
    Choice {
        name: "matrix",
        value: "",
        meaning: "Strike every node in every way at every moment instead, cell by cell",
    },
    Choice {
        name: "cells",
        value: "N",
        meaning: "Of --matrix: so many cells alone, chosen by the seed",
    },
    Choice {
        name: "bars",
        value: "",
        meaning: "Measure what several nodes cost instead, beside a server alone (needs a machine of its own)",
    },
    Choice {
        name: "part",
        value: "NAME",
        meaning: "Of --bars: lane, owner, forward or moves alone; may be repeated",
    },
    Choice {
        name: "rounds",
        value: "N",
        meaning: "Of --bars: rounds whose median counts (default 5)",
    },
    Choice {
        name: "millis",
        value: "N",
        meaning: "Of --bars: how long each side of a round is asked (default 2000)",
    },
    Choice {
        name: "serve",
        value: "",
        meaning: "Start nodes for people and suites instead, until Ctrl+C; what stands behind -- is told to every node",
    },
    Choice { name: "nodes", value: "N", meaning: "Of --serve: how many (default 3)" },
    Choice { name: "https", value: "", meaning: "Of --serve: everything is encrypted" },
    Choice { name: "key", value: "KEY", meaning: "Of --serve: the account's key, or `published`" },
    Choice {
        name: "port",
        value: "N",
        meaning: "Of --serve: the first node's; the others have the next ones",
    },
    Choice {
        name: "lease",
        value: "SECONDS",
        meaning: "Of --serve: how long a node may be silent",
    },
    Choice {
        name: "release",
        value: "",
        meaning: "Of --serve: build the server as it is published",
    },
    Choice { name: "binary", value: "PATH", meaning: "The server to test, instead of building it" },
];

/// The chore: reads its options, runs, prints the closing line.
pub(crate) fn cluster(words: &[OsString]) -> Outcome<bool> {
    let (words, told) = serve::split_words(words);
    let Some(arguments) = Arguments::parse("cluster", ABOUT, CHOICES, words)? else {
        return Ok(true);
    };
    if !told.is_empty() && !arguments.has("serve") {
        return Err("words behind -- are for --serve".into());
    }
    let is_quick = arguments.has("bars") || arguments.has("release");
    let profile = if is_quick { Profile::Release } else { Profile::Dev };
    let binary = match arguments.text("binary") {
        Some(path) => PathBuf::from(path).canonicalize()?,
        None => workspace::build_server(profile)?,
    };
    if arguments.has("serve") {
        return serve::serve(&binary, &arguments, told).map(|()| true);
    }
    let seconds = arguments.number("seconds", SECONDS_DEFAULT)?;
    let seed = arguments.number("seed", fastrand::u64(0..1_000_000))?;
    let mut summary = Summary::default();
    let slices = u32::try_from(arguments.number("slices", 1)?)?;
    if slices > 1 && !arguments.has("queries") {
        let effects = || slice_effects_trial(&binary, slices, rounds_in(seconds), seed);
        let storm = || slices::trial(&binary, slices, seconds, seed);
        if !arguments.has("effects") {
            summary.add(row(("cluster slices", &storm), seed));
        }
        summary.add(row((SLICE_EFFECTS, &effects), seed));
        return Ok(summary.close());
    }
    match alone(&arguments, &binary, (seconds, seed))? {
        Some(row) => summary.add(row),
        None => run_with(&binary, seconds, seed).into_iter().for_each(|row| summary.add(row)),
    }
    Ok(summary.close())
}

/// The trials that were asked for by name, if some were.
fn alone(
    arguments: &Arguments,
    binary: &Path,
    (seconds, seed): (u64, u64),
) -> Outcome<Option<Row>> {
    let slices = u32::try_from(arguments.number("slices", 1)?)?;
    let cells = usize::try_from(arguments.number("cells", u64::MAX)?).unwrap_or(usize::MAX);
    let effort = Effort {
        rounds: usize::try_from(arguments.number("rounds", ROUNDS_DEFAULT)?)?.max(1),
        time: Duration::from_millis(arguments.number("millis", MILLIS_DEFAULT)?),
        parts: arguments.list("part").into_iter().map(str::to_owned).collect(),
    };
    let has = |name: &str| arguments.has(name);
    let trial: Trial<'_> = if has("blog") {
        ("cluster blog", &|| blog::trial(binary, seconds))
    } else if has("balance") {
        ("cluster balance", &|| balance::trial(binary, SLICES))
    } else if has("failover") {
        ("cluster failover", &|| failover::trial(binary, seed))
    } else if has("queries") {
        ("cluster queries", &|| queries::trial(binary, slices))
    } else if has("controls") {
        ("cluster control: a theft is noticed", &|| control_trial(binary, seed))
    } else if has("matrix") {
        ("cluster matrix", &|| matrix_trial(binary, cells, seed))
    } else if has("bars") {
        ("cluster bars", &|| bars::measure(binary, &effort))
    } else {
        return Ok(None);
    };
    Ok(Some(row(trial, seed)))
}

/// The short form, as part of all tests.
pub(crate) fn run(binary: &Path) -> Vec<Row> {
    run_with(binary, SECONDS_IN_TEST, fastrand::u64(0..1_000_000))
}

/// A trial with its name.
type Trial<'a> = (&'static str, &'a dyn Fn() -> Outcome<String>);

fn run_with(binary: &Path, seconds: u64, seed: u64) -> Vec<Row> {
    let rage = || storm_trial(binary, seconds, seed);
    let back = || loss_trial(binary);
    let rounds = rounds_in(seconds);
    let effects = || effects_trial(binary, rounds, seed);
    let slice_effects = || slice_effects_trial(binary, SLICES, rounds, seed);
    let control = || control_trial(binary, seed);
    let slices = || slices::trial(binary, SLICES, seconds, seed);
    let balance = || balance::trial(binary, SLICES);
    let trials: [Trial<'_>; 7] = [
        ("cluster storm", &rage),
        ("cluster views and subscriptions", &effects),
        ("cluster loss is noticed", &back),
        ("cluster control: a theft is noticed", &control),
        ("cluster slices", &slices),
        (SLICE_EFFECTS, &slice_effects),
        ("cluster balance", &balance),
    ];
    trials.into_iter().map(|trial| row(trial, seed)).collect()
}

fn row((name, trial): Trial<'_>, seed: u64) -> Row {
    let started = Instant::now();
    match trial() {
        Ok(note) => Row { name: name.into(), passed: 1, failed: 0, took: started.elapsed(), note },
        Err(error) => Row::broken(name, started.elapsed(), format!("seed {seed}: {error}")),
    }
}

/// What lets partitions be split and merged.
fn reshape_options() -> Vec<String> {
    reshape::OPTIONS.map(str::to_owned).to_vec()
}

/// Every blow to every node at every moment, or as many of them as are wanted.
fn matrix_trial(binary: &Path, cells: usize, seed: u64) -> Outcome<String> {
    announce(&format!("cluster: the matrix, seed {seed}"));
    let mut nodes = Nodes::start(binary, "matrix", Encryption::None, reshape_options())?;
    let history = History::default();
    history.prepare(&nodes.client(1)?)?;
    let note = matrix::go_through(&mut nodes, &history, cells, seed)?;
    let owner = nodes.stop_owner_last()?;
    nodes.verify_all()?;
    nodes.compare_copy(owner)?;
    Ok(format!("seed {seed}: {note}"))
}

/// Nodes and database fail in every way while clients ask.
fn storm_trial(binary: &Path, seconds: u64, seed: u64) -> Outcome<String> {
    announce(&format!("cluster: a storm of {seconds} s over three nodes, seed {seed}"));
    let mut nodes = Nodes::start(binary, "storm", Encryption::Everywhere, reshape_options())?;
    let history = History::default();
    history.prepare(&nodes.client(1)?)?;
    let note = storm::rage(&mut nodes, &history, Duration::from_secs(seconds), seed)?;
    nodes.mend_all()?;
    for node in 0..nodes.len() {
        history
            .judge(&nodes.client(node)?)
            .map_err(|error| format!("through node {node}: {error}"))?;
    }
    let backup = nodes.backup()?;
    nodes.wait_until_followed()?;
    nodes.stop_owner_last()?;
    nodes.verify_all()?;
    (0..nodes.len()).try_for_each(|node| nodes.compare_copy(node))?;
    nodes.restore(&backup, ("restored", 1))?;
    history.judge(&nodes.client(2)?).map_err(|error| format!("restored: {error}"))?;
    Ok(note)
}

/// What follows the feed does so once, whoever owns the account.
fn effects_trial(binary: &Path, rounds: usize, seed: u64) -> Outcome<String> {
    announce(&format!(
        "cluster: views and subscriptions over {rounds} changes of the owner, seed {seed}"
    ));
    effects::trial(binary, rounds, seed)
}

/// How often owners change.
fn rounds_in(seconds: u64) -> usize {
    if seconds > SECONDS_IN_TEST { EFFECT_ROUNDS } else { EFFECT_ROUNDS_IN_TEST }
}

/// The same where the account is cut into slices.
fn slice_effects_trial(binary: &Path, slices: u32, rounds: usize, seed: u64) -> Outcome<String> {
    announce(&format!(
        "cluster: views and subscriptions over {rounds} changes of the owners of {slices} slices, seed {seed}"
    ));
    effects::trial_in_slices(binary, slices, rounds, seed)
}

/// A rule that is broken on purpose.
fn control_trial(binary: &Path, seed: u64) -> Outcome<String> {
    announce("cluster: an account that is taken from an owner that lives");
    control::trial(binary, seed)
}

/// A database that was put back to an earlier state.
fn loss_trial(binary: &Path) -> Outcome<String> {
    announce("cluster: a database that lost acknowledged writes");
    let mut nodes = Nodes::start(binary, "loss", Encryption::None, Vec::new())?;
    let history = History::default();
    history.prepare(&nodes.client(0)?)?;
    history.write_some(&nodes.client(0)?, CONTROL_WRITES)?;
    nodes.stop_all()?;
    nodes.copy_database("earlier")?;
    nodes.start_all()?;
    history.write_some(&nodes.client(1)?, CONTROL_WRITES)?;
    // A copy that has not followed knows nothing of the loss, and would rightly serve.
    nodes.wait_until_followed()?;
    nodes.stop_all()?;
    nodes.use_database("earlier")?;
    nodes.expect_refusal("lost acknowledged writes")?;
    let unsure = nodes.command(&["cluster", "accept-loss"], "earlier");
    if unsure.is_ok() {
        return Err("a loss was accepted without a yes".into());
    }
    nodes.command(&["cluster", "accept-loss", "--yes"], "earlier")?;
    nodes.start_all()?;
    match history.judge(&nodes.client(2)?) {
        Ok(()) => Err("acknowledged writes are gone and the check did not notice".into()),
        Err(found) => {
            Ok(format!("nodes refused; after the loss was accepted the check found: {found}"))
        }
    }
}
