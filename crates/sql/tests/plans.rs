//! Query plans: their fields against the recorded ones, and whether a client that follows a plan
//! over two ranges gets the rows that one reading of everything gives.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use armilla_model::json::parse as parse_json;
use armilla_model::partition_key::{Component, PartitionKey};
use armilla_model::path::Path;
use armilla_model::policy::ContainerPolicy;
use armilla_model::{Object, Value};
use armilla_sql::plan::{Features, PlanRange, PlanRequest, QueryPlan, partitioned_plan};
use armilla_sql::reference::{Options, run};
use armilla_sql::{Result, Schema, parse};

fn schema() -> Schema {
    let body = br#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},
        "indexingPolicy":{"includedPaths":[{"path":"/*"},{"path":"/mixed/?"}],
            "compositeIndexes":[[{"path":"/n"},{"path":"/m","order":"descending"}]]}}"#;
    Schema::new(&ContainerPolicy::parse(&parse_json(body).unwrap()).unwrap()).unwrap()
}

/// Ranges that show the key instead of its hash.
fn range_of(key: &PartitionKey) -> PlanRange {
    let text =
        key.0.iter().map(|component| component.to_value().to_json() + "/").collect::<String>();
    PlanRange { min: text.clone(), max: text, max_inclusive: true }
}

fn plan_with(text: &str, features: &str) -> Result<QueryPlan> {
    let parameters = [("@p".into(), Value::from("x")), ("@n".into(), Value::from(5))];
    partitioned_plan(PlanRequest {
        query: &parse(text)?,
        parameters: &parameters,
        schema: &schema(),
        partition_key: &[Path::parse("/pk").unwrap()],
        features: &if features.is_empty() { Features::all() } else { Features::parse(features) },
        range_of: &range_of,
        for_one_key: false,
    })
}

fn plan(text: &str) -> Value {
    plan_with(text, "").unwrap_or_else(|error| panic!("{text}: {error}")).to_value()
}

fn info<'v>(plan: &'v Value, name: &str) -> &'v Value {
    plan.get("queryInfo").and_then(|info| info.get(name)).unwrap()
}

fn rewritten(text: &str) -> String {
    info(&plan(text), "rewrittenQuery").as_str().unwrap().to_owned()
}

#[test]
fn fields_are_the_recorded_ones() {
    let folder = "tests/vectors/merge.json";
    let vectors = parse_json(&std::fs::read(folder).unwrap()).unwrap();
    for case in vectors.get("cases").and_then(Value::as_array).unwrap() {
        let text = case.get("query").and_then(Value::as_str).unwrap();
        let plan = plan(text);
        let mut found = plan.get("queryInfo").and_then(Value::as_object).unwrap().clone();
        found.remove("rewrittenQuery").unwrap();
        assert_eq!(Value::object(found), *case.get("queryInfo").unwrap(), "{text}");
    }
}

#[test]
fn recorded_rows_merge_as_the_clients_merge_them() {
    let folder = "tests/vectors/merge.json";
    let vectors = parse_json(&std::fs::read(folder).unwrap()).unwrap();
    for case in vectors.get("cases").and_then(Value::as_array).unwrap() {
        let text = case.get("query").and_then(Value::as_str).unwrap();
        let Some(expected) = case.get("javascript").and_then(|result| result.get("rows")) else {
            continue;
        };
        let rows = |name| case.get(name).and_then(Value::as_array).unwrap().to_vec();
        let merged = merge(&plan(text), vec![rows("rowsRange0"), rows("rowsRange1")]);
        assert_eq!(Value::array(merged), *expected, "{text}");
    }
}

#[test]
fn texts_sent_to_ranges() {
    for (text, expected) in [
        (
            "SELECT * FROM c ORDER BY c.n DESC",
            r#"SELECT c._rid, [{"item": c.n}] AS orderByItems, c AS payload FROM c WHERE ({documentdb-formattableorderbyquery-filter}) ORDER BY c.n DESC"#,
        ),
        (
            "SELECT TOP 5 c.a, c.b FROM c WHERE c.k = 1 ORDER BY c.n, c.m DESC",
            r#"SELECT TOP 5 c._rid, [{"item": c.n}, {"item": c.m}] AS orderByItems, {"a": c.a, "b": c.b} AS payload FROM c WHERE ((c.k = 1) AND ({documentdb-formattableorderbyquery-filter})) ORDER BY c.n, c.m DESC"#,
        ),
        (
            "SELECT VALUE c.a FROM c ORDER BY c.n",
            r#"SELECT c._rid, [{"item": c.n}] AS orderByItems, c.a AS payload FROM c WHERE (IS_DEFINED(c.a) AND ({documentdb-formattableorderbyquery-filter})) ORDER BY c.n"#,
        ),
        ("SELECT TOP 5 * FROM c", ""),
        ("SELECT * FROM c OFFSET 3 LIMIT 4", "SELECT * FROM c OFFSET 0 LIMIT 7"),
        ("SELECT DISTINCT c.a FROM c", ""),
        ("SELECT DISTINCT TOP 3 c.a FROM c", "SELECT DISTINCT c.a FROM c"),
        ("SELECT VALUE COUNT(1) FROM c", r#"SELECT VALUE [{"item": COUNT(1)}] FROM c"#),
        (
            "SELECT VALUE AVG(c.n) FROM c WHERE c.a = @p",
            r#"SELECT VALUE [{"item": {"sum": SUM(c.n), "count": COUNT(c.n)}}] FROM c WHERE c.a = @p"#,
        ),
        (
            "SELECT TOP 2 VALUE MIN(c.n) FROM c",
            r#"SELECT VALUE [{"item": MIN(c.n), "item2": {"min": MIN(c.n), "count": COUNT(c.n)}}] FROM c"#,
        ),
        (
            "SELECT COUNT(1) AS n, MAX(c.x) FROM c",
            r#"SELECT {"n": {"item": COUNT(1)}, "$1": {"item": MAX(c.x), "item2": {"max": MAX(c.x), "count": COUNT(c.x)}}} AS payload FROM c"#,
        ),
        (
            "SELECT c.t, COUNT(1) AS n FROM c GROUP BY c.t",
            r#"SELECT [{"item": c.t}] AS groupByItems, {"t": c.t, "n": {"item": COUNT(1)}} AS payload FROM c GROUP BY c.t"#,
        ),
        (
            "SELECT VALUE c.t FROM c GROUP BY c.t",
            r#"SELECT [{"item": c.t}] AS groupByItems, c.t AS payload FROM c GROUP BY c.t"#,
        ),
        (
            "SELECT VALUE COUNT(1) FROM (SELECT DISTINCT c.a FROM c WHERE c.n > 1)",
            "SELECT DISTINCT c.a FROM c WHERE c.n > 1",
        ),
    ] {
        assert_eq!(rewritten(text), expected, "{text}");
    }
}

#[test]
fn distinct_counts_and_ordered_distincts() {
    let counted = plan("SELECT COUNT(1) AS n FROM (SELECT DISTINCT c.a FROM c)");
    assert_eq!(info(&counted, "dCountInfo").to_json(), r#"{"dCountAlias":"n"}"#);
    let kind = |text| info(&plan(text), "distinctType").as_str().unwrap().to_owned();
    assert_eq!(kind("SELECT DISTINCT c.n FROM c ORDER BY c.n"), "Unordered");
    assert_eq!(kind("SELECT DISTINCT c.a FROM c ORDER BY c.n"), "Unordered");
    assert_eq!(kind("SELECT DISTINCT c.n, c.m FROM c ORDER BY c.n, c.m DESC"), "Unordered");
}

fn ranges(text: &str) -> String {
    let plan = plan(text);
    let ranges = plan.get("queryRanges").and_then(Value::as_array).unwrap();
    let text = |range: &Value| {
        let bound = |name| range.get(name).and_then(Value::as_str).unwrap().to_owned();
        let inclusive = range.get("isMaxInclusive").and_then(Value::as_bool).unwrap();
        format!("{}-{}{}", bound("min"), bound("max"), if inclusive { "]" } else { ")" })
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(" ")
}

#[test]
fn conditions_pin_partition_keys() {
    for (condition, expected) in [
        ("true", "-FF)"),
        ("c.pk = 'x'", "\"x\"/-\"x\"/]"),
        ("'x' = c.pk AND c.a > 1", "\"x\"/-\"x\"/]"),
        ("c.pk = @p AND c.pk = 'y'", "-]"),
        ("c.pk IN ('y', 'x', 'y')", "\"x\"/-\"x\"/] \"y\"/-\"y\"/]"),
        ("c.pk = 'x' OR c.pk = 1", "\"x\"/-\"x\"/] 1/-1/]"),
        ("c.pk = 'x' OR c.a = 1", "-FF)"),
        ("(c.pk = 'x' OR c.pk = 'y') AND c.pk != 'y'", "\"x\"/-\"x\"/] \"y\"/-\"y\"/]"),
        ("c.pk > 'x'", "-FF)"),
        ("NOT (c.pk != 'x')", "\"x\"/-\"x\"/]"),
        ("false", "-]"),
        ("c.pk = undefined", "-]"),
        ("c.pk = [1]", "-FF)"),
        ("c.pk = null AND c.pk = null", "null/-null/]"),
        ("ARRAY_CONTAINS(['x'], c.pk)", "\"x\"/-\"x\"/]"),
    ] {
        let text = format!("SELECT * FROM c WHERE {condition}");
        assert_eq!(ranges(&text), expected, "{condition}");
    }
    assert_eq!(ranges("SELECT 1"), "-]");
}

#[test]
fn a_prefix_of_a_hierarchical_key_is_pinned() {
    let paths: Vec<_> = ["/a", "/b"].iter().map(|path| Path::parse(path).unwrap()).collect();
    let pinned = |text: &str| {
        let compiled = armilla_sql::compile(&parse(text).unwrap(), &[], &Schema::none()).unwrap();
        armilla_sql::access::partition_keys(&compiled, &paths)
    };
    use armilla_sql::access::KeyConstraint::{Any, Keys};
    let string = |text: &str| Component::String(text.into());
    let full = PartitionKey(vec![string("x"), Component::Number(1.0)]);
    assert_eq!(pinned("SELECT * FROM c WHERE c.b = 1 AND c.a = 'x'"), Keys(vec![full]));
    let prefix = PartitionKey(vec![string("x")]);
    assert_eq!(pinned("SELECT * FROM c WHERE c.a = 'x' AND c.b > 1"), Keys(vec![prefix]));
    assert_eq!(pinned("SELECT * FROM c WHERE c.b = 1"), Any);
}

#[test]
fn a_pinned_partition_skips_for_itself() {
    let plan = plan("SELECT * FROM c WHERE c.pk = 'x' OFFSET 1 LIMIT 2");
    assert_eq!(*info(&plan, "offset"), Value::Null);
    assert_eq!(*info(&plan, "rewrittenQuery"), Value::from(""));
}

#[test]
fn what_a_client_cannot_merge_is_refused() {
    for (text, message) in [
        ("SELECT VALUE AVG(c.a) + 1 FROM c", "Compositions of aggregates"),
        ("SELECT VALUE {s: SUM(c.a)} FROM c", "Compositions of aggregates"),
        ("SELECT * FROM c GROUP BY c.a", "SC2041"),
        ("SELECT * FROM c ORDER BY c.a + 1", "\"code\":2206"),
        ("SELECT TOP 2147483648 * FROM c", "SC2060"),
    ] {
        let error = plan_with(text, "").unwrap_err().to_json();
        assert!(error.contains(message), "{text}: {error}");
    }
    let features = "Aggregate, Distinct,OrderBy";
    let error = plan_with("SELECT c.a FROM c GROUP BY c.a", features).unwrap_err();
    assert!(error.to_json().contains("Query contained GroupBy"), "{error}");
    assert!(plan_with("SELECT DISTINCT c.a FROM c ORDER BY c.a", features).is_ok());
}

#[test]
fn ranked_queries_have_runnable_parts() {
    let text = "SELECT TOP 10 c.title FROM c WHERE c.n > 1 \
                ORDER BY RANK RRF(FullTextScore(c.body, 'ring'), VectorDistance(c.v, [1, 2]), [2, 1])";
    let plan = plan(text);
    let hybrid = plan.get("hybridSearchQueryInfo").unwrap();
    assert!(plan.get("queryInfo").is_none());
    assert_eq!(
        hybrid.get("globalStatisticsQuery").and_then(Value::as_str).unwrap(),
        r#"SELECT COUNT(1) AS documentCount, [{"totalWordCount": SUM(_FullTextWordCount(c.body)), "hitCounts": [COUNTIF(FullTextContains(c.body, "ring"))]}] AS fullTextStatistics FROM c"#
    );
    assert_eq!(hybrid.get("componentWeights").unwrap().to_json(), "[2,1]");
    assert_eq!(hybrid.get("take").unwrap().to_json(), "10");
    // Clients read both by name: they are there, and empty, with TOP.
    for name in ["skip", "projectionQueryInfo"] {
        assert_eq!(hybrid.get(name), Some(&Value::Null), "{name}");
    }
    let documents = documents();
    let texts = hybrid.get("componentQueryInfos").and_then(Value::as_array).unwrap();
    let texts =
        texts.iter().map(|info| info.get("rewrittenQuery").and_then(Value::as_str).unwrap());
    for text in texts.chain(hybrid.get("globalStatisticsQuery").and_then(Value::as_str)) {
        let filled = text
            .replace("{documentdb-formattableorderbyquery-filter}", "true")
            .replace("{documentdb-formattablehybridsearchquery-totaldocumentcount}", "6")
            .replace("{documentdb-formattablehybridsearchquery-totalwordcount-0}", "20")
            .replace("{documentdb-formattablehybridsearchquery-hitcountsarray-0}", "[2]");
        let schema = schema();
        let rows =
            run(&parse(&filled).unwrap(), &[], documents.iter().cloned(), Options::new(&schema));
        let rows = rows.unwrap_or_else(|error| panic!("{filled}: {error}"));
        assert!(!rows.is_empty(), "{filled}");
        assert!(
            rows.iter()
                .all(|row| row.get("payload").is_some() || row.get("documentCount").is_some())
        );
    }
}

fn documents() -> Vec<Value> {
    [
        r#"{"id":"1","pk":"x","n":3,"m":"q","a":"u","t":"b","x":[1],"body":"a ring of gold","v":[1,2],"mixed":1}"#,
        r#"{"id":"2","pk":"x","n":1,"m":"p","a":"u","t":"a","mixed":"s"}"#,
        r#"{"id":"3","pk":"y","n":3,"m":"r","t":"a","x":[2,3],"body":"ring ring","mixed":null}"#,
        r#"{"id":"4","pk":"z","n":2,"a":null,"t":null,"v":[2,1]}"#,
        r#"{"id":"5","pk":"z","m":"q","a":"w","x":[],"mixed":true}"#,
        r#"{"id":"6","pk":"w","n":-1.5,"m":"a","a":"w","t":"b","x":[1,1],"mixed":[1]}"#,
    ]
    .iter()
    .enumerate()
    .map(|(position, text)| {
        let Value::Object(object) = parse_json(text.as_bytes()).unwrap() else { panic!() };
        let mut object = Object::clone(&object);
        object.insert("_rid", Value::from(format!("rid{position}")));
        Value::object(object)
    })
    .collect()
}

#[test]
fn following_a_plan_gives_the_rows_of_one_reading() {
    let documents = documents();
    let schema = schema();
    for text in [
        "SELECT * FROM c",
        "SELECT c.id FROM c WHERE c.n > 1",
        "SELECT * FROM c ORDER BY c.n",
        "SELECT * FROM c ORDER BY c.mixed DESC",
        "SELECT VALUE c.a FROM c ORDER BY c.mixed",
        "SELECT TOP 3 c.id, c.n + 1 FROM c ORDER BY c.n DESC",
        "SELECT c.id FROM c ORDER BY c.n, c.m DESC",
        "SELECT VALUE c.id FROM c ORDER BY c.id OFFSET 2 LIMIT 2",
        "SELECT DISTINCT VALUE c.t FROM c",
        "SELECT DISTINCT VALUE c.n FROM c ORDER BY c.n DESC",
        "SELECT DISTINCT TOP 2 VALUE c.n FROM c ORDER BY c.n DESC",
        "SELECT DISTINCT VALUE c.t FROM c ORDER BY c.id",
        "SELECT VALUE COUNT(1) FROM c",
        "SELECT VALUE COUNT(c.a) FROM c WHERE c.n > 100",
        "SELECT VALUE SUM(c.n) FROM c",
        "SELECT VALUE AVG(c.n) FROM c",
        "SELECT VALUE AVG(c.n) FROM c WHERE c.n > 100",
        "SELECT VALUE MIN(c.n) FROM c WHERE c.n > 2",
        "SELECT VALUE MAX(c.m) FROM c",
        "SELECT VALUE MAX(c.x) FROM c",
        "SELECT VALUE MIN(c.nothing) FROM c",
        "SELECT VALUE COUNTIF(c.n > 1) FROM c",
        "SELECT COUNT(1) AS n, MAX(c.n), AVG(c.n) AS a, MIN(c.nothing) AS z FROM c",
        "SELECT c.t, COUNT(1) AS n, SUM(c.n) AS s, MIN(c.m) AS l FROM c GROUP BY c.t",
        "SELECT VALUE c.t FROM c GROUP BY c.t",
        "SELECT VALUE AVG(c.n) FROM c GROUP BY c.t",
        "SELECT UPPER(c.t) AS u, COUNT(1) AS n FROM c GROUP BY UPPER(c.t)",
        "SELECT VALUE COUNT(1) FROM (SELECT DISTINCT c.t FROM c)",
        "SELECT COUNT(1) AS n FROM (SELECT DISTINCT VALUE c.t FROM c)",
        "SELECT c.id, e FROM c JOIN e IN c.x ORDER BY c.n",
        "SELECT VALUE SUM(e) FROM c JOIN e IN c.x",
        "SELECT VALUE s.id FROM (SELECT c.id, c.n FROM c) s WHERE s.n > 1",
        "SELECT VALUE c.id FROM c WHERE c.a = @p OR c.n >= 2",
    ] {
        let query = parse(text).unwrap();
        let parameters = [("@p".into(), Value::from("x"))];
        let whole =
            run(&query, &parameters, documents.iter().cloned(), Options::new(&schema)).unwrap();
        let plan = plan(text);
        let sent = info(&plan, "rewrittenQuery").as_str().filter(|sent| !sent.is_empty());
        let sent =
            sent.unwrap_or(text).replace("{documentdb-formattableorderbyquery-filter}", "true");
        let sent = parse(&sent).unwrap_or_else(|error| panic!("{sent}: {error}"));
        for split in 0..=documents.len() {
            let (left, right) = documents.split_at(split);
            let ranges = [left, right].map(|range| {
                run(&sent, &parameters, range.iter().cloned(), Options::new(&schema)).unwrap()
            });
            let merged = merge(&plan, ranges.to_vec());
            let ordered = !query.order_by.is_empty();
            assert_eq!(
                arranged(merged, ordered),
                arranged(whole.clone(), ordered),
                "{text} at {split}"
            );
        }
    }
}

fn arranged(mut rows: Vec<Value>, ordered: bool) -> Value {
    if !ordered {
        rows.sort_by(Value::order);
    }
    Value::array(rows)
}

/// What the SDKs' pipelines do with a plan and the rows of the ranges.
fn merge(plan: &Value, ranges: Vec<Vec<Value>>) -> Vec<Value> {
    let list = |name| info(plan, name).as_array().unwrap();
    let number = |name| info(plan, name).as_i64().and_then(|count| usize::try_from(count).ok());
    let mut rows: Vec<Value> = if !list("orderBy").is_empty() {
        ordered(ranges, list("orderBy"))
    } else {
        ranges.into_iter().flatten().collect()
    };
    let grouped = !list("groupByExpressions").is_empty();
    if grouped || !list("aggregates").is_empty() || !list("groupByAliases").is_empty() {
        rows = groups(plan, rows, grouped);
    }
    if info(plan, "distinctType").as_str() != Some("None") {
        let mut seen: Vec<Value> = Vec::new();
        rows.retain(|row| {
            let new = !seen.contains(row);
            seen.push(row.clone());
            new
        });
    }
    if let Some(counted) = info(plan, "dCountInfo").get("dCountAlias").and_then(Value::as_str) {
        let count = Value::from(rows.len() as i64);
        rows = vec![if counted.is_empty() {
            count
        } else {
            Value::object([(counted.into(), count)].into_iter().collect())
        }];
    }
    let rows = rows.into_iter().skip(number("offset").unwrap_or(0));
    rows.take(number("limit").unwrap_or(usize::MAX))
        .take(number("top").unwrap_or(usize::MAX))
        .collect()
}

fn ordered(ranges: Vec<Vec<Value>>, directions: &[Value]) -> Vec<Value> {
    let reverse = directions[0].as_str() == Some("Descending");
    let mut rows: Vec<Value> = if reverse {
        ranges.into_iter().rev().flatten().collect()
    } else {
        ranges.into_iter().flatten().collect()
    };
    rows.sort_by(|left, right| {
        let items =
            |row: &Value| row.get("orderByItems").and_then(Value::as_array).unwrap().to_vec();
        let keys = items(left).into_iter().zip(items(right)).zip(directions);
        keys.map(|((left, right), direction)| {
            let item = |value: &Value| value.get("item").cloned().unwrap_or_default();
            let order = item(&left).order(&item(&right));
            if direction.as_str() == Some("Descending") { order.reverse() } else { order }
        })
        .find(|order| order.is_ne())
        .unwrap_or(std::cmp::Ordering::Equal)
    });
    rows.into_iter().map(|row| row.get("payload").cloned().unwrap()).collect()
}

fn groups(plan: &Value, rows: Vec<Value>, grouped: bool) -> Vec<Value> {
    let mut groups: Vec<(Value, Vec<Value>)> = Vec::new();
    let value_only = info(plan, "groupByAliases").as_array().unwrap().is_empty();
    for row in rows {
        let (key, payload) = if grouped {
            (
                row.get("groupByItems").cloned().unwrap(),
                row.get("payload").cloned().unwrap_or_default(),
            )
        } else if value_only {
            (Value::Null, row)
        } else {
            (Value::Null, row.get("payload").cloned().unwrap())
        };
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, payloads)) => payloads.push(payload),
            None => groups.push((key, vec![payload])),
        }
    }
    let aggregates = info(plan, "aggregates").as_array().unwrap();
    let types = info(plan, "groupByAliasToAggregateType").as_object().unwrap();
    let finish = |payloads: Vec<Value>| -> Value {
        if let Some(kind) = aggregates.first() {
            let partials = payloads.iter().map(|payload| payload.as_array().unwrap()[0].clone());
            return aggregate(kind.as_str().unwrap(), partials.collect());
        }
        if value_only {
            return payloads[0].clone();
        }
        let member = |(name, kind): (&std::sync::Arc<str>, &Value)| {
            let values: Vec<_> = payloads
                .iter()
                .map(|payload| payload.get(name).cloned().unwrap_or_default())
                .collect();
            let value = match kind.as_str() {
                Some(kind) => aggregate(kind, values),
                None => values[0].clone(),
            };
            (name.clone(), value)
        };
        Value::object(types.iter().map(member).filter(|(_, value)| value.is_defined()).collect())
    };
    groups.into_iter().map(|(_, payloads)| finish(payloads)).filter(Value::is_defined).collect()
}

fn aggregate(kind: &str, partials: Vec<Value>) -> Value {
    let item = |partial: &Value| partial.get("item").cloned().unwrap_or_default();
    match kind {
        "Count" | "Sum" | "CountIf" => {
            let sum: Option<f64> = partials.iter().map(|partial| item(partial).as_f64()).sum();
            sum.map_or(Value::Undefined, Value::from)
        }
        "Average" => {
            let part = |name: &str| -> Option<f64> {
                partials.iter().map(|partial| item(partial).get(name).and_then(Value::as_f64)).sum()
            };
            match (part("sum"), part("count")) {
                (Some(sum), Some(count)) if count > 0.0 => Value::from(sum / count),
                _ => Value::Undefined,
            }
        }
        "Min" | "Max" => {
            let mut best: Option<Value> = None;
            for partial in &partials {
                let detail = partial.get("item2").unwrap();
                if detail.get("count").and_then(Value::as_i64) == Some(0) {
                    continue;
                }
                let Some(value) = detail.get(&kind.to_ascii_lowercase()) else {
                    return Value::Undefined;
                };
                let better = |best: &Value| {
                    let order = value.order(best);
                    if kind == "Min" { order.is_lt() } else { order.is_gt() }
                };
                if best.as_ref().is_none_or(better) {
                    best = Some(value.clone());
                }
            }
            best.unwrap_or_default()
        }
        other => panic!("{other}"),
    }
}
