//! Tokens that are handed out: resource tokens hold for what they name, continuation tokens for what they
//! continue.

use crate::support::{Answer, Armilla, QUERY, encoded, signed_with};
use armilla_engine::Options;
use armilla_gateway::Settings;
use armilla_gateway::auth::{Access, Authenticator, MasterKeys, WELL_KNOWN_KEY, WellKnownKey};
use armilla_model::Value;

const DOCS: &str = "/dbs/blog/colls/posts/docs";
const PERMISSIONS: &str = "/dbs/blog/users/mary/permissions";

/// A header that names a partition key.
fn key(text: &str) -> (&'static str, String) {
    ("x-ms-documentdb-partitionkey", format!("[\"{text}\"]"))
}

async fn put(armilla: &Armilla, id: &str, post: &str) {
    let body = format!(r#"{{"id":"{id}","postId":"{post}"}}"#);
    armilla.send("POST", DOCS, &[("x-ms-documentdb-is-upsert", "true")], &body).await;
}

/// A blog with posts t1 and t2, and a token for everything in t1.
async fn with_token() -> (Armilla, String) {
    let armilla = Armilla::with_posts().await;
    armilla.post("/dbs/blog/users", r#"{"id":"mary"}"#).await.expect(201);
    put(&armilla, "a", "t1").await;
    put(&armilla, "b", "t2").await;
    let body = r#"{"id":"p","permissionMode":"All","resource":"dbs/blog/colls/posts","resourcePartitionKey":["t1"]}"#;
    let token = armilla.post(PERMISSIONS, body).await.expect(201).text("_token");
    (armilla, encoded(&token))
}

fn statuses(answer: &Answer) -> Vec<i64> {
    let rows = answer.json();
    let status = |row: &Value| row.get("statusCode").unwrap().as_i64().unwrap();
    rows.as_array().unwrap().iter().map(status).collect()
}

#[tokio::test]
async fn a_token_for_one_key_is_held_to_it_in_bulk() {
    let (armilla, token) = with_token().await;
    let bulk = [
        ("x-ms-cosmos-is-batch-request", "true"),
        ("x-ms-cosmos-batch-continue-on-error", "true"),
        ("x-ms-documentdb-partitionkeyrangeid", "0"),
    ];
    let operations = |post: &str| {
        let key = format!(r#""partitionKey":"[\"{post}\"]""#);
        let body = format!(r#"{{"id":"b","postId":"{post}"}}"#);
        [
            format!(r#"{{"operationType":"Read","id":"b",{key}}}"#),
            format!(r#"{{"operationType":"Upsert",{key},"resourceBody":{body}}}"#),
            format!(r#"{{"operationType":"Create",{key},"resourceBody":{body}}}"#),
            format!(r#"{{"operationType":"Replace","id":"b",{key},"resourceBody":{body}}}"#),
            format!(
                r#"{{"operationType":"Patch","id":"b",{key},"resourceBody":{{"operations":[{{"op":"set","path":"/x","value":1}}]}}}}"#
            ),
            format!(r#"{{"operationType":"Delete","id":"b",{key}}}"#),
        ]
    };
    // The header does not matter in bulk, whatever it says.
    for header in [None, Some(("x-ms-documentdb-partitionkey", "[\"t1\"]"))] {
        let headers: Vec<_> = bulk.into_iter().chain(header).collect();
        let body = format!("[{}]", operations("t2").join(","));
        let answer = armilla.send_as(&token, "POST", DOCS, &headers, &body).await;
        assert_eq!(statuses(&answer), [403; 6], "{}", answer.body);
    }
    let t2 = [("x-ms-documentdb-partitionkey", "[\"t2\"]")];
    armilla.send("GET", &format!("{DOCS}/b"), &t2, "").await.expect(200);
    let [_, upsert, _, replace, patch, delete] = operations("t1");
    let mixed = format!("[{upsert},{replace},{patch},{},{delete}]", operations("t2")[0]);
    let answer = armilla.send_as(&token, "POST", DOCS, &bulk, &mixed).await;
    assert_eq!(statuses(&answer), [201, 200, 200, 403, 204], "{}", answer.body);
}

#[tokio::test]
async fn a_token_for_one_key_reaches_no_other_through_bodies_and_bounds() {
    let (armilla, token) = with_token().await;
    let (name, t1) = key("t1");
    let here = [(name, t1.as_str())];
    let send = |method: &'static str,
                path: String,
                more: Vec<(&'static str, &'static str)>,
                body: &'static str| {
        let headers: Vec<_> = here.iter().copied().chain(more).collect();
        let (armilla, token) = (&armilla, token.as_str());
        async move { armilla.send_as(token, method, &path, &headers, body).await }
    };
    let item = format!("{DOCS}/a");
    send("POST", DOCS.into(), vec![], r#"{"id":"x","postId":"t2"}"#).await.refused(400, 1001);
    send("PUT", item.clone(), vec![], r#"{"id":"a","postId":"t2"}"#).await.refused(400, 1001);
    let patch = r#"{"operations":[{"op":"set","path":"/postId","value":"t2"}]}"#;
    send("PATCH", item, vec![], patch).await.expect(400);
    let batch =
        vec![("x-ms-cosmos-is-batch-request", "true"), ("x-ms-cosmos-batch-atomic", "true")];
    let foreign = r#"[{"operationType":"Create","partitionKey":"[\"t2\"]","resourceBody":{"id":"x","postId":"t2"}}]"#;
    let answer = send("POST", DOCS.into(), batch, foreign).await;
    assert_eq!(statuses(&answer), [400], "{}", answer.body);
    // Bounds and ranges beside the key change nothing: the key decides.
    let wide = vec![
        QUERY,
        ("x-ms-start-epk", "00"),
        ("x-ms-end-epk", "FF"),
        ("x-ms-documentdb-partitionkeyrangeid", "0"),
        ("x-ms-documentdb-query-enablecrosspartition", "true"),
    ];
    let rows = send("POST", DOCS.into(), wide, r#"{"query":"SELECT * FROM c"}"#).await;
    assert_eq!(rows.expect(200).ids("Documents"), ["a"]);
    let feed = vec![("a-im", "Incremental feed"), ("x-ms-documentdb-partitionkeyrangeid", "0")];
    assert_eq!(send("GET", DOCS.into(), feed, "").await.expect(200).ids("Documents"), ["a"]);
    let listed = send("GET", DOCS.into(), vec![("x-ms-documentdb-partitionkeyrangeid", "0")], "");
    assert_eq!(listed.await.expect(200).ids("Documents"), ["a"]);
    let for_each = vec![("x-armilla-for-each-partition", "true")];
    let procedure = r#"{"id":"s","body":"function(){}"}"#;
    armilla.post("/dbs/blog/colls/posts/sprocs", procedure).await.expect(201);
    let task = r#"{"query":"SELECT * FROM c"}"#;
    send("POST", "/dbs/blog/colls/posts/sprocs/s".into(), for_each, task).await.refused(403, 0);
    let all = armilla.get(DOCS).await.expect(200);
    assert_eq!(all.ids("Documents").len(), 2, "nothing was written");
}

#[tokio::test]
async fn permissions_that_would_open_more_than_they_name_are_refused() {
    let (armilla, _) = with_token().await;
    for resource in ["dbs", "dbs/blog", "dbs/blog/users/mary", "dbs/blog/colls"] {
        let body = format!(r#"{{"id":"w","permissionMode":"All","resource":"{resource}"}}"#);
        armilla.post(PERMISSIONS, &body).await.refused(400, 0);
    }
    let body = r#"{"id":"w","permissionMode":"All","resource":"dbs/blog/colls/posts","resourcePartitionKey":[]}"#;
    armilla.post(PERMISSIONS, body).await.refused(400, 0);
    // `posts` has keys of version 1, which share a partition when their first 100 characters agree.
    let body = |length: usize| {
        let key = "k".repeat(length);
        format!(
            r#"{{"id":"w","permissionMode":"All","resource":"dbs/blog/colls/posts","resourcePartitionKey":["{key}"]}}"#
        )
    };
    armilla.post(PERMISSIONS, &body(100)).await.refused(400, 0);
    armilla.post(PERMISSIONS, &body(99)).await.expect(201);
}

#[tokio::test]
async fn a_token_does_not_open_a_later_container_of_the_same_name() {
    let (armilla, _) = with_token().await;
    let body = r#"{"id":"all","permissionMode":"All","resource":"dbs/blog/colls/posts"}"#;
    let read = || armilla.get("/dbs/blog/users/mary/permissions/all");
    let token = encoded(&armilla.post(PERMISSIONS, body).await.expect(201).text("_token"));
    let path = "/dbs/blog/colls/posts";
    armilla.send_as(&token, "GET", path, &[], "").await.expect(200);
    armilla.delete(path).await.expect(204);
    armilla.send_as(&token, "GET", path, &[], "").await.refused(403, 0);
    let gone = encoded(&read().await.expect(200).text("_token"));
    let definition = r#"{"id":"posts","partitionKey":{"paths":["/postId"]}}"#;
    armilla.post("/dbs/blog/colls", definition).await.expect(201);
    armilla.send_as(&token, "GET", path, &[], "").await.refused(403, 0);
    armilla.send_as(&gone, "GET", path, &[], "").await.refused(403, 0);
    let fresh = encoded(&read().await.expect(200).text("_token"));
    armilla.send_as(&fresh, "GET", path, &[], "").await.expect(200);
}

#[tokio::test]
async fn a_token_outlives_the_rename_of_its_user_but_not_a_change_of_its_permission() {
    let (armilla, token) = with_token().await;
    let read = || armilla.send_as(&token, "GET", "/dbs/blog/colls/posts", &[], "");
    read().await.expect(200);
    armilla.put("/dbs/blog/users/mary", r#"{"id":"ann"}"#).await.expect(200);
    read().await.expect(200);
    let body = r#"{"id":"p","permissionMode":"Read","resource":"dbs/blog/colls/posts","resourcePartitionKey":["t1"]}"#;
    armilla.put("/dbs/blog/users/ann/permissions/p", body).await.expect(200);
    read().await.refused(403, 0);
    armilla.send_as(&token, "GET", "/", &[], "").await.refused(403, 0);
}

/// Two containers of three items each under the keys k1 and k2.
async fn with_pages() -> Armilla {
    let armilla = Armilla::start();
    armilla.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
    for container in ["a", "b"] {
        let body =
            format!(r#"{{"id":"{container}","partitionKey":{{"paths":["/pk"],"version":2}}}}"#);
        armilla.post("/dbs/d/colls", &body).await.expect(201);
        for (id, pk) in
            [("1", "k1"), ("2", "k1"), ("3", "k1"), ("4", "k2"), ("5", "k2"), ("6", "k2")]
        {
            let body = format!(r#"{{"id":"{id}","pk":"{pk}"}}"#);
            armilla.post(&format!("/dbs/d/colls/{container}/docs"), &body).await.expect(201);
        }
    }
    armilla
}

#[tokio::test]
async fn continuation_tokens_belong_to_their_container_query_and_key() {
    let armilla = with_pages().await;
    let page = |container: &str,
                list: bool,
                key: Option<&'static str>,
                token: Option<&str>,
                size: &str,
                text: &str| {
        let path = format!("/dbs/d/colls/{container}/docs");
        let body = if list { String::new() } else { format!(r#"{{"query":"{text}"}}"#) };
        let (token, size) = (token.unwrap_or_default().to_owned(), size.to_owned());
        let armilla = &armilla;
        async move {
            let mut headers = vec![
                ("x-ms-continuation", token.as_str()),
                ("x-ms-max-item-count", size.as_str()),
                ("x-ms-documentdb-query-enablecrosspartition", "true"),
            ];
            headers.extend(key.map(|key| ("x-ms-documentdb-partitionkey", key)));
            if !list {
                headers.push(QUERY);
            }
            armilla.send(if list { "GET" } else { "POST" }, &path, &headers, &body).await
        }
    };
    const K1: Option<&str> = Some("[\"k1\"]");
    const K2: Option<&str> = Some("[\"k2\"]");
    let text = "SELECT * FROM c";
    for list in [false, true] {
        for key in [None, K1] {
            let first = page("a", list, key, None, "1", text).await.expect(200);
            let token = first.header("x-ms-continuation").unwrap().to_owned();
            // Page sizes may change; everything else is part of the token.
            let rest = page("a", list, key, Some(&token), "9", text).await.expect(200);
            let left = if key.is_some() { 2 } else { 5 };
            assert_eq!(rest.ids("Documents").len(), left, "{}", rest.body);
            page("b", list, key, Some(&token), "9", text).await.refused(400, 0);
            page("a", list, K2, Some(&token), "9", text).await.refused(400, 0);
            let other_key = if key.is_none() { K1 } else { None };
            page("a", list, other_key, Some(&token), "9", text).await.refused(400, 0);
            page("a", !list, key, Some(&token), "9", text).await.refused(400, 0);
            if !list {
                let other = "SELECT * FROM c WHERE true";
                page("a", list, key, Some(&token), "9", other).await.refused(400, 0);
            }
            // Every character of the token counts.
            for at in (0..token.len()).filter(|at| token.as_bytes()[*at].is_ascii_alphanumeric()) {
                let mut changed = token.clone().into_bytes();
                changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
                let changed = String::from_utf8(changed).unwrap();
                let in_frame = token.starts_with('{') && page_frame(&token, at);
                let answer = page("a", list, key, Some(&changed), "9", text).await;
                assert!(answer.status == 400 || in_frame, "{changed}: {}", answer.status);
            }
        }
    }
}

/// True for the part of a gateway's token around the engine's: its member names and the range, which
/// is the whole container in every token and is not read.
fn page_frame(token: &str, at: usize) -> bool {
    let end = token.find("\",\"range\"").unwrap();
    at >= end
}

#[tokio::test]
async fn lists_of_resources_have_tokens_of_their_own() {
    let armilla = with_pages().await;
    let one = [("x-ms-max-item-count", "1")];
    let token = armilla.send("GET", "/dbs/d/colls", &one, "").await.expect(200);
    let token = token.header("x-ms-continuation").unwrap().to_owned();
    let with = [("x-ms-max-item-count", "1"), ("x-ms-continuation", token.as_str())];
    let next = armilla.send("GET", "/dbs/d/colls", &with, "").await.expect(200);
    assert_eq!(next.ids("DocumentCollections"), ["b"]);
    armilla.send("GET", "/dbs", &with, "").await.refused(400, 0);
    armilla.post("/dbs", r#"{"id":"e"}"#).await.expect(201);
    armilla.send("GET", "/dbs/e/colls", &with, "").await.refused(400, 0);
    let forged = [("x-ms-continuation", "after:0")];
    armilla.send("GET", "/dbs/d/colls", &forged, "").await.refused(400, 0);
}

#[tokio::test]
async fn positions_in_the_change_feed_of_several_ranges_are_sealed_and_lsns_are_plain() {
    let armilla =
        Armilla::with(Options { partitions: Some(2), ..Options::default() }, |service| service);
    armilla.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
    for container in ["a", "b"] {
        let body =
            format!(r#"{{"id":"{container}","partitionKey":{{"paths":["/pk"],"version":2}}}}"#);
        armilla.post("/dbs/d/colls", &body).await.expect(201);
        for number in 0..8 {
            let body = format!(r#"{{"id":"{number}","pk":"{number}"}}"#);
            armilla.post(&format!("/dbs/d/colls/{container}/docs"), &body).await.expect(201);
        }
    }
    let feed = |container: &str, etag: &str, range: Option<&'static str>| {
        let (path, etag) = (format!("/dbs/d/colls/{container}/docs"), etag.to_owned());
        let armilla = &armilla;
        async move {
            let mut headers = vec![("a-im", "Incremental feed"), ("x-ms-max-item-count", "3")];
            if !etag.is_empty() {
                headers.push(("if-none-match", etag.as_str()));
            }
            headers.extend(range.map(|range| ("x-ms-documentdb-partitionkeyrangeid", range)));
            armilla.send("GET", &path, &headers, "").await
        }
    };
    let etag = feed("a", "", None).await.expect(200).header("etag").unwrap().to_owned();
    feed("a", &etag, None).await.expect(200);
    feed("b", &etag, None).await.refused(400, 0);
    feed("a", &etag.replacen(':', ":1", 1), None).await.refused(400, 0);
    feed("a", "\":7,1FFFFFFFFFFFFFFF:7\"", None).await.refused(400, 0);
    let etag = feed("a", "", Some("0")).await.expect(200).header("etag").unwrap().to_owned();
    etag.trim_matches('"').parse::<u64>().expect("clients read it");
    feed("a", "\"1\"", Some("0")).await;
}

#[tokio::test]
async fn partition_keys_beyond_the_limit_are_refused() {
    let armilla = Armilla::start();
    armilla.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
    let length_max = 2048;
    for version in [1, 2] {
        let definition = format!(
            r#"{{"id":"v{version}","partitionKey":{{"paths":["/pk"],"version":{version}}}}}"#
        );
        armilla.post("/dbs/d/colls", &definition).await.expect(201);
        let docs = format!("/dbs/d/colls/v{version}/docs");
        for (length, status) in [(length_max, 201), (length_max + 1, 400)] {
            let value = "k".repeat(length);
            let header = format!("[\"{value}\"]");
            let header = [("x-ms-documentdb-partitionkey", header.as_str())];
            let body = format!(r#"{{"id":"1","pk":"{value}"}}"#);
            let created = armilla.send("POST", &docs, &header, &body).await.expect(status);
            assert!(status == 201 || created.body.contains(&length_max.to_string()));
            let without = format!(r#"{{"id":"2","pk":"{value}"}}"#);
            armilla.post(&docs, &without).await.expect(status);
            let read = if status == 201 { 200 } else { 400 };
            armilla.send("GET", &format!("{docs}/1"), &header, "").await.expect(read);
            armilla.send("GET", &docs, &header, "").await.expect(read);
            let query = [header[0], QUERY];
            armilla
                .send("POST", &docs, &query, r#"{"query":"SELECT * FROM c"}"#)
                .await
                .expect(read);
        }
    }
}

#[tokio::test]
async fn metrics_are_read_with_a_key_that_is_shown() {
    let own = "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=";
    let mut keys = MasterKeys::new(WellKnownKey::Nowhere);
    keys.add(own, Access::ReadWrite).unwrap();
    let authenticator = Authenticator::new(keys, &[1; 32]);
    let armilla = Armilla::guarded(
        std::sync::Arc::new(armilla_storage::MemoryStore::new()),
        Options::default(),
        |service| service,
        authenticator,
        Settings::default(),
    );
    let metrics = |authorization: String| {
        let armilla = &armilla;
        async move { armilla.send_as(&authorization, "GET", "/metrics", &[], "").await }
    };
    metrics(String::new()).await.refused(401, 0);
    metrics(format!("Bearer {own}")).await.expect(200);
    metrics(format!("Bearer {WELL_KNOWN_KEY}")).await.refused(401, 0);
    metrics(signed_with(own, "GET", "/metrics")).await.expect(200);
    // A shown key is good for metrics alone.
    armilla.send_as(&format!("Bearer {own}"), "GET", "/dbs", &[], "").await.refused(401, 0);
}

#[tokio::test]
async fn pages_of_other_sites_learn_nothing() {
    let armilla = Armilla::with_posts().await;
    let allowed = |answer: &Answer| answer.header("access-control-allow-origin").map(str::to_owned);
    for (origin, expected) in [
        ("https://evil.example", None),
        ("null", None),
        ("http://localhost:3000", Some("http://localhost:3000")),
        ("http://localhost:8081", Some("http://localhost:8081")),
    ] {
        let asks = [
            ("origin", origin),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "authorization"),
        ];
        let preflight = armilla.send_as("", "OPTIONS", "/dbs", &asks, "").await.expect(204);
        assert_eq!(allowed(&preflight).as_deref(), expected, "{origin}");
        let read = armilla.send("GET", "/dbs", &[("origin", origin)], "").await;
        assert_eq!(allowed(&read).as_deref(), expected, "{origin}");
        assert_eq!(read.status, if expected.is_some() { 200 } else { 401 });
        if expected.is_none() {
            assert!(read.body.contains(origin), "the refusal says why: {}", read.body);
        }
    }
}
