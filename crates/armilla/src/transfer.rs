//! `armilla import` and `armilla export`: items between files, pipes and servers.
//!
//! An import reads [records](records) from a file, a pipe or [another server](remote) and sends them in
//! bulk; what cannot be stored is listed with the line it came from, the rest is stored. An
//! [export](export) writes a [sheet](sheet) beside its target, which takes the target's name only
//! when it is whole. Both remember now and then how far they came ([state]), so that they can be
//! interrupted at any moment and started again.

mod export;
mod import;
mod members;
mod records;
mod remote;
mod sheet;
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

/// What a transfer must know of a container.
pub(super) struct Described {
    /// How it computes its partition keys.
    key: Definition,
    /// Its own name, which no other container has or will have.
    rid: String,
    /// How many items it has, where the server says so.
    items: Option<u64>,
}

async fn describe(client: &Client, container: ContainerName<'_>) -> Outcome<Described> {
    let answer = client.read_container(container).await?;
    let found = answer.json()?;
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
    let usage = answer.header("x-ms-resource-usage").unwrap_or_default();
    let items = usage.split(';').find_map(|part| part.strip_prefix("documentsCount="));
    Ok(Described {
        key: Definition { paths: paths.ok_or_else(strange)?, hashing },
        rid: found["_rid"].as_str().unwrap_or_default().to_owned(),
        items: items.and_then(|count| count.parse().ok()),
    })
}
