//! The feed property: whatever happens to the partitions, every reader learns every living item's
//! last version, in order, and comes to an end.

use crate::readers::{Key, Reader, Replayer};
use crate::support::{Bench, Random, commit, rows, setting, upsert};
use armilla_engine::Container;
use armilla_engine::feed::Start;
use armilla_engine::items::WriteOptions;
use armilla_engine::ranges::EpkSpan;
use armilla_model::clock::Clock;
use armilla_model::partition_key::{Epk, PartitionKey};
use armilla_model::{Error, Value};
use std::collections::BTreeMap;

const STEPS: u64 = 3600;
const PARTITIONS: u64 = 12;
const IDS: u64 = 8;
const DEFINITION: &str = r#"{"id":"c","partitionKey":{"paths":["/pk"]},"defaultTtl":-1,
    "changeFeedPolicy":{"retentionDuration":10000}}"#;

pub(crate) fn key(pk: &str) -> PartitionKey {
    PartitionKey::parse(&Value::array(vec![Value::from(pk)]).to_json()).unwrap()
}

pub(crate) fn epk(container: &Container, pk: &str) -> Epk {
    container.settings().policy.partition_key.epk(&key(pk))
}

/// An item's version, and the second in which it expires.
type Model = BTreeMap<Key, (i64, Option<u64>)>;

struct History {
    bench: Bench,
    random: Random,
    model: Model,
    version: i64,
    splits: usize,
    merges: usize,
}

impl History {
    /// One transaction of a few writes in one logical partition.
    fn write(&mut self) {
        let pk = format!("p{}", self.random.below(PARTITIONS));
        let mut txn = self.bench.begin(&key(&pk));
        let now = self.bench.clock.now_seconds();
        let mut after = self.model.clone();
        for _ in 0..1 + self.random.below(4) {
            let id = format!("i{}", self.random.below(IDS));
            let place = (pk.clone(), id.clone());
            let alive = after.get(&place).is_some_and(|(_, end)| end.is_none_or(|end| now < end));
            if alive && self.random.below(4) == 0 {
                txn.delete_item(&id, &WriteOptions::default()).unwrap();
                after.remove(&place);
                continue;
            }
            self.version += 1;
            let ttl = (self.random.below(5) == 0).then(|| 1 + self.random.below(20));
            let ttl_text = ttl.map_or(String::new(), |ttl| format!(r#","ttl":{ttl}"#));
            let text =
                format!(r#"{{"id":"{id}","pk":"{pk}","version":{}{ttl_text}}}"#, self.version);
            txn.upsert_item(text.as_bytes(), &WriteOptions::default()).unwrap();
            after.insert(place, (self.version, ttl.map(|ttl| now + ttl)));
        }
        commit(txn).unwrap();
        self.model = after;
    }

    fn living(&self) -> BTreeMap<Key, i64> {
        let now = self.bench.clock.now_seconds();
        let alive = self.model.iter().filter(|(_, (_, end))| end.is_none_or(|end| now < end));
        alive.map(|(key, (version, _))| (key.clone(), *version)).collect()
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..=79 => self.write(),
            80..=83 => self.bench.clock.advance_seconds(self.random.below(5)),
            84..=87 => self.bench.account.clean_up().unwrap(),
            88..=90 => {
                let before = self.bench.container.partitions().len();
                self.bench.scale_to(1 + self.random.below(6) as u32);
                self.splits += usize::from(self.bench.container.partitions().len() > before);
            }
            91..=93 => {
                let before = self.bench.container.partitions().len();
                self.bench.scale_to(1);
                self.merges += usize::from(self.bench.merge() < before);
            }
            94 => self.bench.restart(),
            _ => self.check_queries(),
        }
    }

    /// Queries see what the model has, also when the ranges change between their pages.
    fn check_queries(&mut self) {
        let wanted = 1 + self.random.below(6) as u32;
        let change = |bench: &Bench, page: usize| {
            if page == 1 {
                bench.scale_to(wanted);
            } else if page == 3 {
                bench.scale_to(1);
                bench.merge();
            }
        };
        for (text, sorted) in
            [("SELECT * FROM c", false), ("SELECT * FROM c ORDER BY c.version", true)]
        {
            let found = rows(&self.bench.container, text, 5, |page| change(&self.bench, page));
            let versions: Vec<_> =
                found.iter().map(|row| row.get("version").unwrap().as_i64().unwrap()).collect();
            assert!(!sorted || versions.is_sorted(), "{versions:?}");
            let mut expected: Vec<_> = self.living().into_values().collect();
            expected.sort_unstable();
            let mut versions = versions;
            versions.sort_unstable();
            assert_eq!(versions, expected, "{text}");
        }
        let count = rows(&self.bench.container, "SELECT VALUE COUNT(1) FROM c", 10, |_| {});
        assert_eq!(count, [Value::from(self.living().len() as i64)]);
    }
}

fn readers(container: &Container) -> Vec<Reader> {
    let half = Epk::parse_hex("1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF").unwrap();
    let low = EpkSpan { min: Epk::default(), max: Some(half.clone()) };
    let odd = EpkSpan::parse("0A", "33").unwrap();
    let one = EpkSpan::of_prefix(&epk(container, "p3"));
    vec![
        Reader::by_ranges(EpkSpan::all(), 3),
        Reader::by_ranges(EpkSpan::all(), 50),
        Reader::by_ranges(low, 2),
        Reader::by_ranges(odd.clone(), 4),
        Reader::by_ranges(one.clone(), 1),
        Reader::across(EpkSpan::all(), 3),
        Reader::across(odd, 7),
        Reader::across(one, 2),
    ]
}

fn run(seed: u64, steps: u64) {
    println!("seed {seed}, {steps} steps");
    let bench = Bench::new(DEFINITION, |_| {});
    let mut history = History {
        bench,
        random: Random(seed),
        model: Model::new(),
        version: 0,
        splits: 0,
        merges: 0,
    };
    let mut readers = readers(&history.bench.container);
    let mut replayer = Replayer::new(&history.bench.container);
    let mut random = Random(seed ^ 0xfeed);
    for step in 0..steps {
        history.step();
        let reader = random.below(readers.len() as u64 * 2) as usize;
        if let Some(reader) = readers.get_mut(reader) {
            reader.poll(&history.bench.container, &mut random);
        }
        if step % 97 == 0 {
            replayer.drain(&history.bench.container, 1 + random.below(20) as usize);
        }
    }
    history.bench.account.clean_up().unwrap();
    history.bench.verify();
    history.check_queries();
    let living = history.living();
    for reader in &mut readers {
        reader.drain(&history.bench.container, &mut random);
        for (key, version) in &living {
            if reader.covers(&history.bench.container, &key.0) {
                assert_eq!(reader.seen.get(key), Some(version), "{key:?} was missed");
            }
        }
    }
    replayer.drain(&history.bench.container, 10);
    let replayed: Vec<_> = replayer.items.keys().collect();
    assert_eq!(replayed, living.keys().collect::<Vec<_>>());
    assert!(history.splits > 3 && history.merges > 3 && replayer.expired > 3);
}

#[test]
fn every_reader_learns_every_last_version() {
    let steps = setting("ARMILLA_FEED_STEPS", STEPS);
    match setting("ARMILLA_FEED_SEED", 0) {
        0 => (1..=3).for_each(|seed| run(seed, steps / 3)),
        seed => run(seed, steps),
    }
}

#[test]
fn a_page_never_ends_inside_a_transaction() {
    let bench = Bench::new(DEFINITION, |_| {});
    let mut txn = bench.begin(&key("p"));
    for id in 0..7 {
        let text = format!(r#"{{"id":"{id}","pk":"p","version":1}}"#);
        txn.create_item(text.as_bytes(), &WriteOptions::default()).unwrap();
    }
    commit(txn).unwrap();
    upsert(&bench.container, &key("p"), r#"{"id":"x","pk":"p","version":2}"#).unwrap();
    let partition = bench.container.partitions()[0].clone();
    let all = EpkSpan::all();
    let first = bench.container.read_changes(&partition, &all, Start::Beginning, 2).unwrap();
    assert_eq!(first.items.len(), 7);
    let after = Start::After(first.position);
    let second = bench.container.read_changes(&partition, &all, after, 2).unwrap();
    assert_eq!(second.items.len(), 1);
    let versions =
        bench.container.read_versions(&partition, &all, Start::After(first.position), 9).unwrap();
    assert_eq!(versions.items.len(), 1);
}

#[test]
fn a_time_start_finds_what_came_then() {
    let bench = Bench::new(DEFINITION, |_| {});
    let mut seconds = Vec::new();
    for round in 0..20 {
        bench.clock.advance_seconds(10);
        seconds.push(bench.clock.now_seconds());
        for pk in ["a", "b", "c"] {
            let text = format!(r#"{{"id":"{round}","pk":"{pk}","version":{round}}}"#);
            upsert(&bench.container, &key(pk), &text).unwrap();
        }
        if round == 8 {
            bench.scale_to(3);
        }
        if round == 14 {
            bench.scale_to(1);
            bench.merge();
        }
    }
    for (round, second) in seconds.iter().enumerate() {
        // The second itself is left out: who resumes from the last `_ts` has seen it.
        for (start, rounds) in [(second - 1, 20 - round), (*second, 19 - round)] {
            let mut found = 0;
            for partition in bench.container.partitions().iter() {
                let start = Start::AfterSecond(start);
                let page =
                    bench.container.read_changes(partition, &EpkSpan::all(), start, 1000).unwrap();
                found += page.items.len();
            }
            assert_eq!(found, rounds * 3, "from round {round}");
        }
    }
}

#[test]
fn versions_are_trimmed_and_late_readers_are_told() {
    let definition = DEFINITION.replace("10000", "5");
    let bench = Bench::new(&definition, |_| {});
    let partition = bench.container.partitions()[0].clone();
    let all = EpkSpan::all();
    let start = bench.container.read_versions(&partition, &all, Start::Now, 1).unwrap().position;
    upsert(&bench.container, &key("a"), r#"{"id":"1","pk":"a","version":1}"#).unwrap();
    let read = |start| bench.container.read_versions(&partition, &all, start, 10);
    assert_eq!(read(Start::After(start)).unwrap().items.len(), 1);
    bench.clock.advance_seconds(299);
    bench.account.clean_up().unwrap();
    assert_eq!(read(Start::After(start)).unwrap().items.len(), 1);
    bench.clock.advance_seconds(2);
    bench.account.clean_up().unwrap();
    assert!(matches!(read(Start::After(start)), Err(Error::BadRequest(_))));
    assert!(matches!(read(Start::Beginning), Err(Error::BadRequest(_))));
    let now = read(Start::Now).unwrap().position;
    assert!(read(Start::After(now)).unwrap().items.is_empty());
}

#[test]
fn versions_begin_when_the_policy_asks_for_them() {
    let plain = r#"{"id":"c","partitionKey":{"paths":["/pk"]}}"#;
    let bench = Bench::new(plain, |_| {});
    upsert(&bench.container, &key("a"), r#"{"id":"1","pk":"a","version":1}"#).unwrap();
    let partition = bench.container.partitions()[0].clone();
    let early = partition.lsn();
    let all = EpkSpan::all();
    let read = |start| bench.container.read_versions(&partition, &all, start, 10);
    assert!(matches!(read(Start::Now), Err(Error::BadRequest(_))));
    let kept = armilla_model::json::parse(DEFINITION.as_bytes()).unwrap();
    bench.account.replace_container(&bench.container, &kept, None).unwrap();
    let now = read(Start::Now).unwrap().position;
    upsert(&bench.container, &key("a"), r#"{"id":"1","pk":"a","version":2}"#).unwrap();
    let versions = read(Start::After(now)).unwrap().items;
    assert_eq!(versions[0].previous_lsn, Some(early));
    let off = armilla_model::json::parse(plain.as_bytes()).unwrap();
    bench.account.replace_container(&bench.container, &off, None).unwrap();
    bench.account.clean_up().unwrap();
    bench.account.replace_container(&bench.container, &kept, None).unwrap();
    assert!(matches!(read(Start::After(now)), Err(Error::BadRequest(_))));
}

#[test]
fn positions_in_an_empty_container_survive_a_restart() {
    let mut bench = Bench::new(DEFINITION, |_| {});
    let definition =
        armilla_model::json::parse(br#"{"id":"later","partitionKey":{"paths":["/pk"]}}"#).unwrap();
    upsert(&bench.container, &key("a"), r#"{"id":"1","pk":"a","version":1}"#).unwrap();
    let new = armilla_engine::account::NewContainer { definition: &definition, throughput: None };
    let later = bench.account.create_container("d", &new).unwrap();
    let head = later.partitions()[0].lsn();
    bench.restart();
    let later = bench.account.container("d", "later").unwrap();
    upsert(&later, &key("a"), r#"{"id":"1","pk":"a","version":1}"#).unwrap();
    let partition = later.partitions()[0].clone();
    let page = later.read_changes(&partition, &EpkSpan::all(), Start::After(head), 10).unwrap();
    assert_eq!(page.items.len(), 1);
}
