//! The shared cases of server-side JavaScript (`docs/protocol/scripts.md#order-of-events`), run on anything that runs scripts: the
//! model in this crate's tests, a real container in the engine's.

use std::path::Path;
use std::time::Duration;

use armilla_script::Limits;
use serde_json::{Value, json};

const FILE: &str = include_str!("../vectors/server-side-js.json");
const SAMPLES: &str = "../script/tests/samples";

/// A container with scripts.
pub(crate) trait Server {
    /// An empty container.
    fn open(key_path: &str, limits: Limits) -> Self;
    /// Stores an item.
    fn put(&mut self, item: &Value);
    /// All stored items.
    fn items(&self) -> Vec<Value>;
    /// Registers a script.
    fn register(&mut self, script: &Script<'_>) -> Result<(), Answer>;
    /// Runs a registered procedure.
    fn execute(&mut self, name: &str, key: Key<'_>, arguments: &Value, logging: bool) -> Answer;
    /// Writes an item with the triggers named.
    fn write(&mut self, key: Key<'_>, write: &Write<'_>) -> Answer;
    /// Asks a query over everything.
    fn query(&mut self, text: &str) -> Answer;
}

/// The value of a partition key; `None` is the key of items without one.
pub(crate) type Key<'a> = Option<&'a Value>;

/// A script to register.
#[derive(Clone, Copy)]
pub(crate) struct Script<'a> {
    pub(crate) role: Role<'a>,
    pub(crate) name: &'a str,
    pub(crate) body: &'a str,
}

#[derive(Clone, Copy)]
pub(crate) enum Role<'a> {
    Procedure,
    Trigger { before: bool, operation: &'a str },
    Function,
}

/// A write of one item.
pub(crate) struct Write<'a> {
    /// `create`, `upsert`, `replace` or `delete`.
    pub(crate) verb: &'a str,
    pub(crate) id: &'a str,
    pub(crate) item: &'a Value,
    pub(crate) pre: Vec<&'a str>,
    pub(crate) post: Vec<&'a str>,
}

/// What a call looks like from outside.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) status: u64,
    pub(crate) substatus: u64,
    pub(crate) body: Option<Value>,
    pub(crate) message: String,
    pub(crate) log: Option<String>,
}

impl Answer {
    pub(crate) fn good(status: u64, body: Option<Value>) -> Self {
        Self { status, body, ..Self::default() }
    }

    pub(crate) fn failed(status: u64, substatus: u64, message: impl Into<String>) -> Self {
        Self { status, substatus, message: message.into(), ..Self::default() }
    }
}

/// Runs the cases of one kind.
pub(crate) fn check_cases<S: Server>(kind: &str, count: usize) {
    let file: Value = serde_json::from_str(FILE).unwrap();
    let cases = list(&file, "cases").iter().filter(|case| case["kind"] == json!(kind));
    let mut failures = Vec::new();
    let mut ran = 0;
    for case in cases {
        ran += 1;
        let mut server = S::open(text(case, "partitionKeyPath"), limits(case));
        list(case, "items").iter().for_each(|item| server.put(item));
        let answer = match kind {
            "procedure" => run_procedure(&mut server, case),
            "trigger" => run_trigger(&mut server, case),
            _ => run_function(&mut server, case),
        };
        let found = differences(&case["expect"], &answer, &server.items());
        if !found.is_empty() {
            failures.push(format!("{} {}: {}", case["id"], case["name"], found.join("; ")));
        }
    }
    assert!(failures.is_empty(), "{} of {ran} fail:\n{}", failures.len(), failures.join("\n"));
    assert_eq!(ran, count, "cases of kind {kind}");
}

fn run_procedure(server: &mut impl Server, case: &Value) -> Answer {
    let script = Script { role: Role::Procedure, name: "case", body: text(case, "script") };
    if let Err(refused) = server.register(&script) {
        return refused;
    }
    let logging = case["enableScriptLogging"] == json!(true);
    server.execute("case", Some(&case["partitionKey"]), &case["args"], logging)
}

fn run_trigger(server: &mut impl Server, case: &Value) -> Answer {
    for trigger in list(case, "triggers") {
        let before = text(trigger, "triggerType") == "Pre";
        let role = Role::Trigger { before, operation: text(trigger, "triggerOperation") };
        let script = Script { role, name: text(trigger, "id"), body: text(trigger, "body") };
        if let Err(refused) = server.register(&script) {
            return refused;
        }
    }
    let operation = &case["operation"];
    let names = |header| list(operation, header).iter().map(|name| name.as_str().unwrap());
    let item = &operation["item"];
    let write = Write {
        verb: text(operation, "type"),
        id: item["id"].as_str().or(operation["id"].as_str()).unwrap(),
        item,
        pre: names("pre").collect(),
        post: names("post").collect(),
    };
    server.write(Some(&case["partitionKey"]), &write)
}

fn run_function(server: &mut impl Server, case: &Value) -> Answer {
    for function in list(case, "udfs") {
        let (name, body) = (text(function, "id"), text(function, "body"));
        if let Err(refused) = server.register(&Script { role: Role::Function, name, body }) {
            return refused;
        }
    }
    server.query(text(case, "query"))
}

fn limits(case: &Value) -> Limits {
    let dials = &case["dials"];
    let mut limits =
        Limits { accept_operations_max: dials["acceptOps"].as_u64(), ..Limits::default() };
    if let Some(time) = dials["timeLimitMs"].as_u64() {
        limits.time = Duration::from_millis(time);
    }
    if let Some(memory) = dials["memoryLimitMb"].as_u64() {
        limits.memory_bytes_max = usize::try_from(memory).unwrap() << 20;
    }
    limits
}

/// Runs the listed public samples: our re-creations, and the originals under `ARMILLA_SAMPLES`.
pub(crate) fn check_samples<S: Server>() {
    let file: Value = serde_json::from_str(FILE).unwrap();
    let originals = std::env::var("ARMILLA_SAMPLES").ok();
    for sample in list(&file, "publishedSamples") {
        let (repository, path) = (text(sample, "repository"), text(sample, "path"));
        check_sample::<S>(sample, &own_sample(path.rsplit('/').next().unwrap()));
        if let Some(folder) = &originals {
            let original = Path::new(folder).join(repository).join(path);
            let source = std::fs::read(&original).unwrap_or_else(|error| {
                panic!("{}: {error}", original.display());
            });
            check_sample::<S>(sample, &String::from_utf8_lossy(&source));
        }
    }
}

/// The text of a re-created sample.
pub(crate) fn own_sample(name: &str) -> String {
    std::fs::read_to_string(Path::new(SAMPLES).join(name)).unwrap()
}

fn check_sample<S: Server>(sample: &Value, source: &str) {
    let mut server = S::open(text(sample, "partitionKeyPath"), Limits::default());
    sample_items(&sample["items"]).iter().for_each(|item| server.put(item));
    let key = Some(&sample["partitionKey"]).filter(|key| **key != json!("no value"));
    let kind = text(sample, "kind");
    let role = match kind {
        "procedure" => Role::Procedure,
        kind => Role::Trigger { before: kind == "pre-trigger", operation: "All" },
    };
    server.register(&Script { role, name: "sample", body: source }).unwrap();
    let answer = if kind == "procedure" {
        let mut call = sample["call"].clone();
        if let Some(words) = call[0][0].as_str().filter(|words| words.contains("items")) {
            call = json!([sample_items(&json!(words))]);
        }
        server.execute("sample", key, &call, false)
    } else {
        let item = &sample["call"]["create"];
        let (pre, post) = match kind {
            "pre-trigger" => (vec!["sample"], vec![]),
            _ => (vec![], vec!["sample"]),
        };
        server.write(key, &Write { verb: "create", id: text(item, "id"), item, pre, post })
    };
    let found = differences(&sample["expect"], &answer, &server.items());
    assert!(found.is_empty(), "{} {}: {}", sample["path"], sample["call"], found.join("; "));
}

/// Items are given as a list, or described in words.
fn sample_items(items: &Value) -> Vec<Value> {
    let many = |count: u32| {
        (0..count).map(|n| json!({ "id": format!("d{n}"), "pk": "a", "v": 1 })).collect()
    };
    match items {
        Value::Array(items) => items.clone(),
        Value::String(words) if words.starts_with("60") => many(60),
        Value::String(words) if words.starts_with("10") => many(10),
        Value::String(words) if words.starts_with("d0,d1") => many(2),
        _ => many(1),
    }
}

/// What differs from the expectation; empty when all is well.
fn differences(expect: &Value, answer: &Answer, items: &[Value]) -> Vec<String> {
    let mut found = Vec::new();
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
    for wanted in list(expect, "items") {
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

/// Objects: every listed property matches, where null also stands for none; everything else matches
/// exactly.
fn matches(wanted: &Value, found: &Value) -> bool {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => wanted
            .iter()
            .all(|(name, value)| matches(value, found.get(name).unwrap_or(&Value::Null))),
        (Value::Number(wanted), Value::Number(found)) => wanted.as_f64() == found.as_f64(),
        (Value::Array(wanted), Value::Array(found)) => {
            wanted.len() == found.len()
                && wanted.iter().zip(found).all(|(wanted, found)| matches(wanted, found))
        }
        _ => wanted == found,
    }
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_else(|| panic!("{name} is missing in {value}"))
}

fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}
