//! What the vectors expect of an answer.

use armilla_model::Value;

/// The text of a refusal has the words that are expected.
pub(crate) fn check_error(text: &str, expected: &Value) -> Result<(), String> {
    let contains = expected.get("contains").and_then(Value::as_str).unwrap_or("");
    let found = text.to_lowercase().contains(&contains.to_lowercase());
    if found { Ok(()) } else { Err(format!("{text} does not contain {contains}")) }
}

/// The rows are those that a vector expects, in order or as a set.
pub(crate) fn check_rows(rows: &[Value], query: &Value, unordered: bool) -> Result<(), String> {
    let expected = query.get("expect").and_then(Value::as_array).unwrap();
    let tolerance = query.get("tolerance").and_then(Value::as_f64).unwrap_or(1e-9);
    let same = |left: &Value, right: &Value| close(left, right, tolerance);
    let equal = if unordered {
        let mut left: Vec<_> = rows.iter().collect();
        rows.len() == expected.len()
            && expected.iter().all(|wanted| {
                let position = left.iter().position(|row| same(row, wanted));
                position.map(|position| left.remove(position)).is_some()
            })
    } else {
        rows.len() == expected.len()
            && rows.iter().zip(expected).all(|(row, wanted)| same(row, wanted))
    };
    let list = |rows: &[Value]| Value::array(rows.to_vec());
    if equal {
        Ok(())
    } else {
        Err(format!("expected {}\n    found    {}", list(expected), list(rows)))
    }
}

fn close(left: &Value, right: &Value, tolerance: f64) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            let (left, right) = (left.as_f64(), right.as_f64());
            left == right || (left - right).abs() <= tolerance * left.abs().max(right.abs())
        }
        // Numbers JSON has not are printed by name.
        (Value::Number(left), Value::String(right)) => left.to_string() == format!("\"{right}\""),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left.iter().zip(right.iter()).all(|(l, r)| close(l, r, tolerance))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(name, value)| {
                    right.get(name).is_some_and(|other| close(value, other, tolerance))
                })
        }
        _ => left == right,
    }
}
