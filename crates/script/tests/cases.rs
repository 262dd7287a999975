//! Runs the shared cases of server-side JavaScript (`docs/protocol/scripts.md#order-of-events`), and the sample scripts, against a
//! model host.

#![allow(clippy::unwrap_used, reason = "tests may unwrap")]
#![allow(clippy::result_large_err, reason = "an answer is an answer, good or bad")]

#[path = "support/cases.rs"]
mod cases;
#[path = "support/model.rs"]
mod model;
#[path = "support/query.rs"]
mod query;

use std::collections::HashMap;

use armilla_script::host::{Host, HostError, ItemLink, ReadOutcome, Upserted};
use armilla_script::{
    CallOptions, Compiled, Limits, ScriptEngine, ScriptError, ScriptErrorKind, ScriptKind,
    TriggerOperation, TriggerRequest,
};
use cases::{Answer, Key, Role, Script, Server, Write, check_cases, check_samples, own_sample};
use model::{Container, Transaction};
use serde_json::{Value, json};

/// The model as a server: what the real one does around scripts, in few words.
struct Model {
    engine: ScriptEngine,
    container: Container,
    procedures: HashMap<String, Compiled>,
    triggers: HashMap<String, Trigger>,
    functions: HashMap<String, Compiled>,
}

struct Trigger {
    script: Compiled,
    before: bool,
    operation: String,
}

impl Server for Model {
    fn open(key_path: &str, limits: Limits) -> Self {
        Self {
            engine: ScriptEngine::new(limits).unwrap(),
            container: Container::new(key_path),
            procedures: HashMap::new(),
            triggers: HashMap::new(),
            functions: HashMap::new(),
        }
    }

    fn put(&mut self, item: &Value) {
        self.container.insert(item);
    }

    fn items(&self) -> Vec<Value> {
        self.container.items.clone()
    }

    fn register(&mut self, script: &Script<'_>) -> Result<(), Answer> {
        let compile = |kind| {
            let compiled = self.engine.compile(kind, script.body);
            compiled.map_err(|error| Answer::failed(400, 65535, error.to_string()))
        };
        let name = script.name.to_owned();
        match script.role {
            Role::Procedure => {
                self.procedures.insert(name, compile(ScriptKind::Procedure)?);
            }
            Role::Trigger { before, operation } => {
                let script = compile(ScriptKind::Trigger)?;
                let trigger = Trigger { script, before, operation: operation.to_owned() };
                self.triggers.insert(name, trigger);
            }
            Role::Function => {
                self.functions.insert(name, compile(ScriptKind::Function)?);
            }
        }
        Ok(())
    }

    fn execute(&mut self, name: &str, key: Key<'_>, arguments: &Value, logging: bool) -> Answer {
        let mut transaction = Transaction::begin(&self.container, key.cloned());
        let options = CallOptions { script_id: name, logging, ..CallOptions::default() };
        let (script, arguments) = (&self.procedures[name], arguments.to_string());
        let outcome = self.engine.run_procedure(script, &arguments, &mut transaction, options);
        let answer = match outcome.result {
            Ok(body) => {
                self.container = transaction.container;
                Answer::good(200, Some(serde_json::from_str(&body).unwrap()))
            }
            Err(error) => failed(&error),
        };
        Answer { log: outcome.log, ..answer }
    }

    fn write(&mut self, key: Key<'_>, write: &Write<'_>) -> Answer {
        let mut transaction = Transaction::begin(&self.container, key.cloned());
        match self.write_triggered(&mut transaction, write) {
            Ok((status, body)) => {
                self.container = transaction.container;
                Answer::good(status, body.map(|body| serde_json::from_str(&body).unwrap()))
            }
            Err(answer) => answer,
        }
    }

    fn query(&mut self, text: &str) -> Answer {
        let functions: Vec<_> =
            self.functions.iter().map(|(name, script)| (name.as_str(), script)).collect();
        let session = self.engine.udf_session(&functions, CallOptions::default()).unwrap();
        let mut call = |name: &str, arguments: &[Option<Value>]| {
            // A function is not called with an argument that is undefined.
            let Some(arguments) = arguments.iter().cloned().collect::<Option<Vec<_>>>() else {
                return Ok(None);
            };
            let texts: Vec<_> = arguments.iter().map(Value::to_string).collect();
            let texts: Vec<_> = texts.iter().map(|text| Some(text.as_str())).collect();
            match session.call(name, &texts) {
                Ok(json) => Ok(json.map(|json| serde_json::from_str(&json).unwrap())),
                Err(error) => Err(error.detail),
            }
        };
        let query = json!({ "query": text }).to_string();
        match query::run(&query, self.container.items.clone(), &mut call) {
            Ok(rows) => Answer::good(200, Some(json!(rows))),
            Err(message) => Answer::failed(400, 0, message),
        }
    }
}

impl Model {
    fn write_triggered(
        &self,
        transaction: &mut Transaction,
        write: &Write<'_>,
    ) -> Result<(u64, Option<String>), Answer> {
        let operation = match write.verb {
            "create" => TriggerOperation::Create,
            "replace" => TriggerOperation::Replace,
            "upsert" => TriggerOperation::Upsert,
            _ => TriggerOperation::Delete,
        };
        let pre = self.trigger(&write.pre, true, operation)?;
        let post = self.trigger(&write.post, false, operation)?;
        let link = ItemLink::ByName(write.id.to_owned());
        let mut body = write.item.to_string();
        if operation == TriggerOperation::Delete
            && let ReadOutcome::Found(old) =
                transaction.read_item(&link, None).map_err(|error| refused(&error))?
        {
            body = old;
        }
        if let Some(pre) = pre {
            let request = TriggerRequest { operation, body: &body };
            let options = CallOptions::default();
            let ran = self.engine.run_pre_trigger(pre, request, transaction, options);
            body = ran.result.map_err(|error| failed(&error))?.unwrap_or(body);
        }
        let (status, mut stored) = match operation {
            TriggerOperation::Create => transaction.create_item(&body, None).map(created),
            TriggerOperation::Replace => {
                transaction.replace_item(&link, &body, None, None).map(|item| (200, Some(item)))
            }
            TriggerOperation::Upsert => {
                transaction.upsert_item(&body, None, None).map(|item| match item {
                    Upserted::Created(item) => created(item),
                    Upserted::Replaced(item) => (200, Some(item)),
                })
            }
            TriggerOperation::Delete => transaction.delete_item(&link, None).map(|()| (204, None)),
        }
        .map_err(|error| refused(&error))?;
        if let Some(post) = post {
            let request = TriggerRequest { operation, body: &body };
            let response = stored.clone().unwrap_or_default();
            let options = CallOptions::default();
            let ran = self.engine.run_post_trigger(post, request, &response, transaction, options);
            stored = ran.result.map_err(|error| failed(&error))?.or(stored);
        }
        Ok((status, stored))
    }

    /// The trigger named in a header, after the checks the server makes.
    fn trigger(
        &self,
        names: &[&str],
        before: bool,
        operation: TriggerOperation,
    ) -> Result<Option<&Compiled>, Answer> {
        let refused = |message: &str| Err(Answer::failed(400, 0, message));
        let name = match names {
            [] => return Ok(None),
            [name] => *name,
            _ => return refused("one trigger at most"),
        };
        let Some(trigger) = self.triggers.get(name).filter(|trigger| trigger.before == before)
        else {
            return refused("no such trigger");
        };
        let covered = match trigger.operation.as_str() {
            "All" => true,
            "Update" => operation == TriggerOperation::Replace,
            covered => covered == operation.name(),
        };
        if covered { Ok(Some(&trigger.script)) } else { refused("it is for another operation") }
    }
}

fn created(item: String) -> (u64, Option<String>) {
    (201, Some(item))
}

fn refused(error: &HostError) -> Answer {
    Answer::failed(400, 0, error.message.as_str())
}

fn failed(error: &ScriptError) -> Answer {
    let status = match error.kind {
        ScriptErrorKind::Threw { .. } | ScriptErrorKind::OutOfMemory => 400,
        ScriptErrorKind::Timeout => 408,
        ScriptErrorKind::Blocked => 403,
        ScriptErrorKind::Internal => 500,
    };
    Answer::failed(status, error.number().unwrap_or(0).into(), error.message())
}

#[test]
fn all_procedure_cases_hold() {
    check_cases::<Model>("procedure", 84);
}

#[test]
fn all_trigger_cases_hold() {
    check_cases::<Model>("trigger", 19);
}

#[test]
fn all_function_cases_hold() {
    check_cases::<Model>("udf", 8);
}

#[test]
fn sample_scripts_give_the_listed_results() {
    check_samples::<Model>();
}

#[test]
fn the_sample_function_taxes() {
    let mut model = Model::open("/pk", Limits::default());
    model.put(&json!({"id": "a", "pk": "a", "who": {"country": "UK", "income": 100}}));
    model.put(&json!({"id": "b", "pk": "b", "who": {"country": "USA", "income": 10}}));
    let body = own_sample("Tax.js");
    model.register(&Script { role: Role::Function, name: "tax", body: &body }).unwrap();
    let answer = model.query("SELECT VALUE udf.tax(c.who) FROM c");
    assert_eq!(answer.body, Some(json!([30, 2])), "{answer:?}");
    model.put(&json!({"id": "c", "pk": "c", "who": {"country": "Atlantis", "income": 1}}));
    assert_eq!(model.query("SELECT VALUE udf.tax(c.who) FROM c").status, 400);
}

#[test]
fn the_counting_sample_goes_on_where_it_ended() {
    let mut model = Model::open("/pk", Limits::default());
    for number in 0..60 {
        model.put(&json!({"id": format!("d{number}"), "pk": "a"}));
    }
    let body = own_sample("Count.js");
    model.register(&Script { role: Role::Procedure, name: "count", body: &body }).unwrap();
    let (mut counts, mut token) = (Vec::new(), Value::Null);
    loop {
        let answer = model.execute("count", Some(&json!("a")), &json!([null, token]), false);
        let body = answer.body.unwrap();
        counts.push(body["count"].as_u64().unwrap());
        token = body["continuationToken"].clone();
        if token.is_null() {
            break;
        }
    }
    assert_eq!(counts, [25, 25, 10]);
}
