//! Shapes in the plane, for containers of geometry: straight edges, rings in either direction.

use super::shape::Invalid;
use geo::algorithm::kernels::{Kernel, Orientation, RobustKernel};
use geo::{
    Area, Contains, Coord, Distance, Euclidean, Geometry, InteriorPoint, Intersects, Line,
    LineString, LinesIter, MultiPolygon, Point, Polygon, Relate,
};

/// Most times a line may cross itself.
pub const SHAPE_CROSSINGS_MAX: usize = 4096;
/// Largest coordinate; beyond it sums of squares are no numbers any more.
const COORDINATE_MAX: f64 = 1e150;

/// A valid shape: point, line string, polygon or multi-polygon.
#[derive(Debug)]
pub(super) struct Plane(Geometry);

impl Plane {
    pub(super) fn point(position: Coord) -> Self {
        Self(Point(position).into())
    }

    pub(super) fn distance(&self, other: &Self) -> Option<f64> {
        Some(Euclidean.distance(&self.0, &other.0)).filter(|distance| distance.is_finite())
    }

    pub(super) fn area(&self) -> f64 {
        self.0.unsigned_area()
    }

    pub(super) fn intersects(&self, other: &Self) -> bool {
        self.0.intersects(&other.0)
    }

    pub(super) fn is_within(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Geometry::Point(point), Geometry::Polygon(polygon)) => polygon.contains(point),
            // What crosses a border leaves the area, and what crosses a line is not part of it. Finding
            // that out first bounds the work of relating shapes that cross everywhere.
            _ if self.crosses(other, if other.is_area() { 0 } else { SHAPE_CROSSINGS_MAX }) => {
                false
            }
            _ if self.is_area() && !other.is_area() => false,
            (left, right) => left.relate(right).is_within(),
        }
    }

    fn is_area(&self) -> bool {
        matches!(self.0, Geometry::Polygon(_) | Geometry::MultiPolygon(_))
    }

    /// All edges; none for a point.
    fn edges(&self) -> Vec<Line> {
        match &self.0 {
            Geometry::LineString(line) => line.lines_iter().collect(),
            Geometry::Polygon(polygon) => polygon.lines_iter().collect(),
            Geometry::MultiPolygon(polygons) => polygons.lines_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// True when edges of one shape go through edges of the other more than `most` times.
    fn crosses(&self, other: &Self, most: usize) -> bool {
        let others = other.edges();
        let edges = self.edges();
        let crossings = edges.iter().flat_map(|edge| others.iter().filter(|it| cross(edge, it)));
        crossings.take(most + 1).count() > most
    }
}

fn check(positions: &[Coord], ring: usize) -> Result<(), Invalid> {
    if positions.iter().any(|position| position.x.abs().max(position.y.abs()) > COORDINATE_MAX) {
        return Err(broken());
    }
    if positions.windows(2).all(|pair| pair[0] == pair[1]) {
        return Err(Invalid::new(format!(
            "Not valid because ring ({ring}) of a polygon degenerates to a point."
        )));
    }
    Ok(())
}

fn broken() -> Invalid {
    Invalid::new("Not valid because an invalid polygon or multi-polygon is detected.")
}

/// A line of positions.
pub(super) fn line(positions: Vec<Coord>) -> Result<Plane, Invalid> {
    check(&positions, 1)?;
    let line = LineString(positions);
    if crossings(line.lines_iter().collect(), SHAPE_CROSSINGS_MAX) > SHAPE_CROSSINGS_MAX {
        return Err(broken());
    }
    Ok(Plane(line.into()))
}

/// The rings of one or more polygons.
pub(super) fn area(polygons: Vec<Vec<Vec<Coord>>>) -> Result<Plane, Invalid> {
    let rings = polygons.iter().flatten().enumerate();
    for (at, ring) in rings {
        check(ring, at + 1)?;
    }
    let intersecting =
        || Invalid::new("Not valid because polygon ring (1) intersects itself or some other ring.");
    let mut made = Vec::with_capacity(polygons.len());
    for polygon in polygons {
        let mut rings = polygon.into_iter().map(LineString);
        let Some(exterior) = rings.next() else { return Err(broken()) };
        let mut polygon = Polygon::new(exterior, rings.collect());
        let area = Polygon::new(polygon.exterior().clone(), Vec::new()).signed_area();
        if area < 0.0 {
            polygon.exterior_mut(|ring| ring.0.reverse());
        }
        if area == 0.0 {
            return Err(Invalid::new(
                "Not valid because of two overlapping edges in ring (1) of a polygon.",
            ));
        }
        if crossings(polygon.lines_iter().collect(), 0) > 0 {
            return Err(intersecting());
        }
        made.push(polygon);
    }
    if crossings(made.iter().flat_map(LinesIter::lines_iter).collect(), 0) > 0 {
        return Err(intersecting());
    }
    if !are_nested(&made) {
        return Err(broken());
    }
    Ok(Plane(match made.len() {
        1 => made.remove(0).into(),
        _ => MultiPolygon(made).into(),
    }))
}

/// True when holes lie in their polygons, and no polygon in another. Borders do not cross, so one inner
/// place tells for all.
fn are_nested(polygons: &[Polygon]) -> bool {
    let whole = |ring: &LineString| Polygon::new(ring.clone(), Vec::new());
    let in_place = |polygon: &Polygon| {
        let exterior = whole(polygon.exterior());
        let mut holes = polygon.interiors().iter().filter_map(|hole| whole(hole).interior_point());
        holes.all(|place| exterior.intersects(&place))
    };
    let inner: Vec<Option<Point>> = polygons.iter().map(InteriorPoint::interior_point).collect();
    let apart = |at: usize| {
        let others = inner.iter().enumerate().filter(|(other, _)| *other != at);
        others.filter_map(|(_, place)| *place).all(|place| !polygons[at].contains(&place))
    };
    polygons.iter().all(in_place) && (0..polygons.len()).all(apart)
}

// Counts the pairs of edges that cross, and stops soon after there are more than `most`. Sorted
// from left to right, an edge is compared only with those that begin before it ends.
fn crossings(mut edges: Vec<Line>, most: usize) -> usize {
    let span = |edge: &Line| (edge.start.x.min(edge.end.x), edge.start.x.max(edge.end.x));
    edges.sort_unstable_by(|left, right| span(left).0.total_cmp(&span(right).0));
    let mut count = 0;
    for (at, edge) in edges.iter().enumerate() {
        let end = span(edge).1;
        let near = edges[at + 1..].iter().take_while(|other| span(other).0 <= end);
        count += near.filter(|other| cross(edge, other)).count();
        if count > most {
            break;
        }
    }
    count
}

// True when the edges go through each other; touching with an end is not crossing.
fn cross(left: &Line, right: &Line) -> bool {
    let (left_y, right_y) = ((left.start.y, left.end.y), (right.start.y, right.end.y));
    let apart = left_y.0.max(left_y.1) < right_y.0.min(right_y.1)
        || right_y.0.max(right_y.1) < left_y.0.min(left_y.1);
    !apart && separates(left, right) && separates(right, left)
}

// True when the ends of one edge are on different sides of the other.
fn separates(edge: &Line, other: &Line) -> bool {
    let side = |position| RobustKernel::orient2d(edge.start, edge.end, position);
    let sides = (side(other.start), side(other.end));
    matches!(
        sides,
        (Orientation::Clockwise, Orientation::CounterClockwise)
            | (Orientation::CounterClockwise, Orientation::Clockwise)
    )
}
