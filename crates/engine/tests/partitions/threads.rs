//! Splits and merges while many write and query: nothing is lost and nothing is wrong.

use crate::feed::key;
use crate::support::{Bench, Random, begin, commit, rows};
use armilla_engine::Container;
use armilla_engine::items::WriteOptions;
use armilla_model::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const WRITERS: u64 = 16;
const QUERIERS: u64 = 8;
const ROUNDS: u32 = 24;
/// Writers that make no transaction for so long have stopped.
const STALL_MAX: Duration = Duration::from_secs(60);

/// A writer owns a logical partition: two items that always say the same number, and an item per
/// number.
fn write(container: &Arc<Container>, writer: u64, stop: &AtomicBool, done: &AtomicU64) {
    let pk = format!("w{writer}");
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        let mut txn = begin(container, &key(&pk));
        for text in [
            format!(r#"{{"id":"left","pk":"{pk}","number":{number}}}"#),
            format!(r#"{{"id":"right","pk":"{pk}","number":{number}}}"#),
            format!(r#"{{"id":"n{}","pk":"{pk}","of":{number}}}"#, number % 64),
        ] {
            txn.upsert_item(text.as_bytes(), &WriteOptions::default()).unwrap();
        }
        commit(txn).unwrap();
        let item = container.read_item(&key(&pk), "left").unwrap().expect("it was just written");
        let item = json::parse(&item.text).unwrap();
        assert_eq!(item.get("number").unwrap().as_i64(), Some(number));
        done.fetch_add(1, Ordering::Relaxed);
    }
}

/// Waits until writers have gone on for a while: each of them once, on average.
fn await_writers(written: &AtomicU64) {
    let enough = written.load(Ordering::Relaxed) + WRITERS;
    let started = Instant::now();
    while written.load(Ordering::Relaxed) < enough {
        assert!(started.elapsed() < STALL_MAX, "the writers do not go on");
        std::thread::yield_now();
    }
}

/// A querier sees both items of each writer with the same number, and never goes back.
fn query(container: &Arc<Container>, querier: u64, stop: &AtomicBool) -> usize {
    let mut seen = vec![0; WRITERS as usize];
    let mut answers = 0;
    while !stop.load(Ordering::Relaxed) {
        match querier % 2 {
            0 => {
                let pairs = rows(
                    container,
                    "SELECT c.pk, c.id, c.number FROM c WHERE IS_DEFINED(c.number)",
                    1000,
                    |_| {},
                );
                for writer in 0..WRITERS {
                    let pk = Value::from(format!("w{writer}"));
                    let of_writer: Vec<_> = pairs
                        .iter()
                        .filter(|row| row.get("pk") == Some(&pk))
                        .map(|row| row.get("number").unwrap().as_i64().unwrap())
                        .collect();
                    let [left, right] = of_writer[..] else {
                        assert!(
                            of_writer.is_empty() && seen[writer as usize] == 0,
                            "{of_writer:?}"
                        );
                        continue;
                    };
                    assert_eq!(left, right, "half a transaction was seen");
                    assert!(left >= seen[writer as usize], "a query went back in time");
                    seen[writer as usize] = left;
                }
            }
            _ => {
                let numbers = rows(container, "SELECT VALUE c.of FROM c ORDER BY c.of", 17, |_| {});
                let numbers: Vec<_> = numbers.iter().map(|row| row.as_i64().unwrap()).collect();
                assert!(numbers.is_sorted());
                let count = rows(container, "SELECT VALUE COUNT(1) FROM c", 10, |_| {});
                assert!(count[0].as_i64().unwrap() <= (WRITERS * 66) as i64);
            }
        }
        answers += 1;
    }
    answers
}

#[test]
fn splits_and_merges_under_writers_and_queriers() {
    let bench = Bench::new(r#"{"id":"c","partitionKey":{"paths":["/pk"]}}"#, |_| {});
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut random = Random(7);
    let (mut splits, mut merges) = (0, 0);
    std::thread::scope(|scope| {
        let container = &bench.container;
        let (stop, written) = (&stop, &written);
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| scope.spawn(move || write(container, writer, stop, written)))
            .collect();
        let queriers: Vec<_> = (0..QUERIERS)
            .map(|querier| scope.spawn(move || query(container, querier, stop)))
            .collect();
        for _ in 0..ROUNDS {
            let before = container.partitions().len();
            bench.scale_to(2 + random.below(5) as u32);
            splits += usize::from(container.partitions().len() > before);
            await_writers(written);
            bench.scale_to(1);
            let before = container.partitions().len();
            merges += usize::from(bench.merge() < before);
            await_writers(written);
        }
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        let answers: usize = queriers.into_iter().map(|querier| querier.join().unwrap()).sum();
        println!("{splits} splits, {merges} merges, {answers} queries");
    });
    println!("{} transactions", written.load(Ordering::Relaxed));
    assert!(splits > 5 && merges > 5);
    bench.verify();
    for writer in 0..WRITERS {
        let item = bench.container.read_item(&key(&format!("w{writer}")), "right").unwrap();
        assert!(item.is_some());
    }
}
