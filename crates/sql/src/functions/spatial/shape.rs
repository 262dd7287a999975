//! GeoJSON read and checked.

use super::planar::Plane;
use super::region::Figure;
use super::sphere::SpherePoint;
use super::{planar, validity};
use crate::effort::Effort;
use armilla_model::Value;
use geo::Coord;
use std::borrow::Cow;

/// Most positions of one shape.
pub const SHAPE_POSITIONS_MAX: usize = 4097;

/// The one coordinate system that may be named.
const CRS: &str = "urn:ogc:def:crs:OGC:1.3:CRS84";

/// A valid shape.
#[derive(Debug)]
pub(super) enum Shape {
    /// In the plane.
    Plane(Plane),
    /// On the globe.
    Globe(Figure),
}

/// Why a value is not a shape, in the service's words.
#[derive(Debug)]
pub(super) struct Invalid(Cow<'static, str>);

impl Invalid {
    pub(super) fn new(reason: impl Into<Cow<'static, str>>) -> Self {
        Self(reason.into())
    }

    /// The shape takes too many steps to be checked.
    pub(super) fn too_complex() -> Self {
        Self::new("Not valid because an invalid polygon or multi-polygon is detected.")
    }

    /// The words.
    pub(super) fn reason(&self) -> &str {
        &self.0
    }
}

/// The positions of a shape.
enum Positions {
    Point(Coord),
    Line(Vec<Coord>),
    Area(Vec<Vec<Vec<Coord>>>),
}

struct ShapeReader {
    planar: bool,
    positions: usize,
}

impl Shape {
    /// Reads and checks a GeoJSON value, planar or with longitude and latitude.
    pub(super) fn read(
        value: &Value,
        planar: bool,
        effort: &mut Effort<'_>,
    ) -> Result<Self, Invalid> {
        let positions = read(value, planar)?;
        if planar {
            let plane = match positions {
                Positions::Point(position) => Ok(Plane::point(position)),
                Positions::Line(positions) => planar::line(positions),
                Positions::Area(polygons) => planar::area(polygons),
            };
            return plane.map(Self::Plane);
        }
        let place = |position: &Coord| SpherePoint::of(position.x, position.y);
        let places = |positions: &Vec<Coord>| positions.iter().map(place).collect::<Vec<_>>();
        let figure = match positions {
            Positions::Point(position) => Figure::Point(place(&position)),
            Positions::Line(positions) => validity::line(&places(&positions), effort)?,
            Positions::Area(polygons) => {
                let rings = |polygon: &Vec<Vec<Coord>>| polygon.iter().map(places).collect();
                let polygons: Vec<Vec<Vec<SpherePoint>>> = polygons.iter().map(rings).collect();
                validity::area(&polygons, effort)?
            }
        };
        Ok(Self::Globe(figure))
    }
}

fn read(value: &Value, planar: bool) -> Result<Positions, Invalid> {
    let unknown = || Invalid::new("Unable to process the geometry.");
    let kind = value.get("type").and_then(Value::as_str).ok_or_else(unknown)?;
    let coordinates = value.get("coordinates").and_then(Value::as_array).ok_or_else(unknown)?;
    if !["Point", "LineString", "Polygon", "MultiPolygon"].contains(&kind) {
        return Err(unknown());
    }
    if let Some(crs) = value.get("crs").filter(|crs| crs.is_defined()) {
        check_crs(crs)?;
    }
    let mut reader = ShapeReader { planar, positions: 0 };
    match kind {
        "Point" => reader.position(coordinates).map(Positions::Point),
        "LineString" => reader.line(coordinates).map(Positions::Line),
        "Polygon" => Ok(Positions::Area(vec![reader.polygon(coordinates)?])),
        _ => {
            let polygon = |polygon: &Value| {
                let rings = polygon.as_array().ok_or_else(no_rings)?;
                reader.polygon(rings)
            };
            let polygons: Vec<_> = coordinates.iter().map(polygon).collect::<Result<_, _>>()?;
            if polygons.is_empty() {
                return Err(Invalid::new("Empty geometries are not supported."));
            }
            Ok(Positions::Area(polygons))
        }
    }
}

fn check_crs(crs: &Value) -> Result<(), Invalid> {
    let kind = crs.get("type").and_then(Value::as_str);
    let properties = crs.get("properties").filter(|it| it.as_object().is_some());
    let (Some(kind), Some(properties)) = (kind, properties) else {
        return Err(Invalid::new(
            "Invalid Crs. The value of a member named 'crs' must be a JSON object with two mandatory \
             members: 'type' of string type and 'properties' of object type.",
        ));
    };
    if kind == "name" && properties.get("name").and_then(Value::as_str) == Some(CRS) {
        return Ok(());
    }
    Err(Invalid::new(format!("Unsupported Crs. Currently only named Crs '{CRS}' is supported.")))
}

fn no_rings() -> Invalid {
    Invalid::new(
        "A polygon must have array of rings with at least one ring. A ring must be represented as \
         an array of GeoJSON positions.",
    )
}

impl ShapeReader {
    fn position(&mut self, position: &[Value]) -> Result<Coord, Invalid> {
        self.positions += 1;
        if self.positions > SHAPE_POSITIONS_MAX {
            return Err(Invalid::new(
                "Maximum allowed point count per geometry is exceeded. Currently maximum supported \
                 number of points is 4096.",
            ));
        }
        let number = |at: usize| position.get(at).and_then(Value::as_f64);
        let (Some(x), Some(y)) = (number(0), number(1)) else { return Err(no_position()) };
        if !x.is_finite() || !y.is_finite() {
            return Err(Invalid::new(
                "Point coordinates cannot be infinite or not a number (NaN).",
            ));
        }
        if !self.planar && y.abs() > 90.0 {
            return Err(Invalid::new("Latitude values must be between -90 and 90 degrees."));
        }
        if !self.planar && x.abs() > 180.0 {
            return Err(Invalid::new("Longitude values must be between -180 and 180 degrees."));
        }
        Ok(Coord { x, y })
    }

    fn positions(&mut self, values: &[Value]) -> Result<Vec<Coord>, Invalid> {
        if values.is_empty() {
            return Err(Invalid::new("Position array cannot be empty."));
        }
        let position = |value: &Value| self.position(value.as_array().ok_or_else(no_position)?);
        values.iter().map(position).collect()
    }

    fn line(&mut self, values: &[Value]) -> Result<Vec<Coord>, Invalid> {
        let positions = self.positions(values)?;
        if positions.len() < 2 {
            return Err(Invalid::new(
                "The LineString input is not valid because it does not have enough points. A \
                 LineString must have at least two points.",
            ));
        }
        Ok(positions)
    }

    fn polygon(&mut self, values: &[Value]) -> Result<Vec<Vec<Coord>>, Invalid> {
        if values.is_empty() {
            return Err(no_rings());
        }
        let rings = values.iter().enumerate().map(|(at, ring)| {
            let ring = ring.as_array().ok_or_else(no_rings)?;
            self.ring(ring, at + 1)
        });
        rings.collect()
    }

    fn ring(&mut self, values: &[Value], number: usize) -> Result<Vec<Coord>, Invalid> {
        let ring = self.positions(values)?;
        if ring.len() < 4 {
            return Err(Invalid::new(format!(
                "The Polygon input is not valid because the ring number {number} does not have enough \
                 points. Each ring of a polygon must contain at least four points."
            )));
        }
        let closed = ring.first().zip(ring.last()).is_some_and(|(first, last)| {
            let place = |position: &Coord| SpherePoint::of(position.x, position.y);
            first == last || (!self.planar && place(first) == place(last))
        });
        if !closed {
            return Err(Invalid::new(format!(
                "The Polygon input is not valid because the start and end points of the ring number \
                 {number} are not the same. Each ring of a polygon must have the same start and end \
                 points."
            )));
        }
        Ok(ring)
    }
}

fn no_position() -> Invalid {
    Invalid::new(
        "Invalid position. A position must be represented by an array of numbers. There must be at \
         least two elements in the array.",
    )
}
