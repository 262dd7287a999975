//! Values as bytes that sort like the values: the form of index terms and sort positions.
//!
//! ```text
//! undefined 00 │ null 01 │ false 02 │ true 03 │ number 04 + 8 or 10 bytes │ string 05 + UTF-8
//! array 06 (marker only) │ object 07 (marker only)
//! ```
//!
//! A number is its double with the sign bit flipped (all bits for negatives), so bytes order as
//! numbers do. An integer that is no double is the greatest double below it, then in two bytes how
//! far it is above that one: equal bytes are equal numbers, and order stays. A string longer than [`INDEXED_STRING_MAX`] is *cut*: its first bytes, then `FF`,
//! which no UTF-8 text contains. A cut value sorts behind the uncut string of the same bytes and
//! before everything greater; only cut values of the same prefix are left in doubt.

use crate::limits::INDEXED_STRING_MAX;
use crate::number::Number;
use crate::value::{Type, Value};

/// Ends the bytes of a cut string.
pub const CUT: u8 = 0xff;

/// The first byte of a type's encodings.
pub const fn tag(kind: Type) -> u8 {
    match kind {
        Type::Undefined => 0x00,
        Type::Null => 0x01,
        Type::Bool => 0x02,
        Type::Number => 0x04,
        Type::String => 0x05,
        Type::Array => 0x06,
        Type::Object => 0x07,
    }
}

/// Appends the encoding of a scalar, cut where it is long; arrays and objects leave their marker.
pub fn write_term(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Bool(true) => out.push(0x03),
        Value::Number(number) => {
            out.push(tag(Type::Number));
            let (floor, above) = number.floor();
            out.extend_from_slice(&number_bytes(floor));
            if above > 0 {
                out.extend_from_slice(&above.to_be_bytes());
            }
        }
        Value::String(text) => {
            out.push(tag(Type::String));
            let bytes = text.as_bytes();
            if bytes.len() > INDEXED_STRING_MAX {
                out.extend_from_slice(&bytes[..INDEXED_STRING_MAX]);
                out.push(CUT);
            } else {
                out.extend_from_slice(bytes);
            }
        }
        other => out.push(tag(other.kind())),
    }
}

/// The encoding of a scalar, cut where it is long.
pub fn term(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(12);
    write_term(value, &mut out);
    out
}

/// True for the encoding of a string that was cut.
pub fn is_cut(term: &[u8]) -> bool {
    term.last() == Some(&CUT) && term.first() == Some(&tag(Type::String))
}

/// The value an encoding stands for: `None` when the item must be asked (cut strings, arrays,
/// objects, integers that are no doubles) or the bytes are no encoding.
pub fn read_term(term: &[u8]) -> Option<Value> {
    let (&first, rest) = term.split_first()?;
    match first {
        0x00 => Some(Value::Undefined),
        0x01 => Some(Value::Null),
        0x02 => Some(Value::Bool(false)),
        0x03 => Some(Value::Bool(true)),
        0x04 => {
            let double = number_from_bytes(rest.try_into().ok()?);
            let number = Number::Float(double);
            Some(Value::Number(number.as_i64().map_or(number, Number::Int)))
        }
        0x05 if !is_cut(term) => std::str::from_utf8(rest).ok().map(Value::from),
        _ => None,
    }
}

/// A double as bytes that sort like it; `-0` is `0`, and there is one NaN, above all numbers.
pub fn number_bytes(number: f64) -> [u8; 8] {
    let number = if number.is_nan() { f64::NAN } else { number + 0.0 };
    let bits = number.to_bits();
    let ordered = if bits >> 63 == 0 { bits ^ (1 << 63) } else { !bits };
    ordered.to_be_bytes()
}

fn number_from_bytes(bytes: [u8; 8]) -> f64 {
    let ordered = u64::from_be_bytes(bytes);
    f64::from_bits(if ordered >> 63 == 1 { ordered ^ (1 << 63) } else { !ordered })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scalar() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<f64>().prop_filter("finite", |x| x.is_finite()).prop_map(Value::from),
            any::<i32>().prop_map(|x| Value::from(i64::from(x))),
            any::<i64>().prop_map(Value::from),
            // Neighbours of one double.
            (0i64..6, 52u32..63).prop_map(|(x, power)| Value::from((1i64 << power) + x)),
            (0i64..6, 52u32..63).prop_map(|(x, power)| Value::from(-(1i64 << power) - x)),
            (-3i32..4).prop_map(|x| Value::from(9_007_199_254_740_992.0 + f64::from(x))),
            "[a-c\u{e9}]{0,70}".prop_map(Value::from),
        ]
    }

    proptest! {
        #[test]
        fn bytes_sort_like_values(left in scalar(), right in scalar()) {
            let (a, b) = (term(&left), term(&right));
            if !(is_cut(&a) && is_cut(&b)) {
                prop_assert_eq!(a.cmp(&b), left.order(&right));
            }
        }

        #[test]
        fn short_values_come_back(value in scalar()) {
            let term = term(&value);
            let is_wide = value.as_number().is_some_and(|number| number.floor().1 > 0);
            if is_wide {
                prop_assert_eq!(read_term(&term), None);
            } else if !is_cut(&term) {
                prop_assert_eq!(read_term(&term), Some(value));
            }
        }

        #[test]
        fn any_bytes_can_be_read(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = read_term(&bytes);
        }
    }
}
