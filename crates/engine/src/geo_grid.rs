//! A grid over the globe: where shapes are, and which cells a shape can reach.
//!
//! Every point stands in one cell of 1/64 degree. A line or an area stands in the few cells that its
//! bounds touch, on the finest of several coarser grids where they are few; edges are arcs, and their
//! bounds reach as far towards the poles as the arcs bulge. Whatever cannot be bounded stands
//! *everywhere*: shapes at the antimeridian or as large as continents, areas around a pole or turned
//! inside out, and what is no valid shape. A query asks every grid for the cells that a shape covers and for everywhere, and looks at each item it
//! finds; so the grids may be coarse, and only have to be right in what they leave out. Shapes that they
//! cannot bound with certainty are not asked for: areas turned inside out, anything near a pole or across
//! the antimeridian.

use armilla_index::ValueRange;
use armilla_model::value::Value;
use armilla_sql::access::Spatial;
use armilla_sql::functions::spatial::{Extent, extent};
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
/// The coarser grids: cells of 2, 4, 6 … doublings, up to 16 degrees.
const DOUBLINGS: [u8; 5] = [2, 4, 6, 8, 10];
/// What tells their cells from those of points: no row of the finest grid begins with it.
const COARSE: u8 = 0x40;
/// A shape stands in no more cells than this.
const CELLS_MAX: usize = 16;
/// Shapes wider than this, in degrees, stand everywhere.
const WIDTH_MAX: f64 = 60.0;
/// A little more than is needed, for what rounding takes away.
const MARGIN: f64 = 1e-6;
/// The cell of what is anywhere.
const EVERYWHERE: [u8; 4] = [0xff; 4];

/// A cell's place among the values of a path.
pub(crate) type Cell = Vec<u8>;

/// The cells of a shape in an item; none when it is no shape at all.
pub(crate) fn cells_of(shape: &Value) -> Vec<Cell> {
    if shape.as_object().is_none() {
        return Vec::new();
    }
    let is_point = shape.get("type").and_then(Value::as_str) == Some("Point");
    let place = shape.get("coordinates").filter(|_| is_point).and_then(position);
    let cells = match place {
        Some((longitude, latitude)) if longitude.abs() < 180.0 && latitude.abs() <= 90.0 => {
            Some(vec![cell(row(latitude), column(longitude)).to_vec()])
        }
        Some(_) => None,
        None => Bounds::of(shape).filter(Bounds::is_local).and_then(|bounds| bounds.cells()),
    };
    cells.unwrap_or_else(|| vec![EVERYWHERE.to_vec()])
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
    for doublings in DOUBLINGS {
        let (west, east) = (west >> doublings, east >> doublings);
        ranges.extend((low >> doublings..=high >> doublings).map(|row| {
            let (from, to) = (coarse(doublings, row, west), coarse(doublings, row, east));
            ValueRange::new(Bound::Included(from), Bound::Included(to))
        }));
    }
    ranges.push(ValueRange::exact(EVERYWHERE));
    Some(ranges)
}

fn coarse(doublings: u8, row: u16, column: u16) -> Cell {
    let mut coarse = vec![COARSE + doublings];
    coarse.extend_from_slice(&cell(row, column));
    coarse
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
    /// Around a valid shape that a plain rectangle can hold.
    fn of(shape: &Value) -> Option<Self> {
        match extent(shape) {
            Extent::Nowhere | Extent::Everywhere => None,
            Extent::Within { west, east, south, north } => {
                Self { west, east, south, north }.grown(MARGIN, MARGIN)
            }
        }
    }

    /// True for what is smaller than a continent.
    fn is_local(&self) -> bool {
        self.east - self.west <= WIDTH_MAX
    }

    /// The cells that the rectangle touches, on the finest grid where they are few.
    fn cells(&self) -> Option<Vec<Cell>> {
        let (low, high) = (row(self.south), row(self.north));
        let (west, east) = (column(self.west), column(self.east));
        let count = |doublings: &u8| {
            let rows = usize::from(high >> doublings) - usize::from(low >> doublings) + 1;
            let columns = usize::from(east >> doublings) - usize::from(west >> doublings) + 1;
            rows * columns
        };
        let doublings = DOUBLINGS.into_iter().find(|doublings| count(doublings) <= CELLS_MAX)?;
        let rows = low >> doublings..=high >> doublings;
        let cells = rows.flat_map(|row| {
            let columns = west >> doublings..=east >> doublings;
            columns.map(move |column| coarse(doublings, row, column))
        });
        Some(cells.collect())
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

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_model::json::parse;

    fn point(longitude: f64, latitude: f64) -> Value {
        let text = format!(r#"{{"type":"Point","coordinates":[{longitude},{latitude}]}}"#);
        parse(text.as_bytes()).unwrap()
    }

    fn reaches(test: &Spatial, shape: &Value) -> bool {
        let ranges = reach(test).unwrap();
        assert!(ranges.windows(2).all(|pair| pair[0].end_key() < pair[1].start_key()));
        cells_of(shape).iter().any(|cell| ranges.iter().any(|range| range.contains(cell)))
    }

    trait Keys {
        fn start_key(&self) -> Vec<u8>;
        fn end_key(&self) -> Vec<u8>;
    }

    impl Keys for ValueRange {
        fn start_key(&self) -> Vec<u8> {
            let Bound::Included(key) = &self.start else { panic!("{self:?}") };
            key.clone()
        }

        fn end_key(&self) -> Vec<u8> {
            let Bound::Included(key) = &self.end else { panic!("{self:?}") };
            key.clone()
        }
    }

    fn line(positions: &str) -> Value {
        let text = format!(r#"{{"type":"LineString","coordinates":{positions}}}"#);
        parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_circle_reaches_its_rim_and_not_the_next_town() {
        let near = Spatial::Near { shape: point(9.0, 50.0), distance: 10_000.0 };
        assert!(reaches(&near, &point(9.13, 50.0)));
        assert!(reaches(&near, &point(9.0, 49.915)));
        assert!(!reaches(&near, &point(9.4, 50.0)));
    }

    #[test]
    fn lines_and_areas_stand_where_they_are() {
        let near = Spatial::Near { shape: point(9.0, 50.0), distance: 10_000.0 };
        assert!(reaches(&near, &line("[[8.5,49.5],[9.5,50.5]]")));
        assert!(reaches(&near, &line("[[-10,40],[30,55]]")));
        assert!(!reaches(&near, &line("[[0,0],[1,1]]")));
        // The great circle between two places on one parallel passes north of it.
        let north = Spatial::Near { shape: point(15.0, 51.0), distance: 1_000.0 };
        assert!(reaches(&north, &line("[[0,50],[30,50]]")));
        assert_eq!(cells_of(&line("[[-100,0],[100,1]]")), [EVERYWHERE]);
        assert_eq!(cells_of(&line("[[170,0],[-170,1]]")), [EVERYWHERE]);
        let area = |ring: &str| {
            let text = format!(r#"{{"type":"Polygon","coordinates":[{ring}]}}"#);
            parse(text.as_bytes()).unwrap()
        };
        let (left, right) = ("[[0,0],[2,0],[2,2],[0,2],[0,0]]", "[[0,0],[0,2],[2,2],[2,0],[0,0]]");
        let inside = Spatial::Intersects(area("[[1,1],[1.5,1],[1.5,1.5],[1,1]]"));
        assert!(reaches(&inside, &area(left)) && !reaches(&near, &area(left)));
        assert_eq!(cells_of(&area(right)), [EVERYWHERE], "all but a hole is everywhere");
        assert!(cells_of(&area(left)).len() <= CELLS_MAX);
    }

    #[test]
    fn what_cannot_be_bounded_is_not_asked_for() {
        let clockwise = br#"{"type":"Polygon","coordinates":[[[0,0],[0,1],[1,1],[1,0],[0,0]]]}"#;
        assert!(reach(&Spatial::Intersects(parse(clockwise).unwrap())).is_none());
        for (shape, distance) in [(point(179.99, 0.0), 5000.0), (point(0.0, 85.0), 1.0)] {
            assert!(reach(&Spatial::Near { shape, distance }).is_none());
        }
        assert_eq!(cells_of(&point(180.0, 0.0)), [EVERYWHERE]);
        assert!(cells_of(&Value::from("x")).is_empty());
    }
}
