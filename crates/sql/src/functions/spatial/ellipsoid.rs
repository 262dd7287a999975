//! Lengths and areas on the WGS-84 ellipsoid, after Karney.

use super::shape::Shape;
use geo::{Coord, CoordsIter, GeodesicArea, Geometry, Line};
use geographiclib_rs::{Geodesic, InverseGeodesic};

/// Arcs measured or passed over together; the square root of the most positions a shape may have.
const STRETCH_ARCS: usize = 64;
/// Area of the ellipsoid in square metres.
const EARTH_AREA: f64 = 510_065_621_724_078.9;

/// Square metres; 0 for points and lines.
pub(super) fn area(shape: &Shape) -> f64 {
    let area = match &shape.geometry {
        Geometry::Polygon(polygon) => polygon.geodesic_area_unsigned(),
        Geometry::MultiPolygon(polygons) => polygons.geodesic_area_unsigned(),
        _ => 0.0,
    };
    if shape.outside { EARTH_AREA - area } else { area }
}

/// Metres between two shapes that do not touch.
///
/// Which two positions are nearest is decided on the sphere; the way between them is measured on
/// the ellipsoid. Near the shortest way a small error of place is an error of second order in length.
pub(super) fn distance(left: &Shape, right: &Shape) -> Option<f64> {
    if let (Geometry::Point(left), Geometry::Point(right)) = (&left.geometry, &right.geometry) {
        return Some(metres(left.0, right.0));
    }
    let (left, right) = (Outline::of(left), Outline::of(right));
    let mut nearest = Nearest { square: f64::INFINITY, ends: None };
    nearest.search(&left, &right);
    nearest.search(&right, &left);
    let (from, to) = nearest.ends?;
    Some(metres(from.position(), to.position()))
}

fn metres(from: Coord, to: Coord) -> f64 {
    Geodesic::wgs84().inverse(from.y, from.x, to.y, to.x)
}

// A place on the unit sphere.
#[derive(Clone, Copy)]
struct Direction([f64; 3]);

struct Arc {
    start: Direction,
    end: Direction,
    // At right angles to the plane of the arc; zero length when the arc has none.
    normal: Direction,
}

// Arcs that follow each other, and a ball that holds them: what is farther from the ball than the
// best so far need not be measured arc by arc.
struct Stretch {
    arcs: Vec<Arc>,
    centre: Direction,
    radius: f64,
}

struct Outline {
    corners: Vec<Direction>,
    stretches: Vec<Stretch>,
}

struct Nearest {
    square: f64,
    ends: Option<(Direction, Direction)>,
}

impl Outline {
    fn of(shape: &Shape) -> Self {
        let corners = shape.geometry.coords_iter().map(Direction::of).collect();
        let stretches = shape.edges().chunks(STRETCH_ARCS).filter_map(Stretch::of).collect();
        Self { corners, stretches }
    }
}

impl Nearest {
    // From each corner of one outline to each arc of the other, or to its corners if it has no arcs.
    fn search(&mut self, from: &Outline, to: &Outline) {
        for corner in &from.corners {
            for stretch in &to.stretches {
                if corner.square_to(stretch.centre).sqrt() - stretch.radius > self.square.sqrt() {
                    continue;
                }
                stretch.arcs.iter().for_each(|arc| self.offer(*corner, arc.nearest(*corner)));
            }
            if to.stretches.is_empty() {
                to.corners.iter().for_each(|other| self.offer(*corner, *other));
            }
        }
    }

    fn offer(&mut self, from: Direction, to: Direction) {
        let square = from.square_to(to);
        if square < self.square {
            *self = Self { square, ends: Some((from, to)) };
        }
    }
}

impl Stretch {
    fn of(edges: &[Line]) -> Option<Self> {
        let arcs: Vec<Arc> = edges.iter().map(Arc::of).collect();
        let centre = arcs.first()?.start;
        let ends = arcs.iter().flat_map(|arc| [arc.start, arc.end]);
        let square = ends.map(|end| centre.square_to(end)).fold(0.0, f64::max);
        // Beyond a quarter turn an arc may bulge out of a ball that holds its ends.
        let radius = if square < 2.0 { square.sqrt() } else { f64::INFINITY };
        Some(Self { arcs, centre, radius })
    }
}

impl Arc {
    fn of(line: &Line) -> Self {
        let (start, end) = (Direction::of(line.start), Direction::of(line.end));
        Self { start, end, normal: start.cross(end) }
    }

    fn nearest(&self, from: Direction) -> Direction {
        self.foot(from).unwrap_or_else(|| {
            let end_is_nearer = from.square_to(self.end) < from.square_to(self.start);
            if end_is_nearer { self.end } else { self.start }
        })
    }

    // Where the perpendicular from a place meets the arc, if it does.
    fn foot(&self, from: Direction) -> Option<Direction> {
        let length = self.normal.dot(self.normal);
        let share = from.dot(self.normal) / length;
        let foot = Direction(std::array::from_fn(|at| from.0[at] - share * self.normal.0[at]));
        let foot = foot.normalised()?;
        let on_arc = self.start.cross(foot).dot(self.normal) >= 0.0
            && foot.cross(self.end).dot(self.normal) >= 0.0;
        on_arc.then_some(foot)
    }
}

impl Direction {
    fn of(position: Coord) -> Self {
        let (longitude, latitude) = (position.x.to_radians(), position.y.to_radians());
        let radius = latitude.cos();
        Self([radius * longitude.cos(), radius * longitude.sin(), latitude.sin()])
    }

    fn position(self) -> Coord {
        let [x, y, z] = self.0;
        Coord { x: y.atan2(x).to_degrees(), y: z.atan2(x.hypot(y)).to_degrees() }
    }

    fn dot(self, other: Self) -> f64 {
        self.0.iter().zip(other.0).map(|(left, right)| left * right).sum()
    }

    fn cross(self, other: Self) -> Self {
        let ([ax, ay, az], [bx, by, bz]) = (self.0, other.0);
        Self([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx])
    }

    // Square of the chord, which grows with the angle.
    fn square_to(self, other: Self) -> f64 {
        self.0.iter().zip(other.0).map(|(left, right)| (left - right) * (left - right)).sum()
    }

    fn normalised(self) -> Option<Self> {
        let length = self.dot(self).sqrt();
        (length > 0.0).then(|| Self(self.0.map(|part| part / length)))
    }
}
