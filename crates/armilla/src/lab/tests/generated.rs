//! Workloads made by chance, with seeds: what the advisor predicts for them is built and replayed.

use super::advice::{Bench, changes};
use crate::lab::data::Data;
use crate::lab::model::Model;
use std::sync::Arc;

const SEEDS: std::ops::Range<u64> = 1..11;
/// How far a replayed saving may be from the predicted one, and in how many findings of a hundred it must not be farther.
const TOLERANCE: f64 = 0.10;
const AGREEING_MIN: f64 = 0.90;

/// A chance that a seed makes.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound.max(1)
    }

    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }
}

/// Owners, their items, children of these: sizes, numbers and ranges by chance.
fn model(seed: u64) -> Model {
    let mut chance = Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let owners = chance.between(4, 9);
    let (items, children) = (chance.between(3, 9), chance.between(2, 12));
    let (name, title, body) =
        (chance.between(5, 60), chance.between(10, 90), chance.between(50, 1500));
    let (ranges, top) = (chance.between(1, 9), chance.between(5, 30));
    let text = format!(
        r#"
name = "w{seed}"
title = "by chance"
about = "by chance"
designs = ["now"]
seed = {seed}
[scale]
[[entity]]
name = "owner"
count = {owners}
fields = {{ id = "guid", name = "name {name}", city = "name 9" }}
[[entity]]
name = "thing"
per = "owner"
count = [2, {items}]
first = {items}
fields = {{ id = "guid", title = "text {title}", body = "text {body}", at = "date 2019-01-01 2020-12-31" }}
[[entity]]
name = "child"
per = "thing"
count = [1, {children}]
first = {children}
pick = {{ fan = "owner" }}
fields = {{ id = "guid", at = "date 2019-01-01 2020-12-31" }}
[[container]]
name = "owners"
key = "/id"
items = [{{ from = "owner", item = {{ id = "{{owner.id}}", name = "{{owner.name}}", city = "{{owner.city}}" }} }}]
[[container]]
name = "things"
key = "/thingId"
ranges = {ranges}
items = [
  {{ from = "thing", item = {{ id = "{{thing.id}}", type = "thing", thingId = "{{thing.id}}", ownerId = "{{owner.id}}", title = "{{thing.title}}", body = "{{thing.body}}", at = "{{thing.at}}" }} }},
  {{ from = "child", item = {{ id = "{{child.id}}", type = "child", thingId = "{{thing.id}}", ownerId = "{{fan.id}}", at = "{{child.at}}" }} }},
]
{requests}"#,
        requests = requests(top)
    );
    Model::parse(&text).unwrap()
}

fn requests(top: u64) -> String {
    let count = r#"{ query = "things", key = "{KEY}", sql = "SELECT VALUE COUNT(1) FROM c WHERE c.thingId = @t AND c.type = 'child'", parameters = { t = "{KEY}" } }"#;
    let owner = |of: &str| format!(r#"{{ read = "owners", id = "{{{of}}}", key = "{{{of}}}" }}"#);
    let read = r#"{ read = "things", id = "{thing.id}", key = "{thing.id}", as = "found" }"#;
    let all = [
        ("R1", false, format!("{read}, {}", owner("found.ownerId"))),
        ("R2", false, format!("{read}, {}", count.replace("KEY", "thing.id"))),
        ("R3", false, format!(r#"{{ query = "things", sql = "SELECT c.id, c.title, c.at FROM c WHERE c.type = 'thing' AND c.ownerId = @o", parameters = {{ o = "{{owner.id}}" }}, as = "rows" }}, {{ each = "rows", as = "row", steps = [{}] }}"#, count.replace("KEY", "row.id"))),
        ("R4", false, format!(r#"{{ query = "things", sql = "SELECT TOP {top} c.id, c.ownerId, c.title, c.at FROM c WHERE c.type = 'thing' ORDER BY c.at DESC", as = "rows" }}, {{ each = "rows", as = "row", steps = [{}] }}"#, owner("row.ownerId"))),
        ("R5", false, format!(r#"{{ query = "things", key = "{{thing.id}}", sql = "SELECT * FROM c WHERE c.thingId = @t AND c.type = 'child'", parameters = {{ t = "{{thing.id}}" }}, as = "rows" }}, {{ each = "rows", as = "row", steps = [{}] }}"#, owner("row.ownerId"))),
        ("W1", true, r#"{ create = "things", key = "{thing.id}", item = { id = "{new.guid}", type = "child", thingId = "{thing.id}", ownerId = "{owner.id}", at = "{child.at}" } }"#.to_owned()),
        ("W2", true, r#"{ upsert = "owners", key = "{owner.id}", item = { id = "{owner.id}", name = "{new.guid}", city = "{owner.city}" } }"#.to_owned()),
    ];
    let table = |(name, writes, steps): &(&str, bool, String)| {
        format!(
            "[[request]]\nname = \"{name}\"\ntitle = \"{name}\"\nwrites = {writes}\n[request.by.now]\nsteps = [{steps}]\n"
        )
    };
    all.iter().map(table).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn predicted_and_replayed_savings_agree() {
    let (mut findings, mut agreeing, mut told) = (0, 0, String::new());
    for seed in SEEDS {
        let model = model(seed);
        let name = model.name.clone();
        let bench =
            Bench::of(&name, Data { scale: model.scale.clone(), model: Arc::new(model) }).await;
        let mut chance = Chance(seed);
        for request in ["R1", "R2", "R3", "R4", "R5", "W1", "W2"] {
            let most = if request.starts_with('W') { 2 } else { 8 };
            for _ in 0..chance.below(most) {
                bench.run(request, "now").await;
            }
        }
        let advice = bench.proved().await;
        for finding in changes(&advice) {
            let (saved, proved) =
                (finding["savedUnits"].as_f64().unwrap(), finding["provedUnits"].as_f64().unwrap());
            assert!(finding["savedShare"].as_f64().unwrap() >= 0.01, "{finding:#}");
            let agrees = (saved - proved).abs() <= TOLERANCE * proved.abs();
            findings += 1;
            agreeing += usize::from(agrees);
            told.push_str(&format!(
                "seed {seed}: {} predicted {saved}, replayed {proved}\n",
                finding["id"]
            ));
        }
        bench.stop().await;
    }
    println!("{told}{agreeing} of {findings} agree");
    assert!(findings >= 15, "only {findings} findings\n{told}");
    assert!(
        agreeing as f64 >= AGREEING_MIN * findings as f64,
        "{agreeing} of {findings} agree\n{told}"
    );
}
