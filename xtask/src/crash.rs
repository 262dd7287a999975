//! `cargo xtask crash`: the server is killed at random moments while clients write, again and again
//! on one data folder, and nothing that was acknowledged may be missing.
//!
//! ```text
//! round:  start ── check everything against the model ── 16 writers ── SIGKILL ── verify a copy
//!           └─ now and then the start itself is killed first, in the middle of recovery
//! ```
//!
//! Every writer owns a logical partition, so the model of what must be there is exact: one
//! operation per writer may be in flight at the kill, and its outcome is learnt by reading.
//! Partitions split and merge all the while, and readers of both change feeds follow: over all kills
//! they must have seen every living item in its last state. Beside them are items that live for a few
//! seconds: gone when their time is over, never before, and told to the readers of all versions.
//! Besides, all writers share one logical partition, the journal, where a batch adds an entry and
//! counts it: entries and counter must agree whatever was cut off. Four views follow the container and must
//! show its projection after every start, and three subscriptions: what their procedures do happens once, what a webhook is
//! sent comes at least once.
//!
//! One seed repeats the choices, not the moments: a kill falls where the machine's timing puts it.
//! SIGKILL proves that nothing lives only in the process; lost power is the storage crate's test.

mod brief;
pub(crate) mod check;
pub(crate) mod events;
pub(crate) mod follower;
mod hook;
pub(crate) mod model;
pub(crate) mod scaler;
pub(crate) mod views;
pub(crate) mod writer;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::arguments::{Arguments, Choice};
use crate::rest::Client;
use crate::server::{self, Server};
use crate::summary::{Row, Summary};
use crate::workspace::{self, Profile};
use crate::{Outcome, processes};
use events::Events;
use follower::Follower;
use model::{Journal, Partition};
use scaler::Changes;
use writer::Writer;

const ROUNDS_DEFAULT: u64 = 50;
const WRITERS_DEFAULT: u64 = 16;
const WRITERS_MAX: u64 = 256;
/// The moment of the kill, counted from the start of the writers.
const KILL_AFTER_MS: std::ops::Range<u64> = 20..1200;
/// The moment of a kill during start.
const KILL_START_AFTER_MS: std::ops::Range<u64> = 1..120;
/// One start in this many is killed before it is ready.
const KILL_START_ONE_IN: u32 = 5;

/// How long the janitor may take with the last items that expire.
const ENDS_WITHIN: Duration = Duration::from_secs(30);

/// The container that is written to.
pub(crate) const CONTAINER: &str = "/dbs/crash/colls/items";

/// Small partitions, so that they split and merge.
pub(crate) const OPTIONS: [&str; 2] = ["--partition-rus", "1000"];

const ABOUT: &str = "\
Kills the server (SIGKILL) at random moments while clients create, replace, upsert, patch and delete
items and run transactional batches, partitions split and merge, views and subscriptions follow; restarts it on the same data
and checks every item, the queries, the change feed, the views and what subscriptions did; then runs `armilla verify` on the folder.";

const CHOICES: &[Choice] = &[
    Choice { name: "rounds", value: "N", meaning: "How many kills (default 50, about 3 minutes)" },
    Choice { name: "writers", value: "N", meaning: "Concurrent clients (default 16)" },
    Choice { name: "seed", value: "N", meaning: "Repeat the choices of an earlier run" },
    Choice { name: "binary", value: "PATH", meaning: "The server to test, instead of building it" },
    Choice { name: "release", value: "", meaning: "Build the server optimised" },
    Choice { name: "no-verify", value: "", meaning: "Do not run `armilla verify` after each kill" },
];

/// What to run.
pub(crate) struct CrashPlan {
    binary: PathBuf,
    rounds: u64,
    writers: u64,
    seed: u64,
    verify: bool,
}

impl CrashPlan {
    /// The usual plan: 16 writers, a new seed, `armilla verify` after each kill.
    pub(crate) fn new(binary: &Path, rounds: u64) -> Self {
        let seed = fastrand::u64(0..1_000_000);
        Self { binary: binary.to_owned(), rounds, writers: WRITERS_DEFAULT, seed, verify: true }
    }
}

/// The chore: reads its options, runs, prints the closing line.
pub(crate) fn crash(words: &[OsString]) -> Outcome<bool> {
    let Some(arguments) = Arguments::parse("crash", ABOUT, CHOICES, words)? else {
        return Ok(true);
    };
    let binary = match arguments.text("binary") {
        Some(path) => PathBuf::from(path).canonicalize()?,
        None => workspace::build_server(if arguments.has("release") {
            Profile::Release
        } else {
            Profile::Dev
        })?,
    };
    let mut plan = CrashPlan::new(&binary, arguments.number("rounds", ROUNDS_DEFAULT)?);
    plan.writers = arguments.number("writers", WRITERS_DEFAULT)?.clamp(1, WRITERS_MAX);
    plan.seed = arguments.number("seed", plan.seed)?;
    plan.verify = !arguments.has("no-verify");
    let mut summary = Summary::default();
    summary.add(run(&plan));
    Ok(summary.close())
}

/// Runs the plan; each round that held is a pass, the first that did not ends the run.
pub(crate) fn run(plan: &CrashPlan) -> Row {
    let name = "crash rounds";
    processes::announce(&format!(
        "crash test: {} rounds, {} writers, seed {} (repeat with --seed {})",
        plan.rounds, plan.writers, plan.seed, plan.seed
    ));
    let started = Instant::now();
    let mut trial = match CrashTrial::new(plan) {
        Ok(trial) => trial,
        Err(error) => return Row::broken(name, started.elapsed(), error.to_string()),
    };
    let mut passed = 0;
    let mut note = String::new();
    for round in 1..=plan.rounds {
        if let Err(error) = trial.round(round) {
            let kept = trial.keep_folder();
            note = format!("round {round}: {error}; seed {}, data kept in {kept}", plan.seed);
            break;
        }
        passed += 1;
    }
    if note.is_empty()
        && let Err(error) = trial.finish()
    {
        let kept = trial.keep_folder();
        note = format!("last look: {error}; seed {}, data kept in {kept}", plan.seed);
    }
    if !note.is_empty() {
        println!("crash test failed: {note}");
    }
    let failed = u64::from(!note.is_empty());
    let Changes { splits, merges } = trial.changes;
    let expired = trial.followers.iter().map(Follower::expired).max().unwrap_or(0);
    let counted = format!(
        "{} acknowledged writes, {splits} splits, {merges} merges, {expired} items expired, {}",
        trial.acknowledged(),
        trial.events.told()
    );
    let note = if note.is_empty() { counted } else { note };
    Row { name: name.into(), passed, failed, took: started.elapsed(), note }
}

/// One data folder, its model, and the source of every choice.
struct CrashTrial<'a> {
    plan: &'a CrashPlan,
    random: fastrand::Rng,
    folder: Option<tempfile::TempDir>,
    partitions: Vec<Partition>,
    journal: Journal,
    followers: Vec<Follower>,
    events: Events,
    changes: Changes,
}

impl<'a> CrashTrial<'a> {
    fn new(plan: &'a CrashPlan) -> Outcome<Self> {
        let folder = tempfile::Builder::new().prefix("armilla-crash-").tempdir()?;
        let partitions = (0..plan.writers).map(Partition::new).collect();
        let mut random = fastrand::Rng::with_seed(plan.seed);
        let events = Events::new(&mut random)?;
        Ok(Self {
            plan,
            random,
            folder: Some(folder),
            partitions,
            journal: Journal::default(),
            followers: Follower::all(),
            events,
            changes: Changes::default(),
        })
    }

    /// Start, check what the last kill left, write, kill, verify.
    fn round(&mut self, round: u64) -> Outcome<()> {
        let begun = Instant::now();
        if round > 1 && self.random.u32(0..KILL_START_ONE_IN) == 0 {
            self.kill_a_start()?;
        }
        let server = self.start()?;
        let ready = begun.elapsed();
        let client = server.client();
        if round == 1 {
            create_container(&client)?;
            views::create(&client)?;
            self.events.subscribe(&client)?;
            self.followers.iter_mut().try_for_each(|follower| follower.begin(&client))?;
        } else {
            self.check(&client)?;
        }
        let checked = begun.elapsed();
        let before = self.acknowledged();
        self.write_until_killed(server, &client)?;
        self.verify()?;
        println!(
            "round {round:>3}: ready {:>4} ms, checked {:>4} ms, {:>5} writes acknowledged, {} cut off",
            ready.as_millis(),
            (checked - ready).as_millis(),
            self.acknowledged() - before,
            self.partitions.iter().filter(|partition| partition.is_in_doubt()).count()
                + self.journal.in_doubt(),
        );
        Ok(())
    }

    /// A last check, then a clean stop, after which the folder must verify too.
    fn finish(&mut self) -> Outcome<()> {
        let server = self.start()?;
        self.check(&server.client())?;
        see_all_ends(&server.client(), &mut self.followers)?;
        server.stop()?;
        self.verify()
    }

    /// Interrupts recovery itself.
    fn kill_a_start(&mut self) -> Outcome<()> {
        let options = self.options();
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let server = Server::spawn(&self.plan.binary, &self.data(), &self.log(), &options)?;
        thread::sleep(Duration::from_millis(self.random.u64(KILL_START_AFTER_MS)));
        Ok(server.kill()?)
    }

    /// Small partitions, and the receiver of webhooks.
    fn options(&self) -> Vec<String> {
        OPTIONS.iter().map(|word| (*word).to_owned()).chain(self.events.options()).collect()
    }

    fn start(&self) -> Outcome<Server> {
        let options = self.options();
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        Server::start_with(&self.plan.binary, &self.data(), &self.log(), &options)
    }

    fn check(&mut self, client: &Client) -> Outcome<()> {
        check::check(client, &mut self.partitions, &mut self.journal)?;
        self.events.check(client)?;
        self.followers
            .iter_mut()
            .try_for_each(|follower| follower.check(client, &self.partitions))?;
        views::check(client)
    }

    /// Lets the writers loose, kills the server under them, and takes over what they know.
    fn write_until_killed(&mut self, server: Server, client: &Client) -> Outcome<()> {
        let killed = AtomicBool::new(false);
        let pause = Duration::from_millis(self.random.u64(KILL_AFTER_MS));
        let (data, mut random) = (self.data(), self.random.fork());
        let (binary, followers, events) =
            (&self.plan.binary, &mut self.followers, &mut self.events);
        let killed_at = &killed;
        let writers: Vec<Writer<'_>> = self
            .partitions
            .iter_mut()
            .map(|partition| Writer::new(client.clone(), partition, self.random.fork(), &killed))
            .collect();
        let (reports, changes) = thread::scope(|scope| -> Outcome<(Vec<_>, Changes)> {
            let scaling =
                scope.spawn(|| scaler::run(client, binary, &data, &mut random, killed_at));
            let subscribed = scope.spawn(|| events.write(client, killed_at));
            let following: Vec<_> = followers
                .iter_mut()
                .map(|follower| scope.spawn(move || follower.follow(client, killed_at)))
                .collect();
            let running: Vec<_> =
                writers.into_iter().map(|writer| scope.spawn(move || writer.run())).collect();
            thread::sleep(pause);
            // From here on a broken connection is expected.
            killed.store(true, Ordering::SeqCst);
            server.kill()?;
            let reports = running
                .into_iter()
                .map(|writer| writer.join().map_err(|_| "a writer panicked".into()))
                .collect::<Outcome<_>>()?;
            for follower in following {
                follower.join().map_err(|_| "a follower panicked")??;
            }
            subscribed.join().map_err(|_| "the event writers panicked")??;
            Ok((reports, scaling.join().map_err(|_| "the scaler panicked")??))
        })?;
        self.changes.splits += changes.splits;
        self.changes.merges += changes.merges;
        for report in reports {
            self.journal.take_over(report?);
        }
        Ok(())
    }

    /// Lets `armilla verify` look at the folder. It changes nothing: the next start finds what the kill left.
    fn verify(&self) -> Outcome<()> {
        if !self.plan.verify {
            return Ok(());
        }
        let data = self.data();
        let output =
            Command::new(&self.plan.binary).args(["verify", "--data"]).arg(data).output()?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned()
            + &String::from_utf8_lossy(&output.stdout);
        Err(format!("`armilla verify` ended with {}: {}", output.status, said.trim()).into())
    }

    fn acknowledged(&self) -> u64 {
        self.partitions.iter().map(Partition::acknowledged).sum::<u64>() + self.journal.len()
    }

    fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    fn log(&self) -> PathBuf {
        self.path().join("server.log")
    }

    fn path(&self) -> &Path {
        self.folder.as_ref().expect("the folder is given away only at the end").path()
    }

    /// Leaves the folder for a look after the run and names it.
    fn keep_folder(&mut self) -> String {
        println!("{}", server::tail(&self.log()));
        let kept = self.path().display().to_string();
        if let Some(folder) = self.folder.take() {
            drop(folder.keep());
        }
        kept
    }
}

/// Copies the files of a folder; sockets and the like stay behind.
/// Waits until every reader of all versions has been told of every item that came to its end.
pub(crate) fn see_all_ends(client: &Client, followers: &mut [Follower]) -> Outcome<()> {
    let deadline = Instant::now() + ENDS_WITHIN;
    loop {
        followers.iter_mut().try_for_each(|follower| follower.drain(client))?;
        if followers.iter().all(Follower::knows_all_ends) {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err("items whose time is over were never told to be gone".into());
        }
        thread::sleep(Duration::from_millis(200));
    }
}

/// The container of this test: items can expire, and all versions are kept.
pub(crate) fn create_container(client: &Client) -> Outcome<()> {
    let database = serde_json::json!({"id": "crash"});
    let container = serde_json::json!({
        "id": "items",
        "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2},
        "defaultTtl": -1,
        "changeFeedPolicy": {"retentionDuration": 600},
    });
    for (path, body) in [("/dbs", database), ("/dbs/crash/colls", container)] {
        let answer = client.send("POST", path, &[], Some(&body))?;
        if answer.status != 201 {
            return Err(format!("POST {path} answered {}: {}", answer.status, answer.body).into());
        }
    }
    let counter = model::journal_counter();
    let key = model::key_header(model::JOURNAL);
    let headers = [(model::KEY_HEADER, key.as_str())];
    let answer = client.send("POST", &format!("{CONTAINER}/docs"), &headers, Some(&counter))?;
    if answer.status == 201 {
        Ok(())
    } else {
        Err(format!("the journal's counter was refused: {}", answer.body).into())
    }
}
