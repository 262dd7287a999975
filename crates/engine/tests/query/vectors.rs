//! The conformance vectors of the language, through items, index and pages.

#[path = "../../../sql/tests/support/rows.rs"]
mod rows;

use crate::support::{Bench, everything, stripped};
use armilla_engine::account::NewScript;
use armilla_engine::query::{Access, Request, Threads};
use armilla_engine::scripts::Kind;
use armilla_model::json::parse as parse_json;
use armilla_model::{Object, Value};
use std::path::Path;

/// Vectors we differ from, and why.
const KNOWN_DIFFERENCES: &[(&str, &str)] = &[];

#[test]
fn all_vectors() {
    let folder = Path::new("../sql/tests/vectors/sql");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let (mut count, mut failures) = (0, Vec::new());
    for (number, file) in files.iter().enumerate() {
        let vectors = parse_json(&std::fs::read(file).unwrap()).unwrap();
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let ranges = if number.is_multiple_of(2) { 1 } else { 3 };
        let bench = bench(&vectors, ranges);
        for query in vectors.get("queries").and_then(Value::as_array).unwrap() {
            count += 1;
            let sql = query.get("sql").and_then(Value::as_str).unwrap();
            if KNOWN_DIFFERENCES.iter().any(|(known, _)| *known == sql) {
                continue;
            }
            for page_size in [1000, 2] {
                if let Err(difference) = check(&bench, query, page_size) {
                    failures.push(format!("{name}, pages of {page_size}: {sql}\n    {difference}"));
                    break;
                }
            }
        }
    }
    assert!(count >= 1264, "only {count} vectors were found");
    assert!(failures.is_empty(), "{} of {count}:\n{}", failures.len(), failures.join("\n"));
}

fn bench(vectors: &Value, ranges: u32) -> Bench {
    let mut body = Object::new();
    body.insert("partitionKey", parse_json(br#"{"paths":["/id"],"version":2}"#).unwrap());
    for member in ["indexingPolicy", "fullTextPolicy", "vectorEmbeddingPolicy"] {
        if let Some(policy) = vectors.get(member) {
            body.insert(member, policy.clone());
        }
    }
    let bench = Bench::new(&Value::object(body), ranges);
    for document in vectors.get("documents").and_then(Value::as_array).unwrap() {
        bench.put(document);
    }
    let functions = vectors.get("userDefinedFunctions").and_then(Value::as_array);
    for function in functions.unwrap_or_default() {
        let text = |name| function.get(name).and_then(Value::as_str).unwrap();
        let new =
            NewScript { kind: Kind::Function, name: text("id"), body: text("body"), trigger: None };
        bench.account.create_script(&bench.container, &new, false).unwrap();
    }
    bench
}

fn check(bench: &Bench, query: &Value, page_size: usize) -> Result<(), String> {
    let text = query.get("sql").and_then(Value::as_str).unwrap();
    let mut request = Request::of_text(text);
    let parameters = query.get("parameters").and_then(Value::as_array).unwrap_or_default();
    for parameter in parameters {
        let name = parameter.get("name").and_then(Value::as_str).unwrap();
        let value = parameter.get("value").cloned().unwrap_or_default();
        request.parameters.push((name.into(), value));
    }
    // Answered twice, on one thread and on many, unless it is about chance or the time.
    let volatile = ["RAND(", "GETCURRENT"].iter().any(|name| text.to_uppercase().contains(name));
    let threads = if volatile { Threads::ByCost } else { Threads::Many };
    let pages = bench.pages_on(&request, &everything(), page_size, Access::ByCost, threads);
    match (pages, query.get("error")) {
        (Err(error), Some(expected)) => rows::check_error(error.message(), expected),
        (Ok(pages), None) => check_rows(&pages.concat(), query),
        (Ok(pages), Some(_)) => Err(format!("no error but {}", Value::array(pages.concat()))),
        (Err(error), None) => Err(error.to_string()),
    }
}

fn check_rows(rows: &[Value], query: &Value) -> Result<(), String> {
    let rows: Vec<_> = rows.iter().map(stripped).collect();
    let sql = query.get("sql").and_then(Value::as_str).unwrap().to_uppercase();
    // Without ORDER BY the order is the server's own: by key, which is a hash here.
    let unordered = query.get("unordered").is_some() || !sql.contains("ORDER BY");
    rows::check_rows(&rows, query, unordered)
}
