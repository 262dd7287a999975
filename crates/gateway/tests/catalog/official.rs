//! What the official SDKs' own suites found missing, one test each.

use crate::support::{Answer, Armilla};
use armilla_model::Value;

const ITEMS: &str = "/dbs/blog/colls/posts/docs";
const QUERY: (&str, &str) = ("content-type", "application/query+json");
const ANYWHERE: (&str, &str) = ("x-ms-documentdb-query-enablecrosspartition", "true");
const PYTHON: (&str, &str) = ("user-agent", "azsdk-python-cosmos/4.17.1");

async fn with_items(throughput: &str, count: usize) -> Armilla {
    let armilla = Armilla::start();
    armilla.post("/dbs", r#"{"id":"blog"}"#).await.expect(201);
    let definition = r#"{"id":"posts","partitionKey":{"paths":["/pk"],"version":2}}"#;
    let offer = [("x-ms-offer-throughput", throughput)];
    armilla.send("POST", "/dbs/blog/colls", &offer, definition).await.expect(201);
    for number in 0..count {
        let body = format!(r#"{{"id":"i{number}","pk":"k{number}","n":{number}}}"#);
        armilla.post(ITEMS, &body).await.expect(201);
    }
    armilla
}

async fn ask(armilla: &Armilla, text: &str, headers: &[(&str, &str)]) -> Answer {
    let headers: Vec<_> = [QUERY, ANYWHERE].into_iter().chain(headers.iter().copied()).collect();
    let body = format!("{{\"query\":{}}}", Value::from(text).to_json());
    armilla.send("POST", ITEMS, &headers, &body).await
}

#[tokio::test]
async fn plans_do_not_depend_on_the_number_of_ranges() {
    let armilla = with_items("400", 1).await;
    let wanted = [
        ("x-ms-cosmos-is-query-plan-request", "True"),
        ("x-ms-cosmos-supported-query-features", "Top,OrderBy,Aggregate,Distinct"),
    ];
    let plan = ask(&armilla, "SELECT TOP 3 * FROM c", &wanted).await.expect(200).json();
    assert_eq!(plan.get("queryInfo").unwrap().get("top"), Some(&Value::from(3)));
    ask(&armilla, "SELECT COUNT(1) FROM c", &wanted).await.refused(400, 0);
}

#[tokio::test]
async fn clients_that_merge_are_refused_what_nobody_can_merge() {
    let armilla = with_items("400", 1).await;
    ask(&armilla, "SELECT COUNT(1) + 5 FROM c", &[PYTHON]).await.refused(400, 0);
    ask(&armilla, "SELECT VALUE COUNT(1) + 5 FROM c", &[]).await.expect(200);
}

#[tokio::test]
async fn tokens_of_a_whole_container_are_json_and_lead_on() {
    let armilla = with_items("400", 5).await;
    let page = ask(&armilla, "SELECT * FROM c", &[("x-ms-max-item-count", "2")]).await.expect(200);
    let token = page.header("x-ms-continuation").unwrap().to_owned();
    let read = armilla_model::json::parse(token.as_bytes()).unwrap();
    assert_eq!(read.get("range").unwrap().to_json(), r#"{"min":"","max":"FF"}"#);
    let rest = ask(&armilla, "SELECT * FROM c", &[("x-ms-continuation", &token)]).await.expect(200);
    assert_eq!(page.rows("Documents").len() + rest.rows("Documents").len(), 5);
    for junk in ["junk", "{}", r#"{"token":7}"#] {
        let refused = ask(&armilla, "SELECT * FROM c", &[("x-ms-continuation", junk)]).await;
        assert!(refused.refused(400, 0).body.contains("Invalid Continuation Token"));
    }
    // A token of the service names an item of another container: the query begins anew.
    let foreign = "-RID:~a0NPAOszCpOChB4AAAAAAA==#RT:1#TRC:2#ISV:2#IEO:65567#QCF:8";
    let all = ask(&armilla, "SELECT * FROM c", &[("x-ms-continuation", foreign)]).await;
    assert_eq!(all.expect(200).rows("Documents").len(), 5);
}

#[tokio::test]
async fn python_is_given_a_page_per_range() {
    let armilla = with_items("20000", 8).await;
    let (mut pages, mut rows, mut token) = (0, 0, None);
    loop {
        let mut headers = vec![PYTHON];
        headers.extend(token.as_deref().map(|token| ("x-ms-continuation", token)));
        let page = ask(&armilla, "SELECT * FROM c", &headers).await.expect(200);
        (pages, rows) = (pages + 1, rows + page.rows("Documents").len());
        token = page.header("x-ms-continuation").map(str::to_owned);
        if token.is_none() {
            break;
        }
    }
    assert_eq!((pages, rows), (2, 8));
    let others = ask(&armilla, "SELECT * FROM c", &[]).await.expect(200);
    assert_eq!(others.rows("Documents").len(), 8);
}

#[tokio::test]
async fn a_token_of_a_keys_range_goes_on_by_the_key() {
    let armilla = with_items("400", 1).await;
    for number in 0..3 {
        let body = format!(r#"{{"id":"more{number}","pk":"k0"}}"#);
        armilla.post(ITEMS, &body).await.expect(201);
    }
    let text = "SELECT c.id FROM c ORDER BY c.id";
    let range = [("x-ms-documentdb-partitionkeyrangeid", "0"), ("x-ms-max-item-count", "2")];
    let page = ask(&armilla, text, &range).await.expect(200);
    let token = page.header("x-ms-continuation").unwrap();
    let by_key = [("x-ms-documentdb-partitionkey", r#"["k0"]"#), ("x-ms-continuation", token)];
    let rest = ask(&armilla, text, &by_key).await.expect(200);
    assert_eq!(rest.rows("Documents").len(), 2);
}

#[tokio::test]
async fn containers_without_a_key_take_items_without_one() {
    let armilla = Armilla::start();
    armilla.post("/dbs", r#"{"id":"blog"}"#).await.expect(201);
    armilla.post("/dbs/blog/colls", r#"{"id":"posts"}"#).await.refused(400, 0);
    let old = [("x-ms-version", "2018-06-18")];
    let made = armilla.send("POST", "/dbs/blog/colls", &old, r#"{"id":"posts"}"#).await;
    let key = made.expect(201).json().get("partitionKey").unwrap().to_json();
    assert_eq!(key, r#"{"paths":["/_partitionKey"],"kind":"Hash","systemKey":true}"#);
    let none = [("x-ms-documentdb-partitionkey", "[]")];
    armilla.send("POST", ITEMS, &none, r#"{"id":"a","v":1}"#).await.expect(201);
    let path = format!("{ITEMS}/a");
    armilla.send("GET", &path, &none, "").await.expect(200);
    armilla.get(&path).await.expect(200);
    let bulk = [
        ("x-ms-cosmos-is-batch-request", "True"),
        ("x-ms-cosmos-batch-continue-on-error", "True"),
        ("x-ms-documentdb-partitionkeyrangeid", "0"),
    ];
    let body = r#"[{"operationType":"Read","id":"a","partitionKey":"[]"}]"#;
    let read = armilla.send("POST", ITEMS, &bulk, body).await.expect(200);
    assert!(read.body.contains(r#""statusCode":200"#), "{}", read.body);
    armilla.send("DELETE", &path, &none, "").await.expect(204);
}

#[tokio::test]
async fn reads_tell_the_lsn_of_the_item() {
    let armilla = with_items("400", 1).await;
    let key = [("x-ms-documentdb-partitionkey", r#"["k0"]"#)];
    let path = format!("{ITEMS}/i0");
    let before = armilla.send("GET", &path, &key, "").await.expect(200);
    armilla.post(ITEMS, r#"{"id":"other","pk":"k0"}"#).await.expect(201);
    let after = armilla.send("GET", &path, &key, "").await.expect(200);
    assert_eq!(before.header("x-ms-item-lsn"), after.header("x-ms-item-lsn"));
    assert_ne!(before.header("lsn"), after.header("lsn"));
}

#[tokio::test]
async fn a_read_that_finds_nothing_still_tells_the_session() {
    let armilla = with_items("400", 0).await;
    let key = [("x-ms-documentdb-partitionkey", r#"["k0"]"#)];
    let missing = armilla.send("GET", &format!("{ITEMS}/i0"), &key, "").await.refused(404, 0);
    assert!(missing.header("x-ms-session-token").is_some() && missing.header("lsn").is_some());
}

#[tokio::test]
async fn small_words_that_clients_look_for() {
    let armilla = with_items("400", 1).await;
    // Nothing is indexed lazily here, and the suites look that nobody says so.
    let container = armilla.get("/dbs/blog/colls/posts").await.expect(200);
    assert!(container.header("x-ms-documentdb-collection-lazy-indexing-progress").is_none());
    let offers = armilla.get("/offers").await.expect(200);
    let link = offers.rows("Offers")[0].get("_self").unwrap().as_str().unwrap().to_owned();
    armilla.put(&format!("/offers/{link}"), "{}").await.expect(400);
    let large = format!(r#"{{"id":"large","pk":"{}"}}"#, "x".repeat(2 << 20));
    let refused = armilla.post(ITEMS, &large).await.refused(413, 0);
    let line = "Message: {\"Errors\":[\"Request size is too large\"]}\r\n";
    assert!(refused.text("message").starts_with(line));
    let usage = [
        ("x-ms-documentdb-partitionkey", r#"["k0"]"#),
        ("x-ms-cosmos-populateindexmetrics-V2", "true"),
    ];
    let told = ask(&armilla, "SELECT * FROM c", &usage).await.expect(200);
    assert!(told.header("x-ms-cosmos-index-utilization").unwrap().contains("%2Fpk%2F%3F"));
    let text = "SELECT * FROM c WHERE c.id = '1' AND c.name > 'Abc'";
    let told = ask(&armilla, text, &[usage[1]]).await.expect(200);
    let told = told.header("x-ms-cosmos-index-utilization").unwrap().to_owned();
    for word in ["UtilizedIndexes", "PotentialIndexes", "%22IndexImpactScore%22%3A%22High%22"] {
        assert!(told.contains(word), "{word} in {told}");
    }
    let advice = [usage[0], ("x-ms-cosmos-populatequeryadvice", "true")];
    let told = ask(&armilla, "SELECT * FROM c WHERE CONTAINS(c.s, 'x')", &advice).await.expect(200);
    let entry = "%5B%7B%22Id%22%3A%22QA1002%22%2C%22Params%22%3A%5B%5D%7D%5D";
    assert_eq!(told.header("x-ms-cosmos-query-advice"), Some(entry));
    let silent = ask(&armilla, "SELECT * FROM c", &advice).await.expect(200);
    assert!(silent.header("x-ms-cosmos-query-advice").is_none());
    let averages = "SELECT VALUE AVG(c.n) FROM c ORDER BY c.n, c.pk";
    assert_eq!(ask(&armilla, averages, &[]).await.expect(200).rows("Documents").len(), 1);
}

/// Keys hashed by version 1 may be as long as others; those that begin alike share a partition.
#[tokio::test]
async fn long_keys_are_taken_where_keys_are_hashed_by_version_1() {
    let armilla = Armilla::with_posts().await;
    let (long, longer) = ("a".repeat(263), "a".repeat(2048));
    for (id, key) in [("1", &long), ("2", &longer)] {
        let body = format!(r#"{{"id":"{id}","postId":"{key}"}}"#);
        armilla.post(ITEMS, &body).await.expect(201);
        let header = format!(r#"["{key}"]"#);
        let headers = [("x-ms-documentdb-partitionkey", header.as_str())];
        armilla.send("GET", &format!("{ITEMS}/{id}"), &headers, "").await.expect(200);
    }
    // One logical partition, as the service documents it: an id is there once.
    armilla.post(ITEMS, &format!(r#"{{"id":"1","postId":"{longer}"}}"#)).await.refused(409, 0);
    let beyond = "a".repeat(2049);
    armilla.post(ITEMS, &format!(r#"{{"id":"3","postId":"{beyond}"}}"#)).await.refused(400, 0);
}

/// A plan for one key leaves skipping to the server, which has all the rows; for others the client skips.
#[tokio::test]
async fn offset_and_limit_are_left_to_the_server_when_a_key_is_given() {
    let armilla = with_items("25000", 6).await;
    let wanted = [
        ("x-ms-cosmos-is-query-plan-request", "True"),
        ("x-ms-cosmos-supported-query-features", "OffsetAndLimit,OrderBy"),
    ];
    let key = ("x-ms-documentdb-partitionkey", r#"["k1"]"#);
    let text = "SELECT * FROM c OFFSET 1 LIMIT 2";
    let info = |plan: Answer| plan.expect(200).json().get("queryInfo").unwrap().clone();
    let member = |info: &Value, name: &str| info.get(name).cloned().unwrap_or_default();
    let spread = info(ask(&armilla, text, &wanted).await);
    assert_eq!(member(&spread, "offset"), Value::from(1));
    assert_eq!(member(&spread, "limit"), Value::from(2));
    assert!(member(&spread, "rewrittenQuery").as_str().unwrap().contains("OFFSET 0 LIMIT 3"));
    let headers: Vec<_> = wanted.into_iter().chain([key]).collect();
    let alone = info(ask(&armilla, text, &headers).await);
    assert_eq!(member(&alone, "offset"), Value::Null);
    assert_eq!(member(&alone, "limit"), Value::Null);
    let rewritten = member(&alone, "rewrittenQuery");
    assert!(!rewritten.as_str().unwrap_or_default().contains("OFFSET 0"), "{rewritten}");
    // And the server does skip: the key has one item of its own, and then three.
    for id in ["x", "y"] {
        armilla.post(ITEMS, &format!(r#"{{"id":"{id}","pk":"k1","n":1}}"#)).await.expect(201);
    }
    let text = "SELECT VALUE c.id FROM c ORDER BY c.id OFFSET 1 LIMIT 2";
    let page = ask(&armilla, text, &[key]).await.expect(200);
    assert_eq!(Value::array(page.rows("Documents")).to_json(), r#"["x","y"]"#);
}

/// The Rust SDK writes `automatic: false` whoever uses it, and its suite wants the service's answer; others
/// that write it are answered what they wrote.
#[tokio::test]
async fn a_policy_is_automatic_for_a_client_that_cannot_leave_it_out() {
    let armilla = Armilla::with_posts().await;
    let rust = ("user-agent", "azsdk-rust-cosmos/1.0.0 (linux)");
    let policy = r#""indexingPolicy":{"automatic":false,"indexingMode":"consistent"}"#;
    for (id, agent, answered) in [("a", rust, true), ("b", PYTHON, false)] {
        let body = format!(r#"{{"id":"{id}","partitionKey":{{"paths":["/pk"]}},{policy}}}"#);
        let made = armilla.send("POST", "/dbs/blog/colls", &[agent], &body).await.expect(201);
        let path = format!("/dbs/blog/colls/{id}");
        let replaced = armilla.send("PUT", &path, &[agent], &body).await.expect(200);
        for answer in [made, replaced] {
            let automatic = answer.json().get("indexingPolicy").unwrap().get("automatic").cloned();
            assert_eq!(automatic, Some(Value::Bool(answered)), "{id}");
        }
    }
    let none = r#"{"id":"a","partitionKey":{"paths":["/pk"]},"indexingPolicy":{"automatic":false,"indexingMode":"none"}}"#;
    let replaced = armilla.send("PUT", "/dbs/blog/colls/a", &[rust], none).await.expect(200);
    let policy = replaced.json().get("indexingPolicy").cloned().unwrap();
    assert_eq!(policy.get("automatic"), Some(&Value::Bool(false)));
}
