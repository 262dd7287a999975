//! What the analysis of conditions promises, against documents.
//!
//! A small stand-in for the index extracts the terms of a document as the engine's index does:
//! scalars at their paths, elements below `[]`, a marker for every array and object. Then for random
//! conditions: a document that meets the condition is in the set of the tree; and where the tree is
//! exact, no other document is.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use armilla_model::Value;
use armilla_model::json::parse as parse_json;
use armilla_model::policy::ContainerPolicy;
use armilla_model::value::Type;
use armilla_sql::access::{
    Atom, IndexUsage, Node, PathStep, Spatial, Test, analyse, index_usage, order_paths,
    referenced_paths,
};
use armilla_sql::eval::matches_item;
use armilla_sql::reference::{Options, run_compiled, with_runtime};
use armilla_sql::{Schema, compile, parse};
use proptest::prelude::*;
use std::ops::{Bound, RangeBounds};

/// A scalar, or only the type of an array or object.
#[derive(Clone, Debug)]
enum Term {
    Scalar(Value),
    Marker(Type),
}

fn terms(value: &Value, path: &mut Vec<PathStep>, out: &mut Vec<(Vec<PathStep>, Term)>) {
    match value {
        Value::Undefined => {}
        Value::Array(elements) => {
            out.push((path.clone(), Term::Marker(Type::Array)));
            path.push(PathStep::Element);
            elements.iter().for_each(|element| terms(element, path, out));
            path.pop();
        }
        Value::Object(object) => {
            out.push((path.clone(), Term::Marker(Type::Object)));
            for (name, value) in object.iter() {
                path.push(PathStep::Name(name.clone()));
                terms(value, path, out);
                path.pop();
            }
        }
        scalar => out.push((path.clone(), Term::Scalar(scalar.clone()))),
    }
}

/// True when the index would hand the document out.
fn holds(node: &Node, document: &Value) -> bool {
    match node {
        Node::All | Node::Unknown => true,
        Node::Nothing => false,
        Node::And(parts) => parts.iter().all(|part| holds(part, document)),
        Node::Or(parts) => parts.iter().any(|part| holds(part, document)),
        Node::Atom(atom) => atom_holds(atom, document),
    }
}

fn atom_holds(atom: &Atom, document: &Value) -> bool {
    let mut all = Vec::new();
    terms(document, &mut Vec::new(), &mut all);
    let at_path: Vec<_> =
        all.into_iter().filter(|(path, _)| *path == atom.path).map(|(_, term)| term).collect();
    let kind = |term: &Term| match term {
        Term::Scalar(value) => value.kind(),
        Term::Marker(kind) => *kind,
    };
    let scalar = |term: &Term, test: &dyn Fn(&Value) -> bool| match term {
        Term::Scalar(value) => test(value),
        Term::Marker(_) => false,
    };
    let any = |test: &dyn Fn(&Term) -> bool| at_path.iter().any(test);
    match &atom.test {
        Test::Equal(wanted) => any(&|term| scalar(term, &|value| value == wanted)),
        Test::NotEqual(other) => any(&|term| !scalar(term, &|value| value == other)),
        Test::In(set) => any(&|term| scalar(term, &|value| set.contains(value))),
        Test::NotIn(set) => any(&|term| !scalar(term, &|value| set.contains(value))),
        Test::Range { kind, low, high } => {
            any(&|term| scalar(term, &|value| value.kind() == *kind && inside(value, low, high)))
        }
        Test::StartsWith(prefix) => any(&|term| {
            scalar(term, &|value| value.as_str().is_some_and(|text| text.starts_with(&**prefix)))
        }),
        Test::Defined => any(&|_| true),
        Test::NotDefined => at_path.is_empty(),
        Test::Type(types) => any(&|term| types.contains(&kind(term))),
        Test::NotType(types) => !any(&|term| types.contains(&kind(term))),
        Test::Predicate(predicate) => any(&|term| match term {
            Term::Scalar(value) => predicate.holds(value, &mut { u64::MAX }) == Some(true),
            Term::Marker(_) => predicate.non_scalars,
        }),
        Test::Spatial(_) => true,
    }
}

fn inside(value: &Value, low: &Bound<Value>, high: &Bound<Value>) -> bool {
    // Only to compare with the standard library's idea of bounds.
    struct Ordered<'v>(&'v Value);
    impl PartialEq for Ordered<'_> {
        fn eq(&self, other: &Self) -> bool {
            self.0.order(other.0).is_eq()
        }
    }
    impl PartialOrd for Ordered<'_> {
        fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
            Some(self.0.order(other.0))
        }
    }
    let bounds = (low.as_ref().map(Ordered), high.as_ref().map(Ordered));
    bounds.contains(&Ordered(value))
}

fn check(text: &str, documents: &[Value]) {
    let schema = Schema::none();
    let compiled = compile(&parse(text).unwrap(), &[], &schema)
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    let node = analyse(&compiled);
    with_runtime(Options::new(&schema), |runtime| {
        for document in documents {
            let matches = matches_item(&compiled, document, runtime).unwrap();
            let found = holds(&node, document);
            assert!(found || !matches, "{text} misses {document}: {node:?}");
            assert!(
                !node.is_exact() || found == matches,
                "{text} is not exact for {document}: {node:?}"
            );
        }
    });
}

fn documents() -> Vec<Value> {
    let values = [
        "null",
        "true",
        "false",
        "0",
        "1",
        "2",
        "-3.5",
        r#""""#,
        r#""a""#,
        r#""ab""#,
        r#""Abc""#,
        "[]",
        "[1]",
        "[1,2]",
        r#"["a",1]"#,
        "[[1]]",
        "{}",
        r#"{"k":1}"#,
        r#"{"k":2,"l":"a"}"#,
        r#"[{"k":1}]"#,
        r#"[{"k":1},{"k":2,"l":"a"}]"#,
        r#"[{"l":1}]"#,
        r#"{"k":[1,2]}"#,
        r#"{"k":{"l":1}}"#,
    ];
    let mut texts: Vec<String> = vec!["{}".to_owned()];
    for (position, value) in values.iter().enumerate() {
        texts.push(format!(r#"{{"v":{value}}}"#));
        let other = values[(position * 7 + 3) % values.len()];
        texts.push(format!(r#"{{"v":{value},"w":{other}}}"#));
    }
    texts.iter().map(|text| parse_json(text.as_bytes()).unwrap()).collect()
}

#[test]
fn known_conditions() {
    let documents = documents();
    for condition in [
        "c.v = 1",
        "1 = c.v",
        "c.v != 1",
        "NOT (c.v = 1)",
        "c.v > 0",
        "0 > c.v",
        "NOT (c.v > 0)",
        "c.v BETWEEN 0 AND 1",
        "c.v NOT BETWEEN 0 AND 1",
        "c.v BETWEEN 0 AND 'a'",
        "c.v NOT BETWEEN 0 AND 'a'",
        "c.v IN (1, 'a', null)",
        "c.v NOT IN (1, 'a', null)",
        "c.v IN ([1], {k: 1}, 2)",
        "c.v NOT IN ([1], 2)",
        "c.v",
        "NOT c.v",
        "c.v = true",
        "c.v <= true",
        "c.v >= null",
        "c.v > null",
        "c.v < [1]",
        "c.v = [1]",
        "c.v = {k: 1}",
        "c.v != {k: 1}",
        "c.v = []",
        "c.v = {}",
        "c.v = undefined",
        "NOT (c.v = undefined)",
        "c.v LIKE 'a%'",
        "c.v NOT LIKE 'a%'",
        "c.v LIKE 'ab'",
        "c.v NOT LIKE 'ab'",
        "c.v LIKE '%b%'",
        "STARTSWITH(c.v, 'a')",
        "NOT STARTSWITH(c.v, 'a')",
        "STARTSWITH(c.v, 'a', true)",
        "STRINGEQUALS(c.v, 'ab')",
        "CONTAINS(c.v, 'b')",
        "NOT CONTAINS(c.v, 'b')",
        "IS_DEFINED(c.v)",
        "NOT IS_DEFINED(c.v)",
        "IS_DEFINED(c.v) = false",
        "IS_DEFINED(c.v) != true",
        "IS_NUMBER(c.v)",
        "NOT IS_NUMBER(c.v)",
        "IS_ARRAY(c.v) OR IS_OBJECT(c.v)",
        "IS_PRIMITIVE(c.v)",
        "NOT IS_NULL(c.v)",
        "IS_INTEGER(c.v)",
        "NOT IS_INTEGER(c.v)",
        "UPPER(c.v) = 'AB'",
        "ABS(c.v) > 1",
        "c.v % 2 = 0",
        "(c.v ?? 1) = 1",
        "-c.v < 0",
        "c.v || 'x' = 'ax'",
        "LENGTH(c.v) = 1",
        "TOSTRING(c.v) = '1'",
        "ARRAY_LENGTH(c.v) = 1",
        "c.v.k = 1",
        "c.v.k != 1",
        "c.v.k.l = 1",
        "NOT IS_DEFINED(c.v.k)",
        "c.v[0] = 1",
        "c.v[0] != 1",
        "c.v[1].k = 2",
        "NOT IS_DEFINED(c.v[0])",
        "ARRAY_CONTAINS(c.v, 1)",
        "NOT ARRAY_CONTAINS(c.v, 1)",
        "ARRAY_CONTAINS(c.v, [1])",
        "ARRAY_CONTAINS(c.v, {k: 1}, true)",
        "ARRAY_CONTAINS(c.v, {k: 1})",
        "ARRAY_CONTAINS([1, 'a'], c.v)",
        "NOT ARRAY_CONTAINS([1, 'a'], c.v)",
        "ARRAY_CONTAINS_ANY(c.v, 1, 'a')",
        "ARRAY_CONTAINS_ALL(c.v, 1, 2)",
        "EXISTS(SELECT VALUE t FROM t IN c.v WHERE t = 1)",
        "EXISTS(SELECT VALUE t FROM t IN c.v)",
        "EXISTS(SELECT VALUE t.k FROM t IN c.v)",
        "EXISTS(SELECT VALUE t FROM t IN c.v WHERE t.k = 1)",
        "EXISTS(SELECT VALUE t FROM t IN c.v WHERE t.k = 2 AND t.l = 'a')",
        "EXISTS(SELECT 1 FROM t IN c.v WHERE t.k > 1 OR t.l = 1)",
        "NOT EXISTS(SELECT 1 FROM t IN c.v)",
        "EXISTS(SELECT 1 FROM t IN c.v WHERE NOT IS_DEFINED(t.k))",
        "EXISTS(SELECT 1 FROM t IN c.v WHERE c.w = 1)",
        "EXISTS(SELECT 1 FROM t IN c.v WHERE t = c.w)",
        "EXISTS(SELECT 1 FROM t IN c.v.k WHERE t = 2)",
        "c.v = c.w",
        "c.v > 0 AND c.v < 2",
        "c.v > 0 AND c.v < 0",
        "c.v > 0 AND c.v < 'a'",
        "c.v >= 1 AND c.v <= 1",
        "c.v = 1 OR c.v = 2 OR c.w = 'a'",
        "NOT (c.v = 1 OR c.w > 0)",
        "NOT (c.v = 1 AND c.w > 0)",
        "c.v ? true : false",
        "(c.v > 0) = false",
        "true",
        "false",
        "1",
        "c.v = 1 AND RAND() < 2",
        "c.v = 1 AND true",
        "c.v OR true",
        "c.v AND true",
        "NOT (NOT c.v)",
    ] {
        check(&format!("SELECT * FROM c WHERE {condition}"), &documents);
    }
    for text in [
        "SELECT t FROM c JOIN t IN c.v WHERE t = 1",
        "SELECT t FROM c JOIN t IN c.v WHERE t.k = 1 AND c.w = 2",
        "SELECT t FROM c JOIN t IN c.v JOIN u IN c.v WHERE t.k < u.k",
        "SELECT t FROM c JOIN t IN c.v JOIN u IN c.v WHERE t < u",
        "SELECT t FROM c JOIN t IN c.v WHERE t != 1",
        "SELECT t FROM t IN c.v",
        "SELECT * FROM c.v",
        "SELECT * FROM c.v WHERE v.k = 1",
        "SELECT t FROM c JOIN (SELECT VALUE x FROM x IN c.v) t WHERE t = 1",
    ] {
        check(text, &documents);
    }
}

#[test]
fn common_conditions_are_exact() {
    for (condition, exact) in [
        ("c.a = 1 AND c.b IN (1, 2) AND c.d > 3", true),
        ("c.a = 1 OR NOT (c.b < 5)", true),
        ("ARRAY_CONTAINS(c.tags, 'x') AND STARTSWITH(c.n, 'a')", true),
        ("EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t.name = 'x')", true),
        ("c.a = [1]", false),
        ("c.a[0] = 1", false),
        ("c.a = c.b", false),
        ("udf.f(c.a)", false),
        ("c.a = 1 AND udf.f(c.a)", false),
    ] {
        let text = format!("SELECT VALUE COUNT(1) FROM c WHERE {condition}");
        let compiled = compile(&parse(&text).unwrap(), &[], &Schema::none()).unwrap();
        assert_eq!(analyse(&compiled).is_exact(), exact, "{condition}");
    }
}

#[test]
fn chains_become_sets_and_ranges() {
    let node = |condition: &str| {
        let text = format!("SELECT * FROM c WHERE {condition}");
        analyse(&compile(&parse(&text).unwrap(), &[], &Schema::none()).unwrap())
    };
    assert!(
        matches!(node("c.a = 1 OR c.a = 2 OR c.a = 3"), Node::Atom(Atom { test: Test::In(set), .. }) if set.values().len() == 3)
    );
    assert!(matches!(
        node("c.a > 1 AND c.a <= 5"),
        Node::Atom(Atom { test: Test::Range { .. }, exact: true, .. })
    ));
    assert_eq!(node("c.a > 5 AND c.a < 1"), Node::Nothing);
    assert!(matches!(
        node("ST_DISTANCE(c.p, {'type':'Point','coordinates':[1,2]}) < 5"),
        Node::Atom(Atom { test: Test::Spatial(Spatial::Near { .. }), exact: false, .. })
    ));
}

#[test]
fn paths_of_a_query() {
    let compiled = |text: &str| compile(&parse(text).unwrap(), &[], &Schema::none()).unwrap();
    let shown = |text: &str| {
        let step = |step: &PathStep| match step {
            PathStep::Name(name) => format!("/{name}"),
            PathStep::Element => "/[]".to_owned(),
        };
        let paths = referenced_paths(&compiled(text));
        let mut paths: Vec<String> =
            paths.iter().map(|path| path.iter().map(step).collect()).collect();
        paths.sort();
        paths.join(" ")
    };
    assert_eq!(shown("SELECT c.a.b, COUNT(1) FROM c WHERE c.d = 1 GROUP BY c.a.b"), "/a/b /d");
    assert_eq!(shown("SELECT * FROM c WHERE c.a = 1"), " /a");
    assert_eq!(shown("SELECT t.x FROM c JOIN t IN c.tags ORDER BY c.n"), "/n /tags/[] /tags/[]/x");
    assert_eq!(
        shown("SELECT VALUE EXISTS(SELECT 1 FROM t IN c.a WHERE t = c.b) FROM c"),
        "/a/[] /b"
    );
    let order = order_paths(&compiled("SELECT * FROM c ORDER BY c.a.b DESC")).unwrap();
    assert_eq!((order[0].path.len(), order[0].descending), (2, true));
    assert!(order_paths(&compiled("SELECT * FROM c")).is_none());
}

#[test]
fn index_metrics_name_used_and_missing_paths() {
    let body = br#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},
        "indexingPolicy":{"excludedPaths":[{"path":"/big/*"}],
            "compositeIndexes":[[{"path":"/a"},{"path":"/b"}]]}}"#;
    let policy = ContainerPolicy::parse(&parse_json(body).unwrap()).unwrap();
    let schema = Schema::new(&policy).unwrap();
    let usage =
        |text: &str| index_usage(&compile(&parse(text).unwrap(), &[], &schema).unwrap(), &schema);
    let found = usage(
        "SELECT * FROM c WHERE c.a = 1 AND c.b > 2 AND c.big.x = 3 AND ARRAY_CONTAINS(c['t g'], 1)",
    );
    assert_eq!(found.utilized, ["/\"t g\"/[]/?", "/b/?", "/a/?"]);
    assert_eq!(found.potential, ["/big/x/?"]);
    let found = usage("SELECT * FROM c WHERE c.a = 1 AND c.b > 2");
    assert_eq!(found.utilized_composites, [["/a ASC", "/b ASC"]]);
    let found = usage("SELECT * FROM c WHERE c.d = 1 ORDER BY c.e");
    assert_eq!(found.potential_composites, [["/d ASC", "/e ASC"]]);
    let found = usage("SELECT * FROM c WHERE c.d = 1 ORDER BY c.e DESC");
    assert_eq!(found.potential_composites, [["/d ASC", "/e DESC"]]);
    let found = usage("SELECT * FROM c ORDER BY c.a DESC, c.b DESC");
    assert_eq!(found.utilized_composites, [["/a DESC", "/b DESC"]]);
}

fn usage_without_policy(text: &str) -> IndexUsage {
    let body = br#"{"id":"c","partitionKey":{"paths":["/Pk"],"kind":"Hash","version":2}}"#;
    let policy = ContainerPolicy::parse(&parse_json(body).unwrap()).unwrap();
    let schema = Schema::new(&policy).unwrap();
    index_usage(&compile(&parse(text).unwrap(), &[], &schema).unwrap(), &schema)
}

/// What the service answers in the public baselines of the .NET SDK: four filters with every select and every end.
#[test]
fn index_metrics_follow_the_services_baselines() {
    let (both, name, id) = (&["/name/?", "/id/?"][..], &["/name/?"][..], &["/id/?"][..]);
    let filters = [
        "c.id = '1'",
        "c.id = '1' AND c.name = 'Abc'",
        "c.id = '1' AND c.name > 'Abc'",
        "c.id > '1' AND c.name > 'Abc'",
    ];
    // What each of the filters uses, and whether it would gain by an index over both.
    let plain = [(id, false), (both, false), (both, true), (both, false)];
    let ordered = [(id, false), (name, false), (both, true), (name, false)];
    let grouped = [(id, false), (both, true), (both, true), (both, false)];
    for (select, end, expected) in [
        ("*", "", plain),
        ("COUNT(1)", "", plain),
        ("VALUE COUNT(1)", "", plain),
        ("*", "ORDER BY c.id ASC", ordered),
        ("COUNT(1)", "GROUP BY c.id", plain),
        ("COUNT(1)", "GROUP BY c.id, c.name", grouped),
        ("VALUE COUNT(1)", "GROUP BY c.id, c.name", grouped),
    ] {
        for (filter, (utilized, composite)) in filters.iter().zip(expected) {
            let text = format!("SELECT {select} FROM c WHERE {filter} {end}");
            let usage = usage_without_policy(&text);
            assert_eq!(usage.utilized, utilized, "{text}");
            let potential: &[[&str; 2]] = if composite { &[["/id ASC", "/name ASC"]] } else { &[] };
            assert_eq!(usage.potential_composites, potential, "{text}");
            assert!(usage.potential.is_empty() && usage.utilized_composites.is_empty(), "{text}");
        }
    }
}

/// The same baselines: names that are no plain words stand in quotes, and a call in SELECT counts.
#[test]
fn index_metrics_write_names_as_the_service_does() {
    let names = [
        ("statement", "/statement/?"),
        ("ZZZzzz", "/ZZZzzz/?"),
        ("ı", "/ı/?"),
        (
            "素早く茶色のキツネが怠惰な犬を飛び越えます",
            "/素早く茶色のキツネが怠惰な犬を飛び越えます/?",
        ),
        (
            "Der schnelle Braunfuchs springt über den faulen Hund",
            r#"/"Der schnelle Braunfuchs springt über den faulen Hund"/?"#,
        ),
        (
            "Η γρήγορη καφέ αλεπού πηδάει πάνω από το τεμπέλικο σκυλί",
            r#"/"Η γρήγορη καφέ αλεπού πηδάει πάνω από το τεμπέλικο σκυλί"/?"#,
        ),
        (
            "الثعلب البني السريع يقفز فوق الكلب الكسول",
            r#"/"الثعلب البني السريع يقفز فوق الكلب الكسول"/?"#,
        ),
        (
            "Быстрая коричневая лиса прыгает через ленивую собаку",
            r#"/"Быстрая коричневая лиса прыгает через ленивую собаку"/?"#,
        ),
        ("तेज, भूरी लोमडी आलसी कुत्ते के उपर कूद गई", r#"/"तेज, भूरी लोमडी आलसी कुत्ते के उपर कूद गई"/?"#),
        (r#" !"!@#$%^&*()<>?:"{}|ßÃŒÆ12ếàưỏốởặ"#, r#"/" !\"!@#$%^&*()<>?:\"{}|ßÃŒÆ12ếàưỏốởặ"/?"#),
    ];
    for (name, spec) in names {
        for text in [
            format!("SELECT VALUE STARTSWITH(r['{name}'], 's', true) FROM root r"),
            format!("SELECT r.id FROM r WHERE STARTSWITH(r['{name}'], 's', false)"),
        ] {
            let usage = usage_without_policy(&text);
            assert_eq!(usage.utilized, [spec], "{text}");
            assert!(usage.potential.is_empty() && usage.potential_composites.is_empty(), "{text}");
        }
    }
}

fn scalar() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "1",
        "0",
        "2",
        "'a'",
        "'ab'",
        "null",
        "true",
        "false",
        "-3.5",
        "undefined",
        "[1]",
        "{k: 1}",
    ])
}

fn path() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["c.v", "c.w", "c.v.k", "c.v[0]", "c.v.k.l", "c.w[1].k"])
}

fn condition() -> impl Strategy<Value = String> {
    let operator = prop::sample::select(vec!["=", "!=", "<", "<=", ">", ">="]);
    let function = prop::sample::select(vec![
        "IS_DEFINED",
        "IS_NUMBER",
        "IS_STRING",
        "IS_ARRAY",
        "IS_OBJECT",
        "IS_NULL",
        "IS_PRIMITIVE",
        "IS_INTEGER",
    ]);
    let text = prop::sample::select(vec!["STARTSWITH", "CONTAINS", "ENDSWITH", "STRINGEQUALS"]);
    let leaf = prop_oneof![
        (path(), operator, scalar())
            .prop_map(|(path, operator, value)| format!("{path} {operator} {value}")),
        (path(), scalar(), scalar())
            .prop_map(|(path, low, high)| format!("({path} BETWEEN {low} AND {high})")),
        (path(), scalar(), scalar()).prop_map(|(path, a, b)| format!("{path} IN ({a}, {b})")),
        (function, path()).prop_map(|(function, path)| format!("{function}({path})")),
        (text, path()).prop_map(|(function, path)| format!("{function}({path}, 'a')")),
        (path(), scalar()).prop_map(|(path, value)| format!("ARRAY_CONTAINS({path}, {value})")),
        (path(), scalar()).prop_map(|(path, value)| format!(
            "EXISTS(SELECT VALUE e FROM e IN {path} WHERE e = {value})"
        )),
        (path(), scalar()).prop_map(|(path, value)| format!(
            "EXISTS(SELECT VALUE e FROM e IN {path} WHERE e.k != {value})"
        )),
        (path(), path()).prop_map(|(left, right)| format!("{left} = {right}")),
        path().prop_map(str::to_owned),
        path().prop_map(|path| format!("{path} LIKE 'a%'")),
    ];
    leaf.prop_recursive(4, 16, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4)
                .prop_map(|parts| format!("({})", parts.join(" AND "))),
            prop::collection::vec(inner.clone(), 2..4)
                .prop_map(|parts| format!("({})", parts.join(" OR "))),
            inner.clone().prop_map(|part| format!("NOT ({part})")),
            (inner, prop::bool::ANY).prop_map(|(part, bool)| format!("(({part}) = {bool})")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn random_conditions(condition in condition()) {
        check(&format!("SELECT * FROM c WHERE {condition}"), &documents());
    }

    /// Parts of the condition are tested before the JOINs they do not need; the rows are those of
    /// the whole condition tested last. And the items are those the analysis promises.
    #[test]
    fn random_conditions_over_joins(condition in condition()) {
        let condition = condition.replace("c.v.k", "t.k").replace("c.w[1].k", "u").replace("c.v[0]", "t");
        let text = format!("SELECT VALUE [c.v, t, u] FROM c JOIN t IN c.v JOIN u IN c.w WHERE {condition}");
        check(&text, &documents());
        let schema = Schema::none();
        let split = compile(&parse(&text).unwrap(), &[], &schema).unwrap();
        let mut whole = split.clone();
        whole.checks = vec![None, None, split.filter.clone()];
        with_runtime(Options::new(&schema), |runtime| {
            let early = run_compiled(&split, documents(), runtime).unwrap();
            let late = run_compiled(&whole, documents(), runtime).unwrap();
            assert_eq!(early, late, "{text}");
        });
    }
}

#[test]
fn a_predicate_that_takes_too_long_is_left_open() {
    let text = "SELECT * FROM c WHERE REGEXMATCH(c.s, '[ab]{0,100}[ab]{0,100}c')";
    let node = analyse(&compile(&parse(text).unwrap(), &[], &Schema::none()).unwrap());
    let Node::Atom(Atom { test: Test::Predicate(predicate), .. }) = node else {
        panic!("{node:?}")
    };
    let value = Value::from("ab".repeat(1000));
    let mut steps_left = 1_000_000_000;
    assert_eq!(predicate.holds(&value, &mut steps_left), Some(false));
    assert!(steps_left < 1_000_000_000);
    assert_eq!(predicate.holds(&value, &mut 10), None);
}
