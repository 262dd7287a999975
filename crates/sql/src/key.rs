//! Values as byte strings that are equal exactly when the values are.
//!
//! GROUP BY and DISTINCT keep their keys in hash maps; the language's equality (numbers by value,
//! objects as unordered maps, `undefined` a value of its own) is that of these bytes; but all NaN are
//! one. They do not sort as values sort.

use armilla_model::Value;
use armilla_model::ordered::number_bytes;

/// Appends the key of a value. Keys of several values may be appended one after the other.
pub fn write_key(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Undefined => out.push(0),
        Value::Null => out.push(1),
        Value::Bool(bool) => out.push(2 + u8::from(*bool)),
        Value::Number(number) => {
            let (floor, above) = number.floor();
            out.push(if above == 0 { 4 } else { 8 });
            out.extend_from_slice(&number_bytes(floor));
            if above > 0 {
                out.extend_from_slice(&above.to_be_bytes());
            }
        }
        Value::String(text) => {
            out.push(5);
            write_text(text, out);
        }
        Value::Array(elements) => {
            out.push(6);
            write_length(elements.len(), out);
            elements.iter().for_each(|element| write_key(element, out));
        }
        Value::Object(object) => {
            let defined = object.iter().filter(|(_, value)| value.is_defined());
            let mut members: Vec<_> = defined.collect();
            members.sort_by_key(|(name, _)| *name);
            out.push(7);
            write_length(members.len(), out);
            for (name, value) in members {
                write_text(name, out);
                write_key(value, out);
            }
        }
    }
}

/// The key of one value.
pub fn key(value: &Value) -> Box<[u8]> {
    let mut out = Vec::new();
    write_key(value, &mut out);
    out.into()
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    write_length(text.len(), out);
    out.extend_from_slice(text.as_bytes());
}

fn write_length(length: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&(length as u64).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_model::json::parse;

    #[test]
    fn keys_are_equal_when_values_are() {
        let texts = [
            "null",
            "false",
            "true",
            "0",
            "-0",
            "1",
            "1.0",
            r#""1""#,
            "9007199254740992",
            "9007199254740992.0",
            "9007199254740993",
            "9223372036854775807",
            "9223372036854775808",
            "[9007199254740993]",
            "[1]",
            "[[1]]",
            "[]",
            "{}",
            r#"{"a":1,"b":2}"#,
            r#"{"b":2.0,"a":1}"#,
            r#"["a","b"]"#,
            r#"["ab"]"#,
        ];
        let values: Vec<_> = texts.iter().map(|text| parse(text.as_bytes()).unwrap()).collect();
        for left in &values {
            for right in &values {
                assert_eq!(key(left) == key(right), left == right, "{left} and {right}");
            }
        }
    }
}
