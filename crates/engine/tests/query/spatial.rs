//! Random shapes: the spatial index leaves out nothing that a test would find.
//!
//! One seed reproduces one run:
//! `ARMILLA_QUERY_SEED=… ARMILLA_SPATIAL_COUNT=… cargo test -p armilla-engine --test query spatial`.

use crate::generate::Random;
use crate::support::{Bench, everything};
use armilla_engine::query::{Access, Request};
use armilla_model::{Value, json};

const QUERIES: u64 = 80;
const ITEMS: u64 = 150;
const SEED: u64 = 20_261_117;

const POLICY: &str = r#"{"partitionKey":{"paths":["/pk"]},"indexingPolicy":{"spatialIndexes":
    [{"path":"/at/*","types":["Point","LineString","Polygon","MultiPolygon"]}]}}"#;

struct Shapes<'r>(&'r mut Random);

impl Shapes<'_> {
    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.0.below(1 << 20) as f64 / (1u64 << 20) as f64)
    }

    /// Mostly where others are, now and then near a pole or the antimeridian.
    fn centre(&mut self) -> (f64, f64) {
        match self.0.below(12) {
            0 => (self.between(-180.0, 180.0), self.between(80.0, 90.0)),
            1 => (self.between(170.0, 180.0), self.between(-60.0, 60.0)),
            2 => (self.between(-180.0, 180.0), self.between(-90.0, 90.0)),
            _ => (self.between(0.0, 40.0), self.between(30.0, 60.0)),
        }
    }

    fn size(&mut self) -> f64 {
        let low = self.0.one_of(&[0.01, 0.5, 3.0, 20.0]);
        self.between(low, low * 3.0)
    }

    fn place(&mut self, (x, y): (f64, f64)) -> String {
        let around = (x + 540.0).rem_euclid(360.0) - 180.0;
        format!("[{},{}]", around, y.clamp(-90.0, 90.0))
    }

    /// A ring with corners all around a centre.
    fn ring(&mut self, corners: u64) -> String {
        let (centre, size) = (self.centre(), self.size());
        let clockwise = self.0.one_in(8);
        let mut places: Vec<String> = (0..corners)
            .map(|corner| {
                let turn = corner as f64 / corners as f64 * std::f64::consts::TAU;
                let turn = if clockwise { -turn } else { turn };
                let far = size * self.between(0.5, 1.0);
                self.place((centre.0 + far * turn.cos(), centre.1 + far * turn.sin()))
            })
            .collect();
        places.push(places[0].clone());
        format!("[{}]", places.join(","))
    }

    fn shape(&mut self) -> String {
        let corners = 3 + self.0.below(5);
        let (kind, coordinates) = match self.0.below(8) {
            0..=2 => {
                let centre = self.centre();
                ("Point", self.place(centre))
            }
            3 | 4 => {
                let (centre, size) = (self.centre(), self.size());
                let places: Vec<String> = (0..2 + corners / 3)
                    .map(|_| {
                        let (x, y) = (self.between(-size, size), self.between(-size, size));
                        self.place((centre.0 + x, centre.1 + y))
                    })
                    .collect();
                ("LineString", format!("[{}]", places.join(",")))
            }
            5 => ("MultiPolygon", format!("[[{}],[{}]]", self.ring(corners), self.ring(4))),
            _ => ("Polygon", format!("[{}]", self.ring(corners))),
        };
        format!(r#"{{"type":"{kind}","coordinates":{coordinates}}}"#)
    }
}

fn ids(bench: &Bench, text: &str, access: Access) -> Vec<String> {
    let pages = bench.pages_in(&Request::of_text(text), &everything(), 1000, access).unwrap();
    let mut ids: Vec<String> = pages.concat().iter().map(Value::to_json).collect();
    ids.sort();
    ids
}

#[test]
fn the_spatial_index_leaves_out_nothing() {
    let setting = |name: &str, default| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let seed = setting("ARMILLA_QUERY_SEED", SEED);
    println!("seed {seed}");
    let mut random = Random(seed);
    let bench = Bench::new(&json::parse(POLICY.as_bytes()).unwrap(), 2);
    for number in 0..ITEMS {
        let shape = Shapes(&mut random).shape();
        bench.put_text(&format!(r#"{{"id":"i{number}","pk":"{}","at":{shape}}}"#, number % 5));
    }
    let (mut found, mut served) = (0, 0);
    for _ in 0..setting("ARMILLA_SPATIAL_COUNT", QUERIES) {
        let shape = Shapes(&mut random).shape();
        let condition = match random.below(4) {
            0 => format!("ST_WITHIN(c.at, {shape})"),
            1 => format!("ST_WITHIN({shape}, c.at)"),
            2 => format!("ST_INTERSECTS(c.at, {shape})"),
            _ => {
                let far = random.one_of(&[100.0, 5e4, 1e6]);
                format!("ST_DISTANCE(c.at, {shape}) < {far}")
            }
        };
        let text = format!("SELECT VALUE c.id FROM c WHERE {condition}");
        let by_items = ids(&bench, &text, Access::Items);
        assert_eq!(ids(&bench, &text, Access::Index), by_items, "{text}");
        found += by_items.len();
        served += usize::from(!by_items.is_empty());
    }
    assert!(found > 100 && served > 20, "{found} items by {served} queries");
}

/// The side of a box bulges towards the pole: a place north of its corners lies in it.
#[test]
fn what_lies_in_the_bulge_of_an_edge_is_found() {
    let bench = Bench::new(&json::parse(POLICY.as_bytes()).unwrap(), 1);
    bench.put_text(r#"{"id":"in","pk":1,"at":{"type":"Point","coordinates":[5,50.1]}}"#);
    bench.put_text(r#"{"id":"out","pk":1,"at":{"type":"Point","coordinates":[5,50.2]}}"#);
    let text = r#"SELECT VALUE c.id FROM c WHERE ST_WITHIN(c.at, {"type":"Polygon",
        "coordinates":[[[0,40],[10,40],[10,50],[0,50],[0,40]]]})"#;
    for access in [Access::Index, Access::Items] {
        assert_eq!(ids(&bench, text, access), ["\"in\""]);
    }
}

/// From the nearest to the farthest, and the other way round; items without a place come where items
/// without a key do. The same rows for every page size, over one range and over three.
#[test]
fn items_are_ordered_by_their_distance_from_a_place() {
    const HERE: &str = r#"{"type":"Point","coordinates":[10,50]}"#;
    let places = [("far", 40), ("near", 11), ("here", 10), ("middle", 20), ("beyond", 60)];
    for ranges in [1, 3] {
        let bench = Bench::new(&json::parse(POLICY.as_bytes()).unwrap(), ranges);
        for (number, (id, longitude)) in places.iter().enumerate() {
            let at = format!(r#"{{"type":"Point","coordinates":[{longitude},50]}}"#);
            bench.put_text(&format!(r#"{{"id":"{id}","pk":{number},"n":{number},"at":{at}}}"#));
        }
        bench.put_text(r#"{"id":"nowhere","pk":9,"n":9}"#);
        let near = ["here", "near", "middle", "far", "beyond"];
        let ascending: Vec<_> = std::iter::once("nowhere").chain(near).collect();
        let descending: Vec<_> = ascending.iter().rev().copied().collect();
        for (order, expected) in [("", &ascending), ("ASC", &ascending), ("DESC", &descending)] {
            for arguments in [format!("c.at, {HERE}"), format!("{HERE}, c.at")] {
                let text =
                    format!("SELECT VALUE c.id FROM c ORDER BY ST_DISTANCE({arguments}) {order}");
                assert_eq!(in_order(&bench, &text), *expected, "{text} over {ranges} ranges");
            }
        }
        let some = format!(
            "SELECT TOP 2 VALUE c.id FROM c WHERE c.n < 4 ORDER BY ST_DISTANCE(c.at, {HERE})"
        );
        assert_eq!(in_order(&bench, &some), ["here", "near"]);
        let within = format!(
            "SELECT VALUE c.id FROM c WHERE ST_DISTANCE(c.at, {HERE}) < 1e6 \
             ORDER BY ST_DISTANCE(c.at, {HERE}) DESC OFFSET 1 LIMIT 5"
        );
        assert_eq!(in_order(&bench, &within), ["near", "here"]);
    }
}

/// The rows of an ordered query, which must be the same by index and without, whatever the page size.
fn in_order(bench: &Bench, text: &str) -> Vec<String> {
    let rows = |page_size, access| -> Vec<String> {
        let pages = bench.pages_in(&Request::of_text(text), &everything(), page_size, access);
        pages.unwrap().concat().iter().map(|row| row.as_str().unwrap().to_owned()).collect()
    };
    let expected = rows(1000, Access::Items);
    for page_size in [1, 2, 1000] {
        assert_eq!(rows(page_size, Access::Index), expected, "{text} in pages of {page_size}");
    }
    expected
}
