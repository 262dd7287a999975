//! The partition key header: a JSON array of scalars, `{}` standing for an absent property.

use super::bad_header;
use super::values::text;
use armilla_model::partition_key::{Component, PartitionKey};
use armilla_model::{Result, Value, json};

/// `x-ms-documentdb-partitionkey`, as sent and as a key.
#[derive(Clone, Debug)]
pub struct PartitionKeyHeader<'a> {
    /// The JSON text.
    pub raw: &'a str,
    /// One scalar per level; `{}` has become [`Component::Undefined`].
    pub key: PartitionKey,
}

impl<'a> PartitionKeyHeader<'a> {
    /// Reads the header of this name.
    pub fn parse(name: &str, value: &'a [u8]) -> Result<Self> {
        let raw = text(name, value)?;
        let key = parse_key(raw)
            .ok_or_else(|| bad_header(name, "a JSON array of scalars is expected"))?;
        Ok(Self { raw, key })
    }
}

/// Reads a key; nothing when the text is not an array of scalars.
pub(crate) fn parse_key(text: &str) -> Option<PartitionKey> {
    if let Some(text) = single_string(text) {
        return Some(PartitionKey(vec![Component::String(text.into())]));
    }
    let parsed = json::parse(text.as_bytes()).ok()?;
    let components: Option<Vec<_>> = parsed.as_array()?.iter().map(component).collect();
    components.map(PartitionKey)
}

/// The text inside `["text"]`, which nearly all keys are, where it is written as it is.
fn single_string(text: &str) -> Option<&str> {
    let inside = text.strip_prefix("[\"")?.strip_suffix("\"]")?;
    let is_plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
    inside.bytes().fold(true, |all, byte| all & is_plain(byte)).then_some(inside)
}

fn component(value: &Value) -> Option<Component> {
    match value {
        Value::Object(object) if !object.is_empty() => None,
        Value::Array(_) => None,
        scalar => Some(Component::from_value(Some(scalar))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The short way gives what the parser gives, or nothing.
    #[test]
    fn single_strings_are_read_as_json_is() {
        for text in [
            r#"["a"]"#,
            r#"[""]"#,
            r#"["pé"]"#,
            r#"["a","b"]"#,
            r#"["a\\"]"#,
            r#"["\u00e9"]"#,
            "[\"a\tb\"]",
            r#"["a""]"#,
            r#"["a]"#,
            r#"[" "]"#,
            r#" ["a"]"#,
        ] {
            let parsed = json::parse(text.as_bytes()).ok();
            let components = parsed.as_ref().and_then(Value::as_array);
            let slow = components.and_then(|all| all.iter().map(component).collect());
            let slow: Option<PartitionKey> = slow.map(PartitionKey);
            assert_eq!(parse_key(text), slow, "{text}");
        }
    }
}
