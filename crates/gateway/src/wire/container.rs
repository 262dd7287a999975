//! Containers, and the headers that tell how full they are.

use super::{etag_member, ts_member};
use crate::Reply;
use crate::reply::{Fact, Usage};
use armilla_engine::Container;
use armilla_engine::partition::Partition;
use armilla_model::value::{Object, Value};
use std::sync::Arc;

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
    with_quota(reply, container).fact(Fact::IndexProgress, progress)
}

/// Adds quota and usage, as answers about a container, its items and its scripts carry them.
pub(crate) fn with_quota(reply: Reply, container: &Container) -> Reply {
    let scripts = container.scripts();
    reply.usage(Usage {
        kilobytes: kilobytes(container.size()),
        items: container.document_count(),
        functions: scripts.functions.len(),
        procedures: scripts.procedures.len(),
        triggers: scripts.triggers.len(),
    })
}

fn kilobytes(bytes: u64) -> u64 {
    bytes.div_ceil(1024)
}

fn number(number: u64) -> Value {
    i64::try_from(number).unwrap_or(i64::MAX).into()
}
