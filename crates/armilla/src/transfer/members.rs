//! An object as its members in order, each in the text it was sent in: what an export writes is what
//! was stored, to the digit.

use crate::client::items::SYSTEM_PROPERTIES;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// The members of an object.
pub(super) struct Members(pub(super) Vec<(String, Box<RawValue>)>);

impl Members {
    /// Reads an item without the server's own properties.
    pub(super) fn of_item(text: &str) -> Result<Self, String> {
        let mut members: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        members.0.retain(|(name, _)| !SYSTEM_PROPERTIES.contains(&name.as_str()));
        Ok(members)
    }

    /// Writes the object.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        for (position, (name, value)) in self.0.iter().enumerate() {
            if position > 0 {
                out.push(b',');
            }
            out.extend_from_slice(serde_json::Value::from(name.as_str()).to_string().as_bytes());
            out.push(b':');
            out.extend_from_slice(value.get().as_bytes());
        }
        out.push(b'}');
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Members;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Members, M::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}
