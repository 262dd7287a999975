//! set.

use super::{Context, Function};
use armilla_model::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::exact("SETUNION", 2, later),
    Function::exact("SETINTERSECT", 2, later),
    Function::exact("SETDIFFERENCE", 2, later),
    Function::exact("SETEQUAL", 2, later),
];

fn later(_: &mut Context<'_>, _: &[Value]) -> Value {
    Value::Undefined
}
