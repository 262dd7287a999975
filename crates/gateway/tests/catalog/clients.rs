//! What clients in other languages read in answers, and fail without: .NET, Java, Go and their suites.

use crate::support::{Answer, Armilla, QUERY};
use crate::words::{COLLS, DOCS, FEED, KEY, POSTS, RANGE, TOKEN};
use armilla_model::Value;

const EVERYWHERE: (&str, &str) = ("x-ms-documentdb-query-enablecrosspartition", "true");

/// The container `posts` over three ranges.
async fn with_ranges() -> Armilla {
    let armilla = Armilla::start();
    armilla.post("/dbs", r#"{"id":"blog"}"#).await.expect(201);
    let definition = r#"{"id":"posts","partitionKey":{"paths":["/postId"]}}"#;
    let throughput = [("x-ms-offer-throughput", "25000")];
    armilla.send("POST", COLLS, &throughput, definition).await.expect(201);
    armilla
}

async fn create(armilla: &Armilla, id: &str) -> Answer {
    let body = format!(r#"{{"id":"{id}","postId":"p"}}"#);
    armilla.send("POST", DOCS, &[KEY], &body).await
}

fn message(answer: &Answer) -> String {
    answer.text("message")
}

#[track_caller]
fn is_one_token(answer: &Answer) {
    let token = answer.header(TOKEN).unwrap();
    assert_eq!(token.matches(':').count(), 1, "{token}");
    assert!(token.starts_with("0:-1#"), "{token}");
}

/// N1, M1: .NET parses the count of every page of the change feed.
#[tokio::test]
async fn an_empty_page_of_the_change_feed_has_a_count() {
    let armilla = Armilla::with_posts().await;
    create(&armilla, "a").await.expect(201);
    for start in ["*", "\"1\""] {
        let headers = [FEED, RANGE, ("if-none-match", start)];
        let page = armilla.send("GET", DOCS, &headers, "").await.expect(304);
        assert_eq!(page.header("x-ms-item-count"), Some("0"));
        assert!(page.header("etag").is_some());
    }
}

/// A3: Java and .NET split a session token at its first colon.
#[tokio::test]
async fn answers_about_scripts_and_lists_carry_one_position() {
    let armilla = with_ranges().await;
    let body = r#"{"id":"s","body":"function(){}","triggerType":"Pre","triggerOperation":"All"}"#;
    for kind in ["sprocs", "triggers", "udfs"] {
        let (feed, one) = (format!("{POSTS}/{kind}"), format!("{POSTS}/{kind}/s"));
        is_one_token(&armilla.post(&feed, body).await.expect(201));
        is_one_token(&armilla.get(&feed).await.expect(200));
        is_one_token(&armilla.query(&feed, "SELECT * FROM c").await.expect(200));
        is_one_token(&armilla.get(&one).await.expect(200));
        is_one_token(&armilla.put(&one, body).await.expect(200));
        if kind == "sprocs" {
            let executed = armilla.send("POST", &one, &[KEY], "[]").await.expect(200);
            assert_eq!(executed.header(TOKEN).unwrap().matches(':').count(), 1);
        }
        is_one_token(&armilla.delete(&one).await.expect(204));
    }
    create(&armilla, "a").await.expect(201);
    is_one_token(&armilla.get(DOCS).await.expect(200));
    is_one_token(&armilla.send("GET", DOCS, &[FEED], "").await.expect(200));
}

/// P1, A14 and the region's name.
#[tokio::test]
async fn the_account_says_what_clients_look_for() {
    let armilla = Armilla::start();
    let account = armilla.get("/").await.expect(200);
    for name in ["x-ms-max-media-storage-usage-mb", "x-ms-media-storage-usage-mb"] {
        account.header(name).unwrap().parse::<u64>().unwrap();
    }
    let configuration = account.text("queryEngineConfiguration");
    let configuration = armilla_model::json::parse(configuration.as_bytes()).unwrap();
    assert_eq!(configuration.get("queryEnableFullText"), Some(&true.into()));
    let region = account.rows("readableLocations")[0].get("name").cloned();
    assert_eq!(region, Some("South Central US".into()));
}

/// A5: pages of -1 are merged here; JavaScript would wait for ever.
#[tokio::test]
async fn a_javascript_client_that_leaves_the_page_size_open_gets_merged_rows() {
    let armilla = with_ranges().await;
    for id in ["c", "a", "b"] {
        let body = format!(r#"{{"id":"{id}","postId":"{id}"}}"#);
        armilla.post(DOCS, &body).await.expect(201);
    }
    let body = r#"{"query":"SELECT VALUE c.id FROM c ORDER BY c.id","parameters":[]}"#;
    let agent = ("user-agent", "azure-cosmos-js/4.9.3");
    let headers = [QUERY, EVERYWHERE, agent, ("x-ms-max-item-count", "-1")];
    let merged = armilla.send("POST", DOCS, &headers, body).await.expect(200);
    assert_eq!(Value::array(merged.rows("Documents")).to_json(), r#"["a","b","c"]"#);
    let headers = [QUERY, EVERYWHERE, agent, ("x-ms-max-item-count", "10")];
    armilla.send("POST", DOCS, &headers, body).await.refused(400, 1004);
}

/// M4: who resumes from the last `_ts` has seen that second.
#[tokio::test]
async fn changes_since_a_moment_leave_that_moment_out() {
    let armilla = Armilla::with_posts().await;
    create(&armilla, "first").await.expect(201);
    armilla.clock.advance_seconds(2);
    create(&armilla, "second").await.expect(201);
    for (since, wanted) in [
        ("Sun, 15 Nov 2026 19:24:18 GMT", vec!["first", "second"]),
        ("Sun, 15 Nov 2026 19:24:19 GMT", vec!["second"]),
    ] {
        let headers = [FEED, RANGE, ("if-modified-since", since)];
        let page = armilla.send("GET", DOCS, &headers, "").await.expect(200);
        assert_eq!(page.ids("Documents"), wanted);
    }
    let headers = [FEED, RANGE, ("if-modified-since", "Sun, 15 Nov 2026 19:24:21 GMT")];
    armilla.send("GET", DOCS, &headers, "").await.expect(304);
}

/// A6: the caller turned content off for single operations.
#[tokio::test]
async fn operations_that_want_little_back_get_no_body() {
    let armilla = Armilla::with_posts().await;
    let operation = |id: &str, minimal: bool| {
        format!(
            r#"{{"operationType":"Upsert","partitionKey":"[\"p\"]","resourceBody":{{"id":"{id}","postId":"p"}},"minimalReturnPreference":{minimal}}}"#
        )
    };
    let read = r#"{"operationType":"Read","id":"a","partitionKey":"[\"p\"]","minimalReturnPreference":true}"#;
    let body = format!("[{},{},{read}]", operation("a", true), operation("b", false));
    let is_batch = ("x-ms-cosmos-is-batch-request", "True");
    for headers in [
        [is_batch, KEY, ("x-ms-cosmos-batch-atomic", "True")],
        [is_batch, RANGE, ("x-ms-cosmos-batch-continue-on-error", "True")],
    ] {
        let answer = armilla.send("POST", DOCS, &headers, &body).await.expect(200).json();
        let has_body = |row: &Value| row.get("resourceBody").is_some();
        let bodies: Vec<_> = answer.as_array().unwrap().iter().map(has_body).collect();
        assert_eq!(bodies, [false, true, true]);
        assert!(answer.as_array().unwrap()[0].get("eTag").is_some());
    }
}

/// A15: a missing item is told from a missing container by the text.
#[tokio::test]
async fn a_missing_item_is_a_document_that_was_not_found() {
    let armilla = Armilla::with_posts().await;
    let item = format!("{DOCS}/nope");
    let body = r#"{"id":"nope","postId":"p"}"#;
    let patch = r#"[{"op":"set","path":"/x","value":1}]"#;
    for (method, body, operation) in [
        ("GET", "", "Read"),
        ("PUT", body, "Replace"),
        // M17: before a word on the body.
        ("PUT", "", "Replace"),
        ("PATCH", patch, "Patch"),
        ("DELETE", "", "Delete"),
    ] {
        let missing = armilla.send(method, &item, &[KEY], body).await.refused(404, 0);
        let words = format!("ResourceType: Document, OperationType: {operation}, ");
        assert!(message(&missing).starts_with("Resource Not Found."), "{}", missing.body);
        assert!(message(&missing).contains(&words), "{}", missing.body);
        let path = "/dbs/blog/colls/none/docs/nope";
        let missing = armilla.send(method, path, &[KEY], body).await.refused(404, 1003);
        assert!(!message(&missing).contains("ResourceType: Document"), "{}", missing.body);
    }
}

/// M35, M13: who shares throughput, and what is used of the quota.
#[tokio::test]
async fn shared_throughput_quota_and_usage_are_told() {
    let armilla = Armilla::with_posts().await;
    let shared = [("x-ms-offer-throughput", "1000")];
    armilla.send("POST", "/dbs", &shared, r#"{"id":"sh"}"#).await.expect(201);
    let container = r#"{"id":"c","partitionKey":{"paths":["/p"]}}"#;
    let made = armilla.post("/dbs/sh/colls", container).await.expect(201);
    assert_eq!(made.header("x-ms-share-throughput"), Some("True"));
    let own = armilla.post(COLLS, container).await.expect(201);
    assert_eq!(own.header("x-ms-share-throughput"), None);

    let trigger =
        r#"{"id":"t","body":"function(){}","triggerType":"Pre","triggerOperation":"All"}"#;
    let function = r#"{"id":"f","body":"function(){}"}"#;
    let item = format!("{DOCS}/a");
    for answer in [
        create(&armilla, "a").await.expect(201),
        armilla.send("GET", &item, &[KEY], "").await.expect(200),
        armilla.post(&format!("{POSTS}/triggers"), trigger).await.expect(201),
        armilla.get(&format!("{POSTS}/triggers/t")).await.expect(200),
        armilla.post(&format!("{POSTS}/udfs"), function).await.expect(201),
        armilla.get(&format!("{POSTS}/udfs/f")).await.expect(200),
    ] {
        let quota = answer.header("x-ms-resource-quota").unwrap();
        assert!(quota.contains("documentSize=10240;") && quota.contains("triggers="), "{quota}");
        let usage = answer.header("x-ms-resource-usage").unwrap();
        assert!(usage.contains("documentsCount=1;"), "{usage}");
    }
    let usage = armilla.get(&format!("{POSTS}/udfs/f")).await;
    let wanted = "documentSize=0;documentsSize=1;documentsCount=1;collectionSize=1;functions=1;storedProcedures=0;triggers=1;";
    assert_eq!(usage.header("x-ms-resource-usage"), Some(wanted));
}

/// N6, M34: .NET throws a page away that does not say it is whole by itself.
#[tokio::test]
async fn optimistic_clients_learn_whether_they_need_a_plan() {
    let armilla = with_ranges().await;
    for id in ["a", "b", "c"] {
        create(&armilla, id).await.expect(201);
    }
    let name = "x-ms-cosmos-query-requiresdistribution";
    let optimistic = ("x-ms-cosmos-query-optimisticdirectexecute", "True");
    let one = ("x-ms-max-item-count", "1");
    for (text, wanted) in [
        ("SELECT VALUE c.id FROM c", "False"),
        ("SELECT TOP 2 VALUE c.id FROM c", "False"),
        ("SELECT VALUE c.id FROM c ORDER BY c.id", "False"),
        ("SELECT TOP 2 c.id FROM c ORDER BY c.id", "False"),
        ("SELECT VALUE c.id FROM c OFFSET 1 LIMIT 2", "False"),
        ("SELECT DISTINCT VALUE c.id FROM c", "True"),
        ("SELECT VALUE COUNT(1) FROM c", "True"),
        ("SELECT c.id FROM c GROUP BY c.id", "True"),
    ] {
        let body = format!(r#"{{"query":"{text}","parameters":[]}}"#);
        let mut position = String::new();
        loop {
            let mut headers = vec![QUERY, KEY, optimistic, one];
            if !position.is_empty() {
                headers.push(("x-ms-continuation", &position));
            }
            let page = armilla.send("POST", DOCS, &headers, &body).await.expect(200);
            assert_eq!(page.header(name), Some(wanted), "{text}");
            match page.header("x-ms-continuation") {
                Some(token) => position = token.to_owned(),
                None => break,
            }
        }
        let plain = armilla.send("POST", DOCS, &[QUERY, KEY], &body).await.expect(200);
        assert_eq!(plain.header(name), None);
    }
    let body = r#"{"query":"SELECT VALUE c.id FROM c","parameters":[]}"#;
    let all = armilla.send("POST", DOCS, &[QUERY, EVERYWHERE, optimistic], body).await.expect(200);
    assert_eq!(all.header(name), Some("True"));
}

/// A13: Java and .NET expect a time for every phase that took place.
#[tokio::test]
async fn query_metrics_name_no_time_as_zero_that_was_spent() {
    let armilla = Armilla::with_posts().await;
    create(&armilla, "a").await.expect(201);
    let headers = [QUERY, KEY, ("x-ms-documentdb-populatequerymetrics", "true")];
    let body = r#"{"query":"SELECT * FROM c","parameters":[]}"#;
    for _ in 0..2 {
        let page = armilla.send("POST", DOCS, &headers, body).await.expect(200);
        let metrics = page.header("x-ms-documentdb-query-metrics").unwrap();
        for name in ["totalExecution", "queryCompile", "VMExecution", "documentLoad"] {
            let time =
                metrics.split(';').find_map(|part| part.strip_prefix(&format!("{name}TimeInMs=")));
            assert!(time.unwrap().parse::<f64>().unwrap() > 0.0, "{metrics}");
        }
    }
}

/// Java's tests look for these words; they name what is missing on the way.
#[tokio::test]
async fn a_patch_names_what_is_missing_on_its_way() {
    let armilla = Armilla::start().and_posts().await;
    let key = [("x-ms-documentdb-partitionkey", "[\"p\"]")];
    let docs = "/dbs/blog/colls/posts/docs";
    let item = r#"{"id":"a","postId":"p","b":{}}"#;
    armilla.send("POST", docs, &key, item).await.expect(201);
    for (path, missing) in [("/none/child", "none"), ("/b/c/d", "c")] {
        let body = format!(r#"{{"operations":[{{"op":"add","path":"{path}","value":1}}]}}"#);
        let path = format!("{docs}/a");
        let refused = armilla.send("PATCH", &path, &key, &body).await.refused(400, 0);
        let words = format!("no path found beyond: '{missing}'");
        assert!(refused.text("message").contains(&words), "{}", refused.body);
    }
}

/// A preview of .NET: its users are told that there is none, not that something is missing.
#[tokio::test]
async fn transactions_over_several_keys_are_refused_in_words() {
    let armilla = Armilla::with_posts().await;
    let body = r#"{"operations":[{"databaseName":"blog","collectionName":"posts","id":"a","partitionKey":"[\"p\"]","index":0,"operationType":"Create","resourceType":"Document","resourceBody":{"id":"a","postId":"p"}}]}"#;
    let answer = armilla.post("/operations/dtc", body).await.expect(400);
    assert!(message(&answer).contains("Distributed transactions"), "{}", answer.body);
    armilla.post("/operations/else", body).await.expect(404);
}
