//! Vector and full-text policies.

use super::{list, refuse, text};
use crate::error::Result;
use crate::limits::{FULL_TEXT_PATHS_MAX, VECTOR_PATHS_MAX};
use crate::path::Path;
use crate::value::{Object, Value};
use std::collections::HashSet;

/// A vector property.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorEmbedding {
    /// Where the vector is.
    pub path: Path,
    /// `cosine`, `dotproduct` or `euclidean`.
    pub distance_function: String,
    /// `float32`, `float16`, `int8` or `uint8`.
    pub data_type: String,
    /// Length of the vector.
    pub dimensions: usize,
}

/// A property that is searched as text.
#[derive(Clone, Debug, PartialEq)]
pub struct FullTextPath {
    /// Where the text is.
    pub path: Path,
    /// Its language, like `en-US`.
    pub language: String,
}

/// Most dimensions of a vector.
const DIMENSIONS_MAX: i64 = 4096;
/// Most dimensions of a vector in a `flat` index.
const DIMENSIONS_FLAT_MAX: usize = 505;

/// Most bytes that a quantized vector is pressed into; never more than it has dimensions.
const QUANTIZATION_BYTES_MAX: usize = 512;

/// Reads `vectorEmbeddingPolicy`.
pub(super) fn vectors(policy: Option<&Value>) -> Result<Vec<VectorEmbedding>> {
    let Some(policy) = policy else { return Ok(Vec::new()) };
    let vectors: Vec<_> =
        list(policy, "vectorEmbeddings")?.iter().map(vector).collect::<Result<_>>()?;
    distinct(vectors.iter().map(|vector| &vector.path), "Vector Embedding Policy")?;
    Ok(vectors)
}

/// Refuses a path that a policy names twice.
fn distinct<'p>(paths: impl Iterator<Item = &'p Path>, policy: &str) -> Result<()> {
    let mut seen = HashSet::new();
    for path in paths {
        if !seen.insert(path) {
            return refuse(format!("Duplicate Path :{path} found in {policy}."));
        }
    }
    Ok(())
}

fn vector(entry: &Value) -> Result<VectorEmbedding> {
    let distance_function = text(entry, "distanceFunction")?.to_ascii_lowercase();
    if !matches!(distance_function.as_str(), "cosine" | "dotproduct" | "euclidean") {
        return refuse(format!(
            "The Vector Embedding Policy has an invalid DistanceFunction:{}. Use cosine, dotproduct or euclidean.",
            text(entry, "distanceFunction")?
        ));
    }
    let data_type = text(entry, "dataType")?.to_ascii_lowercase();
    if !matches!(data_type.as_str(), "float32" | "float16" | "int8" | "uint8") {
        return refuse(format!(
            "The Vector Embedding Policy has an invalid DataType:{}. Use float32, float16, int8 or uint8.",
            text(entry, "dataType")?
        ));
    }
    let dimensions = entry.get("dimensions").and_then(Value::as_i64).unwrap_or(0);
    if !(1..=DIMENSIONS_MAX).contains(&dimensions) {
        return refuse(format!(
            "The Vector Embedding Policy has Dimensions:{dimensions} which is more than the maximum supported value, or less than 1. Use 1 to {DIMENSIONS_MAX}."
        ));
    }
    let path = Path::parse(text(entry, "path")?)?;
    Ok(VectorEmbedding { path, distance_function, data_type, dimensions: dimensions as usize })
}

/// Reads `fullTextPolicy`.
pub(super) fn full_text(policy: Option<&Value>) -> Result<Vec<FullTextPath>> {
    let Some(policy) = policy else { return Ok(Vec::new()) };
    let default = policy.get("defaultLanguage").and_then(Value::as_str).unwrap_or("en-US");
    supported_language(default)?;
    let path = |entry: &Value| {
        let language = entry.get("language").and_then(Value::as_str).unwrap_or(default);
        supported_language(language)?;
        let written = text(entry, "path")?;
        let path = Path::parse(written).or_else(|_| {
            refuse(format!("The Full Text Policy contains an invalid Path: {written}."))
        })?;
        Ok(FullTextPath { path, language: language.to_owned() })
    };
    list(policy, "fullTextPaths")?.iter().map(path).collect()
}

/// Checks the optional parameters of an index over vectors of so many dimensions.
fn check_parameters(index: &Value, dimensions: usize) -> Result<()> {
    const SHARD_PATHS_MAX: usize = 1;
    let in_range = |name: &str, label: &str, min: i64, max: i64| match index.get(name) {
        None | Some(Value::Null) => Ok(()),
        Some(value) if value.as_i64().is_some_and(|value| (min..=max).contains(&value)) => Ok(()),
        Some(value) => refuse(format!(
            "The Vector Indexing Policy parameter {label} value :: {value} is out of range. The allowed range is between {min} and {max}."
        )),
    };
    let bytes_max = dimensions.min(QUANTIZATION_BYTES_MAX) as i64;
    in_range("quantizationByteSize", "QuantizationByteSize", 1, bytes_max)?;
    in_range("indexingSearchListSize", "IndexingSearchListSize", 25, 500)?;
    let shard_paths = list(index, "vectorIndexShardKey")
        .or_else(|error| refuse(format!("One of the specified inputs is invalid: {error}")))?;
    if shard_paths.len() > SHARD_PATHS_MAX {
        return refuse(format!(
            "The number of shard paths defined in the Vector Indexing Policy: {} exceeds the maximum: {SHARD_PATHS_MAX}.",
            shard_paths.len()
        ));
    }
    for path in shard_paths {
        let written = path.as_str().unwrap_or_default();
        if Path::parse(written).is_err() {
            return refuse(format!(
                "The Vector Indexing Policy has an invalid Shard Path: {written}."
            ));
        }
    }
    Ok(())
}

fn supported_language(language: &str) -> Result<()> {
    const LANGUAGES: [&str; 7] = ["en-US", "de-DE", "es-ES", "fr-FR", "it-IT", "pt-BR", "pt-PT"];
    // Languages also come as the numbers of Windows, like 1033.
    if LANGUAGES.contains(&language) || language.parse::<u32>().is_ok() {
        return Ok(());
    }
    refuse(format!(
        "The Full Text Policy contains an unsupported language {language}. Supported languages are: {}.",
        LANGUAGES.join(", ")
    ))
}

/// Refuses more paths and indexes than a container may have.
pub(super) fn check_numbers(body: &Value) -> Result<()> {
    let nothing = Value::Null;
    let member = |name: &str| body.get(name).unwrap_or(&nothing);
    for (policy, name, most) in [
        ("vectorEmbeddingPolicy", "vectorEmbeddings", VECTOR_PATHS_MAX),
        ("fullTextPolicy", "fullTextPaths", FULL_TEXT_PATHS_MAX),
        ("indexingPolicy", "vectorIndexes", VECTOR_PATHS_MAX),
        ("indexingPolicy", "fullTextIndexes", FULL_TEXT_PATHS_MAX),
    ] {
        let count = list(member(policy), name)?.len();
        if count > most {
            return refuse(format!(
                "'{policy}.{name}' has {count} entries; at most {most} are allowed."
            ));
        }
    }
    Ok(())
}

/// Every index over vectors or text needs its path in the policy beside it.
pub(super) fn check_indexes(
    indexing: &Value,
    vectors: &[VectorEmbedding],
    full_text: &[FullTextPath],
) -> Result<()> {
    let mut indexed = Vec::new();
    for index in list(indexing, "vectorIndexes")? {
        let path = Path::parse(text(index, "path")?)?;
        let Some(vector) = vectors.iter().find(|vector| vector.path == path) else {
            return refuse(format!(
                "The Vector Indexing Policy's path::{path} not matching in Embedding's path."
            ));
        };
        check_parameters(index, vector.dimensions)?;
        let kind = text(index, "type")?;
        match kind.to_ascii_lowercase().as_str() {
            "flat" if vector.dimensions > DIMENSIONS_FLAT_MAX => {
                return refuse(format!(
                    "A flat vector index takes at most {DIMENSIONS_FLAT_MAX} dimensions."
                ));
            }
            "flat" | "quantizedflat" | "diskann" => {}
            _ => {
                return refuse(format!(
                    "The Vector Indexing Policy's Index Type::{kind} is invalid. Use flat, quantizedFlat or diskANN."
                ));
            }
        }
        indexed.push(path);
    }
    distinct(indexed.iter(), "Vector Indexing Policy")?;
    for index in list(indexing, "fullTextIndexes")? {
        let path = Path::parse(text(index, "path")?)?;
        if !full_text.iter().any(|text| text.path == path) {
            return refuse(format!(
                "The full-text index on '{path}' needs that path in the full text policy."
            ));
        }
    }
    Ok(())
}

/// An index over vectors stays as it was made: another type or other parameters need a new container.
pub(super) fn check_replaced_indexes(before: &Object, next: &Object) -> Result<()> {
    let indexes = |definition: &Object| match definition.get("indexingPolicy") {
        Some(policy) => list(policy, "vectorIndexes").map(<[Value]>::to_vec),
        None => Ok(Vec::new()),
    };
    let (before, next) = (indexes(before)?, indexes(next)?);
    let same_path = |index: &Value| {
        let path = index.get("path");
        before.iter().find(|known| known.get("path") == path)
    };
    let changed = next.iter().find(|index| same_path(index).is_some_and(|known| known != *index));
    match changed {
        Some(index) => refuse(format!(
            "Paths in existing vector indexing policy cannot be modified in Collection Replace. \
             They can only be added or removed: '{}'.",
            text(index, "path")?
        )),
        None => Ok(()),
    }
}
