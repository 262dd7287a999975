//! `cargo xtask test`: everything that must hold, in one command.
//!
//! Order: formatting and lints, then what needs no server, then the server is built once and every SDK's tests run
//! against it over http and again over https (the same port takes both), then strangers beset one, last a
//! short crash test.
//! A few tests that fail are run once more, and named when they pass then. Nothing stops at the first failure, and nothing is left out unless it was named: a missing
//! toolchain is a failure that says how to get it; those of Go, Java and .NET, `rustfmt` and `clippy` are
//! named when they are missing.

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::arguments::{Arguments, Choice};
use crate::crash::{self, CrashPlan};
use crate::sdk::{self, Counts, Sdk};
use crate::server::{self, Server};
use crate::summary::{Row, Summary};
use crate::workspace::{self, Profile};
use crate::{
    cluster, counters, fuzz, ledger, metamorphic, rekey, roundtrip, second_try, splits, stranger,
};
use crate::{processes, workspace::build_server};

/// Groups that are not an SDK.
const LINT: &str = "lint";
const CARGO: &str = "cargo";
const CRASH: &str = "crash";
const FUZZ: &str = "fuzz";
const CLUSTER: &str = "cluster";
const LEDGER: &str = "ledger";
const METAMORPHIC: &str = "metamorphic";
const STRANGER: &str = "stranger";
/// How long each fuzz target runs as part of all tests.
const FUZZ_SECONDS: u64 = 20;
/// The workspace's own tests, with the time it takes to compile them on a small machine.
const CARGO_WITHIN: Duration = Duration::from_secs(40 * 60);
const CRASH_ROUNDS_DEFAULT: u64 = 50;

const ABOUT: &str = "\
Runs every test: formatting and lints, the Rust workspace, the Python, JavaScript, Rust, Go, Java and .NET SDKs against a fresh server
over http and https, the example blog and the data explorer in a browser, queries asked in many ways before and after a restart,
a crowd of strangers, and a short crash test.
Groups: lint, cargo, python, js, rust, go, java, dotnet, blog, explorer, metamorphic, stranger, crash, fuzz, ledger, cluster.";

const CHOICES: &[Choice] = &[
    Choice { name: "only", value: "GROUP", meaning: "Run only this group; may be repeated" },
    Choice { name: "without", value: "GROUP", meaning: "Leave this group out; may be repeated" },
    Choice {
        name: "endpoint",
        value: "URL",
        meaning: "Run the SDK groups against a server that runs already (key: ARMILLA_KEY)",
    },
    Choice { name: "release", value: "", meaning: "Build the server optimised" },
    Choice { name: "crash-rounds", value: "N", meaning: "Rounds of the crash test (default 50)" },
];

/// Runs the tests; false when something failed.
pub(crate) fn test(words: &[OsString]) -> Outcome<bool> {
    let Some(arguments) = Arguments::parse("test", ABOUT, CHOICES, words)? else {
        return Ok(true);
    };
    let mut summary = Summary::default();
    run_groups(&arguments, &mut summary)?;
    Ok(summary.close())
}

fn run_groups(arguments: &Arguments, summary: &mut Summary) -> Outcome<()> {
    let groups = Groups::chosen(arguments)?;
    if !groups.has(LINT) {
        summary.add(left_out("formatting"));
        summary.add(left_out("lints"));
    } else if !arguments.has("endpoint") {
        summary.add(cargo_check("formatting", &["fmt", "--all", "--check"]));
        let clippy = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
        summary.add(cargo_check("lints", &clippy));
    }
    if !groups.has(CARGO) {
        summary.add(left_out("cargo test"));
    } else if !arguments.has("endpoint") {
        summary.add(cargo_tests());
    }
    if !groups.has(FUZZ) {
        summary.add(left_out("fuzz"));
    } else if !arguments.has("endpoint") {
        fuzz::run(FUZZ_SECONDS, |_| true).into_iter().for_each(|row| summary.add(row));
    }
    if !groups.has(LEDGER) {
        summary.add(left_out("ledger"));
    } else if !arguments.has("endpoint") {
        summary.add(ledger::run());
    }
    let ready = prepare_sdks(&groups, summary);
    if let Some(endpoint) = arguments.text("endpoint") {
        for sdk in ready {
            summary.add(sdk.run(endpoint, None));
        }
        return Ok(());
    }
    let needs_server =
        [CRASH, CLUSTER, METAMORPHIC, STRANGER].iter().any(|group| groups.has(group));
    if ready.is_empty() && !needs_server {
        return Ok(());
    }
    let profile = if arguments.has("release") { Profile::Release } else { Profile::Dev };
    let started = Instant::now();
    let binary = match build_server(profile) {
        Ok(binary) => binary,
        Err(error) => {
            summary.add(Row::broken("server build", started.elapsed(), error.to_string()));
            return Ok(());
        }
    };
    run_sdks(&binary, &ready, summary);
    if groups.has(METAMORPHIC) {
        metamorphic::run(&binary).into_iter().for_each(|row| summary.add(row));
    } else {
        summary.add(left_out("metamorphic"));
    }
    if groups.has(STRANGER) {
        summary.add(stranger::run(&binary));
    } else {
        summary.add(left_out("strangers"));
    }
    run_crashes(&groups, arguments, &binary, summary)
}

/// Everything that kills servers.
fn run_crashes(
    groups: &Groups,
    arguments: &Arguments,
    binary: &Path,
    summary: &mut Summary,
) -> Outcome<()> {
    if groups.has(CLUSTER) {
        cluster::run(binary).into_iter().for_each(|row| summary.add(row));
    } else {
        summary.add(left_out("cluster"));
    }
    if groups.has(CRASH) {
        let rounds = arguments.number("crash-rounds", CRASH_ROUNDS_DEFAULT)?;
        summary.add(crash::run(&CrashPlan::new(binary, rounds)));
        summary.add(counters::run(binary));
        summary.add(splits::run(binary));
        summary.add(rekey::run(binary));
        summary.add(roundtrip::run(binary));
        return Ok(());
    }
    let names = ["crash rounds", "script counters", "splits under load", "re-keys under kills"];
    names.into_iter().chain(["round trip"]).for_each(|name| summary.add(left_out(name)));
    Ok(())
}

/// A group that was left out by name is still named in the table.
fn left_out(name: &str) -> Row {
    let note = "left out, as asked".into();
    Row { name: name.to_owned(), passed: 0, failed: 0, took: Duration::ZERO, note }
}

/// Starts one server and lets every prepared SDK loose on it, by both schemes.
fn run_sdks(binary: &Path, ready: &[Sdk], summary: &mut Summary) {
    if ready.is_empty() {
        return;
    }
    let log = workspace::work().join("server.log");
    let started = Instant::now();
    let mut server = match start_server(binary, &log) {
        Ok(started) => started,
        Err(error) => {
            summary.add(Row::broken("server start", started.elapsed(), error.to_string()));
            return;
        }
    };
    for sdk in ready {
        for scheme in sdk.schemes() {
            let run = || sdk.run(&server.0.endpoint(scheme), Some(binary));
            summary.add(second_try::of_group(run));
            if let Some(status) = server.0.ended() {
                let note = format!("the server ended with {status}: {}", server::tail(&log));
                summary.add(Row::broken("server survival", started.elapsed(), note));
                return;
            }
        }
    }
    let stopping = Instant::now();
    match server.0.stop() {
        Ok(()) => summary.add(Row {
            name: "server stops cleanly".into(),
            passed: 1,
            failed: 0,
            took: stopping.elapsed(),
            note: String::new(),
        }),
        Err(error) => {
            summary.add(Row::broken("server stops cleanly", stopping.elapsed(), error.to_string()))
        }
    }
}

/// A fresh server; its data folder lives as long as the pair.
fn start_server(binary: &Path, log: &Path) -> Outcome<(Server, tempfile::TempDir)> {
    std::fs::create_dir_all(workspace::work())?;
    std::fs::write(log, b"")?;
    let data = tempfile::Builder::new().prefix("armilla-test-").tempdir()?;
    Ok((Server::start(binary, data.path(), log)?, data))
}

/// Installs what each chosen SDK needs and returns those that can run.
fn prepare_sdks(groups: &Groups, summary: &mut Summary) -> Vec<Sdk> {
    let mut ready = Vec::new();
    for sdk in Sdk::ALL {
        if !groups.has(sdk.name()) {
            summary.add(left_out(&sdk.title()));
            continue;
        }
        if let Some(tool) = sdk.missing_tool() {
            let note = format!("not run: there is no `{tool}` on this machine");
            summary.add(Row { note, ..left_out(&sdk.title()) });
            continue;
        }
        let started = Instant::now();
        match sdk.prepare() {
            Ok(()) => ready.push(sdk),
            Err(error) => {
                summary.add(Row::broken(&sdk.title(), started.elapsed(), error.to_string()));
            }
        }
    }
    ready
}

fn cargo_tests() -> Row {
    let started = Instant::now();
    let mut command = workspace::cargo();
    command.args(["test", "--workspace", "--no-fail-fast", "--quiet"]);
    match processes::run_and_keep("cargo test", &mut command, CARGO_WITHIN) {
        Ok((success, output)) => {
            let (passed, failed) = sdk::count_cargo_results(&output);
            let row = Counts { passed, failed, success }.into_row("cargo test", started.elapsed());
            second_try::of_cargo_tests(row, &output)
        }
        Err(error) => Row::broken("cargo test", started.elapsed(), error.to_string()),
    }
}

/// Runs a part of cargo that not every toolchain has; one that is missing is named.
fn cargo_check(name: &str, arguments: &[&str]) -> Row {
    let started = Instant::now();
    let part = arguments.first().copied().unwrap_or_default();
    let found = workspace::cargo().args([part, "--version"]).output();
    if !found.is_ok_and(|found| found.status.success()) {
        let note = format!("not run: there is no `cargo {part}` on this machine");
        return Row { note, ..left_out(name) };
    }
    match processes::run(name, workspace::cargo().args(arguments)) {
        Ok(()) => Row {
            name: name.to_owned(),
            passed: 1,
            failed: 0,
            took: started.elapsed(),
            note: String::new(),
        },
        Err(error) => Row::broken(name, started.elapsed(), error.to_string()),
    }
}

/// Which groups run.
struct Groups(Vec<&'static str>);

impl Groups {
    fn chosen(arguments: &Arguments) -> Outcome<Self> {
        let mut all = vec![LINT, CARGO];
        all.extend(Sdk::ALL.map(Sdk::name));
        all.extend([METAMORPHIC, STRANGER, CRASH, FUZZ, LEDGER, CLUSTER]);
        let (only, without) = (arguments.list("only"), arguments.list("without"));
        for name in only.iter().chain(&without) {
            if !all.contains(name) {
                return Err(
                    format!("there is no group `{name}`; there are {}", all.join(", ")).into()
                );
            }
        }
        all.retain(|name| (only.is_empty() || only.contains(name)) && !without.contains(name));
        Ok(Self(all))
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains(&name)
    }
}
