//! Watching: what no change of the model saves units by, and what deserves a look all the same.
//!
//! A report, never an error: references are weak, counters may drift, lists may grow.

use crate::choose::Point;
use crate::flow::Flow;
use crate::limits::{BUCKET, ITEM_LARGE, LIST_UNBOUNDED, SHARE_MIN};
use crate::live::Live;
use crate::observe::Verb;
use crate::propose::{Case, Proposal, mean_of};
use crate::report::{Finding, Praise};
use crate::trial::Design;
use crate::understand::{DataModel, Entity, Link, PathFigures};
use armilla_engine::query::Request;
use armilla_model::partition_key::PartitionKey;
use armilla_model::value::Value;
use std::collections::HashSet;

/// Items up to which a container with one key is bounded.
const ONE_KEY_ITEMS_MAX: f64 = 1_000.0;
/// Parents whose counters are counted again.
const COUNTED_AGAIN_MAX: usize = 5;
/// Changes that made a list longer, from which it is said to grow.
const GROWN_MIN: f64 = 5.0;
/// Items that are written to price what keeping a copy up costs.
const BUILT_MAX: usize = 8;
/// Requests from which a key can be called hot, and their share on one key.
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
    for entity in &case.model.entities {
        found.extend(unnamed_key(case, entity));
        found.extend(growing_list(case, entity));
        found.extend(drifted_counter(case, entity));
        found.extend(skewed(case, entity));
        found.extend(hot_key(case, entity));
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

/// A list that grows without bound: it is long already, or was seen to grow and never to shrink beyond what a bucket holds.
fn growing_list(case: &Case<'_>, entity: &Entity) -> Option<Finding> {
    let written = case
        .steps()
        .any(|(_, _, step)| step.shape.container == entity.name && step.shape.verb.writes());
    let sketch = case.sketch(entity).and_then(|sketch| sketch.kinds.get(entity.kind.as_deref()));
    let growth = |path: &String| sketch.and_then(|sketch| sketch.paths.get(path));
    let grows = |path: &String| {
        growth(path).is_some_and(|one| {
            let (longer, shorter, added) = one.grown;
            longer >= GROWN_MIN && shorter * 10.0 < longer && added > 0.0
        })
    };
    let is_long = |(path, figures): &(&String, &PathFigures)| {
        let most = figures.elements.1 as f64;
        most > LIST_UNBOUNDED && (written || entity.bytes > ITEM_LARGE)
            || most > BUCKET as f64 && grows(path)
    };
    let (path, figures) = entity.paths.iter().find(is_long)?;
    let days = case.workload.seconds().max(1) as f64 / 86_400.0;
    let rate = growth(path).filter(|_| grows(path)).map_or(String::new(), |one| {
        let (longer, _, added) = one.grown;
        let replaced = sketch.map_or(1.0, |sketch| sketch.replaced.max(1.0));
        let writes: f64 = case.changes_of(entity) / days;
        format!(
            " and grows: {:.0} of {replaced:.0} changes made it longer, by {:.1} elements each, {:.0} a day",
            longer, added / longer, added / replaced * writes
        )
    });
    Some(finding(case, "growing-array", entity, path,
        format!("The list {path} in '{}' has up to {} elements{rate}", entity.name, figures.elements.1),
        "Every read carries the whole list and every addition writes it again; at 2 MB the item cannot be stored.".to_owned()))
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
fn hot_key(case: &Case<'_>, entity: &Entity) -> Option<Finding> {
    let hot = &case.sketch(entity)?.hot;
    let (key, share) = hot.hottest()?;
    let is_hot = hot.requests >= HOT_REQUESTS_MIN && share >= HOT_SHARE;
    if !is_hot || entity.container.partitions().len() < 2 {
        return None;
    }
    Some(finding(case, "hot-key", entity, key,
        format!("The key {key} of '{}' takes {:.0} % of the requests that name one", entity.name, share * 100.0),
        "One logical partition has the throughput of one range at most, whatever the container has. Cache it, or spread it over several keys.".to_owned()))
}

/// A view that costs more to keep up than it saves.
fn unpaid_copy(case: &Case<'_>, entity: &Entity) -> Option<Finding> {
    let view = entity.container.view()?;
    let source = case.model.entities.iter().find(|one| one.name == view.source_name())?;
    let here = |name: &str| {
        let name = name.to_owned();
        case.steps().filter(move |(_, _, step)| step.shape.container == name)
    };
    let writes: f64 = here(&source.name)
        .filter(|(_, _, step)| step.shape.verb.writes())
        .map(|(_, flow, step)| flow.times * step.times)
        .sum();
    if writes < UNREAD_WRITES_MIN {
        return None;
    }
    let (mut reads, mut saved) = (0.0, 0.0);
    for (_, flow, step) in here(&entity.name) {
        reads += flow.times * step.times;
        let asked = step.examples.iter().filter_map(|example| step.request(example));
        let at_source = mean_of(asked, |request| case.trial.fan_out(&source.container, &request));
        // What cannot be asked of the source is worth the view.
        saved += flow.times * (at_source? * step.times - step.units);
    }
    let design = Design { key: &entity.key, ranges: 1, like: &entity.container, indexing: None };
    let container = case.trial.container(&design).ok()?;
    let feed = case.rates(source).feed_item(source.bytes as usize).units();
    let put = mean_of(source.samples.iter().take(BUILT_MAX), |item| {
        Ok(case.trial.put(&container, item)? + feed)
    })?;
    let cost = writes * put;
    (cost > saved.max(0.0)).then(|| {
        let (name, source) = (&entity.name, &source.name);
        finding(case, "unpaid-copy", entity, source,
            format!("The view '{name}' costs {cost:.0} RU to keep up and saves {:.0}", saved.max(0.0)),
            format!("It was asked {reads:.0} times, and '{source}' was written {writes:.0} times: each write is paid for again here. Unless somebody needs it, delete the view."))
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
