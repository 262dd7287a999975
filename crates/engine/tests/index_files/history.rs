//! Random histories: writes, seals, merges, crashes, stops, changed policies, splits and merges of
//! partitions. After every few steps the index, a scan of the items and a plain model must agree.
//!
//! `ARMILLA_INDEX_SEED=… ARMILLA_INDEX_STEPS=… cargo test -p armilla-engine --test index_files history`

use crate::bench::{Bench, small};
use crate::support::{Random, setting};
use armilla_engine::query::Access;
use armilla_model::Value;
use std::collections::BTreeMap;

const POLICIES: [&str; 4] = [
    "",
    r#","indexingPolicy":{"includedPaths":[{"path":"/n/?"}],"excludedPaths":[{"path":"/*"}]}"#,
    r#","indexingPolicy":{"excludedPaths":[{"path":"/n/?"}],"compositeIndexes":[[{"path":"/s"},
        {"path":"/n","order":"descending"}]]}"#,
    r#","indexingPolicy":{"excludedPaths":[{"path":"/*"}]}"#,
];

#[derive(Clone)]
struct Item {
    pk: u64,
    n: u64,
    s: u64,
    tags: Vec<u64>,
}

impl Item {
    fn random(random: &mut Random, pk: u64) -> Self {
        let tags = (0..random.below(4)).map(|_| random.below(5)).collect();
        Self { pk, n: random.below(8), s: random.below(4), tags }
    }

    fn members(&self) -> String {
        format!(r#","n":{},"s":"s{}","tags":{:?}"#, self.n, self.s, self.tags)
    }
}

#[test]
fn random_histories_agree_with_a_plain_scan() {
    let seed = setting("ARMILLA_INDEX_SEED", 20_261_116);
    let steps = setting("ARMILLA_INDEX_STEPS", 1500);
    println!("seed {seed}, {steps} steps");
    let mut random = Random(seed);
    let mut bench = Bench::new(small());
    let mut model = BTreeMap::new();
    for step in 0..steps {
        change(&mut bench, &mut random, &mut model);
        if step % 10 == 0 {
            check(&bench, &model);
        }
        if step % 100 == 0 {
            bench.verify();
        }
    }
    bench.container.wait_for_index();
    check(&bench, &model);
    bench.restart();
    assert_eq!(bench.account.opened_indexes(), (0, 0));
    bench.verify();
    check(&bench, &model);
}

fn change(bench: &mut Bench, random: &mut Random, model: &mut BTreeMap<u64, Item>) {
    let id = random.below(120);
    match random.below(100) {
        0..55 => {
            let pk = model.get(&id).map_or_else(|| random.below(9), |item| item.pk);
            let item = Item::random(random, pk);
            bench.put(id, pk, &item.members());
            model.insert(id, item);
        }
        55..80 => {
            if let Some(item) = model.remove(&id) {
                bench.delete(id, item.pk);
            }
        }
        80..83 => {
            // It expires, and its id is given to another item before or after it is swept.
            let pk = model.remove(&id).map_or_else(|| random.below(9), |item| item.pk);
            let item = Item::random(random, pk);
            bench.put(id, pk, &format!(r#"{},"ttl":1"#, item.members()));
            bench.clock.advance_seconds(2);
            if random.below(2) == 0 {
                bench.account.clean_up().unwrap();
            }
            bench.put(id, pk, &item.members());
            model.insert(id, item);
        }
        83..86 => {
            if let Some(item) = model.get_mut(&id) {
                *item = Item::random(random, item.pk);
                bench.recreate(id, item.pk, &item.members());
            }
        }
        86..90 => bench.account.clean_up().unwrap(),
        90..93 => bench.redefine(POLICIES[random.below(4) as usize]),
        93 => bench.scale_to(1 + random.below(3) as u32),
        94 => assert!(bench.merge() > 0, "a container has partitions"),
        95..98 => bench.crash(),
        _ => bench.restart(),
    }
}

fn check(bench: &Bench, model: &BTreeMap<u64, Item>) {
    let expected = |keep: &dyn Fn(&Item) -> bool| -> Vec<String> {
        let ids = model.iter().filter(|(_, item)| keep(item)).map(|(id, _)| id.to_string());
        let mut ids: Vec<String> = ids.collect();
        ids.sort_unstable();
        ids
    };
    let found = |condition: &str, access: Access| -> Vec<String> {
        let text = format!("SELECT VALUE c.id FROM c WHERE {condition}");
        let rows = bench.rows(&text, access);
        let mut ids: Vec<String> = rows.iter().map(|row| row.as_str().unwrap().into()).collect();
        ids.sort_unstable();
        ids
    };
    type Test<'t> = (&'t str, &'t dyn Fn(&Item) -> bool);
    let tests: [Test<'_>; 6] = [
        ("true", &|_| true),
        ("c.n = 3", &|item| item.n == 3),
        ("c.n >= 2 AND c.n < 5 AND c.s != 's1'", &|item| (2..5).contains(&item.n) && item.s != 1),
        ("c.s = 's2' AND c.pk = 4", &|item| item.s == 2 && item.pk == 4),
        ("ARRAY_CONTAINS(c.tags, 2)", &|item| item.tags.contains(&2)),
        ("NOT IS_DEFINED(c.tags[0])", &|item| item.tags.is_empty()),
    ];
    for (condition, keep) in tests {
        let wanted = expected(keep);
        for access in [Access::Index, Access::ByCost, Access::Items] {
            assert_eq!(found(condition, access), wanted, "{condition} by {access:?}");
        }
    }
    let count = bench.rows("SELECT VALUE COUNT(1) FROM c WHERE c.s = 's3'", Access::Index);
    let wanted = model.values().filter(|item| item.s == 3).count();
    assert_eq!(count, [Value::from(wanted as i64)]);
    assert_eq!(bench.container.document_count(), model.len() as u64);
}
