//! Batches and bulk in the binary form of .NET: the same work as in JSON, the same results row by row, and
//! every refusal before anything is written.

use crate::rows::{
    CREATE, DELETE, Operation, Outcome, PATCH, READ, REPLACE, UPSERT, outcomes, stream,
};
use crate::support::{Answer, Armilla};
use armilla_model::{Value, binary_json, json};

const DOCS: &str = "/dbs/blog/colls/posts/docs";
const BATCH: (&str, &str) = ("x-ms-cosmos-is-batch-request", "True");
const ATOMIC: (&str, &str) = ("x-ms-cosmos-batch-atomic", "True");
const ON_ERROR: (&str, &str) = ("x-ms-cosmos-batch-continue-on-error", "True");
const KEY: (&str, &str) = ("x-ms-documentdb-partitionkey", "[\"p\"]");
const RANGE: (&str, &str) = ("x-ms-documentdb-partitionkeyrangeid", "0");

async fn transaction(armilla: &Armilla, body: &[u8]) -> Answer {
    armilla.send_bytes("POST", DOCS, &[BATCH, ATOMIC, KEY], body).await
}

async fn bulk(armilla: &Armilla, body: &[u8]) -> Answer {
    armilla.send_bytes("POST", DOCS, &[BATCH, ON_ERROR, RANGE], body).await
}

fn create(body: &str) -> Operation<'_> {
    Operation { kind: CREATE, body: Some(body.as_bytes()), ..Operation::default() }
}

fn on(kind: i32, id: &str) -> Operation<'_> {
    Operation { kind, id: Some(id), ..Operation::default() }
}

fn statuses(rows: &[Outcome]) -> Vec<i32> {
    rows.iter().map(|row| row.status).collect()
}

async fn stored(armilla: &Armilla, id: &str) -> u16 {
    armilla.send("GET", &format!("{DOCS}/{id}"), &[KEY], "").await.status
}

/// Six kinds of operations in both forms.
fn all_kinds() -> (Vec<u8>, String) {
    let (item, changed) = (r#"{"id":"a","postId":"p","n":1}"#, r#"{"id":"a","postId":"p","n":2}"#);
    let patch = r#"{"operations":[{"op":"incr","path":"/n","value":1}]}"#;
    let second = r#"{"id":"b","postId":"p"}"#;
    let binary = stream(&[
        create(item),
        Operation { kind: UPSERT, body: Some(second.as_bytes()), ..Operation::default() },
        Operation { body: Some(changed.as_bytes()), ..on(REPLACE, "a") },
        Operation { body: Some(patch.as_bytes()), minimal: true, ..on(PATCH, "a") },
        on(READ, "a"),
        on(DELETE, "b"),
    ]);
    let text = format!(
        r#"[{{"operationType":"Create","resourceBody":{item}}},
        {{"operationType":"Upsert","resourceBody":{second}}},
        {{"operationType":"Replace","id":"a","resourceBody":{changed}}},
        {{"operationType":"Patch","id":"a","resourceBody":{patch},"minimalReturnPreference":true}},
        {{"operationType":"Read","id":"a"}},{{"operationType":"Delete","id":"b"}}]"#
    );
    (binary, text)
}

#[tokio::test]
async fn both_forms_of_a_batch_do_the_same() {
    let (binary, text) = all_kinds();
    let (one, other) = (Armilla::with_posts().await, Armilla::with_posts().await);
    let of_rows = transaction(&one, &binary).await.expect(200);
    let of_text = transaction(&other, text.as_bytes()).await.expect(200);
    assert_eq!(of_rows.header("content-type"), Some("application/octet-stream"));
    assert_eq!(of_rows.charge(), of_text.charge());
    for name in ["x-ms-session-token", "lsn", "x-ms-documentdb-partitionkeyrangeid"] {
        assert_eq!(of_rows.header(name), of_text.header(name), "{name}");
    }
    let rows = outcomes(&of_rows.bytes);
    assert_eq!(statuses(&rows), [201, 201, 200, 200, 200, 204]);
    let json_rows = json::parse(of_text.body.as_bytes()).unwrap().as_array().unwrap().to_vec();
    for (row, expected) in rows.iter().zip(&json_rows) {
        assert_eq!(i64::from(row.status), expected.get("statusCode").unwrap().as_i64().unwrap());
        assert_eq!(row.charge, expected.get("requestCharge").unwrap().as_f64().unwrap());
        assert_eq!(row.etag.is_some(), expected.get("eTag").is_some());
        assert_eq!(row.body.is_some(), expected.get("resourceBody").is_some());
    }
    assert_eq!(rows[3].body, None, "the caller wanted no body");
    assert_eq!(json::parse(rows[4].text().as_bytes()).unwrap().get("n"), Some(&Value::from(3)));
    assert_eq!((stored(&one, "a").await, stored(&one, "b").await), (200, 404));
}

#[tokio::test]
async fn a_failed_transaction_says_which_row_and_why() {
    let armilla = Armilla::with_posts().await;
    let item = r#"{"id":"a","postId":"p"}"#;
    let body = stream(&[create(item), create(item), on(READ, "a")]);
    let rows = outcomes(&transaction(&armilla, &body).await.expect(207).bytes);
    assert_eq!(statuses(&rows), [424, 409, 424]);
    assert_eq!((rows[0].charge, rows[0].body.clone()), (0.0, None));
    let document = json::parse(rows[1].text().as_bytes()).unwrap();
    assert_eq!(document.get("code").unwrap().as_str(), Some("Conflict"));
    assert_eq!(stored(&armilla, "a").await, 404);
    // A body that is no JSON is its row's failure too, and nothing of the transaction stays.
    let body = stream(&[create(item), create("no JSON")]);
    let rows = outcomes(&transaction(&armilla, &body).await.expect(207).bytes);
    assert_eq!(statuses(&rows), [424, 400]);
    assert_eq!(stored(&armilla, "a").await, 404);
}

#[tokio::test]
async fn conditions_hold_and_known_versions_are_not_sent_again() {
    let armilla = Armilla::with_posts().await;
    let body = stream(&[create(r#"{"id":"a","postId":"p"}"#)]);
    let rows = outcomes(&transaction(&armilla, &body).await.expect(200).bytes);
    let etag = rows[0].etag.clone().unwrap();
    let body = stream(&[Operation { if_none_match: Some(&etag), ..on(READ, "a") }]);
    let rows = outcomes(&transaction(&armilla, &body).await.expect(200).bytes);
    assert_eq!((statuses(&rows), rows[0].body.clone()), (vec![304], None));
    let body = stream(&[Operation { if_match: Some("\"old\""), ..on(DELETE, "a") }]);
    let rows = outcomes(&transaction(&armilla, &body).await.expect(207).bytes);
    assert_eq!(statuses(&rows), [412]);
}

#[tokio::test]
async fn bulk_rows_stand_alone() {
    let armilla = Armilla::with_posts().await;
    let with_key = |operation| Operation { key: Some("[\"p\"]"), ..operation };
    let item = r#"{"id":"a","postId":"p"}"#;
    let binary = binary_json::from_text(br#"{"id":"b","postId":"p","type":"binary"}"#).unwrap();
    let body = stream(&[
        with_key(create(item)),
        with_key(create("no JSON")),
        with_key(create(item)),
        Operation { key: Some("no key"), ..create(r#"{"id":"c","postId":"p"}"#) },
        create(r#"{"id":"d","postId":"p"}"#),
        with_key(Operation { body: Some(&binary), ..create("") }),
        with_key(Operation { minimal: true, ..create(r#"{"id":"e","postId":"p"}"#) }),
        with_key(on(99, "e")),
        with_key(on(READ, "b")),
    ]);
    let rows = outcomes(&bulk(&armilla, &body).await.expect(207).bytes);
    assert_eq!(statuses(&rows), [201, 400, 409, 400, 400, 201, 201, 400, 200]);
    assert_eq!(rows[6].body, None);
    assert!(rows[1].text().starts_with("{\"code\":\"BadRequest\""), "{}", rows[1].text());
    let read = json::parse(rows[8].text().as_bytes()).unwrap();
    assert_eq!(read.get("type").unwrap().as_str(), Some("binary"));
}

#[tokio::test]
async fn what_is_no_batch_is_refused_before_anything_is_written() {
    let armilla = Armilla::with_posts().await;
    let item = r#"{"id":"a","postId":"p"}"#;
    let good = stream(&[create(item), on(READ, "a")]);
    let mut damaged = good.clone();
    *damaged.last_mut().unwrap() ^= 1;
    let many: Vec<_> = (0..101).map(|_| on(READ, "a")).collect();
    let empty = stream(&[]);
    for (body, why) in [
        (&good[..good.len() - 1], "HybridRow"),
        (&damaged[..], "checksum"),
        (&stream(&many)[..], "It has 101"),
        (&empty[..], "no operations"),
        (&[][..], ""),
    ] {
        let answer = transaction(&armilla, body).await.expect(400);
        assert!(answer.text("message").contains(why), "{}", answer.body);
        assert!(answer.header("content-length").is_some());
    }
    let large = format!(r#"{{"id":"a","postId":"p","text":"{}"}}"#, "x".repeat(3_000_000));
    transaction(&armilla, &stream(&[create(&large)])).await.expect(413);
    assert_eq!(stored(&armilla, "a").await, 404);
    let key = ("x-ms-documentdb-partitionkey", "[\"p\",\"q\"]");
    armilla.send_bytes("POST", DOCS, &[BATCH, ATOMIC, key], &good).await.expect(400);
    let gone = ("x-ms-documentdb-partitionkeyrangeid", "7");
    armilla.send_bytes("POST", DOCS, &[BATCH, ON_ERROR, gone], &good).await.refused(410, 1002);
}

#[tokio::test]
async fn reads_that_do_not_fit_into_an_answer_are_sent_again() {
    let armilla = Armilla::with_posts().await;
    let text = "x".repeat(100 * 1024);
    let ids: Vec<String> = (0..60).map(|number| format!("i{number}")).collect();
    for id in &ids {
        let item = format!(r#"{{"id":"{id}","postId":"p","text":"{text}"}}"#);
        armilla.send("POST", DOCS, &[KEY], &item).await.expect(201);
    }
    let read = |id| Operation { key: Some("[\"p\"]"), ..on(READ, id) };
    let reads: Vec<_> = ids.iter().map(|id| read(id)).collect();
    let rows = outcomes(&bulk(&armilla, &stream(&reads)).await.expect(207).bytes);
    let fitting = rows.iter().filter(|row| row.status == 200).count();
    assert!((38..=41).contains(&fitting), "{fitting} of 60 fit into 4 MB");
    for row in rows.iter().filter(|row| row.status != 200) {
        assert_eq!((row.status, row.substatus), (413, 3402));
    }
    // What was written says so; only its body is missing.
    let large = format!(r#"{{"id":"w","postId":"p","text":"{text}"}}"#);
    let write = Operation { kind: UPSERT, key: Some("[\"p\"]"), ..create(&large) };
    let mut operations: Vec<_> = ids.iter().take(45).map(|id| read(id)).collect();
    operations.push(write);
    let rows = outcomes(&bulk(&armilla, &stream(&operations)).await.expect(207).bytes);
    assert_eq!((rows[45].status, rows[45].body.clone()), (201, None));
    assert_eq!(stored(&armilla, "w").await, 200);
}

#[tokio::test]
async fn a_client_that_takes_binary_json_alone_gets_it() {
    let armilla = Armilla::with_posts().await;
    let only = ("x-ms-cosmos-supported-serialization-formats", "CosmosBinary");
    let both = ("x-ms-cosmos-supported-serialization-formats", "JsonText,CosmosBinary");
    let item = br#"{"id":"a","postId":"p","n":1.5,"list":[1,{"name":"x"},null]}"#;
    let binary = binary_json::from_text(item).unwrap();
    let answer = armilla.send_bytes("POST", DOCS, &[KEY, only], &binary).await.expect(201);
    let created = binary_json::to_text(&answer.bytes).unwrap();
    assert_eq!(json::parse(&created).unwrap().get("n"), Some(&Value::from(1.5)));
    let path = format!("{DOCS}/a");
    let read = armilla.send("GET", &path, &[KEY, only], "").await.expect(200);
    assert_eq!(binary_json::to_text(&read.bytes).unwrap(), created);
    let text = armilla.send("GET", &path, &[KEY, both], "").await.expect(200);
    assert_eq!(text.json(), json::parse(&created).unwrap());
    let minimal = ("prefer", "return=minimal");
    let quiet = armilla.send_bytes("PUT", &path, &[KEY, only, minimal], &binary).await.expect(200);
    assert!(quiet.bytes.is_empty());
    let missing = armilla.send("GET", &format!("{DOCS}/b"), &[KEY, only], "").await.expect(404);
    assert!(missing.body.starts_with('{'), "errors stay text");
}
