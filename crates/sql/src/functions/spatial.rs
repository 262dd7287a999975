//! Spatial functions over GeoJSON points, lines, polygons and multi-polygons.
//!
//! Distances and areas are those of the WGS-84 ellipsoid, or of the plane for geometry containers.
//! Whether shapes touch is decided in the plane of longitude and latitude, with shapes that cross
//! the antimeridian moved together first; edges of hundreds of kilometres therefore run a little
//! beside the geodesic. Polygons around a pole are not understood.
//!
//! On the ellipsoid the exterior ring runs counter-clockwise; a clockwise one means the outside.

mod ellipsoid;
mod shape;

use super::{Context, Function, Kind, defined};
use armilla_model::{Object, Value};
use geo::{Area, Contains, Distance, Euclidean, Geometry, Intersects, Relate};
use shape::{Invalid, Shape};

pub use shape::{SHAPE_CROSSINGS_MAX, SHAPE_POSITIONS_MAX};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::exact("ST_DISTANCE", 2, |context, arguments| {
        defined(pair(context, arguments).and_then(|(left, right)| {
            if context.geometry { planar_distance(left, right) } else { distance(left, right) }
        }))
    })
    .or(&["_ST_DISTANCE"])
    .by_container()
    .gives(
        Kind::Number,
        "Shortest distance of two shapes in metres, or in the units of the plane.",
    ),
    Function::exact("ST_WITHIN", 2, |context, arguments| {
        defined(pair(context, arguments).map(|(left, right)| within(&left, &right)))
    })
    .or(&["_ST_WITHIN"])
    .by_container()
    .gives(Kind::Bool, "True when the first shape lies within the second."),
    Function::exact("ST_INTERSECTS", 2, |context, arguments| {
        defined(pair(context, arguments).map(|(left, right)| intersects(&left, &right)))
    })
    .or(&["_ST_INTERSECTS"])
    .by_container()
    .gives(Kind::Bool, "True when the shapes have a point in common."),
    Function::exact("ST_AREA", 1, |context, arguments| {
        defined(Shape::read(&arguments[0], context.geometry).ok().map(|shape| {
            if context.geometry { shape.geometry.unsigned_area() } else { ellipsoid::area(&shape) }
        }))
    })
    .by_container()
    .gives(
        Kind::Number,
        "Area of a shape in square metres (of the plane for geometry containers).",
    ),
    Function::exact("ST_ISVALID", 1, |context, arguments| {
        Shape::read(&arguments[0], context.geometry).is_ok().into()
    })
    .by_container()
    .gives(Kind::Bool, "True for a valid GeoJSON point, line, polygon or multi-polygon."),
    Function::exact("ST_ISVALIDDETAILED", 1, |context, arguments| {
        detailed(Shape::read(&arguments[0], context.geometry).err())
    })
    .by_container()
    .gives(Kind::Object, "Whether a shape is valid, and if not, why."),
];

fn pair(context: &Context<'_>, arguments: &[Value]) -> Option<(Shape, Shape)> {
    let left = Shape::read(&arguments[0], context.geometry).ok()?;
    let mut right = Shape::read(&arguments[1], context.geometry).ok()?;
    if !context.geometry {
        right.move_towards(&left);
    }
    Some((left, right))
}

fn detailed(invalid: Option<Invalid>) -> Value {
    let mut answer = Object::new();
    answer.insert("valid", invalid.is_none().into());
    if let Some(Invalid(reason)) = invalid {
        answer.insert("reason", reason.into());
    }
    Value::object(answer)
}

fn planar_distance(left: Shape, right: Shape) -> Option<f64> {
    Some(Euclidean.distance(&left.geometry, &right.geometry)).filter(|metres| metres.is_finite())
}

fn distance(left: Shape, right: Shape) -> Option<f64> {
    if intersects(&left, &right) { Some(0.0) } else { ellipsoid::distance(&left, &right) }
}

// The outside of a polygon is told by what it leaves out.
fn intersects(left: &Shape, right: &Shape) -> bool {
    match (left.outside, right.outside) {
        (false, false) => left.geometry.intersects(&right.geometry),
        (false, true) => !inside(left, right),
        (true, false) => !inside(right, left),
        (true, true) => true,
    }
}

fn within(left: &Shape, right: &Shape) -> bool {
    match (left.outside, right.outside) {
        (false, false) => inside(left, right),
        (false, true) => !left.geometry.intersects(&right.geometry),
        (true, false) => false,
        (true, true) => inside(right, left),
    }
}

fn inside(left: &Shape, right: &Shape) -> bool {
    match (&left.geometry, &right.geometry) {
        (Geometry::Point(point), Geometry::Polygon(polygon)) => polygon.contains(point),
        // What crosses a border leaves the area, and what crosses a line is not part of it. Finding
        // that out first bounds the work of relating shapes that cross everywhere.
        _ if left.crosses(right, if right.is_area() { 0 } else { SHAPE_CROSSINGS_MAX }) => false,
        _ if left.is_area() && !right.is_area() => false,
        (left, right) => left.relate(right).is_within(),
    }
}

#[cfg(test)]
mod tests;
