//! Brief procedures of a lone client, on the client's own thread.

use crate::bench::Bench;
use armilla_model::Error;

const KEY: &str = r#"["p"]"#;
/// Calls in a row after which a procedure is surely known as brief, also on a machine that is held up now and then.
const CALLS_MAX: usize = 2_000;

/// Counts in the item `i`, then does what `more` says.
fn counting(more: &str) -> String {
    format!(
        "function () {{ var c = getContext().getCollection(); \
         c.readDocument(c.getAltLink() + '/docs/i', function (e, item) {{ \
             if (e) throw e; \
             item.n++; \
             c.replaceDocument(item._self, item, function (e) {{ \
                 if (e) throw e; \
                 getContext().getResponse().setBody(item.n); {more} }}); }}); }}"
    )
}

fn bench(more: &str) -> Bench {
    let bench = Bench::plain();
    bench.put(r#"{"id":"i","pk":"p","n":0}"#);
    bench.procedure("count", &counting(more)).unwrap();
    bench
}

fn count(bench: &Bench) -> u64 {
    bench.item(KEY, "i").unwrap().get("n").unwrap().as_i64().unwrap().try_into().unwrap()
}

/// Calls the procedure until it is run here.
fn until_here(bench: &Bench) {
    for _ in 0..CALLS_MAX {
        if bench.execute_here("count", KEY).is_some() {
            return;
        }
        bench.execute("count", KEY, "").result.unwrap();
    }
    panic!("the procedure was never known as brief");
}

#[test]
fn a_procedure_that_was_brief_is_run_here_and_costs_the_same() {
    let bench = bench("");
    assert!(bench.execute_here("count", KEY).is_none(), "nobody knows it yet");
    let elsewhere = bench.execute("count", KEY, "");
    until_here(&bench);
    let before = count(&bench);
    let here = loop {
        // A machine that is held up makes a call long, and it starts over.
        match bench.execute_here("count", KEY) {
            Some(here) => break here,
            None => bench.execute("count", KEY, "").result.map(drop).unwrap(),
        }
    };
    assert_eq!(here.charge, elsewhere.charge);
    assert!(count(&bench) > before);
    let (body, committed) = here.result.unwrap();
    assert_eq!(body, count(&bench).to_string());
    assert_eq!(committed.partition, elsewhere.result.unwrap().1.partition);
}

#[test]
fn errors_of_a_procedure_are_those_of_the_procedure() {
    let bench = bench("if (item.n >= 1000) throw new Error('enough');");
    until_here(&bench);
    bench.put(r#"{"id":"i","pk":"p","n":5000}"#);
    let error = loop {
        match bench.execute_here("count", KEY) {
            Some(here) => break here.result.unwrap_err(),
            None => drop(bench.execute("count", KEY, "")),
        }
    };
    assert!(matches!(&error, Error::ScriptFailed { message, .. } if message.contains("enough")));
    assert_eq!(count(&bench), 5000, "nothing was committed");
}

/// Once it is known as brief, the procedure does what a brief one does not.
fn check_given_back(more: &str) {
    let bench = bench(&format!("if (item.n > 100000) {{ {more} }}"));
    until_here(&bench);
    bench.put(r#"{"id":"i","pk":"p","n":200000}"#);
    assert!(bench.execute_here("count", KEY).is_none(), "{more}");
    assert_eq!(count(&bench), 200_000, "nothing was committed: {more}");
    // Where it is made again, it comes to its end.
    let (body, _) = bench.execute("count", KEY, "").result.unwrap();
    assert_eq!((body.as_str(), count(&bench)), ("200001", 200_001));
    assert!(bench.execute_here("count", KEY).is_none(), "it is not brief any more");
}

#[test]
fn a_procedure_that_computes_for_long_is_given_back() {
    check_given_back("var end = Date.now() + 20; while (Date.now() < end);");
}

#[test]
fn a_procedure_that_asks_a_query_is_given_back() {
    check_given_back("c.queryDocuments(c.getSelfLink(), 'SELECT * FROM c');");
}

#[test]
fn a_procedure_with_many_operations_is_given_back() {
    check_given_back(
        "for (var n = 0; n < 40; n++) c.createDocument(c.getSelfLink(), {id: 'n' + n, pk: 'p'});",
    );
}

#[test]
fn a_procedure_with_a_large_item_is_given_back() {
    check_given_back(
        "c.createDocument(c.getSelfLink(), {id: 'large', pk: 'p', text: 'x'.repeat(100000)});",
    );
}

/// Being stopped because it is not brief is not held against a script: it would be blocked after a few times.
#[test]
fn a_procedure_that_is_often_given_back_is_not_blocked() {
    let bench =
        bench("if (item.n % 50 === 0) { var end = Date.now() + 4; while (Date.now() < end); }");
    let mut given_back = 0;
    for _ in 0..600 {
        if bench.execute_here("count", KEY).is_none() {
            given_back += 1;
            bench.execute("count", KEY, "").result.unwrap();
        }
    }
    assert_eq!(count(&bench), 600);
    assert!(given_back >= 12, "{given_back}");
}
