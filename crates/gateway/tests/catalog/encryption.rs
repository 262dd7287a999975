//! Client encryption keys and policies: the shared vectors (`docs/protocol/encryption-keys.md#the-resource`), and
//! what surrounds them.

use crate::support::{Answer, Armilla, encoded};
use armilla_engine::Options;
use armilla_model::{Value, json};
use armilla_storage::MemoryStore;
use std::collections::HashMap;
use std::sync::Arc;

const KEYS: &str = "/dbs/blog/clientencryptionkeys";
const DOCS: &str = "/dbs/blog/colls/posts/docs";

fn vectors(part: &str) -> Vec<Value> {
    let text = include_bytes!("../vectors/encryption-keys.json");
    json::parse(text).unwrap().get(part).unwrap().as_array().unwrap().to_vec()
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn status(vector: &Value) -> u16 {
    u16::try_from(vector.get("status").and_then(Value::as_i64).unwrap()).unwrap()
}

/// A body of the vectors under another name.
fn key_body(name: &str) -> String {
    let mut body = vectors("sequence")[0].get("body").unwrap().as_object().unwrap().clone();
    body.insert("id", name.into());
    Value::object(body).to_json()
}

async fn with_key() -> Armilla {
    let armilla = Armilla::with_posts().await;
    armilla.post(KEYS, &key_body("key1")).await.expect(201);
    armilla
}

/// A resource token with everything on the container.
async fn token(armilla: &Armilla) -> String {
    armilla.post("/dbs/blog/users", r#"{"id":"mary"}"#).await;
    let permission = r#"{"id":"p","permissionMode":"All","resource":"dbs/blog/colls/posts"}"#;
    let made = armilla.post("/dbs/blog/users/mary/permissions", permission).await;
    encoded(&made.expect(201).text("_token"))
}

/// Compares what a vector says about an answer.
fn check(step: &Value, answer: &Answer, saved: &HashMap<String, String>) {
    let name = text(step, "step");
    if let Some(wanted) = step.get("answer") {
        if wanted.as_str() == Some("no body") {
            assert!(answer.body.is_empty(), "{name}");
            return;
        }
        let body = answer.json();
        let echoed = wanted.get("echo").and_then(Value::as_object).cloned().unwrap_or_default();
        for (member, value) in echoed.iter() {
            assert_eq!(body.get(member), Some(value), "{name}: {member}");
        }
        for member in wanted.get("has").and_then(Value::as_array).unwrap_or_default() {
            assert!(body.get(member.as_str().unwrap()).is_some(), "{name}: {member}");
        }
        if let Some(feed) = wanted.get("feed").and_then(Value::as_str) {
            assert_eq!(answer.ids(feed), ["key1"], "{name}");
        }
        if wanted.get("_etag").is_some() {
            assert_eq!(answer.text("_etag"), saved["e1"], "{name}");
        }
    }
    if answer.status < 300 && !text(step, "path").ends_with("keys") {
        assert_eq!(answer.header("etag"), Some(answer.text("_etag").as_str()), "{name}");
    }
}

#[tokio::test]
async fn the_sequence_of_the_vectors() {
    let armilla = Armilla::with_posts().await;
    let token = token(&armilla).await;
    let rid = armilla.get("/dbs/blog").await.text("_rid");
    let mut saved = HashMap::from([("db rid".to_owned(), rid)]);
    let steps = vectors("sequence");
    assert_eq!(steps.len(), 16);
    for step in &steps {
        let fill = |text: &str| {
            let filled = |text: String, (name, value): (&String, &String)| {
                text.replace(&format!("{{{name}}}"), value)
            };
            saved.iter().fold(text.replace("{db}", "blog"), filled)
        };
        let headers = step.get("headersSent").and_then(Value::as_object).cloned();
        let headers: Vec<(String, String)> = headers
            .unwrap_or_default()
            .iter()
            .map(|(name, value)| (name.to_string(), fill(value.as_str().unwrap())))
            .collect();
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let (method, path) = (text(step, "method"), fill(text(step, "path")));
        let body = step.get("body").map(Value::to_json).unwrap_or_default();
        let answer = match step.get("auth") {
            Some(_) => armilla.send_as(&token, method, &path, &headers, &body).await,
            None => armilla.send(method, &path, &headers, &body).await,
        };
        let answer = answer.expect(status(step));
        assert!(answer.charge().parse::<f64>().unwrap() > 0.0 || answer.status == 403);
        check(step, &answer, &saved);
        if let Some(name) = step.get("save").and_then(|save| save.get("etag")) {
            let etag = answer.header("etag").unwrap().to_owned();
            assert!(!saved.values().any(|known| *known == etag), "a new version has a new etag");
            saved.insert(name.as_str().unwrap().to_owned(), etag);
        }
    }
    for bad in vectors("badKeys") {
        let refused = armilla.post(KEYS, &bad.get("body").unwrap().to_json()).await.refused(400, 0);
        assert!(refused.body.contains(text(&bad, "missing")), "{}", refused.body);
    }
}

#[tokio::test]
async fn a_key_has_its_rid_and_is_kept_over_starts_and_with_its_database_only() {
    let store = Arc::new(MemoryStore::new());
    let armilla = Armilla::over(store.clone(), Options::default(), |service| service);
    let armilla = armilla.and_posts().await;
    let unknown = key_body("key1").replace("\"RSA-OAEP\"", "\"RSA-OAEP\",\"future\":[1,2.50]");
    let made = armilla.post(KEYS, &unknown).await.expect(201);
    let (rid, database) = (made.text("_rid"), armilla.get("/dbs/blog").await.text("_rid"));
    assert_eq!(rid.len(), 24);
    assert_eq!(made.text("_self"), format!("dbs/{database}/clientencryptionkeys/{rid}/"));
    assert_eq!(made.json().get("_cts"), made.json().get("_ts"));
    assert!(made.body.contains(r#""future":[1,2.5"#), "{}", made.body);
    assert_eq!(armilla.get(&format!("{KEYS}/{rid}")).await.expect(200).body, made.body);
    armilla.send("DELETE", &format!("{KEYS}/key1"), &[], "").await.refused(405, 0);
    armilla.put(&format!("{KEYS}/key1"), &key_body("key2")).await.refused(400, 0);
    let again = Armilla::over(store, Options::default(), |service| service);
    assert_eq!(again.get(&format!("{KEYS}/key1")).await.expect(200).body, made.body);
    assert!(again.account.verify().unwrap().findings.is_empty());
    again.delete("/dbs/blog").await.expect(204);
    again.post("/dbs", r#"{"id":"blog"}"#).await.expect(201);
    assert!(again.get(KEYS).await.expect(200).ids("ClientEncryptionKeys").is_empty());
    again.get(&format!("{KEYS}/key1")).await.refused(404, 0);
}

#[tokio::test]
async fn a_database_has_at_most_twenty_keys() {
    let armilla = with_key().await;
    for number in 2..=20 {
        armilla.post(KEYS, &key_body(&format!("key{number}"))).await.expect(201);
    }
    let refused = armilla.post(KEYS, &key_body("key21")).await.refused(400, 0);
    assert!(refused.body.contains("at most 20"), "{}", refused.body);
    let page = armilla.send("GET", KEYS, &[("x-ms-max-item-count", "15")], "").await.expect(200);
    assert_eq!(page.ids("ClientEncryptionKeys").len(), 15);
    assert!(page.header("x-ms-continuation").is_some());
}

/// A container with a policy; its answer.
async fn create(armilla: &Armilla, name: &str, policy: Option<&Value>, key: &str) -> Answer {
    let policy = policy.filter(|policy| policy.as_object().is_some());
    let policy = policy.map(|policy| format!(r#","clientEncryptionPolicy":{}"#, policy.to_json()));
    let body = format!(
        r#"{{"id":"{name}","partitionKey":{{"paths":["{key}"],"version":2}}{}}}"#,
        policy.unwrap_or_default()
    );
    armilla.post("/dbs/blog/colls", &body).await
}

#[tokio::test]
async fn policies_are_checked_and_echoed() {
    let armilla = with_key().await;
    let policies = vectors("policies");
    assert!(policies.len() >= 12);
    for (number, vector) in policies.iter().enumerate() {
        let policy = vector.get("clientEncryptionPolicy").unwrap();
        let key = vector.get("partitionKey").and_then(Value::as_array).map(|paths| &paths[0]);
        let key = key.and_then(Value::as_str).unwrap_or("/other");
        let answer = create(&armilla, &format!("c{number}"), Some(policy), key).await;
        let answer = answer.expect(status(vector));
        assert!(answer.body.contains(text(vector, "message")), "{}", answer.body);
        if answer.status == 201 {
            assert_eq!(answer.json().get("clientEncryptionPolicy"), Some(policy));
        }
    }
}

/// An encrypted GUID has 132 bytes, which the first hash does not take.
#[tokio::test]
async fn encrypted_partition_keys_fit() {
    let armilla = with_key().await;
    let policy = vectors("policies")[1].get("clientEncryptionPolicy").unwrap().to_json();
    let body = format!(
        r#"{{"id":"c","partitionKey":{{"paths":["/pk"]}},"clientEncryptionPolicy":{policy}}}"#
    );
    let made = armilla.post("/dbs/blog/colls", &body).await.expect(201);
    let version = made.json().get("partitionKey").unwrap().get("version").cloned();
    assert_eq!(version, Some(Value::from(2)), "clients hash as they are told");
    let key = "a".repeat(132);
    let header = format!("[\"{key}\"]");
    let item = format!(r#"{{"id":"i","pk":"{key}"}}"#);
    let headers = [("x-ms-documentdb-partitionkey", header.as_str())];
    armilla.send("POST", "/dbs/blog/colls/c/docs", &headers, &item).await.expect(201);
    armilla.put("/dbs/blog/colls/c", &body).await.expect(200);
}

#[tokio::test]
async fn policies_never_change() {
    let armilla = with_key().await;
    for (number, vector) in vectors("replaces").iter().enumerate() {
        let name = format!("c{number}");
        let made = create(&armilla, &name, vector.get("was"), "/other").await.expect(201);
        let mut body = made.json().as_object().unwrap().clone();
        body.remove("clientEncryptionPolicy");
        let now = vector.get("now").filter(|now| now.as_object().is_some());
        if let Some(now) = now {
            body.insert("clientEncryptionPolicy", now.clone());
        }
        let path = format!("/dbs/blog/colls/{name}");
        let answer = armilla.put(&path, &Value::object(body).to_json()).await;
        let answer = answer.expect(status(vector));
        assert!(answer.body.contains(text(vector, "message")), "{}", answer.body);
    }
}

/// The request of an item operation: method, path, headers, body.
fn request(
    operation: &str,
) -> (&'static str, String, Vec<(&'static str, &'static str)>, &'static str) {
    const ITEM: &str = r#"{"id":"a","postId":"t","n":2}"#;
    let item = format!("{DOCS}/a");
    let batch = r#"[{"operationType":"Upsert","partitionKey":"[\"t\"]","resourceBody":{"id":"a","postId":"t","n":2}}]"#;
    let (method, path, more, body): (_, _, &[(&str, &str)], _) = match operation {
        "create" => ("POST", DOCS.into(), &[], r#"{"id":"b","postId":"t"}"#),
        "upsert" => ("POST", DOCS.into(), &[("x-ms-documentdb-is-upsert", "true")], ITEM),
        "read" => ("GET", item, &[], ""),
        "replace" => ("PUT", item, &[], ITEM),
        "patch" => ("PATCH", item, &[], r#"{"operations":[{"op":"set","path":"/n","value":2}]}"#),
        "delete" => ("DELETE", item, &[], ""),
        "query" => (
            "POST",
            DOCS.into(),
            &[("x-ms-documentdb-isquery", "True")],
            r#"{"query":"SELECT * FROM c"}"#,
        ),
        "change feed" => ("GET", DOCS.into(), &[("a-im", "Incremental feed")], ""),
        "batch" => (
            "POST",
            DOCS.into(),
            &[("x-ms-cosmos-is-batch-request", "true"), ("x-ms-cosmos-batch-atomic", "true")],
            batch,
        ),
        "bulk" => (
            "POST",
            DOCS.into(),
            &[
                ("x-ms-cosmos-is-batch-request", "true"),
                ("x-ms-cosmos-batch-atomic", "false"),
                ("x-ms-cosmos-batch-continue-on-error", "true"),
            ],
            batch,
        ),
        other => panic!("{other} is no operation of the vectors"),
    };
    (method, path, more.to_vec(), body)
}

#[tokio::test]
async fn requests_for_another_container_do_nothing() {
    let armilla = Armilla::with_posts().await;
    let rid = armilla.get("/dbs/blog/colls/posts").await.text("_rid");
    let key = ("x-ms-documentdb-partitionkey", "[\"t\"]");
    let item = r#"{"id":"a","postId":"t","n":1}"#;
    let before = armilla.send("POST", DOCS, &[key], item).await.expect(201).text("_etag");
    let cases = vectors("intendedRid");
    assert_eq!(cases.len(), 11);
    for case in &cases {
        let sent = case.get("headersSent").unwrap();
        let (method, path, mut headers, body) = request(text(case, "operation"));
        headers.push(("x-ms-cosmos-is-client-encrypted", "true"));
        let wrong_key = sent.get("x-ms-documentdb-partitionkey").is_some();
        headers.push(if wrong_key { (key.0, "[\"other\"]") } else { key });
        let mut foreign = headers.clone();
        foreign.push(("x-ms-cosmos-intended-collection-rid", "AAAAAIAAAAA="));
        armilla.send(method, &path, &foreign, body).await.refused(400, 1024);
        let item = armilla.send("GET", &format!("{DOCS}/a"), &[key], "").await.expect(200);
        assert_eq!(item.text("_etag"), before, "{case}");
        armilla.send("GET", &format!("{DOCS}/b"), &[key], "").await.refused(404, 0);
    }
    // The right one is as none at all.
    for operation in ["query", "change feed", "create", "read", "delete"] {
        let (method, path, headers, body) = request(operation);
        let mut headers: Vec<(&str, &str)> = headers;
        headers.extend([key, ("x-ms-cosmos-intended-collection-rid", rid.as_str())]);
        let answer = armilla.send(method, &path, &headers, body).await;
        assert!(answer.status < 300, "{operation}: {}", answer.body);
    }
}

#[tokio::test]
async fn an_encrypted_id_is_found_by_its_path() {
    let armilla = Armilla::with_posts().await;
    for vector in vectors("ids") {
        let id = text(&vector, "id");
        assert_eq!(id.len() as i64, vector.get("length").unwrap().as_i64().unwrap());
        let key = ("x-ms-documentdb-partitionkey", "[\"a+/b==\"]");
        let body = format!(r#"{{"id":"{id}","postId":"a+/b=="}}"#);
        armilla.send("POST", DOCS, &[key], &body).await.expect(201);
        let path = text(&vector, "path").replace("{db}", "blog").replace("{c}", "posts");
        assert_eq!(armilla.send("GET", &path, &[key], "").await.expect(200).text("id"), id);
    }
}
