//! The advisor on the ready labs: the traffic of each design, and what is said about it.

use super::data;
use crate::client::{Call, Client};
use crate::lab::data::Data;
use crate::lab::load;
use crate::lab::run::Runner;
use crate::local::LocalServer;
use armilla_model::clock::SystemClock;
use http::Method;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How far a prediction may be from what is measured.
const TOLERANCE: f64 = 0.10;

/// A loaded lab on a server in this process, whose designs are asked one after the other.
pub(super) struct Bench {
    server: LocalServer,
    client: Client,
    data: Data,
    /// What each request that reads costs in each design, on the data as it was loaded.
    read: BTreeMap<(String, String), f64>,
}

impl Bench {
    /// A loaded database, of which nothing was asked yet.
    pub(super) async fn of(name: &str, data: Data) -> Self {
        let server = LocalServer::start_in_memory(None).await.unwrap();
        let client = Client::new(&server.endpoint(), Arc::new(SystemClock)).unwrap();
        load::load(&client, name, &data).await.unwrap();
        let bench = Self { server, client, data, read: BTreeMap::new() };
        bench.server.watching().observer().forget();
        bench
    }

    async fn new(name: &str, scale: &[(&str, u64)]) -> Self {
        let mut bench = Self::of(name, data(name, scale)).await;
        for request in bench.data.model.requests.clone().iter().filter(|request| !request.writes) {
            for design in bench.data.model.designs.clone() {
                let units = bench.run(&request.name, &design).await;
                bench.read.insert((request.name.clone(), design), units);
            }
        }
        bench
    }

    /// Asks one request in a design, as an activity of its own; what it cost.
    pub(super) async fn run(&self, request: &str, design: &str) -> f64 {
        let runner = Runner::new(&self.client, &self.data.model.name, &self.data).await.unwrap();
        let model = &self.data.model;
        let request = model.requests.iter().find(|known| known.name == request).unwrap();
        let Some(pattern) = model.pattern(request, design) else { return 0.0 };
        let counts = runner.run(pattern).await.unwrap();
        // The log is short: it is taken up after each activity, as the observer's thread does in its time.
        self.server.watching().look_at_all();
        counts.charge
    }

    /// Forgets what was asked so far, asks the requests of one design as the lab does, first those that read, so many times each,
    /// then those that write, and returns the advice.
    async fn advice(&self, design: &str, reads: usize) -> Json {
        self.server.watching().observer().forget();
        for request in self.data.model.requests.iter().filter(|request| !request.writes) {
            for _ in 0..reads {
                self.run(&request.name, design).await;
            }
        }
        for request in self.data.model.requests.iter().filter(|request| request.writes) {
            self.run(&request.name, design).await;
        }
        self.ask(&[]).await
    }

    /// The advice with every activity ended.
    async fn ask(&self, pairs: &[(&str, &str)]) -> Json {
        self.server.watching().observer().close();
        let call = Call::new(Method::GET, &["_armilla", "advice"]).query(pairs);
        self.client.send(call).await.unwrap().success().unwrap().json().unwrap()
    }

    /// The advice on what was asked, built and replayed.
    pub(super) async fn proved(&self) -> Json {
        self.ask(&[("prove", "1")]).await
    }

    pub(super) async fn stop(self) {
        self.server.stop().await;
    }

    /// What a request costs in a design.
    async fn measured(&self, request: &str, design: &str) -> f64 {
        match self.read.get(&(request.to_owned(), design.to_owned())) {
            Some(units) => *units,
            None => self.run(request, design).await,
        }
    }
}

pub(super) fn changes(advice: &Json) -> impl Iterator<Item = &Json> {
    advice["findings"].as_array().unwrap().iter().filter(|one| one["kind"] == "change")
}

fn rules(advice: &Json) -> Vec<&str> {
    changes(advice).map(|one| one["rule"].as_str().unwrap()).collect()
}

/// What a kind of request costs after all findings up to those of some rules.
fn predicted(advice: &Json, head: &str, rules: &[&str]) -> f64 {
    // What reads and then writes begins alike, and is another request.
    let is_meant = |row: &Json| {
        let writes = ["; then upsert", "; then replace"];
        let title = row["title"].as_str().unwrap();
        row["head"].as_str().unwrap().contains(head)
            && !writes.iter().any(|one| title.contains(one))
    };
    let now = advice["workload"].as_array().unwrap().iter().find(|row| is_meant(row));
    let now = now.unwrap_or_else(|| panic!("nothing is known of {head}"));
    let mut units = now["units"].as_f64().unwrap() / now["times"].as_f64().unwrap();
    for finding in changes(advice).filter(|one| rules.contains(&one["rule"].as_str().unwrap())) {
        for request in finding["requests"].as_array().unwrap() {
            if is_meant(request) {
                units = request["unitsAfter"].as_f64().unwrap();
            }
        }
    }
    units
}

fn assert_near(predicted: f64, measured: f64, what: &str) {
    let off = (predicted - measured).abs() / measured;
    assert!(off <= TOLERANCE, "{what}: predicted {predicted}, measured {measured}");
}

/// Heads of the kinds of requests that findings make cheaper.
fn helped(advice: &Json) -> Vec<&str> {
    let mut heads = Vec::new();
    for finding in changes(advice) {
        for request in finding["requests"].as_array().unwrap() {
            let saved = request["unitsBefore"].as_f64() > request["unitsAfter"].as_f64();
            let head = request["head"].as_str().unwrap();
            if saved && !heads.contains(&head) {
                heads.push(head);
            }
        }
    }
    heads
}

/// The requests of the blog by what their first request says.
const BLOG: [(&str, &str); 10] = [
    ("C1", "create users"),
    ("Q1", "read users"),
    ("C2", "create posts_v1 (post)"),
    ("Q2", "read posts_v1 (post)"),
    ("Q3", "p.type = \"post\" AND p.userId"),
    ("C3", "create posts_v1 (comment)"),
    ("Q4", "SELECT * FROM c WHERE c.postId = @value AND c.type = \"comment\""),
    ("C4", "create posts_v1 (like)"),
    ("Q5", "SELECT * FROM c WHERE c.postId = @value AND c.type = \"like\""),
    ("Q6", "ORDER BY p.creationDate DESC"),
];

const V2_RULES: [&str; 2] = ["extended-reference", "counter"];
const V3_RULES: [&str; 4] = ["extended-reference", "counter", "view", "capped-view"];

#[tokio::test(flavor = "multi_thread")]
async fn the_blog_is_led_from_design_to_design() {
    let bench = Bench::new("blog", &[("users", 12)]).await;
    let advice = bench.advice("V1", 1).await;
    let named = |heads: &[&str]| -> Vec<&str> {
        let known = BLOG.iter().filter(|(_, head)| heads.iter().any(|one| one.contains(head)));
        known.map(|(name, _)| *name).collect()
    };
    let heads = helped(&advice);
    assert_eq!(named(&heads), ["Q2", "Q3", "Q4", "Q5", "Q6"], "{heads:#?}");
    assert_eq!(heads.len(), 5);
    assert_eq!(rules(&advice), ["extended-reference", "counter", "capped-view", "view"]);
    for (name, head) in BLOG {
        let what = format!("{name} after V2's changes");
        assert_near(predicted(&advice, head, &V2_RULES), bench.measured(name, "V2").await, &what);
        let what = format!("{name} after all changes");
        assert_near(
            predicted(&advice, head, &V3_RULES),
            bench.measured(name, "V3 declared").await,
            &what,
        );
    }
    let why = |head: &str| -> Vec<&str> {
        let rows = advice["workload"].as_array().unwrap().iter();
        let row =
            rows.into_iter().find(|row| row["head"].as_str().unwrap().contains(head)).unwrap();
        row["steps"].as_array().unwrap().iter().map(|step| step["why"].as_str().unwrap()).collect()
    };
    let (extra, unnamed) = ("extra request", "key not named by the query");
    assert_eq!(why(BLOG[3].1), ["", extra, extra, extra]);
    assert_eq!(why(BLOG[4].1), [unnamed, extra, extra, extra]);
    assert_eq!(why(BLOG[6].1), ["", extra]);
    assert_eq!(why(BLOG[8].1), ["", extra]);
    assert_eq!(why(BLOG[9].1), [unnamed, extra, extra, extra]);
    for finding in changes(&advice) {
        assert!(finding["savedShare"].as_f64().unwrap() >= 0.01, "{finding:#}");
        let steps: Vec<&str> = finding["apply"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["what"].as_str().unwrap())
            .collect();
        assert!(["backfill", "check", "undo"].iter().all(|what| steps.contains(what)), "{steps:?}");
    }
    let second = bench.advice("V2", 1).await;
    assert_eq!(rules(&second), ["capped-view", "view"]);
    for (name, head) in [BLOG[4], BLOG[9]] {
        assert_near(
            predicted(&second, head, &V3_RULES),
            bench.measured(name, "V3 declared").await,
            name,
        );
    }
    for design in ["V3", "V3 declared"] {
        let last = bench.advice(design, 1).await;
        assert_eq!(last["findings"], Json::Array(Vec::new()), "{design}: {last:#}");
        assert!(last["says"].as_str().unwrap().starts_with("Nothing worth 1 %"));
    }
    let praised = bench.advice("V3", 1).await;
    assert_eq!(praised["praise"][0]["container"], "feed");
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_other_labs_are_led_to_their_better_designs() {
    let bench = Bench::new("publisher", &[("publishers", 6)]).await;
    let advice = bench.advice("list in publisher", 4).await;
    assert_eq!(rules(&advice), ["reverse-reference"], "{advice:#}");
    let head = "read publishers_with_lists";
    let measured = bench.measured("R1", "id in book, keyed").await;
    assert_near(predicted(&advice, head, &["reverse-reference"]), measured, "R1 of publisher");
    let advice = bench.advice("id in book", 4).await;
    assert_eq!(rules(&advice), ["partition-key"], "{advice:#}");
    assert_near(predicted(&advice, "read publishers", &["partition-key"]), measured, "R1 keyed");
    let advice = bench.advice("id in book, keyed", 4).await;
    assert_eq!(rules(&advice), [""; 0], "{advice:#}");
    bench.stop().await;

    let bench = Bench::new("portfolio", &[("people", 60)]).await;
    let advice = bench.advice("embedded", 4).await;
    assert_eq!(rules(&advice), ["reference"], "{advice:#}");
    let advice = bench.advice("referenced", 4).await;
    assert_eq!(rules(&advice), [""; 0], "{advice:#}");
    bench.stop().await;

    let bench = Bench::new("authors", &[("authors", 20)]).await;
    for design in ["joining documents", "id arrays"] {
        let advice = bench.advice(design, 120).await;
        let expected = if design == "id arrays" { "extended-reference" } else { "embed" };
        assert_eq!(rules(&advice), [expected, expected], "{design}: {advice:#}");
        for (name, head) in [("R1", "read authors"), ("R2", "read books")] {
            let measured = bench.measured(name, "hybrid").await;
            assert_near(
                predicted(&advice, head, &[expected]),
                measured,
                &format!("{name} from {design}"),
            );
        }
    }
    let advice = bench.advice("hybrid", 120).await;
    assert_eq!(rules(&advice), [""; 0], "{advice:#}");
    bench.stop().await;

    let bench = Bench::new("comments", &[("posts", 2)]).await;
    let advice = bench.advice("all inside", 4).await;
    assert_eq!(rules(&advice), ["capped-list"], "{advice:#}");
    for design in ["one by one", "batches"] {
        let advice = bench.advice(design, 4).await;
        assert_eq!(rules(&advice), [""; 0], "{design}: {advice:#}");
    }
    bench.stop().await;
}

/// A container that is written to and never asked but by id.
const LEDGER: &str = r#"
name = "ledger"
title = "many fields, many writes"
about = "many fields, many writes"
designs = ["now"]
[scale]
[[entity]]
name = "entry"
count = 40
fields = { id = "guid", a = "name 9", b = "name 9", c = "name 9", d = "name 9", e = "name 9", f = "name 9", g = "name 9", h = "name 9" }
[[container]]
name = "entries"
key = "/id"
items = [{ from = "entry", item = { id = "{entry.id}", a = "{entry.a}", b = "{entry.b}", c = "{entry.c}", d = "{entry.d}", e = "{entry.e}", f = "{entry.f}", g = "{entry.g}", h = "{entry.h}" } }]
[[request]]
name = "W1"
title = "one entry more"
writes = true
[request.by.now]
let = { id = "{new.guid}" }
steps = [{ create = "entries", key = "{id}", item = { id = "{id}", a = "{entry.a}", b = "{entry.b}", c = "{entry.c}", d = "{entry.d}", e = "{entry.e}", f = "{entry.f}", g = "{entry.g}", h = "{entry.h}" } }]
"#;

#[tokio::test(flavor = "multi_thread")]
async fn paths_that_no_query_names_leave_the_index_where_that_pays() {
    let model = Arc::new(crate::lab::model::Model::parse(LEDGER).unwrap());
    let bench = Bench::of("ledger", Data { scale: model.scale.clone(), model }).await;
    for _ in 0..5 {
        bench.run("W1", "now").await;
    }
    let advice = bench.proved().await;
    assert_eq!(rules(&advice), ["index-policy"], "{advice:#}");
    let finding = changes(&advice).next().unwrap();
    let (saved, proved) =
        (finding["savedUnits"].as_f64().unwrap(), finding["provedUnits"].as_f64().unwrap());
    assert_near(saved, proved, "the index of 'entries'");
    bench.stop().await;
}
