//! The throttle vectors (`docs/protocol/charges.md#throttling`), and what surrounds them, asked of a whole server with a
//! clock that stands still until it is moved.

use crate::blog;
use crate::support::{Armilla, QUERY};
use armilla_engine::Options;
use armilla_engine::dials::{Dials, Throttling};
use armilla_model::Value;
use std::time::Duration;

pub(crate) const KEY: (&str, &str) = ("x-ms-documentdb-partitionkey", "[\"a\"]");
pub(crate) const DOCS: &str = "/dbs/d/colls/c/docs";
/// Nothing is indexed: every create costs 5.52.
pub(crate) const PLAIN: &str = r#"{"id":"c","partitionKey":{"paths":["/pk"]},"indexingPolicy":{"excludedPaths":[{"path":"/*"}]}}"#;

pub(crate) fn throttled() -> Options {
    let dials = Dials { throttle: Throttling::On, ..Dials::default() };
    Options { dials, ..Options::default() }
}

/// A server with a container of so many units per second. Its clock moves behind the resources that
/// were made, so that these leave their own budget full.
pub(crate) async fn server(options: Options, headers: &[(&str, &str)]) -> Armilla {
    let armilla = Armilla::with(options, |service| service);
    armilla.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
    armilla.send("POST", "/dbs/d/colls", headers, PLAIN).await.expect(201);
    armilla.clock.advance(Duration::from_secs(1));
    armilla
}

pub(crate) fn offer(units: &str) -> [(&'static str, &str); 1] {
    [("x-ms-offer-throughput", units)]
}

pub(crate) async fn create(armilla: &Armilla, id: usize, headers: &[(&str, &str)]) -> u16 {
    let headers: Vec<_> = headers.iter().copied().chain([KEY]).collect();
    let item = format!(r#"{{"id":"{id}","pk":"a"}}"#);
    armilla.send("POST", DOCS, &headers, &item).await.status
}

/// Creates until one is refused; how many were served.
pub(crate) async fn creates(armilla: &Armilla, first: usize, most: usize) -> usize {
    for number in 0..most {
        if create(armilla, first + number, &[]).await == 429 {
            return number;
        }
    }
    most
}

pub(crate) async fn count(armilla: &Armilla) -> usize {
    armilla.account.container("d", "c").unwrap().document_count() as usize
}

#[tokio::test]
async fn eighty_creates_in_a_second_of_four_hundred_units() {
    let armilla = server(throttled(), &offer("400")).await;
    let mut statuses = Vec::new();
    for number in 0..80 {
        statuses.push(create(&armilla, number, &[]).await);
    }
    assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 73);
    assert_eq!(statuses.iter().filter(|status| **status == 429).count(), 7);
    assert_eq!(count(&armilla).await, 73, "what is refused is not there");
    let item = r#"{"id":"x","pk":"a"}"#;
    let refused = armilla.send("POST", DOCS, &[KEY], item).await.refused(429, 3200);
    assert_eq!(refused.charge(), "0");
    let wait: u64 = refused.header("x-ms-retry-after-ms").unwrap().parse().unwrap();
    assert!((1..=1000).contains(&wait), "{wait}");
    armilla.clock.advance(Duration::from_millis(wait));
    // 400 less the debt of 3.24: one fewer fits.
    assert_eq!(creates(&armilla, 100, 80).await, 72);
}

#[tokio::test]
async fn a_thousand_units_a_second_over_ten_seconds() {
    let armilla = server(throttled(), &offer("1000")).await;
    let mut served = 0;
    for second in 0..10 {
        served += creates(&armilla, second * 1000, 300).await;
        armilla.clock.advance(Duration::from_secs(1));
    }
    let units = served as f64 * 116.0 / 21.0;
    assert!((units - 10_000.0).abs() <= 500.0, "{units}");
}

#[tokio::test]
async fn a_large_query_runs_and_blocks_the_seconds_it_used() {
    let armilla = server(throttled(), &offer("400")).await;
    let container = "/_armilla/dials/dbs/d/colls/c";
    armilla.put(container, r#"{"throttle":"off","throttle-scale":"0.01"}"#).await.expect(200);
    for number in 0..100 {
        let item = format!(r#"{{"id":"{number}","pk":"a","f":"{}"}}"#, "x".repeat(500));
        armilla.send("POST", DOCS, &[KEY], &item).await.expect(201);
    }
    armilla.put(container, r#"{"throttle":"on"}"#).await.expect(200);
    armilla.clock.advance(Duration::from_secs(1));
    // About twenty units where four are served in a second, as two thousand are to four hundred.
    let body = r#"{"query":"SELECT * FROM c","parameters":[]}"#;
    let answer = armilla.send("POST", DOCS, &[KEY, QUERY], body).await.expect(200);
    let units: f64 = answer.charge().parse().unwrap();
    assert!((15.0..25.0).contains(&units), "{units}");
    let refused = armilla.send("GET", "/dbs/d/colls/c/docs/0", &[KEY], "").await.refused(429, 3200);
    let wait: u64 = refused.header("x-ms-retry-after-ms").unwrap().parse().unwrap();
    let least = ((units - 4.0) / 4.0).floor() * 1000.0;
    assert!(wait as f64 > least && wait as f64 <= least + 1000.0, "{wait} after {units}");
    armilla.clock.advance(Duration::from_millis(wait - 1));
    armilla.send("GET", "/dbs/d/colls/c/docs/0", &[KEY], "").await.refused(429, 3200);
    armilla.clock.advance(Duration::from_millis(1));
    armilla.send("GET", "/dbs/d/colls/c/docs/0", &[KEY], "").await.expect(200);
}

/// The published vector as it stands: two thousand units at four hundred a second.
#[tokio::test]
async fn a_query_of_two_thousand_units_blocks_four_hundred_a_second_for_four_seconds() {
    const ITEMS: usize = 12_000;
    let armilla = server(throttled(), &offer("400")).await;
    let container = armilla.account.container("d", "c").unwrap();
    for first in (0..ITEMS).step_by(500) {
        let item = |number: usize| format!(r#"{{"id":"{number}","pk":"a"}}"#);
        blog::store(&container, &(first..first + 500).map(item).collect::<Vec<_>>());
    }
    let body = r#"{"query":"SELECT VALUE COUNT(1) FROM c WHERE c.pk = 'a'","parameters":[]}"#;
    let answer = armilla.send("POST", DOCS, &[KEY, QUERY], body).await.expect(200);
    let units: f64 = answer.charge().parse().unwrap();
    assert!((1990.0..2010.0).contains(&units), "{units}");
    let read = format!("{DOCS}/0");
    let refused = armilla.send("GET", &read, &[KEY], "").await.refused(429, 3200);
    let wait: u64 = refused.header("x-ms-retry-after-ms").unwrap().parse().unwrap();
    assert!((4000..=5000).contains(&wait), "{wait}");
    armilla.clock.advance(Duration::from_millis(wait - 1));
    armilla.send("GET", &read, &[KEY], "").await.refused(429, 3200);
    armilla.clock.advance(Duration::from_millis(1));
    armilla.send("GET", &read, &[KEY], "").await.expect(200);
}

#[tokio::test]
async fn three_ranges_become_five_at_forty_five_thousand_units() {
    let armilla = server(throttled(), &offer("30000")).await;
    let container = armilla.account.container("d", "c").unwrap();
    assert_eq!(container.partitions().len(), 3);
    let offer = armilla.get("/offers").await.rows("Offers").remove(0);
    let rid = offer.get("_rid").unwrap().as_str().unwrap();
    let body = offer.to_json().replace("\"offerThroughput\":30000", "\"offerThroughput\":45000");
    let answer = armilla.put(&format!("/offers/{rid}"), &body).await;
    assert!(matches!(answer.status, 200 | 202), "{}", answer.body);
    armilla.account.split_partitions();
    assert_eq!(container.partitions().len(), 5);
    let ranges = armilla.get("/dbs/d/colls/c/pkranges").await.expect(200);
    let rows = ranges.rows("PartitionKeyRanges");
    assert_eq!(rows.len(), 5);
    let parents = |row: &Value| row.get("parents").unwrap().as_array().unwrap().len();
    assert_eq!(rows.iter().map(parents).sum::<usize>(), 4, "two ranges became two each");
}

#[tokio::test]
async fn the_eleventh_hundred_kilobytes_in_a_key_of_one_megabyte_are_refused() {
    let options = Options { logical_partition_size: 1024 * 1024, ..Options::default() };
    let armilla = server(options, &offer("400")).await;
    let item = |number: usize, size: usize| {
        format!(r#"{{"id":"{number:02}","pk":"a","f":"{}"}}"#, "x".repeat(size))
    };
    let probe = armilla.send("POST", DOCS, &[KEY], &item(0, 100)).await.expect(201);
    let size = 100 * 1024 - (probe.body.len() - 100);
    armilla.send("DELETE", &format!("{DOCS}/00"), &[KEY], "").await.expect(204);
    for number in 1..=10 {
        let answer = armilla.send("POST", DOCS, &[KEY], &item(number, size)).await.expect(201);
        assert_eq!(answer.body.len(), 100 * 1024);
    }
    armilla.send("POST", DOCS, &[KEY], &item(11, size)).await.refused(403, 1014);
    assert_eq!(count(&armilla).await, 10);
}

#[tokio::test]
async fn throughput_is_split_evenly_over_partitions() {
    let headers = [("x-ms-offer-throughput", "20000"), ("x-armilla-partitions", "4")];
    let armilla = server(throttled(), &headers).await;
    assert_eq!(armilla.account.container("d", "c").unwrap().partitions().len(), 4);
    // All load on one key: a quarter of 20,000, which is 905 creates and the one that overdraws.
    assert_eq!(creates(&armilla, 0, 1000).await, 906);
}

#[tokio::test]
async fn partitions_of_new_containers() {
    let armilla = server(throttled(), &offer("12000")).await;
    assert_eq!(armilla.account.container("d", "c").unwrap().partitions().len(), 2);
    let autoscale = [("x-ms-cosmos-offer-autopilot-settings", r#"{"maxThroughput":10000}"#)];
    let definition = r#"{"id":"auto","partitionKey":{"paths":["/pk"]}}"#;
    armilla.send("POST", "/dbs/d/colls", &autoscale, definition).await.expect(201);
    assert_eq!(armilla.account.container("d", "auto").unwrap().partitions().len(), 1);
    for units in ["350", "450"] {
        let definition = r#"{"id":"no","partitionKey":{"paths":["/pk"]}}"#;
        let headers = [("x-ms-offer-throughput", units)];
        armilla.send("POST", "/dbs/d/colls", &headers, definition).await.refused(400, 0);
    }
}

#[tokio::test]
async fn containers_of_a_database_share_its_throughput() {
    let armilla = Armilla::with(throttled(), |service| service);
    armilla.send("POST", "/dbs", &offer("400"), r#"{"id":"d"}"#).await.expect(201);
    armilla.post("/dbs/d/colls", PLAIN).await.expect(201);
    armilla.post("/dbs/d/colls", &PLAIN.replace(r#""c""#, r#""other""#)).await.expect(201);
    armilla.clock.advance(Duration::from_secs(1));
    assert_eq!(creates(&armilla, 0, 100).await, 73);
    let read = armilla.send("GET", "/dbs/d/colls/other/docs/x", &[KEY], "").await;
    read.refused(429, 3200);
}

#[tokio::test]
async fn reports_say_how_long_a_request_would_have_waited() {
    let dials = Dials { throttle: Throttling::Report, ..Dials::default() };
    let armilla = server(Options { dials, ..Options::default() }, &offer("400")).await;
    assert_eq!(creates(&armilla, 0, 80).await, 80);
    let answer = armilla.send("GET", "/dbs/d/colls/c/docs/0", &[KEY], "").await.expect(200);
    assert!(answer.header("x-armilla-would-throttle").is_some());
}

#[tokio::test]
async fn low_priority_and_throughput_buckets() {
    let armilla = server(throttled(), &offer("400")).await;
    let offers = armilla.get("/offers").await.rows("Offers");
    let offer = &offers[0];
    let rid = offer.get("_rid").unwrap().as_str().unwrap();
    let body = format!(
        r#"{{"content":{{"offerThroughput":400,"throughputBuckets":[{{"id":1,"maxThroughputPercentage":10}}]}},"id":"{rid}"}}"#
    );
    armilla.put(&format!("/offers/{rid}"), &body).await.expect(200);
    armilla.clock.advance(Duration::from_secs(1));
    let bucket = [("x-ms-cosmos-throughput-bucket", "1")];
    let mut served = 0;
    while create(&armilla, served, &bucket).await == 201 {
        served += 1;
    }
    assert_eq!(served, 8, "forty units hold seven creates and the one that overdraws");
    assert_eq!(create(&armilla, 100, &[]).await, 201);
    let unknown = [KEY, ("x-ms-cosmos-throughput-bucket", "6")];
    armilla.send("GET", "/dbs/d/colls/c/docs/0", &unknown, "").await.refused(400, 0);
    armilla.clock.advance(Duration::from_secs(2));
    assert_eq!(creates(&armilla, 200, 60).await, 60);
    armilla.clock.advance(Duration::from_secs(1));
    let low = [("x-ms-cosmos-priority-level", "Low")];
    let mut served = 0;
    while create(&armilla, 300 + served, &low).await == 201 {
        served += 1;
    }
    assert!((10..=14).contains(&served), "what sixty creates leave of a second: {served}");
    assert_eq!(create(&armilla, 400, &[]).await, 201);
}

#[tokio::test]
async fn metadata_has_a_budget_of_its_own() {
    let armilla = server(throttled(), &offer("400")).await;
    let mut served = 0;
    while armilla.get("/dbs/d").await.status == 200 {
        served += 1;
        assert!(served < 1000);
    }
    assert_eq!(served, 240);
    armilla.get("/dbs/d").await.refused(429, 3210);
    assert_eq!(create(&armilla, 1, &[]).await, 201);
}

#[tokio::test]
async fn scripts_wait_for_their_average() {
    let armilla = server(throttled(), &offer("400")).await;
    let script = r#"{"id":"s","body":"function () { }"}"#;
    armilla.post("/dbs/d/colls/c/sprocs", script).await.expect(201);
    assert_eq!(creates(&armilla, 0, 72).await, 72);
    // 2.3 units are left: enough for a read, not for the ten of a first call.
    let run = "/dbs/d/colls/c/sprocs/s";
    armilla.send("POST", run, &[KEY], "").await.refused(429, 3200);
    armilla.send("GET", "/dbs/d/colls/c/docs/0", &[KEY], "").await.expect(200);
    armilla.clock.advance(Duration::from_secs(1));
    armilla.send("POST", run, &[KEY], "").await.expect(200);
}

#[tokio::test]
async fn serverless_accounts_have_no_offers() {
    let armilla = Armilla::with(Options { serverless: true, ..throttled() }, |service| service);
    armilla.send("POST", "/dbs", &offer("400"), r#"{"id":"d"}"#).await.refused(400, 0);
    armilla.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
    armilla.send("POST", "/dbs/d/colls", &offer("400"), PLAIN).await.refused(400, 0);
    armilla.post("/dbs/d/colls", PLAIN).await.expect(201);
    assert!(armilla.get("/offers").await.rows("Offers").is_empty());
    assert_eq!(creates(&armilla, 0, 200).await, 200);
}

#[tokio::test]
async fn dials_turn_while_the_server_runs() {
    let armilla = server(Options::default(), &offer("400")).await;
    let shown = armilla.get("/_armilla/dials").await.expect(200);
    assert_eq!(shown.text("throttle"), "off");
    assert_eq!(creates(&armilla, 0, 80).await, 80);
    let of_container = "/_armilla/dials/dbs/d/colls/c";
    armilla.put(of_container, r#"{"throttle":"on","ru-profile":"flat"}"#).await.expect(200);
    assert_eq!(armilla.get(of_container).await.text("throttle"), "on");
    assert_eq!(armilla.get("/_armilla/dials").await.text("throttle"), "off");
    armilla.clock.advance(Duration::from_secs(1));
    let answer = armilla.send("GET", "/dbs/d/colls/c/docs/0", &[KEY], "").await.expect(200);
    assert_eq!(answer.charge(), "1");
    assert_eq!(creates(&armilla, 100, 500).await, 399);
    armilla.put(of_container, r#"{"throttle":"sometimes"}"#).await.refused(400, 0);
    armilla.put("/_armilla/dials", r#"{"ru-profile":"/etc/passwd"}"#).await.refused(400, 0);
    armilla.put("/_armilla/dials", r#"{"warp":9}"#).await.refused(400, 0);
}

#[tokio::test]
async fn answers_are_held_back_as_long_as_the_dial_says() {
    let armilla = server(Options::default(), &offer("400")).await;
    armilla.put("/_armilla/dials", r#"{"latency":"50"}"#).await.expect(200);
    let asked = std::time::Instant::now();
    armilla.send("GET", &format!("{DOCS}/none"), &[KEY], "").await.refused(404, 0);
    assert!(asked.elapsed() >= Duration::from_millis(50));
}

#[tokio::test]
async fn metrics_count_what_was_served() {
    let armilla = server(throttled(), &offer("400")).await;
    creates(&armilla, 0, 80).await;
    armilla.send("GET", "/dbs/d/colls/c/docs/0", &[KEY], "").await;
    let text = armilla.get("/metrics").await.expect(200).body;
    let line = |start: &str| {
        let found = text.lines().find(|line| line.starts_with(start));
        found.unwrap_or_else(|| panic!("{start} is not in\n{text}")).to_owned()
    };
    let created =
        r#"armilla_requests_total{operation="create",database="d",container="c",status="201"} "#;
    assert!(line(created).ends_with(" 73"));
    let refused = r#"armilla_throttled_total{operation="create",database="d",container="c"} "#;
    assert!(line(refused).ends_with(" 1"));
    let units: f64 = line(r#"armilla_request_units_total{operation="create""#)
        .rsplit(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert!((units - 73.0 * 116.0 / 21.0).abs() < 0.01, "{units}");
    line(r#"armilla_request_duration_seconds_bucket{"#);
    line(r#"armilla_partition_size_bytes{database="d",container="c",partition="0"}"#);
    line(r#"armilla_partition_request_units_total{database="d",container="c",partition="0"}"#);
    line("armilla_commit_duration_seconds_count");
    line("armilla_compaction_duration_seconds_count");
    assert!(text.ends_with("# EOF\n"));
}
