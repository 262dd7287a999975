//! Ways to find and read items that only many items bring about, against going through the items.

use crate::support::{Bench, everything};
use armilla_engine::query::{Access, Request};
use armilla_model::Value;

fn rows(bench: &Bench, text: &str, page: usize, access: Access) -> Vec<String> {
    let pages = bench.pages_in(&Request::of_text(text), &everything(), page, access).unwrap();
    pages.concat().iter().map(Value::to_json).collect()
}

/// Three large parts: a rare kind whose dates are all at the one end, and at the other two.
fn dated() -> Bench {
    let bench = Bench::plain(2);
    for pk in 0..3 {
        let items: Vec<String> = (0..2500)
            .map(|n| {
                let rare = if pk == 0 { n < 150 } else { n >= 2400 };
                let kind = if rare { "rare" } else { "often" };
                let date = (n * 7 + pk) % 20_011;
                let date = if rare { n + if pk == 0 { 0 } else { 90_000 } } else { date + 500 };
                format!(r#"{{"id":"{n}","pk":{pk},"kind":"{kind}","date":{date},"n":{n}.0}}"#)
            })
            .collect();
        bench.put_all(&items);
    }
    bench
}

#[test]
fn matches_at_the_far_end_come_in_order() {
    let bench = dated();
    for (text, count) in [
        ("SELECT * FROM c WHERE c.kind = 'rare' ORDER BY c.date DESC", 350),
        ("SELECT * FROM c WHERE c.kind = 'rare' ORDER BY c.date", 350),
        ("SELECT TOP 120 VALUE c.id FROM c WHERE c.kind = 'rare' ORDER BY c.date DESC", 120),
        (
            "SELECT c.id FROM c WHERE c.kind = 'rare' AND c.n < 2450 ORDER BY c.date OFFSET 7 LIMIT 200",
            200,
        ),
        ("SELECT VALUE c.n FROM c WHERE c.kind = 'rare' AND c.n % 2 = 0 ORDER BY c.date DESC", 175),
    ] {
        for page in [30, 500] {
            let by_index = rows(&bench, text, page, Access::Index);
            assert_eq!(by_index.len(), count, "{text}");
            assert_eq!(by_index, rows(&bench, text, 1000, Access::Items), "{text}");
        }
    }
    for text in [
        "SELECT VALUE MAX(c.date) FROM c WHERE c.kind = 'rare' AND c.pk = 0",
        "SELECT VALUE MIN(c.date) FROM c WHERE c.kind = 'rare' AND c.pk > 0",
    ] {
        assert_eq!(rows(&bench, text, 10, Access::Index), rows(&bench, text, 10, Access::Items));
    }
}

#[test]
fn rows_around_an_item_are_made_of_its_text() {
    let bench = Bench::plain(2);
    for n in 0..100 {
        let extra = if n % 3 == 0 { String::new() } else { format!(r#","x":{{"y":[{n},"\n"]}}"#) };
        bench.put_text(&format!(r#"{{"id":"{n}","pk":{},"n":{}.5{extra}}}"#, n % 7, n % 10));
    }
    for text in [
        "SELECT c._rid, [{\"item\": c.n}, {\"item\": c.x.y[0]}] AS orderByItems, c AS payload FROM c ORDER BY c.n DESC",
        "SELECT c.x, c AS whole, c.x.y AS y, 1 AS one, undefined AS nothing FROM c WHERE c.n > 3",
        "SELECT VALUE {\"a\": [c.zz, c, c.x.y[1]], \"b\": []} FROM c ORDER BY c.n",
        "SELECT VALUE [c] FROM c WHERE c.n + 1 > 5 AND c.id != '14'",
        "SELECT VALUE c FROM c WHERE LENGTH(c.id) = 1",
        "SELECT DISTINCT VALUE [c.n, c] FROM c",
    ] {
        // A condition that cannot be left out makes the rows of values instead.
        let told = rows(&bench, text, 13, Access::ByCost);
        let joined = text.replace(" FROM c", " FROM c JOIN one IN (SELECT VALUE [1])");
        assert!(!told.is_empty());
        assert_eq!(told, rows(&bench, &joined, 13, Access::Items), "{text}");
    }
}

#[test]
fn items_that_are_read_together_are_all_there() {
    let definition = br#"{"partitionKey":{"paths":["/pk"]},"indexingPolicy":{
        "includedPaths":[{"path":"/n/?"}],"excludedPaths":[{"path":"/*"}]}}"#;
    for ranges in [1, 3] {
        let bench = Bench::new(&armilla_model::json::parse(definition).unwrap(), ranges);
        let mut ids = Vec::new();
        // Small partitions, and one that is too large to be read at once.
        for (pk, count) in [("large", 1500)].into_iter().chain((0..300).map(|_| ("", 5))) {
            let pk = if pk.is_empty() { format!("p{}", ids.len()) } else { pk.to_owned() };
            let id = |n: usize| format!("{pk}-{n}");
            let text = |n: usize| {
                format!(r#"{{"id":"{}","pk":"{pk}","n":{n},"hidden":{}}}"#, id(n), n % 5)
            };
            bench.put_all(&(0..count).map(text).collect::<Vec<_>>());
            ids.extend((0..count).map(|n| (id(n), n)));
        }
        for (condition, wanted) in [
            ("true", Box::new(|_: usize| true) as Box<dyn Fn(usize) -> bool>),
            ("c.hidden = 3", Box::new(|n| n % 5 == 3)),
            ("c.hidden > 1 AND c.n < 4", Box::new(|n| n % 5 > 1 && n < 4)),
            ("c.hidden = 0 AND c.n > 1200", Box::new(|n| n % 5 == 0 && n > 1200)),
        ] {
            let mut expected: Vec<String> =
                ids.iter().filter(|(_, n)| wanted(*n)).map(|(id, _)| format!("\"{id}\"")).collect();
            expected.sort();
            for (page, access) in
                [(10, Access::ByCost), (5000, Access::ByCost), (5000, Access::Items)]
            {
                let text = format!("SELECT VALUE c.id FROM c WHERE {condition}");
                let mut found = rows(&bench, &text, page, access);
                found.sort();
                assert_eq!(found, expected, "{condition} in {ranges} ranges by {page}");
            }
            let text = format!("SELECT VALUE COUNT(1) FROM c WHERE {condition}");
            let count = rows(&bench, &text, 10, Access::ByCost);
            assert_eq!(count, [expected.len().to_string()], "{condition}");
        }
    }
}

/// A scan rejects items by their text where the condition wants a string: one that has it elsewhere, as a part or only escaped must not
/// be taken for another.
#[test]
fn a_string_is_found_by_text_as_by_the_index() {
    let bench = Bench::plain(2);
    let values = [
        r#""blue""#,
        r#""\u0062lue""#,
        r#""blue sky""#,
        r#""Blue""#,
        r#"["blue"]"#,
        r#"{"blue":1}"#,
        r#"{"b":"blue"}"#,
        r#""say \"blue\"""#,
        r#""caf\u00e9""#,
        "1",
        "null",
    ];
    for (id, value) in values.iter().cycle().take(300).enumerate() {
        bench.put_text(&format!(r#"{{"id":"{id}","pk":{},"a":{value},"n":{}}}"#, id % 5, id % 3));
    }
    for condition in [
        "c.a = 'blue'",
        "c.a.b = 'blue'",
        "c.a[0] = 'blue'",
        "'blue' = c.a AND c.n > 0",
        "c.a = 'blue' AND c.a = 'Blue'",
        "c.a = 'say \"blue\"'",
        "c.a = 'café'",
        "c.a = 'nowhere'",
    ] {
        for select in ["VALUE COUNT(1)", "VALUE c.id", "DISTINCT VALUE c.n"] {
            let text = format!("SELECT {select} FROM c WHERE {condition}");
            let scanned = rows(&bench, &text, 1000, Access::Items);
            assert_eq!(scanned, rows(&bench, &text, 1000, Access::Index), "{text}");
            let is_none = scanned.is_empty() || scanned == ["0"];
            let has_none = condition.contains("nowhere") || condition.contains("'Blue'");
            assert_eq!(is_none, has_none, "{text}");
        }
    }
}
