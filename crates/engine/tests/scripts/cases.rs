//! The shared cases of the server-side JavaScript contract, on real items, queries and commits.

use crate::bench::Bench;
use armilla_engine::account::NewScript;
use armilla_engine::scripts::{Kind, TriggeredVerb};
use armilla_model::{Error, Value, json};
use armilla_script::Limits;
use bytes::Bytes;
use std::time::Duration;

const CASES: &str = include_str!("../../../script/tests/vectors/server-side-js.json");

/// A case that the query language decides otherwise: a function is not called with an argument that
/// is undefined, so it cannot throw because of one.
const UNDEFINED_ARGUMENT: i64 = 107;

/// What a case looks like from outside.
#[derive(Default)]
struct Answer {
    status: i64,
    substatus: i64,
    body: Option<Value>,
    message: String,
    log: Option<String>,
}

impl Answer {
    fn good(status: i64, body: Option<Value>) -> Self {
        Self { status, body, ..Self::default() }
    }

    fn failed(error: &Error) -> Self {
        let (status, substatus) = match error {
            Error::ScriptFailed { number, .. } => (400, number.unwrap_or(0).into()),
            Error::ScriptSyntax(_) => (400, 65535),
            Error::Timeout(_) => (408, 0),
            Error::Forbidden(_) => (403, 0),
            Error::Internal(_) => (500, 0),
            _ => (400, 0),
        };
        Self { status, substatus, message: error.message().to_owned(), ..Self::default() }
    }
}

fn text<'v>(value: &'v Value, name: &str) -> Option<&'v str> {
    value.get(name).and_then(Value::as_str)
}

fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value.get(name).and_then(Value::as_array).unwrap_or_default()
}

fn limits(case: &Value) -> Limits {
    let dial = |name: &str| {
        let dial = case.get("dials").and_then(|dials| dials.get(name));
        dial.and_then(Value::as_i64).map(i64::unsigned_abs)
    };
    let mut limits = Limits { accept_operations_max: dial("acceptOps"), ..Limits::default() };
    if let Some(time) = dial("timeLimitMs") {
        limits.time = Duration::from_millis(time);
    }
    if let Some(memory) = dial("memoryLimitMb") {
        limits.memory_bytes_max = (memory as usize) << 20;
    }
    limits
}

fn filled(case: &Value) -> Bench {
    let path = text(case, "partitionKeyPath").unwrap();
    let definition = format!(r#"{{"id":"c","partitionKey":{{"paths":["{path}"]}}}}"#);
    let bench = Bench::new(&definition, limits(case));
    for item in list(case, "items") {
        bench.put(&item.to_json());
    }
    bench
}

fn key(case: &Value) -> String {
    format!("[{}]", case.get("partitionKey").unwrap().to_json())
}

fn run_procedure(case: &Value, bench: &Bench) -> Answer {
    if let Err(error) = bench.procedure("case", text(case, "script").unwrap()) {
        return Answer::failed(&error);
    }
    let logging = case.get("enableScriptLogging").and_then(Value::as_bool).unwrap_or(false);
    let arguments = case.get("args").map(Value::to_json).unwrap_or_default();
    let executed = bench.execute_logged("case", &key(case), &arguments, logging);
    let answer = match executed.result {
        Ok((body, _)) => Answer::good(200, Some(json::parse(body.as_bytes()).unwrap())),
        Err(error) => Answer::failed(&error),
    };
    Answer { log: executed.log, ..answer }
}

fn run_trigger(case: &Value, bench: &Bench) -> Answer {
    for trigger in list(case, "triggers") {
        let before = text(trigger, "triggerType") == Some("Pre");
        let operation = text(trigger, "triggerOperation").unwrap();
        bench.trigger(
            text(trigger, "id").unwrap(),
            before,
            operation,
            text(trigger, "body").unwrap(),
        );
    }
    let operation = case.get("operation").unwrap();
    let item = operation.get("item");
    let body = Bytes::from(item.map(Value::to_json).unwrap_or_default());
    let id = item.and_then(|item| text(item, "id")).or(text(operation, "id")).unwrap().to_owned();
    let verb = match text(operation, "type").unwrap() {
        "create" => TriggeredVerb::Create(body),
        "upsert" => TriggeredVerb::Upsert(body),
        "replace" => TriggeredVerb::Replace(id, body),
        _ => TriggeredVerb::Delete(id),
    };
    let names = |header: &str| -> Vec<_> {
        list(operation, header).iter().map(|name| name.as_str().unwrap()).collect()
    };
    let outcome = bench
        .write(&key(case), verb, &names("pre"), &names("post"))
        .and_then(|triggered| triggered.result);
    match outcome {
        Ok((written, _)) if written.etag.is_none() => Answer::good(204, None),
        Ok((written, _)) => {
            let status = if written.created { 201 } else { 200 };
            Answer::good(status, Some(json::parse(&written.text).unwrap()))
        }
        Err(error) => Answer::failed(&error),
    }
}

fn run_udf(case: &Value, bench: &Bench) -> Answer {
    for function in list(case, "udfs") {
        let (name, body) = (text(function, "id").unwrap(), text(function, "body").unwrap());
        bench.register(&NewScript { kind: Kind::Function, name, body, trigger: None }).unwrap();
    }
    match bench.query(text(case, "query").unwrap()) {
        Ok(rows) if case.get("id").and_then(Value::as_i64) == Some(UNDEFINED_ARGUMENT) => {
            assert!(rows.is_empty(), "{rows:?}");
            Answer::good(400, None)
        }
        Ok(rows) => Answer::good(200, Some(Value::array(rows))),
        Err(error) => Answer::failed(&error),
    }
}

/// Objects: every listed property matches; everything else matches exactly.
fn matches(wanted: &Value, found: &Value) -> bool {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => wanted
            .iter()
            .all(|(name, value)| found.get(name).is_some_and(|found| matches(value, found))),
        (Value::Number(wanted), Value::Number(found)) => wanted.as_f64() == found.as_f64(),
        (Value::Array(wanted), Value::Array(found)) => {
            wanted.len() == found.len()
                && wanted.iter().zip(found.iter()).all(|(wanted, found)| matches(wanted, found))
        }
        _ => wanted.to_json() == found.to_json(),
    }
}

/// What differs from the expectation; empty when all is well.
fn differences(case: &Value, answer: &Answer, items: &[Value]) -> Vec<String> {
    let expect = case.get("expect").unwrap();
    let mut found = Vec::new();
    let number = |name: &str| expect.get(name).and_then(Value::as_i64);
    let by_id = |id: &str| items.iter().find(|item| text(item, "id") == Some(id));
    if number("status") != Some(answer.status) {
        found.push(format!("status {} {}", answer.status, answer.message));
    }
    if number("substatus").is_some_and(|wanted| wanted != answer.substatus) {
        found.push(format!("substatus {}", answer.substatus));
    }
    if let Some(wanted) = expect.get("body")
        && !answer.body.as_ref().is_some_and(|body| matches(wanted, body))
    {
        found.push(format!("body {:?}", answer.body.as_ref().map(Value::to_json)));
    }
    if text(expect, "messageContains").is_some_and(|wanted| !answer.message.contains(wanted)) {
        found.push(format!("message {}", answer.message));
    }
    if expect.get("log").is_some_and(|wanted| wanted.as_str() != answer.log.as_deref()) {
        found.push(format!("log {:?}", answer.log));
    }
    if number("count").is_some_and(|wanted| wanted != items.len() as i64) {
        found.push(format!("count {}", items.len()));
    }
    for wanted in list(expect, "items") {
        let id = text(wanted, "id").unwrap();
        let stored = by_id(id);
        if !stored.is_some_and(|stored| matches(wanted, stored)) {
            found.push(format!("item {id} is {:?}", stored.map(Value::to_json)));
        }
    }
    for (id, names) in
        expect.get("absent").and_then(Value::as_object).into_iter().flat_map(|o| o.iter())
    {
        let stored = by_id(id).unwrap();
        for name in names.as_array().unwrap() {
            if stored.get(name.as_str().unwrap()).is_some() {
                found.push(format!("{id} has {}", name.to_json()));
            }
        }
    }
    if expect.get("ids").is_some() {
        let wanted: Vec<_> = list(expect, "ids").iter().filter_map(Value::as_str).collect();
        let mut ids: Vec<_> = items.iter().filter_map(|item| text(item, "id")).collect();
        ids.sort_unstable();
        if ids != wanted {
            found.push(format!("ids {ids:?}"));
        }
    }
    found
}

fn check_all(kind: &str, run: fn(&Value, &Bench) -> Answer, count: usize) {
    let file = json::parse(CASES.as_bytes()).unwrap();
    let cases: Vec<_> =
        list(&file, "cases").iter().filter(|case| text(case, "kind") == Some(kind)).collect();
    let mut failures = Vec::new();
    for case in &cases {
        let bench = filled(case);
        let answer = run(case, &bench);
        let found = differences(case, &answer, &bench.items());
        if !found.is_empty() {
            let (id, name) = (case.get("id").unwrap(), text(case, "name").unwrap());
            failures.push(format!("{} {name}: {}", id.to_json(), found.join("; ")));
        }
    }
    let ran = cases.len();
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
