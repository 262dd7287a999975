//! Any text is a query or an error. What parses prints to a query of the same meaning, is planned for
//! clients that merge, and runs over a few documents, without a panic and in bounded time.
#![no_main]

use armilla_model::json;
use armilla_model::partition_key::PartitionKey;
use armilla_sql::plan::{Features, PlanRange, PlanRequest, partitioned_plan};
use armilla_sql::reference::{Options, run_compiled, with_runtime};
use armilla_sql::{Schema, compile, parse, parse_condition, print};
use libfuzzer_sys::fuzz_target;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// No query over three documents may take longer than this before it is interrupted.
const TIME_MAX: Duration = Duration::from_secs(2);

const DOCUMENTS: [&str; 3] = [
    r#"{"id":"a","pk":"x","n":1,"s":"Abc","b":true,"z":null,"l":[1,"two",{"k":3},[4]],"o":{"p":{"q":-0.5}}}"#,
    r#"{"id":"b","pk":"y","n":-2.5e10,"s":"\u00e9\ud83d\ude00","l":[],"o":{},"loc":{"type":"Point","coordinates":[7,47]}}"#,
    r#"{"id":"c","n":9007199254740993,"s":"","t":"2024-02-29T12:00:00.1234567Z","v":[0.1,0.2]}"#,
];

thread_local! {
    static DEADLINE: Cell<Option<Instant>> = const { Cell::new(None) };
}

fn interrupted() -> bool {
    DEADLINE.get().is_some_and(|deadline| Instant::now() >= deadline)
}

fuzz_target!(|text: &str| {
    let schema = Schema::none();
    if let Ok(condition) = parse_condition(text) {
        let _ = compile(&condition, &[], &schema);
    }
    let Ok(query) = parse(text) else { return };
    let printed = print::query(&query);
    let again = parse(&printed).unwrap_or_else(|error| panic!("{printed}: {error:?}"));
    assert_eq!(print::query(&again), printed);
    let features = Features::all();
    let _ = partitioned_plan(PlanRequest {
        query: &query,
        parameters: &[],
        schema: &schema,
        partition_key: &[],
        features: &features,
        for_one_key: text.len() % 2 == 0,
        range_of: &|_: &PartitionKey| PlanRange::full(),
    });
    let Ok(compiled) = compile(&query, &[], &schema) else { return };
    let documents = DOCUMENTS.iter().map(|text| json::parse(text.as_bytes()).expect("it is JSON"));
    DEADLINE.set(Some(Instant::now() + TIME_MAX));
    let rows = with_runtime(Options::new(&schema), |runtime| {
        runtime.functions.effort.interrupted = &interrupted;
        run_compiled(&compiled, documents.collect(), runtime)
    });
    for row in rows.unwrap_or_default() {
        let written = row.to_json();
        json::parse(written.as_bytes()).unwrap_or_else(|error| panic!("{written}: {error}"));
    }
});
