//! Our own tests that drive a server through the official SDKs: what they need installed, and how
//! they run. Each language is one file below; all take the endpoint from `ARMILLA_ENDPOINT` and the
//! key from `ARMILLA_KEY`, so they run by hand against any server as well.

mod blog;
mod dotnet;
mod explorer;
mod go;
mod java;
mod javascript;
mod python;
mod rust;

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::rest::WELL_KNOWN_KEY;
use crate::summary::Row;

pub(crate) use rust::count_cargo_results;

/// No SDK's tests may run longer; a run that hangs is killed and counted as a failure.
const RUN_WITHIN: Duration = Duration::from_secs(15 * 60);

/// The SDKs whose tests live in `conformance/`, and the example application on one of them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sdk {
    Python,
    JavaScript,
    Rust,
    Go,
    Java,
    /// With EF Core.
    DotNet,
    /// `examples/blog` in a browser.
    Blog,
    /// `explorer` in a browser.
    Explorer,
}

impl Sdk {
    pub(crate) const ALL: [Self; 8] = [
        Self::Python,
        Self::JavaScript,
        Self::Rust,
        Self::Go,
        Self::Java,
        Self::DotNet,
        Self::Blog,
        Self::Explorer,
    ];

    /// The name used on the command line and in the summary.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::JavaScript => "js",
            Self::Rust => "rust",
            Self::Go => "go",
            Self::Java => "java",
            Self::DotNet => "dotnet",
            Self::Blog => "blog",
            Self::Explorer => "explorer",
        }
    }

    /// What the summary calls it.
    pub(crate) fn title(self) -> String {
        match self {
            Self::Blog => "blog in a browser".to_owned(),
            Self::Explorer => "explorer in a browser".to_owned(),
            _ => format!("{} SDK", self.name()),
        }
    }

    /// The schemes to run it over. What the browser sees is the same over both, so once is enough.
    pub(crate) fn schemes(self) -> &'static [&'static str] {
        match self {
            Self::Blog | Self::Explorer => &["http"],
            // Their users have https, and Direct mode is nowhere else.
            Self::Java | Self::DotNet => &["https"],
            _ => &["http", "https"],
        }
    }

    /// A tool that is not on this machine and need not be: the tests are then named in the summary
    /// and not run.
    pub(crate) fn missing_tool(self) -> Option<&'static str> {
        let (tool, version) = match self {
            Self::Go => ("go", "version"),
            Self::Java => ("mvn", "--version"),
            Self::DotNet => ("dotnet", "--version"),
            // Without Node the table of files is still tested, by cargo.
            Self::Explorer => ("node", "--version"),
            _ => return None,
        };
        let found = Command::new(tool).arg(version).output();
        (!found.is_ok_and(|found| found.status.success())).then_some(tool)
    }

    /// Installs or builds what the tests need; quick when nothing changed since the last time.
    /// The error says what is missing and how to get it.
    pub(crate) fn prepare(self) -> Outcome<()> {
        match self {
            Self::Python => python::prepare(),
            Self::JavaScript => javascript::prepare(),
            Self::Rust => rust::prepare(),
            Self::Go => go::prepare(),
            Self::Java => java::prepare(),
            Self::DotNet => dotnet::prepare(),
            Self::Blog => blog::prepare(),
            Self::Explorer => explorer::prepare(),
        }
    }

    /// Runs the tests against a server; with its binary, those too that start servers of their own. A run that
    /// breaks is a row that failed.
    pub(crate) fn run(self, endpoint: &str, binary: Option<&Path>) -> Row {
        let scheme = endpoint.split(':').next().unwrap_or_default();
        let name = format!("{} over {scheme}", self.title());
        let started = Instant::now();
        let counts = match self {
            Self::Python => python::run(&name, endpoint),
            Self::JavaScript => javascript::run(&name, endpoint),
            Self::Rust => rust::run(&name, endpoint),
            Self::Go => go::run(&name, endpoint),
            Self::Java => java::run(&name, endpoint),
            Self::DotNet => dotnet::run(&name, endpoint),
            Self::Blog => blog::run(&name, endpoint),
            Self::Explorer => explorer::run(&name, endpoint, binary),
        };
        match counts {
            Ok(counts) => counts.into_row(&name, started.elapsed()),
            Err(error) => Row::broken(&name, started.elapsed(), error.to_string()),
        }
    }
}

/// What the explorer's build and tests need.
pub(crate) fn prepare_explorer() -> Outcome<()> {
    explorer::prepare()
}

/// A file of Python tests that is not among those of [`Sdk::run`].
pub(crate) fn run_python_file(
    name: &str,
    endpoint: &str,
    file: &str,
    variables: &[(&str, &OsStr)],
) -> Outcome<Counts> {
    python::run_tests(name, endpoint, &[file], variables)
}

/// A file of JavaScript tests that is not among those of [`Sdk::run`].
pub(crate) fn run_javascript_file(
    name: &str,
    endpoint: &str,
    file: &str,
    variables: &[(&str, &OsStr)],
) -> Outcome<Counts> {
    javascript::run_file(name, endpoint, file, variables)
}

/// How many tests passed and failed, as the test tool itself reports it.
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// Whether the tool ended with success.
    pub(crate) success: bool,
}

impl Counts {
    /// A tool that fails without naming a failed test, or runs nothing, still counts as a failure.
    pub(crate) fn into_row(self, name: &str, took: Duration) -> Row {
        let silent = self.failed == 0 && (!self.success || self.passed == 0);
        Row {
            name: name.to_owned(),
            passed: self.passed,
            failed: if silent { 1 } else { self.failed },
            took,
            note: if silent {
                "the test tool failed, see its output".into()
            } else {
                String::new()
            },
        }
    }
}

/// Tells a test process which server to talk to.
fn set_endpoint(command: &mut Command, endpoint: &str) {
    command.env("ARMILLA_ENDPOINT", endpoint);
    if std::env::var_os("ARMILLA_KEY").is_none() {
        command.env("ARMILLA_KEY", WELL_KNOWN_KEY);
    }
}

/// Whether `stamp` says that this very text was installed before.
fn is_installed(stamp: &Path, text: &str) -> bool {
    std::fs::read_to_string(stamp).is_ok_and(|before| before == text)
}

/// Remembers what was installed.
fn mark_installed(stamp: &Path, text: &str) -> Outcome<()> {
    std::fs::create_dir_all(stamp.parent().expect("a stamp lies in a folder"))?;
    Ok(std::fs::write(stamp, text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_fails_silently_is_counted() {
        let row = Counts { passed: 3, failed: 0, success: false }.into_row("x", Duration::ZERO);
        assert_eq!((row.passed, row.failed), (3, 1));
        let row = Counts { passed: 0, failed: 0, success: true }.into_row("x", Duration::ZERO);
        assert_eq!(row.failed, 1);
    }
}
