//! What clients in other languages send: what is taken, and what is refused in which words.

use crate::support::{Answer, Armilla, QUERY, UPSERT};
use crate::words::{COLLS, DOCS, FEED, KEY, POSTS, RANGE, TOKEN};
use armilla_model::Value;

const NO_KEY: (&str, &str) = ("x-ms-documentdb-partitionkey", "[]");

async fn create(armilla: &Armilla, id: &str) -> Answer {
    let body = format!(r#"{{"id":"{id}","postId":"p"}}"#);
    armilla.send("POST", DOCS, &[KEY], &body).await
}

fn message(answer: &Answer) -> String {
    answer.text("message")
}

/// A2: the Java SDK sends the name of its constant.
#[tokio::test]
async fn versions_of_partition_keys_may_be_named() {
    let armilla = Armilla::with_posts().await;
    let key = r#"{"paths":["/a","/b"],"kind":"MultiHash","version":"V2"}"#;
    let made = armilla.post(COLLS, &format!(r#"{{"id":"c","partitionKey":{key}}}"#)).await;
    let made = made.expect(201).json();
    assert_eq!(made.get("partitionKey").unwrap().get("version"), Some(&2.into()));
    let four = r#"{"id":"d","partitionKey":{"paths":["/a","/b","/c","/d"],"kind":"MultiHash"}}"#;
    let refused = armilla.post(COLLS, four).await.refused(400, 0);
    let words = "Too many partition key paths (4) specified. A maximum of 3 is allowed.";
    assert!(message(&refused).contains(words));
}

/// I5: .NET answers 410 by asking again at once, for ever.
#[tokio::test]
async fn a_key_range_without_keys_is_a_bad_request() {
    let armilla = Armilla::with_posts().await;
    let body = r#"{"query":"SELECT * FROM c","parameters":[]}"#;
    for (start, end) in [("80000000", "40000000"), ("40", "40"), ("40", "")] {
        let bounds = [QUERY, RANGE, ("x-ms-start-epk", start), ("x-ms-end-epk", end)];
        let refused = armilla.send("POST", DOCS, &bounds, body).await.refused(400, 0);
        assert!(message(&refused).contains("x-ms-start-epk"), "{}", refused.body);
    }
    let bounds = [QUERY, RANGE, ("x-ms-start-epk", "40"), ("x-ms-end-epk", "FF")];
    armilla.send("POST", DOCS, &bounds, body).await.expect(200);
}

/// F8: what cannot be a session token is refused by every operation on items.
#[tokio::test]
async fn a_session_token_that_cannot_be_read_is_refused_everywhere() {
    let armilla = Armilla::with_posts().await;
    create(&armilla, "a").await.expect(201);
    let item = format!("{DOCS}/a");
    let bad = (TOKEN, "invalidtoken");
    let body = r#"{"id":"a","postId":"p"}"#;
    let batch = r#"[{"operationType":"Read","id":"a"}]"#;
    let patch = r#"[{"op":"set","path":"/x","value":1}]"#;
    let query = r#"{"query":"SELECT * FROM c","parameters":[]}"#;
    let is_batch = ("x-ms-cosmos-is-batch-request", "True");
    for (method, path, more, body) in [
        ("POST", DOCS, UPSERT, body),
        ("POST", DOCS, RANGE, body),
        ("POST", DOCS, is_batch, batch),
        ("POST", DOCS, QUERY, query),
        ("GET", DOCS, RANGE, ""),
        ("GET", &item, RANGE, ""),
        ("PUT", &item, RANGE, body),
        ("PATCH", &item, RANGE, patch),
        ("DELETE", &item, RANGE, ""),
    ] {
        let refused = armilla.send(method, path, &[KEY, bad, more], body).await.refused(400, 0);
        let words = "The session token provided 'invalidtoken' is invalid.";
        assert!(message(&refused).starts_with(words), "{method} {path}: {}", refused.body);
    }
    armilla.send("GET", &item, &[KEY], "").await.expect(200);
}

/// A15: texts about partition keys.
#[tokio::test]
async fn a_key_that_does_not_fit_is_refused_in_the_words_of_the_service() {
    let armilla = Armilla::with_posts().await;
    let other = r#"{"id":"a","postId":"other"}"#;
    let refused = armilla.send("POST", DOCS, &[KEY], other).await.refused(400, 1001);
    for words in [
        "PartitionKey extracted from document doesn't match the one specified in the header.",
        "wrong-pk-value",
    ] {
        assert!(message(&refused).contains(words), "{}", refused.body);
    }
    let long = ("x-ms-documentdb-partitionkey", r#"["p","q"]"#);
    let refused = armilla.send("POST", DOCS, &[long], other).await.refused(400, 1001);
    let words = "Partition key provided either doesn't correspond to definition in the collection";
    assert!(message(&refused).contains(words), "{}", refused.body);
}

/// M15: the one key of a container without a partition key is named by `[]`.
#[tokio::test]
async fn queries_of_a_container_without_a_key_may_name_no_key() {
    let armilla = Armilla::start();
    armilla.post("/dbs", r#"{"id":"blog"}"#).await.expect(201);
    let old = [("x-ms-version", "2018-09-17")];
    let policy = r#"{"includedPaths":[{"path":"/*","indexes":[{"kind":"Hash","dataType":"String","precision":3}]}]}"#;
    let definition = format!(r#"{{"id":"posts","indexingPolicy":{policy}}}"#);
    let made = armilla.send("POST", COLLS, &old, &definition).await.expect(201).json();
    let echo = made.get("indexingPolicy").unwrap().get("includedPaths").unwrap().to_json();
    assert!(echo.contains(r#""indexes":[{"kind":"Hash","#), "{echo}");
    armilla.send("POST", DOCS, &[NO_KEY], r#"{"id":"a"}"#).await.expect(201);
    let body = r#"{"query":"SELECT VALUE c.id FROM c","parameters":[]}"#;
    let found = armilla.send("POST", DOCS, &[QUERY, NO_KEY], body).await.expect(200);
    assert_eq!(Value::array(found.rows("Documents")).to_json(), r#"["a"]"#);
}

/// M11, M20 and H: headers that are refused.
#[tokio::test]
async fn headers_without_sense_are_refused() {
    let armilla = Armilla::with_posts().await;
    create(&armilla, "a").await.expect(201);
    create(&armilla, "b").await.expect(201);
    let body = r#"{"query":"SELECT * FROM c","parameters":[]}"#;
    let limit = "x-ms-documentdb-responsecontinuationtokenlimitinkb";
    let one = ("x-ms-max-item-count", "1");
    for (name, value, words) in [
        (limit, "0", "continuation token limit specified is not large enough"),
        (
            limit,
            "-1",
            "Please pass in a valid continuation token size limit which must be a positive integer",
        ),
        (FEED.0, FEED.1, "The change feed takes no query"),
        ("x-ms-documentdb-content-serialization-format", "Nonsense", "JsonText"),
        ("x-ms-cosmos-supported-serialization-formats", "JsonText, ", "JsonText"),
        ("x-ms-version", "2015-01-01", "version of the protocol"),
        ("x-ms-max-item-count", "nonsense", "x-ms-max-item-count"),
    ] {
        let headers = [QUERY, KEY, one, (name, value)];
        let refused = armilla.send("POST", DOCS, &headers, body).await.refused(400, 0);
        assert!(message(&refused).contains(words), "{name}: {}", refused.body);
    }
    for (name, value) in [
        (limit, "1"),
        ("x-ms-documentdb-content-serialization-format", "JSONtext"),
        ("x-ms-cosmos-supported-serialization-formats", "JsonText, CosmosBinary"),
        ("x-ms-version", "2015-12-16"),
        ("x-ms-version", "2030-01-01"),
    ] {
        armilla.send("POST", DOCS, &[QUERY, KEY, one, (name, value)], body).await.expect(200);
    }
}

/// M12: a trigger for upserts, whether the item is there or not.
#[tokio::test]
async fn triggers_may_be_for_upserts() {
    let armilla = Armilla::with_posts().await;
    let body =
        "function(){var r=getContext().getRequest();var d=r.getBody();d.seen=true;r.setBody(d);}";
    let trigger =
        format!(r#"{{"id":"tr","body":"{body}","triggerType":"Pre","triggerOperation":"Upsert"}}"#);
    let made = armilla.post(&format!("{POSTS}/triggers"), &trigger).await.expect(201);
    assert_eq!(made.text("triggerOperation"), "Upsert");
    let with = ("x-ms-documentdb-pre-trigger-include", "tr");
    let item = r#"{"id":"a","postId":"p"}"#;
    for status in [201, 200] {
        let answer = armilla.send("POST", DOCS, &[KEY, UPSERT, with], item).await.expect(status);
        assert_eq!(answer.json().get("seen"), Some(&true.into()));
    }
    armilla.send("PUT", &format!("{DOCS}/a"), &[KEY, with], item).await.expect(400);
}

/// I4: a condition on a version that is not there does not hinder an upsert.
#[tokio::test]
async fn an_upsert_of_a_new_item_has_nothing_to_match() {
    let armilla = Armilla::with_posts().await;
    for (id, etag) in [("a", "*"), ("b", "\"abc\"")] {
        let body = format!(r#"{{"id":"{id}","postId":"p"}}"#);
        let headers = [KEY, UPSERT, ("if-match", etag)];
        armilla.send("POST", DOCS, &headers, &body).await.expect(201);
    }
    let headers = [KEY, UPSERT, ("if-match", "\"abc\"")];
    armilla.send("POST", DOCS, &headers, r#"{"id":"a","postId":"p"}"#).await.expect(412);
}

/// F9: the last member of a name counts, but an item has one id.
#[tokio::test]
async fn repeated_members_keep_the_last() {
    let armilla = Armilla::with_posts().await;
    let body = r#"{"id":"a","v":1,"postId":"p","v":{"w":1,"w":2.50},"_ts":1,"_ts":2}"#;
    let made = armilla.send("POST", DOCS, &[KEY], body).await.expect(201);
    assert!(
        made.body.starts_with(r#"{"id":"a","postId":"p","v":{"w":2.50},"_rid""#),
        "{}",
        made.body
    );
    let read = armilla.send("GET", &format!("{DOCS}/a"), &[KEY], "").await.expect(200);
    assert_eq!(read.body, made.body);
    let query = r#"{"query":"SELECT VALUE c.v.w FROM c WHERE c.v.w = 2.5"}"#;
    let found = armilla.send("POST", DOCS, &[QUERY, KEY], query).await.expect(200);
    assert_eq!(found.rows("Documents").len(), 1);
    let twice = r#"{"id":"b","postId":"p","id":"c"}"#;
    armilla.send("POST", DOCS, &[KEY], twice).await.refused(400, 0);
    let batch =
        r#"[{"operationType":"Upsert","resourceBody":{"id":"a","postId":"p","v":1,"v":3}}]"#;
    let headers = [KEY, ("x-ms-cosmos-is-batch-request", "True")];
    let answer = armilla.send("POST", DOCS, &headers, batch).await.expect(200);
    assert!(answer.body.contains(r#""v":3,"#) && !answer.body.contains(r#""v":1"#));
}

/// IDS: what the service takes in ids of items and scripts.
#[tokio::test]
async fn ids_may_hold_slashes_and_scripts_tabs() {
    let armilla = Armilla::with_posts().await;
    for (id, written, encoded) in [("a/b", "a/b", "a%2Fb"), (r"a\b", r"a\\b", "a%5Cb")] {
        create(&armilla, written).await.expect(201);
        let query = r#"{"query":"SELECT * FROM c"}"#;
        let found = armilla.send("POST", DOCS, &[QUERY, KEY], query).await;
        assert_eq!(found.ids("Documents"), [id]);
        let path = format!("{DOCS}/{encoded}");
        let read = armilla.send("GET", &path, &[KEY], "").await.expect(200);
        armilla.send("PUT", &path, &[KEY], &read.body).await.expect(200);
        armilla.send("DELETE", &path, &[KEY], "").await.expect(204);
    }
    let path = format!("{POSTS}/triggers");
    for (number, end) in ["\\t", "\\r", "\\n"].iter().enumerate() {
        let trigger = format!(
            r#"{{"id":"a{end}b{number}","body":"function(){{}}","triggerType":"Pre","triggerOperation":"All"}}"#
        );
        armilla.post(&path, &trigger).await.expect(201);
    }
    armilla.get(&format!("{path}/a%09b0")).await.expect(200);
    armilla.post("/dbs", r#"{"id":"a\tb"}"#).await.refused(400, 0);
}

/// I2, M7, M8, M10: definitions that are echoed, taken or refused.
#[tokio::test]
async fn definitions_are_taken_and_refused_as_by_the_service() {
    let armilla = Armilla::with_posts().await;
    let with = |id: &str, more: &str| {
        format!(r#"{{"id":"{id}","partitionKey":{{"paths":["/k"]}},{more}}}"#)
    };
    for (more, words) in [
        (r#""ttlPropertyPath":"/created""#, "ttlPropertyPath"),
        (
            r#""indexingPolicy":{"spatialIndexes":[{"path":"/a/*","types":[]}]}"#,
            "The spatial data types array cannot be empty",
        ),
        (
            r#""computedProperties":[{"name":"x","query":"SELECT VALUE c.a FROM c"},{"name":"x","query":"SELECT VALUE c.b FROM c"}]"#,
            "Computed property name 'x' cannot be used in multiple definitions.",
        ),
        (
            r#""fullTextPolicy":{"defaultLanguage":"xx-YY"}"#,
            "unsupported language xx-YY. Supported",
        ),
    ] {
        let refused = armilla.post(COLLS, &with("c", more)).await.refused(400, 0);
        assert!(message(&refused).contains(words), "{}", refused.body);
    }
    let unique = r#""uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/k"]}]}"#;
    armilla.post(COLLS, &with("u", unique)).await.expect(201);
    let docs = "/dbs/blog/colls/u/docs";
    armilla.post(docs, r#"{"id":"a","k":1}"#).await.expect(201);
    armilla.post(docs, r#"{"id":"b","k":1}"#).await.refused(409, 3301);
    armilla.post(docs, r#"{"id":"b","k":2}"#).await.expect(201);

    let policy = r#""indexingPolicy":{"indexingMode":"lazy","automatic":false}"#;
    for answer in [
        armilla.post(COLLS, &with("l", policy)).await.expect(201),
        armilla.put("/dbs/blog/colls/l", &with("l", policy)).await.expect(200),
        armilla.get("/dbs/blog/colls/l").await.expect(200),
    ] {
        let echo = answer.json().get("indexingPolicy").unwrap().to_json();
        assert!(echo.starts_with(r#"{"indexingMode":"consistent","automatic":false,"#), "{echo}");
    }
}

/// M29, M31: an offer that is replaced says what it was given, about itself.
#[tokio::test]
async fn an_offer_without_an_increment_has_none() {
    let armilla = Armilla::start();
    let settings =
        r#"{"maxThroughput":5000,"autoUpgradePolicy":{"throughputPolicy":{"incrementPercent":0}}}"#;
    let autoscale = [("x-ms-cosmos-offer-autopilot-settings", settings)];
    armilla.send("POST", "/dbs", &autoscale, r#"{"id":"d"}"#).await.expect(201);
    let offer = armilla.get("/offers").await.expect(200).rows("Offers")[0].clone();
    assert!(offer.to_json().contains(r#""incrementPercent":0"#), "{offer}");
    let path = format!("/offers/{}", offer.get("_rid").unwrap().as_str().unwrap());
    let rid = offer.get("_rid").unwrap().to_json();
    let content = r#"{"offerThroughput":600,"offerAutopilotSettings":{"maxThroughput":6000}}"#;
    let body = |rid: &str| format!(r#"{{"_rid":{rid},"content":{content}}}"#);
    let replaced = armilla.put(&path, &body(&rid)).await.expect(200);
    assert!(replaced.body.contains(r#""maxThroughput":6000"#), "{}", replaced.body);
    assert!(!replaced.body.contains("autoUpgradePolicy"), "{}", replaced.body);
    armilla.put(&path, &body("\"XXXX\"")).await.refused(400, 0);
}
