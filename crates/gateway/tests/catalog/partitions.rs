//! What clients see of splits: new ranges with their ancestors, 410 for the old one, positions and
//! tokens that stay good, and the change feed in all its scopes.

use crate::support::{Answer, Armilla, QUERY};

const POSTS: &str = "/dbs/blog/colls/posts";
const DOCS: &str = "/dbs/blog/colls/posts/docs";
const FEED: (&str, &str) = ("a-im", "Incremental Feed");
const VERSIONS: (&str, &str) = ("a-im", "Full-Fidelity Feed");
const RANGE: &str = "x-ms-documentdb-partitionkeyrangeid";

async fn write(armilla: &Armilla, name: &str) {
    let key = format!("[\"{name}\"]");
    let headers = [("x-ms-documentdb-partitionkey", key.as_str()), crate::support::UPSERT];
    let body = format!("{{\"id\":\"{name}\",\"postId\":\"{name}\"}}");
    let answer = armilla.send("POST", DOCS, &headers, &body).await;
    assert!(matches!(answer.status, 200 | 201), "{}", answer.status);
}

async fn scale(armilla: &Armilla, units: u32) -> Answer {
    rescale(armilla, 400, units).await
}

async fn rescale(armilla: &Armilla, from: u32, units: u32) -> Answer {
    let offer = armilla.get("/offers").await.expect(200);
    let offer = offer.rows("Offers")[0].clone();
    let link = offer.get("_self").unwrap().as_str().unwrap().trim_end_matches('/').to_owned();
    let said = |units: u32| format!("\"offerThroughput\":{units}");
    let body = offer.to_json().replace(&said(from), &said(units));
    armilla.put(&format!("/{link}"), &body).await
}

fn ids(answer: &Answer) -> Vec<String> {
    let id = |row: &armilla_model::Value| row.get("id").unwrap().as_str().unwrap().to_owned();
    let mut ids: Vec<_> = answer.rows("Documents").iter().map(id).collect();
    ids.sort();
    ids
}

#[tokio::test]
async fn a_split_is_told_by_ranges_and_by_410() {
    let armilla = Armilla::with_posts().await;
    for name in ["a", "b", "c", "d", "e", "f"] {
        write(&armilla, name).await;
    }
    let ranges = armilla.send("GET", &format!("{POSTS}/pkranges"), &[FEED], "").await.expect(200);
    let known = ranges.header("etag").unwrap().to_owned();
    let read = armilla.send("GET", DOCS, &[FEED, (RANGE, "0")], "").await.expect(200);
    assert_eq!(ids(&read).len(), 6);
    let position = read.header("etag").unwrap().to_owned();

    let replaced = scale(&armilla, 25_000).await.expect(200);
    assert_eq!(replaced.header("x-ms-offer-replace-pending"), Some("false"));

    let known = ("if-none-match", known.as_str());
    let path = format!("{POSTS}/pkranges");
    let new = armilla.send("GET", &path, &[FEED, known], "").await.expect(200);
    let rows = new.rows("PartitionKeyRanges");
    assert_eq!(rows.len(), 3);
    assert!(rows.iter().all(|row| row.get("parents").unwrap().to_json() == "[\"0\"]"));
    let newest = ("if-none-match", new.header("etag").unwrap());
    armilla.send("GET", &path, &[FEED, newest], "").await.expect(304);

    armilla.send("GET", DOCS, &[FEED, (RANGE, "0")], "").await.refused(410, 1002);
    let query = r#"{"query":"SELECT * FROM c"}"#;
    armilla.send("POST", DOCS, &[QUERY, (RANGE, "0")], query).await.refused(410, 1002);

    for name in ["d", "e", "g", "h"] {
        write(&armilla, name).await;
    }
    let mut changed = Vec::new();
    for range in ["1", "2", "3"] {
        let headers = [FEED, (RANGE, range), ("if-none-match", position.as_str())];
        let page = armilla.send("GET", DOCS, &headers, "").await;
        if page.status == 200 {
            changed.extend(ids(&page));
        }
    }
    changed.sort();
    assert_eq!(changed, ["d", "e", "g", "h"]);
}

/// A split that is planned shows in the ranges, once, to those who know them already.
#[tokio::test]
async fn ranges_say_that_they_are_being_split() {
    let delay = std::time::Duration::from_secs(30);
    let options = armilla_engine::Options { split_delay: delay, ..Default::default() };
    let armilla = Armilla::with(options, |service| service);
    armilla.post("/dbs", r#"{"id":"blog"}"#).await.expect(201);
    let definition = r#"{"id":"posts","partitionKey":{"paths":["/postId"]}}"#;
    armilla.post("/dbs/blog/colls", definition).await.expect(201);
    let path = format!("{POSTS}/pkranges");
    let first = armilla.get(&path).await.expect(200);
    let statuses = |answer: &Answer| -> Vec<String> {
        let status = |row: &armilla_model::Value| row.get("status")?.as_str().map(str::to_owned);
        answer.rows("PartitionKeyRanges").iter().filter_map(status).collect()
    };
    assert_eq!(statuses(&first), ["online"]);
    let online = first.header("etag").unwrap().to_owned();
    scale(&armilla, 20_000).await;
    armilla.account.split_partitions();
    let news = armilla.send("GET", &path, &[("if-none-match", &online)], "").await.expect(200);
    assert_eq!(statuses(&news), ["splitting"]);
    let splitting = news.header("etag").unwrap().to_owned();
    assert_ne!(splitting, online);
    armilla.send("GET", &path, &[("if-none-match", &splitting)], "").await.expect(304);
    armilla.clock.advance(std::time::Duration::from_secs(31));
    armilla.account.split_partitions();
    let news = armilla.send("GET", &path, &[("if-none-match", &splitting)], "").await.expect(200);
    assert_eq!(statuses(&news), ["online", "online"]);
    let done = news.header("etag").unwrap().to_owned();
    armilla.send("GET", &path, &[("if-none-match", &done)], "").await.expect(304);
    // One who missed the announcement gets the same.
    let news = armilla.send("GET", &path, &[("if-none-match", &online)], "").await.expect(200);
    assert_eq!(statuses(&news).len(), 2);
}

/// A session learns nothing from a range that nobody wrote to, unless there is no other.
#[tokio::test]
async fn an_untouched_range_among_others_has_no_session() {
    let armilla = Armilla::with_posts().await;
    let key = [("x-ms-documentdb-partitionkey", "[\"none\"]")];
    let missing = armilla.send("GET", &format!("{DOCS}/none"), &key, "").await.refused(404, 0);
    assert!(missing.header("x-ms-session-token").is_some());
    let definition = r#"{"id":"wide","partitionKey":{"paths":["/postId"]}}"#;
    let three = [("x-armilla-partitions", "3")];
    armilla.send("POST", "/dbs/blog/colls", &three, definition).await.expect(201);
    let wide = "/dbs/blog/colls/wide/docs";
    let missing = armilla.send("GET", &format!("{wide}/none"), &key, "").await.refused(404, 0);
    assert_eq!(missing.header("x-ms-session-token"), None);
    let item = r#"{"id":"other","postId":"none"}"#;
    let made = armilla.send("POST", wide, &key, item).await.expect(201);
    let token = made.header("x-ms-session-token").unwrap().to_owned();
    let missing = armilla.send("GET", &format!("{wide}/none"), &key, "").await.refused(404, 0);
    assert_eq!(missing.header("x-ms-session-token"), Some(token.as_str()));
}

#[tokio::test]
async fn the_whole_container_is_one_feed() {
    let armilla = Armilla::with_posts().await;
    scale(&armilla, 35_000).await.expect(200);
    for name in ["a", "b", "c", "d", "e", "f", "g"] {
        write(&armilla, name).await;
    }
    let (mut seen, mut position) = (Vec::new(), None::<String>);
    loop {
        let mut headers = vec![FEED, ("x-ms-max-item-count", "2")];
        headers.extend(position.as_deref().map(|position| ("if-none-match", position)));
        let page = armilla.send("GET", DOCS, &headers, "").await;
        position = page.header("etag").map(str::to_owned);
        if page.status == 304 {
            break;
        }
        seen.extend(ids(&page.expect(200)));
    }
    seen.sort();
    assert_eq!(seen, ["a", "b", "c", "d", "e", "f", "g"]);
    write(&armilla, "h").await;
    let position = position.unwrap();
    let headers = [FEED, ("if-none-match", position.as_str())];
    let page = armilla.send("GET", DOCS, &headers, "").await.expect(200);
    assert_eq!(ids(&page), ["h"]);
}

#[tokio::test]
async fn versions_have_their_envelope() {
    let armilla = Armilla::start();
    armilla.post("/dbs", r#"{"id":"blog"}"#).await.expect(201);
    let plain = r#"{"id":"plain","partitionKey":{"paths":["/postId"]}}"#;
    armilla.post("/dbs/blog/colls", plain).await.expect(201);
    let definition = r#"{"id":"posts","partitionKey":{"paths":["/postId"]},
        "changeFeedPolicy":{"retentionDuration":10}}"#;
    armilla.post("/dbs/blog/colls", definition).await.expect(201);
    let now = [VERSIONS, ("if-none-match", "*"), (RANGE, "0")];
    armilla.send("GET", "/dbs/blog/colls/plain/docs", &now, "").await.expect(400);
    armilla.send("GET", DOCS, &[VERSIONS, (RANGE, "0")], "").await.expect(400);
    let start = armilla.send("GET", DOCS, &now, "").await.expect(304);
    let position = start.header("etag").unwrap().to_owned();
    write(&armilla, "a").await;
    write(&armilla, "a").await;
    let key = [("x-ms-documentdb-partitionkey", "[\"a\"]")];
    armilla.send("DELETE", &format!("{DOCS}/a"), &key, "").await.expect(204);
    let headers = [VERSIONS, ("if-none-match", position.as_str()), (RANGE, "0")];
    let page = armilla.send("GET", DOCS, &headers, "").await.expect(200);
    let rows = page.rows("Documents");
    let text = |row: &armilla_model::Value, name: &str| {
        row.get("metadata").unwrap().get(name).map(armilla_model::Value::to_json)
    };
    let kinds: Vec<_> = rows.iter().map(|row| text(row, "operationType").unwrap()).collect();
    assert_eq!(kinds, ["\"create\"", "\"replace\"", "\"delete\""]);
    assert_eq!(text(&rows[1], "previousImageLSN"), text(&rows[0], "lsn"));
    assert_eq!(text(&rows[2], "partitionKey").unwrap(), "{\"postId\":\"a\"}");
    assert_eq!(text(&rows[2], "timeToLiveExpired"), None);
    assert_eq!(rows[2].get("current").unwrap().to_json(), "{}");
    assert!(rows[1].get("previous").is_none() && rows[2].get("previous").is_some());
}

/// What the partitions' view says of a merge.
async fn merge_of(armilla: &Armilla) -> (String, i64, i64) {
    let view = armilla.get("/_armilla/partitions/dbs/blog/colls/posts").await.expect(200).json();
    let merge = view.get("merge").unwrap().clone();
    let state = merge.get("state").unwrap().as_str().unwrap().to_owned();
    let figure = |value: &armilla_model::Value, name: &str| {
        value.get(name).unwrap().as_f64().unwrap() as i64
    };
    assert_eq!(figure(&view, "count"), figure(&merge, "partitions"));
    (state, figure(&merge, "from"), figure(&merge, "partitions"))
}

/// Whoever asks for a merge need not wait for it, and is told how far it is.
#[tokio::test]
async fn a_merge_is_begun_and_followed() {
    const MERGE: &str = "/_armilla/partitions/dbs/blog/colls/posts/merge";
    let armilla = Armilla::with_posts().await;
    for name in ["a", "b", "c", "d", "e", "f"] {
        write(&armilla, name).await;
    }
    scale(&armilla, 25_000).await.expect(200);
    rescale(&armilla, 25_000, 400).await.expect(200);
    let view = armilla.get("/_armilla/partitions/dbs/blog/colls/posts").await.expect(200).json();
    assert_eq!(view.get("merge"), Some(&armilla_model::Value::Null));

    // Somebody else's merge is under way: it is told of, and no second one begins.
    let promised = armilla.account.promise_merge("blog", "posts").unwrap().unwrap();
    let begun = armilla.post(MERGE, "").await.expect(202);
    assert_eq!(
        (begun.text("state"), begun.json().get("wanted").unwrap().to_json()),
        ("merging".to_owned(), "1".to_owned())
    );
    assert_eq!(merge_of(&armilla).await, ("merging".to_owned(), 3, 3));
    // One that never ran is not waited for.
    drop(promised);
    assert_eq!(merge_of(&armilla).await, ("failed".to_owned(), 3, 3));

    armilla.post(MERGE, "").await.expect(202);
    let mut told = merge_of(&armilla).await;
    while told.0 == "merging" {
        // Pause: between two looks at the merge that is awaited.
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        told = merge_of(&armilla).await;
    }
    assert_eq!(told, ("done".to_owned(), 3, 1));
    let read = armilla.send("GET", DOCS, &[FEED], "").await.expect(200);
    assert_eq!(ids(&read).len(), 6);
    // With nothing left to do it is done at once.
    armilla.post(MERGE, "").await.expect(202);
    armilla.post("/_armilla/partitions/dbs/blog/colls/none/merge", "").await.expect(404);
}
