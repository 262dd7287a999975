//! A published scan at its full size (`docs/protocol/charges.md#queries`): 60,951 items of 6,563 bytes, nothing indexed, seven found.
//!
//! The items are stored inside the engine, in large transactions; the query goes through the server.

use crate::blog;
use crate::support::{Armilla, QUERY};
use crate::vectors::{printed, wanted};
use armilla_engine::account::NewContainer;
use armilla_engine::dials::Turned;
use armilla_model::json;

const ITEMS: usize = 60_951;
const MATCHED: usize = 7;
const ITEM_BYTES: usize = 6563;
const ROW_BYTES: usize = 73;
/// Items of one transaction.
const TOGETHER: usize = 100;

/// The text that is filled up to the wanted size, without what the server adds.
fn item(number: usize, size: usize) -> String {
    let flag = u32::from(number < MATCHED);
    let row = "r".repeat(ROW_BYTES - r#"{"r":""}"#.len());
    let head = format!(r#"{{"id":"s{number:05}","pk":"a","m":{flag},"r":"{row}","f":""#);
    let filler = "x".repeat(size - head.len() - 2);
    format!(r#"{head}{filler}"}}"#)
}

#[tokio::test]
async fn a_scan_pays_for_every_one_of_60_951_items() {
    let armilla = Armilla::start();
    armilla.account.create_database("d", None).unwrap();
    let text = r#"{"id":"c","partitionKey":{"paths":["/pk"]},"indexingPolicy":{"excludedPaths":[{"path":"/*"}]}}"#;
    let definition = json::parse(text.as_bytes()).unwrap();
    let new = NewContainer { definition: &definition, throughput: None };
    let container = armilla.account.create_container_with("d", &new, Turned::default()).unwrap();
    let key = ("x-ms-documentdb-partitionkey", "[\"a\"]");
    let docs = "/dbs/d/colls/c/docs";
    blog::store(&container, &[item(0, 1000)]);
    let stored = armilla.send("GET", &format!("{docs}/s00000"), &[key], "").await.expect(200);
    let added = stored.body.len() - 1000;
    armilla.send("DELETE", &format!("{docs}/s00000"), &[key], "").await.expect(204);
    for first in (0..ITEMS).step_by(TOGETHER) {
        let numbers = first..(first + TOGETHER).min(ITEMS);
        let items: Vec<_> = numbers.map(|number| item(number, ITEM_BYTES - added)).collect();
        blog::store(&container, &items);
    }
    assert_eq!(container.document_count(), ITEMS as u64);
    assert_eq!(container.size(), (ITEMS * ITEM_BYTES) as u64);
    let body = r#"{"query":"SELECT c.r FROM c WHERE c.m = 1","parameters":[]}"#;
    let (mut rows, mut continuation, mut charges) = (Vec::new(), String::new(), Vec::new());
    loop {
        let page = ("x-ms-max-item-count", "1000");
        let headers = [key, QUERY, page, ("x-ms-continuation", continuation.as_str())];
        let answer = armilla.send("POST", docs, &headers, body).await.expect(200);
        rows.extend(answer.rows("Documents"));
        charges.push(answer.charge());
        // A slow machine makes several pages of it, by time.
        match answer.header("x-ms-continuation") {
            Some(next) => continuation = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(rows.len(), MATCHED);
    assert!(rows.iter().all(|row| row.to_json().len() == ROW_BYTES));
    if let [whole] = charges.as_slice() {
        assert_eq!(*whole, wanted(33));
    }
    // The sum over pages, before any rounding.
    let text = armilla.get("/metrics").await.expect(200).body;
    let name = r#"armilla_request_units_total{operation="query",database="d",container="c"} "#;
    let sum = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    assert_eq!(printed(sum.parse().unwrap()), wanted(33), "{} pages", charges.len());
}
