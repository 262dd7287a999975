//! `cargo xtask outside`: suites that nobody here wrote, from checkouts that somebody else made.
//!
//! Nothing is fetched: each suite is given the folder of its checkout and runs with the tools of its language against a
//! fresh server; where a suite has the emulators' port in its source, at that port. A test that is known to fail has its
//! reason in `conformance/outside/NAME.txt`; one that fails without a reason makes the chore fail.

mod java;
mod lanes;
mod reasons;
mod reports;
mod suites;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::arguments::{Arguments, Choice};
use crate::workspace::{self, Profile};
use lanes::Lane;
use reasons::Reasons;
use reports::Results;
use suites::{SUITES, Suite};

const ABOUT: &str = "\
Runs public test suites from checkouts (see conformance/outside/README.md) against fresh servers, and
prints how many tests pass, how many fail for a known reason, and what the first run reached.";

/// Runs the suites that were given a folder; false when a test fails without a known reason.
pub(crate) fn outside(words: &[OsString]) -> Outcome<bool> {
    let mut choices: Vec<Choice> = SUITES
        .iter()
        .map(|suite| Choice { name: suite.name, value: "PATH", meaning: suite.title })
        .collect();
    choices.push(Choice {
        name: "binary",
        value: "PATH",
        meaning: "A server that is built already",
    });
    choices.push(Choice { name: "out", value: "PATH", meaning: "Folder for logs and reports" });
    let Some(arguments) = Arguments::parse("outside", ABOUT, &choices, words)? else {
        return Ok(true);
    };
    let binary = match arguments.text("binary") {
        Some(path) => PathBuf::from(path),
        None => workspace::build_server(Profile::Release)?,
    };
    let out =
        arguments.text("out").map_or_else(|| workspace::work().join("outside"), PathBuf::from);
    std::fs::create_dir_all(&out)?;
    let mut lines = Vec::new();
    for suite in SUITES {
        let line = match arguments.text(suite.name) {
            None => Line::not_run(suite, "no folder was given".to_owned()),
            Some(folder) => run(suite, Path::new(folder), &binary, &out.canonicalize()?),
        };
        lines.push(line);
    }
    Ok(close(&lines))
}

/// What became of a suite.
struct Line {
    suite: &'static Suite,
    passed: usize,
    /// Failures with a reason in the suite's file.
    known: usize,
    /// Failures without.
    unknown: Vec<String>,
    took: Duration,
    note: String,
}

impl Line {
    fn not_run(suite: &'static Suite, note: String) -> Self {
        Self { suite, passed: 0, known: 0, unknown: Vec::new(), took: Duration::ZERO, note }
    }

    fn of(suite: &'static Suite, results: Results, reasons: &Reasons, took: Duration) -> Self {
        let (known, unknown): (Vec<_>, Vec<_>) =
            results.failed.into_iter().partition(|name| reasons.knows(name));
        let note = match results.passed {
            0 => "no test passed, see the output".to_owned(),
            _ => results.note,
        };
        Self { suite, passed: results.passed, known: known.len(), unknown, took, note }
    }

    fn is_failure(&self) -> bool {
        !self.unknown.is_empty() || (self.took > Duration::ZERO && self.passed == 0)
    }
}

fn run(suite: &'static Suite, folder: &Path, binary: &Path, out: &Path) -> Line {
    let started = Instant::now();
    if let Some(tool) = suite.missing_tool() {
        return Line::not_run(suite, format!("there is no `{tool}` on this machine"));
    }
    let results = results_of(suite, folder, binary, &out.join(suite.name));
    let reasons = Reasons::read(suite.name);
    match results.and_then(|results| Ok((results, reasons?))) {
        Ok((results, reasons)) => Line::of(suite, results, &reasons, started.elapsed()),
        Err(error) => {
            let mut line = Line::not_run(suite, error.to_string());
            line.took = started.elapsed();
            line
        }
    }
}

fn results_of(suite: &Suite, folder: &Path, binary: &Path, out: &Path) -> Outcome<Results> {
    let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
    std::fs::create_dir_all(out)?;
    (suite.prepare)(&folder, out)?;
    let start = |number| Lane::start(number, suite, binary, out);
    let lanes = (0..suite.lanes).map(start).collect::<Outcome<Vec<_>>>()?;
    let mut steps = Vec::new();
    for lane in &lanes {
        steps.push((suite.steps)(&lane.site(&folder, out))?);
    }
    let said = lanes::work_off(suite, steps);
    std::fs::write(out.join("output.txt"), &said.output)?;
    let mut results = suite.report.read(&said.output, out)?;
    results.failed.extend(said.broken);
    Ok(results)
}

/// Prints the table and the closing line; true when every failure has a reason.
fn close(lines: &[Line]) -> bool {
    let width = lines.iter().map(|line| line.suite.title.len()).max().unwrap_or(0);
    println!("\n{:<width$}  {:>12}  known  unknown  first run", "suite", "passed");
    for line in lines {
        let all = line.passed + line.known + line.unknown.len();
        let figure = format!("{} of {all}", line.passed);
        let (known, unknown) = (line.known, line.unknown.len());
        let text = format!(
            "{:<width$}  {figure:>12}  {known:>5}  {unknown:>7}  {}  {}",
            line.suite.title, line.suite.first, line.note
        );
        println!("{}", text.trim_end());
    }
    for line in lines {
        for name in &line.unknown {
            println!("{}: {name} fails, and no reason is written down", line.suite.name);
        }
    }
    let passed: usize = lines.iter().map(|line| line.passed).sum();
    let failed = lines.iter().filter(|line| line.is_failure()).count();
    let unknown: usize = lines.iter().map(|line| line.unknown.len()).sum();
    println!("{passed} passed, {} failed", unknown.max(failed));
    failed == 0 && passed > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_without_a_reason_fails_the_chore() {
        let reasons = Reasons::parse("TestKnown  the answer is ours on purpose\n").unwrap();
        let results =
            || Results { passed: 3, failed: vec!["TestKnown".into()], ..Results::default() };
        let line = Line::of(&SUITES[0], results(), &reasons, Duration::from_secs(1));
        assert_eq!((line.known, line.is_failure()), (1, false));
        let mut results = results();
        results.failed.push("TestNew".into());
        let line = Line::of(&SUITES[0], results, &reasons, Duration::from_secs(1));
        assert_eq!((line.known, line.unknown.len(), line.is_failure()), (1, 1, true));
    }

    #[test]
    fn every_suite_has_its_page_of_reasons() {
        for suite in SUITES {
            Reasons::read(suite.name).unwrap();
        }
    }
}
