//! Random histories: writes, changes of the new key, of ids and of unique values, removals, expiry, splits, merges, restarts
//! and cuts in the middle of a round or of the swap. Whenever the re-key has followed, it holds the source's items, and the
//! swap happens wholly or not at all.

use super::support::{Bench, Random, setting};
use super::{begin, bench, check, follow, items};
use armilla_engine::Container;
use armilla_engine::items::WriteOptions;
use armilla_model::partition_key::PartitionKey;
use std::sync::Arc;
use std::time::Duration;

struct History {
    bench: Bench,
    random: Random,
}

#[test]
fn a_rekey_holds_the_items_of_its_source() {
    let (first, steps) = (setting("ARMILLA_REKEY_SEED", 1), setting("ARMILLA_REKEY_STEPS", 200));
    for seed in first..first + setting("ARMILLA_REKEY_RUNS", 4) {
        println!("seed {seed}");
        let mut history = History { bench: bench(), random: Random(seed) };
        (0..20).for_each(|_| history.write());
        begin(&history.bench);
        for _ in 0..steps {
            history.step();
            if history.random.one_in(15) {
                history.check();
            }
        }
        history.check();
        history.swap();
        history.bench.verify();
    }
}

impl History {
    fn source(&self) -> Arc<Container> {
        self.bench.container.clone()
    }

    /// No two living items have the same id or unique value under one new key: ids and values are drawn from pools that
    /// belong to a logical partition of the source. They do change places all the time.
    fn item(&mut self) -> (PartitionKey, String, String) {
        let random = &mut self.random;
        let pk = random.below(4);
        let (id, u) = (random.below(6), random.below(12));
        let k = match random.below(6) {
            0 => "null".to_owned(),
            1 => random.below(3).to_string(),
            number => format!("\"k{number}\""),
        };
        let k = if random.one_in(8) { String::new() } else { format!(r#","k":{k}"#) };
        let ttl = if random.one_in(8) {
            format!(r#","ttl":{}"#, 1 + random.below(30))
        } else {
            String::new()
        };
        let (id, text) = (
            format!("i{pk}-{id}"),
            format!(r#"{{"id":"i{pk}-{id}","pk":"p{pk}"{k},"u":"{pk}-{u}","n":{u}.0{ttl}}}"#),
        );
        (PartitionKey::parse(&format!(r#"["p{pk}"]"#)).unwrap(), id, text)
    }

    fn write(&mut self) {
        let (key, _, text) = self.item();
        // Another item of the partition may have the unique value.
        self.bench
            .change(&key, |txn| drop(txn.upsert_item(text.as_bytes(), &WriteOptions::default())));
    }

    fn step(&mut self) {
        let options = WriteOptions::default();
        match self.random.below(26) {
            0..=11 => self.write(),
            12 | 13 => {
                let (key, id, _) = self.item();
                self.bench.change(&key, |txn| drop(txn.delete_item(&id, &options)));
            }
            14 => {
                // Gone and made again in one transaction.
                let (key, id, text) = self.item();
                self.bench.change(&key, |txn| {
                    drop(txn.delete_item(&id, &options));
                    drop(txn.create_item(text.as_bytes(), &options));
                });
            }
            15 | 16 => {
                let (key, id, text) = self.item();
                let other = format!("{}{}", &id[..id.len() - 1], self.random.below(6));
                let renamed = text.replacen(&id, &other, 1);
                self.bench
                    .change(&key, |txn| drop(txn.replace_item(&id, renamed.as_bytes(), &options)));
            }
            17 => self.bench.clock.advance(Duration::from_secs(1 + self.random.below(12))),
            18 => self.bench.account.clean_up().unwrap(),
            19 => self.bench.scale_to(1 + self.random.below(4) as u32),
            20 => drop(self.bench.merge()),
            21 => {
                let target = self.source().rekey_target().unwrap();
                self.bench.beside(target).scale_to(1 + self.random.below(3) as u32);
            }
            22 => self.restart(),
            23 => self.cut(),
            _ => drop(self.bench.account.follow_views()),
        }
    }

    fn restart(&mut self) {
        self.bench.account.close().unwrap();
        let store = Arc::new(self.bench.store.fork());
        self.bench.reopen(store);
    }

    /// The server is gone in the middle of a round: what was committed until then is all there is.
    fn cut(&mut self) {
        let account = self.bench.account.clone();
        let follower = std::thread::spawn(move || account.follow_views());
        for _ in 0..self.random.below(400) {
            std::hint::spin_loop();
        }
        let store = Arc::new(self.bench.store.fork());
        follower.join().unwrap();
        self.bench.reopen(store);
    }

    fn check(&self) {
        // What has expired is gone for readers at once, and from the re-key when it is removed.
        self.bench.account.clean_up().unwrap();
        follow(&self.bench.account);
        let (source, target) = (self.source(), self.source().rekey_target().unwrap());
        assert_eq!(items(&target), items(&source));
        assert_eq!(target.document_count(), source.document_count());
        let (_, behind, different) = check(&self.bench.account, &source).unwrap();
        assert_eq!((behind, different), (0, Vec::new()));
    }

    /// The server is gone somewhere in the swap: then it has happened, or it has not.
    fn swap(&mut self) {
        let before = items(&self.source());
        for attempt in 0.. {
            assert!(attempt < 100, "the swap never happens");
            let (account, source) = (self.bench.account.clone(), self.source());
            let swapping = std::thread::spawn(move || account.swap_rekey(&source, None).map(drop));
            for _ in 0..self.random.below(60_000) {
                std::hint::spin_loop();
            }
            let store = Arc::new(self.bench.store.fork());
            swapping.join().unwrap().unwrap();
            self.bench.reopen(store);
            let now = self.bench.account.container("d", "c").unwrap();
            assert_eq!(items(&now), before);
            if self.bench.account.container("d", "c-before-rekey").is_ok() {
                assert!(now.view().is_none() && now.rekey_target().is_none());
                let old = self.bench.account.container("d", "c-before-rekey").unwrap();
                assert_eq!(items(&old), before);
                self.bench
                    .beside(now)
                    .upsert(r#"{"id":"after","pk":"p9","k":"after","u":"after"}"#);
                self.bench.account.clean_up().unwrap();
                return;
            }
            assert!(now.rekey_target().is_some());
            follow(&self.bench.account);
        }
    }
}
