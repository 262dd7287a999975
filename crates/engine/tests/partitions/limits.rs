//! Sizes: partitions that grow are split, and one logical partition has a limit.

use crate::feed::key;
use crate::support::{Bench, begin, commit, upsert};
use armilla_engine::items::WriteOptions;
use armilla_model::Error;

const DEFINITION: &str = r#"{"id":"c","partitionKey":{"paths":["/pk"]}}"#;

fn text(pk: &str, id: u64, size: usize) -> String {
    format!(r#"{{"id":"{id}","pk":"{pk}","text":"{}"}}"#, "x".repeat(size))
}

#[test]
fn a_range_that_grows_is_split_at_the_middle_of_its_data() {
    let bench = Bench::new(DEFINITION, |options| options.partition_size = 20_000);
    for id in 0..64 {
        upsert(&bench.container, &key(&format!("p{id}")), &text(&format!("p{id}"), 1, 1000))
            .unwrap();
        bench.account.split_partitions();
    }
    let partitions = bench.container.partitions();
    assert!(partitions.len() >= 4, "{} partitions", partitions.len());
    assert!(partitions.iter().all(|partition| partition.size() <= 20_000));
    let documents: u64 = partitions.iter().map(|partition| partition.document_count()).sum();
    assert_eq!(documents, 64);
    bench.verify();
}

#[test]
fn a_single_logical_partition_is_not_split() {
    let bench = Bench::new(DEFINITION, |options| options.partition_size = 5000);
    for id in 0..20 {
        upsert(&bench.container, &key("p"), &text("p", id, 1000)).unwrap();
        bench.account.split_partitions();
    }
    assert_eq!(bench.container.partitions().len(), 1);
}

#[test]
fn a_split_waits_as_long_as_it_is_told() {
    let bench = Bench::new(DEFINITION, |options| {
        options.split_delay = std::time::Duration::from_secs(30);
        options.partition_size = 3000;
    });
    for id in 0..5 {
        upsert(&bench.container, &key(&format!("p{id}")), &text(&format!("p{id}"), 1, 1000))
            .unwrap();
    }
    bench.account.split_partitions();
    bench.clock.advance_seconds(29);
    bench.account.split_partitions();
    assert_eq!(bench.container.partitions().len(), 1);
    bench.clock.advance_seconds(2);
    bench.account.split_partitions();
    assert_eq!(bench.container.partitions().len(), 2);
}

#[test]
fn a_logical_partition_has_a_limit_that_holds_after_a_restart() {
    let mut bench = Bench::new(DEFINITION, |options| options.logical_partition_size = 10_000);
    let mut stored = 0;
    while upsert(&bench.container, &key("p"), &text("p", stored, 1000)).is_ok() {
        stored += 1;
    }
    assert!((7..10).contains(&stored), "{stored} items of a little over 1000 bytes");
    for _ in 0..2 {
        let refused = upsert(&bench.container, &key("p"), &text("p", 100, 1000)).unwrap_err();
        assert!(matches!(refused, Error::PartitionFull(_)), "{refused:?}");
        // Others have room, and what does not grow is written.
        upsert(&bench.container, &key("q"), &text("q", 1, 1000)).unwrap();
        upsert(&bench.container, &key("p"), &text("p", 0, 1000)).unwrap();
        bench.restart();
    }
    let mut txn = begin(&bench.container, &key("p"));
    txn.delete_item("0", &WriteOptions::default()).unwrap();
    commit(txn).unwrap();
    upsert(&bench.container, &key("p"), &text("p", 100, 900)).unwrap();
    bench.verify();
}
