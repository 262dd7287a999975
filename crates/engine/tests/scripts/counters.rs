//! Counters that scripts keep beside items stay right, whoever else writes and whatever throws.

use crate::bench::Bench;
use crate::support::Random;
use armilla_model::Value;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

const THREADS: u64 = 16;
const CALLS: u64 = 50;
const POSTS: u64 = 3;

/// Adds an item and counts it in the post; throws at one of four moments, or at none.
const ADD: &str = r#"
function add(post, item, counter, fault) {
    var container = getContext().getCollection();
    function fail(at) { if (fault === at) throw new Error(4711, "at " + at); }
    container.readDocument(container.getAltLink() + "/docs/" + post, function (error, found) {
        if (error) throw error;
        fail(1);
        found[counter] += 1;
        container.replaceDocument(found._self, found, { etag: found._etag }, function (error) {
            if (error) throw error;
            fail(2);
            item.pk = post;
            container.createDocument(container.getSelfLink(), item, function (error) {
                if (error) throw error;
                fail(3);
                getContext().getResponse().setBody(found[counter]);
            });
        });
    });
    fail(0);
}
"#;

#[test]
fn counts_equal_items_after_many_threads_and_faults() {
    let bench = Bench::plain();
    for post in 0..POSTS {
        bench.put(&format!(r#"{{"id":"post{post}","pk":"post{post}","comments":0,"likes":0}}"#));
    }
    bench.procedure("add", ADD).unwrap();
    let added = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (bench, added) = (&bench, &added);
            scope.spawn(move || {
                let mut random = Random(thread + 1);
                for call in 0..CALLS {
                    let (post, fault) = (random.below(POSTS), random.below(6));
                    let kind = if random.below(2) == 0 { "comments" } else { "likes" };
                    // Some ids come twice: the second create conflicts, and undoes the counting.
                    let id = if random.below(10) == 0 { 0 } else { thread * CALLS + call + 1 };
                    let arguments = format!(
                        r#"["post{post}",{{"id":"{kind}{id}","kind":"{kind}"}},"{kind}",{fault}]"#
                    );
                    let key = format!(r#"["post{post}"]"#);
                    let outcome = bench.execute("add", &key, &arguments).result;
                    assert!(fault >= 4 || outcome.is_err(), "fault {fault} was ignored");
                    added.fetch_add(u64::from(outcome.is_ok()), Ordering::Relaxed);
                }
            });
        }
    });
    let mut counted = 0;
    for post in 0..POSTS {
        let stored = bench.item(&format!(r#"["post{post}"]"#), &format!("post{post}")).unwrap();
        for kind in ["comments", "likes"] {
            let query = format!(
                "SELECT VALUE COUNT(1) FROM c WHERE c.pk = 'post{post}' AND c.kind = '{kind}'"
            );
            let items = bench.query(&query).unwrap()[0].as_i64().unwrap();
            assert_eq!(stored.get(kind).and_then(Value::as_i64), Some(items), "{post} {kind}");
            counted += items.unsigned_abs();
        }
    }
    assert_eq!(counted, added.load(Ordering::Relaxed));
    assert!(counted > THREADS, "most calls without a fault succeed");
}
