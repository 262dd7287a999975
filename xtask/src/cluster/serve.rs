//! `cargo xtask cluster --serve`: a PostgreSQL and the nodes of an account for people and for suites, until they are told to stop.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};

use super::nodes::{NODES, Nodes, Plan, Ways};
use crate::Outcome;
use crate::arguments::Arguments;
use crate::postgres::Postgres;
use crate::rest::WELL_KNOWN_KEY;

/// As `armilla cluster init` has it.
const LEASE_SECONDS: u64 = 10;
/// Many nodes on one machine only wait for each other.
const NODES_MAX: u64 = 16;
/// The name of the key that everybody knows.
const PUBLISHED: &str = "published";
const DATABASE: &str = "armilla";

/// What is said to the chore, and what stands behind `--` for every node.
pub(super) fn split_words(words: &[OsString]) -> (&[OsString], &[OsString]) {
    match words.iter().position(|word| word == "--") {
        Some(at) => (&words[..at], &words[at + 1..]),
        None => (words, &[]),
    }
}

/// Starts the nodes, tells where they are, and stops everything at the end.
pub(super) fn serve(binary: &Path, arguments: &Arguments, told: &[OsString]) -> Outcome<()> {
    let is_encrypted = arguments.has("https");
    let many = arguments.number("nodes", NODES as u64)?;
    if !(1..=NODES_MAX).contains(&many) {
        return Err(format!("--nodes takes 1 to {NODES_MAX}").into());
    }
    let plan = Plan {
        options: told.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        slices: u32::try_from(arguments.number("slices", 1)?)?,
        nodes: usize::try_from(many)?,
        lease: Duration::from_secs(arguments.number("lease", LEASE_SECONDS)?),
        port: match arguments.has("port") {
            true => Some(u16::try_from(arguments.number("port", 0)?)?),
            false => None,
        },
        key: arguments.text("key").map(|key| match key {
            PUBLISHED => WELL_KNOWN_KEY.to_owned(),
            key => key.to_owned(),
        }),
    };
    let slices = plan.slices;
    // Before anything runs that has to be stopped.
    let end = listen_for_end()?;
    let postgres = match is_encrypted {
        true => Postgres::start_encrypted()?,
        false => Postgres::start()?,
    };
    let nodes = Nodes::lay_out_cut(binary, postgres, (DATABASE, None), plan)?;
    let mut nodes = nodes.by(Ways::Straight);
    nodes.start_all()?;
    if slices > 1 {
        nodes.command(&["cluster", "rebalance"], nodes.database())?;
    }
    let scheme = if is_encrypted { "https" } else { "http" };
    for node in 0..nodes.len() {
        let port = nodes.address(node).port();
        println!("node      {scheme}://localhost:{port}/  log {}", nodes.log(node).display());
    }
    println!("key       {}", nodes.access(0).1);
    println!("store     {}", nodes.postgres.address(DATABASE));
    println!("ready: Ctrl+C ends all of it");
    end.recv()?;
    println!("stopping");
    nodes.stop_all()
}

/// What ends the nodes: Ctrl+C, SIGTERM, and the end of a pipe from which the chore reads.
fn listen_for_end() -> Outcome<mpsc::Receiver<()>> {
    let (tell, told) = mpsc::channel();
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    {
        let _entered = runtime.enter();
        for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
            let (mut signal, tell) = (signal(kind)?, tell.clone());
            runtime.spawn(async move {
                signal.recv().await;
                // Nobody listens when another one came first.
                tell.send(()).ok();
            });
        }
    }
    thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
    if is_pipe() {
        thread::spawn(move || {
            // A pipe that cannot be read is at its end, too.
            io::copy(&mut io::stdin().lock(), &mut io::sink()).ok();
            tell.send(()).ok();
        });
    }
    Ok(told)
}

/// Whether somebody holds the other end of the standard input. A terminal is not read: a chore in the background would be stopped by that.
fn is_pipe() -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    let kind = std::fs::metadata("/dev/stdin").map(|input| input.file_type());
    kind.is_ok_and(|kind| kind.is_fifo() || kind.is_socket())
}
