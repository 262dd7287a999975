//! Containers, and the headers that tell how full they are.

use super::{etag_member, ts_member};
use crate::Reply;
use crate::reply::{Fact, Usage};
use armilla_engine::Container;
use armilla_engine::partition::Partition;
use armilla_engine::views::definition::{MEMBER, OLD_MEMBER};
use armilla_engine::views::{ContainerView, Status};
use armilla_model::value::{Object, Value};
use std::sync::Arc;

/// The resource: its definition with every default, between its id and the system's members.
pub(crate) fn shape(container: &Container) -> Object {
    let settings = container.settings();
    let mut shape = Object::of([("id", Value::String(settings.name.clone()))]);
    for (name, value) in settings.policy.definition.iter() {
        shape.insert(name.clone(), value.clone());
    }
    if let Some(view) = container.view().filter(|view| view.is_rekey()) {
        shape.remove(MEMBER);
        shape.insert("rekeyOf", Value::object(rekey_source(view)));
    } else if let (Some(view), Some(status)) = (container.view(), container.view_status()) {
        let definition = Value::object(view_definition(view, status));
        shape.insert(MEMBER, definition.clone());
        shape.insert(OLD_MEMBER, definition);
    }
    if let Some(into) = container.rekeyed_into() {
        shape.insert("rekeyedInto", Value::String(into.clone()));
    }
    let views = container.views();
    let is_view = |view: &&Arc<Container>| view.view().is_some_and(|view| !view.is_rekey());
    let views: Vec<Value> = views.iter().filter(is_view).map(view_entry).collect();
    if !views.is_empty() {
        shape.insert("materializedViews", Value::array(views));
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

/// The definition of a view with how far it has come. It stands under two names: some clients read the
/// new one, the explorer the old one.
fn view_definition(view: &ContainerView, status: Status) -> Object {
    let mut members = view.members().clone();
    members.insert("status", status.word().into());
    members.insert("progress", i64::from(status.percent()).into());
    members
}

/// Whose items a container is being filled with, and how far that has come.
fn rekey_source(view: &ContainerView) -> Object {
    Object::of([
        ("id", view.source_name().into()),
        ("_rid", view.source_rid().into()),
        ("progress", i64::from(view.status().percent()).into()),
    ])
}

/// A view in the list that its source has.
fn view_entry(view: &Arc<Container>) -> Value {
    Value::object(Object::of([
        ("id", Value::String(view.settings().name.clone())),
        ("_rid", Value::String(view.rid_text.clone())),
    ]))
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
    let (functions, procedures, triggers) = container.script_counts();
    let (kilobytes, items) = (kilobytes(container.size()), container.document_count());
    reply.usage(Usage { kilobytes, items, functions, procedures, triggers })
}

fn kilobytes(bytes: u64) -> u64 {
    bytes.div_ceil(1024)
}

fn number(number: u64) -> Value {
    i64::try_from(number).unwrap_or(i64::MAX).into()
}
