//! How large a value would be as text.
//!
//! Values share their parts, so a few references may stand for a text of terabytes: a value is
//! measured before anything walks through all of it.

use armilla_model::Value;

/// Deepest value that may be used again: whatever walks through values does so by recursion.
pub const DEPTH_MAX: usize = 256;

/// True when the JSON text of a value has more than about `limit` bytes, or is nested deeper than
/// [`DEPTH_MAX`]. Stops counting there.
pub fn exceeds(value: &Value, limit: usize) -> bool {
    let mut left = limit;
    !spend(value, &mut left, DEPTH_MAX)
}

/// Takes the size of a value off what is left; false when that is not enough.
fn spend(value: &Value, left: &mut usize, depth: usize) -> bool {
    let own = match value {
        Value::String(text) => text.len() + 2,
        Value::Object(object) => object.iter().map(|(name, _)| name.len() + 4).sum::<usize>() + 2,
        _ => 4,
    };
    let (Some(rest), Some(depth)) = (left.checked_sub(own), depth.checked_sub(1)) else {
        return false;
    };
    *left = rest;
    match value {
        Value::Array(elements) => elements.iter().all(|element| spend(element, left, depth)),
        Value::Object(object) => object.iter().all(|(_, value)| spend(value, left, depth)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_parts_count_every_time() {
        let mut value = Value::from("0123456789");
        for _ in 0..100 {
            value = Value::array(vec![value.clone(), value]);
        }
        assert!(exceeds(&value, 1_000_000));
        assert!(!exceeds(&Value::from("0123456789"), 100));
    }

    #[test]
    fn depth_counts() {
        let nested = |depth| (0..depth).fold(Value::Null, |value, _| Value::array(vec![value]));
        assert!(!exceeds(&nested(200), 1_000_000));
        assert!(exceeds(&nested(300), 1_000_000));
    }
}
