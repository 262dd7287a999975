//! integer.

use super::{Context, Function};
use armilla_model::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::exact("INTADD", 2, later),
    Function::exact("INTSUB", 2, later),
    Function::exact("INTMUL", 2, later),
    Function::exact("INTDIV", 2, later),
    Function::exact("INTMOD", 2, later),
    Function::exact("INTBITAND", 2, later),
    Function::exact("INTBITOR", 2, later),
    Function::exact("INTBITXOR", 2, later),
    Function::exact("INTBITLEFTSHIFT", 2, later),
    Function::exact("INTBITRIGHTSHIFT", 2, later),
    Function::exact("INTBITNOT", 1, later),
];

fn later(_: &mut Context<'_>, _: &[Value]) -> Value {
    Value::Undefined
}
