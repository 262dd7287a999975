//! What the .NET client does, request by request: start-up, batches, bulk, queries that are resumed, the change
//! feed to its end, many requests at a time.

use super::client::{Client, Frame, Known, MASTER, signature};
use crate::rows::{CREATE, DELETE, Operation, PATCH, READ, REPLACE, UPSERT, outcomes, stream};
use crate::support::Armilla;
use armilla_gateway::auth::WELL_KNOWN_KEY;
use armilla_model::Value;
use std::collections::BTreeSet;

fn text(row: &Value, name: &str) -> String {
    row.get(name).unwrap().as_str().unwrap().to_owned()
}

#[tokio::test]
async fn start_up_of_a_program_that_makes_what_is_missing() {
    let armilla = Armilla::direct();
    let account = armilla.get("/").await.expect(200).json();
    let replicas = account.get("userReplicationPolicy").unwrap().get("maxReplicasetSize").unwrap();
    assert_eq!(replicas.as_i64(), Some(1));
    assert!(account.get("thinClientReadableLocations").is_none());
    // The catalog's addresses, as .NET asks for them.
    let path = "//addresses/?$resolveFor=dbs&$filter=protocol%20eq%20rntbd";
    let authorization = signature(WELL_KNOWN_KEY, "GET", "dbs", "");
    let answer = armilla.send_as(&authorization, "GET", path, &[], "").await.expect(200);
    assert_eq!(answer.json().get("Addresss").unwrap().as_array().unwrap().len(), 2);
    let mut client = Client::connect(&armilla).await;
    // The database is not there; level 0 is on every read of the catalog.
    let read = Frame::new("Database", "Read", MASTER).with("DatabaseName", "blog");
    let read = read.with("ConsistencyLevel", 0).signed("GET", "dbs", "dbs/blog");
    client.call(&read).await.refused(404, 0);
    armilla.post("/dbs", r#"{"id":"blog"}"#).await.expect(201);
    let found = client.call(&read).await.expect(200);
    assert_eq!(text(&found.json(), "id"), "blog");
    let definition = r#"{"id":"posts","partitionKey":{"paths":["/postId"],"version":2}}"#;
    armilla.post("/dbs/blog/colls", definition).await.expect(201);
    let known = Known::read(&armilla, "blog", "posts").await;
    let item = r#"{"id":"a","postId":"p","n":1}"#;
    let created = client.call(&known.create("[\"p\"]", item)).await.expect(201);
    let etag = created.token("ETag").unwrap().to_owned();
    let token = format!("0:{}", created.token("SessionToken").unwrap());
    let read = known.item("Read", "[\"p\"]", "a").with("SessionToken", &*token);
    let found = client.call(&read).await.expect(200);
    assert_eq!(found.token("ETag"), Some(&*etag));
    assert_eq!(found.json().get("n").unwrap().as_i64(), Some(1));
    let known_version = client.call(&read.with("Match", &*etag)).await.expect(304);
    assert!(known_version.payload.is_empty() && known_version.token("ETag") == Some(&*etag));
}

async fn blog() -> (Armilla, Client, Known) {
    let armilla = Armilla::direct().and_posts().await;
    let client = Client::connect(&armilla).await;
    let known = Known::read(&armilla, "blog", "posts").await;
    (armilla, client, known)
}

#[tokio::test]
async fn a_batch_and_one_that_fails() {
    let (_armilla, mut client, known) = blog().await;
    let (item, patch) = (
        br#"{"id":"a","postId":"p","n":1}"#,
        br#"{"operations":[{"op":"incr","path":"/n","value":1}]}"#,
    );
    let on = |kind, id| Operation { kind, id: Some(id), ..Operation::default() };
    let body = stream(&[
        Operation { kind: CREATE, body: Some(item), ..Operation::default() },
        Operation { body: Some(patch), ..on(PATCH, "a") },
        on(READ, "a"),
        Operation { body: Some(item), ..on(REPLACE, "a") },
        Operation {
            kind: UPSERT,
            body: Some(br#"{"id":"b","postId":"p"}"#),
            ..Operation::default()
        },
        on(DELETE, "b"),
    ]);
    let frame = known.frame("Batch", &known.ranges[0].path);
    let frame = frame.with("PartitionKey", "[\"p\"]").with("IsBatchAtomic", 1);
    let frame = frame.with("IsBatchOrdered", 1);
    let answer = client.call(&frame.clone().payload(body)).await.expect(200);
    let rows = outcomes(&answer.payload);
    let statuses: Vec<_> = rows.iter().map(|row| row.status).collect();
    assert_eq!(statuses, [201, 200, 200, 200, 201, 204]);
    let sum: f64 = rows.iter().map(|row| row.charge).sum();
    assert!((sum - answer.charge()).abs() < 0.02, "{sum} and {}", answer.charge());
    let body = stream(&[
        on(DELETE, "a"),
        Operation { kind: CREATE, body: Some(item), ..Operation::default() },
        on(READ, "missing"),
    ]);
    let answer = client.call(&frame.payload(body)).await.expect(207);
    let statuses: Vec<_> = outcomes(&answer.payload).iter().map(|row| row.status).collect();
    assert_eq!(statuses, [424, 424, 404]);
    client.call(&known.item("Read", "[\"p\"]", "a")).await.expect(200);
}

#[tokio::test]
async fn thirty_requests_are_in_flight() {
    let (_armilla, mut client, known) = blog().await;
    let mut waiting = BTreeSet::new();
    for number in 0..30 {
        let item = format!(r#"{{"id":"i{number}","postId":"p{number}"}}"#);
        let create = known.create(&format!("[\"p{number}\"]"), &item);
        waiting.insert(client.send(&create).await);
    }
    while !waiting.is_empty() {
        let answer = client.receive().await.unwrap().expect(201);
        assert!(waiting.remove(&answer.transport_id), "{} was answered twice", answer.transport_id);
    }
    for number in 0..30 {
        let read = known.item("Read", &format!("[\"p{number}\"]"), &format!("i{number}"));
        waiting.insert(client.send(&read).await);
    }
    while !waiting.is_empty() {
        let answer = client.receive().await.unwrap().expect(200);
        assert!(waiting.remove(&answer.transport_id));
    }
}

#[tokio::test]
async fn an_order_is_resumed_page_by_page() {
    let (_armilla, mut client, known) = blog().await;
    for number in 0..25 {
        let item =
            format!(r#"{{"id":"i{number}","postId":"p{}","n":{}}}"#, number % 7, number * 3 % 25);
        client.call(&known.create(&format!("[\"p{}\"]", number % 7), &item)).await.expect(201);
    }
    // As the plan rewrites it; the page behind a position comes with a filter and a continuation.
    let query = r#"{"query":"SELECT c._rid, [{\"item\": c.n}] AS orderByItems, c AS payload FROM c ORDER BY c.n"}"#;
    let frame = known.frame("Query", &known.ranges[0].path).with("PartitionKeyRangeId", "0");
    let frame = frame.with("PageSize", 4).with("PopulateQueryMetrics", 1).payload(query);
    let mut numbers = Vec::new();
    let mut continuation: Option<String> = None;
    for _ in 0..20 {
        let frame = match &continuation {
            Some(token) => frame.clone().with("ContinuationToken", &**token),
            None => frame.clone(),
        };
        let page = client.call(&frame).await.expect(200);
        assert!(page.token("QueryMetrics").is_some());
        let number = |row: &Value| row.get("payload").unwrap().get("n").unwrap().as_i64().unwrap();
        numbers.extend(page.rows("Documents").iter().map(number));
        continuation = page.token("ContinuationToken").map(str::to_owned);
        if continuation.is_none() {
            break;
        }
    }
    assert_eq!(numbers, (0..25).collect::<Vec<i64>>());
}

#[tokio::test]
async fn the_change_feed_is_read_to_its_end() {
    let (_armilla, mut client, known) = blog().await;
    for number in 0..12 {
        let item = format!(r#"{{"id":"i{number}","postId":"p{number}"}}"#);
        client.call(&known.create(&format!("[\"p{number}\"]"), &item)).await.expect(201);
    }
    let feed = known.frame("ReadFeed", &known.ranges[0].path).with("PartitionKeyRangeId", "0");
    let feed = feed.with("A_IM", "Incremental Feed").with("PageSize", 5);
    let (mut found, mut position) = (Vec::new(), None::<String>);
    loop {
        let frame = match &position {
            Some(etag) => feed.clone().with("Match", &**etag),
            None => feed.clone(),
        };
        let page = client.call(&frame).await;
        position = Some(page.token("ETag").expect("a position on every answer").to_owned());
        if page.status == 304 {
            assert_eq!(page.number("ItemCount"), Some(0));
            break;
        }
        found.extend(page.expect(200).rows("Documents").iter().map(|row| text(row, "id")));
    }
    assert_eq!(found, (0..12).map(|number| format!("i{number}")).collect::<Vec<_>>());
    // A part of the range, by effective keys in hexadecimal text.
    let mut epks: Vec<_> = (0..12).map(|number| known.epk(&format!("[\"p{number}\"]"))).collect();
    epks.sort();
    let half = feed.with("StartEpk", super::rntbd::Field::Bytes(Vec::new()));
    let half = half.with("EndEpk", super::rntbd::Field::Bytes(epks[5].clone().into_bytes()));
    let part = half.with("ReadFeedKeyType", 3).with("PageSize", 100);
    assert_eq!(client.call(&part).await.expect(200).rows("Documents").len(), 5);
}

#[tokio::test]
async fn a_procedure_runs_and_logs() {
    let (armilla, mut client, known) = blog().await;
    let procedure = r#"{"id":"s","body":"function(a){console.log('x y');getContext().getResponse().setBody(a+1)}"}"#;
    armilla.post("/dbs/blog/colls/posts/sprocs", procedure).await.expect(201);
    let frame = known.execute("[\"p\"]", "s", "[41]").with("EnableLogging", 1);
    let answer = client.call(&frame).await.expect(200);
    assert_eq!(answer.text(), "42");
    assert_eq!(answer.token("LogResults"), Some("x%20y"));
}

#[tokio::test]
async fn answers_come_as_they_are_ready() {
    let (armilla, mut client, known) = blog().await;
    let slow = r#"{"id":"slow","body":"function(){var end=Date.now()+400;while(Date.now()<end);getContext().getResponse().setBody(1)}"}"#;
    armilla.post("/dbs/blog/colls/posts/sprocs", slow).await.expect(201);
    client.call(&known.create("[\"p\"]", r#"{"id":"a","postId":"p"}"#)).await.expect(201);
    let first = client.send(&known.execute("[\"q\"]", "slow", "[]")).await;
    let second = client.send(&known.item("Read", "[\"p\"]", "a")).await;
    assert_eq!(client.receive().await.unwrap().expect(200).transport_id, second);
    assert_eq!(client.receive().await.unwrap().expect(200).transport_id, first);
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_up_nobody_else() {
    let (armilla, mut client, known) = blog().await;
    let large = format!(r#"{{"id":"a","postId":"p","t":"{}"}}"#, "x".repeat(1_900_000));
    client.call(&known.create("[\"p\"]", &large)).await.expect(201);
    let mut deaf = Client::connect(&armilla).await;
    let read = known.item("Read", "[\"p\"]", "a");
    for _ in 0..64 {
        deaf.send(&read).await;
    }
    for number in 0..20 {
        let item = format!(r#"{{"id":"i{number}","postId":"p"}}"#);
        client.call(&known.create("[\"p\"]", &item)).await.expect(201);
    }
    // And once it reads, everything is there.
    for _ in 0..64 {
        deaf.receive().await.unwrap().expect(200);
    }
}
