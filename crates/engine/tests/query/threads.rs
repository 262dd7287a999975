//! One thread and many: the same pages, the same limits, the same errors.

use crate::support::{Bench, everything};
use armilla_engine::query::{Access, Request, Threads};
use armilla_model::{Result, Value};

/// Pages that were compared, as the number of rows of each.
fn compared(bench: &Bench, text: &str, page_size: usize) -> Result<Vec<usize>> {
    let request = Request::of_text(text);
    let pages =
        bench.pages_on(&request, &everything(), page_size, Access::ByCost, Threads::Many)?;
    Ok(pages.iter().map(Vec::len).collect())
}

/// Four ranges with so many items of one long string each.
fn with_long_strings(items: usize, length: usize) -> Bench {
    let bench = Bench::plain(4);
    for id in 0..items {
        let text = "x".repeat(length);
        bench.put_text(&format!(r#"{{"id":"{id:04}","pk":"{id}","s":"{text}{id}"}}"#));
    }
    bench
}

/// An array of a member so many times: it counts as often, and takes the memory of one.
fn repeated(member: &str, times: usize) -> String {
    format!("[{}]", vec![member; times].join(","))
}

#[test]
fn what_may_be_held_does_not_depend_on_threads() {
    let bench = with_long_strings(60, 10_000);
    // One item counts for a megabyte here: 60 are more than threads may hold, 120 are too many.
    let one = format!("SELECT VALUE ARRAY_LENGTH(MAKELIST({})) FROM c", repeated("c.s", 100));
    assert_eq!(compared(&bench, &one, 10).unwrap(), [1]);
    let two = format!("SELECT VALUE ARRAY_LENGTH(MAKELIST({})) FROM c", repeated("c.s", 250));
    let error = compared(&bench, &two, 10).unwrap_err().to_string();
    assert!(error.contains("would have to hold more than"), "{error}");
    let key = repeated("c.s", 250);
    for text in [
        format!("SELECT c.id FROM c ORDER BY {key}"),
        format!("SELECT COUNT(1) AS n FROM c GROUP BY {key}"),
    ] {
        let outcome = compared(&bench, &text, 100);
        assert!(outcome.is_err(), "{outcome:?}");
    }
}

#[test]
fn an_error_in_one_range_is_the_error() {
    let bench = Bench::plain(4);
    for id in 0..80 {
        let tags = if id == 41 { "[1,2]" } else { "[1]" };
        bench.put_text(&format!(r#"{{"id":"{id}","pk":"{id}","n":{id},"tags":{tags}}}"#));
    }
    // A function is called only where its argument is defined, and this one does not exist.
    let scalar = "(udf.missing(c.tags[1]) ?? 1)";
    for text in [
        format!("SELECT VALUE COUNT(1) FROM c WHERE {scalar} = 1"),
        format!("SELECT c.pk, SUM(c.n) AS n FROM c WHERE {scalar} = 1 GROUP BY c.pk"),
        format!("SELECT DISTINCT VALUE {scalar} FROM c"),
        format!("SELECT DISTINCT c.id FROM c WHERE {scalar} = 1 ORDER BY c.id"),
        format!("SELECT c.id FROM c WHERE {scalar} = 1 ORDER BY c.n"),
        format!("SELECT VALUE COUNT(1) FROM (SELECT DISTINCT {scalar} AS t FROM c)"),
    ] {
        let error = compared(&bench, &text, 10).unwrap_err().to_string();
        assert!(error.contains("does not exist"), "{text}: {error}");
    }
    // Rows that come before the item are handed out; the error is that of a later page.
    let text = format!("SELECT VALUE c.id FROM c WHERE {scalar} = 1");
    let query = |page_size| compared(&bench, &text, page_size);
    assert!(query(100).is_err() && query(3).is_err());
    let first = format!("SELECT TOP 5 VALUE c.id FROM c WHERE {scalar} = 1");
    assert_eq!(compared(&bench, &first, 100).unwrap(), [5]);
}

#[test]
fn sums_are_the_same_over_any_number_of_ranges() {
    let sum = |ranges| {
        let bench = Bench::plain(ranges);
        for id in 0..200 {
            let number = f64::from(id * 7919 % 1009) / 7.0 * 10f64.powi(id % 9 - 4);
            bench.put_text(&format!(r#"{{"id":"{id}","pk":"{id}","n":{number:e}}}"#));
        }
        let rows = |text: &str| {
            compared(&bench, text, 10).unwrap();
            bench.rows(text)
        };
        // From the index, and from the items.
        let whole = rows("SELECT VALUE SUM(c.n) FROM c");
        assert_eq!(whole, rows("SELECT VALUE SUM(c.n) FROM c WHERE c._etag != ''"));
        whole[0].clone()
    };
    let one: Value = sum(1);
    assert!((2..6).all(|ranges| sum(ranges) == one));
}

#[test]
fn a_rare_match_far_behind_is_found_on_the_same_page() {
    let bench = Bench::plain(3);
    for id in 0..300 {
        let rare = id % 97 == 0;
        bench.put_text(&format!(r#"{{"id":"{id}","pk":"{}","o":{{"rare":{rare}}}}}"#, id / 4));
    }
    // Nothing indexes what a function makes of a whole object.
    let condition = "CONTAINS(ToString(c.o), 'true')";
    for text in [
        format!("SELECT VALUE c.id FROM c WHERE {condition}"),
        format!("SELECT * FROM c WHERE {condition}"),
        format!("SELECT VALUE c.id FROM c WHERE {condition} OFFSET 1 LIMIT 2"),
        format!("SELECT VALUE x.id FROM (SELECT c.id FROM c WHERE {condition}) x"),
    ] {
        for page_size in [1, 2, 100] {
            let rows: usize = compared(&bench, &text, page_size).unwrap().iter().sum();
            assert!(rows > 0, "{text}");
        }
    }
}
