//! Retries of flaky tests: a few that failed are run once more, and the summary names those that passed then.
//!
//! Some tests wait for seconds beside two cores that do everything else, and some SDKs have races of their own. Such
//! a failure must not hide (the note names it, so that somebody mends it), nor throw a whole run away. What finds
//! lost or wrong data or an open door is never tried again: neither the groups (crash, splits, metamorphic, ledger, fuzz)
//! nor the tests of cargo under [`NEVER_AGAIN`]. Neither are many failures at once.

use std::time::{Duration, Instant};

use crate::processes;
use crate::sdk;
use crate::summary::Row;
use crate::workspace;

/// More failures than this are no accident.
const FAILURES_MAX: u64 = 3;
/// Tests that were compiled a moment ago.
const AGAIN_WITHIN: Duration = Duration::from_secs(10 * 60);

/// Test programs that look for damage, loss, wrong rows and open doors, with the beginning of the names that count.
const NEVER_AGAIN: &[(&str, &str)] = &[
    ("catalog", "authorisation"),
    ("crash", ""),
    ("damage", ""),
    ("damaged_partition", ""),
    ("files", ""),
    ("full_disk", ""),
    ("index_files", ""),
    ("ledger", ""),
    ("model", ""),
    ("owned", ""),
    ("query", "random"),
];

/// Runs a group, and once more when few of its tests failed.
pub(crate) fn of_group(run: impl Fn() -> Row) -> Row {
    let first = run();
    if !(1..=FAILURES_MAX).contains(&first.failed) {
        return first;
    }
    let second = run();
    if second.failed > 0 {
        return second;
    }
    let note = format!("flaky: {} failed at first, none in a second run", first.failed);
    Row { took: first.took + second.took, note, ..second }
}

/// Runs those of cargo's tests once more that failed by the first run's output.
pub(crate) fn of_cargo_tests(first: Row, output: &str) -> Row {
    let names = failed_names(output);
    // A target that does not compile or a process that dies fails without a name.
    if !(1..=FAILURES_MAX).contains(&first.failed) || names.len() as u64 != first.failed {
        return first;
    }
    if let Some(name) = names.iter().find(|name| is_never_tried_again(name)) {
        let note = format!("failed, and is not tried again: {name}");
        return Row { note, ..first };
    }
    let started = Instant::now();
    let mut command = workspace::cargo();
    command
        .args(["test", "--workspace", "--no-fail-fast", "--quiet", "--", "--exact"])
        .args(&names);
    let again = processes::run_and_keep("cargo test, once more", &mut command, AGAIN_WITHIN);
    let took = first.took + started.elapsed();
    match again {
        Ok((true, output)) if sdk::count_cargo_results(&output).0 >= first.failed => {
            let note = format!("flaky: {} passed only in a second run", names.join(", "));
            Row { passed: first.passed + first.failed, failed: 0, took, note, ..first }
        }
        _ => Row { took, note: format!("failed twice: {}", names.join(", ")), ..first },
    }
}

/// Whether a test of this name is in a program that is not tried again. Who cannot be asked is not either.
fn is_never_tried_again(name: &str) -> bool {
    NEVER_AGAIN.iter().any(|(target, beginning)| {
        let mut command = workspace::cargo();
        command.args(["test", "--quiet", "--workspace", "--test", target, "--", "--list"]);
        name.starts_with(beginning)
            && command.output().map_or(true, |output| {
                !output.status.success() || lists(&String::from_utf8_lossy(&output.stdout), name)
            })
    })
}

/// Whether a test program's list has a test.
fn lists(output: &str, name: &str) -> bool {
    output.lines().any(|line| line.strip_suffix(": test") == Some(name))
}

/// The names that test programs list under their last `failures:`.
fn failed_names(output: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut lines = output.lines();
    while lines.any(|line| line == "failures:") {
        let listed = lines.by_ref().map_while(|line| line.strip_prefix("    "));
        names.extend(listed.map(str::trim));
    }
    names
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn row(passed: u64, failed: u64) -> Row {
        Row { name: "x".into(), passed, failed, took: Duration::ZERO, note: String::new() }
    }

    #[test]
    fn a_group_that_passes_the_second_time_is_named_flaky() {
        let runs = Cell::new(0);
        let result = of_group(|| {
            runs.set(runs.get() + 1);
            if runs.get() == 1 { row(4, 1) } else { row(5, 0) }
        });
        assert_eq!((result.passed, result.failed, runs.get()), (5, 0, 2));
        assert!(result.note.starts_with("flaky: 1 failed"), "{}", result.note);
    }

    #[test]
    fn what_fails_twice_or_often_stays_failed() {
        assert_eq!(of_group(|| row(4, 1)).failed, 1);
        let runs = Cell::new(0);
        let result = of_group(|| {
            runs.set(runs.get() + 1);
            row(4, FAILURES_MAX + 1)
        });
        assert_eq!((result.failed, runs.get()), (FAILURES_MAX + 1, 1));
    }

    #[test]
    fn tests_are_found_in_the_list_of_their_program() {
        let output = "a::b: test\nc: test\n\n2 tests, 0 benchmarks\n";
        assert!(lists(output, "a::b") && lists(output, "c"));
        assert!(!lists(output, "b") && !lists(output, "a::b: test"));
    }

    #[test]
    fn failed_tests_are_found_in_the_output() {
        let output = "running 2 tests\n..\n\nfailures:\n\n---- a::b stdout ----\n\nthread panicked\n   0: frame\n\n\
                      failures:\n    a::b\n    a::c\n\ntest result: FAILED. 0 passed; 2 failed\n\nfailures:\n    d\n\n";
        assert_eq!(failed_names(output), ["a::b", "a::c", "d"]);
        assert!(failed_names("test result: ok. 3 passed; 0 failed").is_empty());
    }
}
