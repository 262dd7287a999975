//! Who pays what: bursts from a bank, bulk operations one by one, work in the background, and ranges
//! that answer together.

use crate::support::{Answer, Armilla, QUERY};
use crate::throttle::{DOCS, KEY, PLAIN, count, create, creates, offer, server, throttled};
use armilla_engine::Options;
use armilla_engine::dials::{Dials, Throttling};
use armilla_model::Value;
use std::time::Duration;

#[tokio::test]
async fn a_burst_spends_what_was_banked() {
    let dials = Dials { burst: true, throttle: Throttling::On, ..Dials::default() };
    let armilla = server(Options { dials, ..Options::default() }, &offer("400")).await;
    // The bucket is made by its first request.
    assert_eq!(create(&armilla, 0, &[]).await, 201);
    // Ten seconds of idleness are banked; 3,000 units a second may be spent of them and the rate.
    armilla.clock.advance(Duration::from_secs(10));
    let first = creates(&armilla, 1000, 1000).await as f64 * 116.0 / 21.0;
    assert!((2990.0..=3010.0).contains(&first), "{first}");
    armilla.clock.advance(Duration::from_secs(1));
    let second = creates(&armilla, 3000, 1000).await as f64 * 116.0 / 21.0;
    // What is left of eleven seconds of four hundred units.
    let left = 12.0 * 400.0 - 116.0 / 21.0 - first;
    assert!((second - left).abs() < 12.0, "{second} of {left}");
    armilla.clock.advance(Duration::from_secs(1));
    let third = creates(&armilla, 5000, 1000).await as f64 * 116.0 / 21.0;
    assert!((third - 400.0).abs() < 12.0, "{third}: the bank is empty");
}

/// Operations of a bulk request are refused one by one, each with its time to wait.
#[tokio::test]
async fn bulk_is_served_as_far_as_throughput_goes() {
    let armilla = server(throttled(), &offer("400")).await;
    let bulk = |first: usize| {
        let operation = |number: usize| {
            format!(
                r#"{{"operationType":"Create","partitionKey":"[\"a\"]","resourceBody":{{"id":"{number}","pk":"a"}}}}"#
            )
        };
        format!("[{}]", (first..first + 100).map(operation).collect::<Vec<_>>().join(","))
    };
    let headers = [
        ("x-ms-cosmos-is-batch-request", "True"),
        ("x-ms-cosmos-batch-atomic", "False"),
        ("x-ms-cosmos-batch-continue-on-error", "True"),
        ("x-ms-documentdb-partitionkeyrangeid", "0"),
    ];
    let answer = armilla.send("POST", DOCS, &headers, &bulk(0)).await.expect(207);
    let statuses = |answer: &Answer| -> Vec<i64> {
        let rows = answer.json();
        let status = |row: &Value| row.get("statusCode").unwrap().as_i64().unwrap();
        rows.as_array().unwrap().iter().map(status).collect()
    };
    let found = statuses(&answer);
    // 72 fit, the 73rd overdraws.
    assert!(found[..73].iter().all(|status| *status == 201), "{found:?}");
    assert!(found[73..].iter().all(|status| *status == 429), "{found:?}");
    assert_eq!(found.len(), 100);
    assert_eq!(answer.charge(), "403.24", "what is refused costs nothing");
    let refused = answer.json().as_array().unwrap()[99].clone();
    assert_eq!(refused.get("subStatusCode").unwrap().as_i64(), Some(3200));
    assert_eq!(refused.get("requestCharge").unwrap().as_f64(), Some(0.0));
    let wait = refused.get("retryAfterMilliseconds").unwrap().as_i64().unwrap();
    assert!((1..=1000).contains(&wait), "{wait}");
    assert_eq!(count(&armilla).await, 73);
    let text = armilla.get("/metrics").await.expect(200).body;
    let line = r#"armilla_throttled_total{operation="batch",database="d",container="c"} 27"#;
    assert!(text.lines().any(|found| found == line), "{text}");
    // Nobody else gets in either, and after the wait what was refused does.
    armilla.send("GET", &format!("{DOCS}/0"), &[KEY], "").await.refused(429, 3200);
    armilla.clock.advance(Duration::from_millis(wait as u64));
    let answer = armilla.send("POST", DOCS, &headers, &bulk(73)).await.expect(207);
    assert_eq!(statuses(&answer).iter().filter(|status| **status == 201).count(), 72);
}

/// Expiry is charged to the container, and waits for throughput that nobody wants.
#[tokio::test]
async fn expiry_lives_on_what_is_left() {
    let armilla = Armilla::with(throttled(), |service| service);
    armilla.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
    let definition = PLAIN.replace(r#""c","#, r#""c","defaultTtl":5,"#);
    armilla.send("POST", "/dbs/d/colls", &offer("400"), &definition).await.expect(201);
    armilla.clock.advance(Duration::from_secs(1));
    for number in 0..20 {
        assert_eq!(create(&armilla, number, &[]).await, 201);
    }
    armilla.clock.advance(Duration::from_secs(10));
    // They are hidden at once; a second in which everything is used leaves them where they are.
    armilla.send("GET", &format!("{DOCS}/0"), &[KEY], "").await.refused(404, 0);
    creates(&armilla, 100, 80).await;
    armilla.account.clean_up().unwrap();
    assert_eq!(count(&armilla).await, 20 + 73);
    armilla.clock.advance(Duration::from_secs(2));
    armilla.account.clean_up().unwrap();
    assert_eq!(count(&armilla).await, 73);
    let text = armilla.get("/metrics").await.expect(200).body;
    let line =
        r#"armilla_background_request_units_total{database="d",container="c",partition="0"} "#;
    let line = text.lines().find(|found| found.starts_with(line)).unwrap();
    let units: f64 = line.rsplit(' ').next().unwrap().parse().unwrap();
    assert!((units - 20.0 * 116.0 / 21.0).abs() < 0.01, "{units}");
    // They were paid for: fewer creates fit.
    assert_eq!(creates(&armilla, 300, 80).await, 53);
}

/// A query over several ranges is charged to each by what it did there.
#[tokio::test]
async fn ranges_share_the_charge_of_a_query() {
    let headers = [("x-armilla-partitions", "4")];
    let armilla = server(Options::default(), &headers).await;
    for number in 0..40 {
        assert_eq!(create(&armilla, number, &[]).await, 201);
    }
    let everywhere = ("x-ms-documentdb-query-enablecrosspartition", "True");
    let partitions = |text: &str| -> Vec<f64> {
        let start = r#"armilla_partition_request_units_total{database="d",container="c""#;
        let lines = text.lines().filter(|line| line.starts_with(start));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect()
    };
    let before: f64 = partitions(&armilla.get("/metrics").await.body).iter().sum();
    let body = r#"{"query":"SELECT * FROM c","parameters":[]}"#;
    let answer = armilla.send("POST", DOCS, &[QUERY, everywhere], body).await.expect(200);
    let units: f64 = answer.charge().parse().unwrap();
    let after = partitions(&armilla.get("/metrics").await.body);
    assert_eq!(after.len(), 4);
    assert!((after.iter().sum::<f64>() - before - units).abs() < 0.01, "{after:?} for {units}");
    // The ranges without items pay for being visited.
    assert_eq!(after.iter().filter(|units| (**units - 2.82).abs() < 0.01).count(), 3, "{after:?}");
}
