//! Every chore of the repository as Rust code.
//!
//! `cargo xtask help` lists them. Each chore is one file; what they share is small: `workspace` knows
//! folders and how cargo is called, `server` starts and kills the binary, `rest` signs requests,
//! `summary` prints the table and the closing line `N passed, N failed` that scripts read.
#![allow(clippy::print_stdout, reason = "a chore talks to the person at the terminal")]

mod arguments;
mod bench;
mod cluster;
mod counters;
mod crash;
mod explorer;
mod fuzz;
mod golden;
mod instructions;
mod ledger;
mod memory_safety;
mod metamorphic;
mod observe_cost;
mod official;
mod outside;
mod postgres;
mod processes;
mod rekey;
mod rest;
mod roundtrip;
mod sdk;
mod second_try;
mod server;
mod splits;
mod stranger;
mod summary;
mod test;
mod workspace;

use std::process::ExitCode;

/// What a chore returns: the reason it could not be done, as a sentence.
type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const HELP: &str = "\
Chores of the Armilla repository.

Usage: cargo xtask <CHORE> [OPTIONS]

Chores:
  test         Run everything: formatting, lints, Rust tests, then the Python, JavaScript, Rust, Go, Java and .NET SDKs against a
               fresh server over http and https, the example blog in a browser, queries asked in many
               ways before and after a restart, then a crowd of strangers and a short crash test
  crash        Kill the server at random moments while 16 clients write; check nothing is lost
  counters     Kill the server while scripts count what they write; check counts equal items
  splits       Split and merge partitions under 16 writers and 8 queriers; check every answer
  rekey        Give a container another partition key under 8 writers, server and command killed; check nothing is lost
  stranger     Beset a server that has few open files with silent, rude and hostile clients; others must not notice
  roundtrip    Import files and export them again, both killed and resumed; check every line comes back
  cluster      Kill, pause and cut off three nodes over a database that crashes; check nothing is lost; --serve starts nodes for suites
  ledger       Evict, cut off and crash the nodes and the database of a ledger; check nothing is lost
  explorer     Compare the data explorer's files with what its sources make; take its pictures
  golden       Run the golden scripts: queries with rows, continuations, charges and plans; --update writes them down
  bench        Measure the server beside PostgreSQL and the floors of the machine; print ratios
  instructions Count the instructions per request on the hot paths (Valgrind); compare with a baseline; --update writes it down
  observe-cost Measure what observing the workload costs a request, with and without it
  fuzz         Fuzz the query language and the JSON readers, guided by coverage
  miri         Interpret the tests of the script engine's memory image under Miri (nightly toolchain)
  sanitize     Run hostile scripts under the address sanitizer (nightly toolchain)
  conformance  Run the SDKs' own official test suites from a prepared folder
  outside      Run public suites of others from checkouts, and say which known failures are left
  help         Print this text

`cargo xtask <CHORE> --help` explains the options of a chore.
CARGO_TARGET_DIR is honoured. The last line of `test`, `crash`, `counters`, `splits`, `rekey`, `stranger`, `roundtrip`, `ledger`, `cluster` and `fuzz` reads `N passed, N failed`.";

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs the chore named on the command line; `false` means it ran and found failures.
fn run() -> Outcome<bool> {
    let mut words = std::env::args_os().skip(1);
    let chore = words.next().map(|word| word.to_string_lossy().into_owned());
    let rest: Vec<_> = words.collect();
    match chore.as_deref() {
        Some("test") => test::test(&rest),
        Some("crash") => crash::crash(&rest),
        Some("counters") => counters::counters(&rest),
        Some("splits") => splits::splits(&rest),
        Some("rekey") => rekey::rekey(&rest),
        Some("stranger") => stranger::stranger(&rest),
        Some("roundtrip") => roundtrip::roundtrip(&rest),
        Some("cluster") => cluster::cluster(&rest),
        Some("ledger") => ledger::ledger(&rest),
        Some("explorer") => explorer::explorer(&rest),
        Some("golden") => golden::golden(&rest),
        Some("instructions") => instructions::instructions(&rest),
        Some("observe-cost") => observe_cost::observe_cost(&rest),
        Some("bench") => bench::bench(&rest),
        Some("fuzz") => fuzz::fuzz(&rest),
        Some("miri") => memory_safety::miri(&rest),
        Some("sanitize") => memory_safety::sanitize(&rest),
        Some("conformance") => official::conformance(&rest),
        Some("outside") => outside::outside(&rest),
        None | Some("help" | "--help" | "-h") => {
            println!("{HELP}");
            Ok(true)
        }
        Some(other) => Err(format!("there is no chore `{other}`; try `cargo xtask help`").into()),
    }
}
