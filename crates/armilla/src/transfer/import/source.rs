//! Where an import reads from: records of a file, a pipe or another server, checked, with their
//! partition keys, in bundles.

use crate::bulk::{Item, Rejection};
use crate::client::Client;
use crate::client::items::ContainerName;
use crate::transfer::Format;
use crate::transfer::members::Members;
use crate::transfer::records::{self, Record};
use crate::transfer::remote::{self, Arrived, Position};
use armilla_model::json;
use armilla_model::partition_key::{Definition, PartitionKey};
use armilla_model::value::Value;
use std::io::BufRead;
use tokio::sync::mpsc;

/// Records handed over at once between reader and loader.
const BUNDLE_RECORDS: usize = 500;
/// Such bundles that may wait.
pub(super) const BUNDLES_MAX: usize = 8;

/// Records on their way to the loader.
#[derive(Default)]
pub(super) struct Bundle {
    pub(super) items: Vec<Item>,
    pub(super) errors: Vec<Rejection>,
    pub(super) records: u64,
    /// Bytes of the source up to here.
    pub(super) offset: u64,
    /// Where another server goes on.
    pub(super) position: Option<Position>,
}

/// Bundles, or why there are no more.
pub(super) type Sender = mpsc::Sender<Result<Bundle, String>>;
/// Where they arrive.
pub(super) type Receiver = mpsc::Receiver<Result<Bundle, String>>;

impl Bundle {
    fn add(&mut self, record: Record, definition: &Definition) {
        self.records += 1;
        self.offset = record.offset;
        match item(record, definition) {
            Ok(item) => self.items.push(item),
            Err(error) => self.errors.push(error),
        }
    }
}

/// Reads a file or a pipe behind the records that are done.
pub(super) fn read_records(
    format: Format,
    source: Box<dyn BufRead + Send>,
    done: u64,
    definition: &Definition,
    sender: &Sender,
) -> Result<(), String> {
    let mut bundle = Bundle::default();
    for (number, record) in records::read(format, source).enumerate() {
        let record = record?;
        if (number as u64) < done {
            continue;
        }
        bundle.add(record, definition);
        if bundle.records as usize >= BUNDLE_RECORDS
            && sender.blocking_send(Ok(std::mem::take(&mut bundle))).is_err()
        {
            return Ok(());
        }
    }
    // Whoever has gone away does not miss it.
    let _ = sender.blocking_send(Ok(bundle));
    Ok(())
}

/// Reads another server; its items are numbered as lines.
pub(super) async fn read_server(
    client: &Client,
    from: ContainerName<'_>,
    position: Position,
    mut line: u64,
    definition: &Definition,
    sender: &Sender,
) -> Result<(), String> {
    let mut pages = remote::read(client, from, position);
    while let Some(arrived) = pages.recv().await {
        let mut bundle = Bundle::default();
        let position = match arrived? {
            Arrived::Page(items, position) => {
                for members in items {
                    line += 1;
                    bundle.add(record(&members, line), definition);
                }
                position
            }
            // Items that come again are written again.
            Arrived::Again(position) => position,
        };
        bundle.position = Some(position);
        if sender.send(Ok(bundle)).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}

fn record(members: &Members, line: u64) -> Record {
    let mut text = Vec::new();
    members.write(&mut text);
    Record { line, text: Ok(text), offset: 0 }
}

/// The item of a record, or why there is none.
fn item(record: Record, definition: &Definition) -> Result<Item, Rejection> {
    let line = record.line;
    let refused = |line: u64, message: String| Rejection { line, status: 0, message };
    let text = record.text.map_err(|message| refused(line, message))?;
    let value = json::parse(&text).map_err(|error| {
        let column = error.column;
        refused(line + error.line as u64 - 1, format!("{} at column {column}", error.message))
    })?;
    let Value::Object(object) = &value else {
        return Err(refused(line, "an item is an object".to_owned()));
    };
    if !matches!(object.get("id"), Some(Value::String(_))) {
        return Err(refused(line, "the item has no 'id' that is a string".to_owned()));
    }
    Ok(Item { line, key: PartitionKey::of_item(&value, definition), body: text })
}
