//! However many requests come, and whatever they say, what is kept of a container has an end; also over a restart.

use crate::bench::Bench;
use armilla_advisor::limits::{CONTAINER_BYTES_MAX, CONTAINERS_MAX, SHAPES_MAX};
use armilla_advisor::observe::{self, Kept, Seen, Verb};
use armilla_storage::disk::MemoryDisk;

/// A query of its own shape, as long as the log keeps one.
fn query(number: usize) -> String {
    format!(
        r#"{{"query":"SELECT c.a{number} FROM c WHERE c.b{number} = 1 {}"}}"#,
        "AND c.x = 1 ".repeat(120)
    )
}

#[test]
fn shapes_and_bytes_of_a_container_have_an_end() {
    let bench = Bench::new();
    let filled = bench.container("filled", "/id", 1, "");
    let body = |number: usize| {
        let members: Vec<String> =
            (0..150).map(|at| format!(r#""p{number}x{at}":"{}""#, "v".repeat(30))).collect();
        format!(r#"{{"id":"i{number}","type":"k{}",{}}}"#, number % 100, members.join(","))
    };
    bench.put(&filled, &body(0));
    for number in 0..1_500 {
        let seen =
            |verb| Seen { key: Some(format!("[\"{number}\"]")), ..bench.seen(&filled, verb) };
        let asked = Seen { query: Some(query(number)), ..seen(Verb::Query) };
        let activity = asked.activity;
        bench.tell(asked);
        // Heads and steps in every combination, each with a body.
        for (at, verb) in [Verb::Create, Verb::Replace, Verb::Upsert].into_iter().enumerate() {
            let text = body(number * 3 + at);
            bench.tell(Seen {
                activity,
                item: Some(format!("i{number}")),
                replaced: Some(body(number).into()),
                written: Some(text.into()),
                ..seen(verb)
            });
        }
    }
    bench.observer.close();
    let workload = bench.observer.workload();
    let here = workload.shapes.iter().filter(|shape| shape.container == "filled").count();
    assert_eq!(here, SHAPES_MAX);
    assert!(workload.left_out > 0);
    let bytes = workload.bytes_of("shop", "filled");
    assert!(bytes > CONTAINER_BYTES_MAX / 2 && bytes <= CONTAINER_BYTES_MAX, "{bytes}");

    let disk = MemoryDisk::new();
    observe::keep(&disk, &workload).unwrap();
    let Kept::Found(kept) = observe::kept(&disk).unwrap() else { panic!("not found") };
    // Shapes come first when it is read: a recording may have to go for them.
    let again = kept.bytes_of("shop", "filled");
    assert!(again > CONTAINER_BYTES_MAX / 2 && again <= bytes, "{again}");
}

#[test]
fn containers_that_are_gone_make_room_for_new_ones() {
    let bench = Bench::new();
    for number in 0..CONTAINERS_MAX + 5 {
        let name = format!("c{number}");
        let container = bench.container(&name, "/id", 1, "");
        bench.read(&container, "[\"1\"]", "1");
        bench.account.delete_container(&container, None).unwrap();
    }
    let last = bench.container("last", "/id", 1, "");
    bench.read(&last, "[\"1\"]", "1");
    bench.observer.close();
    let workload = bench.observer.workload();
    assert!(workload.shapes.len() <= CONTAINERS_MAX);
    let told =
        workload.patterns.iter().any(|pattern| workload.shapes[pattern.head].container == "last");
    assert!(told, "the new container is observed");
}
