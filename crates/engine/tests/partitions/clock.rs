//! A clock that is set back, while the server runs and between two starts.

use crate::feed::key;
use crate::support::{Bench, FIRST_SECOND, upsert};
use armilla_engine::feed::Start;
use armilla_engine::query::Access;
use armilla_model::Value;

const DEFINITION: &str = r#"{"id":"c","partitionKey":{"paths":["/pk"]},"defaultTtl":-1,
    "changeFeedPolicy":{"retentionDuration":10000}}"#;
const HOUR: u64 = 3600;

fn write(bench: &Bench, id: &str, more: &str) {
    let text = format!(r#"{{"id":"{id}","pk":"p"{more}}}"#);
    upsert(&bench.container, &key("p"), &text).unwrap();
}

/// The ids that the feed tells, in its order.
fn changes(bench: &Bench, start: Start) -> Vec<String> {
    let id = |text: &[u8]| {
        let item = armilla_model::json::parse(text).unwrap();
        item.get("id").and_then(Value::as_str).unwrap().to_owned()
    };
    let mut found = Vec::new();
    for partition in bench.container.partitions().iter() {
        let span = partition.range.span();
        let page = bench.container.read_changes(partition, &span, start, 1000).unwrap();
        found.extend(page.items.iter().map(|item| id(&item.text)));
    }
    found
}

fn ids(bench: &Bench) -> Vec<Value> {
    bench.rows_of("SELECT VALUE c.id FROM c ORDER BY c.id", 10, Access::ByCost)
}

#[test]
fn a_clock_that_is_set_back_loses_no_change() {
    let mut bench = Bench::new(DEFINITION, |_| {});
    write(&bench, "a", "");
    bench.clock.go_back_seconds(HOUR);
    write(&bench, "b", "");
    // The new time is all that a start knows, and a log that was split goes on.
    bench.restart();
    write(&bench, "c", "");
    bench.scale_to(2);
    write(&bench, "d", "");
    bench.clock.go_back_seconds(HOUR);
    bench.restart();
    write(&bench, "e", "");
    let all = ["a", "b", "c", "d", "e"];
    assert_eq!(changes(&bench, Start::Beginning), all);
    // Who was up to date before the clock was set back misses nothing of what came afterwards.
    assert_eq!(changes(&bench, Start::AfterSecond(FIRST_SECOND - 1)), all);
    assert_eq!(changes(&bench, Start::AfterSecond(FIRST_SECOND - 2 * HOUR)), all);
    // When the time is what it was, the feed goes on by it.
    bench.clock.advance_seconds(2 * HOUR + 1);
    write(&bench, "f", "");
    assert_eq!(changes(&bench, Start::AfterSecond(FIRST_SECOND)), ["f"]);
    assert_eq!(ids(&bench).len(), 6);
    bench.verify();
}

#[test]
fn items_written_behind_a_clock_that_is_set_back_live_as_long_as_they_should() {
    let mut bench = Bench::new(DEFINITION, |_| {});
    write(&bench, "forever", "");
    write(&bench, "old", r#","ttl":10"#);
    bench.clock.go_back_seconds(HOUR);
    bench.restart();
    write(&bench, "new", r#","ttl":10"#);
    bench.account.clean_up().unwrap();
    assert_eq!(ids(&bench).len(), 3);
    bench.clock.advance_seconds(9);
    assert_eq!(ids(&bench).len(), 3);
    bench.clock.advance_seconds(1);
    // Each lives by its own `_ts`: the old one was written in an hour from now.
    assert_eq!(ids(&bench), ["forever", "old"].map(Value::from));
    bench.account.clean_up().unwrap();
    bench.clock.advance_seconds(HOUR);
    bench.account.clean_up().unwrap();
    assert_eq!(ids(&bench), ["forever"].map(Value::from));
    bench.verify();
}
