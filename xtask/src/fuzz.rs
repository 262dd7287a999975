//! `cargo xtask fuzz`: the targets in `fuzz/`, guided by coverage, on the stable toolchain.
//!
//! The fuzz crate is built with the compiler's coverage instrumentation, in a target folder of its own.
//! Every target starts from its seeds in `fuzz/corpus` and from what earlier runs found, which is kept in
//! the work folder; an input that breaks something is kept there too and named.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::arguments::{Arguments, Choice};
use crate::summary::{Row, Summary};
use crate::{Outcome, processes, workspace};

const TARGETS: [&str; 5] = ["sql", "json", "binary_json", "hybrid_row", "rntbd"];
const SECONDS_DEFAULT: u64 = 60;
/// A run may take this much longer than it was told to, on a loaded machine.
const GRACE: Duration = Duration::from_secs(120);
/// No input is longer: what breaks is found with less.
const INPUT_LENGTH_MAX: &str = "-max_len=2048";
/// An input that takes longer than this many seconds counts as a finding.
const INPUT_SECONDS_MAX: &str = "-timeout=25";
/// Seeds go by so much of the hash of what they hold.
const SEED_NAME_LENGTH: usize = 12;
/// What the fuzzer needs to know of every branch.
const INSTRUMENTED: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

const ABOUT: &str = "Fuzzes the query language and the readers of JSON, of its binary form, of binary batches and of Direct mode's frames, guided by coverage.";

const CHOICES: &[Choice] = &[
    Choice { name: "seconds", value: "N", meaning: "How long each target runs (default 60)" },
    Choice { name: "only", value: "TARGET", meaning: "Run only this target; may be repeated" },
    Choice {
        name: "keep",
        value: "",
        meaning: "Afterwards add to fuzz/corpus the fewest inputs that reach everything that was reached",
    },
];

/// The chore: reads its options, runs, prints the closing line.
pub(crate) fn fuzz(words: &[OsString]) -> Outcome<bool> {
    let Some(arguments) = Arguments::parse("fuzz", ABOUT, CHOICES, words)? else {
        return Ok(true);
    };
    let only = arguments.list("only");
    let seconds = arguments.number("seconds", SECONDS_DEFAULT)?;
    let mut summary = Summary::default();
    for row in run(seconds, |target| only.is_empty() || only.contains(&target)) {
        summary.add(row);
    }
    if arguments.has("keep") {
        for target in TARGETS.into_iter().filter(|target| only.is_empty() || only.contains(target))
        {
            keep(target)?;
        }
    }
    Ok(summary.close())
}

/// Runs the chosen targets, each for so many seconds.
pub(crate) fn run(seconds: u64, chosen: impl Fn(&str) -> bool) -> Vec<Row> {
    let started = Instant::now();
    let folder = match build() {
        Ok(folder) => folder,
        Err(error) => return vec![Row::broken("fuzz build", started.elapsed(), error.to_string())],
    };
    let chosen = TARGETS.into_iter().filter(|target| chosen(target));
    chosen.map(|target| run_target(&folder, target, seconds)).collect()
}

/// Builds the targets; gives the folder of the programs.
fn build() -> Outcome<PathBuf> {
    // Naming the target keeps the instrumentation out of build scripts.
    let host = processes::probe("rustc", &["--print", "host-tuple"])
        .ok_or("rustc does not say what machine it is for")?;
    let target_folder = workspace::work().join("fuzz-target");
    let mut command = Command::new("cargo");
    command
        .args(["build", "--release", "--manifest-path"])
        .arg(workspace::root().join("fuzz/Cargo.toml"))
        .args(["--target", &host])
        .env("CARGO_TARGET_DIR", &target_folder)
        .env("RUSTFLAGS", INSTRUMENTED);
    processes::run("fuzz targets", &mut command)?;
    Ok(target_folder.join(host).join("release"))
}

/// Adds what a target has found to its seeds, as few inputs as reach all of it.
fn keep(target: &str) -> Outcome<()> {
    let fewest = tempfile::tempdir()?;
    let found = workspace::work().join("fuzz-corpus").join(target);
    let seeds = workspace::root().join("fuzz/corpus").join(target);
    let mut merge = Command::new(build()?.join(target));
    merge.args(["-set_cover_merge=1", INPUT_LENGTH_MAX]).arg(fewest.path()).arg(found).arg(&seeds);
    processes::run(&format!("fuzz {target}: keep what was found"), &mut merge)?;
    for input in std::fs::read_dir(fewest.path())? {
        let input = input?;
        let name = input.file_name();
        let name = name.to_str().and_then(|name| name.get(..SEED_NAME_LENGTH));
        std::fs::copy(input.path(), seeds.join(name.ok_or("an input without a name")?))?;
    }
    Ok(())
}

fn run_target(folder: &std::path::Path, target: &str, seconds: u64) -> Row {
    let (name, started) = (format!("fuzz {target}"), Instant::now());
    let seeds = workspace::root().join("fuzz/corpus").join(target);
    let found = workspace::work().join("fuzz-corpus").join(target);
    let broken = workspace::work().join("fuzz-broken").join(format!("{target}-"));
    let prepared = std::fs::create_dir_all(&found)
        .and_then(|()| std::fs::create_dir_all(workspace::work().join("fuzz-broken")));
    if let Err(error) = prepared {
        return Row::broken(&name, started.elapsed(), error.to_string());
    }
    let mut command = Command::new(folder.join(target));
    // The first folder is written to.
    command
        .arg(&found)
        .arg(&seeds)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-artifact_prefix={}", broken.display()))
        .args([INPUT_LENGTH_MAX, INPUT_SECONDS_MAX, "-print_final_stats=1", "-verbosity=0"]);
    let within = Duration::from_secs(seconds) + GRACE;
    match processes::run_and_keep(&name, &mut command, within) {
        Ok((true, _)) => {
            let note = format!("{seconds} s");
            Row { name, passed: 1, failed: 0, took: started.elapsed(), note }
        }
        Ok((false, _)) => {
            let note = format!("an input breaks it: {}*", broken.display());
            Row::broken(&name, started.elapsed(), note)
        }
        Err(error) => Row::broken(&name, started.elapsed(), error.to_string()),
    }
}
