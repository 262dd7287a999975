//! convert.

use super::{Context, Function};
use armilla_model::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::exact("STRINGTOARRAY", 1, later),
    Function::exact("STRINGTOOBJECT", 1, later),
    Function::exact("STRINGTOBOOLEAN", 1, later),
    Function::exact("STRINGTONULL", 1, later),
    Function::exact("STRINGTONUMBER", 1, later),
    Function::exact("TOSTRING", 1, later),
];

fn later(_: &mut Context<'_>, _: &[Value]) -> Value {
    Value::Undefined
}
