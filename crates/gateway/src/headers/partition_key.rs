//! The partition key header: a JSON array of scalars, `{}` standing for an absent property.

use super::bad_header;
use super::values::text;
use armilla_model::{Result, Value, json};

/// `x-ms-documentdb-partitionkey`, as sent and as values.
#[derive(Clone, Debug)]
pub struct PartitionKeyHeader<'a> {
    /// The JSON text.
    pub raw: &'a str,
    /// One scalar per level; `{}` has become [`Value::Undefined`].
    pub components: Vec<Value>,
}

impl<'a> PartitionKeyHeader<'a> {
    /// Reads the header of this name.
    pub fn parse(name: &str, value: &'a [u8]) -> Result<Self> {
        let raw = text(name, value)?;
        let components = parse_components(raw)
            .ok_or_else(|| bad_header(name, "a JSON array of scalars is expected"))?;
        Ok(Self { raw, components })
    }
}

/// Reads the components of a key; nothing when the text is not an array of scalars.
fn parse_components(text: &str) -> Option<Vec<Value>> {
    let parsed = json::parse(text.as_bytes()).ok()?;
    parsed.as_array()?.iter().map(component).collect()
}

fn component(value: &Value) -> Option<Value> {
    match value {
        Value::Object(object) if object.is_empty() => Some(Value::Undefined),
        Value::Object(_) | Value::Array(_) => None,
        scalar => Some(scalar.clone()),
    }
}
