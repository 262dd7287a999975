//! The numbers inside `_rid`: none is given out twice, and inside a logical partition they go up, whatever becomes of
//! the ranges and however the server ends.

use crate::support::{Bench, value};
use armilla_model::rid;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

const DEFINITION: &str = r#"{"id":"c","partitionKey":{"paths":["/pk"],"version":2}}"#;
const KEYS: u64 = 16;

/// What was written so far.
#[derive(Default)]
struct Seen {
    written: u64,
    owners: HashMap<u64, String>,
    last: BTreeMap<u64, u64>,
}

impl Seen {
    /// Three new items in every logical partition.
    fn write(&mut self, bench: &Bench, when: &str) {
        for key in (0..KEYS).cycle().take(3 * KEYS as usize) {
            self.written += 1;
            let id = format!("{}", self.written);
            let written = bench.upsert(&format!(r#"{{"id":"{id}","pk":"{key}"}}"#));
            let before = self.last.insert(key, written.docno);
            assert!(before < Some(written.docno), "{when}: item {id} of {key} is numbered back");
            let owner = self.owners.insert(written.docno, id.clone());
            assert_eq!(owner, None, "{when}: {id} has the number of another item");
            let text = value(std::str::from_utf8(&written.text).unwrap());
            let shown = rid::decode(text.get("_rid").unwrap().as_str().unwrap()).unwrap();
            assert_eq!(rid::split_document(&shown), Some((bench.container.rid, written.docno)));
        }
    }
}

#[test]
fn no_number_is_given_out_twice_over_splits_merges_and_restarts() {
    let mut bench = Bench::new(DEFINITION, |_| {});
    let mut seen = Seen::default();
    for round in 0..3 {
        for partitions in [2, 3, 6] {
            bench.scale_to(partitions);
            seen.write(&bench, &format!("round {round}, {partitions} ranges"));
            // As after a crash: what was reserved counts, not what was given out.
            bench.reopen(Arc::new(bench.store.fork()));
            seen.write(&bench, &format!("round {round}, {partitions} ranges, started again"));
        }
        bench.scale_to(1);
        assert!(bench.merge() < 6);
        if round == 1 {
            bench.reopen(Arc::new(bench.store.fork()));
        }
        seen.write(&bench, &format!("round {round}, merged"));
    }
    bench.verify();
}

#[test]
fn items_show_the_half_of_the_key_space_in_their_rid() {
    let bench = Bench::new(DEFINITION, |options| {
        options.partitions = Some(2);
    });
    let shown =
        |text: &str| rid::document(bench.container.rid, bench.upsert(text).docno)[8..].to_vec();
    // The key `2` lies in the lower half, `1` in the upper.
    assert_eq!(shown(r#"{"id":"a","pk":"2"}"#), [1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(shown(r#"{"id":"b","pk":"1"}"#), [1, 0, 0, 0, 0, 0, 0, 8]);
    assert_eq!(shown(r#"{"id":"c","pk":"1"}"#), [2, 0, 0, 0, 0, 0, 0, 8]);
    assert_eq!(shown(r#"{"id":"d","pk":"2"}"#), [2, 0, 0, 0, 0, 0, 0, 0]);
}
