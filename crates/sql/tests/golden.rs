//! The conformance vectors, run through the reference evaluator.
//!
//! One file is one container. A vector marked `inferred` may differ, but only when it stands in the
//! table of known differences with its reason; every other difference is a failure.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "support/rows.rs"]
mod rows;

use armilla_model::json::parse as parse_json;
use armilla_model::policy::ContainerPolicy;
use armilla_model::{Object, Value};
use armilla_sql::reference::{Options, run};
use armilla_sql::{Schema, parse, udf};
use std::path::Path;

/// Vectors we differ from, and why.
const KNOWN_DIFFERENCES: &[(&str, &str)] = &[];

/// The functions of `udf-basic.json`, written in Rust: this crate has no JavaScript.
struct Users;

impl udf::Functions for Users {
    fn call(&self, name: &str, arguments: &[Value]) -> Result<Value, String> {
        match (name, arguments) {
            ("double", [value]) => {
                Ok(value.as_f64().map_or(Value::Undefined, |number| Value::from(number * 2.0)))
            }
            ("pick", [object, name]) => {
                Ok(name.as_str().and_then(|name| object.get(name)).cloned().unwrap_or_default())
            }
            ("boom", _) => Err("Error: boom".to_owned()),
            _ => Err(format!("The user defined function '{name}' does not exist.")),
        }
    }
}

#[test]
fn all_vectors() {
    let folder = Path::new("tests/vectors/sql");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let (mut count, mut failures) = (0, Vec::new());
    for file in files {
        let text = std::fs::read(&file).unwrap();
        let vectors = parse_json(&text).unwrap();
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let schema = schema(&vectors);
        for query in vectors.get("queries").and_then(Value::as_array).unwrap() {
            count += 1;
            if let Err(difference) = check(&vectors, query, &schema) {
                let sql = query.get("sql").and_then(Value::as_str).unwrap();
                let inferred = query.get("confidence").is_some();
                let known = KNOWN_DIFFERENCES.iter().any(|(known, _)| *known == sql);
                if !(inferred && known) {
                    let mark = if inferred { " (inferred)" } else { "" };
                    failures.push(format!("{name}{mark}: {sql}\n    {difference}"));
                }
            }
        }
    }
    assert!(count >= 1264, "only {count} vectors were found");
    assert!(failures.is_empty(), "{} of {count}:\n{}", failures.len(), failures.join("\n"));
}

fn schema(vectors: &Value) -> Schema {
    let mut body = Object::new();
    body.insert("id", Value::from("vectors"));
    let key = parse_json(br#"{"paths":["/id"],"kind":"Hash","version":2}"#).unwrap();
    body.insert("partitionKey", key);
    for member in ["indexingPolicy", "fullTextPolicy", "vectorEmbeddingPolicy"] {
        if let Some(policy) = vectors.get(member) {
            body.insert(member, policy.clone());
        }
    }
    let policy = ContainerPolicy::parse(&Value::object(body)).unwrap();
    Schema::new(&policy).unwrap()
}

fn check(vectors: &Value, query: &Value, schema: &Schema) -> Result<(), String> {
    let sql = query.get("sql").and_then(Value::as_str).unwrap();
    let parameters: Vec<_> = query
        .get("parameters")
        .and_then(Value::as_array)
        .unwrap_or_default()
        .iter()
        .map(|parameter| {
            let name = parameter.get("name").and_then(Value::as_str).unwrap();
            (name.into(), parameter.get("value").cloned().unwrap_or_default())
        })
        .collect();
    let documents = vectors.get("documents").and_then(Value::as_array).unwrap();
    let options = Options { users: &Users, ..Options::new(schema) };
    let result =
        parse(sql).and_then(|query| run(&query, &parameters, documents.iter().cloned(), options));
    match (result, query.get("error")) {
        (Err(error), Some(expected)) => rows::check_error(&error.to_json(), expected),
        (Ok(rows), None) => rows::check_rows(&rows, query, query.get("unordered").is_some()),
        (Ok(rows), Some(_)) => Err(format!("no error but {}", Value::array(rows))),
        (Err(error), None) => Err(error.to_json()),
    }
}
