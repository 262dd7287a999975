//! Values measured and written without going beyond a bound.
//!
//! Values share their parts, so a small expression can build a value whose text would be without
//! end (`[x, x]` of `[y, y]` of …). Whatever walks a whole value does it here, and stops in time.

use armilla_model::error::Result;
use armilla_model::limits::PAGE_SIZE_MAX;
use armilla_model::value::Value;
use armilla_sql::SqlError;
use armilla_sql::weight::DEPTH_MAX;
use bytes::Bytes;

/// Largest row, as JSON.
const ROW_SIZE_MAX: usize = 2 * PAGE_SIZE_MAX;

/// The JSON of a row.
pub(in crate::query) fn row(value: &Value) -> Result<Bytes> {
    check(value)?;
    let mut out = Vec::new();
    value.write_json(&mut out);
    Ok(out.into())
}

/// Refuses a value that is too large to be sorted, grouped or compared.
pub(in crate::query) fn check(value: &Value) -> Result<()> {
    let mut left = ROW_SIZE_MAX;
    if fits(value, &mut left, DEPTH_MAX) { Ok(()) } else { Err(too_large()) }
}

/// About how many bytes a value takes.
pub(in crate::query) fn size(value: &Value) -> usize {
    let mut left = ROW_SIZE_MAX;
    fits(value, &mut left, DEPTH_MAX);
    ROW_SIZE_MAX - left
}

fn too_large() -> armilla_model::Error {
    SqlError::refused(format!("The query builds a value of more than {ROW_SIZE_MAX} bytes.")).into()
}

fn fits(value: &Value, left: &mut usize, depth: usize) -> bool {
    let own = match value {
        Value::String(text) => text.len() + 16,
        _ => 16,
    };
    let (Some(rest), Some(depth)) = (left.checked_sub(own), depth.checked_sub(1)) else {
        *left = 0;
        return false;
    };
    *left = rest;
    match value {
        Value::Array(elements) => elements.iter().all(|element| fits(element, left, depth)),
        Value::Object(object) => object.iter().all(|(name, value)| {
            *left = left.saturating_sub(name.len());
            fits(value, left, depth)
        }),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_parts_do_not_run_away() {
        let mut value = Value::from("x");
        for _ in 0..100 {
            value = Value::array(vec![value.clone(), value]);
        }
        assert!(check(&value).is_err() && row(&value).is_err());
        assert!(size(&value) >= ROW_SIZE_MAX);
    }

    #[test]
    fn rows_are_written_like_values() {
        let value = armilla_model::json::parse(br#"{"a":[1,2.5,{"b":null}],"c":"\"x"}"#).unwrap();
        assert_eq!(row(&value).unwrap(), value.to_json());
    }
}
