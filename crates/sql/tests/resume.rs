//! An ORDER BY that goes on behind a row: the client of the Java SDK puts a condition into the rewritten
//! text. (The .NET SDK sends a `resumeFilter` beside the text, which the engine's tests cover.)

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use armilla_model::Value;
use armilla_model::json::parse as parse_json;
use armilla_model::path::Path;
use armilla_sql::plan::{FILTER_PLACEHOLDER, Features, PlanRange, PlanRequest, partitioned_plan};
use armilla_sql::reference::{Options, run};
use armilla_sql::{Schema, parse};

/// Keys of all types in their order; the empty text is a missing key.
const KEYS: [&str; 11] =
    ["", "null", "false", "true", "-1", "0", "2.5", "\"\"", "\"a\"", "[1]", "{\"x\":1}"];

fn documents() -> Vec<Value> {
    KEYS.iter()
        .enumerate()
        .map(|(number, key)| {
            let member = if key.is_empty() { String::new() } else { format!(",\"k\":{key}") };
            parse_json(format!("{{\"id\":\"{number}\"{member}}}").as_bytes()).unwrap()
        })
        .collect()
}

/// What the Java SDK writes for the rows behind a scalar: the comparison, and every type behind its type.
fn behind(key: &str, descending: bool) -> String {
    const TYPES: [&str; 7] = [
        "NOT IS_DEFINED(c.k)",
        "IS_NULL(c.k)",
        "IS_BOOLEAN(c.k)",
        "IS_NUMBER(c.k)",
        "IS_STRING(c.k)",
        "IS_ARRAY(c.k)",
        "IS_OBJECT(c.k)",
    ];
    let own = match key.chars().next() {
        None => 0,
        Some('n') => 1,
        Some('t' | 'f') => 2,
        Some('"') => 4,
        Some(_) => 3,
    };
    let others: Vec<_> = if descending { TYPES[..own].to_vec() } else { TYPES[own + 1..].to_vec() };
    let comparison = if key.is_empty() {
        None
    } else {
        Some(format!("c.k {} {key}", if descending { "<" } else { ">" }))
    };
    let parts: Vec<_> =
        comparison.into_iter().chain(others.into_iter().map(str::to_owned)).collect();
    if parts.is_empty() { "false".to_owned() } else { format!("( {} )", parts.join(" OR ")) }
}

fn rewritten(text: &str) -> String {
    let plan = partitioned_plan(PlanRequest {
        query: &parse(text).unwrap(),
        parameters: &[],
        schema: &Schema::none(),
        partition_key: &[Path::parse("/pk").unwrap()],
        features: &Features::all(),
        range_of: &|_| PlanRange::full(),
        for_one_key: false,
    });
    let plan = plan.unwrap().to_value();
    let info = plan.get("queryInfo").unwrap();
    info.get("rewrittenQuery").and_then(Value::as_str).unwrap().to_owned()
}

fn ids(text: &str) -> Vec<String> {
    let schema = Schema::none();
    let query = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let rows = run(&query, &[], documents().into_iter(), Options::new(&schema)).unwrap();
    let id = |row: &Value| row.get("payload").and_then(|payload| payload.get("id")).cloned();
    rows.iter().map(|row| id(row).unwrap().as_str().unwrap().to_owned()).collect()
}

#[test]
fn an_order_goes_on_behind_any_scalar_in_both_directions() {
    for descending in [false, true] {
        let direction = if descending { " DESC" } else { "" };
        let text = rewritten(&format!("SELECT c.id FROM c ORDER BY c.k{direction}"));
        let whole = ids(&text.replace(FILTER_PLACEHOLDER, "true"));
        let mut expected: Vec<_> = (0..KEYS.len()).map(|number| number.to_string()).collect();
        if descending {
            expected.reverse();
        }
        assert_eq!(whole, expected);
        for (number, key) in KEYS.iter().enumerate().take(9) {
            let filter = behind(key, descending);
            let rest = ids(&text.replace(FILTER_PLACEHOLDER, &filter));
            let at = whole.iter().position(|id| *id == number.to_string()).unwrap();
            assert_eq!(rest, whole[at + 1..], "behind {key}{direction}: {filter}");
        }
    }
}
