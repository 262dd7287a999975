//! string.

use super::{Context, Function};
use armilla_model::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::variadic("CONCAT", 2, later),
    Function::between("CONTAINS", 2, 3, later),
    Function::between("STARTSWITH", 2, 3, later),
    Function::between("ENDSWITH", 2, 3, later),
    Function::between("STRINGEQUALS", 2, 3, later),
    Function::variadic("CONTAINS_ANY_CS", 2, later).seeing_undefined(),
    Function::variadic("CONTAINS_ANY_CI", 2, later).seeing_undefined(),
    Function::variadic("CONTAINS_ALL_CS", 2, later).seeing_undefined(),
    Function::variadic("CONTAINS_ALL_CI", 2, later).seeing_undefined(),
    Function::between("INDEX_OF", 2, 3, later),
    Function::between("LASTINDEXOF", 2, 3, later),
    Function::exact("LEFT", 2, later),
    Function::exact("RIGHT", 2, later),
    Function::exact("LENGTH", 1, later),
    Function::exact("LOWER", 1, later),
    Function::exact("UPPER", 1, later),
    Function::between("TRIM", 1, 2, later),
    Function::between("LTRIM", 1, 2, later),
    Function::between("RTRIM", 1, 2, later),
    Function::between("REGEXMATCH", 2, 3, later),
    Function::exact("REPLACE", 3, later),
    Function::exact("REPLICATE", 2, later),
    Function::exact("REVERSE", 1, later),
    Function::exact("SUBSTRING", 3, later),
    Function::exact("STRINGJOIN", 2, later),
    Function::exact("STRINGSPLIT", 2, later),
];

fn later(_: &mut Context<'_>, _: &[Value]) -> Value {
    Value::Undefined
}
