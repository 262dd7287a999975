//! EXPLAIN tells what was done: steps, what they read, and a charge that is the page's.

use crate::support::{Bench, everything};
use armilla_engine::query::explain::{Explanation, Step, StepKind};
use armilla_engine::query::{Options, Query, Request};
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
    let options = Options { count_max: 100, continuation: None, range_by_range: false };
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
