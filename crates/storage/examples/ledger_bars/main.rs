//! How an owner's store over a ledger in PostgreSQL compares with the database alone, in one run.
//!
//! ```text
//! ledger_bars "host=127.0.0.1 port=5432 user=postgres dbname=x" FOLDER POSTMASTER ROUNDS MILLISECONDS [crowds | crowd16 | crowd64 | lone | distant | copies]
//! ```
//!
//! "Bare" is as many connections, each with one prepared single-row insert of 1.5 KB in a loop. Beside it the same writers over the committer and
//! [`LedgerStore`], with the embedded store as the local copy: writes of two or three keys, as an item makes. Every round measures both sides
//! one right after the other; what is printed is the median of the rounds' ratios, a line each: `bar NAME RATIO NOTE`. What each side did goes to
//! standard error.
#![allow(clippy::print_stdout, reason = "an example talks to the person at the terminal")]
#![allow(clippy::unwrap_used, reason = "a tool that fails says where")]

mod bare;
mod distance;
mod unfolded;
mod writers;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use armilla_storage::ledger::{
    ACCOUNT, Followed, Ledger, LedgerError, LedgerStore, NodeCard, OwnershipWatcher, Place,
    PostgresLedger, Replica, StoreAddress,
};
use armilla_storage::{EmbeddedOptions, EmbeddedStore};

use self::bare::Bare;
use self::distance::Distance;
use self::unfolded::Unfolded;
use self::writers::Writers;

/// Bytes of a bare row, and of a write.
const ROW_BYTES: usize = 1500;
/// Round trips of a database that is not next door.
const ROUND_TRIP: Duration = Duration::from_micros(500);
/// Items that are copied, and their size.
const COPIED_ITEMS: u64 = 60_000;
const COPIED_BYTES: usize = 1000;
/// Nanoseconds of a tick of `/proc/PID/stat`.
const TICK_NANOS: u64 = 10_000_000;

struct Bench {
    url: String,
    folder: PathBuf,
    postmaster: u32,
    rounds: usize,
    time: Duration,
}

/// What one side of a round did.
#[derive(Clone, Copy, Default)]
struct Done {
    per_second: f64,
    /// Processor time of the database for each write, in microseconds.
    server_micros: f64,
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [url, folder, postmaster, rounds, millis, parts @ ..] = &words[..] else {
        eprintln!("usage: ledger_bars URL FOLDER POSTMASTER ROUNDS MILLISECONDS [PART…]");
        std::process::exit(2);
    };
    let bench = Bench {
        url: url.clone(),
        folder: folder.into(),
        postmaster: postmaster.parse().unwrap(),
        rounds: rounds.parse().unwrap(),
        time: Duration::from_millis(millis.parse().unwrap()),
    };
    let wants = |part: &str| parts.is_empty() || parts.iter().any(|wanted| wanted == part);
    for (writers, bars) in [(16, (0.6, 0.75)), (64, (1.1, 1.8))] {
        if wants("crowds") || wants(&format!("crowd{writers}")) {
            bench.crowd(writers, bars);
        }
    }
    if wants("lone") {
        bench.lone();
    }
    if wants("distant") {
        bench.distant();
    }
    if wants("copies") {
        bench.copies();
    }
}

impl Bench {
    /// Many writers at once, with and without folding.
    fn crowd(&self, writers: usize, (folding_bar, bar): (f64, f64)) {
        let (mut with, mut without, mut server) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            let bare = self.bare(&self.url, writers);
            let folding = self.writers(&self.url, writers, Folds::Made);
            let plain = self.writers(&self.url, writers, Folds::Kept);
            eprintln!(
                "{writers} writers: bare {:.0}/s, folding {:.0}/s, not folding {:.0}/s",
                bare.per_second, folding.per_second, plain.per_second
            );
            with.push(folding.per_second / bare.per_second);
            without.push(plain.per_second / bare.per_second);
            server.push(folding.server_micros / bare.server_micros);
        }
        tell(&format!("lane of {writers} writers, folding"), &mut with, AtLeast(folding_bar));
        tell(&format!("lane of {writers} writers, no folding"), &mut without, AtLeast(bar));
        if writers == 16 {
            tell("server's processor per write", &mut server, AtMost(1.0));
        }
    }

    /// One writer: how long it waits.
    fn lone(&self) {
        let mut waits = Vec::new();
        for _ in 0..self.rounds {
            let bare = Bare::open(&self.url).lone(self.time);
            let store = self.owner(&self.url, Folds::Made);
            let own = Writers::lone(store, self.time);
            eprintln!("lone writer: bare {bare:?}, own {own:?}");
            waits.push(own.as_secs_f64() / bare.as_secs_f64());
        }
        tell("lone writer's median wait", &mut waits, AtMost(2.0));
    }

    /// A database half a millisecond away.
    fn distant(&self) {
        let away = Distance::put_before(&self.url, ROUND_TRIP);
        let mut ratios = Vec::new();
        for _ in 0..self.rounds {
            let bare = self.bare(away.url(), 16);
            let own = self.writers(away.url(), 16, Folds::Made);
            ratios.push(own.per_second / bare.per_second);
        }
        tell("lane of 16 writers, 0.5 ms away", &mut ratios, AtLeast(0.8));
    }

    /// A new node's copy, beside the same rows read out by the database's own command.
    fn copies(&self) {
        let ledger = self.ledger(&self.url);
        let fill = format!(
            "insert into armilla.base select 0, 1, decode(lpad(to_hex(n), 16, '0'), 'hex'), \
             decode(string_agg(md5(n::text || part::text), ''), 'hex') \
             from generate_series(1, {COPIED_ITEMS}) n, generate_series(1, {}) part group by n; analyze armilla.base",
            COPIED_BYTES / 16
        );
        bare::run_sql(&self.url, &fill);
        let mut ratios = Vec::new();
        for round in 0..self.rounds {
            let begun = Instant::now();
            let rows = Bare::open(&self.url).copy_out();
            let bare = begun.elapsed();
            assert!(rows > COPIED_ITEMS * COPIED_BYTES as u64 / 2, "{rows} bytes came");
            let folder = self.folder.join(format!("copy{round}"));
            let store = Arc::new(embedded(&folder));
            let mut replica = Replica::new(store, Arc::clone(&ledger) as Arc<dyn Ledger>).unwrap();
            let begun = Instant::now();
            while replica.follow().unwrap() != Followed::UpToDate {}
            let own = begun.elapsed();
            eprintln!("copy: bare {bare:?}, own {own:?}");
            ratios.push(bare.as_secs_f64() / own.as_secs_f64());
            drop(replica);
            fs::remove_dir_all(folder).unwrap();
        }
        tell("copy of items of 1 KB", &mut ratios, AtLeast(0.6));
    }

    fn bare(&self, url: &str, connections: usize) -> Done {
        let bare = Bare::open(url);
        self.timed(|| bare.crowd(connections, self.time))
    }

    fn writers(&self, url: &str, writers: usize, folds: Folds) -> Done {
        let store = self.owner(url, folds);
        self.timed(|| Writers::crowd(store, writers, self.time))
    }

    /// Counts writes, and what the database spent for them.
    fn timed(&self, run: impl FnOnce() -> u64) -> Done {
        let (before, begun) = (self.server_time(), Instant::now());
        let writes = run() as f64;
        let (elapsed, after) = (begun.elapsed(), self.server_time());
        Done {
            per_second: writes / elapsed.as_secs_f64(),
            server_micros: (after - before).as_secs_f64() * 1e6 / writes.max(1.0),
        }
    }

    /// Processor time of the database: of all processes that live, and of those that have ended.
    fn server_time(&self) -> Duration {
        let field = |stat: &str, at: usize| -> u64 {
            let fields = stat.rsplit(')').next().unwrap_or_default();
            fields.split_whitespace().nth(at).and_then(|field| field.parse().ok()).unwrap_or(0)
        };
        let mut ticks = 0;
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Ok(process) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
            let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
            if process == self.postmaster {
                ticks += (11..15).map(|at| field(&stat, at)).sum::<u64>();
            } else if field(&stat, 1) == u64::from(self.postmaster) {
                ticks += field(&stat, 11) + field(&stat, 12);
            }
        }
        Duration::from_nanos(ticks * TICK_NANOS)
    }

    /// A fresh ledger, in which nobody is.
    fn ledger(&self, url: &str) -> Arc<PostgresLedger> {
        bare::run_sql(&self.url, "drop schema if exists armilla cascade; checkpoint");
        PostgresLedger::create(&StoreAddress::new(url), 1, b"").unwrap();
        let ledger = PostgresLedger::open(&StoreAddress::new(url)).unwrap();
        ledger.open(ACCOUNT.home, &[(ACCOUNT.shard, 0)]).unwrap();
        let card = NodeCard { name: "a".into(), address: "http://a:1".into(), version: "1".into() };
        ledger.join(&card).unwrap().unwrap();
        Arc::new(ledger)
    }

    /// The store of a node that owns a fresh account.
    fn owner(&self, url: &str, folds: Folds) -> LedgerStore {
        let ledger: Arc<dyn Ledger> = match folds {
            Folds::Made => self.ledger(url),
            Folds::Kept => Arc::new(Unfolded(self.ledger(url))),
        };
        let folder = self.folder.join("owner");
        // Of the round before; its store is closed.
        let _was_there = fs::remove_dir_all(&folder);
        let epoch = ledger.shards().unwrap()[0].epoch;
        let mut replica = Replica::new(Arc::new(embedded(&folder)), ledger).unwrap();
        while replica.follow().unwrap() != Followed::UpToDate {}
        match replica.take(epoch, Duration::from_secs(600), Arc::new(Nobody)) {
            Ok(store) => store,
            Err((_, error)) => panic!("the account could not be taken: {error:?}"),
        }
    }
}

/// Whether folds reach the base.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Folds {
    Made,
    /// The owner keeps them; nothing is sent.
    Kept,
}

fn embedded(folder: &Path) -> EmbeddedStore {
    fs::create_dir_all(folder).unwrap();
    EmbeddedStore::open(folder, &EmbeddedOptions::default()).unwrap()
}

/// Nobody loses anything here.
struct Nobody;

impl OwnershipWatcher for Nobody {
    fn lost(&self, reason: &str) {
        panic!("{reason}");
    }

    fn failing(&self, error: &LedgerError) {
        panic!("{error}");
    }

    fn recovered(&self) {}

    fn reached(&self, _place: Place) {}
}

/// What a ratio is compared with.
enum Bar {
    AtLeast(f64),
    AtMost(f64),
}

use Bar::{AtLeast, AtMost};

fn tell(name: &str, ratios: &mut [f64], bar: Bar) {
    ratios.sort_by(f64::total_cmp);
    let middle = ratios[ratios.len() / 2];
    let (sign, bar) = match bar {
        AtLeast(bar) => (">=", bar),
        AtMost(bar) => ("<=", bar),
    };
    println!(
        "bar\t{name}\t{middle:.3}\t{sign}\t{bar}\t{:.3}\t{:.3}",
        ratios[0],
        ratios[ratios.len() - 1]
    );
}
