//! JSON inside scripts: reading and writing are this server's own on the usual paths, so every corner of them is asked for.

#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

#[path = "support/model.rs"]
mod model;
#[path = "support/query.rs"]
mod query;

use armilla_script::{CallOptions, Limits, ScriptEngine, ScriptKind, ScriptOutcome};
use model::{Container, Transaction};
use serde_json::{Value, json};

fn run(engine: &ScriptEngine, body: &str, arguments: &str) -> ScriptOutcome {
    let script = engine.compile(ScriptKind::Procedure, body).unwrap();
    let mut transaction = Transaction::begin(&Container::new("/pk"), Some(json!("a")));
    engine.run_procedure(&script, arguments, &mut transaction, CallOptions::default())
}

fn value_of(expression: &str) -> Value {
    let engine = ScriptEngine::new(Limits::default()).unwrap();
    let body = format!("function () {{ getContext().getResponse().setBody({expression}); }}");
    let found = run(&engine, &body, "[]").result;
    serde_json::from_str(&found.unwrap_or_else(|error| panic!("{expression}: {error}"))).unwrap()
}

#[test]
fn texts_are_written_and_read_with_their_escapes_wherever_they_stand() {
    let engine = ScriptEngine::new(Limits::default()).unwrap();
    let echo = "function (value) { getContext().getResponse().setBody(value); }";
    let script = engine.compile(ScriptKind::Procedure, echo).unwrap();
    for special in ["\"", "\\", "\n", "\u{1f}", "\u{7f}", "é", "ÿ", "€", "😀", "/", " "] {
        for before in 0..20 {
            for behind in [0, 1, 9] {
                let text = format!("{}{special}{}", "x".repeat(before), "y".repeat(behind));
                let sent = json!([{ (text.as_str()): text }]);
                let mut transaction = Transaction::begin(&Container::new("/pk"), Some(json!("a")));
                let options = CallOptions::default();
                let outcome =
                    engine.run_procedure(&script, &sent.to_string(), &mut transaction, options);
                let found: Value = serde_json::from_str(&outcome.result.unwrap()).unwrap();
                assert_eq!(found, sent[0], "{text:?}");
            }
        }
    }
}

#[test]
fn what_json_text_becomes() {
    for (expression, wanted) in [
        (
            "Object.keys(JSON.parse('{\"b\":1,\"a\":2,\"10\":3,\"9\":4,\"\":5}'))",
            json!(["9", "10", "b", "a", ""]),
        ),
        ("JSON.parse('{\"a\":1,\"a\":2}').a", json!(2)),
        ("JSON.parse('{\"a\":1, \"a\" : 3}').a", json!(3)),
        ("Object.keys(JSON.parse('{\"__proto__\":{\"x\":1}}'))", json!(["__proto__"])),
        ("JSON.parse('{\"__proto__\":{\"x\":1}}').x === undefined", json!(true)),
        ("Object.is(JSON.parse('-0'), -0)", json!(true)),
        ("Object.is(JSON.parse('0'), 0)", json!(true)),
        (
            "[JSON.parse('-7'), JSON.parse('123456789'), JSON.parse('1234567890123')]",
            json!([-7, 123_456_789, 1_234_567_890_123_i64]),
        ),
        (
            "[JSON.parse('1e3'), JSON.parse('1.5'), JSON.parse('-1.0'), JSON.parse('999999999') + 1]",
            json!([1000, 1.5, -1, 1_000_000_000]),
        ),
        ("JSON.parse('2147483647') + 1", json!(2_147_483_648_i64)),
        ("JSON.parse(' { \"a\" : [ ] , \"b\" : { } } ')", json!({"a": [], "b": {}})),
        ("JSON.parse('{\"\\\\u0061\":1}').a", json!(1)),
        ("JSON.parse('{\"é\":1}')['\\u00e9']", json!(1)),
        ("JSON.parse('[1,2]', (k, v) => typeof v === 'number' ? v + 1 : v)", json!([2, 3])),
        ("JSON.parse('{\"a\":{\"b\":1}}', (k, v) => k === 'b' ? 9 : v)", json!({"a": {"b": 9}})),
    ] {
        assert_eq!(value_of(expression), wanted, "{expression}");
    }
    for text in [
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "{\"a\":1",
        "\"a",
        "\"a\\\\",
        "01",
        "-",
        "\"\u{1}\"",
        "[1,]",
        "{\"a\":1 \"b\":2}",
    ] {
        let quoted = serde_json::to_string(text).unwrap();
        let expression = format!(
            "(() => {{ try {{ return JSON.parse({quoted}); }} catch (e) {{ return e.name; }} }})()"
        );
        assert_eq!(value_of(&expression), json!("SyntaxError"), "{text}");
    }
}

#[test]
fn what_values_become() {
    for (expression, wanted) in [
        (
            "JSON.stringify({ b: 1, a: undefined, 2: 'x', 1: null, f() {}, [Symbol('s')]: 1 })",
            "{\"1\":null,\"2\":\"x\",\"b\":1}",
        ),
        (
            "JSON.stringify([undefined, () => 1, NaN, -0, 1e21, 0.1])",
            "[null,null,null,0,1e+21,0.1]",
        ),
        ("JSON.stringify({ get a() { return this.b; }, b: 'b' })", "{\"a\":\"b\",\"b\":\"b\"}"),
        ("JSON.stringify(Object.defineProperty({ a: 1 }, 'hidden', { value: 2 }))", "{\"a\":1}"),
        (
            "JSON.stringify(Object.create({ inherited: 1 }, { own: { value: 1, enumerable: true } }))",
            "{\"own\":1}",
        ),
        ("JSON.stringify({ a: { toJSON(key) { return 'key ' + key; } } })", "{\"a\":\"key a\"}"),
        (
            "(() => { const o = { a: { toJSON() { delete o.b; o.c = 3; return 1; } }, b: 2 }; return JSON.stringify(o); })()",
            "{\"a\":1}",
        ),
        (
            "JSON.stringify(new Proxy({ a: 1 }, { ownKeys: () => ['a', 'b'], getOwnPropertyDescriptor: (t, k) => ({ value: 1, enumerable: k === 'a', configurable: true }) }))",
            "{\"a\":1}",
        ),
        (
            "JSON.stringify([new String('s'), new Number(3), new Boolean(false), new Date(0)])",
            "[\"s\",3,false,\"1970-01-01T00:00:00.000Z\"]",
        ),
        (
            "JSON.stringify({ a: [1, { b: 2 }], c: {} }, null, 1)",
            "{\n \"a\": [\n  1,\n  {\n   \"b\": 2\n  }\n ],\n \"c\": {}\n}",
        ),
        ("JSON.stringify({ a: 1, b: { a: 2, c: 3 } }, ['a', 'b'])", "{\"a\":1,\"b\":{\"a\":2}}"),
        ("JSON.stringify({ a: 1, b: 2 }, (k, v) => k === 'a' ? undefined : v)", "{\"b\":2}"),
        ("JSON.stringify('\\ud800' + 'a')", "\"\\ud800a\""),
        ("JSON.stringify('a'.repeat(3) + '\"' + 'b'.repeat(300)).length", "307"),
        ("JSON.stringify(undefined) === undefined", "true"),
        (
            "(() => { const o = {}; o.o = o; try { return JSON.stringify(o); } catch (e) { return e.name; } })()",
            "TypeError",
        ),
    ] {
        let found = value_of(&format!("String({expression})"));
        assert_eq!(found, json!(wanted), "{expression}");
    }
}

/// A script that is called again is part of the image that the runtime is put back to. It must not be seen.
#[test]
fn a_script_that_is_called_again_is_as_new_and_costs_the_same() {
    let engine = ScriptEngine::new(Limits::default()).unwrap();
    let counting = "function counting() {
        counting.calls = (counting.calls || 0) + 1;
        globalThis.seen = (globalThis.seen || 0) + 1;
        Object.prototype.seen = (Object.prototype.seen || 0) + 1;
        const value = []; for (let i = 0; i < 30000; i++) value[i] = { i };
        const length = JSON.stringify(value).length;
        delete Object.prototype.seen;
        getContext().getResponse().setBody([counting.calls, globalThis.seen, length]);
    }";
    let global = "var calls = 0; function counting() { calls++; getContext().getResponse().setBody([calls]); }";
    let scripts: Vec<_> = [counting, global]
        .map(|body| engine.compile(ScriptKind::Procedure, body).unwrap())
        .into_iter()
        .collect();
    let mut firsts = [None, None];
    for which in [0, 0, 0, 1, 0, 1, 1, 1, 0, 0, 0] {
        let mut transaction = Transaction::begin(&Container::new("/pk"), Some(json!("a")));
        let options = CallOptions::default();
        let outcome = engine.run_procedure(&scripts[which], "[]", &mut transaction, options);
        let found = (outcome.result.unwrap(), outcome.ticks);
        assert!(which == 1 || found.1 > 0, "it is long enough to be charged for");
        assert_eq!(*firsts[which].get_or_insert_with(|| found.clone()), found);
        engine.tidy();
    }
    assert_eq!(firsts[1].as_ref().unwrap().0, "[1]");
}
