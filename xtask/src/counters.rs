//! `cargo xtask counters`: counts that scripts keep beside items equal the items, always.
//!
//! Sixteen callers add comments and likes to a few shared posts, and take likes back, each by one call
//! of a stored procedure that also changes the post's count. Some calls are told to throw at a random
//! moment, and again and again the server is killed (SIGKILL) in the middle. After every restart each
//! post's counts must equal its items, and the items must be exactly those that were acknowledged; of
//! every caller one call may be in doubt, which is then learnt by reading.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::arguments::{Arguments, Choice};
use crate::rest::Client;
use crate::server::{self, Server};
use crate::summary::{Row, Summary};
use crate::workspace::{self, Profile};
use crate::{Outcome, processes};

const CALLERS: u64 = 16;
const CALLS_DEFAULT: u64 = 500;
const POSTS: u64 = 4;
const KILL_AFTER_MS: std::ops::Range<u64> = 150..2000;
/// No run needs more starts: every round lets each caller do something.
const ROUNDS_MAX: u32 = 2000;
const CONTAINER: &str = "/dbs/counters/colls/posts";
const KEY_HEADER: &str = "x-ms-documentdb-partitionkey";
/// The number of the error that a script throws when it is told to.
const FAULT_NUMBER: &str = "4711";
/// Faults up to this one throw; the others do nothing.
const FAULTS_THROWING: u64 = 4;

/// Adds or removes an item and counts it; throws at one of four moments, or at none.
const CHANGE: &str = r#"
function change(post, item, counter, by, fault) {
    var c = getContext().getCollection();
    function fail(at) { if (fault === at) throw new Error(4711, "at " + at); }
    c.readDocument(c.getAltLink() + "/docs/" + post, function (error, found) {
        if (error) throw error;
        fail(1);
        found[counter] += by;
        c.replaceDocument(found._self, found, { etag: found._etag }, function (error) {
            if (error) throw error;
            fail(2);
            if (by > 0) c.createDocument(c.getSelfLink(), item, done);
            else c.deleteDocument(c.getAltLink() + "/docs/" + item.id, done);
        });
    });
    function done(error) { if (error) throw error; fail(3); }
    fail(0);
}"#;

const ABOUT: &str = "\
Sixteen callers add comments and likes to shared posts through a stored procedure, with random throws
and kills (SIGKILL) of the server; every post's counts must equal its items after every restart.";

const CHOICES: &[Choice] = &[
    Choice { name: "calls", value: "N", meaning: "Calls of each caller (default 500)" },
    Choice { name: "seed", value: "N", meaning: "Repeat the choices of an earlier run" },
    Choice { name: "binary", value: "PATH", meaning: "The server to test, instead of building it" },
];

/// The chore: reads its options, runs, prints the closing line.
pub(crate) fn counters(words: &[OsString]) -> Outcome<bool> {
    let Some(arguments) = Arguments::parse("counters", ABOUT, CHOICES, words)? else {
        return Ok(true);
    };
    let binary = match arguments.text("binary") {
        Some(path) => PathBuf::from(path).canonicalize()?,
        None => workspace::build_server(Profile::Dev)?,
    };
    let calls = arguments.number("calls", CALLS_DEFAULT)?;
    let seed = arguments.number("seed", fastrand::u64(0..1_000_000))?;
    let mut summary = Summary::default();
    summary.add(run_with(&binary, calls, seed));
    Ok(summary.close())
}

/// The usual run, as part of all tests.
pub(crate) fn run(binary: &Path) -> Row {
    run_with(binary, CALLS_DEFAULT, fastrand::u64(0..1_000_000))
}

fn run_with(binary: &Path, calls: u64, seed: u64) -> Row {
    let name = "script counters";
    processes::announce(&format!("script counters: {CALLERS} callers, {calls} calls, seed {seed}"));
    let started = Instant::now();
    let outcome = CounterTrial::new(binary, calls, seed).and_then(|mut trial| {
        trial.run().map_err(|error| format!("{error}; {}", server::tail(&trial.log())).into())
    });
    match outcome {
        Ok(note) => Row { name: name.into(), passed: 1, failed: 0, took: started.elapsed(), note },
        Err(error) => Row::broken(name, started.elapsed(), format!("seed {seed}: {error}")),
    }
}

/// One data folder and those who write to it.
struct CounterTrial<'a> {
    binary: &'a Path,
    folder: tempfile::TempDir,
    random: fastrand::Rng,
    callers: Vec<Caller>,
}

/// A caller, and what it knows to be stored.
struct Caller {
    number: u64,
    calls_left: u64,
    random: fastrand::Rng,
    present: BTreeSet<Entry>,
    /// The change whose answer did not come.
    doubt: Option<Entry>,
    thrown: u64,
}

/// A comment or like of a post.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    post: String,
    id: String,
    counter: &'static str,
}

impl<'a> CounterTrial<'a> {
    fn new(binary: &'a Path, calls: u64, seed: u64) -> Outcome<Self> {
        let mut random = fastrand::Rng::with_seed(seed);
        let callers = (0..CALLERS)
            .map(|number| Caller {
                number,
                calls_left: calls,
                random: random.fork(),
                present: BTreeSet::new(),
                doubt: None,
                thrown: 0,
            })
            .collect();
        let folder = tempfile::Builder::new().prefix("armilla-counters-").tempdir()?;
        Ok(Self { binary, folder, random, callers })
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("server.log")
    }

    fn run(&mut self) -> Outcome<String> {
        let data = self.folder.path().join("data");
        for round in 1..=ROUNDS_MAX {
            let server = Server::start(self.binary, &data, &self.log())?;
            let client = server.client();
            if round == 1 {
                prepare(&client)?;
            } else {
                self.check(&client)?;
            }
            if self.callers.iter().all(|caller| caller.calls_left == 0) {
                server.stop()?;
                verify(self.binary, &data)?;
                let thrown: u64 = self.callers.iter().map(|caller| caller.thrown).sum();
                let items: usize = self.callers.iter().map(|caller| caller.present.len()).sum();
                let kills = round - 1;
                return Ok(format!("{items} items counted, {thrown} throws, {kills} kills"));
            }
            self.call_until_killed(server, &client)?;
        }
        Err("the callers do not come to an end".into())
    }

    /// Lets the callers loose and kills the server under them.
    fn call_until_killed(&mut self, server: Server, client: &Client) -> Outcome<()> {
        let killed = AtomicBool::new(false);
        let pause = Duration::from_millis(self.random.u64(KILL_AFTER_MS));
        let callers = &mut self.callers;
        let killed_at = &killed;
        thread::scope(|scope| {
            let running: Vec<_> = callers
                .iter_mut()
                .map(|caller| scope.spawn(move || caller.call(client, killed_at)))
                .collect();
            thread::sleep(pause);
            // From here on a broken connection is expected.
            killed.store(true, Ordering::SeqCst);
            server.kill()?;
            running
                .into_iter()
                .try_for_each(|caller| caller.join().map_err(|_| "a caller panicked")?)
        })
    }

    /// Every count equals its items, and every item is one that was acknowledged.
    fn check(&mut self, client: &Client) -> Outcome<()> {
        for caller in &mut self.callers {
            caller.learn(client)?;
        }
        for post in (0..POSTS).map(|number| format!("post{number}")) {
            let stored = read(client, &post, &post)?.ok_or_else(|| format!("{post} is gone"))?;
            for counter in ["comments", "likes"] {
                let found = ids(client, &post, counter)?;
                let known: BTreeSet<_> = self
                    .callers
                    .iter()
                    .flat_map(|caller| &caller.present)
                    .filter(|entry| entry.post == post && entry.counter == counter)
                    .map(|entry| entry.id.clone())
                    .collect();
                if found != known {
                    let odd: Vec<_> = found.symmetric_difference(&known).take(5).collect();
                    return Err(
                        format!("{post} has other {counter} than it should: {odd:?}").into()
                    );
                }
                if stored[counter] != json!(found.len()) {
                    let (count, items) = (&stored[counter], found.len());
                    return Err(format!("{post} counts {count} {counter} and has {items}").into());
                }
            }
        }
        Ok(())
    }
}

impl Caller {
    /// Calls until the server is gone or all calls are made.
    fn call(&mut self, client: &Client, killed: &AtomicBool) -> Outcome<()> {
        while self.calls_left > 0 && !killed.load(Ordering::SeqCst) {
            let (entry, by) = self.choose();
            let fault = self.random.u64(0..10);
            let item = json!({"id": entry.id, "pk": entry.post, "kind": entry.counter});
            let arguments = json!([entry.post, item, entry.counter, by, fault]);
            let key = json!([entry.post]).to_string();
            let path = format!("{CONTAINER}/sprocs/change");
            let answer = match client.send("POST", &path, &[(KEY_HEADER, &key)], Some(&arguments)) {
                Ok(answer) => answer,
                Err(_) if killed.load(Ordering::SeqCst) => {
                    self.doubt = Some(entry);
                    return Ok(());
                }
                Err(error) => return Err(format!("a call failed without a kill: {error}").into()),
            };
            let thrown = answer.header("x-ms-substatus") == Some(FAULT_NUMBER);
            match answer.status {
                200 if fault >= FAULTS_THROWING && by > 0 => drop(self.present.insert(entry)),
                200 if fault >= FAULTS_THROWING => drop(self.present.remove(&entry)),
                400 if fault < FAULTS_THROWING && thrown => self.thrown += 1,
                429 => continue,
                status => {
                    let body = &answer.body;
                    return Err(format!("fault {fault} by {by} answered {status}: {body}").into());
                }
            }
            self.calls_left -= 1;
        }
        Ok(())
    }

    /// A new comment or like, or an old like to be taken back.
    fn choose(&mut self) -> (Entry, i32) {
        if self.random.u32(0..4) == 0 {
            let likes: Vec<_> =
                self.present.iter().filter(|entry| entry.counter == "likes").collect();
            if let Some(entry) = self.random.choice(likes) {
                return (entry.clone(), -1);
            }
        }
        let counter = if self.random.bool() { "comments" } else { "likes" };
        let id = format!("{counter}-{}-{}-{}", self.number, self.calls_left, self.random.u32(..));
        let post = format!("post{}", self.random.u64(0..POSTS));
        (Entry { post, id, counter }, 1)
    }

    /// Learns how the call in doubt ended.
    fn learn(&mut self, client: &Client) -> Outcome<()> {
        if let Some(entry) = self.doubt.take() {
            match read(client, &entry.post, &entry.id)? {
                Some(_) => self.present.insert(entry),
                None => self.present.remove(&entry),
            };
        }
        Ok(())
    }
}

fn prepare(client: &Client) -> Outcome<()> {
    let create = |path: &str, body: Value, headers: &[(&str, &str)]| {
        let answer = client.send("POST", path, headers, Some(&body))?;
        if answer.is_success() {
            return Ok(());
        }
        Err(format!("{path} answered {}: {}", answer.status, answer.body).into())
    };
    create("/dbs", json!({"id": "counters"}), &[])?;
    let container = json!({"id": "posts", "partitionKey": {"paths": ["/pk"], "kind": "Hash"}});
    create("/dbs/counters/colls", container, &[])?;
    create(&format!("{CONTAINER}/sprocs"), json!({"id": "change", "body": CHANGE}), &[])?;
    (0..POSTS).try_for_each(|number| {
        let post = format!("post{number}");
        let item = json!({"id": post, "pk": post, "comments": 0, "likes": 0});
        let key = json!([post]).to_string();
        create(&format!("{CONTAINER}/docs"), item, &[(KEY_HEADER, &key)])
    })
}

fn read(client: &Client, post: &str, id: &str) -> Outcome<Option<Value>> {
    let key = json!([post]).to_string();
    let path = format!("{CONTAINER}/docs/{id}");
    let answer = client.send("GET", &path, &[(KEY_HEADER, &key)], None)?;
    match answer.status {
        200 => Ok(Some(answer.body)),
        404 => Ok(None),
        status => Err(format!("GET {path} answered {status}: {}", answer.body).into()),
    }
}

/// The items of one kind, found by the index.
fn ids(client: &Client, post: &str, counter: &str) -> Outcome<BTreeSet<String>> {
    let key = json!([post]).to_string();
    let body = json!({
        "query": "SELECT VALUE c.id FROM c WHERE c.kind = @kind",
        "parameters": [{"name": "@kind", "value": counter}],
    });
    let (mut found, mut continuation) = (BTreeSet::new(), String::new());
    loop {
        let headers = [
            (KEY_HEADER, key.as_str()),
            ("x-ms-documentdb-isquery", "True"),
            ("x-ms-max-item-count", "1000"),
            ("x-ms-continuation", continuation.as_str()),
        ];
        let answer = client.send("POST", &format!("{CONTAINER}/docs"), &headers, Some(&body))?;
        let rows = answer.body["Documents"].as_array().ok_or("the query has no rows")?;
        found.extend(rows.iter().filter_map(|row| row.as_str().map(str::to_owned)));
        match answer.header("x-ms-continuation") {
            Some(next) => continuation = next.to_owned(),
            None => return Ok(found),
        }
    }
}

fn verify(binary: &Path, data: &Path) -> Outcome<()> {
    let output = Command::new(binary).args(["verify", "--data"]).arg(data).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(format!("`armilla verify` ended with {}: {}", output.status, said.trim()).into())
}
