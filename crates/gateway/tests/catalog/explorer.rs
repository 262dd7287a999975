//! The explorer: its files, and the views that it reads.

use crate::sign_in::{session, sign_in};
use crate::support::{Answer, Armilla};
use armilla_engine::Options;
use armilla_gateway::Settings;
use armilla_gateway::auth::{Access, Authenticator, MasterKeys, WellKnownKey};
use armilla_gateway::cluster::{NodeFacts, NodeRole, Nodes};
use armilla_gateway::explorer::{ExplorerSettings, ExplorerSource};
use armilla_model::Value;
use armilla_storage::MemoryStore;
use std::sync::Arc;

pub(crate) const KEY: &str =
    "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQQ==";

pub(crate) fn with_settings(settings: Settings) -> Armilla {
    let mut keys = MasterKeys::new(WellKnownKey::Nowhere);
    keys.add(KEY, Access::ReadWrite).unwrap();
    let authenticator = Authenticator::new(keys, &[1; 32]);
    let store = Arc::new(MemoryStore::new());
    Armilla::guarded(store, Options::default(), |service| service, authenticator, settings)
}

async fn get(server: &Armilla, path: &str, headers: &[(&str, &str)]) -> Answer {
    server.send_as("", "GET", path, headers, "").await
}

#[tokio::test]
async fn every_file_is_served_with_what_protects_it() {
    let server = Armilla::start();
    for file in armilla_explorer::all() {
        let path = format!("/_explorer/{}", file.path);
        let answer = get(&server, &path, &[]).await.expect(200);
        assert_eq!(answer.header("content-type"), Some(file.media_type), "{path}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
            ("permissions-policy", "camera=(), microphone=(), geolocation=()"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{path}");
        }
        let policy = answer.header("content-security-policy").unwrap().to_owned();
        let nonce = policy.split("'nonce-").nth(1).unwrap().split('\'').next().unwrap().to_owned();
        assert_eq!(
            policy,
            format!(
                "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data:; \
                 connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                 require-trusted-types-for 'script'; trusted-types svelte-trusted-html"
            )
        );
        if file.path == armilla_explorer::INDEX {
            assert!(answer.body.contains(&nonce));
            assert_eq!(answer.header("cache-control"), Some("no-store"));
            continue;
        }
        assert_eq!(answer.bytes, file.bytes, "{path}");
        assert_eq!(answer.header("etag"), Some(file.etag));
        let cached = answer.header("cache-control").unwrap();
        assert_eq!(cached.contains("immutable"), file.immutable, "{path}");
        get(&server, &path, &[("if-none-match", file.etag)]).await.expect(304);
        let head = server.send_as("", "HEAD", &path, &[], "").await.expect(200);
        assert!(head.bytes.is_empty());
        let packed = get(&server, &path, &[("accept-encoding", "br, gzip")]).await.expect(200);
        if packed.header("content-encoding") == Some("gzip") {
            assert!(
                packed.bytes.starts_with(&[0x1f, 0x8b]) && packed.bytes.len() < file.bytes.len()
            );
        }
    }
}

#[tokio::test]
async fn the_index_has_another_nonce_each_time() {
    let server = Armilla::start();
    let first = get(&server, "/_explorer/", &[]).await.expect(200);
    let second = get(&server, "/_explorer/", &[]).await.expect(200);
    assert_ne!(first.body, second.body);
    let moved = get(&server, "/_explorer", &[]).await.expect(308);
    assert_eq!(moved.header("location"), Some("_explorer/"));
    for path in ["/_explorer/none.js", "/_explorer/../Cargo.toml", "/_explorer/%2e%2e/x"] {
        get(&server, path, &[]).await.expect(404);
    }
    server.send_as("", "POST", "/_explorer/", &[], "").await.expect(405);
    get(&server, "/_explorer/", &[("host", "evil.example")]).await;
}

#[tokio::test]
async fn an_explorer_that_is_off_leaves_the_certificate() {
    let explorer = ExplorerSettings { source: ExplorerSource::Off, port: None };
    let certificate_pem = Some("PEM".to_owned());
    let server = with_settings(Settings { explorer, certificate_pem, ..Settings::default() });
    let refused = get(&server, "/_explorer/", &[]).await.expect(404);
    assert!(refused.body.contains("--no-explorer"), "{}", refused.body);
    assert_eq!(get(&server, "/_explorer/emulator.pem", &[]).await.expect(200).body, "PEM");
}

/// Names and paths of any length were repeated for each property below them.
#[tokio::test]
async fn the_shape_of_long_names_is_short() {
    let server = Armilla::with_posts().await;
    let long = "n".repeat(200_000);
    let below: Vec<String> = (0..900).map(|number| format!(r#""{number}":1"#)).collect();
    let body = format!(r#"{{"id":"1","postId":"p","{long}":{{{}}}}}"#, below.join(","));
    let key = [("x-ms-documentdb-partitionkey", r#"["p"]"#)];
    server.send("POST", "/dbs/blog/colls/posts/docs", &key, &body).await.expect(201);
    let path = "/_armilla/shape/dbs/blog/colls/posts";
    let shape = server.send("GET", path, &[], "").await.expect(200);
    assert!(shape.body.len() < 2_000_000, "{}", shape.body.len());
    assert_eq!(number(&shape.json(), "sampled"), 1.0);
}

#[tokio::test]
async fn the_shape_of_nothing_of_deep_and_of_mixed_data() {
    let server = Armilla::with_posts().await;
    let path = "/_armilla/shape/dbs/blog/colls/posts";
    let session =
        session(&sign_in(&server, &[], r#"{"auto":true}"#).await.expect(201).text("token"));
    let shape = async |more: &str| {
        let path = format!("{path}{more}");
        server.send_as(&session, "GET", &path, &[], "").await.expect(200).json()
    };
    let empty = shape("").await;
    assert_eq!(number(&empty, "sampled"), 0.0);
    assert!(empty.get("paths").unwrap().as_array().unwrap().is_empty());
    let deep = format!("{}1{}", r#"{"d":"#.repeat(100), "}".repeat(100));
    let key = [("x-ms-documentdb-partitionkey", r#"["p"]"#)];
    for (id, value) in [("1", deep.as_str()), ("2", r#""text""#), ("3", "7"), ("4", "null")] {
        let body = format!(r#"{{"id":"{id}","postId":"p","mixed":{value}}}"#);
        server.send("POST", "/dbs/blog/colls/posts/docs", &key, &body).await.expect(201);
    }
    for more in ["", "?sample=0", "?sample=99999999999", "?sample=x"] {
        let shape = shape(more).await;
        assert_eq!(
            number(&shape, "sampled"),
            if more == "?sample=0" { 1.0 } else { 4.0 },
            "{more}"
        );
    }
    let whole = shape("").await;
    let paths = whole.get("paths").unwrap().as_array().unwrap();
    let mixed = paths.iter().find(|one| one.get("path").unwrap().as_str() == Some("/mixed"));
    assert_eq!(mixed.unwrap().get("types").unwrap().as_array().unwrap().len(), 4);
    server.get("/_armilla/shape/dbs/blog/colls/none").await.expect(404);
}

fn number(value: &Value, name: &str) -> f64 {
    value.get(name).unwrap().as_f64().unwrap()
}

#[tokio::test]
async fn views_tell_of_containers_requests_and_partitions() {
    let server = Armilla::with_posts().await;
    let key = [("x-ms-documentdb-partitionkey", r#"["u1"]"#)];
    for id in ["a", "b", "c"] {
        let body = format!(r#"{{"id":"{id}","postId":"u1","type":"post","tags":["x"],"n":1.0}}"#);
        server.send("POST", "/dbs/blog/colls/posts/docs", &key, &body).await.expect(201);
    }
    let view = async |path: &str| server.send("GET", path, &[], "").await.expect(200).json();
    let overview = view("/_armilla/overview").await;
    assert_eq!(number(&overview, "items"), 3.0);
    let shape = view("/_armilla/shape/dbs/blog/colls/posts").await;
    assert_eq!(number(&shape, "sampled"), 3.0);
    let parts = view("/_armilla/partitions/dbs/blog/colls/posts").await;
    let hot = parts.get("hotKeys").unwrap().as_array().unwrap();
    assert_eq!(hot[0].get("key").unwrap().as_str(), Some(r#"["u1"]"#));
    assert_eq!(number(&hot[0], "requests"), 3.0);
    let log = view("/_armilla/requests").await;
    let requests = log.get("requests").unwrap().as_array().unwrap();
    let created =
        requests.iter().filter(|one| one.get("operation").unwrap().as_str() == Some("create"));
    assert_eq!(created.count(), 3);
    assert!(!log.to_json().contains("tags"), "bodies of writes are not kept");
    server.send("DELETE", "/_armilla/requests", &[], "").await.expect(204);
    let log = view("/_armilla/requests").await;
    assert!(log.get("requests").unwrap().as_array().unwrap().is_empty());
    let told = server.get("/_armilla/language").await.expect(200);
    let known = [("if-none-match", told.header("etag").unwrap())];
    server.send("GET", "/_armilla/language", &known, "").await.expect(304);
    let language = told.json();
    let functions = language.get("functions").unwrap().as_array().unwrap();
    assert!(functions.len() >= 129);
    let signature = |name: &str| {
        let named = |one: &&Value| one.get("name").unwrap().as_str() == Some(name);
        functions.iter().find(named).unwrap().get("signatures").unwrap().to_json()
    };
    assert_eq!(signature("ABS"), r#"["ABS(a)"]"#);
    assert_eq!(signature("CONTAINS"), r#"["CONTAINS(a, b[, c])"]"#);
    assert_eq!(signature("CONCAT"), r#"["CONCAT(a, b, …)"]"#);
    assert_eq!(signature("RAND"), r#"["RAND()"]"#);
    assert_eq!(number(language.get("limits").unwrap(), "itemBytes"), 2_097_152.0);
    assert!(view("/_armilla/activity").await.get("seconds").unwrap().as_array().is_some());
}

#[tokio::test]
async fn a_query_is_checked_and_not_run() {
    let server = Armilla::with_posts().await;
    let check = async |query: &str| {
        let body = format!(r#"{{"database":"blog","container":"posts","query":"{query}"}}"#);
        server.send("POST", "/_armilla/check", &[], &body).await
    };
    let good = check("SELECT * FROM c WHERE c.a = 1").await.expect(200);
    assert_eq!(good.json().get("ok").unwrap().as_bool(), Some(true));
    assert_eq!(good.charge(), "0");
    let joined = check("SELECT t FROM posts p JOIN t IN p.tags").await.expect(200);
    assert!(joined.body.contains(r#""aliases":["p","t"]"#), "{}", joined.body);
    let bad = check("SELECT * FRM c").await.expect(200);
    assert!(bad.text("error").contains("location"), "{}", bad.body);
    let long = "x".repeat(600 * 1024);
    check(&long).await.expect(400);
}

#[tokio::test]
async fn reports_of_labs_are_kept() {
    let server = Armilla::start();
    let path = "/_armilla/lab/reports/blog";
    server.send("PUT", path, &[], r#"{"rows":[]}"#).await.expect(204);
    assert_eq!(server.send("GET", path, &[], "").await.expect(200).body, r#"{"rows":[]}"#);
    let listed = server.send("GET", "/_armilla/lab/reports", &[], "").await.expect(200);
    assert!(listed.body.contains("blog"), "{}", listed.body);
}

#[tokio::test]
async fn no_browser_keeps_what_only_this_server_has() {
    let server = Armilla::with_posts().await;
    let opened = sign_in(&server, &[], r#"{"auto":true}"#).await.expect(201);
    assert_eq!(opened.header("cache-control"), Some("no-store"));
    for path in [
        "/_armilla/session",
        "/_armilla/overview",
        "/_armilla/language",
        "/_armilla/activity",
        "/_armilla/requests",
        "/_armilla/dials",
        "/_armilla/partitions/dbs/blog/colls/posts",
        "/_armilla/shape/dbs/blog/colls/posts",
        "/_armilla/nothing",
    ] {
        let answer = server.send("GET", path, &[], "").await;
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
    }
    let answer = server.send("GET", "/dbs", &[], "").await.expect(200);
    assert_eq!(answer.header("cache-control"), None);
}

#[tokio::test]
async fn the_price_of_writes_is_predicted_and_nothing_changes() {
    let server = Armilla::with_posts().await;
    let predict = async |indexing: &str| {
        let body = format!(
            r#"{{"id":"posts","partitionKey":{{"paths":["/postId"]}},"indexingPolicy":{indexing}}}"#
        );
        server.send("POST", "/_armilla/prediction/dbs/blog/colls/posts", &[], &body).await
    };
    let nothing = r#"{"includedPaths":[],"excludedPaths":[{"path":"/*"}]}"#;
    let empty = predict(nothing).await.expect(200).json();
    assert_eq!(number(&empty, "sampled"), 0.0);
    let key = [("x-ms-documentdb-partitionkey", r#"["p"]"#)];
    let item = r#"{"id":"a","postId":"p","title":"x","likes":3,"tags":["y"]}"#;
    let created = server.send("POST", "/dbs/blog/colls/posts/docs", &key, item).await.expect(201);
    let told = predict(nothing).await.expect(200).json();
    assert_eq!(number(&told, "sampled"), 1.0);
    assert_eq!(format!("{:.2}", number(&told, "before")), created.charge());
    assert!(number(&told, "after") < number(&told, "before"), "{}", told.to_json());
    let kept = server.send("GET", "/dbs/blog/colls/posts", &[], "").await.expect(200);
    assert!(!kept.body.contains(r#""excludedPaths":[{"path":"/*"}]"#), "{}", kept.body);
    predict(r#"{"includedPaths":3}"#).await.expect(400);
    let elsewhere = "/_armilla/prediction/dbs/blog/colls/none";
    server.send("POST", elsewhere, &[], "{}").await.expect(404);
}

#[tokio::test]
async fn whoever_reads_the_log_too_late_is_told() {
    let server = Armilla::with_posts().await;
    for _ in 0..3 {
        server.send("GET", "/dbs/blog/colls/posts", &[], "").await.expect(200);
    }
    let opened = sign_in(&server, &[], r#"{"auto":true}"#).await.expect(201);
    let session = session(&opened.text("token"));
    let log = server.send_as(&session, "GET", "/_armilla/requests?limit=1", &[], "").await;
    let log = log.expect(200).json();
    assert_eq!(log.get("requests").unwrap().as_array().unwrap().len(), 1);
    assert_eq!(number(&log, "dropped"), number(&log, "newest") - 1.0);
}

/// Requests are counted by container for 64 of them. A server that had more in its life, as any that tests run against, told no
/// figures of new ones: no RU/s, and no refusals on the page of partitions.
#[tokio::test]
async fn containers_that_are_gone_leave_their_place_in_the_figures_to_others() {
    let server = Armilla::start();
    server.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
    let key = [("x-ms-documentdb-partitionkey", r#"["a"]"#)];
    let make = async |name: &str| {
        let body = format!(r#"{{"id":"{name}","partitionKey":{{"paths":["/k"],"kind":"Hash"}}}}"#);
        server.post("/dbs/d/colls", &body).await.expect(201);
        let item = r#"{"id":"i","k":"a"}"#;
        server.send("POST", &format!("/dbs/d/colls/{name}/docs"), &key, item).await.expect(201);
    };
    let is_counted = async |name: &str| {
        let told = server.get(&format!("/_armilla/partitions/dbs/d/colls/{name}")).await;
        told.expect(200).json().as_object().unwrap().get("counted").cloned().unwrap()
    };
    for number in 0..65 {
        make(&format!("c{number}")).await;
    }
    assert_eq!(is_counted("c0").await, true.into());
    assert_eq!(is_counted("c64").await, false.into());
    let overview = server.get("/_armilla/overview").await.expect(200);
    assert_eq!(overview.body.matches(r#""counted":false"#).count(), 1, "{}", overview.body);
    for gone in ["c0", "c1", "c2"] {
        server.delete(&format!("/dbs/d/colls/{gone}")).await.expect(204);
    }
    // One of the same name goes on with the figures of the one before.
    make("c1").await;
    let counters = server.get("/metrics").await.expect(200).body;
    assert!(!counters.contains(r#"container="c0""#), "{counters}");
    assert!(counters.contains(r#"container="c3""#), "{counters}");
    // One place is left: c64 and the new c1 have the others.
    make("late").await;
    assert_eq!(is_counted("late").await, true.into());
    let counters = server.get("/metrics").await.expect(200).body;
    assert!(counters.contains(r#"container="late""#), "{counters}");
}

#[tokio::test]
async fn the_hottest_keys_have_their_sizes_when_they_are_asked_for() {
    let server = Armilla::with_posts().await;
    let key = [("x-ms-documentdb-partitionkey", r#"["hot"]"#)];
    let text = "x".repeat(1_000);
    for number in 0..3 {
        let item = format!(r#"{{"id":"i{number}","postId":"hot","text":"{text}"}}"#);
        server.send("POST", "/dbs/blog/colls/posts/docs", &key, &item).await.expect(201);
    }
    let session =
        session(&sign_in(&server, &[], r#"{"auto":true}"#).await.expect(201).text("token"));
    let hottest = async |path: &str| {
        let told = server.send_as(&session, "GET", path, &[], "").await.expect(200).json();
        let keys = told.as_object().unwrap().get("hotKeys").unwrap().as_array().unwrap().to_vec();
        let hot = keys[0].as_object().unwrap().clone();
        assert_eq!(hot.get("key"), Some(&r#"["hot"]"#.into()));
        hot.get("bytes").cloned().unwrap()
    };
    assert_eq!(hottest("/_armilla/partitions/dbs/blog/colls/posts").await, Value::Null);
    let size = hottest("/_armilla/partitions/dbs/blog/colls/posts?sizes=1").await;
    let size = size.as_f64().unwrap();
    assert!((3_000.0..6_000.0).contains(&size), "{size}");
}

struct TwoNodes;

impl Nodes for TwoNodes {
    fn nodes(&self) -> Vec<NodeFacts> {
        let node = |name: &str, role, rows_behind| NodeFacts {
            name: name.to_owned(),
            address: format!("http://{name}:8081"),
            version: "0.1.0".to_owned(),
            role,
            rows_behind,
        };
        vec![node("a", NodeRole::Owner, 0), node("b", NodeRole::Standby, 7)]
    }
}

#[tokio::test]
async fn one_of_several_nodes_tells_who_owns_the_partitions() {
    let alone = Armilla::with_posts().await;
    let server =
        Armilla::with(Options::default(), |service| service.with_nodes(Arc::new(TwoNodes)));
    let server = server.and_posts().await;
    for path in ["/_armilla/overview", "/_armilla/partitions/dbs/blog/colls/posts"] {
        assert_eq!(alone.get(path).await.expect(200).json().get("nodes"), Some(&Value::Null));
        let told = server.get(path).await.expect(200).json();
        let nodes = told.get("nodes").unwrap().as_array().unwrap();
        let roles: Vec<_> = nodes.iter().map(|one| one.get("role").unwrap().as_str()).collect();
        assert_eq!(roles, [Some("owner"), Some("standby")]);
        assert_eq!((number(&nodes[0], "rowsBehind"), number(&nodes[1], "rowsBehind")), (0.0, 7.0));
    }
}
