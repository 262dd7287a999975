//! `armilla import` and `armilla export`: items between files, pipes and servers.
//!
//! An import reads [records](records) from a file, a pipe or [another server](remote), sends them in
//! bulk and remembers now and then how far it came ([state]), so that it can be
//! interrupted at any moment and started again. What cannot be stored is listed with the line it came from; the rest is
//! stored. An [export] writes beside its target and takes the target's name only when it is whole.

mod export;
mod import;
mod members;
mod records;
mod remote;
mod state;
#[cfg(test)]
mod tests;

pub(crate) use export::{ExportOptions, run as export};
pub(crate) use import::{ImportOptions, run as import};

use crate::client::items::ContainerName;
use crate::client::{Client, ClientError, Outcome};
use armilla_model::partition_key::{Definition, Hashing};
use armilla_model::path::Path;
use clap::ValueEnum;
use std::path::Path as FilePath;

/// How items are written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// An array of objects
    Json,
    /// One object per line
    Jsonl,
    /// A header line, then a line per item; a cell that is a JSON number, true, false or null is taken as such
    Csv,
}

impl Format {
    /// The format that a file's name tells.
    fn of(given: Option<Self>, file: Option<&FilePath>) -> Result<Self, String> {
        let extension = file.and_then(|file| file.extension()).and_then(|text| text.to_str());
        match (given, extension.map(str::to_ascii_lowercase).as_deref()) {
            (Some(format), _) => Ok(format),
            (None, Some("json")) => Ok(Self::Json),
            (None, Some("jsonl" | "ndjson")) => Ok(Self::Jsonl),
            (None, Some("csv")) => Ok(Self::Csv),
            _ => Err("the file's name does not tell its format: give --format json, jsonl or csv"
                .to_owned()),
        }
    }
}

/// How a container computes its partition keys.
async fn key_definition(client: &Client, container: ContainerName<'_>) -> Outcome<Definition> {
    let found = client.read_container(container).await?;
    let key = &found["partitionKey"];
    let strange =
        || ClientError::Unreadable("the container's partition key cannot be read".to_owned());
    let paths = key["paths"].as_array().ok_or_else(strange)?;
    let paths: Option<Vec<Path>> =
        paths.iter().map(|path| Path::parse(path.as_str()?).ok()).collect();
    let hashing = match (key["kind"].as_str(), key["version"].as_u64()) {
        (Some("MultiHash"), _) => Hashing::MultiHash,
        (_, Some(2)) => Hashing::V2,
        _ => Hashing::V1,
    };
    Ok(Definition { paths: paths.ok_or_else(strange)?, hashing })
}
