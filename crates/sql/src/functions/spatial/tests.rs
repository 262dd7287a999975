//! Spatial examples of the reference, and shapes in odd places.

use super::*;
use crate::functions::tests::{NOW, evaluate};
use armilla_model::json;

fn shape(kind: &str, coordinates: &str) -> Value {
    let text = format!(r#"{{"type":"{kind}","coordinates":{coordinates}}}"#);
    json::parse(text.as_bytes()).unwrap()
}

fn square(west: f64, south: f64, size: f64) -> Value {
    let (east, north) = (west + size, south + size);
    let ring = format!(
        "[[[{west},{south}],[{east},{south}],[{east},{north}],[{west},{north}],[{west},{south}]]]"
    );
    shape("Polygon", &ring)
}

fn point(x: f64, y: f64) -> Value {
    shape("Point", &format!("[{x},{y}]"))
}

fn metres(left: &Value, right: &Value) -> f64 {
    evaluate("ST_DISTANCE", &[left.clone(), right.clone()]).as_f64().unwrap()
}

fn is(name: &str, left: &Value, right: &Value) -> bool {
    evaluate(name, &[left.clone(), right.clone()]).as_bool().unwrap()
}

fn close(actual: f64, expected: f64, tolerance: f64) {
    assert!((actual - expected).abs() <= expected.abs() * tolerance, "{actual} for {expected}");
}

#[test]
fn documented_distances_and_areas() {
    let office = point(-122.11758113953535, 47.66901087006131);
    let headquarters = point(-122.12826822304672, 47.63980239335718);
    close(metres(&headquarters, &office), 3345.269817267368, 1e-4);
    let research = point(-96.84368664765994, 46.81297794314663);
    close(metres(&research, &office), 1_907_438.421299902, 1e-4);
    assert_eq!(metres(&office, &office), 0.0);
    let area = |value| evaluate("ST_AREA", &[value]).as_f64().unwrap();
    let box_ = "[[[31.8,-5],[32,-5],[32,-4.7],[31.8,-4.7],[31.8,-5]]]";
    close(area(shape("Polygon", box_)), 735_970_283.0522614, 1e-4);
    let clockwise = "[[[31.8,-5],[31.8,-4.7],[32,-4.7],[32,-5],[31.8,-5]]]";
    close(area(shape("Polygon", clockwise)), 510_065_621_724_078.9 - 735_970_283.05, 1e-9);
    assert_eq!(area(office), 0.0);
}

#[test]
fn documented_relations() {
    let left = "[[[-122.13693695285855,47.64996065621003],[-122.1351662656516,47.64627863318731],\
                [-122.13488295569863,47.646326350048696],[-122.1366182291613,47.650016321952904],\
                [-122.13693695285855,47.64996065621003]]]";
    let right = "[[[-122.14034847687708,47.6494835188378],[-122.14014779899375,47.64625477474044],\
                 [-122.13256925774829,47.646207057813655],[-122.13254564858545,47.64941990019193],\
                 [-122.14034847687708,47.6494835188378]]]";
    assert!(is("ST_INTERSECTS", &shape("Polygon", left), &shape("Polygon", right)));
    let campus = "[[[-122.13236581015025,47.64606476313813],[-122.13221982500913,47.633757091363975],\
                  [-122.11840598103835,47.641749416109235],[-122.12061400629656,47.64589264786028],\
                  [-122.13236581015025,47.64606476313813]]]";
    let inside = point(-122.12824857332558, 47.6395516675712);
    assert!(is("ST_WITHIN", &inside, &shape("Polygon", campus)));
    assert!(!is("ST_WITHIN", &point(-122.0, 47.6), &shape("Polygon", campus)));
}

#[test]
fn relations_of_lines_and_areas() {
    let large = square(0.0, 0.0, 10.0);
    let small = square(2.0, 2.0, 1.0);
    let apart = square(20.0, 0.0, 1.0);
    let across = shape("LineString", "[[-1,5],[11,5]]");
    let within = shape("LineString", "[[1,1],[3,3],[1,3],[3,1]]");
    assert!(is("ST_WITHIN", &small, &large) && !is("ST_WITHIN", &large, &small));
    assert!(is("ST_WITHIN", &large, &large) && !is("ST_WITHIN", &apart, &large));
    assert!(is("ST_WITHIN", &within, &large) && !is("ST_WITHIN", &across, &large));
    assert!(is("ST_INTERSECTS", &across, &large) && !is("ST_INTERSECTS", &apart, &large));
    assert!(is("ST_INTERSECTS", &small, &large) && is("ST_INTERSECTS", &point(10.0, 5.0), &large));
    let holed =
        shape("Polygon", "[[[0,0],[10,0],[10,10],[0,10],[0,0]],[[1,1],[1,4],[4,4],[4,1],[1,1]]]");
    assert!(!is("ST_WITHIN", &small, &holed) && !is("ST_INTERSECTS", &small, &holed));
    let both = shape(
        "MultiPolygon",
        "[[[[0,0],[1,0],[1,1],[0,1],[0,0]]],[[[5,5],[6,5],[6,6],[5,6],[5,5]]]]",
    );
    assert!(is("ST_WITHIN", &both, &large) && is("ST_WITHIN", &point(5.5, 5.5), &both));
    assert!(!is("ST_INTERSECTS", &both, &small));
}

#[test]
fn a_clockwise_polygon_is_its_outside() {
    let outside = shape("Polygon", "[[[0,0],[0,10],[10,10],[10,0],[0,0]]]");
    let (inner, outer) = (point(5.0, 5.0), point(50.0, 5.0));
    assert!(!is("ST_WITHIN", &inner, &outside) && is("ST_WITHIN", &outer, &outside));
    assert!(!is("ST_INTERSECTS", &inner, &outside) && is("ST_INTERSECTS", &outer, &outside));
    assert!(metres(&inner, &outside) > 500_000.0);
    assert_eq!(metres(&outer, &outside), 0.0);
    assert!(is("ST_WITHIN", &outside, &outside));
}

#[test]
fn distances_to_lines_and_areas() {
    let line = shape("LineString", "[[-10,0],[10,0]]");
    // One degree of latitude at the equator.
    close(metres(&point(0.0, 1.0), &line), 110_574.4, 1e-5);
    close(metres(&point(11.0, 0.0), &line), 111_319.5, 1e-5);
    close(metres(&square(0.0, 1.0, 1.0), &line), 110_574.4, 1e-5);
    assert_eq!(metres(&point(0.5, 1.5), &square(0.0, 1.0, 1.0)), 0.0);
}

#[test]
fn the_nearest_of_many_edges_is_found() {
    let circle = |longitude: f64, positions: i32| {
        let corner = |at: i32| {
            let angle = f64::from(at % positions) / f64::from(positions) * std::f64::consts::TAU;
            format!("[{},{}]", longitude + angle.cos(), angle.sin())
        };
        let corners: Vec<_> = (0..=positions).map(corner).collect();
        shape("Polygon", &format!("[[{}]]", corners.join(",")))
    };
    // Between the easternmost corner of one and the westernmost of the other.
    close(metres(&circle(0.0, 500), &circle(5.0, 300)), 3.0 * 111_319.5, 1e-5);
    close(
        metres(&circle(0.0, 500), &point(1.0, 5.0)),
        metres(&point(1.0, 5.0), &circle(0.0, 9)),
        1e-2,
    );
    assert_eq!(metres(&circle(0.0, 500), &circle(1.5, 300)), 0.0);
}

#[test]
fn the_antimeridian_is_not_a_border() {
    let strait = shape("Polygon", "[[[179,-1],[-179,-1],[-179,1],[179,1],[179,-1]]]");
    assert!(is("ST_WITHIN", &point(179.5, 0.0), &strait));
    assert!(is("ST_WITHIN", &point(-179.5, 0.0), &strait));
    assert!(!is("ST_WITHIN", &point(0.0, 0.0), &strait));
    close(metres(&point(179.5, 0.0), &point(-179.5, 0.0)), 111_319.5, 1e-5);
    close(metres(&point(-178.0, 0.0), &strait), 111_319.5, 1e-4);
}

#[test]
fn what_is_valid() {
    let reason = |value: &Value| {
        let answer = evaluate("ST_ISVALIDDETAILED", std::slice::from_ref(value));
        let valid = evaluate("ST_ISVALID", std::slice::from_ref(value));
        assert_eq!(answer.get("valid"), Some(&valid));
        answer.get("reason").map(|reason| reason.as_str().unwrap().to_owned())
    };
    assert_eq!(reason(&point(-84.38876194345323, 33.75682784306348)), None);
    assert_eq!(
        reason(&point(133.75, -184.38)).as_deref(),
        Some("Latitude values must be between -90 and 90 degrees.")
    );
    for (kind, coordinates) in [
        ("Point", "[181,0]"),
        ("Point", "[1]"),
        ("Point", r#"["1",2]"#),
        ("Circle", "[1,2]"),
        ("LineString", "[[1,2]]"),
        ("LineString", "[1,2]"),
        ("Polygon", "[]"),
        ("Polygon", "[[[0,0],[1,0],[0,0]]]"),
        ("Polygon", "[[[0,0],[1,0],[1,1],[0,1]]]"),
        ("Polygon", "[[[0,0],[1,1],[1,0],[0,1],[0,0]]]"),
        ("Polygon", "[[[0,0],[0,0],[0,0],[0,0]]]"),
        ("MultiPolygon", "[]"),
    ] {
        let value = shape(kind, coordinates);
        assert!(reason(&value).is_some(), "{value}");
        assert!(evaluate("ST_DISTANCE", &[value, point(0.0, 0.0)]).is_undefined());
    }
    assert!(reason(&Value::Null).is_some());
    let many = format!("[{}]", vec!["[0,0]"; SHAPE_POSITIONS_MAX + 1].join(","));
    assert!(reason(&shape("LineString", &many)).is_some());
}

#[test]
fn geometry_containers_are_planar() {
    let run = |name: &str, arguments: &[Value]| {
        let mut context = Context {
            now_ticks: &|| NOW,
            now_static_ticks: NOW,
            random: &mut || 0.5,
            geometry: true,
            vectors: &[],
            effort: crate::effort::Effort::default(),
        };
        let function = crate::functions::lookup(name).unwrap();
        function.run(&mut context, arguments)
    };
    assert_eq!(run("ST_DISTANCE", &[point(0.0, 0.0), point(300.0, 400.0)]), 500.0.into());
    assert_eq!(run("ST_AREA", &[square(0.0, 0.0, 1000.0)]), 1_000_000.0.into());
    let clockwise = shape("Polygon", "[[[0,0],[0,10],[10,10],[10,0],[0,0]]]");
    assert_eq!(run("ST_WITHIN", &[point(5.0, 5.0), clockwise]), true.into());
    assert_eq!(run("ST_ISVALID", &[point(1e13, 0.0)]), true.into());
    let nested = "[[[[0,0],[9,0],[9,9],[0,9],[0,0]]],[[[1,1],[2,1],[2,2],[1,2],[1,1]]]]";
    assert_eq!(run("ST_ISVALID", &[shape("MultiPolygon", nested)]), false.into());
}

#[test]
fn edges_are_arcs_and_not_parallels() {
    // The northern side of the box passes some 12 km north of the parallel of its ends.
    let wide = shape("Polygon", "[[[0,40],[10,40],[10,50],[0,50],[0,40]]]");
    assert!(is("ST_WITHIN", &point(5.0, 50.1), &wide));
    assert!(!is("ST_INTERSECTS", &point(5.0, 50.11), &wide));
    let line = shape("LineString", "[[1,1],[4,4]]");
    assert!(!is("ST_INTERSECTS", &point(3.0, 3.0), &line));
    close(metres(&point(3.0, 3.0), &line), 190.7, 0.01);
    // A place in a hole: the nearest of its sides is chosen on the ellipsoid.
    let holed = "[[[0,0],[10,0],[10,10],[0,10],[0,0]],[[2,2],[2,4],[4,4],[4,2],[2,2]]]";
    close(metres(&point(3.0, 3.0), &shape("Polygon", holed)), 110_542.76, 1e-6);
}

#[test]
fn poles_and_hemispheres_are_places_like_others() {
    let cap = shape("Polygon", "[[[0,80],[120,80],[-120,80],[0,80]]]");
    let half = shape("Polygon", "[[[0,0],[90,0],[180,0],[-90,0],[0,0]]]");
    let area = |value: &Value| evaluate("ST_AREA", std::slice::from_ref(value)).as_f64().unwrap();
    close(area(&cap), 1.635e12, 1e-3);
    close(area(&half), 255_032_806_403_092.7, 1e-7);
    assert!(is("ST_WITHIN", &point(77.0, 90.0), &cap) && is("ST_WITHIN", &cap, &half));
    assert!(!is("ST_INTERSECTS", &point(60.0, -10.0), &half));
    assert_eq!(metres(&point(12.0, 90.0), &point(-77.0, 90.0)), 0.0);
    close(metres(&point(0.0, 90.0), &shape("LineString", "[[0,0],[10,0]]")), 10_001_965.7, 1e-7);
    close(metres(&point(0.0, 0.0), &point(180.0, 0.0)), 20_003_931.458, 1e-9);
    close(metres(&point(0.0, 0.0), &point(1.0, 1.0)), 156_899.567_97, 1e-8);
}

#[test]
fn what_is_not_valid_is_told_in_the_words_of_the_service() {
    let box_ = "[[0,0],[10,0],[10,10],[0,10],[0,0]]";
    for (coordinates, reason) in [
        (
            format!("[{box_},[[2,2],[4,2],[4,4],[2,4],[2,2]]]"),
            "Not valid because some portion of a polygon ring (1) lies in the interior of a polygon.",
        ),
        (
            format!("[{box_},[[20,2],[20,4],[24,4],[24,2],[20,2]]]"),
            "Not valid because some portion of a polygon ring (2) lies in the interior of a polygon.",
        ),
        (
            "[[[0,0],[10,10],[10,0],[0,10],[0,0]]]".to_owned(),
            "Not valid because some portion of a polygon ring (1) lies in the interior of a polygon.",
        ),
        (
            format!("[{box_},[[0,0],[0,10],[10,10],[10,0],[0,0]]]"),
            "Not valid because an edge of ring (2) of a polygon overlaps an edge of ring (1).",
        ),
        (
            "[[[0,0],[5,0],[10,0],[5,0],[0,0]]]".to_owned(),
            "Not valid because of two overlapping edges in ring (1) of a polygon.",
        ),
        (
            "[[[0,0],[2,0],[1,1],[2,2],[0,2],[1,1],[0,0]]]".to_owned(),
            "Not valid because polygon ring (1) intersects itself or some other ring.",
        ),
        (
            "[[[0,0],[180,0],[90,10],[0,0]]]".to_owned(),
            "Not valid because an edge of polygon ring (1) with antipodal endpoints is invalid.",
        ),
    ] {
        let answer = evaluate("ST_ISVALIDDETAILED", &[shape("Polygon", &coordinates)]);
        let found = answer.get("reason").and_then(Value::as_str).unwrap_or("none");
        assert_eq!(found, reason, "{coordinates}");
    }
    for coordinates in [
        format!("[{box_},[[2,2],[2,4],[4,4],[4,2],[2,2]],[[4,4],[4,6],[6,6],[6,4],[4,4]]]"),
        format!("[{box_},[[0,5],[5,7],[5,3],[0,5]]]"),
        "[[[0,0],[10,0],[10,10],[5,5],[0,10],[0,0]]]".to_owned(),
        "[[[170,0],[-170,0],[-170,10],[170,10],[170,0]]]".to_owned(),
    ] {
        let answer = evaluate("ST_ISVALID", &[shape("Polygon", &coordinates)]);
        assert_eq!(answer, true.into(), "{coordinates}");
    }
    assert_eq!(evaluate("ST_ISVALID", &[Value::Undefined]), false.into());
}

#[test]
fn a_shape_that_comes_again_is_not_mixed_up_with_another() {
    let (inner, outer) = (point(5.0, 5.0), point(50.0, 5.0));
    let (box_, other) = (square(0.0, 0.0, 10.0), square(45.0, 0.0, 10.0));
    for _ in 0..3 {
        assert!(is("ST_WITHIN", &inner, &box_) && !is("ST_WITHIN", &outer, &box_));
        assert!(is("ST_WITHIN", &outer, &other) && !is("ST_WITHIN", &inner, &other));
        assert!(evaluate("ST_WITHIN", &[inner.clone(), shape("Polygon", "[]")]).is_undefined());
    }
}
