//! Indexes beyond single paths of items: spatial and composite ones, and those of computed properties.

use crate::generate::Random;
use crate::support::{Bench, everything};
use armilla_engine::query::{Access, Request};
use armilla_model::json;

fn rows(bench: &Bench, text: &str, access: Access) -> Vec<String> {
    let request = Request::of_text(text);
    let pages = bench.pages_in(&request, &everything(), 100, access).unwrap();
    pages.concat().iter().map(|row| row.to_json()).collect()
}

/// A number between bounds, in thousandths.
fn between(random: &mut Random, low: i64, high: i64) -> f64 {
    let steps = u64::try_from(high - low).unwrap() * 1000;
    low as f64 + random.below(steps + 1) as f64 / 1000.0
}

#[test]
fn shapes_are_found_by_the_grid_as_by_a_scan() {
    let definition = br#"{"partitionKey":{"paths":["/pk"]},"indexingPolicy":{"spatialIndexes":[
        {"path":"/at/?","types":["Point","LineString","Polygon","MultiPolygon"]}]}}"#;
    let bench = Bench::new(&json::parse(definition).unwrap(), 2);
    let mut random = Random(7);
    for id in 0..400 {
        let (x, y) = match random.below(4) {
            0 => (between(&mut random, -180, 180), between(&mut random, -90, 90)),
            _ => (between(&mut random, 8, 12), between(&mut random, 48, 52)),
        };
        let (east, north) = (x + between(&mut random, 0, 5), y + between(&mut random, 0, 5));
        let ring = format!("[[{x},{y}],[{east},{y}],[{east},{north}],[{x},{y}]]");
        let shape = match random.below(16) {
            12 => format!(r#"{{"type":"LineString","coordinates":[[{x},{y}],[{east},{north}]]}}"#),
            13 => format!(r#"{{"type":"Polygon","coordinates":[{ring}]}}"#),
            14 => format!(
                r#"{{"type":"Polygon","coordinates":[[[{x},{y}],[{x},{north}],[{east},{y}],[{x},{y}]]]}}"#
            ),
            15 => format!(
                r#"{{"type":"MultiPolygon","coordinates":[[{ring}],[[[0,0],[1,0],[0,1],[0,0]]]]}}"#
            ),
            0 => format!(r#"{{"type":"LineString","coordinates":[[{x},{y}],[9,50]]}}"#),
            1 => r#""nowhere""#.to_owned(),
            2 => r#"{"type":"Point","coordinates":[180,10]}"#.to_owned(),
            3 => r#"{"type":"Point","coordinates":["a"]}"#.to_owned(),
            _ => format!(r#"{{"type":"Point","coordinates":[{x},{y}]}}"#),
        };
        bench.put_text(&format!(r#"{{"id":"{id}","pk":{},"at":{shape}}}"#, id % 9));
    }
    let mut found = 0;
    for _ in 0..12 {
        let (x, y) = (between(&mut random, 7, 12), between(&mut random, 47, 52));
        let size = between(&mut random, 0, 3) + 0.001;
        let (east, north, metres) = (x + size, y + size, random.below(400_000));
        let square = format!("[{x},{y}],[{east},{y}],[{east},{north}],[{x},{north}],[{x},{y}]");
        let turned = format!("[{x},{y}],[{x},{north}],[{east},{north}],[{east},{y}],[{x},{y}]");
        for condition in [
            format!("ST_WITHIN(c.at, {{'type':'Polygon','coordinates':[[{square}]]}})"),
            format!("ST_WITHIN(c.at, {{'type':'Polygon','coordinates':[[{turned}]]}})"),
            format!("ST_INTERSECTS({{'type':'Polygon','coordinates':[[{square}]]}}, c.at)"),
            format!("ST_DISTANCE(c.at, {{'type':'Point','coordinates':[{x},{y}]}}) < {metres}"),
            "ST_DISTANCE(c.at, {'type':'Point','coordinates':[-180,10]}) <= 1000".to_owned(),
            format!("NOT ST_WITHIN(c.at, {{'type':'Polygon','coordinates':[[{square}]]}})"),
        ] {
            let text = format!("SELECT VALUE c.id FROM c WHERE {condition}");
            let by_index = rows(&bench, &text, Access::Index);
            assert_eq!(by_index, rows(&bench, &text, Access::Items), "{condition}");
            found += by_index.len();
        }
    }
    assert!(found > 200, "the test finds something");
}

#[test]
fn a_composite_index_finds_what_a_scan_finds() {
    let definition = br#"{"partitionKey":{"paths":["/pk"]},"indexingPolicy":{
        "includedPaths":[{"path":"/a/?"}],"excludedPaths":[{"path":"/*"}],
        "compositeIndexes":[[{"path":"/a"},{"path":"/b","order":"descending"},{"path":"/c"}]]}}"#;
    let bench = Bench::new(&json::parse(definition).unwrap(), 2);
    let mut random = Random(11);
    let long = "x".repeat(80);
    let values = ["1", "-0", "0", "\"s\"", "null", "true", "[1]", &format!("\"{long}1\"")];
    for id in 0..300 {
        let mut members = String::new();
        for name in ["a", "b", "c"] {
            if !random.one_in(5) {
                members.push_str(&format!(r#","{name}":{}"#, random.one_of(&values)));
            }
        }
        bench.put_text(&format!(r#"{{"id":"{id}","pk":{}{members}}}"#, id % 5));
    }
    let other = format!("\"{long}2\"");
    for _ in 0..40 {
        let mut value = || if random.one_in(12) { &other } else { random.one_of(&values) };
        let (a, b, c) = (value(), value(), value());
        for condition in [
            format!("c.a = {a} AND c.b = {b}"),
            format!("c.c = {c} AND c.b = {b} AND c.a = {a}"),
            format!("(c.a = {a} AND c.b = {b}) OR (c.a = {c} AND c.b = {a})"),
            format!("NOT (c.a = {a} AND c.b = {b})"),
            format!("c.a = {a} AND c.b > {b}"),
            format!("c.a = {a} AND c.b <= {b} AND c.c = {c}"),
            format!("c.a = {a} AND c.b = {b} AND c.c < {c}"),
            format!("c.a = {a} AND c.b >= {b} AND c.b < {c}"),
            format!("c.a = {a} AND STARTSWITH(c.b, 's') AND c.c != {c}"),
            format!("c.a = {a} AND STARTSWITH(c.b, '{long}')"),
            format!("c.a > {a} AND c.b > {b}"),
        ] {
            let text = format!("SELECT VALUE c.id FROM c WHERE {condition}");
            assert_eq!(
                rows(&bench, &text, Access::Index),
                rows(&bench, &text, Access::Items),
                "{condition}"
            );
        }
    }
}

#[test]
fn computed_properties_have_terms_where_the_policy_names_them() {
    let definition = br#"{"partitionKey":{"paths":["/pk"]},"computedProperties":[
        {"name":"low","query":"SELECT VALUE LOWER(c.name) FROM c"},
        {"name":"unnamed","query":"SELECT VALUE LOWER(c.name) FROM c"},
        {"name":"age","query":"SELECT VALUE GetCurrentTimestamp() - c.n FROM c"},
        {"name":"late","query":"SELECT VALUE c.at < NOW() FROM c"},
        {"name":"old","query":"SELECT VALUE c.at < AGO('yyyy', 1) FROM c"}],
        "indexingPolicy":{"includedPaths":[{"path":"/low/?"},{"path":"/age/?"},{"path":"/late/?"},
        {"path":"/old/?"}],"excludedPaths":[{"path":"/*"}]}}"#;
    let bench = Bench::of_before(&json::parse(definition).unwrap(), 2);
    for id in 0..200 {
        // An item may have a property of the same name; queries never see it.
        let name = ["Ann", "BOB", "bob", "Zoe"][id % 4];
        bench.put_text(&format!(
            r#"{{"id":"{id}","pk":{},"name":"{name}","low":"x","n":{id},"at":"2020-01-01"}}"#,
            id % 7
        ));
    }
    for (condition, count, served) in [
        ("c.low = 'bob'", 100, true),
        ("c.low > 'b'", 150, true),
        ("STARTSWITH(c.low, 'z')", 50, true),
        ("c.low = 'x'", 0, true),
        ("c.unnamed = 'bob'", 100, false),
        ("c.age > 0", 200, false),
        ("c.late = true", 200, false),
        ("c.old = true", 200, false),
        ("c.late = false", 0, false),
    ] {
        let text = format!("SELECT VALUE c.id FROM c WHERE {condition}");
        let by_index = rows(&bench, &text, Access::Index);
        assert_eq!(by_index, rows(&bench, &text, Access::Items), "{condition}");
        assert_eq!(by_index.len(), count, "{condition}");
        let told = bench.explain(&text);
        assert_eq!(told.contains("exact"), served, "{condition}: {told}");
    }
    for order in ["c.low", "c.low DESC"] {
        let text = format!("SELECT VALUE c.low FROM c ORDER BY {order}");
        let by_index = rows(&bench, &text, Access::Index);
        assert_eq!(by_index, rows(&bench, &text, Access::Items), "{order}");
        assert_eq!(by_index.len(), 200);
    }
}

#[test]
fn computed_properties_that_the_item_does_not_determine_are_refused() {
    let bench = Bench::plain(1);
    let define = |properties: &str| {
        let text = format!(
            r#"{{"id":"c","partitionKey":{{"paths":["/pk"]}},"computedProperties":[{properties}]}}"#
        );
        let definition = json::parse(text.as_bytes()).unwrap();
        bench.account.replace_container(&bench.container, &definition, None)
    };
    let property = |query: &str| format!(r#"{{"name":"p","query":"SELECT VALUE {query} FROM c"}}"#);
    for query in [
        "NOW()",
        "c.at < AGO('dd', 1)",
        "GETCURRENTTICKS()",
        "[1, {a: RAND()}]",
        "udf.f(c.a)",
        "EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t < GetCurrentDateTimeStatic())",
    ] {
        let refused = define(&property(query)).err().map(|error| error.to_string());
        let says = refused.unwrap_or_default();
        assert!(says.contains("'p' is not determined by the item"), "{query}: {says}");
    }
    let twice = format!("{},{}", property("c.a"), property("c.b"));
    let refused = define(&twice).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(refused.contains("'p' cannot be used in multiple definitions"), "{refused}");
    define(&property("ST_DISTANCE(c.a, c.b)")).unwrap();
}

#[test]
fn a_container_keeps_the_computed_properties_it_has() {
    let text = r#"{"id":"c","partitionKey":{"paths":["/pk"]},
        "computedProperties":[{"name":"late","query":"SELECT VALUE c.at < NOW() FROM c"}]}"#;
    let twice = text.replace("}]}", r#"},{"name":"late","query":"SELECT VALUE 1 FROM c"}]}"#);
    Bench::of_before(&json::parse(twice.as_bytes()).unwrap(), 1);
    let bench = Bench::of_before(&json::parse(text.as_bytes()).unwrap(), 1);
    let with_ttl = text.replacen('{', r#"{"defaultTtl":100,"#, 1);
    let definition = json::parse(with_ttl.as_bytes()).unwrap();
    bench.account.replace_container(&bench.container, &definition, None).unwrap();
}
