//! What test tools write about their tests: how many passed, and the names of those that failed.

use std::collections::BTreeMap;
use std::path::Path;

use crate::Outcome;

/// The verdicts of a suite.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Results {
    pub(super) passed: usize,
    pub(super) failed: Vec<String>,
    /// Counts of parts, where a suite has such.
    pub(super) note: String,
}

/// Where verdicts are found.
#[derive(Clone, Copy)]
pub(super) enum Report {
    /// `--- PASS: TestName` at the beginning of a line: tests, not their parts.
    Go,
    /// `test name ... ok`.
    Cargo,
    /// `verdict<TAB>mode<TAB>name<TAB>…` in the file `tally`: see `conformance/outside/Tally.java`.
    Tally,
    /// JUnit's XML in `report.xml`.
    Junit,
    /// Visual Studio's XML in `report.trx`.
    Trx,
}

impl Report {
    pub(super) fn read(self, output: &str, out: &Path) -> Outcome<Results> {
        let file = |name: &str| {
            std::fs::read_to_string(out.join(name))
                .map_err(|_| format!("the tests wrote no {name}, see their output"))
        };
        Ok(match self {
            Self::Go => go(output),
            Self::Cargo => cargo(output),
            Self::Tally => tally(&file("tally")?),
            Self::Junit => junit(&file("report.xml")?),
            Self::Trx => trx(&file("report.trx")?),
        })
    }
}

fn go(output: &str) -> Results {
    let name = |rest: &str| rest.split(' ').next().unwrap_or_default().to_owned();
    let passed = output.lines().filter(|line| line.starts_with("--- PASS: ")).count();
    let failed = output.lines().filter_map(|line| line.strip_prefix("--- FAIL: ")).map(name);
    Results { passed, failed: failed.collect(), note: String::new() }
}

fn cargo(output: &str) -> Results {
    let tests =
        || output.lines().filter_map(|line| line.strip_prefix("test ")?.split_once(" ... "));
    let passed = tests().filter(|(_, verdict)| *verdict == "ok").count();
    let failed = tests().filter(|(_, verdict)| verdict.starts_with("FAILED"));
    Results {
        passed,
        failed: failed.map(|(name, _)| name.to_owned()).collect(),
        ..Results::default()
    }
}

/// A test runs in several modes and with several clients; each run counts.
fn tally(text: &str) -> Results {
    let mut results = Results::default();
    let mut modes: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for line in text.lines() {
        let mut cells = line.split('\t');
        let (verdict, mode, name) = (cells.next(), cells.next(), cells.next());
        let (Some(verdict @ ("pass" | "fail")), Some(mode), Some(name)) = (verdict, mode, name)
        else {
            continue;
        };
        let counts = modes.entry(mode).or_default();
        counts.1 += 1;
        match verdict == "pass" {
            true => (results.passed, counts.0) = (results.passed + 1, counts.0 + 1),
            false => results.failed.push(name.to_owned()),
        }
    }
    let told = modes.iter().map(|(mode, (passed, all))| format!("{mode} {passed} of {all}"));
    results.note = told.collect::<Vec<_>>().join(", ");
    results
}

fn junit(text: &str) -> Results {
    let mut results = Results::default();
    for case in text.split("<testcase ").skip(1) {
        let head = case.split('>').next().unwrap_or_default();
        let body = case.split("</testcase>").next().unwrap_or_default();
        let is_empty = head.ends_with('/');
        if !is_empty && body.contains("<skipped") {
            continue;
        }
        match !is_empty && (body.contains("<failure") || body.contains("<error")) {
            true => results.failed.push(attribute(head, "name")),
            false => results.passed += 1,
        }
    }
    results
}

fn trx(text: &str) -> Results {
    let mut results = Results::default();
    for result in text.split("<UnitTestResult ").skip(1) {
        let head = result.split('>').next().unwrap_or_default();
        match attribute(head, "outcome").as_str() {
            "Passed" => results.passed += 1,
            "NotExecuted" => {}
            _ => results.failed.push(attribute(head, "testName")),
        }
    }
    results
}

/// An attribute's text, with the escapes that test names have.
fn attribute(head: &str, name: &str) -> String {
    let padded = format!(" {head}");
    let behind = padded.split(&format!(" {name}=\"")).nth(1).unwrap_or_default();
    let text = behind.split('"').next().unwrap_or_default();
    text.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(passed: usize, failed: &[&str]) -> Results {
        Results {
            passed,
            failed: failed.iter().map(|&name| name.to_owned()).collect(),
            ..Results::default()
        }
    }

    #[test]
    fn go_and_cargo_name_what_failed() {
        let output = "--- PASS: TestA (0.1s)\n    --- FAIL: TestB/part (0s)\n--- FAIL: TestB (0.2s)\n--- SKIP: TestC (0s)\n";
        assert_eq!(go(output), results(1, &["TestB"]));
        let output = "test a::b ... ok\ntest a::c ... FAILED\ntest d ... ignored\n";
        assert_eq!(cargo(output), results(1, &["a::c"]));
    }

    #[test]
    fn a_tally_counts_every_run() {
        let text = "pass\tdirect\tA.b\t\nfail\tdirect\tA.c\tboom\nfail\tdirect\tA.c\tboom\nskip\tnone\tA.d\t\n";
        let note = "direct 1 of 3".to_owned();
        assert_eq!(tally(text), Results { note, ..results(1, &["A.c", "A.c"]) });
    }

    #[test]
    fn reports_in_xml_are_read() {
        let text = r#"<testsuite><testcase classname="m" name="a" time="1"/><testcase name="b[&quot;x&quot;]"><failure message="no"/></testcase><testcase name="c"><skipped/></testcase><testcase name="d"><system-out>x</system-out></testcase></testsuite>"#;
        assert_eq!(junit(text), results(2, &["b[\"x\"]"]));
        let text = r#"<UnitTestResult testName="N.A" outcome="Passed" /><UnitTestResult outcome="Failed" testName="N.B(x: &lt;1&gt;)"></UnitTestResult><UnitTestResult testName="N.C" outcome="NotExecuted" />"#;
        assert_eq!(trx(text), results(1, &["N.B(x: <1>)"]));
    }
}
