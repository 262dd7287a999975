//! The shared cases of server-side JavaScript (`docs/protocol/scripts.md#order-of-events`), and the sample scripts, on real items,
//! queries and commits.

#[path = "../../../script/tests/support/cases.rs"]
mod shared;

use crate::bench::Bench;
use armilla_engine::account::NewScript;
use armilla_engine::scripts::{Kind, Trigger, TriggerOperation, TriggeredVerb};
use armilla_model::Error;
use armilla_script::Limits;
use bytes::Bytes;
use serde_json::{Value, json};
use shared::{Answer, Key, Role, Script, Server, Write, check_cases, check_samples, own_sample};

/// The engine's value as the cases' value.
fn plain(value: &armilla_model::Value) -> Value {
    parsed(value.to_json().as_bytes())
}

fn parsed(text: &[u8]) -> Value {
    serde_json::from_slice(text).unwrap()
}

/// The key as its header has it.
fn header(key: Key<'_>) -> String {
    key.map_or_else(|| "[{}]".to_owned(), |key| json!([key]).to_string())
}

fn failed(error: &Error) -> Answer {
    let (status, substatus) = match error {
        Error::ScriptFailed { number, .. } => (400, number.unwrap_or(0).into()),
        Error::ScriptSyntax(_) => (400, 65535),
        Error::Timeout(_) => (408, 0),
        Error::Forbidden(_) => (403, 0),
        Error::Internal(_) => (500, 0),
        _ => (400, 0),
    };
    Answer::failed(status, substatus, error.message())
}

impl Server for Bench {
    fn open(key_path: &str, limits: Limits) -> Self {
        let definition = format!(r#"{{"id":"c","partitionKey":{{"paths":["{key_path}"]}}}}"#);
        Self::new(&definition, limits)
    }

    fn put(&mut self, item: &Value) {
        Self::put(self, &item.to_string());
    }

    fn items(&self) -> Vec<Value> {
        Self::items(self).iter().map(plain).collect()
    }

    fn register(&mut self, script: &Script<'_>) -> Result<(), Answer> {
        let (kind, trigger) = match script.role {
            Role::Procedure => (Kind::Procedure, None),
            Role::Function => (Kind::Function, None),
            Role::Trigger { before, operation } => {
                let operation = TriggerOperation::parse(operation).unwrap();
                (
                    Kind::Trigger,
                    Some(Trigger { before, operation, spelling: operation.text().into() }),
                )
            }
        };
        let new = NewScript { kind, name: script.name, body: script.body, trigger };
        Self::register(self, &new).map_err(|error| failed(&error))
    }

    fn execute(&mut self, name: &str, key: Key<'_>, arguments: &Value, logging: bool) -> Answer {
        let executed = self.execute_logged(name, &header(key), &arguments.to_string(), logging);
        let answer = match executed.result {
            Ok((body, _)) => Answer::good(200, Some(parsed(body.as_bytes()))),
            Err(error) => failed(&error),
        };
        Answer { log: executed.log, ..answer }
    }

    fn write(&mut self, key: Key<'_>, write: &Write<'_>) -> Answer {
        let (id, body) = (write.id.to_owned(), Bytes::from(write.item.to_string()));
        let verb = match write.verb {
            "create" => TriggeredVerb::Create(body),
            "upsert" => TriggeredVerb::Upsert(body),
            "replace" => TriggeredVerb::Replace(id, body),
            _ => TriggeredVerb::Delete(id),
        };
        let triggered = Self::write(self, &header(key), verb, &write.pre, &write.post);
        match triggered.and_then(|triggered| triggered.result) {
            Ok((written, _)) if written.etag.is_none() => Answer::good(204, None),
            Ok((written, _)) => {
                let status = if written.created { 201 } else { 200 };
                Answer::good(status, Some(parsed(&written.text)))
            }
            Err(error) => failed(&error),
        }
    }

    fn query(&mut self, text: &str) -> Answer {
        match Self::query(self, text) {
            Ok(rows) => Answer::good(200, Some(rows.iter().map(plain).collect())),
            Err(error) => failed(&error),
        }
    }
}

#[test]
fn all_procedure_cases_hold() {
    check_cases::<Bench>("procedure", 84);
}

#[test]
fn all_trigger_cases_hold() {
    check_cases::<Bench>("trigger", 19);
}

#[test]
fn all_function_cases_hold() {
    check_cases::<Bench>("udf", 8);
}

#[test]
fn sample_scripts_give_the_listed_results() {
    check_samples::<Bench>();
}

/// The feed of the blog: however many posts are created, the newest hundred stay.
#[test]
fn the_feed_settles_at_exactly_its_maximum() {
    const KEPT: usize = 100;
    let bench = Bench::new(r#"{"id":"c","partitionKey":{"paths":["/type"]}}"#, Limits::default());
    let body = own_sample("truncateFeed.js").replace("KEPT = 5;", &format!("KEPT = {KEPT};"));
    bench.trigger("truncate", false, "All", &body);
    for number in 0..KEPT + 30 {
        let item = json!({"id": format!("p{number}"), "type": "post", "dateCreated": number});
        let verb = TriggeredVerb::Create(Bytes::from(item.to_string()));
        let written = bench.write(r#"["post"]"#, verb, &[], &["truncate"]).unwrap();
        written.result.unwrap();
        let stored = bench.items().len();
        assert_eq!(stored, (number + 1).min(KEPT), "after {} posts", number + 1);
    }
    let oldest = bench.query("SELECT VALUE MIN(c.dateCreated) FROM c").unwrap();
    assert_eq!(oldest[0].to_json(), "30");
}
