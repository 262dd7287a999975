//! `cargo xtask ledger`: the ledger of a cluster on a real PostgreSQL, under everything that goes wrong.
//!
//! First the promises of the ledger as tests, then a storm (`crates/storage/examples/ledger_storm`): four nodes that are evicted and
//! cut off without pause while the database crashes every few seconds. Last the storm's negative controls: with a rule
//! broken on purpose it must fail, or it would prove nothing.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::arguments::{Arguments, Choice};
use crate::postgres::Postgres;
use crate::summary::{Row, Summary};
use crate::workspace;
use crate::{Outcome, processes};

const SECONDS_DEFAULT: u64 = 60;
/// How long the storm rages as part of all tests.
const SECONDS_IN_TEST: u64 = 20;
/// How long a storm with a broken rule may take to be noticed.
const SECONDS_OF_CONTROL: u64 = 10;
const CRASH_EVERY: Duration = Duration::from_secs(7);
/// What the storm may take beyond its time: its last statements, and the judgement.
const CLOSING_TIME: Duration = Duration::from_secs(150);
const CONTROLS: [&str; 2] = ["no-epoch", "late-folded"];

const ABOUT: &str = "\
Starts a PostgreSQL of its own, runs the tests of the ledger on it, then a storm: four nodes lose their shards, connections and
lives while the database crashes every 7 seconds; nothing acknowledged may be missing. With a rule broken the storm must fail.";

const CHOICES: &[Choice] = &[
    Choice { name: "seconds", value: "N", meaning: "How long the storm rages (default 60)" },
    Choice { name: "seed", value: "N", meaning: "Repeat the choices of an earlier run" },
];

/// The chore: reads its options, runs, prints the closing line.
pub(crate) fn ledger(words: &[OsString]) -> Outcome<bool> {
    let Some(arguments) = Arguments::parse("ledger", ABOUT, CHOICES, words)? else {
        return Ok(true);
    };
    let seconds = arguments.number("seconds", SECONDS_DEFAULT)?;
    let seed = arguments.number("seed", fastrand::u64(0..1_000_000))?;
    let mut summary = Summary::default();
    summary.add(run_with(seconds, seed));
    Ok(summary.close())
}

/// The short form, as part of all tests.
pub(crate) fn run() -> Row {
    run_with(SECONDS_IN_TEST, fastrand::u64(0..1_000_000))
}

fn run_with(seconds: u64, seed: u64) -> Row {
    let name = "ledger";
    let started = Instant::now();
    match trial(seconds, seed) {
        Ok(note) => {
            let passed = 2 + CONTROLS.len() as u64;
            Row { name: name.into(), passed, failed: 0, took: started.elapsed(), note }
        }
        Err(error) => Row::broken(name, started.elapsed(), format!("seed {seed}: {error}")),
    }
}

fn trial(seconds: u64, seed: u64) -> Outcome<String> {
    let postgres = Postgres::start()?;
    let mut tests = workspace::cargo();
    tests.args(["test", "--quiet", "--workspace", "--test", "ledger"]);
    tests.env("ARMILLA_TEST_STORE", postgres.address("postgres"));
    processes::run("ledger: its promises on PostgreSQL", &mut tests)?;
    let storm = build_storm()?;
    processes::announce(&format!("ledger: a storm of {seconds} s, seed {seed}"));
    let (status, note) =
        rage(&storm, &postgres, "storm", &[&seconds.to_string(), &seed.to_string()])?;
    if !status.success() {
        return Err(format!("the storm found something wrong: {note}").into());
    }
    for control in CONTROLS {
        let words = [&SECONDS_OF_CONTROL.to_string(), &seed.to_string(), control];
        let (status, _) = rage(&storm, &postgres, &control.replace('-', "_"), &words)?;
        if status.success() {
            return Err(format!("a storm with `{control}` was not noticed").into());
        }
    }
    Ok(note)
}

fn build_storm() -> Outcome<PathBuf> {
    let mut build = workspace::cargo();
    build.args(["build", "--quiet", "--workspace", "--example", "ledger_storm"]);
    processes::run("ledger: build the storm", &mut build)?;
    Ok(workspace::target().join("debug/examples/ledger_storm"))
}

/// Runs the storm in a database of its own and crashes the server again and again; answers how it ended and its last line.
fn rage(
    storm: &Path,
    postgres: &Postgres,
    database: &str,
    words: &[&str],
) -> Outcome<(ExitStatus, String)> {
    postgres.create_database(database)?;
    let mut child = Command::new(storm)
        .arg(postgres.address(database))
        .args(words)
        .env("RUST_BACKTRACE", "0")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let seconds: u64 = words[0].parse()?;
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut next_crash = Instant::now() + CRASH_EVERY;
    let mut crashes = 0;
    while child.try_wait()?.is_none() {
        if Instant::now() > end + CLOSING_TIME {
            child.kill()?;
            return Err("the storm did not end".into());
        }
        if Instant::now() > next_crash && Instant::now() < end {
            postgres.crash()?;
            postgres.resume()?;
            crashes += 1;
            next_crash = Instant::now() + CRASH_EVERY;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let output = child.wait_with_output()?;
    let told = if output.status.success() { &output.stdout } else { &output.stderr };
    let text = String::from_utf8_lossy(told);
    let last = text.lines().rfind(|line| !line.starts_with("note"));
    let last = last.unwrap_or("no word").to_owned();
    Ok((output.status, format!("{last}, {crashes} crashes of the database")))
}
