//! The JavaScript SDK: packages beside the tests (Node looks nowhere else), and Node's own test runner.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Counts, RUN_WITHIN, is_installed, mark_installed, set_endpoint};
use crate::Outcome;
use crate::{processes, workspace};

/// The oldest Node that the tests have been run with.
const NODE_MAJOR_MIN: u32 = 20;

/// Installs the packages of our SDK tests.
pub(super) fn prepare() -> Outcome<()> {
    install("js", &folder(), "@azure/cosmos")
}

/// Runs our SDK tests.
pub(super) fn run(name: &str, endpoint: &str) -> Outcome<Counts> {
    run_folder(name, "js", &folder(), endpoint)
}

/// Runs one file of our SDK tests, with further variables in its environment.
pub(super) fn run_file(
    name: &str,
    endpoint: &str,
    file: &str,
    variables: &[(&str, &OsStr)],
) -> Outcome<Counts> {
    let mut command = runner("js", &folder())?;
    command.arg(folder().join(file)).envs(variables.iter().copied());
    run_and_count(name, "js", command, endpoint)
}

/// Installs the packages named in a folder's lock file, one of which is known; `group` names it on the command line.
pub(super) fn install(group: &str, folder: &Path, known: &str) -> Outcome<()> {
    let node = find_node(group)?;
    let wanted = format!("{node}\n{}", std::fs::read_to_string(folder.join("package-lock.json"))?);
    let stamp = workspace::work().join(format!("{group}.stamp"));
    if folder.join("node_modules").join(known).is_dir() && is_installed(&stamp, &wanted) {
        return Ok(());
    }
    let mut install = Command::new("npm");
    // Not `npm ci`: it refuses a lock that lacks optional packages for other systems. What is in the lock is installed as it says.
    let quiet = ["--no-audit", "--no-fund", "--loglevel=error"];
    install.current_dir(folder).args(["install", "--no-save"]).args(quiet);
    processes::run(&format!("{group}: install the packages"), &mut install)?;
    mark_installed(&stamp, &wanted)
}

/// Runs a folder's tests one file after the other.
pub(super) fn run_folder(
    name: &str,
    group: &str,
    folder: &Path,
    endpoint: &str,
) -> Outcome<Counts> {
    run_folder_with(name, group, folder, endpoint, &[])
}

/// The same with further variables in their environment.
pub(super) fn run_folder_with(
    name: &str,
    group: &str,
    folder: &Path,
    endpoint: &str,
    variables: &[(&str, &OsStr)],
) -> Outcome<Counts> {
    let mut command = runner(group, folder)?;
    command.args(test_files(folder)?).envs(variables.iter().copied());
    run_and_count(name, group, command, endpoint)
}

/// Node's test runner, to be given its files. It shows what it does, and writes a TAP report.
fn runner(group: &str, folder: &Path) -> Outcome<Command> {
    std::fs::create_dir_all(workspace::work())?;
    std::fs::remove_file(report(group)).ok();
    let mut command = Command::new("node");
    command
        .current_dir(folder)
        .args(["--test", "--test-concurrency=1", "--test-timeout=600000"])
        .args(["--test-reporter=spec", "--test-reporter-destination=stdout"])
        .args(["--test-reporter=tap", "--test-reporter-destination"])
        .arg(report(group))
        // The certificate of a test server is its own; Node offers no narrower switch to the SDK.
        .env("NODE_TLS_REJECT_UNAUTHORIZED", "0")
        .env("NODE_NO_WARNINGS", "1");
    Ok(command)
}

/// Runs a prepared command and reads the counts from its TAP report.
fn run_and_count(name: &str, group: &str, mut command: Command, endpoint: &str) -> Outcome<Counts> {
    set_endpoint(&mut command, endpoint);
    let (success, _) = processes::run_and_keep(name, &mut command, RUN_WITHIN)?;
    let text = std::fs::read_to_string(report(group))
        .map_err(|_| "node wrote no report, see its output".to_owned())?;
    let (passed, failed) = count_tap(&text);
    Ok(Counts { passed, failed, success })
}

fn report(group: &str) -> PathBuf {
    workspace::work().join(format!("{group}-report.tap"))
}

fn folder() -> PathBuf {
    workspace::root().join("conformance/js")
}

fn test_files(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let tests = folder.join("test");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(if tests.is_dir() { &tests } else { folder })? {
        let path = entry?.path();
        if path.to_string_lossy().ends_with(".test.mjs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn find_node(group: &str) -> Outcome<String> {
    let how =
        format!("(nodejs.org, or your system's packages nodejs and npm), or say --without {group}");
    let version = processes::probe("node", &["--version"])
        .ok_or_else(|| format!("node is not on the PATH: install Node 22 with npm {how}"))?;
    let major = version.trim_start_matches('v').split('.').next().and_then(|v| v.parse().ok());
    if major.is_none_or(|major: u32| major < NODE_MAJOR_MIN) {
        return Err(
            format!("node {version} is too old: {NODE_MAJOR_MIN} is the least {how}").into()
        );
    }
    processes::probe("npm", &["--version"])
        .ok_or_else(|| format!("npm is not on the PATH: it comes with Node {how}"))?;
    Ok(version)
}

/// The closing `# pass` and `# fail` lines of a TAP report.
fn count_tap(report: &str) -> (u64, u64) {
    let count = |name: &str| {
        let line = report.lines().rev().find_map(|line| line.strip_prefix(name));
        line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
    };
    (count("# pass "), count("# fail ") + count("# cancelled "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tap_counts_are_read() {
        let report =
            "ok 1 - a\n# tests 9\n# suites 0\n# pass 6\n# fail 2\n# cancelled 1\n# skipped 0\n";
        assert_eq!(count_tap(report), (6, 3));
    }
}
