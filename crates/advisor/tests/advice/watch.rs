//! What deserves a look and saves nothing by itself.

use crate::bench::{Bench, finding, rules};
use armilla_advisor::observe::Verb;
use armilla_engine::Container;
use armilla_model::value::Value;
use std::sync::Arc;

fn watched(bench: &Bench, rule: &str) -> bool {
    rules(&bench.advice(), "watch").iter().any(|known| known == rule)
}

fn title(bench: &Bench, rule: &str) -> String {
    finding(&bench.advice(), rule).get("title").and_then(Value::as_str).unwrap().to_owned()
}

/// Orders in four ranges, of so many customers.
fn orders(bench: &Bench, count: usize, customers: usize) -> Arc<Container> {
    let orders = bench.container("orders", "/customer", 4, "");
    for number in 0..count {
        let item = format!(
            r#"{{"id":"o{number}","customer":"c{}","total":{number},"note":"n{}"}}"#,
            number % customers,
            number % 7
        );
        bench.put(&orders, &item);
    }
    orders
}

#[test]
fn a_view_that_costs_more_than_it_saves() {
    for (reads, is_told) in [(0, true), (60, false)] {
        let bench = Bench::new();
        let orders = orders(&bench, 60, 20);
        let view = r#","materializedViewDefinition":{"sourceCollectionId":"orders","definition":"SELECT c.id, c.note, c.customer FROM c"}"#;
        let view = bench.container("orders-by-note", "/note", 1, view);
        for number in 0..20 {
            let item = format!(r#"{{"id":"n{number}","customer":"c1","total":1,"note":"n1"}}"#);
            bench.write(&orders, Verb::Create, &item);
        }
        for _ in 0..reads {
            let body = r#"{"query":"SELECT * FROM c WHERE c.note = @n","parameters":[{"name":"@n","value":"n1"}]}"#;
            bench.query(&view, Some("[\"n1\"]"), body);
        }
        assert_eq!(watched(&bench, "unpaid-copy"), is_told, "{reads} reads");
    }
}

#[test]
fn a_counter_that_drifted() {
    for (kept, is_told) in [(7, true), (3, false)] {
        let bench = Bench::new();
        let posts = bench.container("posts", "/postId", 1, "");
        for post in 0..6 {
            let item = format!(
                r#"{{"id":"p{post}","type":"post","postId":"p{post}","commentCount":{kept}}}"#
            );
            bench.put(&posts, &item);
            for comment in 0..3 {
                let item = format!(
                    r#"{{"id":"p{post}c{comment}","type":"comment","postId":"p{post}","text":"x"}}"#
                );
                bench.put(&posts, &item);
            }
        }
        bench.read(&posts, "[\"p1\"]", "p1");
        assert_eq!(watched(&bench, "drifted-counter"), is_told, "{kept} kept, 3 there");
    }
}

#[test]
fn a_list_that_grows_and_one_that_is_cut() {
    for (cap, is_told) in [(usize::MAX, true), (120, false)] {
        let bench = Bench::new();
        let logs = bench.container("logs", "/id", 1, "");
        let item = |length: usize| {
            let elements: Vec<String> = (0..length).map(|number| number.to_string()).collect();
            format!(r#"{{"id":"l1","lines":[{}]}}"#, elements.join(","))
        };
        bench.put(&logs, &item(115));
        for length in 116..130 {
            let length = if length > cap { 100 + length % 20 } else { length };
            bench.write(&logs, Verb::Replace, &item(length));
        }
        assert_eq!(watched(&bench, "growing-array"), is_told, "cut at {cap}");
        if is_told {
            assert!(title(&bench, "growing-array").contains("and grows"), "the rate is told");
        }
    }
}

#[test]
fn a_hot_key() {
    for (hot, is_told) in [(2, true), (50, false)] {
        let bench = Bench::new();
        let orders = orders(&bench, 100, 50);
        for number in 0..1_500 {
            // With 2, every second request is about the first customer.
            let customer = if number % hot == 0 { 0 } else { number % 50 };
            bench.read(&orders, &format!("[\"c{customer}\"]"), &format!("o{customer}"));
        }
        assert_eq!(watched(&bench, "hot-key"), is_told, "one of {hot}");
    }
}

#[test]
fn a_skewed_range() {
    for (customers, is_told) in [(1, true), (400, false)] {
        let bench = Bench::new();
        let orders = orders(&bench, 800, customers);
        bench.read(&orders, "[\"c0\"]", "o0");
        assert_eq!(watched(&bench, "skewed-partition"), is_told, "{customers} customers");
    }
}

const BY_TOTAL: &str = r#"{"query":"SELECT VALUE MAX(c.total) FROM c WHERE c.total > @t","parameters":[{"name":"@t","value":1}]}"#;

#[test]
fn a_query_that_asks_every_range_and_a_key_that_nobody_names() {
    let bench = Bench::new();
    let orders = orders(&bench, 200, 50);
    for _ in 0..5 {
        bench.query(&orders, None, BY_TOTAL);
    }
    assert!(watched(&bench, "fan-out") && watched(&bench, "unnamed-key"));
    let told = finding(&bench.advice(), "fan-out").to_json();
    assert!(told.contains("/customer"), "{told}");

    // The same with a key, and a little of it without.
    let bench = Bench::new();
    let orders = self::orders(&bench, 200, 50);
    bench.query(&orders, None, BY_TOTAL);
    for customer in 0..200 {
        let key = format!("[\"c{}\"]", customer % 50);
        bench.query(&orders, Some(&key), r#"{"query":"SELECT * FROM c"}"#);
    }
    assert!(!watched(&bench, "fan-out") && !watched(&bench, "unnamed-key"));
}

#[test]
fn a_dangling_reference() {
    for (missing, is_told) in [(7, true), (999, false)] {
        let bench = Bench::new();
        let customers = bench.container("customers", "/id", 1, "");
        let orders = bench.container("orders", "/id", 1, "");
        for number in 0..22 {
            if number != missing {
                bench.put(&customers, &format!(r#"{{"id":"c{number}","name":"n{number}"}}"#));
            }
            bench.put(&orders, &format!(r#"{{"id":"o{number}","customerId":"c{number}"}}"#));
        }
        for number in 0..4 {
            // One activity: an order, and the customer that it names.
            let order = armilla_advisor::observe::Seen {
                key: Some(format!("[\"o{number}\"]")),
                item: Some(format!("o{number}")),
                ..bench.seen(&orders, Verb::Read)
            };
            let customer = armilla_advisor::observe::Seen {
                key: Some(format!("[\"c{number}\"]")),
                item: Some(format!("c{number}")),
                ..bench.seen(&customers, Verb::Read)
            };
            let activity = order.activity;
            bench.tell(order);
            bench.tell(armilla_advisor::observe::Seen { activity, ..customer });
        }
        assert_eq!(watched(&bench, "dangling-reference"), is_told, "{missing} is missing");
    }
}
