//! What scripts may not do to the server: outlast their time in a query, show what is not durable,
//! fill its memory by their number.

use crate::bench::Bench;
use crate::support::create_container;
use armilla_engine::account::NewScript;
use armilla_engine::scripts::{Kind, TriggeredVerb};
use armilla_engine::{Account, Options};
use armilla_model::Error;
use armilla_script::Limits;
use armilla_storage::{Batch, Durability, MemoryStore, Snapshot, Store, StoreError, StoreStats};
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

const KEY: &str = r#"["p"]"#;
const DEFINITION: &str = r#"{"id":"c","partitionKey":{"paths":["/pk"]}}"#;

fn short() -> Limits {
    Limits {
        time: Duration::from_millis(200),
        accept_time: Duration::from_millis(200),
        stops_before_block: 3,
        ..Limits::default()
    }
}

#[test]
fn a_query_inside_a_script_ends_with_the_script() {
    let bench = Bench::new(DEFINITION, short());
    let list = format!("[{}]", vec!["1"; 1000].join(","));
    bench.put(&format!(r#"{{"id":"a","pk":"p","list":{list}}}"#));
    // A thousand million rows.
    let body = "function () { __.queryDocuments(__.getSelfLink(), \
        'SELECT VALUE COUNT(1) FROM c JOIN x IN c.list JOIN y IN c.list JOIN z IN c.list', \
        function (e, rows) { __.createDocument(__.getSelfLink(), {id: 'b', pk: 'p'}); }); }";
    let error = bench.run(KEY, body).unwrap_err();
    assert!(matches!(error, Error::Timeout(_)), "{error:?}");
    assert_eq!(bench.items().len(), 1);
}

#[test]
fn a_user_function_out_of_time_is_told_from_one_that_throws() {
    let bench = Bench::new(DEFINITION, short());
    bench.put(r#"{"id":"a","pk":"p"}"#);
    let function = |name, body| {
        bench.register(&NewScript { kind: Kind::Function, name, body, trigger: None }).unwrap();
    };
    function("endless", "function () { for (;;) { } }");
    function("boom", "function () {\n  throw new Error('boom'); }");
    let ask = |text: &str| bench.query(text).unwrap_err();
    for _ in 0..3 {
        let error = ask("SELECT VALUE udf.endless() FROM c");
        assert!(matches!(error, Error::Timeout(_)), "{error:?}");
    }
    let error = ask("SELECT VALUE udf.endless() FROM c ORDER BY c.id");
    assert!(matches!(error, Error::Forbidden(_)), "{error:?}");
    let error = ask("SELECT VALUE udf.boom() FROM c");
    assert!(matches!(error, Error::QuerySyntax(_)), "{error:?}");
    assert!(error.message().contains("(boom.js:2:"), "{error}");
    function("endless", "function () { return 1; }");
    assert_eq!(bench.query("SELECT VALUE udf.endless() FROM c").unwrap()[0].to_json(), "1");
}

#[test]
fn a_user_function_that_returns_shared_structure_ends_with_its_time() {
    let bench = Bench::new(DEFINITION, short());
    bench.put(r#"{"id":"a","pk":"p"}"#);
    let body = "function () { var a = []; for (var i = 0; i < 40; i++) a = [a, a]; return a; }";
    let new = NewScript { kind: Kind::Function, name: "tree", body, trigger: None };
    bench.register(&new).unwrap();
    let error = bench.query("SELECT VALUE udf.tree() FROM c").unwrap_err();
    assert!(matches!(error, Error::Timeout(_)), "{error:?}");
}

#[test]
fn conflicts_come_when_a_test_asks_for_them() {
    let bench = Bench::new(DEFINITION, Limits { conflict_percent: 100, ..Limits::default() });
    let body = "function () { __.createDocument(__.getSelfLink(), {id: 'b', pk: 'p'}); }";
    assert_eq!(bench.run(KEY, body).unwrap_err(), Error::WriteConflict);
    assert!(bench.items().is_empty());
}

/// A store whose commits wait while the gate is held.
struct Gated {
    store: MemoryStore,
    gate: Arc<Mutex<()>>,
    /// Commits that came so far, held or not.
    arrived: Arc<AtomicUsize>,
}

impl Store for Gated {
    fn snapshot(&self) -> Arc<dyn Snapshot> {
        self.store.snapshot()
    }
    fn commit(&self, batch: Batch, durability: Durability) -> Result<(), StoreError> {
        self.arrived.fetch_add(1, Ordering::SeqCst);
        let _open = self.gate.lock();
        self.store.commit(batch, durability)
    }
    fn close(&self) -> Result<(), StoreError> {
        self.store.close()
    }
    fn stats(&self) -> StoreStats {
        self.store.stats()
    }
}

#[test]
fn a_script_is_seen_when_it_is_durable_and_not_before() {
    let gate = Arc::new(Mutex::new(()));
    let arrived = Arc::new(AtomicUsize::new(0));
    let (gate_of_store, store) = (gate.clone(), MemoryStore::new());
    let store = Arc::new(Gated { store, gate: gate_of_store, arrived: arrived.clone() });
    let account =
        Account::open(store, Options { background: false, ..Options::default() }).unwrap();
    account.create_database("d", None).unwrap();
    let container = create_container(&account, DEFINITION);
    let script = |body| NewScript { kind: Kind::Procedure, name: "p", body, trigger: None };
    let body = || container.script(Kind::Procedure, "p").map(|script| script.body.to_string());
    for (round, change) in ["create", "replace", "delete"].into_iter().enumerate() {
        let before = body();
        let (closed, commits) = (gate.lock(), arrived.load(Ordering::SeqCst));
        thread::scope(|scope| {
            let changing = scope.spawn(|| match round {
                0 => drop(account.create_script(&container, &script("() => 1"), false).unwrap()),
                1 => {
                    drop(account.replace_script(&container, "p", &script("() => 2"), None).unwrap())
                }
                _ => account.delete_script(&container, Kind::Procedure, "p", None).unwrap(),
            });
            // The change has come as far as the store, where it is held.
            while arrived.load(Ordering::SeqCst) == commits {
                thread::yield_now();
            }
            assert!(!changing.is_finished(), "{change} waits for the store");
            assert_eq!(body(), before, "{change}");
            drop(closed);
        });
        assert_ne!(body(), before, "{change}");
    }
}

/// Ten thousand procedures: a hundred containers with as many as each may have.
#[test]
fn ten_thousand_procedures_are_created_listed_and_run_in_bounded_memory() {
    const CONTAINERS: usize = 100;
    const EACH: usize = armilla_model::limits::PROCEDURES_MAX;
    /// Their texts take 20 MB, which the catalog keeps; compiled ones are kept up to 64 MB.
    const GROWTH_MAX: usize = 400 << 20;
    let first = Bench::new(DEFINITION, Limits::default());
    let before = resident_bytes();
    let filler = "x".repeat(2000);
    let mut benches = Vec::new();
    for number in 0..CONTAINERS {
        let definition = DEFINITION.replace("\"c\"", &format!("\"c{number}\""));
        let container = create_container(&first.account, &definition);
        for procedure in 0..EACH {
            let (name, body) = (
                format!("p{procedure}"),
                format!("function () {{ /* {filler} */ __.response.setBody({procedure}); }}"),
            );
            let new = NewScript { kind: Kind::Procedure, name: &name, body: &body, trigger: None };
            first.account.create_script(&container, &new, false).unwrap();
        }
        benches.push(first.beside(container));
    }
    let one_more =
        NewScript { kind: Kind::Procedure, name: "more", body: "() => 1", trigger: None };
    for bench in &benches {
        assert_eq!(bench.container.scripts().procedures.len(), EACH);
        assert!(matches!(bench.register(&one_more), Err(Error::Forbidden(_))));
        for procedure in 0..EACH {
            let executed = bench.execute(&format!("p{procedure}"), KEY, "");
            assert_eq!(executed.result.unwrap().0, procedure.to_string());
        }
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < GROWTH_MAX, "{} MB more are in use", grown >> 20);
}

/// Memory of this process, where the system tells; other tests of this file are small beside it.
fn resident_bytes() -> usize {
    const PAGE: usize = 4096;
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * PAGE
}

/// A script that is inside one built-in function for long: no interrupt reaches it there.
const STUCK: &str = "var s = 'a'.repeat(6e7), t = 'a'.repeat(63) + 'b'; for (;;) s.indexOf(t);";

/// Limits with which a text can be so long that one search in it takes much longer than a call may, and
/// calls long enough to make it on a busy machine.
fn narrow() -> Limits {
    Limits {
        time: Duration::from_millis(400),
        late_max: Duration::ZERO,
        memory_bytes_max: 256 << 20,
        ..Limits::default()
    }
}

/// Calls a script that gets stuck until it is blocked. On a busy machine a call may be stopped in time, before
/// it gets stuck; then a later one does. Tells how many calls were stopped or given up.
fn await_blocked(mut call: impl FnMut() -> Error) -> u64 {
    const TRIES_MAX: u64 = 20;
    for late in 0..TRIES_MAX {
        match call() {
            Error::Timeout(_) => {}
            Error::Forbidden(_) => return late,
            error => panic!("{error:?}"),
        }
    }
    panic!("the script is not blocked");
}

/// Threads are counted when their callers have been answered: at least one for each of the `count` scripts, and on a busy machine, where
/// a second call may get stuck before the first has blocked its script, at most one for each call that was `late` besides.
fn await_given_up(bench: &Bench, count: u64, late: u64) {
    let started = std::time::Instant::now();
    while bench.account.scripts_given_up() < count {
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "{}",
            bench.account.scripts_given_up()
        );
        thread::yield_now();
    }
    assert!(bench.account.scripts_given_up() <= count + late);
}

#[test]
fn a_script_that_does_not_come_back_is_given_up_and_its_writes_are_never_seen() {
    let bench = Bench::new(DEFINITION, narrow());
    bench.put(r#"{"id":"a","pk":"p","n":1}"#);
    let body = |number: usize| {
        format!(
            "function () {{ /* {number} */
               __.createDocument(__.getSelfLink(), {{id: 'stuck', pk: 'p'}}, function () {{ {STUCK} }});
             }}"
        )
    };
    // One after the other, more of them than a small machine has threads: each is answered, gives its
    // lock back, and is blocked from then on.
    let mut late = 0;
    for number in 0..3 {
        let name = format!("stuck{number}");
        bench.procedure(&name, &body(number)).unwrap();
        let started = std::time::Instant::now();
        let error = bench.execute(&name, KEY, "").result.unwrap_err();
        assert!(matches!(error, Error::Timeout(_)), "{error:?}");
        assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
        bench.put(r#"{"id":"a","pk":"p","n":2}"#);
        late += await_blocked(|| bench.execute(&name, KEY, "").result.unwrap_err());
    }
    await_given_up(&bench, 3, late);
    // Others run, and what the late ones wrote is nowhere.
    bench
        .run(KEY, "function () { __.createDocument(__.getSelfLink(), {id: 'b', pk: 'p'}); }")
        .unwrap();
    assert_eq!(bench.items().len(), 2);
}

#[test]
fn triggers_that_do_not_come_back_are_given_up_with_their_write() {
    let bench = Bench::new(DEFINITION, narrow());
    // A script whose calls were all stopped in time is blocked too, and has no thread that could be given up: then another one is tried.
    const SCRIPTS_MAX: u64 = 10;
    let (mut late, mut number) = (0, 0);
    while number < SCRIPTS_MAX && bench.account.scripts_given_up() == 0 {
        let name = format!("stuck{number}");
        bench.trigger(&name, false, "All", &format!("function () {{ {STUCK} /* {number} */ }}"));
        let write = || {
            let verb = TriggeredVerb::Create(Bytes::from_static(br#"{"id":"a","pk":"p"}"#));
            bench.write(KEY, verb, &[], &[&name]).unwrap().result.unwrap_err()
        };
        let error = write();
        assert!(matches!(error, Error::Timeout(_)), "{error:?}");
        late += 1 + await_blocked(write);
        number += 1;
    }
    await_given_up(&bench, 1, late);
    bench.put(r#"{"id":"b","pk":"p"}"#);
    assert_eq!(bench.items().len(), 1);
}

#[test]
fn a_user_function_that_does_not_come_back_loses_no_query_thread() {
    let bench = Bench::new(DEFINITION, narrow());
    bench.put(r#"{"id":"a","pk":"p","n":1}"#);
    let mut late = 0;
    for number in 0..3 {
        let (name, body) =
            (format!("stuck{number}"), format!("function () {{ {STUCK} /* {number} */ }}"));
        let new = NewScript { kind: Kind::Function, name: &name, body: &body, trigger: None };
        bench.register(&new).unwrap();
        let started = std::time::Instant::now();
        let error = bench.query(&format!("SELECT VALUE udf.{name}() FROM c")).unwrap_err();
        assert!(matches!(error, Error::Timeout(_)), "{error:?}");
        assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
        late += await_blocked(|| {
            bench.query(&format!("SELECT VALUE udf.{name}() FROM c")).unwrap_err()
        });
    }
    await_given_up(&bench, 3, late);
    // Others are called meanwhile.
    let body = "function (n) { return n + 1; }";
    let new = NewScript { kind: Kind::Function, name: "next", body, trigger: None };
    bench.register(&new).unwrap();
    assert_eq!(bench.query("SELECT VALUE udf.next(c.n) FROM c").unwrap().len(), 1);
}
