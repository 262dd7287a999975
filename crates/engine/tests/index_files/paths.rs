//! The path dictionary forgets what no item has, and never means two paths by one number.

use crate::bench::{Bench, key, small};
use armilla_engine::items::WriteOptions;
use armilla_engine::limits::FORGOTTEN_AFTER;
use armilla_engine::query::Access;
use std::collections::BTreeSet;
use std::time::Duration;

const WIDE: u64 = 20;
const NAMES: u64 = 200;

/// Properties that no other item has.
fn names(item: u64) -> String {
    (0..NAMES).map(|name| format!(r#","w{item}n{name}":{name}"#)).collect()
}

fn found(bench: &Bench, condition: &str) -> BTreeSet<String> {
    let query = format!("SELECT VALUE c.id FROM c WHERE {condition}");
    let rows = |access| bench.rows(&query, access).iter().map(|row| row.to_json()).collect();
    let (by_index, by_items): (BTreeSet<_>, BTreeSet<_>) =
        (rows(Access::Index), rows(Access::Items));
    assert_eq!(by_index, by_items, "{condition}");
    by_index
}

/// A container that had wide items, and still has an item beside each of them.
fn after_wide_items() -> Bench {
    let mut bench = Bench::new(small());
    bench.run_background();
    for item in 0..WIDE {
        bench.put(item, item % 3, &names(item));
        bench.put(100 + item, item % 3, &format!(r#","n":{item},"o":{{"deep":[{item}]}}"#));
    }
    assert!(bench.container.paths.len() as u64 > WIDE * NAMES);
    for item in 0..WIDE {
        bench.delete(item, item % 3);
    }
    bench
}

#[test]
fn paths_of_deleted_items_are_forgotten_at_a_start() {
    for crashes in [false, true] {
        let mut bench = after_wide_items();
        if crashes {
            bench.crash()
        } else {
            bench.restart()
        }
        assert!(bench.container.paths.len() < 20, "{}", bench.container.paths.len());
        assert_eq!(found(&bench, "c.n = 7").len(), 1);
        assert_eq!(found(&bench, "ARRAY_CONTAINS(c.o.deep, 8)").len(), 1);
        assert!(found(&bench, "c.w3n5 = 5").is_empty());
        bench.verify();
    }
}

#[test]
fn forgotten_paths_may_come_back_under_new_numbers() {
    let mut bench = after_wide_items();
    bench.restart();
    // In another order than before, so that every number would be another path's.
    for item in (0..WIDE).rev() {
        bench.put(item, item % 3, &names(item));
    }
    for starts in 0..3 {
        for item in [0, 7, WIDE - 1] {
            assert_eq!(found(&bench, &format!("c.w{item}n5 = 5")).len(), 1, "{item} {starts}");
            assert!(found(&bench, &format!("c.w{item}n5 = 6")).is_empty());
        }
        assert_eq!(found(&bench, "c.n = 7").len(), 1);
        bench.verify();
        if starts == 0 { bench.crash() } else { bench.restart() }
    }
}

#[test]
fn a_start_that_is_cut_short_forgets_the_rest_the_next_time() {
    let mut bench = after_wide_items();
    // Twice from the same state: what the first start wrote is lost, or not.
    bench.crash();
    bench.crash();
    assert!(bench.container.paths.len() < 20);
    bench.put(1, 1, &names(1));
    bench.crash();
    assert_eq!(found(&bench, "c.w1n9 = 9").len(), 1);
    bench.verify();
}

/// What the janitor does on two visits far enough apart.
fn clean_up_twice(bench: &Bench) {
    bench.account.clean_up().unwrap();
    bench.clock.advance(Duration::from_secs(u64::from(FORGOTTEN_AFTER)));
    bench.account.clean_up().unwrap();
}

#[test]
fn paths_of_deleted_items_are_forgotten_while_the_server_runs() {
    let mut bench = after_wide_items();
    clean_up_twice(&bench);
    assert!(bench.container.paths.len() < 20, "{}", bench.container.paths.len());
    assert_eq!(found(&bench, "c.n = 7").len(), 1);
    assert_eq!(found(&bench, "ARRAY_CONTAINS(c.o.deep, 8)").len(), 1);
    assert!(found(&bench, "c.w3n5 = 5").is_empty());
    // They come back under new numbers, in another order.
    for item in (0..WIDE).rev() {
        bench.put(item, item % 3, &names(item));
    }
    for crashes in [true, false] {
        for item in [0, 7, WIDE - 1] {
            assert_eq!(found(&bench, &format!("c.w{item}n5 = 5")).len(), 1, "{item}");
            assert!(found(&bench, &format!("c.w{item}n5 = 6")).is_empty());
        }
        bench.verify();
        if crashes { bench.crash() } else { bench.restart() }
    }
}

#[test]
fn paths_that_are_written_between_the_visits_stay() {
    let mut bench = after_wide_items();
    bench.account.clean_up().unwrap();
    bench.put(3, 0, &names(3));
    bench.clock.advance(Duration::from_secs(u64::from(FORGOTTEN_AFTER)));
    bench.account.clean_up().unwrap();
    let known = bench.container.paths.len() as u64;
    assert!((NAMES..NAMES + 20).contains(&known), "{known}");
    for _ in 0..2 {
        assert_eq!(found(&bench, "c.w3n5 = 5").len(), 1);
        assert!(found(&bench, "c.w4n5 = 5").is_empty());
        bench.verify();
        bench.crash();
    }
}

#[test]
fn nothing_is_forgotten_while_a_transaction_from_before_is_open() {
    let bench = after_wide_items();
    let known = bench.container.paths.len();
    bench.change(&key(0), |txn| {
        let item = format!(r#"{{"id":"3","pk":0{}}}"#, names(3));
        txn.upsert_item(item.as_bytes(), &WriteOptions::default()).unwrap();
        clean_up_twice(&bench);
        assert_eq!(bench.container.paths.len(), known);
    });
    bench.account.clean_up().unwrap();
    let known = bench.container.paths.len() as u64;
    assert!((NAMES..NAMES + 20).contains(&known), "{known}");
    assert_eq!(found(&bench, "c.w3n5 = 5").len(), 1);
    bench.verify();
}
