//! The Python SDK: a virtual environment in the work folder, and pytest.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use super::{Counts, RUN_WITHIN, is_installed, mark_installed, set_endpoint};
use crate::Outcome;
use crate::{processes, workspace};

/// Creates the virtual environment and installs the pinned packages.
pub(super) fn prepare() -> Outcome<()> {
    let requirements = workspace::root().join("conformance/python/requirements.txt");
    let wanted = std::fs::read_to_string(&requirements)?;
    let stamp = workspace::work().join("python.stamp");
    if interpreter().is_file() && is_installed(&stamp, &wanted) {
        return Ok(());
    }
    let python = find_python()?;
    let mut create = Command::new(python);
    create.args(["-m", "venv", "--clear"]).arg(environment());
    processes::run("python: create a virtual environment", &mut create).map_err(|error| {
        format!("{error}; its venv module is needed (Debian, Ubuntu: apt install python3-venv)")
    })?;
    let mut install = Command::new(interpreter());
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]);
    install.arg(&requirements);
    processes::run("python: install the SDK", &mut install)?;
    mark_installed(&stamp, &wanted)
}

/// Runs all tests.
pub(super) fn run(name: &str, endpoint: &str) -> Outcome<Counts> {
    run_tests(name, endpoint, &[], &[])
}

/// Runs pytest on the named files, or on all tests, with further variables in its environment, and
/// reads the counts from its JUnit report.
pub(super) fn run_tests(
    name: &str,
    endpoint: &str,
    files: &[&str],
    variables: &[(&str, &OsStr)],
) -> Outcome<Counts> {
    let report = workspace::work().join("python-report.xml");
    std::fs::remove_file(&report).ok();
    let mut command = Command::new(interpreter());
    command
        .current_dir(workspace::root().join("conformance/python"))
        .args(["-m", "pytest", "-q", "--junit-xml"])
        .arg(&report)
        .args(files)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .envs(variables.iter().copied());
    set_endpoint(&mut command, endpoint);
    let (success, _) = processes::run_and_keep(name, &mut command, RUN_WITHIN)?;
    let text = std::fs::read_to_string(&report)
        .map_err(|_| "pytest wrote no report, see its output".to_owned())?;
    let (passed, failed) = count_junit(&text);
    Ok(Counts { passed, failed, success })
}

fn environment() -> PathBuf {
    workspace::work().join("venv")
}

fn interpreter() -> PathBuf {
    let inside = if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" };
    environment().join(inside)
}

fn find_python() -> Outcome<&'static str> {
    const ENOUGH: &str = "import sys; sys.exit(sys.version_info < (3, 9))";
    ["python3", "python"]
        .into_iter()
        .find(|name| processes::probe(name, &["-c", ENOUGH]).is_some())
        .ok_or_else(|| {
            "python3 3.9 or newer is not on the PATH (Debian, Ubuntu: apt install python3 python3-venv; \
             elsewhere python.org), or say --without python"
                .into()
        })
}

/// Passed and failed tests of a JUnit report; an expected failure that came true is not a pass.
fn count_junit(report: &str) -> (u64, u64) {
    let suite = report.find("<testsuite ").and_then(|start| report[start..].split('>').next());
    let attribute = |name: &str| -> u64 {
        let text = suite.unwrap_or_default();
        let start = text.find(&format!(" {name}=\"")).map(|at| at + name.len() + 3);
        start
            .and_then(|start| text[start..].split('"').next())
            .and_then(|number| number.parse().ok())
            .unwrap_or(0)
    };
    let failed = attribute("failures") + attribute("errors");
    (attribute("tests").saturating_sub(failed + attribute("skipped")), failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn junit_counts_are_read() {
        let report = r#"<?xml version="1.0"?><testsuites name="pytest tests"><testsuite name="pytest" errors="1" failures="2" skipped="3" tests="10" time="1.5"><testcase/></testsuite></testsuites>"#;
        assert_eq!(count_junit(report), (4, 3));
        assert_eq!(count_junit(""), (0, 0));
    }
}
