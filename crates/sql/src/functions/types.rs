//! Type checks. They see undefined and always answer true or false.

use super::{Function, date_time};
use armilla_model::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    test("IS_ARRAY", |_, arguments| (arguments[0].as_array().is_some()).into()),
    test("IS_BOOL", |_, arguments| (arguments[0].as_bool().is_some()).into()),
    test("IS_DATETIME", |_, arguments| is_date_time(&arguments[0]).into()),
    test("IS_DEFINED", |_, arguments| (arguments[0].is_defined()).into()),
    test("IS_FINITE_NUMBER", |_, arguments| {
        (arguments[0].as_f64().is_some_and(f64::is_finite)).into()
    }),
    test("IS_INTEGER", |_, arguments| (arguments[0].as_i64().is_some()).into()),
    test("IS_NULL", |_, arguments| matches!(arguments[0], Value::Null).into()),
    test("IS_NUMBER", |_, arguments| (arguments[0].as_number().is_some()).into()),
    test("IS_OBJECT", |_, arguments| (arguments[0].as_object().is_some()).into()),
    test("IS_PRIMITIVE", |_, arguments| is_primitive(&arguments[0]).into()),
    test("IS_STRING", |_, arguments| (arguments[0].as_str().is_some()).into()),
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
