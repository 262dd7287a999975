//! Watching: what no change of the model saves units by, and what deserves a look all the same.
//!
//! A report, never an error: references are weak, counters may drift, lists may grow.

use crate::choose::Point;
use crate::flow::Flow;
use crate::limits::{ITEM_LARGE, LIST_UNBOUNDED, SHARE_MIN};
use crate::live::Live;
use crate::observe::Verb;
use crate::propose::{Case, Proposal};
use crate::report::{Finding, Praise};
use crate::understand::{DataModel, Entity, Link};
use armilla_engine::query::Request;
use armilla_model::partition_key::PartitionKey;
use armilla_model::value::Value;
use std::collections::HashSet;

/// Items up to which a container with one key is bounded.
const ONE_KEY_ITEMS_MAX: f64 = 1_000.0;
/// Parents whose counters are counted again.
const COUNTED_AGAIN_MAX: usize = 5;
/// Recorded requests from which a key can be called hot, and their share on one key.
const HOT_REQUESTS_MIN: f64 = 1_000.0;
const HOT_SHARE: f64 = 0.5;
/// Writes of a source from which a copy that nobody reads is told.
const UNREAD_WRITES_MIN: f64 = 10.0;
/// A range that holds so many times the mean is skewed.
const SKEW: f64 = 3.0;

/// What is to be looked at in a database.
pub(crate) fn watch(case: &Case<'_>, proposal: &Proposal, point: Option<&Point>) -> Vec<Finding> {
    let mut found = Vec::new();
    fan_outs(case, proposal, point, &mut found);
    for (at, entity) in case.model.entities.iter().enumerate() {
        found.extend(unnamed_key(case, entity));
        found.extend(growing_list(case, entity));
        found.extend(drifted_counter(case, entity));
        found.extend(skewed(case, entity));
        found.extend(hot_key(case, at, entity));
        found.extend(unpaid_copy(case, entity));
    }
    dangling(case, &mut found);
    let mut told = HashSet::new();
    found.retain(|finding| told.insert(finding.id.clone()));
    found
}

fn finding(
    case: &Case<'_>,
    rule: &'static str,
    entity: &Entity,
    what: &str,
    title: String,
    reason: String,
) -> Finding {
    Finding {
        id: format!("{rule}:{}/{}:{what}", case.database, entity.name),
        rule,
        title,
        reason,
        database: case.database.to_owned(),
        container: entity.name.clone(),
        confidence: "high",
        confidence_reason: "seen, not estimated".to_owned(),
        ..Finding::default()
    }
}

/// Queries that go to every range, are dear, and that no proposed change helps.
fn fan_outs(case: &Case<'_>, proposal: &Proposal, point: Option<&Point>, found: &mut Vec<Finding>) {
    let all: f64 = case.flows.iter().map(|flow| flow.units() * flow.times).sum();
    for (id, flow, step) in case.steps().filter(|(_, _, step)| step.fans_out()) {
        let share = step.units * flow.times / all.max(1e-9);
        let is_helped =
            point.is_some_and(|point| proposal.taken(case.flows, id, &point.made).is_some());
        let Some(entity) = step.entity.and_then(|at| case.entity(at)) else { continue };
        // Worth a tenth of everything, or it is not worth a look: no change made it cheaper.
        if share >= SHARE_MIN * 10.0 && !is_helped {
            let title = format!(
                "A query asks every range of '{}' and takes {:.0} % of all RU",
                entity.name,
                share * 100.0
            );
            let reason = format!(
                "{} — it does not name the partition key {}, and no change that was tried is cheaper.",
                step.shape.text,
                entity.key.join(", ")
            );
            found.push(finding(case, "fan-out", entity, &step.shape.text, title, reason));
        }
    }
}

/// A partition key by which nobody asks.
fn unnamed_key(case: &Case<'_>, entity: &Entity) -> Option<Finding> {
    let here = || case.steps().filter(|(_, _, step)| step.shape.container == entity.name);
    let asked = here().any(|(_, _, step)| step.shape.verb == Verb::Query);
    let named = here().any(|(_, _, step)| {
        step.shape.keyed
            && matches!(
                step.shape.verb,
                Verb::Read | Verb::Query | Verb::Execute | Verb::Replace | Verb::Patch
            )
    });
    let is_spread = entity.container.partitions().len() > 1;
    (asked && !named && is_spread).then(|| {
        let key = entity.key.join(", ");
        finding(case, "unnamed-key", entity, &key,
            format!("No request names {key}, the partition key of '{}'", entity.name),
            "A partition key earns its keep when requests name it: then they ask one range. Here every query asks all of them.".to_owned())
    })
}

/// A list that grows without bound.
fn growing_list(case: &Case<'_>, entity: &Entity) -> Option<Finding> {
    let (path, figures) =
        entity.paths.iter().find(|(_, figures)| figures.elements.1 as f64 > LIST_UNBOUNDED)?;
    let written = case
        .steps()
        .any(|(_, _, step)| step.shape.container == entity.name && step.shape.verb.writes());
    (written || entity.bytes > ITEM_LARGE).then(|| {
        finding(case, "growing-array", entity, path,
            format!("The list {path} in '{}' has up to {} elements", entity.name, figures.elements.1),
            "Every read carries the whole list and every addition writes it again; at 2 MB the item cannot be stored.".to_owned())
    })
}

/// A counter that does not agree with what it counts.
fn drifted_counter(case: &Case<'_>, entity: &Entity) -> Option<Finding> {
    let key = entity.key.first()?;
    let kind = entity.kind_path()?;
    for child in case.model.entities.iter().filter(|child| child.name == entity.name) {
        let Some(label) = child.kind.as_ref().filter(|kind| Some(*kind) != entity.kind.as_ref())
        else {
            continue;
        };
        let counter = format!("{label}Count");
        if !entity.paths.contains_key(&format!("/{counter}")) {
            continue;
        }
        for item in entity.samples.iter().take(COUNTED_AGAIN_MAX) {
            let text =
                format!("SELECT VALUE COUNT(1) FROM c WHERE c[\"{}\"] = \"{label}\"", &kind[1..]);
            let of = PartitionKey::of_item(item, entity.container.key_definition()).to_header();
            let counted =
                Live::new(&entity.container).rows(Request::of_text(&text), Some(&of)).ok()?;
            let (counted, kept) = (
                counted.first().and_then(Value::as_i64),
                item.get(&counter).and_then(Value::as_i64),
            );
            if counted != kept {
                let of = item.get(&key[1..]).map(Value::to_json).unwrap_or_default();
                return Some(finding(case, "drifted-counter", entity, &counter,
                    format!("'{counter}' of {} {of} says {}, and there are {}", entity.label(), kept.unwrap_or(0), counted.unwrap_or(0)),
                    "Something adds or removes items without the transaction that counts them. Count again, and let everybody use the procedure.".to_owned()));
            }
        }
    }
    None
}

/// A range that holds much more than its share.
fn skewed(case: &Case<'_>, entity: &Entity) -> Option<Finding> {
    let sizes: Vec<f64> = entity
        .container
        .partitions()
        .iter()
        .map(|partition| partition.document_count() as f64)
        .collect();
    let mean = sizes.iter().sum::<f64>() / sizes.len().max(1) as f64;
    let most = sizes.iter().copied().fold(0.0, f64::max);
    (sizes.len() > 1 && mean >= 100.0 && most > SKEW * mean).then(|| {
        finding(case, "skewed-partition", entity, "range",
            format!("One range of '{}' holds {:.0} % of its items", entity.name, most / mean / sizes.len() as f64 * 100.0),
            "A few values of the partition key hold most of the data. A hierarchical key, or one with more values, spreads it.".to_owned())
    })
}

/// A key that takes most requests of a container with several ranges.
fn hot_key(case: &Case<'_>, at: usize, entity: &Entity) -> Option<Finding> {
    let steps =
        || case.steps().filter(move |(_, _, step)| step.entity == Some(at) && step.shape.keyed);
    let requests: f64 = steps().map(|(_, flow, step)| flow.times * step.times).sum();
    let keys: Vec<&String> = steps()
        .flat_map(|(_, _, step)| step.examples.iter().filter_map(|asked| asked.key.as_ref()))
        .collect();
    let (mut hottest, mut most) = (None, 0);
    for key in &keys {
        let times = keys.iter().filter(|other| other == &key).count();
        if times > most {
            (hottest, most) = (Some(*key), times);
        }
    }
    let share = most as f64 / keys.len().max(1) as f64;
    let is_hot = requests >= HOT_REQUESTS_MIN && keys.len() >= 10 && share >= HOT_SHARE;
    let is_spread = entity.container.partitions().len() > 1;
    let key = hottest.filter(|_| is_hot && is_spread)?;
    Some(finding(case, "hot-key", entity, key,
        format!("The key {key} of '{}' takes {:.0} % of the recorded requests", entity.name, share * 100.0),
        "One logical partition has the throughput of one range at most, whatever the container has. Cache it, or spread it over several keys.".to_owned()))
}

/// A view that nobody reads.
fn unpaid_copy(case: &Case<'_>, entity: &Entity) -> Option<Finding> {
    let view = entity.container.view()?;
    let source = view.source_name().to_string();
    let read: f64 = case
        .steps()
        .filter(|(_, _, step)| step.shape.container == entity.name)
        .map(|(_, flow, step)| flow.times * step.times)
        .sum();
    let written: f64 = case
        .steps()
        .filter(|(_, _, step)| step.shape.container == source && step.shape.verb.writes())
        .map(|(_, flow, step)| flow.times * step.times)
        .sum();
    (written >= UNREAD_WRITES_MIN && read * 10.0 < written).then(|| {
        finding(case, "unpaid-copy", entity, &source,
            format!("The view '{}' is written {written:.0} times and read {read:.0} times", entity.name),
            format!("Every write of '{source}' is paid for again here. Unless somebody needs it, delete the view."))
    })
}

/// References that requests follow, and that lead nowhere.
fn dangling(case: &Case<'_>, found: &mut Vec<Finding>) {
    let is_followed = |link: &&Link| {
        case.steps().any(|(_, flow, step)| {
            let origin = step.origin.as_ref();
            let from = origin.and_then(|origin| flow.steps.get(origin.step)?.entity);
            step.entity == Some(link.to)
                && from == Some(link.from)
                && origin.is_some_and(|origin| origin.paths().any(|path| *path == link.path))
        })
    };
    for link in case.model.links.iter().filter(|link| link.found < 1.0).filter(is_followed) {
        let (Some(from), Some(to)) = (case.entity(link.from), case.entity(link.to)) else {
            continue;
        };
        let title = format!(
            "{:.0} % of the values of {} in '{}' are no id of '{}'",
            (1.0 - link.found) * 100.0,
            link.path,
            from.name,
            to.name
        );
        let reason = "References are weak: nothing keeps what they name. A procedure or a pre-trigger can refuse them; readers must expect to find nothing.".to_owned();
        found.push(finding(case, "dangling-reference", from, &link.path, title, reason));
    }
}

/// What looks wrong and is right: a container with a single key value that never grows.
pub(crate) fn praise(database: &str, model: &DataModel, flows: &[Flow]) -> Vec<Praise> {
    let mut told = HashSet::new();
    let mut found = Vec::new();
    for entity in &model.entities {
        let asked = flows.iter().flat_map(|flow| &flow.steps).any(|step| {
            step.shape.container == entity.name && step.shape.keyed && step.facts.is_some()
        });
        if asked && has_one_key(entity) && told.insert(entity.name.clone()) {
            found.push(Praise {
                title: format!(
                    "'{}' has one value of its partition key, and that is right: it holds {:.0} items and is asked for them together",
                    entity.name, entity.items
                ),
                database: database.to_owned(),
                container: entity.name.clone(),
            });
        }
    }
    found
}

fn has_one_key(entity: &Entity) -> bool {
    let [key] = entity.key.as_slice() else { return false };
    let distinct = entity.paths.get(key).map_or(0, |figures| figures.distinct.len());
    distinct == 1 && (2.0..=ONE_KEY_ITEMS_MAX).contains(&entity.items)
}
