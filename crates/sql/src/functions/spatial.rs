//! Spatial functions over GeoJSON points, lines, polygons and multi-polygons.
//!
//! On the globe edges are great elliptic arcs of the WGS-84 ellipsoid, in metres; an area is what lies
//! to the left of its rings, so that a clockwise exterior ring means the outside. Containers of
//! geometry have straight edges in a plane instead, and rings in either direction.

mod ellipsoid;
mod extent;
mod planar;
mod region;
mod shape;
mod sphere;
mod validity;

use super::{Context, Function, Kind, defined};
use armilla_model::{Object, Value};
use planar::Plane;
use region::Figure;
use shape::{Invalid, Shape};

pub use extent::{Extent, extent};
pub use planar::SHAPE_CROSSINGS_MAX;
pub use shape::SHAPE_POSITIONS_MAX;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::exact("ST_DISTANCE", 2, |context, arguments| {
        defined(pair(context, arguments).and_then(|pair| distance(&pair, context)))
    })
    .or(&["_ST_DISTANCE"])
    .by_container()
    .gives(
        Kind::Number,
        "Shortest distance of two shapes in metres, or in the units of the plane.",
    ),
    Function::exact("ST_WITHIN", 2, |context, arguments| {
        defined(pair(context, arguments).and_then(|pair| match pair {
            Pair::Plane(left, right) => Some(left.is_within(&right)),
            Pair::Globe(left, right) => left.is_within(&right, &mut context.effort).ok(),
        }))
    })
    .or(&["_ST_WITHIN"])
    .by_container()
    .gives(Kind::Bool, "True when the first shape lies within the second."),
    Function::exact("ST_INTERSECTS", 2, |context, arguments| {
        defined(pair(context, arguments).and_then(|pair| match pair {
            Pair::Plane(left, right) => Some(left.intersects(&right)),
            Pair::Globe(left, right) => left.intersects(&right, &mut context.effort).ok(),
        }))
    })
    .or(&["_ST_INTERSECTS"])
    .by_container()
    .gives(Kind::Bool, "True when the shapes have a point in common."),
    Function::exact("ST_AREA", 1, |context, arguments| {
        defined(read(context, &arguments[0]).ok().map(|shape| match shape {
            Shape::Plane(plane) => plane.area(),
            Shape::Globe(figure) => ellipsoid::area(&figure),
        }))
    })
    .by_container()
    .gives(
        Kind::Number,
        "Area of a shape in square metres (of the plane for geometry containers).",
    ),
    Function::exact("ST_ISVALID", 1, |context, arguments| {
        read(context, &arguments[0]).is_ok().into()
    })
    .seeing_undefined()
    .by_container()
    .gives(Kind::Bool, "True for a valid GeoJSON point, line, polygon or multi-polygon."),
    Function::exact("ST_ISVALIDDETAILED", 1, |context, arguments| {
        detailed(read(context, &arguments[0]).err())
    })
    .seeing_undefined()
    .by_container()
    .gives(Kind::Object, "Whether a shape is valid, and if not, why."),
];

/// Two shapes of one kind of container.
enum Pair {
    Plane(Plane, Plane),
    Globe(Figure, Figure),
}

fn read(context: &mut Context<'_>, value: &Value) -> Result<Shape, Invalid> {
    Shape::read(value, context.geometry, &mut context.effort)
}

fn pair(context: &mut Context<'_>, arguments: &[Value]) -> Option<Pair> {
    match (read(context, &arguments[0]).ok()?, read(context, &arguments[1]).ok()?) {
        (Shape::Plane(left), Shape::Plane(right)) => Some(Pair::Plane(left, right)),
        (Shape::Globe(left), Shape::Globe(right)) => Some(Pair::Globe(left, right)),
        _ => None,
    }
}

fn detailed(invalid: Option<Invalid>) -> Value {
    let mut answer = Object::new();
    answer.insert("valid", invalid.is_none().into());
    if let Some(invalid) = invalid {
        answer.insert("reason", invalid.reason().into());
    }
    Value::object(answer)
}

fn distance(pair: &Pair, context: &mut Context<'_>) -> Option<f64> {
    match pair {
        Pair::Plane(left, right) => left.distance(right),
        Pair::Globe(left, right) => match left.intersects(right, &mut context.effort).ok()? {
            true => Some(0.0),
            false => Some(ellipsoid::distance(left, right)).filter(|metres| metres.is_finite()),
        },
    }
}

#[cfg(test)]
mod tests;
