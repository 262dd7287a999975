//! Scripts that mean harm, or that are written by someone on a bad day. None of them may outlive its
//! limits, reach the host, be seen by the next call, or bring the process down.

#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

#[path = "support/model.rs"]
mod model;
#[path = "support/query.rs"]
mod query;

use std::time::{Duration, Instant};

use armilla_script::{
    AttemptBounds, CallOptions, Limits, ScriptEngine, ScriptErrorKind, ScriptKind, ScriptOutcome,
};
use model::{Container, Transaction};
use serde_json::json;

/// Whether every call gets a context of its own: in the tests of `hostile_fresh.rs`, which are these.
const FRESH_CONTEXTS: bool = matches!(env!("CARGO_CRATE_NAME").as_bytes(), b"hostile_fresh");

fn short_limits() -> Limits {
    Limits {
        fresh_contexts: FRESH_CONTEXTS,
        time: Duration::from_millis(100),
        accept_time: Duration::from_millis(80),
        memory_bytes_max: 24 << 20,
        stops_before_block: u32::MAX,
        ..Limits::default()
    }
}

fn engine() -> ScriptEngine {
    ScriptEngine::new(short_limits()).unwrap()
}

/// For scripts that must come to their end, on a busy machine too.
fn patient_engine() -> ScriptEngine {
    ScriptEngine::new(Limits { time: Duration::from_secs(3), ..short_limits() }).unwrap()
}

fn run(engine: &ScriptEngine, body: &str) -> ScriptOutcome {
    let script = engine.compile(ScriptKind::Procedure, body).unwrap();
    let mut transaction = Transaction::begin(&Container::new("/pk"), Some(json!("a")));
    engine.run_procedure(&script, "[]", &mut transaction, CallOptions::default())
}

/// The kind of failure, or nothing when the script ended well.
fn kind(outcome: &ScriptOutcome) -> Option<ScriptErrorKind> {
    outcome.result.as_ref().err().map(|error| error.kind)
}

fn body(outcome: &ScriptOutcome) -> &str {
    outcome.result.as_deref().unwrap_or_else(|error| panic!("{error}"))
}

/// All of these loop for ever, most of them inside something that swallows exceptions.
const ENDLESS: &[&str] = &[
    "function () { for (;;) { } }",
    "function () { for (;;) { try { while (true) { } } catch (e) { } finally { } } }",
    "function () { try { for (;;) { } } finally { for (;;) { } } }",
    "function () { [1, 2].sort(function () { for (;;) { } }); }",
    "function () { /(a*)*b/.test('a'.repeat(50000)); }",
    "function () { 'a'.repeat(100000).replace(/(?=(a*)*b)/g, ''); }",
    "function f() { for (;;) __.readDocument(__.getAltLink() + '/docs/x', function () { }); }",
    "function () { Promise.resolve().then(function f() { return Promise.resolve().then(f); }); }",
    "async function () { for (;;) await null; }",
    "async function () { for (;;) { } }",
    "function () { while (true) { new Promise(function () { for (;;) { } }); } }",
    "function () { while (true) Promise.all({ [Symbol.iterator]() { for (;;) { } } }); }",
    "function () { while (true) import({ toString() { for (;;) { } } }); }",
    "function () { async function* g() { for (;;) { } } while (true) g().next(); }",
    "function () { var o = {}; Object.defineProperty(o, 'then', { get: async () => { for (;;) { } } });
       for (;;) (async () => o)(); }",
    "function () { for (;;) { try { for (const x of { [Symbol.iterator]: () => ({ next: () => ({}),
       return() { for (;;) { } } }) }) throw 1; } catch (e) { } } }",
    "function () { for (;;) { try { for (const x of { [Symbol.iterator]: () => ({ next: () => ({}),
       return: async () => { for (;;) { } } }) }) throw 1; } catch (e) { } } }",
    "function () { Error.prepareStackTrace = function () { for (;;) { } };
       for (;;) { try { null.x; } catch (e) { } } }",
    "function () { Object.defineProperty(Error.prototype, 'toString', { value() { for (;;) { } } });
       throw new Error('x'); }",
    "function () { throw { get number() { for (;;) { } } }; }",
    "function () { getContext().abort({ get number() { for (;;) { } } }); }",
    "function () { (function r() { try { r(); } catch (e) { } for (;;) { } })(); }",
    "function () { (function r() { try { r(); } catch (e) { }
       for (;;) { (async () => { for (;;) { } })().catch(() => 0); } })(); }",
    "function () { __.response.setBody({ toJSON() { for (;;) { } } }); }",
    "function () { var b = { id: 'x', pk: 'a', toJSON() { for (;;) { } } };
       __.createDocument(__.getSelfLink(), b); }",
    "function () { Array.prototype.forEach.call({ length: 2 ** 53 - 1 }, function () { }); }",
    "function () { Array.prototype.flat.call({ length: 2 ** 53 - 1 }); }",
    "function () { String.raw({ raw: { length: 2 ** 53 - 1 } }); }",
    "function () { Array.prototype.includes.call(new Proxy({ length: 2 ** 53 - 1 }, { }), 1); }",
    "function () { var m = new Map([[1, 1]]);
       m.forEach(function (v, k) { m.delete(k); m.set(k + 1, 1); }); }",
];

/// Far beyond their 100 ms, because a test machine may be busy.
const STOPPED_WITHIN: Duration = Duration::from_secs(10);

#[test]
fn endless_scripts_are_stopped_in_time_and_cannot_swallow_it() {
    let engine = engine();
    for script in ENDLESS {
        let before = Instant::now();
        let outcome = run(&engine, script);
        let took = before.elapsed();
        // On a fast machine some of them use up their memory before their time.
        let stops = [Some(ScriptErrorKind::Timeout), Some(ScriptErrorKind::OutOfMemory)];
        assert!(stops.contains(&kind(&outcome)), "{script}: {outcome:?}");
        assert!(took < STOPPED_WITHIN, "{script} took {took:?}");
    }
    assert_eq!(body(&run(&engine, "function () { __.response.setBody(1); }")), "1");
}

/// Built-in functions that would run for ages inside one call.
const OVERSIZED: &[&str] = &[
    "'a'.repeat(5000000).indexOf('a'.repeat(2000000) + 'b')",
    "'a'.repeat(5000000).lastIndexOf('b' + 'a'.repeat(2000000))",
    "'a'.repeat(5000000).includes('a'.repeat(2000000) + 'b')",
    "'a'.repeat(5000000).split('a'.repeat(2000000) + 'b')",
    "'a'.repeat(5000000).replace('a'.repeat(2000000) + 'b', '')",
    "'a'.repeat(5000000).replaceAll('a'.repeat(2000000) + 'b', '')",
    "'a'.repeat(5000000).replace({ toString() { return 'a'.repeat(2000000) + 'b'; } }, '')",
    "'\\u0301\\u0323'.repeat(1000000).normalize()",
    "'\\u0301\\u0323'.repeat(1000000).localeCompare('a')",
    "(function () { var a = []; a.length = 2 ** 32 - 1; return a; })().join()",
    "new Array(2 ** 32 - 1).reverse()",
    "new Array(2 ** 32 - 1).sort()",
    "new Array(2 ** 32 - 1).shift()",
    "new Array(2 ** 32 - 1).unshift(1)",
    "new Array(2 ** 32 - 1).splice(0, 1)",
    "new Array(2 ** 32 - 1).slice()",
    "new Array(2 ** 32 - 1).copyWithin(5, 0)",
    "new Array(2 ** 32 - 1).concat(1)",
    "[].concat(new Array(2 ** 32 - 1))",
    "[].concat({ length: 2 ** 53 - 1, [Symbol.isConcatSpreadable]: true })",
    "Array.prototype.join.call({ length: 2 ** 53 - 1 })",
    "Array.prototype.sort.call({ length: 2 ** 53 - 1 })",
    "Array.prototype.join.call(new Proxy([], { get(t, k) { return k === 'length' ? 2 ** 53 - 1 : 0; } }))",
    "Array.prototype.join.call(Proxy.revocable([], { get(t, k) { return k === 'length' ? 2 ** 53 - 1 : 0; } }).proxy)",
    "String(new Array(2 ** 32 - 1))",
    "new Uint8Array(2e6).sort()",
    "new Uint8Array(2e6).toSorted()",
];

#[test]
fn oversized_arguments_of_built_in_functions_are_refused() {
    let limits = Limits { time: Duration::from_secs(5), ..short_limits() };
    let engine = ScriptEngine::new(limits).unwrap();
    for expression in OVERSIZED {
        let script = format!(
            "function () {{ try {{ {expression}; }} catch (e) {{ __.response.setBody(e instanceof RangeError); }} }}"
        );
        assert_eq!(body(&run(&engine, &script)), "true", "{expression}");
    }
}

#[test]
fn guarded_built_ins_still_do_their_work() {
    let engine = engine();
    let script = r#"function () {
      function check(what, wanted) {
        if (JSON.stringify(what) !== JSON.stringify(wanted)) throw new Error(JSON.stringify(what) + ' is not ' + JSON.stringify(wanted));
      }
      check([3, 1, 2].sort(), [1, 2, 3]);
      check([1, 2, 3, 4].splice(1, 2), [2, 3]);
      check([1, , 3].concat([4, [5]], 6), [1, , 3, 4, [5], 6]);
      check((function () { return Array.prototype.slice.call(arguments, 1); })(1, 2, 3), [2, 3]);
      check([[1, [2]], 3, , [4]].flat(), [1, [2], 3, 4]);
      check([1, [2, [3, [4]]]].flat(Infinity), [1, 2, 3, 4]);
      check([1, 2].flatMap(function (x, i, all) { return [x, [i, all.length]]; }), [1, [0, 2], 2, [1, 2]]);
      var like = { 0: 'a', 1: 'b', 3: 'd', length: 4 };
      check(Array.prototype.shift.call(like), 'a');
      check(like, { 0: 'b', 2: 'd', length: 3 });
      Array.prototype.reverse.call(like);
      check(like, { 0: 'd', 2: 'b', length: 3 });
      check(Array.prototype.join.call('abc', '-'), 'a-b-c');
      check([1, 2] + '', '1,2');
      check(Array.from(new Int8Array([3, 1, 2]).sort()), [1, 2, 3]);
      check(Array.from(new Int8Array([3, 1, 2]).toSorted((a, b) => b - a)), [3, 2, 1]);
      check('a-b-c'.split('-'), ['a', 'b', 'c']);
      check('a-b-c'.split('-', 2), ['a', 'b']);
      check('a1b2'.split(/\d/), ['a', 'b', '']);
      check('abc'.split(), ['abc']);
      check('aXbX'.replace('X', '-'), 'a-bX');
      check('aXbX'.replace(/X/g, function (m, at) { return at; }), 'a1b3');
      check('aXbX'.replaceAll('X', '-'), 'a-b-');
      check('abcabc'.indexOf('c', 3), 5);
      check('abcabc'.lastIndexOf('c'), 5);
      check('abcabc'.lastIndexOf('c', 4), 2);
      check('null'.includes(null), true);
      check('e\u0301'.normalize('NFC'), '\u00e9');
      check(String.raw`a\n${1}b`, 'a\\n1b');
      check(new Proxy({ a: 1 }, {}).a, 1);
      check([''.indexOf.name, [].sort.name, Proxy.name, Error.name], ['indexOf', 'sort', 'Proxy', 'Error']);
      check('prototype' in Proxy || 'prototype' in [].sort, false);
      var seen = []; for (var k in []) seen.push(k); for (var k in '') seen.push(k);
      check(seen, []);
      check((function () { try { Array.prototype.join.call(null); } catch (e) { return e instanceof TypeError; } })(), true);
      check((function () { try { 'a'.includes(/a/); } catch (e) { return e instanceof TypeError; } })(), true);
      __.response.setBody('ok');
    }"#;
    assert_eq!(body(&run(&engine, script)), "\"ok\"");
}

/// Scripts that ask for more memory than there is.
const GREEDY: &[&str] = &[
    "function () { var a = []; for (;;) a.push(new Array(1000).fill('x')); }",
    "function () { var s = 'x'; for (;;) s += s; }",
    "function () { 'x'.repeat(2 ** 29); }",
    "function () { new ArrayBuffer(1e9); }",
    "function () { new Uint8Array(1e9); }",
    "function () { var o = {}; for (var i = 0; ; i++) o['k' + i] = i; }",
    "function () { var m = new Map(); for (var i = 0; ; i++) m.set(i, { i }); }",
    "function () { JSON.stringify(new Array(2 ** 32 - 1)); }",
    "function () { var f = null; for (;;) { let g = f; f = () => g; } }",
    "function () { Array.from({ length: 2 ** 53 - 1 }); }",
    "function () { [...(function* () { for (;;) yield 'x'; })()]; }",
    "function () { var p = Promise.resolve(); for (;;) p = p.then(() => 1); }",
    "function () { console.log('x'.repeat(2 ** 28)); }",
    "function () { var s = 'x'.repeat(2 ** 20); for (;;) __.createDocument(__.getSelfLink(), { s: s, pk: 'a' }); }",
];

#[test]
fn greedy_scripts_run_out_of_memory_and_nothing_else_does() {
    let limits = Limits {
        time: Duration::from_secs(20),
        accept_time: Duration::from_secs(20),
        ..short_limits()
    };
    let engine = ScriptEngine::new(limits).unwrap();
    for script in GREEDY {
        let outcome = run(&engine, script);
        let error = outcome.result.unwrap_err();
        let refused = match error.kind {
            ScriptErrorKind::OutOfMemory => error.message().contains("out of memory"),
            // Some requests are refused before memory is touched.
            ScriptErrorKind::Threw { .. } => {
                error.detail.contains("RangeError") || error.detail.contains("string too long")
            }
            _ => false,
        };
        assert!(refused, "{script}: {error:?}");
        assert_eq!(body(&run(&engine, "function () { __.response.setBody(1); }")), "1");
    }
}

/// Recursions without end, through all kinds of native frames.
const DEEP: &[&str] = &[
    "(function f() { return f() + 1; })()",
    "(function f() { [1, 2].sort(f); })()",
    "(function f() { return 'a'.replace('a', f); })()",
    "(function f() { return 'a'.replace(/a/, f); })()",
    "(function f(...a) { f(...a, 1); })()",
    "(function f() { f.apply(this, arguments); })()",
    "(function () { var o = { get a() { return this.a; } }; o.a; })()",
    "(function () { var o = { toString() { return '' + this; } }; '' + o; })()",
    "(function () { var p = new Proxy({}, { get(t, k, r) { return r[k]; } }); p.x; })()",
    "(function () { var o = { toJSON() { return JSON.stringify(o); } }; JSON.stringify(o); })()",
    "(function () { function* g() { yield* g(); } g().next(); })()",
    "(function () { class A { constructor() { new A(); } } new A(); })()",
    "(function () { var a = []; for (var i = 0; i < 100000; i++) a = [a]; JSON.stringify(a); })()",
    "JSON.parse('['.repeat(100000))",
    "new RegExp('('.repeat(100000))",
    "(function () { Error.stackTraceLimit = Infinity; (function f() { try { f(); } catch (e) { throw new Error('x'); } })(); })()",
];

#[test]
fn deep_recursion_is_an_ordinary_exception() {
    let limits = Limits { time: Duration::from_secs(20), ..short_limits() };
    let engine = ScriptEngine::new(limits).unwrap();
    for expression in DEEP {
        let caught = format!(
            "function () {{ try {{ {expression}; }} catch (e) {{ __.response.setBody(e instanceof Error); }} }}"
        );
        assert_eq!(body(&run(&engine, &caught)), "true", "{expression}");
        let uncaught = format!("function () {{ {expression}; }}");
        let outcome = run(&engine, &uncaught);
        assert!(
            matches!(kind(&outcome), Some(ScriptErrorKind::Threw { .. })),
            "{expression}: {outcome:?}"
        );
    }
}

/// Loops whose single steps take milliseconds inside the engine, where nothing interrupts them.
const HEAVY: &[&str] = &[
    "var a = new Uint8Array(1.6e7); for (;;) a.fill(1);",
    "var a = new Float64Array(1e5); for (;;) a.sort();",
    "var s = 'a'.repeat(5e6); for (;;) s.split('b');",
    "var s = 'a'.repeat(5e6); for (;;) s.indexOf('b');",
    "var s = 'a'.repeat(2e5); for (;;) s.toUpperCase();",
    "var s = '\"' + 'a'.repeat(5e6) + '\"'; for (;;) JSON.parse(s);",
    "var s = '[1,'.repeat(1e5); for (;;) { try { JSON.parse(s); } catch (e) { } }",
    "var a = []; for (var i = 0; i < 2e3; i++) a.push({ i: i }); for (;;) JSON.stringify(a);",
    "var s = 'a'.repeat(1.2e7), t = s + 'c'; s += 'b'; s[0]; t[0]; for (;;) s === t;",
    "var s = 'a'.repeat(1.5e7), o = {}; for (;;) o[s];",
    "var x = (1n << 50000n) - 1n; for (;;) x * x;",
    "var x = (1n << 20000n) - 1n; for (;;) x.toString();",
];

#[test]
fn heavy_steps_are_watched_more_closely() {
    let limits =
        Limits { time: Duration::from_millis(300), memory_bytes_max: 64 << 20, ..short_limits() };
    let engine = ScriptEngine::new(limits).unwrap();
    let mut slow = Vec::new();
    for text in HEAVY {
        let before = Instant::now();
        let outcome = run(&engine, &format!("function () {{ {text} }}"));
        assert_eq!(kind(&outcome), Some(ScriptErrorKind::Timeout), "{text}: {outcome:?}");
        let took = before.elapsed();
        if took > Duration::from_secs(8) {
            slow.push(format!("{took:?} {text}"));
        }
    }
    assert!(slow.is_empty(), "{slow:#?}");
}

#[test]
fn asynchronous_recursion_ends() {
    let engine = engine();
    let outcome = run(&engine, "async function f() { await f(); }");
    assert!(outcome.result.is_ok() || kind(&outcome).is_some());
    let mixed = "function () { async function g() { return 1; }
       (function r() { try { r(); } catch (e) { } g(); })(); }";
    assert!(run(&engine, mixed).result.is_ok());
}

#[test]
fn nothing_survives_a_call() {
    let engine = engine();
    let pollute = "function () {
       leaked = 1; globalThis.other = 2; Object.prototype.evil = 3; Array.prototype.push = null;
       String.prototype.trim = function () { return 'evil'; }; JSON.parse = null; Math.max = null;
       Promise.prototype.then = null; Error = null; getContext = null; console.log = null;
       Object.freeze(Object.prototype); Function.prototype.call = null;
       __.filter = null; __.constructor.prototype.evil = 4; }";
    let look = "function () { __.response.setBody([typeof leaked, typeof other, typeof ({}).evil,
       typeof [].push, ' a '.trim(), typeof JSON.parse, typeof Error, typeof getContext]); }";
    for _ in 0..20 {
        assert!(run(&engine, pollute).result.is_ok());
        assert_eq!(
            body(&run(&engine, look)),
            r#"["undefined","undefined","undefined","function","a","function","function","function"]"#
        );
        engine.tidy();
    }
}

/// Everything that can be reached from the global object, with all its values, as one text.
const INVENTORY: &str = "function () {
   var seen = new Map(), lines = [];
   function name(value) {
     if ((typeof value !== 'object' && typeof value !== 'function') || value === null) {
       return typeof value + ' ' + String(value);
     }
     if (!seen.has(value)) { seen.set(value, seen.size); queue.push(value); }
     return '#' + seen.get(value);
   }
   var queue = [];
   name(globalThis);
   for (var at = 0; at < queue.length; at++) {
     var one = queue[at];
     lines.push('#' + at + ' ' + typeof one + ' ' + Object.isExtensible(one) + ' ' + name(Object.getPrototypeOf(one)));
     Reflect.ownKeys(one).forEach(function (key) {
       var own = Object.getOwnPropertyDescriptor(one, key);
       lines.push(String(key) + ' ' + own.writable + own.enumerable + own.configurable + name(own.get) + name(own.set) + name(own.value));
     });
   }
   __.response.setBody([seen.size, lines.join('|')]);
 }";

#[test]
fn after_any_call_everything_is_as_it_was() {
    let engine = patient_engine();
    let before = body(&run(&engine, INVENTORY)).to_owned();
    let objects: usize = before[1..].split(',').next().unwrap().parse().unwrap();
    assert!(objects > 500, "{objects} objects");
    for script in [
        "function () { }",
        "function () { for (var key of Reflect.ownKeys(globalThis)) try { delete globalThis[key]; } catch (e) { } }",
        "function () { Reflect.ownKeys(globalThis).forEach(function (key) { try { Object.freeze(globalThis[key]); Object.freeze(globalThis[key].prototype); } catch (e) { } }); }",
        "function () { Symbol.for('kept').x = 1; Symbol.for('kept'); Array.prototype[Symbol.for('kept')] = 1; }",
        "function () { Object.setPrototypeOf(Object.getPrototypeOf(function* () { }), null); throw new Error('no'); }",
        "function () { Array.prototype[0] = 1; __.request.getBody().push(7); getContext().getCollection().readDocument = 1; }",
        "async function () { globalThis.p = new Promise(function () { }); await p; }",
        "function () { (async function () { throw 1; })(); __.readDocument(__.getAltLink() + '/docs/none'); }",
        "function () { for (;;) { } }",
        "function () { var a = []; for (;;) a.push(new Uint8Array(100000)); }",
        "function () { function f() { f(); } f(); }",
        "function () { getContext().abort(new Error('enough')); }",
        "function () { globalThis.m = new WeakMap(); m.set({}, m); globalThis.big = 'x'.repeat(200000); }",
    ] {
        run(&engine, script);
        assert!(body(&run(&engine, INVENTORY)) == before, "changed by {script}");
    }
}

/// The native functions of the library are Rust's; a script may lose sight of them, but they live.
#[test]
fn native_functions_outlive_scripts_that_delete_everything() {
    let engine = patient_engine();
    let clear = "function () {
       for (var key of Reflect.ownKeys(globalThis)) {
         if (key !== 'Array' && key !== 'Object') try { delete globalThis[key]; } catch (e) { }
       }
       // Cycles by the megabyte, so that the engine collects garbage.
       for (var n = 0; n < 400000; n++) { var a = [], b = [a]; a.push(b); }
     }";
    let use_all = "function () { console.log(Math.random() < 1); __.response.setBody(
       __.readDocuments(__.getSelfLink(), function () { getContext().abort('end'); })); }";
    for _ in 0..3 {
        run(&engine, clear);
        let outcome = run(&engine, use_all);
        assert!(outcome.result.unwrap_err().detail.contains("end"));
    }
}

#[test]
fn random_numbers_differ_from_call_to_call() {
    let engine = patient_engine();
    let draw = "function () { __.response.setBody(Math.random()); }";
    let drawn: std::collections::BTreeSet<String> =
        (0..20).map(|_| body(&run(&engine, draw)).to_owned()).collect();
    assert_eq!(drawn.len(), 20);
    let shape = "function () { __.response.setBody([Math.random.name, Math.random.length,
       typeof Math.random.prototype, Object.getOwnPropertyDescriptor(Math, 'random').enumerable]); }";
    assert_eq!(body(&run(&engine, shape)), r#"["random",0,"undefined",false]"#);
}

#[test]
fn promise_jobs_of_a_stopped_call_never_run() {
    let engine = engine();
    let leave =
        "function () { Promise.resolve().then(function () { globalThis.x = 1; }); for (;;) { } }";
    assert_eq!(kind(&run(&engine, leave)), Some(ScriptErrorKind::Timeout));
    let throw =
        "function () { Promise.resolve().then(function () { console.log('late'); }); throw 1; }";
    assert!(run(&engine, throw).result.is_err());
    let script = engine.compile(ScriptKind::Procedure, "function () { }").unwrap();
    let mut transaction = Transaction::begin(&Container::new("/pk"), Some(json!("a")));
    let options = CallOptions { logging: true, ..CallOptions::default() };
    let outcome = engine.run_procedure(&script, "[]", &mut transaction, options);
    assert_eq!((outcome.result.as_deref(), outcome.log.as_deref()), (Ok("\"\""), Some("")));
}

#[test]
fn scripts_find_no_way_out() {
    let engine = engine();
    let script = r#"function () {
      var seen = [];
      ['require', 'process', 'std', 'os', 'fetch', 'setTimeout', 'WebAssembly', 'Deno', 'scriptArgs',
        'WeakRef', 'FinalizationRegistry', 'performance', 'native', 'driver', 'armilla driver', 'print',
        'navigator', 'gc', 'load', 'quit'].forEach(function (name) {
          if (name in globalThis) seen.push(name);
        });
      Object.getOwnPropertyNames(globalThis).forEach(function (name) {
        if (/armilla|driver|native/i.test(name)) seen.push(name);
      });
      // Neither the stack of the library nor its functions' callers and arguments are reachable.
      function probe() { return [probe.caller, (function () { try { return arguments.callee.caller; } catch (e) { return null; } })()]; }
      __.response.setBody([seen, typeof getContext().getCollection().native]);
    }"#;
    assert_eq!(body(&run(&engine, script)), r#"[[],"undefined"]"#);
    // There is no code made from text, by whatever name.
    for escape in [
        "eval('this')",
        "(0, eval)('1')",
        "new Function('return this')()",
        "(function () { }).constructor('return this')()",
        "(async () => 0).constructor('return this')()",
        "(function* () { }).constructor('return this')()",
        "(async function* () { }).constructor('return this')()",
        "[].sort.constructor.constructor('return this')()",
        "getContext.constructor('return this')()",
    ] {
        let script = format!(
            "function () {{ try {{ {escape}; __.response.setBody('in'); }} catch (e) {{ __.response.setBody('out'); }} }}"
        );
        assert_eq!(body(&run(&engine, &script)), "\"out\"", "{escape}");
    }
    let import = "async function () { try { await import('std'); __.response.setBody('in'); } catch (e) { __.response.setBody('out'); } }";
    assert_eq!(body(&run(&engine, import)), "\"out\"");
}

#[test]
fn bodies_up_to_two_megabytes_compile_and_larger_ones_are_refused() {
    let engine = ScriptEngine::new(Limits::default()).unwrap();
    let filler = |bytes: usize| format!("function () {{ return 1; }} // {}", "x".repeat(bytes));
    assert!(engine.compile(ScriptKind::Procedure, &filler((2 << 20) - 100)).is_ok());
    let error = engine.compile(ScriptKind::Procedure, &filler(2 << 20)).unwrap_err();
    assert!(error.message.contains("2097152"), "{error}");
    let table = format!("function () {{ return [{}]; }}", "1,".repeat(900_000));
    assert!(engine.compile(ScriptKind::Procedure, &table).is_ok());
}

#[test]
fn repeat_offenders_are_blocked_until_forgiven() {
    let limits =
        Limits { time: Duration::from_millis(20), stops_before_block: 3, ..short_limits() };
    let engine = ScriptEngine::new(limits).unwrap();
    let endless = engine.compile(ScriptKind::Procedure, "function () { for (;;) { } }").unwrap();
    let mut transaction = Transaction::begin(&Container::new("/pk"), Some(json!("a")));
    let mut call = || {
        let outcome =
            engine.run_procedure(&endless, "[]", &mut transaction, CallOptions::default());
        outcome.result.unwrap_err().kind
    };
    for _ in 0..3 {
        assert_eq!(call(), ScriptErrorKind::Timeout);
    }
    assert_eq!(call(), ScriptErrorKind::Blocked);
    engine.forgive(&endless);
    assert_eq!(call(), ScriptErrorKind::Timeout);
    assert!(run(&engine, "function () { }").result.is_ok());
}

#[test]
fn a_user_function_that_loops_ends_its_session() {
    let engine = engine();
    let endless = engine.compile(ScriptKind::Function, "function () { for (;;) { } }").unwrap();
    let sound = engine.compile(ScriptKind::Function, "function (x) { return x + 1; }").unwrap();
    let session = engine
        .udf_session(&[("endless", &endless), ("sound", &sound)], CallOptions::default())
        .unwrap();
    assert_eq!(session.call("sound", &[Some("1")]).unwrap().as_deref(), Some("2"));
    let error = session.call("endless", &[]).unwrap_err();
    assert_eq!(error.kind, ScriptErrorKind::Timeout);
    assert_eq!(session.call("sound", &[Some("1")]).unwrap_err(), error);
    drop(session);
    let session = engine.udf_session(&[("sound", &sound)], CallOptions::default()).unwrap();
    assert_eq!(session.call("sound", &[Some("2")]).unwrap().as_deref(), Some("3"));
}

/// Bodies that kept the parser, which nothing can interrupt, for minutes.
#[test]
fn bodies_that_take_long_to_parse_are_refused_before() {
    let engine = engine();
    let repeated = |part: &str, count: usize| {
        let parts: String = (0..count).map(|at| part.replace('#', &at.to_string())).collect();
        format!("function () {{ {parts} }}")
    };
    for (part, count) in [
        ("let a# = 1;", 100_000),
        ("{ const a = 1; }", 100_000),
        ("for (;;) { break; }", 100_000),
        ("try { } catch (e) { }", 90_000),
    ] {
        let before = Instant::now();
        let error = engine.compile(ScriptKind::Procedure, &repeated(part, count)).unwrap_err();
        assert!(error.to_string().contains("more than 5000"), "{error}");
        assert!(before.elapsed() < STOPPED_WITHIN);
        engine.compile(ScriptKind::Procedure, &repeated(part, 1000)).unwrap();
    }
    let number = format!("function () {{ return {}n; }}", "9".repeat(300_000));
    let error = engine.compile(ScriptKind::Procedure, &number).unwrap_err();
    assert!(error.to_string().contains("digits"), "{error}");
}

/// The engine throws null when there is no memory for an error; a script may do so any time.
#[test]
fn throwing_null_is_not_a_lack_of_memory() {
    let engine = patient_engine();
    for script in ["function () { throw null; }", "function () { try { throw null; } finally { } }"]
    {
        let error = run(&engine, script).result.unwrap_err();
        assert!(matches!(error.kind, ScriptErrorKind::Threw { .. }), "{error:?}");
        assert!(error.detail.contains("null"), "{error:?}");
    }
    // Not even when memory was refused to the call before.
    let greedy = run(&engine, GREEDY[0]).result.unwrap_err();
    assert!(matches!(greedy.kind, ScriptErrorKind::OutOfMemory | ScriptErrorKind::Threw { .. }));
    let error = run(&engine, "function () { throw null; }").result.unwrap_err();
    assert!(matches!(error.kind, ScriptErrorKind::Threw { .. }), "{error:?}");
}

/// Each is called twice before, so that it would be run at once where nobody may be held up.
#[test]
fn an_attempt_ends_at_its_bounds_and_is_not_held_against_the_script() {
    let bounds = AttemptBounds { time: Duration::from_millis(1), memory_bytes_max: 256 << 10 };
    let limits = Limits { stops_before_block: 1, ..short_limits() };
    for endless in ENDLESS {
        let engine = ScriptEngine::new(Limits { time: Duration::from_secs(3), ..limits.clone() });
        let engine = engine.unwrap();
        let body = format!("function (n) {{ if (n) ({endless})(); }}");
        let script = engine.compile(ScriptKind::Procedure, &body).unwrap();
        let begin = || Transaction::begin(&Container::new("/pk"), Some(json!("a")));
        let options = CallOptions::default();
        let run = || engine.run_procedure(&script, "[0]", &mut begin(), options);
        (0..2).for_each(|_| drop(run()));
        let attempt = |arguments: &str| {
            engine.attempt_procedure(&script, arguments, &mut begin(), options, bounds)
        };
        let started = Instant::now();
        assert!(attempt("[1]").is_none(), "{endless}");
        assert!(started.elapsed() < Duration::from_secs(1), "{:?} {endless}", started.elapsed());
        assert_eq!(kind(&run()), None, "{endless}");
        // It may be too late on a busy machine, but it is not always.
        let ended = (0..1000).find_map(|_| attempt("[0]"));
        assert_eq!(ended.is_none(), FRESH_CONTEXTS, "{endless}");
    }
}
