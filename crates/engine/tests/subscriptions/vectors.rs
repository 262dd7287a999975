//! Delays and the halving of failing batches, case by case.

use super::value;
use armilla_engine::subscriptions::definition::Definition;
use armilla_engine::subscriptions::entry::{
    DeliveryFailure, EntryKey, EntryOperation, Group, SubscriptionEntry,
};
use armilla_engine::subscriptions::queue::{DeliveryOutcome, DeliveryQueue, Moment, Rules};
use armilla_model::Value;
use armilla_model::lsn::Lsn;
use armilla_model::partition_key::{Epk, PartitionKey};
use std::time::{Duration, Instant};

fn cases(name: &str) -> Vec<Value> {
    let vectors = value(include_str!("../views/views.json"));
    vectors.get(name).unwrap().as_array().unwrap().to_vec()
}

fn definition(retry: &str) -> Definition {
    let text = format!(r#"{{"id":"s","target":{{"kind":"sproc","id":"p"}},"retry":{retry}}}"#);
    Definition::parse(&value(&text), None).unwrap()
}

#[test]
fn pauses_double_up_to_their_most() {
    for case in cases("delays") {
        let retry = definition(&case.get("retry").unwrap().to_json()).retry;
        let expected = case.get("delaysMs").unwrap().as_array().unwrap();
        for (number, expected) in expected.iter().enumerate() {
            let delay = retry.delay(number as u32 + 1).as_millis() as i64;
            assert_eq!(Some(delay), expected.as_i64(), "behind attempt {}", number + 1);
        }
        assert_eq!(retry.delay(10_000).as_millis(), 60_000, "and never more");
    }
}

fn group(number: u64, key: u8) -> Group {
    let entry = SubscriptionEntry {
        key: EntryKey { lsn: Lsn(number), log: 0, sequence: 0 },
        operation: EntryOperation::Create,
        second: 1,
        partition_key: PartitionKey::default(),
        id: number.to_string().into(),
        item: None,
        previous: None,
    };
    let epk = Epk::from_bytes(&[key; 16]);
    Group {
        lsn: Lsn(number),
        epk,
        second: 1,
        entries: vec![entry],
        bytes: 10,
        depth: 0,
        broken: None,
    }
}

/// Sends until nothing is left: what was sent without repetitions, and what was given up.
fn deliver(queue: &mut DeliveryQueue, rules: &Rules, poison: &[u64]) -> (Vec<Vec<u64>>, Vec<u64>) {
    let (mut sent, mut dead): (Vec<Vec<u64>>, Vec<u64>) = (Vec::new(), Vec::new());
    let mut instant = Instant::now();
    while !queue.is_empty() {
        let now = Moment { instant, second: 1, chance: 1.0 };
        for exhausted in queue.exhausted(now) {
            let keys = queue.settle(exhausted.batch, now);
            dead.extend(keys.into_iter().map(|key| key.lsn.0));
        }
        let Some(sending) = queue.next(rules, now) else {
            instant += Duration::from_secs(1);
            continue;
        };
        let numbers: Vec<u64> = sending.groups.iter().map(|group| group.lsn.0).collect();
        let fails = numbers.iter().any(|number| poison.contains(number));
        let outcome = if fails {
            DeliveryOutcome::Failed(DeliveryFailure::told("no"), None)
        } else {
            DeliveryOutcome::Done
        };
        if sent.last() != Some(&numbers) {
            sent.push(numbers);
        }
        queue.finish(sending.batch, outcome, rules, now);
    }
    (sent, dead)
}

#[test]
fn failing_batches_are_halved() {
    let rules = Rules::from(&definition("{}"));
    let cases = cases("halving");
    assert_eq!(cases.len(), 4);
    for case in cases {
        let numbers = |value: &Value| -> Vec<u64> {
            value.as_array().unwrap().iter().map(|n| n.as_i64().unwrap() as u64).collect()
        };
        let mut queue = DeliveryQueue::default();
        let entries = case.get("entries").unwrap().as_i64().unwrap() as u64;
        (0..entries).for_each(|number| queue.push(group(number, 1), Instant::now()));
        let (sent, dead) = deliver(&mut queue, &rules, &numbers(case.get("poison").unwrap()));
        let expected: Vec<Vec<u64>> =
            case.get("sent").unwrap().as_array().unwrap().iter().map(numbers).collect();
        assert_eq!(sent, expected);
        assert_eq!(dead, numbers(case.get("deadLettered").unwrap()));
    }
}

#[test]
fn one_failing_key_holds_nobody_else_back() {
    let text = r#"{"id":"s","target":{"kind":"webhook","url":"https://a"},"parallel":2}"#;
    let rules = Rules::from(&Definition::parse(&value(text), None).unwrap());
    let mut queue = DeliveryQueue::default();
    let begun = Instant::now();
    // Twenty transactions over five keys; the first of the third key is poison.
    (0..20).for_each(|number| queue.push(group(number, (number % 5) as u8), begun));
    let mut done = Vec::new();
    let mut rounds = 0;
    // The clock stands nearly still: far less passes than the attempts at one transaction need.
    while done.len() < 16 {
        rounds += 1;
        assert!(rounds < 1_000, "the other keys wait: {done:?}");
        let instant = begun + Duration::from_millis(rounds * 10);
        let now = Moment { instant, second: 1, chance: 1.0 };
        while let Some(sending) = queue.next(&rules, now) {
            let fails = sending.groups.iter().any(|group| group.lsn.0 == 2);
            let outcome = if fails {
                DeliveryOutcome::Failed(DeliveryFailure::told("no"), None)
            } else {
                DeliveryOutcome::Done
            };
            done.extend(queue.finish(sending.batch, outcome, &rules, now));
        }
    }
    assert!(done.iter().all(|key| key.lsn.0 % 5 != 2), "{done:?}");
    for key in [0, 1, 3, 4] {
        let of_key: Vec<_> = done.iter().map(|done| done.lsn.0).filter(|n| n % 5 == key).collect();
        assert!(of_key.is_sorted(), "{of_key:?}");
    }
    assert_eq!(queue.held().len(), 1);
}
