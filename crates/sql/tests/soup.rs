//! Any text gives a tree or an error, and any tree that can be printed parses to itself.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use armilla_model::json::parse as parse_json;
use armilla_sql::reference::{Options, run};
use armilla_sql::{Schema, parse, parse_condition, print};
use proptest::prelude::*;

const TOKENS: &[&str] = &[
    "SELECT",
    "VALUE",
    "*",
    "FROM",
    "c",
    "c.a",
    ".",
    "WHERE",
    "GROUP",
    "BY",
    "ORDER",
    "RANK",
    "TOP",
    "OFFSET",
    "LIMIT",
    "DISTINCT",
    "JOIN",
    "IN",
    "AS",
    "x",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "?",
    "??",
    "+",
    "-",
    "*",
    "/",
    "%",
    "&",
    "|",
    "^",
    "~",
    "<<",
    ">>",
    ">>>",
    "=",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "||",
    "AND",
    "OR",
    "NOT",
    "BETWEEN",
    "LIKE",
    "ESCAPE",
    "EXISTS",
    "ARRAY",
    "ALL",
    "FIRST",
    "LAST",
    "LEFT",
    "udf",
    "udf.f(1)",
    "ABS(",
    "COUNT(1)",
    "MAX(c.a)",
    "1",
    "0",
    "2.5",
    "'s'",
    "\"q\"",
    "'",
    "\"",
    "@p",
    "@",
    "true",
    "null",
    "undefined",
    "NaN",
    "--\n",
    "/*",
    "é",
    "\u{0}",
    "0x",
    "1e",
    "\\",
    "#",
    ";",
    "_",
    "IS_DEFINED(c.a)",
    "(SELECT VALUE 1)",
];

/// Texts that are nearly queries.
fn nearly() -> impl Strategy<Value = String> {
    let expression = expression();
    (expression.clone(), expression.clone(), expression, 0..12).prop_map(|(a, b, k, shape)| match shape {
        0 => format!("SELECT {a}, {b} FROM c WHERE {k}"),
        1 => format!("SELECT VALUE {a} FROM c JOIN x IN c.a WHERE {b} AND {k}"),
        2 => format!("SELECT {a} AS p, {b} AS q FROM c ORDER BY c.n DESC"),
        3 => format!("SELECT VALUE ({a}) FROM (SELECT VALUE {b} FROM c) AS c"),
        4 => format!("SELECT DISTINCT VALUE {a} FROM c WHERE EXISTS(SELECT VALUE {b} FROM x IN c.a WHERE {k})"),
        5 => format!("SELECT VALUE MAX({a}) FROM c WHERE {b}"),
        6 => format!("SELECT VALUE ARRAY(SELECT VALUE {a} FROM x IN {}) FROM c", "c.a"),
        7 => format!("SELECT COUNT({a}) AS n, SUM({b}) AS s FROM c GROUP BY {k}"),
        8 => format!("SELECT TOP 2 VALUE [{a}, {b}] FROM c OFFSET 1 LIMIT 3"),
        9 => format!("SELECT VALUE {{p: {a}, \"q r\": {b}}}.p FROM c"),
        10 => format!("SELECT VALUE {a} ? {b} : {k} FROM c"),
        _ => format!("SELECT VALUE {a}"),
    })
}

fn expression() -> impl Strategy<Value = String> + Clone {
    let leaf = prop::sample::select(vec![
        "1",
        "0",
        "2.5",
        "'s'",
        "true",
        "null",
        "undefined",
        "c",
        "c.a",
        "c.n",
        "c.a[0]",
        "c['x y']",
        "c.o.k",
        "@p",
        "[1, 2]",
        "{k: 1}",
        "NaN",
        "RAND()",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(4, 20, 3, |inner| {
        let operator = prop::sample::select(vec![
            "+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", ">>>", "=", "!=", "<", "<=", ">",
            ">=", "||", "??", "AND", "OR",
        ]);
        let function = prop::sample::select(vec![
            "ABS",
            "UPPER",
            "IS_DEFINED",
            "IS_NUMBER",
            "TOSTRING",
            "ARRAY_LENGTH",
            "LENGTH",
            "udf.f",
        ]);
        prop_oneof![
            (inner.clone(), operator, inner.clone())
                .prop_map(|(a, operator, b)| format!("({a} {operator} {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a} LIKE {b}")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("({a} NOT IN ({b}, {c}))")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("({a} BETWEEN {b} AND {c})")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            inner.clone().prop_map(|a| format!("(NOT {a})")),
            inner.clone().prop_map(|a| format!("-({a})")),
            (function, inner.clone()).prop_map(|(function, a)| format!("{function}({a})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("[{a}, {b}]")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a})[{b}]")),
            inner.clone().prop_map(|a| format!("{{k: {a}}}.k")),
            inner.prop_map(|a| format!("(SELECT VALUE {a})")),
        ]
    })
}

fn try_everything(text: &str) {
    if let Ok(tree) = parse_condition(text) {
        let _unused = print::query(&tree);
    }
    let Ok(tree) = parse(text) else { return };
    let printed = print::query(&tree);
    let again =
        parse(&printed).unwrap_or_else(|error| panic!("{text} printed as {printed}: {error}"));
    // NaN is not equal to itself, and so are trees with it; their texts are.
    assert_eq!(print::query(&again), printed);
    assert!(again == tree || printed.contains("NaN"), "{text} printed as {printed}");
    let documents =
        [r#"{"a":[1,"s",{"k":2}],"n":1,"o":{"k":"v"}}"#, r#"{"n":-2.5,"a":null}"#, "{}"];
    let documents = documents.iter().map(|text| parse_json(text.as_bytes()).unwrap());
    let parameters = [("@p".into(), parse_json(b"[1]").unwrap())];
    let _result = run(&tree, &parameters, documents, Options::new(&Schema::none()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn soups_of_tokens(tokens in prop::collection::vec(prop::sample::select(TOKENS), 0..40)) {
        try_everything(&tokens.join(" "));
        try_everything(&format!("SELECT {}", tokens.join(" ")));
        try_everything(&format!("SELECT * FROM c WHERE {}", tokens.concat()));
    }

    #[test]
    fn soups_of_characters(text in "\\PC{0,60}") {
        try_everything(&text);
        try_everything(&format!("SELECT VALUE {text} FROM c"));
    }

    #[test]
    fn texts_that_are_nearly_queries(text in nearly()) {
        try_everything(&text);
    }
}

#[test]
fn deep_expressions_evaluate_on_a_small_stack() {
    // The size of a test thread's stack is what a server's threads have.
    for text in [
        format!("SELECT VALUE 1{}", " + 1".repeat(150)),
        format!("SELECT VALUE {}1{}", "[".repeat(110), "]".repeat(110)),
        format!("SELECT VALUE {}1{}", "ABS(".repeat(110), ")".repeat(110)),
        format!("SELECT VALUE {}1{} FROM c", "(SELECT VALUE ".repeat(8), ")".repeat(8)),
        format!("SELECT VALUE {}c{} FROM c", "(SELECT VALUE ".repeat(8), ")".repeat(8)),
        format!("SELECT VALUE {}c.a{} FROM c", "NOT (".repeat(60), ")".repeat(60)),
        format!("SELECT VALUE c.a{} FROM c", " ?? c.a".repeat(150)),
    ] {
        try_everything(&text);
        assert!(parse(&text).is_ok(), "{text}");
    }
}
