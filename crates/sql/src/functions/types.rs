//! Type checks. They see undefined and always answer true or false.

use super::{Function, Kind, date_time};
use armilla_model::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    test("IS_ARRAY", |_, arguments| (arguments[0].as_array().is_some()).into())
        .or(&["ISARRAY"])
        .gives(Kind::Bool, "True for an array."),
    test("IS_BOOL", |_, arguments| (arguments[0].as_bool().is_some()).into())
        .or(&["ISBOOL", "IS_BOOLEAN", "ISBOOLEAN"])
        .gives(Kind::Bool, "True for `true` and `false`."),
    test("IS_DATETIME", |_, arguments| is_date_time(&arguments[0]).into())
        .or(&["ISDATETIME"])
        .gives(Kind::Bool, "True for a string that the date functions read."),
    test("IS_DEFINED", |_, arguments| (arguments[0].is_defined()).into())
        .or(&["ISDEFINED"])
        .gives(Kind::Bool, "True for any value, `null` too."),
    test("IS_FINITE_NUMBER", |_, arguments| {
        (arguments[0].as_f64().is_some_and(f64::is_finite)).into()
    })
    .or(&["ISFINITENUMBER"])
    .gives(Kind::Bool, "True for a number other than NaN and the infinities."),
    test("IS_INTEGER", |_, arguments| (arguments[0].as_i64().is_some()).into())
        .or(&["ISINTEGER"])
        .gives(Kind::Bool, "True for a 64-bit integer, or a double without fraction up to 2^53-1."),
    test("IS_NULL", |_, arguments| matches!(arguments[0], Value::Null).into())
        .or(&["ISNULL"])
        .gives(Kind::Bool, "True for `null`."),
    test("IS_NUMBER", |_, arguments| (arguments[0].as_number().is_some()).into())
        .or(&["ISNUMBER"])
        .gives(Kind::Bool, "True for a number, NaN and the infinities too."),
    test("IS_OBJECT", |_, arguments| (arguments[0].as_object().is_some()).into())
        .or(&["ISOBJECT"])
        .gives(Kind::Bool, "True for an object."),
    test("IS_PRIMITIVE", |_, arguments| is_primitive(&arguments[0]).into())
        .or(&["ISPRIMITIVE"])
        .gives(Kind::Bool, "True for `null`, a boolean, a number or a string."),
    test("IS_STRING", |_, arguments| (arguments[0].as_str().is_some()).into())
        .or(&["ISSTRING"])
        .gives(Kind::Bool, "True for a string."),
];

const fn test(name: &'static str, call: super::Call) -> Function {
    Function::exact(name, 1, call).seeing_undefined()
}

fn is_primitive(value: &Value) -> bool {
    matches!(value, Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_))
}

fn is_date_time(value: &Value) -> bool {
    value.as_str().and_then(date_time::parse).is_some()
}

#[cfg(test)]
mod tests {
    use crate::functions::tests::{check, evaluate};
    use armilla_model::Value;

    // One argument of each type, and who says yes to it.
    #[test]
    fn each_type_has_its_checks() {
        let yes: &[(&str, &[&str])] = &[
            ("null", &["NULL", "PRIMITIVE", "DEFINED"]),
            ("true", &["BOOL", "PRIMITIVE", "DEFINED"]),
            ("5.0", &["NUMBER", "FINITE_NUMBER", "INTEGER", "PRIMITIVE", "DEFINED"]),
            ("5.5", &["NUMBER", "FINITE_NUMBER", "PRIMITIVE", "DEFINED"]),
            (
                "9223372036854775807",
                &["NUMBER", "FINITE_NUMBER", "INTEGER", "PRIMITIVE", "DEFINED"],
            ),
            ("18446744073709551615", &["NUMBER", "FINITE_NUMBER", "PRIMITIVE", "DEFINED"]),
            (r#""5""#, &["STRING", "PRIMITIVE", "DEFINED"]),
            (r#""2024-12-12""#, &["STRING", "DATETIME", "PRIMITIVE", "DEFINED"]),
            ("[1]", &["ARRAY", "DEFINED"]),
            (r#"{"a":1}"#, &["OBJECT", "DEFINED"]),
        ];
        for function in super::FUNCTIONS {
            for (argument, names) in yes {
                let expected = names.contains(&&function.name["IS_".len()..]);
                check(&[(function.name, &format!("[{argument}]"), &expected.to_string())]);
            }
            assert_eq!(evaluate(function.name, &[Value::Undefined]), Value::Bool(false));
        }
    }

    #[test]
    fn infinity_and_nan_are_numbers_but_not_finite() {
        for number in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            assert_eq!(evaluate("IS_NUMBER", &[number.into()]), Value::Bool(true));
            assert_eq!(evaluate("IS_FINITE_NUMBER", &[number.into()]), Value::Bool(false));
            assert_eq!(evaluate("IS_INTEGER", &[number.into()]), Value::Bool(false));
        }
    }
}
