//! Random texts from a generator of our own: queries by the grammar, broken ones, Unicode, depth.
//!
//! No text may panic or run out of stack; an accepted one prints to a text that parses to the same tree,
//! compiles or is refused, and is planned or refused. `GENERATED_TEXTS` says how many (`GENERATED_SEED`
//! which ones). That the time of long texts grows with their length is the matter of `cost.rs`.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use armilla_model::json::parse as parse_json;
use armilla_model::path::Path;
use armilla_sql::plan::{Features, PlanRange, PlanRequest, partitioned_plan};
use armilla_sql::reference::{Options, run};
use armilla_sql::{Schema, compile, parse, print};

/// A small generator (splitmix64): a seed makes a text again.
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ (mixed >> 31)) % below as u64).unwrap()
    }

    fn one<'t>(&mut self, list: &[&'t str]) -> &'t str {
        list[self.next(list.len())]
    }
}

const OPERATORS: [&str; 22] = [
    "+", "-", "*", "/", "%", "&", "|", "^", "||", "<<", ">>", ">>>", "=", "!=", "<>", "<", "<=",
    ">", ">=", "AND", "OR", "??",
];
const LEAVES: [&str; 24] = [
    "c",
    "c.a",
    "c.b[0]",
    "c['x y']",
    "c.end",
    "c.o.k",
    "t",
    "1",
    "-2",
    "0x1F",
    "1e3",
    ".5",
    "'a'",
    "\"b\\u0041\"",
    "'\\d'",
    "null",
    "true",
    "undefined",
    "NaN",
    "@p",
    "@missing",
    "[]",
    "{}",
    "c[-1]",
];
const FUNCTIONS: [&str; 16] = [
    "ABS",
    "UPPER",
    "CONCAT",
    "COUNT",
    "SUM",
    "ARRAY_CONTAINS",
    "ST_DISTANCE",
    "VectorDistance",
    "FullTextContains",
    "LEFT",
    "ROUND",
    "udf.f",
    "IIF",
    "nope",
    "MAX",
    "DateTimeAdd",
];

fn expression(random: &mut Random, depth: usize) -> String {
    if depth == 0 {
        return random.one(&LEAVES).to_owned();
    }
    let inner = |random: &mut Random| expression(random, depth - 1);
    match random.next(14) {
        0..=3 => {
            let (left, right) = (inner(random), inner(random));
            format!("{left} {} {right}", random.one(&OPERATORS))
        }
        4 => format!("({})", inner(random)),
        5 => format!("{}{}", random.one(&["-", "+", "~", "NOT "]), inner(random)),
        6 => format!("{} {}IN ({}, 1)", inner(random), random.one(&["", "NOT "]), inner(random)),
        7 => format!("({} BETWEEN {} AND {})", inner(random), inner(random), inner(random)),
        8 => format!("{} LIKE {} ESCAPE '!'", inner(random), inner(random)),
        9 => format!("{} ? {} : {}", inner(random), inner(random), inner(random)),
        10 => format!("[{}, {}]", inner(random), inner(random)),
        11 => format!("{{a: {}, 'b c': {}}}", inner(random), inner(random)),
        12 => {
            let name = random.one(&FUNCTIONS);
            format!("{name}({}, {})", inner(random), inner(random))
        }
        _ => {
            let word = random.one(&["", "EXISTS", "ARRAY", "ALL", "FIRST", "(LET x = 1 IN x) + "]);
            format!("{word}({})", query(random, depth - 1))
        }
    }
}

fn query(random: &mut Random, depth: usize) -> String {
    let mut text = "SELECT ".to_owned();
    if random.next(6) == 0 {
        text.push_str("DISTINCT ");
    }
    if random.next(8) == 0 {
        text.push_str(random.one(&["TOP 3 ", "TOP @p ", "TOP 99999999999 "]));
    }
    text.push_str(&match random.next(4) {
        0 => "*".to_owned(),
        1 => format!("VALUE {}", expression(random, depth)),
        2 => format!("{} AS 'a b'", expression(random, depth)),
        _ => format!("{}, {} x", expression(random, depth), expression(random, depth / 2)),
    });
    if random.next(8) > 0 {
        text.push_str(" FROM ");
        text.push_str(random.one(&["c", "root c", "c AS c", "c IN c.a", "c.o"]));
        if depth > 0 && random.next(5) == 0 {
            text.push_str(" JOIN t IN c.tags");
        }
        if depth > 1 && random.next(8) == 0 {
            text = format!("{text} JOIN ({}) AS q", query(random, depth - 2));
        }
    }
    if random.next(2) == 0 {
        text = format!("{text} WHERE {}", expression(random, depth));
    }
    if random.next(6) == 0 {
        text = format!("{text} GROUP BY {}", random.one(&["c.a", "c.o", "UPPER(c.a)", "1", "c"]));
    }
    if random.next(4) == 0 {
        let keys = ["c.a", "c.a DESC, c.b", "c", "1", "ST_DISTANCE(c.l, @p)", "c.o.k ASC"];
        text = format!("{text} ORDER BY {}", random.one(&keys));
    }
    if random.next(8) == 0 {
        text.push_str(random.one(&[" OFFSET 1 LIMIT 2", " OFFSET 0 LIMIT 9223372036854775807"]));
    }
    if random.next(40) == 0 {
        text.push_str(
            " ORDER BY RANK RRF(FullTextScore(c.a, 'x'), VectorDistance(c.v, [1]), [1, -1])",
        );
    }
    text
}

/// Something goes wrong: characters are lost, doubled, replaced or put in.
fn mutate(random: &mut Random, text: &str) -> String {
    const ODD: [&str; 18] = [
        "\u{a0}",
        "\u{180e}",
        "é",
        "😀",
        "²",
        "\u{0}",
        "\n",
        "'",
        "\"",
        "\\",
        "(",
        ")",
        "--",
        "@",
        "#",
        " AND ",
        " BETWEEN ",
        "\u{feff}",
    ];
    let mut characters: Vec<char> = text.chars().collect();
    for _ in 0..=random.next(3) {
        let at = random.next(characters.len().max(1)).min(characters.len().saturating_sub(1));
        match random.next(4) {
            0 if !characters.is_empty() => {
                characters.remove(at);
            }
            1 if !characters.is_empty() => characters.insert(at, characters[at]),
            2 => characters.truncate(at),
            _ => {
                let odd = random.one(&ODD).chars();
                characters.splice(at..at, odd);
            }
        }
    }
    characters.into_iter().collect()
}

/// One construct inside of itself, or beside itself, many times.
fn deep(random: &mut Random, depth: usize) -> String {
    let pairs = [
        ("(", "1", ")"),
        ("[", "1", "]"),
        ("{a:", "1", "}"),
        ("- ", "1", ""),
        ("NOT ", "true", ""),
        ("1 + (", "1", ")"),
        ("(", "1", " + 1)"),
        ("", "1", " + 1"),
        ("", "'a'", " || 'a'"),
        ("a ?? ", "1", ""),
        ("true ? ", "1", " : 2"),
        ("ABS(", "1", ")"),
        ("(SELECT VALUE ", "1", ")"),
        ("EXISTS(SELECT VALUE ", "1", ")"),
        ("", "c", ".a"),
        ("", "1", " AND 1"),
        ("(LET x = 1 IN ", "1", ")"),
        ("1 IN (", "1", ")"),
    ];
    let (open, core, close) = pairs[random.next(pairs.len())];
    format!("SELECT VALUE {}{core}{} FROM c", open.repeat(depth), close.repeat(depth))
}

fn check(text: &str, schema: &Schema, paths: &[Path]) -> bool {
    let Ok(tree) = parse(text) else { return false };
    let printed = print::query(&tree);
    let again = parse(&printed).unwrap_or_else(|error| panic!("{text}\n{printed}\n{error}"));
    assert_eq!(print::query(&again), printed, "{text}");
    // No NaN equals another.
    assert!(again == tree || text.contains("NaN"), "{text}\n{printed}");
    let parameters = [("@p".into(), 3.into())];
    let _planned = partitioned_plan(PlanRequest {
        query: &tree,
        parameters: &parameters,
        schema,
        partition_key: paths,
        features: &Features::all(),
        range_of: &|_| PlanRange::full(),
        for_one_key: false,
    });
    if compile(&tree, &parameters, schema).is_err() {
        return true;
    }
    let item = parse_json(br#"{"id":"1","a":[1,{"k":2}],"b":["x"],"tags":["p","q"],"o":{"k":1}}"#);
    let _rows = run(&tree, &parameters, [item.unwrap()].into_iter(), Options::new(schema));
    true
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn generated_texts_are_read_or_refused() {
    let count = setting("GENERATED_TEXTS", 100_000);
    let mut random = Random(setting("GENERATED_SEED", 1));
    let (schema, paths) = (Schema::none(), [Path::parse("/pk").unwrap()]);
    let mut accepted = 0;
    for number in 0..count {
        let depth = 1 + random.next(4);
        let mut text = query(&mut random, depth);
        if number % 2 == 1 {
            text = mutate(&mut random, &text);
        }
        if number % 200 == 0 {
            let depth = 1 + random.next(3000);
            text = deep(&mut random, depth);
        }
        accepted += u64::from(check(&text, &schema, &paths));
    }
    assert!(accepted > count / 8, "only {accepted} of {count} texts were queries");
}
