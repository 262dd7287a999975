//! What clients were told, and whether the account still says so.
//!
//! A register is an item that one writer raises by one again and again: whatever is read must be at least what was acknowledged before the
//! read began, and at most what was ever sent. A counter is raised by patches of many writers: in the end it must be at least what was
//! acknowledged, and at most that plus what nobody knows.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Outcome;
use crate::rest::{Answer, Client};

pub(super) const REGISTERS: usize = 24;
const COUNTERS: usize = 4;
/// Items at most.
pub(super) const ITEMS: usize = REGISTERS + COUNTERS;
const DATABASE: &str = "/dbs/cluster";
pub(super) const CONTAINER: &str = "/dbs/cluster/colls/items";
pub(super) const KEY_HEADER: &str = "x-ms-documentdb-partitionkey";
/// How long the account may take until it answers after everything was mended.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Somebody who asks: through a node, or in Direct mode.
pub(super) trait Ask {
    /// Sends one request. An error means that nobody knows what became of it.
    fn ask(
        &self,
        verb: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Outcome<Answer>;
}

impl Ask for Client {
    fn ask(
        &self,
        verb: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Outcome<Answer> {
        self.send(verb, path, headers, body)
    }
}

/// What was told, by register and counter.
#[derive(Default)]
pub(super) struct History {
    acknowledged: [AtomicU64; REGISTERS],
    sent: [AtomicU64; REGISTERS],
    counted: [AtomicU64; COUNTERS],
    doubtful: [AtomicU64; COUNTERS],
    pub(super) reads: AtomicU64,
    pub(super) throttled: AtomicU64,
    pub(super) unknown: AtomicU64,
}

/// What an answer to a write says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Done,
    NotDone,
    Unknown,
}

fn told(answer: &Outcome<Answer>) -> Outcome<Told> {
    Ok(match answer {
        Err(_) => Told::Unknown,
        Ok(answer) if answer.is_success() => Told::Done,
        Ok(answer) => match answer.status {
            429 => Told::NotDone,
            408 => Told::Unknown,
            other => return Err(format!("a write was answered {other}: {}", answer.body).into()),
        },
    })
}

impl History {
    /// Makes the container, its registers and its counters.
    pub(super) fn prepare(&self, client: &Client) -> Outcome<()> {
        self.insist(client, "POST", "/dbs", &json!({ "id": "cluster" }))?;
        let definition =
            json!({ "id": "items", "partitionKey": { "paths": ["/pk"], "kind": "Hash" } });
        self.insist(client, "POST", &format!("{DATABASE}/colls"), &definition)?;
        for counter in 0..COUNTERS {
            let item = json!({ "id": name("c", counter), "pk": name("c", counter), "n": 0 });
            insist_item(client, &item)?;
        }
        Ok(())
    }

    fn insist(&self, client: &Client, verb: &str, path: &str, body: &Value) -> Outcome<()> {
        let answer = patiently(|| client.send(verb, path, &[], Some(body)))?;
        match answer.status {
            200..=299 | 409 => Ok(()),
            other => Err(format!("{verb} {path} was answered {other}: {}", answer.body).into()),
        }
    }

    /// Raises a register by one through a node. Only one thread may write a register.
    pub(super) fn write(&self, client: &impl Ask, register: usize) -> Outcome<()> {
        let value = self.sent[register].fetch_add(1, Ordering::SeqCst) + 1;
        let id = name("r", register);
        let item = json!({ "id": id, "pk": id, "n": value, "text": "x".repeat(200) });
        let answer = client.ask("POST", &format!("{CONTAINER}/docs"), &headers(&id), Some(&item));
        match told(&answer)? {
            Told::Done => self.acknowledged[register].store(value, Ordering::SeqCst),
            Told::NotDone => drop(self.throttled.fetch_add(1, Ordering::Relaxed)),
            Told::Unknown => drop(self.unknown.fetch_add(1, Ordering::Relaxed)),
        }
        Ok(())
    }

    /// Raises a counter by one through a node.
    pub(super) fn count(&self, client: &impl Ask, at: usize) -> Outcome<()> {
        let counter = at % COUNTERS;
        let id = name("c", counter);
        let patch = json!({ "operations": [{ "op": "incr", "path": "/n", "value": 1 }] });
        let path = format!("{CONTAINER}/docs/{id}");
        let answer = client.ask("PATCH", &path, &headers(&id), Some(&patch));
        match told(&answer)? {
            Told::Done => self.counted[counter].fetch_add(1, Ordering::SeqCst),
            Told::NotDone => self.throttled.fetch_add(1, Ordering::Relaxed),
            Told::Unknown => self.doubtful[counter].fetch_add(1, Ordering::SeqCst),
        };
        Ok(())
    }

    /// Reads a register through a node; an old value is an error.
    pub(super) fn read(&self, client: &impl Ask, register: usize) -> Outcome<()> {
        let least = self.acknowledged[register].load(Ordering::SeqCst);
        let id = name("r", register);
        let path = format!("{CONTAINER}/docs/{id}");
        // No answer is no wrong answer.
        let Ok(answer) = client.ask("GET", &path, &headers(&id), None) else { return Ok(()) };
        let most = self.sent[register].load(Ordering::SeqCst);
        let found = match answer.status {
            200 => answer.body["n"].as_u64().unwrap_or(0),
            404 => 0,
            408 | 429 => return Ok(()),
            other => return Err(format!("a read was answered {other}: {}", answer.body).into()),
        };
        self.reads.fetch_add(1, Ordering::Relaxed);
        if (least..=most).contains(&found) {
            return Ok(());
        }
        Err(format!(
            "register {register} reads {found}; {least} was acknowledged before, {most} was sent"
        )
        .into())
    }

    /// Writes every register a few times, without anything going wrong.
    pub(super) fn write_some(&self, client: &Client, times: u64) -> Outcome<()> {
        let before = self.writes();
        for time in 0..times {
            let register = usize::try_from(time)? % REGISTERS;
            patiently(|| {
                let acknowledged = self.acknowledged[register].load(Ordering::SeqCst);
                self.write(client, register)?;
                let now = self.acknowledged[register].load(Ordering::SeqCst);
                if now > acknowledged { Ok(()) } else { Err("not acknowledged".into()) }
            })?;
        }
        if self.writes() >= before + times { Ok(()) } else { Err("writes are missing".into()) }
    }

    /// How many writes were acknowledged.
    pub(super) fn writes(&self) -> u64 {
        let sum = |all: &[AtomicU64]| all.iter().map(|one| one.load(Ordering::SeqCst)).sum::<u64>();
        sum(&self.acknowledged) + sum(&self.counted)
    }

    /// Whether everything that was told is there, and nothing twice.
    pub(super) fn judge(&self, client: &impl Ask) -> Outcome<()> {
        for register in 0..REGISTERS {
            let reads = self.reads.load(Ordering::Relaxed);
            patiently(|| {
                self.read(client, register).map_err(|error| Wrong(error.to_string()))?;
                let now = self.reads.load(Ordering::Relaxed);
                if now > reads { Ok(()) } else { Err("not answered".into()) }
            })?;
        }
        for counter in 0..COUNTERS {
            let id = name("c", counter);
            let path = format!("{CONTAINER}/docs/{id}");
            let answer = patiently(|| match client.ask("GET", &path, &headers(&id), None) {
                Ok(answer) if answer.status != 429 => Ok(answer),
                _ => Err("not answered".into()),
            })?;
            let found = answer.body["n"].as_u64().unwrap_or(0);
            let least = self.counted[counter].load(Ordering::SeqCst);
            let most = least + self.doubtful[counter].load(Ordering::SeqCst);
            if !(least..=most).contains(&found) {
                let wrong = format!("counter {counter} is {found}, not between {least} and {most}");
                return Err(wrong.into());
            }
        }
        Ok(())
    }
}

/// Something that waiting does not mend.
#[derive(Debug)]
struct Wrong(String);

impl std::fmt::Display for Wrong {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Wrong {}

/// Tries until it works, for a bounded time.
fn patiently<T>(mut act: impl FnMut() -> Outcome<T>) -> Outcome<T> {
    let end = Instant::now() + ANSWER_WITHIN;
    loop {
        match act() {
            Ok(done) => return Ok(done),
            Err(error) if error.is::<Wrong>() || Instant::now() > end => return Err(error),
            Err(_) => thread::sleep(RETRY_PAUSE),
        }
    }
}

fn insist_item(client: &Client, item: &Value) -> Outcome<()> {
    let id = item["id"].as_str().unwrap_or_default();
    let path = format!("{CONTAINER}/docs");
    patiently(|| {
        let answer = client.send("POST", &path, &headers(id), Some(item))?;
        match answer.status {
            201 | 409 => Ok(()),
            other => Err(format!("an item was answered {other}: {}", answer.body).into()),
        }
    })
}

fn name(kind: &str, number: usize) -> String {
    format!("{kind}{number}")
}

/// The key of a logical partition, and that the item may be there already.
fn headers(id: &str) -> [(&'static str, &'static str); 2] {
    [
        (KEY_HEADER, Box::leak(format!("[\"{id}\"]").into_boxed_str())),
        ("x-ms-documentdb-is-upsert", "True"),
    ]
}
