//! Rules of the language that the vectors do not show.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use armilla_model::Value;
use armilla_model::json::parse as parse_json;
use armilla_model::policy::ContainerPolicy;
use armilla_sql::reference::{Options, meets, run};
use armilla_sql::{Compiled, Schema, SqlError, compile, parse, parse_condition};

fn documents() -> Vec<Value> {
    [
        r#"{"id":"1","n":1,"tags":["a","b"],"kids":[{"age":5,"toys":["x"]},{"age":7}],"name":"Ann"}"#,
        r#"{"id":"2","n":2,"tags":[],"kids":[{"age":9,"toys":["y","z"]}],"name":"bob"}"#,
        r#"{"id":"3","m":true,"name":"Cid"}"#,
    ]
    .iter()
    .map(|text| parse_json(text.as_bytes()).unwrap())
    .collect()
}

fn container(extra: &str) -> Schema {
    let text = format!(
        r#"{{"id":"c","partitionKey":{{"paths":["/id"],"kind":"Hash","version":2}}{extra}}}"#
    );
    let policy = ContainerPolicy::parse(&parse_json(text.as_bytes()).unwrap()).unwrap();
    Schema::new(&policy).unwrap()
}

fn try_run(text: &str, schema: &Schema) -> Result<String, SqlError> {
    let rows = run(&parse(text)?, &[], documents().into_iter(), Options::new(schema))?;
    Ok(Value::array(rows).to_json())
}

fn rows(text: &str) -> String {
    try_run(text, &container("")).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn error(text: &str) -> String {
    match try_run(text, &container("")) {
        Ok(rows) => panic!("{text} gave {rows}"),
        Err(error) => error.to_json(),
    }
}

#[test]
fn conditions_are_tested_as_early_as_possible_and_mean_the_same() {
    let text = "SELECT c.id, k.age, t FROM c JOIN k IN c.kids JOIN t IN k.toys \
                WHERE c.n < 5 AND k.age > 5 AND t != 'y' AND true";
    assert_eq!(rows(text), r#"[{"id":"2","age":9,"t":"z"}]"#);
    let compiled = compile(&parse(text).unwrap(), &[], &Schema::none()).unwrap();
    assert!(compiled.checks.iter().all(Option::is_some), "{:?}", compiled.checks);
    let text = "SELECT VALUE c.id FROM c JOIN k IN c.kids WHERE NOT (c.n = 1 AND k.age = 5)";
    assert_eq!(rows(text), r#"["1","2"]"#);
}

#[test]
fn sub_queries_over_the_container_run_over_all_of_it() {
    assert_eq!(rows("SELECT VALUE x + 1 FROM (SELECT VALUE MAX(c.n) FROM c) x"), "[3]");
    assert_eq!(
        rows("SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE IS_DEFINED(c.n) FROM c)"),
        "[2]"
    );
    assert_eq!(rows("SELECT VALUE t FROM t IN (SELECT VALUE c.tags FROM c)"), r#"["a","b"]"#);
    assert_eq!(
        rows("SELECT VALUE x.n FROM (SELECT c.n, COUNT(1) AS many FROM c GROUP BY c.n) x"),
        "[1,2]"
    );
    assert!(error("SELECT VALUE x FROM (SELECT TOP 2 VALUE c.id FROM c) x").contains("SC2203"));
}

#[test]
fn quantified_sub_queries() {
    let all = "SELECT VALUE c.id FROM c WHERE ALL(SELECT VALUE k FROM k IN c.kids WHERE k.age > 5)";
    assert_eq!(rows(all), r#"["2","3"]"#);
    let first = "SELECT VALUE FIRST(SELECT VALUE k.age FROM k IN c.kids) FROM c";
    assert_eq!(rows(first), "[5,9]");
    let last = "SELECT VALUE LAST(SELECT VALUE k.age FROM k IN c.kids) FROM c";
    assert_eq!(rows(last), "[7,9]");
}

#[test]
fn groups_see_outer_names_and_constants() {
    let text = "SELECT VALUE ARRAY(SELECT k.age > 6 AS old, COUNT(1) AS n, c.id AS who FROM k IN c.kids \
                GROUP BY k.age > 6) FROM c WHERE c.n = 1";
    assert_eq!(rows(text), r#"[[{"old":false,"n":1,"who":"1"},{"old":true,"n":1,"who":"1"}]]"#);
    assert!(error("SELECT c.id, COUNT(1) FROM c").contains("SC2102"));
    assert!(error("SELECT c.n, c.id, c.name FROM c GROUP BY c.n").matches("SC2102").count() == 2);
    let sum = "SELECT VALUE SUM((SELECT VALUE MAX(k.age) FROM k IN c.kids)) FROM c";
    assert_eq!(rows(sum), "[16]");
    assert!(error("SELECT VALUE SUM(SUM(c.n)) FROM c").contains("SC2101"));
    assert!(error("SELECT * FROM c WHERE COUNT(1) > 1").contains("SC2104"));
    assert_eq!(
        rows("SELECT c.n, COUNT(1) AS many FROM c GROUP BY c.n ORDER BY c.n DESC"),
        r#"[{"n":2,"many":1},{"n":1,"many":1},{"many":1}]"#
    );
    assert_eq!(
        rows("SELECT VALUE k.age FROM c JOIN k IN c.kids GROUP BY k ORDER BY k.age DESC"),
        "[9,7,5]"
    );
    assert!(error("SELECT c.n FROM c GROUP BY c.n ORDER BY c.id").contains("SC2103"));
    assert_eq!(rows("SELECT c.n, COUNT(1) FROM c WHERE false GROUP BY c.n"), "[]");
}

#[test]
fn names_are_checked_before_any_row() {
    assert!(
        error("SELECT VALUE x FROM c WHERE false")
            .contains("Identifier 'x' could not be resolved.")
    );
    assert!(error("SELECT VALUE 1 FROM c JOIN c IN c.tags").contains("more than once"));
    assert!(error("SELECT c.n, c.id AS n FROM c").contains("more than once"));
    assert!(error("SELECT VALUE @x FROM c").contains("@x"));
    assert!(
        error("SELECT VALUE 1 FROM c WHERE EXISTS(SELECT 1 FROM t IN other.tags)")
            .contains("SC2001")
    );
    let both = error("SELECT VALUE x + y FROM c");
    assert!(both.contains("'x'") && both.contains("'y'"), "{both}");
}

#[test]
fn orders_need_their_indexes() {
    assert!(error("SELECT * FROM c ORDER BY c.n, c.id").contains("composite index"));
    assert!(error("SELECT * FROM c ORDER BY LOWER(c.name)").contains(":2206,"));
    assert_eq!(rows("SELECT VALUE c.id FROM c ORDER BY c.n DESC"), r#"["2","1","3"]"#);
    let named = container(r#","indexingPolicy":{"includedPaths":[{"path":"/*"},{"path":"/n/?"}]}"#);
    assert_eq!(
        try_run("SELECT VALUE c.id FROM c ORDER BY c.n", &named).unwrap(),
        r#"["3","1","2"]"#
    );
    let without = container(r#","indexingPolicy":{"excludedPaths":[{"path":"/n/?"}]}"#);
    let refused = try_run("SELECT * FROM c ORDER BY c.n", &without).unwrap_err().to_json();
    assert!(refused.contains("order-by item is excluded"), "{refused}");
}

#[test]
fn computed_properties_are_read_by_name_only() {
    let schema = container(
        r#","computedProperties":[{"name":"lower","query":"SELECT VALUE LOWER(r.name) FROM r"}]"#,
    );
    let read = |text| try_run(text, &schema).unwrap();
    assert_eq!(
        read("SELECT c.id, c.lower FROM c WHERE c.lower = 'ann'"),
        r#"[{"id":"1","lower":"ann"}]"#
    );
    assert_eq!(read("SELECT VALUE c.id FROM c ORDER BY c.lower DESC"), r#"["3","2","1"]"#);
    assert!(!read("SELECT * FROM c").contains("lower"));
    assert_eq!(
        read("SELECT VALUE c.id FROM c JOIN t IN c.tags WHERE c.lower = 'ann' AND t = 'b'"),
        r#"["1"]"#
    );
}

#[test]
fn computed_properties_are_checked_when_they_are_defined() {
    for query in [
        "SELECT VALUE x.name FROM c",
        "SELECT c.name FROM c",
        "SELECT VALUE COUNT(1) FROM c",
        "SELECT VALUE c.name FROM c WHERE c.n = 1",
        "SELECT VALUE t FROM t IN c.tags",
        "SELECT VALUE",
    ] {
        let text = format!(
            r#"{{"id":"c","partitionKey":{{"paths":["/id"],"kind":"Hash","version":2}},
                "computedProperties":[{{"name":"p","query":"{query}"}}]}}"#
        );
        let policy = ContainerPolicy::parse(&parse_json(text.as_bytes()).unwrap());
        assert!(policy.is_err() || Schema::new(&policy.unwrap()).is_err(), "{query} was accepted");
    }
}

#[test]
fn conditions_of_patches_are_met_or_not() {
    let schema = Schema::none();
    let document = &documents()[0];
    let meets = |text: &str| {
        meets(&parse_condition(text).unwrap(), document, Options::new(&schema)).unwrap()
    };
    assert!(meets("from c where c.n = 1"));
    assert!(!meets("FROM c WHERE c.n > 1"));
    assert!(!meets("FROM c WHERE c.missing = 1"));
}

#[test]
fn values_that_grow_without_end_are_refused() {
    let mut text = "SELECT VALUE [1, 2, 3]".to_owned();
    for _ in 0..10 {
        let copies = ["x"; 200].join(",");
        text = format!("SELECT VALUE [{copies}] FROM ({text}) x");
    }
    assert!(error(&text).contains("larger than it may be"));
    let copies = ["c"; 220_000].join(",");
    assert!(try_run(&format!("SELECT VALUE [{copies}] = 1 FROM c"), &Schema::none()).is_err());
}

#[test]
fn queries_can_be_stopped() {
    let long = format!("{{\"a\":[{}]}}", ["1"; 2000].join(","));
    let long = parse_json(long.as_bytes()).unwrap();
    let text =
        "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a JOIN y IN c.a JOIN z IN c.a JOIN w IN z.none";
    let compiled = compile(&parse(text).unwrap(), &[], &Schema::none()).unwrap();
    let schema = Schema::none();
    let result = armilla_sql::reference::with_runtime(Options::new(&schema), |runtime| {
        let asked = std::cell::Cell::new(0);
        let interrupted = || asked.replace(asked.get() + 1) > 10;
        let functions = armilla_sql::functions::Context {
            now_ticks: &|| 0,
            now_static_ticks: 0,
            random: &mut || 0.5,
            geometry: false,
            vectors: &[],
            effort: armilla_sql::effort::Effort::default().interrupted_by(&interrupted),
        };
        let mut limited = armilla_sql::eval::Runtime::new(functions);
        let _unused = runtime;
        armilla_sql::eval::matches_item(&compiled, &long, &mut limited)
    });
    assert_eq!(result, Err(SqlError::Interrupted));
}

#[test]
fn compiled_queries_may_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Compiled>();
    shared::<Schema>();
    shared::<armilla_sql::ast::Query>();
    shared::<armilla_sql::access::Node>();
}

#[test]
fn operators_bind_as_the_service_binds_them() {
    for (text, expected) in [
        ("6 & 4 = 4", "true"),
        ("[5 & 3 + 1, 1 << 2 | 1]", "[2,8]"),
        ("'ab' = 'a' || 'b'", "true"),
        ("1 < 2 = true", "true"),
        ("undefined ?? undefined ?? 3", "3"),
    ] {
        assert_eq!(rows(&format!("SELECT VALUE {text}")), format!("[{expected}]"), "{text}");
    }
}

#[test]
fn a_chain_of_thousands_of_operators_is_evaluated() {
    let sum = format!("SELECT VALUE c.n{} FROM c", " + 1".repeat(20_000));
    assert_eq!(rows(&sum), "[20001,20002]");
    let text = format!("SELECT VALUE LENGTH(c.name{}) FROM c", " || c.name".repeat(9_999));
    assert_eq!(rows(&text), "[30000,30000,30000]");
}
