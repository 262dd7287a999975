//! Order: positions that clients name themselves, and what time to live does to indexes.

use crate::support::{Bench, everything, texts};
use armilla_engine::query::{Access, Request, ResumeFilter, ResumeValue};
use armilla_model::rid;
use armilla_model::{Value, json};

fn filled() -> Bench {
    let bench = Bench::plain(1);
    for number in 0..12 {
        let text = format!(r#"{{"id":"{number}","pk":"p","n":{},"t":["a","b"]}}"#, number / 4);
        bench.put_text(&text);
    }
    bench
}

/// A position as clients write it: `[]` is undefined.
fn position(filter: &str) -> ResumeFilter {
    let filter = json::parse(filter.as_bytes()).unwrap();
    let value = |value: &Value| match value {
        Value::Array(_) => ResumeValue::Exact(Value::Undefined),
        value => ResumeValue::Exact(value.clone()),
    };
    let docno = |rid: &Value| {
        let bytes = rid::decode(rid.as_str().unwrap()).unwrap();
        rid::split_document(&bytes).unwrap().1
    };
    ResumeFilter {
        values: filter.get("value").unwrap().as_array().unwrap().iter().map(value).collect(),
        docno: filter.get("rid").map(docno),
        exclude: filter.get("exclude").and_then(Value::as_bool).unwrap_or(false),
    }
}

fn resumed(bench: &Bench, text: &str, filter: &str) -> Vec<String> {
    let request = Request { resume: Some(position(filter)), ..Request::of_text(text) };
    let [items, index, paged] = [(Access::Items, 100), (Access::Index, 100), (Access::Index, 2)]
        .map(|(access, page_size)| {
            let pages = bench.pages_in(&request, &everything(), page_size, access).unwrap();
            texts(&pages.concat())
        });
    assert_eq!(items, index);
    assert_eq!(items, paged);
    items
}

fn rid_of(bench: &Bench, id: &str) -> String {
    let rows = bench.rows(&format!("SELECT VALUE c._rid FROM c WHERE c.id = '{id}'"));
    rows[0].as_str().unwrap().to_owned()
}

#[test]
fn a_client_may_say_where_to_go_on() {
    let bench = filled();
    let text = "SELECT VALUE c.id FROM c ORDER BY c.n";
    let quoted = |range: std::ops::Range<u32>| -> Vec<String> {
        range.map(|id| format!("\"{id}\"")).collect()
    };
    assert_eq!(resumed(&bench, text, r#"{"value":[1],"exclude":false}"#), quoted(4..12));
    assert_eq!(resumed(&bench, text, r#"{"value":[1],"exclude":true}"#), quoted(8..12));
    let rid = rid_of(&bench, "5");
    let filter = format!(r#"{{"value":[1],"rid":"{rid}","exclude":false}}"#);
    assert_eq!(resumed(&bench, text, &filter), quoted(5..12));
    let descending = "SELECT VALUE c.id FROM c ORDER BY c.n DESC";
    let reversed = resumed(&bench, descending, &filter);
    assert_eq!(reversed, ["\"5\"", "\"4\"", "\"3\"", "\"2\"", "\"1\"", "\"0\""]);
    // Of several rows of one item the client skips what it has.
    let joined = "SELECT VALUE [c.id, t] FROM c JOIN t IN c.t ORDER BY c.n";
    assert_eq!(resumed(&bench, joined, &filter).len(), 14);
    assert_eq!(resumed(&bench, text, r#"{"value":[[]],"exclude":true}"#).len(), 12);
}

/// Whatever the policy says of the path, and whatever composite indexes there are beside it.
#[test]
fn items_without_the_key_come_first_and_in_descending_order_last() {
    let composite = r#"{"compositeIndexes":[[{"path":"/x"},{"path":"/y"}]]}"#;
    let named = r#"{"includedPaths":[{"path":"/*"},{"path":"/n/?"}]}"#;
    let member = r#"{"compositeIndexes":[[{"path":"/x"},{"path":"/n"}]]}"#;
    for policy in ["{}", named, composite, member] {
        let definition =
            format!(r#"{{"partitionKey":{{"paths":["/pk"]}},"indexingPolicy":{policy}}}"#);
        let bench = Bench::new(&json::parse(definition.as_bytes()).unwrap(), 2);
        for (id, key) in
            [("a", ""), ("b", r#","n":null"#), ("c", r#","n":1"#), ("d", r#","n":"s""#)]
        {
            bench.put_text(&format!(r#"{{"id":"{id}","pk":"{id}"{key}}}"#));
        }
        let mut expected = vec!["\"a\"", "\"b\"", "\"c\"", "\"d\""];
        for text in
            ["SELECT VALUE c.id FROM c ORDER BY c.n", "SELECT VALUE c.id FROM c ORDER BY c.n DESC"]
        {
            for access in [Access::ByCost, Access::Items, Access::Index] {
                for page_size in [1, 2, 100] {
                    let request = Request::of_text(text);
                    let pages = bench.pages_in(&request, &everything(), page_size, access);
                    let rows = texts(&pages.unwrap().concat());
                    assert_eq!(rows, expected, "{policy}: {text} by {access:?} in {page_size}s");
                }
            }
            expected.reverse();
        }
    }
}

/// Nobody has the path: all items lack the key, and all of them are rows.
#[test]
fn an_order_by_a_path_that_no_item_has_keeps_all_items() {
    let bench = filled();
    for text in ["SELECT VALUE c.id FROM c ORDER BY c.none", "SELECT * FROM c ORDER BY c.none DESC"]
    {
        for access in [Access::ByCost, Access::Items, Access::Index] {
            let pages = bench.pages_in(&Request::of_text(text), &everything(), 5, access).unwrap();
            assert_eq!(pages.concat().len(), 12, "{text} by {access:?}");
        }
    }
}

#[test]
fn indexes_do_not_show_what_has_expired() {
    let definition = br#"{"partitionKey":{"paths":["/pk"]},"defaultTtl":-1}"#;
    let bench = Bench::new(&json::parse(definition).unwrap(), 2);
    for number in 0..100 {
        let ttl = if number % 2 == 0 { 10 } else { 1000 };
        bench.put_text(&format!(
            r#"{{"id":"{number}","pk":"p{}","n":{number},"t":"x","ttl":{ttl}}}"#,
            number % 5
        ));
    }
    bench.clock.advance_seconds(50);
    for (text, expected) in [
        ("SELECT VALUE COUNT(1) FROM c", "[50]"),
        ("SELECT VALUE COUNT(1) FROM c WHERE c.t = 'x'", "[50]"),
        ("SELECT VALUE MIN(c.n) FROM c", "[1]"),
        ("SELECT VALUE MAX(c.n) FROM c WHERE c.n < 51", "[49]"),
        ("SELECT c.t, COUNT(1) AS k FROM c GROUP BY c.t", r#"[{"t":"x","k":50}]"#),
        ("SELECT DISTINCT VALUE c.n FROM c WHERE c.n IN (1, 2, 3)", "[1,3]"),
        ("SELECT TOP 2 VALUE c.n FROM c ORDER BY c.n DESC", "[99,97]"),
        ("SELECT TOP 2 VALUE c.n FROM c WHERE c.t = 'x' ORDER BY c.n", "[1,3]"),
        ("SELECT VALUE c.n FROM c WHERE c.n = 2", "[]"),
        ("SELECT VALUE c.n FROM c WHERE c.id = '2' AND c.pk = 'p2'", "[]"),
    ] {
        for access in [Access::ByCost, Access::Items, Access::Index] {
            let request = Request::of_text(text);
            let rows = bench.pages_in(&request, &everything(), 1000, access).unwrap().concat();
            assert_eq!(Value::array(rows).to_json(), expected, "{text} by {access:?}");
        }
    }
}

/// The item itself is a key: all items are rows, in one order for every page size and number of ranges,
/// and descending order is its reverse.
#[test]
fn items_may_be_ordered_by_themselves() {
    let mut orders = Vec::new();
    for ranges in [1, 3] {
        let bench = Bench::plain(ranges);
        for number in 0..9 {
            let text = format!(r#"{{"id":"{number}","pk":"{}","n":{}}}"#, number % 4, 9 - number);
            bench.put_text(&text);
        }
        for text in [
            "SELECT VALUE c.id FROM c ORDER BY c",
            "SELECT VALUE c.id FROM c ORDER BY c DESC",
            "SELECT VALUE c.id FROM c WHERE c.n > 0 ORDER BY c ASC OFFSET 2 LIMIT 4",
        ] {
            let rows = |page_size, access| {
                let request = Request::of_text(text);
                let pages = bench.pages_in(&request, &everything(), page_size, access);
                texts(&pages.unwrap().concat())
            };
            let expected = rows(100, Access::Items);
            for page_size in [1, 4, 100] {
                for access in [Access::ByCost, Access::Index] {
                    let found = rows(page_size, access);
                    assert_eq!(
                        found, expected,
                        "{text} over {ranges} by {access:?} in {page_size}s"
                    );
                }
            }
            orders.push(expected);
        }
        let [ascending, descending, part] = orders.last_chunk().expect("three texts");
        assert_eq!(ascending.len(), 9);
        assert!(ascending.iter().eq(descending.iter().rev()), "{ascending:?} {descending:?}");
        assert_eq!(ascending[2..6], part[..]);
    }
}
