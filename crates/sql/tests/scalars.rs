//! What the service's own scalar evaluator answers, beside what we answer.
//!
//! A line of `vectors/scalars/*.tsv` is an expression over constants (a JSON string), a tab and its
//! value: JSON, `undefined`, `NaN`, `Infinity`, `-Infinity`, or `error` and a code; perhaps another tab
//! and `planar`, for a container of planar geometry. Numbers are compared exactly, zeros without their
//! sign; distances and areas to one part in a million; texts of numbers without leading zeros of their
//! exponents, as the number of those is the platform's (the evaluator was asked on Linux).
//!
//! Whatever differs stands in `vectors/scalars/exceptions.tsv` below a line with the reason.
//! `ARMILLA_SCALARS_REPORT=file cargo test -p armilla-sql --test scalars` writes every difference.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use armilla_model::json::parse as parse_json;
use armilla_model::policy::ContainerPolicy;
use armilla_model::{Number, Value};
use armilla_sql::reference::{Options, run};
use armilla_sql::{Schema, SqlError, parse};
use std::collections::HashSet;
use std::fmt::Write;
use std::path::Path;

/// Of 1,000 cases at least so many agree.
const AGREEING_PER_MILLE_MIN: usize = 995;
/// How far a distance or an area may be off, relative to itself.
const SPATIAL_TOLERANCE: f64 = 1e-6;
/// The time of the queries: 2024-10-14T14:20:30.6668888Z.
const NOW_TICKS: i64 = 17_289_156_306_668_888;

#[test]
fn scalars_are_those_of_the_service() {
    let folder = Path::new("tests/vectors/scalars");
    let exceptions = std::fs::read_to_string(folder.join("exceptions.tsv")).unwrap();
    let exceptions = exceptions_of(&exceptions);
    let (mut cases, mut differing, mut report) = (0, HashSet::new(), String::new());
    for name in ["strings", "numbers-dates", "values"] {
        let text = std::fs::read_to_string(folder.join(name).with_extension("tsv")).unwrap();
        for line in text.lines() {
            cases += 1;
            let case = Case::read(line);
            let answer = case.answer();
            if !case.agrees(&answer) {
                let found = show(&answer);
                writeln!(report, "{}\t{}\t{found}", case.quoted, case.expected).unwrap();
                differing.insert(case.quoted.to_owned());
            }
        }
    }
    if let Some(file) = std::env::var_os("ARMILLA_SCALARS_REPORT") {
        std::fs::write(file, &report).unwrap();
    }
    let unknown: Vec<&str> = report
        .lines()
        .filter(|line| !exceptions.contains(line.split('\t').next().unwrap()))
        .collect();
    for expression in exceptions.iter().filter(|expression| !differing.contains(**expression)) {
        println!("an exception agrees: {expression}");
    }
    let shown = unknown[..unknown.len().min(40)].join("\n");
    assert!(unknown.is_empty(), "{} of {cases} cases differ:\n{shown}", unknown.len());
    let agreeing = (cases - differing.len()) * 1000;
    assert!(agreeing >= cases * AGREEING_PER_MILLE_MIN, "{} of {cases} differ", differing.len());
}

/// The expressions of the file, without the reasons above them.
fn exceptions_of(text: &str) -> HashSet<&str> {
    text.lines().filter(|line| line.starts_with('"')).collect()
}

struct Case<'a> {
    quoted: &'a str,
    expression: String,
    expected: &'a str,
    planar: bool,
}

impl<'a> Case<'a> {
    fn read(line: &'a str) -> Self {
        let mut fields = line.split('\t');
        let (quoted, expected) = (fields.next().unwrap(), fields.next().unwrap());
        let expression = parse_json(quoted.as_bytes()).unwrap().as_str().unwrap().to_owned();
        Self { quoted, expression, expected, planar: fields.next().is_some() }
    }

    fn answer(&self) -> Result<Value, String> {
        let geospatial = if self.planar { "Geometry" } else { "Geography" };
        let policy = format!(
            r#"{{"id":"c","partitionKey":{{"paths":["/id"]}},"geospatialConfig":{{"type":"{geospatial}"}}}}"#
        );
        let policy = ContainerPolicy::parse(&parse_json(policy.as_bytes()).unwrap()).unwrap();
        let schema = Schema::new(&policy).unwrap();
        let options = Options { now_ticks: NOW_TICKS, ..Options::new(&schema) };
        let text = format!("SELECT VALUE {}", self.expression);
        let query = parse(&text).map_err(|error| code(&error))?;
        let rows = run(&query, &[], std::iter::once(Value::Null), options);
        Ok(rows.map_err(|error| code(&error))?.into_iter().next().unwrap_or_default())
    }

    fn agrees(&self, answer: &Result<Value, String>) -> bool {
        let is_spatial =
            ["ST_DISTANCE", "ST_AREA"].iter().any(|name| self.expression.contains(name));
        let tolerance = if is_spatial { SPATIAL_TOLERANCE } else { 0.0 };
        let number = |expected: f64| match answer {
            Ok(Value::Number(Number::Float(found))) => {
                found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan()
            }
            _ => false,
        };
        match (self.expected, answer) {
            ("undefined", answer) => matches!(answer, Ok(Value::Undefined)),
            ("NaN", _) => number(f64::NAN),
            ("Infinity", _) => number(f64::INFINITY),
            ("-Infinity", _) => number(f64::NEG_INFINITY),
            (expected, Err(code)) => expected.strip_prefix("error ") == Some(code),
            (expected, Ok(found)) => match parse_json(expected.as_bytes()) {
                Ok(expected) => same(&expected, found, tolerance),
                Err(_) => false,
            },
        }
    }
}

fn code(error: &SqlError) -> String {
    let text = error.to_json();
    let at = text.find("\"SC").map_or(0, |at| at + 1);
    text[at..].chars().take(6).collect()
}

fn show(answer: &Result<Value, String>) -> String {
    match answer {
        Ok(value) => value.to_string(),
        Err(code) => format!("error {code}"),
    }
}

fn same(expected: &Value, found: &Value, tolerance: f64) -> bool {
    match (expected, found) {
        (Value::Number(expected), Value::Number(found)) => {
            same_number(*expected, *found, tolerance)
        }
        (Value::Array(expected), Value::Array(found)) => {
            let pairs = || expected.iter().zip(found.iter());
            expected.len() == found.len() && pairs().all(|(a, b)| same(a, b, tolerance))
        }
        (Value::Object(expected), Value::Object(found)) => {
            let has = |(name, value): (_, &Value)| {
                found.get(name).is_some_and(|found| same(value, found, tolerance))
            };
            expected.len() == found.len() && expected.iter().all(|(name, value)| has((name, value)))
        }
        (Value::String(expected), Value::String(found)) => {
            expected == found || without_exponent_zeros(expected) == without_exponent_zeros(found)
        }
        _ => expected.kind() == found.kind() && expected == found,
    }
}

fn same_number(expected: Number, found: Number, tolerance: f64) -> bool {
    match (expected, found) {
        (Number::Int(expected), Number::Int(found)) if tolerance == 0.0 => expected == found,
        _ => {
            let (expected, found) = (expected.as_f64(), found.as_f64());
            (expected - found).abs() <= tolerance * expected.abs()
        }
    }
}

/// `1e-005` as `1e-5`, wherever it stands in a text.
fn without_exponent_zeros(text: &str) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("e+").into_iter().chain(rest.find("e-")).min() {
        let (before, exponent) = rest.split_at(at + 2);
        result.push_str(before);
        rest = exponent.trim_start_matches('0');
    }
    result + rest
}
