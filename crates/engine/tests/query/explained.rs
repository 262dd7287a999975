//! EXPLAIN tells what was done: steps, what they read, and a charge that is the page's.

use crate::support::{Bench, everything};
use armilla_engine::query::explain::{Explanation, Step, StepKind};
use armilla_engine::query::{PageOptions, Query, Request};
use armilla_model::charge::RequestCharge;
use armilla_model::json;

/// Six hundred items in two ranges; everything but `x` is indexed.
fn bench() -> Bench {
    let definition =
        br#"{"partitionKey":{"paths":["/pk"]},"indexingPolicy":{"indexingMode":"consistent",
        "includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/x/?"}]}}"#;
    let bench = Bench::new(&json::parse(definition).unwrap(), 2);
    for pk in 0..20 {
        let item = |number: usize| {
            let (id, kind) = (pk * 30 + number, ["post", "comment", "like"][number % 3]);
            format!(r#"{{"id":"{id}","pk":"{pk}","n":{id},"x":{id},"type":"{kind}"}}"#)
        };
        bench.put_all(&(0..30).map(item).collect::<Vec<_>>());
    }
    bench
}

fn explained(bench: &Bench, text: &str) -> Explanation {
    let query = Query::new(bench.container.clone(), Request::of_text(text), &everything()).unwrap();
    let options = PageOptions { count_max: 100, continuation: None, range_by_range: false };
    let plan = query.plan(options).unwrap();
    let page = query.run(&plan).unwrap();
    let explanation = query.explain(&plan, Some(&page));
    assert_eq!(explanation.charge_of_steps(), page.charge, "{text}");
    assert_eq!(explanation.run.as_ref().unwrap().charge, page.charge, "{text}");
    explanation
}

fn step(explanation: &Explanation, kind: StepKind) -> Option<&Step> {
    explanation.numbered().into_iter().map(|it| it.step).find(|step| step.kind == kind)
}

fn items_read(explanation: &Explanation) -> u64 {
    step(explanation, StepKind::Load).and_then(|load| load.items).unwrap_or(0)
}

#[test]
fn an_order_that_walks_an_index_says_so() {
    let told = explained(&bench(), "SELECT * FROM c ORDER BY c.n OFFSET 5 LIMIT 3");
    assert!(step(&told, StepKind::Walk).is_some() && step(&told, StepKind::Sort).is_none());
    assert_eq!(items_read(&told), 3);
    let told = explained(&bench(), "SELECT DISTINCT VALUE c.type FROM c ORDER BY c.type");
    assert!(step(&told, StepKind::Walk).is_none() && step(&told, StepKind::Sort).is_some());
}

#[test]
fn aggregates_say_where_they_come_from() {
    let bench = bench();
    let says = |told: &Explanation| step(told, StepKind::Aggregate).unwrap().says.clone();
    let told = explained(&bench, "SELECT VALUE COUNT(1) FROM c");
    assert!(says(&told).contains("columns of the index alone"));
    assert_eq!(items_read(&told), 0);
    let told = explained(&bench, "SELECT VALUE MAX(c.n) FROM c");
    assert!(says(&told).contains("ends of the index"));
    assert_eq!(items_read(&told), 0);
    let told = explained(&bench, "SELECT VALUE MAX(c.x) FROM c");
    assert!(says(&told).contains("item by item"));
    assert_eq!(items_read(&told), 600);
    assert!(step(&told, StepKind::Scan).is_some());
}

#[test]
fn filters_say_what_the_index_served() {
    let bench = bench();
    let told = explained(&bench, "SELECT * FROM c WHERE c.type = 'post' AND c.n < 100");
    let found = step(&told, StepKind::Intersect).unwrap();
    assert_eq!(found.served.as_deref(), Some(r#"/type = "post" and /n < 100"#));
    assert!(found.says.contains("exact") && step(&told, StepKind::Filter).is_none());
    let told = explained(&bench, "SELECT * FROM c WHERE c.type = 'post' AND c.x < 100");
    assert_eq!(step(&told, StepKind::Seek).unwrap().served.as_deref(), Some(r#"/type = "post""#));
    assert_eq!(step(&told, StepKind::Filter).unwrap().left.as_deref(), Some("/x < 100"));
    let told = explained(&bench, "SELECT * FROM c WHERE c.x = 7");
    assert!(step(&told, StepKind::Scan).is_some());
    let told = explained(&bench, "SELECT * FROM c WHERE c.id = '7' AND c.pk = '0'");
    assert_eq!((told.shape, items_read(&told)), ("points", 1));
}

#[test]
fn joins_groups_and_distinct_rows_have_their_steps() {
    let bench = bench();
    let told = explained(&bench, "SELECT c.type, COUNT(1) AS n FROM c GROUP BY c.type");
    assert!(step(&told, StepKind::Group).is_some());
    let told = explained(&bench, "SELECT DISTINCT c.type FROM c");
    assert!(step(&told, StepKind::Distinct).is_some());
    let told = explained(&bench, "SELECT VALUE t FROM c JOIN t IN c.tags WHERE c.n < 10");
    assert!(step(&told, StepKind::Join).is_some());
    explained(&bench, "SELECT TOP 3 * FROM c WHERE c.type = 'like' ORDER BY c.n DESC");
    explained(&bench, "SELECT * FROM c WHERE CONTAINS(c.type, 'ost') ORDER BY c.n");
}

#[test]
fn measured_pages_tell_rows_and_times_of_ranges() {
    let bench = bench();
    for text in ["SELECT * FROM c WHERE c.x < 40", "SELECT TOP 9 * FROM c ORDER BY c.n"] {
        let query = Query::new(bench.container.clone(), Request::of_text(text), &everything());
        let query = query.unwrap().measured(true);
        let options = PageOptions { count_max: 100, continuation: None, range_by_range: false };
        let plan = query.plan(options).unwrap();
        let page = query.run(&plan).unwrap();
        let told = query.explain(&plan, Some(&page));
        let run = told.run.as_ref().unwrap();
        let rows: u64 = run.ranges.iter().filter_map(|range| range.rows).sum();
        assert_eq!(rows, page.rows.len() as u64, "{text}:\n{told}");
        assert!(run.ranges.iter().all(|range| range.time.is_some()), "{text}:\n{told}");
        let charges: RequestCharge = run.ranges.iter().map(|range| range.charge).sum();
        assert!(charges <= page.charge, "{text}:\n{told}");
        let times = told.numbered().iter().filter(|step| step.step.time.is_some()).count();
        assert!(times >= 2, "{text}:\n{told}");
        // Whoever does not want them gets none.
        let plain = explained(&bench, text);
        assert!(plain.numbered().iter().all(|step| step.step.time.is_none()), "{plain}");
    }
}

#[test]
fn extremes_tell_the_time_of_each_range() {
    let bench = bench();
    let text = "SELECT VALUE MAX(c.n) FROM c";
    let query = Query::new(bench.container.clone(), Request::of_text(text), &everything());
    let query = query.unwrap().measured(true);
    let options = PageOptions { count_max: 100, continuation: None, range_by_range: false };
    let plan = query.plan(options).unwrap();
    let page = query.run(&plan).unwrap();
    let told = query.explain(&plan, Some(&page));
    assert_eq!(items_read(&told), 0, "{told}");
    let ranges = &told.run.as_ref().unwrap().ranges;
    assert_eq!(ranges.len(), 2);
    // Each of them was gone into, so each has a time of its own.
    assert!(ranges.iter().all(|range| range.time.is_some_and(|time| !time.is_zero())), "{told}");
}

#[test]
fn streams_over_streams_tell_the_rows_of_each_level() {
    let bench = bench();
    let text = "SELECT VALUE s.n FROM (SELECT c.n, c.x FROM c WHERE c.x < 40) s WHERE s.n >= 10";
    let told = explained(&bench, text);
    assert_eq!(told.shape, "stream", "{told}");
    let steps = told.numbered();
    let rows_of = |kind: StepKind, words: &str| {
        let is_it = |step: &&Step| step.kind == kind && step.says.contains(words);
        let step = steps.iter().map(|it| it.step).find(is_it);
        step.map(|step| (step.rows_in, step.rows_out)).unwrap()
    };
    assert_eq!(rows_of(StepKind::Function, "outer query"), (Some(30), Some(30)), "{told}");
    assert_eq!(rows_of(StepKind::Filter, "outer query"), (Some(40), Some(30)), "{told}");
    assert_eq!(rows_of(StepKind::Function, "sub-query"), (Some(40), Some(40)), "{told}");
    assert_eq!(rows_of(StepKind::Filter, "each candidate"), (Some(600), Some(40)), "{told}");
}

#[test]
fn queries_over_queries_have_the_steps_of_each_level() {
    let bench = bench();
    let told = explained(
        &bench,
        "SELECT s.type, s.n FROM (SELECT c.type, COUNT(1) AS n FROM c WHERE c.n < 100 GROUP BY c.type) s \
         WHERE s.n > 1",
    );
    assert_eq!(told.shape, "whole");
    let kinds: Vec<_> = told.numbered().iter().map(|step| step.step.kind).collect();
    let position = |kind| kinds.iter().position(|known| *known == kind).unwrap();
    assert!(position(StepKind::Function) < position(StepKind::Filter), "{told}");
    assert!(position(StepKind::Filter) < position(StepKind::Group), "{told}");
    let group = step(&told, StepKind::Group).unwrap();
    assert_eq!(group.rows_in, Some(100), "{told}");
    assert!(group.rows_out.is_some_and(|rows| rows > 0 && rows < 100), "{told}");
}
