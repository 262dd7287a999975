//! array.

use super::{Context, Function};
use armilla_model::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::variadic("ARRAY_CONCAT", 2, later),
    Function::between("ARRAY_CONTAINS", 2, 3, later),
    Function::variadic("ARRAY_CONTAINS_ANY", 2, later).seeing_undefined(),
    Function::variadic("ARRAY_CONTAINS_ALL", 2, later).seeing_undefined(),
    Function::exact("ARRAY_LENGTH", 1, later),
    Function::between("ARRAY_SLICE", 2, 3, later),
    Function::exact("ARRAY_SUM", 1, later),
    Function::exact("ARRAY_AVG", 1, later),
    Function::exact("ARRAY_MEDIAN", 1, later),
    Function::exact("ARRAY_MIN", 1, later),
    Function::exact("ARRAY_MAX", 1, later),
];

fn later(_: &mut Context<'_>, _: &[Value]) -> Value {
    Value::Undefined
}
