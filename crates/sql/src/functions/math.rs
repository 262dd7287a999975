//! math.

use super::{Context, Function};
use armilla_model::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::exact("ABS", 1, later),
    Function::exact("ACOS", 1, later),
    Function::exact("ASIN", 1, later),
    Function::exact("ATAN", 1, later),
    Function::exact("ATN2", 2, later),
    Function::exact("CEILING", 1, later),
    Function::exact("COS", 1, later),
    Function::exact("COT", 1, later),
    Function::exact("DEGREES", 1, later),
    Function::exact("EXP", 1, later),
    Function::exact("FLOOR", 1, later),
    Function::between("LOG", 1, 2, later),
    Function::exact("LOG10", 1, later),
    Function::between("NUMBERBIN", 1, 2, later),
    Function::exact("PI", 0, later),
    Function::exact("POWER", 2, later),
    Function::exact("RADIANS", 1, later),
    Function::exact("RAND", 0, later),
    Function::exact("ROUND", 1, later),
    Function::exact("SIGN", 1, later),
    Function::exact("SIN", 1, later),
    Function::exact("SQRT", 1, later),
    Function::exact("SQUARE", 1, later),
    Function::exact("TAN", 1, later),
    Function::exact("TRUNC", 1, later),
];

fn later(_: &mut Context<'_>, _: &[Value]) -> Value {
    Value::Undefined
}
