//! Between strings and other types: nearly JSON one way, compact JSON the other.

mod read;
mod write;

use super::{Context, Function, Kind, STRING_RESULT_MAX, defined, string};
use armilla_model::Value;
use armilla_model::value::Type;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::exact("STRINGTOARRAY", 1, |_, arguments| parsed(arguments, Type::Array))
        .or(&["STRING_TO_ARRAY"])
        .gives(Kind::Array, "The array that the JSON text says."),
    Function::exact("STRINGTOBOOLEAN", 1, |_, arguments| {
        word(arguments, &[("true", true.into()), ("false", false.into())])
    })
    .or(&["STRING_TO_BOOLEAN"])
    .gives(Kind::Bool, "`true` or `false` from its text."),
    Function::exact("STRINGTONULL", 1, |_, arguments| word(arguments, &[("null", Value::Null)]))
        .or(&["STRING_TO_NULL"])
        .gives(Kind::Null, "`null` from its text."),
    Function::exact("STRINGTONUMBER", 1, |_, arguments| parsed(arguments, Type::Number))
        .or(&["STRING_TO_NUMBER"])
        .gives(Kind::Number, "The number that the JSON text says; leading zeros are allowed."),
    Function::exact("STRINGTOOBJECT", 1, |_, arguments| parsed(arguments, Type::Object))
        .or(&["STRING_TO_OBJECT"])
        .gives(Kind::Object, "The object that the JSON text says."),
    Function::exact("TOSTRING", 1, to_string).or(&["TO_STRING"]).gives(
        Kind::String,
        "The value as text: numbers with 15 or 17 digits, arrays and objects as compact JSON.",
    ),
];

fn parsed(arguments: &[Value], kind: Type) -> Value {
    let value = arguments[0].as_str().and_then(read::value_of);
    defined(value.filter(|value| value.kind() == kind))
}

// Unlike the others these two take any white space around them, and nothing else.
fn word(arguments: &[Value], words: &[(&str, Value)]) -> Value {
    let text = arguments[0].as_str().map(|text| text.trim_matches(string::is_white_space));
    defined(words.iter().find(|(word, _)| Some(*word) == text).map(|(_, value)| value.clone()))
}

fn to_string(_: &mut Context<'_>, arguments: &[Value]) -> Value {
    match &arguments[0] {
        Value::Number(number) => write::number_text(*number).into(),
        text @ (Value::String(_) | Value::Undefined) => text.clone(),
        // Values share their parts, so a small query can build one whose text is endless.
        value if !fits(value, &mut { STRING_RESULT_MAX }) => Value::Undefined,
        value => {
            let mut text = Vec::new();
            write::write(value, &mut text);
            defined(String::from_utf8(text).ok())
        }
    }
}

// Counts the least number of bytes the value prints as, down to nothing left.
fn fits(value: &Value, left: &mut usize) -> bool {
    let size = match value {
        Value::String(text) => text.len() + 2,
        _ => 1,
    };
    let Some(rest) = left.checked_sub(size) else { return false };
    *left = rest;
    match value {
        Value::Array(elements) => elements.iter().all(|element| fits(element, left)),
        Value::Object(object) => object.iter().all(|(name, member)| {
            *left = left.saturating_sub(name.len());
            fits(member, left)
        }),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use crate::functions::tests::{check, evaluate};
    use armilla_model::Value;

    #[test]
    fn strings_are_read_as_json() {
        check(&[
            ("STRINGTOARRAY", r#"["[]"]"#, "[]"),
            ("STRINGTOARRAY", r#"["[ \"coats\", 1 ]"]"#, r#"["coats",1]"#),
            ("STRINGTOARRAY", r#"["[ 'coats' ]"]"#, "undefined"),
            ("STRINGTOARRAY", r#"["{}"]"#, "undefined"),
            ("STRINGTOARRAY", "[null]", "undefined"),
            ("STRINGTOARRAY", r#"["[1,]"]"#, "undefined"),
            ("STRINGTOOBJECT", r#"["{\"a\":[1,{\"b\":null}]}"]"#, r#"{"a":[1,{"b":null}]}"#),
            ("STRINGTOOBJECT", r#"["{'price': 27.55}"]"#, "undefined"),
            ("STRINGTOOBJECT", r#"["{\"a\":1,\"a\":2}"]"#, r#"{"a":2}"#),
            ("STRINGTONUMBER", r#"["007"]"#, "7"),
            ("STRINGTONUMBER", r#"["9007199254740993.0"]"#, "9007199254740993"),
            ("STRINGTOARRAY", r#"["[ ] ,"]"#, "[]"),
            ("STRINGTOARRAY", r#"["[\"\n\\ud83d\\ude00\\ud83d\"]"]"#, "[\"\\n😀\u{fffd}\"]"),
            ("STRINGTOBOOLEAN", r#"["true  "]"#, "true"),
            ("STRINGTOBOOLEAN", r#"["  false"]"#, "false"),
            ("STRINGTOBOOLEAN", r#"["TRUE"]"#, "undefined"),
            ("STRINGTOBOOLEAN", "[true]", "undefined"),
            ("STRINGTONULL", r#"["  null  "]"#, "null"),
            ("STRINGTONULL", r#"["NULL"]"#, "undefined"),
            ("STRINGTONUMBER", r#"["   60   "]"#, "60"),
            ("STRINGTONUMBER", r#"["-1.79769e+308"]"#, "-1.79769e308"),
            ("STRINGTONUMBER", r#"["1e2"]"#, "100"),
        ]);
        for text in
            ["0x10", "1,000", "", "Hello", "NaN", "Infinity", "-Infinity", "1e400", "1,,", "1."]
        {
            let number = evaluate("STRINGTONUMBER", &[text.into()]);
            assert!(number.is_undefined(), "{text} was read as {number}");
        }
    }

    #[test]
    fn values_are_written_as_compact_json() {
        check(&[
            ("TOSTRING", "[125]", r#""125""#),
            ("TOSTRING", "[1.0000]", r#""1""#),
            ("TOSTRING", "[0.1234]", r#""0.1234""#),
            ("TOSTRING", "[false]", r#""false""#),
            ("TOSTRING", "[null]", r#""null""#),
            ("TOSTRING", r#"["Hello World"]"#, r#""Hello World""#),
            ("TOSTRING", r#"[[1,"a",null,{"b":true}]]"#, r#""[1,\"a\",null,{\"b\":true}]""#),
            ("TOSTRING", "[2.0495371758495027e18]", r#""2.0495371758495027e+018""#),
            ("TOSTRING", "[-1e300]", r#""-1.0000000000000001e+300""#),
            ("TOSTRING", "[2049537175849502700]", r#""2049537175849502700""#),
            ("TOSTRING", "[1e-7]", r#""1e-007""#),
            ("TOSTRING", "[0.0001]", r#""0.0001""#),
            ("TOSTRING", "[0.3333333333333333]", r#""0.33333333333333331""#),
            ("TOSTRING", "[10000000000000000.5]", r#""10000000000000000""#),
            ("TOSTRING", "[[1e20]]", r#""[1e+020]""#),
        ]);
        for (number, text) in
            [(f64::NAN, "NaN"), (f64::INFINITY, "Infinity"), (f64::NEG_INFINITY, "-Infinity")]
        {
            assert_eq!(evaluate("TOSTRING", &[number.into()]), Value::from(text));
        }
    }

    #[test]
    fn a_value_that_shares_itself_many_times_is_not_written() {
        let mut value = Value::from(1);
        for _ in 0..100 {
            value = Value::array(vec![value.clone(), value]);
        }
        assert!(evaluate("TOSTRING", &[value]).is_undefined());
    }
}
