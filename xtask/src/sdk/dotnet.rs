//! The .NET SDK and EF Core: an xunit project; its batches and its Direct mode run nowhere else.

use std::process::Command;

use super::{Counts, RUN_WITHIN, set_endpoint};
use crate::Outcome;
use crate::{processes, workspace};

/// Compiles the tests, which brings the SDK.
pub(super) fn prepare() -> Outcome<()> {
    let mut command = dotnet("build");
    command.args(["--nologo", "--verbosity", "quiet"]);
    processes::run("dotnet: build the SDK tests", &mut command)
}

/// Runs the tests and reads the counts from the last word on them.
pub(super) fn run(name: &str, endpoint: &str) -> Outcome<Counts> {
    let mut command = dotnet("test");
    command.args(["--no-build", "--nologo"]);
    set_endpoint(&mut command, endpoint);
    let (success, output) = processes::run_and_keep(name, &mut command, RUN_WITHIN)?;
    let (passed, failed) = count_results(&output);
    Ok(Counts { passed, failed, success })
}

fn dotnet(verb: &str) -> Command {
    let mut command = Command::new("dotnet");
    command.arg(verb).current_dir(workspace::root().join("conformance/dotnet"));
    command.env("DOTNET_CLI_TELEMETRY_OPTOUT", "1").env("DOTNET_CLI_UI_LANGUAGE", "en");
    command
}

/// `Passed!  - Failed:     0, Passed:    23, Skipped:     0, Total:    23, Duration: 9 s`.
fn count_results(output: &str) -> (u64, u64) {
    let is_sum = |line: &&str| line.contains("Failed:") && line.contains("Total:");
    let number = |line: &str, name: &str| -> u64 {
        let behind = line.split(name).nth(1).unwrap_or_default().trim_start();
        let digits = behind.split(|letter: char| !letter.is_ascii_digit()).next();
        digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
    };
    let sums = output.lines().filter(is_sum);
    sums.map(|line| (number(line, "Passed:"), number(line, "Failed:")))
        .fold((0, 0), |total, line| (total.0 + line.0, total.1 + line.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_is_read() {
        let output = "  Failed A.B [12 ms]\n\
            Failed!  - Failed:     2, Passed:    21, Skipped:     1, Total:    24, Duration: 9 s - x.dll\n";
        assert_eq!(count_results(output), (21, 2));
        assert_eq!(count_results("nothing"), (0, 0));
    }
}
