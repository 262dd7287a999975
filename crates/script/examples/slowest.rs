//! How long single operations on the largest values a script can make outlast its time limit, where
//! the engine cannot be interrupted. Prints milliseconds beyond the limit, worst first.
//!
//! `cargo run --release -p armilla-script --example slowest`

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program for the terminal")]

#[path = "support/instantly.rs"]
mod instantly;

use std::time::{Duration, Instant};

use armilla_script::{CallOptions, Limits, ScriptEngine, ScriptKind};
use instantly::Instantly;

const TIME_LIMIT: Duration = Duration::from_millis(500);

/// One huge operation each, again and again.
const STEPS: &[&str] = &[
    "var s = 'a'.repeat(1.6e7); for (;;) s.toUpperCase();",
    "var s = 'a'.repeat(3e6) + '\\u0430'; for (;;) s.toUpperCase();",
    "var s = 'ab '.repeat(4e6); for (;;) s.trim();",
    "var s = 'a'.repeat(1.2e7), t = s + 'c'; s += 'b'; s[0]; t[0]; for (;;) s === t;",
    "var s = 'a'.repeat(1.5e7), o = {}; for (;;) o[s];",
    "var s = 'a,'.repeat(4e5); for (;;) s.split(',');",
    "var s = 'a'.repeat(4e5); for (;;) s.split('');",
    "var s = 'a'.repeat(7e6); for (;;) encodeURIComponent(s);",
    "var s = '%61'.repeat(4e6); for (;;) decodeURIComponent(s);",
    "var s = 'a'.repeat(7e6); for (;;) escape(s);",
    "var s = 'a'.repeat(7e6); for (;;) s.localeCompare(s + 'b');",
    "var s = 'a'.repeat(7e6); for (;;) s.normalize('NFD');",
    "var s = '\\u00e9'.repeat(2e6); for (;;) s.normalize('NFKD');",
    "var s = 'a'.repeat(7e6); for (;;) s.isWellFormed() && s.toWellFormed();",
    "var s = '1'.repeat(7e6); for (;;) Number(s);",
    "var s = '1'.repeat(7e6); for (;;) parseFloat(s);",
    "var s = '1'.repeat(7e6); for (;;) parseInt(s, 7);",
    "var s = '9'.repeat(3e5); for (;;) BigInt(s);",
    "var x = (1n << 1000000n) - 1n; for (;;) x * x;",
    "var x = (1n << 500000n) - 1n; for (;;) x * x;",
    "var x = (1n << 1000000n) - 1n, y = (1n << 500000n) - 1n; for (;;) x / y;",
    "var x = (1n << 1000000n) - 1n; for (;;) x.toString();",
    "var x = (1n << 1000000n) - 1n; for (;;) `${x}`;",
    "var x = (1n << 1000000n) - 1n; for (;;) x.toString(7);",
    "for (;;) 3n ** 600000n;",
    "var a = new Uint8Array(1.6e7); for (;;) a.sort();",
    "var a = new Float64Array(2e6).map((v, i) => (i * 7919) % 1000003); for (;;) new Float64Array(a).sort();",
    "var a = new Uint8Array(1.6e7); for (;;) a.toSorted();",
    "var a = new Uint8Array(1.6e7); for (;;) a.fill(1);",
    "var a = new Uint8Array(1.6e7); for (;;) a.indexOf(9);",
    "var a = new Uint8Array(5e6); for (;;) a.join();",
    "var a = new Uint8Array(1.6e7); for (;;) Array.from(a);",
    "var a = new Array(1e6).fill(1); for (;;) a.indexOf(2);",
    "var a = new Array(1e6).fill('x'); for (;;) a.indexOf('y');",
    "var a = new Array(9e5).fill(1).map((v, i) => (i * 7919) % 1000003); for (;;) a.toSorted();",
    "var a = new Array(9e5).fill(1); for (;;) new Set(a.map((v, i) => i));",
    "var a = new Array(9e5).fill(1); for (;;) a.join();",
    "var a = new Array(9e5).fill(1); for (;;) JSON.stringify(a);",
    "var a = new Array(9e5).fill(1); for (;;) a.slice();",
    "var a = new Array(9e5).fill(1); for (;;) Object.keys(a);",
    "var a = new Array(9e5).fill(1); for (;;) Object.freeze(a.slice());",
    "var a = new Array(9e5).fill(1); for (;;) Math.max.apply(null, a);",
    "var a = []; a.length = 4e9; for (;;) a.indexOf(1);",
    "var a = []; a.length = 4e9; for (;;) a.lastIndexOf(1);",
    "var a = []; a.length = 4e9; for (;;) a.includes(1);",
    "var a = []; a.length = 4e9; for (;;) a.fill(undefined, 0, 1);",
    "var a = []; a[4e9] = 1; for (;;) a.length = 0;",
    "var a = []; a.length = 4e9; for (;;) a.toReversed();",
    "var a = []; a.length = 4e9; for (;;) a.toSpliced(0, 1);",
    "var a = []; a.length = 4e9; for (;;) a.with(0, 1);",
    "var a = []; a.length = 4e9; for (;;) a.at(-1), a.keys().next();",
    "var a = []; a.length = 4e9; for (;;) a.find(x => x), a.findLast(x => x);",
    "var a = []; a.length = 4e9; for (;;) a.some(x => x);",
    "var a = []; a.length = 4e9; for (;;) a.reduceRight((x, y) => y, 0);",
    "var a = { length: 4e9 }; for (;;) Array.prototype.indexOf.call(a, 1);",
    "var a = { length: 4e9 }; for (;;) Array.prototype.fill.call(a, 1, 4e9 - 1);",
    "var a = { length: 4e9 }; for (;;) Reflect.apply(Math.max, null, a);",
    "var a = { length: 4e9 }; for (;;) Array.from(a, () => 1);",
    "var o = {}; for (var i = 0; i < 2e5; i++) o['k' + i] = i; for (;;) Object.entries(o);",
    "var o = {}; for (var i = 0; i < 2e5; i++) o['k' + i] = i; for (;;) JSON.stringify(o);",
    "var o = {}; for (var i = 0; i < 2e5; i++) o['k' + i] = i; for (;;) Object.assign({}, o);",
    "var s = JSON.stringify(new Array(8e5).fill(1)); for (;;) JSON.parse(s);",
    "var s = '[' + '{},'.repeat(5e5) + '1]'; for (;;) JSON.parse(s);",
    "var r = /a+b/, s = 'a'.repeat(1e6); for (;;) r.test(s);",
    "var r = new RegExp('(?:' + 'a|'.repeat(5e5) + 'b)'); for (;;) r.test('c');",
    "for (;;) new RegExp('a'.repeat(1e6) + Math.random());",
    "for (;;) new RegExp('[' + '\\\\u0430-\\\\u0431'.repeat(3e5) + ']');",
    "for (;;) new RegExp('(' .repeat(250) + 'a' + ')'.repeat(250) + '{1000}');",
    "var d = new Date(); for (;;) d.toLocaleString();",
    "for (;;) 'x'.padStart(1.5e7, 'abc');",
    "var s = 'abc'.repeat(5e6); for (;;) s.replaceAll('b', '');",
    "var s = 'abc'.repeat(5e6); for (;;) s.replace(/b/g, '');",
    "var s = 'a'.repeat(5e6); for (;;) s.indexOf('a'.repeat(60) + 'b');",
    "var s = 'a'.repeat(7e6); for (;;) s.at(-1), s.codePointAt(5), s.substring(1);",
    "var a = 'a'.repeat(1.5e7).split('b'); for (;;) console.log(a);",
    "var s = ''; for (var i = 0; i < 2e6; i++) s += 'ab'; for (;;) (s + 'x').charCodeAt(1);",
    "for (;;) structuredCloneLike(new Array(9e5).fill(1)); function structuredCloneLike(a) { return [...a]; }",
];

fn main() {
    let limits = Limits { time: TIME_LIMIT, stops_before_block: u32::MAX, ..Limits::default() };
    let engine = ScriptEngine::new(limits).unwrap();
    let mut rows = Vec::new();
    for step in STEPS {
        let script = engine.compile(ScriptKind::Procedure, &format!("function () {{ {step} }}"));
        let script = script.unwrap_or_else(|error| panic!("{step}: {error}"));
        let started = Instant::now();
        let mut host = Instantly { item: None };
        let outcome = engine.run_procedure(&script, "[]", &mut host, CallOptions::default());
        let late = started.elapsed().saturating_sub(TIME_LIMIT);
        let end = match outcome.result {
            Ok(_) => "ended".to_owned(),
            Err(error) => format!("{:?}", error.kind),
        };
        rows.push((late.as_millis(), end, *step));
        eprintln!("{:>7} ms late  {step}", late.as_millis());
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.0));
    for (late, end, step) in rows {
        println!("{late:>7} ms  {end:<28} {step}");
    }
}
