//! Subscriptions under kills: what procedures do happens exactly once, what webhooks are sent comes at least once,
//! under one key, in order.
//!
//! Each event writer owns a logical partition. It creates *events*, which never change, and *lives*, items that are
//! created, replaced and deleted. Three subscriptions follow:
//!
//! - `count` (latest versions, procedure) counts the events of its partition in an item beside them;
//! - `tally` (all versions and deletes, procedure) writes down every step of every life, in order;
//! - `hook` (latest versions, webhook) sends the events to a receiver that remembers them ([`Hook`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::CONTAINER;
use super::check::{query, read_item};
use super::hook::Hook;
use super::model::{KEY_HEADER, key_header};
use crate::Outcome;
use crate::rest::Client;

/// How the keys of these partitions begin.
pub(crate) const PREFIX: &str = "event-";
const WRITERS: u64 = 4;
/// Steps of a life, after which another begins.
const STEPS_MAX: usize = 24;
/// How long subscriptions may take until everything is delivered.
const DELIVERED_WITHIN: Duration = Duration::from_secs(90);

const COUNT: &str = r#"function (entries) {
    var all = getContext().getCollection();
    all.readDocument(all.getAltLink() + "/docs/counter", function (error, counter) {
        if (error && error.number !== 404) throw error;
        var fresh = { id: "counter", pk: entries[0].partitionKey[0], type: "counter", n: 0, keys: [] };
        counter = error ? fresh : counter;
        entries.forEach(function (entry) { counter.n += 1; counter.keys.push(entry.key); });
        if (!all.upsertDocument(all.getSelfLink(), counter)) throw new Error("no time");
    });
}"#;

const TALLY: &str = r#"function (entries) {
    var all = getContext().getCollection();
    next(0);
    function next(at) {
        if (at === entries.length) return;
        var entry = entries[at];
        var taken = all.readDocument(all.getAltLink() + "/docs/tally-" + entry.id, function (error, tally) {
            if (error && error.number !== 404) throw error;
            var fresh = { id: "tally-" + entry.id, pk: entry.partitionKey[0], type: "tally", steps: [] };
            tally = error ? fresh : tally;
            tally.steps.push(entry.operation === "delete" ? "-" : String(entry.item.step));
            if (!all.upsertDocument(all.getSelfLink(), tally, function (error) {
                if (error) throw error;
                next(at + 1);
            })) throw new Error("no time");
        });
        if (!taken) throw new Error("no time");
    }
}"#;

/// The event writers, and the receiver of webhooks.
pub(crate) struct Events {
    writers: Vec<EventWriter>,
    hook: Hook,
}

/// One logical partition of events and lives.
struct EventWriter {
    key: String,
    random: fastrand::Rng,
    next: u64,
    events: BTreeSet<String>,
    /// The steps of each life: numbers of its versions, and a dash for its delete.
    lives: BTreeMap<String, Vec<String>>,
    doubt: Option<Doubt>,
}

/// A request whose answer did not come.
enum Doubt {
    Events(Vec<String>),
    Step(String, String),
}

/// What a look at the partitions found.
#[derive(PartialEq, Eq)]
enum Look {
    Whole,
    /// Something is still to come.
    Behind(String),
}

impl Events {
    pub(crate) fn new(random: &mut fastrand::Rng) -> Outcome<Self> {
        let writer = |number| EventWriter {
            key: format!("{PREFIX}{number}"),
            random: random.fork(),
            next: 0,
            events: BTreeSet::new(),
            lives: BTreeMap::new(),
            doubt: None,
        };
        let writers = (0..WRITERS).map(writer).collect();
        Ok(Self { writers, hook: Hook::listen(random.fork())? })
    }

    /// What the server must be told so that it calls the receiver.
    pub(crate) fn options(&self) -> [String; 2] {
        ["--webhooks".to_owned(), self.hook.address()]
    }

    /// Creates procedures and subscriptions.
    pub(crate) fn subscribe(&self, client: &Client) -> Outcome<()> {
        for (id, body) in [("count", COUNT), ("tally", TALLY)] {
            let script = json!({"id": id, "body": body});
            let answer = client.send("POST", &format!("{CONTAINER}/sprocs"), &[], Some(&script))?;
            if answer.status != 201 {
                return Err(format!("the procedure {id} was refused: {}", answer.body).into());
            }
        }
        let retry = json!({"maxAttempts": -1, "minDelayMs": 5, "maxDelayMs": 100});
        let events = json!({"where": "c.type = 'event'", "operations": ["create"]});
        let hook = json!({"kind": "webhook", "url": format!("{}/events", self.hook.address())});
        let steps = json!({"where": "c.type = 'life' OR previous.type = 'life'"});
        for (id, mode, filter, target) in [
            ("count", "latest", &events, json!({"kind": "sproc", "id": "count"})),
            ("hook", "latest", &events, hook),
            ("tally", "allVersionsAndDeletes", &steps, json!({"kind": "sproc", "id": "tally"})),
        ] {
            let body = json!({
                "id": id, "feed": {"mode": mode, "start": "now"}, "filter": filter, "target": target,
                "retry": retry, "batch": {"maxItems": 7},
            });
            let path = format!("/_armilla/subs{CONTAINER}");
            let answer = client.send("POST", &path, &[], Some(&body))?;
            if answer.status != 201 {
                return Err(format!("the subscription {id} was refused: {}", answer.body).into());
            }
        }
        Ok(())
    }

    /// Runs every writer until the server is killed.
    pub(crate) fn write(&mut self, client: &Client, killed: &AtomicBool) -> Outcome<()> {
        thread::scope(|scope| {
            let running: Vec<_> = self
                .writers
                .iter_mut()
                .map(|writer| scope.spawn(move || writer.run(client, killed)))
                .collect();
            running
                .into_iter()
                .try_for_each(|writer| writer.join().map_err(|_| "an event writer panicked")?)
        })
    }

    /// Learns how requests in doubt ended, and waits until every effect is there, once.
    pub(crate) fn check(&mut self, client: &Client) -> Outcome<()> {
        self.writers.iter_mut().try_for_each(|writer| writer.learn(client))?;
        let deadline = Instant::now() + DELIVERED_WITHIN;
        loop {
            let look = self.look(client)?;
            let Look::Behind(what) = look else { return Ok(()) };
            if Instant::now() > deadline {
                return Err(format!("subscriptions do not come to an end: {what}").into());
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Lets every subscription rest and go on again, and checks what is told of it.
    pub(crate) fn rest(&self, client: &Client) -> Outcome<()> {
        for id in ["count", "hook", "tally"] {
            let path = format!("/_armilla/subs{CONTAINER}/{id}");
            for (part, state) in [("pause", "paused"), ("resume", "running")] {
                let answer = client.send("POST", &format!("{path}/{part}"), &[], None)?;
                let status = client.send("GET", &format!("{path}/status"), &[], None)?;
                let told = status.body["state"].as_str().unwrap_or_default();
                if answer.status != 204 || told != state {
                    let (answer, told) = (answer.status, status.body.to_string());
                    return Err(format!("{part} of {id} was answered {answer}: {told}").into());
                }
                let ranges = status.body["ranges"].as_array().map_or(0, Vec::len);
                let all = client.send("GET", &format!("{CONTAINER}/pkranges"), &[], None)?;
                let all = all.body["PartitionKeyRanges"].as_array().map_or(0, Vec::len);
                if ranges != all {
                    return Err(format!("{id} tells of {ranges} ranges of {all}").into());
                }
            }
        }
        Ok(())
    }

    fn look(&self, client: &Client) -> Outcome<Look> {
        for writer in &self.writers {
            let look = writer.look(client)?;
            if look != Look::Whole {
                return Ok(look);
            }
        }
        let sent: BTreeSet<String> = self.hook.ids()?.into_iter().collect();
        let made: BTreeSet<&String> = self.writers.iter().flat_map(|one| &one.events).collect();
        if let Some(odd) = sent.iter().find(|id| !made.contains(id)) {
            return Err(format!("the webhook was sent {odd}, which is not stored").into());
        }
        match made.iter().find(|id| !sent.contains(**id)) {
            Some(id) => Ok(Look::Behind(format!("the webhook was not sent {id}"))),
            None => Ok(Look::Whole),
        }
    }

    /// What was counted, for the closing line.
    pub(crate) fn told(&self) -> String {
        let steps: usize =
            self.writers.iter().flat_map(|one| one.lives.values().map(Vec::len)).sum();
        let events: usize = self.writers.iter().map(|one| one.events.len()).sum();
        let (sent, again) = self.hook.counts();
        format!(
            "{events} events and {steps} steps with one effect each, {sent} sent to a webhook, {again} again"
        )
    }
}

impl EventWriter {
    fn run(&mut self, client: &Client, killed: &AtomicBool) -> Outcome<()> {
        while !killed.load(Ordering::SeqCst) {
            let goes_on = if self.random.bool() {
                self.create_events(client, killed)?
            } else {
                self.live_on(client, killed)?
            };
            if !goes_on {
                return Ok(());
            }
        }
        Ok(())
    }

    /// One transaction of one to three events.
    fn create_events(&mut self, client: &Client, killed: &AtomicBool) -> Outcome<bool> {
        let first = self.next;
        self.next += self.random.u64(1..=3);
        let ids: Vec<String> =
            (first..self.next).map(|number| format!("{}-e{number}", self.key)).collect();
        let create = |id: &String| {
            let item = json!({"id": id, "pk": self.key, "type": "event"});
            json!({"operationType": "Create", "resourceBody": item})
        };
        let body = Value::Array(ids.iter().map(create).collect());
        let key = key_header(&self.key);
        let headers = [
            (KEY_HEADER, key.as_str()),
            ("x-ms-cosmos-is-batch-request", "True"),
            ("x-ms-cosmos-batch-atomic", "True"),
            ("x-ms-cosmos-batch-continue-on-error", "False"),
        ];
        match sent(client, killed, ("POST", &format!("{CONTAINER}/docs")), &headers, Some(&body))? {
            Some(200) => self.events.extend(ids),
            Some(_) => {}
            None => {
                self.doubt = Some(Doubt::Events(ids));
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The next step of the life that is open, or the first one of another.
    fn live_on(&mut self, client: &Client, killed: &AtomicBool) -> Outcome<bool> {
        let open = self.lives.iter().next_back().filter(|(_, steps)| steps.len() < STEPS_MAX);
        let (id, steps) = match open {
            Some((id, steps)) => (id.clone(), steps.clone()),
            None => (format!("{}-life{:06}", self.key, self.lives.len()), Vec::new()),
        };
        let exists = steps.last().is_some_and(|last| last != "-");
        let step = if exists && self.random.u32(0..4) == 0 {
            "-".to_owned()
        } else {
            steps.len().to_string()
        };
        let item = json!({"id": id, "pk": self.key, "type": "life", "step": steps.len()});
        let key = key_header(&self.key);
        let headers = [(KEY_HEADER, key.as_str())];
        let at = format!("{CONTAINER}/docs/{id}");
        let request = match (step.as_str(), exists) {
            ("-", _) => (("DELETE", at.as_str()), None),
            (_, true) => (("PUT", at.as_str()), Some(&item)),
            (_, false) => (("POST", &at[..at.len() - id.len() - 1]), Some(&item)),
        };
        match sent(client, killed, request.0, &headers, request.1)? {
            Some(200..300) => self.lives.entry(id).or_default().push(step),
            Some(_) => {}
            None => {
                self.doubt = Some(Doubt::Step(id, step));
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Learns how the request in doubt ended: wholly or not at all.
    fn learn(&mut self, client: &Client) -> Outcome<()> {
        match self.doubt.take() {
            None => {}
            Some(Doubt::Events(ids)) => {
                let mut found = 0;
                for id in &ids {
                    found += usize::from(read_item(client, &self.key, id)?.is_some());
                }
                if found == ids.len() {
                    self.events.extend(ids);
                } else if found != 0 {
                    return Err(format!("of the events {ids:?} only {found} are stored").into());
                }
            }
            Some(Doubt::Step(id, step)) => {
                let item = read_item(client, &self.key, &id)?;
                let shown = item.map_or_else(|| "-".to_owned(), |item| item["step"].to_string());
                if shown == step {
                    self.lives.entry(id).or_default().push(step);
                }
            }
        }
        Ok(())
    }

    /// Compares events and lives with what the procedures wrote.
    fn look(&self, client: &Client) -> Outcome<Look> {
        let rows = query(client, &self.key, "SELECT VALUE c.id FROM c WHERE c.type = 'event'")?;
        let stored: BTreeSet<String> =
            rows.iter().filter_map(|id| id.as_str().map(str::to_owned)).collect();
        if stored != self.events {
            let odd: Vec<_> = stored.symmetric_difference(&self.events).take(5).collect();
            return Err(format!("{} has other events than it should: {odd:?}", self.key).into());
        }
        let counter = read_item(client, &self.key, "counter")?.unwrap_or(Value::Null);
        let counted = counter["n"].as_u64().unwrap_or(0);
        let keys = counter["keys"].as_array().map(Vec::as_slice).unwrap_or_default();
        let different: BTreeSet<&str> = keys.iter().filter_map(Value::as_str).collect();
        if different.len() as u64 != counted || keys.len() as u64 != counted {
            return Err(format!("{}: an event was counted twice: {counter}", self.key).into());
        }
        if counted > stored.len() as u64 {
            return Err(format!("{}: {counted} counted of {}", self.key, stored.len()).into());
        }
        if counted < stored.len() as u64 {
            return Ok(Look::Behind(format!("{}: {counted} of {}", self.key, stored.len())));
        }
        self.look_at_lives(client)
    }

    fn look_at_lives(&self, client: &Client) -> Outcome<Look> {
        let tallies =
            query(client, &self.key, "SELECT c.id, c.steps FROM c WHERE c.type = 'tally'")?;
        let tallies: BTreeMap<String, Vec<String>> = tallies
            .iter()
            .map(|tally| {
                let steps = tally["steps"].as_array().into_iter().flatten();
                let steps = steps.filter_map(|step| step.as_str().map(str::to_owned)).collect();
                let id = tally["id"].as_str().unwrap_or_default();
                (id.strip_prefix("tally-").unwrap_or(id).to_owned(), steps)
            })
            .collect();
        if let Some(odd) = tallies.keys().find(|id| !self.lives.contains_key(*id)) {
            return Err(format!("a tally is kept of {odd}, which never lived").into());
        }
        for (id, steps) in &self.lives {
            let told = tallies.get(id).map(Vec::as_slice).unwrap_or_default();
            if !steps.starts_with(told) {
                return Err(format!("{id} went {steps:?}, and was told {told:?}").into());
            }
            if told.len() < steps.len() {
                return Ok(Look::Behind(format!("{id}: {} of {}", told.len(), steps.len())));
            }
        }
        Ok(Look::Whole)
    }
}

/// Sends a request: the status of success or of being busy; nothing when the server was killed meanwhile.
fn sent(
    client: &Client,
    killed: &AtomicBool,
    (verb, path): (&str, &str),
    headers: &[(&str, &str)],
    body: Option<&Value>,
) -> Outcome<Option<u16>> {
    match client.send(verb, path, headers, body) {
        Ok(answer) if answer.is_success() || matches!(answer.status, 429 | 449) => {
            Ok(Some(answer.status))
        }
        Ok(answer) => {
            Err(format!("{verb} {path} answered {}: {}", answer.status, answer.body).into())
        }
        Err(_) if killed.load(Ordering::SeqCst) => Ok(None),
        Err(error) => Err(format!("{verb} {path} failed without a kill: {error}").into()),
    }
}
