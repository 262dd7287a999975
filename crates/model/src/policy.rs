//! Policies of a container: what is written in its definition, checked and with every default
//! filled in.
//!
//! A definition arrives as JSON and is answered as JSON with the same meaning. [`ContainerPolicy`]
//! keeps both: the typed parts that the engine acts on, and the normalised object that clients read
//! back, unknown members included, because newer SDKs add some.

mod container;
mod encryption;
mod indexing;
mod search;

pub use container::{ComputedProperty, ContainerPolicy};
pub use encryption::ENCRYPTION_ALGORITHM;
pub use indexing::{
    CompositePath, IndexPath, IndexingPolicy, PathCursor, PathTree, SpatialIndex, Step,
};
pub use search::{FullTextPath, VectorEmbedding};

use crate::error::{Error, Result};
use crate::value::Value;

fn refuse<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::BadRequest(message.into()))
}

/// The elements of an optional array member.
fn list<'v>(value: &'v Value, name: &str) -> Result<&'v [Value]> {
    match value.get(name) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(elements)) => Ok(elements),
        Some(other) => refuse(format!("'{name}' must be an array, and is {other}.")),
    }
}

/// A member that must be text.
fn text<'v>(value: &'v Value, name: &str) -> Result<&'v str> {
    match value.get(name) {
        Some(Value::String(text)) => Ok(text),
        Some(other) => refuse(format!("'{name}' must be a string, and is {other}.")),
        None => refuse(format!("'{name}' is missing.")),
    }
}
