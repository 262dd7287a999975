//! types.

use super::{Context, Function};
use armilla_model::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::exact("IS_ARRAY", 1, later).seeing_undefined(),
    Function::exact("IS_BOOL", 1, later).seeing_undefined(),
    Function::exact("IS_DEFINED", 1, later).seeing_undefined(),
    Function::exact("IS_NULL", 1, later).seeing_undefined(),
    Function::exact("IS_NUMBER", 1, later).seeing_undefined(),
    Function::exact("IS_OBJECT", 1, later).seeing_undefined(),
    Function::exact("IS_PRIMITIVE", 1, later).seeing_undefined(),
    Function::exact("IS_STRING", 1, later).seeing_undefined(),
    Function::exact("IS_FINITE_NUMBER", 1, later).seeing_undefined(),
    Function::exact("IS_INTEGER", 1, later).seeing_undefined(),
    Function::exact("IS_DATETIME", 1, later).seeing_undefined(),
];

fn later(_: &mut Context<'_>, _: &[Value]) -> Value {
    Value::Undefined
}
