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
use shape::{Invalid, Shape};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

pub use extent::{Extent, extent};
pub use planar::SHAPE_CROSSINGS_MAX;
pub use shape::SHAPE_POSITIONS_MAX;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::exact("ST_DISTANCE", 2, |context, arguments| {
        defined(pair(context, arguments).and_then(|(left, right)| distance(&left, &right, context)))
    })
    .or(&["_ST_DISTANCE"])
    .by_container()
    .gives(
        Kind::Number,
        "Shortest distance of two shapes in metres, or in the units of the plane.",
    ),
    Function::exact("ST_WITHIN", 2, |context, arguments| {
        defined(pair(context, arguments).and_then(|(left, right)| match (&*left, &*right) {
            (Shape::Plane(left), Shape::Plane(right)) => Some(left.is_within(right)),
            (Shape::Globe(left), Shape::Globe(right)) => {
                left.is_within(right, &mut context.effort).ok()
            }
            _ => None,
        }))
    })
    .or(&["_ST_WITHIN"])
    .by_container()
    .gives(Kind::Bool, "True when the first shape lies within the second."),
    Function::exact("ST_INTERSECTS", 2, |context, arguments| {
        defined(pair(context, arguments).and_then(|(left, right)| match (&*left, &*right) {
            (Shape::Plane(left), Shape::Plane(right)) => Some(left.intersects(right)),
            (Shape::Globe(left), Shape::Globe(right)) => {
                left.intersects(right, &mut context.effort).ok()
            }
            _ => None,
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

/// A value, whether it was read in the plane, and the shape it is.
type Known = (Arc<Object>, bool, Rc<Shape>);

thread_local! {
    /// The last shape at either place of a call. One of the two mostly is a constant of the query, which
    /// then is read and checked once and not for every row.
    static LAST: RefCell<[Option<Known>; 2]> = const { RefCell::new([None, None]) };
}

fn read(context: &mut Context<'_>, value: &Value) -> Result<Shape, Invalid> {
    Shape::read(value, context.geometry, &mut context.effort)
}

fn pair(context: &mut Context<'_>, arguments: &[Value]) -> Option<(Rc<Shape>, Rc<Shape>)> {
    Some((read_again(context, arguments, 0)?, read_again(context, arguments, 1)?))
}

fn read_again(context: &mut Context<'_>, arguments: &[Value], at: usize) -> Option<Rc<Shape>> {
    let Value::Object(object) = &arguments[at] else { return None };
    let same = |(known, planar, shape): &Known| {
        (Arc::ptr_eq(known, object) && *planar == context.geometry).then(|| shape.clone())
    };
    if let Some(shape) = LAST.with_borrow(|last| last[at].as_ref().and_then(same)) {
        return Some(shape);
    }
    let shape = Rc::new(read(context, &arguments[at]).ok()?);
    LAST.with_borrow_mut(|last| last[at] = Some((object.clone(), context.geometry, shape.clone())));
    Some(shape)
}

fn detailed(invalid: Option<Invalid>) -> Value {
    let mut answer = Object::new();
    answer.insert("valid", invalid.is_none().into());
    if let Some(invalid) = invalid {
        answer.insert("reason", invalid.reason().into());
    }
    Value::object(answer)
}

fn distance(left: &Shape, right: &Shape, context: &mut Context<'_>) -> Option<f64> {
    match (left, right) {
        (Shape::Plane(left), Shape::Plane(right)) => left.distance(right),
        (Shape::Globe(left), Shape::Globe(right)) => {
            if left.intersects(right, &mut context.effort).ok()? {
                return Some(0.0);
            }
            Some(ellipsoid::distance(left, right)).filter(|metres| metres.is_finite())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
