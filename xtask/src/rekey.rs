//! `cargo xtask rekey`: a container gets another partition key, again and again, under eight writers, while the server and the
//! command are killed (SIGKILL) at random moments.
//!
//! Each writer owns its items, so the model of what must be there is exact but for one request in doubt per kill. Whatever
//! happens, the re-key is gone on with by running the same command again; now and then it is given up and begun anew. When the container has
//! its new key, it must hold exactly what was acknowledged, by the old container before and the new one after.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::arguments::{Arguments, Choice};
use crate::rest::{Answer, Client};
use crate::server::{self, Server};
use crate::summary::{Row, Summary};
use crate::workspace::{self, Profile};
use crate::{Outcome, processes};

const WRITERS: u64 = 8;
const IDS_PER_WRITER: u64 = 40;
const CYCLES_DEFAULT: u64 = 2;
/// The moment of a kill, counted from the start of the command.
const KILL_AFTER_MS: std::ops::Range<u64> = 5..1_500;
/// So many commands of a cycle, at most, are killed or have their server killed; then one is left alone.
const INTERRUPTED_MAX: u32 = 8;
/// Items that nobody writes to after the start.
const STILL_ITEMS: u64 = 1_500;
const CYCLE_WITHIN: Duration = Duration::from_secs(300);
const CONTAINER: &str = "/dbs/rekey/colls/items";
const REKEY: &str = "/_armilla/rekey/dbs/rekey/colls/items";
const KEY_HEADER: &str = "x-ms-documentdb-partitionkey";
/// What writers rest between two requests, so that a copy can follow on a small machine.
const PAUSE: Duration = Duration::from_millis(2);
const SYSTEM: [&str; 5] = ["_rid", "_self", "_etag", "_attachments", "_ts"];

const ABOUT: &str = "\
Re-keys a container there and back while eight clients write and the server and the command are killed (SIGKILL) at random
moments; every acknowledged write must be in the container under its new key.";

const CHOICES: &[Choice] = &[
    Choice { name: "cycles", value: "N", meaning: "How many re-keys (default 2)" },
    Choice { name: "seed", value: "N", meaning: "Repeat the choices of an earlier run" },
    Choice { name: "binary", value: "PATH", meaning: "The server to test, instead of building it" },
];

/// The chore: reads its options, runs, prints the closing line.
pub(crate) fn rekey(words: &[OsString]) -> Outcome<bool> {
    let Some(arguments) = Arguments::parse("rekey", ABOUT, CHOICES, words)? else {
        return Ok(true);
    };
    let binary = match arguments.text("binary") {
        Some(path) => PathBuf::from(path).canonicalize()?,
        None => workspace::build_server(Profile::Dev)?,
    };
    let cycles = arguments.number("cycles", CYCLES_DEFAULT)?;
    let seed = arguments.number("seed", fastrand::u64(0..1_000_000))?;
    let mut summary = Summary::default();
    summary.add(run_with(&binary, cycles, seed));
    Ok(summary.close())
}

/// The usual run, as part of all tests.
pub(crate) fn run(binary: &Path) -> Row {
    run_with(binary, CYCLES_DEFAULT, fastrand::u64(0..1_000_000))
}

fn run_with(binary: &Path, cycles: u64, seed: u64) -> Row {
    let name = "re-keys under kills";
    processes::announce(&format!("re-keys: {WRITERS} writers, {cycles} cycles, seed {seed}"));
    let started = Instant::now();
    let outcome = RekeyTrial::new(binary, seed).and_then(|mut trial| {
        let log = trial.log();
        trial.run(cycles).map_err(|error| format!("{error}; {}", server::tail(&log)).into())
    });
    match outcome {
        Ok(note) => {
            Row { name: name.into(), passed: cycles, failed: 0, took: started.elapsed(), note }
        }
        Err(error) => Row::broken(name, started.elapsed(), format!("seed {seed}: {error}")),
    }
}

/// One data folder, the model of what is in it, and the source of every choice.
struct RekeyTrial {
    binary: PathBuf,
    folder: tempfile::TempDir,
    port: u16,
    random: fastrand::Rng,
    writers: Vec<RekeyWriter>,
    still: BTreeMap<String, Value>,
    kills: u64,
    interruptions: u64,
    undone: u64,
}

/// What writers are told.
#[derive(Default)]
struct Signs {
    /// The server is being killed, or is not up again.
    down: AtomicBool,
    /// Starts of the server.
    epoch: AtomicU64,
    over: AtomicBool,
}

/// A writer, and what it knows to be stored.
struct RekeyWriter {
    number: u64,
    random: fastrand::Rng,
    /// Which property is the partition key, as far as it knows.
    key: &'static str,
    items: BTreeMap<String, Value>,
    doubt: Option<(String, Option<Value>)>,
    marker: u64,
    acknowledged: u64,
    put_off: u64,
}

impl RekeyTrial {
    fn new(binary: &Path, seed: u64) -> Outcome<Self> {
        let mut random = fastrand::Rng::with_seed(seed);
        let writer = |number| RekeyWriter {
            number,
            random: random.fork(),
            key: "pk",
            items: BTreeMap::new(),
            doubt: None,
            marker: 0,
            acknowledged: 0,
            put_off: 0,
        };
        let writers = (0..WRITERS).map(writer).collect();
        let folder = tempfile::Builder::new().prefix("armilla-rekey-").tempdir()?;
        let (binary, port) = (binary.to_owned(), server::free_port()?);
        let (kills, interruptions, undone) = (0, 0, 0);
        let still = BTreeMap::new();
        Ok(Self { binary, folder, port, random, writers, still, kills, interruptions, undone })
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("server.log")
    }

    fn start(&self) -> Outcome<Server> {
        Server::start_at(self.port, &self.binary, &self.data(), &self.log(), &[])
    }

    fn run(&mut self, cycles: u64) -> Outcome<String> {
        let mut server = self.start()?;
        create(&server.client())?;
        self.fill(&server.client())?;
        for cycle in 0..cycles {
            let key = if cycle % 2 == 0 { "k" } else { "pk" };
            server = self.cycle(server, key)?;
            let client = server.client();
            self.check(&client)?;
            let old = format!("{CONTAINER}-before-rekey");
            expect(&client.send("DELETE", &old, &[], None)?, 204, "deleting the old container")?;
        }
        server.stop()?;
        verify(&self.binary, &self.data())?;
        let acknowledged: u64 = self.writers.iter().map(|writer| writer.acknowledged).sum();
        let put_off: u64 = self.writers.iter().map(|writer| writer.put_off).sum();
        let Self { kills, interruptions, undone, .. } = self;
        Ok(format!(
            "{acknowledged} acknowledged writes, {put_off} put off, {kills} kills of the server, {interruptions} of the command, {undone} undone"
        ))
    }

    fn fill(&mut self, client: &Client) -> Outcome<()> {
        for number in 0..STILL_ITEMS {
            let (id, pk) = (format!("still-{number}"), format!("p{}", number % 90));
            let item = json!({"id": id, "pk": pk, "k": format!("k{}", number % 77), "marker": 0});
            let key = json!([pk]).to_string();
            let path = format!("{CONTAINER}/docs");
            let answer = client.send("POST", &path, &[(KEY_HEADER, &key)], Some(&item))?;
            expect(&answer, 201, "filling the container")?;
            self.still.insert(id, item);
        }
        Ok(())
    }

    /// Re-keys the container under writers, whatever is killed meanwhile.
    fn cycle(&mut self, server: Server, key: &str) -> Outcome<Server> {
        let signs = Signs::default();
        let client = server.client();
        let mut writers = std::mem::take(&mut self.writers);
        let outcome = thread::scope(|scope| {
            let running: Vec<_> = writers
                .iter_mut()
                .map(|writer| {
                    let (client, signs) = (client.clone(), &signs);
                    scope.spawn(move || writer.run(&client, signs))
                })
                .collect();
            let driven = self.drive(server, key, &signs);
            signs.over.store(true, Ordering::SeqCst);
            for writer in running {
                writer.join().map_err(|_| "a writer panicked")??;
            }
            driven
        });
        self.writers = writers;
        outcome
    }

    /// Runs the command until the container has the key; the server that runs in the end.
    fn drive(&mut self, server: Server, key: &str, signs: &Signs) -> Outcome<Server> {
        let deadline = Instant::now() + CYCLE_WITHIN;
        let mut server = Some(server);
        let mut left = self.random.u32(2..=INTERRUPTED_MAX);
        loop {
            let running = server.take().ok_or("no server runs")?;
            if key_of(&running.client())? == key {
                return Ok(running);
            }
            if Instant::now() > deadline {
                return Err("the container never gets its new key".into());
            }
            if self.random.u32(0..4) == 0 {
                let answer = running.client().send("DELETE", REKEY, &[], None)?;
                self.undone += u64::from(answer.status == 204);
            }
            let mut command = self.command(key)?;
            if left == 0 {
                command.wait()?;
                server = Some(running);
                continue;
            }
            left -= 1;
            thread::sleep(Duration::from_millis(self.random.u64(KILL_AFTER_MS)));
            let of_server = self.random.bool();
            if !of_server || self.random.u32(0..3) == 0 {
                command.kill()?;
                self.interruptions += 1;
            }
            server = Some(if of_server { self.kill(running, signs)? } else { running });
            command.wait()?;
        }
    }

    fn kill(&mut self, server: Server, signs: &Signs) -> Outcome<Server> {
        signs.down.store(true, Ordering::SeqCst);
        server.kill()?;
        self.kills += 1;
        verify(&self.binary, &self.data())?;
        let server = self.start()?;
        signs.epoch.fetch_add(1, Ordering::SeqCst);
        signs.down.store(false, Ordering::SeqCst);
        Ok(server)
    }

    fn command(&self, key: &str) -> Outcome<Child> {
        let mut command = Command::new(&self.binary);
        server::forget_settings(&mut command);
        let endpoint = format!("http://127.0.0.1:{}/", self.port);
        let said = std::fs::File::options().create(true).append(true).open(self.log())?;
        let command = command
            .args(["rekey", "--endpoint", &endpoint, "--database", "rekey", "--container", "items"])
            .args(["--partition-key", &format!("/{key}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(said)
            .spawn()?;
        Ok(command)
    }

    /// The container holds what was acknowledged, and nothing else.
    fn check(&mut self, client: &Client) -> Outcome<()> {
        for writer in &mut self.writers {
            writer.learn(client)?;
        }
        let mut expected = self.still.clone();
        self.writers.iter().for_each(|writer| expected.extend(writer.items.clone()));
        let mut found = BTreeMap::new();
        for item in everything(client)? {
            let id = item["id"].as_str().unwrap_or_default().to_owned();
            if found.insert(id.clone(), stripped(item)).is_some() {
                return Err(format!("{id} is there twice").into());
            }
        }
        let lost = expected.iter().find(|(id, item)| found.get(*id) != Some(item));
        if let Some((id, item)) = lost {
            return Err(
                format!("{id} was acknowledged as {item}, and is {:?}", found.get(id)).into()
            );
        }
        match found.keys().find(|id| !expected.contains_key(*id)) {
            Some(id) => Err(format!("{id} should not be there").into()),
            None => Ok(()),
        }
    }
}

impl RekeyWriter {
    fn run(&mut self, client: &Client, signs: &Signs) -> Outcome<()> {
        let mut epoch = signs.epoch.load(Ordering::SeqCst);
        while !signs.over.load(Ordering::SeqCst) {
            thread::sleep(PAUSE);
            let now = signs.epoch.load(Ordering::SeqCst);
            if signs.down.load(Ordering::SeqCst) {
                continue;
            }
            let done = if self.doubt.is_some() { self.learn(client) } else { self.write(client) };
            match done {
                Ok(()) => epoch = now,
                // The server was killed, or a kept connection was to the one that was.
                Err(_)
                    if signs.down.load(Ordering::SeqCst)
                        || epoch != signs.epoch.load(Ordering::SeqCst) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// One write; what becomes of it is in doubt until the answer is there.
    fn write(&mut self, client: &Client) -> Outcome<()> {
        let id = format!("w{}-{}", self.number, self.random.u64(0..IDS_PER_WRITER));
        let known = self.items.get(&id).cloned();
        if let Some(known) = known.as_ref().filter(|_| self.random.u32(0..5) == 0) {
            let path = format!("{CONTAINER}/docs/{id}");
            self.doubt = Some((id.clone(), None));
            let answer =
                client.send("DELETE", &path, &[(KEY_HEADER, &self.header(known))], None)?;
            return self.take(answer, &id, None);
        }
        self.marker += 1;
        // The property that is no key may change; the other one is part of who the item is.
        let mut item = json!({
            "id": id, "marker": self.marker,
            "pk": format!("p{}", self.random.u64(0..6)), "k": format!("k{}", self.random.u64(0..6)),
        });
        if let Some(known) = &known {
            item[self.key] = known[self.key].clone();
        }
        self.doubt = Some((id.clone(), Some(item.clone())));
        let headers = [(KEY_HEADER, &*self.header(&item)), ("x-ms-documentdb-is-upsert", "True")];
        let answer = client.send("POST", &format!("{CONTAINER}/docs"), &headers, Some(&item))?;
        self.take(answer, &id, Some(item))
    }

    /// Takes an answer up. Refused for its key, or not found although it is there, means that the container has another key.
    fn take(&mut self, answer: Answer, id: &str, item: Option<Value>) -> Outcome<()> {
        match (answer.status, &item) {
            (200 | 201, Some(_)) | (204, None) => {
                self.acknowledged += 1;
                match item {
                    Some(item) => drop(self.items.insert(id.to_owned(), item)),
                    None => drop(self.items.remove(id)),
                }
            }
            (429, _) => self.put_off += 1,
            (400, Some(_)) if answer.header("x-ms-substatus") == Some("1001") => self.turn(),
            (404, None) => self.turn(),
            (status, _) => {
                return Err(format!("a write of {id} answered {status}: {}", answer.body).into());
            }
        }
        self.doubt = None;
        Ok(())
    }

    fn turn(&mut self) {
        self.key = if self.key == "pk" { "k" } else { "pk" };
    }

    fn header(&self, item: &Value) -> String {
        json!([item[self.key]]).to_string()
    }

    /// Learns how the request in doubt ended, by looking for the item wherever it may be.
    fn learn(&mut self, client: &Client) -> Outcome<()> {
        let Some((id, content)) = self.doubt.clone() else { return Ok(()) };
        let body = json!({
            "query": "SELECT * FROM c WHERE c.id = @id",
            "parameters": [{"name": "@id", "value": id}],
        });
        let headers = [
            ("x-ms-documentdb-isquery", "True"),
            ("x-ms-documentdb-query-enablecrosspartition", "True"),
        ];
        let answer = client.send("POST", &format!("{CONTAINER}/docs"), &headers, Some(&body))?;
        if answer.status == 429 {
            return Ok(());
        }
        expect(&answer, 200, "looking for an item")?;
        let rows = answer.body["Documents"].as_array().cloned().unwrap_or_default();
        let shown = rows.into_iter().map(stripped).next();
        let before = self.items.get(&id).cloned();
        if shown != content && shown != before {
            return Err(
                format!("{id} is {shown:?}; it was {before:?}, and {content:?} was sent").into()
            );
        }
        match shown {
            Some(item) => drop(self.items.insert(id, item)),
            None => drop(self.items.remove(&id)),
        }
        self.doubt = None;
        Ok(())
    }
}

fn create(client: &Client) -> Outcome<()> {
    let container = json!({
        "id": "items", "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}, "defaultTtl": -1,
    });
    let database = client.send("POST", "/dbs", &[], Some(&json!({"id": "rekey"})))?;
    expect(&database, 201, "creating the database")?;
    let container = client.send("POST", "/dbs/rekey/colls", &[], Some(&container))?;
    expect(&container, 201, "creating the container")
}

/// The property that is the container's partition key.
fn key_of(client: &Client) -> Outcome<String> {
    let answer = client.send("GET", CONTAINER, &[], None)?;
    expect(&answer, 200, "reading the container")?;
    let path = answer.body["partitionKey"]["paths"][0].as_str().unwrap_or_default();
    Ok(path.trim_start_matches('/').to_owned())
}

fn everything(client: &Client) -> Outcome<Vec<Value>> {
    let (mut rows, mut continuation) = (Vec::new(), None::<String>);
    loop {
        let mut headers = vec![("x-ms-max-item-count", "1000")];
        headers.extend(continuation.iter().map(|token| ("x-ms-continuation", token.as_str())));
        let answer = client.send("GET", &format!("{CONTAINER}/docs"), &headers, None)?;
        expect(&answer, 200, "listing the items")?;
        rows.extend(answer.body["Documents"].as_array().cloned().unwrap_or_default());
        continuation = answer.header("x-ms-continuation").map(str::to_owned);
        if continuation.is_none() {
            return Ok(rows);
        }
    }
}

fn stripped(mut item: Value) -> Value {
    if let Some(members) = item.as_object_mut() {
        members.retain(|name, _| !SYSTEM.contains(&name.as_str()));
    }
    item
}

fn expect(answer: &Answer, status: u16, what: &str) -> Outcome<()> {
    if answer.status == status {
        return Ok(());
    }
    Err(format!("{what} answered {}: {}", answer.status, answer.body).into())
}

fn verify(binary: &Path, data: &Path) -> Outcome<()> {
    let output = Command::new(binary).args(["verify", "--data"]).arg(data).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned()
        + &String::from_utf8_lossy(&output.stdout);
    Err(format!("`armilla verify` ended with {}: {}", output.status, said.trim()).into())
}
