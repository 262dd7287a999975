//! Procedures that run where they are asked for, because they have been quick.

use crate::bench::{Bench, value};
use armilla_engine::scripts::{self, Executed, Kind, Procedure};
use armilla_model::Error;
use armilla_script::Limits;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

const KEY: &str = r#"["p"]"#;
/// How long a procedure may take to be known as quick, on a busy machine too.
const WITHIN: Duration = Duration::from_secs(60);

/// Counts calls in an item; other arguments than 0 do what takes its time before or behind it.
const COUNT: &str = "function (what, text) {
    var c = getContext().getCollection(), link = c.getAltLink() + '/docs/n';
    c.readDocument(link, function (e, n) {
        if (e) throw e;
        n.calls += 1;
        c.replaceDocument(link, n, function (e) {
            if (e) throw e;
            if (what === 'throw') throw new Error(777, 'on purpose');
            if (what === 'loop') for (;;) { }
            if (what === 'memory') for (var all = []; all.length < 2000; ) all.push('x'.repeat(1000));
            if (what === 'large') c.createDocument(c.getSelfLink(), { id: 'l' + n.calls, pk: 'p', text: 'x'.repeat(10000) });
            if (what === 'query') c.queryDocuments(c.getSelfLink(), 'SELECT VALUE 1 FROM c', done);
            else if (what === 'feed') c.readDocuments(c.getSelfLink(), done);
            else done();
        });
        function done(e) { if (e) throw e; getContext().getResponse().setBody(n.calls); }
    });
}";

fn counting(limits: Limits) -> Bench {
    let bench = Bench::new(r#"{"id":"c","partitionKey":{"paths":["/pk"]}}"#, limits);
    bench.put(r#"{"id":"n","pk":"p","calls":1000}"#);
    bench.procedure("count", COUNT).unwrap();
    bench
}

/// Runs the procedure here if it may, else on a script's thread; says which.
fn execute(bench: &Bench, arguments: &str) -> (Executed, bool) {
    let script = bench.container.script(Kind::Procedure, "count").unwrap();
    let arguments = scripts::arguments(arguments.as_bytes()).unwrap();
    let (sender, receiver) = mpsc::sync_channel(1);
    let here = Arc::new(());
    let procedure = Procedure { script, arguments, logging: false, client: Arc::downgrade(&here) };
    let done = move |executed| sender.send(executed).unwrap();
    let left = bench.begin(KEY).execute_procedure_here(procedure, done);
    let was_here = left.is_ok();
    if let Err(left) = left {
        assert!(left.txn.is_clean(), "a call that is given back has written nothing");
        left.txn.execute_procedure(left.procedure, left.done);
    }
    (receiver.recv().unwrap(), was_here)
}

/// Calls it until it runs here; returns that call.
fn until_here(bench: &Bench) -> Executed {
    let started = Instant::now();
    loop {
        let (executed, was_here) = execute(bench, "[0]");
        if was_here {
            return executed;
        }
        assert!(started.elapsed() < WITHIN, "a quick procedure never ran here");
    }
}

fn calls(bench: &Bench) -> String {
    bench.item(KEY, "n").unwrap().get("calls").unwrap().to_json()
}

fn answer(executed: &Executed) -> String {
    value(&executed.result.as_ref().unwrap().0).to_json()
}

#[test]
fn a_quick_procedure_runs_here_with_the_same_effect_and_charge() {
    let bench = counting(Limits::default());
    let on_thread = bench.execute("count", KEY, "[0]");
    assert_eq!(answer(&on_thread), "1001");
    let script = bench.container.script(Kind::Procedure, "count").unwrap();
    assert!(!scripts::is_quick(&bench.container, &script), "once is not enough");
    let here = until_here(&bench);
    assert!(scripts::is_quick(&bench.container, &script));
    assert_eq!(here.charge, on_thread.charge);
    assert_eq!(answer(&here), calls(&bench));
    // Another body is another script.
    bench.procedure("count", &COUNT.replace("n.calls += 1", "n.calls += 2")).unwrap();
    let script = bench.container.script(Kind::Procedure, "count").unwrap();
    assert!(!scripts::is_quick(&bench.container, &script));
}

#[test]
fn what_takes_its_time_is_done_on_a_thread_as_if_it_had_never_begun_here() {
    for what in ["memory", "large", "query", "feed"] {
        let bench = counting(Limits::default());
        let arguments = format!("[{what:?}]");
        let before = bench.execute("count", KEY, &arguments);
        until_here(&bench);
        let seen: u32 = calls(&bench).parse().unwrap();
        let (executed, was_here) = execute(&bench, &arguments);
        assert!(!was_here, "{what}");
        assert_eq!(answer(&executed), (seen + 1).to_string(), "{what}: it counts once");
        assert_eq!(calls(&bench), (seen + 1).to_string(), "{what}");
        assert_eq!(executed.charge, before.charge, "{what}: it is paid for once");
        let (_, was_here) = execute(&bench, "[0]");
        assert!(!was_here, "{what}: it has to be quick again first");
    }
}

#[test]
fn arguments_that_are_large_are_not_for_this_thread() {
    let bench = counting(Limits::default());
    until_here(&bench);
    let (executed, was_here) = execute(&bench, &format!("[0,\"{}\"]", "x".repeat(20_000)));
    assert!(!was_here && executed.result.is_ok());
}

#[test]
fn a_procedure_that_fails_here_leaves_nothing_behind() {
    let bench = counting(Limits::default());
    until_here(&bench);
    let seen = calls(&bench);
    let (executed, _) = execute(&bench, r#"["throw"]"#);
    assert!(executed.result.is_err());
    assert_eq!(calls(&bench), seen);
}

#[test]
fn an_endless_procedure_does_not_hold_this_thread() {
    let bench = counting(Limits { time: Duration::from_millis(300), ..Limits::default() });
    until_here(&bench);
    let script = bench.container.script(Kind::Procedure, "count").unwrap();
    let client = Arc::new(());
    let (arguments, seen) = (r#"["loop"]"#.to_owned(), calls(&bench));
    let client = Arc::downgrade(&client);
    let procedure = Procedure { script, arguments, logging: false, client };
    let started = Instant::now();
    let left = bench.begin(KEY).execute_procedure_here(procedure, |_| ());
    assert!(left.is_err_and(|left| left.txn.is_clean()));
    // A busy machine may let it wait; the time of a script's thread is not used up here.
    assert!(started.elapsed() < Duration::from_millis(250), "{:?}", started.elapsed());
    let (executed, was_here) = execute(&bench, r#"["loop"]"#);
    assert!(!was_here && matches!(executed.result, Err(Error::Timeout(_))));
    assert_eq!(calls(&bench), seen);
    let (executed, _) = execute(&bench, "[0]");
    assert!(executed.result.is_ok(), "one stop does not block it");
}
