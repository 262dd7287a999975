//! Unique keys: at most one item of a logical partition has a given tuple of values.
//!
//! An entry's key holds a keyed 128-bit hash of the tuple, so a false clash is a non-event and
//! nobody can provoke one. A missing value counts as null; numbers count as doubles.

use armilla_model::ordered;
use armilla_model::path::Path;
use armilla_model::value::Value;
use siphasher::sip128::{Hasher128, SipHasher13};
use std::hash::Hasher;

/// The hashes of an item's tuples, one per unique key, in the policy's order.
pub(crate) fn tuples(item: &Value, unique_keys: &[Vec<Path>], secret: (u64, u64)) -> Vec<[u8; 16]> {
    unique_keys.iter().map(|paths| tuple(item, paths, secret)).collect()
}

fn tuple(item: &Value, paths: &[Path], (first, second): (u64, u64)) -> [u8; 16] {
    let mut hasher = SipHasher13::new_with_keys(first, second);
    for path in paths {
        let value = path.find(item).cloned().unwrap_or(Value::Null);
        let bytes = match &value {
            Value::String(text) => {
                hasher.write_u8(ordered::tag(value.kind()));
                text.as_bytes().to_vec()
            }
            Value::Array(_) | Value::Object(_) => value.to_json().into_bytes(),
            // What is stored was hashed so; integers that share a double share a key.
            Value::Number(number) => ordered::term(&Value::from(number.as_f64())),
            scalar => ordered::term(scalar),
        };
        hasher.write_usize(bytes.len());
        hasher.write(&bytes);
    }
    hasher.finish128().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_model::json::parse;

    #[test]
    fn missing_is_null_and_integers_are_doubles() {
        let keys = [vec![Path::parse("/a").unwrap(), Path::parse("/b/c").unwrap()]];
        let of = |text: &str| tuples(&parse(text.as_bytes()).unwrap(), &keys, (1, 2));
        assert_eq!(of(r#"{"a":1}"#), of(r#"{"a":1.0,"b":{"c":null}}"#));
        assert_eq!(of(r#"{"a":9007199254740992}"#), of(r#"{"a":9007199254740993}"#));
        assert_ne!(of(r#"{"a":1}"#), of(r#"{"a":"1"}"#));
        assert_ne!(of(r#"{"a":"x","b":{"c":"y"}}"#), of(r#"{"a":"xy","b":{"c":""}}"#));
    }
}
