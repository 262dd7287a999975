//! conditional.

use super::{Context, Function};
use armilla_model::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::exact("IIF", 3, later).seeing_undefined(),
    Function::variadic("CHOOSE", 2, later).seeing_undefined(),
    Function::between("OBJECTTOARRAY", 1, 3, later),
];

fn later(_: &mut Context<'_>, _: &[Value]) -> Value {
    Value::Undefined
}
