//! A grid over the globe: where points are, and which cells a shape can reach.
//!
//! Every point stands in one cell of 1/64 degree. Whatever is not a plain point inside the grid stands
//! *everywhere*: lines, areas, shapes at the antimeridian. A query asks for the cells that a shape
//! covers and for everywhere, and looks at each item it finds; so the grid may be coarse, and only
//! has to be right in what it leaves out. Shapes that it cannot bound with certainty are not asked
//! for: areas turned inside out, anything near a pole or across the antimeridian.

use armilla_index::ValueRange;
use armilla_model::value::Value;
use armilla_sql::access::Spatial;
use std::ops::Bound;

/// Cells per degree.
const PER_DEGREE: f64 = 64.0;
/// Bounds with more rows of cells than this take whole rows.
const ROWS_MAX: u16 = 1024;
/// Latitudes beyond this are not asked for by distance.
const LATITUDE_MAX: f64 = 80.0;
/// The smallest radius of curvature of the ellipsoid, in metres: angles come out too large rather
/// than too small.
const RADIUS_MIN: f64 = 6_335_000.0;
/// A little more than is needed, for what rounding takes away.
const MARGIN: f64 = 1e-6;
/// The cell of what is anywhere.
const EVERYWHERE: [u8; 4] = [0xff; 4];

/// The cell of a shape in an item; nothing when it is no shape at all.
pub(crate) fn cell_of(shape: &Value) -> Option<[u8; 4]> {
    shape.as_object()?;
    let is_point = shape.get("type").and_then(Value::as_str) == Some("Point");
    let place = shape.get("coordinates").filter(|_| is_point).and_then(position);
    Some(match place {
        Some((longitude, latitude)) if longitude.abs() < 180.0 && latitude.abs() <= 90.0 => {
            cell(row(latitude), column(longitude))
        }
        _ => EVERYWHERE,
    })
}

/// The cells that may hold what a test asks for; nothing when that cannot be told.
pub(crate) fn reach(test: &Spatial) -> Option<Vec<ValueRange>> {
    let bounds = match test {
        Spatial::Intersects(shape) => Bounds::of(shape)?,
        Spatial::Near { shape, distance } => Bounds::around(shape, *distance)?,
    };
    let (low, high) = (row(bounds.south), row(bounds.north));
    let (west, east) = (column(bounds.west), column(bounds.east));
    let between = |from: [u8; 4], to: [u8; 4]| {
        ValueRange::new(Bound::Included(from.to_vec()), Bound::Included(to.to_vec()))
    };
    let mut ranges: Vec<_> = if high - low >= ROWS_MAX {
        vec![between(cell(low, 0), cell(high, u16::MAX - 1))]
    } else {
        (low..=high).map(|row| between(cell(row, west), cell(row, east))).collect()
    };
    ranges.push(ValueRange::exact(EVERYWHERE));
    Some(ranges)
}

fn cell(row: u16, column: u16) -> [u8; 4] {
    let ([a, b], [c, d]) = (row.to_be_bytes(), column.to_be_bytes());
    [a, b, c, d]
}

fn row(latitude: f64) -> u16 {
    ((latitude + 90.0) * PER_DEGREE) as u16
}

fn column(longitude: f64) -> u16 {
    ((longitude + 180.0) * PER_DEGREE) as u16
}

fn position(value: &Value) -> Option<(f64, f64)> {
    let [longitude, latitude, ..] = value.as_array()? else { return None };
    Some((longitude.as_f64()?, latitude.as_f64()?))
}

/// A rectangle of degrees that does not reach around the globe.
struct Bounds {
    west: f64,
    east: f64,
    south: f64,
    north: f64,
}

impl Bounds {
    /// Around a point, a line, or an area whose border runs counter-clockwise.
    fn of(shape: &Value) -> Option<Self> {
        let coordinates = shape.get("coordinates")?;
        let positions = |list: &Value| -> Option<Vec<(f64, f64)>> {
            list.as_array()?.iter().map(position).collect()
        };
        match shape.get("type").and_then(Value::as_str)? {
            "Point" => Self::around_all(&[position(coordinates)?]),
            "LineString" => Self::around_all(&positions(coordinates)?),
            "Polygon" => {
                let ring = positions(coordinates.as_array()?.first()?)?;
                if turns_left(&ring) { Self::around_all(&ring) } else { None }
            }
            _ => None,
        }
    }

    fn around_all(positions: &[(f64, f64)]) -> Option<Self> {
        let &(longitude, latitude) = positions.first()?;
        let point = Self { west: longitude, east: longitude, south: latitude, north: latitude };
        let bounds = positions.iter().fold(point, |bounds, &(longitude, latitude)| Self {
            west: bounds.west.min(longitude),
            east: bounds.east.max(longitude),
            south: bounds.south.min(latitude),
            north: bounds.north.max(latitude),
        });
        bounds.grown(MARGIN, MARGIN)
    }

    /// Around everything closer to a point than some metres.
    fn around(shape: &Value, metres: f64) -> Option<Self> {
        if shape.get("type").and_then(Value::as_str) != Some("Point") {
            return None;
        }
        let (longitude, latitude) = position(shape.get("coordinates")?)?;
        let angle = metres.max(0.0) / RADIUS_MIN;
        if !angle.is_finite() || latitude.abs() + angle.to_degrees() > LATITUDE_MAX {
            return None;
        }
        // The meridians that touch the circle from both sides.
        let beside = (angle.sin() / latitude.to_radians().cos()).asin().to_degrees();
        let point = Self { west: longitude, east: longitude, south: latitude, north: latitude };
        point.grown(beside + MARGIN, angle.to_degrees() + MARGIN)
    }

    /// Larger on all sides, if it then still is a plain rectangle.
    fn grown(self, beside: f64, above: f64) -> Option<Self> {
        let grown = Self {
            west: self.west - beside,
            east: self.east + beside,
            south: self.south - above,
            north: self.north + above,
        };
        let inside = grown.west > -180.0 && grown.east < 180.0 && grown.east - grown.west < 180.0;
        let low = grown.south > -90.0 && grown.north < 90.0;
        (inside && low).then_some(grown)
    }
}

/// True when a ring runs counter-clockwise, by its signed area.
fn turns_left(ring: &[(f64, f64)]) -> bool {
    let steps = ring.iter().zip(ring.iter().skip(1));
    steps.map(|(from, to)| from.0 * to.1 - to.0 * from.1).sum::<f64>() > 0.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_model::json::parse;

    fn point(longitude: f64, latitude: f64) -> Value {
        let text = format!(r#"{{"type":"Point","coordinates":[{longitude},{latitude}]}}"#);
        parse(text.as_bytes()).unwrap()
    }

    fn reaches(test: &Spatial, shape: &Value) -> bool {
        let cell = cell_of(shape).unwrap();
        reach(test).unwrap().iter().any(|range| range.contains(&cell))
    }

    #[test]
    fn a_circle_reaches_its_rim_and_not_the_next_town() {
        let near = Spatial::Near { shape: point(9.0, 50.0), distance: 10_000.0 };
        assert!(reaches(&near, &point(9.13, 50.0)));
        assert!(reaches(&near, &point(9.0, 49.915)));
        assert!(!reaches(&near, &point(9.4, 50.0)));
        let line = parse(br#"{"type":"LineString","coordinates":[[0,0],[1,1]]}"#).unwrap();
        assert!(reaches(&near, &line), "lines are everywhere");
    }

    #[test]
    fn what_cannot_be_bounded_is_not_asked_for() {
        let clockwise = br#"{"type":"Polygon","coordinates":[[[0,0],[0,1],[1,1],[1,0],[0,0]]]}"#;
        assert!(reach(&Spatial::Intersects(parse(clockwise).unwrap())).is_none());
        for (shape, distance) in [(point(179.99, 0.0), 5000.0), (point(0.0, 85.0), 1.0)] {
            assert!(reach(&Spatial::Near { shape, distance }).is_none());
        }
        assert_eq!(cell_of(&point(180.0, 0.0)), Some(EVERYWHERE));
        assert_eq!(cell_of(&Value::from("x")), None);
    }
}
