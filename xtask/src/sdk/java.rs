//! The Java SDK: a Maven project; its change feed processor runs nowhere else.

use std::process::Command;

use super::{Counts, RUN_WITHIN, set_endpoint};
use crate::Outcome;
use crate::{processes, workspace};

/// Compiles the tests, which brings the SDK.
pub(super) fn prepare() -> Outcome<()> {
    let mut command = maven();
    command.args(["-q", "test-compile"]);
    processes::run("java: build the SDK tests", &mut command)
}

/// Runs the tests and reads the counts from Maven's last word on them.
pub(super) fn run(name: &str, endpoint: &str) -> Outcome<Counts> {
    let mut command = maven();
    // A failure of the first run does not leave out the second.
    command.args(["test", "-Dmaven.test.failure.ignore=true"]);
    set_endpoint(&mut command, endpoint);
    let (success, output) = processes::run_and_keep(name, &mut command, RUN_WITHIN)?;
    let (passed, failed) = count_results(&output);
    Ok(Counts { passed, failed, success: success && failed == 0 })
}

fn maven() -> Command {
    let mut command = Command::new("mvn");
    let project = workspace::root().join("conformance/java/pom.xml");
    command.args(["--batch-mode", "--no-transfer-progress", "--file"]).arg(project);
    command
}

/// `Tests run: 5, Failures: 0, Errors: 1, Skipped: 0`: the sum of one run, of which there are two. Lines of one
/// class also tell how long it took.
fn count_results(output: &str) -> (u64, u64) {
    let is_sum = |line: &&str| line.contains("Tests run:") && !line.contains("Time elapsed");
    let (mut passed, mut failed) = (0, 0);
    for line in output.lines().filter(is_sum) {
        let number = |name: &str| -> u64 {
            let behind = line.split(name).nth(1).unwrap_or_default().trim_start();
            let digits = behind.split(|letter: char| !letter.is_ascii_digit()).next();
            digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
        };
        let broken = number("Failures:") + number("Errors:");
        passed += number("Tests run:").saturating_sub(broken + number("Skipped:"));
        failed += broken;
    }
    (passed, failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_added_up() {
        let output = "[INFO] Tests run: 2, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 3 s\n\
            [INFO] Tests run: 2, Failures: 0, Errors: 0, Skipped: 0\n\
            [ERROR] Tests run: 6, Failures: 1, Errors: 2, Skipped: 1\n[INFO] BUILD FAILURE\n";
        assert_eq!(count_results(output), (4, 3));
        assert_eq!(count_results("nothing"), (0, 0));
    }
}
