//! The corners of the API that the shared cases leave out.

#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

#[path = "support/model.rs"]
mod model;
#[path = "support/query.rs"]
mod query;

use std::time::{Duration, Instant};

use armilla_script::host::{
    CollectionLinks, Host, HostError, IndexDirective, ItemLink, Page, ReadOutcome, Upserted,
};
use armilla_script::{
    CallOptions, Limits, ScriptEngine, ScriptErrorKind, ScriptKind, ScriptOutcome,
    TriggerOperation, TriggerRequest,
};
use model::{Container, Transaction};
use serde_json::{Value, json};

fn engine() -> ScriptEngine {
    ScriptEngine::new(Limits::default()).unwrap()
}

fn five_items() -> Container {
    let mut container = Container::new("/pk");
    for n in 1..=5 {
        container
            .insert(&json!({ "id": format!("d{n}"), "pk": "a", "n": n, "kids": [n, [n * 10]] }));
    }
    container
}

fn call(engine: &ScriptEngine, body: &str) -> ScriptOutcome {
    let script = engine.compile(ScriptKind::Procedure, body).unwrap();
    let mut transaction = Transaction::begin(&five_items(), Some(json!("a")));
    let options = CallOptions { script_id: "test", logging: true, ..CallOptions::default() };
    engine.run_procedure(&script, "[]", &mut transaction, options)
}

/// Runs a procedure body and compares the response body.
fn check(body: &str, wanted: Value) {
    let outcome = call(&engine(), &format!("function () {{ {body} }}"));
    let found = outcome.result.unwrap_or_else(|error| panic!("{body}: {error}"));
    assert_eq!(serde_json::from_str::<Value>(&found).unwrap(), wanted, "{body}");
}

/// An item that a callback cannot see is not made; every form that can see it gets it.
#[test]
fn callbacks_that_can_see_the_item_are_given_it() {
    let seeing = [
        "(error, item) => { answer(item.n); }",
        "(...all) => { answer(all[1].n); }",
        "(error, { n }) => { answer(n); }",
        "(error, item = null) => { answer(item.n); }",
        "function (error) { answer(arguments[1].n); }",
        "function () { const see = () => arguments[1].n; answer(see()); }",
        "({ see(error) { answer(arguments[1].n); } }).see",
        "function (error, item) { answer(item.n); }.bind(null)",
        "new Proxy((error, item) => { answer(item.n); }, {})",
    ];
    let read = |callback: &str| {
        format!(
            "const answer = (n) => getContext().getResponse().setBody(n); \
             __.readDocument(__.getAltLink() + '/docs/d3', {{}}, {callback});"
        )
    };
    for callback in seeing {
        check(&read(callback), json!(3));
    }
    // Its neighbours are where they were; `arguments` of an arrow function are those around it.
    check(&read("(error) => { answer(error === undefined); }"), json!(true));
    check(&read("() => { answer(arguments.length); }"), json!(0));
}

/// Runs an expression that must throw at the call; compares number and part of the message.
fn check_refused(expression: &str, number: u32, part: &str) {
    let outcome = call(&engine(), &format!("function () {{ {expression}; }}"));
    let error = outcome.result.unwrap_err();
    assert_eq!(
        error.kind,
        ScriptErrorKind::Threw { number: Some(number) },
        "{expression}: {error}"
    );
    assert!(error.detail.contains(part), "{expression}: {error}");
}

#[test]
fn argument_mistakes_throw_at_the_call_and_say_what_is_wrong() {
    check_refused("__.readDocument()", 400, "readDocument needs at least 1 argument but got 0");
    check_refused("__.queryDocuments(__.getSelfLink())", 400, "at least 2 arguments but got 1");
    check_refused(
        "__.readDocument(__.getAltLink() + '/docs/x', 5)",
        400,
        "'options' must be an object, not number",
    );
    check_refused(
        "__.readDocument(__.getAltLink() + '/docs/x', {}, 5)",
        400,
        "'callback' must be a function, not number",
    );
    check_refused("__.readDocument('dbs/db/colls/c')", 400, "'dbs/db/colls/c' is malformed");
    check_refused(
        "__.readDocument('dbs/db/colls/other/docs/x')",
        400,
        "outside the current container",
    );
    check_refused("__.readDocuments('nonsense')", 400, "collection link 'nonsense' is malformed");
    check_refused("__.readDocuments(undefined)", 400, "malformed");
    check_refused(
        "__.createDocument(__.getSelfLink(), null)",
        400,
        "'body' must be an object or its JSON text, not null",
    );
    check_refused("__.createDocument(__.getSelfLink(), [1])", 400, "not array");
    check_refused("__.createDocument(__.getSelfLink(), '{oops')", 400, "not valid JSON text");
    check_refused(
        "__.createDocument(__.getSelfLink(), {}, { indexAction: 'maybe' })",
        400,
        "indexAction",
    );
    check_refused(
        "__.queryDocuments(__.getSelfLink(), 5)",
        400,
        "'query' must be text or an object, not number",
    );
    check_refused(
        "__.queryDocuments(__.getSelfLink(), { text: 1 })",
        400,
        "must be text, not undefined",
    );
    check_refused("__.chain().map(function (d) { return d; }, {})", 400, "give them to value");
    check_refused("__.pluck('')", 400, "name of a property");
    check_refused("__.unwind(function () { })", 400, "takes one argument");
    check_refused("__.response.setValue('Nothing', 1)", 400, "'Nothing' is not a property");
}

#[test]
fn links_may_be_written_in_several_ways() {
    for link in [
        "__.getAltLink() + '/docs/d2'",
        "__.getAltLink() + '/docs/d2/'",
        "__.getAltLink().replace('dbs', 'DBS').replace('colls', 'Colls') + '/DOCS/d2'",
    ] {
        let body = format!(
            "__.readDocument({link}, function (e, d) {{ if (e) throw e; __.response.setBody(d.n); }});"
        );
        check(&body, json!(2));
    }
    check(
        "__.readDocuments(__.getAltLink() + '/', function (e, f) { __.response.setBody(f.length); });",
        json!(5),
    );
}

#[test]
fn options_may_be_null_and_unknown_ones_are_ignored() {
    check(
        "__.readDocuments(__.getSelfLink(), null, function (e, f) { __.response.setBody(f.length); });",
        json!(5),
    );
    check(
        "__.readDocuments(__.getSelfLink(), { setEnableCrossPartitionQuery: 1, pageSyze: 'x' }, function (e, f, o) { __.response.setBody([f.length, typeof o.currentCollectionSizeInMB]); });",
        json!([5, "string"]),
    );
}

#[test]
fn attachments_exist_and_fail() {
    check(
        "__.createAttachment('dbs/db/colls/c/docs/d1', {}, function (e, a) { __.response.setBody([e.number, a === undefined]); });",
        json!([400, true]),
    );
    check(
        "__.deleteAttachment('x', function (e, o) { __.response.setBody([e.number, typeof o]); });",
        json!([400, "object"]),
    );
}

#[test]
fn bodies_are_written_down_at_the_call() {
    check(
        "var d = { id: 'x', pk: 'a', v: 1 };
         __.createDocument(__.getSelfLink(), d, function (e, made) { __.response.setBody(made.v); });
         d.v = 2;",
        json!(1),
    );
    check(
        "class Item { constructor() { this.secret = 1; } toJSON() { return { pk: 'a', open: 2 }; } }
         __.createDocument(__.getSelfLink(), new Item(), function (e, d) { if (e) throw e; __.response.setBody([typeof d.id, d.open, d.secret === undefined]); });",
        json!(["string", 2, true]),
    );
    check(
        "__.upsertDocument(__.getSelfLink(), { id: '', pk: 'a' }, function (e, d, o) { __.response.setBody([d.id.length, o.statusCode]); });",
        json!([36, 201]),
    );
}

#[test]
fn operation_errors_carry_number_message_and_body() {
    check(
        "__.readDocument(__.getAltLink() + '/docs/none', function (e, d, o) { __.response.setBody([e instanceof Error, e.number, e.message, e.body, typeof o]); });",
        json!([
            true,
            404,
            "{\"Errors\":[\"Resource Not Found\"]}",
            "{\"Errors\":[\"Resource Not Found\"]}",
            "object"
        ]),
    );
}

#[test]
fn query_api_steps() {
    check("__.filter(function (d) { return d.n > 3; });", json!(last_two_as_text()));
    check(
        "__.chain().map(function (d) { if (d.n % 2) return d.n; }).value(function (e, f) { __.response.setBody(f); });",
        json!([1, 3, 5]),
    );
    check(
        "__.chain().filter(function (d) { return d.n < 3; }).pluck('kids').flatten().value(function (e, f) { __.response.setBody(f); });",
        json!([1, 10, 2, 20]),
    );
    check(
        "__.chain().filter(function (d) { return d.n < 3; }).pluck('kids').flatten(true).value(function (e, f) { __.response.setBody(f); });",
        json!([1, [10], 2, [20]]),
    );
    check(
        "__.chain().filter(function (d) { return d.n === 1; }).unwind(function (d) { return d.kids; }).value(function (e, f) { __.response.setBody(f); });",
        json!([1, 10]),
    );
    check(
        "__.chain().map(function (d) { return [undefined, null, true, 5, 'b', 'a', [1]][d.n + 1]; }).sortBy(function (v) { return v; }).value(function (e, f) { __.response.setBody(f); });",
        json!([true, 5, "a", "b", [1]]),
    );
    check(
        "__.sortByDescending(function (d) { return d.n % 2; }, function (e, f) { __.response.setBody(f.map(function (d) { return d.n; })); });",
        json!([1, 3, 5, 2, 4]),
    );
    check(
        "__.pluck('n', { pageSize: 2 }, function (e, f, o) { __.response.setBody([f, typeof o.continuation]); });",
        json!([[1, 2], "string"]),
    );
    check(
        "var r = __.chain().filter(function () { return true; }); __.response.setBody([r.isAccepted, __.proxy(r) === r]);",
        json!([true, true]),
    );
    check(
        "__.pluck('n'); __.pluck('id');",
        json!("[1,2,3,4,5][\"d1\",\"d2\",\"d3\",\"d4\",\"d5\"]"),
    );
    check_refused(
        "__.chain().filter(function () { throw new Error(777, 'no'); }).value()",
        777,
        "no",
    );
}

/// The response of a filter without callback is text: the appended JSON.
fn last_two_as_text() -> String {
    let container = five_items();
    let rows: Vec<Value> =
        container.items.into_iter().filter(|item| item["n"].as_i64() > Some(3)).collect();
    json!(rows).to_string()
}

#[test]
fn errors_show_the_line_of_the_users_own_source() {
    let body = "function outer() {\n  function inner() {\n    throw new Error(409, 'here');\n  }\n  inner();\n}";
    let error = call(&engine(), body).result.unwrap_err();
    assert!(error.detail.starts_with("Encountered exception while executing function. Exception = Error: here\r\nStack trace: Error: here\n   at inner (test.js:3:"), "{error}");
    assert!(error.detail.contains("\n   at outer (test.js:5:"), "{error}");
    assert!(!error.detail.contains("null"), "{error}");
    let callback = "function () {\n  __.readDocuments(__.getSelfLink(), function later(err, items) {\n    items.missing.property;\n  });\n}";
    let error = call(&engine(), callback).result.unwrap_err();
    assert!(
        error.detail.contains("TypeError") && error.detail.contains("at later (test.js:3:"),
        "{error}"
    );
}

#[test]
fn places_are_right_on_the_first_line_and_in_every_form_of_a_body() {
    let places = |body: &str| {
        let error = call(&engine(), body).result.unwrap_err();
        let frames = error.detail.split("\n   at ").skip(1).map(str::to_owned);
        frames.collect::<Vec<_>>()
    };
    // An expression, a declaration beside others, an arrow: each throws at the same column.
    let thrown = |before: &str| format!("{before}throw new Error('x'); }}");
    let column = |before: &str| before.len() + "throw new ".len();
    for (before, after, name) in [
        ("function one() { ", "", "one"),
        ("function two() { ", "\nfunction other() { }", "two"),
        ("() => { ", ";", "<anonymous>"),
    ] {
        let frames = places(&format!("{}{after}", thrown(before)));
        let place = frames[0].strip_prefix(&format!("{name} (test.js:1:")).unwrap();
        let found: usize = place.trim_end_matches(')').parse().unwrap();
        assert!((column(before)..column(before) + 8).contains(&found), "{frames:?}");
    }
    let body = "\u{feff}// note\n/* more */ async function wait() {\n  try {\n    await later();\n  } catch (e) { getContext().abort(e); }\n}\nasync function later() { undefined.x; }";
    let frames = places(body);
    assert!(frames[0].starts_with("later (test.js:7:"), "{frames:?}");
    // The library's own frames are not shown: an argument mistake points to the caller.
    let frames = places("function () {\n  __.createDocument(1);\n}");
    assert!(frames[0].contains("(test.js:2:") && frames.len() == 1, "{frames:?}");
    let error = engine().compile(ScriptKind::Procedure, "function () {\n  return 1 +;\n}");
    assert_eq!(error.unwrap_err().line, Some(2));
}

#[test]
fn errors_of_any_shape_are_shown() {
    let detail = |body: &str| {
        call(&engine(), &format!("function () {{ {body} }}")).result.unwrap_err().detail
    };
    assert!(detail("throw 'just text';").contains("Exception = just text\r\n"));
    assert!(detail("throw 42;").contains("Exception = 42"));
    assert!(detail("throw undefined;").contains("Exception = undefined"));
    assert!(detail("throw { code: 1 };").contains("Exception = {\"code\":1}"));
    assert!(detail("throw { message: 'm' };").contains("Exception = m"));
    assert!(detail("throw Symbol('x');").contains("Symbol"));
    assert!(detail("throw new TypeError('t');").contains("Exception = TypeError: t"));
    assert!(
        detail("class Mine extends Error { } var e = new Mine('own'); e.name = 'Mine'; throw e;")
            .contains("Exception = Mine: own")
    );
    assert!(detail("throw new Proxy({}, { get() { throw 1; } });").contains("cannot be shown"));
}

#[test]
fn two_argument_errors_behave_like_errors() {
    check(
        "class Mine extends Error { constructor() { super(7, 'm'); } }
         var e = new Error(404, 'gone'), f = Error(5, 'called'), g = new Error('plain', { cause: 1 }), h = new Mine();
         __.response.setBody([e.number, e.message, String(e), f.number, f instanceof Error, g.cause, g.number === undefined,
           h.number, h instanceof Mine, Object.getPrototypeOf(TypeError) === Error, Error.prototype.constructor === Error,
           new TypeError('x') instanceof Error, typeof e.stack, Object.keys(new Error('k')).length]);",
        json!([404, "gone", "Error: gone", 5, true, 1, true, 7, true, true, true, true, "string", 0]),
    );
}

#[test]
fn the_log_has_its_form_and_its_limit() {
    let log = |body: &str| call(&engine(), &format!("function () {{ {body} }}")).log.unwrap();
    assert_eq!(log("console.log('a'); console.log(1); console.log({});"), "a1[object Object]");
    assert_eq!(log("console.log('%s and %s%%, %d', 'x', 2, 3);"), "x and 2%, %d");
    assert_eq!(log("console.log('%s', ); "), "%s");
    check(
        "try { console.log('x'.repeat(70000)); } catch (e) { __.response.setBody(e.number); }",
        json!(413),
    );
    check(
        "try { for (;;) console.log('x'.repeat(1000)); } catch (e) { __.response.setBody(e.number); }",
        json!(413),
    );
}

#[test]
fn the_response_has_its_limit_also_when_it_grows_later() {
    check(
        "try { __.response.appendBody('x'); __.response.appendBody('y'.repeat(5 << 20)); } catch (e) { __.response.setBody(e.number); }",
        json!(413),
    );
    let late = "function () { var o = {}; __.response.setBody(o); o.text = 'x'.repeat(5 << 20); }";
    let error = call(&engine(), late).result.unwrap_err();
    assert_eq!(error.number(), Some(413));
}

#[test]
fn the_response_is_taken_at_the_end() {
    check("var o = { a: 1 }; __.response.setBody(o); o.a = 2;", json!({ "a": 2 }));
    check("__.response.setBody(undefined);", json!(""));
    check("__.response.setBody(null);", json!(null));
    check("__.response.setBody(__.request.getBody());", json!([]));
}

#[test]
fn bodies_with_several_functions_use_the_first() {
    let engine = engine();
    let outcome = call(
        &engine,
        "function main() { __.response.setBody(helper()); }\nfunction helper() { return 7; }",
    );
    assert_eq!(outcome.result.unwrap(), "7");
    let outcome = call(&engine, "(42)");
    assert!(outcome.result.unwrap_err().detail.contains("not a function"));
}

#[test]
fn after_the_accept_time_operations_are_refused_and_the_call_ends_well() {
    let limits = Limits { accept_time: Duration::from_millis(50), ..Limits::default() };
    let engine = ScriptEngine::new(limits).unwrap();
    let body = "function () { var n = 0; (function again() { n++; __.response.setBody(n);
       __.readDocument(__.getAltLink() + '/docs/d1', again); })(); }";
    let before = Instant::now();
    let outcome = call(&engine, body);
    assert!(outcome.result.unwrap().parse::<u64>().unwrap() > 1);
    assert!(outcome.operations > 1 && before.elapsed() < Duration::from_secs(20));
}

#[test]
fn ticks_are_the_same_for_the_same_work() {
    let engine = engine();
    let work = "function () { for (var i = 0; i < 300000; i++) { } }";
    let first = call(&engine, work).ticks;
    assert!(first > 10);
    for _ in 0..10 {
        engine.tidy();
        assert_eq!(call(&engine, work).ticks, first);
    }
    assert_eq!(call(&engine, "function () { }").ticks, 0);
}

#[test]
fn arguments_may_be_absent() {
    let engine = engine();
    let script = engine
        .compile(ScriptKind::Procedure, "function () { __.response.setBody(arguments.length); }")
        .unwrap();
    let mut transaction = Transaction::begin(&five_items(), Some(json!("a")));
    for (arguments, count) in
        [("", "0"), ("null", "0"), ("[]", "0"), ("[1,null]", "2"), ("\"one\"", "1")]
    {
        let outcome =
            engine.run_procedure(&script, arguments, &mut transaction, CallOptions::default());
        assert_eq!(outcome.result.as_deref(), Ok(count), "{arguments}");
    }
    let outcome = engine.run_procedure(&script, "[1,", &mut transaction, CallOptions::default());
    assert!(outcome.result.is_err());
}

#[test]
fn swallowed_rejections_are_reported_and_handled_ones_are_not() {
    let engine = engine();
    let lost = call(&engine, "function () { Promise.reject(new Error('lost')); }");
    assert_eq!((lost.result.is_ok(), lost.swallowed_rejection.as_deref()), (true, Some("lost")));
    let caught =
        call(&engine, "function () { var p = Promise.reject(1); p.catch(function () { }); }");
    assert_eq!(caught.swallowed_rejection, None);
}

#[test]
fn post_trigger_sees_quotas_and_delete_has_no_response() {
    let engine = engine();
    let script = engine
        .compile(ScriptKind::Trigger, "function () { var r = getContext().getResponse(); if (r.getResourceQuotaCurrentUsage().indexOf('collectionSize') < 0 || r.getMaxResourceQuota().indexOf('collectionSize') < 0) throw 'quota'; if (r.getBody() !== '') throw 'body'; }")
        .unwrap();
    let mut transaction = Transaction::begin(&five_items(), Some(json!("a")));
    let request =
        TriggerRequest { operation: TriggerOperation::Delete, body: r#"{"id":"d1","pk":"a"}"# };
    let outcome =
        engine.run_post_trigger(&script, request, "", &mut transaction, CallOptions::default());
    assert_eq!(outcome.result, Ok(None));
}

#[test]
fn pre_trigger_body_must_be_an_object() {
    let engine = engine();
    let run = |body: &str| {
        let script = engine.compile(ScriptKind::Trigger, body).unwrap();
        let mut transaction = Transaction::begin(&five_items(), Some(json!("a")));
        let request = TriggerRequest {
            operation: TriggerOperation::Create,
            body: r#"{"id":"x","pk":"a","n":1.0}"#,
        };
        engine.run_pre_trigger(&script, request, &mut transaction, CallOptions::default()).result
    };
    assert_eq!(
        run("function () { getContext().getRequest().setBody([1]); }").unwrap_err().number(),
        Some(400)
    );
    assert_eq!(
        run("function () { getContext().getRequest().setBody(null); }").unwrap_err().number(),
        Some(400)
    );
    assert_eq!(run("function () { getContext().getRequest().getBody().n = 2; }"), Ok(None));
    assert_eq!(
        run(
            "function () { var r = getContext().getRequest(); var d = r.getBody(); d.n = 2; r.setBody(d); }"
        ),
        Ok(Some(r#"{"id":"x","pk":"a","n":2}"#.to_owned()))
    );
    assert!(
        run("function () { __.filter(function () { return true; }); }")
            .unwrap_err()
            .detail
            .contains("callback is needed")
    );
}

#[test]
fn user_functions_take_and_give_every_json_value() {
    let engine = engine();
    let same = engine.compile(ScriptKind::Function, "x => x").unwrap();
    let odd = engine.compile(ScriptKind::Function, "function () { return [typeof getContext, typeof __, typeof console.log, arguments.length]; }").unwrap();
    let session =
        engine.udf_session(&[("same", &same), ("odd", &odd)], CallOptions::default()).unwrap();
    for value in
        ["null", "true", "-1.5e300", "\"tëxt \\ud83d\\ude00\"", "[1,[2]]", "{\"a\":{\"b\":[]}}"]
    {
        let found = session.call("same", &[Some(value)]).unwrap().unwrap();
        let (found, value): (Value, Value) =
            (serde_json::from_str(&found).unwrap(), serde_json::from_str(value).unwrap());
        assert_eq!(found, value);
    }
    assert_eq!(session.call("same", &[None]).unwrap(), None);
    assert_eq!(session.call("same", &[]).unwrap(), None);
    assert_eq!(
        session.call("odd", &[None, Some("1")]).unwrap().unwrap(),
        r#"["undefined","undefined","function",2]"#
    );
    assert!(session.call("ghost", &[]).unwrap_err().detail.contains("'ghost' does not exist"));
    assert_eq!(session.calls(), 9);
}

#[test]
fn a_user_function_error_names_the_function() {
    let engine = engine();
    let bad = engine
        .compile(ScriptKind::Function, "function f() {\n  throw new Error('bad');\n}")
        .unwrap();
    let session = engine.udf_session(&[("tax", &bad)], CallOptions::default()).unwrap();
    let error = session.call("tax", &[]).unwrap_err();
    assert!(error.detail.contains("at f (tax.js:2:"), "{error}");
    // A throw does not end the session.
    assert!(session.call("tax", &[]).unwrap_err().detail.contains("bad"));
}

#[test]
fn calls_on_many_threads_do_not_disturb_one_another() {
    let engine = engine();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let engine = &engine;
            scope.spawn(move || {
                let body = format!("function () {{ if (typeof mine !== 'undefined') throw 'leak'; mine = {thread}; for (var i = 0; i < 1000; i++) if (mine !== {thread}) throw 'mixed'; __.response.setBody(mine); }}");
                for _ in 0..50 {
                    assert_eq!(call(engine, &body).result.unwrap(), thread.to_string());
                    engine.tidy();
                }
            });
        }
    });
}

#[test]
fn a_session_may_be_used_while_a_procedure_runs() {
    // A query inside a procedure may call user functions on the same thread.
    struct Nested<'a> {
        engine: &'a ScriptEngine,
        inner: Transaction,
    }
    impl Host for Nested<'_> {
        fn collection(&self) -> CollectionLinks {
            self.inner.collection()
        }
        fn read_item(
            &mut self,
            link: &ItemLink,
            etag: Option<&str>,
        ) -> Result<ReadOutcome, HostError> {
            self.inner.read_item(link, etag)
        }
        fn read_items(&mut self, size: usize, from: Option<&str>) -> Result<Page, HostError> {
            self.inner.read_items(size, from)
        }
        fn query_items(&mut self, _: &str, _: usize, _: Option<&str>) -> Result<Page, HostError> {
            let twice = self.engine.compile(ScriptKind::Function, "x => x * 2").unwrap();
            let session =
                self.engine.udf_session(&[("twice", &twice)], CallOptions::default()).unwrap();
            let row = session.call("twice", &[Some("21")]).unwrap().unwrap();
            Ok(Page { rows: vec![row], continuation: None })
        }
        fn create_item(
            &mut self,
            body: &str,
            directive: Option<IndexDirective>,
        ) -> Result<String, HostError> {
            self.inner.create_item(body, directive)
        }
        fn upsert_item(
            &mut self,
            body: &str,
            etag: Option<&str>,
            directive: Option<IndexDirective>,
        ) -> Result<Upserted, HostError> {
            self.inner.upsert_item(body, etag, directive)
        }
        fn replace_item(
            &mut self,
            link: &ItemLink,
            body: &str,
            etag: Option<&str>,
            directive: Option<IndexDirective>,
        ) -> Result<String, HostError> {
            self.inner.replace_item(link, body, etag, directive)
        }
        fn delete_item(&mut self, link: &ItemLink, etag: Option<&str>) -> Result<(), HostError> {
            self.inner.delete_item(link, etag)
        }
        fn new_guid(&mut self) -> String {
            self.inner.new_guid()
        }
    }
    let engine = engine();
    let script = engine.compile(ScriptKind::Procedure, "function () { __.queryDocuments(__.getSelfLink(), 'SELECT', function (e, f) { __.response.setBody(f[0]); }); }").unwrap();
    let mut host =
        Nested { engine: &engine, inner: Transaction::begin(&five_items(), Some(json!("a"))) };
    let outcome = engine.run_procedure(&script, "[]", &mut host, CallOptions::default());
    assert_eq!(outcome.result.as_deref(), Ok("42"));
}
