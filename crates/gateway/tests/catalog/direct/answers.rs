//! What every answer has, whatever was asked and whatever came of it; and that both wires answer alike.

use super::client::{Client, Frame, Known, MASTER, Response};
use super::rntbd::Field;
use crate::support::{Answer, Armilla, QUERY};
use armilla_engine::Options;

const KEY: (&str, &str) = ("x-ms-documentdb-partitionkey", "[\"p\"]");
const DOCS: &str = "/dbs/blog/colls/posts/docs";

/// Without these, clients take an answer for that of a replica that is behind, and ask again for seconds.
#[track_caller]
fn assert_tokens(response: &Response, is_master: bool) {
    let lsn = response.number("LSN").expect("LSN");
    assert!(lsn >= 1, "an LSN of {lsn}");
    for name in ["LocalLSN", "QuorumAckedLSN", "QuorumAckedLocalLSN", "GlobalCommittedLSN"] {
        assert_eq!(response.number(name), Some(lsn), "{name}");
    }
    assert_eq!(response.number("CurrentReplicaSetSize"), Some(1));
    assert_eq!(response.number("NumberOfReadRegions"), Some(0));
    assert!(response.charge() >= 0.0);
    // Java's metrics have no latency of the server without it.
    let took = response.get("BackendRequestDurationMilliseconds");
    assert!(matches!(took, Some(Field::Double(millis)) if *millis > 0.0), "{took:?}");
    let session = response.token("SessionToken");
    match is_master {
        true => assert!(session.is_none() && response.token("PartitionKeyRangeId").is_none()),
        false => {
            assert!(session.unwrap().starts_with("-1#"), "{session:?}");
            assert!(response.token("PartitionKeyRangeId").is_some());
        }
    }
    if response.status >= 400 {
        assert!(response.number("SubStatus").is_some());
        assert!(response.text().starts_with("{\"code\":"), "{}", response.text());
    }
}

#[tokio::test]
async fn every_answer_has_its_position() {
    let armilla = Armilla::direct().and_posts().await;
    let mut client = Client::connect(&armilla).await;
    let known = Known::read(&armilla, "blog", "posts").await;
    let range = &known.ranges[0];
    let key = "[\"p\"]";
    let stale = "\"00000000-0000-0000-0000-000000000000\"";
    let query = known.frame("Query", &range.path).with("PartitionKeyRangeId", "0");
    let feed = known.frame("ReadFeed", &range.path).with("PartitionKeyRangeId", "0");
    let create = known.create(key, r#"{"id":"a","postId":"p"}"#);
    for (frame, status) in [
        (known.item("Read", key, "a"), 404),
        (known.barrier(range), 200),
        (feed.clone().with("A_IM", "Incremental Feed"), 304),
        (create.clone(), 201),
        (create.clone(), 409),
        (known.item("Read", key, "a"), 200),
        (known.item("Delete", key, "a").with("Match", stale), 412),
        (known.create(key, "no JSON"), 400),
        (query.clone().payload(r#"{"query":"SELECT * FROM c"}"#), 200),
        (query.payload(r#"{"query":"SELEKT"}"#), 400),
        (feed, 200),
        (create.clone().without("AuthorizationToken"), 401),
        (create.with("AuthorizationToken", "nonsense"), 401),
        (known.item("Read", key, "a").with("SessionToken", "0:-1#99999"), 404),
        (known.frame("Create", &range.path).with("PartitionKey", "[1").payload("{}"), 400),
        (known.item("Delete", key, "a"), 204),
        (Frame::new("Document", "Truncate", &range.path), 400),
    ] {
        let response = client.call(&frame).await;
        assert_eq!(response.status, status, "{frame:?}: {}", response.text());
        assert_tokens(&response, false);
        if status == 200 && frame.bytes(1)[4..8] == [2, 0, 17, 0] {
            assert!(response.payload.is_empty(), "a barrier has no payload");
        }
    }
    for (frame, status) in [
        (
            Frame::new("Database", "Read", MASTER)
                .with("DatabaseName", "blog")
                .signed("GET", "dbs", "dbs/blog"),
            200,
        ),
        (
            Frame::new("Database", "Read", MASTER)
                .with("DatabaseName", "x")
                .signed("GET", "dbs", "dbs/x"),
            404,
        ),
        (
            Frame::new("Database", "HeadFeed", MASTER)
                .with("TargetLsn", 1)
                .signed("HEAD", "dbs", ""),
            200,
        ),
        (Frame::new("Database", "ReadFeed", MASTER).signed("GET", "dbs", ""), 200),
        (
            Frame::new("Collection", "ReadFeed", MASTER)
                .with("DatabaseName", "blog")
                .signed("GET", "colls", "dbs/blog"),
            200,
        ),
        (Frame::new("Database", "Read", MASTER).with("DatabaseName", "blog"), 401),
    ] {
        let response = client.call(&frame.with("ConsistencyLevel", 0)).await;
        assert_eq!(response.status, status, "{}", response.text());
        assert_tokens(&response, true);
    }
}

/// Status, body, etag and charge, as both wires tell them; what names a version or an activity aside.
#[track_caller]
fn assert_alike(direct: &Response, http: &Answer) {
    assert_eq!(direct.status, u32::from(http.status), "{} {}", direct.text(), http.body);
    assert_eq!(format!("{}", direct.charge()), http.charge());
    assert_eq!(direct.token("ETag").is_some(), http.header("etag").is_some());
    assert_eq!(direct.number("LSN").map(|lsn| lsn.to_string()).as_deref(), http.header("lsn"));
    let bare = |text: &str| {
        let value = armilla_model::json::parse(text.as_bytes()).ok()?;
        let members = ["id", "postId", "n", "code", "_count"];
        Some(members.map(|name| value.get(name).cloned()))
    };
    assert_eq!(bare(&direct.text()), bare(&http.body));
}

#[tokio::test]
async fn both_wires_answer_alike() {
    let (one, other) = (Armilla::direct().and_posts().await, Armilla::direct().and_posts().await);
    let mut client = Client::connect(&one).await;
    let known = Known::read(&one, "blog", "posts").await;
    let key = "[\"p\"]";
    let item = r#"{"id":"a","postId":"p","n":1}"#;
    let changed = r#"{"id":"a","postId":"p","n":2}"#;
    let patch = r#"{"operations":[{"op":"incr","path":"/n","value":5}]}"#;
    let query = r#"{"query":"SELECT * FROM c WHERE c.n = 7"}"#;
    let path = format!("{DOCS}/a");
    let upsert = [KEY, crate::support::UPSERT];
    let of_key = known.frame("Query", &known.ranges[0].path).with("PartitionKey", key);
    let pages = known.frame("ReadFeed", &known.ranges[0].path).with("PartitionKey", key);
    let upserted = known.frame("Upsert", &known.ranges[0].path).with("PartitionKey", key);
    let quiet = known.item("Replace", key, "a").with("ReturnPreference", 1);
    for (frame, method, path, headers, body) in [
        (known.create(key, item), "POST", DOCS, &[KEY][..], item),
        (known.create(key, item), "POST", DOCS, &[KEY], item),
        (upserted.payload(changed), "POST", DOCS, &upsert, changed),
        (known.item("Read", key, "a"), "GET", &path, &[KEY], ""),
        (quiet.payload(changed), "PUT", &path, &[KEY, ("prefer", "return=minimal")], changed),
        (known.item("Patch", key, "a").payload(patch), "PATCH", &path, &[KEY], patch),
        (of_key.payload(query), "POST", DOCS, &[KEY, QUERY], query),
        (pages, "GET", DOCS, &[KEY], ""),
        (known.item("Delete", key, "a"), "DELETE", &path, &[KEY], ""),
        (known.item("Delete", key, "a"), "DELETE", &path, &[KEY], ""),
    ] {
        let http = other.send(method, path, headers, body).await;
        assert_alike(&client.call(&frame).await, &http);
    }
}

#[tokio::test]
async fn catalog_resources_are_served_by_names_and_by_rid() {
    let armilla = Armilla::direct().and_posts().await;
    let mut client = Client::connect(&armilla).await;
    armilla.post("/dbs/blog/users", r#"{"id":"mary"}"#).await.expect(201);
    let permission = r#"{"id":"p","permissionMode":"Read","resource":"dbs/blog/colls/posts"}"#;
    armilla.post("/dbs/blog/users/mary/permissions", permission).await.expect(201);
    let on = |resource, operation| {
        Frame::new(resource, operation, MASTER)
            .with("DatabaseName", "blog")
            .with("ConsistencyLevel", 0)
    };
    let (user, link) = ("dbs/blog/users/mary", "dbs/blog/users/mary/permissions/p");
    let read = on("User", "Read").with("UserName", "mary").signed("GET", "users", user);
    let rid = client
        .call(&read)
        .await
        .expect(200)
        .json()
        .get("_rid")
        .unwrap()
        .as_str()
        .unwrap()
        .to_owned();
    let of_mary = |operation| on("Permission", operation).with("UserName", "mary");
    let named = |operation, method| {
        of_mary(operation).with("PermissionName", "p").signed(method, "permissions", link)
    };
    client.call(&named("Read", "GET")).await.expect(200);
    let list = of_mary("ReadFeed").signed("GET", "permissions", user);
    assert_eq!(client.call(&list).await.expect(200).rows("Permissions").len(), 1);
    let query = of_mary("Query")
        .signed("POST", "permissions", user)
        .payload(r#"{"query":"SELECT * FROM c"}"#);
    assert_eq!(client.call(&query).await.expect(200).rows("Permissions").len(), 1);
    client.call(&named("Delete", "DELETE")).await.expect(204);
    // Java replaces a user by its _rid.
    let bytes = armilla_model::rid::decode(&rid).unwrap();
    let replace =
        Frame::new("User", "Replace", MASTER).with("ResourceId", super::rntbd::Field::Bytes(bytes));
    let replace =
        replace.signed("PUT", "users", &rid.to_ascii_lowercase()).payload(r#"{"id":"marie"}"#);
    client.call(&replace).await.expect(200);
    client.call(&read).await.refused(404, 0);
}

#[tokio::test]
async fn throttling_says_when_to_come_back() {
    let dials = armilla_engine::dials::Dials {
        throttle: armilla_engine::dials::Throttling::On,
        ..Default::default()
    };
    let options = Options { dials, ..Options::default() };
    let armilla = Armilla::direct_with(options, armilla_gateway::direct::DirectMode::SamePort);
    let armilla = armilla.and_posts().await;
    let mut client = Client::connect(&armilla).await;
    let known = Known::read(&armilla, "blog", "posts").await;
    armilla.clock.advance(std::time::Duration::from_secs(1));
    for number in 0..200 {
        let item = format!(r#"{{"id":"i{number}","postId":"p"}}"#);
        let answer = client.call(&known.create("[\"p\"]", &item)).await;
        if answer.status == 429 {
            assert!(answer.number("RetryAfterMilliseconds").unwrap() >= 1);
            assert_tokens(&answer.refused(429, 3200), false);
            return;
        }
    }
    panic!("400 units a second took 200 creates");
}
