//! Changes that save units: composite indexes, keys of several paths and made ones, the mode of throughput; and proofs on a part.

use crate::bench::{Bench, assert_proved, finding, number, rules};
use armilla_advisor::observe::{Seen, Verb};
use armilla_engine::Container;
use armilla_model::value::Value;
use std::sync::Arc;

fn asked(text: &str, parameters: &[(&str, &str)]) -> String {
    let parameters: Vec<String> = parameters
        .iter()
        .map(|(name, value)| format!(r#"{{"name":"@{name}","value":"{value}"}}"#))
        .collect();
    format!(r#"{{"query":"{text}","parameters":[{}]}}"#, parameters.join(","))
}

#[test]
fn a_composite_index_where_conditions_are_compared_together() {
    let composite = r#","indexingPolicy":{"includedPaths":[{"path":"/*"}],"compositeIndexes":[[{"path":"/status"},{"path":"/year"}]]}"#;
    let both = "SELECT * FROM c WHERE c.status = @s AND c.year = @y";
    let one = "SELECT * FROM c WHERE c.status = @s";
    for (policy, text, expected) in
        [("", both, &["composite-index"][..]), (composite, both, &[]), ("", one, &[])]
    {
        let bench = Bench::new();
        let orders = bench.container("orders", "/customer", 1, policy);
        for number in 0..300 {
            let item = format!(
                r#"{{"id":"o{number}","customer":"c1","status":"s{}","year":"y{}"}}"#,
                number % 3,
                number / 3 % 10
            );
            bench.put(&orders, &item);
        }
        for _ in 0..10 {
            let body = asked(text, &[("s", "s1"), ("y", "y2")]);
            assert!(!bench.query(&orders, Some("[\"c1\"]"), &body).is_empty());
        }
        bench.write(
            &orders,
            Verb::Create,
            r#"{"id":"new","customer":"c1","status":"s1","year":"y1"}"#,
        );
        let advice = bench.proved(1_000);
        assert_eq!(rules(&advice, "change"), expected, "{text} {policy}");
        if !expected.is_empty() {
            assert_proved(&advice, "composite-index");
            let told = finding(&advice, "composite-index").to_json();
            assert!(told.contains(r#"\"path\":\"/status\""#), "{told}");
        }
    }
}

/// Events of so many tenants in four ranges, asked by tenant and user, and by tenant alone.
fn events(bench: &Bench, tenants: usize) -> Arc<Container> {
    let events = bench.container("events", "/id", 4, "");
    let item = |number: usize, id: &str| {
        format!(
            r#"{{"id":"{id}{number}","tenant":"t{}","user":"u{}","what":"w{}"}}"#,
            number % tenants,
            number % 120,
            number % 5
        )
    };
    for number in 0..360 {
        bench.put(&events, &item(number, "e"));
    }
    for number in 0..3 {
        bench.write(&events, Verb::Create, &item(number, "n"));
    }
    for number in 0..12 {
        let (tenant, user) = (format!("t{}", number % tenants), format!("u{number}"));
        let text = "SELECT * FROM c WHERE c.tenant = @t AND c.user = @u";
        assert_eq!(
            bench.query(&events, None, &asked(text, &[("t", &tenant), ("u", &user)])).len() / 3,
            1
        );
    }
    let body = asked("SELECT * FROM c WHERE c.tenant = @t", &[("t", "t1")]);
    bench.query(&events, None, &body);
    events
}

#[test]
fn a_key_of_two_levels_where_the_first_has_few_values() {
    let bench = Bench::new();
    events(&bench, 4);
    let advice = bench.proved(1_000);
    assert_eq!(rules(&advice, "change"), ["hierarchical-key"], "{}", advice.to_json());
    assert_proved(&advice, "hierarchical-key");
    let told = finding(&advice, "hierarchical-key").to_json();
    assert!(told.contains("--partition-key /tenant,/user"), "{told}");

    // With many tenants the first level will do.
    let bench = Bench::new();
    events(&bench, 60);
    assert_eq!(rules(&bench.advice(), "change"), ["partition-key"]);

    // Who reads by the key of today keeps it.
    let bench = Bench::new();
    let events = events(&bench, 4);
    bench.read(&events, "[\"e1\"]", "e1");
    let told = rules(&bench.advice(), "change");
    assert!(!told.iter().any(|rule| rule.contains("key")), "{told:?}");
}

#[test]
fn an_id_made_of_what_every_query_names() {
    let by_both = "SELECT * FROM c WHERE c.product = @p AND c.day = @d";
    for (days, reads_by_id, is_told) in [(1, false, true), (1, true, false), (3, false, false)] {
        let bench = Bench::new();
        let prices = bench.container("prices", "/product", 1, "");
        for number in 0..60 {
            for again in 0..days {
                let item = format!(
                    r#"{{"id":"x{number}-{again}","product":"p{}","day":"d{}","price":{number}}}"#,
                    number % 20,
                    number / 20
                );
                bench.put(&prices, &item);
            }
        }
        for number in 0..10 {
            let key = format!("[\"p{number}\"]");
            let product = format!("p{number}");
            let body = asked(by_both, &[("p", &product), ("d", "d1")]);
            assert_eq!(bench.query(&prices, Some(&key), &body).len(), days);
        }
        bench.write(&prices, Verb::Create, r#"{"id":"y","product":"p1","day":"d9","price":1}"#);
        if reads_by_id {
            bench.read(&prices, "[\"p1\"]", "x1-0");
        }
        let advice = bench.proved(1_000);
        let told = rules(&advice, "change").contains(&"synthetic-key".to_owned());
        assert_eq!(told, is_told, "{days} a day, by id {reads_by_id}: {}", advice.to_json());
        if is_told {
            assert_proved(&advice, "synthetic-key");
        }
    }
}

/// Where items say no kind, kinds are told apart by their properties: a view takes those that a query asks for, and no others.
#[test]
fn kinds_by_their_properties() {
    for (is_mixed, expected) in [(true, true), (false, false)] {
        let bench = Bench::new();
        let things = bench.container("things", "/postId", 4, "");
        for number in 0..40 {
            let comment = format!(
                r#"{{"id":"c{number}","postId":"p{number}","author":"u{}","text":"some words"}}"#,
                number % 8
            );
            let other = match is_mixed {
                true => format!(
                    r#"{{"id":"p{number}","postId":"p{number}","title":"t{number}","body":"{}"}}"#,
                    "word ".repeat(30)
                ),
                // A property that some lack makes no kind.
                false => format!(
                    r#"{{"id":"p{number}","postId":"p{number}","author":"u{}","text":"t","edited":1}}"#,
                    number % 8
                ),
            };
            bench.put(&things, &comment);
            bench.put(&things, &other);
        }
        for number in 0..20 {
            bench.read(&things, &format!("[\"p{number}\"]"), &format!("p{number}"));
            let author = format!("u{}", number % 8);
            let body = asked("SELECT * FROM c WHERE c.author = @a", &[("a", &author)]);
            assert!(!bench.query(&things, None, &body).is_empty());
        }
        let advice = bench.proved(1_000);
        assert_eq!(rules(&advice, "change"), ["view"], "{}", advice.to_json());
        assert_proved(&advice, "view");
        let told = finding(&advice, "view").to_json();
        assert_eq!(told.contains("WHERE IS_DEFINED(c.author)"), expected, "{told}");
        let shapes: Vec<Option<String>> =
            bench.observer.workload().shapes.into_iter().map(|shape| shape.kind).collect();
        assert_eq!(shapes.contains(&Some("with body".to_owned())), expected, "{shapes:?}");
    }
}

/// A long list goes into buckets where it is gone through as a whole, into items of its elements where it is only added to.
#[test]
fn a_long_list_in_buckets() {
    for (scans, expected) in [(40, "buckets"), (0, "capped-list")] {
        let bench = Bench::new();
        let logs = bench.container("logs", "/id", 1, "");
        let item = |log: usize, length: usize| {
            let line = |number: usize| {
                format!(r#"{{"at":{number},"text":"{}"}}"#, "line ".repeat(24 + number % 3))
            };
            let lines: Vec<String> = (0..length).map(line).collect();
            format!(r#"{{"id":"l{log}","lines":[{}]}}"#, lines.join(","))
        };
        for log in 0..4 {
            bench.put(&logs, &item(log, 300));
        }
        for log in 0..4 {
            bench.read(&logs, &format!("[\"l{log}\"]"), &format!("l{log}"));
            bench.write(&logs, Verb::Replace, &item(log, 301));
        }
        for scan in 0..scans {
            let body = asked("SELECT VALUE l FROM c JOIN l IN c.lines", &[]);
            let rows = bench.query(&logs, Some(&format!("[\"l{}\"]", scan % 4)), &body);
            assert!(!rows.is_empty());
        }
        let advice = bench.proved(1_000);
        let told = rules(&advice, "change");
        assert_eq!(told, [expected], "{scans} scans: {}", advice.to_json());
        if expected == "buckets" {
            assert_proved(&advice, expected);
        }
    }
}

#[test]
fn throughput_that_is_paid_for_and_not_used() {
    let steady = |hour: u64| 9_000.0 + (hour % 3) as f64;
    let peaky = |hour: u64| if hour % 24 == 9 { 9_000.0 } else { 20.0 };
    for (hours, load, is_told) in [
        (48, peaky as fn(u64) -> f64, true),
        (48, steady as fn(u64) -> f64, false),
        (6, peaky as fn(u64) -> f64, false),
    ] {
        let bench = Bench::new();
        let orders = bench.container("orders", "/id", 1, "");
        bench.put(&orders, r#"{"id":"o1"}"#);
        for hour in 0..hours {
            let seen = Seen {
                key: Some("[\"o1\"]".to_owned()),
                item: Some("o1".to_owned()),
                units: load(hour),
                ..bench.seen(&orders, Verb::Read)
            };
            bench.tell(seen);
            bench.pass(3_600_000);
        }
        let advice = bench.advice();
        let told = rules(&advice, "change").contains(&"throughput-mode".to_owned());
        assert_eq!(told, is_told, "{hours} hours");
        let says = advice.get("says").and_then(Value::as_str).unwrap();
        assert_eq!(says.contains("of the bill for throughput"), is_told, "{says}");
        if is_told {
            let found = finding(&advice, "throughput-mode");
            let text = found.to_json();
            assert!(text.contains("autoscale up to 9000") && text.contains("undo"), "{text}");
            // 10,000 RU/s for 48 hours; with autoscale two dear hours and 46 of the floor, each half as much again.
            let bill = found.get("bill").unwrap();
            assert_eq!(number(bill, "before"), 48.0 * 10_000.0);
            assert_eq!(number(bill, "after"), (2.0 * 9_000.0 + 46.0 * 900.0) * 1.5);
            assert!(number(bill, "savedShare") > 0.8);
            assert_eq!(found.get("savedUnits"), Some(&Value::Null));
        }
    }
}

#[test]
fn a_proof_on_a_part_of_the_data_says_so_and_agrees() {
    let bench = Bench::new();
    let orders = bench.container("orders", "/id", 4, "");
    for number in 0..1_500 {
        let item = format!(
            r#"{{"id":"o{number}","customer":"c{}","text":"{}"}}"#,
            number % 100,
            "x".repeat(number % 50)
        );
        bench.put(&orders, &item);
    }
    for number in 0..10 {
        let customer = format!("c{number}");
        bench.query(
            &orders,
            None,
            &asked("SELECT * FROM c WHERE c.customer = @c", &[("c", &customer)]),
        );
        bench.read(&orders, &format!("[\"o{number}\"]"), &format!("o{number}"));
    }
    let part = bench.proved(300);
    let proof = part.get("proof").unwrap();
    assert_eq!(proof.get("sampled"), Some(&Value::Bool(true)), "{}", proof.to_json());
    assert!(number(proof, "items") <= 600.0 && number(proof, "of") == 1_500.0);
    assert!(proof.get("says").and_then(Value::as_str).unwrap().contains("of 1,500 items"));
    let whole = bench.proved(10_000);
    assert_eq!(whole.get("proof").unwrap().get("sampled"), Some(&Value::Bool(false)));
    for advice in [&part, &whole] {
        assert_eq!(rules(advice, "change"), ["view"]);
        assert_proved(advice, "view");
    }
    assert_eq!(bench.advice().get("proof"), Some(&Value::Null));
}

/// A replace that leaves the copied field alone costs no upkeep: the copies stay as they are.
#[test]
fn only_changes_of_copied_fields_are_upkeep() {
    let upkeep = |changes_name: bool| {
        let bench = Bench::new();
        let users = bench.container("users", "/id", 1, "");
        let orders = bench.container("orders", "/id", 1, "");
        let user = |number: usize, name: &str, seen: usize| {
            let flags = "f".repeat(seen % 5);
            format!(r#"{{"id":"u{number}","name":"{name}","visits":{{"n":{seen},"f":"{flags}"}}}}"#)
        };
        for number in 0..10 {
            bench.put(&users, &user(number, "anna", 0));
            bench.put(&orders, &format!(r#"{{"id":"o{number}","userId":"u{number}","total":1}}"#));
        }
        for number in 0..8 {
            let name = if changes_name { format!("name{number}") } else { "anna".to_owned() };
            bench.write(&users, Verb::Replace, &user(number, &name, number + 1));
        }
        for number in 0..400 {
            let of = |container, id: String| Seen {
                key: Some(format!("[\"{id}\"]")),
                item: Some(id),
                ..bench.seen(container, Verb::Read)
            };
            let (order, user) =
                (of(&orders, format!("o{}", number % 10)), of(&users, format!("u{}", number % 10)));
            let activity = order.activity;
            bench.tell(order);
            bench.tell(Seen { activity, ..user });
        }
        let advice = bench.advice();
        assert_eq!(rules(&advice, "change"), ["extended-reference"], "{}", advice.to_json());
        number(&finding(&advice, "extended-reference"), "costUnits")
    };
    let (with, without) = (upkeep(true), upkeep(false));
    assert!(with > 10.0 && without == 0.0, "{with} and {without}");
}
