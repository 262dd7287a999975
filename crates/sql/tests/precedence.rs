//! How tightly operators bind, proven by execution: for every pair of operators an expression without
//! parentheses has the values of the one with parentheses, over 60 rows of all types, and where both
//! groupings can be written, some row tells them apart.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use armilla_model::Value;
use armilla_model::json::parse as parse_json;
use armilla_sql::reference::{Options, run};
use armilla_sql::{Schema, parse};

/// Infix operators that chain, and their levels: the higher, the tighter.
const CHAINING: [(&str, u8); 22] = [
    ("*", 8),
    ("/", 8),
    ("%", 8),
    ("+", 7),
    ("-", 7),
    ("&", 7),
    ("|", 7),
    ("^", 7),
    ("||", 6),
    ("<<", 5),
    (">>", 5),
    (">>>", 5),
    ("=", 5),
    ("!=", 5),
    ("<>", 5),
    ("<", 5),
    ("<=", 5),
    (">", 5),
    (">=", 5),
    ("AND", 3),
    ("OR", 2),
    ("??", 1),
];
const COMPARISON: u8 = 5;
const COALESCE: u8 = 1;

/// Sixty rows: every combination that a small set of typed values and a seed give.
fn rows() -> Vec<Value> {
    let values = [
        "null",
        "true",
        "false",
        "0",
        "1",
        "2",
        "-3",
        "2.5",
        "7",
        "\"\"",
        "\"a\"",
        "\"ab\"",
        "[1]",
        "{\"x\":1}",
        "",
        "4",
        "6",
    ];
    (0..60_usize)
        .map(|row| {
            let pick = |factor: usize| values[(row * factor + row / 7 + factor) % values.len()];
            let member = |name: &str, value: &str| {
                if value.is_empty() { String::new() } else { format!(",\"{name}\":{value}") }
            };
            let text = format!(
                "{{\"id\":\"{row}\"{}{}{}{}}}",
                member("a", pick(3)),
                member("b", pick(5)),
                member("d", pick(11)),
                member("e", pick(7))
            );
            parse_json(text.as_bytes()).unwrap()
        })
        .collect()
}

fn values(expr: &str, rows: &[Value]) -> Option<Vec<String>> {
    let query = parse(&format!("SELECT VALUE [c.id, [{expr}]] FROM c")).ok()?;
    let schema = Schema::none();
    let rows = run(&query, &[], rows.iter().cloned(), Options::new(&schema)).unwrap();
    Some(rows.iter().map(Value::to_json).collect())
}

fn left(first: &str, second: &str) -> String {
    format!("(c.a {first} c.b) {second} c.d")
}

fn right(first: &str, second: &str) -> String {
    format!("c.a {first} (c.b {second} c.d)")
}

#[test]
fn every_pair_of_operators_groups_as_the_table_says() {
    let rows = rows();
    let mut told_apart = 0;
    for (first, tight) in CHAINING {
        for (second, other) in CHAINING {
            let bare = values(&format!("c.a {first} c.b {second} c.d"), &rows).unwrap();
            let leftwards = values(&left(first, second), &rows).unwrap();
            let rightwards = values(&right(first, second), &rows).unwrap();
            let is_left = tight > other || (tight == other && tight != COALESCE);
            let expected = if is_left { &leftwards } else { &rightwards };
            assert_eq!(&bare, expected, "c.a {first} c.b {second} c.d");
            told_apart += usize::from(leftwards != rightwards);
        }
    }
    // Only some pairs mean the same either way: `(a AND b) AND c`, `(a * b) * c` and the like.
    assert!(told_apart > 430, "only {told_apart} of 484 pairs differ by their parentheses");
}

#[test]
fn prefix_operators_bind_tighter_than_all_others() {
    let rows = rows();
    for prefix in ["-", "+", "~", "NOT "] {
        for (operator, _) in CHAINING {
            let bare = values(&format!("{prefix}c.a {operator} c.b"), &rows);
            let grouped = values(&format!("({prefix}c.a) {operator} c.b"), &rows);
            assert_eq!(bare.unwrap(), grouped.unwrap(), "{prefix}c.a {operator} c.b");
            let bare = values(&format!("c.a {operator} {prefix}c.b"), &rows);
            let grouped = values(&format!("c.a {operator} ({prefix}c.b)"), &rows);
            assert_eq!(bare.unwrap(), grouped.unwrap(), "c.a {operator} {prefix}c.b");
        }
    }
}

/// `bare` means `grouped`, or is refused where there is none.
fn check(bare: &str, grouped: Option<String>, rows: &[Value]) {
    let expected = grouped.map(|grouped| values(&grouped, rows).unwrap());
    assert_eq!(values(bare, rows), expected, "{bare}");
}

#[test]
fn in_like_and_between_take_operands_and_do_not_chain() {
    let rows = rows();
    for (operator, level) in CHAINING {
        let is_operand = level >= COMPARISON;
        let connects = level == 2 || level == 3;
        // In front of them.
        for (word, stands_alone) in
            [("IN (c.d, 1)", false), ("LIKE c.d", false), ("BETWEEN c.d AND c.e", true)]
        {
            let bare = format!("c.a {operator} c.b {word}");
            let grouped = if is_operand {
                Some(format!("(c.a {operator} c.b) {word}"))
            } else if connects && stands_alone {
                None
            } else {
                Some(format!("c.a {operator} (c.b {word})"))
            };
            check(&bare, grouped, &rows);
        }
        // Behind them.
        let behind_in = (!is_operand).then(|| format!("(c.a IN (c.b, 1)) {operator} c.d"));
        check(&format!("c.a IN (c.b, 1) {operator} c.d"), behind_in, &rows);
        let behind_like = if is_operand {
            format!("c.a LIKE (c.b {operator} c.d)")
        } else {
            format!("(c.a LIKE c.b) {operator} c.d")
        };
        check(&format!("c.a LIKE c.b {operator} c.d"), Some(behind_like), &rows);
        let behind_between = if is_operand {
            Some(format!("c.a BETWEEN c.b AND (c.d {operator} c.e)"))
        } else {
            (!connects).then(|| format!("(c.a BETWEEN c.b AND c.d) {operator} c.e"))
        };
        check(&format!("c.a BETWEEN c.b AND c.d {operator} c.e"), behind_between, &rows);
    }
    for bare in [
        "c.a IN (c.b) IN (c.d)",
        "c.a IN (c.b) LIKE c.d",
        "c.a LIKE c.b IN (c.d)",
        "c.a LIKE c.d LIKE c.e",
        "c.a BETWEEN c.b AND c.d LIKE c.e",
        "c.a BETWEEN c.b AND c.d BETWEEN 1 AND 2",
        "c.a IN (c.b) BETWEEN c.d AND c.e",
    ] {
        check(bare, None, &rows);
    }
}

#[test]
fn the_conditional_binds_loosest_and_to_the_right() {
    let rows = rows();
    for (operator, _) in CHAINING {
        let bare = format!("c.a {operator} c.b ? c.d : c.e {operator} c.a");
        let grouped = format!("(c.a {operator} c.b) ? c.d : (c.e {operator} c.a)");
        check(&bare, Some(grouped), &rows);
    }
    let grouped = "c.a ? c.b : (c.d ? c.e : c.a)".to_owned();
    check("c.a ? c.b : c.d ? c.e : c.a", Some(grouped), &rows);
}
