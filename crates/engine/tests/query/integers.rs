//! Integers beyond 2^53 are numbers of their own in every way to find, order, group and add them.

use crate::support::{Bench, everything};
use armilla_engine::query::{Access, Request};
use armilla_model::{Value, json};

/// The first five share two doubles; the last is a double between two of them.
const NUMBERS: [&str; 8] = [
    "9007199254740992",
    "9007199254740993",
    "9007199254740994",
    "9007199254740995",
    "9007199254740993",
    "9223372036854775806",
    "9223372036854775807",
    "9007199254740994.0",
];

const COMPOSITE: &str = r#"{"partitionKey":{"paths":["/pk"]},"indexingPolicy":{"compositeIndexes":
    [[{"path":"/t"},{"path":"/n","order":"descending"}]]}}"#;

fn benches() -> impl Iterator<Item = Bench> {
    [1, 3].into_iter().map(|ranges| {
        let bench = Bench::new(&json::parse(COMPOSITE.as_bytes()).unwrap(), ranges);
        for (at, number) in NUMBERS.iter().enumerate() {
            bench.put_text(&format!(
                r#"{{"id":"i{at}","pk":"{}","t":"t","n":{number},"tags":[{number}]}}"#,
                at % 4
            ));
        }
        bench
    })
}

fn rows(bench: &Bench, text: &str, page: usize, access: Access) -> Vec<String> {
    let pages = bench.pages_in(&Request::of_text(text), &everything(), page, access).unwrap();
    pages.concat().iter().map(Value::to_json).collect()
}

/// The rows, whichever way they are found; sorted unless the query has an order.
fn everywhere(text: &str) -> Vec<String> {
    let mut first: Option<Vec<String>> = None;
    for bench in benches() {
        for access in [Access::Index, Access::Items, Access::ByCost] {
            for page in [1, 100] {
                let mut found = rows(&bench, text, page, access);
                if !text.contains("ORDER BY") {
                    found.sort();
                }
                let expected = first.get_or_insert_with(|| found.clone());
                assert_eq!(&found, expected, "{text} by {access:?} in pages of {page}");
            }
        }
    }
    first.unwrap()
}

#[test]
fn filters_tell_neighbours_apart() {
    for (condition, ids) in [
        ("c.n = 9007199254740993", "i1 i4"),
        ("c.n = 9007199254740992", "i0"),
        ("c.n = 9007199254740994", "i2 i7"),
        ("c.n != 9007199254740993", "i0 i2 i3 i5 i6 i7"),
        ("c.n > 9007199254740993", "i2 i3 i5 i6 i7"),
        ("c.n <= 9007199254740992.0", "i0"),
        ("c.n < 9223372036854775808", "i0 i1 i2 i3 i4 i5 i6 i7"),
        ("c.n = 9223372036854775808", ""),
        ("c.n BETWEEN 9007199254740993 AND 9007199254740994", "i1 i2 i4 i7"),
        ("c.n IN (9007199254740992, 9223372036854775807)", "i0 i6"),
        ("c.n NOT IN (9007199254740992, 9007199254740993)", "i2 i3 i5 i6 i7"),
        ("ARRAY_CONTAINS(c.tags, 9007199254740993)", "i1 i4"),
        ("EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t = 9007199254740995)", "i3"),
        ("c.t = 't' AND c.n = 9007199254740993", "i1 i4"),
        ("c.t = 't' AND c.n >= 9223372036854775807", "i6"),
        ("c.n + 1 = 9007199254740994", "i1 i4"),
        ("c.n % 10 = 3", "i1 i4"),
    ] {
        let found = everywhere(&format!("SELECT VALUE c.id FROM c WHERE {condition}"));
        let ids: Vec<String> = ids.split_whitespace().map(|id| format!("\"{id}\"")).collect();
        assert_eq!(found, ids, "{condition}");
        let count = everywhere(&format!("SELECT VALUE COUNT(1) FROM c WHERE {condition}"));
        assert_eq!(count, [ids.len().to_string()], "{condition}");
    }
}

#[test]
fn groups_and_distinct_rows_are_those_of_exact_values() {
    assert_eq!(everywhere("SELECT DISTINCT VALUE c.n FROM c").len(), 6);
    assert_eq!(
        everywhere("SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE c.n FROM c) n"),
        ["6"]
    );
    let groups = everywhere("SELECT COUNT(1) AS k FROM c GROUP BY c.n");
    assert_eq!(groups.join(" "), r#"{"k":1} {"k":1} {"k":1} {"k":1} {"k":2} {"k":2}"#);
}

#[test]
fn sums_and_extremes_are_exact() {
    let among = "c.n < 9007199254740994";
    let of = |aggregate: &str, condition: &str| {
        everywhere(&format!("SELECT VALUE {aggregate} FROM c WHERE {condition}")).join(" ")
    };
    assert_eq!(of("SUM(c.n)", among), "27021597764222978");
    assert_eq!(of("AVG(c.n)", "c.n = 9007199254740993"), "9007199254740993");
    assert_eq!(of("MAX(c.n)", among), "9007199254740993");
    assert_eq!(of("MAX(c.n)", "true"), "9223372036854775807");
    assert_eq!(of("MIN(c.n)", "c.n > 9007199254740994"), "9007199254740995");
}

#[test]
fn an_order_is_one_of_exact_values() {
    let ascending = everywhere("SELECT VALUE c.n FROM c ORDER BY c.n");
    let mut expected: Vec<i64> =
        NUMBERS.iter().map(|text| text.trim_end_matches(".0").parse().unwrap()).collect();
    expected.sort_unstable();
    let texts = |numbers: &[i64]| numbers.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(ascending, texts(&expected));
    expected.reverse();
    assert_eq!(everywhere("SELECT VALUE c.n FROM c ORDER BY c.n DESC"), texts(&expected));
    assert_eq!(everywhere("SELECT VALUE c.n FROM c ORDER BY c.t, c.n DESC"), texts(&expected));
}

/// Keys are hashed as doubles, so both items lie in one logical partition; a condition tells them apart.
#[test]
fn one_partition_key_may_hold_two_numbers() {
    let bench = Bench::plain(3);
    bench.put_text(r#"{"id":"a","pk":9007199254740992}"#);
    bench.put_text(r#"{"id":"b","pk":9007199254740993}"#);
    for (condition, ids) in [
        ("c.pk = 9007199254740993", "\"b\""),
        ("c.pk = 9007199254740993 AND c.id = 'a'", ""),
        ("c.pk = 9007199254740992 AND c.id = 'a'", "\"a\""),
        ("c.pk IN (9007199254740992, 9007199254740993) AND c.id = 'b'", "\"b\""),
    ] {
        for access in [Access::Index, Access::Items, Access::ByCost] {
            let text = format!("SELECT VALUE c.id FROM c WHERE {condition}");
            assert_eq!(rows(&bench, &text, 10, access).join(" "), ids, "{condition}");
        }
    }
}
