//! Bulk requests: operations that stand alone, also where several are about one partition key or
//! one item.

use crate::support::{Answer, Armilla, QUERY};
use armilla_model::{Value, json};

const DOCS: &str = "/dbs/blog/colls/posts/docs";
const BATCH: (&str, &str) = ("x-ms-cosmos-is-batch-request", "True");
const ON_ERROR: &str = "x-ms-cosmos-batch-continue-on-error";
const RANGE: (&str, &str) = ("x-ms-documentdb-partitionkeyrangeid", "0");

fn write(verb: &str, key: &str, id: &str, number: u32) -> String {
    format!(
        r#"{{"operationType":"{verb}","id":"{id}","partitionKey":"[\"{key}\"]","resourceBody":{{"id":"{id}","postId":"{key}","n":{number}}}}}"#
    )
}

async fn bulk(armilla: &Armilla, go_on: &str, operations: &[String]) -> Answer {
    let body = format!("[{}]", operations.join(","));
    armilla.send("POST", DOCS, &[BATCH, RANGE, (ON_ERROR, go_on)], &body).await
}

fn statuses(answer: &Answer) -> Vec<i64> {
    let rows = json::parse(answer.body.as_bytes()).unwrap();
    let rows = rows.as_array().unwrap().to_vec();
    rows.iter().map(|row| row.get("statusCode").and_then(Value::as_i64).unwrap()).collect()
}

async fn count(armilla: &Armilla) -> String {
    let everywhere = ("x-ms-documentdb-query-enablecrosspartition", "true");
    let body = r#"{"query":"SELECT VALUE COUNT(1) FROM c","parameters":[]}"#;
    let answer = armilla.send("POST", DOCS, &[QUERY, everywhere], body).await.expect(200);
    answer.rows("Documents")[0].to_json()
}

#[tokio::test]
async fn one_refusal_leaves_its_neighbours_of_the_same_key_alone() {
    let armilla = Armilla::with_posts().await;
    let operations = [
        write("Create", "p", "a", 1),
        write("Create", "q", "a", 2),
        write("Create", "p", "a", 3),
        write("Create", "p", &"long".repeat(300), 4),
        write("Create", "p", "b", 5),
        write("Replace", "p", "missing", 6),
        write("Create", "q", "b", 7).replace(r#""postId":"q""#, r#""postId":"r""#),
        r#"{"operationType":"Read","id":"b","partitionKey":"[\"p\"]"}"#.to_owned(),
        r#"{"operationType":"Read","id":"b"}"#.to_owned(),
    ];
    let answer = bulk(&armilla, "True", &operations).await.expect(207);
    assert_eq!(statuses(&answer), [201, 201, 409, 400, 201, 404, 400, 200, 400]);
    assert_eq!(count(&armilla).await, "3");
}

#[tokio::test]
async fn every_write_of_one_item_is_a_change_of_its_own() {
    let armilla = Armilla::with_posts().await;
    let operations = [
        write("Create", "p", "a", 1),
        write("Upsert", "p", "a", 2),
        write("Replace", "p", "a", 3),
        write("Create", "p", "b", 1),
        r#"{"operationType":"Delete","id":"a","partitionKey":"[\"p\"]"}"#.to_owned(),
        write("Create", "p", "a", 4),
    ];
    let answer = bulk(&armilla, "True", &operations).await.expect(200);
    assert_eq!(statuses(&answer), [201, 200, 200, 201, 204, 201]);
    let key = [("x-ms-documentdb-partitionkey", r#"["p"]"#)];
    let found = armilla.send("GET", &format!("{DOCS}/a"), &key, "").await.expect(200);
    assert_eq!(found.json().get("n"), Some(&Value::from(4)));
    // Each stands in the log under a number of its own.
    let lsn: u64 = found.header("lsn").unwrap().parse().unwrap();
    assert!(lsn >= 5, "{lsn}");
}

#[tokio::test]
async fn the_first_error_ends_a_request_that_does_not_go_on() {
    let armilla = Armilla::with_posts().await;
    let operations = [
        write("Create", "p", "a", 1),
        write("Create", "q", "a", 2),
        write("Replace", "q", "missing", 3),
        write("Create", "q", "b", 4),
        write("Create", "p", "b", 5),
    ];
    let answer = bulk(&armilla, "False", &operations).await.expect(207);
    assert_eq!(statuses(&answer), [201, 201, 404, 424, 424]);
    assert_eq!(count(&armilla).await, "2");
}

/// N8: .NET does not show its users what a whole request is refused for.
#[tokio::test]
async fn an_operation_that_cannot_be_read_is_refused_alone() {
    let armilla = Armilla::with_posts().await;
    let operations = [
        write("Create", "p", "a", 1),
        r#"{"operationType":"Sing","partitionKey":"[\"p\"]"}"#.to_owned(),
        r#"{"operationType":"Create","partitionKey":"[\"p\"]"}"#.to_owned(),
        write("Create", "p", "b", 2),
    ];
    let answer = bulk(&armilla, "True", &operations).await.expect(207);
    assert_eq!(statuses(&answer), [201, 400, 400, 201]);
    assert!(answer.body.contains("The batch operation type 'sing' is not known."));
}
