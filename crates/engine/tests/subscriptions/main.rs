//! Subscriptions: the vectors, what definitions may say, deliveries to procedures and webhooks, and random
//! histories with splits, merges, restarts and cuts.
//!
//! One seed reproduces one history: `ARMILLA_SUBSCRIPTIONS_SEED=… ARMILLA_SUBSCRIPTIONS_STEPS=… cargo test -p
//! armilla-engine --test subscriptions`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]
#![allow(clippy::print_stdout, reason = "a failing test must tell its seed")]

mod definitions;
mod histories;
mod procedures;
mod slices;
#[path = "../support/mod.rs"]
mod support;
mod vectors;
mod webhooks;

use armilla_engine::account::NewScript;
use armilla_engine::scripts::Kind;
use armilla_engine::subscriptions::queue::DeliveryOutcome;
use armilla_engine::subscriptions::target::Webhook;
use armilla_engine::subscriptions::{Courier, Parcel, Subscription};
use armilla_model::{Result, Value};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{Bench, create_container, value};

const CONTAINER: &str =
    r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},"defaultTtl":-1}"#;
const DEAD: &str =
    r#"{"id":"dead","partitionKey":{"paths":["/subscription"],"kind":"Hash","version":2}}"#;
const PATIENCE: Duration = Duration::from_secs(120);

/// Answers a batch of entries.
type Answer = dyn Fn(&[Value]) -> DeliveryOutcome + Send + Sync;

/// Delivery id, attempt and entries of a parcel.
type Sent = (String, u32, Vec<Value>);

/// A receiver of webhooks that remembers what it was sent.
#[derive(Clone)]
struct Receiver {
    parcels: Arc<Mutex<Vec<Sent>>>,
    answer: Arc<Mutex<Arc<Answer>>>,
}

impl Receiver {
    fn new(answer: impl Fn(&[Value]) -> DeliveryOutcome + Send + Sync + 'static) -> Self {
        let answer: Arc<Answer> = Arc::new(answer);
        Self { parcels: Arc::default(), answer: Arc::new(Mutex::new(answer)) }
    }

    fn answer_with(&self, answer: impl Fn(&[Value]) -> DeliveryOutcome + Send + Sync + 'static) {
        *self.answer.lock().unwrap() = Arc::new(answer);
    }

    /// Everything that came, entry by entry.
    fn entries(&self) -> Vec<Value> {
        let parcels = self.parcels.lock().unwrap();
        parcels.iter().flat_map(|(_, _, entries)| entries.clone()).collect()
    }

    fn ids(&self) -> Vec<String> {
        self.entries().iter().map(|entry| text(entry, "id")).collect()
    }

    /// How often each entry came, by its key.
    fn by_key(&self) -> BTreeMap<String, usize> {
        let mut found = BTreeMap::new();
        for entry in self.entries() {
            *found.entry(text(&entry, "key")).or_default() += 1;
        }
        found
    }

    fn forget(&self) {
        self.parcels.lock().unwrap().clear();
    }
}

impl Courier for Receiver {
    fn check(&self, webhook: &Webhook) -> Result<()> {
        if webhook.url.starts_with("https://") {
            return Ok(());
        }
        Err(armilla_model::Error::bad_request("only https"))
    }

    fn send(&self, parcel: Parcel, done: Box<dyn FnOnce(DeliveryOutcome) + Send>) {
        let body = armilla_model::json::parse(&parcel.body).unwrap();
        assert_eq!(body.get("attempt").unwrap().as_i64(), Some(i64::from(parcel.attempt)));
        let entries = body.get("entries").unwrap().as_array().unwrap().to_vec();
        self.parcels.lock().unwrap().push((parcel.uuid, parcel.attempt, entries.clone()));
        let answer = self.answer.lock().unwrap().clone();
        // As a network would: the answer comes from elsewhere.
        std::thread::spawn(move || done(answer(&entries)));
    }
}

fn text(value: &Value, name: &str) -> String {
    value.get(name).unwrap().as_str().unwrap().to_owned()
}

/// An account whose rounds the test drives, with a place for dead letters.
fn bench() -> Bench {
    bench_with(CONTAINER)
}

fn bench_with(definition: &str) -> Bench {
    let bench = Bench::new(definition, |options| options.background = false);
    create_container(&bench.account, DEAD);
    bench
}

fn subscribe(bench: &Bench, definition: &str) -> Arc<Subscription> {
    bench.account.create_subscription(&bench.container, &value(definition)).unwrap()
}

fn procedure(bench: &Bench, name: &str, body: &str) {
    let new = NewScript { kind: Kind::Procedure, name, body, trigger: None };
    bench.account.create_script(&bench.container, &new, true).unwrap();
}

fn settle(bench: &Bench) {
    assert!(
        bench.account.settle_subscriptions(PATIENCE),
        "the subscriptions do not come to an end"
    );
}

fn status(bench: &Bench, name: &str) -> Value {
    let subscription = bench.container.subscription(name).unwrap();
    Value::object(bench.account.subscription_status(&bench.container, &subscription))
}

fn count(status: &Value, name: &str) -> i64 {
    status.get(name).unwrap().as_i64().unwrap()
}
