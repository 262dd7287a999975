//! Containers, and the headers that tell how full they are.

use super::{etag_member, ts_member};
use crate::Reply;
use crate::headers::names;
use armilla_engine::Container;
use armilla_engine::partition::Partition;
use armilla_model::limits::{FUNCTIONS_MAX, PROCEDURES_MAX, TRIGGERS_MAX};
use armilla_model::value::{Object, Value};
use bytes::Bytes;
use http::HeaderValue;
use std::sync::{Arc, LazyLock};

/// Kilobytes of items that a container may hold, as the service says it: 10 GB.
const SIZE_QUOTA_KB: u64 = 10_485_760;
/// Size of one item in the service's quota text.
const ITEM_QUOTA_KB: u64 = 10_240;

/// The resource: its definition with every default, between its id and the system's members.
pub(crate) fn shape(container: &Container) -> Object {
    let settings = container.settings();
    let mut shape = Object::of([("id", Value::String(settings.name.clone()))]);
    for (name, value) in settings.policy.definition.iter() {
        shape.insert(name.clone(), value.clone());
    }
    for (name, value) in [
        ("_rid", Value::String(container.rid_text.clone())),
        ("_ts", ts_member(settings.ts)),
        ("_self", Value::String(container.self_link.clone())),
        ("_etag", etag_member(settings.etag)),
        ("_docs", "docs/".into()),
        ("_sprocs", "sprocs/".into()),
        ("_triggers", "triggers/".into()),
        ("_udfs", "udfs/".into()),
        ("_conflicts", "conflicts/".into()),
    ] {
        shape.insert(name, value);
    }
    shape
}

/// What each range holds. Single large partition keys are not sampled, so none are named.
pub(crate) fn statistics(container: &Container) -> Value {
    let row = |partition: &Arc<Partition>| {
        Value::object(Object::of([
            ("id", partition.range.id.to_string().into()),
            ("sizeInKB", number(kilobytes(partition.size()))),
            ("documentCount", number(partition.document_count())),
            ("partitionKeys", Value::array(Vec::new())),
        ]))
    };
    Value::array(container.partitions().iter().map(row).collect())
}

/// Adds what every answer about one container carries: quota, usage, and how far the index for a
/// changed policy has come. Nothing is ever indexed lazily.
pub(crate) fn with_progress(reply: Reply, container: &Container) -> Reply {
    let progress = container.index_progress().to_string();
    with_quota(reply, container).text_header(names::INDEX_PROGRESS, &progress)
}

/// Adds quota and usage, as answers about a container, its items and its scripts carry them.
pub(crate) fn with_quota(reply: Reply, container: &Container) -> Reply {
    static QUOTA: LazyLock<HeaderValue> = LazyLock::new(|| {
        let text = format!(
            "documentSize={ITEM_QUOTA_KB};documentsSize={SIZE_QUOTA_KB};documentsCount=-1;collectionSize={SIZE_QUOTA_KB};functions={FUNCTIONS_MAX};storedProcedures={PROCEDURES_MAX};triggers={TRIGGERS_MAX};"
        );
        HeaderValue::from_str(&text).expect("letters, digits and signs")
    });
    reply
        .header(names::RESOURCE_QUOTA, QUOTA.clone())
        .header(names::RESOURCE_USAGE, usage(container))
}

/// What is used of the quota. Every read of an item carries it, so it is put together without the formatter.
fn usage(container: &Container) -> HeaderValue {
    let (size, scripts) = (kilobytes(container.size()), container.scripts());
    let mut text = Vec::with_capacity(128);
    for (name, number) in [
        ("documentSize=", 0),
        (";documentsSize=", size),
        (";documentsCount=", container.document_count()),
        (";collectionSize=", size),
        (";functions=", scripts.functions.len() as u64),
        (";storedProcedures=", scripts.procedures.len() as u64),
        (";triggers=", scripts.triggers.len() as u64),
    ] {
        text.extend_from_slice(name.as_bytes());
        text.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }
    text.push(b';');
    HeaderValue::from_maybe_shared(Bytes::from(text)).expect("letters, digits and signs")
}

fn kilobytes(bytes: u64) -> u64 {
    bytes.div_ceil(1024)
}

fn number(number: u64) -> Value {
    i64::try_from(number).unwrap_or(i64::MAX).into()
}
