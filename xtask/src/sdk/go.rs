//! The Go SDK: a module of its own, with its own sums; Go's cache keeps what it downloads and builds.

use std::process::Command;

use super::{Counts, RUN_WITHIN, set_endpoint};
use crate::Outcome;
use crate::{processes, workspace};

/// Compiles the tests, which brings the SDK.
pub(super) fn prepare() -> Outcome<()> {
    let mut command = go_test();
    // No test has this name.
    command.args(["-run", "^$", "./..."]);
    processes::run("go: build the SDK tests", &mut command)
}

/// Runs the tests and counts the verdicts that Go prints, one line each.
pub(super) fn run(name: &str, endpoint: &str) -> Outcome<Counts> {
    let mut command = go_test();
    command.args(["-count=1", "-v", "./..."]);
    set_endpoint(&mut command, endpoint);
    let (success, output) = processes::run_and_keep(name, &mut command, RUN_WITHIN)?;
    let count = |verdict: &str| {
        output.lines().filter(|line| line.trim_start().starts_with(verdict)).count() as u64
    };
    Ok(Counts { passed: count("--- PASS:"), failed: count("--- FAIL:"), success })
}

fn go_test() -> Command {
    let mut command = Command::new("go");
    command.current_dir(workspace::root().join("conformance/go")).arg("test");
    command
}
