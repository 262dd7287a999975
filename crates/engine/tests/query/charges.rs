//! What queries cost: check vectors of `docs/protocol/charges.md#queries`.

use crate::support::{Bench, everything};
use armilla_engine::query::{Access, Limit, PageOptions, Query, Request, Scope};
use armilla_engine::ranges::EpkSpan;
use armilla_model::json;
use armilla_model::partition_key::PartitionKey;

/// Writes an item whose stored text has so many bytes.
fn put_sized(bench: &Bench, id: usize, pk: &str, members: &str, size: usize) {
    let item = |filler: usize| {
        let filler = "x".repeat(filler);
        format!(r#"{{"id":"{id:04}","pk":"{pk}",{members}"f":"{filler}"}}"#)
    };
    // What the server adds has always the same length.
    const SYSTEM: usize = 176;
    let guess = size.saturating_sub(item(0).len() + SYSTEM);
    bench.put_text(&item(guess));
    let key = PartitionKey::parse(&format!("[\"{pk}\"]")).unwrap();
    let stored = bench.container.read_item(&key, &format!("{id:04}")).unwrap().unwrap().text.len();
    bench.put_text(&item((guess + size).saturating_sub(stored)));
    let stored = bench.container.read_item(&key, &format!("{id:04}")).unwrap().unwrap().text.len();
    assert_eq!(stored, size);
}

fn key_scope(bench: &Bench, pk: &str) -> Scope {
    let key = PartitionKey::parse(&format!("[\"{pk}\"]")).unwrap();
    let epk = bench.container.settings().policy.partition_key.epk(&key);
    Scope { span: EpkSpan::of_prefix(&epk), limit: Limit::Key, cross_partition: false }
}

fn charge(bench: &Bench, text: &str, scope: &Scope, access: Access) -> String {
    let query = Query::new(bench.container.clone(), Request::of_text(text), scope).unwrap();
    let page = query
        .by(access)
        .page(PageOptions { count_max: 1000, continuation: None, range_by_range: false })
        .unwrap();
    assert!(page.continuation.is_none());
    page.charge.to_string()
}

#[test]
fn one_large_item() {
    let bench = Bench::plain(1);
    put_sized(&bench, 1, "p", "", 9963);
    let scope = key_scope(&bench, "p");
    for access in [Access::ByCost, Access::Items, Access::Index] {
        assert_eq!(charge(&bench, "SELECT * FROM c", &scope, access), "3.25");
        assert_eq!(charge(&bench, "SELECT * FROM c WHERE c.id = '0001'", &scope, access), "3.25");
    }
}

#[test]
fn nothing_found_costs_the_ranges_visited() {
    for (ranges, expected) in [(1, "2.82"), (5, "14.1")] {
        let bench = Bench::plain(ranges);
        let text = "SELECT * FROM c WHERE c.n = 1";
        assert_eq!(charge(&bench, text, &everything(), Access::ByCost), expected);
    }
}

#[test]
fn comments_of_a_post() {
    let bench = Bench::plain(1);
    (0..20).for_each(|id| put_sized(&bench, id, "p", r#""type":"comment","#, 1265));
    put_sized(&bench, 90, "q", r#""type":"comment","#, 1265);
    let text = "SELECT * FROM c WHERE c.type = 'comment'";
    let scope = key_scope(&bench, "p");
    for access in [Access::ByCost, Access::Items, Access::Index] {
        assert_eq!(charge(&bench, text, &scope, access), "7.55");
        let ordered = format!("{text} ORDER BY c.id DESC");
        assert_eq!(charge(&bench, &ordered, &scope, access), "7.55");
    }
}

#[test]
fn a_count_costs_its_items_whichever_way_it_is_made() {
    let bench = Bench::plain(1);
    (0..50).for_each(|id| put_sized(&bench, id, "p", r#""type":"like","#, 419));
    let text = "SELECT VALUE COUNT(1) FROM c WHERE c.type = 'like'";
    for access in [Access::ByCost, Access::Items, Access::Index] {
        assert_eq!(charge(&bench, text, &everything(), access), "11.17");
    }
}

#[test]
fn a_page_costs_at_least_one_unit_and_pages_sum_up() {
    let bench = Bench::plain(1);
    (0..30).for_each(|id| put_sized(&bench, id, "p", "", 400));
    let whole = charge(&bench, "SELECT * FROM c", &everything(), Access::ByCost);
    let mut continuation: Option<String> = None;
    let mut sum = 0.0;
    loop {
        let request = Request::of_text("SELECT * FROM c");
        let query = Query::new(bench.container.clone(), request, &everything()).unwrap();
        let options = PageOptions {
            count_max: 15,
            continuation: continuation.as_deref(),
            range_by_range: false,
        };
        let page = query.page(options).unwrap();
        sum += page.charge.units();
        continuation = page.continuation;
        if continuation.is_none() {
            break;
        }
    }
    assert!((sum - whole.parse::<f64>().unwrap()).abs() < 0.02, "{sum} and {whole}");
}

#[test]
fn explanations_name_the_way() {
    let bench = Bench::plain(2);
    (0..100).for_each(|id| {
        bench.put(
            &json::parse(format!(r#"{{"id":"{id}","pk":"{id}","n":{}}}"#, id % 9).as_bytes())
                .unwrap(),
        );
    });
    let explain = |text: &str| {
        let request = Request::of_text(text);
        let query = Query::new(bench.container.clone(), request, &everything()).unwrap();
        let options = PageOptions { count_max: 10, continuation: None, range_by_range: false };
        let plan = query.plan(options).unwrap();
        let page = query.run(&plan).unwrap();
        query.explain(&plan, Some(&page)).to_string()
    };
    assert!(explain("SELECT * FROM c WHERE c.n = 1").contains("index: at most"));
    assert!(explain("SELECT * FROM c WHERE c.id = '5' AND c.pk = '5'").contains("point reads: 1"));
    assert!(explain("SELECT * FROM c WHERE c.n = c.id").contains("scan"));
}
