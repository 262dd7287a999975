//! `cargo xtask instructions`: how many instructions the server executes for one request, on its hot paths.
//!
//! A guard of speed that does not time: the optimised server runs under Valgrind's callgrind, a client asks it for each path a fixed number
//! of times, and what was executed meanwhile is compared with a baseline in the repository. Counts are nearly the same whatever the machine is
//! busy with; they say nothing of system calls and waits. How often a request allocates is counted by an ordinary test, `crates/gateway/tests/allocations`.

mod connection;
mod paths;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::arguments::{Arguments, Choice};
use crate::server::Server;
use crate::workspace::Profile;
use crate::{Outcome, processes, workspace};
pub(crate) use connection::Connection;
use paths::{HotPath, hot_paths};

/// Where the baseline lies.
const BASELINE: &str = "xtask/instructions.txt";
/// Requests of a path that are counted.
const COUNTED_DEFAULT: usize = 200;
/// Requests before those, so that what is kept between requests is there.
const WARM_UP: usize = 50;
/// Hundredths by which a path may rise over its baseline, and may fall before the baseline has to be written anew.
const TOLERANCE_PERCENT: f64 = 5.0;

const ABOUT: &str = "\
Counts the instructions that the optimised server executes for a request on each of its hot paths, under `valgrind --tool=callgrind`, and compares them with
xtask/instructions.txt: a path that differs by more than 5 percent is a failure. After a change that is meant, --update writes the file.
The counts depend on the compiler, which the file names: with another one they are printed and not compared. Takes about a minute behind the build.";

const CHOICES: &[Choice] = &[
    Choice { name: "update", value: "", meaning: "Write the baseline instead of comparing" },
    Choice {
        name: "binary",
        value: "FILE",
        meaning: "Count this server instead of building one; nothing is compared",
    },
    Choice { name: "requests", value: "N", meaning: "Requests that are counted (default 200)" },
    Choice { name: "only", value: "WORDS", meaning: "Only paths whose names have these words" },
    Choice {
        name: "profiles",
        value: "FOLDER",
        meaning: "Keep the profile of each path there, for callgrind_annotate",
    },
];

/// Instructions per request, by path.
type PathCounts = BTreeMap<String, f64>;

/// Builds, counts, compares.
pub(crate) fn instructions(words: &[OsString]) -> Outcome<bool> {
    let Some(arguments) = Arguments::parse("instructions", ABOUT, CHOICES, words)? else {
        return Ok(true);
    };
    for program in ["valgrind", "callgrind_control"] {
        if processes::probe(program, &["--version"]).is_none() {
            println!(
                "{program} is not on this machine (Debian: apt-get install valgrind); nothing was counted."
            );
            return Ok(true);
        }
    }
    let given = arguments.text("binary").map(PathBuf::from);
    let binary = match &given {
        Some(binary) => binary.clone(),
        None => workspace::build_server(Profile::Release)?,
    };
    let requests = arguments.text("requests").map(str::parse).transpose()?;
    let requests = requests.unwrap_or(COUNTED_DEFAULT).max(1);
    let scratch = tempfile::tempdir()?;
    let profiles = match arguments.text("profiles") {
        Some(folder) => PathBuf::from(folder),
        None => scratch.path().join("profiles"),
    };
    fs::create_dir_all(&profiles)?;
    let mut wanted = hot_paths();
    if let Some(words) = arguments.text("only") {
        wanted.retain(|path| path.name.contains(words));
    }
    let folders = (scratch.path(), profiles.as_path());
    let counts = count(&binary, folders, &wanted, requests, &alone(&binary))?;
    if given.is_some() || arguments.has("only") {
        counts.iter().for_each(|(name, count)| println!("{count:>10.0}  {name}"));
        return Ok(true);
    }
    if arguments.has("update") {
        fs::write(workspace::root().join(BASELINE), written(&counts, &compiler()))?;
        println!("{BASELINE} is written.");
        return Ok(true);
    }
    compare(&counts)
}

/// Counts every path on one server; two folders: for what it needs, and for profiles.
fn count(
    binary: &Path,
    (scratch, profiles): (&Path, &Path),
    paths: &[HotPath],
    requests: usize,
    options: &[&str],
) -> Outcome<PathCounts> {
    let log = scratch.join("server.log");
    let out = profiles.join("profile");
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--quiet"]);
    let mut argument = OsString::from("--callgrind-out-file=");
    argument.push(&out);
    valgrind.arg(argument).arg(binary);
    processes::announce("start the server under callgrind");
    let server = Server::start_watched(valgrind, &scratch.join("data"), &log, options)?;
    let mut connection = Connection::open(&server)?;
    paths::fill(&mut connection)?;
    let mut counts = PathCounts::new();
    for (number, path) in paths.iter().enumerate() {
        let before = (path.request)(&connection, WARM_UP + requests);
        let (warm_up, counted) = before.split_at(WARM_UP);
        warm_up.iter().try_for_each(|request| connection.ask(request))?;
        control(&server, "--zero")?;
        counted.iter().try_for_each(|request| connection.ask(request))?;
        control(&server, "--dump")?;
        let executed = executed(&dumped(&out, number + 1)?)?;
        counts.insert(path.name.to_owned(), executed as f64 / requests as f64);
    }
    // It has nothing that is worth a clean end.
    server.kill()?;
    Ok(counts)
}

/// Options that leave out what a server does beside its requests, as far as it knows them: older ones can be counted too.
fn alone(binary: &Path) -> Vec<&'static str> {
    let help = Command::new(binary).args(["serve", "--help"]).output();
    let text = help.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let known = |option: &&str| text.as_ref().is_ok_and(|text| text.contains(option));
    ["--no-observe"].into_iter().filter(known).collect()
}

fn control(server: &Server, what: &str) -> Outcome<()> {
    let process = server.process().to_string();
    let output = Command::new("callgrind_control").args([what, &process]).output()?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(format!("callgrind_control {what} failed: {text}").into())
}

/// The text of a dump; they are numbered from 1.
fn dumped(out: &Path, number: usize) -> Outcome<String> {
    let mut name = out.as_os_str().to_owned();
    name.push(format!(".{number}"));
    fs::read_to_string(&name).map_err(|error| format!("{}: {error}", name.to_string_lossy()).into())
}

/// The instructions that a dump tells of.
fn executed(dump: &str) -> Outcome<u64> {
    let total = dump.lines().rev().find_map(|line| line.strip_prefix("totals: "));
    Ok(total.ok_or("a profile has no totals")?.trim().parse()?)
}

fn compiler() -> String {
    processes::probe("rustc", &["--version"]).unwrap_or_else(|| "unknown".to_owned())
}

fn written(counts: &PathCounts, compiler: &str) -> String {
    let mut text = format!(
        "# Instructions per request, optimised server under callgrind, {compiler}.\n\
         # After a change that is meant: cargo xtask instructions --update\n"
    );
    for (name, count) in counts {
        let _ = writeln!(text, "{count:>10.0}  {name}");
    }
    text
}

fn read(text: &str) -> Outcome<PathCounts> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let entry = |line: &str| -> Outcome<(String, f64)> {
        let (number, name) = line.trim().split_once("  ").ok_or("a line has no name")?;
        Ok((name.to_owned(), number.parse()?))
    };
    lines.map(entry).collect()
}

/// Compares with the baseline, if it was made by the same compiler.
fn compare(counts: &PathCounts) -> Outcome<bool> {
    let text = fs::read_to_string(workspace::root().join(BASELINE))?;
    let baseline = read(&text)?;
    let compiler = compiler();
    let is_comparable = text.lines().next().is_some_and(|line| line.contains(&compiler));
    let (lines, fits) = comparison(counts, &baseline);
    println!("{lines}");
    if !is_comparable {
        println!("{BASELINE} was made by another compiler than {compiler}: nothing is compared.");
        return Ok(true);
    }
    if !fits {
        println!(
            "Instructions per request differ from {BASELINE} by more than {TOLERANCE_PERCENT} percent. A rise is work that every request of the path \
                  now does; `cargo xtask instructions --profiles FOLDER` keeps profiles of both versions to compare. If the change is meant, or \
                  a fall is to stay: cargo xtask instructions --update"
        );
    }
    Ok(fits)
}

/// The table, and whether all paths are within the tolerance.
fn comparison(counts: &PathCounts, baseline: &PathCounts) -> (String, bool) {
    let (mut text, mut fits) = (String::new(), counts.keys().eq(baseline.keys()));
    for (name, count) in counts {
        let known = baseline.get(name);
        let percent = known.map(|known| (count - known) / known * 100.0);
        let differs = percent.is_none_or(|percent| percent.abs() > TOLERANCE_PERCENT);
        fits &= !differs;
        let mark = if differs { "  <--" } else { "" };
        let percent = percent.map_or("new".to_owned(), |percent| format!("{percent:+.1} %"));
        let _ = writeln!(text, "{count:>10.0}  {percent:>8}  {name}{mark}");
    }
    (text, fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_baseline_reads_back_and_differences_are_found() {
        let counts = PathCounts::from([("read an item".to_owned(), 20_000.0)]);
        let baseline = read(&written(&counts, "rustc 1")).unwrap();
        assert_eq!(baseline, counts);
        assert!(comparison(&counts, &baseline).1);
        for (count, fits) in [(20_900.0, true), (21_100.0, false), (18_900.0, false)] {
            let counts = PathCounts::from([("read an item".to_owned(), count)]);
            assert_eq!(comparison(&counts, &baseline).1, fits, "{count}");
        }
        let other = PathCounts::from([("write an item".to_owned(), 20_000.0)]);
        assert!(!comparison(&other, &baseline).1, "paths that come or go are told");
    }

    #[test]
    fn the_total_of_a_profile_is_found() {
        assert_eq!(executed("events: Ir\nfn=x\n1 5\ntotals: 123\n").unwrap(), 123);
        assert!(executed("events: Ir\n").is_err());
    }
}
