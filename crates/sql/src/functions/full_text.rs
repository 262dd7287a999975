//! full_text.

use super::{Context, Function};
use armilla_model::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::exact("FULLTEXTCONTAINS", 2, later),
    Function::variadic("FULLTEXTCONTAINSALL", 2, later),
    Function::variadic("FULLTEXTCONTAINSANY", 2, later),
    Function::exact("_FULLTEXTWORDCOUNT", 1, later),
    Function::exact("_FULLTEXTSCORE", 5, later),
];

fn later(_: &mut Context<'_>, _: &[Value]) -> Value {
    Value::Undefined
}
