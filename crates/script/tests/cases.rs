//! Runs the shared cases of the server-side JavaScript contract against a model host.

#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

#[path = "support/model.rs"]
mod model;
#[path = "support/query.rs"]
mod query;

use std::time::Duration;

use armilla_script::host::{Host, ItemLink, ReadOutcome, Upserted};
use armilla_script::{
    CallOptions, Compiled, Limits, ScriptEngine, ScriptError, ScriptErrorKind, ScriptKind,
    TriggerOperation, TriggerRequest,
};
use model::{Container, Transaction};
use serde_json::{Value, json};

fn all_cases() -> Vec<Value> {
    let file: Value = serde_json::from_str(include_str!("vectors/server-side-js.json")).unwrap();
    file["cases"].as_array().unwrap().clone()
}

/// What a case looks like from outside.
struct Answer {
    status: u64,
    substatus: u64,
    body: Option<Value>,
    message: String,
    log: Option<String>,
    container: Container,
}

impl Answer {
    fn failed(error: &ScriptError, container: Container) -> Self {
        let status = match error.kind {
            ScriptErrorKind::Threw { .. } | ScriptErrorKind::OutOfMemory => 400,
            ScriptErrorKind::Timeout => 408,
            ScriptErrorKind::Blocked => 403,
            ScriptErrorKind::Internal => 500,
        };
        let (substatus, message) = (error.substatus().into(), error.message());
        Self { status, substatus, body: None, message, log: None, container }
    }

    fn refused(substatus: u64, message: &str, container: Container) -> Self {
        Self {
            status: 400,
            substatus,
            body: None,
            message: message.to_owned(),
            log: None,
            container,
        }
    }
}

fn limits(case: &Value) -> Limits {
    let dials = &case["dials"];
    let mut limits = Limits::default();
    if let Some(time) = dials["timeLimitMs"].as_u64() {
        limits.time = Duration::from_millis(time);
    }
    if let Some(memory) = dials["memoryLimitMb"].as_u64() {
        limits.memory_bytes_max = (memory as usize) << 20;
    }
    limits.accept_operations_max = dials["acceptOps"].as_u64();
    limits
}

fn filled(case: &Value) -> Container {
    let mut container = Container::new(case["partitionKeyPath"].as_str().unwrap());
    for item in case["items"].as_array().unwrap() {
        container.insert(item);
    }
    container
}

fn run_procedure(case: &Value) -> Answer {
    let engine = ScriptEngine::new(limits(case)).unwrap();
    let container = filled(case);
    let script = match engine.compile(ScriptKind::Procedure, case["script"].as_str().unwrap()) {
        Ok(script) => script,
        Err(error) => return Answer::refused(65535, &error.to_string(), container),
    };
    let mut transaction = Transaction::begin(&container, Some(case["partitionKey"].clone()));
    let options = CallOptions {
        script_id: "case",
        logging: case["enableScriptLogging"] == json!(true),
        ..CallOptions::default()
    };
    let outcome =
        engine.run_procedure(&script, &case["args"].to_string(), &mut transaction, options);
    let answer = match outcome.result {
        Ok(body) => Answer {
            status: 200,
            substatus: 0,
            body: Some(serde_json::from_str(&body).unwrap()),
            message: String::new(),
            log: None,
            container: transaction.container,
        },
        Err(error) => Answer::failed(&error, container),
    };
    Answer { log: outcome.log, ..answer }
}

/// A write with the triggers it names, as the server does it.
fn run_trigger(case: &Value) -> Answer {
    let engine = ScriptEngine::new(limits(case)).unwrap();
    let container = filled(case);
    let mut transaction = Transaction::begin(&container, Some(case["partitionKey"].clone()));
    match write(&engine, case, &mut transaction) {
        Ok((status, body)) => Answer {
            status,
            substatus: 0,
            body: body.map(|body| serde_json::from_str(&body).unwrap()),
            message: String::new(),
            log: None,
            container: transaction.container,
        },
        Err(WriteError::Script(error)) => Answer::failed(&error, container),
        Err(WriteError::Refused(message)) => Answer::refused(0, &message, container),
    }
}

enum WriteError {
    Script(ScriptError),
    Refused(String),
}

fn write(
    engine: &ScriptEngine,
    case: &Value,
    transaction: &mut Transaction,
) -> Result<(u64, Option<String>), WriteError> {
    let operation = &case["operation"];
    let kind = match operation["type"].as_str().unwrap() {
        "create" => TriggerOperation::Create,
        "replace" => TriggerOperation::Replace,
        "upsert" => TriggerOperation::Upsert,
        _ => TriggerOperation::Delete,
    };
    let pre = named_trigger(engine, case, "pre", "Pre", kind)?;
    let post = named_trigger(engine, case, "post", "Post", kind)?;
    let refused = |error: armilla_script::host::HostError| WriteError::Refused(error.message);
    let id = operation["item"]["id"].as_str().or(operation["id"].as_str()).unwrap();
    let link = ItemLink::ByName(id.to_owned());
    let mut body = operation["item"].to_string();
    if kind == TriggerOperation::Delete
        && let ReadOutcome::Found(old) = transaction.read_item(&link, None).map_err(refused)?
    {
        body = old;
    }
    if let Some(pre) = pre {
        let request = TriggerRequest { operation: kind, body: &body };
        let ran = engine.run_pre_trigger(&pre, request, transaction, CallOptions::default());
        if let Some(changed) = ran.result.map_err(WriteError::Script)? {
            body = changed;
        }
    }
    let (status, mut stored) = match kind {
        TriggerOperation::Create => {
            (201, Some(transaction.create_item(&body, None).map_err(refused)?))
        }
        TriggerOperation::Replace => {
            (200, Some(transaction.replace_item(&link, &body, None, None).map_err(refused)?))
        }
        TriggerOperation::Upsert => {
            match transaction.upsert_item(&body, None, None).map_err(refused)? {
                Upserted::Created(item) => (201, Some(item)),
                Upserted::Replaced(item) => (200, Some(item)),
            }
        }
        TriggerOperation::Delete => {
            transaction.delete_item(&link, None).map_err(refused)?;
            (204, None)
        }
    };
    if let Some(post) = post {
        let request = TriggerRequest { operation: kind, body: &body };
        let response = stored.clone().unwrap_or_default();
        let options = CallOptions::default();
        let ran = engine.run_post_trigger(&post, request, &response, transaction, options);
        if let Some(changed) = ran.result.map_err(WriteError::Script)? {
            stored = Some(changed);
        }
    }
    Ok((status, stored))
}

/// The trigger named in a header, after the checks the server makes.
fn named_trigger(
    engine: &ScriptEngine,
    case: &Value,
    header: &str,
    wanted: &str,
    kind: TriggerOperation,
) -> Result<Option<Compiled>, WriteError> {
    let refused = |message: &str| WriteError::Refused(message.to_owned());
    let empty = Vec::new();
    let names = case["operation"][header].as_array().unwrap_or(&empty);
    let [name] = names.as_slice() else {
        return if names.is_empty() { Ok(None) } else { Err(refused("one trigger at most")) };
    };
    let mut triggers = case["triggers"].as_array().unwrap().iter();
    let trigger = triggers
        .find(|trigger| trigger["id"] == *name && trigger["triggerType"] == json!(wanted))
        .ok_or_else(|| refused("no such trigger"))?;
    let covered = match trigger["triggerOperation"].as_str().unwrap() {
        "All" => true,
        "Update" => kind == TriggerOperation::Replace,
        operation => operation == kind.name(),
    };
    if !covered {
        return Err(refused("the trigger is for another operation"));
    }
    let body = trigger["body"].as_str().unwrap();
    engine
        .compile(ScriptKind::Trigger, body)
        .map(Some)
        .map_err(|error| WriteError::Refused(error.to_string()))
}

fn run_udf(case: &Value) -> Answer {
    let engine = ScriptEngine::new(limits(case)).unwrap();
    let container = filled(case);
    let compiled: Vec<(&str, Compiled)> = case["udfs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|udf| {
            let body = udf["body"].as_str().unwrap();
            (udf["id"].as_str().unwrap(), engine.compile(ScriptKind::Function, body).unwrap())
        })
        .collect();
    let functions: Vec<(&str, &Compiled)> =
        compiled.iter().map(|(name, script)| (*name, script)).collect();
    let session = engine.udf_session(&functions, CallOptions::default()).unwrap();
    let mut call = |name: &str, arguments: &[Option<Value>]| {
        let texts: Vec<_> =
            arguments.iter().map(|value| value.as_ref().map(Value::to_string)).collect();
        let texts: Vec<_> = texts.iter().map(Option::as_deref).collect();
        match session.call(name, &texts) {
            Ok(json) => Ok(json.map(|json| serde_json::from_str(&json).unwrap())),
            Err(error) => Err(error.detail),
        }
    };
    let query = json!({ "query": case["query"] }).to_string();
    match query::run(&query, container.items.clone(), &mut call) {
        Ok(rows) => Answer {
            status: 200,
            substatus: 0,
            body: Some(json!(rows)),
            message: String::new(),
            log: None,
            container,
        },
        Err(message) => Answer::refused(0, &message, container),
    }
}

/// Objects: every listed property matches; everything else matches exactly.
fn matches(wanted: &Value, found: &Value) -> bool {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => wanted
            .iter()
            .all(|(name, value)| found.get(name).is_some_and(|found| matches(value, found))),
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| matches(a, b))
        }
        _ => wanted == found,
    }
}

/// What differs from the expectation; empty when all is well.
fn differences(case: &Value, answer: &Answer) -> Vec<String> {
    let expect = &case["expect"];
    let mut found = Vec::new();
    let items = &answer.container.items;
    let by_id = |id: &Value| items.iter().find(|item| item["id"] == *id);
    if expect["status"] != json!(answer.status) {
        found.push(format!("status {} {}", answer.status, answer.message));
    }
    if expect.get("substatus").is_some_and(|wanted| *wanted != json!(answer.substatus)) {
        found.push(format!("substatus {}", answer.substatus));
    }
    if let Some(wanted) = expect.get("body")
        && !answer.body.as_ref().is_some_and(|body| matches(wanted, body))
    {
        found.push(format!("body {:?}", answer.body));
    }
    if let Some(text) = expect["messageContains"].as_str()
        && !answer.message.contains(text)
    {
        found.push(format!("message {}", answer.message));
    }
    if expect.get("log").is_some_and(|wanted| *wanted != json!(answer.log)) {
        found.push(format!("log {:?}", answer.log));
    }
    if expect.get("count").is_some_and(|wanted| *wanted != json!(items.len())) {
        found.push(format!("count {}", items.len()));
    }
    for wanted in expect["items"].as_array().into_iter().flatten() {
        let stored = by_id(&wanted["id"]);
        if !stored.is_some_and(|stored| matches(wanted, stored)) {
            found.push(format!("item {} is {stored:?}", wanted["id"]));
        }
    }
    for (id, names) in expect["absent"].as_object().into_iter().flatten() {
        let stored = by_id(&json!(id)).unwrap();
        for name in names.as_array().unwrap() {
            if stored.get(name.as_str().unwrap()).is_some() {
                found.push(format!("{id} has {name}"));
            }
        }
    }
    if let Some(wanted) = expect["ids"].as_array() {
        let mut ids: Vec<_> = items.iter().map(|item| item["id"].clone()).collect();
        ids.sort_by_key(Value::to_string);
        if ids != *wanted {
            found.push(format!("ids {ids:?}"));
        }
    }
    found
}

fn check_all(kind: &str, run: fn(&Value) -> Answer, count: usize) {
    let mut ran = 0;
    let mut failures = Vec::new();
    for case in all_cases().iter().filter(|case| case["kind"] == json!(kind)) {
        ran += 1;
        let found = differences(case, &run(case));
        if !found.is_empty() {
            failures.push(format!("{} {}: {}", case["id"], case["name"], found.join("; ")));
        }
    }
    assert!(failures.is_empty(), "{} of {ran} fail:\n{}", failures.len(), failures.join("\n"));
    assert_eq!(ran, count, "cases of kind {kind}");
}

#[test]
fn all_procedure_cases_hold() {
    check_all("procedure", run_procedure, 84);
}

#[test]
fn all_trigger_cases_hold() {
    check_all("trigger", run_trigger, 19);
}

#[test]
fn all_udf_cases_hold() {
    check_all("udf", run_udf, 7);
}
