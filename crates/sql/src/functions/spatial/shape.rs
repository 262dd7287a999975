//! GeoJSON read and checked.

use armilla_model::Value;
use geo::algorithm::kernels::{Kernel, Orientation, RobustKernel};
use geo::{
    Area, BoundingRect, Coord, Geometry, Line, LineString, LinesIter, MultiPolygon, Point, Polygon,
    Translate,
};

/// Most positions of one shape. The service allows as many per polygon.
pub const SHAPE_POSITIONS_MAX: usize = 4096;
/// Most times a line may cross itself.
pub const SHAPE_CROSSINGS_MAX: usize = 4096;
/// Largest coordinate of planar shapes; beyond it sums of squares lose too many digits.
const COORDINATE_MAX: f64 = 1e12;

/// A valid shape.
#[derive(Debug)]
pub(super) struct Shape {
    /// Point, line string, polygon or multi-polygon. Longitudes of one shape hang together and may
    /// therefore go beyond 180 degrees. Exterior rings run counter-clockwise.
    pub(super) geometry: Geometry,
    /// True when all but the polygon is meant.
    pub(super) outside: bool,
}

/// Why a value is not a shape.
#[derive(Debug)]
pub(super) struct Invalid(pub(super) &'static str);

struct Reader {
    planar: bool,
    positions: usize,
}

impl Shape {
    /// Reads and checks a GeoJSON value, planar or with longitude and latitude.
    pub(super) fn read(value: &Value, planar: bool) -> Result<Self, Invalid> {
        let kind = value.get("type").and_then(Value::as_str);
        let kind = kind.ok_or(Invalid("The value must be a GeoJSON object with a type."))?;
        let coordinates = value.get("coordinates").and_then(Value::as_array);
        let coordinates = coordinates.ok_or(Invalid("The coordinates must be an array."))?;
        let mut reader = Reader { planar, positions: 0 };
        match kind {
            "Point" => Ok(Self::of(Point(reader.position(coordinates)?).into())),
            "LineString" => reader.line(coordinates),
            "Polygon" => {
                let (polygon, outside) = reader.polygon(coordinates)?;
                Ok(Self { geometry: polygon.into(), outside })
            }
            "MultiPolygon" => reader.polygons(coordinates),
            _ => Err(Invalid("The type must be Point, LineString, Polygon or MultiPolygon.")),
        }
    }

    fn of(geometry: Geometry) -> Self {
        Self { geometry, outside: false }
    }

    /// True for polygons and multi-polygons.
    pub(super) fn is_area(&self) -> bool {
        matches!(self.geometry, Geometry::Polygon(_) | Geometry::MultiPolygon(_))
    }

    /// Moves the shape by whole turns to where the other is, across the antimeridian.
    pub(super) fn move_towards(&mut self, other: &Self) {
        let turns = |geometry: &Geometry| geometry.bounding_rect().map(|box_| box_.center().x);
        if let (Some(here), Some(there)) = (turns(&self.geometry), turns(&other.geometry)) {
            let turns = ((there - here) / 360.0).round();
            if turns != 0.0 {
                self.geometry.translate_mut(turns * 360.0, 0.0);
            }
        }
    }

    /// All edges; none for a point.
    pub(super) fn edges(&self) -> Vec<Line> {
        match &self.geometry {
            Geometry::LineString(line) => line.lines_iter().collect(),
            Geometry::Polygon(polygon) => polygon.lines_iter().collect(),
            Geometry::MultiPolygon(polygons) => polygons.lines_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// True when edges of one shape go through edges of the other more than `most` times.
    pub(super) fn crosses(&self, other: &Self, most: usize) -> bool {
        let others = other.edges();
        let edges = self.edges();
        let crossings = edges.iter().flat_map(|edge| others.iter().filter(|it| cross(edge, it)));
        crossings.take(most + 1).count() > most
    }
}

impl Reader {
    fn position(&mut self, position: &[Value]) -> Result<Coord, Invalid> {
        self.positions += 1;
        if self.positions > SHAPE_POSITIONS_MAX {
            return Err(Invalid("The shape has more than 4096 positions."));
        }
        let (Some(x), Some(y)) = (number(position, 0), number(position, 1)) else {
            return Err(Invalid("A position must be an array of at least two numbers."));
        };
        match self.planar {
            true if x.abs().max(y.abs()) > COORDINATE_MAX => {
                Err(Invalid("A coordinate is too large."))
            }
            false if x.abs() > 180.0 => {
                Err(Invalid("Longitude values must be between -180 and 180 degrees."))
            }
            false if y.abs() > 90.0 => {
                Err(Invalid("Latitude values must be between -90 and 90 degrees."))
            }
            _ => Ok(Coord { x, y }),
        }
    }

    // Longitudes are carried on from position to position, so that a step is never more than half
    // a turn: 179, -179 becomes 179, 181.
    fn positions(&mut self, values: &[Value], near: Option<f64>) -> Result<LineString, Invalid> {
        let mut near = near;
        let mut positions = Vec::with_capacity(values.len().min(SHAPE_POSITIONS_MAX));
        for value in values {
            let position = value.as_array();
            let position = position.ok_or(Invalid("A position must be an array."))?;
            let mut position = self.position(position)?;
            if let Some(near) = near.filter(|_| !self.planar) {
                position.x += ((near - position.x) / 360.0).round() * 360.0;
            }
            near = Some(position.x);
            positions.push(position);
        }
        Ok(LineString(positions))
    }

    fn line(&mut self, values: &[Value]) -> Result<Shape, Invalid> {
        let line = self.positions(values, None)?;
        if line.0.len() < 2 {
            return Err(Invalid("A LineString must have at least two positions."));
        }
        if crossings(line.lines_iter().collect(), SHAPE_CROSSINGS_MAX) > SHAPE_CROSSINGS_MAX {
            return Err(Invalid("A LineString crosses itself too many times."));
        }
        Ok(Shape::of(line.into()))
    }

    fn ring(&mut self, value: &Value, near: Option<f64>) -> Result<LineString, Invalid> {
        let values = value.as_array().ok_or(Invalid("A ring must be an array of positions."))?;
        let ring = self.positions(values, near)?;
        if ring.0.len() < 4 {
            return Err(Invalid("A ring must have at least four positions."));
        }
        if values.first() != values.last() {
            return Err(Invalid("A ring must end at the position where it begins."));
        }
        Ok(ring)
    }

    fn polygon(&mut self, values: &[Value]) -> Result<(Polygon, bool), Invalid> {
        let (exterior, interiors) =
            values.split_first().ok_or(Invalid("A Polygon must have an exterior ring."))?;
        let exterior = self.ring(exterior, None)?;
        let near = exterior.0.first().map(|position| position.x);
        let interiors: Result<Vec<_>, _> =
            interiors.iter().map(|ring| self.ring(ring, near)).collect();
        let mut polygon = Polygon::new(exterior, interiors?);
        let area = Polygon::new(polygon.exterior().clone(), Vec::new()).signed_area();
        if area == 0.0 {
            return Err(Invalid("A Polygon must enclose an area."));
        }
        if crossings(polygon.lines_iter().collect(), 0) > 0 {
            return Err(Invalid("The rings of a Polygon must not cross."));
        }
        if area < 0.0 {
            polygon.exterior_mut(|ring| ring.0.reverse());
        }
        Ok((polygon, area < 0.0 && !self.planar))
    }

    // Which side is meant is a question for single polygons; here each is its inside.
    fn polygons(&mut self, values: &[Value]) -> Result<Shape, Invalid> {
        let mut polygons = Vec::new();
        for value in values {
            let rings = value.as_array();
            let rings = rings.ok_or(Invalid("A MultiPolygon must be an array of polygons."))?;
            polygons.push(self.polygon(rings)?.0);
        }
        if polygons.is_empty() {
            return Err(Invalid("A MultiPolygon must have a polygon."));
        }
        if crossings(polygons.iter().flat_map(LinesIter::lines_iter).collect(), 0) > 0 {
            return Err(Invalid("The polygons of a MultiPolygon must not cross."));
        }
        Ok(Shape::of(MultiPolygon(polygons).into()))
    }
}

fn number(position: &[Value], at: usize) -> Option<f64> {
    position.get(at)?.as_f64().filter(|number| number.is_finite())
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
