//! `cargo xtask bench`: the server, PostgreSQL and the floors of the machine side by side, in one command.
//!
//! Builds the optimised server and the program `bench`, starts a PostgreSQL of its own where there is one on the machine, a bare HTTP
//! server and Armilla, each on a free port of the loopback over empty temporary folders, and lets `bench` load and measure them.
//! `docs/benchmarks.md` explains the tables.

mod published;

use std::ffi::OsString;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use crate::arguments::{Arguments, Choice};
use crate::postgres::{self, Postgres};
use crate::server::{Server, free_port};
use crate::workspace::Profile;
use crate::{Outcome, processes, workspace};

/// The database gets memory for all of the data, commits that are durable, and no work beside the requests.
const POSTGRES_SETTINGS: &str = "
shared_buffers = 4GB
effective_cache_size = 12GB
work_mem = 64MB
maintenance_work_mem = 1GB
synchronous_commit = on
fsync = on
full_page_writes = on
max_wal_size = 16GB
checkpoint_timeout = 30min
random_page_cost = 1.1
jit = off
max_parallel_maintenance_workers = 1
max_parallel_workers_per_gather = 0
autovacuum_naptime = 5min
";

const USERS_DEFAULT: u64 = 1000;
const USERS_QUICK: u64 = 100;
const SECONDS_DEFAULT: u64 = 3;
const SECONDS_QUICK: u64 = 1;
/// How long the bare HTTP server may take until it listens.
const FLOOR_WITHIN: Duration = Duration::from_secs(10);

const ABOUT: &str = "\
Builds everything optimised, starts PostgreSQL (if it is on the machine), a bare HTTP server and Armilla, loads the blog platform's data and
measures every request of its three designs on each, cell beside cell. Prints the tables and writes them to a file.
Needs Linux, two processors and, for 1,000 users, about 8 GB of disk and 6 GB of memory; takes about 20 minutes. --quick takes about four behind the build.";

const CHOICES: &[Choice] = &[
    Choice { name: "quick", value: "", meaning: "100 users, cells of a second" },
    Choice { name: "users", value: "N", meaning: "How many users the blog has (default 1000)" },
    Choice { name: "seconds", value: "N", meaning: "How long a cell lasts at most (default 3)" },
    Choice {
        name: "repeats",
        value: "N",
        meaning: "Measure each cell so often and take the one in the middle",
    },
    Choice { name: "connections", value: "LIST", meaning: "Numbers of connections (default 16,1)" },
    Choice { name: "only", value: "ROWS", meaning: "Only these rows, as in V2.Q4,C3 or V3" },
    Choice {
        name: "gin",
        value: "",
        meaning: "PostgreSQL's load and writes with a GIN index as well",
    },
    Choice {
        name: "growth",
        value: "N",
        meaning: "Load a blog of N users beside and compare the requests of one partition",
    },
    Choice {
        name: "patience",
        value: "SECONDS",
        meaning: "Wait so long for a quiet machine before each cell",
    },
    Choice {
        name: "memory",
        value: "MIB",
        meaning: "Hold the server to so much memory of its own (ulimit -d; the system's file cache is not in it)",
    },
    Choice { name: "without-postgres", value: "", meaning: "Leave PostgreSQL out" },
    Choice {
        name: "keep",
        value: "FOLDER",
        meaning: "Keep Armilla's data there; a later run with as many users does not load it again",
    },
    Choice { name: "brief", value: "", meaning: "Rows alone: neither floors nor the scan" },
    Choice {
        name: "binary",
        value: "FILE",
        meaning: "Measure this server instead of the one that is built",
    },
    Choice {
        name: "scratch",
        value: "FOLDER",
        meaning: "Where data goes (default: the target folder)",
    },
    Choice {
        name: "report",
        value: "FILE",
        meaning: "Where the tables go (default: bench-report.md in scratch)",
    },
    Choice {
        name: "publish",
        value: "",
        meaning: "Put the tables into docs/benchmarks.md, in place of those of the last run",
    },
];

/// Builds, starts, measures.
pub(crate) fn bench(words: &[OsString]) -> Outcome<bool> {
    let Some(arguments) = Arguments::parse("bench", ABOUT, CHOICES, words)? else {
        return Ok(true);
    };
    let scratch =
        arguments.text("scratch").map_or_else(|| workspace::target().join("bench"), PathBuf::from);
    std::fs::create_dir_all(&scratch)?;
    let report =
        arguments.text("report").map_or_else(|| scratch.join("bench-report.md"), PathBuf::from);
    let programs = build(arguments.text("binary").map(PathBuf::from))?;
    let postgres = start_postgres(arguments.has("without-postgres"))?;
    let floor = Floor::start(&programs.bench)?;
    let data = Data::new(&arguments, &scratch)?;
    let log = scratch.join("armilla.log");
    let memory = arguments.text("memory").map(str::parse::<u64>).transpose()?;
    let server = start(&programs.armilla, data.path(), &log, memory)?;
    let mut run = Command::new(&programs.bench);
    run.arg("run");
    run.args(["--armilla", &server.address().to_string()]);
    run.args(["--armilla-process", &server.process().to_string()]);
    run.args(["--floor", &floor.address(), "--floor-process", &floor.child.id().to_string()]);
    if let Some(postgres) = &postgres {
        run.args(["--postgres", &postgres.address("postgres")]);
        run.args(["--postgres-process", &postgres.process()?.to_string()]);
    }
    run.arg("--scratch").arg(&scratch).arg("--report").arg(&report);
    run.arg("--data").arg(data.path());
    if let Data::Kept { mark, .. } = &data {
        run.arg("--loaded").arg(mark);
    }
    pass_on(&arguments, &mut run)?;
    processes::run("measure", &mut run)?;
    server.stop()?;
    let again = Instant::now();
    let server = start(&programs.armilla, data.path(), &log, memory)?;
    let started =
        format!("Started again over this data in {:.2} s.\n", again.elapsed().as_secs_f64());
    server.stop()?;
    let tables = format!("{}\n{started}", std::fs::read_to_string(&report)?);
    std::fs::write(&report, &tables)?;
    println!("{started}\nThe tables are in {}.", report.display());
    if arguments.has("publish") {
        published::publish(&published::head(words)?, &tables)?;
    }
    Ok(true)
}

/// The server, with as much memory as it is allowed.
fn start(armilla: &Path, data: &Path, log: &Path, memory: Option<u64>) -> Outcome<Server> {
    match memory {
        Some(mebibytes) => Server::start_with_memory(armilla, data, log, mebibytes),
        None => Server::start(armilla, data, log),
    }
}

/// Hands the options of the measurement over.
fn pass_on(arguments: &Arguments, run: &mut Command) -> Outcome<()> {
    let seconds = if arguments.has("quick") { SECONDS_QUICK } else { SECONDS_DEFAULT };
    let seconds = arguments.number("seconds", seconds)?;
    run.args(["--users", &users(arguments)?.to_string(), "--seconds", &seconds.to_string()]);
    for name in ["repeats", "connections", "only", "growth", "patience"] {
        if let Some(value) = arguments.text(name) {
            run.args([&format!("--{name}"), value]);
        }
    }
    for name in ["gin", "brief"] {
        if arguments.has(name) {
            run.args([&format!("--{name}"), "yes"]);
        }
    }
    Ok(())
}

fn users(arguments: &Arguments) -> Outcome<u64> {
    arguments.number("users", if arguments.has("quick") { USERS_QUICK } else { USERS_DEFAULT })
}

/// Where Armilla's data is.
enum Data {
    /// Removed with the run.
    Passing(tempfile::TempDir),
    /// For later runs too. The mark says that all was loaded.
    Kept { folder: PathBuf, mark: PathBuf },
}

impl Data {
    fn new(arguments: &Arguments, scratch: &Path) -> Outcome<Self> {
        let Some(keep) = arguments.text("keep").map(PathBuf::from) else {
            let folder = tempfile::Builder::new().prefix("armilla-bench-").tempdir_in(scratch)?;
            return Ok(Self::Passing(folder));
        };
        let name = format!("blog-{}", users(arguments)?);
        let (folder, mark) = (keep.join(&name), keep.join(format!("{name}.loaded")));
        // A load that was not finished is begun anew.
        if !mark.is_file() && folder.is_dir() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir_all(&folder)?;
        Ok(Self::Kept { folder, mark })
    }

    fn path(&self) -> &Path {
        match self {
            Self::Passing(folder) => folder.path(),
            Self::Kept { folder, .. } => folder,
        }
    }
}

/// The optimised server as users build it, and the program that measures it.
struct Programs {
    armilla: PathBuf,
    bench: PathBuf,
}

/// Builds both, one after the other: together they would share features that the server alone has not.
fn build(given: Option<PathBuf>) -> Outcome<Programs> {
    let armilla = given.map_or_else(|| workspace::build_server(Profile::Release), Ok)?;
    let mut command = workspace::cargo();
    command.args(["build", "--release", "--package", "bench"]);
    processes::run("build the benchmark", &mut command)?;
    Ok(Programs { armilla, bench: workspace::target().join("release/bench") })
}

/// A database where the machine has one: nothing is installed for a comparison.
fn start_postgres(is_left_out: bool) -> Outcome<Option<Postgres>> {
    if is_left_out {
        return Ok(None);
    }
    if postgres::find().is_none() {
        println!(
            "PostgreSQL is not on this machine: its columns stay empty (Debian: apt-get install postgresql)."
        );
        return Ok(None);
    }
    Postgres::start_with(POSTGRES_SETTINGS).map(Some)
}

/// The bare HTTP server; killed when dropped.
struct Floor {
    child: Child,
    port: u16,
}

impl Floor {
    fn start(program: &Path) -> Outcome<Self> {
        const PAUSE: Duration = Duration::from_millis(20);
        let port = free_port()?;
        let child = Command::new(program).args(["floor", "--port", &port.to_string()]).spawn()?;
        let floor = Self { child, port };
        let deadline = Instant::now() + FLOOR_WITHIN;
        while TcpStream::connect(floor.address()).is_err() {
            if Instant::now() > deadline {
                return Err("the bare HTTP server does not listen".into());
            }
            thread::sleep(PAUSE);
        }
        Ok(floor)
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        // Both fail only when the process is gone already, which is what we want.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
