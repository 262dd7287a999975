//! The Rust SDK: a cargo project of its own, outside the workspace, with its own lock file.

use std::process::Command;

use super::{Counts, RUN_WITHIN, set_endpoint};
use crate::Outcome;
use crate::{processes, workspace};

/// Compiles the tests, which brings the SDK.
pub(super) fn prepare() -> Outcome<()> {
    let mut command = cargo_test();
    command.arg("--no-run");
    processes::run("rust: build the SDK tests", &mut command)
}

/// Runs the tests and reads the counts from what cargo prints.
pub(super) fn run(name: &str, endpoint: &str) -> Outcome<Counts> {
    let mut command = cargo_test();
    command.arg("--no-fail-fast");
    set_endpoint(&mut command, endpoint);
    let (success, output) = processes::run_and_keep(name, &mut command, RUN_WITHIN)?;
    let (passed, failed) = count_cargo_results(&output);
    Ok(Counts { passed, failed, success })
}

fn cargo_test() -> Command {
    let mut command = workspace::cargo();
    command
        .args(["test", "--locked", "--quiet", "--manifest-path"])
        .arg(workspace::root().join("conformance/rust/Cargo.toml"))
        .env("CARGO_TARGET_DIR", workspace::target().join("conformance-rust"));
    command
}

/// Adds up every `test result:` line that cargo printed.
pub(crate) fn count_cargo_results(output: &str) -> (u64, u64) {
    let number_before = |line: &str, word: &str| -> u64 {
        let before = line.split(word).next().unwrap_or_default().trim_end();
        before.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
    };
    output
        .lines()
        .filter(|line| line.starts_with("test result:"))
        .map(|line| (number_before(line, " passed;"), number_before(line, " failed;")))
        .fold((0, 0), |total, line| (total.0 + line.0, total.1 + line.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_results_are_added_up() {
        let output = "running 3 tests\n\
            test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n\
            test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(count_cargo_results(output), (7, 2));
    }
}
