//! Random histories: creates in transactions of one or several, splits, merges, restarts and cuts in the
//! middle of a round. In the end every item was counted exactly once by a procedure, and delivered at least
//! once to a webhook with one key, in order.

use super::procedures::{COUNT, COUNTED};
use super::support::{Bench, Random, rows, setting};
use super::{Receiver, bench, procedure, settle, subscribe, text, value};
use armilla_engine::items::WriteOptions;
use armilla_engine::subscriptions::entry::DeliveryFailure;
use armilla_engine::subscriptions::queue::DeliveryOutcome;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

struct History {
    bench: Bench,
    random: Random,
    receiver: Receiver,
    /// Items made, by logical partition.
    made: BTreeMap<String, u64>,
    next: u64,
}

#[test]
fn effects_happen_once_and_deliveries_at_least_once() {
    let first = setting("ARMILLA_SUBSCRIPTIONS_SEED", 1);
    let steps = setting("ARMILLA_SUBSCRIPTIONS_STEPS", 120);
    for seed in first..first + setting("ARMILLA_SUBSCRIPTIONS_RUNS", 4) {
        println!("seed {seed}");
        let attempts = AtomicU64::new(seed);
        let receiver = Receiver::new(move |_| {
            match attempts.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9) >> 7 & 3 {
                0 => DeliveryOutcome::Failed(DeliveryFailure::told("not now"), None),
                _ => DeliveryOutcome::Done,
            }
        });
        let bench = bench();
        bench.account.set_courier(Box::new(receiver.clone()));
        procedure(&bench, "count", COUNT);
        let random = Random(seed);
        let mut history = History { bench, random, receiver, made: BTreeMap::new(), next: 0 };
        (0..10).for_each(|_| history.write());
        subscribe(&history.bench, COUNTED);
        subscribe(
            &history.bench,
            r#"{"id":"hook","target":{"kind":"webhook","url":"https://a"},"filter":{"where":"c.type = 'e'"},
                "feed":{"start":"beginning"},"batch":{"maxItems":7},
                "retry":{"maxAttempts":-1,"minDelayMs":1,"maxDelayMs":2}}"#,
        );
        for _ in 0..steps {
            history.step();
        }
        history.check();
        history.bench.verify();
    }
}

impl History {
    fn step(&mut self) {
        match self.random.below(20) {
            0..=10 => self.write(),
            11 => self.bench.scale_to(1 + self.random.below(4) as u32),
            12 => drop(self.bench.merge()),
            13 => self.restart(),
            14 | 15 => self.cut(),
            _ => {
                self.bench
                    .account
                    .settle_subscriptions(Duration::from_millis(self.random.below(4)));
            }
        }
    }

    fn write(&mut self) {
        let pk = format!("p{}", self.random.below(7));
        let key = self.bench.key_of(&value(&format!(r#"{{"pk":"{pk}"}}"#)));
        let count = 1 + self.random.below(3);
        let first = self.next;
        self.next += count;
        self.bench.change(&key, |txn| {
            for number in first..first + count {
                let item = format!(r#"{{"id":"e{number}","pk":"{pk}","type":"e"}}"#);
                txn.create_item(item.as_bytes(), &WriteOptions::default()).unwrap();
            }
        });
        *self.made.entry(pk).or_default() += count;
    }

    fn reopen(&mut self, store: armilla_storage::MemoryStore) {
        self.bench.reopen(Arc::new(store));
        self.bench.account.set_courier(Box::new(self.receiver.clone()));
    }

    fn restart(&mut self) {
        self.bench.account.close().unwrap();
        let store = self.bench.store.fork();
        self.reopen(store);
    }

    /// The server is gone in the middle of a round: what was committed until then is all there is.
    fn cut(&mut self) {
        let account = self.bench.account.clone();
        let most = Duration::from_millis(self.random.below(5));
        let follower = std::thread::spawn(move || account.settle_subscriptions(most));
        for _ in 0..self.random.below(200_000) {
            std::hint::spin_loop();
        }
        let store = self.bench.store.fork();
        follower.join().unwrap();
        self.reopen(store);
    }

    fn check(&self) {
        settle(&self.bench);
        let counters = rows(
            &self.bench.container,
            "SELECT c.pk, c.n, c.keys FROM c WHERE c.type = 'counter'",
            100,
            |_| {},
        );
        let counted: BTreeMap<String, u64> = counters
            .iter()
            .map(|counter| {
                (text(counter, "pk"), counter.get("n").unwrap().as_i64().unwrap() as u64)
            })
            .collect();
        assert_eq!(counted, self.made);
        for counter in &counters {
            let keys = counter.get("keys").unwrap().as_array().unwrap();
            let different: BTreeSet<_> = keys.iter().map(|key| key.as_str().unwrap()).collect();
            assert_eq!(different.len(), keys.len(), "an entry was counted twice");
        }
        let mut keys: BTreeMap<String, String> = BTreeMap::new();
        let mut last: BTreeMap<String, i64> = BTreeMap::new();
        for entry in self.receiver.entries() {
            let (key, id) = (text(&entry, "key"), text(&entry, "id"));
            if keys.insert(id, key.clone()).is_some_and(|known| {
                assert_eq!(known, key, "an entry has one key");
                true
            }) {
                continue;
            }
            let (of, lsn) = (
                entry.get("partitionKey").unwrap().to_json(),
                entry.get("lsn").unwrap().as_i64().unwrap(),
            );
            let before = last.insert(of, lsn);
            assert!(before.is_none_or(|before| before <= lsn), "first deliveries are in order");
        }
        assert_eq!(keys.len() as u64, self.made.values().sum::<u64>(), "every item was delivered");
    }
}
