//! The path dictionary forgets what no item has, and never means two paths by one number.

use crate::bench::{Bench, small};
use armilla_engine::query::Access;
use std::collections::BTreeSet;

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
