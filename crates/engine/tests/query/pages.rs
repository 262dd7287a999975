//! Pages: every row once, whatever the page size and whatever others write meanwhile.

use crate::support::{Bench, everything, texts};
use armilla_engine::items::WriteOptions;
use armilla_engine::query::{Access, Limit, PageOptions, Query, Request, Scope};
use armilla_engine::ranges::EpkSpan;
use armilla_model::partition_key::PartitionKey;
use armilla_model::{Error, Value, json};

fn filled(ranges: u32) -> Bench {
    let bench = Bench::plain(ranges);
    for number in 0..60 {
        bench.put_text(&format!(
            r#"{{"id":"i{number}","pk":"p{}","n":{},"tags":["a{}","b"]}}"#,
            number % 7,
            number % 5,
            number % 3
        ));
    }
    bench
}

#[test]
fn pages_of_any_size_give_the_same_rows() {
    for ranges in [1, 4] {
        let bench = filled(ranges);
        for text in [
            "SELECT * FROM c",
            "SELECT VALUE c.id FROM c WHERE c.n > 1",
            "SELECT VALUE {i: c.id, t: t} FROM c JOIN t IN c.tags",
            "SELECT TOP 17 c.id FROM c",
            "SELECT c.id FROM c OFFSET 11 LIMIT 20",
            "SELECT VALUE x.id FROM (SELECT * FROM c) x OFFSET 3 LIMIT 20",
            "SELECT c.id, c.n FROM c ORDER BY c.n",
            "SELECT c.id, c.n FROM c ORDER BY c.n DESC",
            "SELECT VALUE t FROM c JOIN t IN c.tags ORDER BY c.n DESC",
            "SELECT TOP 13 c.id FROM c ORDER BY c.n",
            "SELECT DISTINCT c.n FROM c",
            "SELECT DISTINCT VALUE c.n FROM c ORDER BY c.n DESC",
            "SELECT c.pk, COUNT(1) AS k, SUM(c.n) AS s FROM c GROUP BY c.pk",
            "SELECT c.n, c.pk FROM c GROUP BY c.n, c.pk OFFSET 5 LIMIT 11",
            "SELECT c.n, c.pk, COUNT(1) AS k FROM c GROUP BY c.n, c.pk ORDER BY c.pk DESC, c.n",
            "SELECT VALUE c.o.k FROM c GROUP BY c.o ORDER BY c.o.k OFFSET 1 LIMIT 9",
            "SELECT VALUE COUNT(1) FROM (SELECT DISTINCT c.n FROM c)",
            "SELECT VALUE COUNT(1) FROM c",
        ] {
            let request = Request::of_text(text);
            let whole = texts(&bench.pages(&request, 1000).unwrap().concat());
            for page_size in [1, 2, 3, 7] {
                let paged = texts(&bench.pages(&request, page_size).unwrap().concat());
                assert_eq!(paged, whole, "{text} in pages of {page_size} over {ranges} ranges");
            }
        }
    }
}

/// Every shape of query where rows, groups or keys are undefined: none of the others is lost at the
/// end of a page, however small.
#[test]
fn rows_that_are_undefined_take_no_place_in_a_page() {
    for ranges in [1, 3] {
        let bench = Bench::plain(ranges);
        for number in 0..40 {
            // A third has no team, another third no rank; teams come in several types.
            let team = match number % 6 {
                0 | 3 => String::new(),
                1 => r#","team":null"#.to_owned(),
                _ => format!(r#","team":"t{}""#, number % 5),
            };
            let rank = match number % 3 {
                0 => String::new(),
                _ => format!(r#","rank":{}"#, number % 4),
            };
            bench.put_text(&format!(r#"{{"id":"{number}","pk":"p{}"{team}{rank}}}"#, number % 7));
        }
        for text in [
            "SELECT VALUE c.team FROM c GROUP BY c.team",
            "SELECT VALUE c.rank FROM c GROUP BY c.team, c.rank",
            "SELECT VALUE MAX(c.rank) FROM c GROUP BY c.team",
            "SELECT VALUE MIN(c.none) FROM c GROUP BY c.team",
            "SELECT VALUE c.team FROM c GROUP BY c.team OFFSET 1 LIMIT 3",
            "SELECT TOP 3 VALUE c.rank FROM c GROUP BY c.team, c.rank",
            "SELECT DISTINCT VALUE c.team FROM c",
            "SELECT DISTINCT VALUE c.rank FROM c OFFSET 1 LIMIT 2",
            "SELECT DISTINCT VALUE c.team FROM c ORDER BY c.team",
            "SELECT DISTINCT c.team, c.rank FROM c",
            "SELECT VALUE c.team FROM c",
            "SELECT TOP 9 VALUE c.rank FROM c",
            "SELECT VALUE c.rank FROM c OFFSET 4 LIMIT 7",
            "SELECT VALUE c.team FROM c ORDER BY c.rank",
            "SELECT VALUE c.team FROM c ORDER BY c.rank DESC",
            "SELECT VALUE c.rank FROM c ORDER BY c.team OFFSET 3 LIMIT 10",
            "SELECT TOP 7 VALUE c.rank FROM c ORDER BY c.rank",
            "SELECT VALUE x FROM (SELECT VALUE c.team FROM c) x",
            "SELECT VALUE c.none FROM c ORDER BY c.rank",
            "SELECT VALUE c.none FROM c GROUP BY c.team, c.none",
        ] {
            let request = Request::of_text(text);
            let whole = texts(&bench.pages(&request, 1000).unwrap().concat());
            for access in [Access::ByCost, Access::Items, Access::Index] {
                for page_size in [1, 2, 3, 7] {
                    let pages = bench.pages_in(&request, &everything(), page_size, access);
                    let paged = texts(&pages.unwrap().concat());
                    let how = format!("pages of {page_size}, {ranges} ranges, by {access:?}");
                    assert_eq!(paged, whole, "{text} in {how}");
                }
            }
        }
    }
}

/// Whichever way items are found; a query that names the item by id and key still finds it.
#[test]
fn queries_do_not_see_items_that_are_excluded_from_the_index() {
    let bench = filled(2);
    let excluded = json::parse(br#"{"id":"hidden","pk":"p0","n":3,"tags":["a0"]}"#).unwrap();
    let options = WriteOptions { exclude_from_index: true, ..WriteOptions::default() };
    bench.put_with(&excluded, &options);
    for (text, expected) in [
        ("SELECT VALUE COUNT(1) FROM c", "[60]"),
        ("SELECT VALUE COUNT(1) FROM c WHERE c.n = 3", "[12]"),
        ("SELECT VALUE COUNT(1) FROM c WHERE c.n + 1 = 4", "[12]"),
        ("SELECT VALUE c.id FROM c WHERE c.id > 'h' AND c.id < 'i'", "[]"),
        ("SELECT TOP 1 VALUE c.id FROM c ORDER BY c.id", "[\"i0\"]"),
        ("SELECT VALUE MIN(c.id) FROM c", "[\"i0\"]"),
        ("SELECT DISTINCT VALUE c.id FROM c WHERE c.id = 'hidden'", "[]"),
        ("SELECT VALUE c.id FROM c JOIN t IN c.tags WHERE c.id = 'hidden'", "[]"),
        ("SELECT VALUE c.n FROM c WHERE c.id = 'hidden' AND c.pk = 'p0'", "[3]"),
    ] {
        for access in [Access::ByCost, Access::Index] {
            let request = Request::of_text(text);
            let rows = bench.pages_in(&request, &everything(), 1000, access).unwrap().concat();
            assert_eq!(Value::array(rows).to_json(), expected, "{text} by {access:?}");
        }
    }
    // Written again without the directive it is there.
    bench.put(&excluded);
    assert_eq!(texts(&bench.rows("SELECT VALUE COUNT(1) FROM c")), ["61"]);
}

#[test]
fn an_exact_last_page_is_the_last() {
    let bench = filled(1);
    let pages = bench.pages(&Request::of_text("SELECT * FROM c WHERE c.n = 0"), 12).unwrap();
    assert_eq!(pages.len(), 1);
    let pages = bench.pages(&Request::of_text("SELECT * FROM c ORDER BY c.n"), 60).unwrap();
    assert_eq!(pages.len(), 1);
}

#[test]
fn rows_that_stay_come_once_while_others_write() {
    for text in ["SELECT VALUE c.id FROM c", "SELECT VALUE c.id FROM c ORDER BY c.n DESC"] {
        let bench = filled(3);
        let request = Request::of_text(text);
        let mut seen = Vec::new();
        let mut continuation: Option<String> = None;
        for step in 0.. {
            let query =
                Query::new(bench.container.clone(), request.clone(), &everything()).unwrap();
            let options = PageOptions {
                count_max: 4,
                continuation: continuation.as_deref(),
                range_by_range: false,
            };
            let page = query.page(options).unwrap();
            seen.extend(page.rows.iter().map(|row| json::parse(row).unwrap().to_json()));
            continuation = page.continuation;
            if continuation.is_none() {
                break;
            }
            // Every third item goes away, and new ones come.
            if step < 20 {
                let number = step * 3;
                let gone = format!(r#"{{"id":"i{number}","pk":"p{}"}}"#, number % 7);
                bench.delete(&json::parse(gone.as_bytes()).unwrap());
                bench.put_text(&format!(r#"{{"id":"new{step}","pk":"p{}","n":2}}"#, step % 7));
            }
        }
        let mut once = seen.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), seen.len(), "{text}: a row came twice");
        for number in (0..60).filter(|number| number % 3 != 0) {
            assert!(seen.contains(&format!("\"i{number}\"")), "{text}: i{number} was lost");
        }
    }
}

#[test]
fn long_values_are_shortened_in_tokens_and_found_again() {
    let bench = Bench::plain(2);
    for number in 0..20 {
        let text = format!("{}{number:02}", "x".repeat(600));
        bench.put_text(&format!(r#"{{"id":"{number}","pk":"p{}","s":"{text}"}}"#, number % 3));
    }
    let request = Request::of_text("SELECT VALUE c.id FROM c ORDER BY c.s");
    let paged = texts(&bench.pages(&request, 3).unwrap().concat());
    let expected: Vec<_> = (0..20).map(|number| format!("\"{number}\"")).collect();
    assert_eq!(paged, expected);
}

#[test]
fn tokens_belong_to_their_query() {
    let bench = filled(1);
    let page = |text: &str, token: Option<&str>| {
        let query = Query::new(bench.container.clone(), Request::of_text(text), &everything());
        query.unwrap().page(PageOptions {
            count_max: 3,
            continuation: token,
            range_by_range: false,
        })
    };
    let token = page("SELECT * FROM c", None).unwrap().continuation.unwrap();
    assert!(page("SELECT * FROM c", Some(&token)).is_ok());
    for (text, token) in [
        ("SELECT  * FROM c", token.as_str()),
        ("SELECT * FROM c ORDER BY c.n", token.as_str()),
        ("SELECT * FROM c", "-RID:~abc#RT:1"),
        ("SELECT * FROM c", ""),
    ] {
        assert!(matches!(page(text, Some(token)), Err(Error::BadRequest(_))), "{text}");
    }
}

#[test]
fn a_key_in_the_condition_replaces_the_header() {
    let bench = filled(4);
    let run = |text: &str, cross_partition: bool| {
        let scope = Scope { cross_partition, ..everything() };
        bench
            .pages_in(&Request::of_text(text), &scope, 100, Access::ByCost)
            .map(|pages| pages.concat().len())
    };
    assert!(matches!(run("SELECT * FROM c", false), Err(Error::CrossPartitionDisabled)));
    assert!(run("SELECT * FROM c WHERE c.n = 1", false).is_err());
    assert_eq!(run("SELECT * FROM c WHERE c.pk = 'p1'", false).unwrap(), 9);
    assert_eq!(run("SELECT * FROM c WHERE c.pk IN ('p1', 'p2') AND c.n = 1", false).unwrap(), 4);
    assert_eq!(run("SELECT * FROM c WHERE c.pk = 'none'", false).unwrap(), 0);
    assert_eq!(run("SELECT * FROM c WHERE false", false).unwrap(), 0);
    assert_eq!(run("SELECT VALUE 1", false).unwrap(), 1);
}

#[test]
fn a_scope_is_kept() {
    let bench = filled(4);
    let definition = bench.container.settings().policy.partition_key.clone();
    let epk = definition.epk(&PartitionKey::parse(r#"["p3"]"#).unwrap());
    let scope = Scope { span: EpkSpan::of_prefix(&epk), limit: Limit::Key, cross_partition: false };
    let count = Request::of_text("SELECT VALUE COUNT(1) FROM c");
    let rows = bench.pages_in(&count, &scope, 10, Access::ByCost).unwrap().concat();
    assert_eq!(rows, [Value::from(9)]);
    // The ranges together have everything, each its own part.
    let mut total = 0.0;
    for range in bench.container.ranges() {
        let span = EpkSpan { min: range.min, max: range.max };
        let scope = Scope { span, limit: Limit::Range, cross_partition: false };
        total += bench.pages_in(&count, &scope, 10, Access::ByCost).unwrap().concat()[0]
            .as_f64()
            .unwrap();
    }
    assert_eq!(total, 60.0);
}

#[test]
fn expired_items_are_hidden() {
    let definition = br#"{"partitionKey":{"paths":["/pk"]},"defaultTtl":10}"#;
    let bench = Bench::new(&json::parse(definition).unwrap(), 2);
    bench.put_text(r#"{"id":"a","pk":"p"}"#);
    bench.put_text(r#"{"id":"b","pk":"q","ttl":100}"#);
    bench.clock.advance_seconds(20);
    assert_eq!(texts(&bench.rows("SELECT VALUE c.id FROM c")), ["\"b\""]);
    assert_eq!(texts(&bench.rows("SELECT VALUE COUNT(1) FROM c")), ["1"]);
    assert_eq!(texts(&bench.rows("SELECT VALUE c.id FROM c ORDER BY c.id")), ["\"b\""]);
    assert_eq!(texts(&bench.rows("SELECT VALUE c.id FROM c WHERE c.id = 'a'")), [""; 0]);
}

#[test]
fn what_a_query_builds_is_bounded() {
    let bench = filled(1);
    let mut text = "c.id".to_owned();
    for _ in 0..40 {
        text = format!("(SELECT VALUE [x, x] FROM (SELECT VALUE {text}) x)");
        if text.len() > 100_000 {
            break;
        }
    }
    let request = Request::of_text(&format!("SELECT VALUE {text} FROM c"));
    assert!(bench.pages(&request, 10).is_err());
}
