//! A storm over a ledger in PostgreSQL: four nodes that lose their shards, their connections and their lives.
//!
//! ```text
//! ledger_storm "host=127.0.0.1 port=5432 user=postgres dbname=x" SECONDS SEED [no-epoch | late-folded]
//! ```
//!
//! The database must be empty. Owners append and fold without pause; somebody evicts or releases them every few hundred milliseconds;
//! a connection is killed every 60 ms; whoever runs this may crash the database as often as it likes. Meanwhile copies are made from
//! the base and the journal. Every row names the one before it by its chain, so at the end one walk back from the newest
//! row tells exactly what was kept:
//!
//! * every acknowledged row is on it, at its place;
//! * no row that a take had fenced off is on it;
//! * places have no gap; every copy equals the state at its place.
//!
//! The last argument breaks one rule on purpose. The storm must then fail: that shows that it would notice.
#![allow(clippy::print_stdout, reason = "an example talks to the person at the terminal")]
#![allow(clippy::unwrap_used, reason = "a failed expectation is a failed storm")]

mod copier;
mod history;
mod owner;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use armilla_storage::ledger::{
    Home, Ledger, LedgerError, NodeState, PostgresLedger, SCHEMA, Shard, StoreAddress,
};

use self::history::History;

const NODES: u64 = 4;
const SHARDS: u64 = 4;
const HOME: Home = Home(0);
/// A connection is killed this often.
const KILL_EVERY: Duration = Duration::from_millis(60);
/// A node is evicted after a random time below this.
const EVICT_WITHIN_MS: u64 = 400;

/// How long a database may be away.
const PATIENCE: Duration = Duration::from_secs(90);

/// Which rule is broken on purpose.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Control {
    None,
    /// `append` does not look at the epoch.
    NoEpoch,
    /// A copy notes `folded` after it has read the base.
    LateFolded,
}

struct Storm {
    url: String,
    control: Control,
    over: AtomicBool,
    history: History,
    evictions: AtomicU64,
    kills: AtomicU64,
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [url, seconds, seed, rest @ ..] = &words[..] else {
        eprintln!("usage: ledger_storm URL SECONDS SEED [no-epoch | late-folded]");
        std::process::exit(2);
    };
    let control = match rest.first().map(String::as_str) {
        None => Control::None,
        Some("no-epoch") => Control::NoEpoch,
        Some("late-folded") => Control::LateFolded,
        Some(other) => panic!("there is no control `{other}`"),
    };
    let seconds: u64 = seconds.parse().unwrap();
    let seed: u64 = seed.parse().unwrap();
    prepare(url, control);
    let storm = Arc::new(Storm {
        url: url.clone(),
        control,
        over: AtomicBool::new(false),
        history: History::default(),
        evictions: AtomicU64::new(0),
        kills: AtomicU64::new(0),
    });
    rage(&storm, seconds, seed);
    judge(&storm);
}

fn prepare(url: &str, control: Control) {
    PostgresLedger::create(&StoreAddress::new(url), 1, b"").unwrap();
    if control == Control::NoEpoch {
        for (function, rule) in [
            ("create function armilla.append(", " and s.epoch = w.epoch"),
            ("create function armilla.append_one(", " and x.epoch = e"),
        ] {
            run_sql(url, &broken(function, rule)).unwrap();
        }
    }
    let ledger = PostgresLedger::open(&StoreAddress::new(url)).unwrap();
    ledger.open(HOME, &(0..SHARDS).map(|shard| (Shard(shard), 0)).collect::<Vec<_>>()).unwrap();
}

/// A function of the schema without one of its rules.
fn broken(function: &str, rule: &str) -> String {
    let text = &SCHEMA[SCHEMA.find(function).unwrap()..];
    let text = &text[..text.find("$$;").unwrap() + 3];
    assert!(text.contains(rule), "{function} has no {rule}");
    text.replace(rule, "").replace("create function", "create or replace function")
}

fn rage(storm: &Arc<Storm>, seconds: u64, seed: u64) {
    let mut threads = Vec::new();
    let mut begin = |name: String, work: Box<dyn FnOnce(&Storm) + Send>| {
        let storm = Arc::clone(storm);
        threads.push(thread::Builder::new().name(name).spawn(move || work(&storm)).unwrap());
    };
    for node in 0..NODES {
        let run = move |storm: &Storm| owner::run(storm, node, seed + node);
        begin(format!("node {node}"), Box::new(run));
    }
    begin("evictor".into(), Box::new(move |storm| evict(storm, seed + 100)));
    begin("killer".into(), Box::new(kill));
    begin("copier".into(), Box::new(move |storm| copier::run(storm, seed + 200)));
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end && threads.iter().all(|thread| !thread.is_finished()) {
        thread::sleep(Duration::from_millis(50));
    }
    storm.over.store(true, Ordering::Relaxed);
    for thread in threads {
        if thread.join().is_err() {
            println!("a thread of the storm found something wrong");
            std::process::exit(1);
        }
    }
}

/// Declares nodes gone that are as alive as any.
fn evict(storm: &Storm, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let ledger = open_patiently(&storm.url);
    while !storm.is_over() {
        thread::sleep(Duration::from_millis(random.u64(10..EVICT_WITHIN_MS)));
        let Ok(nodes) = ledger.nodes() else { continue };
        let alive: Vec<_> = nodes.iter().filter(|node| node.state != NodeState::Gone).collect();
        if let Some(node) = random.choice(alive)
            && ledger.evict(node).unwrap_or(false)
        {
            storm.evictions.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Ends connections of the nodes at the database's side, in the middle of whatever they do.
fn kill(storm: &Storm) {
    let text = "select pg_terminate_backend(pid) from pg_stat_activity \
                 where application_name like 'armilla%' and datname = current_database() order by random() limit 1";
    while !storm.is_over() {
        thread::sleep(KILL_EVERY);
        if run_sql(&storm.url, text).is_ok() {
            storm.kills.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn judge(storm: &Storm) {
    let ledger = open_patiently(&storm.url);
    let judge = owner::card("judge");
    patiently(|| ledger.join(&judge)).expect("no other node has this name");
    let nodes = patiently(|| ledger.nodes());
    let others = nodes.iter().filter(|node| node.card != judge && node.state != NodeState::Gone);
    others.for_each(|node| assert!(patiently(|| ledger.evict(node)), "it beats no more"));
    for shard in 0..SHARDS {
        let at = history::at(shard);
        // A take waits for whatever is still under way and shows the newest row.
        let rows = patiently(|| ledger.shards());
        let row = rows.into_iter().find(|row| row.at == at).expect("shards stay");
        let tip = patiently(|| ledger.take(at, row.epoch)).expect("nobody else is alive");
        storm.history.judge(shard, tip.place, tip.chain);
    }
    println!(
        "{} groups acknowledged, {} takes, {} evictions, {} connections killed, {} copies, none wrong",
        storm.history.acknowledged(),
        storm.history.takes(),
        storm.evictions.load(Ordering::Relaxed),
        storm.kills.load(Ordering::Relaxed),
        storm.history.copies(),
    );
}

impl Storm {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// The ledger, as soon as the database is up.
fn open_patiently(url: &str) -> PostgresLedger {
    patiently(|| PostgresLedger::open(&StoreAddress::new(url)))
}

/// The answer of a database that may be away for a moment.
fn patiently<T>(ask: impl Fn() -> Result<T, LedgerError>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(error) if Instant::now() > end => panic!("{error}"),
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}

fn run_sql(url: &str, text: &str) -> Result<(), tokio_postgres::Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
        let driver = tokio::spawn(connection);
        let ran = client.batch_execute(text).await;
        driver.abort();
        ran
    })
}
