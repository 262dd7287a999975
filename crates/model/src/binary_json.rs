//! Binary JSON: the form in which some SDKs send the bodies of items (Rust by default, .NET with binary
//! encoding switched on), and in which they are answered where they take nothing else.
//!
//! A body begins with `80`, then one value to the last byte. The first byte of a value says what it is:
//!
//! ```text
//! 00–1F the integer itself     │ 20–3F a name or text of a fixed table (`id` is 2C)
//! 71–74 base64 text            │ 75–77 the text of a GUID      │ 78–7F text in 4 to 7 bits a character
//! 80–BF a string of 0–63 bytes │ C0 C1 C2 a string, length in 1, 2, 4 bytes
//! C3–C6 an earlier string of this body, by its offset in 1 to 4 bytes
//! C7 u64 │ C8 u8 │ C9 i16 │ CA i32 │ CB i64 │ CC double │ D0 null │ D1 false │ D2 true
//! CD f32 │ CE f64 │ CF f16 │ D7–DC u8 i8 i16 i32 i64 u32 │ D3 a GUID │ DD DE DF bytes
//! E0 [] │ E1 one element │ E2–E4 length, elements │ E5–E7 length, count, elements
//! E8 {} │ E9 one member  │ EA–EC length, members  │ ED–EF length, count, members
//! F0 F1 numbers of one type │ F2 F3 arrays of them
//! ```
//!
//! Numbers and lengths are little-endian. Strings by numbers of a dictionary kept elsewhere (`40`–`67`) never
//! come in requests and are refused. What is read becomes JSON text, so that everything behind this module
//! sees one form only.
//!
//! A few bytes can stand for a long text, by references and packed forms: the text that comes out is bounded
//! by the size of an item, not only the body.

mod numbers;
mod read;
mod strings;
mod write;

#[cfg(test)]
mod tests;

pub use read::to_text;
pub use write::from_text;

use crate::error::{Error, Result};

/// What a binary body begins with.
pub const PREAMBLE: u8 = 0x80;

/// True for a body in this form.
pub fn is_binary(body: &[u8]) -> bool {
    body.first() == Some(&PREAMBLE)
}

/// Names and texts that have a marker of their own, from `20` on.
const SYSTEM_STRINGS: [&str; 32] = [
    "$s",
    "$t",
    "$v",
    "_attachments",
    "_etag",
    "_rid",
    "_self",
    "_ts",
    "attachments/",
    "coordinates",
    "geometry",
    "GeometryCollection",
    "id",
    "url",
    "Value",
    "label",
    "LineString",
    "link",
    "MultiLineString",
    "MultiPoint",
    "MultiPolygon",
    "name",
    "Name",
    "Type",
    "Point",
    "Polygon",
    "properties",
    "type",
    "value",
    "Feature",
    "FeatureCollection",
    "_id",
];

fn malformed<T>(why: &str) -> Result<T> {
    Err(Error::bad_request(format!("The request body is not valid binary JSON: {why}.")))
}
