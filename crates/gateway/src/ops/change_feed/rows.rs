//! ChangeForm of the change feed as clients read them.
//!
//! ```text
//! bare      {"id":…,"_ts":…,"_lsn":57}
//! wrapped   {"current":{…,"_lsn":57},"metadata":{"lsn":57,"crts":1763234659}}
//! versions  {"current":{…},"previous":{…},"metadata":{"operationType":"replace","lsn":61,…}}
//! ```

use armilla_engine::Container;
use armilla_engine::feed::{Changes, Start};
use armilla_engine::items::read::Item;
use armilla_engine::partition::Partition;
use armilla_engine::ranges::EpkSpan;
use armilla_engine::versions::{Version, VersionKind};
use armilla_model::partition_key::{Definition, PartitionKey};
use armilla_model::value::{Object, Value};
use armilla_model::{Error, Result, json};
use bytes::Bytes;

/// What a client wants to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangeForm {
    /// Items.
    Bare,
    /// Items in the envelope that versions have.
    Wrapped,
    /// Every version and delete.
    Versions,
}

impl ChangeForm {
    /// Reads changes of one range and writes each as a text.
    pub(super) fn read(
        self,
        container: &Container,
        partition: &Partition,
        span: &EpkSpan,
        start: Start,
        count_max: usize,
    ) -> Result<Changes<Vec<u8>>> {
        match self {
            Self::Bare => {
                let changes = container.read_changes(partition, span, start, count_max)?;
                written(changes, |item| Ok(with_lsn(item)))
            }
            Self::Wrapped => {
                let changes = container.read_changes(partition, span, start, count_max)?;
                written(changes, wrapped)
            }
            Self::Versions => {
                let changes = container.read_versions(partition, span, start, count_max)?;
                let settings = container.settings();
                let policy = settings.policy.definition.get("changeFeedPolicy");
                let images = policy.and_then(|policy| policy.get("previousImages"));
                let images = images.and_then(Value::as_bool).unwrap_or(false);
                let definition = &settings.policy.partition_key;
                written(changes, |version| row(version, definition, images))
            }
        }
    }
}

fn written<Row>(
    changes: Changes<Row>,
    write: impl Fn(&Row) -> Result<Vec<u8>>,
) -> Result<Changes<Vec<u8>>> {
    let Changes { items, position, charge } = changes;
    let items = items.iter().map(write).collect::<Result<_>>()?;
    Ok(Changes { items, position, charge })
}

/// The item with the transaction that wrote it.
fn with_lsn(item: &Item) -> Vec<u8> {
    let mut row = item.text.to_vec();
    row.pop();
    row.extend_from_slice(b",\"_lsn\":");
    row.extend_from_slice(itoa::Buffer::new().format(item.lsn.0).as_bytes());
    row.push(b'}');
    row
}

fn wrapped(item: &Item) -> Result<Vec<u8>> {
    let second = parsed(&item.text)?.get("_ts").and_then(Value::as_i64).unwrap_or(0);
    let mut row = b"{\"current\":".to_vec();
    row.extend_from_slice(&with_lsn(item));
    row.extend_from_slice(
        format!(",\"metadata\":{{\"lsn\":{},\"crts\":{second}}}}}", item.lsn).as_bytes(),
    );
    Ok(row)
}

/// A change with its texts. A delete has an empty `current`, names its item and shows it; a replaced
/// version and an expired item are shown only where the container's policy asks for it
/// (`"previousImages": true`), as the service does it for accounts that were switched over.
fn row(version: &Version, definition: &Definition, images: bool) -> Result<Vec<u8>> {
    let mut row = b"{\"current\":".to_vec();
    row.extend_from_slice(version.current.as_deref().unwrap_or(b"{}"));
    let hidden = matches!(version.kind, VersionKind::Replace | VersionKind::Expire);
    let shown = |_: &&Bytes| images || !hidden;
    if let Some(previous) = version.previous.as_ref().filter(shown) {
        row.extend_from_slice(b",\"previous\":");
        row.extend_from_slice(previous);
    }
    let operation = match version.kind {
        VersionKind::Create => "create",
        VersionKind::Replace => "replace",
        VersionKind::Delete | VersionKind::Expire => "delete",
    };
    let mut metadata = Object::of([
        ("operationType", operation.into()),
        ("lsn", number(version.lsn.0)),
        ("crts", i64::from(version.second).into()),
    ]);
    if let Some(previous) = version.previous_lsn {
        metadata.insert("previousImageLSN", number(previous.0));
    }
    if matches!(version.kind, VersionKind::Delete | VersionKind::Expire) {
        if version.kind == VersionKind::Expire {
            metadata.insert("timeToLiveExpired", true.into());
        }
        if let Some(previous) = &version.previous {
            let item = parsed(previous)?;
            metadata.insert("id", item.get("id").cloned().unwrap_or(Value::Null));
            metadata.insert("partitionKey", key_object(&item, definition));
        }
    }
    row.extend_from_slice(b",\"metadata\":");
    metadata.write_json(&mut row);
    row.push(b'}');
    Ok(row)
}

fn number(number: u64) -> Value {
    i64::try_from(number).unwrap_or(i64::MAX).into()
}

fn parsed(text: &[u8]) -> Result<Value> {
    json::parse(text)
        .map_err(|error| Error::Internal(format!("a stored item is not JSON: {error}")))
}

/// The partition key by the names of its paths; a part that the item does not have is left out.
fn key_object(item: &Value, definition: &Definition) -> Value {
    let key = PartitionKey::of_item(item, definition);
    let mut object = Object::new();
    for (path, component) in definition.paths.iter().zip(&key.0) {
        let value = component.to_value();
        if !value.is_undefined() {
            object.insert(path.0.join("/"), value);
        }
    }
    Value::object(object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_model::lsn::Lsn;
    use armilla_model::partition_key::Hashing;
    use armilla_model::path::Path;

    #[test]
    fn a_removal_names_its_item() {
        let version = Version {
            kind: VersionKind::Expire,
            lsn: Lsn(64),
            second: 9,
            previous_lsn: Some(Lsn(61)),
            current: None,
            previous: Some(r#"{"id":"a","pk":7}"#.into()),
        };
        let paths = vec![Path::parse("/pk").unwrap()];
        let definition = Definition { paths, hashing: Hashing::V2 };
        let text = |images| String::from_utf8(row(&version, &definition, images).unwrap()).unwrap();
        // .NET expects no image of what has expired.
        assert!(text(false).starts_with(r#"{"current":{},"metadata":{"operationType":"delete","#));
        assert_eq!(
            text(true),
            r#"{"current":{},"previous":{"id":"a","pk":7},"metadata":{"operationType":"delete","lsn":64,"crts":9,"previousImageLSN":61,"timeToLiveExpired":true,"id":"a","partitionKey":{"pk":7}}}"#
        );
    }
}
