//! What it costs to compile long texts: twice the text, about twice the time. `COST_VERBOSE=1` prints it.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests may unwrap and print")]

use armilla_model::Value;
use armilla_model::path::Path;
use armilla_sql::access::{analyse, deciding_paths, index_usage, pinned_keys, referenced_paths};
use armilla_sql::plan::{Features, PlanRange, PlanRequest, partitioned_plan};
use armilla_sql::{Schema, advice, compile, parse};
use std::time::{Duration, Instant};

/// How long each part of compiling takes.
fn phases(text: &str) -> Vec<(&'static str, Duration)> {
    let mut times = Vec::new();
    let mut started = Instant::now();
    let mut lap = |name, times: &mut Vec<(&'static str, Duration)>| {
        times.push((name, started.elapsed()));
        started = Instant::now();
    };
    let schema = Schema::none();
    let query = parse(text).unwrap_or_else(|error| panic!("{error}"));
    lap("parse", &mut times);
    let compiled = compile(&query, &[], &schema).unwrap_or_else(|error| panic!("{error}"));
    lap("compile", &mut times);
    let node = analyse(&compiled);
    lap("analyse", &mut times);
    drop(referenced_paths(&compiled));
    lap("references", &mut times);
    drop(deciding_paths(&compiled));
    lap("deciding", &mut times);
    drop(pinned_keys(&node, &[Path::parse("/pk").unwrap()]));
    lap("keys", &mut times);
    drop(index_usage(&compiled, &schema));
    lap("usage", &mut times);
    drop(advice::advise(&query, &[]));
    lap("advice", &mut times);
    let range_of =
        |_: &_| PlanRange { min: String::new(), max: String::new(), max_inclusive: true };
    let plan = partitioned_plan(PlanRequest {
        query: &query,
        parameters: &[],
        schema: &schema,
        partition_key: &[Path::parse("/pk").unwrap()],
        features: &Features::all(),
        range_of: &range_of,
        for_one_key: false,
    });
    drop(plan);
    lap("plan", &mut times);
    drop((query, compiled, node));
    lap("drop", &mut times);
    times
}

/// Shapes of long texts: what is repeated, what stands between, and what is around.
const SHAPES: &[(&str, &str, &str, &str)] = &[
    ("SELECT * FROM c WHERE ", "c.a=#", " AND ", ""),
    ("SELECT * FROM c WHERE ", "c.a=#", " OR ", ""),
    ("SELECT * FROM c WHERE ", "c.a#=#", " AND ", ""),
    ("SELECT * FROM c WHERE ", "c.a#=#", " OR ", ""),
    ("SELECT * FROM c WHERE NOT (", "c.a=#", " AND ", ")"),
    ("SELECT * FROM c WHERE ", "c.a!=#", " AND ", ""),
    ("SELECT * FROM c WHERE ", "c.a>#", " AND ", ""),
    ("SELECT * FROM c WHERE ", "(c.a=# AND c.b=#)", " OR ", ""),
    ("SELECT * FROM c WHERE ", "(c.a=# OR c.b=#)", " AND ", ""),
    ("SELECT * FROM c WHERE ", "c.pk='#'", " OR ", ""),
    ("SELECT * FROM c WHERE ", "(c.pk='#' OR c.pk='x#')", " AND ", ""),
    ("SELECT * FROM c WHERE ", "CONTAINS(c.a,'#')", " OR ", ""),
    ("SELECT * FROM c WHERE ", "STARTSWITH(c.a,'#')", " AND ", ""),
    ("SELECT * FROM c WHERE ", "c.a LIKE 'a#%'", " OR ", ""),
    ("SELECT * FROM c WHERE ", "EXISTS(SELECT VALUE 1 FROM x IN c.a WHERE x=#)", " OR ", ""),
    ("SELECT * FROM c WHERE c.a IN (", "#", ",", ")"),
    ("SELECT * FROM c WHERE c.a NOT IN (", "#", ",", ")"),
    ("SELECT * FROM c WHERE c.pk IN (", "'#'", ",", ")"),
    ("SELECT * FROM c WHERE c.a IN (c.b,", "#", ",", ")"),
    ("SELECT VALUE c FROM c JOIN x IN c.xs WHERE ", "x.a!=#", " AND ", ""),
    ("SELECT ", "c.a#", ",", " FROM c"),
    ("SELECT VALUE {", "a#:c.a#", ",", "} FROM c"),
    ("SELECT VALUE [", "c.a#", ",", "] FROM c"),
    ("SELECT VALUE CONCAT(", "c.a#", ",", ") FROM c"),
    ("SELECT VALUE CONCAT(", "'#'", ",", ") FROM c"),
    ("SELECT VALUE ", "c.a#", "+", " FROM c"),
    ("SELECT * FROM c ORDER BY ", "c.a#", ",", ""),
];

fn text(shape: (&str, &str, &str, &str), count: usize) -> String {
    let (before, each, between, behind) = shape;
    let parts: Vec<_> = (0..count).map(|at| each.replace('#', &at.to_string())).collect();
    format!("{before}{}{behind}", parts.join(between))
}

/// Eight times the text may take eight times as long, and with a busy machine and caches that are too
/// small a few times that; where every part is compared with every other it takes 64 times as long.
#[test]
fn the_time_to_compile_grows_with_the_text_and_not_with_its_square() {
    const GROWTH: usize = 8;
    const SMALL: usize = 300;
    let mut slow = Vec::new();
    for shape in SHAPES {
        // The best of a few runs, because other tests run too.
        let time = |count: usize| {
            let text = text(*shape, count);
            let best = |best: Vec<(&'static str, Duration)>,
                        next: Vec<(&'static str, Duration)>| {
                let pairs = best.into_iter().zip(next);
                pairs.map(|((name, one), (_, other))| (name, one.min(other))).collect()
            };
            (0..2).map(|_| phases(&text)).reduce(best).unwrap()
        };
        let (small, large) = (time(SMALL), time(SMALL * GROWTH));
        for ((name, small), (_, large)) in small.iter().zip(&large) {
            if std::env::var_os("COST_VERBOSE").is_some() {
                println!("{name:>10} {small:?} {large:?} {}", shape.1);
            }
            // What takes no time at all cannot be compared.
            let small = (*small).max(Duration::from_millis(8));
            if *large > small * (GROWTH as u32) * 4 {
                slow.push(format!("{name} of {}: {small:?}, then {large:?}", shape.1));
            }
        }
    }
    assert!(slow.is_empty(), "{}", slow.join("\n"));
}

#[test]
fn grouping_by_very_many_expressions_is_refused() {
    for (before, each, behind) in
        [("SELECT COUNT(1) FROM c GROUP BY ", "c.a#", ""), ("SELECT ", "SUM(c.a#)", " FROM c")]
    {
        let compiled = |count| {
            let query = parse(&text((before, each, ",", behind), count)).unwrap();
            compile(&query, &[], &Schema::none()).map(drop)
        };
        compiled(500).unwrap();
        let error = compiled(501).unwrap_err().to_json();
        assert!(error.contains("SC2070") && error.contains("at most 500"), "{error}");
    }
}

#[test]
fn thousands_of_parameters_are_found_at_once() {
    let count = 20_000;
    let names: Vec<String> = (0..count).rev().map(|at| format!("@p{at}")).collect();
    let parameters: Vec<_> =
        (0..count).map(|at| (format!("@p{at}").into(), Value::from(i64::from(at)))).collect();
    let text = format!("SELECT * FROM c WHERE c.a IN ({})", names.join(","));
    let query = parse(&text).unwrap();
    let started = Instant::now();
    compile(&query, &parameters, &Schema::none()).unwrap();
    // By searching one after the other it took half a minute in a dev build.
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}
