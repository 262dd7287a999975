//! `cargo xtask observe-cost`: what observing the workload costs the server, per point read (Q1 of the blog) and per upsert of a small item (C1).
//!
//! Each round starts two servers in memory, one of them with `--no-observe`, the other first every second time. Every client has a connection to both and
//! asks them in lockstep, the same request of one and then of the other: both have answered equally much at any moment, and what disturbs the machine disturbs
//! both. Fresh servers make rounds independent, so that their spread says how good the mean is. Processor time is the server's own (`/proc`), so the client
//! beside it does not count; the observer's thread is also told by itself.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::arguments::{Arguments, Choice};
use crate::instructions::Connection;
use crate::server::Server;
use crate::workspace::Profile;
use crate::{Outcome, workspace};

const ROUNDS_DEFAULT: u64 = 10;
const SECONDS_DEFAULT: u64 = 10;
const CONNECTIONS_DEFAULT: u64 = 16;
/// Users that are read and written.
const USERS: usize = 200;
const ITEMS: &str = "/dbs/blog/colls/users/docs";
/// The part of the server's processor time that observing may take.
const BAR_PERCENT: f64 = 1.0;
/// Nanoseconds of a tick of `/proc/PID/stat`.
const TICK_NANOS: u64 = 10_000_000;

const ABOUT: &str = "\
Starts the optimised server twice in memory, with and without --no-observe, asks both for point reads and upserts in lockstep, and prints the processor time
per request of both, and the observer's own. Needs Linux and, for figures that are worth something, an otherwise idle machine.";

const CHOICES: &[Choice] = &[
    Choice { name: "rounds", value: "N", meaning: "Rounds of each request (default 10)" },
    Choice { name: "seconds", value: "N", meaning: "How long a round lasts (default 10)" },
    Choice { name: "connections", value: "N", meaning: "Clients at once (default 16)" },
    Choice {
        name: "binary",
        value: "FILE",
        meaning: "Measure this server instead of building one",
    },
];

/// What one round of one server took.
#[derive(Clone, Copy, Default)]
struct CostRound {
    requests: u64,
    /// Processor time of the server, and of its observer.
    server: Duration,
    observer: Duration,
}

impl CostRound {
    fn micros(&self) -> f64 {
        self.server.as_secs_f64() * 1e6 / self.requests.max(1) as f64
    }

    fn observer_percent(&self) -> f64 {
        100.0 * self.observer.as_secs_f64() / self.server.as_secs_f64().max(1e-9)
    }
}

/// A way to ask: its name, and the request for a user.
type WayToAsk = (&'static str, fn(&Connection, usize) -> Vec<u8>);

/// Measures.
pub(crate) fn observe_cost(words: &[OsString]) -> Outcome<bool> {
    let Some(arguments) = Arguments::parse("observe-cost", ABOUT, CHOICES, words)? else {
        return Ok(true);
    };
    let binary = match arguments.text("binary") {
        Some(binary) => PathBuf::from(binary),
        None => workspace::build_server(Profile::Release)?,
    };
    let rounds = arguments.number("rounds", ROUNDS_DEFAULT)?.max(1);
    let seconds = arguments.number("seconds", SECONDS_DEFAULT)?.max(1);
    let connections = arguments.number("connections", CONNECTIONS_DEFAULT)?.max(1);
    println!(
        "{rounds} rounds of {seconds} s, both servers in lockstep, {connections} clients; µs are processor time of the server per request, median [least, most]."
    );
    let ways: [WayToAsk; 2] = [("Q1 (point read)", read), ("C1 (upsert)", write)];
    let mut fits = true;
    for (name, request) in ways {
        let (mut off, mut on) = (Vec::new(), Vec::new());
        for number in 0..rounds {
            let pair = start_pair(&binary, number % 2 == 1)?;
            let asked = ask_in_lockstep(&pair, request, connections, Duration::from_secs(seconds))?;
            off.push(asked.0);
            on.push(asked.1);
        }
        fits &= tell(name, &off, &on);
    }
    Ok(fits)
}

/// A server that does not observe, and one that does.
struct ServerPair {
    without: Server,
    with: Server,
    _scratch: tempfile::TempDir,
}

fn start_pair(binary: &Path, observing_first: bool) -> Outcome<ServerPair> {
    let scratch = tempfile::tempdir()?;
    let start = |options: &[&str]| start(binary, scratch.path(), options);
    let (without, with);
    if observing_first {
        with = start(&["--in-memory"])?;
        without = start(&["--in-memory", "--no-observe"])?;
    } else {
        without = start(&["--in-memory", "--no-observe"])?;
        with = start(&["--in-memory"])?;
    }
    Ok(ServerPair { without, with, _scratch: scratch })
}

fn start(binary: &Path, scratch: &Path, options: &[&str]) -> Outcome<Server> {
    let server =
        Server::start_with(binary, &scratch.join("data"), &scratch.join("server.log"), options)?;
    let mut connection = Connection::open(&server)?;
    let container = r#"{"id":"users","partitionKey":{"paths":["/id"],"kind":"Hash","version":2}}"#;
    let made = [
        connection.request("POST", "/dbs", &[], r#"{"id":"blog"}"#),
        connection.request("POST", "/dbs/blog/colls", &[], container),
    ];
    made.iter().try_for_each(|request| connection.ask(request))?;
    let users: Vec<Vec<u8>> = (0..USERS).map(|user| write(&connection, user)).collect();
    users.iter().try_for_each(|request| connection.ask(request))?;
    Ok(server)
}

/// A header as an SDK sends it: each request has an activity of its own.
fn headers(connection: &Connection, method: &str, path: &str, user: usize, body: &str) -> Vec<u8> {
    let key = format!("[\"user-{user}\"]");
    let activity = format!("6f9619ff-8b86-d011-b42d-00c04f{user:06x}");
    let mut headers =
        vec![("x-ms-documentdb-partitionkey", key.as_str()), ("x-ms-activity-id", &activity)];
    if method == "POST" {
        headers.push(("x-ms-documentdb-is-upsert", "True"));
    }
    connection.request(method, path, &headers, body)
}

fn read(connection: &Connection, user: usize) -> Vec<u8> {
    headers(connection, "GET", &format!("{ITEMS}/user-{user}"), user, "")
}

fn write(connection: &Connection, user: usize) -> Vec<u8> {
    let about = "words about somebody who writes, ".repeat(12);
    let body = format!(
        r#"{{"id":"user-{user}","type":"user","username":"name-{user}","email":"name-{user}@example.org","joined":"2026-11-17T10:00:00Z","about":"{about}"}}"#
    );
    headers(connection, "POST", ITEMS, user, &body)
}

/// Asks both servers for so long, each client one and then the other.
fn ask_in_lockstep(
    pair: &ServerPair,
    request: fn(&Connection, usize) -> Vec<u8>,
    connections: u64,
    time: Duration,
) -> Outcome<(CostRound, CostRound)> {
    let (stopped, counted) = (AtomicBool::new(false), AtomicU64::new(0));
    let ask = |first: usize| -> Outcome<()> {
        let mut without = Connection::open(&pair.without)?;
        let mut with = Connection::open(&pair.with)?;
        let user = |number: usize| (first * 13 + number) % USERS;
        let made: Vec<Vec<u8>> = (0..USERS).map(|number| request(&without, user(number))).collect();
        while !stopped.load(Ordering::Relaxed) {
            // Either is the first of the two as often as the other.
            for (number, request) in made.iter().enumerate() {
                let (one, other) = match number % 2 {
                    0 => (&mut without, &mut with),
                    _ => (&mut with, &mut without),
                };
                one.ask(request)?;
                other.ask(request)?;
                counted.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let asking: Vec<_> =
            (0..connections as usize).map(|first| scope.spawn(move || ask(first))).collect();
        // What connections cost when they are opened is no part of it.
        thread::sleep(Duration::from_millis(500));
        let read = || -> Outcome<_> {
            Ok((counted.load(Ordering::Relaxed), times(&pair.without)?, times(&pair.with)?))
        };
        let before = read()?;
        thread::sleep(time);
        let after = read()?;
        stopped.store(true, Ordering::Relaxed);
        for one in asking {
            one.join().map_err(|_| "a client panicked")??;
        }
        let requests = after.0 - before.0;
        let round = |before: (Duration, Duration), now: (Duration, Duration)| CostRound {
            requests,
            server: now.0.saturating_sub(before.0),
            observer: now.1.saturating_sub(before.1),
        };
        Ok((round(before.1, after.1), round(before.2, after.2)))
    })
}

/// The processor time of a server, and of its observer's thread if there is one.
fn times(server: &Server) -> Outcome<(Duration, Duration)> {
    let folder = PathBuf::from(format!("/proc/{}", server.process()));
    let stat = fs::read_to_string(folder.join("stat"))?;
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    let mut observer = Duration::ZERO;
    for thread in fs::read_dir(folder.join("task"))? {
        let thread = thread?.path();
        if fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.trim() == "observer") {
            let schedule = fs::read_to_string(thread.join("schedstat"))?;
            let nanos = schedule.split_whitespace().next().and_then(|field| field.parse().ok());
            observer = Duration::from_nanos(nanos.unwrap_or(0));
        }
    }
    Ok((Duration::from_nanos(ticks * TICK_NANOS), observer))
}

/// Prints the figures of a request; whether they keep to the bar.
fn tell(name: &str, off: &[CostRound], on: &[CostRound]) -> bool {
    let micros = |rounds: &[CostRound]| CostSpread::of(rounds.iter().map(CostRound::micros));
    let (off_micros, on_micros) = (micros(off), micros(on));
    let ratio = |(off, on): (&CostRound, &CostRound)| 100.0 * (on.micros() / off.micros() - 1.0);
    let ratios: Vec<f64> = off.iter().zip(on).map(ratio).collect();
    let (more, thread) = (
        CostSpread::of(ratios.iter().copied()),
        CostSpread::of(on.iter().map(CostRound::observer_percent)),
    );
    let requests: u64 = off.iter().chain(on).map(|round| round.requests).sum();
    println!("{name}: {requests} requests");
    println!("  without observing  {} µs", off_micros.text(2));
    println!("  observing          {} µs", on_micros.text(2));
    println!("  more, by rounds    {} %", more.text(2));
    println!("  observer's thread  {} % of the server's processor time", thread.text(3));
    let (mean, error) = mean_and_error(&ratios);
    let fits = mean <= BAR_PERCENT;
    let word = if fits { "within" } else { "beyond" };
    println!("  more, on average   {mean:.2} ± {error:.2} %, {word} {BAR_PERCENT} %");
    fits
}

/// The mean of some figures, and its standard error.
fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let spread = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (mean, (spread / (count - 1.0).max(1.0) / count).sqrt())
}

/// A few figures of the same thing.
struct CostSpread {
    least: f64,
    median: f64,
    most: f64,
}

impl CostSpread {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let at = |place: usize| values.get(place).copied().unwrap_or(0.0);
        let median = match values.len() % 2 {
            0 => (at(middle.saturating_sub(1)) + at(middle)) / 2.0,
            _ => at(middle),
        };
        Self { least: at(0), median, most: at(values.len().saturating_sub(1)) }
    }

    fn text(&self, digits: usize) -> String {
        let Self { least, median, most } = self;
        format!("{median:.digits$} [{least:.digits$}, {most:.digits$}]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_lies_in_the_middle() {
        let spread = CostSpread::of([3.0, 1.0, 2.0, 10.0].into_iter());
        assert_eq!((spread.least, spread.median, spread.most), (1.0, 2.5, 10.0));
        assert_eq!(CostSpread::of([3.0, 1.0, 2.0].into_iter()).text(1), "2.0 [1.0, 3.0]");
        assert_eq!(CostSpread::of(std::iter::empty()).median, 0.0);
    }

    #[test]
    fn a_dear_observer_is_beyond_the_bar() {
        let round = |micros: u64| CostRound {
            requests: 1_000,
            server: Duration::from_micros(1_000 * micros),
            observer: Duration::ZERO,
        };
        assert!(tell("cheap", &[round(1_000)], &[round(1_009)]));
        assert!(!tell("dear", &[round(1_000)], &[round(1_020)]));
    }
}
