//! Explanations of random queries: the charges of the steps add up to the charge of the page, exactly,
//! whichever way it is made.
//!
//! One seed reproduces one run:
//! `ARMILLA_QUERY_SEED=… cargo test -p armilla-engine --test query explained_sums`.

use crate::generate::{Generator, Random};
use crate::random::POLICIES;
use crate::support::{Bench, everything};
use armilla_engine::query::explain::{StepKind, Times};
use armilla_engine::query::{Access, PageOptions, Query, Request, Threads};
use armilla_model::charge::RequestCharge;
use armilla_model::json;

const SEED: u64 = 20_261_118;
const QUERIES_PER_POLICY: usize = 120;
const ITEMS: u64 = 80;
/// Pages of one query that are looked at.
const PAGES_MAX: usize = 4;

#[test]
fn steps_add_up_to_the_page() {
    let seed = std::env::var("ARMILLA_QUERY_SEED").ok().and_then(|text| text.parse().ok());
    let mut random = Random(seed.unwrap_or(SEED));
    println!("seed {}", random.0);
    let mut pages = 0;
    for policy in POLICIES.iter().filter(|policy| !policy.contains("NOW()")) {
        let ranges = if random.one_in(2) { 1 } else { 3 };
        let bench = Bench::new(&json::parse(policy.as_bytes()).unwrap(), ranges);
        for number in 0..ITEMS {
            bench.put(&Generator { random: &mut random }.item(number));
        }
        for _ in 0..QUERIES_PER_POLICY {
            let (text, _) = Generator { random: &mut random }.query();
            pages += check(&bench, &text, &mut random);
        }
    }
    assert!(pages > 600, "only {pages} pages were explained");
}

/// Explains some pages of a query; returns how many.
fn check(bench: &Bench, text: &str, random: &mut Random) -> usize {
    let access = random.one_of(&[Access::ByCost, Access::Index, Access::Items]);
    let threads = random.one_of(&[Threads::ByCost, Threads::Many]);
    let count_max = random.one_of(&[1, 3, 1000]);
    let mut continuation: Option<String> = None;
    for number in 0..PAGES_MAX {
        let request = Request::of_text(text);
        // The generator also makes queries that are refused.
        let Ok(query) = Query::new(bench.container.clone(), request, &everything()) else {
            return number;
        };
        let query = query.by(access).on(threads);
        let continued = continuation.as_deref();
        let options = PageOptions { count_max, continuation: continued, range_by_range: false };
        let Ok(plan) = query.plan(options) else { return number };
        let planned = query.explain(&plan, None);
        assert_eq!(planned.charge_of_steps(), RequestCharge::ZERO, "{text}");
        assert!(planned.run.is_none() && !planned.lines(Times::Shown).is_empty(), "{text}");
        let Ok(page) = query.run(&plan) else { return number };
        let told = query.explain(&plan, Some(&page));
        let how = format!("{text}, page {number} of {count_max} by {access:?} on {threads:?}");
        assert_eq!(told.charge_of_steps(), page.charge, "{how}:\n{told}");
        let run = told.run.as_ref().unwrap();
        assert_eq!((run.charge, run.rows), (page.charge, page.rows.len() as u64), "{how}");
        let steps = told.numbered();
        let loads = steps.iter().filter(|step| step.step.kind == StepKind::Load);
        let read: u64 = loads.filter_map(|load| load.step.items).sum();
        assert_eq!(read, page.metrics.retrieved_count, "{how}:\n{told}");
        continuation = page.continuation;
        if continuation.is_none() {
            return number + 1;
        }
    }
    PAGES_MAX
}
