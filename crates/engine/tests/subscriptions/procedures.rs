//! Procedures as targets: effects happen once, failures are told apart, loops end.

use super::support::{create_container, rows};
use super::{
    PATIENCE, bench, bench_with, count, procedure, settle, status, subscribe, text, value,
};
use std::time::{Duration, Instant};

/// Counts the entries of a logical partition in an item of it, and remembers their keys.
pub(crate) const COUNT: &str = r#"function (entries) {
    var all = getContext().getCollection();
    all.readDocument(all.getAltLink() + "/docs/counter", function (error, counter) {
        var fresh = { id: "counter", type: "counter", pk: entries[0].partitionKey[0], n: 0, keys: [] };
        counter = error ? fresh : counter;
        entries.forEach(function (entry) { counter.n += 1; counter.keys.push(entry.key); });
        all.upsertDocument(all.getSelfLink(), counter);
    });
}"#;
pub(crate) const COUNTED: &str = r#"{"id":"count","target":{"kind":"sproc","id":"count"},"filter":{"where":"c.type = 'e'"},
    "feed":{"start":"beginning"},"retry":{"minDelayMs":1,"maxDelayMs":5}}"#;

#[test]
fn every_entry_is_counted_once_and_own_writes_are_left_out() {
    let bench = bench();
    procedure(&bench, "count", COUNT);
    for number in 0..10 {
        bench.upsert(&format!(r#"{{"id":"a{number}","pk":"p{}","type":"e"}}"#, number % 3));
    }
    subscribe(&bench, COUNTED);
    settle(&bench);
    for number in 10..40 {
        bench.upsert(&format!(r#"{{"id":"a{number}","pk":"p{}","type":"e"}}"#, number % 3));
        bench.upsert(&format!(r#"{{"id":"b{number}","pk":"p{}","type":"other"}}"#, number % 3));
    }
    settle(&bench);
    let counters =
        rows(&bench.container, "SELECT VALUE c.n FROM c WHERE c.type = 'counter'", 10, |_| {});
    let sum: i64 = counters.iter().map(|n| n.as_i64().unwrap()).sum();
    assert_eq!((counters.len(), sum), (3, 40));
    let status = status(&bench, "count");
    assert_eq!((text(&status, "state"), count(&status, "delivered")), ("running".into(), 40));
    let range = &status.get("ranges").unwrap().as_array().unwrap()[0];
    assert_eq!((count(range, "pending"), count(range, "oldestPendingSeconds")), (0, 0));
}

#[test]
fn entries_that_a_procedure_wants_again_come_alone() {
    let bench = bench();
    // The first time it takes only the first entry; the others are to come again.
    procedure(
        &bench,
        "some",
        r#"function (entries) {
        var all = getContext().getCollection();
        var seen = { id: "seen" + entries.length + entries[0].id, pk: "p", type: "seen", ids: entries.map(function (e) { return e.id; }) };
        all.createDocument(all.getSelfLink(), seen);
        getContext().getResponse().setBody({ failures: entries.slice(1).map(function (e) { return e.key; }) });
    }"#,
    );
    for number in 0..4 {
        bench.upsert(&format!(r#"{{"id":"e{number}","pk":"p","type":"e"}}"#));
    }
    subscribe(
        &bench,
        r#"{"id":"s","target":{"kind":"sproc","id":"some"},"filter":{"where":"c.type = 'e'"},
        "feed":{"start":"beginning"},"retry":{"minDelayMs":1,"maxDelayMs":2,"halve":false}}"#,
    );
    settle(&bench);
    let seen = rows(
        &bench.container,
        "SELECT VALUE c.ids FROM c WHERE c.type = 'seen' ORDER BY c._ts",
        10,
        |_| {},
    );
    let mut seen: Vec<usize> = seen.iter().map(|ids| ids.as_array().unwrap().len()).collect();
    seen.sort_unstable();
    assert_eq!(seen, [1, 2, 3, 4]);
    assert_eq!(count(&status(&bench, "s"), "delivered"), 4);
}

#[test]
fn a_procedure_that_throws_leaves_nothing_but_a_dead_letter_that_can_be_redriven() {
    let bench = bench();
    procedure(&bench, "count", COUNT.replace("var all", "if (entries.some(function (e) { return e.item.poison; })) throw new Error('poison'); var all").as_str());
    for number in 0..8 {
        bench.upsert(&format!(
            r#"{{"id":"e{number}","pk":"p","type":"e","poison":{}}}"#,
            number == 3
        ));
    }
    subscribe(
        &bench,
        r#"{"id":"count","target":{"kind":"sproc","id":"count"},"filter":{"where":"c.type = 'e'"},
        "feed":{"start":"beginning"},"retry":{"maxAttempts":3,"minDelayMs":1,"maxDelayMs":2},"deadLetter":{"container":"dead"}}"#,
    );
    settle(&bench);
    let told = status(&bench, "count");
    assert_eq!((count(&told, "delivered"), count(&told, "deadLettered")), (7, 1));
    let subscription = bench.container.subscription("count").unwrap();
    let (letters, more) = bench.account.dead_letters(&bench.container, &subscription).unwrap();
    assert!(letters.len() == 1 && !more);
    let letter = &letters[0];
    assert_eq!(count(letter, "attempts"), 3);
    assert!(text(letter.get("error").unwrap(), "message").contains("poison"));
    assert_eq!(text(letter.get("entry").unwrap().get("item").unwrap(), "id"), "e3");
    // Repaired, it is delivered, and delivering it twice changes nothing.
    procedure(&bench, "count", COUNT);
    let letters = bench.account.letters(&bench.container, &subscription, None).unwrap();
    for _ in 0..2 {
        let (sender, receiver) = std::sync::mpsc::channel();
        letters[0].deliver(move |outcome| sender.send(outcome).unwrap());
        assert_eq!(receiver.recv().unwrap(), armilla_engine::subscriptions::DeliveryOutcome::Done);
    }
    letters[0].remove().unwrap();
    assert!(bench.account.dead_letters(&bench.container, &subscription).unwrap().0.is_empty());
    let counter =
        rows(&bench.container, "SELECT VALUE c.n FROM c WHERE c.type = 'counter'", 10, |_| {});
    assert_eq!(counter[0].as_i64(), Some(8));
    let ids = Some(&["9:9:9".to_owned()][..]);
    assert!(bench.account.letters(&bench.container, &subscription, ids).is_err());
}

#[test]
fn two_subscriptions_that_write_for_each_other_end_at_a_depth() {
    let bench = bench();
    for (name, from, to) in [("ping", "a", "b"), ("pong", "b", "a")] {
        let body = format!(
            r#"function (entries) {{
            var all = getContext().getCollection();
            entries.forEach(function (entry) {{
                all.createDocument(all.getSelfLink(), {{ id: entry.id + "x", pk: "p", type: "{to}" }});
            }});
        }}"#
        );
        procedure(&bench, name, &body);
        subscribe(
            &bench,
            &format!(
                r#"{{"id":"{name}","target":{{"kind":"sproc","id":"{name}"}},"filter":{{"where":"c.type = '{from}'"}},
            "deadLetter":{{"container":"dead"}}}}"#
            ),
        );
    }
    bench.upsert(r#"{"id":"e","pk":"p","type":"a"}"#);
    settle(&bench);
    let written = rows(&bench.container, "SELECT VALUE c.id FROM c ORDER BY c.id", 100, |_| {});
    assert_eq!(written.len(), 9, "one by a client, eight by subscriptions: {written:?}");
    let dead = bench.account.container("d", "dead").unwrap();
    let letters = rows(&dead, "SELECT VALUE c.error.message FROM c", 10, |_| {});
    assert_eq!(letters.len(), 1);
    assert!(letters[0].as_str().unwrap().starts_with("loop"));
}

#[test]
fn a_subscription_stops_when_its_procedure_is_gone_and_goes_on_later() {
    let bench = bench();
    procedure(&bench, "count", COUNT);
    let subscription = subscribe(&bench, COUNTED);
    bench
        .account
        .delete_script(&bench.container, armilla_engine::scripts::Kind::Procedure, "count", None)
        .unwrap();
    bench.upsert(r#"{"id":"e","pk":"p","type":"e"}"#);
    for _ in 0..3 {
        bench.account.follow_subscriptions();
    }
    let told = status(&bench, "count");
    assert_eq!(
        (text(&told, "state"), text(&told, "reason")),
        ("stopped".into(), "targetMissing".into())
    );
    procedure(&bench, "count", COUNT);
    bench.account.resume_subscription(&subscription);
    settle(&bench);
    assert_eq!(count(&status(&bench, "count"), "delivered"), 1);
}

#[test]
fn all_versions_bring_deletes_and_what_was_before() {
    let bench = bench_with(
        r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},"changeFeedPolicy":{"retentionDuration":60}}"#,
    );
    create_container(&bench.account, r#"{"id":"other","partitionKey":{"paths":["/pk"]}}"#);
    procedure(
        &bench,
        "log",
        r#"function (entries) {
        var all = getContext().getCollection();
        entries.forEach(function (e) {
            all.createDocument(all.getSelfLink(), { id: "log" + e.lsn, pk: "p", type: "log", op: e.operation,
                now: e.item ? e.item.n : null, before: e.previous ? e.previous.n : null });
        });
    }"#,
    );
    subscribe(
        &bench,
        r#"{"id":"s","feed":{"mode":"allVersionsAndDeletes"},"target":{"kind":"sproc","id":"log"},
        "filter":{"where":"c.type = 'e' OR previous.type = 'e'"}}"#,
    );
    bench.upsert(r#"{"id":"e","pk":"p","type":"e","n":1}"#);
    bench.upsert(r#"{"id":"e","pk":"p","type":"e","n":2}"#);
    let key = bench.key_of(&value(r#"{"pk":"p"}"#));
    bench.change(&key, |txn| {
        drop(txn.delete_item("e", &armilla_engine::items::WriteOptions::default()).unwrap())
    });
    settle(&bench);
    let seen = rows(
        &bench.container,
        "SELECT c.op, c.now, c.before FROM c WHERE c.type = 'log' ORDER BY c.id",
        10,
        |_| {},
    );
    let seen: Vec<String> = seen.iter().map(armilla_model::Value::to_json).collect();
    assert_eq!(
        seen,
        [
            r#"{"op":"create","now":1,"before":null}"#,
            r#"{"op":"replace","now":2,"before":1}"#,
            r#"{"op":"delete","now":null,"before":2}"#
        ]
    );
}

#[test]
fn a_procedure_on_a_view_may_not_write_to_it() {
    let bench = bench();
    let view = create_container(
        &bench.account,
        r#"{"id":"v","partitionKey":{"paths":["/type"],"kind":"Hash","version":2},
        "materializedViewDefinition":{"sourceCollectionId":"c","definition":"SELECT c.id, c.type FROM c"}}"#,
    );
    let on_view = bench.beside(view);
    procedure(
        &on_view,
        "w",
        "function (entries) { var all = getContext().getCollection(); all.createDocument(all.getSelfLink(), { id: 'x', type: 'e' }); }",
    );
    subscribe(
        &on_view,
        r#"{"id":"s","target":{"kind":"sproc","id":"w"},"retry":{"maxAttempts":1},"onExhausted":"skip"}"#,
    );
    bench.upsert(r#"{"id":"e","pk":"p","type":"e"}"#);
    while bench.account.follow_views() != armilla_engine::views::Followed::Everything {}
    settle(&bench);
    let told = status(&on_view, "s");
    assert_eq!((count(&told, "delivered"), count(&told, "skipped")), (0, 1), "{}", told.to_json());
    assert_eq!(on_view.container.document_count(), 1);
}

/// One thread runs all subscriptions, and a procedure that a client runs on the dead letters has their key for
/// seconds.
#[test]
fn a_locked_key_of_dead_letters_holds_up_its_own_subscription_alone() {
    let bench = bench();
    procedure(&bench, "fail", "function () { throw new Error('never'); }");
    procedure(&bench, "count", COUNT);
    let dead = bench.account.container("d", "dead").unwrap();
    let key = armilla_model::partition_key::PartitionKey::parse(r#"["held"]"#).unwrap();
    let epk = dead.key_definition().epk(&key);
    let lock = dead.lock_and_wait(&epk);
    subscribe(
        &bench,
        r#"{"id":"held","target":{"kind":"sproc","id":"fail"},"feed":{"start":"beginning"},"filter":{"where":"c.type = 'e'"},
            "retry":{"maxAttempts":1,"minDelayMs":1,"maxDelayMs":1},"deadLetter":{"container":"dead"}}"#,
    );
    subscribe(&bench, COUNTED);
    for number in 0..3 {
        bench.upsert(&format!(r#"{{"id":"e{number}","pk":"p{number}","type":"e"}}"#));
    }
    let begun = Instant::now();
    while count(&status(&bench, "count"), "delivered") < 3
        || status(&bench, "held").get("lastError").is_none()
    {
        bench.account.follow_subscriptions();
        assert!(begun.elapsed() < PATIENCE, "the other subscription is held up");
    }
    assert_eq!(count(&status(&bench, "held"), "deadLettered"), 0);

    // Its place in the queue is before whoever comes now.
    let (sender, receiver) = std::sync::mpsc::channel();
    dead.lock(&epk, move |lock| {
        sender.send(lock).unwrap();
        None
    })
    .unwrap();
    drop(lock);
    while count(&status(&bench, "held"), "deadLettered") == 0 {
        bench.account.settle_subscriptions(Duration::from_millis(20));
        assert!(begun.elapsed() < PATIENCE, "dead letters do not have their turn");
    }
    drop(receiver.recv_timeout(PATIENCE).unwrap());
    settle(&bench);
    let held = bench.container.subscription("held").unwrap();
    assert_eq!(bench.account.dead_letters(&bench.container, &held).unwrap().0.len(), 3);
}

/// A condition that is slow and matches nothing is judged a turn at a time.
#[test]
fn a_subscription_that_reads_for_long_lets_the_others_have_their_turn() {
    const ITEMS: i64 = 300;
    let bench = bench();
    procedure(&bench, "count", COUNT);
    let long = "a".repeat(60_000);
    for number in 0..ITEMS {
        bench.upsert(&format!(r#"{{"id":"e{number}","pk":"p","s":"{long}"}}"#));
    }
    subscribe(
        &bench,
        r#"{"id":"slow","target":{"kind":"sproc","id":"count"},"feed":{"start":"beginning"},
            "filter":{"where":"LENGTH(REVERSE(REPLACE(UPPER(c.s), 'A', 'bcd'))) < 0"}}"#,
    );
    let progress = bench.account.follow_subscriptions();
    let first = count(&status(&bench, "slow"), "filtered");
    assert!(first > 0 && first < ITEMS, "{first} of {ITEMS} entries were judged in one turn");
    assert!(!progress.is_idle && progress.due.is_some_and(|due| due <= Instant::now()));
    settle(&bench);
    assert_eq!(count(&status(&bench, "slow"), "filtered"), ITEMS);
}
