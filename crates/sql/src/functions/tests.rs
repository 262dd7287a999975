//! The table as a whole, and what the tests of the families share.

use super::*;
use armilla_model::json;
use proptest::prelude::*;

/// The time of all tests: 2024-10-14T14:20:30.6668888Z.
pub(super) const NOW: i64 = 17_289_156_306_668_888;

/// Runs a function with a fixed clock and a random number of 0.25.
pub(super) fn evaluate(name: &str, arguments: &[Value]) -> Value {
    let mut context = Context {
        now_ticks: &|| NOW + 1,
        now_static_ticks: NOW,
        random: &mut || 0.25,
        geometry: false,
        vectors: &[],
        effort: crate::effort::Effort::default(),
    };
    let function = lookup(name).unwrap_or_else(|| panic!("{name} is not there"));
    assert!(arguments.len() >= function.arguments_min, "{name} needs more arguments");
    assert!(arguments.len() <= function.arguments_max, "{name} takes fewer arguments");
    function.run(&mut context, arguments)
}

/// Checks rows of function, arguments as a JSON array, and the expected value as it prints.
pub(super) fn check(rows: &[(&str, &str, &str)]) {
    for (name, arguments, expected) in rows {
        let arguments = json::parse(arguments.as_bytes()).unwrap();
        let result = evaluate(name, arguments.as_array().unwrap());
        assert_eq!(result.to_string(), *expected, "{name}{arguments}");
    }
}

#[test]
fn names_are_found_in_any_letter_case() {
    assert_eq!(lookup("Abs").map(|function| function.name), Some("ABS"));
    assert_eq!(lookup("_FullTextScore").map(|function| function.name), Some("_FULLTEXTSCORE"));
    assert!(lookup("ABSOLUTELY").is_none());
    assert!(lookup(&"A".repeat(1000)).is_none());
    assert_eq!(lookup("_VectorScore").map(|function| function.name), Some("VECTORDISTANCE"));
    assert_eq!(lookup("is_boolean").map(|function| function.name), Some("IS_BOOL"));
    let names =
        || all().flat_map(|function| std::iter::once(&function.name).chain(function.aliases));
    assert!(names().all(|name| name.len() <= NAME_LENGTH_MAX && lookup(name).is_some()));
    assert_eq!(TABLE.len(), names().count(), "a name is there twice");
    assert!(names().all(|name| special(name).is_none() && !is_refused(name)));
}

#[test]
fn time_and_chance_are_volatile() {
    let of = |volatility| {
        let named = all().filter(move |function| function.volatility == volatility);
        let mut names: Vec<_> = named.map(|function| function.name).collect();
        names.sort_unstable();
        names.join(" ")
    };
    assert_eq!(of(Volatility::Call), "GETCURRENTDATETIME GETCURRENTTICKS GETCURRENTTIMESTAMP RAND");
    assert_eq!(
        of(Volatility::Query),
        "AGO GETCURRENTDATETIMESTATIC GETCURRENTTICKSSTATIC GETCURRENTTIMESTAMPSTATIC NOW"
    );
}

// A function that says it depends on nothing gives the same whatever the context is.
#[test]
fn what_is_immutable_ignores_its_context() {
    let run = |function: &Function, now: i64, chance: f64, geometry: bool| {
        let shape = json::parse(br#"{"type":"Point","coordinates":[1,2]}"#).unwrap();
        let arguments = [Value::from("dd"), 1.into(), "2024-01-02".into(), shape];
        let mut context = Context {
            now_ticks: &|| now,
            now_static_ticks: now,
            random: &mut || chance,
            geometry,
            vectors: &[],
            effort: crate::effort::Effort::default(),
        };
        let most = function.arguments_max.min(arguments.len());
        let calls = (function.arguments_min..=most)
            .map(|count| function.run(&mut context, &arguments[..count]).to_string());
        calls.collect::<Vec<_>>()
    };
    for function in all().filter(|function| function.volatility == Volatility::Immutable) {
        let (first, second) = (run(function, 0, 0.1, false), run(function, NOW, 0.9, true));
        assert_eq!(first, second, "{}", function.name);
    }
}

#[test]
fn undefined_stops_all_but_those_that_see_it() {
    for function in all().filter(|function| function.arguments_min > 0) {
        let arguments = vec![Value::Undefined; function.arguments_min];
        let result = evaluate(function.name, &arguments);
        let expected = match function.name {
            "ST_ISVALIDDETAILED" => r#"{"valid":false,"reason":"Unable to process the geometry."}"#,
            "_TRY_ARRAY_CONTAINS" | "ST_ISVALID" => "false",
            name if name.starts_with("IS_") => "false",
            _ => "undefined",
        };
        assert_eq!(result.to_string(), expected, "{}", function.name);
    }
}

#[test]
fn unknown_answers_join_as_in_three_valued_logic() {
    let (yes, no, unknown) = (Some(true), Some(false), None);
    assert_eq!(any_of([no, unknown, yes].into_iter()), yes);
    assert_eq!(any_of([no, unknown].into_iter()), unknown);
    assert_eq!(all_of([yes, unknown, no].into_iter()), no);
    assert_eq!(all_of([yes, unknown].into_iter()), unknown);
    assert_eq!(all_of([yes, yes].into_iter()), yes);
}

// Any value, with a liking for what functions look for: dates, patterns, shapes, part names.
fn any_value() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-20i64..20).prop_map(Value::from),
        (-200.0..200.0).prop_map(Value::from),
    ];
    let word = prop::sample::select(vec![
        "yyyy",
        "mm",
        "dd",
        "ns",
        "2024-02-29",
        "0001-01-01T00:00:00Z",
        "9999-12-31",
        "i",
        "a+(b",
        "type",
        "Point",
        "the red bicycle",
        "[1,2]",
        "",
        "k",
        "😀é",
        "yyyy-MM-dd\\",
        "term",
    ]);
    let scalar = prop_oneof![
        Just(Value::Undefined),
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number,
        word.prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        any_shape(),
    ];
    scalar.prop_recursive(3, 24, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::array),
            prop::collection::vec((any::<String>(), inner), 0..4).prop_map(|members| {
                let members = members.into_iter().map(|(name, value)| (name.into(), value));
                Value::object(members.collect())
            }),
        ]
    })
}

// Shapes that are mostly well formed, so that the geometry behind the checks is reached: on a small
// grid, where they touch and overlap in every way, or anywhere.
fn any_shape() -> impl Strategy<Value = Value> {
    let grid = (-3i32..4).prop_map(f64::from);
    prop_oneof![3 => shape_of(grid), 1 => shape_of(-180.0..180.0f64)]
}

fn shape_of(coordinate: impl Strategy<Value = f64> + Clone + 'static) -> BoxedStrategy<Value> {
    let position = (coordinate.clone(), coordinate)
        .prop_map(|(x, y)| Value::array(vec![x.into(), (y / 2.0).into()]));
    let ring = prop::collection::vec(position.clone(), 3..8).prop_map(|mut positions| {
        positions.push(positions[0].clone());
        Value::array(positions)
    });
    let polygon = prop::collection::vec(ring, 1..3).prop_map(Value::array);
    prop_oneof![
        position.clone().prop_map(|position| shape("Point", position)),
        prop::collection::vec(position, 2..6)
            .prop_map(|positions| shape("LineString", Value::array(positions))),
        polygon.clone().prop_map(|polygon| shape("Polygon", polygon)),
        prop::collection::vec(polygon, 1..3)
            .prop_map(|polygons| shape("MultiPolygon", Value::array(polygons))),
    ]
    .boxed()
}

fn shape(kind: &str, coordinates: Value) -> Value {
    let mut shape = armilla_model::Object::new();
    shape.insert("type", kind.into());
    shape.insert("coordinates", coordinates);
    Value::object(shape)
}

proptest! {
    #[test]
    fn no_function_panics(
        arguments in prop::collection::vec(any_value(), 8),
        geometry: bool,
    ) {
        for function in all() {
            let most = function.arguments_max.min(arguments.len());
            for count in function.arguments_min..=most {
                let mut context = Context {
                    now_ticks: &|| NOW,
                    now_static_ticks: NOW,
                    random: &mut || 0.5,
                    geometry,
                    vectors: &[],
                    effort: crate::effort::Effort::default(),
                };
                (function.call)(&mut context, &arguments[..count]);
            }
        }
    }

    #[test]
    fn shapes_never_panic(left in any_shape(), right in any_shape()) {
        for name in ["ST_DISTANCE", "ST_WITHIN", "ST_INTERSECTS"] {
            evaluate(name, &[left.clone(), right.clone()]);
        }
        evaluate("ST_AREA", &[left]);
    }
}
