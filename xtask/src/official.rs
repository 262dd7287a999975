//! `cargo xtask conformance`: the SDKs' own live test suites, unmodified, against a fresh server.
//!
//! The suites are not ours and not in this repository: `conformance/official/README.md` tells how to
//! prepare a folder that holds them. Each suite gets a server of its own, because some begin by
//! deleting every database, and they run one after the other.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;
use crate::arguments::{Arguments, Choice};
use crate::processes;
use crate::server::Server;
use crate::workspace::{self, Profile};

const ABOUT: &str = "\
Runs the official test suites of the Python, JavaScript and Rust SDKs from a prepared folder (see
conformance/official/README.md) against a fresh server, and prints a report.";

const CHOICES: &[Choice] = &[
    Choice { name: "suites", value: "PATH", meaning: "The prepared folder (required)" },
    Choice { name: "only", value: "SUITE", meaning: "python, js or rust; may be repeated" },
    Choice { name: "file", value: "GLOB", meaning: "Only these test files; may be repeated" },
    Choice { name: "endpoint", value: "URL", meaning: "Use a server that runs already" },
    Choice { name: "https", value: "", meaning: "Talk https to the fresh server" },
    Choice { name: "dev", value: "", meaning: "Build the server without optimisation" },
    Choice { name: "out", value: "PATH", meaning: "Results (default: PATH of --suites + /out)" },
];

const SUITES: [&str; 3] = ["python", "js", "rust"];

/// Runs the suites; false when a test failed.
pub(crate) fn conformance(words: &[OsString]) -> Outcome<bool> {
    let Some(arguments) = Arguments::parse("conformance", ABOUT, CHOICES, words)? else {
        return Ok(true);
    };
    let folder = PathBuf::from(arguments.text("suites").ok_or("--suites PATH is needed")?);
    let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
    let out = arguments.text("out").map_or_else(|| folder.join("out"), PathBuf::from);
    let only = arguments.list("only");
    if let Some(unknown) = only.iter().find(|name| !SUITES.contains(name)) {
        return Err(
            format!("there is no suite `{unknown}`; there are {}", SUITES.join(", ")).into()
        );
    }
    let mut all_passed = true;
    let mut results = Vec::new();
    for suite in SUITES.into_iter().filter(|name| only.is_empty() || only.contains(name)) {
        let out = out.join(suite);
        all_passed &= run_suite(suite, &folder, &out, &arguments)?;
        results.push(out.join("results.json"));
    }
    let mut report = Command::new("python3");
    report.arg(harness().join("report.py")).args(results.iter().filter(|path| path.is_file()));
    processes::run("report", &mut report)?;
    Ok(all_passed)
}

fn run_suite(suite: &str, folder: &Path, out: &Path, arguments: &Arguments) -> Outcome<bool> {
    let mut command = Command::new("python3");
    command.arg(harness().join("run.py")).arg(suite);
    suite_arguments(suite, folder, &mut command)?;
    command.args(["--label", "armilla", "--out"]).arg(out);
    for glob in arguments.list("file") {
        command.args(["--only", glob]);
    }
    let name = format!("official {suite} suite");
    if let Some(endpoint) = arguments.text("endpoint") {
        command.args(["--endpoint", endpoint]);
        return Ok(processes::run(&name, &mut command).is_ok());
    }
    let profile = if arguments.has("dev") { Profile::Dev } else { Profile::Release };
    let binary = workspace::build_server(profile)?;
    let data = tempfile::Builder::new().prefix("armilla-conformance-").tempdir()?;
    std::fs::create_dir_all(out)?;
    // Tests that ask for 12,000, 25,100 or 30,000 RU/s expect two or five ranges.
    let options = ["--partition-rus", "6000"];
    let server = Server::start_with(&binary, data.path(), &out.join("server.log"), &options)?;
    let scheme = if arguments.has("https") { "https" } else { "http" };
    command.args(["--endpoint", &server.endpoint(scheme)]);
    Ok(processes::run(&name, &mut command).is_ok())
}

fn suite_arguments(suite: &str, folder: &Path, command: &mut Command) -> Outcome<()> {
    match suite {
        "python" => {
            let source = find(folder, "azure_cosmos-", "")?;
            command.arg("--suite").arg(source.join("tests"));
            command.arg("--python").arg(folder.join("venv/bin/python"));
        }
        "js" => {
            let modules = folder.join("js");
            command.arg("--suite").arg(modules.join("suite/sdk/cosmosdb/cosmos"));
            command.arg("--node").arg(modules.join("node_modules/.bin/node"));
            command.arg("--modules").arg(modules);
        }
        _ => {
            command.arg("--suite").arg(folder.join("rust"));
            let built = folder.join("rust-target/debug/deps");
            command.arg("--binary").arg(find(&built, "emulator-", ".d")?);
        }
    }
    Ok(())
}

/// The entry of a folder whose name begins with `prefix` and does not end with `not_ending`.
fn find(folder: &Path, prefix: &str, not_ending: &str) -> Outcome<PathBuf> {
    let entries = std::fs::read_dir(folder)
        .map_err(|error| format!("{} is not prepared: {error}", folder.display()))?;
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(prefix) && (not_ending.is_empty() || !name.ends_with(not_ending))
        })
        .ok_or_else(|| format!("there is no {prefix}… in {}", folder.display()).into())
}

fn harness() -> PathBuf {
    workspace::root().join("conformance/official")
}
