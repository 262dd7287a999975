//! Webhooks as targets: at least once, in order per key, held back by nobody but one's own key.

use super::{Receiver, bench, count, settle, status, subscribe, text, value};
use armilla_engine::subscriptions::entry::{DeliveryFailure, EntryKey};
use armilla_engine::subscriptions::queue::DeliveryOutcome;
use armilla_model::Value;
use std::collections::BTreeMap;
use std::time::Duration;

const QUICK: &str = r#""retry":{"maxAttempts":4,"minDelayMs":1,"maxDelayMs":3}"#;

fn hook(rest: &str) -> String {
    format!(
        r#"{{"id":"s","target":{{"kind":"webhook","url":"https://a"}},"feed":{{"start":"beginning"}},{QUICK}{rest}}}"#
    )
}

fn is_poison(entry: &Value) -> bool {
    entry.get("item").and_then(|item| item.get("poison")).is_some()
}

#[test]
fn one_poison_entry_among_a_thousand_costs_nobody_else_anything() {
    let bench = bench();
    let receiver = Receiver::new(|entries| match entries.iter().any(is_poison) {
        true => DeliveryOutcome::Failed(
            DeliveryFailure { status: Some(500), message: "no".to_owned() },
            None,
        ),
        false => DeliveryOutcome::Done,
    });
    bench.account.set_courier(Box::new(receiver.clone()));
    for number in 0..1000 {
        let poison = if number == 333 { r#","poison":1"# } else { "" };
        bench.upsert(&format!(r#"{{"id":"{number}","pk":"p{}"{poison}}}"#, number % 50));
    }
    subscribe(&bench, &hook(r#","deadLetter":{"container":"dead"}"#));
    settle(&bench);
    let told = status(&bench, "s");
    assert_eq!((count(&told, "delivered"), count(&told, "deadLettered")), (999, 1));
    let dead = bench.account.container("d", "dead").unwrap();
    assert_eq!(dead.document_count(), 1);
    // First deliveries that were taken are in order for each key.
    let mut last: BTreeMap<String, i64> = BTreeMap::new();
    let mut seen = std::collections::HashSet::new();
    for entry in receiver.entries() {
        if seen.insert(text(&entry, "key")) {
            let key = entry.get("partitionKey").unwrap().to_json();
            let lsn = entry.get("lsn").unwrap().as_i64().unwrap();
            assert!(last.insert(key, lsn).is_none_or(|before| before < lsn), "out of order");
        }
    }
    assert_eq!(seen.len(), 1000);
    // A batch keeps its delivery id in every attempt, and no two have the same.
    let parcels = receiver.parcels.lock().unwrap();
    let mut by_id: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (uuid, _, entries) in parcels.iter() {
        let keys: Vec<String> = entries.iter().map(|entry| text(entry, "key")).collect();
        let known = by_id.entry(uuid).or_insert_with(|| keys.clone());
        assert_eq!(*known, keys);
    }
    assert!(parcels.iter().any(|(_, attempt, _)| *attempt == 4));
}

#[test]
fn redriving_every_dead_letter_leaves_none() {
    let bench = bench();
    let refuse = |_: &[Value]| {
        DeliveryOutcome::Refused(DeliveryFailure { status: Some(400), message: "no".to_owned() })
    };
    let receiver = Receiver::new(refuse);
    bench.account.set_courier(Box::new(receiver.clone()));
    for number in 0..12 {
        bench.upsert(&format!(r#"{{"id":"{number}","pk":"p{}"}}"#, number % 5));
    }
    let subscription = subscribe(&bench, &hook(r#","deadLetter":{"container":"dead"}"#));
    settle(&bench);
    let letters = bench.account.letters(&bench.container, &subscription, None).unwrap();
    assert_eq!(letters.len(), 12);
    receiver.forget();
    receiver.answer_with(|_| DeliveryOutcome::Done);
    for letter in letters {
        let (sender, heard) = std::sync::mpsc::channel();
        letter.deliver(move |outcome| sender.send(outcome).unwrap());
        assert_eq!(heard.recv().unwrap(), DeliveryOutcome::Done);
        letter.remove().unwrap();
    }
    assert!(receiver.by_key().values().all(|times| *times == 1));
    assert_eq!(receiver.by_key().len(), 12);
    assert!(bench.account.dead_letters(&bench.container, &subscription).unwrap().0.is_empty());
}

#[test]
fn a_dead_letter_that_cannot_be_kept_keeps_its_entry_pending() {
    let bench = bench();
    let receiver = Receiver::new(|_| DeliveryOutcome::Refused(DeliveryFailure::told("no")));
    bench.account.set_courier(Box::new(receiver));
    subscribe(&bench, &hook(r#","deadLetter":{"container":"dead"}"#));
    let dead = bench.account.container("d", "dead").unwrap();
    bench.account.delete_container(&dead, None).unwrap();
    drop(dead);
    bench.upsert(r#"{"id":"1","pk":"p"}"#);
    assert!(!bench.account.settle_subscriptions(Duration::from_millis(100)));
    let told = status(&bench, "s");
    assert_eq!((text(&told, "state"), count(&told, "deadLettered")), ("retrying".into(), 0));
    super::create_container(&bench.account, super::DEAD);
    settle(&bench);
    assert_eq!(count(&status(&bench, "s"), "deadLettered"), 1);
}

#[test]
fn answers_decide_what_happens_next() {
    let bench = bench();
    let receiver = Receiver::new(|entries| {
        let key = |entry: &Value| EntryKey::parse(&text(entry, "key")).unwrap();
        let failures =
            entries.iter().filter(|entry| is_poison(entry)).map(|entry| (key(entry), false));
        match failures.collect::<Vec<_>>() {
            failures if failures.is_empty() => DeliveryOutcome::Done,
            failures => DeliveryOutcome::Partly(failures, DeliveryFailure::told("these not")),
        }
    });
    bench.account.set_courier(Box::new(receiver.clone()));
    for number in 0..6 {
        let poison = if number % 3 == 0 { r#","poison":1"# } else { "" };
        bench.upsert(&format!(r#"{{"id":"{number}","pk":"p"{poison}}}"#));
    }
    subscribe(&bench, &hook(r#","onExhausted":"skip""#));
    settle(&bench);
    let told = status(&bench, "s");
    assert_eq!((count(&told, "delivered"), count(&told, "skipped")), (4, 2));
    assert_eq!(receiver.entries().len(), 6, "nothing came twice");
    // Gone stops it; resuming goes on with the entry that was refused.
    receiver.answer_with(|_| {
        DeliveryOutcome::Gone(DeliveryFailure { status: Some(410), message: "gone".to_owned() })
    });
    bench.upsert(r#"{"id":"9","pk":"p"}"#);
    while text(&status(&bench, "s"), "state") != "stopped" {
        bench.account.settle_subscriptions(Duration::from_millis(5));
    }
    assert_eq!(text(&status(&bench, "s"), "reason"), "gone");
    receiver.answer_with(|_| DeliveryOutcome::Done);
    bench.account.resume_subscription(&bench.container.subscription("s").unwrap());
    settle(&bench);
    assert_eq!(count(&status(&bench, "s"), "delivered"), 5);
}

#[test]
fn without_a_place_for_dead_letters_it_stops_before_the_entry() {
    let bench = bench();
    let receiver = Receiver::new(|_| {
        DeliveryOutcome::Failed(DeliveryFailure::told("no"), Some(Duration::from_millis(1)))
    });
    bench.account.set_courier(Box::new(receiver.clone()));
    subscribe(&bench, &hook(""));
    bench.upsert(r#"{"id":"1","pk":"p"}"#);
    while text(&status(&bench, "s"), "state") != "stopped" {
        bench.account.settle_subscriptions(Duration::from_millis(5));
    }
    assert_eq!(receiver.entries().len(), 4);
    let told = status(&bench, "s");
    assert_eq!((text(&told, "reason"), count(&told, "retried")), ("exhausted".into(), 4));
    let range = &told.get("ranges").unwrap().as_array().unwrap()[0];
    assert_eq!(count(range, "pending"), 1, "the position is before it");
}

#[test]
fn pausing_rewinding_and_replacing() {
    let bench = bench();
    let receiver = Receiver::new(|_| DeliveryOutcome::Done);
    bench.account.set_courier(Box::new(receiver.clone()));
    for number in 0..5 {
        bench.upsert(&format!(r#"{{"id":"{number}","pk":"p","n":{number}}}"#));
    }
    let subscription =
        subscribe(&bench, &hook(r#","project":"SELECT c.id, c.n * 10 AS tens FROM c""#));
    settle(&bench);
    assert_eq!(receiver.ids(), ["0", "1", "2", "3", "4"]);
    assert_eq!(receiver.entries()[3].get("item").unwrap().to_json(), r#"{"id":"3","tens":30}"#);
    let keys = receiver.by_key();
    let rewind =
        |to: &str| bench.account.rewind_subscription(&bench.container, &subscription, &value(to));
    assert!(rewind(r#""beginning""#).is_err(), "it runs");
    let (sender, paused) = std::sync::mpsc::channel();
    bench.account.pause_subscription(&subscription, move || sender.send(()).unwrap());
    bench.account.follow_subscriptions();
    paused.recv().unwrap();
    rewind(r#""beginning""#).unwrap();
    receiver.forget();
    bench.upsert(r#"{"id":"5","pk":"p","n":5}"#);
    bench.account.follow_subscriptions();
    assert!(receiver.entries().is_empty(), "it is paused");
    bench.account.resume_subscription(&subscription);
    settle(&bench);
    assert_eq!(receiver.ids(), ["0", "1", "2", "3", "4", "5"]);
    assert!(keys.keys().all(|key| receiver.by_key().contains_key(key)), "keys stay the same");
    // Another definition goes on from the same position.
    receiver.forget();
    let body = value(&hook(r#","filter":{"where":"c.n > 6"}"#));
    bench.account.replace_subscription(&bench.container, "s", &body, None).unwrap();
    for number in 6..9 {
        bench.upsert(&format!(r#"{{"id":"{number}","pk":"p","n":{number}}}"#));
    }
    settle(&bench);
    assert_eq!(receiver.ids(), ["7", "8"]);
    let tried = subscription.try_out(&bench.container, &value(r#"{"last":3}"#)).unwrap();
    let tried: Vec<_> = tried.get("entries").unwrap().as_array().unwrap().to_vec();
    let delivered: Vec<_> =
        tried.iter().map(|row| row.get("delivered").unwrap().as_bool().unwrap()).collect();
    assert_eq!(delivered, [true, true, false], "the newest first");
    let tried = subscription.try_out(&bench.container, &value(r#"{"item":{"n":7}}"#)).unwrap();
    assert_eq!(
        Value::object(tried).to_json(),
        r#"{"entries":[{"delivered":true,"item":{"n":7}}]}"#
    );
    assert!(subscription.try_out(&bench.container, &value("{}")).is_err());
    // By range.
    bench.account.pause_subscription(&subscription, || {});
    bench.account.follow_subscriptions();
    let head = bench.container.partitions()[0].lsn().0;
    rewind(&format!(r#"{{"lsn":{{"0":{}}}}}"#, head - 1)).unwrap();
    assert!(rewind(r#"{"lsn":{"7":1}}"#).is_err());
    receiver.forget();
    bench.account.resume_subscription(&subscription);
    settle(&bench);
    assert_eq!(receiver.ids(), ["8"]);
}

#[test]
fn a_disabled_subscription_keeps_its_position() {
    let bench = bench();
    let receiver = Receiver::new(|_| DeliveryOutcome::Done);
    bench.account.set_courier(Box::new(receiver.clone()));
    subscribe(&bench, &hook(r#","enabled":false"#));
    bench.upsert(r#"{"id":"1","pk":"p"}"#);
    bench.account.follow_subscriptions();
    assert!(receiver.entries().is_empty());
    assert_eq!(text(&status(&bench, "s"), "state"), "paused");
    bench.account.replace_subscription(&bench.container, "s", &value(&hook("")), None).unwrap();
    settle(&bench);
    assert_eq!(receiver.ids(), ["1"]);
}
