//! Our front end against the answers of Microsoft's own planner: `vectors/plans.jsonl`.
//!
//! Exactly the same have to be: whether a text is accepted, the code and the text of the first error,
//! and the fields a client merges by. Rewritten texts are parsed again and compared as trees, so that
//! blanks, letter case and the order of conjuncts are free and parentheses are not. Key ranges may be
//! wider than the planner's and never narrower. What differs on purpose is listed with its reason in
//! `vectors/plans-exceptions.txt`.
//!
//! `PLANNER_REPORT=path cargo test -p armilla-sql --test planner` writes the differences by cause.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "planner/meaning.rs"]
mod meaning;

use armilla_model::json::parse as parse_json;
use armilla_model::partition_key::{Definition, PartitionKey};
use armilla_model::policy::ContainerPolicy;
use armilla_model::{Object, Value};
use armilla_sql::plan::{Features, PlanRange, PlanRequest, QueryPlan, partitioned_plan};
use armilla_sql::{Result, Schema, SqlError, parse};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Every hundredth part that may differ, times ten: 99.5 % have to agree.
const EXCEPTIONS_MAX: usize = 4510 / 200;

const FIELDS: [&str; 11] = [
    "distinctType",
    "top",
    "offset",
    "limit",
    "orderBy",
    "aggregates",
    "groupByAliases",
    "groupByAliasToAggregateType",
    "hasSelectValue",
    "dCountInfo",
    "hasNonStreamingOrderBy",
];

struct Container {
    schema: Schema,
    key: Definition,
}

fn container(paths: &str, kind: &str) -> Container {
    let body = format!(
        r#"{{"id":"c","partitionKey":{{"paths":{paths},"kind":"{kind}","version":2}},
            "vectorEmbeddingPolicy":{{"vectorEmbeddings":[{{"path":"/v","dataType":"float32",
                "distanceFunction":"cosine","dimensions":3}}]}}}}"#
    );
    let policy = ContainerPolicy::parse(&parse_json(body.as_bytes()).unwrap()).unwrap();
    Container { schema: Schema::new(&policy).unwrap(), key: policy.partition_key }
}

fn range_of(definition: &Definition, key: &PartitionKey) -> PlanRange {
    let min = definition.epk(key).to_string();
    if definition.is_prefix(key) {
        PlanRange { max: format!("{min}FF"), min, max_inclusive: false }
    } else {
        PlanRange { max: min.clone(), min, max_inclusive: true }
    }
}

fn plan(container: &Container, vector: &Value, features: &Features) -> Result<QueryPlan> {
    let text = vector.get("query").and_then(Value::as_str).unwrap();
    let listed = vector.get("parameters").and_then(Value::as_array).unwrap_or_default();
    let parameters: Vec<_> = listed
        .iter()
        .map(|parameter| {
            let name = parameter.get("name").and_then(Value::as_str).unwrap_or("");
            (name.into(), parameter.get("value").cloned().unwrap_or_default())
        })
        .collect();
    armilla_sql::check_parameters(&parameters)?;
    partitioned_plan(PlanRequest {
        query: &parse(text)?,
        parameters: &parameters,
        schema: &container.schema,
        partition_key: &container.key.paths,
        features,
        range_of: &|key| range_of(&container.key, key),
        for_one_key: false,
    })
}

/// What differs, in words that name the cause; nothing where all is well.
fn compare(container: &Container, vector: &Value) -> Option<String> {
    let skipping = Features::all();
    let plain = Features::all().without("HybridSearchSkipOrderByRewrite");
    match (plan(container, vector, &plain), refusal(vector)) {
        (Err(error), Some(expected)) => {
            let found = first_error(&error);
            (found != expected).then(|| {
                let same_code = found.0 == expected.0;
                if same_code {
                    format!("message of {}: {} / ours {}", found.0, expected.1, found.1)
                } else {
                    format!("code {} / ours {}: {} / {}", expected.0, found.0, expected.1, found.1)
                }
            })
        }
        (Ok(_), Some((code, message))) => Some(format!("trap {code}: {message}")),
        (Err(error), None) => {
            let (code, message) = first_error(&error);
            Some(format!("wall {code}: {message}"))
        }
        (Ok(plan), None) => {
            let plan = plan.to_value();
            if let Some(expected) = vector.get("hybrid") {
                let difference = hybrid("hybrid", &plan, expected);
                if difference.is_some() {
                    return difference;
                }
            }
            if let Some(expected) = vector.get("hybridSkip") {
                let plan = self::plan(container, vector, &skipping).unwrap().to_value();
                let difference = hybrid("skip", &plan, expected);
                if difference.is_some() {
                    return difference;
                }
            }
            let info = vector.get("plan").map(|expected| {
                let empty = Value::object(Object::new());
                fields("", plan.get("queryInfo").unwrap_or(&empty), expected)
            });
            info.flatten().or_else(|| narrower(&plan, vector))
        }
    }
}

/// The first error that the planner reports: its code, and its text.
fn refusal(vector: &Value) -> Option<(String, String)> {
    if let Some(list) = vector.get("Errors").and_then(Value::as_array) {
        return Some((String::new(), list[0].as_str().unwrap().to_owned()));
    }
    let error = vector.get("error")?.as_array()?;
    let code = error[0].as_str().map_or_else(|| error[0].to_json(), str::to_owned);
    Some((code, error[1].as_str().unwrap().to_owned()))
}

fn first_error(error: &SqlError) -> (String, String) {
    let document = parse_json(error.to_json().as_bytes()).unwrap();
    if let Some(list) = document.get("Errors").and_then(Value::as_array) {
        return (String::new(), list[0].as_str().unwrap().to_owned());
    }
    let first = &document.get("errors").and_then(Value::as_array).unwrap()[0];
    let code = first.get("code").unwrap();
    let code = code.as_str().map_or_else(|| code.to_json(), str::to_owned);
    (code, first.get("message").and_then(Value::as_str).unwrap().to_owned())
}

/// The fields of an ordinary plan, or of one component of a ranked one.
fn fields(place: &str, found: &Value, expected: &Value) -> Option<String> {
    let default = |name: &str| match name {
        "distinctType" => Value::from("None"),
        "top" | "offset" | "limit" | "dCountInfo" => Value::Null,
        "groupByAliasToAggregateType" => Value::object(Object::new()),
        "hasSelectValue" | "hasNonStreamingOrderBy" => Value::Bool(false),
        _ => Value::array(Vec::new()),
    };
    for name in FIELDS {
        let expected = expected.get(name).cloned().unwrap_or_else(|| default(name));
        let found = found.get(name).cloned().unwrap_or_else(|| default(name));
        if expected != found {
            return Some(format!("{place}field {name}: {expected} / ours {found}"));
        }
    }
    for name in ["orderByExpressions", "groupByExpressions"] {
        let list = |value: &Value| -> Vec<String> {
            let list = value.get(name).and_then(Value::as_array).unwrap_or_default();
            list.iter().map(|text| text.as_str().unwrap().to_owned()).collect()
        };
        let (expected, found) = (list(expected), list(found));
        let same = expected.len() == found.len()
            && expected
                .iter()
                .zip(&found)
                .all(|(left, right)| meaning::same_expression(left, right));
        if !same {
            return Some(format!("{place}field {name}: {expected:?} / ours {found:?}"));
        }
    }
    texts(place, "rewrittenQuery", found, expected)
}

fn texts(place: &str, name: &str, found: &Value, expected: &Value) -> Option<String> {
    let text = |value: &Value| value.get(name).and_then(Value::as_str).unwrap_or("").to_owned();
    let (expected, found) = (text(expected), text(found));
    let difference = meaning::difference(&expected, &found)?;
    Some(format!("{place}{name} ({difference}): {expected}\n      ours {found}"))
}

fn hybrid(form: &str, plan: &Value, expected: &Value) -> Option<String> {
    let Some(found) = plan.get("hybridSearchQueryInfo") else {
        return Some(format!("{form}: no ranked plan"));
    };
    for name in ["componentWeights", "skip", "take", "requiresGlobalStatistics"] {
        let of = |value: &Value| value.get(name).cloned().unwrap_or(Value::Null);
        let (wanted, given) = (of(expected), of(found));
        if wanted != given {
            return Some(format!("{form} {name}: {wanted} / ours {given}"));
        }
    }
    if let Some(difference) = texts(form, " globalStatisticsQuery", found, expected) {
        return Some(difference);
    }
    for name in ["componentQueryInfos", "componentWithoutPayloadQueryInfos"] {
        let of =
            |value: &Value| value.get(name).and_then(Value::as_array).unwrap_or_default().to_vec();
        let (wanted, given) = (of(expected), of(found));
        if wanted.len() != given.len() {
            return Some(format!("{form} {name}: {} / ours {}", wanted.len(), given.len()));
        }
        let differences = wanted
            .iter()
            .zip(&given)
            .find_map(|(wanted, given)| fields(&format!("{form} component "), given, wanted));
        if differences.is_some() {
            return differences;
        }
    }
    None
}

fn ranges(value: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let list = value.as_array().unwrap_or_default();
    list.iter()
        .map(|range| match range.as_array() {
            Some(bounds) => (text(&bounds[0]), text(&bounds[1])),
            None => (text(range.get("min").unwrap()), text(range.get("max").unwrap())),
        })
        .collect()
}

/// A range of the planner that we would not ask.
fn narrower(plan: &Value, vector: &Value) -> Option<String> {
    let ours = ranges(plan.get("queryRanges")?);
    let theirs =
        vector.get("ranges").map_or_else(|| vec![(String::new(), "FF".to_owned())], ranges);
    let missing = theirs
        .iter()
        .find(|(min, max)| !ours.iter().any(|(our_min, our_max)| our_min <= min && our_max >= max));
    missing.map(|range| format!("narrower: {range:?} is not in {ours:?}"))
}

/// True when we ask for more than the planner does.
fn is_wider(container: &Container, vector: &Value) -> bool {
    let Ok(plan) = plan(container, vector, &Features::all()) else { return false };
    let ours = ranges(plan.to_value().get("queryRanges").unwrap());
    let Some(theirs) = vector.get("ranges").map(ranges) else { return false };
    let empty = |(min, max): &(String, String)| min.is_empty() && max.is_empty();
    !ours.iter().all(|range| {
        empty(range) || theirs.iter().any(|(min, max)| *min <= range.0 && *max >= range.1)
    })
}

fn exceptions() -> BTreeMap<&'static str, &'static str> {
    include_str!("vectors/plans-exceptions.txt")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.split_once(' ').expect("an id and a reason"))
        .collect()
}

#[test]
fn plans_and_refusals_are_those_of_the_service() {
    let one = container(r#"["/pk"]"#, "Hash");
    let three = container(r#"["/tenant","/user","/session"]"#, "MultiHash");
    let listed = exceptions();
    assert!(listed.len() <= EXCEPTIONS_MAX, "{} exceptions are too many", listed.len());
    let (mut report, mut wider) = (BTreeMap::<String, Vec<String>>::new(), Vec::new());
    let (mut count, mut failed) = (0, BTreeSet::new());
    for line in include_str!("vectors/plans.jsonl").lines() {
        let vector = parse_json(line.as_bytes()).unwrap();
        let container = if vector.get("partitionKey").is_some() { &three } else { &one };
        let id = vector.get("id").and_then(Value::as_str).unwrap().to_owned();
        count += 1;
        let query = vector.get("query").and_then(Value::as_str).unwrap();
        if is_wider(container, &vector) {
            wider.push(format!("{id} {query}"));
        }
        let Some(difference) = compare(container, &vector) else { continue };
        let cause = difference.split(':').next().unwrap_or_default().to_owned();
        report.entry(cause).or_default().push(format!("{id} {query}\n    {difference}"));
        failed.insert(id);
    }
    if let Ok(path) = std::env::var("PLANNER_REPORT") {
        write_report(&path, &report, &wider, count);
    }
    let surprising: Vec<_> = failed.iter().filter(|id| !listed.contains_key(id.as_str())).collect();
    let stale: Vec<_> = listed.keys().filter(|id| !failed.contains(**id)).collect();
    assert!(
        surprising.is_empty(),
        "{} of {count} differ and are not listed: {surprising:?}",
        surprising.len()
    );
    assert!(stale.is_empty(), "listed as exceptions, but they agree: {stale:?}");
    assert!(wider.len() <= WIDER_MAX, "{} plans ask more ranges than needed", wider.len());
}

/// Plans that ask more ranges than the planner's.
const WIDER_MAX: usize = 100;

fn write_report(
    path: &str,
    report: &BTreeMap<String, Vec<String>>,
    wider: &[String],
    count: usize,
) {
    let mut causes: Vec<_> = report.iter().collect();
    causes.sort_by_key(|(_, list)| std::cmp::Reverse(list.len()));
    let total: usize = causes.iter().map(|(_, list)| list.len()).sum();
    let mut text = format!("{total} of {count} differ\n");
    for (cause, list) in &causes {
        let _ = writeln!(text, "{:5} {cause}", list.len());
    }
    for (cause, list) in &causes {
        let _ = writeln!(text, "\n== {cause}\n  {}", list.join("\n  "));
    }
    let _ = writeln!(text, "\n== {} wider\n  {}", wider.len(), wider.join("\n  "));
    std::fs::write(path, text).unwrap();
}
