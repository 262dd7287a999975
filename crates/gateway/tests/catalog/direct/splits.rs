//! Paths that lead nowhere any more, keys that live elsewhere, and bulk while a range is split.

use super::client::{Client, Frame, Known};
use crate::rows::{CREATE, Operation, outcomes, stream};
use crate::support::Armilla;
use armilla_engine::Options;
use armilla_engine::dials::{Dials, Throttling};
use armilla_gateway::direct::DirectMode;
use std::time::Duration;

async fn scale(armilla: &Armilla, units: u32) {
    let offer = armilla.get("/offers").await.expect(200).rows("Offers")[0].clone();
    let link = offer.get("_self").unwrap().as_str().unwrap().trim_end_matches('/').to_owned();
    let known = offer.get("content").unwrap().get("offerThroughput").unwrap().to_json();
    let (old, new) =
        (format!("\"offerThroughput\":{known}"), format!("\"offerThroughput\":{units}"));
    armilla.put(&format!("/{link}"), &offer.to_json().replace(&old, &new)).await.expect(200);
    armilla.account.split_partitions();
}

async fn blog() -> (Armilla, Client, Known) {
    let armilla = Armilla::direct().and_posts().await;
    let client = Client::connect(&armilla).await;
    let known = Known::read(&armilla, "blog", "posts").await;
    (armilla, client, known)
}

#[tokio::test]
async fn a_range_that_was_split_sends_everything_on_and_does_nothing() {
    let (armilla, mut client, known) = blog().await;
    let key = "[\"p\"]";
    client.call(&known.create(key, r#"{"id":"a","postId":"p"}"#)).await.expect(201);
    scale(&armilla, 25_000).await;
    let old = &known.ranges[0];
    let feed = known.frame("ReadFeed", &old.path).with("PartitionKeyRangeId", "0");
    let query = known.frame("Query", &old.path).payload(r#"{"query":"SELECT * FROM c"}"#);
    let batch = stream(&[Operation {
        kind: CREATE,
        body: Some(br#"{"id":"c","postId":"p"}"#),
        ..Operation::default()
    }]);
    let batch = known
        .frame("Batch", &old.path)
        .with("PartitionKey", key)
        .with("IsBatchAtomic", 1)
        .payload(batch);
    for frame in [
        known.item("Read", key, "a"),
        known.create(key, r#"{"id":"b","postId":"p"}"#),
        known.item("Delete", key, "a"),
        feed.clone(),
        feed.with("A_IM", "Incremental Feed"),
        query.clone().with("PartitionKeyRangeId", "0"),
        query.with("PartitionKey", key),
        batch,
        known.barrier(old),
    ] {
        let answer = client.call(&frame).await.refused(410, 1007);
        assert!(answer.token("SessionToken").is_some() && answer.number("LSN") >= Some(1));
    }
    let fresh = Known::read(&armilla, "blog", "posts").await;
    assert_eq!(fresh.ranges.len(), 3);
    client.call(&fresh.item("Read", key, "a")).await.expect(200);
    client.call(&fresh.item("Read", key, "b")).await.refused(404, 0);
    // A session goes on with the parent's token.
    client.call(&fresh.item("Read", key, "a").with("SessionToken", "0:-1#1")).await.expect(200);
}

#[tokio::test]
async fn a_key_of_another_range_is_not_here() {
    let (armilla, mut client, known) = blog().await;
    for number in 0..9 {
        let item = format!(r#"{{"id":"i","postId":"p{number}"}}"#);
        client.call(&known.create(&format!("[\"p{number}\"]"), &item)).await.expect(201);
    }
    scale(&armilla, 25_000).await;
    let known = Known::read(&armilla, "blog", "posts").await;
    let key = "[\"p1\"]";
    let right = known.range_of(key).path.clone();
    let mut found = 0;
    for range in &known.ranges {
        let query = known.frame("Query", &range.path).with("PartitionKey", key);
        let page = client.call(&query.payload(r#"{"query":"SELECT * FROM c"}"#)).await.expect(200);
        found += page.rows("Documents").len();
        let feed = known.frame("ReadFeed", &range.path).with("PartitionKey", key);
        let page = client.call(&feed.clone()).await.expect(200);
        assert_eq!(page.rows("Documents").len(), usize::from(range.path == right));
        let changes = client.call(&feed.with("A_IM", "Incremental Feed")).await;
        assert_eq!(changes.status == 200, range.path == right);
        assert!(changes.token("ETag").is_some() && changes.number("ItemCount").is_some());
        let read = known.item("Read", key, "i").with("ReplicaPath", &*range.path);
        let answer = client.call(&read).await;
        match range.path == right {
            true => answer.expect(200),
            false => answer.refused(410, 1007),
        };
    }
    assert_eq!(found, 1, "a query that is sent to all ranges finds each row once");
}

#[tokio::test]
async fn a_prefix_of_keys_is_found_once_over_all_ranges() {
    let armilla = Armilla::direct().and_posts().await;
    let definition =
        r#"{"id":"nested","partitionKey":{"paths":["/t","/u"],"kind":"MultiHash","version":2}}"#;
    let units = [("x-ms-offer-throughput", "25000")];
    armilla.send("POST", "/dbs/blog/colls", &units, definition).await.expect(201);
    let mut client = Client::connect(&armilla).await;
    let known = Known::read(&armilla, "blog", "nested").await;
    assert_eq!(known.ranges.len(), 3);
    for number in 0..12 {
        let (t, u) = (number % 3, number);
        let item = format!(r#"{{"id":"i","t":"t{t}","u":"u{u}"}}"#);
        let key = format!("[\"t{t}\",\"u{u}\"]");
        client.call(&known.create(&key, &item)).await.expect(201);
    }
    let mut found = 0;
    for range in &known.ranges {
        let query = known.frame("Query", &range.path).with("PartitionKey", "[\"t1\"]");
        let page = client.call(&query.payload(r#"{"query":"SELECT * FROM c"}"#)).await.expect(200);
        found += page.rows("Documents").len();
    }
    assert_eq!(found, 4);
}

#[tokio::test]
async fn containers_that_are_gone_or_made_anew_have_stale_names() {
    let (armilla, mut client, known) = blog().await;
    let key = "[\"p\"]";
    client.call(&known.create(key, r#"{"id":"a","postId":"p"}"#)).await.expect(201);
    armilla.delete("/dbs/blog/colls/posts").await.expect(204);
    let read = known.item("Read", key, "a");
    client.call(&read).await.refused(410, 1000);
    let definition = r#"{"id":"posts","partitionKey":{"paths":["/postId"]}}"#;
    armilla.post("/dbs/blog/colls", definition).await.expect(201);
    client.call(&read).await.refused(410, 1000);
    client.call(&known.create(key, r#"{"id":"a","postId":"p"}"#)).await.refused(410, 1000);
    let fresh = Known::read(&armilla, "blog", "posts").await;
    client.call(&fresh.item("Read", key, "a")).await.refused(404, 0);
    let elsewhere = fresh.item("Read", key, "a").with("ReplicaPath", "/apps/other/services/x");
    client.call(&elsewhere).await.refused(410, 0);
    let secondary = fresh.ranges[0].path.replace("1p", "2s");
    let write = fresh.create(key, r#"{"id":"b","postId":"p"}"#).with("ReplicaPath", &*secondary);
    client.call(&write).await.refused(410, 0);
    client.call(&fresh.item("Read", key, "b")).await.refused(404, 0);
}

/// As .NET resumes an order: behind a page of each range it asks for what comes after the last row, with a filter.
#[tokio::test]
async fn an_order_over_three_ranges_is_resumed_by_filters() {
    let (armilla, mut client, _) = blog().await;
    scale(&armilla, 25_000).await;
    let known = Known::read(&armilla, "blog", "posts").await;
    for number in 0..60 {
        let item = format!(r#"{{"id":"i{number}","postId":"p{number}","n":{}}}"#, number % 20);
        client.call(&known.create(&format!("[\"p{number}\"]"), &item)).await.expect(201);
    }
    let text = |filter: &str| {
        format!(
            r#"{{"query":"SELECT c._rid, [{{\"item\": c.n}}] AS orderByItems, c AS payload FROM c WHERE {filter} ORDER BY c.n DESC"}}"#
        )
    };
    let number = |row: &armilla_model::Value| {
        row.get("payload").unwrap().get("n").unwrap().as_i64().unwrap()
    };
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for range in &known.ranges {
        let query = known.frame("Query", &range.path).with("PartitionKeyRangeId", &*range.id);
        let whole = query.clone().with("PageSize", 100);
        let rest = "(c.n < 12 OR IS_BOOLEAN(c.n) OR IS_NULL(c.n) OR NOT IS_DEFINED(c.n))";
        for (filter, found) in [("c.n >= 12", &mut before), (rest, &mut after)] {
            let page = client.call(&whole.clone().payload(text(filter))).await.expect(200);
            let rows: Vec<_> = page.rows("Documents").iter().map(number).collect();
            assert!(rows.is_sorted_by(|left, right| left >= right), "{rows:?}");
            found.extend(rows);
        }
    }
    assert_eq!((before.len(), after.len()), (24, 36), "each row once");
    assert!(before.iter().all(|n| *n >= 12) && after.iter().all(|n| *n < 12));
}

/// The operations of bulk, each by itself: key, item.
fn operations(count: usize) -> Vec<(String, String)> {
    let one = |number| {
        (format!("[\"p{number}\"]"), format!(r#"{{"id":"i{number}","postId":"p{number}"}}"#))
    };
    (0..count).map(one).collect()
}

fn bulk(known: &Known, range: &super::client::Range, operations: &[(String, String)]) -> Frame {
    let rows: Vec<_> = operations
        .iter()
        .map(|(key, body)| Operation {
            kind: CREATE,
            key: Some(key),
            body: Some(body.as_bytes()),
            minimal: true,
            ..Operation::default()
        })
        .collect();
    let frame = known.frame("Batch", &range.path).with("PartitionKeyRangeId", &*range.id);
    let frame = frame.with("IsBatchAtomic", 0).with("ShouldBatchContinueOnError", 1);
    frame.payload(stream(&rows))
}

/// More than the ranges can take in a second.
const COUNT: usize = 6_000;

/// As .NET does it: sorted by range, sent, what was throttled or sent on is sent again.
#[tokio::test]
async fn bulk_over_three_ranges_goes_on_through_a_split_and_throttling() {
    let dials = Dials { throttle: Throttling::On, ..Dials::default() };
    let options = Options { dials, ..Options::default() };
    let armilla = Armilla::direct_with(options, DirectMode::SamePort).and_posts().await;
    scale(&armilla, 25_000).await;
    let mut client = Client::connect(&armilla).await;
    let mut known = Known::read(&armilla, "blog", "posts").await;
    assert_eq!(known.ranges.len(), 3);
    let mut waiting = operations(COUNT);
    let (mut created, mut throttled, mut moved) = (0, 0, 0);
    for round in 0..400 {
        if round == 1 {
            scale(&armilla, 55_000).await;
        }
        if waiting.is_empty() {
            break;
        }
        let (mut again, mut is_stale) = (Vec::new(), false);
        let ranges = known.ranges.clone();
        for range in &ranges {
            let here = |(key, _): &&(String, String)| known.range_of(key).id == range.id;
            let mine: Vec<_> = waiting.iter().filter(here).cloned().collect();
            for chunk in mine.chunks(100) {
                let answer = client.call(&bulk(&known, range, chunk)).await;
                if answer.status == 410 {
                    (moved, is_stale) = (moved + 1, true);
                    again.extend_from_slice(chunk);
                    continue;
                }
                assert!(matches!(answer.status, 200 | 207), "{}", answer.text());
                for (row, operation) in outcomes(&answer.payload).iter().zip(chunk) {
                    match row.status {
                        201 => created += 1,
                        429 => {
                            assert!(row.retry_after.is_some());
                            throttled += 1;
                            again.push(operation.clone());
                        }
                        other => panic!("a row of {other}: {}", row.text()),
                    }
                }
            }
        }
        if is_stale {
            known = Known::read(&armilla, "blog", "posts").await;
        }
        armilla.clock.advance(Duration::from_millis(200));
        waiting = again;
    }
    assert!(waiting.is_empty(), "{} operations are left", waiting.len());
    assert_eq!(created, COUNT, "each item once");
    assert!(throttled > 0 && moved > 0, "{throttled} throttled, {moved} moved");
    let container = armilla.account.container("blog", "posts").unwrap();
    assert_eq!(container.document_count(), COUNT as u64);
}
