//! spatial.

use super::{Context, Function};
use armilla_model::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::exact("ST_DISTANCE", 2, later),
    Function::exact("ST_WITHIN", 2, later),
    Function::exact("ST_INTERSECTS", 2, later),
    Function::exact("ST_AREA", 1, later),
    Function::exact("ST_ISVALID", 1, later),
    Function::exact("ST_ISVALIDDETAILED", 1, later),
];

fn later(_: &mut Context<'_>, _: &[Value]) -> Value {
    Value::Undefined
}
