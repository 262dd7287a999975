//! Model check: random operations on the engine and on a plain map must tell the same story.
//!
//! Creates, upserts, replaces, patches, deletes and batches with etags, time to live and unique
//! keys, over a few logical partitions so that they collide. One seed reproduces one run:
//! `ARMILLA_MODEL_SEED=… ARMILLA_MODEL_OPERATIONS=… cargo test -p armilla-engine --test model`.

#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

mod support;

use armilla_engine::items::batch::{Operation, Verb};
use armilla_engine::items::body::UncheckedBody;
use armilla_engine::items::patch::{Patch, PatchOperation, PatchVerb, Pointer};
use armilla_engine::items::{WriteOptions, Written};
use armilla_engine::ranges::EpkSpan;
use armilla_engine::{Account, Container, Options, Txn};
use armilla_model::clock::{Clock, ManualClock};
use armilla_model::partition_key::PartitionKey;
use armilla_model::{Error, Number, Result, Value, json};
use armilla_storage::{EmbeddedOptions, EmbeddedStore};
use std::collections::BTreeMap;
use std::sync::Arc;
use support::{Bench, Random, begin, commit, setting};

const OPERATIONS: usize = 100_000;
const PARTITIONS: u64 = 4;
const IDS: u64 = 12;
const DEFAULT_TTL: i64 = 50;

/// What the model knows of an item.
#[derive(Clone, Debug)]
struct Known {
    email: String,
    count: i64,
    etag: String,
    expires_at: Option<u64>,
}

type Key = (u64, u64);

struct Checker {
    random: Random,
    clock: Arc<ManualClock>,
    container: Arc<Container>,
    model: BTreeMap<Key, Known>,
}

/// One planned write.
#[derive(Clone, Debug)]
enum Plan {
    Create { id: u64, email: u64, ttl: Option<i64> },
    Upsert { id: u64, email: u64, ttl: Option<i64> },
    Replace { id: u64, email: u64, stale: bool },
    Increment { id: u64, by: i64, condition_holds: bool },
    Delete { id: u64, stale: bool },
}

impl Checker {
    fn now(&self) -> u64 {
        self.clock.now_seconds()
    }

    fn alive(&self, key: Key) -> Option<&Known> {
        let now = self.now();
        self.model.get(&key).filter(|known| known.expires_at.is_none_or(|end| now < end))
    }

    fn email_is_taken(&self, partition: u64, id: u64, email: &str) -> bool {
        let mut keys = (0..IDS).filter(|&other| other != id).map(|other| (partition, other));
        keys.any(|key| self.alive(key).is_some_and(|known| known.email == email))
    }

    fn plan(&mut self) -> Plan {
        let id = self.random.below(IDS);
        let email = self.random.below(IDS + 4);
        let ttl = match self.random.below(6) {
            0 => Some(5),
            1 => Some(-1),
            _ => None,
        };
        let (verb, stale) = (self.random.below(10), self.random.one_in(4));
        match verb {
            0..=2 => Plan::Create { id, email, ttl },
            3..=4 => Plan::Upsert { id, email, ttl },
            5..=6 => Plan::Replace { id, email, stale },
            7 => Plan::Increment { id, by: self.random.below(5) as i64, condition_holds: !stale },
            _ => Plan::Delete { id, stale },
        }
    }

    /// Stages a planned write.
    fn stage(&self, txn: &mut Txn, partition: u64, plan: &Plan) -> Result<Written> {
        match plan {
            Plan::Create { id, email, ttl } => txn.create_item(
                body(partition, *id, *email, *ttl).as_bytes(),
                &WriteOptions::default(),
            ),
            Plan::Upsert { id, email, ttl } => txn.upsert_item(
                body(partition, *id, *email, *ttl).as_bytes(),
                &WriteOptions::default(),
            ),
            Plan::Replace { id, email, stale } => {
                let options = self.precondition(partition, *id, *stale);
                txn.replace_item(
                    &name(*id),
                    body(partition, *id, *email, None).as_bytes(),
                    &options,
                )
            }
            Plan::Increment { id, by, condition_holds } => {
                txn.patch_item(&name(*id), &patch(*by, *condition_holds), &WriteOptions::default())
            }
            Plan::Delete { id, stale } => {
                let options = self.precondition(partition, *id, *stale);
                txn.delete_item(&name(*id), &options)
            }
        }
    }

    fn precondition(&self, partition: u64, id: u64, stale: bool) -> WriteOptions {
        let current = self.model.get(&(partition, id)).map(|known| known.etag.clone());
        let etag = if stale {
            Some("\"00000000-0000-0000-0000-000000000000\"".to_owned())
        } else {
            current
        };
        WriteOptions { if_match: etag, ..WriteOptions::default() }
    }

    /// What the model says must happen, and does it.
    fn expect(
        &mut self,
        partition: u64,
        plan: &Plan,
        etag: Option<String>,
    ) -> Result<(), &'static str> {
        let now = self.now();
        let deadline = |ttl: Option<i64>| match ttl.unwrap_or(DEFAULT_TTL) {
            -1 => None,
            seconds => Some(now + seconds as u64),
        };
        match plan {
            Plan::Create { id, email, ttl } | Plan::Upsert { id, email, ttl } => {
                let key = (partition, *id);
                if matches!(plan, Plan::Create { .. }) && self.alive(key).is_some() {
                    return Err("conflict");
                }
                let email = address(*email);
                if self.email_is_taken(partition, *id, &email) {
                    return Err("unique");
                }
                let etag = etag.unwrap_or_default();
                self.model.insert(key, Known { email, count: 0, etag, expires_at: deadline(*ttl) });
            }
            Plan::Replace { id, email, stale } => {
                let key = (partition, *id);
                if self.alive(key).is_none() {
                    return Err("not found");
                }
                if *stale {
                    return Err("precondition");
                }
                let email = address(*email);
                if self.email_is_taken(partition, *id, &email) {
                    return Err("unique");
                }
                let etag = etag.unwrap_or_default();
                self.model.insert(key, Known { email, count: 0, etag, expires_at: deadline(None) });
            }
            Plan::Increment { id, by, condition_holds } => {
                let key = (partition, *id);
                let Some(mut known) = self.alive(key).cloned() else { return Err("not found") };
                if !condition_holds {
                    return Err("condition");
                }
                known.count += by;
                known.etag = etag.unwrap_or_default();
                // A patch keeps the item's own ttl and starts it anew.
                known.expires_at = known.expires_at.and_then(|_| deadline(self.own_ttl(key)));
                self.model.insert(key, known);
            }
            Plan::Delete { id, stale } => {
                let key = (partition, *id);
                if self.alive(key).is_none() {
                    return Err("not found");
                }
                if *stale {
                    return Err("precondition");
                }
                self.model.remove(&key);
            }
        }
        Ok(())
    }

    /// The seconds an item lives after each write, as the engine's text says.
    fn own_ttl(&self, (partition, id): Key) -> Option<i64> {
        let item = self.container.read_item(&key_of(partition), &name(id)).unwrap();
        item.and_then(|item| json::parse(&item.text).unwrap().get("ttl").and_then(Value::as_i64))
    }

    fn single(&mut self) {
        let (partition, plan) = (self.random.below(PARTITIONS), self.plan());
        let mut txn = self.begin(partition);
        let staged = self.stage(&mut txn, partition, &plan);
        let (outcome, etag) = match staged {
            Ok(written) => {
                commit(txn).unwrap();
                (Ok(()), written.etag.map(|etag| etag.to_string()))
            }
            Err(error) => {
                drop(txn);
                (Err(kind(&error)), None)
            }
        };
        let expected = self.expect(partition, &plan, etag);
        assert_eq!(outcome, expected, "{plan:?} in partition {partition}");
    }

    /// Several writes in one transaction: all of them or none.
    fn transaction(&mut self) {
        let partition = self.random.below(PARTITIONS);
        let plans: Vec<_> = (0..1 + self.random.below(6)).map(|_| self.plan()).collect();
        let before = self.model.clone();
        let mut txn = self.begin(partition);
        let mut failed = None;
        for plan in &plans {
            let staged = self.stage(&mut txn, partition, plan);
            let etag =
                staged.as_ref().ok().and_then(|written| written.etag).map(|etag| etag.to_string());
            let expected = self.expect_in_transaction(partition, plan, etag, &txn);
            let outcome = staged.map(drop).map_err(|error| kind(&error));
            assert_eq!(outcome, expected, "{plan:?} of {plans:?} in partition {partition}");
            if outcome.is_err() {
                failed = Some(());
                break;
            }
        }
        if failed.is_some() {
            drop(txn);
            self.model = before;
        } else {
            commit(txn).unwrap();
        }
    }

    fn expect_in_transaction(
        &mut self,
        partition: u64,
        plan: &Plan,
        etag: Option<String>,
        txn: &Txn,
    ) -> Result<(), &'static str> {
        if let Plan::Increment { id, .. } = plan {
            let key = (partition, *id);
            let outcome = self.expect(partition, plan, etag);
            // Inside the transaction the item's own ttl is read from the transaction.
            let item = txn.read_item(&name(*id)).unwrap();
            if let (Ok(()), Some(item)) = (outcome, item) {
                let ttl = json::parse(&item.text).unwrap().get("ttl").and_then(Value::as_i64);
                let now = self.now();
                let known = self.model.get_mut(&key).unwrap();
                known.expires_at = match ttl.unwrap_or(DEFAULT_TTL) {
                    -1 => None,
                    seconds => Some(now + seconds as u64),
                };
            }
            return outcome;
        }
        self.expect(partition, plan, etag)
    }

    fn begin(&self, partition: u64) -> Txn {
        begin(&self.container, &key_of(partition))
    }

    /// Everything the engine shows must be what the model knows, and nothing else.
    fn compare(&self) {
        let mut shown = BTreeMap::new();
        let mut continuation = None;
        loop {
            let page =
                self.container.list_items(&EpkSpan::all(), continuation.as_deref(), 7).unwrap();
            for item in &page.items {
                let value = json::parse(&item.text).unwrap();
                let text = |name: &str| {
                    value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
                };
                let number = |text: String| {
                    text.trim_start_matches(char::is_alphabetic).parse::<u64>().unwrap()
                };
                let key = (number(text("pk")), number(text("id")));
                let count = value.get("count").and_then(Value::as_i64).unwrap();
                assert!(
                    shown.insert(key, (text("email"), count, text("_etag"))).is_none(),
                    "shown twice"
                );
            }
            continuation = page.continuation;
            if continuation.is_none() {
                break;
            }
        }
        let expected: BTreeMap<_, _> = self
            .model
            .keys()
            .filter_map(|&key| self.alive(key).map(|known| (key, known.clone())))
            .map(|(key, known)| (key, (known.email, known.count, known.etag)))
            .collect();
        assert_eq!(shown, expected);
    }
}

fn name(id: u64) -> String {
    format!("item{id}")
}

fn address(email: u64) -> String {
    format!("mail{email}")
}

fn key_of(partition: u64) -> PartitionKey {
    PartitionKey::parse(&format!("[\"p{partition}\"]")).unwrap()
}

fn body(partition: u64, id: u64, email: u64, ttl: Option<i64>) -> String {
    let ttl = ttl.map(|ttl| format!(",\"ttl\":{ttl}")).unwrap_or_default();
    format!(r#"{{"id":"item{id}","pk":"p{partition}","email":"mail{email}","count":0{ttl}}}"#)
}

fn patch(by: i64, condition_holds: bool) -> Patch {
    let condition =
        if condition_holds { "FROM c WHERE c.count >= 0" } else { "FROM c WHERE c.count < 0" };
    let verb = PatchVerb::Increment(Number::Int(by));
    let operation = PatchOperation { verb, path: Pointer::parse("/count").unwrap() };
    Patch::new(Some(condition.to_owned()), vec![operation]).unwrap()
}

fn kind(error: &Error) -> &'static str {
    match error {
        Error::Conflict(_) => "conflict",
        Error::UniqueKeyViolation(_) => "unique",
        Error::NotFound(_) => "not found",
        Error::PreconditionFailed(_) => "precondition",
        Error::PatchConditionFailed => "condition",
        other => panic!("unexpected refusal: {other}"),
    }
}

#[test]
fn random_operations_agree_with_a_plain_map() {
    let seed = setting("ARMILLA_MODEL_SEED", 20_261_115);
    let operations = setting("ARMILLA_MODEL_OPERATIONS", OPERATIONS as u64);
    println!("seed {seed}, {operations} operations");
    let definition = format!(
        r#"{{"id":"c","partitionKey":{{"paths":["/pk"]}},"defaultTtl":{DEFAULT_TTL},
            "uniqueKeyPolicy":{{"uniqueKeys":[{{"paths":["/email"]}}]}}}}"#
    );
    let mut bench = Bench::new(&definition, |options| options.partitions = Some(3));
    let (clock, container) = (bench.clock.clone(), bench.container.clone());
    let mut checker = Checker { random: Random(seed), clock, container, model: BTreeMap::new() };
    let mut done = 0;
    while done < operations {
        match checker.random.below(100) {
            0..=69 => checker.single(),
            70..=96 => checker.transaction(),
            97 => checker.clock.advance_seconds(checker.random.below(4)),
            98 => bench.account.clean_up().unwrap(),
            _ => checker.compare(),
        }
        done += 1;
        if done.is_multiple_of(operations / 4 + 1) {
            // The same data behind a fresh start: catalog, log heads and index come from the store.
            checker.compare();
            bench.verify();
            bench.restart();
            checker.container = bench.container.clone();
        }
    }
    checker.compare();
    bench.verify();
}

#[test]
fn a_batch_that_fails_leaves_nothing() {
    let bench = Bench::new(r#"{"id":"c","partitionKey":{"paths":["/pk"]}}"#, |_| {});
    let operation = |verb| Operation {
        verb,
        options: WriteOptions::default(),
        partition_key: None,
        minimal: false,
    };
    let operations = [
        Verb::Create(UncheckedBody::parse(br#"{"id":"a","pk":"p"}"#).unwrap()),
        Verb::Read("a".to_owned()),
        Verb::Delete("missing".to_owned()),
    ];
    let operations = operations.into_iter().map(operation).collect();
    let key = PartitionKey::parse(r#"["p"]"#).unwrap();
    let mut txn = bench.begin(&key);
    let failure = txn.run_batch(operations).unwrap_err();
    assert_eq!(failure.position, 2);
    drop(txn);
    assert!(bench.container.read_item(&key, "a").unwrap().is_none());
}

#[test]
fn work_that_comes_after_the_stop_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folder.path(), &EmbeddedOptions::default()).unwrap();
    let account = Account::open(Arc::new(store), Options::default()).unwrap();
    account.create_database("d", None).unwrap();
    account.close().unwrap();
    // A commit on a closed store would end the process.
    assert!(account.create_database("e", None).is_err());
    assert!(account.database("e").is_err());
}
