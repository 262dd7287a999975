//! The text of values, as `TOSTRING` writes it: compact JSON but for numbers, which C prints.

use armilla_model::json::write_string;
use armilla_model::{Number, Value};

/// From here on doubles have 17 digits.
const SHORT_MAX: f64 = 1e15;
/// Fewest digits of an exponent. The number of them is the platform's; the service's answers have three.
const EXPONENT_DIGITS_MIN: usize = 3;

/// The number as it is written alone; inside of others the sign of a zero is left out.
pub(super) fn number_text(number: Number) -> String {
    match number {
        Number::Int(int) => int.to_string(),
        Number::Float(float) if float.is_nan() => "NaN".to_owned(),
        Number::Float(f64::INFINITY) => "Infinity".to_owned(),
        Number::Float(f64::NEG_INFINITY) => "-Infinity".to_owned(),
        Number::Float(float) => {
            let short = general(float, 15);
            if float.abs() < SHORT_MAX && short.parse() == Ok(float) {
                return short;
            }
            general(float, 17)
        }
    }
}

/// Appends the text of an array, an object or what is in one.
pub(super) fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Number(Number::Float(0.0)) => out.push(b'0'),
        Value::Number(number) => out.extend_from_slice(number_text(*number).as_bytes()),
        Value::String(text) => write_string(text, out),
        Value::Array(elements) => {
            out.push(b'[');
            for (at, element) in elements.iter().filter(|element| element.is_defined()).enumerate()
            {
                if at > 0 {
                    out.push(b',');
                }
                write(element, out);
            }
            out.push(b']');
        }
        Value::Object(object) => {
            out.push(b'{');
            let members = object.iter().filter(|(_, member)| member.is_defined());
            for (at, (name, member)) in members.enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_string(name, out);
                out.push(b':');
                write(member, out);
            }
            out.push(b'}');
        }
        other => other.write_json(out),
    }
}

/// C's `%.*g`: so many digits, an exponent where it is below -4 or not below the digits, no zeros at
/// the end.
fn general(float: f64, digits: usize) -> String {
    let text = format!("{float:.*e}", digits - 1);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let places = i32::try_from(digits).unwrap_or(i32::MAX);
    if (-4..places).contains(&exponent) {
        let decimals = usize::try_from(places - 1 - exponent).unwrap_or(0);
        return without_zeros(&format!("{float:.decimals$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    let exponent = exponent.unsigned_abs();
    format!("{}e{sign}{exponent:0EXPONENT_DIGITS_MIN$}", without_zeros(mantissa))
}

fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}
