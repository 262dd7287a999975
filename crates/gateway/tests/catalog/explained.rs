//! `POST /_armilla/explain`: how a query is answered, as JSON.

use crate::support::{Answer, Armilla, QUERY};
use armilla_engine::Options;
use armilla_model::Value;

const ROUTE: &str = "/_armilla/explain";

/// Thirty posts over three ranges.
async fn with_posts() -> Armilla {
    let options = Options { partitions: Some(3), ..Options::default() };
    let armilla = Armilla::with(options, |service| service).and_posts().await;
    for number in 0..30 {
        let body = format!(r#"{{"id":"{number}","postId":"p{}","n":{number}}}"#, number % 10);
        armilla.post("/dbs/blog/colls/posts/docs", &body).await.expect(201);
    }
    armilla
}

async fn explain(armilla: &Armilla, query: &str, more: &str) -> Answer {
    let query = Value::from(query).to_json();
    let body = format!(r#"{{"database":"blog","container":"posts","query":{query}{more}}}"#);
    armilla.post(ROUTE, &body).await
}

fn number(value: &Value, path: &[&str]) -> f64 {
    let found = path.iter().fold(value, |value, name| value.get(name).unwrap());
    found.as_f64().unwrap()
}

#[tokio::test]
async fn a_plan_alone_reads_nothing_and_costs_nothing() {
    let armilla = with_posts().await;
    let answer = explain(&armilla, "SELECT VALUE c.n FROM c WHERE c.n > 3", "").await.expect(200);
    assert_eq!(answer.charge(), "0");
    let told = answer.json();
    assert!(told.get("result").is_none() && told.get("charge").is_none(), "{}", answer.body);
    let steps = told.get("steps").and_then(Value::as_array).unwrap();
    assert!(!steps.is_empty() && told.get("says").unwrap().as_str().is_some());
    for (number, step) in steps.iter().enumerate() {
        assert_eq!(step.get("id").unwrap().as_i64(), Some(number as i64));
        let inputs = step.get("inputs").and_then(Value::as_array).unwrap();
        assert!(inputs.iter().all(|input| input.as_i64().unwrap() > number as i64));
    }
}

#[tokio::test]
async fn a_page_comes_with_its_rows_its_charge_and_its_steps() {
    let armilla = with_posts().await;
    let text = "SELECT VALUE c.n FROM c WHERE c.n < @n ORDER BY c.n DESC";
    let more = r#","parameters":[{"name":"@n","value":20}],"run":true,"maxItemCount":8"#;
    let answer = explain(&armilla, text, more).await.expect(200);
    let told = answer.json();
    let rows = told.get("result").unwrap().get("rows").unwrap();
    assert_eq!(rows.to_json(), "[19,18,17,16,15,14,13,12]");
    assert_eq!(number(&told, &["rows"]), 8.0);
    assert_eq!(told.get("ranges").and_then(Value::as_array).unwrap().len(), 3);
    let steps = told.get("steps").and_then(Value::as_array).unwrap();
    let sum: f64 = steps.iter().map(|step| number(step, &["charge"])).sum();
    let charge = number(&told, &["charge"]);
    assert!((sum - charge).abs() < 1e-6, "{sum} is not {charge}");
    assert_eq!(answer.charge(), format!("{:.2}", charge).trim_end_matches('0'));
    assert_eq!(number(&told, &["result", "charge"]), charge);
    assert_eq!(number(&told, &["result", "metrics", "rows"]), 8.0);
    // It costs what the query costs, and goes on as the query does.
    let body = format!(
        r#"{{"query":{},"parameters":[{{"name":"@n","value":20}}]}}"#,
        Value::from(text).to_json()
    );
    let headers = [
        QUERY,
        ("x-ms-max-item-count", "8"),
        ("x-ms-documentdb-query-enablecrosspartition", "true"),
    ];
    let docs = "/dbs/blog/colls/posts/docs";
    let plain = armilla.send("POST", docs, &headers, &body).await.expect(200);
    assert_eq!(plain.charge(), answer.charge());
    let token = told.get("result").unwrap().get("continuation").unwrap();
    assert_eq!(plain.header("x-ms-continuation"), token.as_str());
    let more = format!("{more},\"continuation\":{}", token.to_json());
    let next = explain(&armilla, text, &more).await.expect(200).json();
    let rows = next.get("result").unwrap().get("rows").unwrap();
    assert_eq!(rows.to_json(), "[11,10,9,8,7,6,5,4]");
}

#[tokio::test]
async fn one_partition_key_is_asked_alone() {
    let armilla = with_posts().await;
    let more = r#","partitionKey":["p3"],"run":true"#;
    let told = explain(&armilla, "SELECT VALUE c.n FROM c", more).await.expect(200).json();
    let rows = told.get("result").unwrap().get("rows").unwrap();
    assert_eq!(rows.to_json(), "[3,13,23]");
    assert_eq!(told.get("ranges").and_then(Value::as_array).unwrap().len(), 1);
}

#[tokio::test]
async fn what_cannot_be_explained_is_refused() {
    let armilla = with_posts().await;
    for run in ["", ",\"run\":true"] {
        explain(&armilla, "SELECT VALUE", run).await.refused(400, 0);
        explain(&armilla, "SELECT VALUE c.n FROM c ORDER BY c.n, c.id", run).await.expect(400);
        let wrong = format!(r#"{run},"continuation":"Q1:none""#);
        explain(&armilla, "SELECT * FROM c", &wrong).await.expect(400);
        let body = format!(r#"{{"database":"blog","container":"none","query":"SELECT 1"{run}}}"#);
        armilla.post(ROUTE, &body).await.expect(404);
    }
    armilla.post(ROUTE, r#"{"database":"blog"}"#).await.refused(400, 0);
    armilla.get(ROUTE).await.expect(405);
}
