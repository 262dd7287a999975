//! `cargo xtask stranger`: what strangers and careless clients can do must not stop the server.
//!
//! A server with 1,024 open files is beset by one crowd after the other: 2,000 connections that say
//! nothing, 30,000 writes of one partition key whose clients go away, items of tens of thousands of new
//! names, scripts that would run for ever, heavy regular expressions. All the while a few clients read
//! single items. The server must live, every crowd must come to an end, and those readers must have
//! their answers: half of them within 50 ms, each within a second.

mod crowds;
mod readers;

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
use readers::Readers;

/// Files that the server may have open: what most systems give by default.
const OPEN_FILES: u64 = 1_024;
const SILENT: usize = 2_000;
const ABANDONED: usize = 30_000;
/// Hostile scripts, and heavy queries, at once.
const HOSTILE: usize = 10;
/// Items of many new names at once, and the names of each.
const WIDE: usize = 4;
const WIDE_NAMES: usize = 60_000;
/// Half of all point reads are answered within this time, and every one within the other.
const MEDIAN_MAX: Duration = Duration::from_millis(50);
const WORST_MAX: Duration = Duration::from_secs(1);
/// A crowd must have come to its end within this time.
const CROWD_WITHIN: Duration = Duration::from_secs(90);

const DATABASE: &str = "strangers";
const CONTAINER: &str = "/dbs/strangers/colls/room";
const ITEMS: &str = "/dbs/strangers/colls/room/docs";
const KEY_HEADER: &str = "x-ms-documentdb-partitionkey";
const QUERY_HEADER: (&str, &str) = ("x-ms-documentdb-isquery", "True");

/// Holds the lock of its key until it is stopped.
const BUSY: &str = "function busy() { for (;;) {} }";

/// Bodies that do not come to an end, or would take minutes, each by one call of a built-in.
const HOSTILE_SCRIPTS: [&str; 5] = [
    "function(){var a=[];for(var i=0;i<40;i++)a=[a,a];JSON.stringify(a)}",
    "function(){var a=[];for(var i=0;i<40;i++)a=[a,a];getContext().getResponse().setBody(a)}",
    "function(){var s='ab'.repeat(1<<20),t='ac'.repeat(1<<20),a=[];for(var i=0;i<300000;i++)a.push(i&1?s:t);a.sort()}",
    "function(){(BigInt(3)**BigInt(1000000)).toString()}",
    "function(){for(;;){}}",
];

/// One match of it looks at a million characters a thousand times.
const HEAVY_QUERY: &str =
    "SELECT VALUE REGEXMATCH(c.s, '[ab]{0,1000}[ab]{0,1000}c') FROM c WHERE c.id = 'long'";
const LONG_TEXT: usize = 1_000_000;

const ABOUT: &str = "\
Besets a server with 1,024 open files: silent connections, abandoned writes, wide items, hostile scripts, heavy
regular expressions. It must live, and point reads of others must be answered as if nothing happened.";

const CHOICES: &[Choice] = &[
    Choice { name: "binary", value: "PATH", meaning: "The server to test, instead of building it" },
    Choice { name: "only", value: "CROWD", meaning: "Only this crowd; may be repeated" },
];

/// The chore: reads its options, runs, prints the closing line.
pub(crate) fn stranger(words: &[OsString]) -> Outcome<bool> {
    let Some(arguments) = Arguments::parse("stranger", ABOUT, CHOICES, words)? else {
        return Ok(true);
    };
    let binary = match arguments.text("binary") {
        Some(path) => PathBuf::from(path).canonicalize()?,
        None => workspace::build_server(Profile::Dev)?,
    };
    let mut summary = Summary::default();
    summary.add(run_crowds(&binary, &arguments.list("only")));
    Ok(summary.close())
}

/// The usual run, as part of all tests.
pub(crate) fn run(binary: &Path) -> Row {
    run_crowds(binary, &[])
}

fn run_crowds(binary: &Path, only: &[&str]) -> Row {
    let name = "strangers";
    processes::announce(&format!(
        "strangers: {OPEN_FILES} open files, {SILENT} silent, {ABANDONED} abandoned"
    ));
    let started = Instant::now();
    let outcome = StrangerTrial::start(binary).and_then(|mut trial| {
        let outcome = trial.run(only);
        outcome.map_err(|error| format!("{error}\n{}", server::tail(&trial.log())).into())
    });
    match outcome {
        Ok(passed) => Row {
            name: name.into(),
            passed,
            failed: 0,
            took: started.elapsed(),
            note: String::new(),
        },
        Err(error) => Row::broken(name, started.elapsed(), error.to_string()),
    }
}

/// A crowd: its name, and what it does until it is through.
type Crowd = (&'static str, fn(&StrangerTrial) -> Outcome<String>);

const CROWDS: [Crowd; 5] = [
    ("silence", StrangerTrial::silence),
    ("abandoned", StrangerTrial::abandoned),
    ("wide", StrangerTrial::wide),
    ("scripts", StrangerTrial::scripts),
    ("regexes", StrangerTrial::regexes),
];

/// A server and its data.
struct StrangerTrial {
    binary: PathBuf,
    folder: tempfile::TempDir,
    server: Option<Server>,
    client: Client,
}

impl StrangerTrial {
    fn start(binary: &Path) -> Outcome<Self> {
        crowds::raise_own_limit();
        let folder = tempfile::Builder::new().prefix("armilla-stranger-").tempdir()?;
        let (data, log) = (folder.path().join("data"), folder.path().join("server.log"));
        let server = Server::start_with_files(binary, &data, &log, OPEN_FILES)?;
        let client = server.client();
        let trial = Self { binary: binary.to_owned(), folder, server: Some(server), client };
        trial.prepare()?;
        Ok(trial)
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("server.log")
    }

    fn run(&mut self, only: &[&str]) -> Outcome<u64> {
        let mut passed = 0;
        for (name, crowd) in
            CROWDS.iter().filter(|(name, _)| only.is_empty() || only.contains(name))
        {
            let started = Instant::now();
            let readers = Readers::start(&self.server().base());
            let said = crowd(self);
            let latencies = readers.stop();
            if let Some(status) = self.server.as_mut().and_then(Server::ended) {
                return Err(format!("{name}: the server ended with {status}").into());
            }
            let (said, latencies) = (said.map_err(|error| format!("{name}: {error}"))?, latencies?);
            let seconds = started.elapsed().as_secs_f64();
            println!("{name:<10} {seconds:>5.1} s  {said}; {latencies}");
            latencies.check(MEDIAN_MAX, WORST_MAX).map_err(|error| format!("{name}: {error}"))?;
            self.write("others", "afterwards")?;
            passed += 1;
        }
        match self.server.take() {
            Some(server) => server.stop().map(|()| passed + 1),
            None => Err("the server is gone".into()),
        }
    }

    fn server(&self) -> &Server {
        self.server.as_ref().expect("it is taken at the end only")
    }

    fn prepare(&self) -> Outcome<()> {
        self.create("/dbs", &json!({"id": DATABASE}), None)?;
        let keys = json!({"paths": ["/pk"], "kind": "Hash", "version": 2});
        self.create("/dbs/strangers/colls", &json!({"id": "room", "partitionKey": keys}), None)?;
        for number in 0..readers::ITEMS_READ {
            self.write("others", &number.to_string())?;
        }
        let text = "ab".repeat(LONG_TEXT / 2);
        let long = json!({"id": "long", "pk": "long", "s": text});
        self.create(ITEMS, &long, Some("long"))?;
        let scripts = HOSTILE_SCRIPTS.iter().enumerate();
        let scripts = scripts.map(|(number, body)| (format!("hostile{number}"), *body));
        for (id, body) in scripts.chain([("busy".to_owned(), BUSY)]) {
            self.create(&format!("{CONTAINER}/sprocs"), &json!({"id": id, "body": body}), None)?;
        }
        Ok(())
    }

    fn write(&self, key: &str, id: &str) -> Outcome<()> {
        let header = json!([key]).to_string();
        let headers = [(KEY_HEADER, header.as_str()), ("x-ms-documentdb-is-upsert", "true")];
        let item = json!({"id": id, "pk": key, "text": "of a stranger"});
        let answer = self.client.send("POST", ITEMS, &headers, Some(&item))?;
        expect_success(ITEMS, &answer)
    }

    fn create(&self, path: &str, body: &Value, key: Option<&str>) -> Outcome<()> {
        let header = key.map(|key| json!([key]).to_string());
        let headers: Vec<_> = header.iter().map(|key| (KEY_HEADER, key.as_str())).collect();
        let answer = self.client.send("POST", path, &headers, Some(body))?;
        expect_success(path, &answer)
    }

    /// Connections that say nothing, while the store needs files for a backup and for new tables.
    fn silence(&self) -> Outcome<String> {
        let silent = crowds::silent(self.server().address(), SILENT)?;
        let to = self.folder.path().join("backup");
        let mut backup = Command::new(&self.binary);
        server::forget_settings(&mut backup);
        backup.args(["backup", "--data"]).arg(self.folder.path().join("data")).arg("--to").arg(to);
        let output = backup.output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("the backup failed: {}", said.trim()).into());
        }
        // Somebody who comes now is served, on a connection of its own.
        let started = Instant::now();
        let late = Client::new(&self.server().base());
        let mut asked = 0;
        loop {
            asked += 1;
            match readers::read(&late, 0) {
                Ok(()) => break,
                Err(error) if started.elapsed() > WORST_MAX => {
                    return Err(format!("a late client was not served: {error}").into());
                }
                Err(_) => thread::sleep(Duration::from_millis(20)),
            }
        }
        for number in 0..200 {
            self.write("silence", &number.to_string())?;
        }
        Ok(format!("{} silent connections, a late client served at attempt {asked}", silent.len()))
    }

    /// Writes of one key that wait for a lock, and whose clients do not.
    fn abandoned(&self) -> Outcome<String> {
        let key = json!(["abandoned"]).to_string();
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let busy = scope.spawn(|| {
                let mut calls = 0;
                while !over.load(Ordering::SeqCst) {
                    self.call("busy", "abandoned")?;
                    calls += 1;
                }
                Outcome::Ok(calls)
            });
            let sent = crowds::abandoned(self.server(), &self.client, ITEMS, &key, ABANDONED);
            over.store(true, Ordering::SeqCst);
            let calls = busy.join().map_err(|_| "the caller panicked")??;
            // The lock is handed along all who are gone, and then to us.
            self.write("abandoned", "last")?;
            Ok(format!("{} writes abandoned while {calls} scripts held their key", sent?))
        })
    }

    /// Items that bring nothing but names nobody has seen.
    fn wide(&self) -> Outcome<String> {
        let statuses = at_once(WIDE, |number| {
            let mut item = serde_json::Map::new();
            item.insert("id".into(), json!(format!("wide{number}")));
            item.insert("pk".into(), json!(format!("wide{number}")));
            for name in 0..WIDE_NAMES {
                item.insert(format!("w{number}n{name}"), json!(name));
            }
            let key = json!([format!("wide{number}")]).to_string();
            let answer =
                self.client.send("POST", ITEMS, &[(KEY_HEADER, &key)], Some(&item.into()))?;
            Ok(answer.status)
        })?;
        Ok(format!("{WIDE} items of {WIDE_NAMES} new names: {statuses:?}"))
    }

    fn scripts(&self) -> Outcome<String> {
        let statuses = at_once(HOSTILE, |number| {
            let script = number % HOSTILE_SCRIPTS.len();
            self.call(&format!("hostile{script}"), &format!("hostile{number}"))
        })?;
        // Their keys are free again, and scripts still run.
        for number in 0..HOSTILE {
            self.write(&format!("hostile{number}"), "afterwards")?;
        }
        Ok(format!("{HOSTILE} scripts: {statuses:?}"))
    }

    fn regexes(&self) -> Outcome<String> {
        let statuses = at_once(HOSTILE, |_| {
            let key = json!(["long"]).to_string();
            let query = json!({"query": HEAVY_QUERY, "parameters": []});
            let headers = [(KEY_HEADER, key.as_str()), QUERY_HEADER];
            let client = self.client.patient(CROWD_WITHIN);
            Ok(client.send("POST", ITEMS, &headers, Some(&query))?.status)
        })?;
        Ok(format!("{HOSTILE} queries: {statuses:?}"))
    }

    fn call(&self, script: &str, key: &str) -> Outcome<u16> {
        let key = json!([key]).to_string();
        let path = format!("{CONTAINER}/sprocs/{script}");
        let client = self.client.patient(CROWD_WITHIN);
        Ok(client.send("POST", &path, &[(KEY_HEADER, &key)], Some(&json!([])))?.status)
    }
}

fn expect_success(path: &str, answer: &crate::rest::Answer) -> Outcome<()> {
    if answer.is_success() {
        return Ok(());
    }
    Err(format!("{path} answered {}: {}", answer.status, answer.body).into())
}

/// Does so many things at the same time and returns what each said; all must come to an end.
fn at_once(count: usize, act: impl Fn(usize) -> Outcome<u16> + Sync) -> Outcome<Vec<u16>> {
    thread::scope(|scope| {
        let act = &act;
        let running: Vec<_> = (0..count).map(|number| scope.spawn(move || act(number))).collect();
        let ended =
            running.into_iter().map(|one| one.join().map_err(|_| "one of a crowd panicked")?);
        ended.collect()
    })
}
