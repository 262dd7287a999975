//! One attempt at a batch: a call of a procedure, or a parcel for the courier.

use super::Subscription;
use super::courier::Parcel;
use super::definition::Definition;
use super::entry::{DeliveryFailure, EntryKey, Group};
use super::members::number;
use super::queue::DeliveryOutcome;
use super::target::{Target, Webhook};
use crate::address::ItemAddress;
use crate::container::Container;
use crate::feed_entry::Origin;
use crate::keys::{self, Meta};
use crate::limits::SUBSCRIPTION_DEPTH_MAX;
use crate::scripts::{Executed, Kind, Procedure};
use crate::txn::Txn;
use armilla_model::error::Error;
use armilla_model::value::{Object, Value};
use parking_lot::Mutex;
use std::sync::Arc;

/// What is delivered.
pub(super) struct Delivery {
    pub(super) container: Arc<Container>,
    pub(super) subscription: Arc<Subscription>,
    pub(super) definition: Arc<Definition>,
    pub(super) groups: Arc<Vec<Group>>,
    pub(super) attempt: u32,
    /// The same in every attempt with the same entries.
    pub(super) uuid: String,
    /// What notes that an entry had its effect.
    pub(super) mark: Meta,
}

/// Hears how an attempt ended; also when whoever had it was dropped.
#[derive(Clone)]
pub(super) struct DeliveryDone(Arc<DoneOnce>);

struct DoneOnce(Mutex<Option<Callback>>);

type Callback = Box<dyn FnOnce(DeliveryOutcome) + Send>;

impl DeliveryDone {
    pub(super) fn new(done: impl FnOnce(DeliveryOutcome) + Send + 'static) -> Self {
        Self(Arc::new(DoneOnce(Mutex::new(Some(Box::new(done))))))
    }

    fn call(&self, outcome: DeliveryOutcome) {
        self.0.call(outcome);
    }
}

impl DoneOnce {
    fn call(&self, outcome: DeliveryOutcome) {
        let done = self.0.lock().take();
        if let Some(done) = done {
            done(outcome);
        }
    }
}

impl Drop for DoneOnce {
    fn drop(&mut self) {
        self.call(DeliveryOutcome::NotTried("it was not begun".to_owned()));
    }
}

impl Delivery {
    /// Makes the attempt. The callback may run on any thread.
    pub(super) fn begin(self, done: DeliveryDone) {
        match &self.definition.target {
            Target::Procedure(id) => {
                let id = id.clone();
                self.call_procedure(&id, done);
            }
            Target::Webhook(webhook) => match self.container.core.courier.get() {
                Some(courier) => {
                    let parcel = self.parcel(webhook);
                    courier.send(parcel, Box::new(move |outcome| done.call(outcome)));
                }
                None => done.call(DeliveryOutcome::NotTried(
                    "this server calls no webhooks: it was started without --webhooks".to_owned(),
                )),
            },
        }
    }

    fn call_procedure(self, id: &str, done: DeliveryDone) {
        let Ok(script) = self.container.script(Kind::Procedure, id) else {
            return done
                .call(DeliveryOutcome::Missing(format!("there is no stored procedure '{id}'")));
        };
        let key = self.groups.first().and_then(|group| group.entries.first());
        let Some(key) = key.map(|entry| entry.partition_key.clone()) else {
            return done.call(DeliveryOutcome::Done);
        };
        let address = match ItemAddress::of(&self.container, key) {
            Ok(address) => address,
            Err(error) => return done.call(DeliveryOutcome::Refused(told(&error))),
        };
        let place = address.clone();
        let begun = done.clone();
        let granted = move |lock| {
            match Txn::at(place.renewed(), lock) {
                Ok(txn) => self.run(txn, script, begun),
                Err(error) => begun.call(DeliveryOutcome::NotTried(error.to_string())),
            }
            None
        };
        if let Err(error) = address.lock(granted) {
            done.call(DeliveryOutcome::NotTried(error.to_string()));
        }
    }

    fn run(self, mut txn: Txn, script: Arc<crate::scripts::Script>, done: DeliveryDone) {
        let depth = self.groups.iter().map(|group| group.depth).max().unwrap_or_default();
        let depth = depth.saturating_add(1).min(SUBSCRIPTION_DEPTH_MAX);
        txn.set_origin(Origin { number: self.subscription.number, depth });
        // Kept until the answer is there: a procedure that nobody waits for is not begun.
        let here = Arc::new(());
        let client = Arc::downgrade(&here);
        let arguments = Value::array(vec![self.entries()]).to_json();
        let procedure = Procedure { script, arguments, logging: false, client };
        let container = self.container.clone();
        let partition = container.partition_of(txn.epk());
        let groups = self.groups.clone();
        let notes = move |body: &str| {
            let failed = failures(body);
            let keys = groups.iter().flat_map(|group| &group.entries).map(|entry| entry.key);
            let keys = keys.filter(|key| !failed.contains(key));
            keys.map(|key| {
                (mark_key(self.mark, &self.container, &self.subscription, &key), Vec::new())
            })
            .collect()
        };
        txn.execute_noted(procedure, notes, move |executed| {
            drop(here);
            container.charge_background(&partition, executed.charge);
            done.call(outcome_of(executed));
        });
    }

    fn entries(&self) -> Value {
        let entries = self.groups.iter().flat_map(|group| &group.entries);
        Value::array(entries.map(|entry| Value::object(entry.members())).collect())
    }

    fn parcel(&self, webhook: &Webhook) -> Parcel {
        let settings = self.container.settings();
        let body = Object::of([
            ("subscription", Value::String(self.subscription.name.clone())),
            ("database", Value::String(settings.database.clone())),
            ("container", Value::String(settings.name.clone())),
            ("containerRid", Value::String(self.container.rid_text.clone())),
            ("attempt", number(self.attempt)),
            ("entries", self.entries()),
        ]);
        let mut bytes = Vec::new();
        body.write_json(&mut bytes);
        Parcel {
            webhook: webhook.clone(),
            uuid: self.uuid.clone(),
            attempt: self.attempt,
            second: self.container.core.clock.now_seconds(),
            body: bytes,
        }
    }
}

/// Where it is noted that an entry had its effect.
pub(super) fn mark_key(
    kind: Meta,
    container: &Container,
    subscription: &Subscription,
    key: &EntryKey,
) -> Vec<u8> {
    let (high, low) = ((key.lsn.0 >> 32) as u32, key.lsn.0 as u32);
    keys::meta(kind, &[container.number, subscription.number, key.log, high, low, key.sequence])
}

/// The entries that a procedure wants to have again.
fn failures(body: &str) -> Vec<EntryKey> {
    let body = armilla_model::json::parse(body.as_bytes()).unwrap_or(Value::Null);
    let failures = body.get("failures").and_then(Value::as_array).unwrap_or_default();
    failures.iter().filter_map(|key| EntryKey::parse(key.as_str()?)).collect()
}

fn outcome_of(executed: Executed) -> DeliveryOutcome {
    match executed.result {
        Ok((body, _)) => {
            let failed = failures(&body);
            if failed.is_empty() {
                return DeliveryOutcome::Done;
            }
            let told = DeliveryFailure::told("the procedure asked for these entries again");
            DeliveryOutcome::Partly(failed.into_iter().map(|key| (key, true)).collect(), told)
        }
        Err(error) => match error {
            Error::Overloaded { .. }
            | Error::TooManyRequests { .. }
            | Error::MetadataThrottled { .. }
            | Error::DiskFull
            | Error::WriteConflict => DeliveryOutcome::NotTried(error.to_string()),
            error => DeliveryOutcome::Failed(told(&error), None),
        },
    }
}

fn told(error: &Error) -> DeliveryFailure {
    DeliveryFailure::told(error.to_string())
}
