//! The three-call probe: the blog's `createComment`, which reads an item of 1.3 KB, replaces it and creates a comment. Prints
//! microseconds per call.
//!
//! `cargo run --release -p armilla-script --example probe`
//!
//! With a number it makes so many calls and measures nothing: instructions per call are the difference of two such runs under
//! `valgrind --tool=callgrind`.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program for the terminal")]

#[path = "support/instantly.rs"]
mod instantly;

use std::time::{Duration, Instant};

use armilla_script::{CallOptions, Compiled, Limits, ScriptEngine, ScriptKind};
use instantly::Instantly;

const PROBE: &str = include_str!("../../../bench/js/create_comment.js");

fn main() {
    let engine = ScriptEngine::new(Limits::default()).unwrap();
    let content = "lorem ipsum ".repeat(90);
    let item = format!(
        r#"{{"id":"p1","type":"post","postId":"p1","userId":"u1","userUsername":"ann","title":"T","content":"{content}","commentCount":2,"likeCount":0,"creationDate":"2024-01-01T00:00:00Z","_rid":"AAAAAAAAAAABAAAAAAAAAA==","_self":"dbs/AAAAAA==/colls/AAAAAAAAAAA=/docs/AAAAAAAAAAABAAAAAAAAAA==/","_etag":"\"00000001\"","_ts":1700000000}}"#
    );
    println!("item of {} bytes", item.len());
    let mut host = Instantly { item: Some(item) };
    let probe = engine.compile(ScriptKind::Procedure, PROBE).unwrap();
    let empty = engine.compile(ScriptKind::Procedure, "function () { }").unwrap();
    let arguments = r#"["p1",{"id":"5b2c9c0e-2f0a-4d7e-9d2f-0b7a5a1f6a11","type":"comment","postId":"p1","userId":"u2","userUsername":"bob","content":"lorem ipsum dolor sit amet","creationDate":"2024-01-01T00:00:00Z"}]"#;
    if let Some(calls) = std::env::args().nth(1) {
        for _ in 0..calls.parse().unwrap() {
            let outcome =
                engine.run_procedure(&probe, arguments, &mut host, CallOptions::default());
            assert!(outcome.result.is_ok(), "{outcome:?}");
            engine.tidy();
        }
        return;
    }
    measure("three host calls", &engine, &probe, arguments, &mut host, true);
    measure(
        "three host calls, cleaned up on the way",
        &engine,
        &probe,
        arguments,
        &mut host,
        false,
    );
    measure("empty script", &engine, &empty, "[]", &mut host, true);

    let compiles = each(200, || (), || engine.compile(ScriptKind::Procedure, PROBE).unwrap());
    say("compile", compiles);
    let used = || _ = engine.run_procedure(&empty, "[]", &mut host, CallOptions::default());
    say("clean up after a call", each(3000, used, || engine.tidy()));

    let tax = engine.compile(ScriptKind::Function, "function (x) { return x * 0.5; }").unwrap();
    let session = engine.udf_session(&[("tax", &tax)], CallOptions::default()).unwrap();
    let calls = each(20_000, || (), || session.call("tax", &[Some("100")]).unwrap());
    say("user-defined function, one number", calls);
}

fn say(what: &str, (median, least): (f64, f64)) {
    println!("{median:>9.1} µs median {least:>9.1} µs least  {what}");
}

fn measure(
    what: &str,
    engine: &ScriptEngine,
    script: &Compiled,
    arguments: &str,
    host: &mut Instantly,
    tended: bool,
) {
    let before = || {
        if tended {
            engine.tidy();
        }
    };
    let call = || {
        let outcome = engine.run_procedure(script, arguments, host, CallOptions::default());
        assert!(outcome.result.is_ok(), "{outcome:?}");
    };
    say(what, each(3000, before, call));
}

/// Median and least microseconds of `action`; `before` runs outside the measurement.
fn each<T>(times: usize, mut before: impl FnMut(), mut action: impl FnMut() -> T) -> (f64, f64) {
    let mut taken: Vec<Duration> = (0..times)
        .map(|_| {
            before();
            let start = Instant::now();
            let result = action();
            let took = start.elapsed();
            drop(result);
            took
        })
        .collect();
    taken.sort();
    (taken[times / 2].as_secs_f64() * 1e6, taken[0].as_secs_f64() * 1e6)
}
