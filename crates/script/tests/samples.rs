//! Public scripts that must run unmodified. They are not part of this repository: the file of cases
//! names them, and this test runs those it finds under the folder given in `ARMILLA_SAMPLES`
//! (`<folder>/<owner>/<repository>/<path>`). Without the variable it does nothing.

#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

#[path = "support/model.rs"]
mod model;
#[path = "support/query.rs"]
mod query;

use std::path::Path;

use armilla_script::host::Host;
use armilla_script::{
    CallOptions, Limits, ScriptEngine, ScriptKind, TriggerOperation, TriggerRequest,
};
use model::{Container, Transaction};
use serde_json::{Value, json};

fn samples() -> Vec<Value> {
    let file: Value = serde_json::from_str(include_str!("vectors/server-side-js.json")).unwrap();
    file["publishedSamples"].as_array().unwrap().clone()
}

/// Items are given as a list, or described in words.
fn items(sample: &Value) -> Vec<Value> {
    let many = |count: u32| {
        (0..count).map(|n| json!({ "id": format!("d{n}"), "pk": "a", "v": 1 })).collect()
    };
    match &sample["items"] {
        Value::Array(items) => items.clone(),
        Value::String(words) if words.starts_with("60") => many(60),
        Value::String(words) if words.starts_with("10") => many(10),
        Value::String(words) if words.starts_with("d0,d1") => many(2),
        _ => many(1),
    }
}

fn key(sample: &Value) -> Option<Value> {
    Some(sample["partitionKey"].clone()).filter(|key| *key != json!("no value"))
}

/// Runs a sample; gives status, substatus, body or message, and the container afterwards.
fn run(sample: &Value, source: &str) -> (u64, u64, Value, Container) {
    let engine = ScriptEngine::new(Limits::default()).unwrap();
    let mut container = Container::new(sample["partitionKeyPath"].as_str().unwrap());
    for item in items(sample) {
        container.insert(&item);
    }
    let mut transaction = Transaction::begin(&container, key(sample));
    let options = CallOptions { script_id: "sample", ..CallOptions::default() };
    let script = engine.compile(ScriptKind::Procedure, source).unwrap();
    let (status, result) = if sample["kind"] == json!("procedure") {
        let mut call = sample["call"].clone();
        if call == json!([["60 items {id:d0..d59, pk:'a', v:1}"]]) {
            let many = json!({ "items": "60 items" });
            call = json!([items(&many)]);
        }
        (200, engine.run_procedure(&script, &call.to_string(), &mut transaction, options).result)
    } else {
        let mut body = sample["call"]["create"].to_string();
        let operation = TriggerOperation::Create;
        if sample["kind"] == json!("pre-trigger") {
            let request = TriggerRequest { operation, body: &body };
            let ran = engine.run_pre_trigger(&script, request, &mut transaction, options);
            let result = ran.result.map(|changed| {
                body = changed.unwrap_or(body);
                transaction.create_item(&body, None).unwrap()
            });
            (201, result)
        } else {
            let stored = transaction.create_item(&body, None).unwrap();
            let request = TriggerRequest { operation, body: &body };
            let ran = engine.run_post_trigger(&script, request, &stored, &mut transaction, options);
            (201, ran.result.map(|changed| changed.unwrap_or(stored)))
        }
    };
    match result {
        Ok(body) => (status, 0, serde_json::from_str(&body).unwrap(), transaction.container),
        Err(error) => (400, error.substatus().into(), json!(error.message()), container),
    }
}

fn holds(wanted: &Value, found: &Value) -> bool {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => {
            wanted.iter().all(|(name, value)| found.get(name).unwrap_or(&Value::Null) == value)
        }
        _ => wanted == found,
    }
}

#[test]
fn published_samples_run_unmodified() {
    let Ok(folder) = std::env::var("ARMILLA_SAMPLES") else { return };
    for sample in samples() {
        let (repository, path) =
            (sample["repository"].as_str().unwrap(), sample["path"].as_str().unwrap());
        let source = std::fs::read(Path::new(&folder).join(repository).join(path)).unwrap();
        let (status, substatus, body, container) = run(&sample, &String::from_utf8_lossy(&source));
        let expect = &sample["expect"];
        let place = format!("{path} {}: {status}/{substatus} {body}", sample["call"]);
        assert_eq!(expect["status"], json!(status), "{place}");
        assert!(
            expect.get("substatus").is_none_or(|wanted| *wanted == json!(substatus)),
            "{place}"
        );
        assert!(expect.get("body").is_none_or(|wanted| holds(wanted, &body)), "{place}");
        if let Some(text) = expect["messageContains"].as_str() {
            assert!(body.as_str().unwrap().contains(text), "{place}");
        }
        let stored = &container.items;
        assert!(expect.get("count").is_none_or(|n| *n == json!(stored.len())), "{place}");
        for wanted in expect["items"].as_array().into_iter().flatten() {
            assert!(stored.iter().any(|item| holds(wanted, item)), "{place}: {wanted}");
        }
        if let Some(wanted) = expect["ids"].as_array() {
            let mut ids: Vec<_> = stored.iter().map(|item| item["id"].clone()).collect();
            ids.sort_by_key(Value::to_string);
            assert_eq!(ids, *wanted, "{place}");
        }
    }
}
