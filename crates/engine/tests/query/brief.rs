//! What is answered on the thread that took the request, and what is not: bytes decide.

use crate::support::{Bench, everything};
use armilla_engine::query::{Page, PageOptions, Query, Request};
use armilla_model::Error;
use std::time::{Duration, Instant};

const OPTIONS: PageOptions<'_> =
    PageOptions { count_max: 100, continuation: None, range_by_range: false };

fn query(bench: &Bench, text: &str) -> Query {
    Query::new(bench.container.clone(), Request::of_text(text), &everything()).unwrap()
}

fn brief(bench: &Bench, text: &str) -> Option<Page> {
    query(bench, text).brief_page(OPTIONS).unwrap()
}

/// Forty small items, and a few large ones that none of the index's values hold.
fn mixed() -> Bench {
    let bench = Bench::plain(1);
    for number in 0..40 {
        bench.put_text(&format!(r#"{{"id":"s{number}","pk":"p","s":"ab","n":{number}}}"#));
    }
    bench.put_text(&format!(r#"{{"id":"large","pk":"p","s":"{}"}}"#, "ab".repeat(200_000)));
    bench
}

#[test]
fn a_page_of_few_bytes_is_made_here_and_one_of_many_is_not() {
    let bench = mixed();
    let made = brief(&bench, "SELECT * FROM c WHERE c.n < 10").unwrap();
    assert_eq!(made.rows.len(), 10);
    for text in [
        "SELECT * FROM c WHERE c.id = 'large'",
        "SELECT VALUE LENGTH(c.s) FROM c WHERE c.id = 'large'",
        "SELECT VALUE LENGTH(c.s) FROM c",
        "SELECT c.s FROM c ORDER BY c.id",
        "SELECT DISTINCT c.s FROM c",
        "SELECT VALUE MAX(LENGTH(c.s)) FROM c",
    ] {
        assert!(brief(&bench, text).is_none(), "{text}");
        assert!(!query(&bench, text).page(OPTIONS).unwrap().rows.is_empty(), "{text}");
    }
}

#[test]
fn a_habit_does_not_outlive_the_items_it_was_learnt_from() {
    let bench = Bench::plain(1);
    let text = "SELECT VALUE LENGTH(c.s) FROM c WHERE c.id = 'a'";
    bench.put_text(r#"{"id":"a","pk":"p","s":"ab"}"#);
    for _ in 0..20 {
        assert!(brief(&bench, text).is_some());
    }
    bench.put_text(&format!(r#"{{"id":"a","pk":"p","s":"{}"}}"#, "ab".repeat(200_000)));
    assert!(brief(&bench, text).is_none());
}

#[test]
fn what_takes_long_to_evaluate_is_given_up_here() {
    let bench = Bench::plain(1);
    bench.put_text(&format!(r#"{{"id":"a","pk":"p","s":"{}"}}"#, "ab".repeat(50_000)));
    let text = "SELECT VALUE REGEXMATCH(c.s, '[ab]{0,500}[ab]{0,500}c') FROM c";
    let started = Instant::now();
    assert!(brief(&bench, text).is_none());
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
}

#[test]
fn one_heavy_match_is_refused_wherever_it_stands() {
    let bench = Bench::plain(1);
    bench.put_text(&format!(r#"{{"id":"1","pk":"p","s":"{}"}}"#, "ab".repeat(500_000)));
    let heavy = "REGEXMATCH(c.s, '[ab]{0,1000}[ab]{0,1000}c')";
    for text in [
        format!("SELECT VALUE {heavy} FROM c WHERE c.id = '1'"),
        format!("SELECT * FROM c WHERE {heavy}"),
        format!("SELECT VALUE COUNT({heavy}) FROM c"),
    ] {
        match query(&bench, &text).page(OPTIONS) {
            Err(Error::QuerySyntax(message)) => assert!(message.contains("steps"), "{message}"),
            other => panic!("{text}: {:?}", other.map(|page| page.rows.len())),
        }
    }
}

/// Thirty thousand comparisons took twelve seconds to compile, minutes in a dev build.
#[test]
fn a_condition_of_very_many_parts_is_planned_in_time() {
    let bench = mixed();
    for (each, between) in [("c.n={}", " AND "), ("c.n{}=1", " OR "), ("c.n!={}", " AND ")] {
        let parts: Vec<_> =
            (0..30_000).map(|at: u32| each.replace("{}", &at.to_string())).collect();
        let text = format!("SELECT * FROM c WHERE {}", parts.join(between));
        let started = Instant::now();
        let asked = query(&bench, &text);
        let compiled = started.elapsed();
        let rows = asked.page(OPTIONS).unwrap().rows.len();
        let took = started.elapsed();
        assert!(took < Duration::from_secs(20), "{each}: {compiled:?} of {took:?}");
        assert_eq!(rows, 0, "{each}");
    }
}

#[test]
fn a_client_without_patience_gets_short_pages_and_loses_nothing() {
    let bench = Bench::plain(1);
    for number in 0..100 {
        bench.put_text(&format!(r#"{{"id":"i{number}","pk":"p","n":{number}}}"#));
    }
    let hasty = || query(&bench, "SELECT VALUE c.n FROM c").within(Duration::ZERO);
    let (mut rows, mut pages, mut token) = (0, 0, None::<String>);
    loop {
        let page = hasty().page(PageOptions { continuation: token.as_deref(), ..OPTIONS }).unwrap();
        (rows, pages, token) = (rows + page.rows.len(), pages + 1, page.continuation);
        if token.is_none() {
            break;
        }
    }
    assert_eq!(rows, 100);
    assert!(pages > 1, "{pages} pages");
    let patient = query(&bench, "SELECT VALUE c.n FROM c").page(OPTIONS).unwrap();
    assert_eq!(patient.rows.len(), 100);
}
