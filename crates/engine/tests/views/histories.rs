//! Random histories: writes, moves of the key, removals, expiry, renames, splits, merges, restarts and
//! cuts in the middle of a round. Whenever the views have followed, each equals the projection of its
//! source.

use super::support::{Bench, Random, create_container, setting};
use super::{check_equal, create_view, follow};
use armilla_engine::Container;
use armilla_engine::items::WriteOptions;
use armilla_model::partition_key::PartitionKey;
use armilla_storage::{Batch, Durability, Keyspace, Store};
use std::sync::Arc;
use std::time::Duration;

const SOURCE: &str =
    r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},"defaultTtl":-1}"#;

/// Name, key, source and definition of every view.
const VIEWS: [(&str, &str, &str, &str); 5] = [
    ("listed", "/k", "c", "SELECT c.id, c.pk, c.k, c.deep.n FROM c"),
    ("all", "/id", "c", "SELECT * FROM c"),
    ("some", "/k", "c", "SELECT c.k, c.n AS m FROM c WHERE c.n > 3"),
    ("above", "/m", "some", "SELECT c.m, c.k FROM c"),
    ("newest", "/k", "c", "SELECT TOP 2 c.k, c.n, c.id FROM c WHERE c.n < 8 ORDER BY c.n DESC"),
];

struct History {
    bench: Bench,
    random: Random,
}

#[test]
fn a_view_equals_the_projection_of_its_source() {
    let (first, steps) = (setting("ARMILLA_VIEWS_SEED", 1), setting("ARMILLA_VIEWS_STEPS", 150));
    for seed in first..first + setting("ARMILLA_VIEWS_RUNS", 3) {
        println!("seed {seed}");
        let bench = Bench::new(SOURCE, |options| {
            options.dials.turn("views", "extended").unwrap();
        });
        let mut history = History { bench, random: Random(seed) };
        for (name, key, source, definition) in VIEWS {
            history.step();
            create_view(&history.bench.account, (name, key), source, definition).unwrap();
        }
        for _ in 0..steps {
            history.step();
            if history.random.one_in(12) {
                history.check();
            }
        }
        history.check();
        history.bench.verify();
    }
}

impl History {
    fn container(&self, name: &str) -> Arc<Container> {
        self.bench.account.container("d", name).unwrap()
    }

    fn check(&self) {
        // What has expired is gone for readers at once, and from views when it is removed.
        self.bench.account.clean_up().unwrap();
        follow(&self.bench);
        for (name, _, source, _) in VIEWS {
            check_equal(&self.container(source), &self.container(name));
        }
    }

    fn item(&mut self) -> (PartitionKey, String, String) {
        let random = &mut self.random;
        let (pk, id) = (format!("p{}", random.below(5)), format!("i{}", random.below(12)));
        let k = match random.below(8) {
            0 => "null".to_owned(),
            1 => r#"[1,2]"#.to_owned(),
            2 => format!("\"{}\"", "x".repeat(3000)),
            number => format!("\"k{number}\""),
        };
        let ttl = if random.one_in(6) {
            format!(r#","ttl":{}"#, 1 + random.below(20))
        } else {
            String::new()
        };
        let k = if random.one_in(6) { String::new() } else { format!(r#","k":{k}"#) };
        let n = random.below(9);
        let text = format!(r#"{{"id":"{id}","pk":"{pk}"{k},"n":{n},"deep":{{"n":{n}}}{ttl}}}"#);
        (PartitionKey::parse(&format!(r#"["{pk}"]"#)).unwrap(), id, text)
    }

    fn step(&mut self) {
        let options = WriteOptions::default();
        match self.random.below(31) {
            0..=12 => {
                let (_, _, text) = self.item();
                self.bench.upsert(&text);
            }
            13..=15 => {
                let (key, id, _) = self.item();
                self.bench.change(&key, |txn| drop(txn.delete_item(&id, &options)));
            }
            16 | 17 => self.several(),
            18 => {
                let (key, id, text) = self.item();
                // A replacement that gives the item another id.
                let renamed = text.replacen(&id, &format!("{id}-again"), 1);
                self.bench
                    .change(&key, |txn| drop(txn.replace_item(&id, renamed.as_bytes(), &options)));
            }
            19 => {
                let (key, _, _) = self.item();
                self.bench.change(&key, |txn| txn.delete_partition().unwrap());
            }
            20 => self.bench.clock.advance(Duration::from_secs(1 + self.random.below(10))),
            21 => self.bench.account.clean_up().unwrap(),
            22 => self.bench.scale_to(1 + self.random.below(4) as u32),
            23 => drop(self.bench.merge()),
            24 => self.split_a_view(),
            25 => self.restart(),
            26 => self.cut(),
            27 => self.rewind(),
            28 => self.cut_and_delete(),
            _ => drop(self.bench.account.follow_views()),
        }
    }

    /// Several changes of one logical partition in one transaction.
    fn several(&mut self) {
        let (key, _, _) = self.item();
        let texts: Vec<_> = (0..6).map(|_| self.item()).collect();
        self.bench.change(&key, |txn| {
            for (of, id, text) in &texts {
                if *of == key {
                    drop(txn.upsert_item(text.as_bytes(), &WriteOptions::default()));
                } else {
                    drop(txn.delete_item(id, &WriteOptions::default()));
                }
            }
        });
    }

    fn split_a_view(&mut self) {
        let (name, ..) = self.random.one_of(&VIEWS);
        if let Ok(view) = self.bench.account.container("d", name) {
            self.bench.beside(view).scale_to(1 + self.random.below(3) as u32);
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
        for _ in 0..self.random.below(200) {
            std::hint::spin_loop();
        }
        let store = Arc::new(self.bench.store.fork());
        follower.join().unwrap();
        self.bench.reopen(store);
    }

    /// Items that are copied when the server is gone, and that are deleted before the views follow again.
    fn cut_and_delete(&mut self) {
        let items: Vec<_> = (0..4).map(|_| self.item()).collect();
        items.iter().for_each(|(_, _, text)| drop(self.bench.upsert(text)));
        self.cut();
        for (key, id, _) in &items {
            self.bench.change(key, |txn| drop(txn.delete_item(id, &WriteOptions::default())));
        }
    }

    /// The server is gone between the writes of a round and its positions: the round is done again, and
    /// nothing changes twice.
    fn rewind(&mut self) {
        let states = self.states(&*self.bench.store);
        self.bench.account.follow_views();
        self.bench.account.close().unwrap();
        let store = self.bench.store.fork();
        let mut batch = Batch::new();
        for (key, state) in states {
            batch.put(Keyspace::Meta, key, state);
        }
        store.commit(batch, Durability::Synced).unwrap();
        self.bench.reopen(Arc::new(store));
    }

    /// The stored states of all views.
    fn states(&self, store: &dyn Store) -> Vec<(Vec<u8>, Vec<u8>)> {
        let snapshot = store.snapshot();
        let state = |(name, ..): &(&str, &str, &str, &str)| {
            let view = self.bench.account.container("d", name).ok()?;
            let key = [&[b'W'][..], &view.number.to_be_bytes()].concat();
            let state = snapshot.get(Keyspace::Meta, &key).unwrap()?;
            Some((key, state.to_vec()))
        };
        VIEWS.iter().filter_map(state).collect()
    }
}

#[test]
fn a_view_of_a_container_hashed_the_old_way_moves_items_too() {
    let bench = Bench::new(SOURCE, |_| {});
    let old = r#"{"id":"old","partitionKey":{"paths":["/pk"]}}"#;
    let source = create_container(&bench.account, old);
    let body = super::value(
        r#"{"id":"v","partitionKey":{"paths":["/a","/b"],"kind":"MultiHash","version":2},
            "materializedViewDefinition":{"sourceCollectionId":"old","definition":"SELECT c.a, c.b FROM c"}}"#,
    );
    let new = armilla_engine::account::NewContainer { definition: &body, throughput: None };
    let view = bench.account.create_container("d", &new).unwrap();
    let beside = bench.beside(source.clone());
    for round in 0..3 {
        for number in 0..30 {
            let (a, b) = ((number + round) % 4, (number * round) % 5);
            beside
                .upsert(&format!(r#"{{"id":"{number}","pk":"{}","a":{a},"b":"{b}"}}"#, number % 3));
        }
        follow(&bench);
        check_equal(&source, &view);
    }
}
